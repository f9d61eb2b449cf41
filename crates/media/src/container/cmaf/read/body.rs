//! Boxes that are there with all of their bytes, read from front to back (ISO/IEC 14496-12 §4.2).

use super::error::{FourCc, ReadError};

/// The longest head of a box: length, type, and the length again in 64 bits.
pub(super) const HEAD_MAX_BYTES: usize = 16;
/// The shortest.
pub(super) const HEAD_BYTES: usize = 8;

/// What stands in front of a box's content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) kind: FourCc,
    /// Where the box begins.
    pub(super) at: u64,
    /// Bytes of the head itself: 8 or 16.
    pub(super) bytes: usize,
    /// Bytes of the content.
    pub(super) content_bytes: u64,
}

impl Head {
    /// Where the content begins.
    pub(super) fn content_at(&self) -> u64 {
        self.at.saturating_add(self.bytes as u64)
    }

    /// Parses the head at the beginning of `bytes`, which lies at offset `at`. `None` where more of it has to come.
    ///
    /// # Errors
    /// [`ReadError::Size`] for a length less than the head's own, and for 0, "to the end", which a stream has not.
    pub(super) fn parse(bytes: &[u8], at: u64) -> Result<Option<Head>, ReadError> {
        let Some((&[s0, s1, s2, s3, a, b, c, d], rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let kind = FourCc([a, b, c, d]);
        let (size, bytes) = match u32::from_be_bytes([s0, s1, s2, s3]) {
            1 => match rest.first_chunk::<8>() {
                Some(size) => (u64::from_be_bytes(*size), HEAD_MAX_BYTES),
                None => return Ok(None),
            },
            size => (u64::from(size), HEAD_BYTES),
        };
        match size.checked_sub(bytes as u64) {
            Some(content_bytes) => Ok(Some(Head { kind, at, bytes, content_bytes })),
            None => Err(ReadError::Size { kind, found: size, expected: "at least its own head", at }),
        }
    }
}

/// The content of a box, as far as it is not read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a> {
    pub(super) kind: FourCc,
    /// Where the box begins.
    pub(super) at: u64,
    /// Where `rest` begins.
    next: u64,
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    /// The whole content of the box with this head.
    pub(super) fn new(head: Head, content: &'a [u8]) -> Body<'a> {
        Body { kind: head.kind, at: head.at, next: head.content_at(), rest: content }
    }

    pub(super) fn is(&self, kind: &[u8; 4]) -> bool {
        self.kind.0 == *kind
    }

    pub(super) fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], ReadError> {
        let truncated = ReadError::Truncated { kind: self.kind, what, at: self.at };
        let (field, rest) = self.rest.split_at_checked(count).ok_or(truncated)?;
        self.next = self.next.saturating_add(count as u64);
        self.rest = rest;
        Ok(field)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ReadError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, ReadError> {
        self.array(what).map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, ReadError> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, ReadError> {
        self.array(what).map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, ReadError> {
        self.array(what).map(u64::from_be_bytes)
    }

    /// Version and flags of a full box.
    pub(super) fn version_and_flags(&mut self) -> Result<(u8, u32), ReadError> {
        let word = self.u32("version and flags")?;
        Ok(((word >> 24) as u8, word & 0x00ff_ffff))
    }

    /// A number of 64 bits in version 1 of the box, and of 32 in version 0.
    pub(super) fn u32_or_u64(&mut self, version: u8, what: &'static str) -> Result<u64, ReadError> {
        if version == 0 { self.u32(what).map(u64::from) } else { self.u64(what) }
    }

    /// All that is left.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next box inside. Fewer bytes than a box has are none.
    pub(super) fn next_box(&mut self) -> Result<Option<Body<'a>>, ReadError> {
        if self.rest.len() < HEAD_BYTES {
            return Ok(None);
        }
        let truncated = ReadError::Truncated { kind: self.kind, what: "the head of a box", at: self.at };
        let head = Head::parse(self.rest, self.next)?.ok_or(truncated)?;
        if head.content_bytes > self.rest.len().saturating_sub(head.bytes) as u64 {
            let found = head.content_bytes.saturating_add(head.bytes as u64);
            let expected = "no more than the box around it";
            return Err(ReadError::Size { kind: head.kind, found, expected, at: head.at });
        }
        self.take(head.bytes, "the head of a box")?;
        let length = usize::try_from(head.content_bytes).unwrap_or(usize::MAX);
        self.take(length, "a box").map(|content| Some(Body::new(head, content)))
    }

    /// The first box of a type among those that are left.
    pub(super) fn find(mut self, kind: &[u8; 4]) -> Result<Option<Body<'a>>, ReadError> {
        while let Some(inner) = self.next_box()? {
            if inner.is(kind) {
                return Ok(Some(inner));
            }
        }
        Ok(None)
    }

    /// The same, where there has to be one.
    pub(super) fn need(self, kind: &[u8; 4]) -> Result<Body<'a>, ReadError> {
        let missing = ReadError::Missing { kind: self.kind, expected: FourCc(*kind), at: self.at };
        self.find(kind)?.ok_or(missing)
    }

    /// The error that says that a field of this box is wrong.
    pub(super) fn unexpected(&self, what: &'static str, found: u64, expected: &'static str) -> ReadError {
        ReadError::Unexpected { what, found, expected, kind: self.kind, at: self.at }
    }
}
