//! One object, from nothing to whole.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::head::Head;
use super::memory::Memory;
use super::pieces::Pieces;
pub use bytes::Bytes;
use glassline_media::Time;
use std::sync::Arc;
use thiserror::Error;

/// Why an object will never be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// It will not come: its stream has ended before the object began.
    #[error("it will not come: its stream has ended")]
    Ended,
    /// The upstream servers that have it cannot be reached, or broke off and cannot go on.
    #[error("the upstream servers that have it cannot be reached")]
    Upstream,
    /// They do not let this server in with the key that it shows.
    #[error("the upstream server refuses the key of this one")]
    Barred,
    /// What came is not what was announced.
    #[error("the upstream server's answer cannot be used")]
    Malformed,
    /// It is larger than objects may be.
    #[error("it is larger than an object may be")]
    TooLarge,
    /// A fault of this program's own has ended it.
    #[error("an internal fault of this server has ended it")]
    Fault,
}

/// How far an object has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is said before the bytes; `None` while that is not known.
    pub head: Option<Arc<Head>>,
    /// Bytes that are there.
    pub filled: u64,
    /// All bytes, where it is known how many they are or will be.
    pub total: Option<u64>,
    /// Whether no more will come.
    pub is_whole: bool,
    /// Why it will never be whole.
    pub failure: Option<Failure>,
    /// When the server that has made it sent it, as far as that is known: `Age` (RFC 9111 §5.1) counts from then.
    pub sent: Option<Time>,
}

/// Bytes that grow until they are whole, and never change.
#[derive(Clone, Debug, Default)]
pub struct Object {
    head: Option<Arc<Head>>,
    pieces: Pieces,
    announced: Option<u64>,
    is_whole: bool,
    failure: Option<Failure>,
    sent: Option<Time>,
}

impl Object {
    /// An object of which nothing is known yet.
    pub fn new() -> Object {
        Object::default()
    }

    /// The same; `memory` counts the bytes that it takes.
    pub fn counted(memory: Memory) -> Object {
        Object { pieces: Pieces::counted(Some(memory)), ..Object::default() }
    }

    /// What counts its memory, if anything does.
    pub fn memory(&self) -> Option<&Memory> {
        self.pieces.memory()
    }

    /// An object that is whole.
    pub fn whole(head: Head, bytes: Bytes) -> Object {
        let mut object = Object::new();
        object.begin(head, None);
        object.append(bytes);
        object.finish();
        object
    }

    /// The same bytes under another head.
    #[must_use]
    pub fn under(self, head: Head) -> Object {
        Object { head: Some(Arc::new(head)), ..self }
    }

    /// Its head is known, and perhaps how many bytes will come. Without effect where it has begun.
    pub fn begin(&mut self, head: Head, announced: Option<u64>) {
        if self.head.is_none() && self.failure.is_none() {
            (self.head, self.announced) = (Some(Arc::new(head)), announced);
        }
    }

    /// The server that has made it sent it then.
    pub fn set_sent(&mut self, at: Time) {
        self.sent = Some(at);
    }

    /// The next bytes. What comes behind its end, or behind the announced length, is refused: the object has then failed.
    pub fn append(&mut self, bytes: Bytes) {
        if self.is_whole || self.failure.is_some() {
            return;
        }
        let end = self.pieces.end().saturating_add(bytes.len() as u64);
        if self.announced.is_some_and(|all| end > all) {
            self.fail(Failure::Malformed);
            return;
        }
        self.pieces.append(bytes);
    }

    /// All has come. With fewer bytes than announced it has failed instead.
    pub fn finish(&mut self) {
        if self.announced.is_some_and(|all| self.pieces.end() < all) {
            self.fail(Failure::Malformed);
        } else if self.failure.is_none() {
            self.is_whole = true;
        }
    }

    /// Its bytes lie elsewhere from now on: `bytes` are the same. Without effect where it is not whole, or they are not as many.
    pub fn lie_in(&mut self, bytes: Bytes) {
        if self.is_whole && bytes.len() as u64 == self.pieces.end() {
            self.pieces = Pieces::counted(self.pieces.memory().cloned());
            self.pieces.append(bytes);
        }
    }

