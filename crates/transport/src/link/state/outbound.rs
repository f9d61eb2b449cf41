//! What a link sends, and when it may.

use glassline_media::Time;
use std::time::Duration;

use super::outgoing::Place;
use super::pacing::BURST;
use super::paths::Twice;
use super::windows::Windows;
use super::{Link, Standing};
use crate::link::channel::send::Conditions;
use crate::link::content::Content;
use crate::link::wire::frame::Frame;
use crate::link::wire::packet::{DATA_HEADER, DATA_OVERHEAD, write_data_header};
use crate::link::{Copies, MAX_BATCH, MAX_SEGMENTS, Transmit};

/// When copies of small reliable messages leave: so far apart that one burst of losses seldom takes all, though there be
/// a pause between two pictures, and so early that the last still is quicker by far than to send again what is known to
/// be lost.
const COPY_AFTER: [Duration; 3] =
    [Duration::from_millis(7), Duration::from_millis(12), Duration::from_millis(17)];
/// On a way as short as this a resend comes as soon as a copy.
const SHORT_WAY: Duration = Duration::from_millis(15);
/// Acknowledgements in a row after which one asks to be acknowledged itself.
const MANY_UNASKED: u32 = 32;
/// Less room than this is not worth a frame.
const MIN_ROOM: usize = 16;
/// A datagram in the middle of a batch may be padded by this share of its size.
const MAX_PADDING: usize = 8;

/// What a packet turned out to be.
struct Packet {
    /// It ended because nothing more fitted, not because there was no more.
    full: bool,
}

