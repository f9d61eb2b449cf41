//! The sections of the configuration, with their defaults, and how their values are read.

use crate::logging;
use glassline_delivery::output::Destination;
use glassline_delivery::policy::{self, Hosts, MarkRange, Networks};
use glassline_delivery::pull::{Policy, Source};
use glassline_delivery::stream;
use glassline_engine::encode::BITRATE;
use glassline_media::picture::Size;
use glassline_media::quantity::{self, Bitrate, ByteSize, QuantityError};
use glassline_media::time::FrameRate;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A secret that no log or error shows, and that is overwritten when it is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Secret(policy::Secret);

/// Serde's own words for what is no text would repeat it.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        let text = String::deserialize(deserializer);
        text.map(Secret::new).map_err(|_| serde::de::Error::custom("must be a text in quotes"))
    }
}

impl Secret {
    /// Wraps a secret.
    pub(crate) fn new(secret: impl Into<String>) -> Secret {
        Secret(policy::Secret::new(secret))
    }

    /// The secret itself: to compare with, never to print.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The same for rules.
    pub(crate) fn rule(&self) -> policy::Secret {
        self.0.clone()
    }
}

/// `[admin]`: where operators look after it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Admin {
    /// Where the dashboard, the API, metrics and probes are. Empty: on every listener.
    #[serde(deserialize_with = "listen")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Whether HTTPS is spoken there.
    pub(crate) tls: bool,
    /// From where operators look after it, beside this machine. Empty: with `listen`, from wherever that is reached;
    /// without it, from nowhere else.
    #[serde(deserialize_with = "networks")]
    pub(crate) networks: Networks,
}

/// `[tls]`: where HTTPS is served, and with what.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tls {
    /// Public addresses.
    #[serde(deserialize_with = "listen")]
    pub(crate) listen: Vec<SocketAddr>,
    /// What is shown; the name that is asked for chooses, the first is for all others.
    pub(crate) certificates: Vec<Certificate>,
    /// How often their files are looked at.
    #[serde(deserialize_with = "duration")]
    pub(crate) check_interval: Duration,
}

impl Default for Tls {
    fn default() -> Tls {
        Tls { listen: Vec::new(), certificates: Vec::new(), check_interval: Duration::from_secs(60) }
    }
}

/// A certificate and its key, in PEM files; once loaded, relative to where the program runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Certificate {
    /// The certificate, and behind it those that lead to a root.
    pub(crate) chain: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
}

/// `[publish]`: who may publish, and when a stream ends.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Publish {
    /// What a publisher has to present; from `key` or, once loaded, from `key_file`. 8 to 256 visible ASCII
    /// characters.
    pub(crate) key: Option<Secret>,
    /// The file that `key` came from, relative to the configuration's folder where it is not absolute.
    pub(crate) key_file: Option<PathBuf>,
    /// Whether anyone may publish without a key. Otherwise, and with no key, only loopback may.
    pub(crate) open: bool,
    /// From where publishing is allowed at all; without a key, those there need none. Empty: no restriction.
    #[serde(deserialize_with = "networks")]
    pub(crate) networks: Networks,
    /// What a publisher may send in the mean.
    pub(crate) max_bitrate: Option<Bitrate>,
    /// Publishers from one address at once; 0 is any number.
    pub(crate) max_per_address: usize,
    /// A publisher that is silent for this long gives up its name.
    #[serde(deserialize_with = "duration")]
    pub(crate) silence_timeout: Duration,
    /// How long viewers are kept when the publisher has gone.
    #[serde(deserialize_with = "duration")]
    pub(crate) return_window: Duration,
    /// Streams at once.
    pub(crate) max_streams: usize,
}

impl Default for Publish {
    fn default() -> Publish {
        Publish {
            key: None,
            key_file: None,
            open: false,
            networks: Networks::default(),
            max_bitrate: None,
            max_per_address: 0,
            silence_timeout: Duration::from_secs(5),
            return_window: Duration::from_secs(60),
            max_streams: 256,
        }
    }
}

