//! Links in the configuration: a stream's `source = "link://…"`, and `link://` among its outputs; and its forwards.
//!
//! ```text
//! source:  link://ADDRESS:PORT                              an address of this machine, to which senders connect
//! outputs: link://HOST:PORT[?key_file=FILE][&peer=PUBLIC][&path=[ADDR@]IFACE]…[&bonding=HOW][&deadline=TIME][&dscp=N]
//! ```

use crate::key::{self, Secret};
use crate::link::{BondingArg, PathArgs};
use clap::ValueEnum;
use glassline_call::contribution::DEADLINES;
use glassline_delivery::output::{Destination, TrackOptions};
use glassline_delivery::policy::HeaderMarks;
use glassline_delivery::pull::Source;
use glassline_media::quantity;
use glassline_studio::output::Target;
use glassline_transport::link::Key;
use glassline_transport::rtmp;
use glassline_transport::srt::{Address, Mode};
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where a stream comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamSource {
    /// It is fetched.
    Pulled(Source),
    /// Peers connect to this address and send it.
    Link(SocketAddr),
    /// By SRT.
    Srt(Box<Address>),
}

/// Where a stream is sent to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamOutput {
    /// In datagrams.
    Datagrams(Destination),
    /// Over a link.
    Link(Box<LinkOutput>),
    /// By SRT.
    Srt(Box<Address>),
}

/// A service that a stream is published to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamForward {
    /// Over RTMP or RTMPS.
    Rtmp(Box<rtmp::Address>),
    /// By SRT, as an output is.
    Srt(Box<Address>),
}

impl StreamForward {
    /// The address over RTMP, if it is one.
    pub(crate) fn rtmp(&self) -> Option<&rtmp::Address> {
        match self {
            StreamForward::Rtmp(address) => Some(address),
            StreamForward::Srt(_) => None,
        }
    }

    /// The address of SRT, if it is one.
    pub(crate) fn srt(&self) -> Option<&Address> {
        match self {
            StreamForward::Rtmp(_) => None,
            StreamForward::Srt(address) => Some(address),
        }
    }
}

/// A link on which a stream is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinkOutput {
    /// `HOST:PORT`.
    pub(crate) peer: String,
    /// The file with its key, if not the stream's `link_key_file`. After loading it is relative to the working directory.
    pub(crate) key_file: Option<PathBuf>,
    /// The key in that file, after loading.
    pub(crate) key: Option<Secret>,
    /// The public halves of listeners that it connects to, if not the stream's `link_peer`.
    pub(crate) peers: Vec<Key>,
    /// By which addresses and interfaces it leads, and how several of them are used.
    pub(crate) paths: PathArgs,
    /// How old packets may be.
    pub(crate) deadline: Option<Duration>,
    /// What the datagrams bear for routers.
    pub(crate) marks: HeaderMarks,
}

impl StreamOutput {
    /// Host and port.
    pub(crate) fn authority(&self) -> String {
        match self {
            StreamOutput::Datagrams(destination) => destination.authority(),
            StreamOutput::Link(link) => link.peer.clone(),
            // One listener may have several streams.
            StreamOutput::Srt(address) => format!("{} {}", address.authority(), address.stream_id),
        }
    }

    /// How its tracks are sent each for itself, where they are.
    pub(crate) fn tracks(&self) -> Option<&TrackOptions> {
        match self {
            StreamOutput::Datagrams(destination) => destination.tracks.as_ref(),
            StreamOutput::Link(_) | StreamOutput::Srt(_) => None,
        }
    }

    /// The link, if it is one.
    pub(crate) fn link(&self) -> Option<&LinkOutput> {
        match self {
            StreamOutput::Datagrams(_) | StreamOutput::Srt(_) => None,
            StreamOutput::Link(link) => Some(link),
        }
    }
}

const OPTIONS: &str = "a link knows ?key_file=FILE, peer=PUBLIC, path=[ADDR@]IFACE, bonding=both, deadline=TIME, dscp=N and flow_label=true";

