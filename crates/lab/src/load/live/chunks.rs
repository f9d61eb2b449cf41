//! CMAF chunks as they come: `[prft] moof mdat` (ISO/IEC 23000-19 §7.3.2). Nothing of their samples is kept.

use glassline_media::Utc;

/// A chunk that has come whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// When its sample was captured, by the encoder's clock (`prft`), where it says so.
    pub captured: Option<Utc>,
}

/// Bytes of a box's head: size and type, and a size of 64 bits where the first is 1.
const HEAD_BYTES: usize = 8;
const LARGE_HEAD_BYTES: usize = 16;
/// Bytes of a `prft` up to behind its time: version and flags, track, NTP time.
const PRFT_BYTES: usize = 16;
/// Seconds from 1900, where NTP begins, to 1970.
const NTP_EPOCH: u64 = 2_208_988_800;

/// Finds the chunks of one object: a part, a segment, or an initialisation segment, which has none.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    head: Vec<u8>,
    /// What is left of the box that has begun; `None` between boxes, or where it lasts to the object's end.
    left: Option<u64>,
    kind: [u8; 4],
    prft: Vec<u8>,
    captured: Option<Utc>,
    malformed: bool,
}

impl Chunks {
    /// Before the first byte.
    pub fn new() -> Chunks {
        Chunks::default()
    }

    /// Whether this can be no file of boxes, or has ended inside of one.
    pub fn is_malformed(&self) -> bool {
        self.malformed
    }

    /// Takes what comes next, and calls `found` for each chunk that ends in it.
    pub fn push(&mut self, mut bytes: &[u8], found: &mut impl FnMut(Chunk)) {
        while !bytes.is_empty() && !self.malformed {
            let Some(left) = self.left else {
                bytes = self.begin(bytes, found);
                continue;
            };
            let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (piece, rest) = bytes.split_at(count);
            if &self.kind == b"prft" {
                let wanted = PRFT_BYTES.saturating_sub(self.prft.len()).min(count);
                self.prft.extend_from_slice(&piece[..wanted]);
            }
            bytes = rest;
            self.left = Some(left - count as u64);
            self.end_box(found);
        }
    }

    /// Takes bytes of a box's head; returns what is behind them.
    fn begin<'a>(&mut self, bytes: &'a [u8], found: &mut impl FnMut(Chunk)) -> &'a [u8] {
        let is_large = |head: &[u8]| head.get(..4) == Some(&[0, 0, 0, 1]);
        let wanted = if is_large(&self.head) { LARGE_HEAD_BYTES } else { HEAD_BYTES };
        let (piece, rest) = bytes.split_at(bytes.len().min(wanted - self.head.len()));
        self.head.extend_from_slice(piece);
        if self.head.len() < wanted || (wanted == HEAD_BYTES && is_large(&self.head)) {
            return rest;
        }
        let word = |at: usize| {
            let bytes = self.head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            u64::from(u32::from_be_bytes(bytes.unwrap_or_default()))
        };
        let size = if wanted == LARGE_HEAD_BYTES { word(8) << 32 | word(12) } else { word(0) };
        self.kind = self.head[4..8].try_into().unwrap_or_default();
        match size.checked_sub(wanted as u64) {
            Some(left) if self.kind.iter().all(|byte| (0x20..0x7F).contains(byte)) => self.left = Some(left),
            _ => self.malformed = true,
        }
        self.head.clear();
        self.prft.clear();
        self.end_box(found);
        rest
    }

    /// Does what the end of a box is worth, where it has come.
    fn end_box(&mut self, found: &mut impl FnMut(Chunk)) {
        if self.left != Some(0) {
            return;
        }
        self.left = None;
        match &self.kind {
            b"prft" => self.captured = parse_time(&self.prft),
            b"mdat" => found(Chunk { captured: self.captured.take() }),
            _ => {}
        }
    }

    /// The object has ended.
    pub fn end(&mut self) {
        self.malformed |= self.left.is_some() || !self.head.is_empty();
    }
}

/// The time of a `prft` (ISO/IEC 14496-12 §8.16.5), from behind its head. Seconds before 1970 are those of the era that
/// begins in 2036.
fn parse_time(prft: &[u8]) -> Option<Utc> {
    let ntp = u64::from_be_bytes(prft.get(8..16)?.try_into().ok()?);
    let (seconds, fraction) = (ntp >> 32, ntp & 0xFFFF_FFFF);
    let seconds = if seconds < NTP_EPOCH { seconds + (1 << 32) } else { seconds };
    Some(Utc::from_nanos((seconds - NTP_EPOCH) * 1_000_000_000 + ((fraction * 1_000_000_000) >> 32)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let size = (body.len() + HEAD_BYTES) as u32;
        [&size.to_be_bytes()[..], kind, body].concat()
    }

    /// A segment of two chunks, the second without a time.
    fn segment() -> Vec<u8> {
        let seconds = (NTP_EPOCH + 1_000) << 32 | 1 << 31;
        let prft = [&[1, 0, 0, 24, 0, 0, 0, 1][..], &seconds.to_be_bytes(), &[0; 8]].concat();
        let large = [&1u32.to_be_bytes()[..], b"mdat", &20u64.to_be_bytes(), &[7; 4]].concat();
        let boxes = [
            boxed(b"styp", b"msdh"),
            boxed(b"prft", &prft),
            boxed(b"moof", &[1; 30]),
            boxed(b"mdat", &[2; 9]),
        ];
        [boxes.concat(), boxed(b"moof", &[]), large].concat()
    }

    fn read(wire: &[u8], cuts: &[usize]) -> (Vec<Chunk>, bool) {
        let (mut chunks, mut found, mut from) = (Chunks::new(), Vec::new(), 0);
        for cut in cuts.iter().copied().chain([wire.len()]) {
            let to = cut.clamp(from, wire.len());
            chunks.push(&wire[from..to], &mut |chunk| found.push(chunk));
            from = to;
        }
        chunks.end();
        (found, chunks.is_malformed())
    }

    #[test]
    fn our_own_chunks_tell_when_they_were_captured() {
        use glassline_media::container::cmaf::{Captured, write_chunk};
        let (utc, mut wire) = (Utc::from_nanos(1_764_000_000_123_456_789), Vec::new());
        write_chunk(1, Some(Captured { track_id: 1, utc, media_time: 0 }), &[], &mut wire);
        let (found, malformed) = read(&wire, &[]);
        let told = found[0].captured.unwrap().as_nanos();
        assert!(!malformed && found.len() == 1 && told.abs_diff(utc.as_nanos()) < 2, "{told}");
    }

    proptest! {
        #[test]
        fn chunks_are_found_however_they_are_cut(mut cuts in proptest::collection::vec(0usize..120, 0..6)) {
            cuts.sort_unstable();
            let expected = [Some(Utc::from_nanos(1_000_500_000_000)), None].map(|captured| Chunk { captured });
            prop_assert_eq!(read(&segment(), &cuts), (expected.to_vec(), false));
        }

        #[test]
        fn what_is_cut_off_shows(length in 0usize..1000) {
            let (wire, ends) = (segment(), [12, 44, 82, 99, 107]);
            let length = length % wire.len();
            let (found, malformed) = read(&wire[..length], &[]);
            prop_assert_eq!((found.len(), malformed), (usize::from(length >= 99), length != 0 && !ends.contains(&length)));
        }

        #[test]
        fn garbage_never_panics(wire in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
            read(&wire, &[cut]);
        }
    }
}
