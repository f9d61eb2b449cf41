//! One flow of raw video out: bursts of datagrams of one size, gathered from where their bytes stand.
//!
//! A [`FlowSender`] is the socket, an [`Outbox`] the lists that a call needs. For each burst the caller gives its bytes piece
//! by piece ([`Outbox::bursts`]), headers from one place and payloads straight from a picture, and says into how long datagrams
//! they are cut. One `sendmmsg` takes many bursts; the kernel or the device cuts each (`UDP_SEGMENT`). Where they do not, the
//! same datagrams go one by one: callers see no difference but speed.
//!
//! Bursts leave when they are sent. Where the interface's queueing discipline knows launch times (`etf`, `fq`), the machine may
//! hold each until its own ([`FlowSender::set_launch_clock`]).

mod outbox;

pub use outbox::{Bursts, Outbox};

use super::control::{self, Control};
use super::socket::{self, Granted};
use super::{Route, empty_message, sender};
use crate::clock::Clock;
use crate::tcp::wait_is_none;
use glassline_media::Time;
use rustix::event::PollFlags;
use rustix::time::{DynamicClockId, Timespec, clock_gettime_dynamic};
use socket2::{SockAddr, Socket};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Datagrams of one burst that any kernel cuts (`UDP_MAX_SEGMENTS`; newer ones take 128).
pub const BURST_DATAGRAMS: usize = 64;

/// Bytes of one burst that are sure to fit an IP packet, all headers counted.
pub const BURST_BYTES: usize = 65_000;

/// Where bursts go, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSenderSettings {
    /// Address or group, interface, source, TTL, DSCP.
    pub route: Route,
    /// Room in the kernel for what has not left yet.
    pub buffer_bytes: usize,
    /// The most that leaves in a second, in bytes of whole packets (`SO_MAX_PACING_RATE`), which for datagrams the queueing
    /// discipline `fq` alone heeds.
    pub max_bytes_per_second: Option<u64>,
}

impl FlowSenderSettings {
    /// By `route`, with room for 8 MiB.
    pub const fn of(route: Route) -> FlowSenderSettings {
        FlowSenderSettings { route, buffer_bytes: 8 << 20, max_bytes_per_second: None }
    }
}

/// The clock that launch times are told to the kernel in: the one that the interface's queueing discipline wants. Callers give
/// [`Time`] in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchClock {
    /// `CLOCK_MONOTONIC`, for `fq`.
    Monotonic,
    /// `CLOCK_TAI`, for `etf` with `clockid CLOCK_TAI`, as devices with a PTP clock want it. Needs `CAP_NET_ADMIN`.
    Tai,
}

/// Bursts that did not leave, or not at their time, as the queueing discipline has told it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchErrors {
    /// Packets with a launch time that was over already.
    pub missed: u64,
    /// Packets with a launch time that it could not use.
    pub invalid: u64,
}

/// A non-blocking socket that sends to one place. It is no error where no process listens there.
#[derive(Debug)]
pub struct FlowSender {
    socket: Socket,
    to: SockAddr,
    buffer: Granted,
    launch: Option<LaunchClock>,
    /// Whether the kernel and the device cut what we send; found out by trying.
    cuts: AtomicBool,
}

