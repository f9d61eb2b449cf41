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
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn outputs_are_told_apart() {
        assert_eq!("-".parse(), Ok(Target::Stdout));
        assert_eq!("null:".parse(), Ok(Target::Null));
        assert_eq!("a/b.ts".parse(), Ok(Target::File("a/b.ts".into())));
        assert_eq!("a/b.MP4".parse(), Ok(Target::File("a/b.MP4".into())));
        for url in [
            "udp://239.1.2.3:5000?ttl=8&interface=eth0",
            "rtp://[ff15::1]:5004",
            "udp://studio-2.example:5000?packets=3",
            "RTP://192.0.2.7:5004?source=192.0.2.1",
        ] {
            assert_eq!(url.parse(), Ok(Target::Datagrams(url.to_owned())));
        }
        for url in ["https://box/live/a.ts", "http://box/live/a.ts", "http://[::1]:8080/live/a.ts?takeover=1"]
        {
            let target: Target = url.parse().unwrap();
            assert_eq!(target, Target::Http(vec![url.to_owned()]));
            assert_eq!(target.is_tls(), url.starts_with("https"));
        }
    }

    #[test]
    fn servers_that_take_turns_stand_in_one_output() {
        let text = "http://a:81/live/x.ts?key=hush,https://b/live/x,y.ts";
        let target: Target = text.parse().unwrap();
        let urls = ["http://a:81/live/x.ts?key=hush", "https://b/live/x,y.ts"].map(str::to_owned);
        assert_eq!(target, Target::Http(urls.into()));
        assert!(target.is_tls() && target.is_network());
        assert_eq!(target.to_string(), "http://a:81/live/x.ts?key=…,https://b/live/x,y.ts");
        let rendition = target.of_rendition("720p50", 0).unwrap();
        assert_eq!(rendition.to_string(), "http://a:81/live/x-720p50.ts?key=…,https://b/live/x,y-720p50.ts");
        let refused = |text: &str| text.parse::<Target>().unwrap_err();
        for other in ["srt://b:1", "htp://b/live/x.ts", "b:8080/live/x.ts", "b/live/x.ts", "copy.mp4"] {
            let text = format!("http://a/live/x.ts,{other}");
            assert!(matches!(refused(&text), TargetError::NoTurns(_)), "{text}");
        }
        assert!("http://a/x.ts?tags=a,b".parse::<Target>().is_ok(), "a comma may stand in a query");
        assert!(matches!(refused("http://a/live/x.ts,http://b"), TargetError::NoStream(_)));
        assert!(matches!(refused("http://a,http://b/live/x.ts"), TargetError::NoStream(_)));
    }

    #[test]
    fn each_rendition_has_outputs_of_its_own() {
        let of = |text: &str, index| {
            let output: Target = text.parse().unwrap();
            output
                .of_rendition("720p50", index)
                .map(|output| output.to_string())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of("http://box/live/hall.ts", 0).unwrap(), "http://box/live/hall-720p50.ts");
        assert_eq!(of("http://box/live/{rendition}.ts", 0).unwrap(), "http://box/live/720p50.ts");
        assert_eq!(of("http://box{index}/live/hall.ts", 1).unwrap(), "http://box1/live/hall.ts");
        assert_eq!(of("a/hall.ts", 0).unwrap(), "a/hall-720p50.ts");
        assert_eq!(of("udp://239.1.{index}.1:5000", 3).unwrap(), "udp://239.1.3.1:5000");
        assert_eq!(of("udp://239.1.1.1:5000?ttl=8", 2).unwrap(), "udp://239.1.1.1:5004?ttl=8");
        assert_eq!(of("link://relay.example:7000", 1).unwrap(), "link://relay.example:7002");
        assert_eq!(of("link://relay{index}.example:7000", 1).unwrap(), "link://relay1.example:7000");
        assert_eq!(of("null:", 2).unwrap(), "null:");
        assert!(of("-", 0).unwrap_err().contains("standard output"));
        assert!(of("udp://h:65535", 1).unwrap_err().contains("ports"));
    }

    #[test]
    fn what_is_no_output_is_refused_with_what_would_be() {
        for (text, complaint) in [
            ("udp://host", "no host and port"),
            ("udp://:5000", "no host and port"),
            ("udp://host:0", "no host and port"),
            ("udp://host:65536", "no host and port"),
            ("udp://[::1:5000", "no host and port"),
            ("udp://[host]:5000", "no host and port"),
            ("udp://::1:5000", "no host and port"),
            ("link://host", "link://HOST:PORT"),
            ("link://host:0", "link://HOST:PORT"),
            ("link://:7000", "link://HOST:PORT"),
            ("link://host:7000?key=a", "link://HOST:PORT"),
            ("link://me@host:7000", "link://HOST:PORT"),
            ("udp://host:5000?ttl=0", "from 1 to 255"),
            ("rtp://host:5000?pkt_size=1316", "another option"),
            ("http://[::1/live/a.ts", "no name or address"),
            ("http://host:0/live/a.ts", "1 to 65535"),
            ("http://host:8080", "names no stream"),
            ("http://host:8080/", "names no stream"),
            ("http://me@host/live/a.ts", "\"http://…@host/live/a.ts\" names a user"),
            ("http://host/live/a b.ts", "visible ASCII"),
            ("https://host", "names no stream"),
            ("rtmp://host/app", "is not known"),
            ("film.mkv", "none of FILE.ts"),
            ("", "none of FILE.ts"),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[test]
    fn outputs_get_the_rendition_s_name() {
        assert_eq!(appended("/live/hall.ts?takeover=1", "720p50"), "/live/hall-720p50.ts?takeover=1");
        assert_eq!(appended("a.b/film", "360p25"), "a.b/film-360p25");
        assert_eq!(appended("x.ts", "360p25"), "x-360p25.ts");
        assert_eq!(filled("239.1.{index}.3", "720p50", 2).as_deref(), Some("239.1.2.3"));
        assert_eq!(filled("/live/{rendition}/a.ts", "720p50", 2).as_deref(), Some("/live/720p50/a.ts"));
        assert_eq!(filled("plain", "720p50", 2), None);
    }

    #[test]
    fn ports_go_up() {
        assert_eq!(further_port("udp://[ff15::1]:5000", 4).as_deref(), Some("udp://[ff15::1]:5004"));
        assert_eq!(further_port("rtp://h:5000?ttl=8", 2).as_deref(), Some("rtp://h:5002?ttl=8"));
        assert_eq!((further_port("udp://h:65535", 1), further_port("udp://h", 1)), (None, None));
    }

    #[test]
    fn a_key_is_not_shown() {
        let shown = |text: &str| text.parse::<Target>().unwrap().to_string();
        assert_eq!(
            shown("http://h:1/live/a.ts?key=secret&takeover=1"),
            "http://h:1/live/a.ts?key=…&takeover=1"
        );
        assert_eq!(shown("http://h:1/live/a.ts?takeover=1"), "http://h:1/live/a.ts?takeover=1");
    }
    #[test]
    fn neither_a_key_nor_a_user_is_shown_by_a_refusal() {
        for text in [
            "http://host:0/live/a.ts?key=secret",
            "http://[::1/live/a.ts?takeover=1&key=secret",
            "http://host/live/a.ts?key=secret#x",
            "http://host/live/a b.ts?key=secret",
            "http://secret@host/live/a.ts",
            "http://me:secret@[::1/live/a.ts",
            "https://secret@host:0/live/a.ts?key=secret",
            "rtmp://me:secret@host/app?key=secret",
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{text}: {error}");
        }
    }

    #[test]
    fn a_user_that_is_a_part_of_the_scheme_is_hidden_where_it_stands() {
        let error = "http://http@host/live/a.ts".parse::<Target>().unwrap_err();
        assert_eq!(error, TargetError::User("http://…@host/live/a.ts".to_owned()));
    }

    #[test]
    fn an_at_sign_behind_the_host_is_no_user() {
        for url in ["http://host/live/a@b.ts", "http://host/live/a.ts?mail=a@b"] {
            assert_eq!(url.parse(), Ok(Target::Http(vec![url.to_owned()])));
        }
    }

    #[test]
    fn extensions_say_what_a_file_holds_in_any_case_of_letters() {
        let of = |text: &str| {
            let target: Target = text.parse().unwrap();
            (target.is_mp4(), target.is_ivf(), target.is_network())
        };
        assert_eq!(of("a.mp4"), (true, false, false));
        assert_eq!(of("a.MP4"), (true, false, false));
        assert_eq!(of("a.Ivf"), (false, true, false));
        assert_eq!(of("a.ts"), (false, false, false));
        assert_eq!(of("null:"), (false, false, false));
        assert_eq!(of("udp://h:1"), (false, false, true));
        assert_eq!(of("http://h/live/a.mp4"), (false, false, true));
        // Most streams are of codecs that WebM does not hold.
        assert!("a.webm".parse::<Target>().is_err());
        assert!(Target::File("a.WebM".into()).is_webm() && !Target::File("a.mp4".into()).is_webm());
    }

    #[test]
    fn tls_is_told_by_the_scheme_in_any_case_of_letters() {
        let is_tls = |text: &str| text.parse::<Target>().unwrap().is_tls();
        assert!(is_tls("HTTPS://h/live/a.ts"));
        assert!(!is_tls("http://h/live/https:a.ts") && !is_tls("https.ts"));
    }

    #[test]
    fn a_name_that_is_an_extension_alone_is_a_hidden_file_of_no_kind() {
        for text in [".ts", "a/.mp4", "ts", "a.ts/"] {
            let parsed = text.parse::<Target>();
            let is_file = matches!(parsed, Ok(Target::File(_)));
            // A slash at the end is no part of the name for the system.
            assert_eq!(is_file, text == "a.ts/", "{text}: {parsed:?}");
        }
    }

    #[test]
    fn a_hidden_file_keeps_its_dot_in_front_of_the_rendition_s_name() {
        assert_eq!(appended("a/.hidden", "360p25"), "a/.hidden-360p25");
        assert_eq!(appended("a/.hidden.ts", "360p25"), "a/.hidden-360p25.ts");
        assert_eq!(appended("/live/a.tar.ts", "x"), "/live/a.tar-x.ts");
    }

    #[test]
    fn a_file_with_a_name_that_is_no_text_has_no_renditions() {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"a\xff.ts")).to_owned();
        let refused = Target::File(path).of_rendition("720p50", 0);
        assert_eq!(refused, Err(TargetError::NotUtf8("a\u{fffd}.ts".to_owned())));
    }

    #[test]
    fn a_rendition_s_name_that_makes_no_place_is_refused() {
        let target: Target = "http://h/live/{rendition}.ts".parse().unwrap();
        assert!(matches!(target.of_rendition("a b", 0), Err(TargetError::Url { .. })));
        let group: Target = "udp://239.1.{index}.1:5000".parse().unwrap();
        assert!(matches!(group.of_rendition("x", 3), Ok(Target::Datagrams(_))));
    }

    #[test]
    fn the_last_port_is_taken_and_none_beyond_it() {
        assert_eq!(further_port("udp://h:65533", 2).as_deref(), Some("udp://h:65535"));
        assert_eq!(further_port("udp://h:65534", 2), None);
        assert_eq!(further_port("udp://h:1/x", 1).as_deref(), Some("udp://h:2/x"));
        assert_eq!(further_port("h:5000", 1), None, "without a scheme it is no URL");
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd_and_what_is_taken_is_taken_as_it_stands(
            text in r"((udp|rtp|http|https|HTTP|file|link|srt)://)?[a-z0-9:/?#@\[\]{}.=&%ä -]{0,40}(\.ts|\.mp4)?",
        ) {
            match text.parse::<Target>() {
                Ok(Target::File(path)) => prop_assert_eq!(path, PathBuf::from(&text)),
                Ok(Target::Http(urls)) => prop_assert_eq!(urls.join(","), text),
                Ok(Target::Datagrams(url) | Target::Srt(url)) => prop_assert_eq!(url, text),
                Ok(Target::Link(peer)) => prop_assert!(text.contains(&peer)),
                Ok(Target::Stdout | Target::Null) => prop_assert!(text == "-" || text == "null:"),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }

        #[test]
        fn renditions_have_places_that_differ(
            text in prop::sample::select(vec![
                "a/film.ts", "film.mp4", "http://h/live/a.ts?key=x", "http://h/live/{rendition}.ts",
                "udp://239.1.1.1:5000?ttl=3", "udp://239.1.{index}.1:5000", "rtp://[ff15::1]:5004",
            ]),
            one in 0usize..100,
            other in 0usize..100,
        ) {
            let target: Target = text.parse().unwrap();
            let place = |index: usize| target.of_rendition(&format!("r{index}"), index).unwrap();
            prop_assert_eq!(place(one) == place(other), one == other);
            prop_assert!(matches!(
                (&target, place(one)),
                (Target::File(_), Target::File(_))
                    | (Target::Http(_), Target::Http(_))
                    | (Target::Datagrams(_), Target::Datagrams(_))
            ));
        }
    }
}
