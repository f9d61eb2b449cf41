//! A session that a description in a file names, as a receiver has it: at which ports packets and reports come, which track a
//! datagram is of, and where our own reports go.
//!
//! ```text
//! m=video 5004, m=audio 5006 ─► ports 5004 video, 5005 its reports, 5006 sound, 5007 its reports
//! a=rtcp:5100                ─► reports at 5100        a=rtcp-mux ─► reports among the packets
//! the same port twice        ─► one socket: tracks by payload type, reports by SSRC
//! ```
//! Anybody may send to a port. Packets are those of the first sender ([`SourceLock`](crate::rtp::source::SourceLock)), or of one
//! that `a=source-filter` names; reports and goodbyes are believed from that sender's IP address and SSRC alone.

use super::choice::Choice;
use super::receiver::Receiver;
use crate::counter::count;
use crate::rtp::coded::{Format, Placed};
use crate::rtp::rtcp::{self, Message, SenderReport};
use crate::rtp::source::Origin;
use crate::rtp::{self, Packet};
use crate::sdp::{CodedDescription, CodedTrack, SdpError};
use glassline_media::{Time, Utc};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use thiserror::Error;

/// Why a description cannot be received by.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescribedError {
    /// It is none, or one without bounds.
    #[error(transparent)]
    Sdp(#[from] SdpError),
    /// Nothing in it is taken.
    #[error("nothing in the session description can be received: {}", .0.join("; "))]
    Nothing(Vec<String>),
}

/// A port that datagrams of a session come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Our own address or a group's. Unspecified where the description names none.
    pub address: SocketAddr,
    /// The addresses that may send there; empty: any.
    pub sources: Vec<IpAddr>,
}

/// A track of the session.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedTrack {
    /// How its packets are read.
    pub format: Format,
    /// Their payload type, as the description has it.
    pub payload_type: u8,
    /// The number of the port to which they come.
    pub rtp: usize,
    /// The number of the port to which its reports come; `None` where there is no such port.
    pub rtcp: Option<usize>,
    /// Routers that our reports to a group may pass.
    pub ttl: Option<u8>,
    /// The addresses that may send it; empty: any. Those of its port are the ones of all tracks there.
    pub sources: Vec<IpAddr>,
}

/// What a description says to a receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The session's name; empty where it has none.
    pub name: String,
    /// Pictures first.
    pub tracks: Vec<DescribedTrack>,
    /// Each once.
    pub ports: Vec<Port>,
    /// What is left out and what is not as it should be, in sentences.
    pub notices: Vec<String>,
}

impl Described {
    /// Reads a description.
    ///
    /// # Errors
    /// [`DescribedError::Sdp`] where it is none, [`DescribedError::Nothing`] where nothing in it is taken.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Described, DescribedError> {
        let description = CodedDescription::parse_bytes(bytes)?;
        let sections = &description.tracks;
        let refuse = |number: usize, track: &CodedTrack| {
            if track.port == 0 {
                return Some("its port is 0, which says that it is not sent".to_owned());
            }
            if track.refused_filter.is_some() {
                return track.refused_filter.clone();
            }
            let is_same = |other: &CodedTrack| {
                (other.port, other.address) == (track.port, track.address)
                    && other.encodings.first().map(|it| it.payload_type)
                        == track.encodings.first().map(|it| it.payload_type)
            };
            let is_second =
                sections.iter().take(number).any(|other| !other.medium.is_empty() && is_same(other));
            is_second
                .then(|| format!("an earlier track has its port {} and its payload type, too", track.port))
        };
        let Choice { tracks: chosen, left_out } = Choice::of(&description, &refuse);
        if chosen.is_empty() {
            return Err(DescribedError::Nothing(left_out));
        }
        let (mut ports, mut tracks, mut notices) = (Vec::new(), Vec::new(), left_out);
        for chosen in chosen {
            let Some(section) = sections.get(chosen.section) else { continue };
            let ip = address_of(section, &description, &mut notices);
            let medium = &section.medium;
            notices.extend(section.filter_notices.iter().map(|it| format!("the track `{medium}`: {it}")));
            let rtp = port_of(SocketAddr::new(ip, section.port), &section.sources, &mut ports);
            let rtcp = if section.is_rtcp_muxed {
                Some(rtp)
            } else {
                let number = section.rtcp_port.or_else(|| section.port.checked_add(1));
                let number = number.filter(|number| *number > 0);
                number.map(|number| port_of(SocketAddr::new(ip, number), &section.sources, &mut ports))
            };
            let (format, payload_type) = (chosen.format, chosen.payload_type);
            let (ttl, sources) = (section.ttl, section.sources.clone());
            tracks.push(DescribedTrack { format, payload_type, rtp, rtcp, ttl, sources });
        }
        notices.iter_mut().for_each(|notice| *notice = notice.chars().take(300).collect());
        Ok(Described { name: description.name, tracks, ports, notices })
    }
}

