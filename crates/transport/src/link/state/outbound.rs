//! What a link sends, and when it may.

use glassline_media::Time;
use std::time::Duration;

use super::room::Windows;
use super::session::Session;
use super::{Link, Standing, nanos};
use crate::link::channel::send::{Conditions, Sender};
use crate::link::content::Content;
use crate::link::wire::frame::{DATA_HEAD, Frame};
use crate::link::wire::packet::{DATA_HEADER, DATA_OVERHEAD, TAG, write_data_header};
use crate::link::{Copies, MAX_BATCH, MAX_SEGMENTS, Transmit};

/// How far ahead of its pace a batch may run, so that a fast path costs no timer for each packet.
pub(super) const BURST: Duration = Duration::from_micros(500);
/// With more packets than this in a burst, it is worth while to wait for a whole one.
const BATCH_PACKETS: u32 = 4;
/// How much pace may be made up for after a timer that came late, or so many packets of it: on a busy machine many come
/// late, and what each costs would add up to a part of the rate.
const CATCH_UP: Duration = Duration::from_millis(1);
const CATCH_UP_PACKETS: u64 = 4;
/// When copies of small reliable messages leave: so far apart that one burst of losses seldom takes all, though there be
/// a pause between two pictures, and so early that the last still is quicker by far than to send again what is known to
/// be lost.
const COPY_AFTER: [Duration; 3] =
    [Duration::from_millis(7), Duration::from_millis(12), Duration::from_millis(17)];
/// On a way as short as this a resend comes as soon as a copy.
const SHORT_WAY: Duration = Duration::from_millis(15);
/// Acknowledgements in a row after which one asks to be acknowledged itself.
const MANY_UNASKED: u32 = 32;
/// The share of its bandwidth that a path gets while it acknowledges nothing: enough that what comes first after an
/// outage is fresh, and little enough that it is no queue of old data. It is used in whole messages, each as fast as
/// the path was: the first that begins after the outage is whole as soon as any can be.
const BLIND_SHARE: f64 = 0.75;
/// The largest size of a MARKS frame, bytes.
const MARKS_SIZE: usize = 1 + 3 * 8;
/// Less room than this is not worth a frame.
const MIN_ROOM: usize = 16;
/// A datagram in the middle of a batch may be padded by this share of its size.
const MAX_PADDING: usize = 8;

/// Where a packet is that is being written.
#[derive(Clone, Copy)]
struct Place {
    /// Bytes before it in the buffer.
    start: usize,
    /// What it may have at most, bytes.
    limit: usize,
}

impl Place {
    /// Bytes that it has so far.
    #[inline]
    fn size(self, out: &[u8]) -> usize {
        out.len().saturating_sub(self.start)
    }

    /// Bytes of frames that still fit.
    #[inline]
    fn room(self, out: &[u8]) -> usize {
        self.limit.saturating_sub(TAG).saturating_sub(self.size(out))
    }
}

/// What a packet turned out to be.
struct Packet {
    /// It ended because nothing more fitted, not because there was no more.
    full: bool,
}

