//! A live MPEG-TS stream as an endless file.
//!
//! [`Stream`] takes a publisher's bytes as they come, says which of them (always whole packets) to append to
//! the file, and remembers where a viewer can enter it: at key frames, with PAT and PMT in front. It also says
//! how much of the past is kept, and so who has fallen behind.
//!
//! ```text
//!          tail          entry        entry            head
//!  ──dropped─┼─────────────┼────────────┼────────────────┤
//!            ◄── backlog ─────────────────────────────────►
//! ```
//! Offsets count bytes of the file from the stream's very first packet on and only grow; each is a multiple of
//! 188. The publisher may go and another come: the file goes on, and the first packet on each PID is preceded
//! by one that sets `discontinuity_indicator`, so that no viewer takes the seam for loss.

mod details;
mod flush;
mod pace;
mod past;

pub use details::VideoDetails;
pub use flush::FlushPolicy;
pub use pace::Pacing;
pub use past::Backlog;

use crate::stream::details::DetailsProbe;
use crate::stream::flush::{Burst, Flush};
use crate::stream::pace::Pace;
use crate::stream::past::Past;
use glassline_media::Time;
use glassline_media::container::ts::{
    Aligner, EntryPoint, NULL_PID, PACKET_BYTES, Packet, Program, Scanner, discontinuity_packet,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// How a stream is kept and sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How much of its past is kept.
    pub backlog: Backlog,
    /// When new bytes leave.
    pub flush: FlushPolicy,
    /// How fast a viewer's connection may send.
    pub pacing: Pacing,
}

/// The span over which bit rates are told.
const RATE_SPAN: Duration = Duration::from_secs(2);

/// A place where a viewer can begin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Offset of the first packet to send.
    pub offset: u64,
    point: EntryPoint,
}

impl Entry {
    /// What to send in front of the file's bytes: PAT and PMT. For a viewer that is `moved` from another place
    /// of the same stream also packets that announce the discontinuity on each PID.
    pub fn prelude(&self, moved: bool) -> Vec<u8> {
        self.point.prelude(moved)
    }
}

/// What the bytes so far were worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes that the publishers sent.
    pub bytes_in: u64,
    /// Bytes that belonged to no packet and were dropped.
    pub garbage_bytes: u64,
    /// Packets missing or doubled, by their continuity counters.
    pub continuity_errors: u64,
    /// Publishers that have come.
    pub sessions: u64,
}

/// Why a publisher's bytes are refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// No packet in the first bytes, or none any more.
    #[error("found no MPEG-TS packets in {bytes} bytes")]
    NotMpegTs {
        /// Bytes looked at.
        bytes: u64,
    },
}

/// Garbage in a row after which a publisher is refused.
const GARBAGE_LIMIT_BYTES: u64 = 64 << 10;

/// A stream that shows no key frame for this long is entered at any start of a unit: better a picture that
/// needs a moment to become whole than none.
const PATIENCE_FOR_KEY_FRAME: Duration = Duration::from_secs(12);

/// One stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    aligner: Aligner,
    session: Session,
    flush: Flush,
    pace: Pace,
    past: Past,
    head: u64,
    counters: Counters,
    details: Option<VideoDetails>,
}

/// What is known of the present publisher's bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Session {
    scanner: Scanner,
    probe: DetailsProbe,
    unit_offset: u64,
    garbage_at_last_packet: u64,
    errors_before: u64,
    announce_seams: bool,
    began: Time,
}

impl Session {
    fn new(now: Time, announce_seams: bool, errors_before: u64) -> Session {
        Session {
            scanner: Scanner::new(),
            probe: DetailsProbe::default(),
            unit_offset: 0,
            garbage_at_last_packet: 0,
            errors_before,
            announce_seams,
            began: now,
        }
    }
}

impl Stream {
    /// A stream without bytes.
    pub fn new(settings: Settings, now: Time) -> Stream {
        Stream {
            aligner: Aligner::new(),
            session: Session::new(now, false, 0),
            flush: Flush::new(settings.flush),
            pace: Pace::new(settings.pacing),
            past: Past::new(settings.backlog),
            head: 0,
            counters: Counters::default(),
            details: None,
        }
    }

    /// Is kept and sent as `settings` say from now on. To be called where nothing waits to be shown.
    pub fn reconfigure(&mut self, settings: Settings) {
        self.flush.reconfigure(settings.flush);
        self.pace.reconfigure(settings.pacing);
        self.past.reconfigure(settings.backlog);
    }

    /// A publisher begins. What an earlier one left of a packet is forgotten.
    pub fn begin_session(&mut self, now: Time) {
        self.counters.sessions += 1;
        self.aligner = Aligner::new();
        self.session = Session::new(now, self.head > 0, self.counters.continuity_errors);
        self.flush.begin_session();
        self.past.begin_session(now);
    }