/// Where a section's packets come to. A description without an address is taken at any of ours.
fn address_of(section: &CodedTrack, description: &CodedDescription, notices: &mut Vec<String>) -> IpAddr {
    if let Some(address) = section.address {
        return address;
    }
    let is_ip6 = description.tracks.iter().filter_map(|track| track.address).any(|ip| ip.is_ipv6());
    notices.push(format!(
        "the track `{}` has no address that can be read (`c=IN IP4 ADDRESS`): it is received at any address of this machine",
        section.medium
    ));
    if is_ip6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// The number of the port with this address, which is added where it is not there.
fn port_of(address: SocketAddr, sources: &[IpAddr], ports: &mut Vec<Port>) -> usize {
    if let Some((number, port)) = ports.iter_mut().enumerate().find(|(_, port)| port.address == address) {
        // One that any may send to takes from any; each track keeps to its own senders.
        if port.sources.is_empty() || sources.is_empty() {
            port.sources.clear();
        } else {
            let more: Vec<IpAddr> = sources.iter().filter(|it| !port.sources.contains(it)).copied().collect();
            port.sources.extend(more);
        }
        return number;
    }
    ports.push(Port { address, sources: sources.to_vec() });
    ports.len().saturating_sub(1)
}

/// A report of ours that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnReport {
    /// The number of the port that it leaves from.
    pub port: usize,
    /// Where it goes.
    pub to: SocketAddr,
    /// Routers that it may pass on its way to a group.
    pub ttl: Option<u8>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A described session, as it is received.
#[derive(Debug)]
pub struct DescribedSession {
    tracks: Vec<DescribedTrack>,
    ports: Vec<Port>,
    receiver: Receiver,
    /// Where each track's sender sends its reports from.
    reporters: Vec<Option<SocketAddr>>,
    refused: u64,
    /// Sender reports that came before the first unit of their track, the newest one of each sender. Many senders report in front of the
    /// first packet, and not again for seconds; and a time stamp says nothing before a unit has a place on the timeline.
    early: VecDeque<Early>,
    /// Members of the group that have reported, and when they last did.
    members: BTreeMap<u32, Time>,
}

/// A sender report that is kept, and how it came.
#[derive(Clone, Copy, Debug)]
struct Early {
    port: usize,
    report: SenderReport,
    from: SocketAddr,
    now: Time,
    utc: Utc,
}

/// Members of a group that are counted at most.
const MEMBERS_MAX: usize = 1024;
/// A member that has not reported for so long is gone: twice as long as so many take to report once.
const MEMBER_TIME: Duration = Duration::from_secs(360);
/// Sender reports that are kept at most; then the oldest one goes.
const EARLY_MAX: usize = 16;

impl DescribedSession {
    /// Of what a description says. Of 64 `random` bits the names in reports and their times are made.
    pub fn new(described: &Described, random: u64, settings: rtp::Settings) -> DescribedSession {
        let Described { tracks, ports, .. } = described.clone();
        let formats: Vec<(Format, u8)> =
            tracks.iter().map(|track| (track.format.clone(), track.payload_type)).collect();
        let mut receiver = Receiver::new(&formats, random, settings);
        for (number, track) in tracks.iter().enumerate() {
            receiver.allow(number, track.sources.clone());
        }
        let reporters = vec![None; tracks.len()];
        let (early, members) = (VecDeque::new(), BTreeMap::new());
        DescribedSession { tracks, ports, receiver, reporters, refused: 0, early, members }
    }

    /// A datagram that came to port `port` from `from` at `now`, when our wall clock said `utc`.
    pub fn handle_datagram(&mut self, port: usize, datagram: &[u8], from: SocketAddr, now: Time, utc: Utc) {
        if rtcp::is_rtcp(datagram) {
            return self.handle_reports(port, datagram, from, now, utc);
        }
        match self.track_of(port, datagram) {
            Some(track) => {
                let had_begun = self.receiver.timeline().has_begun(track);
                self.receiver.handle_datagram(track, datagram, Origin::of(Some(from)), now, utc);
                if !had_begun && self.receiver.timeline().has_begun(track) {
                    for Early { port, report, from, now, utc } in std::mem::take(&mut self.early) {
                        self.handle_messages(port, &[Message::SenderReport(report)], from, (now, utc));
                    }
                }
            }
            None => count(&mut self.refused, 1),
        }
    }

    /// Keeps a report until its track has begun.
    fn keep_early(&mut self, early: Early) {
        let before = self.early.len();
        self.early.retain(|it| (it.port, it.report.ssrc) != (early.port, early.report.ssrc));
        self.early.push_back(early);
        while self.early.len() > EARLY_MAX {
            self.early.pop_front();
        }
        let displaced = before.saturating_add(1).saturating_sub(self.early.len());
        count(&mut self.refused, u64::try_from(displaced).unwrap_or(u64::MAX));
    }

    /// The track that packets at `port` are of: by payload type where there are several.
    fn track_of(&self, port: usize, datagram: &[u8]) -> Option<usize> {
        let payload_type = Packet::parse(datagram).ok()?.header.payload_type;
        let here = || self.tracks.iter().enumerate().filter(|(_, track)| track.rtp == port);
        let own = here().find(|(_, track)| track.payload_type == payload_type);
        own.or_else(|| here().next().filter(|_| here().count() == 1)).map(|(number, _)| number)
    }

    fn handle_reports(&mut self, port: usize, datagram: &[u8], from: SocketAddr, now: Time, utc: Utc) {
        if self.ports.get(port).is_some_and(|port| port.address.ip().is_multicast()) {
            self.count_members(datagram, now);
        }
        // Other receivers' reports to a group have nothing of a sender, and are no fault.
        let messages: Vec<Message> = rtcp::messages(datagram).collect();
        self.handle_messages(port, &messages, from, (now, utc));
    }

    fn count_members(&mut self, datagram: &[u8], now: Time) {
        for ssrc in rtcp::reporters(datagram) {
            if self.members.len() < MEMBERS_MAX || self.members.contains_key(&ssrc) {
                self.members.insert(ssrc, now);
            }
        }
        self.receiver.set_others(self.members.len());
    }

    /// What came in one datagram, of one sender or of several that share an address.
    fn handle_messages(
        &mut self,
        port: usize,
        messages: &[Message],
        from: SocketAddr,
        (now, utc): (Time, Utc),
    ) {
        let tracks: Vec<Option<usize>> =
            messages.iter().map(|message| self.sender_of(port, message.ssrc(), from)).collect();
        // What is of a stranger is not mixed in: of a datagram all is taken, or nothing.
        let is_known = tracks.iter().all(Option::is_some);
        if !is_known && !self.awaits_sender(port) {
            return count(&mut self.refused, 1);
        }
        for (message, track) in messages.iter().zip(tracks) {
            let has_begun = track.is_some_and(|track| self.receiver.timeline().has_begun(track));
            match (message, track) {
                (Message::SenderReport(report), _) if !has_begun || !is_known => {
                    self.keep_early(Early { port, report: *report, from, now, utc });
                }
                (_, Some(track)) if is_known => {
                    if let Some(reporter) = self.reporters.get_mut(track) {
                        *reporter = Some(from);
                    }
                    self.receiver.handle_message(track, message, now, utc);
                }
                // The end of what has not begun.
                _ => {}
            }
        }
    }

    /// The tracks with reports at `port`.
    fn reported_at(&self, port: usize) -> impl Iterator<Item = usize> {
        let tracks = self.tracks.iter().enumerate();
        tracks
            .filter(move |(_, track)| track.rtcp == Some(port) || track.rtp == port)
            .map(|(number, _)| number)
    }

    /// The track at `port` that the sender of a report is listened to for.
    fn sender_of(&self, port: usize, ssrc: u32, from: SocketAddr) -> Option<usize> {
        let ip = from.ip().to_canonical();
        self.reported_at(port).find(|number| {
            self.receiver.source(*number).is_some_and(|(known, address)| {
                known == ssrc && address.is_some_and(|it| it.ip().to_canonical() == ip)
            })
        })
    }

    /// Whether nothing has come yet of a track with reports at `port`.
    fn awaits_sender(&self, port: usize) -> bool {
        self.reported_at(port).any(|number| self.receiver.source(number).is_none())
    }

    /// The next unit, with the number of its track.
    pub fn poll(&mut self) -> Option<(usize, Placed)> {
        self.receiver.poll()
    }

    /// The reports of ours that are due: to the group, or to where the sender's own come from. One with neither waits.
    pub fn poll_reports(&mut self, now: Time) -> Vec<OwnReport> {
        let reports = self.receiver.poll_reports(now);
        if !reports.is_empty() {
            self.members.retain(|_, came| now.since(*came) < MEMBER_TIME);
            self.receiver.set_others(self.members.len());
        }
        let own = reports.into_iter().filter_map(|(number, bytes)| {
            let track = self.tracks.get(number)?;
            let number_of_port = track.rtcp?;
            let port = self.ports.get(number_of_port)?;
            // A group of one sender has no way from receiver to receiver (RFC 5760): its sender is told alone.
            let is_group = port.address.ip().is_multicast() && track.sources.is_empty();
            let to = if is_group { Some(port.address) } else { self.reporters.get(number).copied()? }?;
            Some(OwnReport { port: number_of_port, to, ttl: track.ttl.filter(|_| is_group), bytes })
        });
        own.collect()
    }

    /// When [`DescribedSession::handle_timeout`] or [`DescribedSession::poll_reports`] has something to do.
    pub fn poll_timeout(&self) -> Time {
        self.receiver.poll_timeout()
    }

    /// Gives up packets that were waited for long enough.
    pub fn handle_timeout(&mut self, now: Time) {
        self.receiver.handle_timeout(now);
    }

    /// The tracks.
    pub fn tracks(&self) -> &[DescribedTrack] {
        &self.tracks
    }

    /// What has come of them.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Datagrams that are of no track: of payload types that two tracks at one port do not have, and reports of others than the
    /// senders that are listened to.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Of tracks with another payload type than the description says: the one that it says, and that of the packets.
    pub fn other_payload_types(&self) -> impl Iterator<Item = (u8, u8)> {
        let tracks = self.tracks.iter().enumerate();
        tracks.filter_map(|(number, track)| {
            let found = self.receiver.payload_type(number)?;
            (found != track.payload_type).then_some((track.payload_type, found))
        })
    }
}

#[cfg(test)]
#[path = "described_tests.rs"]
mod tests;
