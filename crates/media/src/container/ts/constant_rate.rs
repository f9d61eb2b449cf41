//! Transport streams of a constant rate: every packet has its place, and the clock says the place.
//!
//! The clock (PCR) of packet number n is its origin and n packets' time at the mux rate, exactly (13818-1 §2.4.2.2
//! allows 500 ns; here it is the rounding to 27 MHz, 19 ns). It follows the capture clock nevertheless, and for ever,
//! because the *number* of packets does: a picture begins at the first place that is not before its capture, and what a
//! picture's time has room for beyond the picture is filled up with null packets behind it.
//!
//! ```text
//! capture     c0                        c1                        c2
//! places      │T T V V V V S V V n n n n│V V S V V V V V V V V V V V V│n n n n n n│V …
//!              tables, video, sound, null packets        a large picture takes of the next one's time
//! ```
//! Nothing waits for a place: a picture's packets are written when they are made, and null packets behind its last one.
//! A large picture moves its followers back, by no more than the VBV is long where the rate is enough for all of it
//! ([`Load::mux_rate_bps`]), and the stamps are later than the clock by that ([`Load::decode_delay`]). What the order of
//! the places does to a receiver's buffers is [`super::shaper`]'s business.

use super::packet::Pcr;
use crate::time::{FrameRate, Ticks};
use std::time::Duration;

/// Bits of a transport packet, and bytes of its payload.
const PACKET_BITS: f64 = 188.0 * 8.0;
const PAYLOAD_BYTES: f64 = 184.0;
/// Bytes that a picture has beside its own: PES header, the clock's adaptation field, its end; and some.
const PICTURE_BYTES: f64 = 32.0;
/// Packets with tables a second without key frames: two each 100 ms, and those that are due in the middle of a picture.
const TABLE_PACKETS: f64 = 30.0;
/// Packets with the clock alone a second, at most.
const CLOCK_PACKETS: f64 = 32.0;
/// A part in a hundred: a capture clock that is fast, a picture that misses the VBV, a key frame on request.
const RESERVE: f64 = 0.01;
/// For the capture times of pictures that do not come evenly.
const CAPTURE_MARGIN: Duration = Duration::from_millis(10);
/// Packets of tables, clock and sound that may be before a picture's last one and were not counted.
const PACKETS_BEFORE: f64 = 8.0;

/// The rate that [`super::Muxer`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantRate {
    /// Bits a second of the transport stream, null packets included.
    pub mux_rate_bps: u64,
    /// How long a picture lasts: up to then null packets follow it.
    pub frame_rate: FrameRate,
}

/// What a stream of constant rate carries, from which its rate and its delay follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Bits a second of the pictures, at which a VBV of [`Load::vbv`] neither overflows nor underflows.
    pub video_bps: u64,
    /// How long that VBV is.
    pub vbv: Duration,
    /// Pictures a second.
    pub frame_rate: FrameRate,
    /// Key frames come no more often, requests aside: the tables stand before each.
    pub key_interval: Duration,
    /// Its sound.
    pub sound: Option<SoundLoad>,
}

/// Sound in a [`Load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoundLoad {
    /// Bytes of a unit, the large ones of those that are usual.
    pub unit_bytes: usize,
    /// How much sound that is.
    pub unit_time: Duration,
    /// From a unit's stamp until it is there: what its codec lags.
    pub lag: Duration,
}

impl SoundLoad {
    fn packets_per_second(self) -> f64 {
        // A PES header with a PTS, and what the container says of the unit.
        let packets = ((self.unit_bytes + 18) as f64 / PAYLOAD_BYTES).ceil();
        packets / self.unit_time.as_secs_f64().max(1e-4)
    }
}

impl Load {
    /// The least mux rate that holds all of it, bits a second, rounded up to whole kilobits: in each picture's time as
    /// many packets as the video's bit rate needs there at most, the sound's, the tables, the clock, and a hundredth.
    pub fn mux_rate_bps(&self) -> u64 {
        let kilobits =
            self.packets_per_second(self.video_bps as f64) * PACKET_BITS * (1.0 + RESERVE) / 1000.0;
        (kilobits.ceil() as u64).saturating_mul(1000)
    }

