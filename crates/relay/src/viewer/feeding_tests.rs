//! What a viewer's socket is given: in parts, in blocks, behind and moved forward. Sockets are pairs inside this machine, so that
//! what is written at one end is at the other at once.

use super::*;
use crate::test_connections::opening;
use crate::test_streams::{SETTINGS, name};
use glassline_delivery::metacube::{self, Event, Flags};
use glassline_delivery::stream::{self, Backlog, Pacing};
use glassline_media::container::ts::{Aligner, ContinuityChecker, PACKET_BYTES, Packet};
use glassline_streams::Acquisition;
use glassline_test_support::ts::Source;
use proptest::prelude::*;

const UNPACED: Allowance = Allowance { pacing: true, turn_bytes: 1 << 20 };

/// A stream with its publisher, and a viewer of it.
struct Show {
    live: Arc<Live>,
    session: u64,
    source: Source,
    viewer: Viewer,
    wire: Wire,
    peer: Connection,
    now: Time,
    /// All that was pushed.
    pushed: Vec<u8>,
}

/// A show of `packets` packets behind its tables, before its viewer is fed for the first time. The socket holds `socket_bytes`, about.
fn show_with(settings: stream::Settings, slow: SlowPolicy, packets: usize, socket_bytes: usize) -> Show {
    let live = Arc::new(Live::new(1, name("a"), Mux::MpegTs, settings, 1, Time::ZERO));
    let Acquisition::Granted { session, .. } = live.acquire(None, false, None, Time::ZERO) else {
        panic!("it is free")
    };
    let (ours, peer) = Connection::pair(socket_bytes).expect("a pair of sockets");
    let viewer = Viewer::new(Arc::clone(&live), Vec::new(), slow, Time::ZERO);
    let (source, bytes) = opening(packets);
    let mut show = Show {
        live,
        session,
        source,
        viewer,
        wire: Wire::plain(ours),
        peer,
        now: Time::ZERO,
        pushed: Vec::new(),
    };
    show.push(&bytes);
    show
}

/// Packets of a key frame that no socket of these tests has room for.
const MANY: usize = 2000;

/// A backlog of 400 kB, and a socket for a fraction of it.
fn show(slow: SlowPolicy, packets: usize) -> Show {
    let backlog = Backlog { time: Duration::from_secs(10), bytes: 400_000 };
    show_with(stream::Settings { backlog, ..SETTINGS }, slow, packets, 16 << 10)
}

impl Show {
    fn push(&mut self, bytes: &[u8]) {
        let (pushed, _) = self.live.push_all(self.session, bytes, self.now);
        pushed.expect("a transport stream");
        self.live.pause(self.now);
        self.pushed.extend_from_slice(bytes);
    }

    /// A key frame or another picture of so many packets comes; a key frame has its tables before it.
    fn picture(&mut self, key: bool, packets: usize) {
        let tables = if key { self.source.tables() } else { Vec::new() };
        let bytes = [tables, self.source.picture(key, packets)].concat();
        self.push(&bytes);
    }

    fn feed(&mut self) -> Fed {
        self.viewer.feed(&mut self.wire, UNPACED, self.now).expect("an open socket")
    }

    /// What the peer reads, at most `most` bytes.
    fn read(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let mut count = 0;
        while count < most {
            match self.peer.read(&mut bytes[count..]).expect("an open socket") {
                Some(more @ 1..) => count += more,
                _ => break,
            }
        }
        bytes.truncate(count);
        bytes
    }

    /// The peer reads on until the viewer has nothing more for it. Returns what it read, and how it ended.
    fn drain(&mut self) -> (Vec<u8>, Fed) {
        let mut all = Vec::new();
        loop {
            let fed = self.feed();
            let more = self.read(usize::MAX >> 40);
            all.extend_from_slice(&more);
            if more.is_empty() || fed == Fed::Finished {
                all.extend(self.read(1 << 20));
                return (all, fed);
            }
        }
    }
}