/// `[viewer]`: what a viewer gets, and when one is given up.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Viewer {
    /// What viewers' addresses are signed with; from `key` or, once loaded, from `key_file`. 8 to 256 visible ASCII
    /// characters. Unset: nobody needs a signed address.
    pub(crate) key: Option<Secret>,
    /// The file that `key` came from, relative to the configuration's folder where it is not absolute.
    pub(crate) key_file: Option<PathBuf>,
    /// From where watching is allowed. Empty: from everywhere.
    #[serde(deserialize_with = "networks")]
    pub(crate) networks: Networks,
    /// Viewers of all streams at once; 0 is any number.
    pub(crate) max_viewers: usize,
    /// Viewers of one stream at once; 0 is any number.
    pub(crate) max_per_stream: usize,
    /// Viewers from one address at once; 0 is any number.
    pub(crate) max_per_address: usize,
    /// What all viewers' streams may take together.
    pub(crate) max_bitrate: Option<Bitrate>,
    /// What the streams that one address watches may take together.
    pub(crate) max_bitrate_per_address: Option<Bitrate>,
    /// Web pages that may read streams and API: an origin or `*`.
    pub(crate) allow_origin: Option<String>,
    /// How much of a stream is kept for those who fall behind.
    #[serde(deserialize_with = "duration")]
    pub(crate) backlog: Duration,
    /// What the backlog of one stream takes in memory at most.
    pub(crate) backlog_max: ByteSize,
    /// How far back a viewer begins.
    pub(crate) prebuffer: Prebuffer,
    /// When new bytes leave for the viewers.
    pub(crate) flush: Flush,
    /// How fast viewers' connections may send.
    pub(crate) pacing: Pacing,
    /// How viewers are sent to.
    pub(crate) send_path: SendPath,
    /// What becomes of a viewer that falls behind the backlog.
    pub(crate) slow: Slow,
    /// Moves within a minute after which a viewer is dropped; 0 is any number.
    pub(crate) max_moves: u16,
    /// The mark of viewers' connections that have none of their own.
    pub(crate) mark: Option<u32>,
    /// Out of which each viewer's connection gets a mark of its own.
    #[serde(deserialize_with = "mark_pool")]
    pub(crate) mark_pool: Option<MarkRange>,
    /// A viewer whose connection takes nothing for this long is dropped.
    #[serde(deserialize_with = "duration")]
    pub(crate) stall_timeout: Duration,
    /// Connections at once; 0 is as many as the limit of descriptors allows.
    pub(crate) max_connections: usize,
    /// Connections from one address at once; 0 is any number.
    pub(crate) max_connections_per_address: usize,
    /// Connections from one address at once that have not been answered; 0 is any number.
    pub(crate) max_unanswered_per_address: usize,
    /// How long a request's body may take that is no stream, and a publisher to its first byte.
    #[serde(deserialize_with = "duration")]
    pub(crate) body_timeout: Duration,
}

impl Default for Viewer {
    fn default() -> Viewer {
        Viewer {
            key: None,
            key_file: None,
            networks: Networks::default(),
            max_viewers: 0,
            max_per_stream: 0,
            max_per_address: 0,
            max_bitrate: None,
            max_bitrate_per_address: None,
            allow_origin: None,
            backlog: Duration::from_secs(10),
            backlog_max: ByteSize::from_mebibytes(64),
            prebuffer: Prebuffer::Time(Duration::ZERO),
            flush: Flush::Frame,
            pacing: Pacing::Factor(3.0),
            send_path: SendPath::Auto,
            slow: Slow::Move,
            max_moves: 0,
            mark: None,
            mark_pool: None,
            stall_timeout: Duration::from_secs(20),
            max_connections: 0,
            max_connections_per_address: 0,
            max_unanswered_per_address: 4096,
            body_timeout: Duration::from_secs(10),
        }
    }
}

/// When a stream's new bytes leave for its viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Flush {
    /// Each picture at once.
    Frame,
    /// Pictures together, up to 30 ms.
    Balanced,
    /// Pictures together, up to 100 ms.
    Thrifty,
}

/// What becomes of a viewer that falls behind the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Slow {
    /// It is moved forward to the newest key frame.
    Move,
    /// It is dropped.
    Drop,
}

/// How fast viewers' connections may send: `"3x"` of the stream's rate, `"20M"` bits a second, or `"off"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pacing {
    /// Not paced.
    Off,
    /// At so many times the stream's rate.
    Factor(f64),
    /// At so many bits a second.
    Rate(Bitrate),
}

impl Pacing {
    fn parse(text: &str) -> Result<Pacing, QuantityError> {
        if text == "off" {
            return Ok(Pacing::Off);
        }
        match text.strip_suffix('x').and_then(|factor| factor.parse().ok()) {
            Some(factor) => Ok(Pacing::Factor(factor)),
            None => text.parse().map(Pacing::Rate),
        }
    }
}

