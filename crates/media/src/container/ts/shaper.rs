//! Lays packets on the places of a stream of constant rate, with null packets between, and stamps the clock with the
//! place ([`super::constant_rate`] says which place is when).
//!
//! In: packets in the order in which they are made. Out: the same, and
//! * *null packets* up to a picture's capture before it and up to its end behind it;
//! * *the clock alone*, where a picture takes longer than the clock may be away; *the tables again*, likewise;
//! * *sound later*: not before its time to be decoded is near, since a receiver's buffers for sound are small (3,584
//!   bytes for AAC, 13818-1 §2.4.2.3), while stamps may lie a second behind the clock. Then before any picture;
//! * *nulls between packets of one stream*, where the mux rate is greater than what leaves its transport buffer (§2.4.2.3).

use super::constant_rate::{ConstantRate, PacketTimes};
use super::packet::{NULL_PID, PACKET_BYTES, Packet, Pcr, packets};
use super::packetize::clock_packet;
use super::psi::PAT_PID;
use super::tstd::TRANSPORT_BYTES;
use crate::time::Ticks;
use std::collections::VecDeque;
use std::time::Duration;

type Bytes188 = [u8; PACKET_BYTES];

/// So long before it is decoded sound is sent; sooner it would fill the receiver's buffer.
const SOUND_AHEAD: i128 = 40 * MILLISECOND;
/// So far behind the sound's stamps a picture may still come: nothing is filled up before that.
const PICTURE_LAG: i128 = 100 * MILLISECOND;
/// Without a picture for this long the clock comes alone: DVB wants it each 40 ms. Two tables may come before it.
const CLOCK_INTERVAL: Duration = Duration::from_millis(38);
/// The tables come again after this time; 500 ms are right, and each picture may bring some.
const TABLE_INTERVAL: Duration = Duration::from_millis(250);
/// The transport buffer has to be empty once a second.
const EMPTY_INTERVAL: Duration = Duration::from_millis(500);
/// What is further ahead or behind begins a new clock instead of being filled up or waited for; for sound, it is not.
const FAR: Duration = Duration::from_secs(3);
const GAP_MAX: i128 = 3_000 * MILLISECOND;
const AHEAD_MAX: i128 = 1_500 * MILLISECOND;
/// Packets of sound that wait: a second of the most that there is.
const WAITING_MAX: usize = 16_384;
const MILLISECOND: i128 = Pcr::RATE as i128 / 1000;

const NULL_PACKET: Bytes188 = {
    let mut packet = [0xff; PACKET_BYTES];
    (packet[0], packet[1], packet[2], packet[3]) = (0x47, 0x1f, 0xff, 0x10);
    packet
};

/// What packets belong to, and when that is; 27 MHz, not wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A picture that was captured then begins.
    Picture(i128),
    /// It goes on.
    More,
    /// It ends.
    PictureEnd,
    /// Sound that was captured then, with the tables where they are due.
    Sound(i128),
    /// Tables and the clock without a picture.
    Tables(i128),
}

/// T-STD's transport buffer of one stream, from the sender's side. Bytes are counted in 1/mux rate.
#[derive(Clone, Debug)]
struct TransportBuffer {
    /// Bits a second that leave it; `None` while it is not known.
    leak_bps: Option<u64>,
    level: i128,
    /// The place up to which the level is known, and where it was last empty.
    place: u64,
    empty: u64,
}

impl TransportBuffer {
    const fn new(leak_bps: Option<u64>) -> TransportBuffer {
        TransportBuffer { leak_bps, level: 0, place: 0, empty: 0 }
    }

    /// Lets leave what does before `place`. Returns whether there is room for the packet there; `longest`: after so many places
    /// it has to be empty.
    fn advance_to(&mut self, place: u64, mux_bps: u64, longest: u64) -> bool {
        let Some(leak) = self.pass(place) else { return true };
        let after = self.level + PACKET_BYTES as i128 * i128::from(mux_bps) - leak;
        // A little less than the buffer holds, for what the clock's references are rounded.
        let fits = after <= (TRANSPORT_BYTES as i128 - 4) * i128::from(mux_bps);
        fits && (self.level == 0 || place - self.empty < longest)
    }

    /// Lets leave what does before `place`; tells how much a packet's time takes away.
    fn pass(&mut self, place: u64) -> Option<i128> {
        let leak = PACKET_BYTES as i128 * i128::from(self.leak_bps?);
        self.level = (self.level - leak * i128::from(place.saturating_sub(self.place))).max(0);
        self.place = place;
        if self.level == 0 {
            self.empty = place;
        }
        Some(leak)
    }

    /// The packet at the place to which time has passed enters.
    fn take(&mut self, mux_bps: u64) {
        self.level += PACKET_BYTES as i128 * i128::from(mux_bps);
    }

    fn reset(&mut self) {
        *self = TransportBuffer::new(self.leak_bps);
    }
}

