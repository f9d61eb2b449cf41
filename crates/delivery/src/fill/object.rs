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

use super::memory::Memory;
use super::passed_on::{self, is_passed_on};
use super::pieces::Pieces;
use crate::http1::Headers;
pub use bytes::Bytes;
use glassline_media::Time;
use std::sync::Arc;
use thiserror::Error;

/// The head of an answer: status and fields. The fields are written as lines once, for all readers of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    status: u16,
    /// Lines of fields as they stand in an answer, each with its end.
    lines: String,
}

impl Head {
    /// A head of this status without fields.
    pub fn of_status(status: u16) -> Head {
        Head { status, lines: String::new() }
    }

    /// The head of an object of this media type.
    pub fn new(media_type: &str) -> Head {
        Head::of_status(200).with("Content-Type", media_type)
    }

    /// The same with a field more; control characters are left out of name and value. Fields that frame the body are not
    /// for here.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Head {
        let clean = |text: &str, lines: &mut String| lines.extend(text.chars().filter(|it| !it.is_control()));
        clean(name, &mut self.lines);
        self.lines.push_str(": ");
        clean(value, &mut self.lines);
        self.lines.push_str("\r\n");
        self
    }

    /// The head for clients of an upstream server's answer with this status: the fields that say something of the object. Those
    /// that act on more than the answer stay behind, as do those that are between the two ends of a connection.
    pub fn of_answer(status: u16, headers: &Headers) -> Head {
        passed_on::head(status, headers)
    }

    /// It as an answer that it still holds (304), with these fields, updates it (RFC 9111 §3.2).
    #[must_use]
    pub fn renewed(&self, headers: &Headers) -> Head {
        passed_on::renewed(self, headers)
    }

    /// It with another `Location`, and without what says something of a body: that names the address which the server knew.
    #[must_use]
    pub fn moved(&self, location: &str) -> Head {
        let is_of_body = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.starts_with("content-")
                || ["etag", "last-modified", "accept-ranges", "repr-digest", "location"].contains(&&*name)
        };
        let kept = self.fields().filter(|(name, _)| !is_of_body(name));
        let head = kept.fold(Head::of_status(self.status), |head, (name, value)| head.with(name, value));
        head.with("Location", location)
    }

    /// It without what does not go on to clients ([`Head::of_answer`]): files of earlier versions have more.
    #[must_use]
    pub fn for_clients(&self) -> Head {
        let passed = self.fields().filter(|(name, _)| is_passed_on(name));
        passed.fold(Head::of_status(self.status), |head, (name, value)| head.with(name, value))
    }

    /// The head with this status and the fields in `lines`, which have the form of [`Head::lines`]; `None` where they have
    /// another form.
    pub fn of_lines(status: u16, lines: &str) -> Option<Head> {
        let mut head = Head::of_status(status);
        for line in lines.split_inclusive("\r\n") {
            let (name, value) = line.strip_suffix("\r\n")?.split_once(": ")?;
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_token) || value.chars().any(char::is_control) {
                return None;
            }
            head = head.with(name, value);
        }
        Some(head)
    }

    /// Status code: 200 where there is an object at all.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The fields as they stand in an answer: lines, each with its end.
    pub fn lines(&self) -> &str {
        &self.lines
    }

    /// Names and values of its fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.split_terminator("\r\n").filter_map(|line| line.split_once(": "))
    }

    /// The value of the first field of this name, in any case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

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
    fn a_head_is_made_of_its_lines_again() {
        let head = Head::new("video/mp4").with("ETag", "\"1\"").with("X-Empty", "");
        assert_eq!(Head::of_lines(200, head.lines()), Some(head));
        let old = Head::new("video/mp4").with("Set-Cookie", "a").with("ETag", "\"1\"");
        assert_eq!(old.for_clients(), Head::new("video/mp4").with("ETag", "\"1\""));
        assert_eq!(Head::of_lines(404, ""), Some(Head::of_status(404)));
        for lines in ["A: b", "A b\r\n", ": b\r\n", "A: b\r\n\r\n", "A: b\nC: d\r\n", "A B: c\r\n", "\r\n"] {
            assert_eq!(Head::of_lines(200, lines), None, "{lines:?}");
        }
    }

    #[test]
    fn a_redirect_that_leads_elsewhere_says_nothing_of_a_body() {
        let head = Head::of_status(302)
            .with("Content-Type", "text/html")
            .with("location", "http://origin/b")
            .with("ETag", "\"1\"")
            .with("Cache-Control", "max-age=5");
        let moved = Head::of_status(302).with("Cache-Control", "max-age=5").with("Location", "b");
        assert_eq!(head.moved("b"), moved);
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
