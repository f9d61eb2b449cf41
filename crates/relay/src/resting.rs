//! Which connections of a worker rest between two requests, in the order in which they began to: the one that has rested
//! longest gives way where there are as many connections as there may be. A look and a change cost O(log n).

use glassline_media::Time;
use glassline_streams::presence::subscriber;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The connections that rest, by their tokens.
#[derive(Debug, Default)]
pub(super) struct Resting {
    of_all: BTreeSet<(Time, u64)>,
    /// The same by the address that they count for.
    of_address: BTreeSet<(IpAddr, Time, u64)>,
}

impl Resting {
    /// The connection `token` from `address`, which rested since `before`, rests since `since` now; `None`: it does not.
    pub(super) fn change(&mut self, token: u64, address: IpAddr, before: Option<Time>, since: Option<Time>) {
        if before == since {
            return;
        }
        let address = subscriber(address);
        if let Some(before) = before {
            self.of_all.remove(&(before, token));
            self.of_address.remove(&(address, before, token));
        }
        if let Some(since) = since {
            self.of_all.insert((since, token));
            self.of_address.insert((address, since, token));
        }
    }

    /// The one that has rested longest: of those from `address`, or of all.
    pub(super) fn longest(&self, address: Option<IpAddr>) -> Option<u64> {
        let Some(address) = address.map(subscriber) else {
            return self.of_all.first().map(|(_, token)| *token);
        };
        let (found, _, token) = self.of_address.range((address, Time::ZERO, 0)..).next()?;
        (*found == address).then_some(*token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    fn at(seconds: u64) -> Option<Time> {
        Some(Time::from_millis(seconds * 1000))
    }

    #[test]
    fn the_longest_rest_is_found_of_all_and_of_an_address() {
        let mut resting = Resting::default();
        assert_eq!((resting.longest(None), resting.longest(Some(HERE))), (None, None));
        resting.change(7, THERE, None, at(1));
        resting.change(8, HERE, None, at(2));
        resting.change(9, HERE, None, at(3));
        assert_eq!((resting.longest(None), resting.longest(Some(HERE))), (Some(7), Some(8)));
        // It was asked for something, and rests again.
        resting.change(8, HERE, at(2), None);
        assert_eq!(resting.longest(Some(HERE)), Some(9));
        resting.change(8, HERE, None, at(4));
        resting.change(7, THERE, at(1), at(5));
        assert_eq!((resting.longest(None), resting.longest(Some(THERE))), (Some(9), Some(7)));
        for (token, address, before) in [(9, HERE, at(3)), (8, HERE, at(4)), (7, THERE, at(5))] {
            resting.change(token, address, before, None);
        }
        assert!(resting.of_all.is_empty() && resting.of_address.is_empty());
    }

    #[test]
    fn a_subscriber_of_ipv6_is_one_address() {
        let mut resting = Resting::default();
        resting.change(1, "2001:db8:1:2::1".parse().unwrap(), None, at(1));
        assert_eq!(resting.longest(Some("2001:db8:1:2:ffff::9".parse().unwrap())), Some(1));
        assert_eq!(resting.longest(Some("2001:db8:1:3::1".parse().unwrap())), None);
    }

    #[test]
    fn of_two_that_began_at_the_same_moment_the_lower_token_gives_way() {
        let mut resting = Resting::default();
        resting.change(9, HERE, None, at(1));
        resting.change(8, HERE, None, at(1));
        assert_eq!((resting.longest(None), resting.longest(Some(HERE))), (Some(8), Some(8)));
        resting.change(8, HERE, at(1), None);
        assert_eq!(resting.longest(None), Some(9));
    }

    #[test]
    fn an_address_of_ipv4_is_the_same_within_ipv6() {
        let mut resting = Resting::default();
        resting.change(1, "::ffff:192.0.2.1".parse().unwrap(), None, at(1));
        assert_eq!(resting.longest(Some(HERE)), Some(1));
        resting.change(1, HERE, at(1), None);
        assert_eq!(resting.longest(None), None);
    }

    proptest::proptest! {
        #[test]
        fn the_longest_rest_is_the_one_of_a_plain_list(
            changes in proptest::collection::vec((0u64..6, proptest::option::of(0u64..9)), 0..60),
        ) {
            // Each connection has one address for all of its time.
            let address = |token: u64| IpAddr::V4(Ipv4Addr::new(192, 0, 2, (token % 3) as u8));
            let (mut resting, mut list) = (Resting::default(), std::collections::BTreeMap::new());
            for (token, since) in changes {
                let since = since.and_then(at);
                let before = list.get(&token).copied();
                resting.change(token, address(token), before, since);
                match since {
                    Some(since) => drop(list.insert(token, since)),
                    None => drop(list.remove(&token)),
                }
                let longest = |of: Option<IpAddr>| {
                    let mine = list.iter().filter(|(token, _)| of.is_none_or(|of| address(**token) == of));
                    mine.map(|(token, since)| (*since, *token)).min().map(|(_, token)| token)
                };
                proptest::prop_assert_eq!(resting.longest(None), longest(None));
                for last in 0..3 {
                    let of = Some(address(last));
                    proptest::prop_assert_eq!(resting.longest(of), longest(of));
                }
            }
        }
    }
}