/// Gives each packet its place.
#[derive(Clone, Debug)]
pub(super) struct Shaper {
    settings: ConstantRate,
    clock_pid: u16,
    sound_pid: u16,
    /// How much later than their capture units are decoded.
    decode_delay: i128,
    /// `None` before the first packet.
    places: Option<PacketTimes>,
    /// The next place.
    place: u64,
    /// Up to which place the picture's time goes, and by when it has to be there.
    picture_end: u64,
    deadline: u64,
    video: TransportBuffer,
    sound: TransportBuffer,
    /// Sound that waits, with the place before which it does not come.
    waiting: VecDeque<(u64, Bytes188)>,
    /// PAT and PMT as they last were, the counters of their next packets, and their last place.
    tables: [Option<Bytes188>; 2],
    counters: [u8; 2],
    tables_place: u64,
    /// The last packet was a table that the muxer made.
    is_behind_tables: bool,
    /// Counter of the clock's stream, its last place, and whether the next packet has to announce a new clock.
    clock_counter: Option<u8>,
    clock_place: u64,
    is_new_clock: bool,
}

impl Shaper {
    /// `sound_leak_bps`: what leaves the transport buffer of the sound.
    pub(super) fn new(
        settings: ConstantRate,
        clock_pid: u16,
        sound_pid: u16,
        sound_leak_bps: u64,
        decode_delay: Ticks,
    ) -> Shaper {
        Shaper {
            settings,
            clock_pid,
            sound_pid,
            decode_delay: i128::from(decode_delay.0) * 300,
            places: None,
            place: 0,
            picture_end: 0,
            deadline: 0,
            video: TransportBuffer::new(None),
            sound: TransportBuffer::new(Some(sound_leak_bps)),
            waiting: VecDeque::new(),
            tables: [None; 2],
            counters: [0; 2],
            tables_place: 0,
            is_behind_tables: false,
            clock_counter: None,
            clock_place: 0,
            is_new_clock: false,
        }
    }

    /// So many bits a second leave the transport buffer of the video from now on.
    pub(super) fn video_leaks(&mut self, bps: u64) {
        self.video.leak_bps = Some(bps);
    }

    /// Gives the packets of `part` their places, and appends them with all that comes between. `jump`: they are of a
    /// new clock.
    pub(super) fn lay(&mut self, part: Part, bytes: &[u8], jump: bool, out: &mut Vec<u8>) {
        match part {
            Part::Picture(at) => {
                let places = self.reach(at, jump, out);
                let period = ticks_of(self.settings.frame_rate.time_of(1));
                self.picture_end = places.first_from(at + period);
                self.deadline = places.first_from(at + self.decode_delay - 5 * MILLISECOND);
            }
            Part::Tables(at) => {
                self.reach(at, jump, out);
            }
            Part::Sound(at) => {
                let places = *self.places.get_or_insert(PacketTimes::new(self.settings.mux_rate_bps, at));
                let far = self.place + self.within(FAR);
                let from = places.first_from(at + self.decode_delay - SOUND_AHEAD).min(far);
                for packet in packets(bytes) {
                    if pid_of(packet) == self.sound_pid {
                        self.wait(from, packet, out);
                    } else {
                        self.put(packet, out);
                    }
                }
                let until = places.first_from(at - PICTURE_LAG);
                self.fill(until.min(far), out);
                self.put_due(out);
                return;
            }
            Part::More | Part::PictureEnd => {}
        }
        packets(bytes).for_each(|packet| self.put(packet, out));
        if part == Part::PictureEnd {
            self.fill(self.picture_end, out);
        }
    }

