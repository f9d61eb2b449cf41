//! When recordings end and how long they are, without a network or a disk.

use super::*;
use proptest::prelude::*;

const FRAME: Duration = Duration::from_millis(20);

fn limits(length_ms: Option<u64>, silence_ms: Option<u64>) -> Limits {
    let millis = |limit: Option<u64>| limit.map(Duration::from_millis);
    Limits { length: millis(length_ms), silence: millis(silence_ms) }
}

fn passed(frames_ms: &[u64]) -> (Passed, impl Fn(u64) -> Instant) {
    let began = Instant::now();
    let at = move |millis| began + Duration::from_millis(millis);
    let mut passed = Passed { began, first: None, newest: None };
    frames_ms.iter().for_each(|millis| passed.note(at(*millis)));
    (passed, at)
}

#[test]
fn the_first_frame_is_at_zero_whatever_its_stamp() {
    let mut media = MediaTime::default();
    assert_eq!(media.push(u32::MAX - 7, FRAME), Duration::ZERO);
    assert_eq!(media.push(1_792, FRAME), FRAME);
}

#[test]
fn stamps_that_wrap_around_go_on() {
    let mut media = MediaTime::default();
    media.push(u32::MAX - 899, FRAME);
    assert_eq!(media.push(900, FRAME), FRAME);
    assert_eq!(media.push(91_800, FRAME).as_millis(), 1_030, "frames that are missing have their time");
}

#[test]
fn a_stamp_that_stands_still_goes_back_or_leaps_is_one_frame_on() {
    let mut media = MediaTime::default();
    media.push(1_000, FRAME);
    assert_eq!(media.push(1_000, FRAME), FRAME);
    assert_eq!(media.push(999, FRAME), FRAME * 2);
    assert_eq!(media.push(999 + STEP_MAX_TICKS, FRAME), FRAME * 2 + Duration::from_secs(60));
    let leapt = media.push(999 + 2 * STEP_MAX_TICKS + 1, FRAME);
    assert_eq!(leapt, FRAME * 3 + Duration::from_secs(60));
}

#[test]
fn silence_counts_from_the_beginning_and_then_from_the_newest_frame() {
    let limits = limits(None, Some(300));
    let (none, at) = passed(&[]);
    assert_eq!((none.end(limits, at(299)), none.end(limits, at(300))), (None, Some(Reason::Silence)));
    let (some, at) = passed(&[100, 250]);
    assert_eq!((some.end(limits, at(549)), some.end(limits, at(550))), (None, Some(Reason::Silence)));
}

#[test]
fn a_length_counts_from_the_first_frame_and_ends_where_frames_have_stopped() {
    let limits = limits(Some(1_000), None);
    let (none, at) = passed(&[]);
    assert_eq!(none.end(limits, at(60_000)), None, "a recording without a frame has not begun");
    let (some, at) = passed(&[400, 900]);
    assert_eq!(some.end(limits, at(1_399)), None, "frames have stopped, and the length is not there");
    assert_eq!(some.end(limits, at(1_400)), Some(Reason::SenderStopped));
    let (late, at) = passed(&[400, 1_300]);
    assert_eq!(late.end(limits, at(1_799)), None, "the length is there, and frames came just now");
    assert_eq!(late.end(limits, at(1_800)), Some(Reason::SenderStopped));
}

#[test]
fn without_limits_a_recording_never_ends_by_itself() {
    let (some, at) = passed(&[0]);
    assert_eq!(some.end(Limits::default(), at(86_400_000)), None);
    assert_eq!(some.longest_wait(Limits::default()), STOP_CHECK_INTERVAL);
}

#[test]
fn a_frame_is_waited_for_no_longer_than_the_shortest_limit() {
    let ((none, _), (some, _)) = (passed(&[]), passed(&[0]));
    let short = limits(Some(30), Some(70));
    assert_eq!(none.longest_wait(short).as_millis(), 70, "the length counts from the first frame on");
    assert_eq!(some.longest_wait(short).as_millis(), 30);
    assert_eq!(some.longest_wait(limits(Some(5_000), Some(5_000))), STOP_CHECK_INTERVAL);
}

#[test]
fn after_a_disk_has_failed_what_it_kept_is_what_there_is() {
    let counts = Counts::default();
    counts.frames.store(9, Ordering::Relaxed);
    counts.keep(Kept { frames: 3, bytes: 4_000 }, FRAME);
    let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
    assert_eq!((value(&counts.frames), value(&counts.bytes), value(&counts.nanos)), (3, 4_000, 60_000_000));
}

proptest! {
    #[test]
    fn stamps_in_order_add_up_to_the_time_from_the_first_to_the_last(
        start: u32, steps in prop::collection::vec(1..=STEP_MAX_TICKS, 0..50),
    ) {
        let (mut media, mut stamp, mut ticks) = (MediaTime::default(), start, 0_u64);
        media.push(start, FRAME);
        for step in steps {
            (stamp, ticks) = (stamp.wrapping_add(step), ticks + u64::from(step));
            let found = media.push(stamp, FRAME);
            let wanted = Duration::from_nanos(ticks * 100_000 / 9);
            // Each step is rounded down to a nanosecond.
            prop_assert!(found <= wanted && wanted - found <= Duration::from_nanos(50));
        }
    }
}
