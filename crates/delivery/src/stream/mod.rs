//! A live stream as an endless file.
//!
//! [`Stream`] takes a publisher's bytes as they come, says which of them to append to the file, and remembers where
//! a viewer can enter it: at key frames and recovery points, with what a decoder needs first in front. It also says how much of the past
//! is kept, and so which viewers have fallen behind.
//!
//! ```text
//!          tail          entry        entry            head
//!  ──dropped─┼─────────────┼────────────┼────────────────┤
//!            ◄── backlog ─────────────────────────────────►
//! ```
//! Offsets count bytes of the file from the stream's very first one on and only grow. The publisher may go and
//! another come: the file goes on.
//! * **MPEG-TS** is understood. Only whole packets are appended; PAT and PMT stand in front of an entry; the first
//!   packet of another publisher on each PID is preceded by one that sets `discontinuity_indicator`, so that no viewer
//!   takes the seam for loss.
//! * **Other muxes** are carried as they are. Their header stands in front of an entry; where another publisher brings
//!   another one, viewers have to begin anew.

mod blocks;
mod carried;
mod details;
mod entry;
mod file_end;
mod flush;
mod mux;
mod pace;
mod past;
mod pictures;
mod reached;
mod restamp;
mod seams;
mod ts;

pub use blocks::Block;
pub use details::VideoDetails;
pub use entry::Entry;
pub use file_end::{Counters, StreamError};
pub use flush::FlushPolicy;
pub use mux::Mux;
pub use pace::Pacing;
pub use past::{Backlog, OffsetTime, Prebuffer};
pub use pictures::Moment;
pub use reached::{LastProgram, Reached, TrackEnd};
pub use restamp::Restamp;
pub use seams::Seams;

use crate::stream::carried::Records;
use crate::stream::file_end::FileEnd;
use crate::stream::flush::{Burst, Flush};
use crate::stream::pace::{LOOK_INTERVAL, Pace};
use crate::stream::past::Past;
use crate::stream::pictures::PictureLog;
use crate::stream::ts::Packets;
use crate::telemetry::stages::{PassedPicture, RelayFigures};
use glassline_media::Time;
use glassline_media::bitstream::h264::Join;
use glassline_media::container::tracks::{Track, tracks};
use glassline_media::container::ts::{Aligner, PACKET_BYTES, Program, Scanner};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How a stream is kept and sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How much of its past is kept.
    pub backlog: Backlog,
    /// When new bytes leave.
    pub flush: FlushPolicy,
    /// How fast a viewer's connection may send.
    pub pacing: Pacing,
    /// How far back a viewer begins that asks for no other distance.
    pub prebuffer: Prebuffer,
}

/// The span over which bit rates are told.
const RATE_SPAN: Duration = Duration::from_secs(2);

/// One stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    mux: Mux,
    intake: Intake,
    flush: Flush,
    pace: Pace,
    past: Past,
    prebuffer: Prebuffer,
    head: u64,
    counters: Counters,
    #[serde(skip)]
    held_since: Option<Time>,
}

/// What a publisher's bytes go through.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Intake {
    Packets(Box<Packets>),
    Records(Box<Records>),
}

impl Stream {
    /// A stream without bytes.
    pub fn new(mux: Mux, settings: Settings, now: Time) -> Stream {
        let intake = match mux {
            Mux::MpegTs => Intake::Packets(Box::new(Packets::new(now))),
            mux => Intake::Records(Box::new(Records::new(mux, now))),
        };
        Stream {
            mux,
            intake,
            flush: Flush::new(settings.flush),
            pace: Pace::new(settings.pacing),
            past: Past::new(settings.backlog, mux.record_bytes()),
            prebuffer: settings.prebuffer,
            head: 0,
            counters: Counters::default(),
            held_since: None,
        }
    }

    /// Is kept and sent as `settings` say from now on. To be called where nothing waits to be shown.
    pub fn reconfigure(&mut self, settings: Settings) {
        self.flush.reconfigure(settings.flush);
        self.pace.reconfigure(settings.pacing);
        self.past.reconfigure(settings.backlog);
        self.prebuffer = settings.prebuffer;
    }

    /// When its bytes leave.
    pub fn flush_policy(&self) -> FlushPolicy {
        self.flush.policy()
    }

    /// How viewers' connections are paced.
    pub fn pacing(&self) -> Pacing {
        self.pace.pacing()
    }

