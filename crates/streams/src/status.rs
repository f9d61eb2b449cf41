//! What is known of a stream at one moment: for the API, metrics and the page.

use glassline_delivery::packager::LeftOut;
use glassline_delivery::policy::StreamName;
use glassline_delivery::slate;
use glassline_delivery::stream::{Mux, VideoDetails};
use glassline_delivery::telemetry::{Behind, Why};
use glassline_media::bitstream::h264::Join;
use glassline_media::container::tracks::Track;
use glassline_media::container::ts::ElementaryStream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Viewers of this many are counted in each state of [`Why::ALL`].
pub type WhyCounts = [u32; Why::ALL.len()];

/// Where a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceState {
    /// It is being connected to; or datagrams of it have never come.
    Connecting,
    /// It sends.
    Live,
    /// It does not send; [`SourceStatus::error`] says why.
    Waiting {
        /// Until the next attempt; `None` where nothing can be done but wait for datagrams.
        retry_in: Option<Duration>,
    },
}

/// A pulled stream's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    /// Its URL, without user, password and query.
    pub url: String,
    /// Where it is.
    pub state: SourceState,
    /// Why it does not send; `None` while it does, and before the first failure.
    pub error: Option<String>,
    /// Times that it began to send.
    pub sessions: u64,
    /// Attempts that failed and streams that ended.
    pub failures: u64,
    /// Redirects followed.
    pub redirects: u64,
    /// Whether the stream comes in Metacube blocks.
    pub metacube: bool,
    /// Bytes that belonged to no Metacube block.
    pub garbage_bytes: u64,
    /// From the encoder's newest time stamp to its arrival here, by the two machines' wall clocks. `None` where there
    /// are no such stamps, or the clocks do not agree.
    pub encoder_delay: Option<Duration>,
    /// Datagrams received and dropped by the kernel; `None` for other sources.
    pub datagrams: Option<(u64, u64)>,
    /// What became of RTP's packets; `None` for other sources.
    pub rtp: Option<RtpCounts>,
}

/// What became of the packets of a source that sends RTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RtpCounts {
    /// Packets of RTP that came.
    pub received: u64,
    /// Packets that did not come in time.
    pub lost: u64,
    /// Packets that came after a later one, in time.
    pub reordered: u64,
    /// Packets that came after they had been given up; they are among the lost.
    pub late: u64,
    /// Packets that came again.
    pub duplicate: u64,
    /// Datagrams that were no RTP with what was expected, or not of the sender that is listened to.
    pub refused: u64,
    /// Times that the sender began to count anew, or another one came.
    pub restarts: u64,
    /// Pictures and packets of sound that were dropped since a part of them is missing; 0 where MPEG-TS comes.
    #[serde(default)]
    pub damaged_units: u64,
}

impl SourceStatus {
    /// Times that it began to send again.
    pub fn reconnects(&self) -> u64 {
        self.sessions.saturating_sub(1)
    }
}

/// An output of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputStatus {
    /// Where it goes.
    pub url: String,
    /// Whether the stream has begun there, and the last datagrams could be sent.
    pub sending: bool,
    /// Why the last datagrams could not be sent; `None` while they can.
    pub error: Option<String>,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Bytes of the stream sent, without headers.
    pub bytes: u64,
    /// Datagrams that could not be sent, and attempts to open the output that failed.
    pub errors: u64,
    /// Times that it fell behind the backlog and went on at the newest key frame.
    pub moved_forward: u64,
}

/// What a peer at a door of another protocol does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerRole {
    /// It sends the stream.
    Publish,
    /// It gets the stream.
    Watch,
}

/// A peer at a door of another protocol than HTTP: a publisher or a viewer of one stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerStatus {
    /// What it does.
    pub role: PeerRole,
    /// Its protocol, as in an address: `srt`, `rtmp`, `rtsp`.
    pub protocol: &'static str,
    /// Its address.
    pub address: SocketAddr,
    /// Since it was let in, in seconds.
    pub seconds: f64,
    /// Bytes of the stream that it has sent or was sent.
    pub bytes: u64,
    /// Further figures of its protocol, each by a name that ends with its unit.
    pub figures: Vec<PeerFigure>,
}

/// A figure of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PeerFigure {
    /// What it is, as in `rtt_ms`.
    pub name: &'static str,
    /// The same in words for people, as in `Round trip`.
    pub words: &'static str,
    /// The figure.
    pub value: f64,
}

