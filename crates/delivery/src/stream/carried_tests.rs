//! Streams whose mux is only carried.

use super::*;
use proptest::prelude::*;

const BACKLOG: Backlog = Backlog { time: Duration::from_secs(5), bytes: 1 << 20 };
const SETTINGS: Settings =
    Settings { backlog: BACKLOG, flush: FlushPolicy::Frame, pacing: Pacing::Off, prebuffer: Prebuffer::NONE };

struct Written {
    stream: Stream,
    file: Vec<u8>,
}

impl Written {
    fn new() -> Written {
        Written::of(Mux::Flv)
    }

    fn of(mux: Mux) -> Written {
        let mut stream = Stream::new(mux, SETTINGS, Time::ZERO);
        stream.begin_session(Time::ZERO);
        Written { stream, file: Vec::new() }
    }

    fn push(&mut self, bytes: &[u8], now: Time) -> Result<bool, StreamError> {
        self.stream.push(bytes, now, &mut |run| self.file.extend_from_slice(run))
    }

    /// A block, of which `wire` is what came: all of it unless it was cut off.
    fn block(&mut self, block: Block, size: usize, wire: &[u8], now: Time) -> Result<(), StreamError> {
        self.stream.begin_block(block, size as u32, now)?;
        wire.chunks(7).try_for_each(|chop| self.push(chop, now).map(|_| ()))
    }

    /// What a viewer gets that enters at `entry`.
    fn from(&self, entry: &Entry) -> Vec<u8> {
        [entry.prelude(false), self.file[entry.offset as usize..].to_vec()].concat()
    }
}

fn tag(kind: u8, payload: &[u8]) -> Vec<u8> {
    let size = (payload.len() as u32).to_be_bytes();
    let back = (payload.len() as u32 + 11).to_be_bytes();
    [&[kind][..], &size[1..], &[0; 7], payload, &back].concat()
}

fn header(mark: u8) -> Vec<u8> {
    [b"FLV\x01\x05\0\0\0\x09\0\0\0\0".to_vec(), tag(9, &[0x17, 0, mark])].concat()
}

fn picture(key_frame: bool, length: usize) -> Vec<u8> {
    tag(9, &[&[if key_frame { 0x17 } else { 0x27 }, 1][..], &vec![7; length]].concat())
}

fn at(seconds: f64) -> Time {
    Time::from_nanos((seconds * 1e9) as u64)
}

#[test]
fn a_viewer_gets_the_header_and_then_the_newest_key_frame() {
    let mut written = Written::new();
    written.push(&[header(1), picture(true, 50), picture(false, 20)].concat(), at(0.0)).unwrap();
    let second = [picture(true, 60), picture(false, 20)].concat();
    written.push(&second, at(1.0)).unwrap();
    let entry = written.stream.newest_entry().unwrap().clone();
    assert_eq!(written.from(&entry), [header(1), second].concat());
    assert!(entry.prelude(true).is_empty(), "who is moved has the header");
    assert_eq!(written.stream.key_frame_interval(), Some(Duration::from_secs(1)));
    assert_eq!(written.stream.head(), written.file.len() as u64);
}

#[test]
fn a_publisher_that_returns_with_the_same_header_goes_on() {
    let mut written = Written::new();
    written.push(&[header(1), picture(true, 50)].concat(), at(0.0)).unwrap();
    written.stream.begin_session(at(1.0));
    written.push(&[header(1), picture(true, 50)].concat(), at(1.0)).unwrap();
    assert_eq!(written.file, picture(true, 50).repeat(2), "the header is not repeated");
    assert_eq!((written.stream.newest_seam(), written.stream.seam_behind(0)), (0, None));
}

#[test]
fn another_header_or_a_torn_record_makes_a_seam() {
    for (first, header_again) in
        [(picture(true, 50), header(2)), (picture(true, 50)[..40].to_vec(), header(1))]
    {
        let mut written = Written::new();
        written.push(&[header(1), picture(true, 30), first].concat(), at(0.0)).unwrap();
        let seam = written.stream.head();
        written.stream.begin_session(at(1.0));
        // Until there is something to enter at, viewers may still begin at what there is.
        assert_eq!(written.stream.newest_seam(), 0);
        written.push(&[header_again.clone(), picture(false, 9)].concat(), at(1.0)).unwrap();
        assert_eq!((written.stream.newest_seam(), written.stream.seam_behind(0)), (seam, Some(seam)));
        assert!(
            written.stream.newest_entry().is_none() && written.stream.entry_to_join(None, at(1.0)).is_none()
        );
        written.push(&picture(true, 9), at(1.0)).unwrap();
        let entry = written.stream.newest_entry().unwrap();
        assert_eq!((entry.prelude(false), written.stream.seam_behind(entry.offset)), (header_again, None));
    }
}