/// Errors of the counters in a transport stream of whole packets.
fn continuity_errors(bytes: &[u8]) -> u64 {
    let (mut aligner, mut checker) = (Aligner::new(), ContinuityChecker::new());
    aligner.push(bytes, &mut |run| {
        for packet in run.as_chunks::<PACKET_BYTES>().0 {
            checker.check(&Packet::parse(packet).unwrap());
        }
    });
    assert_eq!(aligner.skipped_bytes(), 0, "a broken packet");
    checker.errors()
}

#[test]
fn a_full_socket_blocks_its_viewer_until_it_takes_something() {
    let mut show = show(SlowPolicy::default(), MANY);
    show.now = Time::from_millis(10);
    assert_eq!(show.feed(), Fed::Stays);
    assert!(show.viewer.is_blocked());
    let (sent, since) = (show.viewer.sent_bytes, show.viewer.blocked_since());
    assert!(sent > 0 && sent < MANY as u64 * 188, "{sent}");
    assert_eq!(since, Some(Time::from_millis(10)));
    // Nothing was read: the next turn finds it as it was.
    show.now = Time::from_millis(20);
    assert_eq!((show.feed(), show.viewer.sent_bytes, show.viewer.blocked_since()), (Fed::Stays, sent, since));
    let (mut got, fed) = (show.read(20_000), Fed::Stays);
    show.now = Time::from_millis(30);
    assert_eq!(show.feed(), fed);
    got.extend(show.drain().0);
    assert!(got == show.pushed && !show.viewer.is_blocked());
    assert_eq!(show.viewer.blocked_since(), None);
    assert_eq!(show.live.counters.bytes_out.value(), MANY as u64 * 188);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_viewer_reads_the_stream_as_it_is_however_little_it_reads_at_once(
        steps in proptest::collection::vec((any::<bool>(), 1usize..40, 1usize..30_000), 1..40),
    ) {
        let backlog = Backlog { time: Duration::from_secs(10), bytes: 8 << 20 };
        let mut show = show_with(stream::Settings { backlog, ..SETTINGS }, SlowPolicy::Drop, 5, 8 << 10);
        let mut got = Vec::new();
        for (key, packets, most) in steps {
            show.feed();
            show.picture(key, packets);
            prop_assert_eq!(show.feed(), Fed::Stays);
            got.extend(show.read(most));
        }
        got.extend(show.drain().0);
        prop_assert!(got == show.pushed);
        prop_assert_eq!(show.viewer.sent_bytes + 376, got.len() as u64);
        prop_assert_eq!(show.viewer.position().moved_forward, 0);
    }

    #[test]
    fn a_viewer_that_falls_behind_reads_whole_packets_and_knows_of_each_gap(
        steps in proptest::collection::vec((any::<bool>(), 1usize..600, 0usize..60_000), 1..40),
    ) {
        let mut show = show(SlowPolicy::default(), 5);
        let mut got = Vec::new();
        for (key, packets, most) in steps {
            show.feed();
            show.picture(key, packets);
            got.extend(show.read(most));
        }
        show.picture(true, 3);
        got.extend(show.drain().0);
        prop_assert_eq!(got.len() % PACKET_BYTES, 0);
        prop_assert_eq!(continuity_errors(&got), 0);
        let moved = u64::from(show.viewer.position().moved_forward);
        prop_assert_eq!(show.live.counters.moved_forward.value(), moved);
        prop_assert!(moved > 0 || got == show.pushed);
        let last = &show.pushed[show.pushed.len() - 3 * PACKET_BYTES..];
        prop_assert!(got.ends_with(last), "it is live again");
    }
}