/// Where a forward is: a stream that is published to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardState {
    /// The stream has no publisher, so that nothing is sent.
    Idle,
    /// It is being connected to.
    Connecting,
    /// The service has the stream.
    Publishing,
    /// There was no connection, or it has ended; the next attempt comes after this time.
    Waiting {
        /// Until then.
        retry_in: Duration,
    },
    /// The service does not take the stream, or not its codecs; it is tried again after this time.
    Refused {
        /// Until then.
        retry_in: Duration,
    },
}

impl ForwardState {
    /// In one word.
    pub const fn name(&self) -> &'static str {
        match self {
            ForwardState::Idle => "idle",
            ForwardState::Connecting => "connecting",
            ForwardState::Publishing => "publishing",
            ForwardState::Waiting { .. } => "waiting",
            ForwardState::Refused { .. } => "refused",
        }
    }

    /// Until the next attempt, where one is waited for.
    pub const fn retry_in(&self) -> Option<Duration> {
        match self {
            ForwardState::Waiting { retry_in } | ForwardState::Refused { retry_in } => Some(*retry_in),
            ForwardState::Idle | ForwardState::Connecting | ForwardState::Publishing => None,
        }
    }
}

/// A forward of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardStatus {
    /// Its protocol, as in an address: `rtmp`, `rtmps`.
    pub protocol: &'static str,
    /// Where it goes, without the stream key.
    pub target: String,
    /// Where it is.
    pub state: ForwardState,
    /// Why the service does not have the stream; `None` while it does, and before the first failure.
    pub reason: Option<String>,
    /// The service's address, while there is a connection.
    pub address: Option<SocketAddr>,
    /// Since the stream is published there; zero where it is not.
    pub publishing: Duration,
    /// Bytes that the connections have taken, over all of them.
    pub bytes: u64,
    /// Further figures, each by a name that ends with its unit.
    pub figures: Vec<PeerFigure>,
}

/// A figure of what runs beside the server, for its metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCount {
    /// Its name, without the program's in front: `rtmp_connections_total`.
    pub name: &'static str,
    /// Whether it may become less; otherwise it counts up.
    pub is_gauge: bool,
    /// What it is, as a sentence.
    pub help: &'static str,
    /// The figure.
    pub value: u64,
}

/// Where a protocol other than HTTP is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Door {
    /// The protocol, as in an address: `rtmp`.
    pub protocol: &'static str,
    /// Its port.
    pub port: u16,
}

/// Ways in and out of streams that run beside the server that has them: it asks for their figures, and knows nothing else of them.
pub trait Companion: Send + Sync {
    /// The sources, by the streams that they are sources of.
    fn sources(&self) -> BTreeMap<StreamName, SourceStatus>;

    /// The outputs of the stream `name`.
    fn outputs(&self, name: &StreamName) -> Vec<OutputStatus>;

    /// The peers at doors that publish or watch the stream `name`.
    fn peers(&self, _name: &StreamName) -> Vec<PeerStatus> {
        Vec::new()
    }

    /// The services that the stream `name` is published to.
    fn forwards(&self, _name: &StreamName) -> Vec<ForwardStatus> {
        Vec::new()
    }

    /// Where clients connect to; nowhere where it does not run.
    fn doors(&self) -> Vec<Door> {
        Vec::new()
    }

    /// Figures of all of it, for metrics; none where it does not run.
    fn counts(&self) -> Vec<ServiceCount> {
        Vec::new()
    }
}

