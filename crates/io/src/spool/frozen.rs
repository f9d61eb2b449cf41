//! Bytes that are there at once and never change: a memory file of their own, which sockets are fed from by `sendfile` and
//! which everybody else reads as memory.
#![allow(unsafe_code)]

use super::one_packet;
use crate::map::Map;
use crate::tcp::wait_is_none;
use rustix::fs::{MemfdFlags, SealFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The bytes. Takes a descriptor, and memory as large as they are.
#[derive(Debug)]
pub struct Frozen {
    file: OwnedFd,
    map: Map,
    length: usize,
}

impl Frozen {
    /// Copies `parts`, end to end.
    ///
    /// # Errors
    /// Where the system has no memory or descriptor left; `InvalidInput` where there is no byte.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> io::Result<Frozen> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("glassline-object", flags)?;
        let mut length = 0;
        for mut part in parts {
            while !part.is_empty() {
                let written = rustix::io::pwrite(&file, part, length as u64)?;
                length += written;
                part = &part[written..];
            }
        }
        if length == 0 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // No process, this one included, can change or cut it from here on: what was sent stays what it was, and what
        // was lent stays there.
        rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW)?;
        let map = Map::new(&file, length)?;
        Ok(Frozen { file, map, length })
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none: never.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Sends bytes from `from` on, to before `to` at most, without copying them through user space: as many as leave as one
    /// packet of segmentation offload. Returns how many those are; `None` where the socket takes none now.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&self, socket: impl AsFd, from: u64, to: u64) -> io::Result<Option<usize>> {
        let to = to.min(self.length as u64);
        let (mut at, count) = (from, one_packet(from, to.saturating_sub(from)) as usize);
        wait_is_none(|| Ok(rustix::fs::sendfile(&socket, &self.file, Some(&mut at), count)?))
    }
}

impl AsRef<[u8]> for Frozen {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the file has `length` bytes, and its seals keep anybody from writing to it or cutting it short.
        unsafe { self.map.bytes(0, self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_frozen_is_read_and_sent_as_it_was() {
        let parts: [&[u8]; 3] = [b"frozen ", b"", b"bytes"];
        let frozen = Frozen::of(parts).unwrap();
        assert_eq!((frozen.as_ref(), frozen.len()), (&b"frozen bytes"[..], 12));
        let (near, mut far) = UnixStream::pair().unwrap();
        assert_eq!(frozen.send(&near, 7, 99).unwrap(), Some(5));
        assert_eq!(frozen.send(&near, 12, 99).unwrap(), Some(0));
        drop(near);
        let mut got = String::new();
        far.read_to_string(&mut got).unwrap();
        assert_eq!(got, "bytes");
        assert!(rustix::io::pwrite(&frozen.file, b"x", 0).is_err(), "it is sealed");
        assert!(Frozen::of([&b""[..]]).is_err());
    }

    #[test]
    fn a_socket_that_is_full_takes_none() {
        let frozen = Frozen::of([&vec![7; 4 << 20][..]]).unwrap();
        let (near, _far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut at = 0;
        while let Some(sent) = frozen.send(&near, at, 4 << 20).unwrap() {
            assert!(sent > 0);
            at += sent as u64;
        }
        assert!(at < 4 << 20);
    }
}
