//! The sections of the configuration: their defaults, and how their values are read.

use super::link::{self, StreamForward, StreamOutput, StreamSource};
use crate::key;
use crate::logging;
use crate::serde_text::{self, duration, some_duration};
use glassline_delivery::policy::{self, Hosts, MarkRange, Networks};
use glassline_delivery::pull::Policy;
use glassline_delivery::stream::{FlushPolicy, Mux, Pacing, Prebuffer};
use glassline_media::picture::Size;
use glassline_media::quantity::{self, Bitrate, ByteSize};
use glassline_media::time::FrameRate;
use glassline_relay::SendPath;
use glassline_studio::encode::BITRATE;
use glassline_transport::link::Key;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A secret. It is never shown in a log or an error, and its memory is overwritten when it is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Secret(policy::Secret);

/// Serde's own error for a value that is not a text would repeat the value.
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

    /// The secret itself: for comparisons, never for printing.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The secret as the rules take it.
    pub(crate) fn rule(&self) -> policy::Secret {
        self.0.clone()
    }
}

/// `[admin]`: access for operators.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Admin {
    /// Addresses of the dashboard, the API, metrics and health checks. Empty: they are on every listener.
    #[serde(deserialize_with = "listen")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Whether these addresses use HTTPS.
    pub(crate) tls: bool,
    /// Networks from which operators connect, besides this machine. Empty: with `listen`, all addresses that can reach
    /// it; without `listen`, only this machine.
    #[serde(deserialize_with = "networks")]
    pub(crate) networks: Networks,
}

/// `[tls]`: HTTPS addresses and certificates.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tls {
    /// Public addresses.
    #[serde(deserialize_with = "listen")]
    pub(crate) listen: Vec<SocketAddr>,
    /// The certificates. The server name that a client asks for selects one; for all other names it is the first.
    pub(crate) certificates: Vec<Certificate>,
    /// How often the certificate files are checked for changes.
    #[serde(deserialize_with = "duration")]
    pub(crate) check_interval: Duration,
}

impl Default for Tls {
    fn default() -> Tls {
        Tls { listen: Vec::new(), certificates: Vec::new(), check_interval: Duration::from_secs(60) }
    }
}

/// A certificate and its key, in PEM files. After loading, the paths are relative to the working directory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Certificate {
    /// The certificate, followed by its intermediate certificates.
    pub(crate) chain: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
}

/// `[publish]`: access for publishers, their limits and timeouts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Publish {
    /// The key that a publisher must send; from `key` or, after loading, from `key_file`. 8 to 256 visible ASCII
    /// characters.
    pub(crate) key: Option<Secret>,
    /// The file with `key`; a relative path is relative to the configuration's folder.
    pub(crate) key_file: Option<PathBuf>,
    /// Whether everyone may publish without a key. If not, and if there is no key, only loopback may.
    pub(crate) open: bool,
    /// Networks from which publishing is allowed; without a key, publishers in them need none. Empty: any address.
    #[serde(deserialize_with = "networks")]
    pub(crate) networks: Networks,
    /// A publisher's average bit rate at most.
    pub(crate) max_bitrate: Option<Bitrate>,
    /// Simultaneous publishers from one address; 0: no limit.
    pub(crate) max_per_address: usize,
    /// A publisher that sends nothing for this long loses its stream name.
    #[serde(deserialize_with = "duration")]
    pub(crate) silence_timeout: Duration,
    /// How long viewers stay connected after the publisher has left.
    #[serde(deserialize_with = "duration")]
    pub(crate) return_window: Duration,
    /// Simultaneous streams.
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

