use super::*;
use glassline_delivery::policy::MarkRange;

fn socket() -> Connection {
    Connection::pair(4096).expect("a pair of sockets").0
}

fn pool() -> MarkRange {
    MarkRange::new(10, 11).expect("two marks")
}

#[test]
fn a_viewer_that_finds_the_pool_empty_is_counted_and_served_without_a_mark_of_its_own() {
    let marker = Marker::default();
    marker.hold(10);
    marker.hold(11);
    assert_eq!((marker.in_use(), marker.exhausted()), (2, 0));
    let marking = Marking { shared: None, pool: Some(pool()), ..Marking::default() };
    assert_eq!(marker.mark(&socket(), marking), None);
    assert_eq!((marker.in_use(), marker.exhausted()), (2, 1));
    // The mark that it shares is none to give back.
    let marking = Marking { shared: Some(7), pool: Some(pool()), ..Marking::default() };
    assert_eq!(marker.mark(&socket(), marking), None);
    assert_eq!((marker.in_use(), marker.exhausted()), (2, 2));
}

#[test]
fn a_mark_is_in_use_from_its_viewers_coming_to_its_going() {
    let (marker, marking) =
        (Marker::default(), Marking { shared: None, pool: Some(pool()), ..Marking::default() });
    let own = marker.mark(&socket(), marking);
    // Not every process may mark its connections. Where it may not, the mark is free again.
    assert_eq!(own.is_some(), glassline_io::tcp::may_mark().is_ok());
    assert_eq!(marker.in_use(), usize::from(own.is_some()));
    assert!(own.is_none_or(|mark| pool().contains(mark)));
    if let Some(mark) = own {
        marker.give_back(mark);
    }
    assert_eq!((marker.in_use(), marker.exhausted()), (0, 0));
}

#[test]
fn a_viewer_of_another_process_keeps_its_mark_and_gives_it_back_here() {
    let marker = Marker::default();
    marker.hold(10);
    marker.hold(10);
    assert_eq!(marker.in_use(), 1);
    marker.give_back(10);
    marker.give_back(11);
    assert_eq!(marker.in_use(), 0);
}

#[test]
fn where_no_marks_are_wanted_none_are_taken() {
    let marker = Marker::default();
    assert_eq!(marker.mark(&socket(), Marking::default()), None);
    assert_eq!((marker.in_use(), marker.exhausted()), (0, 0));
}
