//! The handle on an endpoint: one thread, one or several sockets, many links.

use super::bound_socket::BoundSocket;
use super::core::Shared;
use super::handle::Link;
use super::thread::{WAKER, Worker};
use glassline_io::poll::{Poller, Waker};
use glassline_io::random;
use glassline_io::udp::Local;
use glassline_media::Time;
use glassline_media::quantity::ByteRate;
use glassline_transport::link::{EndpointCounters, Error, Path, Settings};
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Sockets and the thread that serves them. Dropping it ends all its links: peers are told, and threads that wait on a
/// [`Link`] get [`Error::Closed`].
#[derive(Debug)]
pub struct Endpoint {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// An endpoint that may connect, and where `settings.listen` is set, that others may connect to. A datagram that
    /// comes to the socket of `locals[n]` has the [`Path::via`] n.
    ///
    /// # Errors
    /// A socket cannot be opened (see [`Port::open`](glassline_io::udp::Port::open)), or the system has no thread or descriptor
    /// left. Where there are several sockets, one that is bound to a network interface which is missing is opened once that is
    /// there, and opened anew where the interface goes and comes back.
    pub fn open(settings: Settings, locals: &[Local]) -> io::Result<Endpoint> {
        if locals.is_empty() || locals.len() > usize::from(u8::MAX) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an endpoint has 1 to 255 sockets"));
        }
        let may_wait = locals.len() > 1;
        let open = |local: &Local| BoundSocket::open(local, may_wait);
        let sockets = locals.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        if sockets.iter().all(|socket| socket.port().is_none()) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "none of the network interfaces is there"));
        }
        let addresses = sockets.iter().map(BoundSocket::local_address).collect::<io::Result<_>>()?;
        let poller = Poller::new()?;
        let waker = Waker::new(&poller, WAKER)?;
        let core = glassline_transport::link::Endpoint::new(settings, random::seed()?);
        let shared = Arc::new(Shared::new(core, waker));
        let worker = Worker::new(Arc::clone(&shared), sockets, poller)?;
        let thread = std::thread::Builder::new().name("link".into()).spawn(|| worker.run())?;
        Ok(Endpoint { shared, addresses, thread: Some(thread) })
    }

    /// As [`Endpoint::open`], for others to connect to.
    ///
    /// # Errors
    /// As those of [`Endpoint::open`].
    pub fn listen(settings: Settings, locals: &[Local]) -> io::Result<Endpoint> {
        Endpoint::open(Settings { listen: true, ..settings }, locals)
    }

    /// Where the sockets are, in the order of `locals`.
    pub fn local_addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Begins a link to the listener at `remote`, by the first socket of its family. It can be used at once;
    /// [`Link::wait_connected`] tells when it is up.
    ///
    /// # Errors
    /// There are as many links as the settings allow, or the credentials name no peer.
    pub fn connect(&self, remote: SocketAddr) -> Result<Link, Error> {
        self.connect_any(&[remote])
    }

    /// As [`Endpoint::connect`], to a listener that has several addresses, the most promising first: each further one is
    /// tried a quarter of a second after the one before it. Those that none of the sockets reaches are left out.
    ///
    /// # Errors
    /// As those of [`Endpoint::connect`], and [`Error::NoAddress`].
    pub fn connect_any(&self, remotes: &[SocketAddr]) -> Result<Link, Error> {
        let paths = self.paths_to(remotes);
        let mut state = self.shared.lock();
        if state.ended || state.stopping {
            return Err(Error::Closed);
        }
        let id = state.endpoint.connect_any(self.shared.clock.now(), &paths)?;
        state.peer(id).held = true;
        self.shared.hand_over(state);
        Ok(Link::new(&self.shared, id))
    }

    /// Gives a link that we connected a further path to its peer: from socket `via`, counted as they were opened, to
    /// `remote`. [`Settings::bonding`] says what goes over it; it is kept and made anew by itself. A path with `spare` is used only
    /// while the others carry less together ([`add_spare_path`](glassline_transport::link::Endpoint::add_spare_path)).
    ///
    /// # Errors
    /// No such socket, the link has gone, the peer has connected it, or it has as many paths as it may.
    pub fn add_path(
        &self,
        link: &Link,
        via: usize,
        remote: SocketAddr,
        spare: Option<ByteRate>,
    ) -> Result<(), Error> {
        if via >= self.addresses.len() {
            return Err(Error::Path { what: "no such socket was opened" });
        }
        let mut state = self.shared.lock();
        let (now, path) = (self.shared.clock.now(), self.path_by(via, remote));
        let added = match spare {
            Some(below) => state.endpoint.add_spare_path(now, link.id(), path, below),
            None => state.endpoint.add_path(now, link.id(), path),
        };
        self.shared.hand_over(state);
        added
    }

    /// Says where the listener of a link that we connected is now. A link that is up stays where it is; otherwise it is
    /// connected there, with all that waits on it.
    ///
    /// # Errors
    /// The link has gone, the peer has connected it, or no socket reaches any of the addresses.
    pub fn retarget(&self, link: &Link, remotes: &[SocketAddr]) -> Result<(), Error> {
        let paths = self.paths_to(remotes);
        let mut state = self.shared.lock();
        let changed = state.endpoint.retarget(self.shared.clock.now(), link.id(), &paths);
        self.shared.hand_over(state);
        changed
    }

    fn paths_to(&self, remotes: &[SocketAddr]) -> Vec<Path> {
        let paths = remotes.iter().filter_map(|remote| {
            let same = self.addresses.iter().position(|address| address.is_ipv4() == remote.is_ipv4());
            let both = || self.addresses.iter().position(|address| reaches(*address, *remote));
            Some(self.path_by(same.or_else(both)?, *remote))
        });
        paths.collect()
    }

    fn path_by(&self, via: usize, remote: SocketAddr) -> Path {
        let remote = match remote {
            // A socket of IPv6 that takes IPv4 too names such addresses so.
            SocketAddr::V4(four) if self.addresses[via].is_ipv6() => {
                (four.ip().to_ipv6_mapped(), four.port()).into()
            }
            remote => remote,
        };
        Path { remote, via: via as u8 }
    }

    /// Waits for the next link that a peer makes.
    ///
    /// # Errors
    /// [`Error::Closed`] once the thread has ended.
    pub fn accept(&self) -> Result<Link, Error> {
        loop {
            if let Some(link) = self.accept_until(Time::NEVER)? {
                return Ok(link);
            }
        }
    }

    /// As [`Endpoint::accept`], for no longer than `timeout`.
    ///
    /// # Errors
    /// As those of [`Endpoint::accept`].
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Option<Link>, Error> {
        self.accept_until(self.shared.clock.now() + timeout)
    }

    fn accept_until(&self, until: Time) -> Result<Option<Link>, Error> {
        let mut state = self.shared.lock();
        loop {
            if let Some(id) = state.waiting.pop_front() {
                state.peer(id).held = true;
                return Ok(Some(Link::new(&self.shared, id)));
            }
            if state.ended {
                return Err(Error::Closed);
            }
            if until <= self.shared.clock.now() {
                return Ok(None);
            }
            state = self.shared.wait(&self.shared.accepted, state, until);
        }
    }

    /// Ends all links and waits until the peers were told, a quarter of a second at most.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        self.shared.nudge(&mut state);
        while !state.ended {
            state = self.shared.wait(&self.shared.accepted, state, Time::NEVER);
        }
    }

    /// Ends without a word to anybody, as a process that is killed does.
    #[cfg(test)]
    pub(super) fn abandon(&self) {
        let mut state = self.shared.lock();
        state.ended = true;
        self.shared.hand_over(state);
    }

    /// What has been turned away and let in.
    pub fn counters(&self) -> EndpointCounters {
        self.shared.lock().endpoint.counters()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // It has told already what was wrong.
            let _ = thread.join();
        }
    }
}

/// Whether a socket at `local` reaches `remote`, by its family.
pub(super) fn reaches(local: SocketAddr, remote: SocketAddr) -> bool {
    local.is_ipv4() == remote.is_ipv4() || remote.is_ipv4() && local.ip() == Ipv6Addr::UNSPECIFIED
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
