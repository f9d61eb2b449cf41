//! What talks to the store, on the thread "archive".

use super::{Listed, StoreError, StoreErrorKind, StoreSettings};
use bytes::Bytes;
use futures_util::StreamExt;
use glassline_delivery::archive::location::Location;
use glassline_io::secret_file;
use glassline_io::small_file::Accept;
use glassline_media::Utc;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{
    ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
};
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a connection may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a whole request may take: ten megabytes at 1.4 Mbit/s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an object that is read at once: ten seconds of 100 Mbit/s.
const GET_MAX_BYTES: u64 = 128 << 20;

/// Numbers names of files that are being written.
static STAGED: AtomicU64 = AtomicU64::new(0);

/// A store, opened when it is first asked, and anew after it refused the credentials: their files may have been replaced.
pub(super) struct Client {
    settings: StoreSettings,
    opened: Mutex<Option<Arc<dyn ObjectStore>>>,
}

impl Client {
    pub(super) fn new(settings: StoreSettings) -> Client {
        // An error says that there is one already, which does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client { settings, opened: Mutex::new(None) }
    }

    fn store(&self) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*opened {
            return Ok(Arc::clone(store));
        }
        let store: Arc<dyn ObjectStore> = match &self.settings.location {
            Location::Folder(folder) => Arc::new(open_folder(folder)?),
            Location::S3 { bucket, .. } => Arc::new(self.open_s3(bucket)?),
        };
        Ok(Arc::clone(opened.insert(store)))
    }

    fn open_s3(&self, bucket: &str) -> Result<object_store::aws::AmazonS3, StoreError> {
        let settings = &self.settings;
        let endpoint = settings.endpoint.as_deref();
        let options = ClientOptions::new()
            .with_allow_http(endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")))
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_timeout(REQUEST_TIMEOUT)
            .with_http1_only();
        let retry = RetryConfig { max_retries: 0, retry_timeout: REQUEST_TIMEOUT, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(settings.region.as_deref().unwrap_or("us-east-1"))
            .with_client_options(options)
            .with_retry(retry);
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some((access, secret)) = read_keys(settings)? {
            builder = builder.with_access_key_id(access).with_secret_access_key(secret);
        }
        builder.build().map_err(|error| StoreError::of(&error, ""))
    }

    fn path(&self, path: &str) -> Result<ObjectPath, StoreError> {
        let whole = match &self.settings.location {
            Location::S3 { prefix, .. } if !prefix.is_empty() && path.is_empty() => prefix.clone(),
            Location::S3 { prefix, .. } if !prefix.is_empty() => format!("{prefix}/{path}"),
            _ => path.to_owned(),
        };
        // It refuses empty parts, `.` and `..`; what begins or ends with a slash is taken for the same without it.
        let is_whole = !whole.is_empty() && !path.starts_with('/') && !path.ends_with('/');
        let parsed = ObjectPath::parse(&whole).ok().filter(|_| is_whole);
        parsed.ok_or_else(|| {
            StoreError::new(StoreErrorKind::BadRequest, format!("'{path}' is no name of an object"))
        })
    }

    /// `error` in words. Credentials that were refused are read again for the next request.
    fn failed(&self, error: &object_store::Error, path: &str) -> StoreError {
        let mut error = StoreError::of(error, path);
        if error.kind() == StoreErrorKind::Denied {
            *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if let (StoreErrorKind::NotFound, Location::Folder(folder)) = (error.kind(), &self.settings.location)
            && !folder.is_dir()
        {
            error = no_folder(folder);
        }
        error
    }

    pub(super) async fn put(&self, path: &str, pieces: Vec<Bytes>) -> Result<(), StoreError> {
        let name = self.path(path)?;
        if let Location::Folder(folder) = &self.settings.location {
            let (folder, path) = (folder.clone(), name.as_ref().to_owned());
            let put = tokio::task::spawn_blocking(move || put_file(&folder, &path, &pieces));
            return put.await.unwrap_or_else(|_| Err(StoreError::thread_ended()));
        }
        let put = self.store()?.put(&name, PutPayload::from_iter(pieces)).await;
        match put.map_err(|error| self.failed(&error, path)) {
            Ok(_) => Ok(()),
            // What is written need not be there before: it is the bucket that is not there.
            Err(error) if error.kind() == StoreErrorKind::NotFound => Err(StoreError::new(
                StoreErrorKind::NoStore,
                format!("there is no such bucket or folder as {}", self.settings.location),
            )),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn get(&self, path: &str, range: Option<Range<u64>>) -> Result<Bytes, StoreError> {
        let name = self.path(path)?;
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let found = self.store()?.get_opts(&name, options).await;
        let found = found.map_err(|error| self.failed(&error, path))?;
        let length = found.range.end.saturating_sub(found.range.start);
        if length > GET_MAX_BYTES {
            let words = format!("the object '{path}' has {length} bytes, which no recorded one has");
            return Err(StoreError::new(StoreErrorKind::BadRequest, words));
        }
        found.bytes().await.map_err(|error| self.failed(&error, path))
    }

    fn prefix(&self, folder: &str) -> Result<Option<ObjectPath>, StoreError> {
        let is_root = folder.is_empty()
            && match &self.settings.location {
                Location::Folder(_) => true,
                Location::S3 { prefix, .. } => prefix.is_empty(),
            };
        if is_root { Ok(None) } else { self.path(folder).map(Some) }
    }

    /// A path of the store, without the prefix.
    fn below_prefix<'a>(&self, path: &'a ObjectPath) -> Option<&'a str> {
        match &self.settings.location {
            Location::S3 { prefix, .. } if !prefix.is_empty() => {
                path.as_ref().strip_prefix(prefix.as_str())?.strip_prefix('/')
            }
            _ => Some(path.as_ref()),
        }
    }

    pub(super) async fn list(&self, folder: &str, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let prefix = self.prefix(folder)?;
        let mut listing = self.store()?.list(prefix.as_ref());
        let mut listed = Vec::new();
        while let Some(next) = listing.next().await {
            let meta = match next {
                Ok(meta) => meta,
                // One that was deleted meanwhile.
                Err(object_store::Error::NotFound { .. }) => continue,
                Err(error) => return Err(self.failed(&error, folder)),
            };
            let nanos = meta.last_modified.timestamp_nanos_opt().and_then(|nanos| nanos.try_into().ok());
            let modified = Utc::from_nanos(nanos.unwrap_or_default());
            if let Some(path) = self.below_prefix(&meta.location) {
                listed.push(Listed { path: path.to_owned(), bytes: meta.size, modified });
            }
            // A bucket lists in this order; a folder as it has them, so that all of them are looked at.
            if listed.len() >= limit && matches!(self.settings.location, Location::S3 { .. }) {
                break;
            }
        }
        listed.sort_by(|one, other| one.path.cmp(&other.path));
        listed.truncate(limit);
        Ok(listed)
    }

    pub(super) async fn folders(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let prefix = self.prefix(folder)?;
        let found = self.store()?.list_with_delimiter(prefix.as_ref()).await;
        let found = match found.map_err(|error| self.failed(&error, folder)) {
            Err(error) if error.kind() == StoreErrorKind::NotFound => return Ok(Vec::new()),
            found => found?,
        };
        let mut names: Vec<_> =
            found.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_owned)).collect();
        names.sort();
        Ok(names)
    }

    pub(super) async fn delete(&self, path: &str) -> Result<(), StoreError> {
        let name = self.path(path)?;
        let deleted = self.store()?.delete(&name).await;
        match deleted.map_err(|error| self.failed(&error, path)) {
            Err(error) if error.kind() == StoreErrorKind::NotFound => Ok(()),
            deleted => deleted,
        }
    }
}

