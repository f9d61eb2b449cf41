//! The socket between an old process and the one that takes its place: what anybody of the same machine may say there.
//!
//! The first byte says how many descriptors really come.

use glassline_io::handover::{Channel, Meeting};
use std::io::Write;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

/// Bytes of a message at most. A message and what is behind it fit into the socket's buffer.
const LIMIT: usize = 4096;
const DATA_MAX: usize = 16 << 10;

/// Says the bytes. Panics where a message is told that they do not hold, where one is missed, and where a good one is
/// not received as it was sent.
pub fn run(data: &[u8]) {
    let Some((&count, wire)) = data.split_first() else { return };
    let wire = &wire[..wire.len().min(DATA_MAX)];
    HALL.with(|hall| {
        let (mut stream, mut channel) = hall.meet();
        stream.write_all(wire).expect("it fits into the buffer");
        stream.shutdown(Shutdown::Write).expect("a socket");
        let mut rest = wire;
        while let Some((message, behind)) = message(rest) {
            let (got, descriptors) = channel.receive(LIMIT).expect("a whole message");
            assert!(got == message && descriptors.is_empty());
            rest = behind;
        }
        assert!(channel.receive(LIMIT).is_err(), "a message out of {} bytes", rest.len());

        let (mut receiver, mut sender) = hall.meet_both();
        let message = &wire[..wire.len().min(LIMIT)];
        let descriptors: Vec<BorrowedFd<'_>> = (0..count).map(|_| hall.descriptor.as_fd()).collect();
        sender.send(message, &descriptors).expect("somebody is there");
        let (got, received) = receiver.receive(LIMIT).expect("what was sent");
        assert!(got == message && received.len() == descriptors.len());
    });
}

/// The message in front that needs no descriptor, and what is behind it.
fn message(wire: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = wire.split_first_chunk()?;
    let (descriptors, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    if length > LIMIT || u64::from_le_bytes(*descriptors) > 0 {
        return None;
    }
    rest.split_at_checked(length)
}

thread_local! {
    static HALL: Hall = Hall::open();
}

/// Where both sides meet.
struct Hall {
    name: String,
    meeting: Meeting,
    descriptor: UnixStream,
}

impl Hall {
    fn open() -> Hall {
        let name = format!("glassline fuzzing {} {:?}", std::process::id(), std::thread::current().id());
        let meeting = Meeting::open(&name).expect("a name of our own");
        let (descriptor, _) = UnixStream::pair().expect("two sockets");
        Hall { name, meeting, descriptor }
    }

    /// Somebody who says what they like, and who hears it.
    fn meet(&self) -> (UnixStream, Channel) {
        let address = SocketAddr::from_abstract_name(&self.name).expect("a short name");
        let stream = UnixStream::connect_addr(&address).expect("the meeting is open");
        let channel = self.meeting.accept().expect("somebody has come");
        channel.set_timeouts(Duration::from_secs(10)).expect("a socket");
        (stream, channel)
    }

    /// Two who speak as they should: the one who hears, the one who speaks.
    fn meet_both(&self) -> (Channel, Channel) {
        let sender = Channel::connect(&self.name).expect("the meeting is open");
        let receiver = self.meeting.accept().expect("somebody has come");
        for channel in [&sender, &receiver] {
            channel.set_timeouts(Duration::from_secs(10)).expect("a socket");
        }
        (receiver, sender)
    }
}
