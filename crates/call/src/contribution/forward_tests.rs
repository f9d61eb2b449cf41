use super::*;
use glassline_test_support::wait::PATIENCE;

/// What comes of following a stream of which each read is told by its number.
fn following(read: impl Fn(u32) -> io::Result<Read>) -> (io::Result<()>, u32) {
    let (outgoing, shared, mut count) = (Outgoing::new(PATIENCE, false), Shared::default(), 0);
    // The thread does not wait between two of them.
    let read = |_: &mut [u8]| {
        thread::current().unpark();
        count += 1;
        read(count)
    };
    let ended = follow(read, &outgoing, &shared, &mut false);
    (ended, count)
}

fn unreadable() -> io::Result<Read> {
    Err(io::ErrorKind::OutOfMemory.into())
}

#[test]
fn a_stream_that_cannot_be_read_is_given_up_after_some_tries() {
    let (ended, count) = following(|number| if number <= 100 { unreadable() } else { Ok(Read::Ended) });
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    assert_eq!(count, READ_TRIES);
}

#[test]
fn one_that_is_read_in_between_goes_on() {
    let (ended, count) = following(|number| match number {
        100 => Ok(Read::Ended),
        number if number.is_multiple_of(READ_TRIES) => Ok(Read::Pending),
        _ => unreadable(),
    });
    ended.unwrap();
    assert_eq!(count, 100);
}
