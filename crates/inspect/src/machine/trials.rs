//! Short measurements of this machine, which together take a fraction of a second and leave nothing behind.

use glassline_io::batch::{Batch, Outcome, Send};
use glassline_io::clock::Clock;
use glassline_io::spool::{self, Reader, Sent, Spool};
use glassline_io::tcp::{Connection, Listener};
use glassline_io::udp::{self, Receiver};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// A datagram of seven packets of MPEG-TS.
const DATAGRAM_BYTES: usize = 7 * 188;
/// More than any buffer that is asked for holds.
const DATAGRAMS_MAX: usize = 20_000;
/// Connections of the measurement of batches, and sends to each of them. All that is sent stays in their buffers.
const CONNECTIONS: usize = 64;
const ROUNDS: usize = 8;
/// A small send, as that of a picture's slice: it is the call that costs.
const SMALL_SEND: u64 = 1880;
/// A large send, as that of a picture: it is the pages that cost.
const LARGE_SEND: u64 = 60_000;
/// Times that each of two ways is measured, in turns. The middle one counts.
const TURNS: usize = 7;
/// A send that the kernel does not take within this is given up, and with it the measurement.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);

/// What a receive buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveTrial {
    /// Bytes that were asked for.
    pub asked_bytes: usize,
    /// Bytes that the kernel gave.
    pub granted_bytes: usize,
    /// Datagrams that waited when the first was lost.
    pub datagrams: usize,
    /// Bytes of each.
    pub datagram_bytes: usize,
}

impl ReceiveTrial {
    /// How long a stream of `bits_per_second` fills it, in milliseconds.
    pub(super) fn millis_of(&self, bits_per_second: f64) -> f64 {
        (self.datagrams * self.datagram_bytes * 8) as f64 / bits_per_second * 1e3
    }
}

/// What a small send costs one by one and in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchTrial {
    /// By `sendfile`, one call for each send.
    pub single: Duration,
    /// By io_uring, many sends a call.
    pub batched: Duration,
}

/// What a large send from each kind of pages costs, receiving included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTrial {
    /// From pages of 4 KiB.
    pub small: Duration,
    /// From pages of 2 MiB.
    pub large: Duration,
}

/// The measurements; `None` of one that this system does not allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trials {
    /// Of a socket for datagrams.
    pub receive: Option<ReceiveTrial>,
    /// Of sends in batches.
    pub batches: Option<BatchTrial>,
    /// Of large pages.
    pub pages: Option<PageTrial>,
}

impl Trials {
    /// Measures, on loopback. Takes about a tenth of a second. Streams take large pages from then on
    /// ([`spool::large_pages`]) where `has_large_pages` says that this process has them.
    pub fn run(has_large_pages: bool) -> Trials {
        Trials {
            receive: receive().ok(),
            batches: batches().ok(),
            pages: if has_large_pages { pages().ok() } else { None },
        }
    }
}

fn receive() -> io::Result<ReceiveTrial> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let receiver = Receiver::open(&udp::Settings { address, interface: None, sender: None })?;
    let buffer = receiver.buffer()?;
    let sender = UdpSocket::bind(address)?;
    sender.connect(receiver.local_address()?)?;
    let mut datagrams = 0;
    while datagrams < DATAGRAMS_MAX {
        sender.send(&[0; DATAGRAM_BYTES])?;
        if receiver.dropped()? > 0 {
            break;
        }
        datagrams += 1;
    }
    Ok(ReceiveTrial {
        asked_bytes: buffer.asked_bytes,
        granted_bytes: buffer.granted_bytes,
        datagrams,
        datagram_bytes: DATAGRAM_BYTES,
    })
}

/// Connections over loopback: the ends that send, and those that receive.
fn connections(count: usize) -> io::Result<Vec<(Connection, Connection)>> {
    let listener = Listener::bind_group((Ipv4Addr::LOCALHOST, 0).into(), 1)?.remove(0);
    let address = listener.local_address()?;
    let deadline = Clock::new().now() + GIVE_UP_AFTER;
    (0..count)
        .map(|_| {
            let near = Connection::connect_from(address, None, None)?;
            loop {
                // Loopback connects within the call; whether it is accepted already is the kernel's to say.
                if let Some((far, _)) = listener.accept()? {
                    near.send_at_once()?;
                    return Ok((near, far));
                }
                give_up_at(deadline)?;
            }
        })
        .collect()
}

fn give_up_at(deadline: glassline_media::Time) -> io::Result<()> {
    if Clock::new().now() > deadline { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

fn filled(bytes: usize) -> io::Result<Spool> {
    let mut spool = Spool::new(spool::Settings::MPEG_TS);
    spool.append(&vec![0x47; bytes - bytes % 188])?;
    spool.publish();
    Ok(spool)
}

/// Two ways in turns, and the middle of each one's times.
fn in_turns(
    mut one: impl FnMut() -> io::Result<Duration>,
    mut other: impl FnMut() -> io::Result<Duration>,
) -> io::Result<[Duration; 2]> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        ones.push(one()?);
        others.push(other()?);
    }
    ones.sort_unstable();
    others.sort_unstable();
    Ok([ones[TURNS / 2], others[TURNS / 2]])
}