impl<'de> Deserialize<'de> for Pacing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pacing, D::Error> {
        quantity::deserialize_text(deserializer, "pacing (\"3x\", \"20M\" or \"off\")", Pacing::parse)
    }
}

/// How far back a viewer begins: a time (`"2s"`) or a size (`"1MiB"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prebuffer {
    /// This long ago, by the arrival of what it begins with.
    Time(Duration),
    /// So many bytes back.
    Size(ByteSize),
}

impl Prebuffer {
    fn parse(text: &str) -> Result<Prebuffer, QuantityError> {
        // Units of sizes end with B, those of times do not.
        if text.trim_end().ends_with('B') {
            text.parse().map(Prebuffer::Size)
        } else {
            quantity::parse_duration(text).map(Prebuffer::Time)
        }
    }
}

impl<'de> Deserialize<'de> for Prebuffer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Prebuffer, D::Error> {
        quantity::deserialize_text(deserializer, "duration or size (\"2s\" or \"1MiB\")", Prebuffer::parse)
    }
}

/// How a stream's bytes get into the viewers' sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SendPath {
    /// io_uring where the system allows it.
    Auto,
    /// One sendfile a viewer.
    Sendfile,
}

/// `[pull]`: how streams are fetched from elsewhere.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Pull {
    /// A source that brings nothing for this long is given up and asked anew.
    #[serde(deserialize_with = "duration")]
    pub(crate) silence_timeout: Duration,
    /// The longest wait after a first failure.
    #[serde(deserialize_with = "duration")]
    pub(crate) retry_min: Duration,
    /// The longest wait after many.
    #[serde(deserialize_with = "duration")]
    pub(crate) retry_max: Duration,
    /// How long a packet of RTP waits for those that should come before it.
    #[serde(deserialize_with = "duration")]
    pub(crate) reorder: Duration,
}

impl Default for Pull {
    fn default() -> Pull {
        let Policy { silence_timeout, retry_min, retry_max, reorder, .. } = Policy::default();
        Pull { silence_timeout, retry_min, retry_max, reorder }
    }
}

/// `[stream.NAME]`: what is particular to one stream.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Stream {
    /// Where it is fetched from.
    #[serde(deserialize_with = "source")]
    pub(crate) source: Option<Source>,
    /// What comes from there, where its address does not tell.
    pub(crate) mux: Option<Mux>,
    /// The authorities that may vouch for it over TLS; once loaded, relative to where the program runs.
    pub(crate) ca: Option<PathBuf>,
    /// How much of it is kept, where it is not as `[viewer]` says.
    #[serde(deserialize_with = "some_duration")]
    pub(crate) backlog: Option<Duration>,
    /// What its backlog takes in memory at most, where it is not as `[viewer]` says.
    pub(crate) backlog_max: Option<ByteSize>,
    /// How far back its viewers begin, where it is not as `[viewer]` says.
    pub(crate) prebuffer: Option<Prebuffer>,
    /// Where it is sent to in datagrams.
    #[serde(deserialize_with = "outputs")]
    pub(crate) outputs: Vec<Destination>,
    /// When its new bytes leave, where it is not as `[viewer]` says.
    pub(crate) flush: Option<Flush>,
    /// How fast its viewers' connections may send, where it is not as `[viewer]` says.
    pub(crate) pacing: Option<Pacing>,
    /// The publish key that stands in place of the general one; from `publish_key` or, once loaded, from
    /// `publish_key_file`.
    pub(crate) publish_key: Option<Secret>,
    /// The file that `publish_key` came from.
    pub(crate) publish_key_file: Option<PathBuf>,
    /// The viewer key that stands in place of the general one; from `viewer_key` or, once loaded, from
    /// `viewer_key_file`.
    pub(crate) viewer_key: Option<Secret>,
    /// The file that `viewer_key` came from.
    pub(crate) viewer_key_file: Option<PathBuf>,
    /// What its publisher may send in the mean, where it is not as `[publish]` says.
    pub(crate) max_bitrate: Option<Bitrate>,
    /// Its viewers at once, where it is not as `[viewer]` says; 0 is any number.
    pub(crate) max_viewers: Option<usize>,
    /// What becomes of a viewer that falls behind, where it is not as `[viewer]` says.
    pub(crate) slow: Option<Slow>,
    /// Moves within a minute after which a viewer is dropped, where it is not as `[viewer]` says.
    pub(crate) max_moves: Option<u16>,
    /// The mark of viewers' connections that have none of their own, where it is not as `[viewer]` says.
    pub(crate) mark: Option<u32>,
    /// Out of which each viewer's connection gets a mark, where it is not as `[viewer]` says.
    #[serde(deserialize_with = "mark_pool")]
    pub(crate) mark_pool: Option<MarkRange>,
}

