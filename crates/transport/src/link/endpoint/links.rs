//! Links that this end begins, and where they lead.

use super::{AtWork, Endpoint, LinkId, Slot};
use crate::link::state::{Link, Standing};
use crate::link::{Error, MAX_ADDRESSES, Path};
use glassline_media::Time;

impl Endpoint {
    /// Begins a link to the listener at `path`. It can be used at once; [`Event::Connected`] tells when it is up.
    ///
    /// # Errors
    /// There are as many links as the settings allow, or the credentials name no peer.
    pub fn connect(&mut self, now: Time, path: Path) -> Result<LinkId, Error> {
        self.connect_any(now, &[path])
    }

    /// As [`Endpoint::connect`], to a listener that has several addresses, the most promising first, of which the first
    /// [`MAX_ADDRESSES`](super::MAX_ADDRESSES) count. Each further one is tried a quarter of a second after the one before
    /// it, until one answers (RFC 8305 §5); that one goes first when the link is lost and connected again.
    ///
    /// # Errors
    /// As those of [`Endpoint::connect`]; or there is no address.
    pub fn connect_any(&mut self, now: Time, paths: &[Path]) -> Result<LinkId, Error> {
        if self.remote_gate.is_none() {
            return Err(Error::NoPeer);
        }
        if paths.is_empty() {
            return Err(Error::NoAddress);
        }
        let index = self.add_link(now, paths)?;
        self.attempt(now, index, false)?;
        Ok(self.id(index))
    }

    /// Looks for the listener of a link that we connected at these addresses from now on. A link that is up stays where
    /// it is; one that is being connected, or hears nothing of its peer, is connected there, with all that waits on it.
    ///
    /// # Errors
    /// The link has gone, the peer has connected it, or there is no address.
    pub fn retarget(&mut self, now: Time, id: LinkId, paths: &[Path]) -> Result<(), Error> {
        let link = self.link(id).filter(|link| !link.is_over()).ok_or(Error::Closed)?;
        let is_tried = link.standing == Standing::Connecting || link.is_away();
        let slot = &mut self.slots[id.index as usize];
        match slot.targets[0].first() {
            None => return Err(Error::Path { what: "the peer has connected it" }),
            Some(_) if paths.is_empty() => return Err(Error::NoAddress),
            Some(_) => slot.targets[0] = addresses(paths),
        }
        // The second path leads to the same listener, by another socket.
        for second in &mut slot.targets[1] {
            let same = |path: &&Path| path.remote.is_ipv4() == second.remote.is_ipv4();
            second.remote = paths.iter().find(same).map_or(second.remote, |path| path.remote);
        }
        if is_tried {
            for second in [false, true] {
                self.attempt(now, id.index, second)?;
            }
        }
        Ok(())
    }

    /// Gives a link that we connect a second path to the same peer: another socket here, another address there, or both.
    /// It is shaken hands over, kept, and connected again by itself; [`Settings::bonding`] says what goes over it.
    /// [`Event::PathUp`] tells when it is there.
    ///
    /// # Errors
    /// The link has gone, the peer has connected it, it has two paths, or this is the one that it has.
    pub fn add_path(&mut self, now: Time, id: LinkId, path: Path) -> Result<(), Error> {
        if self.link(id).is_none() {
            return Err(Error::Closed);
        }
        let targets = &mut self.slots[id.index as usize].targets;
        let [first, second] = targets;
        match first.first() {
            None => return Err(Error::Path { what: "the peer has connected it" }),
            Some(_) if !second.is_empty() => return Err(Error::Path { what: "it has two" }),
            Some(first) if *first == path => return Err(Error::Path { what: "it is the first one" }),
            Some(_) => second.push(path),
        }
        self.attempt(now, id.index, true)
    }

    pub(super) fn add_link(&mut self, now: Time, targets: &[Path]) -> Result<u32, Error> {
        let limit = self.settings.max_links;
        if self.slots.len() >= limit && self.slots.iter().all(|slot| slot.link.is_some()) {
            self.end_longest_suspended(now);
        }
        let free = self.slots.iter().position(|slot| slot.link.is_none());
        let free = free.or_else(|| {
            let is_over = |slot: &Slot| slot.link.as_ref().is_some_and(Link::has_ended);
            self.slots.iter().position(is_over).filter(|_| self.slots.len() >= limit)
        });
        let index = free.unwrap_or(self.slots.len());
        let Some(number) = u32::try_from(index).ok().filter(|_| index < limit) else {
            return Err(Error::TooManyLinks { limit });
        };
        if free.is_none() {
            self.slots.push(Slot {
                generation: 0,
                link: None,
                attempts: [Vec::new(), Vec::new()],
                refusals: 0,
                peer: None,
                targets: [Vec::new(), Vec::new()],
                instance: 0,
            });
        }
        let instance = u64::from_be_bytes(self.random.array());
        self.at_work = AtWork::Link(number);
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.saturating_add(1);
        let mut link = Link::new(self.settings.clone());
        link.is_ours = !targets.is_empty();
        slot.link = Some(link);
        slot.attempts = [Vec::new(), Vec::new()];
        (slot.peer, slot.targets) = (None, [addresses(targets), Vec::new()]);
        (slot.instance, slot.refusals) = (instance, 0);
        Ok(number)
    }
}

/// The addresses that are tried of those that were given.
fn addresses(paths: &[Path]) -> Vec<Path> {
    let mut all: Vec<Path> = Vec::new();
    for path in paths {
        if all.len() < MAX_ADDRESSES && !all.contains(path) {
            all.push(*path);
        }
    }
    all
}
