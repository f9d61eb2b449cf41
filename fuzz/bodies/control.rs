//! What a program says to the control socket of `glassline encode --control`.
//!
//! The first byte says how the rest is chopped.

use glassline::fuzzing::Conversation;
use std::io::Read;

/// The most bytes of a line, its end included; who sends more is cut off.
const LINE_MAX_BYTES: usize = 1024;

/// Has the bytes answered. Panics where the chop has an influence, where a line gets no answer or several, or where
/// what is asked of the encoder is not what the answers say.
pub fn run(data: &[u8]) {
    let Some((&chop, wire)) = data.split_first() else { return };
    let whole = Conversation::about(wire);
    let chopped = Conversation::about(Chopped { rest: wire, chop: 1 + usize::from(chop) });
    assert_eq!(whole, chopped, "any chop tells the same");

    let lines = lines(wire);
    let answers: Vec<&[u8]> = whole.answers.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(answers.len(), lines.len(), "a line, an answer");
    let (mut key_frame, mut bitrates_bps) = (false, [None; 2]);
    for (line, answer) in lines.iter().zip(answers) {
        // A status of two renditions takes some hundred bytes, a refusal quotes a word of the line in two notations.
        assert!(answer.len() <= 2048 + 12 * line.len(), "{} bytes to {}", answer.len(), line.len());
        let answer = std::str::from_utf8(answer).expect("JSON is UTF-8");
        let is_done = answer.starts_with("{\"ok\":true");
        assert!(is_done || answer.starts_with("{\"ok\":false,\"error\":\""), "{answer}");
        let inner = answer.strip_suffix("}\n").expect("one object in one line");
        assert!(!inner.contains(|character: char| character.is_control()), "{answer:?}");
        let text = String::from_utf8_lossy(line);
        let words: Vec<&str> = text.split_whitespace().collect();
        match (is_done, &words[..]) {
            (true, ["keyframe"]) => key_frame = true,
            (true, ["status"]) => {}
            (true, [what @ ("bitrate" | "rate" | "size" | "preset"), value, index @ ..])
                if index.len() <= 1 =>
            {
                // With a unit a rate is that of the bits.
                if *what == "bitrate" || *what == "rate" && value.ends_with(['k', 'M']) {
                    let index = index.first().map_or(0, |index| index.parse::<usize>().expect("an index"));
                    bitrates_bps[index] = Some(());
                }
            }
            (true, other) => panic!("{other:?} was done"),
            (false, refused) => {
                assert!(!matches!(refused, ["keyframe"] | ["status"]) || line.len() == LINE_MAX_BYTES);
            }
        }
    }
    assert_eq!(whole.key_frame, key_frame);
    assert_eq!(whole.bitrates_bps.map(|rate| rate.map(|_| ())), bitrates_bps);
    assert!(whole.bitrates_bps[0].is_none_or(|bps| (1_000..=1_000_000_000).contains(&bps)));
    assert!(whole.bitrates_bps[1].is_none_or(|bps| (1_000..=8_000_000).contains(&bps)));
}

/// The lines that are answered: up to the first that is too long, of which its beginning counts.
fn lines(wire: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    for line in wire.split_inclusive(|byte| *byte == b'\n') {
        lines.push(&line[..line.len().min(LINE_MAX_BYTES)]);
        if line.len() > LINE_MAX_BYTES || line.len() == LINE_MAX_BYTES && !line.ends_with(b"\n") {
            break;
        }
    }
    lines
}

/// Bytes that come a few at a time.
struct Chopped<'a> {
    rest: &'a [u8],
    chop: usize,
}

impl Read for Chopped<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.chop.min(into.len()).min(self.rest.len());
        let (now, rest) = self.rest.split_at(count);
        into[..count].copy_from_slice(now);
        self.rest = rest;
        Ok(count)
    }
}
