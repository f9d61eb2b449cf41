//! Who is here from where: how many viewers and publishers each address has.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// What somebody is here for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// To publish.
    Publish,
    /// To watch.
    Watch,
}

/// The counts. An address that has nobody takes no memory.
#[derive(Debug, Default)]
pub(super) struct Presence(Mutex<BTreeMap<(IpAddr, Purpose), usize>>);

impl Presence {
    /// Lets one more in from `address` if `may` allows it with as many as are there, and counts it.
    pub(super) fn enter<E>(
        &self,
        address: IpAddr,
        purpose: Purpose,
        may: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (subscriber(address), purpose);
        may(counts.get(&key).copied().unwrap_or(0))?;
        *counts.entry(key).or_default() += 1;
        Ok(())
    }

    /// One who had entered leaves.
    pub(super) fn leave(&self, address: IpAddr, purpose: Purpose) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (subscriber(address), purpose);
        if let Some(count) = counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&key);
            }
        }
    }
}

/// What counts as one address: of IPv6 the 64 bits that a subscriber is given (RFC 6177).
fn subscriber(address: IpAddr) -> IpAddr {
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

    fn up_to(limit: usize) -> impl FnOnce(usize) -> Result<(), usize> {
        move |count| if count < limit { Ok(()) } else { Err(count) }
    }

    #[test]
    fn an_address_counts_for_itself_and_for_each_purpose() {
        let presence = Presence::default();
        let (here, there): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        assert_eq!(presence.enter(here, Purpose::Watch, up_to(1)), Ok(()));
        assert_eq!(presence.enter(here, Purpose::Watch, up_to(1)), Err(1));
        assert_eq!(presence.enter(here, Purpose::Publish, up_to(1)), Ok(()));
        assert_eq!(presence.enter(there, Purpose::Watch, up_to(1)), Ok(()));
        presence.leave(here, Purpose::Watch);
        assert_eq!(presence.enter("::ffff:192.0.2.1".parse().unwrap(), Purpose::Watch, up_to(1)), Ok(()));
        for (address, purpose) in [(here, Purpose::Watch), (here, Purpose::Publish), (there, Purpose::Watch)]
        {
            presence.leave(address, purpose);
        }
        assert!(presence.0.lock().unwrap().is_empty(), "nobody is here");
    }

    #[test]
    fn a_subscriber_has_one_ipv6_prefix() {
        let presence = Presence::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(presence.enter(address("2001:db8:1:2::1"), Purpose::Watch, up_to(1)), Ok(()));
        assert_eq!(presence.enter(address("2001:db8:1:2:ffff::9"), Purpose::Watch, up_to(1)), Err(1));
        assert_eq!(presence.enter(address("2001:db8:1:3::1"), Purpose::Watch, up_to(1)), Ok(()));
    }
}