    /// All that waits comes, as fast as its buffer takes it, and the clock at the end. To fill up until its time would put
    /// up to a second of null packets behind the last picture, where FFmpeg looks for a stream's duration.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.waiting.iter_mut().for_each(|(from, _)| *from = 0);
        while !self.waiting.is_empty() {
            self.fill(self.place + 1, out);
        }
        while !self.video.advance_to(self.place, self.settings.mux_rate_bps, u64::MAX) {
            self.append(&NULL_PACKET, out);
        }
        self.put_clock(out);
    }

    /// Fills up to the time `at`; begins a new clock there, where it is too far away or `jump` says so.
    fn reach(&mut self, at: i128, jump: bool, out: &mut Vec<u8>) -> PacketTimes {
        let fresh = PacketTimes::new(self.settings.mux_rate_bps, at);
        let Some(places) = self.places else { return *self.places.insert(fresh) };
        let now = places.time(self.place);
        if !jump && (now - AHEAD_MAX..now + GAP_MAX).contains(&at) {
            self.fill(places.first_from(at), out);
            return places;
        }
        // Sound of the old clock goes before, without its places.
        while let Some((_, packet)) = self.waiting.pop_front() {
            out.extend_from_slice(&packet);
        }
        (self.places, self.place) = (Some(fresh), 0);
        (self.tables_place, self.clock_place, self.is_new_clock) = (0, 0, true);
        self.video.reset();
        self.sound.reset();
        fresh
    }

    fn wait(&mut self, from: u64, packet: &Bytes188, out: &mut Vec<u8>) {
        if self.waiting.len() >= WAITING_MAX
            && let Some((_, oldest)) = self.waiting.pop_front()
        {
            self.append(&oldest, out);
        }
        self.waiting.push_back((from, *packet));
    }

    /// Null packets, and what is due meanwhile, up to `place`.
    fn fill(&mut self, place: u64, out: &mut Vec<u8>) {
        loop {
            self.put_due(out);
            if self.place >= place {
                return;
            }
            self.append(&NULL_PACKET, out);
        }
    }

    /// A packet of the video or the tables. Where the muxer puts tables before a picture, they stand right before it.
    fn put(&mut self, packet: &Bytes188, out: &mut Vec<u8>) {
        let table = self.table_of(packet);
        let joined = std::mem::replace(&mut self.is_behind_tables, table.is_some());
        if table == Some(0) || !joined {
            self.put_due(out);
            self.wait_for_room(out);
        }
        if let Some(table) = table {
            self.tables[table] = Some(*packet);
            self.put_table(table, out);
            return;
        }
        self.video.pass(self.place);
        self.video.take(self.settings.mux_rate_bps);
        let start = out.len();
        let clock = self.clock();
        self.append(packet, out);
        if pid_of(packet) == self.clock_pid {
            self.clock_counter = Some(packet[3] & 0x0f);
            if Packet::parse(packet).is_ok_and(|packet| packet.pcr().is_some()) {
                let jump = std::mem::take(&mut self.is_new_clock);
                out[start + 5] = out[start + 5] & 0x7f | u8::from(jump) << 7;
                out[start + 6..start + 12].copy_from_slice(&clock.write());
                self.clock_place = self.place;
            }
        }
    }

    /// Null packets, and what is due meanwhile, until the video's transport buffer takes a packet.
    fn wait_for_room(&mut self, out: &mut Vec<u8>) {
        let longest = self.within(EMPTY_INTERVAL);
        // To be late is worse than to overrun a buffer.
        while self.place < self.deadline
            && !self.video.advance_to(self.place, self.settings.mux_rate_bps, longest)
        {
            self.append(&NULL_PACKET, out);
            self.put_due(out);
        }
    }

    /// What is due at the next place: tables, clock, sound.
    fn put_due(&mut self, out: &mut Vec<u8>) {
        loop {
            if self.place + 2 - self.clock_place >= self.within(CLOCK_INTERVAL).max(3)
                && self.clock_counter.is_some()
                && self.video.advance_to(self.place, self.settings.mux_rate_bps, u64::MAX)
            {
                self.put_clock(out);
            } else if self.place - self.tables_place >= self.within(TABLE_INTERVAL) {
                self.put_table(0, out);
                self.put_table(1, out);
                self.tables_place = self.place;
            } else if let Some(&(from, packet)) = self.waiting.front()
                && from <= self.place
                && self.sound.advance_to(self.place, self.settings.mux_rate_bps, self.within(EMPTY_INTERVAL))
            {
                self.waiting.pop_front();
                self.sound.take(self.settings.mux_rate_bps);
                self.append(&packet, out);
            } else {
                return;
            }
        }
    }

    /// Which table the packet is: 0 the PAT, 1 the PMT.
    fn table_of(&self, packet: &Bytes188) -> Option<usize> {
        match pid_of(packet) {
            PAT_PID => Some(0),
            pid if pid == self.clock_pid || pid == self.sound_pid => None,
            _ => Some(1),
        }
    }

    fn put_table(&mut self, table: usize, out: &mut Vec<u8>) {
        let Some(mut packet) = self.tables[table] else { return };
        packet[3] = packet[3] & 0xf0 | self.counters[table];
        self.counters[table] = (self.counters[table] + 1) & 0x0f;
        self.append(&packet, out);
        self.tables_place = self.place;
    }

    fn put_clock(&mut self, out: &mut Vec<u8>) {
        // Before the first picture there is no stream that has a clock.
        let Some(counter) = self.clock_counter else { return };
        let jump = std::mem::take(&mut self.is_new_clock);
        let packet = clock_packet(self.clock_pid, counter, self.clock(), jump);
        // It goes through the video's buffer, too.
        self.video.take(self.settings.mux_rate_bps);
        self.append(&packet, out);
        self.clock_place = self.place;
    }

    fn append(&mut self, packet: &Bytes188, out: &mut Vec<u8>) {
        out.extend_from_slice(packet);
        self.place += 1;
    }

    /// The clock at the next place.
    fn clock(&self) -> Pcr {
        let time = self.places.map_or(0, |places| places.time(self.place));
        Pcr::new(time.rem_euclid(i128::from(Pcr::WRAP)) as u64)
    }

    fn within(&self, time: Duration) -> u64 {
        PacketTimes::new(self.settings.mux_rate_bps, 0).within(time)
    }
}

fn ticks_of(time: Duration) -> i128 {
    (time.as_nanos() * u128::from(Pcr::RATE)).div_ceil(1_000_000_000) as i128
}

fn pid_of(packet: &Bytes188) -> u16 {
    u16::from_be_bytes([packet[1], packet[2]]) & NULL_PID
}

#[cfg(test)]
#[path = "shaper_tests.rs"]
mod tests;
