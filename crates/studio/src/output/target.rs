//! Where a stream goes, by its name.

use super::marked;
use glassline_delivery::http1::{Url, UrlError, split_port};
use glassline_delivery::output::{Destination, DestinationError};
use glassline_transport::srt::Address;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// Where a stream goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file: a transport stream, fragmented MP4, IVF, or WebM. No text names a file of WebM as the place of any stream: only AV1
    /// can be written to it.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Datagrams of up to 7 TS packets: a URL as [`Destination`] reads it, with a name or an address as its host.
    Datagrams(String),
    /// A chunked PUT to the first of these URLs, or where that does not take it to another one, in turn. There is one at least.
    Http(Vec<String>),
    /// A peer that listens for a link at this host and port, `HOST:PORT`.
    Link(String),
    /// A peer of SRT: a URL as [`Address`] reads it.
    Srt(String),
    /// Nowhere: to measure.
    Null,
}

/// Why a text names no place for a stream, or not one for each rendition.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetError {
    /// Not a name of any kind.
    #[error(
        "{0:?} is none of FILE.ts, FILE.mp4, FILE.ivf, - (standard output), udp://HOST:PORT, rtp://HOST:PORT, \
         link://HOST:PORT, srt://HOST:PORT, http(s)://HOST[:PORT]/live/NAME.ts and null:"
    )]
    Unknown(String),
    /// A scheme that is not spoken.
    #[error("{text:?}: {scheme}:// is not known; udp://, rtp://, link://, srt://, http:// and https:// are")]
    Scheme {
        /// What was given.
        text: String,
        /// Its scheme.
        scheme: String,
    },
    /// Datagrams without a place to go.
    #[error("{0:?} names no host and port; write udp://HOST:PORT, or udp://[IPV6]:PORT")]
    NoAddress(String),
    /// A link without a place to go.
    #[error("{0:?} names no host and port; write link://HOST:PORT, or link://[IPV6]:PORT")]
    NoPeer(String),
    /// Not a place for datagrams.
    #[error("{text:?}: {error}")]
    Destination {
        /// What was given.
        text: String,
        /// Why.
        error: DestinationError,
    },
    /// No address of SRT.
    #[error("{text}: {error}")]
    Srt {
        /// What was given, without its query.
        text: String,
        /// Why.
        error: String,
    },
    /// A server without a stream.
    #[error("{0:?} names no stream; write http://HOST:PORT/live/NAME.ts, or https:// with it")]
    NoStream(String),
    /// A place that is no server of HTTP, among servers that take turns.
    #[error(
        "{0:?} is no address of a server, which begins with http:// or https:// behind a comma; another output is an argument of its own"
    )]
    NoTurns(String),
    /// A user in the URL.
    #[error(
        "{0:?} names a user, and publishers show a key; write http://HOST:PORT/live/NAME.ts, and --publish-key-file FILE"
    )]
    User(String),
    /// No URL of a server.
    #[error("{text:?}: {error}; write HOST:PORT, or [IPV6]:PORT")]
    Url {
        /// What was given.
        text: String,
        /// Why.
        error: UrlError,
    },
    /// No marks for routers.
    #[error("{text:?}: {what}")]
    Marks {
        /// What was given.
        text: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A file's name that renditions cannot be added to.
    #[error("{0} is no UTF-8")]
    NotUtf8(String),
    /// Not enough ports for the renditions.
    #[error("{0} leaves no ports for all renditions")]
    NoPorts(String),
    /// Several streams for standard output.
    #[error("standard output carries one stream, not several renditions")]
    OneStream,
}

