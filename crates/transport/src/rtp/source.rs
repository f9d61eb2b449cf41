//! Which source is listened to, of all that send to one port.
//!
//! ```text
//!  open ── a good packet ──► locked: an address on each path, an SSRC ◄─┐
//!   ▲                           │        │  its good packets ───────────┘
//!   │                           │        └─ another's packets: refused
//!   └── release() ──────────────┤
//!                               └─ silent: a good packet of another one locks anew
//! ```
//! UDP delivers whatever is sent to a port. Without this a sender that is not meant ends up in the middle of a stream: by its
//! numbers, by its time stamps, or by its bytes. The first source that brings good packets is kept for as long as it sends, and
//! others are refused at the cost of a comparison. Which source is first, this cannot decide: a session description that names
//! the senders (`a=source-filter`, RFC 4570) can, see [`SourceLock::with_allowed`].
//!
//! How long a source has to be silent before another one is taken:
//! * Half as long again as its pauses of late, between [`RESUME_SILENCE`] and [`RESTART_SILENCE`], where the newcomer has the
//!   same address and port: a sender that takes another SSRC, or other numbers, while it runs. Nothing but a forged address
//!   makes a stranger's packets look so, and those cannot slip in between two frames; of the sender itself about a frame is
//!   missed.
//! * [`RESTART_SILENCE`] where it has the same IP address and another port: a sender that was started again, which takes longer
//!   than that; or another program on the same machine.
//! * [`SOURCE_SILENCE`] where the IP address is another one.
//!
//! Addresses, SSRCs and times come in, verdicts go out. What a packet's numbers and stamps say is the business of those that
//! put packets in order.

use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// After so much silence of the locked source, one at another IP address is taken.
pub const SOURCE_SILENCE: Duration = Duration::from_secs(1);
/// After so much silence of the locked source, one at the same IP address is taken.
pub const RESTART_SILENCE: Duration = Duration::from_millis(200);
/// After so much silence, at least, a source goes on from the same address with another SSRC or other numbers.
pub const RESUME_SILENCE: Duration = Duration::from_millis(50);
/// Pauses of so much time, and of as much before it, are remembered.
const PAUSES_NANOS: u64 = 1_000_000_000;
/// Paths of a stream at most (ST 2022-7).
pub const PATHS_MAX: usize = 2;

/// Where a datagram came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The path that brought it, from 0.
    pub path: usize,
    /// Its sender; `None` where the system does not tell.
    pub address: Option<SocketAddr>,
}

impl Origin {
    /// By the only path.
    pub const fn of(address: Option<SocketAddr>) -> Origin {
        Origin { path: 0, address }
    }
}

/// What a packet's sender is to a [`SourceLock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The source that is listened to, or the first one.
    Known,
    /// Another SSRC, which may take the place of the one that fell silent.
    Successor,
    /// Not to be listened to now.
    Stranger,
}

/// Keeps to one source.
///
/// ```
/// use glassline_media::Time;
/// use glassline_transport::rtp::source::{Origin, SourceLock, Standing};
///
/// let (camera, other) = (Origin::of("10.0.0.5:5004".parse().ok()), Origin::of("10.0.0.9:5004".parse().ok()));
/// let mut lock = SourceLock::new();
/// assert_eq!(lock.weigh(camera, 7, Time::ZERO), Standing::Known);
/// lock.renew(camera, 7, Time::ZERO);
/// assert_eq!(lock.weigh(other, 8, Time::from_millis(999)), Standing::Stranger);
/// assert_eq!(lock.weigh(other, 8, Time::from_millis(1_000)), Standing::Successor);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLock {
    ssrc: Option<u32>,
    paths: [PathLock; PATHS_MAX],
    /// When the source's newest packet came, by any path.
    latest: Time,
    /// The longest pause between its packets, of the time before and of the time since then. In nanoseconds, since a division a
    /// packet is not for nothing.
    pauses_nanos: [u64; 2],
    since: Time,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PathLock {
    /// Empty: any.
    allowed: Vec<IpAddr>,
    address: Option<SocketAddr>,
    latest: Time,
}

impl SourceLock {
    /// Open to any source.
    pub fn new() -> SourceLock {
        SourceLock::default()
    }

    /// Packets of a path that do not come from one of `allowed` are always refused; empty: any sender's are taken. Of paths
    /// beyond [`PATHS_MAX`] nothing is taken anyway.
    #[must_use]
    pub fn with_allowed(mut self, path: usize, allowed: Vec<IpAddr>) -> SourceLock {
        if let Some(path) = self.paths.get_mut(path) {
            path.allowed = allowed.iter().map(IpAddr::to_canonical).collect();
        }
        self
    }

