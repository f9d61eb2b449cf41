//! A viewer: its place in the stream, and what its socket is given. It gets the stream's bytes from the spool, in
//! bursts where its path needs them. One that falls behind the backlog goes on at the newest key frame, or is dropped,
//! as its stream's rules say.

mod allowance;
#[cfg(test)]
mod feeding_tests;
mod leaving;
mod state;

pub(super) use allowance::Allowance;
pub(super) use leaving::Stays;
pub(super) use state::ViewerState;

use crate::blocks::Blocks;
use crate::outgoing::Outgoing;
use crate::wire::Wire;
use glassline_delivery::burst_limiter::{BurstLimiter, BurstSchedule, LEAST_BURST_BYTES, TcpSample};
use glassline_delivery::policy::{Moves, SlowPolicy};
use glassline_delivery::stream::{Entry, Mux, Prebuffer};
use glassline_io::spool::{LinkFile, Piece, Sent};
use glassline_io::tcp::{Connection, Info};
use glassline_media::Time;
use glassline_streams::Live;
use glassline_streams::{Entering, Next, StreamReader};
use leaving::{Leaving, PackedLeaving};
use std::io;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Viewer {
    reader: StreamReader,
    outgoing: Outgoing,
    /// Where it gets the stream in blocks.
    blocks: Option<Blocks>,
    /// The socket takes nothing now; its next edge brings it back.
    is_blocked: bool,
    last_progress: Time,
    slow: SlowPolicy,
    moves: Moves,
    burst_limiter: BurstLimiter,
    /// When bursts may leave, where it is paced.
    burst_schedule: BurstSchedule,
    /// Whether its worker comes back to it then.
    pub(super) is_expected: bool,
    pub(super) sent_bytes: u64,
    pub(super) joined: Time,
    leaving: PackedLeaving,
}

/// Where a viewer is in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The next byte for its socket.
    pub(super) offset: u64,
    /// Whether it has begun; otherwise it waits for a key frame.
    pub(super) is_placed: bool,
    /// What it is paced at; `None` where it is not.
    pub(super) pace_bps: Option<u64>,
    /// Times that it was moved forward.
    pub(super) moved_forward: u32,
}

/// Whether a viewer stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fed {
    /// It has all there is, or its socket is full.
    Stays,
    /// It has had its share of this turn, and there is more for it.
    HasMore,
    /// It has had its burst, and there is more for it at [`Viewer::waits_until`].
    Paced,
    /// It has all that there is for it, since the stream is over or goes on with another header; or it is dropped, or
    /// cannot be given the rest of what it has begun.
    Finished,
}

impl Viewer {
    /// A part of the stream that only this viewer still has.
    pub(super) fn own_link(&self) -> Option<LinkFile> {
        self.reader.own_link()
    }

    /// A viewer that first gets `head`, then the stream from its newest entry on.
    pub(super) fn new(live: Arc<Live>, head: Vec<u8>, slow: SlowPolicy, now: Time) -> Viewer {
        let mut outgoing = Outgoing::default();
        outgoing.push(head);
        Viewer {
            reader: StreamReader::new(live, Entering::Prebuffered(None)),
            outgoing,
            blocks: None,
            is_blocked: false,
            last_progress: now,
            slow,
            moves: Moves::default(),
            burst_limiter: BurstLimiter::new(0),
            burst_schedule: BurstSchedule::default(),
            is_expected: false,
            sent_bytes: 0,
            joined: now,
            leaving: PackedLeaving::of(Leaving::No),
        }
    }

    /// The same viewer, that gets the stream in Metacube2 blocks.
    pub(super) fn in_blocks(self) -> Viewer {
        Viewer { blocks: Some(Blocks::default()), ..self }
    }

    /// The same viewer, that begins as far back as this.
    pub(super) fn with_prebuffer(self, prebuffer: Prebuffer) -> Viewer {
        let live = Arc::clone(self.live());
        Viewer { reader: StreamReader::new(live, Entering::Prebuffered(Some(prebuffer))), ..self }
    }

    /// The stream.
    pub(super) fn live(&self) -> &Arc<Live> {
        self.reader.live()
    }