#[test]
fn a_viewer_leaves_at_a_records_end_alone() {
    let mut written = Written::new();
    let long = picture(true, 10_000);
    written.push(&[header(1), long.repeat(10)].concat(), at(0.0)).unwrap();
    let length = long.len() as u64;
    for record in 0..10 {
        assert_eq!(written.stream.record_end(record * length + 1), (record + 1) * length);
        assert_eq!(written.stream.record_end(record * length + length), (record + 1) * length);
    }
    // Of one that is still to come, as far as it has.
    written.push(&long[..500], at(0.1)).unwrap();
    let head = written.stream.head();
    assert_eq!(written.stream.record_end(10 * length + 3), head);
    assert_eq!(written.stream.record_end(10 * length), 10 * length);
    // Ends of short records are remembered here and there: then one further on is told.
    let mut written = Written::new();
    written.push(&[header(1), picture(false, 100).repeat(1000)].concat(), at(0.0)).unwrap();
    let length = picture(false, 100).len() as u64;
    for offset in (1..1000 * length).step_by(777) {
        let end = written.stream.record_end(offset);
        assert!(end >= offset && end.is_multiple_of(length) && end - offset < 5000, "{offset}: {end}");
    }
}

#[test]
fn headers_that_change_hold_no_more_memory_than_the_stream() {
    let mut written = Written::new();
    let script = tag(18, &[1; 1000]).repeat(1000);
    let front = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";
    written.push(&[front, &script[..], &tag(9, &[0x17, 0, 0]), &picture(true, 9)].concat(), at(0.0)).unwrap();
    // Some bytes each time, so slowly that each key frame is a place to join.
    let mut pushes = 1_u8..200;
    let refused = pushes.find_map(|mark| {
        let bytes = [tag(9, &[0x17, 0, mark]), picture(true, 9)].concat();
        written.push(&bytes, at(f64::from(mark) * 0.2)).err()
    });
    let said = refused.expect("refused").to_string();
    assert!(said.contains("another header of"), "{said}");
    let mut held: Vec<Vec<u8>> = Vec::new();
    for back in 0..60 {
        let back = Prebuffer::Time(Duration::from_millis(back * 500));
        held.push(written.stream.entry_to_join(Some(back), at(40.0)).unwrap().prelude(false));
    }
    held.dedup();
    let bytes: usize = held.iter().map(Vec::len).sum();
    assert!(bytes < 6 << 20, "{bytes} bytes of headers for {} of the stream", written.file.len());
}

#[test]
fn what_waits_for_its_key_frame_too_long_is_entered_anywhere() {
    let mut written = Written::new();
    written.push(&header(1), at(0.0)).unwrap();
    for tick in 0..130 {
        written.push(&picture(false, 20), at(f64::from(tick) * 0.1)).unwrap();
        assert_eq!(written.stream.newest_entry().is_some(), tick > 120, "tick {tick}");
    }
}

#[test]
fn a_viewer_begins_as_far_back_as_it_wants_and_the_backlog_reaches() {
    let mut written = Written::new();
    written.push(&header(1), at(0.0)).unwrap();
    let group = [picture(true, 1000), picture(false, 1000).repeat(4)].concat();
    for second in 0..30 {
        written.push(&group, at(f64::from(second))).unwrap();
    }
    let (now, head) = (at(29.5), written.stream.head());
    let back = |prebuffer| head - written.stream.entry_to_join(prebuffer, now).unwrap().offset;
    let length = group.len() as u64;
    let time = |seconds: f64| Some(Prebuffer::Time(Duration::from_secs_f64(seconds)));
    assert_eq!(back(None), length);
    assert_eq!(back(time(0.5)), length);
    assert_eq!(back(time(0.6)), 2 * length);
    assert_eq!(back(time(2.5)), 3 * length);
    assert_eq!(back(Some(Prebuffer::Bytes(0))), length);
    assert_eq!(back(Some(Prebuffer::Bytes(length))), length);
    assert_eq!(back(Some(Prebuffer::Bytes(length + 1))), 2 * length);
    // Five seconds are kept.
    let oldest = back(time(500.0));
    assert!((5 * length..=6 * length).contains(&oldest), "{oldest}");
    assert_eq!(back(Some(Prebuffer::Bytes(1 << 40))), oldest);
    // And what the settings say counts for who says nothing.
    written.stream.reconfigure(Settings { prebuffer: Prebuffer::Bytes(2 * length), ..SETTINGS });
    assert_eq!(head - written.stream.entry_to_join(None, now).unwrap().offset, 2 * length);
    assert_eq!(head - written.stream.newest_entry().unwrap().offset, length);
}

#[test]
fn many_places_to_join_are_thinned_but_the_newest_is_exact() {
    let mut written = Written::new();
    let sound = tag(8, &[0x2F, 1, 2, 3]);
    written.push(b"FLV\x01\x04\0\0\0\x09\0\0\0\0", at(0.0)).unwrap();
    for tick in 0..2000 {
        written.push(&sound, at(f64::from(tick) * 0.01)).unwrap();
        let newest = written.stream.newest_entry().unwrap().offset;
        assert_eq!(newest + sound.len() as u64, written.stream.head());
    }
    let back = Prebuffer::Time(Duration::from_secs(3));
    let entry = written.stream.entry_to_join(Some(back), at(20.0)).unwrap();
    let ticks = (written.stream.head() - entry.offset) / sound.len() as u64;
    assert!((300..=312).contains(&ticks), "{ticks}");
}

