//! A publisher that is not shown yet: its bytes are kept from its first key frame on, until that is whole.

use crate::stream::StreamError;
use glassline_media::container::ts::pes::PesHeader;
use glassline_media::container::ts::{Aligner, PACKET_BYTES, Packet, Scan, Scanner};
use glassline_media::{Ticks, Time};
use std::time::Duration;

/// Bytes that are kept at most: of a key frame that is larger the beginning is shown before its end has come.
pub(super) const HELD_MAX_BYTES: usize = 16 << 20;
/// A publisher that shows no key frame for this long is shown from any unit on, as viewers enter its stream then.
const KEY_FRAME_TIMEOUT: Duration = Duration::from_secs(12);
/// Garbage in a row after which it is refused.
const GARBAGE_LIMIT_BYTES: u64 = 64 << 10;

/// Where a publisher's pictures begin, with all that came from there on.
#[derive(Debug)]
pub(super) struct Ready {
    /// PAT and PMT, then the packets.
    pub(super) packets: Vec<u8>,
    /// DTS and PTS of the first unit, where it says them.
    pub(super) stamps: Option<(Ticks, Ticks)>,
    /// The PID of its sound.
    pub(super) sound_pid: Option<u16>,
    /// The begun packet behind them.
    pub(super) rest: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Cue {
    began: Time,
    aligner: Aligner,
    scanner: Scanner,
    held: Vec<u8>,
    /// Where the newest unit of video begins in what is held, while no key frame has shown.
    unit_at: usize,
    /// PAT and PMT as they stand in front of the key frame, once one has shown.
    prelude: Option<Vec<u8>>,
    /// What came of the packet that has begun.
    rest: Vec<u8>,
    /// Garbage that was counted, and that came until the last packet.
    garbage: [u64; 2],
}

impl Cue {
    pub(super) fn new(now: Time) -> Cue {
        Cue {
            began: now,
            aligner: Aligner::new(),
            scanner: Scanner::new(),
            held: Vec::new(),
            unit_at: 0,
            prelude: None,
            rest: Vec::new(),
            garbage: [0, 0],
        }
    }

    /// Takes what came. Returns where the publisher can be shown from, once that is there.
    ///
    /// # Errors
    /// [`StreamError::NotMpegTs`].
    pub(super) fn push(&mut self, bytes: &[u8], now: Time) -> Result<Option<Ready>, StreamError> {
        let mut aligner = std::mem::take(&mut self.aligner);
        let (mut ready, mut whole) = (None, 0);
        aligner.push(bytes, &mut |run| {
            for packet in run.as_chunks::<PACKET_BYTES>().0 {
                whole += 1;
                match &mut ready {
                    None => ready = self.take(packet, now),
                    Some(ready) => ready.packets.extend_from_slice(packet),
                }
            }
        });
        self.aligner = aligner;
        let skipped = self.aligner.skipped_bytes();
        if whole > 0 {
            self.garbage[1] = skipped;
        }
        // What the aligner holds of a packet goes to the stream with the rest of it.
        let begun = self.aligner.missing_bytes().filter(|missing| *missing > 0);
        let begun = begun.map_or(0, |missing| PACKET_BYTES - missing);
        self.rest.extend_from_slice(bytes);
        let surplus = self.rest.len().saturating_sub(begun);
        self.rest.drain(..surplus);
        if skipped.saturating_sub(self.garbage[1]) > GARBAGE_LIMIT_BYTES {
            return Err(StreamError::NotMpegTs { bytes: skipped - self.garbage[1] });
        }
        Ok(ready.map(|ready| Ready { rest: std::mem::take(&mut self.rest), ..ready }))
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Bytes that belonged to no packet, since the last call.
    pub(super) fn take_garbage(&mut self) -> u64 {
        let skipped = self.aligner.skipped_bytes();
        skipped - std::mem::replace(&mut self.garbage[0], skipped)
    }

    fn take(&mut self, packet: &[u8; PACKET_BYTES], now: Time) -> Option<Ready> {
        let scan = self.scanner.scan(packet);
        if self.prelude.is_some() {
            // The next picture begins: the key frame is whole.
            let is_whole = scan.video_unit_start || self.held.len() >= HELD_MAX_BYTES;
            self.held.extend_from_slice(packet);
            return if is_whole { self.ready() } else { None };
        }
        if scan.video_unit_start {
            // What came before can be shown by nothing that follows.
            self.held.clear();
            self.unit_at = 0;
        } else if self.held.len() >= HELD_MAX_BYTES {
            self.held.clear();
        }
        let at = self.held.len();
        self.held.extend_from_slice(packet);
        if let Some(found) = &scan.entry {
            let from = if found.packets_back == 0 { at } else { self.unit_at };
            self.begin(from, found.point.prelude(false));
        } else if let Some(point) = self.begins_without_key_frame(&scan, now) {
            self.begin(at, point);
        }
        // Sound alone has no pictures to wait for.
        let has_video = self.scanner.program().is_some_and(|program| program.video().is_some());
        if self.prelude.is_some() && !has_video { self.ready() } else { None }
    }

    fn begins_without_key_frame(&self, scan: &Scan, now: Time) -> Option<Vec<u8>> {
        let is_due = scan.unit_start && now.since(self.began) >= KEY_FRAME_TIMEOUT;
        is_due.then(|| self.scanner.entry_here())?.map(|point| point.prelude(false))
    }

    fn begin(&mut self, from: usize, prelude: Vec<u8>) {
        self.held.drain(..from.min(self.held.len()));
        self.prelude = Some(prelude);
    }

    fn ready(&mut self) -> Option<Ready> {
        let mut packets = self.prelude.take()?;
        let stamps = self.held.first_chunk::<PACKET_BYTES>().and_then(|packet| {
            let header = PesHeader::parse(Packet::parse(packet).ok()?.payload).ok()?;
            let pts = header.pts?;
            let dts = Ticks(header.dts.unwrap_or(pts).cast_signed());
            Some((dts, Ticks::unwrap_near(pts, dts)))
        });
        packets.append(&mut self.held);
        let sound_pid = self.scanner.program().and_then(|program| program.audio()).map(|sound| sound.pid);
        Some(Ready { packets, stamps, sound_pid, rest: Vec::new() })
    }
}
