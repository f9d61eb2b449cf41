//! The links of streams, from what is configured.

use crate::config::{Config, LinkOutput, Stream, StreamSource};
use crate::key::Secret;
use crate::link::{self, HeaderArgs, PathArgs};
use glassline_call::contribution::{DEADLINE, Direction, Locals, Use, Wanted, Way};
use glassline_call::link::Local;
use glassline_delivery::policy::StreamName;
use glassline_transport::link::{Bonding, Credentials, Key, Settings};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Links of one source: a sender, one that comes in its place, and some that have the wrong idea.
const MAX_LINKS: usize = 8;
/// Bytes that are kept of what has come on one channel and was not taken: a second of any stream.
const WINDOW_BYTES: u64 = 8 << 20;
/// The same of one link with all that belongs to it, and of all links of a source.
const LINK_BYTES: u64 = 40 << 20;
const ENDPOINT_BYTES: u64 = 128 << 20;

/// All links that `config` asks for. Keys were read with it.
pub(super) fn wanted(config: &Config) -> Vec<Wanted> {
    let of_stream = |(name, stream): (&String, &Stream)| {
        let name = StreamName::parse(name)?;
        let source = source(config, &name, stream);
        let outputs = stream.outputs.iter().filter_map(|output| output.link());
        let outputs = outputs.filter_map(|output| self::output(&name, stream, output));
        Some(source.into_iter().chain(outputs).collect::<Vec<_>>())
    };
    config.stream.iter().filter_map(of_stream).flatten().collect()
}

/// What peers know each other by.
///
/// # Errors
/// What does not go together.
pub(crate) fn credentials(key: &Secret, peers: &[Key]) -> Result<Credentials, &'static str> {
    match (key, peers) {
        (Secret::Shared(key), []) => Ok(Credentials::Shared(key.clone())),
        (Secret::Private(private), [_, ..]) => {
            Ok(Credentials::Pair { private: private.clone(), peers: peers.to_vec() })
        }
        (Secret::Private(_), []) => {
            Err("is one half of a key pair: the public half of the other end's belongs beside it (link_peer)")
        }
        (Secret::Shared(_), _) => {
            Err("is a key that both ends share, and link_peer goes with a key pair; remove link_peer")
        }
    }
}

/// Tells keys apart without telling them.
fn digest(key: &Secret, peers: &[Key]) -> u64 {
    let (Secret::Shared(secret) | Secret::Private(secret)) = key;
    let mut hasher = DefaultHasher::new();
    glassline_transport::link::public_key(secret).0.hash(&mut hasher);
    peers.iter().for_each(|peer| peer.0.hash(&mut hasher));
    hasher.finish()
}

fn source(config: &Config, name: &StreamName, stream: &Stream) -> Option<Wanted> {
    let Some(StreamSource::Link(address)) = &stream.source else { return None };
    let (key, file) = (stream.link_key.as_ref()?, stream.link_key_file.as_deref());
    let credentials = credentials(key, &stream.link_peer).ok()?;
    let settings = Settings {
        name: name.as_str().as_bytes().to_vec(),
        max_links: MAX_LINKS,
        window_bytes: WINDOW_BYTES,
        link_bytes: LINK_BYTES,
        endpoint_bytes: ENDPOINT_BYTES,
        reset_secret: link::reset_secret(file, *address, None),
        ..Settings::new(credentials)
    };
    let silence_timeout = config.pull.silence_timeout;
    let url = format!("link://{address}");
    let local = Local { dscp: stream.dscp, flow_label: stream.flow_label, ..Local::at(*address) };
    Some(Wanted {
        stream: name.clone(),
        identity: format!("{name} from {local:?} {:x} {silence_timeout:?}", digest(key, &stream.link_peer)),
        url: url.clone(),
        purpose: Use::Source { silence_timeout },
        way: Way { name: format!("{name} from {url}"), settings, direction: Direction::Listen(local) },
    })
}

fn output(name: &StreamName, stream: &Stream, output: &LinkOutput) -> Option<Wanted> {
    let key = output.key.as_ref().or(stream.link_key.as_ref())?;
    let peers = if output.peers.is_empty() { &stream.link_peer } else { &output.peers };
    let header = HeaderArgs::of(output.marks.dscp, output.marks.flow_label);
    let url = format!("link://{}", output.peer);
    let deadline = output.deadline.unwrap_or(DEADLINE);
    let settings = Settings::new(credentials(key, peers).ok()?);
    let settings = Settings { name: link::name_of(&(name.as_str(), &url)).into_bytes(), ..settings };
    let (way, twice) =
        outgoing(format!("{name} to {url}"), &output.peer, settings, &output.paths, header).ok()?;
    Some(Wanted {
        stream: name.clone(),
        identity: format!("{name} to {output:?} {:x}", digest(key, peers)),
        url,
        purpose: Use::Output { deadline, twice },
        way,
    })
}

/// A link to `peer` (`HOST:PORT`) by these paths, and whether what is sent goes over a second one as far as that carries it: where
/// nothing is said of how several are used.
///
/// # Errors
/// The paths do not go together.
pub(crate) fn outgoing(
    name: String,
    peer: &str,
    settings: Settings,
    paths: &PathArgs,
    header: HeaderArgs,
) -> anyhow::Result<(Way, bool)> {
    let twice = paths.are_several() && !paths.says_how();
    let paths = Arc::new(paths.check(Bonding::Sum)?);
    let settings = Settings { bonding: paths.bonding, boot: link::boot(), ..settings };
    let spares = paths.spares();
    let locals: Locals = Arc::new(move |to: &[SocketAddr]| {
        let locals = paths.locals(to).map_err(|error| error.to_string())?;
        Ok(locals.into_iter().map(|local| header.mark(local)).collect())
    });
    Ok((Way { name, settings, direction: Direction::Connect { to: peer.to_owned(), locals, spares } }, twice))
}

/// Whether the paths of outputs go together, and keys with peers; otherwise the output's stream, and what is wrong.
pub(crate) fn check(config: &Config) -> Result<(), (String, String)> {
    for (name, stream) in &config.stream {
        let check = |key: Option<&Secret>, peers: &[Key], file: Option<&Path>| {
            let file = file.map_or_else(String::new, |file| file.display().to_string());
            key.map_or(Ok(()), |key| credentials(key, peers).map(drop))
                .map_err(|wrong| (format!("stream.{name}"), format!("{file} {wrong}")))
        };
        if matches!(stream.source, Some(StreamSource::Link(_))) {
            check(stream.link_key.as_ref(), &stream.link_peer, stream.link_key_file.as_deref())?;
        }
        for output in stream.outputs.iter().filter_map(|output| output.link()) {
            let peers = if output.peers.is_empty() { &stream.link_peer } else { &output.peers };
            let file = output.key_file.as_deref().or(stream.link_key_file.as_deref());
            check(output.key.as_ref().or(stream.link_key.as_ref()), peers, file)?;
            output
                .paths
                .check(Bonding::Sum)
                .map_err(|error| (format!("stream.{name}.outputs"), error.to_string()))?;
        }
    }
    Ok(())
}
