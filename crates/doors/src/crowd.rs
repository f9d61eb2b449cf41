//! Room for connections to a door that have not been let in: making them costs a stranger nothing.

use glassline_streams::presence::subscriber;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Of all.
pub(super) const WAITING_MAX: usize = 256;
/// Of one network: one address of IPv4, 64 bits of IPv6, of which a stranger has all addresses. A whole studio behind one address
/// may begin at once, as after a break.
pub(super) const WAITING_OF_NETWORK_MAX: usize = 128;

/// What becomes of one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is room.
    Free,
    /// There is, once this connection has gone.
    InPlaceOf(u64),
    /// There is none.
    None,
}

/// Room for one more connection from `newcomer` beside those that wait, by their numbers, the oldest first. Where all is full, the
/// oldest of the network that has most makes room: a crowd of one network does not crowd others out.
pub(super) fn room(waiting: impl Iterator<Item = (u64, IpAddr)>, newcomer: IpAddr) -> Room {
    let mut networks: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
    let mut in_all = 0;
    for (id, address) in waiting {
        let (count, _) = networks.entry(subscriber(address)).or_insert((0, id));
        *count += 1;
        in_all += 1;
    }
    if networks.get(&subscriber(newcomer)).is_some_and(|(count, _)| *count >= WAITING_OF_NETWORK_MAX) {
        return Room::None;
    }
    if in_all < WAITING_MAX {
        return Room::Free;
    }
    let most = networks.into_values().max_by_key(|(count, oldest)| (*count, std::cmp::Reverse(*oldest)));
    most.map_or(Room::Free, |(_, oldest)| Room::InPlaceOf(oldest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_has_a_few_whatever_its_addresses() {
        let of =
            |first: u64, count: u64| (first..first + count).map(|id| (id, ip(&format!("2001:db8::{id:x}"))));
        assert_eq!(room(of(0, 127), ip("2001:db8::ffff")), Room::Free);
        assert_eq!(room(of(0, 128), ip("2001:db8::ffff")), Room::None);
        assert_eq!(room(of(0, 128), ip("2001:db8:0:1::1")), Room::Free);
        let mapped = (0..128).map(|id| (id, ip("::ffff:192.0.2.1")));
        assert_eq!(room(mapped, ip("192.0.2.1")), Room::None);
    }

    #[test]
    fn where_all_is_full_the_largest_crowd_makes_room() {
        // The oldest is alone; 15 of one network came behind it, and then one each of many.
        let first = std::iter::once((7, ip("198.51.100.1")));
        let crowd = (10..25).map(|id| (id, ip("203.0.113.1")));
        let others = (30..270).map(|id| (id, ip(&format!("10.0.{}.{}", id / 256, id % 256))));
        let all = first.chain(crowd).chain(others);
        assert_eq!(room(all.clone(), ip("192.0.2.1")), Room::InPlaceOf(10));
        assert_eq!(room(all.skip(1), ip("192.0.2.1")), Room::Free);
    }
}