    /// The greatest bit rate of the pictures that a mux rate holds, everything else as it is; 0 where there is none.
    pub fn video_bps_within(&self, mux_rate_bps: u64) -> u64 {
        let packets = mux_rate_bps as f64 / PACKET_BITS / (1.0 + RESERVE) - self.packets_per_second(0.0);
        (packets * PAYLOAD_BYTES * 8.0).max(0.0) as u64
    }

    fn packets_per_second(&self, video_bps: f64) -> f64 {
        let pictures = self.frame_rate.as_f64();
        // The last packet of a picture is not full.
        let video = video_bps / 8.0 / PAYLOAD_BYTES + pictures * (PICTURE_BYTES / PAYLOAD_BYTES + 1.0);
        let keys = pictures.min(1.0 / self.key_interval.as_secs_f64().max(1e-4));
        video
            + self.sound.map_or(0.0, SoundLoad::packets_per_second)
            + TABLE_PACKETS
            + 2.0 * keys
            + CLOCK_PACKETS
    }

    /// How much later than their capture the stamps have to be, so that picture and sound are whole when they are
    /// decoded ([`super::MuxSettings::decode_delay`]).
    ///
    /// The VBV promises that the pictures from any one to any later one have no more bits than it holds and what their
    /// time brings. So a sender that sends them at the video's rate or faster, each from its capture on, is done with
    /// each within the VBV's time. Beside that a picture may wait for the sound of the picture before, for tables and
    /// clock, and in T-STD's transport buffer; a packet of sound, which was captured as the latest picture was, comes
    /// behind that one, when its codec has it.
    pub fn decode_delay(&self, mux_rate_bps: u64) -> Ticks {
        let delay = self.vbv.max(self.frame_rate.time_of(1)) + self.beside_vbv(mux_rate_bps);
        Ticks((delay.as_nanos() * u128::from(Ticks::RATE)).div_ceil(1_000_000_000) as i64)
    }

    /// The longest VBV with which [`Load::decode_delay`] is at most `delay`; a picture's time at least.
    pub fn vbv_within(&self, delay: Ticks, mux_rate_bps: u64) -> Duration {
        let delay = Duration::from_nanos((delay.0.max(0) as u64).saturating_mul(100_000) / 9);
        let longest = delay.saturating_sub(self.beside_vbv(mux_rate_bps));
        self.vbv.min(longest).max(self.frame_rate.time_of(1))
    }

    fn beside_vbv(&self, mux_rate_bps: u64) -> Duration {
        let rate = (mux_rate_bps as f64).max(1.0);
        let sound = self.sound.map_or(0.0, |sound| {
            let share = (sound.packets_per_second() * PACKET_BITS / rate).min(1.0);
            sound.lag.as_secs_f64() + self.frame_rate.time_of(1).as_secs_f64() * share
        });
        let transport_buffer = 512.0 * 8.0 / (1.2 * (self.video_bps as f64).max(1.0));
        let seconds = sound + transport_buffer + PACKETS_BEFORE * PACKET_BITS / rate;
        CAPTURE_MARGIN + Duration::from_secs_f64(seconds.min(60.0))
    }
}

/// The places of a stream's packets, and their times.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketTimes {
    mux_rate_bps: u64,
    /// The time of place 0: 27 MHz, not wrapped.
    origin: i128,
}

/// 27 MHz ticks of a packet at a bit a second.
const PACKET_TICKS: i128 = 188 * 8 * Pcr::RATE as i128;

impl PacketTimes {
    pub(super) fn new(mux_rate_bps: u64, origin: i128) -> PacketTimes {
        PacketTimes { mux_rate_bps: mux_rate_bps.max(1), origin }
    }

    /// When the packet at `place` begins, to the nearest tick.
    pub(super) fn time(&self, place: u64) -> i128 {
        let rate = i128::from(self.mux_rate_bps);
        self.origin + (i128::from(place) * PACKET_TICKS + rate / 2).div_euclid(rate)
    }

    /// The first place that begins at `time` or later.
    pub(super) fn first_from(&self, time: i128) -> u64 {
        let since = (time - self.origin).max(0) * i128::from(self.mux_rate_bps);
        u64::try_from((since + PACKET_TICKS - 1) / PACKET_TICKS).unwrap_or(u64::MAX)
    }