    /// The same after another process has handed it over: gives its entries what all of them share.
    pub fn restored(mut self) -> Stream {
        if let Intake::Records(records) = &self.intake {
            let (header, since) = records.header();
            self.past.restore_headers(header, since);
        }
        self
    }

    /// What its bytes are.
    pub fn mux(&self) -> Mux {
        self.mux
    }

    /// A publisher begins. What an earlier one left of a packet is forgotten.
    pub fn begin_session(&mut self, now: Time) {
        self.counters.sessions += 1;
        self.begin_part(now);
    }

    /// A publisher has come and is not shown yet: it is counted.
    pub fn count_session(&mut self) {
        self.counters.sessions += 1;
    }

    /// What comes next is not continuous with what came before, as at [`Stream::begin_session`], but of no publisher that was not
    /// counted: a slate begins, or ends.
    pub fn begin_part(&mut self, now: Time) {
        match &mut self.intake {
            Intake::Packets(packets) => {
                packets.begin_session(self.head, self.counters.continuity_errors, now);
            }
            Intake::Records(records) => records.begin_session(now),
        }
        self.flush.begin_session();
        self.past.begin_session(now);
    }

    /// A publisher goes on with what it sent before, in another request: nothing has ended between. Where it has not said so it
    /// only `may`, and its packets show it: if their counters do not follow, it begins as by [`Stream::begin_session`]. Returns
    /// whether it can be: of other muxes than MPEG-TS nothing shows it.
    pub fn return_session(&mut self, may: bool) -> bool {
        match &mut self.intake {
            Intake::Packets(packets) if may => packets.return_session(),
            Intake::Records(_) if may => return false,
            _ => {}
        }
        true
    }

    /// What is pushed from now on came at this time, and was held back by the transport that brought it; `None`: it was not.
    pub fn set_held_since(&mut self, came: Option<Time>) {
        self.held_since = came;
    }

