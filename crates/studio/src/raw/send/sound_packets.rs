//! Blocks of sound to packets of one size, each with the time at which its sound was whole. Pure.

use super::Result;
use glassline_media::{AudioBlock, Time};
use glassline_transport::rtp::pcm::{Packetizer, PacketizerSettings};
use std::time::Duration;

/// A block that begins at most this far from the end of the one before goes on from there: a millisecond, which is a packet.
const TOLERANCE: i32 = 48;
/// What lies further back than this was stamped by another clock: a second. Less of it was sent already.
const LEAP: i32 = 48_000;

/// Makes packets.
#[derive(Debug)]
pub(super) struct SoundPackets {
    packetizer: Packetizer,
    rate_hz: u32,
    channels: usize,
    /// Samples of each channel that wait for a packet to be full.
    held: u32,
    /// When the next sample is captured; `None` before the first one.
    next: Option<Time>,
    /// Samples of each channel that were left out, since their time had been sent already.
    overlapping: u64,
}

impl SoundPackets {
    /// # Errors
    /// A packet of so many channels is larger than a datagram may be.
    pub(super) fn new(settings: PacketizerSettings) -> Result<SoundPackets> {
        Ok(SoundPackets {
            packetizer: Packetizer::new(settings)?,
            rate_hz: settings.format.rate_hz(),
            channels: usize::from(settings.format.channels()),
            held: 0,
            next: None,
            overlapping: 0,
        })
    }

    /// Takes a block that begins at the time stamp `stamp`, and calls `out` with each packet that is full and with the time at
    /// which its last sample was captured.
    ///
    /// # Errors
    /// The block has other channels, or another rate.
    pub(super) fn push(
        &mut self,
        mut block: AudioBlock,
        mut stamp: u32,
        out: &mut dyn FnMut(Time, &[u8]),
    ) -> Result<()> {
        let expected = self.packetizer.timestamp().wrapping_add(self.held);
        let apart = stamp.wrapping_sub(expected) as i32;
        if self.next.is_none() || !(-LEAP..=TOLERANCE).contains(&apart) {
            self.flush(out);
            self.packetizer.skip(stamp.wrapping_sub(self.packetizer.timestamp()));
        } else if apart < -TOLERANCE {
            let known = apart.unsigned_abs().min(block.frames() as u32);
            block.samples.drain(..known as usize * self.channels);
            block.captured += self.time_of(known);
            stamp = stamp.wrapping_add(known);
            self.overlapping += u64::from(known);
            if stamp.wrapping_sub(expected) as i32 != 0 {
                return Ok(());
            }
        }
        let begin = self.packetizer.timestamp().wrapping_add(self.held);
        let mut ends = self.packetizer.timestamp();
        let (samples, frames) = (self.packetizer.packet_samples(), block.frames() as u32);
        let rate_hz = self.rate_hz;
        self.packetizer.push(&block, &mut |datagram| {
            ends = ends.wrapping_add(samples);
            out(block.captured + time_of(ends.wrapping_sub(begin), rate_hz), datagram);
        })?;
        self.held = begin.wrapping_add(frames).wrapping_sub(self.packetizer.timestamp());
        self.next = Some(block.captured + self.time_of(frames));
        Ok(())
    }

    /// The clock of the stamps was set: what comes next has the stamp that it is given, also one from before.
    pub(super) fn begin_anew(&mut self, out: &mut dyn FnMut(Time, &[u8])) {
        self.flush(out);
        self.next = None;
    }

    /// What waits goes out with silence behind it.
    pub(super) fn flush(&mut self, out: &mut dyn FnMut(Time, &[u8])) {
        let Some(next) = self.next else { return };
        let end = next + self.time_of(self.packetizer.packet_samples().saturating_sub(self.held));
        self.packetizer.flush(&mut |datagram| out(end, datagram));
        self.held = 0;
    }

    /// Samples of each channel that were left out, since their time had been sent already.
    pub(super) fn overlapping(&self) -> u64 {
        self.overlapping
    }

    fn time_of(&self, samples: u32) -> Duration {
        time_of(samples, self.rate_hz)
    }
}