    /// How many places so much time has, rounded down, at least one.
    pub(super) fn within(&self, time: Duration) -> u64 {
        let places = time.as_nanos() * u128::from(self.mux_rate_bps) / (188 * 8 * 1_000_000_000);
        u64::try_from(places).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(video_bps: u64, vbv_ms: u64, pictures: u32) -> Load {
        Load {
            video_bps,
            vbv: Duration::from_millis(vbv_ms),
            frame_rate: FrameRate::new(pictures, 1).unwrap(),
            key_interval: Duration::from_secs(1),
            sound: None,
        }
    }

    const OPUS: SoundLoad =
        SoundLoad { unit_bytes: 96, unit_time: Duration::from_millis(5), lag: Duration::from_micros(7_500) };

    #[test]
    fn the_rate_is_that_of_all_parts() {
        let silent = load(5_000_000, 1000, 50);
        // 3,396.7 packets of pictures, 58.7 for what they have beside them, 64 of tables and clock; and a hundredth.
        assert_eq!(silent.mux_rate_bps(), 5_347_000);
        let sound = Load { sound: Some(OPUS), ..silent };
        // 200 packets more.
        assert_eq!(sound.mux_rate_bps(), 5_650_000);
        assert!((4_999_000..=5_000_700).contains(&sound.video_bps_within(5_650_000)));
        assert_eq!(sound.video_bps_within(300_000), 0);
    }

    #[test]
    fn the_delay_is_the_vbv_and_what_is_beside_it() {
        let silent = load(5_000_000, 200, 50);
        let millis = |load: Load| load.decode_delay(load.mux_rate_bps()).0 as f64 / 90.0;
        assert!((212.0..214.0).contains(&millis(silent)), "{}", millis(silent));
        // A picture takes its time, however short the VBV.
        assert!((32.0..34.0).contains(&millis(load(5_000_000, 1, 50))));
        let sound = Load { sound: Some(OPUS), ..silent };
        assert!((220.0..224.0).contains(&millis(sound)), "{}", millis(sound));
        let within = Load { vbv: Duration::from_secs(2), ..sound };
        let vbv = within.vbv_within(Ticks(88_200), 5_650_000);
        assert!((Duration::from_millis(950)..Duration::from_millis(970)).contains(&vbv), "{vbv:?}");
        let delay = Load { vbv, ..within }.decode_delay(5_650_000);
        assert!((88_199..=88_201).contains(&delay.0), "{delay:?}");
        assert_eq!(within.vbv_within(Ticks(0), 5_650_000), Duration::from_millis(20));
    }

    proptest! {
        #[test]
        fn places_and_times_are_each_others(
            rate in 10_000u64..1_000_000_000,
            origin in -(1i128 << 60)..(1i128 << 60),
            place in 0u64..1 << 40,
        ) {
            let places = PacketTimes::new(rate, origin);
            let time = places.time(place);
            // Within half a tick of the exact time.
            let off = (time - origin) * i128::from(rate) - i128::from(place) * PACKET_TICKS;
            prop_assert!(off.abs() * 2 <= i128::from(rate));
            prop_assert!(places.first_from(time - 1) <= place && places.first_from(time + 1) > place);
        }

        #[test]
        fn no_load_panics(
            video_bps: u64, vbv in 0u64..u64::MAX, rate in 1u32.., per in 1u32.., key in 0u64..u64::MAX,
            unit_bytes in 0usize..1 << 20, mux: u64,
        ) {
            let sound = SoundLoad { unit_bytes, unit_time: Duration::from_nanos(vbv), lag: Duration::from_nanos(key) };
            let load = Load {
                video_bps,
                vbv: Duration::from_nanos(vbv),
                frame_rate: FrameRate::new(rate, per).unwrap(),
                key_interval: Duration::from_nanos(key),
                sound: Some(sound),
            };
            prop_assert!(load.mux_rate_bps() > 0 && load.decode_delay(mux).0 > 0);
            prop_assert!(load.vbv_within(Ticks(88_200), mux) >= load.frame_rate.time_of(1));
        }
    }
}
