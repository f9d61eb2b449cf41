//! The largest datagram that a path carries, found by probes (RFC 8899, DPLPMTUD).
//!
//! A path asks [`Mtu::poll`] for the size of a probe, tells what became of it and which sizes get through, and sends
//! no datagram larger than [`Mtu::size`]. No ICMP is needed.

use glassline_media::Time;
use std::time::Duration;

/// What every path carries, bytes of UDP payload (RFC 9000 §14).
pub(crate) const BASE: u16 = 1200;
/// Probes of one size that have to stay unanswered for it to be too large (RFC 8899 §5.1.2, MAX_PROBES).
const TRIES: u32 = 3;
/// Sizes as near as this to one that is too large are not worth a probe.
const NEAR: u16 = 20;
/// When sizes that were too large are tried again (RFC 8899 §5.1.1, PMTU_RAISE_TIMER).
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// Losses of large packets, with nothing large and something small arriving meanwhile, that make a black hole.
const BLACK: u32 = 3;
/// Datagrams of more bytes than this are taken for as large as every path carries.
const FULL: u32 = 1000;
/// So often must such ones have been lost while only smaller ones came, over so long a time at least, for the path to be too narrow.
const NARROW_ROUNDS: u32 = 8;
const NARROW_TIME: Duration = Duration::from_secs(2);
/// What common paths carry: Ethernet with IPv6 and IPv4, jumbo frames, tunnels (WireGuard, PPPoE, GRE), LTE.
const COMMON: [u16; 9] = [8972, 8952, 4352, 1472, 1452, 1424, 1372, 1332, 1232];

/// The search on one path.
#[derive(Clone, Debug)]
pub(crate) struct Mtu {
    size: u16,
    /// What both ends take.
    most: u16,
    /// The least size that is believed not to get through.
    bad: u32,
    /// The probe under way, and until when its answer is waited for.
    flying: Option<(u16, Time)>,
    tries: u32,
    next_at: Time,
    /// How often packets above [`BASE`] were lost while others came, since one above it came.
    lost_rounds: u32,
    /// One of at most [`BASE`] bytes came since the last such loss.
    came_small: bool,
    narrow: Narrow,
}

/// Whether the path carries less than [`BASE`] bytes, which is less than it must.
#[derive(Clone, Copy, Debug, Default)]
struct Narrow {
    /// How often full datagrams were lost while smaller ones came, since a full one came; and when that was seen first.
    rounds: u32,
    since: Time,
    came_small: bool,
    lost_full: bool,
    /// It was told.
    is_told: bool,
    is_due: bool,
}

impl Narrow {
    fn handle_settled(&mut self, now: Time, came: u32, lost: u32) {
        if came > FULL {
            *self = Narrow::default();
            return;
        }
        self.came_small |= came > 0;
        self.lost_full |= lost > FULL;
        if !(self.came_small && self.lost_full) {
            return;
        }
        (self.came_small, self.lost_full) = (false, false);
        if self.rounds == 0 {
            self.since = now;
        }
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds >= NARROW_ROUNDS && now.since(self.since) >= NARROW_TIME && !self.is_told {
            (self.is_told, self.is_due) = (true, true);
        }
    }
}

impl Mtu {
    /// A path of which nothing is known, between ends that take datagrams of `most` bytes.
    pub(crate) fn new(now: Time, most: u16) -> Mtu {
        let most = most.max(BASE);
        Mtu {
            size: BASE,
            most,
            bad: u32::from(most) + 1,
            flying: None,
            tries: 0,
            next_at: now,
            lost_rounds: 0,
            came_small: false,
            narrow: Narrow::default(),
        }
    }

    /// The largest packet that was given up on a path that does not answer, bytes.
    pub(crate) fn handle_given_up(&mut self, size: u32) {
        self.narrow.lost_full |= size > FULL;
    }

    /// Whether the path has just been found not to carry [`BASE`] bytes; told once, and again after it has.
    pub(crate) fn take_narrow(&mut self) -> bool {
        std::mem::take(&mut self.narrow.is_due)
    }