/// `[process]`: the user that the program goes on as, and what becomes of it after an upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Process {
    /// Name or number; unset: whoever started it.
    pub(crate) user: Option<String>,
    /// Name or number of the group; unset: the user's.
    pub(crate) group: Option<String>,
    /// How long a process that was replaced goes on with the TLS of its connections.
    #[serde(deserialize_with = "duration")]
    pub(crate) drain: Duration,
}

impl Default for Process {
    fn default() -> Process {
        Process { user: None, group: None, drain: Duration::from_secs(12 * 3600) }
    }
}

/// A stream's mux, by what its address ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mux(pub(crate) stream::Mux);

impl<'de> Deserialize<'de> for Mux {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mux, D::Error> {
        let text = String::deserialize(deserializer)?;
        stream::Mux::of_extension(&text).map(Mux).ok_or_else(|| {
            let known = stream::Mux::ALL.map(stream::Mux::extension).join(", ");
            serde::de::Error::custom(format!("{text:?} is not known; one of {known}"))
        })
    }
}

/// `[log]`: the log on standard error, where the command line goes before it, and the access log.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// How a line looks.
    pub(crate) format: logging::Format,
    /// Which lines are logged.
    pub(crate) level: logging::Filter,
    /// The file that gets a line for each HTTP exchange; once loaded, relative to where the program runs.
    pub(crate) access: Option<PathBuf>,
}

/// `[demo]`: the built-in test stream.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Demo {
    /// Whether it is published.
    pub(crate) enabled: bool,
    /// Its stream's name: a [`glassline_delivery::policy::StreamName`].
    pub(crate) name: String,
    /// Its picture; both sides even.
    #[serde(deserialize_with = "size")]
    pub(crate) size: Size,
    /// Pictures a second.
    #[serde(deserialize_with = "frame_rate")]
    pub(crate) frame_rate: FrameRate,
    /// Video bits a second.
    pub(crate) bitrate: Bitrate,
    /// The encoder's preset: x264's names.
    pub(crate) preset: String,
}

impl Default for Demo {
    fn default() -> Demo {
        Demo {
            enabled: false,
            name: "demo".into(),
            size: Size { width: 1280, height: 720 },
            frame_rate: FrameRate::new(50, 1).expect("both parts are above zero"),
            bitrate: BITRATE,
            preset: "ultrafast".into(),
        }
    }
}

pub(super) fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    let address = |text: &String| {
        text.parse().map_err(|_| {
            serde::de::Error::custom(format!(
                "{text:?} is not an address with a port; write for example \"[::]:8080\" or \"127.0.0.1:8080\""
            ))
        })
    };
    Vec::<String>::deserialize(deserializer)?.iter().map(address).collect()
}

pub(super) fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Hosts, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    Hosts::parse(texts.iter().map(String::as_str)).map_err(|found| {
        serde::de::Error::custom(format!(
            "{found:?} is no host name; write it without scheme and port, as in \"relay.example.org\" or \"*.example.org\""
        ))
    })
}

fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Networks, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    Networks::parse(texts.iter().map(String::as_str)).map_err(serde::de::Error::custom)
}

/// The text is not repeated in an error: it may hold a password.
fn source<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Source>, D::Error> {
    Source::parse(&String::deserialize(deserializer)?).map(Some).map_err(serde::de::Error::custom)
}

fn outputs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Destination>, D::Error> {
    let destination = |text: &String| {
        Destination::parse_unresolved(text)
            .map_err(|error| serde::de::Error::custom(format!("{text:?}: {error}")))
    };
    Vec::<String>::deserialize(deserializer)?.iter().map(destination).collect()
}

fn mark_pool<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<MarkRange>, D::Error> {
    quantity::deserialize_text(deserializer, "range of marks", str::parse::<MarkRange>).map(Some)
}

pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    quantity::deserialize_text(deserializer, "duration", quantity::parse_duration)
}

pub(super) fn some_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
    quantity::deserialize_text(deserializer, "picture size", quantity::parse_size)
}

fn frame_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FrameRate, D::Error> {
    quantity::deserialize_text(deserializer, "frame rate", quantity::parse_frame_rate)
}
