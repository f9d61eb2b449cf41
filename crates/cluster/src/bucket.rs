//! The bucket in NATS: connecting, finding or making it, and what is asked of it.

use crate::Settings;
use async_nats::ConnectOptions;
use async_nats::jetstream::context::KeyValueErrorKind;
use async_nats::jetstream::kv::{self, CreateErrorKind, Operation, Store, UpdateErrorKind, Watch};
use async_nats::jetstream::stream::{self, LastRawMessageErrorKind};
use bytes::Bytes;
use glassline_delivery::ownership::{Answer, Key, Request, VALUE_MAX_BYTES};
use std::error::Error;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// How long connecting may take, and each step behind it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A server of NATS that says nothing for twice this time is given up.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Why there is no bucket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BucketError {
    /// The servers cannot be reached, or do not let this one in.
    #[error("{0}")]
    Connect(String),
    /// There is none, and this server may not make one.
    #[error(
        "there is no bucket {bucket:?}, and it cannot be made ({why}): let this user make it, or make it by hand: nats kv add {bucket} \
         --history=1"
    )]
    Missing {
        /// Its name.
        bucket: String,
        /// Why not.
        why: String,
    },
    /// It cannot be used.
    #[error("the bucket {bucket:?} cannot be used: {why}")]
    Unusable {
        /// Its name.
        bucket: String,
        /// Why not.
        why: String,
    },
}

/// What a connection tells beside the bucket's news.
#[derive(Debug)]
pub(crate) enum Told {
    /// The connection is gone.
    Lost,
    /// Something went wrong.
    Error(String),
}

