//! The API's JSON.

use super::counts::{BehindCounts, behind_counts, why_counts};
use super::renditions::{Groups, Rendition};
use glassline_delivery::packager::LeftOut;
use glassline_delivery::policy::StreamName;
use glassline_delivery::slate;
use glassline_media::bitstream::h264::Join;
use glassline_media::container::tracks::{Kind, Track};
use glassline_relay::Hub;
use glassline_streams::status::{
    Door, ForwardStatus, OutputStatus, PeerFigure, PeerStatus, RtpCounts, SourceState, SourceStatus,
    StreamStatus,
};
use glassline_studio::encode::EncoderStatus;
use glassline_watch::Alarms;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// `GET /api/time`.
#[derive(Serialize)]
pub(super) struct Now {
    /// The server's wall clock: microseconds since the Unix epoch.
    utc_us: u64,
}

/// `GET /api/contact`.
#[derive(Serialize)]
pub(super) struct Contact<'a> {
    /// How viewers can reach the operators, in one line.
    pub(super) contact: Option<&'a str>,
}

/// `GET /api/encoders`.
#[derive(Serialize)]
pub(super) struct Encoders {
    pub(super) encoders: Vec<EncoderStatus>,
}

/// `GET /api/streams`.
#[derive(Serialize)]
pub(super) struct Streams<'a> {
    server: Server<'a>,
    streams: Vec<Stream>,
}

#[derive(Serialize)]
struct Server<'a> {
    version: &'static str,
    uptime_s: f64,
    contact: Option<&'a str>,
    now_utc_us: u64,
    /// Where publishers and viewers connect to by other protocols than HTTP.
    doors: Vec<Door>,
}

/// `GET /api/streams/NAME`.
#[derive(Serialize)]
pub(super) struct Stream {
    name: String,
    /// The common name of all renditions of one capture; see
    /// [`StreamName::version`](glassline_delivery::policy::StreamName::version).
    group: Option<String>,
    /// All versions of that capture, best first; empty if this is the only one.
    renditions: Vec<Rendition>,
    /// The query that gives a viewer access to the stream and to all versions of its capture: for operators, if
    /// viewers need a token.
    access: Option<String>,
    group_access: Option<String>,
    mux: &'static str,
    live: bool,
    bitrate_bps: u64,
    viewers: usize,
    codecs: Vec<Codec>,
    left_out: Vec<LeftOut>,
    uptime_s: f64,
    newest_byte_age_ms: Option<f64>,
    key_frame_interval_s: Option<f64>,
    join: Option<JoinPoint>,
    bytes_in: u64,
    bytes_out: u64,
    continuity_errors: u64,
    garbage_bytes: u64,
    moved_forward: u64,
    dropped_behind: u64,
    stalled: u64,
    cut_off: u64,
    retransmitted_segments: u64,
    unpaced_bursts: u64,
    pacing_bps: Option<u64>,
    why: BTreeMap<&'static str, u32>,
    behind: BehindCounts,
    publishers: u64,
    /// What is shown in the publisher's place; `None` where nothing is configured for that.
    slate: Option<slate::Status>,
    source: Option<Source>,
    outputs: Vec<OutputReport>,
    /// Publisher and viewers at doors of other protocols than HTTP, then the services that the stream is published to.
    peers: Vec<Peer>,
    /// What tells the stream's thumbnail from earlier ones; `None` where there is none, or the caller may not see it.
    thumbnail: Option<String>,
}

/// How viewers' pictures begin.
#[derive(Serialize)]
struct JoinPoint {
    /// "key frame" or "recovery point".
    at: &'static str,
    /// Pictures that may be wrong at first, and what they last at the stream's frame rate.
    settling_frames: u32,
    settling_ms: Option<f64>,
}

/// Where a stream is sent to.
#[derive(Serialize)]
struct OutputReport {
    url: String,
    sending: bool,
    error: Option<String>,
    datagrams: u64,
    bytes: u64,
    errors: u64,
    moved_forward: u64,
}

/// A peer of a stream.
#[derive(Serialize)]
#[serde(untagged)]
enum Peer {
    AtDoor(PeerStatus),
    Forward(ForwardReport),
}

/// A service that a stream is published to.
#[derive(Serialize)]
struct ForwardReport {
    /// "forward".
    role: &'static str,
    protocol: &'static str,
    /// Where it goes, without the stream key.
    target: String,
    /// "idle", "connecting", "publishing", "waiting" or "refused".
    state: &'static str,
    reason: Option<String>,
    retry_in_s: Option<f64>,
    address: Option<SocketAddr>,
    seconds: f64,
    bytes: u64,
    figures: Vec<PeerFigure>,
}