    /// Where it is in the stream, for the roster.
    pub(super) fn position(&self) -> Position {
        let pace_bps = self.burst_bytes().map(|_| self.live().pace_bps());
        let is_placed = self.reader.is_placed();
        Position {
            offset: self.reader.offset(),
            is_placed,
            pace_bps,
            moved_forward: self.reader.times_moved(),
        }
    }

    /// Whether its socket is full: news do not concern it then, and the socket's next edge brings it back.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// When its socket last took something, if it is full now.
    pub(super) fn blocked_since(&self) -> Option<Time> {
        self.is_blocked.then_some(self.last_progress)
    }

    /// Bytes that may leave at once; `None` where it is not paced.
    fn burst_bytes(&self) -> Option<u64> {
        if self.live().pace_bps() == 0 {
            return None;
        }
        if self.live().paces_all() { Some(LEAST_BURST_BYTES) } else { self.burst_limiter.burst_bytes() }
    }

    /// When its next burst may leave, where it is paced and has had the last one; nothing may leave before.
    pub(super) fn waits_until(&self, affordable: bool, now: Time) -> Option<Time> {
        let next = self.burst_schedule.next();
        let waits = now < next && affordable && self.burst_bytes().is_some();
        waits.then_some(next)
    }

    /// When the next burst may leave, where it is paced.
    pub(super) fn next_burst(&self) -> Time {
        self.burst_schedule.next()
    }

    /// Bytes that may leave now: a burst, or what came due while its worker was busy.
    fn allowed_bytes(&self, affordable: bool, now: Time) -> u64 {
        match self.burst_bytes().filter(|_| affordable) {
            Some(burst) => {
                burst * self.burst_schedule.bursts(self.burst_limiter.interval(self.live().pace_bps()), now)
            }
            None => u64::MAX,
        }
    }

    /// Looks at its path, where that would tell something, so that it gets longer bursts if the path takes them.
    pub(super) fn try_path(&mut self, connection: &Connection, now: Time) {
        if self.burst_limiter.wants_sample(now)
            && let Ok(info) = connection.info()
        {
            self.look_at_path(&info, now);
        }
    }

    /// Takes what the kernel tells of its connection.
    pub(super) fn look_at_path(&mut self, info: &Info, now: Time) {
        let micros = |time: u32| Duration::from_micros(time.into());
        let sample = TcpSample {
            rtt: micros(info.rtt_us),
            deviation: micros(info.rttvar_us),
            min_rtt: info.min_rtt_us.map(micros),
            retransmitted: info.total_retrans.saturating_sub(info.dsack_dups.unwrap_or(0)),
        };
        if self.burst_limiter.handle_sample(sample, now) {
            tracing::debug!(stream = %self.live().name, "a viewer's path has lost something; paced from now on");
        }
    }

    /// Bytes have left at once: when the next may.
    fn note_burst(&mut self, bytes: u64, affordable: bool, now: Time) {
        let Some(burst) = self.burst_bytes().filter(|_| bytes > 0) else { return };
        // One that could not be paced shows what the path takes, too.
        self.burst_limiter.sent(bytes, now);
        self.live().counters.unpaced.add(u64::from(bytes > burst));
        if affordable {
            let interval = self.burst_limiter.interval(self.live().pace_bps());
            self.burst_schedule.sent(bytes as f64 / burst as f64, interval, now);
        }
    }

    /// Sends what there is and fits, up to a turn's share, and in bursts where it is paced and that can be afforded.
    pub(super) fn feed(&mut self, wire: &mut Wire, allowance: Allowance, now: Time) -> io::Result<Fed> {
        let affordable = allowance.pacing;
        let limit = match self.waits_until(affordable, now) {
            Some(_) => 0,
            None => self.allowed_bytes(affordable, now),
        };
        let (before, waiting) = (self.sent_bytes, self.outgoing.len());
        let fed = self.feed_all(wire, allowance.turn_bytes, limit, now);
        let bytes = self.sent_bytes - before;
        self.live().counters.bytes_out.add(bytes);
        if bytes > 0 {
            self.live().note_sent(self.reader.entered_at(), self.reader.offset());
        }
        // What comes before the stream leaves with its first burst.
        self.note_burst(bytes + waiting.saturating_sub(self.outgoing.len()) as u64, affordable, now);
        if matches!(fed, Ok(Fed::Paced)) {
            self.burst_schedule.wait();
        }
        fed
    }

