use super::*;

#[test]
fn the_oldest_message_says_whether_the_link_is_behind() {
    let (mut state, second) = (State::default(), Duration::from_secs(1));
    assert!(!state.is_behind(Duration::ZERO));
    let now = Instant::now();
    state.under_way.insert(MessageId(7), now.checked_sub(second).unwrap());
    state.under_way.insert(MessageId(8), now);
    assert!(state.is_behind(second) && !state.is_behind(second * 3600));
    state.under_way.remove(&MessageId(7));
    assert!(!state.is_behind(second * 3600));
    // A link that is lost takes the rest with it.
    state.tear();
    assert_eq!((state.figures.torn, state.under_way.len()), (1, 0));
}
