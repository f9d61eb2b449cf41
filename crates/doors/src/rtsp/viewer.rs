//! A viewer's stream: bytes of the stream become access units of the tracks that it was offered.
//!
//! ```text
//! DESCRIBE: Attendance::read ─► Demuxer ─► first units: what is offered; then nothing is read until PLAY
//! PLAY:     Attendance::rejoin, read ─► Demuxer ─► units from the newest key frame on ─► sent
//! ```
//! A client that has not played yet, or pauses, holds no units: anybody may ask for a description.

use crate::entrance::Attendance;
use glassline_media::container::ts::{Demuxer, Event, Program};
use glassline_media::{AccessUnit, Codec, Time, Utc};
use glassline_streams::Read;
use glassline_transport::rtp::session::capture_times::CaptureTimes;
use glassline_transport::rtp::session::offer::OfferedTrack;
use glassline_transport::rtp::session::program::wanted_tracks;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// How long the first unit of each track is waited for.
const OFFER_TIME: Duration = Duration::from_secs(5);
/// Bytes that go out at once where the beginning is caught up with in datagrams; a receiver's socket has room for more.
const BURST_BYTES: u64 = 64 << 10;
/// How much faster than the stream the rest of the beginning goes out.
const CATCH_UP_FACTOR: u64 = 4;
/// Bits a second of it at least.
const CATCH_UP_MIN_BPS: u64 = 8_000_000;
/// How long that takes at most.
const CATCH_UP_TIME: Duration = Duration::from_secs(10);
/// Bytes of a read meanwhile.
const CATCH_UP_READ_BYTES: usize = 16 << 10;

/// What a look at the stream has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// There is no more now.
    Pending,
    /// There is more to read.
    More,
    /// The stream is over, or has other tracks than those that were offered.
    Ended,
}

/// What is behind the newest key frame goes out in datagrams with time between them: all at once is more than the receiver's socket
/// and the way there have room for.
#[derive(Clone, Copy, Debug)]
struct CatchUp {
    began: Time,
    bytes: u64,
    bps: u64,
}