    /// What it gets next, if that is at most `limit` bytes of the stream and nothing else; the caller sends them and
    /// then calls [`Viewer::took`]. For everything else there is [`Viewer::feed`]. Must not be called where it
    /// [waits](Viewer::waits_until).
    pub(super) fn next_piece(&mut self, limit: usize, affordable: bool, now: Time) -> Option<Piece> {
        let is_plain =
            !self.is_leaving() && !self.is_blocked && self.outgoing.is_empty() && self.blocks.is_none();
        let until = is_plain.then(|| self.reader.data_until()).flatten()?;
        let offset = self.reader.offset();
        let bytes = (until - offset).min(self.allowed_bytes(affordable, now));
        let fits = bytes > 0 && bytes <= limit as u64;
        fits.then(|| self.reader.spool().piece(offset + bytes)).flatten()
    }

    /// Whether there is more for it, or the stream is over.
    pub(super) fn has_news(&self) -> bool {
        let live = self.live();
        self.reader.offset() < live.chain.head() || live.has_ended()
    }

    /// The socket took `bytes` of the last [`Viewer::next_piece`]; `None` where it is full.
    pub(super) fn took(&mut self, bytes: Option<usize>, affordable: bool, now: Time) {
        match bytes {
            Some(bytes) => {
                self.note_burst(bytes as u64, affordable, now);
                self.reader.spool().advance(bytes);
                self.sent_bytes += bytes as u64;
                self.last_progress = now;
                self.live().counters.bytes_out.add(bytes as u64);
                self.live().note_sent(self.reader.entered_at(), self.reader.offset());
            }
            None => self.is_blocked = true,
        }
    }

    fn feed_all(&mut self, wire: &mut Wire, share: u64, limit: u64, now: Time) -> io::Result<Fed> {
        self.is_blocked = false;
        let flushed = wire.flush()?;
        if flushed.bytes > 0 {
            self.last_progress = now;
        }
        if !flushed.all {
            self.wait_for_room();
            return Ok(Fed::Stays);
        }
        let share_ends = self.sent_bytes + share;
        let mut burst_ends = self.sent_bytes.saturating_add(limit);
        loop {
            if !self.outgoing.is_empty() {
                let before = self.outgoing.len();
                let flushed = self.outgoing.flush(wire)?;
                let written = before - self.outgoing.len();
                if written > 0 {
                    self.last_progress = now;
                    burst_ends = burst_ends.saturating_sub(written as u64).max(self.sent_bytes);
                }
                if !flushed {
                    self.wait_for_room();
                    return Ok(Fed::Stays);
                }
                if self.blocks.is_none() {
                    self.outgoing.release();
                }
            }
            let next = self.reader.poll(now);
            let (last, is_behind) = match self.until_leaving(next) {
                Next::Entered { entry, moved } => {
                    self.begin_at(&entry, moved);
                    continue;
                }
                Next::Pending => return self.has_all(false, wire),
                Next::Ended => return self.has_all(true, wire),
                Next::Data { until } => (until, false),
                Next::Behind { until } => (until, true),
            };
            let offset = self.reader.offset();
            if self.sent_bytes >= burst_ends {
                return Ok(Fed::Paced);
            }
            if self.sent_bytes >= share_ends {
                return Ok(Fed::HasMore);
            }
            let end = if is_behind {
                // Fallen behind. What has begun of a record is finished, then comes the newest key frame.
                let record_end = self.end_of_begun(offset);
                if offset == record_end {
                    if !self.lose_place(now) {
                        return Ok(Fed::Finished);
                    }
                    continue;
                }
                record_end.min(last)
            } else {
                last
            };
            let end = match &mut self.blocks {
                Some(blocks) if blocks.is_between(offset) => {
                    let key_frame = self.reader.live().newest_entry().map(|entry| entry.offset);
                    self.outgoing.push(blocks.begin(offset, end, key_frame).to_vec());
                    continue;
                }
                Some(blocks) => end.min(blocks.end()),
                None => end,
            };
            let end = end.min(offset.saturating_add(burst_ends - self.sent_bytes));
            match wire.send(self.reader.spool(), end, share_ends - self.sent_bytes)? {
                Sent::Bytes(count) => {
                    self.sent_bytes += count as u64;
                    self.last_progress = now;
                }
                Sent::Blocked => {
                    self.is_blocked = true;
                    return Ok(Fed::Stays);
                }
                Sent::Gone if self.live().mux == Mux::MpegTs || self.end_of_begun(offset) == offset => {
                    if !self.lose_place(now) {
                        return Ok(Fed::Finished);
                    }
                }
                Sent::Gone => {
                    self.live().counters.cut_off.increment();
                    return Ok(Fed::Finished);
                }
            }
        }
    }

