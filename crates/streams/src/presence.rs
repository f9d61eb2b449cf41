//! How many viewers, publishers and connections each address has.

use glassline_delivery::policy::Load;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// What a client is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// To publish.
    Publish,
    /// To watch.
    Watch,
    /// To have a connection, whatever it asks for.
    Connect,
    /// To be answered.
    Ask,
}

/// The counts. An address with none takes no memory.
#[derive(Debug, Default)]
pub struct Presence(Mutex<BTreeMap<Key, Load>>);

/// An address, or `None` for all of them, and what for.
type Key = (Option<IpAddr>, Purpose);

fn keys(address: IpAddr, purpose: Purpose) -> [Key; 2] {
    [(Some(subscriber(address)), purpose), (None, purpose)]
}

impl Presence {
    /// Lets one more in from `address`, which will take `bps` bits a second, if `may` allows it; counts it then. `may`
    /// is told what that address has, and what all have. It is asked under the lock: what it counts itself is exact.
    pub fn enter<E>(
        &self,
        address: IpAddr,
        purpose: Purpose,
        bps: u64,
        may: impl FnOnce(Load, Load) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = keys(address, purpose);
        let [of_address, in_all] = keys.map(|key| counts.get(&key).copied().unwrap_or_default());
        may(of_address, in_all)?;
        for key in keys {
            let load = counts.entry(key).or_default();
            load.count += 1;
            load.bps += bps;
        }
        Ok(())
    }

    /// Counts one that was let in already.
    pub fn count(&self, address: IpAddr, purpose: Purpose, bps: u64) {
        let Ok(()) = self.enter(address, purpose, bps, |_, _| Ok::<(), std::convert::Infallible>(()));
    }

    /// One that had entered with `bps` leaves.
    pub fn leave(&self, address: IpAddr, purpose: Purpose, bps: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys(address, purpose) {
            if let Some(load) = counts.get_mut(&key) {
                load.count -= 1;
                load.bps -= bps;
                if load.count == 0 {
                    counts.remove(&key);
                }
            }
        }
    }
}

/// What counts as one address: of IPv6 the 64 bits that a subscriber is given (RFC 6177).
pub fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn up_to(limit: usize) -> impl FnOnce(Load, Load) -> Result<(), usize> {
        move |load, _| if load.count < limit { Ok(()) } else { Err(load.count) }
    }

    #[test]
    fn an_address_counts_for_itself_and_for_each_purpose() {
        let presence = Presence::default();
        let (here, there): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        assert_eq!(presence.enter(here, Purpose::Watch, 0, up_to(1)), Ok(()));
        assert_eq!(presence.enter(here, Purpose::Watch, 0, up_to(1)), Err(1));
        assert_eq!(presence.enter(here, Purpose::Publish, 0, up_to(1)), Ok(()));
        assert_eq!(presence.enter(there, Purpose::Watch, 0, up_to(1)), Ok(()));
        presence.leave(here, Purpose::Watch, 0);
        assert_eq!(presence.enter("::ffff:192.0.2.1".parse().unwrap(), Purpose::Watch, 0, up_to(1)), Ok(()));
        for (address, purpose) in [(here, Purpose::Watch), (here, Purpose::Publish), (there, Purpose::Watch)]
        {
            presence.leave(address, purpose, 0);
        }
        assert!(presence.0.lock().unwrap().is_empty(), "nobody is here");
    }

    #[test]
    fn a_subscriber_has_one_ipv6_prefix() {
        let presence = Presence::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(presence.enter(address("2001:db8:1:2::1"), Purpose::Watch, 0, up_to(1)), Ok(()));
        assert_eq!(presence.enter(address("2001:db8:1:2:ffff::9"), Purpose::Watch, 0, up_to(1)), Err(1));
        assert_eq!(presence.enter(address("2001:db8:1:3::1"), Purpose::Watch, 0, up_to(1)), Ok(()));
    }

    #[test]
    fn all_addresses_are_counted_together_with_what_they_take() {
        let presence = Presence::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let enter = |from: &str, bps| {
            let mut seen = (Load::default(), Load::default());
            let entered: Result<(), ()> =
                presence.enter(address(from), Purpose::Watch, bps, |of_address, in_all| {
                    seen = (of_address, in_all);
                    Ok(())
                });
            entered.unwrap();
            seen
        };
        let load = |count, bps| Load { count, bps };
        assert_eq!(enter("192.0.2.1", 5), (load(0, 0), load(0, 0)));
        assert_eq!(enter("192.0.2.2", 7), (load(0, 0), load(1, 5)));
        assert_eq!(enter("192.0.2.1", 9), (load(1, 5), load(2, 12)));
        presence.leave(address("192.0.2.1"), Purpose::Watch, 5);
        assert_eq!(enter("192.0.2.1", 1), (load(1, 9), load(2, 16)));
    }

    proptest! {
        /// Beside plain counts of each address.
        #[test]
        fn what_enters_and_leaves_is_counted_for_its_address_and_for_all(
            steps in proptest::collection::vec((0..4u8, any::<bool>(), 0..1_000u64), 0..60),
        ) {
            let presence = Presence::default();
            let address = |number: u8| IpAddr::from([192, 0, 2, number]);
            let mut entered: Vec<Vec<u64>> = vec![Vec::new(); 4];
            for (number, enters, bps) in steps {
                let of_address = &mut entered[usize::from(number)];
                if enters {
                    presence.count(address(number), Purpose::Watch, bps);
                    of_address.push(bps);
                } else if let Some(bps) = of_address.pop() {
                    presence.leave(address(number), Purpose::Watch, bps);
                }
                let load = |entered: &[u64]| Load { count: entered.len(), bps: entered.iter().sum() };
                let all: Vec<u64> = entered.concat();
                for (number, of_address) in (0u8..).zip(&entered) {
                    let mut seen = None;
                    let refused = presence.enter(address(number), Purpose::Watch, 1, |own, in_all| {
                        seen = Some((own, in_all));
                        Err(())
                    });
                    prop_assert_eq!(refused, Err(()), "one that is refused is not counted");
                    prop_assert_eq!(seen, Some((load(of_address), load(&all))));
                }
            }
        }
    }
}
