use super::*;
use crate::test_streams::{SETTINGS, acquired, live, name};
use glassline_delivery::stream::{self, Backlog, Mux};
use glassline_test_support::ts::Source;
use proptest::prelude::*;
use std::time::Duration;

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// What a reader is given, up to where there is nothing now.
#[derive(Debug, Default, PartialEq, Eq)]
struct Given {
    bytes: Vec<u8>,
    /// Where it entered, and whether it was elsewhere before.
    entered: Vec<(u64, bool)>,
    times_behind: usize,
    has_ended: bool,
}

/// Takes all that there is, `chunk` bytes at a time.
fn take(reader: &mut StreamReader, chunk: usize, now: Time) -> Given {
    let (mut given, mut buffer) = (Given::default(), vec![0; chunk]);
    loop {
        match reader.poll(now) {
            Next::Entered { entry, moved } => {
                assert_eq!((entry.offset, reader.entered_at()), (reader.offset(), entry.offset));
                given.entered.push((entry.offset, moved));
                given.bytes.extend(entry.prelude(moved));
            }
            Next::Data { until } => {
                assert!(reader.data_until().is_none_or(|known| known == until));
                let count = reader.read(&mut buffer, until).expect("memory");
                given.bytes.extend(&buffer[..count.expect("it is kept")]);
            }
            Next::Behind { until } => {
                assert!(until > reader.offset() && reader.data_until().is_none());
                given.times_behind += 1;
                reader.lose_place();
            }
            Next::Pending => return given,
            Next::Ended => {
                given.has_ended = true;
                return given;
            }
        }
    }
}

/// A stream with its publisher.
struct Stage {
    live: Arc<Live>,
    session: u64,
    source: Source,
}

impl Stage {
    fn new(mux: Mux, backlog_bytes: u64) -> Stage {
        let backlog = Backlog { time: Duration::from_secs(60), bytes: backlog_bytes };
        let settings = stream::Settings { backlog, ..SETTINGS };
        let live = Arc::new(Live::new(0, name("a"), mux, settings, 1, Time::ZERO));
        let session = acquired(&live, Time::ZERO);
        Stage { live, session, source: Source::default() }
    }

    fn push(&self, bytes: &[u8], now: Time) {
        self.live.push_all(self.session, bytes, now).0.expect("bytes of the mux");
    }

    fn picture(&mut self, is_key: bool, packets: usize, now: Time) -> Vec<u8> {
        let bytes = self.source.picture(is_key, packets);
        self.push(&bytes, now);
        bytes
    }

    fn reader(&self, entering: Entering) -> StreamReader {
        StreamReader::new(Arc::clone(&self.live), entering)
    }
}

#[test]
fn a_reader_begins_at_a_key_frame_follows_and_has_all_before_the_end() {
    let mut stage = Stage::new(Mux::MpegTs, 1 << 20);
    let mut reader = stage.reader(Entering::Newest);
    assert!(matches!(reader.poll(at(0)), Next::Pending) && !reader.is_placed());
    let tables = stage.source.tables();
    stage.push(&tables, at(0));
    stage.picture(false, 2, at(10));
    assert_eq!(take(&mut reader, 1000, at(10)), Given::default(), "nothing can be decoded from there");
    let key = stage.picture(true, 5, at(20));
    let given = take(&mut reader, 1000, at(20));
    assert_eq!(given.entered, [(tables.len() as u64 + 2 * 188, false)]);
    assert!(given.bytes.ends_with(&key) && given.bytes.len() == tables.len() + key.len());
    let next = stage.picture(false, 3, at(30));
    stage.live.end();
    assert_eq!(take(&mut reader, 100, at(30)), Given { bytes: next, has_ended: true, ..Given::default() });
    assert!(matches!(reader.poll(at(40)), Next::Ended));
}

#[test]
fn a_stream_that_ends_before_its_first_key_frame_has_nothing_to_read() {
    let mut stage = Stage::new(Mux::MpegTs, 1 << 20);
    let mut reader = stage.reader(Entering::Oldest);
    stage.picture(false, 2, at(0));
    stage.live.end();
    assert!(take(&mut reader, 100, at(0)) == Given { has_ended: true, ..Given::default() });
}