    /// Frees the runs that lie wholly before byte `before`: no reader needs them any more.
    pub fn trim(&mut self, before: u64) {
        self.pieces.trim(before);
    }

    /// It will never be whole. Without effect where it is.
    pub fn fail(&mut self, failure: Failure) {
        if !self.is_whole && self.failure.is_none() {
            self.failure = Some(failure);
        }
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        let total = if self.is_whole { Some(self.pieces.end()) } else { self.announced };
        Progress {
            head: self.head.clone(),
            filled: self.pieces.end(),
            total,
            is_whole: self.is_whole,
            failure: self.failure,
            sent: self.sent,
        }
    }

    /// Bytes that are there.
    pub fn filled(&self) -> u64 {
        self.pieces.end()
    }

    /// Why it will never be whole.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Whether nothing will change any more.
    pub fn is_over(&self) -> bool {
        self.is_whole || self.failure.is_some()
    }

    /// Appends to `into` what is there from byte `from` to before byte `to`. Returns how many bytes that is. Nothing is copied.
    pub fn read(&self, from: u64, to: u64, into: &mut Vec<Bytes>) -> u64 {
        self.pieces.read(from, to, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(object: &Object) -> Vec<u8> {
        let mut got = Vec::new();
        object.read(0, u64::MAX, &mut got);
        got.concat()
    }

    #[test]
    fn an_object_is_read_while_it_fills() {
        let mut object = Object::new();
        assert_eq!((object.progress().head, object.progress().total), (None, None));
        object.begin(Head::new("video/mp4"), None);
        object.append(Bytes::from_static(b"ab"));
        assert_eq!((bytes(&object), object.progress().total), (b"ab".to_vec(), None));
        object.append(Bytes::from_static(b"c"));
        object.finish();
        object.append(Bytes::from_static(b"late"));
        let progress = object.progress();
        assert_eq!((bytes(&object), progress.total, progress.is_whole), (b"abc".to_vec(), Some(3), true));
    }

    #[test]
    fn the_bytes_of_what_is_whole_may_lie_elsewhere() {
        let mut object = Object::new();
        object.begin(Head::new("video/mp4"), None);
        object.append(Bytes::from_static(b"ab"));
        object.lie_in(Bytes::from_static(b"ab"));
        object.append(Bytes::from_static(b"c"));
        object.finish();
        object.lie_in(Bytes::from_static(b"shorter"));
        assert_eq!(bytes(&object), b"abc");
        let elsewhere = Bytes::from(vec![b'a', b'b', b'c']);
        let address = elsewhere.as_ptr();
        object.lie_in(elsewhere);
        let mut got = Vec::new();
        assert_eq!(object.read(0, u64::MAX, &mut got), 3);
        assert_eq!((got[0].as_ptr(), &got.concat()[..]), (address, &b"abc"[..]));
    }

    #[test]
    fn a_length_that_is_not_kept_is_a_failure() {
        for (sent, failure) in
            [(&b"abcd"[..], Some(Failure::Malformed)), (b"ab", Some(Failure::Malformed)), (b"abc", None)]
        {
            let mut object = Object::new();
            object.begin(Head::new("video/mp4"), Some(3));
            object.append(Bytes::copy_from_slice(sent));
            object.finish();
            let progress = object.progress();
            assert_eq!((progress.failure, progress.is_whole), (failure, failure.is_none()), "{sent:?}");
            assert!(bytes(&object).len() <= 3);
        }
    }

    #[test]
    fn what_has_failed_stays_failed_and_what_is_whole_stays_whole() {
        let mut object = Object::new();
        object.fail(Failure::Ended);
        object.begin(Head::new("video/mp4"), None);
        object.finish();
        assert_eq!((object.progress().failure, object.progress().head), (Some(Failure::Ended), None));
        let mut object = Object::whole(Head::new("video/mp4"), Bytes::from_static(b"x"));
        object.fail(Failure::Upstream);
        assert_eq!((object.progress().failure, object.is_over()), (None, true));
    }
}
