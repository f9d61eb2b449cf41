//! What is kept of metadata, what it gives way to, and what of it goes on over epochs, jumps and returns.

use super::*;

#[test]
fn a_flood_of_metadata_is_bounded_while_no_picture_comes_and_cues_outlast_klv() {
    let dropped = |checked: &Checked| checked.packager.presentation().dropped_events();
    let mut checked = checked();
    feed(&mut checked, 0, 100, 50);
    let out = insert(7, Some(200 * PICTURE), true);
    checked.packager.push_data(CUES, cue(&out), BEGUN);
    let large = Bytes::from(vec![6; 65_000]);
    for number in 0..200 {
        // Due, and for a time far ahead.
        let pts = (number % 2 == 0).then_some(180 * PICTURE);
        checked.packager.push_data(KLV, klv_unit(large.clone(), pts), BEGUN);
    }
    let kept = (HELD_MAX_BYTES - out.len()) / large.len();
    assert_eq!(dropped(&checked), 200 - kept as u64);
    feed(&mut checked, 100, 1, 50);
    let (_, _, events) = chunks(&checked).pop().unwrap();
    assert!(events.iter().any(|event| event.message_data == out), "the cue is kept");
    assert!(events.iter().map(|event| event.message_data.len()).sum::<usize>() <= HELD_MAX_BYTES);
    let before = dropped(&checked);
    for _ in 0..1000 {
        checked.packager.push_data(KLV, klv_unit(klv(1), None), BEGUN);
    }
    assert!(dropped(&checked) - before >= 1000 - HELD_MAX as u64);
    // Of cues alone the oldest go.
    for event in 0..1000 {
        checked.packager.push_data(CUES, cue(&insert(event, Some(150 * PICTURE), true)), BEGUN);
    }
    feed(&mut checked, 101, 1, 50);
    let (_, _, events) = chunks(&checked).pop().unwrap();
    assert_eq!(events.len(), HELD_MAX);
    assert_eq!(events[0].message_data, insert(1000 - HELD_MAX as u32, Some(150 * PICTURE), true));
}

/// Pictures and sound that come in so many ticks later than their stamps say.
fn feed_later(checked: &mut Checked, from: i64, pictures: i64, later: i64) {
    for index in from..from + pictures {
        let pts = index * PICTURE;
        checked.push_at(VIDEO, &picture(index % 50 == 0, 100, pts), pts + later);
        checked.push_at(SOUND, &aac(60, pts), pts + later);
    }
}

#[test]
fn a_cue_is_announced_again_behind_a_jump_of_the_clock_and_a_publishers_return() {
    let out = insert(7, Some(140 * PICTURE), true);
    for returns in [false, true] {
        let mut checked = checked();
        feed_later(&mut checked, 0, 100, 0);
        checked.packager.push_data(CUES, cue(&out), BEGUN);
        feed_later(&mut checked, 100, 60, 0);
        assert_eq!(ranges(&checked).len(), 1);
        if returns {
            checked.packager.discontinuity(BEGUN, checked.pushed);
        }
        feed_later(&mut checked, 0, 100, 160 * PICTURE);
        for _ in 0..2 {
            checked.packager.push_data(CUES, cue(&out), BEGUN);
        }
        feed_later(&mut checked, 100, 2, 160 * PICTURE);
        let found = ranges(&checked);
        assert_eq!(found.len(), 2, "returns: {returns}: {found:?}");
        let date = |ticks| format!("START-DATE=\"{}\"", date(ticks));
        assert!(
            found[0].contains(&date(140 * PICTURE)) && found[1].contains(&date(300 * PICTURE)),
            "{found:?}"
        );
        let events = chunks(&checked).into_iter().flat_map(|(_, _, events)| events);
        let ids: Vec<_> = events.map(|event| event.id).collect();
        assert!(ids.len() == 3 && ids[0] != ids[1] && ids[1] == ids[2], "{ids:?}");
    }
}

#[test]
fn a_cue_behind_the_last_picture_of_an_epoch_stands_in_the_next_one() {
    let mut checked = checked();
    feed(&mut checked, 0, 100, 50);
    let out = insert(7, Some(200 * PICTURE), true);
    checked.packager.push_data(CUES, cue(&out), BEGUN);
    checked.packager.push_data(KLV, klv_unit(klv(1), None), BEGUN);
    checked.push(VIDEO, &other_key(100 * PICTURE));
    for index in 101..110 {
        checked.push(SOUND, &aac(60, index * PICTURE));
        checked.push(VIDEO, &picture(false, 100, index * PICTURE));
    }
    assert_eq!(checked.packager.presentation().current_epoch().unwrap().number, 2);
    let mut all = checked.segments.values();
    assert!(all.any(|grown| grown.bytes.windows(out.len()).any(|bytes| bytes == out)));
    assert_eq!(ranges(&checked).len(), 1);
    assert_eq!(checked.packager.presentation().dropped_events(), 1);
}

