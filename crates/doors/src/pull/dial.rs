//! A connection to a server with a name: the name is resolved on a thread of its own, and each of its addresses is tried.

use super::{PullContext, Resolved, token};
use glassline_io::poll::Watch;
use glassline_io::resolve;
use glassline_io::tcp::Connection;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Name and port.
type Host = (String, u16);

/// What an attempt has come to.
pub(super) enum Dialled {
    /// It is under way.
    Waits,
    /// The connection is open.
    Open(Connection, IpAddr),
    /// There is none, in words for people.
    Failed(String),
}

/// Attempts of one source, one at a time.
#[derive(Default)]
pub(super) struct Dial {
    /// Addresses that were not tried yet, the next one last.
    addresses: Vec<SocketAddr>,
    opening: Option<(Connection, IpAddr)>,
    /// What a thread is resolving.
    resolving: Option<Host>,
    /// What has to be resolved; another than `resolving` where that was given up.
    wanted: Option<Host>,
}

impl Dial {
    /// Gives up the attempt.
    pub(super) fn stop(&mut self) {
        (self.opening, self.wanted) = (None, None);
        self.addresses.clear();
    }

    /// Begins an attempt. Sockets get the token of `index` and `generation`.
    pub(super) fn begin(
        &mut self,
        host: &str,
        port: u16,
        (index, generation): (usize, u32),
        context: &PullContext<'_>,
    ) -> Dialled {
        self.stop();
        if let Ok(ip) = host.parse::<IpAddr>() {
            self.addresses = vec![SocketAddr::new(ip, port)];
            return self.next(None, (index, generation), context);
        }
        self.wanted = Some((host.to_owned(), port));
        self.resolve(index, context)
    }

    /// Starts a thread that resolves the wanted name, unless one is still busy: a resolver that hangs must not take more and more
    /// threads.
    fn resolve(&mut self, index: usize, context: &PullContext<'_>) -> Dialled {
        let (Some((host, port)), None) = (self.wanted.clone(), &self.resolving) else {
            return Dialled::Waits;
        };
        let (answers, waker) = (context.answers.clone(), context.waker.clone());
        let answer = move |addresses| {
            // The answer has no receiver any more where the server has ended.
            let _ = answers.send(Resolved { index, addresses });
            waker.wake();
        };
        match resolve::in_background(host.clone(), port, answer) {
            Ok(()) => {
                self.resolving = Some((host, port));
                Dialled::Waits
            }
            Err(error) => Dialled::Failed(error.to_string()),
        }
    }

    /// A name's addresses have come, or none.
    pub(super) fn handle_resolved(
        &mut self,
        addresses: io::Result<Vec<SocketAddr>>,
        place: (usize, u32),
        context: &PullContext<'_>,
    ) -> Dialled {
        let resolved = self.resolving.take();
        if self.wanted != resolved {
            // What was asked for was given up meanwhile, perhaps for another name.
            return self.resolve(place.0, context);
        }
        self.wanted = None;
        match addresses {
            Ok(mut addresses) => {
                addresses.reverse();
                self.addresses = addresses;
                self.next(None, place, context)
            }
            Err(error) => Dialled::Failed(error.to_string()),
        }
    }

    /// Opens a connection to the next address; where there is none, fails with what the last one came to.
    fn next(
        &mut self,
        mut error: Option<io::Error>,
        (index, generation): (usize, u32),
        context: &PullContext<'_>,
    ) -> Dialled {
        self.opening = None;
        while let Some(address) = self.addresses.pop() {
            let opened = Connection::connect_from(address, None, None).and_then(|connection| {
                context.poller.add(&connection, token(index, generation), Watch::Edges)?;
                Ok(connection)
            });
            match opened {
                Ok(connection) => {
                    self.opening = Some((connection, address.ip()));
                    return Dialled::Waits;
                }
                Err(failed) => error = Some(failed),
            }
        }
        Dialled::Failed(error.map_or_else(|| "the name has no address".into(), |error| error.to_string()))
    }

    /// A socket has news: the connection that is being opened may be open now.
    pub(super) fn look(&mut self, place: (usize, u32), context: &PullContext<'_>) -> Dialled {
        let Some((connection, ip)) = self.opening.take() else { return Dialled::Waits };
        match connection.connected() {
            Ok(()) => {
                self.addresses.clear();
                Dialled::Open(connection, ip)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                self.opening = Some((connection, ip));
                Dialled::Waits
            }
            Err(error) => self.next(Some(error), place, context),
        }
    }
}
