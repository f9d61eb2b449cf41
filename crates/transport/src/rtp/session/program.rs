//! A transport stream in, its tracks in RTP out, each for itself.
//!
//! ```text
//! MPEG-TS ─► Demuxer ─► units of one stream of pictures and one of sound ─► Continuity ─► Sender ─► packets, reports
//!                       │ first ones, and whenever they differ ─► OfferedTrack ─► description
//! ```
//! Nothing leaves before all tracks of the program have shown what they are, or [`TRACKS_TIME`] is over: a receiver gets packets that
//! its description tells of.

use super::capture_times::CaptureTimes;
use super::continuity::Continuity;
use super::offer::OfferedTrack;
use super::sender::Sender;
use crate::splitmix;
use glassline_media::container::ts::{Demuxer, Event, Program};
use glassline_media::{AccessUnit, Codec, Ticks, Time, Utc};
use std::collections::VecDeque;
use std::time::Duration;

/// How long the first unit of each track is waited for.
pub const TRACKS_TIME: Duration = Duration::from_secs(5);
/// Bytes of units that wait for it at most; then it is waited for no longer.
const WAITING_MAX_BYTES: usize = 8 << 20;

/// The number of the track of pictures.
pub const PICTURES: usize = 0;
/// The number of the track of sound.
pub const SOUND: usize = 1;

/// A datagram of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackPacket {
    /// [`PICTURES`] or [`SOUND`].
    pub track: usize,
    /// A report, and no packet with media.
    pub is_report: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A track that is sent.
#[derive(Clone, Debug)]
struct Sent {
    /// Its stream in the program.
    pid: u16,
    offered: OfferedTrack,
}

/// A stream's tracks on their way out. Bounded: by what the caller pushes before it polls, and by [`WAITING_MAX_BYTES`].
#[derive(Debug)]
pub struct ProgramSender {
    payload_bytes: usize,
    random: u64,
    demuxer: Demuxer,
    program: Option<Program>,
    sent: [Option<Sent>; 2],
    sender: Sender,
    continuity: Continuity,
    shift: Ticks,
    times: CaptureTimes,
    /// Until when tracks are waited for; `None` where nothing has come, or it is over.
    deadline: Option<Time>,
    /// It is over: any track will do.
    is_late: bool,
    is_described: bool,
    has_changed: bool,
    /// What was sent at the end of the session before, where that was not asked for.
    ended: Option<Vec<OfferedTrack>>,
    waiting: VecDeque<(usize, AccessUnit)>,
    waiting_bytes: usize,
    out: VecDeque<TrackPacket>,
}

impl ProgramSender {
    /// In packets of at most `packet_bytes` with their headers. `random`: 64 random bits, of which sender numbers, names and the times of reports are made.
    pub fn new(packet_bytes: usize, mut random: u64) -> ProgramSender {
        let sender = Sender::new(&[], 0, || splitmix::next(&mut random));
        ProgramSender {
            payload_bytes: packet_bytes.saturating_sub(crate::rtp::HEADER_BYTES),
            random,
            demuxer: Demuxer::new(),
            program: None,
            sent: [None, None],
            sender,
            continuity: Continuity::default(),
            shift: Ticks(0),
            times: CaptureTimes::default(),
            deadline: None,
            is_late: false,
            is_described: false,
            has_changed: false,
            ended: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            out: VecDeque::new(),
        }
    }

    /// What follows is another stream of the same name: its times have nothing to do with those before.
    pub fn begin_anew(&mut self) {
        self.continuity.begin_anew();
        self.enter();
    }

    /// What follows is another place of the stream.
    pub fn enter(&mut self) {
        self.demuxer = Demuxer::new();
    }

    /// The stream is over at `now`, when our wall clock says `utc`: what waits is sent, and all tracks say goodbye. What follows is a new
    /// session.
    pub fn end(&mut self, now: Time, utc: Utc) {
        self.demuxer.finish();
        self.take_events(now, utc);
        // Tracks that have not come do not come any more.
        (self.deadline, self.is_late) = (None, true);
        self.describe(now, utc);
        let goodbyes: Vec<_> = self.sender.goodbyes().collect();
        // What nothing was sent of needs no end.
        for (track, bytes) in goodbyes.into_iter().filter(|_| self.is_described) {
            self.out.push_back(TrackPacket { track, is_report: true, bytes });
        }
        let random = splitmix::next(&mut self.random);
        let ended = self.poll_description().or(self.ended.take());
        let out = std::mem::take(&mut self.out);
        let packet_bytes = self.payload_bytes.saturating_add(crate::rtp::HEADER_BYTES);
        *self = ProgramSender { out, ended, ..ProgramSender::new(packet_bytes, random) };
    }

    /// Takes bytes of the stream that came at `now`, when our wall clock said `utc`.
    pub fn push(&mut self, bytes: &[u8], now: Time, utc: Utc) {
        self.demuxer.push(bytes);
        self.take_events(now, utc);
        self.describe(now, utc);
    }

    fn take_events(&mut self, now: Time, utc: Utc) {
        while let Some(event) = self.demuxer.poll() {
            match event {
                Event::Program(program) => self.take_program(program, now),
                Event::AccessUnit { pid, unit, .. } => self.take_unit(pid, unit, now, utc),
                Event::Data { .. } | Event::Pcr { .. } => {}
            }
        }
    }