impl Link {
    /// Writes the next datagrams into `out`, which is emptied before.
    pub(crate) fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        out.clear();
        for on in self.in_turn() {
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
            return self.write_close(on, out);
        }
        if self.standing != Standing::Up {
            return None;
        }
        self.expire_duplicates(on);
        if let Some(transmit) = self.write_elsewhere(now, on, out) {
            return Some(transmit);
        }
        if let Some(transmit) = self.write_size_probe(now, on, out) {
            return Some(transmit);
        }
        let session = &self.paths[on];
        let (path, ecn, mut limit, mut segment) =
            (session.path, session.marking.mark(), self.batch_datagram(now, on), 0);
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
            return self.write_padding(now, on, out);
        }
        Some(Transmit { path, bytes: out.len(), segment_bytes: segment, ecn })
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
        let carries = self.carries(on);
        let control = first && self.has_control(on, carries);
        let session = &mut self.paths[on];
        let ack_due = session.received.next_timeout(session.recovery.rtt.smoothed) <= now;
        let probe = std::mem::take(&mut session.probe);
        let paced = may_send(
            &self.channels.senders,
            session,
            if first { now + session.early() } else { now + BURST },
        );
        // The first probe carries data; those after it only test whether the path is back.
        let probing = probe && session.recovery.probes() <= 1;
        // Now and then one is small, so that a path that carries nothing large is told from one that carries nothing.
        let small = probe && session.recovery.probes() > 0 && session.recovery.probes().is_multiple_of(4);
        let waits = !session.duplicates.is_empty() || carries && has_data(&self.channels.senders, session);
        let data = waits && (probing || paced) && !small;
        if !data && paced && !small {
            session.idle_since.get_or_insert(now);
        }
        if !(ack_due || control || data || probe) {
            return None;
        }
        let mut contents = std::mem::take(&mut self.scratch);
        contents.clear();
        write_data_header(session.remote, session.sealer.key_phase(), session.sealer.next_number(), out);
        let asked = session.received.is_asked() && session.received.ack_size() <= place.room(out);
        if asked {
            let arrival = session.arrival.per_kilobyte().map_or(0, nanos);
            if let Some(largest) = session.received.write_ack(now, session.epoch, arrival, out) {
                contents.push(Content::Ack(largest));
            }
            let [_, ect1, ect0, ce] = session.marks;
            if [ect1, ect0, ce] != [0; 3] && place.room(out) > MARKS_SIZE {
                Frame::Marks { ect1, ect0, ce }.write(out);
            }
        }
        let before = out.len();
        if control {
            self.write_control(on, place, carries, out, &mut contents);
        }
        let mut full = false;
        if data {
            full = self.write_duplicates(on, place, out, &mut contents);
        }
        if data && carries && !full {
            full = self.write_data(now, on, place, out, &mut contents);
        }
        let session = &mut self.paths[on];
        let mut eliciting = out.len() > before;
        if !eliciting && (probe || session.unasked >= MANY_UNASKED) {
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
        let number = session.sealer.seal(start, out);
        let size = place.size(out);
        session.unasked = if eliciting { 0 } else { session.unasked.saturating_add(1) };
        session.last_sent = now;
        session.recovery.handle_sent(now, number, size, eliciting, &contents);
        if eliciting {
            session.last_asked = now;
            session.unanswered_since.get_or_insert(now);
            session.pace(now, size);
        }
        self.statistics.handle_sent(1, size);
        self.scratch = contents;
        Some(Packet { full })
    }

    /// Whether there are frames that neither window nor pace hold back.
    fn has_control(&mut self, on: usize, carries: bool) -> bool {
        if !self.paths[on].responses.is_empty() {
            return true;
        }
        carries
            && (self.channels.senders.iter().flatten().any(|sender| !sender.cancels.is_empty())
                || self
                    .channels
                    .receivers
                    .iter_mut()
                    .flatten()
                    .any(|receiver| receiver.skipped || receiver.consumed().is_some()))
    }

    fn write_control(
        &mut self,
        on: usize,
        place: Place,
        carries: bool,
        out: &mut Vec<u8>,
        contents: &mut Vec<Content>,
    ) {
        // A CANCEL with the OPEN of its channel.
        const LARGEST: usize = 2 + 8 + 20;
        let full = |out: &Vec<u8>| place.room(out) < LARGEST;
        for (_, data) in self.paths[on].responses.drain(..) {
            if !full(out) {
                Frame::Response(data).write(out);
            }
        }
        if !carries {
            return;
        }
        for (channel, receiver) in (0u8..).zip(&mut self.channels.receivers) {
            let Some(receiver) = receiver else { continue };
            if full(out) {
                return;
            }
            if std::mem::take(&mut receiver.skipped) {
                Frame::Skipped { channel, message: receiver.next() }.write(out);
                contents.push(Content::Skipped(channel));
            }
            if full(out) {
                return;
            }
            if let Some(next) = receiver.consumed() {
                Frame::Consumed { channel, next }.write(out);
                receiver.told(next);
                contents.push(Content::Consumed(channel));
            }
        }
        for (channel, sender) in (0u8..).zip(&mut self.channels.senders) {
            let Some(sender) = sender else { continue };
            // A receiver that does not know the channel yet would ignore the CANCEL, and then hold a part of the message
            // that comes late for ever.
            let mut announce = !Link::is_announced(sender);
            while !full(out) {
                let Some(message) = sender.cancels.pop_first() else { break };
                if std::mem::take(&mut announce) {
                    Frame::Open { channel, options: sender.options }.write(out);
                    contents.push(Content::Open(channel));
                }
                Frame::Cancel { channel, message }.write(out);
                contents.push(Content::Cancel(channel, message));
            }
        }
    }

    /// Writes duplicates of what the other path carries. Returns true if there are more, which do not fit.
    fn write_duplicates(
        &mut self,
        on: usize,
        place: Place,
        out: &mut Vec<u8>,
        contents: &mut Vec<Content>,
    ) -> bool {
        let session = &mut self.paths[on];
        let (mut announced, mut too_large) = (0u64, Vec::new());
        let mut full = false;
        while let Some(&(channel, part)) = session.duplicates.front() {
            let mark = out.len();
            let sender = self.channels.sender(channel);
            let announce =
                sender.filter(|sender| !Link::is_announced(sender) && announced & 1 << channel == 0);
            if let Some(sender) = announce {
                Frame::Open { channel, options: sender.options }.write(out);
            }
            let room = place.room(out);
            let opening = out.len().saturating_sub(mark);
            let whole = session.datagram.saturating_sub(DATA_OVERHEAD).saturating_sub(opening);
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
                    if (part.length as usize).saturating_add(DATA_HEAD) <= whole {
                        full = true;
                        break;
                    }
                    // The path carries less than it did when the part was cut.
                    too_large.push(Content::Duplicate { channel, part });
                }
                // It does not matter any more.
                None => out.truncate(mark),
            }
            session.duplicate_bytes = session.duplicate_bytes.saturating_sub(part.duplicate_cost());
            session.duplicates.pop_front();
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
        let session = &mut self.paths[on];
        let before = out.len();
        session.write_grace(now, out);
        let after_grace = out.len();
        let lossy = now < session.lossy_until;
        let copies: &[Duration] = match self.settings.copies {
            Copies::WhenLossy if lossy && session.rtt() > SHORT_WAY => &COPY_AFTER,
            Copies::Always => &COPY_AFTER,
            Copies::Never | Copies::WhenLossy => &[],
        };
        let is_alone = self.paths.len() == 1;
        let (datagram, fill) = (self.datagram(on), is_alone && self.paths[on].capacity.is_fast());
        // Channels that have nothing, or nothing that fits.
        let (mut tried, mut announced, mut full) = (0u64, 0u64, false);
        loop {
            let room = place.room(out);
            if room < MIN_ROOM {
                return true;
            }
            let Some((channel, alone)) = self.next_channel(now, on, tried) else { break };
            let session = &self.paths[on];
            let windows = Windows::new(&self.channels.senders, session);
            let Some(sender) = self.channels.sender_mut(channel) else { break };
            let mark = out.len();
            let announce = !Link::is_announced(sender) && announced & 1 << channel == 0;
            if announce {
                Frame::Open { channel, options: sender.options }.write(out);
            }
            let room = place.room(out);
            let window = windows.of(sender);
            // What an empty packet of this channel has room for: its OPEN goes along, and so does what tells of a pause,
            // which is told once.
            let (opening, pause) = (out.len().saturating_sub(mark), after_grace.saturating_sub(before));
            let whole = datagram.saturating_sub(DATA_OVERHEAD).saturating_sub(opening.saturating_add(pause));
            let dictionary = session.dictionary.as_deref();
            let conditions = Conditions { whole, window, copies, dictionary, lossy, fill };
            // Among equals it goes message by message, and over two paths part by part.
            let row = (alone && is_alone).then(|| sender.write_row(now, room, &conditions, out)).flatten();
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
                    contents.push(self.written(on, channel, part));
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
            let session = &mut self.paths[on];
            // There was room for more in window and pace, but nothing to send.
            session.recovery.mark_app_limited();
            session.idle_since.get_or_insert(now);
        }
        full
    }

    /// The channel that goes next, leaving out those in the set `tried`; and whether no other one of its priority has
    /// anything.
    fn next_channel(&self, now: Time, on: usize, tried: u64) -> Option<(u8, bool)> {
        let session = &self.paths[on];
        let may_begin = !session.recovery.is_blind() || session.blind_until <= now;
        let windows = Windows::new(&self.channels.senders, session);
        let mut best: Option<(&Sender, u8)> = None;
        let mut alone = true;
        for &channel in &self.channels.order {
            let Some(sender) = self.channels.sender(channel) else { continue };
            if best.is_some_and(|(chosen, _)| sender.options.priority > chosen.options.priority) {
                break;
            }
            if tried & 1 << channel == 0
                && (may_begin || sender.is_unfinished())
                && sender.has_data(windows.of(sender))
            {
                alone = best.is_none();
                if best.is_none_or(|(chosen, _)| sender.share < chosen.share) {
                    best = Some((sender, channel));
                }
            }
        }
        best.map(|best| (best.1, alone))
    }

    /// When window and pace let data leave that waits; [`Time::NEVER`] if none waits or the window is full.
    pub(super) fn send_timeout(&self, on: usize) -> Time {
        let (session, carries) = (&self.paths[on], self.carries(on));
        let waits = !session.duplicates.is_empty() || carries && has_data(&self.channels.senders, session);
        if self.standing != Standing::Up || !waits {
            return Time::NEVER;
        }
        if session.recovery.is_blind() {
            let unfinished = self.channels.senders.iter().flatten().any(|sender| sender.is_unfinished());
            return if unfinished { session.next_send } else { session.next_send.max(session.blind_until) };
        }
        if session.has_window() { session.next_send } else { Time::NEVER }
    }

    /// The largest datagram of a batch that begins now, bytes. One more small message is worth more than whole blocks of
    /// AES, which rows of them seldom fill.
    fn batch_datagram(&self, now: Time, on: usize) -> usize {
        let (session, datagram) = (&self.paths[on], self.datagram(on));
        if session.largest == datagram || self.paths.len() > 1 {
            return datagram;
        }
        let row = self.next_channel(now, on, 0).filter(|next| {
            let sender = self.channels.sender(next.0);
            next.1 && sender.is_some_and(|sender| sender.is_row_next(datagram, now < session.lossy_until))
        });
        if row.is_some() { session.largest } else { datagram }
    }

    /// The largest datagram that leaves, bytes. What goes over two paths has to fit into either's.
    fn datagram(&self, on: usize) -> usize {
        let session = &self.paths[on];
        match self.other(on) {
            Some(other) if session.both => session.datagram.min(other.datagram),
            _ => session.datagram,
        }
    }
}