#[test]
fn a_break_that_does_not_end_by_itself_is_listed_until_it_is_returned_from() {
    let settings = Settings { window: std::time::Duration::from_secs(10), ..Settings::default() };
    let mut streams = video_and_aac().streams;
    streams.push(DataWriter::new(CUES, DataKind::Splice).announced());
    let mut checked = Checked::new(settings, &program(streams));
    feed(&mut checked, 0, 60, 50);
    for (event, returns) in [(1, true), (2, false)] {
        let out = insert_of(1, returns, event, Some(60 * PICTURE), true);
        checked.packager.push_data(CUES, cue(&out), BEGUN);
    }
    feed(&mut checked, 60, 1000, 50);
    let found = ranges(&checked);
    assert!(found.len() == 1 && found[0].contains("ID=\"splice-2-"), "{found:?}");
    let back = insert_of(1, false, 2, Some(1060 * PICTURE), false);
    checked.packager.push_data(CUES, cue(&back), BEGUN);
    assert_eq!(ranges(&checked).len(), 2);
    feed(&mut checked, 1060, 500, 50);
    assert_eq!(ranges(&checked), Vec::<String>::new());
}

#[test]
fn a_return_that_is_sent_again_or_moved_is_one_return() {
    let mut checked = checked();
    feed(&mut checked, 0, 100, 50);
    checked.packager.push_data(CUES, cue(&insert(7, Some(110 * PICTURE), true)), BEGUN);
    let mut back = |program, at: i64| {
        let back = insert_of(program, true, 7, Some(at * PICTURE), false);
        checked.packager.push_data(CUES, cue(&back), BEGUN);
        (ranges(&checked), back)
    };
    let (first, _) = back(1, 190);
    assert!(first.len() == 2 && first[1].contains("DURATION=3.200"), "{first:?}");
    let (again, _) = back(2, 191);
    assert_eq!(again, first, "other bytes for the same moment");
    let (moved, bytes) = back(1, 160);
    assert!(moved.len() == 2 && moved[0] == first[0], "{moved:?}");
    assert!(moved[1].contains(",DURATION=2.000,") && moved[1].ends_with(&hex(&bytes)), "{moved:?}");
    feed(&mut checked, 100, 80, 50);
    let late = insert(7, Some(250 * PICTURE), false);
    checked.packager.push_data(CUES, cue(&late), BEGUN);
    let found = ranges(&checked);
    assert!(found.len() == 3 && found[..2] == moved[..], "what has taken place stays: {found:?}");
}

#[test]
fn ranges_are_bounded_by_their_bytes_and_a_running_break_outlasts_other_cues() {
    let mut checked = checked();
    feed(&mut checked, 0, 100, 50);
    checked.packager.push_data(CUES, cue(&insert_of(1, false, 1, Some(100 * PICTURE), true)), BEGUN);
    for event in 0..200 {
        checked.packager.push_data(CUES, cue(&signal(event, 120 * PICTURE, 0x10)), BEGUN);
    }
    let found = ranges(&checked);
    assert_eq!(found.len(), 64);
    assert!(found[0].contains("ID=\"splice-1-"), "{}", found[0]);
    // What is over goes before what is ahead.
    for event in 0..3 {
        checked.packager.push_data(CUES, cue(&signal(1000 + event, 10 * PICTURE, 0x10)), BEGUN);
    }
    assert!(ranges(&checked)[1..].iter().all(|line| !line.contains("segmentation-100")));
    // As many descriptors as a section has room for.
    for event in 0..64 {
        let mut descriptors = Vec::new();
        for number in 0..235u32 {
            let one = &signal(event << 8 | number, 0, 0x34)[21..38];
            descriptors.extend_from_slice(one);
        }
        let time = (0xfe_0000_0000u64 | (300 * PICTURE) as u64).to_be_bytes();
        let data = section(&time[3..], 6, &descriptors);
        assert!(data.len() > 4000 && data.len() <= 4096, "{}", data.len());
        checked.packager.push_data(CUES, cue(&data), BEGUN);
        let bytes: usize = ranges(&checked).iter().map(String::len).sum();
        assert!(bytes < 150 << 10, "{bytes} bytes of one playlist");
        if event == 0 {
            let lines = ranges(&checked);
            let taken = lines.iter().filter(|line| line.len() > 8000).count();
            assert_eq!(taken, 8);
        }
    }
}

#[test]
fn more_streams_of_data_than_are_followed_are_left_out_and_cues_are_followed_first() {
    let mut streams = video_and_aac().streams;
    for number in 0..9 {
        streams.push(DataWriter::new(KLV + number, DataKind::Klv { synchronous: true }).announced());
    }
    streams.push(DataWriter::new(0x300, DataKind::Splice).announced());
    let checked = Checked::new(Settings::default(), &program(streams));
    let followed: Vec<_> =
        checked.packager.presentation().event_streams().iter().map(|stream| stream.pid).collect();
    assert_eq!(followed, (KLV..KLV + 7).chain([0x300]).collect::<Vec<_>>());
    let left_out: Vec<_> = checked.packager.left_out().iter().map(|left| left.pid).collect();
    assert_eq!(left_out, [KLV + 7, KLV + 8]);
}