    /// Up to where it has to be sent what it has begun, from `offset` on: `offset` where it may be moved.
    fn end_of_begun(&self, offset: u64) -> u64 {
        let record_end = self.live().record_end(offset);
        match &self.blocks {
            // A block of a mux that is only carried cannot be filled up.
            Some(blocks) if self.live().mux != Mux::MpegTs && !blocks.is_between(offset) => {
                record_end.max(blocks.end())
            }
            _ => record_end,
        }
    }

    /// It was given all there is. Where it has `ended` it is told so, which may have to wait for room too.
    fn has_all(&mut self, ended: bool, wire: &mut Wire) -> io::Result<Fed> {
        if ended {
            wire.take_leave();
        }
        if !wire.is_flushed() {
            self.wait_for_room();
            return Ok(Fed::Stays);
        }
        Ok(if ended { Fed::Finished } else { Fed::Stays })
    }

    /// The socket is full. An awaiting viewer has nothing queued but its head, and keeps its state.
    fn wait_for_room(&mut self) {
        self.is_blocked = self.reader.is_placed();
    }

    /// It has fallen behind: it gives up its place, and goes on at the newest key frame, or it is dropped. Returns
    /// whether it stays.
    fn lose_place(&mut self, now: Time) -> bool {
        if !self.moves.try_move(self.slow, now) {
            self.live().counters.dropped_behind.increment();
            tracing::info!(stream = %self.live().name, "viewer dropped: it fell behind");
            return false;
        }
        self.live().counters.moved_forward.increment();
        let is_filled = self.live().mux == Mux::MpegTs;
        if let Some(blocks) = self.blocks.as_mut().filter(|_| is_filled) {
            self.outgoing.push(blocks.fill(self.reader.offset()));
        }
        self.reader.lose_place();
        true
    }