impl Client {
    /// Objects that were half written when a process was killed are no objects: nothing lists them.
    pub(super) async fn sweep(&self, folder: &str) -> Result<(), StoreError> {
        let name = self.path(folder)?;
        let Location::Folder(store) = &self.settings.location else { return Ok(()) };
        let path = store.join(name.as_ref());
        let swept = tokio::task::spawn_blocking(move || fs::remove_dir_all(path)).await;
        match swept {
            Ok(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::of_file(&error, folder))
            }
            Ok(_) => Ok(()),
            Err(_) => Err(StoreError::thread_ended()),
        }
    }
}

fn no_folder(folder: &Path) -> StoreError {
    let words = format!("there is no folder {}: create it, or mount what it is on", folder.display());
    StoreError::new(StoreErrorKind::NoStore, words)
}

/// Writes an object of a folder, so that it is whole and on the disk or not there. The folder itself is never made: where a disk was
/// that is not mounted any more, the disk below would be filled.
fn put_file(folder: &Path, path: &str, pieces: &[Bytes]) -> Result<(), StoreError> {
    let failed = |error: io::Error| {
        if folder.is_dir() { StoreError::of_file(&error, path) } else { no_folder(folder) }
    };
    let (within, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut parent = folder.to_owned();
    for part in within.split('/').filter(|part| !part.is_empty()) {
        parent.push(part);
        match fs::create_dir(&parent) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
    }
    // A name with this end is no object's: listings leave it out. No other process or request has the same.
    let number = STAGED.fetch_add(1, Ordering::Relaxed) % 1_000_000;
    let staged = parent.join(format!("{name}#{}{number:06}", std::process::id()));
    let written = File::create(&staged).and_then(|mut file| {
        pieces.iter().try_for_each(|piece| file.write_all(piece))?;
        file.sync_all()?;
        fs::rename(&staged, parent.join(name))?;
        File::open(&parent)?.sync_all()
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&staged);
        failed(error)
    })
}

fn open_folder(folder: &Path) -> Result<LocalFileSystem, StoreError> {
    if !folder.is_dir() {
        return Err(no_folder(folder));
    }
    // What is told to be stored is on the disk: the spool's copy goes then. Folders that deletions leave empty go, too.
    let store = LocalFileSystem::new_with_prefix(folder).map_err(|error| StoreError::of(&error, ""))?;
    Ok(store.with_fsync(true).with_automatic_cleanup(true))
}

/// The one line of a file with a key.
/// The access key and the secret key; `None` where the machine's credentials are used.
pub(super) fn read_keys(settings: &StoreSettings) -> Result<Option<(String, String)>, StoreError> {
    let (Some(access), Some(secret)) = (&settings.access_key_file, &settings.secret_key_file) else {
        return Ok(None);
    };
    Ok(Some((read_key("access_key_file", access)?, read_key("secret_key_file", secret)?)))
}

fn read_key(option: &str, path: &Path) -> Result<String, StoreError> {
    let text = secret_file::read_text(path, Accept::AnyFile)
        .map_err(|error| StoreError::new(StoreErrorKind::Denied, format!("[record] {option}: {error}")))?;
    let key = text.trim();
    if key.is_empty() || key.contains(|character: char| character.is_whitespace() || character.is_control()) {
        let words = format!("[record] {option}: {} should have one line with a key", path.display());
        return Err(StoreError::new(StoreErrorKind::Denied, words));
    }
    Ok(key.to_owned())
}