    /// The same search on another path.
    pub(crate) fn anew(&self, now: Time) -> Mtu {
        Mtu::new(now, self.most)
    }

    /// The largest datagram that is known to get through, bytes.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// The next size worth a probe; `None` once the search has ended.
    fn candidate(&self) -> Option<u16> {
        let (good, bad) = (u32::from(self.size), self.bad);
        if bad > u32::from(self.most) {
            return (self.size < self.most).then_some(self.most);
        }
        if bad.saturating_sub(good) <= u32::from(NEAR) {
            return None;
        }
        let common =
            COMMON.into_iter().find(|size| (good.saturating_add(1)..bad).contains(&u32::from(*size)));
        // Between two common sizes, or below what was already halved, by halves.
        let half = u16::try_from(good.midpoint(bad)).unwrap_or(self.most);
        Some(common.unwrap_or(half))
    }

    /// The size of the probe that is to leave at `now`, of which one answer is waited for until `timeout` has passed.
    pub(crate) fn poll(&mut self, now: Time, timeout: Duration) -> Option<u16> {
        if self.flying.is_some() || self.next_at > now {
            return None;
        }
        if self.candidate().is_none() {
            // The path may have become wider since.
            self.bad = u32::from(self.most).saturating_add(1);
        }
        let Some(size) = self.candidate() else {
            self.next_at = Time::NEVER;
            return None;
        };
        self.flying = Some((size, now + timeout));
        Some(size)
    }

    /// When [`Mtu::poll`] or [`Mtu::handle_timeout`] has something to do.
    pub(crate) fn next_timeout(&self) -> Time {
        self.flying.map_or(self.next_at, |flying| flying.1)
    }

    /// Whether a probe is under way.
    pub(crate) fn is_probing(&self) -> bool {
        self.flying.is_some()
    }

