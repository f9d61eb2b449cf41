use super::super::index::testing::*;
use super::super::index::{Hole, HoleReason, Line};
use super::*;
use crate::packager::later;
use std::time::Duration;

const VIDEO: RenditionName = RenditionName::Video;
const AUDIO: RenditionName = RenditionName::Audio(1);

fn after(seconds: u64) -> Utc {
    later(BEGUN, Duration::from_secs(seconds))
}

fn source(recording: &Recording, is_running: bool) -> Source<'_> {
    Source { recording, is_running }
}

fn numbers(window: &Window<'_>) -> Vec<u64> {
    window.rows().iter().map(|row| row.number).collect()
}

#[test]
fn a_window_has_what_overlaps_its_time() {
    let recording = recording(BEGUN, (100..110).map(|number| (number, 1)));
    let of = |from: Utc, to: Option<Utc>| {
        Window::of(&[source(&recording, false)], Some(Span { from, to }), after(100)).unwrap()
    };
    assert_eq!(numbers(&of(after(4), Some(after(8))).unwrap()), [102, 103]);
    assert_eq!(numbers(&of(after(5), Some(after(9))).unwrap()), [102, 103, 104]);
    assert_eq!(numbers(&of(after(17), None).unwrap()), [108, 109]);
    assert!(of(after(20), None).is_none());
    assert!(of(Utc::default(), Some(BEGUN)).is_none());
    assert!(Window::of(&[], None, BEGUN).unwrap().is_none());
    let all = Window::of(&[source(&recording, false)], None, after(100)).unwrap().unwrap();
    assert_eq!((all.rows().len(), all.renditions()), (10, vec![VIDEO, AUDIO]));
    assert!(!all.is_growing());
}

#[test]
fn a_window_grows_until_its_end_is_recorded() {
    let recording = recording(BEGUN, (100..105).map(|number| (number, 1)));
    let of = |to: Option<u64>, running, now| {
        let span = Span { from: BEGUN, to: to.map(after) };
        let window = Window::of(&[source(&recording, running)], Some(span), after(now)).unwrap().unwrap();
        (window.is_growing(), window.is_awaited())
    };
    assert_eq!(of(None, true, 10), (true, false));
    assert_eq!(of(Some(60), true, 10), (true, false));
    assert_eq!(of(Some(10), true, 10), (false, false));
    assert_eq!(of(Some(11), true, 11), (true, true), "captured, and not recorded yet");
    assert_eq!(of(Some(11), false, 11), (false, false));
    assert_eq!(of(None, false, 10), (false, false));
}

#[test]
fn runs_end_at_epochs_holes_and_recordings() {
    let first = recording(BEGUN, [(100, 1), (101, 1), (102, 2), (103, 2), (106, 2)]);
    let second = recording(after(60), [(100, 1), (101, 1)]);
    let sources = [source(&first, false), source(&second, false)];
    let window = Window::of(&sources, None, after(100)).unwrap().unwrap();
    assert_eq!(window.runs(Cut::Nowhere), [0..2, 2..4, 4..5, 5..7]);
    assert_eq!(window.runs(Cut::AtGaps), [0..2, 2..4, 4..5, 5..7]);
}

#[test]
fn what_one_rendition_lacks_is_a_gap_and_no_discontinuity() {
    let mut lossy = recording(BEGUN, (100..106).map(|number| (number, 1)));
    let hole = |first, last, rendition| {
        Line::Hole(Hole { rendition, first, last, from: BEGUN, to: BEGUN, reason: HoleReason::Spool })
    };
    lossy.add(1, hole(102, 102, AUDIO));
    lossy.add(1, hole(104, 104, VIDEO));
    let window = Window::of(&[source(&lossy, false)], None, after(100)).unwrap().unwrap();
    assert_eq!(window.runs(Cut::Nowhere), vec![0..6]);
    assert_eq!(window.runs(Cut::AtGaps), [0..2, 2..3, 3..4, 4..5, 5..6]);
    assert!(window.rows()[2].segment(AUDIO).is_none() && window.rows()[2].segment(VIDEO).is_some());
    assert_eq!(window.rows()[4].utc, after(8), "sound tells the time where there are no pictures");
}

#[test]
fn a_row_of_a_running_recording_waits_for_its_slower_rendition() {
    let mut recording = recording(BEGUN, (100..104).map(|number| (number, 1)));
    let of = |recording: &Recording| {
        numbers(&Window::of(&[source(recording, true)], None, after(100)).unwrap().unwrap())
    };
    recording.add(0, Line::Segment(VIDEO, segment(BEGUN, 104, 1, 90_000)));
    assert_eq!(of(&recording), [100, 101, 102, 103]);
    recording.add(0, Line::Segment(VIDEO, segment(BEGUN, 105, 1, 90_000)));
    assert_eq!(of(&recording), [100, 101, 102, 103]);
    // Sound has stopped: pictures go on without it.
    for number in 106..110 {
        recording.add(0, Line::Segment(VIDEO, segment(BEGUN, number, 1, 90_000)));
    }
    assert_eq!(of(&recording), (100..=109).collect::<Vec<_>>());
    // Another epoch begins, with sound again perhaps: its first row waits until it is known to have none.
    recording.add(0, Line::Track(VIDEO, video(2)));
    recording.add(0, Line::Segment(VIDEO, segment(BEGUN, 110, 2, 90_000)));
    assert_eq!(of(&recording).last(), Some(&109));
    (111..114).for_each(|number| {
        recording.add(0, Line::Segment(VIDEO, segment(BEGUN, number, 2, 90_000)));
    });
    assert_eq!(of(&recording).last(), Some(&113));
}

