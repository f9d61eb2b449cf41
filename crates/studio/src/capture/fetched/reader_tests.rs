use super::super::testing::{Source, muxer, picture, write};
use super::*;
use glassline_media::Codec;
use glassline_media::container::ts::UnitHead;

/// Pictures that are there, each with how it follows and when it came.
fn found(reader: &mut Reader) -> Vec<(Vec<u8>, Follows, Time)> {
    let mut found = Vec::new();
    loop {
        match reader.next(Duration::ZERO).unwrap() {
            Next::Unit { unit, follows, came, .. } => found.push((unit.data.to_vec(), follows, came)),
            Next::Nothing => return found,
            Next::Program(_) | Next::Gap => {}
        }
    }
}

fn earlier(now: Time, millis: u64) -> Time {
    Time::from_nanos(now.as_nanos() - millis * 1_000_000)
}

#[test]
fn the_rest_of_a_picture_that_was_taken_for_whole_is_no_beginning_and_a_wrong_guess() {
    let clock = Clock::new();
    let mut reader = Reader::new(Source::new(), clock);
    let now = clock.now();
    for number in 0..20 {
        reader.pauses.handle_bytes(true, earlier(now, (20 - number) * 40));
    }
    let mut muxer = muxer(Codec::H264);
    let mut begin = |number: i64| {
        let mut packets = Vec::new();
        let dts = Ticks(90_000 + number * 3600);
        let head = UnitHead { pts: dts, dts, random_access: number == 0, captured: None };
        muxer.begin(&head, &mut packets).unwrap();
        muxer.slice(&[&picture(number as u64)[..], &[7; 1000]].concat(), &mut packets);
        let begun = packets.len();
        muxer.slice(&[7; 1000], &mut packets);
        let rest = packets.split_off(begun);
        (packets, rest)
    };
    let (first, rest) = begin(0);
    reader.take(&first);
    assert!(reader.pauses.poll_timeout().is_some());
    reader.handle_pause();
    thread::sleep(Duration::from_millis(2));
    reader.take(&rest);
    assert!(reader.pauses.inner >= Duration::from_millis(2), "{:?}", reader.pauses.inner);
    reader.handle_pause();
    let follows = reader.found.drain(..).filter_map(|next| match next {
        Next::Unit { follows, .. } => Some(follows),
        _ => None,
    });
    assert_eq!(follows.collect::<Vec<_>>(), [Follows::Directly, Follows::Rest]);
    thread::sleep(Duration::from_millis(20));
    let before = clock.now();
    reader.take(&begin(1).0);
    assert!(reader.began >= before, "another one has begun");
    assert_eq!(reader.pauses.poll_timeout(), None, "it guesses on");
}

#[test]
fn what_was_there_already_has_come_in_the_course_of_its_own_time() {
    let source = Source::new();
    let (mut publisher, mut muxer) = (source.publish(), muxer(Codec::H264));
    // One key frame, and two seconds behind it.
    let numbers: Vec<u64> = (0u64..50).filter(|number| *number == 0 || !number.is_multiple_of(5)).collect();
    for number in &numbers {
        publisher.push(&write(&mut muxer, *number, 0, picture(*number))).unwrap();
    }
    let clock = Clock::new();
    let mut reader = Reader::new(source, clock);
    let before = clock.now();
    let units = found(&mut reader);
    let after = clock.now();
    assert_eq!(units.len(), numbers.len());
    for ((data, _, came), number) in units.iter().zip(&numbers) {
        let ago = (49 - number) * 40;
        assert_eq!(*data, picture(*number));
        assert!((earlier(before, ago)..=earlier(after, ago)).contains(came), "{number}: {came:?}");
    }
    // What comes behind it comes now.
    let before = clock.now();
    publisher.push(&write(&mut muxer, 51, 0, picture(51))).unwrap();
    assert!(found(&mut reader).iter().all(|(_, _, came)| *came >= before));
}

#[test]
fn a_reader_that_fell_behind_forgets_the_picture_that_it_had_begun() {
    let source = Source::new();
    let (mut publisher, mut muxer) = (source.publish(), muxer(Codec::H264));
    publisher.push(&write(&mut muxer, 0, 0, picture(0))).unwrap();
    let mut reader = Reader::new(Arc::clone(&source) as _, Clock::new());
    assert_eq!(found(&mut reader).len(), 1);
    let mut packets = Vec::new();
    let dts = Ticks(93_600);
    muxer.begin(&UnitHead { pts: dts, dts, random_access: false, captured: None }, &mut packets).unwrap();
    muxer.slice(&[&picture(1)[..], &[7; 1000]].concat(), &mut packets);
    publisher.push(&packets).unwrap();
    assert_eq!(found(&mut reader).len(), 0);
    assert!(reader.demuxer.begun_bytes() > 0);
    // More than is kept.
    let mut sent = Vec::new();
    for number in 5..5 * 8 {
        let data = [&picture(number)[..], &[9; 60_000]].concat();
        publisher.push(&write(&mut muxer, number, 0, data.clone())).unwrap();
        sent.push(data);
    }
    let units = found(&mut reader);
    assert!(!units.is_empty() && units.iter().all(|(data, ..)| sent.contains(data)));
}