#[test]
fn each_begins_where_it_says() {
    let mut stage = Stage::new(Mux::MpegTs, 1 << 20);
    let tables = stage.source.tables();
    stage.push(&tables, at(0));
    let mut entries = Vec::new();
    for second in 0..4 {
        entries.push(stage.live.chain.head());
        stage.picture(true, 5, at(second * 1000));
        stage.picture(false, 5, at(second * 1000 + 500));
    }
    let entered = |entering| {
        let mut reader = stage.reader(entering);
        let given = take(&mut reader, 4096, at(3600));
        given.entered[0].0
    };
    let back = |time| entered(Entering::Prebuffered(Some(Prebuffer::Time(Duration::from_millis(time)))));
    assert_eq!(entered(Entering::Newest), entries[3]);
    assert_eq!(entered(Entering::Oldest), entries[0]);
    assert_eq!(entered(Entering::Prebuffered(None)), entries[3], "as the stream's settings say");
    assert_eq!((back(0), back(1700)), (entries[3], entries[1]));
}

#[test]
fn what_falls_behind_enters_again_ahead_as_it_wants() {
    let entered = |entering| {
        // Room for about four pictures.
        let mut stage = Stage::new(Mux::MpegTs, 40_000);
        let tables = stage.source.tables();
        stage.push(&tables, at(0));
        stage.picture(true, 50, at(0));
        let mut reader = stage.reader(entering);
        let first = take(&mut reader, 4096, at(0));
        assert_eq!((first.entered.len(), first.times_behind), (1, 0));
        let mut keys = Vec::new();
        for second in 1..20 {
            keys.push(stage.live.chain.head());
            stage.picture(true, 50, at(second * 1000));
        }
        let given = take(&mut reader, 4096, at(20_000));
        assert_eq!((given.times_behind, reader.times_moved()), (1, 1));
        let [(offset, true)] = given.entered[..] else { panic!("{:?}", given.entered) };
        // Where it is told of its move, the first packet of each PID says so.
        assert_eq!(given.bytes[3] & 0x30, 0x20, "an adaptation field alone");
        assert!(offset >= stage.live.tail());
        keys.iter().rev().position(|key| *key == offset).expect("a key frame")
    };
    assert_eq!(entered(Entering::Newest), 0);
    assert_eq!(entered(Entering::Prebuffered(Some(ALL_OF_IT))), 0, "it is for where it begins");
    assert!(entered(Entering::Oldest) >= 3, "what is kept is read");
}

fn flv_tag(payload: &[u8]) -> Vec<u8> {
    let size = (payload.len() as u32).to_be_bytes();
    let back = (payload.len() as u32 + 11).to_be_bytes();
    [&[9][..], &size[1..], &[0; 7], payload, &back].concat()
}

fn flv_header(mark: u8) -> Vec<u8> {
    [b"FLV\x01\x05\0\0\0\x09\0\0\0\0".to_vec(), flv_tag(&[0x17, 0, mark])].concat()
}

#[test]
fn a_stream_that_goes_on_with_another_header_is_over_for_who_had_the_first() {
    let stage = Stage::new(Mux::Flv, 1 << 20);
    let picture = flv_tag(&[&[0x17, 1][..], &[7; 100]].concat());
    stage.push(&[flv_header(1), picture.clone()].concat(), at(0));
    let mut first = stage.reader(Entering::Newest);
    let given = take(&mut first, 64, at(0));
    assert_eq!((given.bytes, given.has_ended), ([flv_header(1), picture.clone()].concat(), false));
    let session = stage.live.begin_anew(stage.session, at(10)).expect("it has the slot");
    let bytes = [flv_header(2), picture.clone()].concat();
    stage.live.push_all(session, &bytes, at(10)).0.expect("FLV");
    assert_eq!(take(&mut first, 64, at(10)), Given { has_ended: true, ..Given::default() });
    assert!(first.is_at_seam(), "what follows is for a new reader");
    // One that lost its place is not moved behind the seam either.
    first.lose_place();
    assert!(matches!(first.poll(at(10)), Next::Ended) && first.is_at_seam());
    let mut second = stage.reader(Entering::Newest);
    assert!(!second.is_at_seam());
    assert_eq!(take(&mut second, 64, at(10)).bytes, bytes);
    stage.live.end();
    assert!(take(&mut second, 64, at(10)).has_ended && !second.is_at_seam());
}