#[test]
fn a_list_does_not_end_before_its_last_segments() {
    let mut recording = recording(BEGUN, (100..104).map(|number| (number, 1)));
    recording.add(0, Line::Segment(VIDEO, segment(BEGUN, 104, 1, 90_000)));
    let span = Span { from: BEGUN, to: Some(after(9)) };
    let of = |recording: &Recording| {
        let window = Window::of(&[source(recording, true)], Some(span), after(100)).unwrap().unwrap();
        (window.rows().len(), window.is_growing())
    };
    assert_eq!(of(&recording), (4, true), "the sound of that time is still coming");
    recording.add(0, Line::Segment(AUDIO, segment(BEGUN, 104, 1, 48_000)));
    assert_eq!(of(&recording), (5, false));
}

#[test]
fn more_than_a_day_is_too_long_for_one_playlist() {
    let recording = recording(BEGUN, (100..100 + ROWS_MAX as u64 + 1).map(|number| (number, 1)));
    let of = |span, running| Window::for_playlist(&[source(&recording, running)], span, BEGUN);
    let whole = Span { from: BEGUN, to: Some(after(10 * 86_400)) };
    let late = after(11 * 86_400);
    let long = Window::for_playlist(&[source(&recording, false)], Some(whole), late);
    assert_eq!(long.map(|_| ()), Err(TooLong { max: ROWS_MAX }));
    assert!(TooLong { max: ROWS_MAX }.to_string().contains("more than 43200 segments"));
    // Without an end it ends there, and the newest counts where no time was asked for.
    let open = of(Some(Span { from: BEGUN, to: None }), true).unwrap().unwrap();
    assert_eq!((open.rows()[0].number, open.rows().len()), (100, ROWS_MAX));
    assert!(!open.is_growing() && open.is_event());
    let newest = of(None, false).unwrap().unwrap();
    assert_eq!((newest.rows()[0].number, newest.rows().len()), (101, ROWS_MAX));
    // What is no playlist has another bound.
    assert_eq!(
        Window::of(&[source(&recording, false)], None, BEGUN).unwrap().unwrap().rows().len(),
        ROWS_MAX + 1
    );
}

#[test]
fn a_list_without_an_end_ends_after_a_day() {
    let mut recording = recording(BEGUN, (100..110).map(|number| (number, 1)));
    let day = SPAN_MAX.as_secs();
    let of = |recording: &Recording| {
        let span = Span { from: BEGUN, to: None };
        let window = Window::for_playlist(&[source(recording, true)], Some(span), after(day + 100)).unwrap();
        let window = window.unwrap();
        (window.rows().iter().filter(|row| row.segment(VIDEO).is_some()).count(), window.is_growing())
    };
    assert_eq!(of(&recording), (10, true));
    for number in 0..3 {
        add_both(&mut recording, BEGUN, 100 + day / 2 + number, 1);
    }
    assert_eq!(of(&recording), (10, false));
}

#[test]
fn a_list_that_grows_keeps_the_rows_that_were_dropped() {
    let mut recording = recording(BEGUN, (100..110).map(|number| (number, 1)));
    let open = Some(Span { from: BEGUN, to: None });
    let of = |recording: &Recording, span| {
        let window = Window::for_playlist(&[source(recording, true)], span, after(19)).unwrap().unwrap();
        let rows = window.rows().iter().map(|row| (row.number, row.utc, row.end));
        (rows.collect::<Vec<_>>(), window.runs(Cut::Nowhere))
    };
    let before = of(&recording, open);
    let hole = |first: u64, last: u64, rendition| {
        let (from, to) = (after((first - 100) * 2), after((last - 99) * 2));
        Line::Hole(Hole { rendition, first, last, from, to, reason: HoleReason::Spool })
    };
    for (first, last) in [(100, 101), (104, 105), (109, 109)] {
        recording.add(1, hole(first, last, VIDEO));
        recording.add(1, hole(first, last, AUDIO));
    }
    assert_eq!(of(&recording, open), before);
    let over = Window::for_playlist(&[source(&recording, false)], None, after(1000)).unwrap().unwrap();
    assert_eq!((numbers(&over), over.runs(Cut::Nowhere)), (vec![102, 103, 106, 107, 108], vec![0..2, 2..5]));
    // With an end, as long as it was seen growing a moment ago.
    let to = |seconds| Some(Span { from: BEGUN, to: Some(after(seconds)) });
    assert_eq!(of(&recording, to(18)).0.len(), 9);
    // A hole of unknown times is as long as what lies beside it.
    let mut odd = recording_of_holes();
    let lengths = |recording: &Recording| {
        let window = Window::for_playlist(&[source(recording, true)], open, after(19)).unwrap().unwrap();
        window.rows().iter().map(|row| row.end.as_nanos() - row.utc.as_nanos()).max().unwrap()
    };
    assert_eq!(lengths(&odd), 2_000_000_000);
    odd.add(1, Line::Hole(Hole { from: after(1000), to: BEGUN, ..lost(99) }));
    assert_eq!(lengths(&odd), 2_000_000_000);
    // A number that is far away is no row each.
    recording.add(1, hole(111, u64::MAX / 4, VIDEO));
    for (name, timescale) in [(VIDEO, 90_000), (AUDIO, 48_000)] {
        let far = RecordedSegment { number: u64::MAX / 2, ..segment(BEGUN, 110, 1, timescale) };
        recording.add(1, Line::Segment(name, far));
    }
    assert_eq!(of(&recording, open).0.len(), 10);
}

