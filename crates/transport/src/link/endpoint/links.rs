//! Links that this end begins, and where they lead.

use super::handshake::{path_number, path_numbers};
use super::{AtWork, Endpoint, LinkId, Slot, UNTOLD_PATHS};
use crate::link::state::{Link, Standing};
use crate::link::{Error, MAX_ADDRESSES, Path};
use glassline_media::Time;
use glassline_media::quantity::ByteRate;

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
        self.attempt(now, index, 0)?;
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
        // Further paths lead to the same listener, by other sockets.
        for second in slot.targets[1..].iter_mut().flatten() {
            let same = |path: &&Path| path.remote.is_ipv4() == second.remote.is_ipv4();
            second.remote = paths.iter().find(same).map_or(second.remote, |path| path.remote);
        }
        if is_tried {
            for number in path_numbers() {
                self.attempt(now, id.index, number)?;
            }
        }
        Ok(())
    }

    /// Gives a link that we connect a further path to the same peer: another socket here, another address there, or both.
    /// It is shaken hands over, kept, and connected again by itself; [`Settings::bonding`] says what goes over it.
    /// [`Event::PathUp`] tells when it is there.
    ///
    /// # Errors
    /// The link has gone, the peer has connected it, it has [as many as it may](Bonding::max_paths), or it has this one.
    pub fn add_path(&mut self, now: Time, id: LinkId, path: Path) -> Result<(), Error> {
        self.add_path_if(now, id, path, None)
    }

    /// As [`Endpoint::add_path`], for a path that costs: under [`Bonding::Sum`] it carries messages only while the others
    /// together are known to carry less than `below`, or do not answer.
    ///
    /// # Errors
    /// As those of [`Endpoint::add_path`].
    pub fn add_spare_path(
        &mut self,
        now: Time,
        id: LinkId,
        path: Path,
        below: ByteRate,
    ) -> Result<(), Error> {
        self.add_path_if(now, id, path, Some(below))
    }

    fn add_path_if(
        &mut self,
        now: Time,
        id: LinkId,
        path: Path,
        spare: Option<ByteRate>,
    ) -> Result<(), Error> {
        if self.link(id).is_none() {
            return Err(Error::Closed);
        }
        let most = self.settings.bonding.max_paths();
        let slot = &mut self.slots[id.index as usize];
        if slot.targets[0].is_empty() {
            return Err(Error::Path { what: "the peer has connected it" });
        }
        if slot.targets.iter().any(|targets| targets.first() == Some(&path)) {
            return Err(Error::Path { what: "it has this one" });
        }
        let free = slot.targets.iter().position(Vec::is_empty).filter(|free| *free < most);
        let Some(free) = free else { return Err(Error::Path { what: "it has as many as it may" }) };
        slot.targets[free].push(path);
        slot.spares[free] = spare;
        if free < UNTOLD_PATHS {
            return self.attempt(now, id.index, path_number(free));
        }
        self.connect_missing(now, id.index);
        Ok(())
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
                attempts: Default::default(),
                refusals: 0,
                peer: None,
                targets: Default::default(),
                spares: Default::default(),
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
        slot.attempts = Default::default();
        (slot.peer, slot.targets, slot.spares) = (None, Default::default(), Default::default());
        slot.targets[0] = addresses(targets);
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