fn time_of(samples: u32, rate_hz: u32) -> Duration {
    Duration::from_nanos(u64::from(samples) * 1_000_000_000 / u64::from(rate_hz.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_transport::rtp::pcm::{Depth, Format, PacketTime};
    use proptest::prelude::*;

    fn packets(channels: u8) -> SoundPackets {
        let settings = PacketizerSettings {
            format: Format::new(Depth::L16, channels, 48_000).unwrap(),
            packet_time: PacketTime::Millisecond,
            payload_type: 97,
            ssrc: 1,
            first_sequence: 0,
            first_timestamp: 0,
        };
        SoundPackets::new(settings).unwrap()
    }

    /// A block at `micros` of samples that count up from `first`.
    fn block(micros: u64, first: usize, frames: usize) -> AudioBlock {
        let samples = (first..first + frames).map(|number| (number % 30_000) as f32 / 32_768.0).collect();
        AudioBlock { samples, channels: 1, rate_hz: 48_000, captured: Time::from_nanos(1000 * micros) }
    }

    fn micros(micros: u64) -> Time {
        Time::from_nanos(1000 * micros)
    }

    /// What a packet says: its stamp, when it was whole, its samples.
    type Seen = (u32, Time, Vec<i16>);

    fn push(packets: &mut SoundPackets, block: AudioBlock, stamp: u32) -> Vec<Seen> {
        let mut seen = Vec::new();
        packets.push(block, stamp, &mut |end, datagram| seen.push(read(end, datagram))).unwrap();
        seen
    }

    fn read(end: Time, datagram: &[u8]) -> Seen {
        let stamp = u32::from_be_bytes(*datagram[4..].first_chunk().unwrap());
        let samples = datagram[12..].as_chunks::<2>().0.iter().map(|sample| i16::from_be_bytes(*sample));
        (stamp, end, samples.collect())
    }

    #[test]
    fn packets_are_due_when_their_last_sample_was_captured() {
        let mut packets = packets(1);
        let seen = push(&mut packets, block(5_000, 0, 100), 7_000);
        assert_eq!(
            seen.iter().map(|seen| (seen.0, seen.1)).collect::<Vec<_>>(),
            [(7_000, micros(6_000)), (7_048, micros(7_000))]
        );
        // A few samples of jitter are no gap.
        let seen = push(&mut packets, block(7_100, 100, 44), 7_103);
        assert_eq!((seen[0].0, &seen[0].2[..], seen.len()), (7_096, &(96..144).collect::<Vec<i16>>()[..], 1));
        assert_eq!(packets.held, 0);
    }

    #[test]
    fn a_gap_is_told_by_the_stamp_and_an_overlap_is_left_out() {
        let mut packets = packets(1);
        assert_eq!(push(&mut packets, block(0, 0, 60), 0).len(), 1);
        let seen = push(&mut packets, block(20_000, 960, 48), 960);
        // What waited went out with silence behind it.
        assert_eq!((seen[0].0, seen[0].2[11], seen[0].2[12]), (48, 59, 0));
        assert_eq!((seen[0].1, seen[1].0, seen[1].1), (micros(2_000), 960, micros(21_000)));
        let seen = push(&mut packets, block(18_000, 864, 240), 864);
        assert_eq!((seen[0].0, seen[0].2[0], seen.len()), (1_008, 1_008, 2), "{seen:?}");
        assert_eq!(packets.overlapping(), 144);
        assert!(push(&mut packets, block(19_000, 912, 100), 912).is_empty());
        assert_eq!(packets.overlapping(), 244);
        // The clock was set back, by a little and by far.
        let mut none = |_: Time, _: &[u8]| {};
        packets.begin_anew(&mut none);
        assert_eq!(push(&mut packets, block(21_000, 0, 48), 500)[0].0, 500);
        assert_eq!(
            push(&mut packets, block(30_000, 0, 48), 0u32.wrapping_sub(90_000))[0].0,
            0u32.wrapping_sub(90_000)
        );
        let other = AudioBlock { channels: 2, ..block(0, 0, 2) };
        assert!(packets.push(other, 0, &mut |_, _| {}).is_err());
    }

    proptest! {
        #[test]
        fn every_sample_has_the_stamp_of_its_time(
            start: u32, sizes in prop::collection::vec(1usize..300, 1..40), holes in prop::collection::vec(0usize..400, 40),
        ) {
            let (mut packets, mut at, mut seen) = (packets(1), 0usize, Vec::new());
            for (size, hole) in sizes.iter().zip(&holes) {
                // What is no hole to speak of is none.
                at += if *hole > 200 { *hole } else { 0 };
                let stamp = start.wrapping_add(at as u32);
                packets.push(block(at as u64 * 1_000_000 / 48_000, at, *size), stamp, &mut |end, datagram| {
                    seen.push(read(end, datagram));
                }).unwrap();
                at += size;
            }
            packets.flush(&mut |end, datagram| seen.push(read(end, datagram)));
            let mut last = None;
            for (stamp, end, samples) in &seen {
                let first = stamp.wrapping_sub(start);
                prop_assert!(last.is_none_or(|last| first >= last), "{first} behind {last:?}");
                last = Some(first + 48);
                prop_assert!(end.since(Time::from_nanos(u64::from(first + 48) * 62_500 / 3)).as_micros() < 3);
                let is_right = |(index, sample): (usize, &i16)| {
                    *sample == 0 || *sample as usize == (first as usize + index) % 30_000
                };
                prop_assert!(samples.len() == 48 && samples.iter().enumerate().all(is_right));
            }
            let sent: usize = seen.len() * 48;
            prop_assert!(sent >= sizes.iter().sum());
        }
    }
}