impl Link {
    /// Writes the next datagrams into `out`, which is emptied before.
    pub(crate) fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        out.clear();
        for on in self.paths.in_turn() {
            if let Some(transmit) = self.poll_path(now, on, out) {
                self.choose(now);
                return Some(transmit);
            }
        }
        self.choose(now);
        None
    }

    /// The next datagrams of the path.
    fn poll_path(&mut self, now: Time, on: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Standing::Closing { .. } = self.standing {
            let (code, reason) = self.close.as_ref()?;
            return self.paths[on].write_due_close(*code, reason, out);
        }
        if self.standing != Standing::Up {
            return None;
        }
        for late in self.paths[on].take_late_duplicates() {
            self.handle_content_lost(on, late);
        }
        let path = &mut self.paths[on];
        let mut single = path.write_elsewhere(now, out);
        if single.is_none() {
            single = path.write_size_probe(now, out);
        }
        if let Some(transmit) = single {
            self.statistics.handle_sent(1, transmit.bytes);
            return Some(transmit);
        }
        let (address, ecn) = (path.address, path.marking.mark());
        let (mut limit, mut segment) = (self.batch_datagram(now, on), 0);
        let mut count = 0usize;
        while count < MAX_SEGMENTS {
            let start = out.len();
            let Some(packet) = self.write_packet(now, on, limit, count == 0, segment > 0, out) else { break };
            count = count.saturating_add(1);
            let size = out.len().saturating_sub(start);
            if segment == 0 {
                (segment, limit) = (size, size);
            }
            if size < segment || !packet.full {
                break;
            }
            let fit = MAX_BATCH.saturating_sub(out.len()).checked_div(segment).unwrap_or(0);
            let most = MAX_SEGMENTS.saturating_sub(count).min(fit);
            count = count.saturating_add(self.write_run(now, on, segment, most, out));
            if out.len().saturating_add(segment) > MAX_BATCH {
                break;
            }
        }
        if out.is_empty() {
            let padding = self.paths[on].write_padding(now, self.settings.probing_percent, out)?;
            self.statistics.handle_sent(1, padding.bytes);
            return Some(padding);
        }
        Some(Transmit { path: address, bytes: out.len(), segment_bytes: segment, ecn })
    }

    /// Writes one packet of at most `limit` bytes; nothing if there is no reason for one.
    fn write_packet(
        &mut self,
        now: Time,
        on: usize,
        limit: usize,
        first: bool,
        pad: bool,
        out: &mut Vec<u8>,
    ) -> Option<Packet> {
        let start = out.len();
        let place = Place { start, limit };
        let carries = self.paths.carries(on);
        let leaves = carries && self.leaves_data(now, on);
        let answers = first && !self.paths[on].responses.is_empty();
        let control = answers || first && carries && self.channels.have_control();
        let is_summed = self.paths.are_summed();
        let path = &mut self.paths[on];
        let ack_due = path.received.next_timeout(path.recovery.rtt.smoothed) <= now;
        let probe = std::mem::take(&mut path.probe);
        let until = now + if first { path.early() } else { BURST };
        let paced = path.may_send(until, || self.channels.have_unfinished());
        // The first probe carries data; those after it only test whether the path is back.
        let probing = probe && path.recovery.probes() <= 1;
        // Now and then one is small, so that a path that carries nothing large is told from one that carries nothing.
        let small = probe && path.recovery.probes() > 0 && path.recovery.probes().is_multiple_of(4);
        let spare = !path.duplicates.is_empty() || carries && !path.parity.is_empty();
        let waits = spare || carries && !leaves && self.channels.have_data(path);
        let data = waits && (probing || paced) && !small;
        if !data && paced && !small {
            if is_summed && path.idle_since.is_none() {
                // The rest has left by another path, or is left to it.
                path.recovery.mark_app_limited();
            }
            path.idle_since.get_or_insert(now);
        }
        if !(ack_due || control || data || probe) {
            return None;
        }
        let mut contents = std::mem::take(&mut self.scratch);
        contents.clear();
        write_data_header(path.remote, path.sealer.key_phase(), path.sealer.next_number(), out);
        path.write_acknowledgement(now, place, out, &mut contents);
        let before = out.len();
        if control {
            path.write_responses(place, out);
            if carries {
                self.channels.write_control(place, out, &mut contents);
            }
        }
        let mut full = false;
        if data {
            full = self.write_duplicates(on, is_summed, place, out, &mut contents);
        }
        if data && carries && !leaves && !full {
            full = self.write_data(now, on, place, out, &mut contents);
        }
        if data && carries && !full {
            full = self.write_parity(on, place, out, &mut contents);
        }
        if data && is_summed && !full {
            full = self.write_duplicates(on, false, place, out, &mut contents);
        }
        let path = &mut self.paths[on];
        let mut eliciting = out.len() > before;
        if !eliciting && (probe || path.unasked >= MANY_UNASKED) {
            Frame::Ping.write(out);
            eliciting = true;
        }
        if place.size(out) == DATA_HEADER {
            out.truncate(start);
            self.scratch = contents;
            return None;
        }
        let short = place.room(out);
        if pad && full && short > 0 && short <= limit / MAX_PADDING {
            out.resize(out.len().saturating_add(short), 0);
        }
        let number = path.sealer.seal(start, out);
        let size = place.size(out);
        path.unasked = if eliciting { 0 } else { path.unasked.saturating_add(1) };
        path.last_sent = now;
        path.recovery.handle_sent(now, number, size, eliciting, &contents);
        if eliciting {
            path.last_asked = now;
            path.unanswered_since.get_or_insert(now);
            path.pace(now, size);
        }
        self.statistics.handle_sent(1, size);
        self.scratch = contents;
        Some(Packet { full })
    }

    /// Whether the path leaves what waits to quicker ones.
    fn leaves_data(&self, now: Time, on: usize) -> bool {
        if !self.paths.are_summed() {
            return false;
        }
        let (lossy, datagram) = (self.paths.are_lossy(now, on), self.paths.datagram(on));
        let unsent = self.channels.unsent_bytes(lossy, datagram.saturating_sub(DATA_OVERHEAD));
        self.paths.leaves_to_quicker(now, on, unsent)
    }

    /// Writes duplicates of what another path carries, all of them or the urgent ones. Returns true if there are more, which do not
    /// fit.
    fn write_duplicates(
        &mut self,
        on: usize,
        urgent: bool,
        place: Place,
        out: &mut Vec<u8>,
        contents: &mut Vec<Content>,
    ) -> bool {
        let path = &mut self.paths[on];
        let (mut announced, mut too_large) = (0u64, Vec::new());
        let mut full = false;
        while let Some(&(channel, part)) = path.duplicates.front() {
            if urgent && path.urgent_duplicates == 0 {
                break;
            }
            let mark = out.len();
            let sender = self.channels.sender(channel);
            let announce = sender.filter(|sender| !sender.is_announced() && announced & 1 << channel == 0);
            if let Some(sender) = announce {
                let options = sender.options.for_peer(path.peer.stamps);
                Frame::Open { channel, options }.write(out);
            }
            let room = place.room(out);
            let opening = out.len().saturating_sub(mark);
            let whole = path.datagram.saturating_sub(DATA_OVERHEAD).saturating_sub(opening);
            match sender.and_then(|sender| sender.write_duplicate(part, room, out)) {
                Some(true) => {
                    if announce.is_some() {
                        announced |= 1 << channel;
                        contents.push(Content::Open(channel));
                    }
                    contents.push(Content::Duplicate { channel, part });
                }
                Some(false) => {
                    out.truncate(mark);
                    // Parts fill packets to the byte: the next packet has room for what this one has not.
                    let needed = sender.and_then(|sender| sender.duplicate_bytes(part));
                    if needed.is_some_and(|needed| needed <= whole) {
                        full = true;
                        break;
                    }
                    // The path carries less than it did when the part was cut.
                    too_large.push(Content::Duplicate { channel, part });
                }
                // It does not matter any more.
                None => out.truncate(mark),
            }
            path.pop_duplicate();
        }
        too_large.into_iter().for_each(|content| self.handle_content_lost(on, content));
        full
    }

    /// Fills the packet with messages: the least priority number first, among equals the least weighted share.
    /// `true`: more would be there, but does not fit.
    fn write_data(
        &mut self,
        now: Time,
        on: usize,
        place: Place,
        out: &mut Vec<u8>,
        contents: &mut Vec<Content>,
    ) -> bool {
        let lossy = self.paths.are_lossy(now, on);
        let path = &mut self.paths[on];
        let before = out.len();
        path.write_grace(now, out);
        let after_grace = out.len();
        let copies: &[Duration] = match self.settings.copies {
            Copies::WhenLossy if lossy && path.rtt() > SHORT_WAY => &COPY_AFTER,
            Copies::Always => &COPY_AFTER,
            Copies::Never | Copies::WhenLossy => &[],
        };
        let (is_single, is_summed) = (!self.paths.are_many(), self.paths.are_summed());
        let (datagram, fill) = (self.paths.datagram(on), is_single && self.paths[on].capacity.is_fast());
        let (parity, number, copy_room) =
            (self.paths.takes_parity(on), self.paths[on].number, self.paths.copy_room(now, on));
        // Channels that have nothing, or nothing that fits.
        let (mut tried, mut announced, mut full) = (0u64, 0u64, false);
        loop {
            let room = place.room(out);
            if room < MIN_ROOM {
                return true;
            }
            let path = &self.paths[on];
            let Some(next) = self.channels.next_channel(path, now, tried) else { break };
            let channel = next.channel;
            let windows = Windows::new(&self.channels.senders, path);
            let Some(sender) = self.channels.sender_mut(channel) else { break };
            let mark = out.len();
            let announce = !sender.is_announced() && announced & 1 << channel == 0;
            if announce {
                let options = sender.options.for_peer(path.peer.stamps);
                Frame::Open { channel, options }.write(out);
            }
            let room = place.room(out);
            let window = windows.of(sender);
            // What an empty packet of this channel has room for: its OPEN goes along, and so does what tells of a pause,
            // which is told once.
            let (opening, pause) = (out.len().saturating_sub(mark), after_grace.saturating_sub(before));
            let whole = datagram.saturating_sub(DATA_OVERHEAD).saturating_sub(opening.saturating_add(pause));
            let dictionary = path.dictionary.as_deref();
            let stamps = path.peer.stamps;
            let conditions = Conditions {
                whole,
                window,
                copies,
                dictionary,
                lossy,
                stamps,
                parity,
                path: number,
                copy_room,
                fill,
            };
            // Among equals it goes message by message, and over two paths part by part.
            let row =
                (next.is_alone && is_single).then(|| sender.write_row(now, room, &conditions, out)).flatten();
            if let Some((row, bytes)) = row {
                if announce {
                    announced |= 1 << channel;
                    contents.push(Content::Open(channel));
                }
                sender.charge(row.count(), bytes);
                contents.push(Content::Row { channel, row });
                continue;
            }
            match sender.write(now, room, &conditions, out) {
                Some(part) => {
                    if announce {
                        announced |= 1 << channel;
                        contents.push(Content::Open(channel));
                    }
                    sender.charge(1, part.length);
                    let twice = match sender.is_twice(part.message) {
                        (false, _) => Twice::No,
                        (true, false) => Twice::Behind,
                        (true, true) => Twice::AtOnce,
                    };
                    let due = sender.parity_due(part);
                    if twice == Twice::Behind && is_summed && sender.is_last(part) {
                        self.paths.crowd.note(now, part.end(), false);
                    }
                    contents.push(self.paths.handle_written(on, channel, part, twice));
                    if let Some(due) = due {
                        self.queue_parity(now, on, channel, due);
                    }
                }
                None => {
                    out.truncate(mark);
                    tried |= 1 << channel;
                    full = true;
                }
            }
        }
        if out.len() == after_grace {
            out.truncate(before);
        }
        if !full {
            let path = &mut self.paths[on];
            // There was room for more in window and pace, but nothing to send.
            path.recovery.mark_app_limited();
            path.idle_since.get_or_insert(now);
        }
        full
    }

    /// When window and pace let data leave that waits; [`Time::NEVER`] if none waits or the window is full.
    pub(super) fn send_timeout(&self, on: usize) -> Time {
        let path = &self.paths[on];
        let gives = || self.paths.carries(on) && !self.leaves_data(self.paths.examined_at(), on);
        let spare = !path.duplicates.is_empty() || !path.parity.is_empty() && self.paths.carries(on);
        let waits = spare || self.channels.have_data(path) && gives();
        if self.standing != Standing::Up || !waits {
            return Time::NEVER;
        }
        if path.recovery.is_blind() {
            let begins = if self.channels.have_unfinished() { Time::ZERO } else { path.blind_until };
            return path.next_send.max(begins);
        }
        if path.has_window() { path.next_send } else { Time::NEVER }
    }

    /// The largest datagram of a batch that begins now, bytes. One more small message is worth more than whole blocks of
    /// AES, which rows of them seldom fill.
    fn batch_datagram(&self, now: Time, on: usize) -> usize {
        let (path, datagram) = (&self.paths[on], self.paths.datagram(on));
        if path.largest == datagram || self.paths.are_many() {
            return datagram;
        }
        let next = self.channels.next_channel(path, now, 0).filter(|next| next.is_alone);
        let sender = next.and_then(|next| self.channels.sender(next.channel));
        let is_row = sender
            .is_some_and(|sender| sender.is_row_next(datagram, now < path.lossy_until, path.peer.parity));
        if is_row { path.largest } else { datagram }
    }
}