impl Target {
    /// The target of rendition `index`, called `name`: `{rendition}` and `{index}` stand for both. Without one, a
    /// file or stream gets the name behind its own, and datagrams go to a port that is higher by two each time.
    ///
    /// # Errors
    /// Where there is no such target.
    pub fn of_rendition(&self, name: &str, index: usize) -> Result<Target, TargetError> {
        let placed = |text: &str| filled(text, name, index).unwrap_or_else(|| appended(text, name));
        Ok(match self {
            Target::File(path) => match path.to_str() {
                Some(path) => Target::File(placed(path).into()),
                None => return Err(TargetError::NotUtf8(self.to_string())),
            },
            Target::Http(urls) => {
                let urls: Result<_, _> = urls.iter().map(|url| server(&placed(url))).collect();
                Target::Http(urls?)
            }
            Target::Datagrams(url) => {
                let url = filled(url, name, index).or_else(|| further_port(url, 2 * index));
                datagrams(&url.ok_or_else(|| TargetError::NoPorts(self.to_string()))?)?
            }
            Target::Link(peer) => {
                let url = format!("link://{peer}");
                let url = filled(&url, name, index).or_else(|| further_port(&url, 2 * index));
                link(&url.ok_or_else(|| TargetError::NoPorts(self.to_string()))?)?
            }
            Target::Srt(url) => {
                // Renditions are told apart by the stream that is asked for, or else by the port.
                let url = filled(url, name, index).or_else(|| further_port(url, 2 * index));
                srt(&url.ok_or_else(|| TargetError::NoPorts(self.to_string()))?)?
            }
            Target::Stdout => return Err(TargetError::OneStream),
            Target::Null => Target::Null,
        })
    }

    /// Whether viewers may watch while the stream is made.
    #[must_use]
    pub fn is_network(&self) -> bool {
        matches!(self, Target::Datagrams(_) | Target::Http(_) | Target::Link(_) | Target::Srt(_))
    }

    /// Whether TLS is spoken there.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        let is_tls = |url: &String| url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
        matches!(self, Target::Http(urls) if urls.iter().any(is_tls))
    }

    /// Whether it is an IVF file, which takes VP8 alone.
    #[must_use]
    pub fn is_ivf(&self) -> bool {
        matches!(self, Target::File(path) if has_extension(path, "ivf"))
    }

    /// Whether it is an MP4 file, which does not take every codec.
    #[must_use]
    pub fn is_mp4(&self) -> bool {
        matches!(self, Target::File(path) if has_extension(path, "mp4"))
    }

    /// Whether it is a WebM file, which takes AV1 alone.
    #[must_use]
    pub fn is_webm(&self) -> bool {
        matches!(self, Target::File(path) if has_extension(path, "webm"))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::File(path) => path.display().fmt(f),
            Target::Stdout => f.write_str("standard output"),
            Target::Datagrams(url) => f.write_str(url),
            Target::Http(urls) => {
                let shown: Vec<String> = urls.iter().map(|url| without_key(url)).collect();
                f.write_str(&shown.join(","))
            }
            Target::Link(peer) => write!(f, "link://{peer}"),
            // What stands behind the question mark may be a key.
            Target::Srt(url) => f.write_str(url.split('?').next().unwrap_or_default()),
            Target::Null => f.write_str("null:"),
        }
    }
}

/// A URL as a refusal may show it: without the publish key in its query, and without the user, which may be the key.
fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return without_key(url) };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let shown = match authority.rsplit_once('@') {
        Some((user, _)) => format!("{scheme}://…{}", rest.get(user.len()..).unwrap_or_default()),
        None => url.to_owned(),
    };
    without_key(&shown)
}

/// The URL of a server as it may be shown: without the publish key in its query.
fn without_key(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let shown = |pair: &str| if pair.starts_with("key=") { "key=…".to_owned() } else { pair.to_owned() };
    let query: Vec<String> = query.split('&').map(shown).collect();
    format!("{path}?{}", query.join("&"))
}

impl FromStr for Target {
    type Err = TargetError;
    fn from_str(text: &str) -> Result<Target, TargetError> {
        let Some((scheme, _)) = text.split_once("://") else {
            return local(text);
        };
        match scheme.to_ascii_lowercase().as_str() {
            "udp" | "rtp" => datagrams(text),
            "http" | "https" => servers(text),
            "link" => link(text),
            "srt" => srt(text),
            _ => Err(TargetError::Scheme { text: without_secrets(text), scheme: scheme.to_owned() }),
        }
    }
}

fn datagrams(text: &str) -> Result<Target, TargetError> {
    // Names are looked up when the output is opened; any address stands for them here.
    let mut any = |_: &str| Some(Ipv4Addr::LOCALHOST.into());
    // Placeholders stand for what fits in their place.
    let filled = filled(text, "r", 0);
    match Destination::parse_named(filled.as_deref().unwrap_or(text), &mut any) {
        Ok(_) => Ok(Target::Datagrams(text.to_owned())),
        Err(DestinationError::Address) => Err(TargetError::NoAddress(text.to_owned())),
        Err(error) => Err(TargetError::Destination { text: text.to_owned(), error }),
    }
}

