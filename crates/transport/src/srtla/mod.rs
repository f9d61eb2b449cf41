//! SRTLA: one SRT connection over several lines at once, at the receiving end (BELABOX's protocol, as its reference, BELABOX/srtla,
//! speaks it). Pure.
//!
//! ```text
//! link ─ REG1, half an id ─────────► REG2, the whole id          a group
//! links ─ REG2, the id ────────────► REG3                        a link of it
//! links ─ packets of SRT ──────────► handed on as from one peer; each ten are acknowledged to their link
//! links ◄ acknowledgements of SRT on each of them, loss reports on the two heard last, all else on the one heard last
//! ```
//! The second half of an id is made of the first half and a secret, so that nothing is kept of a sender before one of its links has
//! shown an id that was sent to a real address. An answer is never longer than the question.

use crate::subscriber::subscriber;
use glassline_media::Time;
use ring::hmac;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of an id.
const ID_BYTES: usize = 256;
/// Links of a group.
const LINKS_MAX: usize = 16;
/// Groups of one address at once.
const GROUPS_OF_ADDRESS: usize = 16;
/// A group that has no connection of SRT so long after its beginning is forgotten.
const IDLE_GROUP: Duration = Duration::from_secs(5);
/// An address that was heard so lately stays with its group.
const HEARD_LATELY: Duration = Duration::from_secs(5);
/// A link that is silent for so long is forgotten, and a group without links.
const SILENCE: Duration = Duration::from_secs(10);
/// An id makes a group within this time, or once more as long.
const ID_TIME: Duration = Duration::from_secs(60);
/// Data packets of a link that are acknowledged to it together.
const ACKNOWLEDGED: usize = 10;
/// Answers that wait to leave, at most.
const ANSWERS_MAX: usize = 256;

const KEEP_ALIVE: u16 = 0x9000;
const ACK: u16 = 0x9100;
const REG1: u16 = 0x9200;
const REG2: u16 = 0x9201;
const REG3: u16 = 0x9202;
const REG_ERROR: u16 = 0x9210;
const REG_NO_GROUP: u16 = 0x9211;

/// Types of control packets of SRT (draft-sharabayko-srt-01 §3.2).
const SRT_ACK: u16 = 0x8002;
const SRT_LOSS_REPORT: u16 = 0x8003;

/// What has come by a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFigures {
    /// Its address.
    pub address: SocketAddr,
    /// Packets of SRT that came by it.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Since anything came by it.
    pub quiet: Duration,
}

/// What a datagram came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// It is a packet of SRT, of the peer that has this address: that of its group's first link. With the number of the link that
    /// brought it, from 0 up.
    Packet(SocketAddr, u8),
    /// Nothing but, perhaps, an answer.
    Nothing,
}

#[derive(Debug)]
struct Link {
    address: SocketAddr,
    /// The least that no other link of the group has.
    number: u8,
    heard: Time,
    packets: u64,
    bytes: u64,
    /// Numbers of data packets that it has no acknowledgement of yet.
    unacknowledged: Vec<[u8; 4]>,
}

#[derive(Debug)]
struct Group {
    /// The address that stands for the group, that of its first link.
    address: SocketAddr,
    /// Those heard last stand last.
    links: Vec<Link>,
    began: Time,
}

type Tag = [u8; 32];

/// The groups of senders.
#[derive(Debug)]
pub struct Groups {
    secret: hmac::Key,
    began: Time,
    groups: BTreeMap<Tag, Group>,
    /// Which group a link belongs to.
    of_links: BTreeMap<SocketAddr, Tag>,
    /// Which group an address stands for.
    of_addresses: BTreeMap<SocketAddr, Tag>,
    answers: VecDeque<(SocketAddr, Vec<u8>)>,
    groups_max: usize,
    swept: Time,
    refused: u64,
}

