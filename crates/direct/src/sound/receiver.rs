//! The receiving end: holds packets as short as the network's jitter allows, and gives one when it is due.
//!
//! Each packet's way (arrival less capture; the two clocks' difference is in it, and does not matter) is looked at: the
//! shortest of the last seconds is what the line takes, and what 98 of 100 take beyond it is the jitter. Sound is played so
//! long after its capture as both together say, and not before the pictures of the same time are shown. Where that changes,
//! a packet's time of concealed sound is put in, or two packets become one, cross-faded; after a gap it changes at once.

use super::wire::{SoundHeader, SoundMessage};
use crate::wire::WireError;
use bytes::Bytes;
use glassline_media::{Time, Utc};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Nanoseconds; differences of times have a sign.
type Nanos = i64;

const fn nanos(duration: Duration) -> Nanos {
    duration.as_nanos() as Nanos
}

/// Packets that are held at most: four seconds of 10 ms.
const PACKETS_MAX: usize = 400;
/// Ways of packets that are remembered: some five seconds of 10 ms.
const WAYS: usize = 512;
/// After so many packets the wanted delay is looked at again.
const LOOK_EVERY: u64 = 8;
/// What is kept beyond the jitter that was seen.
const SLACK: Nanos = nanos(Duration::from_millis(2));
/// Jitter that is expected before any was seen.
const FIRST_JITTER: Nanos = nanos(Duration::from_millis(10));
/// No more than this is waited for, neither for late packets nor for pictures.
const DELAY_MAX: Nanos = nanos(Duration::from_millis(800));
/// Concealed packets in a row; then it is silence.
const CONCEALED_MAX: u32 = 5;
/// Nothing has come for so long: the next packet begins anew.
const STARVED_MAX: Nanos = nanos(Duration::from_secs(1));
/// Beyond so much delay too much packets are left out; below, two become one now and then.
const EXCESS_MAX: Nanos = nanos(Duration::from_millis(100));
/// Packets between two changes of the delay.
const CHANGE_EVERY: u32 = 8;
/// A capture time that is further from the others is of another clock.
const ASTRAY: Nanos = nanos(Duration::from_secs(3));

/// What to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// This packet.
    Packet(Bytes),
    /// The packet that was lost before this one: this one holds it too, coarsely.
    Recovered(Bytes),
    /// A lost packet: the sound before goes on.
    Concealed,
    /// Nothing.
    Silence,
    /// Both packets in the time of one: the first fades into the second.
    Merged(Bytes, Bytes),
}

/// Sound for one packet's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Play {
    /// When it begins.
    pub at: Time,
    /// How long it takes.
    pub time: Duration,
    /// When it was captured, by the sender's wall clock.
    pub captured: Utc,
    /// What it is.
    pub what: What,
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoundCounters {
    /// Messages.
    pub messages: u64,
    /// Messages of no known format.
    pub malformed: u64,
    /// Packets that came after they were due.
    pub late: u64,
    /// Packets that were played from a later message.
    pub repeated: u64,
    /// Packets that were played as the next one holds them.
    pub recovered: u64,
    /// Lost packets that were replaced by going on with the sound before them, where more sound came after that: at the
    /// sound's end nothing is missing.
    pub concealed: u64,
    /// Packets that were left out to shorten the delay.
    pub left_out: u64,
    /// Packets that were played.
    pub played: u64,
}

struct Packet {
    bytes: Bytes,
    captured: Nanos,
    arrived: Nanos,
    is_repeated: bool,
}

/// What is played next, and when that was captured.
struct Next {
    what: What,
    captured: Nanos,
}

impl From<Packet> for Next {
    fn from(packet: Packet) -> Next {
        Next { what: What::Packet(packet.bytes), captured: packet.captured }
    }
}

/// What plays: set by the first packet, and again after a long gap.
struct Playing {
    header: SoundHeader,
    /// The next packet.
    next: u64,
    /// When to play what follows.
    at: Nanos,
    /// When that was captured, about.
    captured: Nanos,
    /// Nothing was there for so many packets in a row.
    starved: u32,
    /// So many were not what was sent, in a row.
    filled: u32,
    since_change: u32,
    /// How long the last packet that was played had waited for that.
    waited: Nanos,
}

/// Takes the messages of channel [`SOUND`](crate::SOUND).
#[derive(Default)]
pub struct SoundReceiver {
    packets: BTreeMap<u64, Packet>,
    playing: Option<Playing>,
    ways: VecDeque<Nanos>,
    seen: u64,
    /// The highest number that came.
    newest: Option<u64>,
    /// Behind the highest number that was played: where sound begins again, it does so from there.
    played_to: u64,
    /// The wanted time from capture to play, with the clocks' difference in it.
    wanted: Nanos,
    jitter: Nanos,
    shortest: Nanos,
    pictures: Option<Nanos>,
    counters: SoundCounters,
    /// Packets that were concealed since the last one that was played.
    concealed: u64,
}

impl std::fmt::Debug for SoundReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SoundReceiver").field("packets", &self.packets.len()).finish_non_exhaustive()
    }
}