/// Where a pulled stream comes from.
#[derive(Serialize)]
struct Source {
    url: String,
    state: &'static str,
    error: Option<String>,
    retry_in_ms: Option<f64>,
    reconnects: u64,
    failures: u64,
    redirects: u64,
    metacube: bool,
    garbage_bytes: u64,
    encoder_delay_ms: Option<f64>,
    datagrams: Option<u64>,
    datagrams_dropped: Option<u64>,
    rtp: Option<Rtp>,
}

/// What became of the packets of RTP.
#[derive(Serialize)]
struct Rtp {
    received: u64,
    lost: u64,
    reordered: u64,
    late: u64,
    duplicate: u64,
    refused: u64,
    restarts: u64,
    damaged_units: u64,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Codec {
    Video {
        name: String,
        codec_string: Option<String>,
        width: Option<u32>,
        height: Option<u32>,
        frame_rate: Option<f64>,
    },
    Audio {
        name: String,
    },
    /// Of MPEG-TS by its number, and by its name where that is known; of a mux that is carried by its name.
    Other {
        #[serde(skip_serializing_if = "Option::is_none")]
        stream_type: Option<u8>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

pub(super) fn time(hub: &Hub) -> Now {
    Now { utc_us: hub.clock().utc().as_micros() }
}

/// What is told of `all` streams; of their thumbnails, where `pictures` has them.
pub(super) fn streams<'a>(
    hub: &Hub,
    all: Vec<StreamStatus>,
    contact: Option<&'a str>,
    to_operators: bool,
    pictures: Option<&Alarms>,
) -> Streams<'a> {
    let server = Server {
        version: env!("CARGO_PKG_VERSION"),
        uptime_s: hub.totals().uptime.as_secs_f64(),
        contact,
        now_utc_us: hub.clock().utc().as_micros(),
        doors: hub.doors(),
    };
    let groups = Groups::of(&all);
    let operators = to_operators.then_some(hub);
    Streams {
        server,
        streams: all.iter().map(|status| stream(status, operators, &groups, pictures)).collect(),
    }
}

/// All versions of one capture.
#[derive(Debug, Serialize)]
pub(super) struct Ladder {
    /// Their common name.
    group: String,
    /// Best first; empty if there is only one.
    renditions: Vec<Rendition>,
}

/// The entry of the stream `name`, with those of its renditions for which `known` is true, that is, which the client
/// may know; `None` if there is no such stream.
pub(super) fn stream_named(
    hub: &Hub,
    name: &StreamName,
    known: impl Fn(&StreamName) -> bool,
    to_operators: bool,
    pictures: Option<&Alarms>,
) -> Option<Stream> {
    let found = hub.stream(name)?;
    let groups = match name.version() {
        Some(_) => Groups::of(hub.streams().iter().filter(|stream| known(&stream.name))),
        None => Groups::default(),
    };
    Some(stream(&found, to_operators.then_some(hub), &groups, pictures))
}

/// The versions of the capture `name` for which `known` is true; `None` if there are none.
pub(super) fn ladder_named(
    hub: &Hub,
    name: &StreamName,
    known: impl Fn(&StreamName) -> bool,
) -> Option<Ladder> {
    let streams = hub.streams();
    let is_version = |stream: &&StreamStatus| stream.name.version().is_some_and(|it| it.group == *name);
    let version = streams.iter().filter(|stream| known(&stream.name)).find(is_version)?;
    let groups = Groups::of(streams.iter().filter(|stream| known(&stream.name)));
    Some(Ladder { group: name.to_string(), renditions: groups.renditions(&version.name) })
}

/// The entry of a stream. Its source, its outputs, its peers and its viewers' token are only for operators, for whom `operators`
/// is the hub.
fn stream(
    status: &StreamStatus,
    operators: Option<&Hub>,
    groups: &Groups,
    pictures: Option<&Alarms>,
) -> Stream {
    let to_operators = operators.is_some();
    let group = status.name.version().map(|version| version.group);
    Stream {
        access: operators.and_then(|hub| hub.ticket(&status.name)),
        group_access: operators.zip(group.as_ref()).and_then(|(hub, group)| hub.ticket(group)),
        group: group.map(|group| group.to_string()),
        renditions: groups.renditions(&status.name),
        name: status.name.to_string(),
        mux: status.mux.extension(),
        live: status.live,
        bitrate_bps: status.bitrate_bps,
        viewers: status.viewers,
        codecs: codecs(status),
        left_out: status.left_out.clone(),
        uptime_s: status.uptime.as_secs_f64(),
        newest_byte_age_ms: status.newest_byte_age.map(|age| age.as_secs_f64() * 1e3),
        key_frame_interval_s: status.key_frame_interval.as_ref().map(Duration::as_secs_f64),
        join: status.join.map(|join| join_point(join, status)),
        bytes_in: status.bytes_in,
        bytes_out: status.bytes_out,
        continuity_errors: status.continuity_errors,
        garbage_bytes: status.garbage_bytes,
        moved_forward: status.moved_forward,
        dropped_behind: status.dropped_behind,
        stalled: status.stalled,
        cut_off: status.cut_off,
        retransmitted_segments: status.retransmitted,
        unpaced_bursts: status.unpaced,
        pacing_bps: status.pace_bps,
        why: why_counts(&status.why),
        behind: behind_counts(&status.behind),
        publishers: status.sessions,
        slate: status.slate,
        source: status.source.as_ref().filter(|_| to_operators).map(source),
        outputs: status.outputs.iter().filter(|_| to_operators).map(output).collect(),
        peers: if to_operators { peers(status) } else { Vec::new() },
        thumbnail: pictures.and_then(|pictures| pictures.picture_id(status.name.as_str())),
    }
}

fn peers(status: &StreamStatus) -> Vec<Peer> {
    let at_doors = status.peers.iter().cloned().map(Peer::AtDoor);
    let forward = |forward: &ForwardStatus| {
        Peer::Forward(ForwardReport {
            role: "forward",
            protocol: forward.protocol,
            target: forward.target.clone(),
            state: forward.state.name(),
            reason: forward.reason.clone(),
            retry_in_s: forward.state.retry_in().map(|wait| wait.as_secs_f64()),
            address: forward.address,
            seconds: forward.publishing.as_secs_f64(),
            bytes: forward.bytes,
            figures: forward.figures.clone(),
        })
    };
    at_doors.chain(status.forwards.iter().map(forward)).collect()
}

fn join_point(join: Join, status: &StreamStatus) -> JoinPoint {
    let settling_frames = join.settling_frames();
    let frame_rate = status.video.as_ref().and_then(|details| details.frame_rate);
    JoinPoint {
        at: match join {
            Join::Idr => "key frame",
            Join::Recovery(_) => "recovery point",
        },
        settling_frames,
        settling_ms: frame_rate.map(|rate| f64::from(settling_frames) * 1e3 / rate.as_f64()),
    }
}

fn source(status: &SourceStatus) -> Source {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let (state, retry_in) = match status.state {
        SourceState::Connecting => ("connecting", None),
        SourceState::Live => ("live", None),
        SourceState::Waiting { retry_in } => ("waiting", retry_in),
    };
    Source {
        url: status.url.clone(),
        state,
        error: status.error.clone(),
        retry_in_ms: retry_in.map(millis),
        reconnects: status.reconnects(),
        failures: status.failures,
        redirects: status.redirects,
        metacube: status.metacube,
        garbage_bytes: status.garbage_bytes,
        encoder_delay_ms: status.encoder_delay.map(millis),
        datagrams: status.datagrams.map(|(received, _)| received),
        datagrams_dropped: status.datagrams.map(|(_, dropped)| dropped),
        rtp: status.rtp.map(rtp),
    }
}

fn output(status: &OutputStatus) -> OutputReport {
    OutputReport {
        url: status.url.clone(),
        sending: status.sending,
        error: status.error.clone(),
        datagrams: status.datagrams,
        bytes: status.bytes,
        errors: status.errors,
        moved_forward: status.moved_forward,
    }
}

fn rtp(counts: RtpCounts) -> Rtp {
    let RtpCounts { received, lost, reordered, late, duplicate, refused, restarts, damaged_units } = counts;
    Rtp { received, lost, reordered, late, duplicate, refused, restarts, damaged_units }
}

fn codecs(status: &StreamStatus) -> Vec<Codec> {
    let describe = |stream: &glassline_media::container::ts::ElementaryStream| match stream.codec {
        Some(codec) if codec.is_video() => {
            // What is read of parameter sets is that of H.264, H.265 and AV1.
            let details = status.video.as_ref().filter(|_| codec != glassline_media::Codec::Mpeg2Video);
            Codec::Video {
                name: codec.name().into(),
                codec_string: details.map(|details| details.codec_string.clone()),
                width: details.map(|details| details.size.width),
                height: details.map(|details| details.size.height),
                frame_rate: details.and_then(|details| Some(details.frame_rate?.as_f64())),
            }
        }
        Some(codec) => Codec::Audio { name: codec.name().into() },
        None => Codec::Other {
            stream_type: Some(stream.stream_type),
            name: stream.format_name().map(str::to_owned),
        },
    };
    status.streams.iter().map(describe).chain(status.carried.iter().map(carried)).collect()
}

fn carried(track: &Track) -> Codec {
    let name = track.codec.clone();
    match track.kind {
        Kind::Video => Codec::Video {
            name,
            codec_string: track.codec_string.clone(),
            width: track.size.map(|size| size.width),
            height: track.size.map(|size| size.height),
            frame_rate: None,
        },
        Kind::Audio => Codec::Audio { name },
        Kind::Other => Codec::Other { stream_type: None, name: Some(name) },
    }
}