impl LinkOutput {
    fn parse(text: &str) -> Result<LinkOutput, String> {
        let (place, options) = text.split_once('?').unwrap_or((text, ""));
        let Ok(Target::Link(peer)) = place.parse() else {
            return Err("a link wants a host and a port, as in link://relay.example:7000".to_owned());
        };
        let mut output = LinkOutput {
            peer,
            key_file: None,
            key: None,
            peers: Vec::new(),
            paths: PathArgs::default(),
            deadline: None,
            marks: HeaderMarks::default(),
        };
        let (mut paths, mut bonding) = (Vec::new(), None);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            // A file's name is written as it is: what a URL would escape is nothing special here, but & is.
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            match key {
                "key_file" => output.key_file = Some(PathBuf::from(value)),
                "peer" => output.peers.push(public(value)?),
                "path" => paths.push(value.to_owned()),
                "bonding" => {
                    let known = BondingArg::from_str(value, false);
                    bonding = Some(
                        known.map_err(|_| format!("bonding={value}: sum, both and failover are known"))?,
                    );
                }
                "deadline" => {
                    let time =
                        quantity::parse_duration(value).map_err(|error| format!("deadline: {error}"))?;
                    output.deadline = Some(checked_deadline(time)?);
                }
                other if output.marks.take_option(other, value)? => {}
                other => return Err(format!("{OPTIONS}; {other:?} is another option")),
            }
        }
        output.paths = PathArgs::of(&paths, bonding)?;
        Ok(output)
    }
}

/// The time, where it is one that packets may take.
pub(crate) fn checked_deadline(time: Duration) -> Result<Duration, String> {
    if DEADLINES.contains(&time) {
        return Ok(time);
    }
    let text = quantity::format_duration;
    let (found, least, most) = (text(time), text(*DEADLINES.start()), text(*DEADLINES.end()));
    Err(format!("a deadline of {found} is out of range; from {least} to {most}"))
}

fn public(text: &str) -> Result<Key, String> {
    key::parse_hex(text).ok_or_else(|| {
        "a public half of a key pair has 64 hexadecimal digits; glassline key show FILE prints it".to_owned()
    })
}

/// A source or an output of a stream by SRT. An error does not repeat what may be a key.
fn srt(text: &str) -> Result<Box<Address>, String> {
    let address = Address::parse(text)?;
    if address.mode == Mode::Listener
        && address.host.parse::<std::net::IpAddr>().is_err()
        && !address.host.is_empty()
    {
        return Err("an address to listen at is one of this machine, as in srt://0.0.0.0:9000?mode=listener"
            .to_owned());
    }
    Ok(Box::new(address))
}

/// Whether the text is an address of SRT.
fn is_srt(text: &str) -> bool {
    text.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("srt://"))
}

/// An error does not repeat the text, because it may contain a password.
pub(super) fn source<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<StreamSource>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = serde::de::Error::custom;
    if is_srt(&text) {
        return srt(&text).map(StreamSource::Srt).map(Some).map_err(wrong);
    }
    let Some((_, place)) = text.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("link"))
    else {
        let source = Source::parse(&text).map(StreamSource::Pulled);
        return source.map(Some).map_err(|error| wrong(error.to_string()));
    };
    let address = place.strip_suffix('/').unwrap_or(place).parse().map_err(|_| {
        wrong(
            "a link as a source is an address of this machine, to which senders connect, as in link://0.0.0.0:7000 or \
             link://[::]:7000"
                .to_owned(),
        )
    })?;
    Ok(Some(StreamSource::Link(address)))
}

pub(super) fn outputs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<StreamOutput>, D::Error> {
    let read = |text: &String| {
        let is_link = text.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("link://"));
        let output = if is_srt(text) {
            srt(text).map(StreamOutput::Srt)
        } else if is_link {
            LinkOutput::parse(text).map(Box::new).map(StreamOutput::Link)
        } else {
            let read = Destination::parse_output(text).map(StreamOutput::Datagrams);
            read.map_err(|error| error.to_string())
        };
        // Behind the question mark there may be what others should not read.
        let place = text.split('?').next().unwrap_or_default();
        output.map_err(|error| serde::de::Error::custom(format!("{place:?}: {error}")))
    };
    Vec::<String>::deserialize(deserializer)?.iter().map(read).collect()
}