/// `[viewer]`: access for viewers, their limits and delivery.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Viewer {
    /// The key with which viewers' addresses are signed; from `key` or, after loading, from `key_file`. 8 to 256
    /// visible ASCII characters. Unset: addresses need no signature.
    pub(crate) key: Option<Secret>,
    /// The file with `key`; a relative path is relative to the configuration's folder.
    pub(crate) key_file: Option<PathBuf>,
    /// Networks from which watching is allowed. Empty: any address.
    #[serde(deserialize_with = "networks")]
    pub(crate) networks: Networks,
    /// Simultaneous viewers of all streams; 0: no limit.
    pub(crate) max_viewers: usize,
    /// Simultaneous viewers of one stream; 0: no limit.
    pub(crate) max_per_stream: usize,
    /// Simultaneous viewers from one address; 0: no limit.
    pub(crate) max_per_address: usize,
    /// The total bit rate of all viewers' streams.
    pub(crate) max_bitrate: Option<Bitrate>,
    /// The total bit rate of the streams that one address watches.
    pub(crate) max_bitrate_per_address: Option<Bitrate>,
    /// Web pages that may read streams and the API: an origin or `*`.
    pub(crate) allow_origin: Option<String>,
    /// How much of a stream is kept for viewers that fall behind.
    #[serde(deserialize_with = "duration")]
    pub(crate) backlog: Duration,
    /// The most memory that the backlog of one stream takes.
    pub(crate) backlog_max: ByteSize,
    /// How far behind live a viewer starts.
    #[serde(deserialize_with = "prebuffer")]
    pub(crate) prebuffer: Prebuffer,
    /// When new data is sent to the viewers.
    #[serde(deserialize_with = "serde_text::one")]
    pub(crate) flush: FlushPolicy,
    /// How fast data is sent to a viewer.
    #[serde(deserialize_with = "pacing")]
    pub(crate) pacing: Pacing,
    /// By which system calls data is sent.
    #[serde(deserialize_with = "serde_text::one")]
    pub(crate) send_path: SendPath,
    /// What happens to a viewer that falls behind the backlog.
    pub(crate) slow: Slow,
    /// A viewer is dropped when it would be moved more often than this within a minute; 0: never.
    pub(crate) max_moves: u16,
    /// The mark of viewers' connections that have none from a pool.
    pub(crate) mark: Option<u32>,
    /// The pool from which each viewer's connection gets a mark of its own.
    #[serde(deserialize_with = "mark_pool")]
    pub(crate) mark_pool: Option<MarkRange>,
    /// The DSCP of packets to viewers; 0 to 63.
    pub(crate) dscp: Option<u8>,
    /// Whether packets of IPv6 to viewers have a flow label.
    pub(crate) flow_label: Option<bool>,
    /// What is different for viewers that connect to a port, by its number.
    pub(crate) port: BTreeMap<String, Port>,
    /// A viewer is dropped if its connection accepts no data for this long.
    #[serde(deserialize_with = "duration")]
    pub(crate) stall_timeout: Duration,
    /// Simultaneous connections; 0: as many as the limit of descriptors allows.
    pub(crate) max_connections: usize,
    /// Simultaneous connections from one address; 0: no limit.
    pub(crate) max_connections_per_address: usize,
    /// Simultaneous connections from one address that have not been answered; 0: no limit.
    pub(crate) max_unanswered_per_address: usize,
    /// How long a request's body may take if it is not a stream, and how long a publisher may take to its first byte.
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
            prebuffer: Prebuffer::NONE,
            flush: FlushPolicy::default(),
            pacing: Pacing::Factor(3.0),
            send_path: SendPath::default(),
            slow: Slow::Move,
            max_moves: 0,
            mark: None,
            mark_pool: None,
            dscp: None,
            flow_label: None,
            port: BTreeMap::new(),
            stall_timeout: Duration::from_secs(20),
            max_connections: 0,
            max_connections_per_address: 0,
            max_unanswered_per_address: 4096,
            body_timeout: Duration::from_secs(10),
        }
    }
}

/// `[viewer.port.NUMBER]`: viewers that connect to this port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Port {
    /// The DSCP of packets to them, if different from `[viewer]`.
    pub(crate) dscp: Option<u8>,
    /// Whether packets of IPv6 to them have a flow label, if different from `[viewer]`.
    pub(crate) flow_label: Option<bool>,
}

/// What happens to a viewer that falls behind the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Slow {
    /// It is moved forward to the newest key frame.
    Move,
    /// It is dropped.
    Drop,
}

/// `[pull]`: how streams are fetched from a source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Pull {
    /// A source that sends nothing for this long is disconnected and asked again.
    #[serde(deserialize_with = "duration")]
    pub(crate) silence_timeout: Duration,
    /// The longest wait after a first failure.
    #[serde(deserialize_with = "duration")]
    pub(crate) retry_min: Duration,
    /// The longest wait after many failures.
    #[serde(deserialize_with = "duration")]
    pub(crate) retry_max: Duration,
    /// How long a packet of RTP is held back for missing packets that belong before it.
    #[serde(deserialize_with = "duration")]
    pub(crate) reorder: Duration,
}

