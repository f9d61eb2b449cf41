//! A publisher that is not shown yet: its bytes are kept from its first key frame on, until that is whole.

use crate::stream::StreamError;
use glassline_media::container::ts::pes::PesHeader;
use glassline_media::container::ts::{Aligner, PACKET_BYTES, Packet, SYNC_BYTE, Scan, Scanner};
use glassline_media::{Ticks, Time};
use std::time::Duration;

/// Bytes that are kept at most: of a key frame that is larger the beginning is shown before its end has come.
pub(super) const HELD_MAX_BYTES: usize = 16 << 20;
/// A publisher that shows no key frame for this long is shown from any unit on, as viewers enter its stream then.
const KEY_FRAME_TIMEOUT: Duration = Duration::from_secs(12);
/// A key frame that was not whole after this time is shown as far as it has come: behind it there may be no other picture.
const KEY_FRAME_WAIT: Duration = Duration::from_secs(1);
/// So many packets of a request that may go on with the last one have their counters looked at, as of a publisher that is shown.
const RETURNED_PACKETS: u16 = 1000;
/// Garbage in a row after which it is refused.
const GARBAGE_LIMIT_BYTES: u64 = 64 << 10;

/// Where a publisher's pictures begin, with all that came from there on.
#[derive(Debug)]
pub(super) struct Ready {
    /// PAT and PMT, then the packets.
    pub(super) packets: Vec<u8>,
    /// DTS and PTS of its first picture, or of its first sound where it has no video.
    pub(super) stamps: Option<(Ticks, Ticks)>,
    /// The PID of its sound.
    pub(super) sound_pid: Option<u16>,
    /// The begun packet behind them.
    pub(super) rest: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Cue {
    /// When its first packet came.
    began: Option<Time>,
    aligner: Aligner,
    scanner: Scanner,
    held: Vec<u8>,
    /// Where the newest unit of video begins in what is held, while no key frame has shown; `None`: it is not held.
    unit_at: Option<usize>,
    /// PAT and PMT as they stand in front of the key frame, once one has shown, and when that was.
    prelude: Option<(Vec<u8>, Time)>,
    /// The first bytes of a request that may go on with the last one, until it shows whether it does.
    returned: Option<Vec<u8>>,
    /// So many more packets have to go on by their counters.
    in_doubt: u16,
    /// They did not: another publisher has begun since that was last asked.
    began_anew: bool,
    /// What came of the packet that has begun.
    rest: Vec<u8>,
    /// Garbage that was counted, and that came until the last packet.
    garbage: [u64; 2],
}

impl Cue {
    /// A publisher of which nothing has come.
    pub(super) fn new() -> Cue {
        Cue::after(Aligner::new(), Scanner::new())
    }

    /// A publisher that was shown until now and is read further as it was: it may not say its tables again soon, and its
    /// counters go on.
    pub(super) fn after(aligner: Aligner, scanner: Scanner) -> Cue {
        let skipped = aligner.skipped_bytes();
        Cue {
            began: None,
            aligner,
            scanner,
            held: Vec::new(),
            unit_at: None,
            prelude: None,
            returned: None,
            in_doubt: 0,
            began_anew: false,
            rest: Vec::new(),
            garbage: [skipped, skipped],
        }
    }

    /// Its next request begins. Where that has not said that it goes on with the last one, it only `may`, and its packets show it.
    pub(super) fn return_publisher(&mut self, may: bool) {
        if may {
            self.in_doubt = RETURNED_PACKETS;
            self.returned.get_or_insert_default();
        }
    }

    /// Whether another publisher has begun by what was pushed.
    pub(super) fn take_began_anew(&mut self) -> bool {
        std::mem::take(&mut self.began_anew)
    }

    /// What came until now is of no use to what comes.
    fn begin_anew(&mut self) {
        *self = Cue { began_anew: true, ..Cue::new() };
    }

    /// As of a publisher that is shown: whether `bytes` go on with what came, `None` where they are too few to tell.
    fn go_on(&self, bytes: &[u8]) -> Option<bool> {
        match self.aligner.missing_bytes() {
            // Before the first packet there is nothing that it could not go on with.
            None => Some(self.scanner.packets() == 0),
            Some(0) => Some(self.scanner.may_follow(bytes.first_chunk()?)),
            Some(missing) => Some(*bytes.get(missing)? == SYNC_BYTE),
        }
    }