#[test]
fn what_is_begun_of_a_packet_is_finished_before_a_viewer_is_moved() {
    let mut show = show(SlowPolicy::default(), MANY);
    show.feed();
    let begun = show.viewer.position().offset;
    for _ in 0..30 {
        show.picture(false, 100);
    }
    show.picture(true, 20);
    let newest = show.live.newest_entry().unwrap().offset;
    let got = show.drain().0;
    let whole = begun.next_multiple_of(188) as usize;
    assert!(got[..whole] == show.pushed[..whole]);
    assert!(got.ends_with(&show.pushed[newest as usize..]));
    assert_eq!(continuity_errors(&got), 0);
    let position = show.viewer.position();
    assert_eq!((position.moved_forward, position.offset), (1, show.pushed.len() as u64));
    assert_eq!(show.live.counters.moved_forward.value(), 1);
}

#[test]
fn a_viewer_that_may_not_be_moved_is_dropped_when_it_falls_behind() {
    let mut show = show(SlowPolicy::Drop, MANY);
    show.feed();
    for _ in 0..30 {
        show.picture(true, 100);
    }
    let (got, fed) = show.drain();
    assert_eq!(fed, Fed::Finished);
    let counters = &show.live.counters;
    assert_eq!((counters.dropped_behind.value(), counters.moved_forward.value()), (1, 0));
    assert!(got.len() % 188 == 0 && got == show.pushed[..got.len()], "what it had begun is whole");
}

#[test]
fn a_viewer_is_moved_as_often_in_a_minute_as_its_stream_allows() {
    let mut show = show(SlowPolicy::Move { max_moves: 2 }, MANY);
    let mut moved = Vec::new();
    for at in [0, 20_000, 40_000, 59_999] {
        show.now = Time::from_millis(at);
        for _ in 0..30 {
            show.picture(true, 100);
        }
        let fed = show.drain().1;
        moved.push((show.viewer.position().moved_forward, fed == Fed::Finished));
        if fed == Fed::Finished {
            break;
        }
        // The socket is full again.
        show.picture(false, MANY - 200);
        show.feed();
    }
    // The first round finds it at the begin of the stream, where nothing has left for it.
    assert_eq!(moved, [(0, false), (1, false), (2, false), (2, true)]);
    assert_eq!(show.live.counters.dropped_behind.value(), 1);
}

#[test]
fn a_viewer_that_waits_for_a_key_frame_is_not_blocked_by_a_head_that_does_not_fit() {
    let mut show = show_with(SETTINGS, SlowPolicy::default(), 1, 8 << 10);
    let live = Arc::new(Live::new(2, name("b"), Mux::MpegTs, SETTINGS, 1, Time::ZERO));
    show.viewer = Viewer::new(live, vec![7; 100_000], SlowPolicy::default(), Time::ZERO);
    assert_eq!(show.feed(), Fed::Stays);
    assert!(!show.viewer.position().is_placed && !show.viewer.is_blocked());
    assert_eq!(show.drain().0, vec![7; 100_000]);
    assert_eq!(
        (show.viewer.sent_bytes, show.viewer.position().offset),
        (0, 0),
        "a head is no part of the stream"
    );
}

#[test]
fn a_viewer_is_told_the_end_when_all_has_left() {
    let mut show = show(SlowPolicy::default(), MANY);
    assert_eq!(show.feed(), Fed::Stays);
    show.live.end();
    assert_eq!(show.feed(), Fed::Stays, "its socket is full");
    let mut got = show.read(1 << 20);
    let (more, fed) = show.drain();
    got.extend(more);
    assert!(fed == Fed::Finished && got == show.pushed);
}

