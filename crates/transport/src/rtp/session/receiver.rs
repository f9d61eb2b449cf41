//! Access units of a session's tracks: packets and reports come in, units on one timeline go out, and reports to the senders.

use crate::rtp::coded::{Depacketizer, Format, Placed, Timeline, TrackCounters};
use crate::rtp::rtcp::{self, Message};
use crate::rtp::source::Origin;
use crate::rtp::{self, Packet};
use crate::splitmix;
use glassline_media::{Time, Utc};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

#[derive(Debug)]
struct Track {
    depacketizer: Depacketizer,
    reports: rtcp::Receiver,
    has_ended: bool,
    /// The sender that is listened to.
    ssrc: Option<u32>,
}

/// The tracks of a session, as they come.
#[derive(Debug)]
pub struct Receiver {
    tracks: Vec<Track>,
    timeline: Timeline,
    placed: VecDeque<(usize, Placed)>,
    next_report: Time,
    /// The name in reports.
    name: String,
    /// Of which the times of reports are made.
    random: u64,
    /// Members of the session that are known, this one among them.
    members: usize,
    /// When the newest packet with media came.
    newest: Option<Time>,
}

impl Receiver {
    /// Of tracks in these formats, with their payload types; the first one leads the timeline. Of 64 `random` bits the
    /// names that it reports under and the times of its reports are made.
    pub fn new(tracks: &[(Format, u8)], mut random: u64, settings: rtp::Settings) -> Receiver {
        let name = rtcp::canonical_name(random);
        let ssrc = u32::try_from(splitmix::next(&mut random) >> 32).unwrap_or(0);
        let rates: Vec<u32> = tracks.iter().map(|(format, _)| format.clock_hz()).collect();
        let track = |(format, payload_type): &(Format, u8)| Track {
            depacketizer: Depacketizer::new(format, *payload_type, settings),
            reports: rtcp::Receiver::new(ssrc, format.clock_hz()),
            has_ended: false,
            ssrc: None,
        };
        Receiver {
            tracks: tracks.iter().map(track).collect(),
            timeline: Timeline::new(&rates),
            placed: VecDeque::new(),
            next_report: Time::NEVER,
            name,
            random,
            members: 2,
            newest: None,
        }
    }

    /// Packets of track `track` are taken from these addresses alone; from any where there are none. For a track that nothing has
    /// come of.
    pub fn allow(&mut self, track: usize, sources: Vec<IpAddr>) {
        if let Some(known) = self.tracks.get_mut(track) {
            known.depacketizer.allow(sources);
        }
    }

    /// The sender of track `track` that is listened to, and its address.
    pub fn source(&self, track: usize) -> Option<(u32, Option<SocketAddr>)> {
        self.tracks.get(track)?.depacketizer.source()
    }

    /// The payload type of the packets of track `track` that are taken.
    pub fn payload_type(&self, track: usize) -> Option<u8> {
        Some(self.tracks.get(track)?.depacketizer.payload_type())
    }

    /// A datagram of track `track`, of RTP or RTCP, which came from `from` when our wall clock said `utc`.
    pub fn handle_datagram(&mut self, track: usize, datagram: &[u8], from: Origin, now: Time, utc: Utc) {
        let Some(known) = self.tracks.get_mut(track) else { return };
        if rtcp::is_rtcp(datagram) {
            rtcp::messages(datagram).for_each(|message| self.handle_message(track, &message, now, utc));
            return;
        }
        if let Ok(packet) = Packet::parse(datagram)
            && known.depacketizer.handle_packet(datagram, from, now) == Ok(true)
        {
            known.reports.handle_packet(&packet.header, now);
            known.has_ended = false;
            self.newest = Some(now);
            if self.next_report == Time::NEVER {
                self.next_report =
                    now + rtcp::report_interval(self.members, splitmix::next(&mut self.random));
            }
        }
        let ssrc = known.depacketizer.source().map(|(ssrc, _)| ssrc);
        if ssrc.is_some() && ssrc != std::mem::replace(&mut known.ssrc, ssrc).or(ssrc) {
            // Stamps and reports of the sender before say nothing of this one's.
            self.timeline.restart(track);
        }
        self.collect(track, now);
    }

    /// What the sender of track `track` reports, which came at `now` when our wall clock said `utc`. That it is this sender's is the
    /// caller's to know.
    pub fn handle_message(&mut self, track: usize, message: &Message, now: Time, utc: Utc) {
        let Some(known) = self.tracks.get_mut(track) else { return };
        match message {
            Message::SenderReport(report) => {
                known.reports.handle_report(report, now);
                self.timeline.handle_report(track, report, utc);
            }
            Message::Goodbye { .. } => known.has_ended = true,
        }
    }

    fn collect(&mut self, track: usize, now: Time) {
        let Some(known) = self.tracks.get_mut(track) else { return };
        while let Some(unit) = known.depacketizer.poll() {
            self.placed.extend(self.timeline.place(track, unit, now).map(|placed| (track, placed)));
        }
    }

    /// The next unit, with the number of its track.
    pub fn poll(&mut self) -> Option<(usize, Placed)> {
        self.placed.pop_front()
    }

    /// The next report for a track's sender that is due.
    pub fn poll_reports(&mut self, now: Time) -> Vec<(usize, Vec<u8>)> {
        if now < self.next_report {
            return Vec::new();
        }
        self.next_report = now + rtcp::report_interval(self.members, splitmix::next(&mut self.random));
        let (name, tracks) = (&self.name, self.tracks.iter_mut().enumerate());
        tracks.map(|(number, track)| (number, track.reports.write_report(name, now))).collect()
    }

    /// So many members of the session are known, besides this one: the more, the less often each reports.
    pub fn set_others(&mut self, others: usize) {
        self.members = others.max(1).saturating_add(1);
    }

    /// When [`Receiver::handle_timeout`] or [`Receiver::poll_reports`] has something to do.
    pub fn poll_timeout(&self) -> Time {
        let waits = self.tracks.iter().filter_map(|track| track.depacketizer.poll_timeout()).min();
        waits.unwrap_or(Time::NEVER).min(self.next_report)
    }

    /// Gives up packets that were waited for long enough.
    pub fn handle_timeout(&mut self, now: Time) {
        for track in 0..self.tracks.len() {
            if let Some(known) = self.tracks.get_mut(track) {
                known.depacketizer.handle_timeout(now);
            }
            self.collect(track, now);
        }
    }

    /// When the newest packet with media came; `None` before the first.
    pub fn newest(&self) -> Option<Time> {
        self.newest
    }

    /// Whether all senders that packets have come of have said goodbye.
    pub fn has_ended(&self) -> bool {
        let mut sending =
            self.tracks.iter().filter(|track| track.ssrc.is_some() || track.has_ended).peekable();
        sending.peek().is_some() && sending.all(|track| track.has_ended)
    }

    /// What came, by track.
    pub fn counters(&self) -> impl Iterator<Item = TrackCounters> {
        self.tracks.iter().map(|track| track.depacketizer.counters())
    }

    /// The timeline of the tracks.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }
}