/// The services that a stream is published to. An error does not repeat what may be a stream key.
pub(super) fn forwards<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<StreamForward>, D::Error> {
    let read = |text: &String| {
        let forward = if is_srt(text) {
            srt(text).and_then(|address| match address.mode {
                Mode::Caller => Ok(StreamForward::Srt(address)),
                Mode::Listener => Err("a forward calls the service; listening belongs to outputs".to_owned()),
            })
        } else if rtmp::Address::is_meant(text) {
            rtmp::Address::parse(text).map(Box::new).map(StreamForward::Rtmp)
        } else {
            Err("a forward is rtmp://, rtmps:// or srt://; udp://, rtp:// and link:// are outputs".to_owned())
        };
        // Host and scheme alone: behind them a stream key may stand.
        let place = text.find("://").and_then(|at| {
            let authority = text.get(at + 3..)?.split(['/', '?']).next()?;
            // A user or a password stands in front of it.
            let host = authority.rsplit('@').next()?;
            Some(format!("{}://{host}", text.get(..at)?))
        });
        let place = place.unwrap_or_default();
        forward.map_err(|error| serde::de::Error::custom(format!("{place:?}: {error}")))
    };
    Vec::<String>::deserialize(deserializer)?.iter().map(read).collect()
}

/// One public half, or several with spaces between.
pub(super) fn peers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Key>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let keys: Result<Vec<Key>, String> = text.split_whitespace().map(public).collect();
    keys.and_then(|keys| if keys.is_empty() { Err("names no key".to_owned()) } else { Ok(keys) })
        .map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn an_error_does_not_repeat_what_may_be_a_key() {
        for output in [
            "link://relay.example:7000?key=0123456789abcdef",
            "link://relay.example:7000?key_file=hall.key&peer=0123456789abcdef",
            "udp://127.0.0.1:5000?key=0123456789abcdef",
            "http://relay.example/?key=0123456789abcdef",
        ] {
            let text = format!("[stream.a]\noutputs = ['{output}']\n");
            let error = Config::parse(&text, "a.toml".as_ref()).unwrap_err().to_string();
            let (place, _) = output.split_once('?').unwrap();
            assert!(error.contains(place) && !error.contains("0123456789abcdef"), "{error}");
        }
    }

    fn refused(forwards: &str) -> String {
        let text = format!("[stream.a]\nforward = [{forwards}]\n");
        Config::parse(&text, "a.toml".as_ref()).unwrap_err().to_string()
    }

    #[test]
    fn forwards_are_checked_and_their_stream_keys_not_repeated() {
        for (forward, words) in [
            ("'rtmp://h/SECRET'", "stream key"),
            ("'rtmp://user:SECRET@h/app/SECRET'", "user or a password"),
            ("'rtmp://h:99999/app/SECRET'", "port"),
            ("'rtmps://h/app/SEC RET'", "spaces"),
            ("'udp://239.1.2.3:5000/SECRET'", "outputs"),
            ("'https://h/SECRET'", "rtmp://"),
            ("'SECRET'", "rtmp://"),
            ("'srt://:9000?mode=listener&streamid=publish:a:SECRET'", "outputs"),
            ("'srt://h?streamid=publish:a:SECRET'", "port"),
            ("'rtmp://h/app/SECRET', 'rtmp://h/app/SECRET'", "twice"),
            ("'srt://h:1?streamid=publish:a:SECRET', 'srt://h:1?streamid=publish:a:SECRET'", "twice"),
        ] {
            let error = refused(forward);
            assert!(error.contains(words) && error.contains("stream.a.forward"), "{forward}: {error}");
            assert!(!error.contains("SECRET") && !error.contains("SEC RET"), "{error}");
        }
        let text = "[stream.a]\nforward = ['rtmp://h/app/SECRET', 'rtmps://h/app/SECRET', 'rtmp://h/app/OTHER', 'srt://h:1?streamid=publish:a']\n";
        let config = Config::parse(text, "a.toml".as_ref()).unwrap();
        assert_eq!(config.stream["a"].forward.len(), 4);
        assert!(config.holds_keys(), "a stream key is a key");
        assert!(!format!("{config:?}").contains("SECRET"));
    }
}