fn has_data(senders: &[Option<Box<Sender>>], session: &Session) -> bool {
    let windows = Windows::new(senders, session);
    senders.iter().flatten().any(|sender| sender.has_data(windows.of(sender)))
}

/// Whether window and pace let a packet leave at `time`.
fn may_send(senders: &[Option<Box<Sender>>], session: &Session, time: Time) -> bool {
    let free = if session.recovery.is_blind() {
        session.blind_until <= time || senders.iter().flatten().any(|sender| sender.is_unfinished())
    } else {
        session.has_window()
    };
    free && session.next_send <= time
}

fn before(now: Time, time: Duration) -> Time {
    Time::from_nanos(now.as_nanos().saturating_sub(nanos(time)))
}

impl Session {
    #[inline]
    pub(super) fn has_window(&self) -> bool {
        let in_flight = self.recovery.in_flight();
        in_flight == 0 || in_flight.saturating_add(self.datagram as u64) <= self.capacity.window_bytes()
    }

    /// How long before its time a batch may begin. At high rates not at all: it begins when its pace says so and then
    /// runs ahead, rather than be followed by one packet at a time.
    fn early(&self) -> Duration {
        let burst_bytes = self.capacity.pacing_rate().bytes_in(BURST);
        if burst_bytes > f64::from(BATCH_PACKETS) * self.datagram as f64 { Duration::ZERO } else { BURST }
    }