    /// Queues what comes before the stream's bytes at an entry.
    fn begin_at(&mut self, entry: &Entry, moved: bool) {
        let prelude = entry.prelude(moved);
        self.outgoing.push(match &mut self.blocks {
            Some(blocks) => blocks.enter(entry.offset, &prelude, moved),
            None => prelude,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_delivery::policy::StreamName;
    use glassline_delivery::stream::{self, Backlog, FlushPolicy, Pacing};
    use glassline_streams::Acquisition;
    use glassline_test_support::ts::Source;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    /// A stream that holds one key frame, its bytes, how many of them are tables, and both ends of a viewer's connection.
    fn stage(pacing: Pacing) -> (Arc<Live>, Vec<u8>, usize, Wire, TcpStream) {
        let settings = stream::Settings {
            backlog: Backlog { time: Duration::from_secs(10), bytes: 8 << 20 },
            flush: FlushPolicy::Frame,
            pacing,
            prebuffer: Prebuffer::NONE,
        };
        let name = StreamName::parse("a").expect("a name");
        let live = Arc::new(Live::new(0, name, Mux::MpegTs, settings, 1, Time::ZERO));
        let Acquisition::Granted { session, .. } = live.acquire(None, false, None, Time::ZERO) else {
            panic!("it is free")
        };
        let mut source = Source::default();
        let (tables, picture) = (source.tables(), source.picture(true, 4000));
        let bytes = [&tables[..], &picture].concat();
        live.push(session, &bytes, Time::ZERO).expect("a transport stream");
        live.pause(Time::ZERO);
        assert_eq!(live.chain.head(), bytes.len() as u64);

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("loopback");
        let (theirs, _) = listener.accept().expect("the connection");
        ours.set_nonblocking(true).expect("a socket");
        let wire = Wire::plain(Connection::from_descriptor(ours.into()));
        (live, bytes, tables.len(), wire, theirs)
    }

    const SHARE: u64 = 100_000;
    const PACED: Allowance = Allowance { pacing: true, turn_bytes: SHARE };

    #[test]
    fn a_round_of_all_viewers_is_short_and_a_turn_is_worth_its_price() {
        let share = |connections| Allowance::new(true, connections).turn_bytes;
        assert_eq!(share(0), 240 << 10);
        assert_eq!(share(1000), 240 << 10);
        assert!((60_000..65_000).contains(&share(5000)), "{}", share(5000));
        assert_eq!(share(100_000), 56 << 10);
    }

    #[test]
    fn a_turn_gives_a_viewer_its_share_however_much_the_socket_takes() {
        let (live, bytes, tables, mut wire, mut theirs) = stage(Pacing::Off);
        let mut viewer = Viewer::new(live, Vec::new(), SlowPolicy::default(), Time::ZERO);
        let mut got = vec![0; bytes.len()];
        let (mut taken, mut turns) = (0, 0);
        let begun = Instant::now();
        while taken < bytes.len() {
            assert!(begun.elapsed() < Duration::from_secs(30), "only {taken} bytes came");
            let before = viewer.sent_bytes;
            let fed = viewer.feed(&mut wire, PACED, Time::ZERO).expect("the socket is open");
            let share = viewer.sent_bytes - before;
            // The last packet of a turn is a whole one.
            assert!(share < SHARE + (64 << 10), "{share} bytes in a turn");
            assert!(share >= SHARE || fed != Fed::HasMore, "{fed:?} after {share} bytes");
            turns += u32::from(fed == Fed::HasMore);
            // The peer takes all of it, so that there is room for more than a share.
            // Tables of its own come first, which are no part of the stream.
            let end = tables + viewer.sent_bytes as usize;
            theirs.read_exact(&mut got[taken..end]).expect("what was sent arrives");
            taken = end;
        }
        assert!(turns > 0, "the socket had room for a share");
        assert!(got[tables..] == bytes[tables..], "in the order of the stream");
    }

    #[test]
    fn what_is_paced_leaves_in_bursts_and_what_cannot_be_is_counted() {
        let (live, _, _, mut wire, _theirs) = stage(Pacing::Rate(8_000_000));
        let mut viewer = Viewer::new(Arc::clone(&live), vec![7; 100], SlowPolicy::default(), Time::ZERO);
        assert_eq!(viewer.feed(&mut wire, PACED, Time::ZERO).unwrap(), Fed::Paced);
        let first = viewer.sent_bytes;
        assert!((LEAST_BURST_BYTES - 1000..LEAST_BURST_BYTES).contains(&first), "{first} behind a head");
        let next = viewer.waits_until(true, Time::ZERO).expect("it has had its burst");
        // 7,240 bytes at 8 Mbit/s, up to the next tick; what was written behind the head ends with a packet.
        assert!((Time::from_nanos(6_900_000)..=Time::from_nanos(7_250_000)).contains(&next), "{next:?}");
        assert_eq!(viewer.feed(&mut wire, PACED, Time::from_millis(6)).unwrap(), Fed::Paced);
        assert_eq!(viewer.sent_bytes, first, "not before its time");
        assert_eq!(viewer.feed(&mut wire, PACED, next).unwrap(), Fed::Paced);
        assert_eq!(viewer.sent_bytes, first + LEAST_BURST_BYTES);
        assert_eq!(live.counters.unpaced.value(), 0);
        assert_eq!(viewer.waits_until(false, next), None);
        viewer.feed(&mut wire, Allowance { pacing: false, ..PACED }, next).unwrap();
        assert!(viewer.sent_bytes > first + 2 * LEAST_BURST_BYTES);
        assert_eq!(live.counters.unpaced.value(), 1);
    }
}