impl CatchUp {
    /// When the next bytes may go out.
    fn due(&self) -> Time {
        let nanos =
            u128::from(self.bytes.saturating_sub(BURST_BYTES)) * 8_000_000_000 / u128::from(self.bps.max(1));
        self.began + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(CATCH_UP_TIME)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Viewer {
    attendance: Attendance,
    demuxer: Demuxer,
    program: Option<Program>,
    deadline: Time,
    /// The tracks with their PIDs: a program may have several of one codec.
    offered: Vec<(u16, OfferedTrack)>,
    is_offered: bool,
    /// The client plays: units go out as they come, and nothing of them is left out.
    plays: bool,
    /// Units that were read, and not sent yet.
    units: VecDeque<(usize, AccessUnit)>,
    /// Where datagrams have begun to go out, until all that was there is sent.
    catch_up: Option<CatchUp>,
    /// Nothing was read since PLAY: the stream calls for nothing that was there before.
    is_fresh: bool,
    times: CaptureTimes,
}

impl Viewer {
    pub(super) fn new(attendance: Attendance, now: Time) -> Viewer {
        Viewer {
            attendance,
            demuxer: Demuxer::new(),
            program: None,
            deadline: now + OFFER_TIME,
            offered: Vec::new(),
            is_offered: false,
            plays: false,
            units: VecDeque::new(),
            catch_up: None,
            is_fresh: false,
            times: CaptureTimes::default(),
        }
    }

    pub(super) fn name(&self) -> String {
        self.attendance.name().to_string()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.attendance.bytes()
    }

    /// Until when the offer waits for tracks, or datagrams for the time that they may go out.
    pub(super) fn poll_timeout(&self) -> Time {
        match &self.catch_up {
            Some(catch_up) => catch_up.due(),
            None if self.is_offered => Time::NEVER,
            None => self.deadline,
        }
    }

    /// Whether it reads at `now`: tracks for the offer, or what is played.
    pub(super) fn may_read(&self, now: Time) -> bool {
        let is_due = self.catch_up.is_none_or(|catch_up| now >= catch_up.due());
        (!self.is_offered || self.plays) && is_due
    }

    /// Whether it has to read though the stream has no news.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// What is offered, once: where all tracks of the program have shown what they are, or time is up. Empty: nothing can be.
    pub(super) fn offer(&mut self, now: Time) -> Option<Vec<OfferedTrack>> {
        let wanted = self.program.as_ref().map_or(usize::MAX, wanted_tracks);
        if self.is_offered || (self.offered.len() < wanted && now < self.deadline) {
            return None;
        }
        self.is_offered = true;
        self.forget();
        Some(self.offered.iter().map(|(_, track)| track.clone()).collect())
    }

    /// What was read is of a place that was left.
    fn forget(&mut self) {
        (self.demuxer, self.catch_up, self.times) = (Demuxer::new(), None, CaptureTimes::default());
        self.units = VecDeque::new();
    }

    /// Reads once.
    pub(super) fn read(&mut self, scratch: &mut [u8]) -> io::Result<Look> {
        self.is_fresh = false;
        let room = if self.catch_up.is_some() { CATCH_UP_READ_BYTES } else { scratch.len() };
        let room = room.min(scratch.len());
        let scratch = &mut scratch[..room];
        match self.attendance.read(scratch)? {
            Read::Entered { prelude, .. } => {
                // What follows is another place of the stream.
                self.demuxer = Demuxer::new();
                self.demuxer.push(&prelude);
            }
            Read::Bytes(count) => self.demuxer.push(&scratch[..count]),
            Read::FellBehind => {}
            Read::Pending => {
                self.catch_up = None;
                return Ok(Look::Pending);
            }
            Read::Ended => return Ok(Look::Ended),
        }
        while let Some(event) = self.demuxer.poll() {
            match event {
                Event::Program(program) if !follow(&mut self.offered, &program) && self.is_offered => {
                    return Ok(Look::Ended);
                }
                Event::Program(program) => self.program = Some(program),
                Event::AccessUnit { pid, unit, .. } => self.take(pid, unit),
                Event::Data { .. } | Event::Pcr { .. } => {}
            }
        }
        Ok(Look::More)
    }

    fn take(&mut self, pid: u16, unit: AccessUnit) {
        let place = place_of(&mut self.offered, self.is_offered, pid, &unit);
        if let Some(place) = place.filter(|_| self.plays) {
            if let Some(catch_up) = &mut self.catch_up {
                catch_up.bytes += unit.data.len() as u64;
            }
            self.units.push_back((place, unit));
        }
    }

    /// The client plays from the newest key frame on; `in_datagrams`: over UDP. Returns whether the stream is still there.
    pub(super) fn play(&mut self, in_datagrams: bool, now: Time) -> bool {
        self.forget();
        (self.plays, self.is_fresh) = (true, true);
        let bps = self.attendance.bps().saturating_mul(CATCH_UP_FACTOR).max(CATCH_UP_MIN_BPS);
        self.catch_up = in_datagrams.then_some(CatchUp { began: now, bytes: 0, bps });
        self.attendance.rejoin()
    }

    /// The client pauses.
    pub(super) fn pause(&mut self) {
        self.forget();
        self.plays = false;
    }

    /// The next unit, with its track and when it was captured by what the stream says of its pictures, or when it came where it does
    /// not say it.
    pub(super) fn next(&mut self, utc: Utc) -> Option<(usize, AccessUnit, Utc)> {
        let (place, unit) = self.units.pop_front()?;
        let captured = self.times.of(&unit, utc);
        Some((place, unit, captured))
    }
}

/// The place of a unit's track among those that are offered, to which it is added unless that is over. One of each kind is.
fn place_of(
    offered: &mut Vec<(u16, OfferedTrack)>,
    is_offered: bool,
    pid: u16,
    unit: &AccessUnit,
) -> Option<usize> {
    let place = offered.iter().position(|(known, track)| (*known, track.codec()) == (pid, unit.codec));
    place.or_else(|| {
        // Of AV1 any unit would say enough, and a key frame is what decoding begins with.
        let has_kind = offered.iter().any(|(_, track)| track.codec().is_video() == unit.codec.is_video());
        if is_offered || has_kind || (unit.codec == Codec::Av1 && !unit.random_access) {
            return None;
        }
        let number = offered.len();
        offered.push((pid, OfferedTrack::of(unit, u8::try_from(number).ok()?)?));
        Some(number)
    })
}

/// Gives tracks the PIDs that they have in `program`: another publisher may number its streams otherwise. Returns whether all of them
/// are in it.
fn follow(offered: &mut [(u16, OfferedTrack)], program: &Program) -> bool {
    let mut has_all = true;
    for (pid, track) in offered {
        let mut streams = program.streams.iter().filter(|stream| stream.codec == Some(track.codec()));
        let first = streams.clone().next().map(|stream| stream.pid);
        let same = streams.find(|stream| stream.pid == *pid).map(|stream| stream.pid);
        match same.or(first) {
            Some(found) => *pid = found,
            None => has_all = false,
        }
    }
    has_all
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use glassline_media::container::ts::ElementaryStream;
    use glassline_media::{Stamps, Ticks};

    #[test]
    fn the_beginning_goes_out_in_a_burst_and_then_at_a_rate() {
        let mut catch_up = CatchUp { began: Time::from_millis(1000), bytes: BURST_BYTES, bps: 8_000_000 };
        assert_eq!(catch_up.due(), Time::from_millis(1000));
        catch_up.bytes += 100_000;
        assert_eq!(catch_up.due(), Time::from_millis(1100));
        catch_up.bytes = u64::MAX;
        assert_eq!(catch_up.due(), Time::from_millis(1000) + CATCH_UP_TIME);
    }

    #[test]
    fn of_two_tracks_of_one_codec_one_is_sent_and_followed() {
        let unit = AccessUnit {
            codec: Codec::Opus,
            data: Bytes::from_static(&[8, 1]),
            pts: Ticks(0),
            dts: Ticks(0),
            random_access: true,
            stamps: Stamps::default(),
        };
        let stream = |pid: u16| ElementaryStream {
            pid,
            stream_type: 6,
            codec: Some(Codec::Opus),
            language: None,
            opus_channels: Some(2),
            he_aac: None,
            descriptors: Vec::new(),
        };
        let program = |pids: &[u16]| Program {
            number: 1,
            pmt_pid: 0x100,
            pcr_pid: 0x101,
            version: 0,
            streams: pids.iter().map(|pid| stream(*pid)).collect(),
        };
        let mut offered = Vec::new();
        let places = [0x102, 0x103, 0x102].map(|pid| place_of(&mut offered, false, pid, &unit));
        assert_eq!(places, [Some(0), None, Some(0)]);
        assert!(follow(&mut offered, &program(&[0x104, 0x102])) && offered[0].0 == 0x102);
        // Another publisher has other numbers.
        assert!(follow(&mut offered, &program(&[0x201, 0x202])));
        assert_eq!([0x202, 0x201].map(|pid| place_of(&mut offered, true, pid, &unit)), [None, Some(0)]);
        assert!(!follow(&mut offered, &program(&[])));
    }
}
