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

/// Attempts of one source, one at a time. It outlives the source's sessions: of a resolver that hangs, an answer comes late.
#[derive(Default)]
pub(super) struct Dial {
    /// Addresses that were not tried yet, the next one last.
    addresses: Vec<SocketAddr>,
    /// Which of a name's addresses is tried first.
    first: u64,
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

    /// Begins an attempt after so many that have failed. Sockets get the token of `index` and `generation`.
    pub(super) fn begin(
        &mut self,
        host: &str,
        port: u16,
        failures: u64,
        (index, generation): (usize, u32),
        context: &PullContext<'_>,
    ) -> Dialled {
        self.stop();
        self.first = failures;
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
        if self.wanted.is_none() {
            // The attempt was given up, or is one to an address: a connection that is there stays.
            return Dialled::Waits;
        }
        if self.wanted != resolved {
            // What was asked for was given up meanwhile, perhaps for another name.
            return self.resolve(place.0, context);
        }
        self.wanted = None;
        match addresses {
            Ok(mut addresses) => {
                // Where the first one swallows all, another one is first next time.
                let first = self.first % addresses.len().max(1) as u64;
                addresses.rotate_left(first as usize);
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

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, pull};
    use super::*;
    use std::net::TcpListener;

    const PLACE: (usize, u32) = (0, 1);

    fn bench() -> (Bench, TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (Bench::new(&[pull("a", "rtsp://localhost/a")]), listener, port)
    }

    #[test]
    fn an_answer_that_is_not_waited_for_changes_nothing_and_a_resolver_that_hangs_is_the_only_one() {
        let (mut bench, _listener, port) = bench();
        // The resolver of the first attempt still hangs when others are made.
        let mut dial = Dial { resolving: Some(("hangs".to_owned(), port)), ..Dial::default() };
        let begun = bench.with(|context| dial.begin("hangs", port, 0, PLACE, context));
        assert!(matches!(begun, Dialled::Waits));
        dial.stop();
        let begun = bench.with(|context| dial.begin("127.0.0.1", port, 0, PLACE, context));
        assert!(matches!(begun, Dialled::Waits) && dial.resolving.is_some());
        for _ in 0..2 {
            let failed = Err(io::Error::other("no such name"));
            let answer = bench.with(|context| dial.handle_resolved(failed, PLACE, context));
            assert!(matches!(answer, Dialled::Waits) && dial.opening.is_some());
        }
        assert!(bench.resolved().is_none(), "nothing was resolved");
    }

    #[test]
    fn where_the_first_address_swallows_all_another_is_first_next_time() {
        let (mut bench, _listener, port) = bench();
        let addresses: Vec<SocketAddr> =
            [1, 2, 3].map(|last| SocketAddr::from(([127, 0, 0, last], port))).to_vec();
        let first = |bench: &mut Bench, failures| {
            let mut dial = Dial { resolving: Some(("cam".to_owned(), port)), ..Dial::default() };
            bench.with(|context| {
                dial.begin("cam", port, failures, PLACE, context);
                dial.handle_resolved(Ok(addresses.clone()), PLACE, context);
            });
            dial.opening.map(|(_, ip)| ip)
        };
        for (failures, number) in [(0, 0), (1, 1), (2, 2), (3, 0)] {
            assert_eq!(first(&mut bench, failures), Some(addresses[number].ip()), "{failures}");
        }
    }
}