    /// Takes what came. Returns where the publisher can be shown from, once that is there.
    ///
    /// # Errors
    /// [`StreamError::NotMpegTs`].
    pub(super) fn push(&mut self, bytes: &[u8], now: Time) -> Result<Option<Ready>, StreamError> {
        let Some(mut all) = self.returned.take() else { return self.push_packets(bytes, now) };
        all.extend_from_slice(bytes);
        match self.go_on(&all) {
            None => {
                self.returned = Some(all);
                return Ok(None);
            }
            Some(true) => {}
            Some(false) => self.begin_anew(),
        }
        self.push_packets(&all, now)
    }

    fn push_packets(&mut self, bytes: &[u8], now: Time) -> Result<Option<Ready>, StreamError> {
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
        if self.in_doubt > 0 {
            self.in_doubt -= 1;
            if !self.scanner.may_follow(packet) {
                // The aligner is out at the moment, and goes on with the packets of either.
                let garbage = self.garbage;
                self.begin_anew();
                self.garbage = garbage;
            }
        }
        let began = *self.began.get_or_insert(now);
        let scan = self.scanner.scan(packet);
        if let Some((_, shown)) = self.prelude {
            // The next picture begins: the key frame is whole.
            let is_whole = scan.video_unit_start
                || self.held.len() >= HELD_MAX_BYTES
                || now.since(shown) >= KEY_FRAME_WAIT;
            self.held.extend_from_slice(packet);
            return if is_whole { self.ready() } else { None };
        }
        if scan.video_unit_start {
            // What came before can be shown by nothing that follows.
            self.held.clear();
            self.unit_at = Some(0);
        } else if self.held.len() >= HELD_MAX_BYTES {
            self.held.clear();
            self.unit_at = None;
        }
        let at = self.held.len();
        self.held.extend_from_slice(packet);
        let found = scan.entry.as_ref().and_then(|found| {
            let from = if found.packets_back == 0 { Some(at) } else { self.unit_at };
            Some((from?, found.point.prelude(false)))
        });
        if let Some((from, prelude)) = found {
            self.begin(from, prelude, now);
        } else if now.since(began) >= KEY_FRAME_TIMEOUT
            && let Some(prelude) = self.begins_without_key_frame(&scan, packet)
        {
            self.begin(at, prelude, now);
        }
        // Sound alone has no pictures to wait for.
        let has_video = self.scanner.program().is_some_and(|program| program.video().is_some());
        if self.prelude.is_some() && !has_video { self.ready() } else { None }
    }

    /// PAT and PMT, where a unit begins that the publisher can be shown from: a picture, or a PES packet where it has no video.
    /// The sections of tables have no stamps that its distance from the stream's clock could be told by.
    fn begins_without_key_frame(&self, scan: &Scan, packet: &[u8; PACKET_BYTES]) -> Option<Vec<u8>> {
        let begins = match self.scanner.program()?.video() {
            Some(_) => scan.video_unit_start,
            None => scan.unit_start && stamps(packet).is_some(),
        };
        begins.then(|| self.scanner.entry_here())?.map(|point| point.prelude(false))
    }

    fn begin(&mut self, from: usize, prelude: Vec<u8>, now: Time) {
        self.held.drain(..from.min(self.held.len()));
        self.prelude = Some((prelude, now));
    }

    fn ready(&mut self) -> Option<Ready> {
        let (mut packets, _) = self.prelude.take()?;
        let video = self.scanner.program().and_then(|program| program.video()).map(|video| video.pid);
        let is_of_video = |packet: &[u8; PACKET_BYTES]| {
            video.is_none_or(|pid| Packet::parse(packet).is_ok_and(|packet| packet.pid == pid))
        };
        let held = self.held.as_chunks::<PACKET_BYTES>().0;
        let stamps = held.iter().filter(|packet| is_of_video(packet)).find_map(stamps);
        packets.append(&mut self.held);
        let sound_pid = self.scanner.program().and_then(|program| program.audio()).map(|sound| sound.pid);
        Some(Ready { packets, stamps, sound_pid, rest: Vec::new() })
    }
}

/// DTS and PTS of the unit that begins in `packet`, where one does and says them.
fn stamps(packet: &[u8; PACKET_BYTES]) -> Option<(Ticks, Ticks)> {
    let packet = Packet::parse(packet).ok().filter(|packet| packet.unit_start)?;
    let header = PesHeader::parse(packet.payload).ok()?;
    let pts = header.pts?;
    let dts = Ticks(header.dts.unwrap_or(pts).cast_signed());
    Some((dts, Ticks::unwrap_near(pts, dts)))
}