#[test]
fn a_reader_of_another_process_goes_on_where_it_was() {
    let mut stage = Stage::new(Mux::MpegTs, 1 << 20);
    let tables = stage.source.tables();
    stage.push(&tables, at(0));
    stage.picture(true, 5, at(0));
    let mut reader = stage.reader(Entering::Newest);
    let entered = take(&mut reader, 4096, at(0)).entered[0].0;
    let mut restored = StreamReader::restore(Arc::clone(&stage.live), reader.state(), None);
    let more = stage.picture(false, 5, at(10));
    assert_eq!((restored.entered_at(), restored.is_placed()), (entered, true));
    assert_eq!(take(&mut restored, 4096, at(10)).bytes, more);
}

/// The end comes from another thread right behind the last bytes: a reader that learns of it has them.
#[test]
fn nothing_that_came_before_the_end_is_left_out() {
    let mut source = Source::default();
    let (tables, key, last) = (source.tables(), source.picture(true, 1), source.picture(false, 1));
    for _ in 0..20_000 {
        let stage = Stage::new(Mux::MpegTs, 1 << 20);
        stage.push(&[&tables[..], &key].concat(), at(0));
        let mut reader = stage.reader(Entering::Newest);
        assert_eq!(take(&mut reader, 1000, at(0)).entered.len(), 1);
        let is_ready = std::sync::Barrier::new(2);
        let (stage, is_ready) = (&stage, &is_ready);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                is_ready.wait();
                stage.push(&last, at(0));
                stage.live.end();
            });
            is_ready.wait();
            while !take(&mut reader, 1000, at(0)).has_ended {}
        });
        assert_eq!(reader.offset(), stage.live.chain.head());
    }
}

#[test]
fn a_stream_without_anything_is_waited_for() {
    let empty = live(1, "b", 1);
    let mut reader = StreamReader::new(Arc::clone(&empty), Entering::Oldest);
    assert!(matches!(reader.poll(at(0)), Next::Pending));
    assert_eq!((reader.data_until(), reader.live().id, reader.offset()), (None, 1, 0));
}

proptest! {
    /// However a stream comes and is read: a reader gets each byte once and in order from where it entered, with nothing left out
    /// but where it was moved to a later key frame.
    #[test]
    fn what_is_read_is_the_stream(
        steps in prop::collection::vec((any::<bool>(), 1usize..60, any::<bool>()), 1..60),
        chunk in 1usize..3000,
        backlog in 20_000u64..200_000,
        oldest in any::<bool>(),
    ) {
        let mut stage = Stage::new(Mux::MpegTs, backlog);
        let mut stream = stage.source.tables();
        stage.push(&stream.clone(), at(0));
        let mut reader = stage.reader(if oldest { Entering::Oldest } else { Entering::Newest });
        let mut expected_at = None;
        let mut buffer = vec![0; chunk];
        for (index, (is_key, packets, reads)) in steps.iter().copied().enumerate() {
            let now = at(index as u64 * 40);
            stream.extend(stage.picture(is_key, packets, now));
            let is_last = index + 1 == steps.len();
            if is_last {
                stage.live.end();
            }
            if !reads && !is_last {
                continue;
            }
            loop {
                match reader.poll(now) {
                    Next::Entered { entry, moved } => {
                        prop_assert_eq!(moved, expected_at.is_some());
                        prop_assert!(expected_at.is_none_or(|expected| entry.offset >= expected));
                        expected_at = Some(entry.offset);
                    }
                    Next::Data { until } => {
                        let offset = reader.offset();
                        prop_assert_eq!(Some(offset), expected_at);
                        let count = reader.read(&mut buffer, until).unwrap().expect("it is kept");
                        let from = offset as usize;
                        prop_assert!(count > 0 && buffer[..count] == stream[from..from + count]);
                        expected_at = Some(offset + count as u64);
                    }
                    Next::Behind { .. } => {
                        prop_assert!(reader.offset() < stage.live.tail());
                        reader.lose_place();
                    }
                    Next::Pending => {
                        prop_assert!(!is_last);
                        break;
                    }
                    Next::Ended => {
                        prop_assert!(is_last);
                        break;
                    }
                }
            }
        }
        let at_end = expected_at.is_some_and(|at| at == stream.len() as u64);
        prop_assert!(at_end || !reader.is_placed());
    }
}