fn link(text: &str) -> Result<Target, TargetError> {
    let wrong = || TargetError::NoPeer(text.to_owned());
    let peer =
        text.split_once("://").map(|(_, peer)| peer.strip_suffix('/').unwrap_or(peer)).ok_or_else(wrong)?;
    let filled = filled(peer, "r", 0);
    let (host, port) = split_port(filled.as_deref().unwrap_or(peer)).map_err(|_| wrong())?;
    let is_host =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte));
    if !is_host || port.is_none_or(|port| port == 0) {
        return Err(wrong());
    }
    Ok(Target::Link(peer.to_owned()))
}

fn srt(text: &str) -> Result<Target, TargetError> {
    let filled = filled(text, "r", 0);
    let place = text.split('?').next().unwrap_or_default().to_owned();
    Address::parse(filled.as_deref().unwrap_or(text))
        .map(|_| Target::Srt(text.to_owned()))
        .map_err(|error| TargetError::Srt { text: place, error })
}

/// One URL of a server, or several with commas between them. A comma separates where a scheme follows it: it may stand in a path,
/// but not before what looks like another place.
fn servers(text: &str) -> Result<Target, TargetError> {
    let mut urls: Vec<String> = Vec::new();
    for piece in text.split(',') {
        let scheme = piece.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let Some(url) = urls.last_mut().filter(|_| !matches!(scheme.as_deref(), Some("http" | "https")))
        else {
            urls.push(piece.to_owned());
            continue;
        };
        let is_whole = !url.contains('?') && has_extension(Path::new(url.as_str()), "ts");
        if is_whole || piece.contains([':', '/']) {
            return Err(TargetError::NoTurns(without_secrets(piece)));
        }
        url.push(',');
        url.push_str(piece);
    }
    urls.iter().map(|url| server(url)).collect::<Result<_, _>>().map(Target::Http)
}

/// The URL of one server, as it stands.
fn server(text: &str) -> Result<String, TargetError> {
    let filled = filled(text, "r", 0);
    let url: Url = filled
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|error| TargetError::Url { text: without_secrets(text), error })?;
    let authority = text.split_once("://").and_then(|(_, rest)| rest.split(['/', '?']).next());
    if authority.is_some_and(|authority| authority.contains('@')) {
        return Err(TargetError::User(without_secrets(text)));
    }
    if url.target() == "/" || text.contains('#') {
        return Err(TargetError::NoStream(without_secrets(text)));
    }
    marked::split(text).map_err(|what| TargetError::Marks { text: without_secrets(text), what })?;
    Ok(text.to_owned())
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn local(text: &str) -> Result<Target, TargetError> {
    match text {
        "-" => Ok(Target::Stdout),
        "null:" => Ok(Target::Null),
        _ if ["ts", "mp4", "ivf"].iter().any(|extension| has_extension(Path::new(text), extension)) => {
            Ok(Target::File(text.into()))
        }
        _ => Err(TargetError::Unknown(text.to_owned())),
    }
}

/// Replaces the placeholders of `text`, if it has any.
fn filled(text: &str, name: &str, index: usize) -> Option<String> {
    let filled = text.replace("{rendition}", name).replace("{index}", &index.to_string());
    (filled != text).then_some(filled)
}

/// `name` behind the last part of a path or URL, before its extension and query: `/live/hall.ts?x` becomes
/// `/live/hall-720p50.ts?x`.
fn appended(text: &str, name: &str) -> String {
    let (path, query) = text.split_at_checked(text.find('?').unwrap_or(text.len())).unwrap_or((text, ""));
    let (folder, file) = path.rsplit_once('/').map_or((None, path), |(folder, file)| (Some(folder), file));
    // A dot at the beginning hides a file; it begins no extension.
    let file = match file.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => format!("{stem}-{name}.{extension}"),
        _ => format!("{file}-{name}"),
    };
    folder.map_or_else(|| format!("{file}{query}"), |folder| format!("{folder}/{file}{query}"))
}

/// A URL of datagrams with a port that is higher by `further`; `None` where there is none so high.
fn further_port(url: &str, further: usize) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, options) = rest.split_at_checked(rest.find(['?', '/']).unwrap_or(rest.len()))?;
    let (host, port) = authority.rsplit_once(':')?;
    let higher = u16::try_from(usize::from(port.parse::<u16>().ok()?) + further).ok()?;
    Some(format!("{scheme}://{host}:{higher}{options}"))
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