fn of_time(time: Time) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX / 2)
}

fn of_utc(utc: Utc) -> Nanos {
    Nanos::try_from(utc.as_nanos()).unwrap_or(Nanos::MAX / 2)
}

impl SoundReceiver {
    /// An end that holds nothing yet.
    pub fn new() -> SoundReceiver {
        SoundReceiver::default()
    }

    /// Takes a message that arrived at `now`.
    ///
    /// # Errors
    /// It is none; it is counted.
    pub fn handle(&mut self, now: Time, message: &Bytes) -> Result<SoundHeader, WireError> {
        let SoundMessage { header, packets } = SoundMessage::parse(message).inspect_err(|_| {
            self.counters.malformed += 1;
        })?;
        self.counters.messages += 1;
        let (now, captured) = (of_time(now), of_utc(header.captured));
        self.begin_again_where_it_differs(&header, captured);
        let way = now.saturating_sub(captured);
        self.note_way(way);
        // What is repeated or recovered has come later by so much: where that is often, it is waited for.
        let frame = nanos(header.frame_time());
        let held = if header.recovers { 1 } else { packets.len() as u64 - 1 };
        let missed = self.newest.map_or(0, |newest| header.number.saturating_sub(newest).saturating_sub(1));
        for back in 1..=missed.min(held) {
            self.note_way(way.saturating_add(frame.saturating_mul(back as Nanos)));
        }
        self.newest = self.newest.max(Some(header.number));
        if self.playing.is_none() && header.number < self.played_to {
            self.counters.late += 1;
            return Ok(header);
        }
        if self.playing.is_none() {
            self.look();
            let at = captured.saturating_add(self.wanted);
            let (next, starved, filled, since_change, waited) = (header.number, 0, 0, 0, 0);
            self.playing =
                Some(Playing { header, next, at, captured, starved, filled, since_change, waited });
        }
        let last = packets.len() as u64 - 1;
        for (index, bytes) in (0u64..).zip(packets) {
            // The format has no more repeated packets than the number says.
            let back = last - index;
            let captured = captured.saturating_sub(frame.saturating_mul(back as Nanos));
            let packet = Packet { bytes, captured, arrived: now, is_repeated: back > 0 };
            self.insert(header.number - back, packet);
        }
        Ok(header)
    }

    /// Tells how long after their capture pictures are shown, by the clock of [`SoundReceiver::handle`] and the sender's
    /// wall clock: sound waits for them.
    pub fn set_picture_delay(&mut self, shown: Time, captured: Utc) {
        self.pictures = Some(of_time(shown).saturating_sub(of_utc(captured)));
    }