#[test]
fn a_piece_is_what_comes_next_and_nothing_else() {
    let mut show = show(SlowPolicy::default(), 3);
    assert!(show.viewer.next_piece(1 << 20, true, show.now).is_none(), "it has not entered");
    show.drain();
    assert!(show.viewer.next_piece(1 << 20, true, show.now).is_none() && !show.viewer.has_news());
    show.picture(false, 10);
    assert!(show.viewer.has_news());
    assert!(show.viewer.next_piece(1879, true, show.now).is_none(), "a byte too much");
    let piece = show.viewer.next_piece(1880, true, show.now).expect("ten packets");
    assert_eq!(piece.len(), 1880);
    show.now = Time::from_millis(70);
    show.viewer.took(Some(1000), true, show.now);
    assert_eq!((show.viewer.sent_bytes, show.live.counters.bytes_out.value()), (564 + 1000, 564 + 1000));
    assert_eq!(show.viewer.next_piece(1880, true, show.now).expect("the rest").len(), 880);
    show.viewer.took(None, true, Time::from_millis(90));
    assert_eq!(show.viewer.blocked_since(), Some(Time::from_millis(70)), "since it last took something");
    assert!(show.viewer.next_piece(1880, true, show.now).is_none());
    // A turn finds room, and sends the rest of it.
    assert_eq!(show.feed(), Fed::Stays);
    assert_eq!(show.read(5000), show.pushed[show.pushed.len() - 880..]);
}

#[test]
fn a_piece_of_a_paced_viewer_is_no_longer_than_its_burst() {
    let settings = stream::Settings { pacing: Pacing::Rate(8_000_000), ..SETTINGS };
    let mut show = show_with(settings, SlowPolicy::default(), 3, 200 << 10);
    show.drain();
    let next = show.viewer.waits_until(true, show.now).expect("it has had something");
    show.picture(false, 200);
    let piece = show.viewer.next_piece(1 << 20, true, next).expect("a burst");
    assert_eq!(piece.len() as u64, LEAST_BURST_BYTES);
    assert_eq!(show.viewer.next_piece(1 << 20, false, next).expect("all").len(), 200 * 188);
    assert_eq!(show.viewer.position().pace_bps, Some(8_000_000));
}

