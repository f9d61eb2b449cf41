//! What waits for room in a socket, and what of it is an answer to the service, a picture or sound.

use std::collections::VecDeque;

/// What is written is moved away where so much of it has come together.
const WRITTEN_MAX: usize = 256 << 10;

/// What some bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An answer to what the service has sent.
    Answer,
    Picture,
    Sound,
    /// Metadata, sequence headers, and commands of the client's own.
    Description,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    what: What,
    bytes: usize,
    /// How much is written when all of it is.
    end: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Of these bytes so many are written.
    bytes: Vec<u8>,
    written: usize,
    /// Bytes that were written in all.
    sent: u64,
    marks: VecDeque<Mark>,
    answers: usize,
    pictures: u64,
    sounds: u64,
}

impl Outgoing {
    pub(super) fn push(&mut self, bytes: &[u8], what: What) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        match what {
            What::Answer => self.answers += bytes.len(),
            What::Picture => self.pictures += 1,
            What::Sound => self.sounds += 1,
            What::Description => return,
        }
        self.marks.push_back(Mark { what, bytes: bytes.len(), end: self.sent + self.waits() as u64 });
    }

    /// Bytes that wait.
    pub(super) fn waits(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Bytes of answers of which some wait.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// Pictures and units of sound that wait, also in part.
    pub(super) fn tags(&self) -> [u64; 2] {
        [self.pictures, self.sounds]
    }

    /// Bytes that were written in all.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// What is written next; `None` where nothing waits.
    pub(super) fn rest(&self) -> Option<&[u8]> {
        self.bytes.get(self.written..).filter(|rest| !rest.is_empty())
    }

    /// So many bytes of [`Outgoing::rest`] are written.
    pub(super) fn wrote(&mut self, count: usize) {
        self.written += count;
        self.sent += count as u64;
        while let Some(mark) = self.marks.front().copied().filter(|mark| mark.end <= self.sent) {
            self.marks.pop_front();
            match mark.what {
                What::Answer => self.answers -= mark.bytes,
                What::Picture => self.pictures -= 1,
                What::Sound => self.sounds -= 1,
                What::Description => {}
            }
        }
        // All of it, or much: moving what waits costs as much as there is of that.
        if self.waits() == 0 || self.written >= WRITTEN_MAX {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_known_by_its_kind() {
        let mut outgoing = Outgoing::default();
        outgoing.push(&[1; 10], What::Answer);
        outgoing.push(&[2; 5], What::Description);
        outgoing.push(&[3; 1 << 20], What::Picture);
        outgoing.push(&[4; 20], What::Sound);
        outgoing.push(&[5; 7], What::Answer);
        assert_eq!((outgoing.answers(), outgoing.tags(), outgoing.waits()), (17, [1, 1], (1 << 20) + 42));
        outgoing.wrote(9);
        assert_eq!(outgoing.answers(), 17, "it waits in part");
        outgoing.wrote(1);
        assert_eq!((outgoing.answers(), &outgoing.rest().unwrap()[..6]), (7, &[2, 2, 2, 2, 2, 3][..]));
        outgoing.wrote(4 + (1 << 20));
        assert_eq!(
            (outgoing.tags(), outgoing.bytes.len()),
            ([1, 1], 1 + 27),
            "what is written is moved away"
        );
        outgoing.wrote(1);
        assert_eq!(outgoing.tags(), [0, 1]);
        outgoing.wrote(27);
        assert_eq!((outgoing.answers(), outgoing.tags(), outgoing.rest()), (0, [0, 0], None));
        assert_eq!(outgoing.sent(), (1 << 20) + 42);
    }
}