    /// When the next sound is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.playing.as_ref().map(|playing| Time::from_nanos(u64::try_from(playing.at).unwrap_or(0)))
    }

    /// What to play from now on, if it is time.
    pub fn poll(&mut self, now: Time) -> Option<Play> {
        let now = of_time(now);
        let playing = self.playing.as_mut().filter(|playing| playing.at <= now)?;
        let frame = nanos(playing.header.frame_time());
        // A caller that polls late, or not at all for a while, does not get all that was due meanwhile.
        if now.saturating_sub(playing.at) > DELAY_MAX {
            playing.captured += now - playing.at;
            playing.at = now;
        }
        let at = playing.at;
        let Some(Next { what, captured }) = self.next(frame) else {
            self.playing = None;
            return None;
        };
        if let Some(playing) = &mut self.playing {
            playing.at += frame;
            playing.captured += frame;
        }
        let captured = Utc::from_nanos(u64::try_from(captured).unwrap_or(0));
        let at = Time::from_nanos(u64::try_from(at).unwrap_or(0));
        Some(Play { at, time: Duration::from_nanos(frame as u64), captured, what })
    }

    /// What happened so far.
    pub fn counters(&self) -> SoundCounters {
        self.counters
    }

    /// How long packets wait for their time, and the jitter that was seen.
    pub fn delay(&self) -> (Duration, Duration) {
        let part = |nanos: Nanos| Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
        (part(self.playing.as_ref().map_or(0, |playing| playing.waited)), part(self.jitter))
    }

    /// Another stream than the one that is played: of another kind, or by another clock.
    fn begin_again_where_it_differs(&mut self, header: &SoundHeader, captured: Nanos) {
        let Some(playing) = &self.playing else { return };
        let same = playing.header.frame == header.frame
            && playing.header.channels == header.channels
            && playing.captured.saturating_sub(captured).saturating_abs() < ASTRAY;
        if !same {
            let (counters, concealed) = (self.counters, self.concealed);
            *self =
                SoundReceiver { counters, concealed, pictures: self.pictures, ..SoundReceiver::default() };
        }
    }

    fn note_way(&mut self, way: Nanos) {
        self.ways.push_back(way);
        if self.ways.len() > WAYS {
            self.ways.pop_front();
        }
        self.seen += 1;
        if self.seen.is_multiple_of(LOOK_EVERY) {
            self.look();
        }
    }

    /// Computes how long after its capture sound should be played.
    fn look(&mut self) {
        let mut ways: Vec<Nanos> = self.ways.iter().copied().collect();
        ways.sort_unstable();
        let Some(&shortest) = ways.first() else { return };
        let most = ways.get((ways.len() * 98).div_ceil(100).max(1) - 1).copied().unwrap_or(shortest);
        let mut jitter = most - shortest;
        if ways.len() < WAYS / 8 {
            jitter = jitter.max(FIRST_JITTER);
        }
        (self.shortest, self.jitter) = (shortest, jitter);
        let own = shortest.saturating_add((jitter + SLACK).min(DELAY_MAX));
        let pictures = self.pictures.unwrap_or(own).min(shortest.saturating_add(DELAY_MAX));
        self.wanted = own.max(pictures);
    }

    fn insert(&mut self, number: u64, packet: Packet) {
        let Some(playing) = &self.playing else { return };
        if number < playing.next {
            self.counters.late += u64::from(!packet.is_repeated);
            return;
        }
        // The original says more precisely when it was captured.
        if !packet.is_repeated || !self.packets.contains_key(&number) {
            self.packets.insert(number, packet);
        }
        while self.packets.len() > PACKETS_MAX {
            self.packets.pop_first();
        }
    }

    /// What is played next; `None`: nothing came for a long time.
    fn next(&mut self, frame: Nanos) -> Option<Next> {
        let (wanted, can_recover) = (self.wanted, self.playing.as_ref()?.header.recovers);
        let playing = self.playing.as_mut()?;
        playing.since_change = playing.since_change.saturating_add(1);
        while self.packets.first_key_value().is_some_and(|(number, _)| *number < playing.next) {
            self.packets.pop_first();
        }
        let Some((&number, first)) = self.packets.first_key_value() else {
            playing.starved += 1;
            if Nanos::from(playing.starved).saturating_mul(frame) > STARVED_MAX {
                return None;
            }
            // The fill takes playing time, but no capture time: a packet that is only late is still played, and the
            // delay grows by that.
            let captured = playing.captured;
            playing.captured -= frame;
            return Some(Next { what: self.fill(), captured });
        };
        // How much later than now it wants to be played.
        let lead = first.captured.saturating_add(wanted) - playing.at;
        if lead < -EXCESS_MAX {
            return Some(self.leap(frame));
        }
        if lead > frame / 2 {
            if number > playing.next {
                playing.next += 1;
                let captured = playing.captured;
                if number == playing.next && can_recover {
                    self.counters.recovered += 1;
                    return Some(Next { what: What::Recovered(first.bytes.clone()), captured });
                }
                return Some(Next { what: self.fill(), captured });
            }
            let captured = playing.captured;
            // The source itself has paused.
            if lead > 2 * frame {
                return Some(Next { what: self.fill(), captured });
            }
            // The delay is to grow.
            if playing.since_change >= CHANGE_EVERY {
                playing.since_change = 0;
                playing.captured -= frame;
                return Some(Next { what: self.fill(), captured });
            }
        }
        let merges = lead < -frame && playing.since_change >= CHANGE_EVERY;
        let first = self.take(number)?;
        if merges && let Some(second) = self.take(number + 1) {
            self.playing.as_mut()?.since_change = 0;
            self.counters.left_out += 1;
            return Some(Next { what: What::Merged(first.bytes, second.bytes), captured: first.captured });
        }
        Some(first.into())
    }

    /// Leaves out what is too old.
    fn leap(&mut self, frame: Nanos) -> Next {
        let (wanted, at) = (self.wanted, self.playing.as_ref().map_or(0, |playing| playing.at));
        while self.packets.len() > 1 {
            let is_old = self
                .packets
                .first_key_value()
                .is_some_and(|(_, first)| first.captured.saturating_add(wanted) + frame < at);
            if !is_old {
                break;
            }
            self.packets.pop_first();
            self.counters.left_out += 1;
        }
        match self.packets.first_key_value().map(|(number, _)| *number).and_then(|number| self.take(number)) {
            Some(packet) => packet.into(),
            None => {
                let captured = self.playing.as_ref().map_or(0, |playing| playing.captured);
                Next { what: self.fill(), captured }
            }
        }
    }

    /// Takes a packet to be played.
    fn take(&mut self, number: u64) -> Option<Packet> {
        let packet = self.packets.remove(&number)?;
        self.played_to = self.played_to.max(number.saturating_add(1));
        if let Some(playing) = &mut self.playing {
            playing.next = number + 1;
            playing.captured = packet.captured;
            playing.waited = playing.at.saturating_sub(packet.arrived);
            (playing.starved, playing.filled) = (0, 0);
        }
        self.counters.played += 1;
        self.counters.concealed += std::mem::take(&mut self.concealed);
        self.counters.repeated += u64::from(packet.is_repeated);
        Some(packet)
    }

    /// What stands for sound that is not there.
    fn fill(&mut self) -> What {
        let Some(playing) = &mut self.playing else { return What::Silence };
        playing.filled += 1;
        if playing.filled > CONCEALED_MAX {
            return What::Silence;
        }
        self.concealed = self.concealed.saturating_add(1);
        What::Concealed
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