fn batches() -> io::Result<BatchTrial> {
    let mut batch = Batch::new()?;
    let spool = filled(1 << 20)?;
    let pairs = connections(CONNECTIONS)?;
    let per_send = |time: Duration| time / u32::try_from(CONNECTIONS * ROUNDS).unwrap_or(u32::MAX);
    let mut outcomes = Vec::new();
    let mut readers: Vec<Reader> = pairs.iter().map(|_| Reader::new(spool.chain(), 0)).collect();
    let [single, batched] = in_turns(
        || {
            let time = timed(|| {
                for _ in 0..ROUNDS {
                    for ((near, _), reader) in pairs.iter().zip(&mut readers) {
                        reader.seek(0);
                        expect_sent(reader.send(near.as_fd(), SMALL_SEND, SMALL_SEND)?)?;
                    }
                }
                Ok(())
            })?;
            drain(&pairs)?;
            Ok(per_send(time))
        },
        || {
            let mut readers: Vec<Reader> = pairs.iter().map(|_| Reader::new(spool.chain(), 0)).collect();
            let time = timed(|| {
                for _ in 0..ROUNDS {
                    let pieces: Option<Vec<_>> =
                        readers.iter_mut().map(|reader| reader.piece(SMALL_SEND)).collect();
                    let pieces = pieces.ok_or(io::ErrorKind::OutOfMemory)?;
                    let sends: Vec<_> = pairs
                        .iter()
                        .zip(&pieces)
                        .map(|((near, _), piece)| Send { socket: near.as_fd(), piece })
                        .collect();
                    batch.send(&sends, &mut outcomes)?;
                    let is_sent = |outcome: &Outcome| matches!(outcome, Outcome::Bytes(_));
                    if !outcomes.iter().all(is_sent) {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                }
                Ok(())
            })?;
            drain(&pairs)?;
            Ok(per_send(time))
        },
    )?;
    Ok(BatchTrial { single, batched })
}

fn expect_sent(sent: Sent) -> io::Result<()> {
    match sent {
        Sent::Bytes(_) => Ok(()),
        Sent::Blocked | Sent::Gone => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let clock = Clock::new();
    let began = clock.now();
    work()?;
    Ok(clock.now().since(began))
}

/// Reads what has come, so that the next turn finds empty buffers.
fn drain(pairs: &[(Connection, Connection)]) -> io::Result<()> {
    let mut room = vec![0; 64 << 10];
    for (_, far) in pairs {
        while far.read(&mut room)?.is_some_and(|count| count > 0) {}
    }
    Ok(())
}

/// A spool's first link lies in small pages, those behind it in large ones.
fn pages() -> io::Result<PageTrial> {
    let link = spool::Settings::MPEG_TS.link_bytes;
    let spool = filled(usize::try_from(2 * link).unwrap_or(0))?;
    let pairs = connections(1)?;
    let (near, far) = &pairs[0];
    let sends = link / LARGE_SEND - 1;
    let mut room = vec![0; 64 << 10];
    let mut run = |from: u64| {
        let mut reader = Reader::new(spool.chain(), from);
        let end = from + sends * LARGE_SEND;
        let deadline = Clock::new().now() + GIVE_UP_AFTER;
        let time = timed(|| {
            let mut received = 0;
            while received < sends * LARGE_SEND {
                if reader.offset() < end {
                    reader.send(near.as_fd(), (reader.offset() + LARGE_SEND).min(end), LARGE_SEND)?;
                }
                while let Some(count) = far.read(&mut room)? {
                    received += count as u64;
                }
                give_up_at(deadline)?;
            }
            Ok(())
        })?;
        Ok(time / u32::try_from(sends).unwrap_or(u32::MAX))
    };
    let run = std::cell::RefCell::new(&mut run);
    let [small, large] = in_turns(|| (run.borrow_mut())(0), || (run.borrow_mut())(link))?;
    Ok(PageTrial { small, large })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_holds_datagrams_until_one_is_lost() {
        let trial = receive().unwrap();
        assert!(trial.datagrams > 0 && trial.datagrams < DATAGRAMS_MAX, "{trial:?}");
        // The kernel counts what it keeps beside the bytes, too, and doubles the room for that.
        assert!(trial.datagrams * trial.datagram_bytes <= 2 * trial.granted_bytes, "{trial:?}");
        let second = ReceiveTrial { datagrams: 1000, datagram_bytes: 1250, ..trial };
        assert!((second.millis_of(10e6) - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_allowed_is_measured() {
        let trials = Trials::run(spool::large_pages::prepare().is_ok());
        assert!(trials.receive.is_some());
        assert_eq!(trials.batches.is_some(), Batch::new().is_ok());
        assert_eq!(trials.pages.is_some(), spool::large_pages::are_there());
        let is_time = |time: Duration| time > Duration::ZERO;
        assert!(
            trials.batches.is_none_or(|trial| is_time(trial.single) && is_time(trial.batched)),
            "{trials:?}"
        );
        assert!(trials.pages.is_none_or(|trial| is_time(trial.small) && is_time(trial.large)), "{trials:?}");
    }
}
