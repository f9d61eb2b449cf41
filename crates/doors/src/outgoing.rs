//! Bytes that wait for room in a socket.

use crate::wire::Wire;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// Parts that are written by one call at most.
const RUNS_A_WRITE: usize = 16;

/// Bytes that wait, in parts.
#[derive(Debug, Default)]
pub struct Outgoing {
    parts: VecDeque<Bytes>,
    bytes: usize,
}

impl Outgoing {
    /// Puts `part` behind what waits.
    pub fn push(&mut self, part: impl Into<Bytes>) {
        let part = part.into();
        if !part.is_empty() {
            self.bytes += part.len();
            self.parts.push_back(part);
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// A copy of what waits, as one run of bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.parts.iter().flatten().copied().collect()
    }

    /// What waits, as one run of bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.parts.into_iter().flatten().collect()
    }

    /// Gives back the memory of what has been written: for one that is seldom used, and of which there are very many.
    pub fn release(&mut self) {
        if self.parts.is_empty() {
            self.parts = VecDeque::new();
        }
    }

    /// Writes what fits. Returns whether all is written.
    pub fn flush(&mut self, wire: &mut Wire) -> io::Result<bool> {
        while !self.parts.is_empty() {
            let written = if let [part] = self.parts.make_contiguous() {
                wire.write(part)?
            } else {
                let mut runs = [IoSlice::new(&[]); RUNS_A_WRITE];
                let count = self.parts.len().min(RUNS_A_WRITE);
                for (run, part) in runs.iter_mut().zip(&self.parts) {
                    *run = IoSlice::new(part);
                }
                wire.write_vectored(&runs[..count])?
            };
            let Some(written) = written else { return Ok(false) };
            self.advance(written);
        }
        Ok(wire.flush()?.all)
    }

    /// The first `bytes` are written.
    fn advance(&mut self, mut bytes: usize) {
        self.bytes -= bytes;
        while let Some(part) = self.parts.front_mut()
            && bytes > 0
        {
            if bytes < part.len() {
                part.advance(bytes);
                return;
            }
            bytes -= part.len();
            self.parts.pop_front();
        }
    }
}

impl From<Vec<u8>> for Outgoing {
    fn from(bytes: Vec<u8>) -> Outgoing {
        let mut outgoing = Outgoing::default();
        outgoing.push(bytes);
        outgoing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_io::tcp::Connection;
    use proptest::prelude::*;

    fn pair() -> (Wire, Connection) {
        let (ours, theirs) = Connection::pair(4096).unwrap();
        (Wire::plain(ours), theirs)
    }

    /// All that has come to the other end.
    fn received(theirs: &Connection) -> Vec<u8> {
        let (mut got, mut buffer) = (Vec::new(), [0; 1000]);
        while let Some(count @ 1..) = theirs.read(&mut buffer).unwrap() {
            got.extend_from_slice(&buffer[..count]);
        }
        got
    }

    #[test]
    fn parts_leave_in_their_order_and_empty_ones_are_none() {
        let (mut wire, theirs) = pair();
        let mut outgoing = Outgoing::from(b"one".to_vec());
        outgoing.push(&b""[..]);
        outgoing.push(&b" two"[..]);
        assert_eq!((outgoing.len(), outgoing.is_empty()), (7, false));
        assert_eq!(outgoing.to_bytes(), b"one two");
        assert!(outgoing.flush(&mut wire).unwrap());
        assert_eq!((received(&theirs), outgoing.len(), outgoing.is_empty()), (b"one two".to_vec(), 0, true));
        assert!(outgoing.flush(&mut wire).unwrap(), "nothing is written as a whole");
        assert_eq!(received(&theirs), b"");
    }

    #[test]
    fn an_empty_one_of_bytes_is_empty() {
        let outgoing = Outgoing::from(Vec::new());
        assert_eq!((outgoing.is_empty(), outgoing.len()), (true, 0));
        assert_eq!(outgoing.into_bytes(), b"");
    }

    #[test]
    fn more_parts_than_one_call_writes_leave_too() {
        let (mut wire, theirs) = pair();
        let mut outgoing = Outgoing::default();
        let all: Vec<u8> = (0..3 * RUNS_A_WRITE as u8 + 1).collect();
        all.iter().for_each(|byte| outgoing.push(vec![*byte]));
        assert!(outgoing.flush(&mut wire).unwrap());
        assert_eq!(received(&theirs), all);
    }

    #[test]
    fn what_does_not_fit_waits_and_goes_on_where_it_was() {
        let (mut wire, theirs) = pair();
        let all: Vec<u8> = (0..200_000u32).map(|at| (at % 251) as u8).collect();
        let mut outgoing = Outgoing::default();
        all.chunks(30_001).for_each(|part| outgoing.push(part.to_vec()));
        let (mut got, mut turns) = (Vec::new(), 0);
        while !outgoing.flush(&mut wire).unwrap() {
            assert_eq!(outgoing.len() + got.len() + received_into(&theirs, &mut got), all.len());
            turns += 1;
        }
        got.extend(received(&theirs));
        assert_eq!(got, all);
        assert!(turns > 1, "the socket has less room than that");
    }

    /// Takes what has come. Returns how much that was.
    fn received_into(theirs: &Connection, got: &mut Vec<u8>) -> usize {
        let more = received(theirs);
        got.extend_from_slice(&more);
        more.len()
    }

    #[test]
    fn a_peer_that_has_gone_is_an_error() {
        let (mut wire, theirs) = pair();
        drop(theirs);
        assert!(Outgoing::from(b"hello".to_vec()).flush(&mut wire).is_err());
    }

    #[test]
    fn memory_is_given_back_when_nothing_waits() {
        let mut outgoing = Outgoing::default();
        (0..100).for_each(|_| outgoing.push(vec![1]));
        outgoing.release();
        assert_eq!(outgoing.len(), 100, "what waits stays");
        outgoing.advance(100);
        outgoing.release();
        assert_eq!(outgoing.parts.capacity(), 0);
    }

    proptest! {
        #[test]
        fn it_is_a_line_of_bytes_of_which_the_front_leaves(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
            steps in prop::collection::vec(0usize..30, 0..20),
        ) {
            let (mut outgoing, mut line) = (Outgoing::default(), parts.concat());
            parts.into_iter().for_each(|part| outgoing.push(part));
            for step in steps {
                let step = step.min(line.len());
                outgoing.advance(step);
                line.drain(..step);
                prop_assert_eq!(outgoing.to_bytes(), line.clone());
                prop_assert_eq!((outgoing.len(), outgoing.is_empty()), (line.len(), line.is_empty()));
            }
            prop_assert_eq!(outgoing.into_bytes(), line);
        }
    }
}
