//! A transport stream that comes in datagrams, from `udp://`.

use crate::failure;
use anyhow::Result;
use glassline_delivery::pull;
use glassline_io::clock::Clock;
use glassline_io::poll::{Poller, Watch};
use glassline_io::udp::{Inbox, Receiver, Settings};
use glassline_media::Time;
use std::io;

/// Our end of it.
pub(crate) struct Datagrams {
    receiver: Receiver,
    poller: Poller,
    inbox: Inbox,
    /// What came and did not fit where it was asked for, and how much of it is given.
    waiting: Vec<u8>,
    given: usize,
    /// When the latest datagrams came.
    pub(super) received: Time,
}

impl Datagrams {
    /// Listens at `url`: `udp://ADDRESS:PORT`, an address of ours or a multicast group's.
    pub(super) fn open(url: &str) -> Result<Datagrams> {
        let source = pull::Source::parse(url)
            .map_err(|error| failure::usage(error, "datagrams come to udp://ADDRESS:PORT"))?;
        let pull::Source::Udp(pull::UdpAddress { address, interface, sender }) = source else {
            return Err(failure::usage(format!("{url} is no udp:// address"), "write udp://ADDRESS:PORT"));
        };
        let settings = Settings { address, interface, sender };
        let cannot = |error: io::Error| {
            let advice = "check address and port, and that no other program listens there";
            failure::failed(format!("cannot listen at {url}: {error}"), advice)
        };
        let receiver = Receiver::open(&settings).map_err(cannot)?;
        let poller = Poller::new().map_err(cannot)?;
        poller.add(&receiver, 0, Watch::Accepts).map_err(cannot)?;
        let (inbox, waiting) = (Inbox::default(), Vec::new());
        Ok(Datagrams { receiver, poller, inbox, waiting, given: 0, received: Clock.now() })
    }

    /// Reads some bytes, end to end; fails with `TimedOut` where none come until `deadline`.
    pub(super) fn read(&mut self, into: &mut [u8], deadline: Time) -> io::Result<usize> {
        while self.given == self.waiting.len() {
            self.waiting.clear();
            self.given = 0;
            let left = deadline.since(Clock.now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.poller.wait(Some(left), &mut Vec::new())?;
            self.receiver.receive(&mut self.inbox)?;
            self.received = Clock.now();
            self.inbox.datagrams().for_each(|datagram| self.waiting.extend_from_slice(datagram));
        }
        let count = into.len().min(self.waiting.len() - self.given);
        into[..count].copy_from_slice(&self.waiting[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }

    /// Datagrams that the kernel dropped because they were not taken in time.
    pub(super) fn dropped(&self) -> u64 {
        self.receiver.dropped().unwrap_or(0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn datagrams_are_read_end_to_end_in_any_pieces() {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut datagrams = Datagrams::open(&format!("udp://{free}")).unwrap();
        let deadline = Clock.now() + Duration::from_millis(20);
        assert_eq!(datagrams.read(&mut [0; 8], deadline).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for part in [&b"hello "[..], b"", b"world"] {
            sender.send_to(part, free).unwrap();
        }
        let (mut all, mut part) = (Vec::new(), [0; 4]);
        while all.len() < 11 {
            let count = datagrams.read(&mut part, Clock.now() + Duration::from_secs(20)).unwrap();
            all.extend_from_slice(&part[..count]);
        }
        assert_eq!((&all[..], datagrams.dropped()), (&b"hello world"[..], 0));
    }

    #[test]
    fn what_is_no_address_of_ours_is_refused() {
        for (url, complaint) in [
            ("udp://camera:5000", "IP address"),
            ("udp://127.0.0.1", "port"),
            ("udp://192.0.2.1:5000", "cannot listen"),
        ] {
            let error = Datagrams::open(url).err().unwrap().to_string();
            assert!(error.contains(complaint), "{url}: {error}");
        }
    }
}
