//! Where an output's receiver is: an address, or a name that a short-lived thread resolves.

use glassline_delivery::output::Destination;
use glassline_io::resolve;
use glassline_media::Time;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// How long a name's address is used although sending to it fails.
const STAYS: Duration = Duration::from_secs(5);

/// What is known of a name's address.
#[derive(Debug, Default)]
pub(super) struct ResolvedAddress {
    resolving: Option<Receiver<io::Result<Vec<SocketAddr>>>>,
    /// Until when it is not asked for anew.
    found: Option<(SocketAddr, Time)>,
    /// Times that a name was resolved: another of its addresses is used each time.
    turns: usize,
}

impl ResolvedAddress {
    /// The receiver's address; `None` as long as it is being looked for. Called before a socket is opened, also where
    /// the last one failed.
    pub(super) fn find(&mut self, destination: &Destination, now: Time) -> io::Result<Option<SocketAddr>> {
        let Some(name) = &destination.name else { return Ok(Some(destination.address)) };
        if let Some((address, until)) = self.found
            && now < until
        {
            return Ok(Some(address));
        }
        let Some(resolving) = &self.resolving else {
            self.resolving = Some(begin(name.clone(), destination.address.port())?);
            return Ok(None);
        };
        let answer = match resolving.try_recv() {
            Err(TryRecvError::Empty) => return Ok(None),
            Err(TryRecvError::Disconnected) => Err(io::Error::other("the name was not resolved")),
            Ok(answer) => answer,
        };
        self.resolving = None;
        let mut addresses = answer?;
        addresses.retain(|address| destination.source.is_none_or(|ours| ours.is_ipv4() == address.is_ipv4()));
        let turn = self.turns % addresses.len().max(1);
        self.turns += 1;
        let address = addresses.get(turn).copied();
        let address =
            address.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no such address"))?;
        self.found = Some((address, now + STAYS));
        Ok(Some(address))
    }
}

/// Has a thread resolve `name`, which may take long.
fn begin(name: String, port: u16) -> io::Result<Receiver<io::Result<Vec<SocketAddr>>>> {
    let (answers, answer) = channel();
    // The answer has no receiver any more where the output is gone.
    resolve::in_background(name, port, move |addresses| drop(answers.send(addresses)))?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(resolved: &mut ResolvedAddress, url: &str, now: Time) -> io::Result<SocketAddr> {
        let destination = Destination::parse_unresolved(url).expect("a destination");
        for _ in 0..3000 {
            if let Some(address) = resolved.find(&destination, now)? {
                return Ok(address);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{url} is being resolved for ever");
    }

    #[test]
    fn addresses_are_there_at_once_and_names_a_moment_later() {
        let (mut resolved, now) = (ResolvedAddress::default(), Time::from_millis(1000));
        let ip = Destination::parse_unresolved("udp://192.0.2.7:5000").expect("a destination");
        assert_eq!(resolved.find(&ip, now).unwrap(), Some("192.0.2.7:5000".parse().unwrap()));
        let found = find(&mut resolved, "udp://localhost:5000?source=127.0.0.1", now).unwrap();
        assert_eq!(found, "127.0.0.1:5000".parse().unwrap());
        // It is used for a while, and then asked for anew.
        let name =
            Destination::parse_unresolved("udp://localhost:5000?source=127.0.0.1").expect("a destination");
        assert_eq!(resolved.find(&name, now + STAYS / 2).unwrap(), Some(found));
        assert_eq!(resolved.find(&name, now + STAYS).unwrap(), None);
        assert_eq!(find(&mut resolved, "udp://localhost:5000?source=127.0.0.1", now + STAYS).unwrap(), found);
        // RFC 6761 §6.4.
        assert!(find(&mut ResolvedAddress::default(), "udp://none.invalid:5000", now).is_err());
    }

    /// The resolver's answer, as if it had just come.
    fn answered(found: io::Result<Vec<&str>>) -> Option<Receiver<io::Result<Vec<SocketAddr>>>> {
        let (answers, answer) = channel();
        let addresses = found.map(|all| all.iter().map(|address| address.parse().unwrap()).collect());
        answers.send(addresses).unwrap();
        Some(answer)
    }

    fn named(options: &str) -> Destination {
        Destination::parse_unresolved(&format!("udp://decoder.example:5000{options}")).expect("a destination")
    }

    #[test]
    fn each_time_that_a_name_is_resolved_another_of_its_addresses_is_used() {
        let (mut resolved, name, mut now) = (ResolvedAddress::default(), named(""), Time::from_millis(1000));
        let mut used = Vec::new();
        for _ in 0..3 {
            resolved.resolving = answered(Ok(vec!["192.0.2.1:5000", "192.0.2.2:5000"]));
            let address = resolved.find(&name, now).unwrap();
            assert_eq!(resolved.find(&name, now + (STAYS - Duration::from_nanos(1))).unwrap(), address);
            used.extend(address);
            now += STAYS;
        }
        assert_eq!(
            used,
            ["192.0.2.1:5000", "192.0.2.2:5000", "192.0.2.1:5000"].map(|it| it.parse().unwrap())
        );
    }

    #[test]
    fn an_address_of_the_other_ip_version_than_the_source_is_not_used() {
        let both = || answered(Ok(vec!["[2001:db8::1]:5000", "192.0.2.1:5000"]));
        let found = |options| {
            let mut resolved = ResolvedAddress { resolving: both(), ..ResolvedAddress::default() };
            resolved.find(&named(options), Time::ZERO).unwrap().unwrap()
        };
        assert_eq!(found("?source=127.0.0.1"), "192.0.2.1:5000".parse().unwrap());
        assert_eq!(found("?source=::1"), "[2001:db8::1]:5000".parse().unwrap());
        assert_eq!(found(""), "[2001:db8::1]:5000".parse().unwrap());
        let resolving = answered(Ok(vec!["[2001:db8::1]:5000"]));
        let mut none = ResolvedAddress { resolving, ..ResolvedAddress::default() };
        let error = none.find(&named("?source=127.0.0.1"), Time::ZERO).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::NotFound, "the name has no such address")
        );
    }

    #[test]
    fn a_resolver_that_fails_or_dies_is_an_error_and_is_asked_again() {
        let resolving = answered(Err(io::ErrorKind::TimedOut.into()));
        let mut resolved = ResolvedAddress { resolving, ..ResolvedAddress::default() };
        let error = resolved.find(&named(""), Time::ZERO).unwrap_err();
        assert!(error.kind() == io::ErrorKind::TimedOut && resolved.resolving.is_none());
        resolved.resolving = Some(channel().1);
        let error = resolved.find(&named(""), Time::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "the name was not resolved");
        assert!(resolved.resolving.is_none() && resolved.found.is_none());
    }

    #[test]
    fn while_a_name_is_being_resolved_there_is_no_address_and_no_second_thread() {
        let (answers, answer) = channel();
        let mut resolved = ResolvedAddress { resolving: Some(answer), ..ResolvedAddress::default() };
        assert_eq!(resolved.find(&named(""), Time::ZERO).unwrap(), None);
        answers.send(Ok(vec!["192.0.2.1:5000".parse().unwrap()])).unwrap();
        assert_eq!(resolved.find(&named(""), Time::ZERO).unwrap(), Some("192.0.2.1:5000".parse().unwrap()));
    }
}