/// One stream.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// Its name.
    pub name: StreamName,
    /// What its bytes are.
    pub mux: Mux,
    /// Whether a publisher is there.
    pub live: bool,
    /// Bits a second, over the last two seconds.
    pub bitrate_bps: u64,
    /// Viewers now.
    pub viewers: usize,
    /// Viewers ever.
    pub viewers_joined: u64,
    /// What PMT lists; nothing of other muxes than MPEG-TS.
    pub streams: Vec<ElementaryStream>,
    /// Of these, what LL-HLS and LL-DASH are without.
    pub left_out: Vec<LeftOut>,
    /// Units of metadata (KLV, SCTE 35) that stand in no chunk of LL-HLS and LL-DASH; `None` of what is not packaged.
    pub dropped_events: Option<u64>,
    /// What the video's headers say.
    pub video: Option<VideoDetails>,
    /// What the header of another mux says of the tracks behind it.
    pub carried: Vec<Track>,
    /// Since the present publisher came.
    pub uptime: Duration,
    /// Since the first publisher came.
    pub age: Duration,
    /// Since the newest byte came.
    pub newest_byte_age: Option<Duration>,
    /// Between the last two places to join: key frames or recovery points.
    pub key_frame_interval: Option<Duration>,
    /// How decoding begins at the newest of them, where the video shows it.
    pub join: Option<Join>,
    /// Bytes between the oldest kept offset and the newest.
    pub backlog_bytes: u64,
    /// Bytes of memory that the spool may take.
    pub spool_bytes: u64,
    /// Bytes that publishers sent.
    pub bytes_in: u64,
    /// Bytes of the stream that viewers were sent.
    pub bytes_out: u64,
    /// Bytes from publishers that belonged to no packet.
    pub garbage_bytes: u64,
    /// Continuity errors in what publishers sent.
    pub continuity_errors: u64,
    /// Publishers that have come.
    pub sessions: u64,
    /// Times that a viewer fell behind the backlog and was moved to the newest key frame.
    pub moved_forward: u64,
    /// Viewers that fell behind the backlog and were dropped, as their stream's rules say.
    pub dropped_behind: u64,
    /// Viewers that were dropped because their sockets took nothing.
    pub stalled: u64,
    /// Viewers that fell so far behind that the rest of a record was gone, and were ended.
    pub cut_off: u64,
    /// TCP segments that viewers were sent again, of those connections that were looked at.
    pub retransmitted: u64,
    /// Bursts that were longer than a viewer's path had shown to take, since a worker had no time for pacing.
    pub unpaced: u64,
    /// What viewers' connections are paced at, bits a second; `None` where they are not.
    pub pace_bps: Option<u64>,
    /// Viewers by what keeps them from being live, in the order of `Why::ALL`, a second ago at most.
    pub why: WhyCounts,
    /// How far they were behind live then.
    pub behind: Behind,
    /// The same of each second since the stream began, added up.
    pub behind_ever: Behind,
    /// What is shown in its publisher's place; `None` where nothing is configured for that.
    pub slate: Option<slate::Status>,
    /// Where a pulled stream comes from; `None` for one that comes from a publisher.
    pub source: Option<SourceStatus>,
    /// Where it is sent to.
    pub outputs: Vec<OutputStatus>,
    /// Its publisher and viewers at doors of other protocols than HTTP.
    pub peers: Vec<PeerStatus>,
    /// The services that it is published to.
    pub forwards: Vec<ForwardStatus>,
}

impl StreamStatus {
    /// A pulled stream that is not there.
    pub fn absent(name: &StreamName, mux: Mux, source: Option<SourceStatus>) -> StreamStatus {
        StreamStatus {
            name: name.clone(),
            mux,
            live: false,
            bitrate_bps: 0,
            viewers: 0,
            viewers_joined: 0,
            streams: Vec::new(),
            left_out: Vec::new(),
            dropped_events: None,
            video: None,
            carried: Vec::new(),
            uptime: Duration::ZERO,
            age: Duration::ZERO,
            newest_byte_age: None,
            key_frame_interval: None,
            join: None,
            backlog_bytes: 0,
            spool_bytes: 0,
            bytes_in: 0,
            bytes_out: 0,
            garbage_bytes: 0,
            continuity_errors: 0,
            sessions: 0,
            moved_forward: 0,
            dropped_behind: 0,
            stalled: 0,
            cut_off: 0,
            retransmitted: 0,
            unpaced: 0,
            pace_bps: None,
            why: WhyCounts::default(),
            behind: Behind::default(),
            behind_ever: Behind::default(),
            slate: None,
            source,
            outputs: Vec::new(),
            peers: Vec::new(),
            forwards: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_streams::name;

    fn source(sessions: u64) -> SourceStatus {
        SourceStatus {
            url: "http://origin/live/a.ts".to_owned(),
            state: SourceState::Connecting,
            error: None,
            sessions,
            failures: 0,
            redirects: 0,
            metacube: false,
            garbage_bytes: 0,
            encoder_delay: None,
            datagrams: None,
            rtp: None,
        }
    }

    #[test]
    fn a_source_has_reconnected_each_time_but_the_first() {
        let reconnects = [0, 1, 2, 9].map(|sessions| source(sessions).reconnects());
        assert_eq!(reconnects, [0, 0, 1, 8]);
    }

    #[test]
    fn a_pulled_stream_that_is_not_there_has_a_source_and_nothing_else() {
        let absent = StreamStatus::absent(&name("a"), Mux::Flv, Some(source(3)));
        assert_eq!((absent.name, absent.mux, absent.live), (name("a"), Mux::Flv, false));
        assert_eq!((absent.viewers, absent.bytes_in, absent.sessions), (0, 0, 0));
        assert_eq!(absent.source.map(|source| source.sessions), Some(3));
    }
}