impl Default for Pull {
    fn default() -> Pull {
        let Policy { silence_timeout, retry_min, retry_max, reorder, .. } = Policy::default();
        Pull { silence_timeout, retry_min, retry_max, reorder }
    }
}

/// `[stream.NAME]`: settings of one stream.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Stream {
    /// Where the stream is fetched from.
    #[serde(deserialize_with = "link::source")]
    pub(crate) source: Option<StreamSource>,
    /// The file with the key of links, for the source and for outputs that name none.
    pub(crate) link_key_file: Option<PathBuf>,
    /// The key in it, after loading.
    #[serde(skip)]
    pub(crate) link_key: Option<key::Secret>,
    /// The public halves of the key pairs of the ends that may send, or that the stream is sent to.
    #[serde(deserialize_with = "link::peers")]
    pub(crate) link_peer: Vec<Key>,
    /// The container format of the source, if its address does not tell.
    #[serde(deserialize_with = "some_mux")]
    pub(crate) mux: Option<Mux>,
    /// The authorities that are trusted for the source and for forwards over TLS. After loading, the path is relative to the working
    /// directory.
    pub(crate) ca: Option<PathBuf>,
    /// How much of the stream is kept, if different from `[viewer]`.
    #[serde(deserialize_with = "some_duration")]
    pub(crate) backlog: Option<Duration>,
    /// The most memory that its backlog takes, if different from `[viewer]`.
    pub(crate) backlog_max: Option<ByteSize>,
    /// How far behind live its viewers start, if different from `[viewer]`.
    #[serde(deserialize_with = "some_prebuffer")]
    pub(crate) prebuffer: Option<Prebuffer>,
    /// Where the stream is sent to in datagrams, and over links.
    #[serde(deserialize_with = "link::outputs")]
    pub(crate) outputs: Vec<StreamOutput>,
    /// The services that the stream is published to.
    #[serde(deserialize_with = "link::forwards")]
    pub(crate) forward: Vec<StreamForward>,
    /// When its new data is sent, if different from `[viewer]`.
    #[serde(deserialize_with = "serde_text::some")]
    pub(crate) flush: Option<FlushPolicy>,
    /// How fast data is sent to its viewers, if different from `[viewer]`.
    #[serde(deserialize_with = "some_pacing")]
    pub(crate) pacing: Option<Pacing>,
    /// The publish key that replaces the general one; from `publish_key` or, after loading, from `publish_key_file`.
    pub(crate) publish_key: Option<Secret>,
    /// The file with `publish_key`.
    pub(crate) publish_key_file: Option<PathBuf>,
    /// The viewer key that replaces the general one; from `viewer_key` or, after loading, from `viewer_key_file`.
    pub(crate) viewer_key: Option<Secret>,
    /// The file with `viewer_key`.
    pub(crate) viewer_key_file: Option<PathBuf>,
    /// Its publisher's average bit rate at most, if different from `[publish]`.
    pub(crate) max_bitrate: Option<Bitrate>,
    /// Its simultaneous viewers, if different from `[viewer]`; 0: no limit.
    pub(crate) max_viewers: Option<usize>,
    /// What happens to a viewer that falls behind, if different from `[viewer]`.
    pub(crate) slow: Option<Slow>,
    /// Moves within a minute after which a viewer is dropped, if different from `[viewer]`.
    pub(crate) max_moves: Option<u16>,
    /// The mark of viewers' connections that have none from a pool, if different from `[viewer]`.
    pub(crate) mark: Option<u32>,
    /// The pool from which each viewer's connection gets a mark, if different from `[viewer]`.
    #[serde(deserialize_with = "mark_pool")]
    pub(crate) mark_pool: Option<MarkRange>,
    /// The DSCP of packets to viewers, if different from `[viewer]` and `[viewer.port.NUMBER]`.
    pub(crate) dscp: Option<u8>,
    /// Whether packets of IPv6 to viewers have a flow label, if different from `[viewer]` and `[viewer.port.NUMBER]`.
    pub(crate) flow_label: Option<bool>,
    /// What is shown while its publisher is silent or away: a PNG picture (`.png`) or a transport stream (`.ts`). After loading, the
    /// path is relative to the working directory.
    pub(crate) slate: Option<PathBuf>,
    /// A publisher that has sent nothing for this long counts as silent, and the slate is shown.
    #[serde(deserialize_with = "some_duration")]
    pub(crate) slate_after: Option<Duration>,
    /// Whether it is watched for alarms where `[watch]` names it.
    pub(crate) watch: Option<bool>,
    /// Whether it is recorded, with all its versions.
    pub(crate) record: Option<bool>,
    /// Whether the store gets segments of MPEG-TS of its recordings, too, if different from `[record]`.
    pub(crate) record_ts: Option<bool>,
    /// How long its recordings are kept, if different from `[record]`.
    #[serde(deserialize_with = "some_duration")]
    pub(crate) keep: Option<Duration>,
    /// What its recordings may take, with those of its versions; then they do not count in what `[record]` says of all.
    pub(crate) keep_size: Option<ByteSize>,
}