#[test]
fn a_viewer_in_blocks_that_is_moved_gets_its_block_filled_up() {
    let mut show = show(SlowPolicy::default(), MANY);
    show.viewer =
        Viewer::new(Arc::clone(&show.live), Vec::new(), SlowPolicy::default(), Time::ZERO).in_blocks();
    show.feed();
    let whole = show.viewer.position().offset.next_multiple_of(188) as usize;
    for _ in 0..30 {
        show.picture(false, 100);
    }
    show.picture(true, 20);
    let got = show.drain().0;
    let (mut reader, mut input) = (metacube::Reader::new(), &got[..]);
    let (mut blocks, mut data, mut promised) = (Vec::new(), Vec::new(), 0);
    while let Some(event) = reader.next(&mut input) {
        match event {
            Event::Block { size, flags } => {
                assert_eq!(data.len(), promised, "the block before is whole");
                promised += size as usize;
                blocks.push((size, flags));
            }
            Event::Data(bytes) => data.extend_from_slice(bytes),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(data.len(), promised);
    let not = Flags::NOT_SUITABLE_FOR_STREAM_START;
    // Tables, the first key frame as far as it is there; what announces the seam, and the newest key frame.
    let [header, first, .., seam, newest] = blocks[..] else { panic!("{blocks:?}") };
    assert_eq!((header, first), ((376, Flags::HEADER), (348 * 188, Flags::NONE)));
    assert_eq!((seam.1, newest), (not, (20 * 188, Flags::NONE)));
    assert_eq!(continuity_errors(&data), 0);
    assert!(data[..whole] == show.pushed[..whole]);
    let lacking = (whole - 376).next_multiple_of(348 * 188) - (whole - 376);
    let nulls = data[whole..].chunks(188).take_while(|packet| packet[1] == 0x1F && packet[2] == 0xFF).count();
    assert_eq!(nulls * 188, lacking);
}

/// The viewer as the next process makes it of its state.
fn handed_over(show: &Show) -> Viewer {
    assert!(show.viewer.own_link().is_none());
    let bytes = rmp_serde::to_vec_named(&show.viewer.state()).unwrap();
    Viewer::restore(rmp_serde::from_slice(&bytes).unwrap(), Arc::clone(&show.live), None)
}

#[test]
fn a_viewer_goes_over_to_the_next_process_wherever_it_is() {
    // It has got nothing; it is blocked; it has all there is.
    for step in 0..3 {
        let mut show = show(SlowPolicy::Move { max_moves: 3 }, MANY);
        let mut got = Vec::new();
        if step > 0 {
            show.feed();
        }
        if step > 1 {
            got.extend(show.drain().0);
        }
        let (position, since) = (show.viewer.position(), show.viewer.blocked_since());
        show.viewer = handed_over(&show);
        assert_eq!((show.viewer.position(), show.viewer.blocked_since()), (position, since), "{step}");
        assert_eq!((position.is_placed, since.is_some()), (step > 0, step == 1));
        show.picture(false, 4);
        got.extend(show.drain().0);
        assert!(got == show.pushed, "{step}");
    }
}

#[test]
fn a_viewer_that_waits_to_be_moved_and_its_moves_go_over() {
    let mut show = show(SlowPolicy::Move { max_moves: 1 }, MANY);
    show.feed();
    // Without a key frame that is kept it waits for the next one.
    for _ in 0..30 {
        show.picture(true, 100);
    }
    show.drain();
    assert_eq!(show.viewer.position().moved_forward, 1);
    show.viewer = handed_over(&show);
    assert_eq!(show.viewer.position().moved_forward, 1);
    show.picture(false, MANY - 200);
    show.feed();
    for _ in 0..30 {
        show.picture(true, 100);
    }
    assert_eq!(show.drain().1, Fed::Finished, "it was moved in this minute already");
}

#[test]
fn a_viewer_in_blocks_goes_over_in_the_middle_of_one() {
    let mut show = show(SlowPolicy::default(), MANY);
    show.viewer =
        Viewer::new(Arc::clone(&show.live), vec![9; 10], SlowPolicy::default(), Time::ZERO).in_blocks();
    show.feed();
    show.viewer = handed_over(&show);
    let mut got = show.read(1 << 20);
    got.extend(show.drain().0);
    assert_eq!(got[..10], [9; 10]);
    let (mut reader, mut input, mut data) = (metacube::Reader::new(), &got[10..], Vec::new());
    while let Some(event) = reader.next(&mut input) {
        if let Event::Data(bytes) = event {
            data.extend_from_slice(bytes);
        }
    }
    assert!(data == show.pushed);
}

#[test]
fn a_path_that_loses_something_is_paced_from_then_on_and_one_that_is_proven_is_not() {
    let settings = stream::Settings { pacing: Pacing::Factor(3.0), ..SETTINGS };
    let mut show = show_with(settings, SlowPolicy::default(), 3, 200 << 10);
    for _ in 0..100 {
        show.now += Duration::from_millis(40);
        show.picture(true, 20);
        show.drain();
    }
    assert!(show.live.pace_bps() > 0, "the stream's rate is known");
    assert_eq!(show.viewer.position().pace_bps, Some(show.live.pace_bps()));
    let flat = Info { rtt_us: 100, min_rtt_us: Some(100), ..Info::default() };
    for _ in 0..100 {
        show.now += Duration::from_millis(40);
        show.picture(true, 400);
        show.drain();
        show.viewer.look_at_path(&flat, show.now + Duration::from_millis(10));
    }
    assert_eq!(show.viewer.position().pace_bps, None, "it takes what there is at once");
    assert_eq!(show.viewer.waits_until(true, show.now), None);
    let again = Info { total_retrans: 3, dsack_dups: Some(3), ..flat };
    show.viewer.look_at_path(&again, show.now);
    show.viewer.look_at_path(&again, show.now + Duration::from_secs(1));
    assert_eq!(show.viewer.position().pace_bps, None, "what had arrived was not lost");
    let lost = Info { total_retrans: 4, dsack_dups: Some(3), ..flat };
    show.viewer.look_at_path(&lost, show.now + Duration::from_secs(1));
    show.viewer.look_at_path(&lost, show.now + Duration::from_secs(2));
    assert_eq!(show.viewer.position().pace_bps, Some(show.live.pace_bps()));
}