#[test]
fn a_picture_in_parts_does_not_wait_for_the_next() {
    let mut written = Written::new();
    written.push(&[header(1), picture(true, 100)].concat(), at(0.0)).unwrap();
    written.stream.pause(at(0.0));
    written.stream.flushed();
    let long = picture(false, 3000);
    for (part, now) in [(&long[..1000], 0.04), (&long[1000..2000], 0.041), (&long[2000..], 0.042)] {
        written.push(part, at(now)).unwrap();
        assert!(written.stream.pause(at(now)), "at {now}");
        written.stream.flushed();
    }
}

#[test]
fn another_mux_is_refused() {
    let mut written = Written::new();
    let error = written.push(&[0x47; 376], at(0.0)).unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with("no sound FLV: begins with [47, 47, 47, 47]"), "{said}");
    assert!(written.file.is_empty());
}

#[test]
fn of_a_mux_that_is_not_known_the_blocks_tell_all() {
    let mut written = Written::of(Mux::Raw);
    assert_eq!(written.push(b"ftyp", at(0.0)), Err(StreamError::NoBlock));
    let now = at(0.0);
    written.block(Block::Header, 10, b"ftyp, moov", now).unwrap();
    written.block(Block::Rest, 5, b"mdat1", now).unwrap();
    assert!(written.stream.newest_entry().is_none());
    written.block(Block::Join, 12, b"moof, mdat 2", now).unwrap();
    written.block(Block::Rest, 5, b"mdat3", now).unwrap();
    let entry = written.stream.newest_entry().unwrap().clone();
    assert_eq!(written.from(&entry), b"ftyp, moovmoof, mdat 2mdat3");
    // A block is a record.
    assert_eq!((written.stream.record_end(0), written.stream.head()), (0, 22));
    assert!(written.stream.pause(now), "it does not wait for more");
    // The same header, again and again, changes nothing; another one does, and so does a block that is cut off.
    written.block(Block::Header, 10, b"ftyp, moov", now).unwrap();
    written.stream.begin_session(at(1.0));
    written.block(Block::Header, 10, b"ftyp, moov", now).unwrap();
    assert_eq!(written.stream.newest_seam(), 0);
    written.block(Block::Header, 4, b"ftyp", now).unwrap();
    assert_eq!((written.stream.newest_seam(), written.stream.newest_entry().is_none()), (22, true));
    written.block(Block::Join, 50, b"moof, mdat 2", now).unwrap();
    written.stream.begin_session(at(2.0));
    written.block(Block::Header, 4, b"ftyp", now).unwrap();
    assert_eq!((written.stream.newest_seam(), written.stream.seam_behind(22)), (34, Some(34)));
    let refused = written.stream.begin_block(Block::Header, 2 << 20, now);
    assert!(refused.unwrap_err().to_string().contains("a header of 2097152 bytes"));
}

#[test]
fn a_mux_may_need_no_header() {
    let mut written = Written::of(Mux::Raw);
    written.block(Block::Join, 3, b"mp3", at(0.0)).unwrap();
    written.block(Block::Header, 0, b"", at(0.0)).unwrap();
    written.block(Block::Join, 3, b"MP3", at(0.0)).unwrap();
    assert_eq!(written.stream.newest_seam(), 0);
    assert_eq!(written.from(written.stream.newest_entry().unwrap()), b"MP3");
    // Of a mux that is known, blocks say nothing.
    let mut written = Written::new();
    written.block(Block::Join, 3, &[header(1), picture(true, 9)].concat(), at(0.0)).unwrap();
    assert_eq!(written.from(written.stream.newest_entry().unwrap()), [header(1), picture(true, 9)].concat());
}

proptest! {
    #[test]
    fn any_chop_gives_the_same_file(
        pictures in prop::collection::vec((any::<bool>(), 1..3000usize), 1..12),
        cuts in prop::collection::vec(1usize..900, 1..30),
    ) {
        let body: Vec<u8> = pictures.iter().flat_map(|(key, length)| picture(*key, *length)).collect();
        let (wire, mut chopped) = ([header(1), body.clone()].concat(), Written::new());
        let (mut rest, mut cut) = (&wire[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (chop, tail) = rest.split_at((*cut.next().expect("cycles")).min(rest.len()));
            chopped.push(chop, at(0.0)).unwrap();
            rest = tail;
        }
        prop_assert_eq!(&chopped.file, &body);
        let newest = pictures.iter().rposition(|(key, _)| *key);
        let offset = newest.map(|index| {
            pictures[..index].iter().map(|(key, length)| picture(*key, *length).len() as u64).sum::<u64>()
        });
        prop_assert_eq!(chopped.stream.newest_entry().map(|entry| entry.offset), offset);
        // Every offset's record ends where a record does.
        for offset in (0..body.len() as u64).step_by(97) {
            let end = chopped.stream.record_end(offset);
            prop_assert!(end >= offset && end <= body.len() as u64);
        }
    }
}