/// What a slate's file is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlateKind {
    /// A PNG picture.
    Png,
    /// A transport stream.
    TransportStream,
}

impl SlateKind {
    /// By the end of the name; `None` where it is neither.
    pub(crate) fn of(file: &Path) -> Option<SlateKind> {
        let end = file.extension()?;
        if end.eq_ignore_ascii_case("png") {
            Some(SlateKind::Png)
        } else {
            end.eq_ignore_ascii_case("ts").then_some(SlateKind::TransportStream)
        }
    }
}

/// `[process]`: the user as which the process continues, and how long it lives after an upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Process {
    /// Name or number; unset: the user that started the process.
    pub(crate) user: Option<String>,
    /// Name or number of the group; unset: the user's own group.
    pub(crate) group: Option<String>,
    /// How long a process that was replaced keeps running as the TLS proxy of its connections.
    #[serde(deserialize_with = "duration")]
    pub(crate) drain: Duration,
}

impl Default for Process {
    fn default() -> Process {
        Process { user: None, group: None, drain: Duration::from_secs(12 * 3600) }
    }
}

/// `[log]`: the access log, and the log on standard error, for which the command line overrides these keys.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// The format of a line.
    pub(crate) format: logging::Format,
    /// Which lines are logged.
    pub(crate) level: logging::Filter,
    /// The file that gets a line for each HTTP exchange. After loading, the path is relative to the working
    /// directory.
    pub(crate) access: Option<PathBuf>,
}

/// `[demo]`: the built-in test stream.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Demo {
    /// Whether the stream is published.
    pub(crate) enabled: bool,
    /// Name of the stream: a [`glassline_delivery::policy::StreamName`].
    pub(crate) name: String,
    /// Size of the picture; both sides are even.
    #[serde(deserialize_with = "size")]
    pub(crate) size: Size,
    /// Pictures per second.
    #[serde(deserialize_with = "frame_rate")]
    pub(crate) frame_rate: FrameRate,
    /// Bit rate of the video.
    pub(crate) bitrate: Bitrate,
    /// The encoder's preset, by x264's names.
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

pub(super) fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Networks, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    Networks::parse(texts.iter().map(String::as_str)).map_err(serde::de::Error::custom)
}

fn mark_pool<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<MarkRange>, D::Error> {
    quantity::deserialize_text(deserializer, "range of marks", str::parse::<MarkRange>).map(Some)
}

fn pacing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pacing, D::Error> {
    quantity::deserialize_text(deserializer, "pacing (\"3x\", \"20M\" or \"off\")", str::parse)
}

fn some_pacing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Pacing>, D::Error> {
    pacing(deserializer).map(Some)
}

fn prebuffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Prebuffer, D::Error> {
    quantity::deserialize_text(deserializer, "duration or size (\"2s\" or \"1MiB\")", str::parse)
}

fn some_prebuffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Prebuffer>, D::Error> {
    prebuffer(deserializer).map(Some)
}

/// A stream's container format, named as in its address.
fn some_mux<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mux>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Mux::of_extension(&text).map(Some).ok_or_else(|| {
        let known = Mux::ALL.map(Mux::extension).join(", ");
        serde::de::Error::custom(format!("{text:?} is not known; one of {known}"))
    })
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
    quantity::deserialize_text(deserializer, "picture size", quantity::parse_size)
}

fn frame_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FrameRate, D::Error> {
    quantity::deserialize_text(deserializer, "frame rate", quantity::parse_frame_rate)
}
