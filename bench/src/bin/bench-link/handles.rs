//! Ours as programs have it: handles on an endpoint's thread (`engine::link`). At full speed small messages are handed
//! over and taken many at a time. What the lock, the wakes and the second thread cost is the difference to
//! [`crate::ours`].

use anyhow::{Context, Result};
use bytes::Bytes;
use glassline_call::link::{Channels, Endpoint, Link, Local};
use glassline_transport::link::{Credentials, Error, Key, Settings};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::carrier::{Carrier, DATAGRAM, Lane, Load};
use crate::ours::{RELIABLE, SEND_QUEUE, UNRELIABLE, options};

/// Messages that may wait to be taken: the thread and who takes share a core, and what comes in the slice of the one
/// waits for that of the other.
const RECEIVE_QUEUE: u32 = 1 << 16;
/// Messages handed over at once.
const AT_ONCE: usize = 256;
/// How long a listener waits for its peer.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Handles {
    /// Its thread ends with it.
    endpoint: Endpoint,
    link: Option<Link>,
    load: Load,
    /// It is the end that has connected.
    sends: bool,
    outbox: Vec<Bytes>,
    inbox: Vec<Bytes>,
    /// What came, by channel.
    taken: [VecDeque<Bytes>; 2],
    closed: bool,
}

fn settings() -> Settings {
    Settings { datagram_bytes: DATAGRAM as u16, ..Settings::new(Credentials::Shared(Key([7; 32]))) }
}

impl Handles {
    pub(crate) fn listen(address: SocketAddr, load: Load) -> Result<Handles> {
        let endpoint = Endpoint::listen(settings(), &[Local::at(address)]).context("an endpoint")?;
        Handles::new(endpoint, None, load)
    }

    pub(crate) fn connect(address: SocketAddr, load: Load) -> Result<Handles> {
        let endpoint = Endpoint::open(settings(), &[Local::towards(address)]).context("an endpoint")?;
        let link = endpoint.connect(address)?;
        open(&link, load, SEND_QUEUE)?;
        Handles::new(endpoint, Some(link), load)
    }

    fn new(endpoint: Endpoint, link: Option<Link>, load: Load) -> Result<Handles> {
        let (outbox, inbox, taken) = (Vec::new(), Vec::new(), [VecDeque::new(), VecDeque::new()]);
        Ok(Handles { endpoint, sends: link.is_some(), link, load, outbox, inbox, taken, closed: false })
    }

    fn channel(&self) -> u8 {
        if self.load == Load::Unreliable { UNRELIABLE } else { RELIABLE }
    }

    /// Hands over what was collected; waits while there is no room.
    fn hand_over(&mut self) -> Result<()> {
        let channel = self.channel();
        if let Some(link) = self.link.as_ref().filter(|_| !self.outbox.is_empty()) {
            link.send_all(channel, self.outbox.drain(..))?;
        }
        Ok(())
    }
}

fn channel_of(lane: Lane) -> u8 {
    if lane == Lane::Reliable { RELIABLE } else { UNRELIABLE }
}

fn open(link: &Link, load: Load, queue: u32) -> Result<()> {
    link.open(RELIABLE, options(load, Lane::Reliable, queue))?;
    link.open(UNRELIABLE, options(load, Lane::Unreliable, queue)).context("channels")
}

/// Takes what came on either channel, [`AT_ONCE`] messages at most; waits for the first one.
fn take_any(link: &Link, wait: Duration, into: &mut [VecDeque<Bytes>; 2]) -> Result<(), Error> {
    let mut wait = wait;
    for _ in 0..AT_ONCE {
        let Some((channel, message)) = link.receive_any(Channels::ALL, wait)? else { break };
        if let Some(queue) = into.get_mut(usize::from(channel)) {
            queue.push_back(message);
        }
        wait = Duration::ZERO;
    }
    Ok(())
}

impl Carrier for Handles {
    /// Who has sent sends on, everybody else waits for messages.
    fn drive(&mut self, wait: Duration) -> Result<()> {
        let Some(link) = &self.link else {
            self.link = self.endpoint.accept_timeout(ACCEPT_TIMEOUT)?;
            return self.link.as_ref().map_or(Ok(()), |link| open(link, self.load, RECEIVE_QUEUE));
        };
        if !self.outbox.is_empty() {
            return self.hand_over();
        }
        // Who has connected waits for the other end once; what a listener accepts is up, and what came before its end
        // may be taken behind it.
        if self.sends && !link.is_connected() {
            self.closed |= link.wait_connected(wait).is_err();
            return Ok(());
        }
        let took = match self.load {
            Load::Reliable | Load::Unreliable if !self.sends => {
                let channel = self.channel();
                link.receive_all(channel, &mut self.inbox)
                    .map(|_| self.taken[usize::from(channel)].extend(self.inbox.drain(..)))
            }
            // Of who sends nothing comes: it is a pause.
            Load::Reliable | Load::Unreliable | Load::Bulk | Load::Video => {
                take_any(link, wait, &mut self.taken)
            }
        };
        match took {
            Err(Error::Closed) => self.closed = true,
            took => took?,
        }
        Ok(())
    }

    fn send(&mut self, lane: Lane, message: &Bytes) -> Result<bool> {
        if let Some(link) = self.link.as_ref().filter(|_| self.load == Load::Video) {
            return match link.try_send(channel_of(lane), message.clone()) {
                Ok(_) => Ok(true),
                Err(Error::QueueFull { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        self.outbox.push(message.clone());
        if self.outbox.len() >= AT_ONCE || message.len() > AT_ONCE * 64 {
            self.hand_over()?;
        }
        Ok(true)
    }

    fn receive(&mut self, lane: Lane) -> Option<Bytes> {
        self.taken[usize::from(channel_of(lane))].pop_front()
    }

    fn is_up(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_connected)
    }

    fn is_idle(&mut self) -> bool {
        self.outbox.is_empty()
            && self.link.as_ref().is_none_or(|link| link.flush(Duration::from_millis(1)).unwrap_or(true))
    }

    fn is_closed(&self) -> bool {
        self.closed
    }

    fn close(&mut self) -> Result<()> {
        if let Some(link) = &self.link {
            link.close("done");
        }
        Ok(())
    }
}