/// Whether NATS takes `name` for a bucket.
pub fn is_bucket_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// An error with what is behind it.
pub(crate) fn words(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Why a connection failed, and which key of the configuration has to do with it.
fn with_advice(why: String) -> String {
    let advice = if why.contains("certificate") {
        "nats_ca in [cluster] names the authorities that are trusted"
    } else if why.contains("authorization") {
        "credentials_file in [cluster], or a user in front of the host, lets this server in"
    } else {
        return why;
    };
    format!("{why}: {advice}")
}

/// The stream of JetStream that is the bucket (NATS ADR-8).
fn stream_of(settings: &Settings) -> stream::Config {
    let bucket = &settings.bucket;
    stream::Config {
        name: format!("KV_{bucket}"),
        description: Some("glassline: which server has which stream".to_owned()),
        subjects: vec![format!("$KV.{bucket}.>")],
        max_messages_per_subject: 1,
        max_message_size: i32::try_from(VALUE_MAX_BYTES * 2).unwrap_or(i32::MAX),
        discard: stream::DiscardPolicy::New,
        num_replicas: settings.replicas,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        ..stream::Config::default()
    }
}

/// A bucket that is heard.
pub(crate) struct Bucket {
    store: Store,
    /// Which server of NATS is asked.
    pub(crate) server: String,
}

impl Bucket {
    /// Connects to the first server that answers, and finds the bucket, or makes it.
    pub(crate) async fn open(
        settings: &Settings,
        told: UnboundedSender<Told>,
    ) -> Result<(Bucket, Watch), BucketError> {
        let connect = |error: &dyn Error| BucketError::Connect(with_advice(words(error)));
        let mut options = ConnectOptions::new()
            .name(format!("glassline {}", settings.node))
            .connection_timeout(CONNECT_TIMEOUT)
            .ping_interval(PING_INTERVAL)
            .event_callback(move |event| {
                let told = told.clone();
                async move {
                    let event = match event {
                        async_nats::Event::Disconnected | async_nats::Event::Closed => Told::Lost,
                        async_nats::Event::ServerError(error) => Told::Error(error.to_string()),
                        async_nats::Event::ClientError(error) => Told::Error(error.to_string()),
                        _ => return,
                    };
                    // The session may be over, which then hears no more of it.
                    let _ = told.send(event);
                }
            });
        // What stands in front of a host is not taken by itself.
        let addresses =
            settings.servers.iter().filter_map(|server| server.parse::<async_nats::ServerAddr>().ok());
        for address in addresses {
            if let (Some(user), Some(password)) = (address.username(), address.password()) {
                options = options.user_and_password(user.to_owned(), password.to_owned());
                break;
            }
        }
        if let Some(file) = &settings.credentials {
            let unread = |error: &dyn Error| {
                BucketError::Connect(format!(
                    "[cluster] credentials_file {}: {}",
                    file.display(),
                    words(error)
                ))
            };
            options = options.credentials_file(file).await.map_err(|error| unread(&error))?;
        }
        if let Some(file) = &settings.ca {
            options = options.add_root_certificates(file.clone());
        }
        let client = options.connect(&settings.servers).await.map_err(|error| connect(&error))?;
        let info = client.server_info();
        let server = format!("{} ({}:{})", info.server_name, info.host, info.port);
        let mut context = async_nats::jetstream::new(client);
        context.set_timeout(CONNECT_TIMEOUT);
        let bucket = &settings.bucket;
        let unusable =
            |error: &dyn Error| BucketError::Unusable { bucket: bucket.clone(), why: words(error) };
        let store = match context.get_key_value(bucket).await {
            Ok(store) => store,
            Err(error) if error.kind() == KeyValueErrorKind::GetBucket && is_missing(&error) => {
                let missing =
                    |error: &dyn Error| BucketError::Missing { bucket: bucket.clone(), why: words(error) };
                // As a stream: `create_key_value` looks at the account before, which it cannot read of NATS 2.9.
                context.create_stream(stream_of(settings)).await.map_err(|error| missing(&error))?;
                context.get_key_value(bucket).await.map_err(|error| unusable(&error))?
            }
            Err(error) => return Err(unusable(&error)),
        };
        if !store.stream.cached_info().config.max_age.is_zero() {
            let why = "its entries expire by themselves; make one without --ttl".to_owned();
            return Err(BucketError::Unusable { bucket: bucket.clone(), why });
        }
        let watch = store.watch_with_history(">").await.map_err(|error| unusable(&error))?;
        Ok((Bucket { store, server }, watch))
    }

    /// What asks the registry. It goes on by itself.
    pub(crate) fn ask(&self, request: Request) -> impl Future<Output = Answer> + Send + 'static {
        let store = self.store.clone();
        async move {
            match request {
                Request::Put { key, value } => match store.put(key.to_string(), Bytes::from(value)).await {
                    Ok(revision) => Answer::Written { revision },
                    Err(error) => failed(&key, &error),
                },
                Request::Set { key, value, revision: 0 } => {
                    match store.create(key.to_string(), Bytes::from(value)).await {
                        Ok(revision) => Answer::Written { revision },
                        Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Answer::Conflict,
                        Err(error) => failed(&key, &error),
                    }
                }
                Request::Set { key, value, revision } => {
                    match store.update(key.to_string(), Bytes::from(value), revision).await {
                        Ok(revision) => Answer::Written { revision },
                        Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Answer::Conflict,
                        Err(error) => failed(&key, &error),
                    }
                }
                Request::Get { key } => get(&store, &key).await,
                Request::Remove { key } => match store.delete(key.to_string()).await {
                    Ok(()) => Answer::Absent,
                    Err(error) => failed(&key, &error),
                },
            }
        }
    }
}

/// The newest entry, from the stream's leader: a replica may not have it yet.
async fn get(store: &Store, key: &Key) -> Answer {
    let subject = format!("{}{key}", store.prefix);
    match store.stream.get_last_raw_message_by_subject(&subject).await {
        Ok(message) if message.headers.get("KV-Operation").is_some() => Answer::Absent,
        Ok(message) => Answer::Found { value: message.payload.to_vec(), revision: message.sequence },
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Answer::Absent,
        Err(error) => failed(key, &error),
    }
}

fn failed(key: &Key, error: &dyn Error) -> Answer {
    tracing::debug!(%key, error = %words(error), "a request to the registry failed");
    Answer::Failed
}

/// Whether the error says that there is no such bucket, and not that it cannot be looked for.
fn is_missing(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<async_nats::jetstream::context::GetStreamError>()
            && let async_nats::jetstream::context::GetStreamErrorKind::JetStream(error) = error.kind()
        {
            return error.error_code() == async_nats::jetstream::ErrorCode::STREAM_NOT_FOUND;
        }
        cause = error.source();
    }
    false
}

/// The entry's value; `None` where it was removed.
pub(crate) fn value_of(entry: &kv::Entry) -> Option<&[u8]> {
    (entry.operation == Operation::Put).then_some(&*entry.value)
}