impl Groups {
    /// None yet, and `groups_max` at most. `seed` is random.
    pub fn new(groups_max: usize, seed: [u8; 32], now: Time) -> Groups {
        Groups {
            secret: hmac::Key::new(hmac::HMAC_SHA256, &seed),
            began: now,
            groups: BTreeMap::new(),
            of_links: BTreeMap::new(),
            of_addresses: BTreeMap::new(),
            answers: VecDeque::new(),
            groups_max,
            swept: now,
            refused: 0,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// Registrations that were refused, and datagrams of senders that have not registered.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The second half of the id that begins with `half`, for a span of time.
    fn second_half(&self, half: &[u8], span: u64) -> [u8; ID_BYTES / 2] {
        let mut second = [0; ID_BYTES / 2];
        for (number, chunk) in second.chunks_mut(32).enumerate() {
            let text = [b"id".as_slice(), half, &span.to_be_bytes(), &[number as u8]].concat();
            chunk.copy_from_slice(hmac::sign(&self.secret, &text).as_ref());
        }
        second
    }

    fn span(&self, now: Time) -> u64 {
        (now.since(self.began).as_nanos() / ID_TIME.as_nanos()) as u64
    }

    /// What stands for an id in the tables: looking for it tells nothing of the ids that there are.
    fn tag(&self, id: &[u8]) -> Tag {
        let tag = hmac::sign(&self.secret, &[b"tag".as_slice(), id].concat());
        tag.as_ref().try_into().unwrap_or_default()
    }

    fn answer(&mut self, to: SocketAddr, kind: u16, id: &[u8]) {
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push_back((to, [&kind.to_be_bytes(), id].concat()));
        }
    }

    /// An answer that is to leave, and where to.
    pub fn poll_answer(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.answers.pop_front()
    }

    /// Takes a datagram that came from `from`.
    pub fn handle_datagram(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Handled {
        self.sweep(now);
        let Some(kind) = datagram.first_chunk::<2>().map(|kind| u16::from_be_bytes(*kind)) else {
            return Handled::Nothing;
        };
        let id = datagram.get(2..).and_then(|id| id.first_chunk::<ID_BYTES>());
        match (kind, id) {
            (REG1, Some(id)) => self.register_group(now, from, id),
            (REG2, Some(id)) => self.register_link(now, from, id),
            (KEEP_ALIVE, _) if datagram.len() <= ID_BYTES => {
                if let Some(link) = self.heard(now, from) {
                    link.heard = now;
                    // It comes back as it is: some senders write a time into it.
                    self.answer(from, KEEP_ALIVE, &datagram[2..]);
                }
            }
            (0x9000..=0x9fff, _) => self.refused += 1,
            _ => return self.hand_on(now, from, datagram),
        }
        Handled::Nothing
    }

    fn register_group(&mut self, now: Time, from: SocketAddr, id: &[u8; ID_BYTES]) {
        if self.groups.len() >= self.groups_max {
            self.refused += 1;
            return self.answer(from, REG_ERROR, &[]);
        }
        let half = &id[..ID_BYTES / 2];
        let second = self.second_half(half, self.span(now));
        self.answer(from, REG2, &[half, &second].concat());
    }

    fn register_link(&mut self, now: Time, from: SocketAddr, id: &[u8; ID_BYTES]) {
        let tag = self.tag(id);
        if !self.groups.contains_key(&tag) {
            let (half, second) = id.split_at(ID_BYTES / 2);
            let span = self.span(now);
            let spans = [Some(span), span.checked_sub(1)];
            let is_ours = spans.into_iter().flatten().any(|span| self.second_half(half, span) == second);
            if !is_ours {
                self.refused += 1;
                return self.answer(from, REG_NO_GROUP, &[]);
            }
        }
        // An address of another group stays with that while it is heard: what comes under it may be another's.
        let former = self.of_links.get(&from).or(self.of_addresses.get(&from)).copied();
        if let Some(former) = former.filter(|former| *former != tag) {
            let links = self.groups.get(&former).map_or(&[][..], |group| &group.links);
            if links.iter().any(|link| now.since(link.heard) < HEARD_LATELY) {
                self.refused += 1;
                return self.answer(from, REG_ERROR, &[]);
            }
            self.remove(former);
        }
        if !self.groups.contains_key(&tag) {
            let address = subscriber(from.ip());
            let of_address = self.groups.values().filter(|group| subscriber(group.address.ip()) == address);
            if self.groups.len() >= self.groups_max || of_address.count() >= GROUPS_OF_ADDRESS {
                self.refused += 1;
                return self.answer(from, REG_ERROR, &[]);
            }
            self.of_addresses.insert(from, tag);
            self.groups.insert(tag, Group { address: from, links: Vec::new(), began: now });
        }
        let Some(group) = self.groups.get_mut(&tag) else { return };
        if !group.links.iter().any(|link| link.address == from) {
            if group.links.len() >= LINKS_MAX {
                self.refused += 1;
                return self.answer(from, REG_ERROR, &[]);
            }
            let unacknowledged = Vec::with_capacity(ACKNOWLEDGED);
            let is_free = |number: &u8| group.links.iter().all(|link| link.number != *number);
            let number = (0..LINKS_MAX as u8).find(is_free).unwrap_or(u8::MAX);
            group.links.push(Link {
                address: from,
                number,
                heard: now,
                packets: 0,
                bytes: 0,
                unacknowledged,
            });
            self.of_links.insert(from, tag);
        }
        self.answer(from, REG3, &[]);
    }

    /// The link of an address, which stands last of its group from now on.
    fn heard(&mut self, now: Time, from: SocketAddr) -> Option<&mut Link> {
        let tag = self.of_links.get(&from)?;
        let links = &mut self.groups.get_mut(tag)?.links;
        let at = links.iter().position(|link| link.address == from)?;
        let last = links.len() - 1;
        links[at..].rotate_left(usize::from(at < last));
        let link = links.last_mut()?;
        link.heard = now;
        Some(link)
    }

    fn hand_on(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Handled {
        let Some(link) = self.heard(now, from) else {
            self.refused += 1;
            return Handled::Nothing;
        };
        let line = link.number;
        link.packets += 1;
        link.bytes += datagram.len() as u64;
        let number = datagram.first_chunk::<4>().filter(|number| number[0] & 0x80 == 0);
        link.unacknowledged.extend(number);
        if link.unacknowledged.len() >= ACKNOWLEDGED {
            let numbers = link.unacknowledged.as_flattened();
            let body = [[0; 2].as_slice(), numbers].concat();
            link.unacknowledged.clear();
            self.answer(from, ACK, &body);
        }
        let address =
            self.of_links.get(&from).and_then(|tag| self.groups.get(tag)).map(|group| group.address);
        address.map_or(Handled::Nothing, |address| Handled::Packet(address, line))
    }

    /// Where a datagram goes that is for the peer with this address.
    pub fn destinations(&self, to: SocketAddr, datagram: &[u8]) -> impl Iterator<Item = SocketAddr> + '_ {
        let kind = datagram.first_chunk::<2>().map_or(0, |kind| u16::from_be_bytes(*kind));
        let count = match kind {
            SRT_ACK => LINKS_MAX,
            SRT_LOSS_REPORT => 2,
            _ => 1,
        };
        let group = self.of_addresses.get(&to).and_then(|tag| self.groups.get(tag));
        let links = group.into_iter().flat_map(|group| group.links.iter().rev());
        links.take(count).map(|link| link.address)
    }

    /// The links of the peer with this address, by address.
    pub fn figures(&self, of: SocketAddr, now: Time) -> Vec<LinkFigures> {
        let group = self.of_addresses.get(&of).and_then(|tag| self.groups.get(tag));
        let links = group.into_iter().flat_map(|group| &group.links);
        let mut figures: Vec<_> = links
            .map(|link| {
                let Link { address, heard, packets, bytes, .. } = *link;
                LinkFigures { address, packets, bytes, quiet: now.since(heard) }
            })
            .collect();
        figures.sort_by_key(|figures| figures.address);
        figures
    }

    fn remove_link(&mut self, tag: Tag, address: SocketAddr) {
        self.of_links.remove(&address);
        if let Some(group) = self.groups.get_mut(&tag) {
            group.links.retain(|link| link.address != address);
            if group.links.is_empty() {
                self.remove(tag);
            }
        }
    }

    fn remove(&mut self, tag: Tag) {
        if let Some(group) = self.groups.remove(&tag) {
            self.of_addresses.remove(&group.address);
            group.links.iter().for_each(|link| _ = self.of_links.remove(&link.address));
        }
    }

    /// Forgets groups of which the peer has no connection of SRT, as `has_connection` says by its address, some seconds after they
    /// have begun.
    pub fn keep(&mut self, now: Time, has_connection: impl Fn(SocketAddr) -> bool) {
        let is_idle = |group: &Group| now.since(group.began) >= IDLE_GROUP && !has_connection(group.address);
        let idle: Vec<_> =
            self.groups.iter().filter(|(_, group)| is_idle(group)).map(|(tag, _)| *tag).collect();
        idle.into_iter().for_each(|tag| self.remove(tag));
    }

    /// Forgets links that are silent, once a second.
    fn sweep(&mut self, now: Time) {
        if now.since(self.swept) < Duration::from_secs(1) {
            return;
        }
        self.swept = now;
        let links =
            self.groups.iter().flat_map(|(tag, group)| group.links.iter().map(move |link| (*tag, link)));
        let silent = links.filter(|(_, link)| now.since(link.heard) >= SILENCE);
        let silent: Vec<_> = silent.map(|(tag, link)| (tag, link.address)).collect();
        silent.into_iter().for_each(|(tag, address)| self.remove_link(tag, address));
    }
}

#[cfg(test)]
mod tests;
