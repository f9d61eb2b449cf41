use super::*;
use glassline_media::Utc;
use glassline_media::bitstream::h264::units::Piece;

fn item(number: u64, key: bool) -> CodedItem {
    let piece = Piece { data: bytes::Bytes::new(), key, reference: true, continues: false };
    CodedItem {
        piece,
        captured: Time::from_millis(number),
        captured_utc: Utc::default(),
        rate: None,
        follows_gap: false,
    }
}

fn taken(units: &Units) -> Vec<u64> {
    std::iter::from_fn(|| match units.take(Some(Duration::ZERO)) {
        Taken::Item(item) => Some(item.captured.as_nanos() / 1_000_000),
        Taken::Timeout | Taken::End => None,
    })
    .collect()
}

#[test]
fn what_comes_all_at_once_begins_with_its_newest_key_frame() {
    let units = Units::default();
    for number in 0..40 {
        assert!(units.push(item(number, number % 10 == 0)));
    }
    assert_eq!(taken(&units), (30..40).collect::<Vec<_>>());
    // Without one among those that wait, the next is waited for.
    for number in 0..45 {
        units.push(item(number, number == 0 || number == 41));
    }
    assert_eq!(taken(&units), [41, 42, 43, 44]);
}

#[test]
fn a_key_frame_is_not_waited_for_for_ever() {
    let units = Units::default();
    for number in 0..=WAITING_MAX as u64 {
        units.push(item(number, number == 0));
    }
    assert_eq!(taken(&units), [] as [u64; 0]);
    let due = WAITING_MAX as u64 + KEY_REQUEST_TIMEOUT.as_millis() as u64;
    for number in due - 3..due + 3 {
        units.push(item(number, false));
    }
    assert_eq!(taken(&units), [due, due + 1, due + 2]);
}

#[test]
fn the_rest_of_a_key_frame_is_no_place_to_begin_at() {
    let units = Units::default();
    for number in 0..WAITING_MAX as u64 {
        let mut piece = item(number, number == 10 || number == 11);
        piece.piece.continues = number == 11;
        units.push(piece);
    }
    units.push(item(32, false));
    assert_eq!(taken(&units), (10..=32).collect::<Vec<_>>());
}

#[test]
fn a_reader_that_waits_gets_the_unit_that_comes_and_the_end_behind_it() {
    let units = Units::default();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| units.take(Some(Duration::from_secs(60))));
        units.push(item(5, true));
        assert!(matches!(reader.join().unwrap(), Taken::Item(item) if item.captured == Time::from_millis(5)));
    });
    assert!(matches!(units.take(Some(Duration::ZERO)), Taken::Timeout) && !units.is_over());
    units.push(item(6, false));
    units.end(Ok(()));
    assert!(units.is_over() && taken(&units) == [6]);
    assert!(matches!(units.take(Some(Duration::from_secs(60))), Taken::End));
}

#[test]
fn a_source_is_told_that_no_more_units_are_wanted() {
    let units = Units::default();
    assert!(units.push(item(0, true)));
    units.stop();
    assert!(!units.push(item(1, false)));
    // What has come is dropped with it: the session ends.
    assert_eq!(taken(&units), [] as [u64; 0]);
    assert!(matches!(units.take(Some(Duration::from_secs(60))), Taken::End) && units.is_over());
    units.look(|_, policy| policy.waits_for_key = true);
    assert!(!units.push(item(2, false)), "one that is left out tells it too");
}