fn lost(first: u64) -> Hole {
    Hole { rendition: VIDEO, first, last: 101, from: Utc::default(), to: after(4), reason: HoleReason::Spool }
}

fn recording_of_holes() -> Recording {
    let mut recording = recording(BEGUN, (102..110).map(|number| (number, 1)));
    recording.add(1, Line::Hole(lost(100)));
    recording
}

#[test]
fn what_is_added_stands_behind_what_was_told() {
    let first = recording(BEGUN, (100..110).map(|number| (number, 1)));
    let second = recording(after(60), (100..110).map(|number| (number, 1)));
    let of = |is_running| {
        let sources = [source(&first, is_running), source(&second, true)];
        let span = Span { from: BEGUN, to: None };
        Window::for_playlist(&sources, Some(span), after(90)).unwrap().unwrap().rows().len()
    };
    assert_eq!((of(true), of(false)), (10, 20), "the first one may still say something");
}

#[test]
fn a_list_with_an_end_to_come_is_at_its_end_what_it_was() {
    let recording = recording(BEGUN, (100..110).map(|number| (number, 1)));
    let of = |to, now, is_running| {
        let span = Span { from: BEGUN, to: Some(after(to)) };
        let window = Window::for_playlist(&[source(&recording, is_running)], Some(span), after(now));
        let window = window.unwrap().unwrap();
        (window.is_event(), window.is_growing())
    };
    assert_eq!(of(25, 19, true), (true, true));
    assert_eq!(of(20, 21, true), (true, false));
    assert_eq!(of(20, 100, true), (false, false));
    // It ends where one without an end does.
    let day = SPAN_MAX.as_secs();
    assert_eq!(of(3 * day, 19, true), (true, true));
}

#[test]
fn without_a_time_it_is_what_there_is_and_leads_to_a_list_that_grows() {
    let recording = recording(BEGUN, (100..110).map(|number| (number, 1)));
    let of = |is_running| {
        let window =
            Window::for_playlist(&[source(&recording, is_running)], None, after(100)).unwrap().unwrap();
        (window.is_growing(), window.is_event(), window.span())
    };
    assert_eq!(of(true), (false, false, Some(Span { from: BEGUN, to: None })));
    assert_eq!(of(false), (false, false, None));
}

#[test]
fn rows_begin_at_the_time_also_where_a_clock_was_set_back() {
    for back in [0, 3600] {
        let mut recording = recording(BEGUN, (100..150).map(|number| (number, 1)));
        for number in 150..200 {
            let mut segment = segment(BEGUN, number, 1, 90_000);
            segment.utc = Utc::from_nanos(segment.utc.as_nanos() - back * 1_000_000_000);
            recording.add(0, Line::Segment(VIDEO, segment));
        }
        assert_eq!(recording.is_ordered(), back == 0);
        for from in [0, 1, 2, 37, 98, 99, 100, 150, 199, 200] {
            let span = Span { from: after(from), to: None };
            let window = Window::of(&[source(&recording, false)], Some(span), after(300)).unwrap();
            let walked = (100..200u64).filter(|number| {
                let end = recording.segment(VIDEO, *number).unwrap().end_utc(90_000);
                end > after(from)
            });
            assert_eq!(
                window.map_or(Vec::new(), |window| numbers(&window)),
                walked.collect::<Vec<_>>(),
                "{from}"
            );
        }
    }
}

#[test]
fn the_first_row_of_an_epoch_waits_for_the_second() {
    let mut recording = Recording::new(name(), session());
    recording.add(0, Line::Track(VIDEO, video(1)));
    recording.add(0, Line::Segment(VIDEO, segment(BEGUN, 100, 1, 90_000)));
    let of = |recording: &Recording| {
        Window::of(&[source(recording, true)], None, after(100)).unwrap().map(|window| window.renditions())
    };
    assert_eq!(of(&recording), None, "its sound may be coming");
    recording.add(0, Line::Track(AUDIO, audio(1)));
    recording.add(0, Line::Segment(AUDIO, segment(BEGUN, 100, 1, 48_000)));
    add_both(&mut recording, BEGUN, 101, 1);
    assert_eq!(of(&recording), Some(vec![VIDEO, AUDIO]));
}