impl FlowSender {
    /// Opens a socket.
    ///
    /// # Errors
    /// As for [`Sender::open`](super::Sender::open). That there is less room is no error: see [`FlowSender::buffer`].
    pub fn open(settings: &FlowSenderSettings) -> io::Result<FlowSender> {
        let (socket, to) = sender::open(&settings.route)?;
        let asked_bytes = settings.buffer_bytes.min(i32::MAX as usize / 2);
        // What the kernel refuses here costs room alone.
        let _ = socket.set_send_buffer_size(asked_bytes);
        let _ = control::set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, asked_bytes as i32);
        // What is asked for is doubled, for what the kernel keeps beside a datagram's bytes (socket(7)).
        let granted_bytes = socket.send_buffer_size()? / 2;
        if let Some(rate) = settings.max_bytes_per_second {
            let (level, name) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
            control::set_option_bytes(&socket, level, name, &rate.to_ne_bytes())?;
        }
        let buffer = Granted { asked_bytes, granted_bytes, limit: Granted::SEND };
        Ok(FlowSender { socket, to, buffer, launch: None, cuts: AtomicBool::new(true) })
    }

    /// How much room the kernel gave for what has not left yet.
    pub fn buffer(&self) -> Granted {
        self.buffer
    }

    /// Whether bursts are cut by the kernel or the device, as far as was found out: the first that is refused makes it `false`.
    pub fn cuts(&self) -> bool {
        self.cuts.load(Ordering::Relaxed)
    }

    /// Has bursts leave at their launch times by the interface's queueing discipline (`SO_TXTIME`). Whether that heeds them, a
    /// socket cannot tell: a discipline that knows nothing of them sends at once, and `etf` drops what it cannot send in time
    /// and tells it: [`FlowSender::launch_errors`].
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_ADMIN` for TAI; `Unsupported` where the kernel has no launch times (before 4.19).
    pub fn set_launch_clock(&mut self, clock: LaunchClock) -> io::Result<()> {
        let id = match clock {
            LaunchClock::Monotonic => libc::CLOCK_MONOTONIC,
            LaunchClock::Tai => libc::CLOCK_TAI,
        };
        // `struct sock_txtime` (linux/net_tstamp.h): the clock, and flags.
        let value = [id.to_ne_bytes(), libc::SOF_TXTIME_REPORT_ERRORS.to_ne_bytes()].concat();
        let set = control::set_option_bytes(&self.socket, libc::SOL_SOCKET, control::SO_TXTIME, &value);
        set.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOPROTOOPT) => {
                io::Error::new(io::ErrorKind::Unsupported, "no SO_TXTIME in this kernel")
            }
            _ => error,
        })?;
        self.launch = Some(clock);
        Ok(())
    }

    /// Sends what was not sent of `bursts`, in their order. `true`: all of it has left. `false`: the socket takes nothing now;
    /// the same call goes on once it is writable ([`FlowSender::wait`]).
    ///
    /// # Errors
    /// What the kernel says of the first datagram that did not leave, for example `EMSGSIZE` where the way does not take its
    /// length, or where a burst has more than [`BURST_BYTES`] or 1,024 pieces. Those before it have left;
    /// [`Bursts::skip`] gives the burst up.
    pub fn send(&self, bursts: &mut Bursts<'_>) -> io::Result<bool> {
        let ahead = self.launch.map(clock_ahead);
        while !bursts.is_sent() {
            let sent = if self.cuts() && bursts.is_at_a_start() {
                match bursts.send_cut(&self.socket, &self.to, ahead) {
                    Err(error) => match super::refuses_to_cut(&error) {
                        Some(for_good) => {
                            if for_good {
                                self.cuts.store(false, Ordering::Relaxed);
                            }
                            bursts.send_each(&self.socket, &self.to, ahead)?
                        }
                        None => return Err(error),
                    },
                    Ok(sent) => sent,
                }
            } else {
                bursts.send_each(&self.socket, &self.to, ahead)?
            };
            if !sent {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until the socket takes something, `timeout` has passed (`None`: for ever) or a signal came. Returns whether it
    /// does.
    ///
    /// # Errors
    /// None that a working system has.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        socket::wait(&self.socket, PollFlags::OUT, timeout)
    }

    /// What the queueing discipline has told of launch times since the last call. Does not wait; to be called now and then where
    /// launch times are set, since what it tells takes room.
    ///
    /// # Errors
    /// What the socket says.
    #[allow(unsafe_code)]
    pub fn launch_errors(&self) -> io::Result<LaunchErrors> {
        let mut errors = LaunchErrors::default();
        loop {
            let (mut control, mut message) = (Control::default(), empty_message().msg_hdr);
            (message.msg_control, message.msg_controllen) = control.room();
            let told = wait_is_none(|| {
                let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
                // SAFETY: the message names its control buffer with its length, and no vectors and no address; both it and the
                // buffer live until the call is over.
                let bytes = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, flags) };
                usize::try_from(bytes).map_err(|_| io::Error::last_os_error())
            })?;
            if told.is_none() {
                return Ok(errors);
            }
            match control.read(message.msg_controllen).launch_error {
                // `SO_EE_CODE_TXTIME_MISSED`, and `…_INVALID_PARAM` (linux/errqueue.h).
                Some(2) => errors.missed += 1,
                Some(_) => errors.invalid += 1,
                None => {}
            }
        }
    }
}

impl AsFd for FlowSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Nanoseconds that `clock` is ahead of the monotonic one now.
fn clock_ahead(clock: LaunchClock) -> i64 {
    match clock {
        LaunchClock::Monotonic => 0,
        LaunchClock::Tai => {
            // Every kernel that has launch times has this clock.
            let tai =
                clock_gettime_dynamic(DynamicClockId::Tai).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
            let nanos = tai.tv_sec.saturating_mul(1_000_000_000).saturating_add(tai.tv_nsec);
            nanos.saturating_sub_unsigned(Clock::new().now().as_nanos())
        }
    }
}

/// A time of the monotonic clock in one that is ahead of it.
fn launch_nanos(at: Time, ahead: i64) -> u64 {
    at.as_nanos().saturating_add_signed(ahead)
}

#[cfg(test)]
mod tests;