    /// Takes a publisher's bytes, in any chop, and calls `append` with those that belong in the file, in
    /// order; nearly always one borrowed run, and of MPEG-TS whole packets. Returns whether so much waits that the caller has
    /// to show it to viewers now; [`Stream::pause`] and [`Stream::poll_timeout`] tell the other times, by the policy.
    /// Refuses bytes that are not the stream's mux; what was appended before stays.
    pub fn push(
        &mut self,
        bytes: &[u8],
        now: Time,
        append: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, StreamError> {
        self.count_bytes(bytes.len());
        self.push_uncounted(bytes, now, append)
    }

    /// What was pushed behind [`Stream::return_session`] and has shown that it does not go on with what came before. Where stamps
    /// are followed ([`Stream::follow_stamps`]) it is not in the stream: the caller takes it after each push.
    pub fn take_foreign(&mut self) -> Option<Vec<u8>> {
        match &mut self.intake {
            Intake::Packets(packets) => packets.take_foreign(),
            Intake::Records(_) => None,
        }
    }

    /// What reads the publisher's packets on where the stream has come to; `None` of other muxes than MPEG-TS.
    pub fn reading(&self) -> Option<(Aligner, Scanner)> {
        match &self.intake {
            Intake::Packets(packets) => Some(packets.reading()),
            Intake::Records(_) => None,
        }
    }

    /// So many bytes have come from a publisher.
    pub fn count_bytes(&mut self, bytes: usize) {
        self.counters.bytes_in += bytes as u64;
    }

    /// So many bytes of those that have come belonged to no packet.
    pub fn count_garbage(&mut self, bytes: u64) {
        self.counters.garbage_bytes = self.counters.garbage_bytes.saturating_add(bytes);
    }

    /// [`Stream::push`] of bytes that are counted already, or that no publisher sent.
    pub fn push_uncounted(
        &mut self,
        bytes: &[u8],
        now: Time,
        append: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, StreamError> {
        let head_before = self.head;
        let (burst, past) = (Burst::default(), &mut self.past);
        let mut file =
            FileEnd { head: &mut self.head, past, burst, now, held_since: self.held_since, append };
        let pushed = match &mut self.intake {
            Intake::Packets(packets) => packets.push(bytes, &mut file, &mut self.counters),
            Intake::Records(records) => records.push(bytes, &mut file),
        };
        let burst = file.burst;
        if let Intake::Packets(packets) = &mut self.intake
            && packets.take_began_anew()
        {
            self.counters.sessions += 1;
            self.flush.begin_session();
        }
        let has_enough = self.flush.handle_bytes(self.head - head_before, burst, now);
        self.past.advance(self.head, now);
        pushed.map(|()| has_enough)
    }

    /// A block of `size` bytes begins in what the publisher sends: what its flags say of a stream that is
    /// [`Mux::Raw`]. Others say it themselves.
    pub fn begin_block(&mut self, block: Block, size: u32, now: Time) -> Result<(), StreamError> {
        let Intake::Records(records) = &mut self.intake else { return Ok(()) };
        let (burst, past, mux) = (Burst::default(), &mut self.past, self.mux);
        let mut file =
            FileEnd { head: &mut self.head, past, burst, now, held_since: None, append: &mut |_| {} };
        let begun = records.begin_block(block, size, &mut file);
        begun.map_err(|error| StreamError::Carried { mux, error })
    }

    /// The publisher has nothing more for now. Returns whether the caller has to show viewers what was appended.
    pub fn pause(&mut self, now: Time) -> bool {
        self.flush.handle_pause(now)
    }

    /// When the caller has to show viewers what waits; `None` while nothing waits. Changes with what is appended, with
    /// [`Stream::pause`] and whenever viewers are shown what waited.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.flush.poll_timeout()
    }

    /// Viewers see all that was appended.
    pub fn flushed(&mut self) {
        self.flush.flushed();
    }

    fn picture_log(&self) -> Option<&PictureLog> {
        match &self.intake {
            Intake::Packets(packets) => Some(packets.pictures()),
            Intake::Records(_) => None,
        }
    }

    fn picture_log_mut(&mut self) -> Option<&mut PictureLog> {
        match &mut self.intake {
            Intake::Packets(packets) => Some(packets.pictures_mut()),
            Intake::Records(_) => None,
        }
    }

    /// Whether the caller has to tell [`Stream::pictures_flushed`] when viewers see what was appended: not where no picture says
    /// when it was captured, so that it costs nothing there.
    pub fn wants_moment(&self) -> bool {
        self.picture_log().is_some_and(PictureLog::wants_flush)
    }

    /// Viewers see all that was appended from this moment on.
    pub fn pictures_flushed(&mut self, moment: Moment) {
        if let Some(log) = self.picture_log_mut() {
            log.flushed(moment);
        }
    }

    /// The offset that a viewer has to have been given for [`Stream::pictures_sent`] to tell something new. Changes with
    /// both of these calls; `u64::MAX` where nothing is waited for.
    pub fn unsent_end(&self) -> u64 {
        self.picture_log().map_or(u64::MAX, PictureLog::unsent_end)
    }

    /// A viewer that entered at the offset `from` has been given all in front of `to`.
    pub fn pictures_sent(&mut self, from: u64, to: u64, now: Time) {
        if let Some(log) = self.picture_log_mut() {
            log.sent(from, to, now);
        }
    }

    /// The pictures of the last ten seconds that say when they were captured, in the order in which they came: 1,200 at most,
    /// each once the next one has begun. Of MPEG-TS alone.
    pub fn passed_pictures(&mut self, now: Time) -> impl Iterator<Item = &PassedPicture> {
        self.picture_log_mut().into_iter().flat_map(move |log| log.passed(now))
    }

    /// What the stages of all pictures add up to; `None` of other muxes than MPEG-TS.
    pub fn relay_figures(&self) -> Option<&RelayFigures> {
        self.picture_log().map(PictureLog::figures)
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

    /// Where a viewer that comes now begins: the newest key frame or recovery point, whichever came last, or `None`
    /// before the first one.
    pub fn newest_entry(&self) -> Option<&Entry> {
        self.past.newest_entry()
    }

    /// Where a viewer that comes at `now` begins: at the newest entry that is as far back as `prebuffer` says (else the
    /// stream's own), or at the oldest one; `None` before the first.
    pub fn entry_to_join(&self, prebuffer: Option<Prebuffer>, now: Time) -> Option<&Entry> {
        self.past.entry_back(prebuffer.unwrap_or(self.prebuffer), now)
    }

    /// What a decoder needs in front of the bytes from `offset` on, where decoding can begin; `None` where nothing of that time
    /// is kept.
    pub fn prelude_at(&self, offset: u64) -> Option<Vec<u8>> {
        self.past.entry_at(offset).map(|entry| entry.prelude(false))
    }

    /// Where the record ends that the byte at `offset` is in, or as far as it has come; `offset` itself where one
    /// begins there. A viewer may leave the stream at a record's end alone.
    pub fn record_end(&self, offset: u64) -> u64 {
        match &self.intake {
            Intake::Packets(_) => offset.next_multiple_of(PACKET_BYTES as u64),
            Intake::Records(records) => records.record_end(offset, self.head),
        }
    }

    /// The newest offset from which on viewers need another header than before; 0 where all need the same.
    pub fn newest_seam(&self) -> u64 {
        match &self.intake {
            Intake::Packets(_) => 0,
            Intake::Records(records) => records.newest_seam(),
        }
    }

    /// Where a viewer's stream ends that entered at `offset`, if another header is needed somewhere behind it.
    pub fn seam_behind(&self, offset: u64) -> Option<u64> {
        match &self.intake {
            Intake::Packets(_) => None,
            Intake::Records(records) => records.seam_behind(offset),
        }
    }

    /// Bytes a second over the last two seconds, in bits.
    pub fn bitrate_bps(&self, now: Time) -> u64 {
        self.past.bitrate_bps(RATE_SPAN, now)
    }

    /// What to pace viewers' connections at from now on, in bits a second; `None` for most calls: then nothing has
    /// changed. Cheap enough to be asked after each push.
    pub fn poll_pace(&mut self, now: Time) -> Option<u64> {
        // The first bytes of a key frame tell no rate: by them a stream's first viewers would be held to a fraction of it.
        let tells_nothing =
            matches!(self.pace.pacing(), Pacing::Factor(_)) && self.past.session_age(now) < LOOK_INTERVAL;
        if !self.pace.is_due(now) || tells_nothing {
            return None;
        }
        self.pace.look(self.past.bitrate_bps(pace::RATE_SPAN, now), now)
    }

    /// Time between the last two key frames or recovery points, by their arrival.
    pub fn key_frame_interval(&self) -> Option<Duration> {
        self.past.entry_interval()
    }

    /// When which offset was reached, over the backlog's time: the oldest first and the newest last, some 50 ms apart.
    pub fn marks(&self) -> impl Iterator<Item = OffsetTime> {
        self.past.marks()
    }

    /// When the newest bytes came.
    pub fn newest_at(&self) -> Option<Time> {
        self.past.newest_at()
    }

    /// What PMT says of the streams inside; `None` of other muxes.
    pub fn program(&self) -> Option<&Program> {
        match &self.intake {
            Intake::Packets(packets) => packets.program(),
            Intake::Records(_) => None,
        }
    }

    /// How decoding begins at the newest entries: at IDR pictures, or at recovery points, from which on pictures are
    /// right after a while. `None` before the first, of other muxes than MPEG-TS, and where the container announces
    /// what the video does not show.
    pub fn join(&self) -> Option<Join> {
        match &self.intake {
            Intake::Packets(packets) => packets.join(),
            Intake::Records(_) => None,
        }
    }

    /// What the video's own headers say; `None` of other muxes than MPEG-TS.
    pub fn video_details(&self) -> Option<&VideoDetails> {
        match &self.intake {
            Intake::Packets(packets) => packets.video_details(),
            Intake::Records(_) => None,
        }
    }

    /// What the newest header says of the tracks behind it, where a mux is only carried; of others nothing. Costs a walk
    /// over the header.
    pub fn carried_tracks(&self) -> Vec<Track> {
        match (&self.intake, self.mux().container()) {
            (Intake::Records(records), Some(container)) => tracks(container, records.header().0),
            _ => Vec::new(),
        }
    }

    /// Whether [`Stream::reached`] is followed from here on. Of other muxes than MPEG-TS it never is.
    pub fn follow_stamps(&mut self, follows: bool) {
        if let Intake::Packets(packets) = &mut self.intake {
            packets.follow_stamps(follows);
        }
    }

    /// How far it has come by its own stamps, where that is followed.
    pub fn reached(&self) -> Option<&Reached> {
        match &self.intake {
            Intake::Packets(packets) => packets.reached(),
            Intake::Records(_) => None,
        }
    }

    /// The stamps of the present session are moved so from here on.
    pub fn restamp(&mut self, restamp: Restamp) {
        if let Intake::Packets(packets) = &mut self.intake {
            packets.restamp(restamp);
        }
    }

    /// What the bytes so far were worth.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod carried_tests;
#[cfg(test)]
mod tests;