    /// Takes a publisher's bytes, in any chop, and calls `append` with what is to be appended to the file, in
    /// order: whole packets, nearly always one borrowed run. Returns whether so much waits that it is to be shown
    /// to viewers now; [`Stream::pause`] and [`Stream::poll_timeout`] tell the other times, by the policy. Refuses
    /// bytes that are no MPEG-TS; what was appended before stays.
    pub fn push(
        &mut self,
        bytes: &[u8],
        now: Time,
        append: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, StreamError> {
        self.counters.bytes_in += bytes.len() as u64;
        let skipped_before = self.aligner.skipped_bytes();
        let head_before = self.head;
        let (mut aligner, mut packets) = (std::mem::take(&mut self.aligner), 0);
        let mut burst = Burst::default();
        aligner.push(bytes, &mut |run| {
            packets += run.len() / PACKET_BYTES;
            self.take_run(run, now, &mut burst, append);
        });
        self.aligner = aligner;
        let has_enough = self.flush.handle_bytes(self.head - head_before, burst, now);
        let skipped = self.aligner.skipped_bytes();
        self.counters.garbage_bytes += skipped - skipped_before;
        self.counters.continuity_errors =
            self.session.errors_before + self.session.scanner.continuity_errors();
        self.past.advance(self.head, now);
        if packets > 0 {
            self.session.garbage_at_last_packet = skipped;
        }
        let garbage = skipped - self.session.garbage_at_last_packet;
        if garbage > GARBAGE_LIMIT_BYTES {
            return Err(StreamError::NotMpegTs { bytes: garbage });
        }
        Ok(has_enough)
    }

    /// The publisher has nothing more for now. Returns whether what was appended is to be shown to viewers.
    pub fn pause(&mut self, now: Time) -> bool {
        self.flush.handle_pause(now)
    }

    /// When what waits is to be shown to viewers, if neither bytes nor a pause come before.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.flush.poll_timeout()
    }

    /// Viewers see all that was appended.
    pub fn flushed(&mut self) {
        self.flush.flushed();
    }

    fn take_run(&mut self, run: &[u8], now: Time, burst: &mut Burst, append: &mut dyn FnMut(&[u8])) {
        let mut appended = 0;
        let (packets, _) = run.as_chunks::<PACKET_BYTES>();
        for (index, packet) in packets.iter().enumerate() {
            let session = &mut self.session;
            let scan = session.scanner.scan(packet);
            if scan.first_of_pid && session.announce_seams {
                append(&run[appended..index * PACKET_BYTES]);
                appended = index * PACKET_BYTES;
                let seam = seam_packet(packet);
                append(&seam);
                self.head += seam.len() as u64;
            }
            burst.video |= scan.video;
            if scan.video_unit_start {
                session.unit_offset = self.head;
                burst.picture_starts = true;
            }
            if let Some(details) = session.probe.look(&scan, packet, session.scanner.program()) {
                self.details = Some(details);
            }
            if let Some(found) = scan.entry {
                let offset = if found.packets_back == 0 { self.head } else { session.unit_offset };
                self.past.add_entry(Entry { offset, point: found.point }, now);
            } else if scan.unit_start
                && self.past.lacks_entry_since(session.began, PATIENCE_FOR_KEY_FRAME, now)
                && let Some(point) = session.scanner.entry_here()
            {
                self.past.add_entry(Entry { offset: self.head, point }, now);
            }
            self.head += PACKET_BYTES as u64;
        }
        append(&run[appended..]);
    }

    /// The offset behind the last byte.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The oldest offset that is kept. A viewer before it has fallen behind and goes on at
    /// [`Stream::newest_entry`].
    pub fn tail(&self) -> u64 {
        self.past.tail()
    }

    /// Where a viewer who comes now begins: the newest key frame, or `None` before the first one.
    pub fn newest_entry(&self) -> Option<&Entry> {
        self.past.newest_entry()
    }

    /// Bytes a second over the last two seconds, in bits.
    pub fn bitrate_bps(&self, now: Time) -> u64 {
        self.past.bitrate_bps(RATE_SPAN, now)
    }

    /// What to pace viewers' connections at from now on, in bits a second; `None` for most calls: then nothing has
    /// changed. Cheap enough to be asked after each push.
    pub fn poll_pace(&mut self, now: Time) -> Option<u64> {
        if !self.pace.is_due(now) {
            return None;
        }
        self.pace.look(self.past.bitrate_bps(pace::RATE_SPAN, now), now)
    }

    /// Time between the last two key frames, by their arrival.
    pub fn key_frame_interval(&self) -> Option<Duration> {
        self.past.entry_interval()
    }

    /// When the newest bytes came.
    pub fn newest_at(&self) -> Option<Time> {
        self.past.newest_at()
    }

    /// What PMT says of the streams inside.
    pub fn program(&self) -> Option<&Program> {
        self.session.scanner.program()
    }

    /// What the video's own headers say.
    pub fn video_details(&self) -> Option<&VideoDetails> {
        self.details.as_ref()
    }

    /// What the bytes so far were worth.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

/// A packet to stand before `packet`, the first of a new publisher on its PID: what follows is not continuous
/// with what went before, and is meant so.
pub fn seam_packet(packet: &[u8; PACKET_BYTES]) -> [u8; PACKET_BYTES] {
    let (pid, continuity) = match Packet::parse(packet) {
        // A packet without payload repeats the counter, one with payload advances it (ISO 13818-1 §2.4.3.3).
        Ok(packet) if packet.has_payload => (packet.pid, packet.continuity.wrapping_sub(1) & 0x0F),
        Ok(packet) => (packet.pid, packet.continuity),
        Err(_) => (NULL_PID, 0),
    };
    discontinuity_packet(pid, continuity)
}

#[cfg(test)]
mod tests;
