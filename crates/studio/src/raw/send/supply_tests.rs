use super::*;
use glassline_io::pages::Pool;

fn blocks(pool: &Pool, count: u8) -> Vec<Block> {
    let block = |number| {
        let mut block = pool.take().expect("room");
        block.bytes_mut()[0] = number;
        block
    };
    (0..count).map(block).collect()
}

/// The first byte of the next frame and its number; `None` at the end.
fn frame(supply: &mut Supply) -> Option<(u8, u64)> {
    match supply.next() {
        Next::Frame { bytes, number, .. } => Some((bytes[0], number)),
        Next::Nothing => panic!("a frame or the end"),
        Next::End => None,
    }
}

#[test]
fn frames_in_memory_are_given_once_in_their_order() {
    let pool = Pool::new(64, 3).unwrap();
    let mut supply = Supply::Kept { blocks: blocks(&pool, 3), looped: false, next: 0 };
    let given: Vec<_> = std::iter::from_fn(|| frame(&mut supply)).collect();
    assert_eq!(given, [(0, 0), (1, 1), (2, 2)]);
    assert_eq!(frame(&mut supply), None, "the end stays the end");
}

#[test]
fn frames_that_go_round_begin_again_with_the_number_of_the_first() {
    let pool = Pool::new(64, 2).unwrap();
    let mut supply = Supply::Kept { blocks: blocks(&pool, 2), looped: true, next: 0 };
    let given: Vec<_> = (0..5).map(|_| frame(&mut supply)).collect();
    assert_eq!(given, [Some((0, 0)), Some((1, 1)), Some((0, 0)), Some((1, 1)), Some((0, 0))]);
}

#[test]
fn no_frames_in_memory_are_an_end_though_they_go_round() {
    let mut supply = Supply::Kept { blocks: Vec::new(), looped: true, next: 0 };
    assert_eq!(frame(&mut supply), None);
}

#[test]
fn a_frame_from_memory_has_no_time_of_its_own() {
    let pool = Pool::new(64, 1).unwrap();
    let mut supply = Supply::Kept { blocks: blocks(&pool, 1), looped: false, next: 0 };
    assert!(matches!(supply.next(), Next::Frame { captured: None, ready: None, .. }));
}

#[test]
fn a_frame_from_the_queue_keeps_its_memory_until_the_next_one_is_asked_for() {
    let (pool, queue) = (Pool::new(64, 2).unwrap(), Arc::new(Queue::default()));
    for (number, block) in (10..).zip(blocks(&pool, 2)) {
        let captured = Some(Time::from_millis(number));
        assert!(queue.push(Frame { block, captured, ready: Time::from_millis(number + 1), number }));
    }
    let mut supply = Supply::Queue { queue: Arc::clone(&queue), current: None };
    let Next::Frame { bytes, captured, ready, number } = supply.next() else { panic!("two frames wait") };
    assert_eq!((bytes[0], number), (0, 10));
    assert_eq!((captured, ready), (Some(Time::from_millis(10)), Some(Time::from_millis(11))));
    assert_eq!(pool.free(), 0, "the first frame is being sent");
    assert_eq!(frame(&mut supply), Some((1, 11)));
    assert_eq!(pool.free(), 1, "the first frame is done with");
    queue.stop();
    assert_eq!((frame(&mut supply), pool.free()), (None, 2), "the last one is done with though none follows");
}

#[test]
fn an_empty_queue_is_waited_for_and_a_stopped_one_is_an_end() {
    let queue = Arc::new(Queue::default());
    let mut supply = Supply::Queue { queue: Arc::clone(&queue), current: None };
    assert!(matches!(supply.next(), Next::Nothing));
    queue.stop();
    assert!(matches!(supply.next(), Next::End));
}