    /// Whether a packet from there may be taken at all, whatever else comes: of an unknown path none is.
    pub fn allows(&self, origin: Origin) -> bool {
        let Some(path) = self.paths.get(origin.path) else { return false };
        let ip = origin.address.map(|address| address.ip().to_canonical());
        path.allowed.is_empty() || ip.is_some_and(|ip| path.allowed.contains(&ip))
    }

    /// The SSRC that is listened to.
    pub fn ssrc(&self) -> Option<u32> {
        self.ssrc
    }

    /// The address on that path of the source that is listened to.
    pub fn address(&self, path: usize) -> Option<SocketAddr> {
        self.paths.get(path)?.address
    }

    /// When the source's newest packet came, by any path; [`Time::ZERO`] before the first.
    pub fn latest(&self) -> Time {
        self.latest
    }

    /// Whether a source is locked and `origin` is its address on that path: a look at a whole message. Costs one comparison.
    #[inline]
    pub fn is_at(&self, origin: Origin) -> bool {
        self.ssrc.is_some() && self.paths.get(origin.path).is_some_and(|path| path.address == origin.address)
    }

    /// What the sender of a packet that came at `now` is.
    pub fn weigh(&self, origin: Origin, ssrc: u32, now: Time) -> Standing {
        // Whether this sender is allowed was checked before the lock was set on it.
        if self.ssrc == Some(ssrc) && self.is_at(origin) {
            return Standing::Known;
        }
        self.weigh_other(origin, ssrc, now)
    }

    fn weigh_other(&self, origin: Origin, ssrc: u32, now: Time) -> Standing {
        let Some(path) = self.paths.get(origin.path) else { return Standing::Stranger };
        if !self.allows(origin) {
            return Standing::Stranger;
        }
        let ip = origin.address.map(|address| address.ip().to_canonical());
        let silence = if path.address == origin.address {
            self.resume_silence()
        } else if path.address.map(|address| address.ip().to_canonical()) == ip {
            RESTART_SILENCE
        } else {
            SOURCE_SILENCE
        };
        let is_moved = path.address.is_some() && path.address != origin.address;
        if is_moved && now.since(path.latest) < silence {
            return Standing::Stranger;
        }
        match self.ssrc {
            None => Standing::Known,
            Some(known) if known == ssrc => Standing::Known,
            Some(_) if now.since(self.latest) < silence => Standing::Stranger,
            Some(_) => Standing::Successor,
        }
    }

    /// A good packet of a source that is no stranger came at `now`: it is the one that is listened to.
    pub fn renew(&mut self, origin: Origin, ssrc: u32, now: Time) {
        self.ssrc = Some(ssrc);
        if let Some(path) = self.paths.get_mut(origin.path) {
            path.address = origin.address;
        }
        self.touch(origin.path, now);
    }

    /// Good packets of the locked source came by `path`, from [its address](SourceLock::is_at).
    #[inline]
    pub fn touch(&mut self, path: usize, now: Time) {
        let nanos = |since: Time| now.as_nanos().saturating_sub(since.as_nanos());
        if nanos(self.since) >= PAUSES_NANOS {
            (self.since, self.pauses_nanos) = (now, [self.pauses_nanos[1], 0]);
        }
        if self.latest != Time::ZERO {
            self.pauses_nanos[1] = self.pauses_nanos[1].max(nanos(self.latest));
        }
        self.latest = self.latest.max(now);
        if let Some(path) = self.paths.get_mut(path) {
            path.latest = path.latest.max(now);
        }
    }

    /// Whether the source was silent for so long that it may go on with other numbers.
    pub fn may_renumber(&self, now: Time) -> bool {
        now.since(self.latest) >= self.resume_silence()
    }

    /// Longer than the pauses within the stream, as far as they are known.
    fn resume_silence(&self) -> Duration {
        let nanos = self.pauses_nanos[0].max(self.pauses_nanos[1]);
        Duration::from_nanos(nanos.saturating_add(nanos / 2)).clamp(RESUME_SILENCE, RESTART_SILENCE)
    }

    /// Forgets the source; the allowed addresses stay.
    pub fn release(&mut self) {
        self.ssrc = None;
        (self.latest, self.since, self.pauses_nanos) = (Time::ZERO, Time::ZERO, [0; 2]);
        for path in &mut self.paths {
            (path.address, path.latest) = (None, Time::ZERO);
        }
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