    /// No answer to the probe has come in time.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let Some((size, _)) = self.flying.take_if(|flying| flying.1 <= now) else { return };
        self.tries = self.tries.saturating_add(1);
        self.next_at = now;
        if self.tries >= TRIES {
            self.tries = 0;
            self.bad = self.bad.min(u32::from(size));
            if self.candidate().is_none() {
                self.next_at = now + RAISE_AFTER;
            }
        }
    }

    /// A probe of `size` bytes got through.
    pub(crate) fn handle_probe_acked(&mut self, now: Time, size: u16) {
        if self.flying.is_some_and(|flying| flying.0 == size) {
            (self.flying, self.tries, self.next_at) = (None, 0, now);
        }
        if size <= self.size || u32::from(size) >= self.bad {
            return;
        }
        (self.size, self.lost_rounds) = (size, 0);
        if self.candidate().is_none() {
            self.next_at = if size < self.most { now + RAISE_AFTER } else { Time::NEVER };
        }
    }

    /// Of the packets that an acknowledgement or a timeout settled, the largest that came and the largest that was
    /// lost; 0 for none. If the path swallows what it carried before, only [`BASE`] is sent until more is found anew.
    pub(crate) fn handle_settled(&mut self, now: Time, came: u32, lost: u32) {
        let base = u32::from(BASE);
        self.narrow.handle_settled(now, came, lost);
        if came > base {
            (self.lost_rounds, self.came_small) = (0, false);
            return;
        }
        self.came_small |= came > 0;
        // Where nothing comes at all the path is away, which tells nothing of sizes.
        if lost > base && std::mem::take(&mut self.came_small) {
            self.lost_rounds = self.lost_rounds.saturating_add(1);
        }
        if self.lost_rounds < BLACK || self.size == BASE {
            return;
        }
        self.bad = u32::from(self.size);
        (self.size, self.lost_rounds, self.tries) = (BASE, 0, 0);
        (self.flying, self.next_at) = (None, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches on a path that carries `limit` bytes: the size found, and how many probes it took.
    fn search(mtu: &mut Mtu, limit: u16) -> u32 {
        let (mut now, mut probes) = (Time::ZERO, 0);
        loop {
            let due = mtu.next_timeout();
            if due > now + Duration::from_secs(60) {
                return probes;
            }
            now = now.max(due);
            mtu.handle_timeout(now);
            if let Some(size) = mtu.poll(now, Duration::from_millis(300)) {
                probes += 1;
                if size <= limit {
                    mtu.handle_probe_acked(now + Duration::from_millis(50), size);
                }
            }
            assert!(probes < 200, "{mtu:?}");
        }
    }

    #[test]
    fn what_both_ends_take_is_found_with_one_probe() {
        let mut mtu = Mtu::new(Time::ZERO, 1452);
        assert_eq!((mtu.size(), search(&mut mtu, 1500), mtu.size()), (1200, 1, 1452));
        assert_eq!(mtu.next_timeout(), Time::NEVER);
        assert_eq!(search(&mut Mtu::new(Time::ZERO, 1200), 1500), 0);
    }

    #[test]
    fn a_wider_path_is_found_later() {
        let mut mtu = Mtu::new(Time::ZERO, 1472);
        search(&mut mtu, 1372);
        let found = mtu.size();
        assert!((1353..=1372).contains(&found), "{found}");
        let later = mtu.next_timeout();
        assert!(later > Time::from_millis(590_000), "{later:?}");
        assert_eq!(mtu.poll(later, Duration::ZERO), Some(1472));
        mtu.handle_probe_acked(later, 1472);
        assert_eq!((mtu.size(), mtu.next_timeout()), (1472, Time::NEVER));
    }

    #[test]
    fn a_black_hole_is_left_and_what_is_only_lost_is_not_one() {
        let mut mtu = Mtu::new(Time::ZERO, 1452);
        search(&mut mtu, 1500);
        let now = Time::from_millis(5000);
        // Nothing comes: an outage. Something comes, but something large too: losses.
        (0..20).for_each(|_| mtu.handle_settled(now, 0, 1452));
        for (came, lost) in [(800, 1452), (1452, 1452), (800, 1452), (800, 1452)] {
            mtu.handle_settled(now, came, lost);
        }
        assert_eq!(mtu.size(), 1452);
        mtu.handle_settled(now, 800, 1452);
        assert_eq!(mtu.size(), BASE);
        search(&mut mtu, 1300);
        assert!((1280..=1300).contains(&mtu.size()), "{}", mtu.size());
    }

    #[test]
    fn a_path_that_carries_less_than_it_must_is_told_once_and_again_after_it_was_well() {
        let mut mtu = Mtu::new(Time::ZERO, 1200);
        let mut told = Vec::new();
        for step in 0..200u64 {
            let now = Time::from_millis(step * 100);
            // Small ones come, full ones do not; for a while in the middle they do.
            let (came, lost) = if (60..70).contains(&step) { (1200, 0) } else { (40, 1200) };
            mtu.handle_settled(now, came, lost);
            if mtu.take_narrow() {
                told.push(step);
            }
        }
        assert_eq!(told, [20, 90]);
        // An outage, and losses among which full ones come, tell nothing of sizes.
        let mut mtu = Mtu::new(Time::ZERO, 1200);
        for step in 0..200u64 {
            let now = Time::from_millis(step * 100);
            mtu.handle_settled(now, 0, 1200);
            mtu.handle_settled(now, if step % 5 == 0 { 1200 } else { 40 }, 1200);
            assert!(!mtu.take_narrow(), "{step}");
        }
    }

    proptest! {
        #[test]
        fn any_limit_is_found(most in 1200u16.., limit in 1200u16..) {
            let mut mtu = Mtu::new(Time::ZERO, most);
            let probes = search(&mut mtu, limit);
            prop_assert!(mtu.size() <= limit.min(most) && mtu.size() + NEAR >= limit.min(most), "{:?}", mtu);
            prop_assert!(probes <= 75, "{}", probes);
        }
    }
}