    /// A packet of `size` bytes leaves: the next one waits for as long as it takes at the pacing rate.
    #[inline]
    pub(super) fn pace(&mut self, now: Time, size: usize) {
        let rate = self.capacity.pacing_rate().bytes_per_second().max(1);
        let apart = (size as u64).saturating_mul(1_000_000_000).checked_div(rate).unwrap_or(0);
        let late = Duration::from_nanos(apart.saturating_mul(CATCH_UP_PACKETS)).max(CATCH_UP);
        self.next_send = self.next_send.max(before(now, late)) + Duration::from_nanos(apart);
        if self.recovery.is_blind() {
            let rate = (self.capacity.bandwidth().bytes_per_second() as f64 * BLIND_SHARE).max(1.0);
            self.blind_until = self.blind_until.max(now) + Duration::from_secs_f64(size as f64 / rate);
        }
    }

    /// Tells the receiver of a pause that was the application's and not the path's.
    pub(super) fn write_grace(&mut self, now: Time, out: &mut Vec<u8>) {
        let Some(idle) = self.idle_since.take() else { return };
        let paced = self.next_send;
        // A pause of the application's is not made up for.
        self.next_send = self.next_send.max(before(now, CATCH_UP));
        let grace = now - idle.max(paced);
        if grace > Duration::from_millis(1) && self.capacity.controller().tells_pauses() {
            Frame::Grace(u64::try_from(grace.as_micros()).unwrap_or(u64::MAX)).write(out);
        }
    }
}
