//! Between an old process and the new one that takes its place: a local socket that carries bytes and descriptors.
//!
//! The place to meet is an abstract name (unix(7)): it needs no file, and is gone with the process that holds it.
//! Both sides look at the user and the process of the other (`SO_PEERCRED`).

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// Descriptors in a message: the kernel takes 253 (SCM_MAX_FD).
const DESCRIPTORS_A_MESSAGE: usize = 253;

/// Where a process waits for the one that will take its place.
#[derive(Debug)]
pub struct Meeting(UnixListener);

impl Meeting {
    /// Waits under `name`.
    ///
    /// # Errors
    /// `AddrInUse` where another process does.
    pub fn open(name: &str) -> io::Result<Meeting> {
        Ok(Meeting(UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?))
    }

    /// The user and the process that hold `name`; `None` where none does, or the system does not tell.
    pub fn holder(name: &str) -> Option<(u32, u32)> {
        // Of a socket that listens these are its credentials when it began to.
        Channel::connect(name).ok()?.peer().ok()
    }

    /// Waits for a process to connect.
    pub fn accept(&self) -> io::Result<Channel> {
        loop {
            match self.0.accept() {
                Ok((stream, _)) => return Ok(Channel(stream)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A connection to the other process. Calls block, for as long as [`Channel::set_timeouts`] says.
#[derive(Debug)]
pub struct Channel(UnixStream);

impl Channel {
    /// Goes to the process that waits under `name`.
    ///
    /// # Errors
    /// `ConnectionRefused` where none does.
    pub fn connect(name: &str) -> io::Result<Channel> {
        Ok(Channel(UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?))
    }

    /// Fails with `WouldBlock` what takes longer than this.
    pub fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(timeout))?;
        self.0.set_write_timeout(Some(timeout))
    }

    /// The user that runs the other process, and its process id.
    pub fn peer(&self) -> io::Result<(u32, u32)> {
        let credentials = sockopt::socket_peercred(&self.0)?;
        Ok((credentials.uid.as_raw(), credentials.pid.as_raw_nonzero().get().unsigned_abs()))
    }

    /// Sends a message.
    pub fn send(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let head = [bytes.len() as u64, descriptors.len() as u64].map(u64::to_le_bytes).concat();
        self.0.write_all(&head)?;
        for descriptors in descriptors.chunks(DESCRIPTORS_A_MESSAGE) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_A_MESSAGE))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            sendmsg(&self.0, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
        }
        self.0.write_all(bytes)
    }

    /// Receives a message of at most `limit` bytes.
    ///
    /// # Errors
    /// `UnexpectedEof` where the other process has ended; `InvalidData` where it sends what is no message or too long.
    pub fn receive(&mut self, limit: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let (mut bytes, mut count) = ([0; 8], [0; 8]);
        self.0.read_exact(&mut bytes)?;
        self.0.read_exact(&mut count)?;
        let length = usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(usize::MAX);
        let count = usize::try_from(u64::from_le_bytes(count)).unwrap_or(usize::MAX);
        if length > limit {
            return Err(invalid(format!("a message of {length} bytes, at most {limit} are taken")));
        }
        let mut descriptors = Vec::new();
        while descriptors.len() < count {
            let before = descriptors.len();
            self.receive_descriptors(&mut descriptors)?;
            if descriptors.len() == before {
                return Err(invalid(format!("{before} descriptors came of {count}")));
            }
        }
        let mut message = vec![0; length];
        self.0.read_exact(&mut message)?;
        Ok((message, descriptors))
    }

    fn receive_descriptors(&mut self, into: &mut Vec<OwnedFd>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_A_MESSAGE))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                into.extend(descriptors);
            }
        }
        if got.bytes == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn invalid(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(name: &str) -> (Channel, Channel, Meeting) {
        let name = format!("{name}-{}", std::process::id());
        let meeting = Meeting::open(&name).unwrap();
        let one = Channel::connect(&name).unwrap();
        let other = meeting.accept().unwrap();
        for channel in [&one, &other] {
            channel.set_timeouts(Duration::from_secs(10)).unwrap();
        }
        (one, other, meeting)
    }

    #[test]
    fn more_descriptors_than_a_message_holds_come_in_order() {
        let (mut one, mut other, _meeting) = meet("descriptors");
        assert_eq!(other.peer().unwrap(), (rustix::process::getuid().as_raw(), std::process::id()));
        let files: Vec<OwnedFd> = (0..600u32)
            .map(|number| {
                let flags = rustix::fs::MemfdFlags::CLOEXEC;
                let file = rustix::fs::memfd_create("test", flags).unwrap();
                rustix::io::pwrite(&file, &number.to_le_bytes(), 0).unwrap();
                file
            })
            .collect();
        let bytes: Vec<u8> = (0..3_000_000u32).map(|index| index as u8).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| one.send(&bytes, &files.iter().map(AsFd::as_fd).collect::<Vec<_>>()).unwrap());
            let (got, descriptors) = other.receive(bytes.len()).unwrap();
            assert!(got == bytes && descriptors.len() == files.len());
            for (number, file) in (0u32..).zip(&descriptors) {
                let mut content = [0; 4];
                rustix::io::pread(file, &mut content, 0).unwrap();
                assert_eq!(u32::from_le_bytes(content), number);
            }
        });
        one.send(b"short", &[]).unwrap();
        assert_eq!(other.receive(4).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn who_ends_is_noticed_and_the_name_is_free() {
        let (one, mut other, meeting) = meet("ends");
        drop(one);
        assert_eq!(other.receive(10).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let name = format!("ends-{}", std::process::id());
        let own = (rustix::process::getuid().as_raw(), std::process::id());
        assert_eq!((Meeting::holder(&name), Meeting::holder("nobody-has-this-name")), (Some(own), None));
        assert_eq!(Meeting::open(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(meeting);
        Meeting::open(&name).unwrap();
    }
}