    fn take_program(&mut self, program: Program, now: Time) {
        for track in [PICTURES, SOUND] {
            let Some(Some(sent)) = self.sent.get(track) else { continue };
            let (pid, codec) = (sent.pid, sent.offered.codec());
            let same = program.streams.iter().find(|stream| stream.pid == pid && stream.codec == Some(codec));
            // Another publisher may number its streams otherwise.
            let same = same.or_else(|| program.streams.iter().find(|stream| stream.codec == Some(codec)));
            match same.map(|stream| stream.pid) {
                Some(pid) => {
                    if let Some(Some(sent)) = self.sent.get_mut(track) {
                        sent.pid = pid;
                    }
                }
                None => self.drop_track(track),
            }
        }
        if !self.is_described && !self.is_late {
            self.deadline.get_or_insert(now + TRACKS_TIME);
        }
        self.program = Some(program);
    }

    fn drop_track(&mut self, track: usize) {
        if let Some(place) = self.sent.get_mut(track)
            && place.take().is_some()
        {
            self.has_changed = true;
            let goodbye = self.sender.remove(track);
            self.out.extend(goodbye.map(|bytes| TrackPacket { track, is_report: true, bytes }));
        }
    }

    fn take_unit(&mut self, pid: u16, unit: AccessUnit, now: Time, utc: Utc) {
        let track = if unit.codec.is_video() { PICTURES } else { SOUND };
        let Some(place) = self.sent.get(track) else { return };
        if place.as_ref().is_some_and(|sent| sent.pid != pid || sent.offered.codec() != unit.codec) {
            // Of each kind one stream is sent.
            return;
        }
        if unit.random_access || (place.is_none() && unit.codec != Codec::Av1) {
            // Of AV1 any unit would say enough, and a key frame is what decoding begins with.
            let offered = OfferedTrack::of(&unit, if track == PICTURES { 0 } else { 1 });
            let is_other =
                |offered: &OfferedTrack| place.as_ref().is_none_or(|sent| sent.offered != *offered);
            if let Some(offered) = offered.filter(is_other) {
                self.put(track, pid, offered);
            }
        }
        if self.sent.get(track).is_none_or(Option::is_none) {
            return;
        }
        if self.is_described {
            self.send(track, &unit, now, utc);
        } else {
            self.waiting_bytes = self.waiting_bytes.saturating_add(unit.data.len());
            self.waiting.push_back((track, unit));
        }
    }

    /// The track is this one from now on.
    fn put(&mut self, track: usize, pid: u16, offered: OfferedTrack) {
        let Some(place) = self.sent.get_mut(track) else { return };
        self.has_changed = true;
        let goes_on = place.as_ref().is_some_and(|sent| sent.offered.has_packets_of(&offered));
        if !goes_on {
            let random = &mut self.random;
            let mut random = || splitmix::next(random);
            let goodbye = self.sender.put(track, &offered, self.payload_bytes, &mut random);
            self.out.extend(goodbye.map(|bytes| TrackPacket { track, is_report: true, bytes }));
        }
        *place = Some(Sent { pid, offered });
    }

    /// Lets go what waits, once the tracks are known.
    fn describe(&mut self, now: Time, utc: Utc) {
        let wanted = self.program.as_ref().map_or(usize::MAX, wanted_tracks);
        let known = self.sent.iter().flatten().count();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            (self.deadline, self.is_late) = (None, true);
        }
        if self.is_described
            || known == 0
            || (known < wanted && !self.is_late && self.waiting_bytes <= WAITING_MAX_BYTES)
        {
            return;
        }
        (self.is_described, self.has_changed, self.deadline) = (true, true, None);
        for (track, unit) in std::mem::take(&mut self.waiting) {
            self.send(track, &unit, now, utc);
        }
        self.waiting_bytes = 0;
    }

    fn send(&mut self, track: usize, unit: &AccessUnit, now: Time, utc: Utc) {
        let Some(shift) = self.continuity.shift(track, unit.dts, now) else { return };
        if shift != std::mem::replace(&mut self.shift, shift) {
            self.times = CaptureTimes::default();
        }
        let captured = self.times.of(unit, utc);
        let placed = AccessUnit { pts: unit.pts + shift, dts: unit.dts + shift, ..unit.clone() };
        let out = &mut self.out;
        self.sender.send(track, &placed, captured, now, &mut |is_report, packet| {
            out.push_back(TrackPacket { track, is_report, bytes: packet.to_vec() });
        });
    }

    /// The next datagram.
    pub fn poll(&mut self) -> Option<TrackPacket> {
        self.out.pop_front()
    }

    /// What is sent now, pictures first, where that is known and was not asked for since it last changed. Of a stream that has ended
    /// meanwhile, what was sent at its end.
    pub fn poll_description(&mut self) -> Option<Vec<OfferedTrack>> {
        let is_new = self.is_described && std::mem::take(&mut self.has_changed);
        let ended = self.ended.take();
        if is_new { Some(self.tracks()) } else { ended }
    }

    /// What is sent now, pictures first.
    pub fn tracks(&self) -> Vec<OfferedTrack> {
        self.sent.iter().flatten().map(|sent| sent.offered.clone()).collect()
    }

    /// Whether it is known what is sent, so that packets leave.
    pub fn is_described(&self) -> bool {
        self.is_described
    }

    /// When [`ProgramSender::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Time {
        self.deadline.unwrap_or(Time::NEVER)
    }

    /// Tracks are waited for no longer.
    pub fn handle_timeout(&mut self, now: Time, utc: Utc) {
        self.describe(now, utc);
    }
}

/// Tracks of a program that can be sent: one of pictures, one of sound.
pub fn wanted_tracks(program: &Program) -> usize {
    let codecs = || program.streams.iter().filter_map(|stream| stream.codec);
    let is_known = |codec: &Codec| !matches!(codec, Codec::Ac3 | Codec::EAc3 | Codec::Mpeg2Video);
    let has = |is_video: bool| codecs().filter(is_known).any(|codec| codec.is_video() == is_video);
    usize::from(has(true)).saturating_add(usize::from(has(false)))
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
