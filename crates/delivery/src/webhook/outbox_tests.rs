use super::*;
use glassline_media::Utc;
use proptest::prelude::*;
use serde_json::json;

const OK: Outcome = Outcome::Answered { status: 200, retry_after: None };

fn answered(status: u16) -> Outcome {
    Outcome::Answered { status, retry_after: None }
}

fn message(number: u64) -> Message {
    let mut random = [0; 16];
    random[..8].copy_from_slice(&number.to_le_bytes());
    Message::new("alarm.begun", Utc::from_nanos(0), &json!({ "number": number }), random).unwrap()
}

fn number(message: &Message) -> u64 {
    serde_json::from_slice::<serde_json::Value>(message.body()).unwrap()["number"].as_u64().unwrap()
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn outbox(policy: Policy) -> Outbox {
    Outbox::new(policy, 7)
}

/// The numbers of those that go out when each attempt is answered by `outcome`, without time passing.
fn sent(outbox: &mut Outbox, now: Time, outcome: Outcome) -> Vec<u64> {
    std::iter::from_fn(|| {
        let sent = outbox.poll_attempt(now)?;
        outbox.handle_outcome(outcome, now);
        Some(number(&sent))
    })
    .collect()
}

#[test]
fn messages_go_out_one_after_the_other_and_are_delivered_once() {
    let mut outbox = outbox(Policy::default());
    for count in 0..3 {
        outbox.push(message(count), at(0));
    }
    assert_eq!(outbox.poll_timeout(), Some(at(0)));
    let first = outbox.poll_attempt(at(0)).unwrap();
    assert_eq!((number(&first), outbox.poll_attempt(at(0)), outbox.poll_timeout()), (0, None, None));
    assert_eq!(outbox.handle_outcome(OK, at(1)), Verdict::Delivered);
    assert_eq!(sent(&mut outbox, at(1), OK), [1, 2]);
    assert!(outbox.is_empty() && outbox.poll_timeout().is_none());
    assert_eq!(outbox.counters(), Counters { delivered: 3, ..Counters::default() });
}

#[test]
fn a_message_that_fails_is_tried_ever_later_a_bounded_number_of_times_and_holds_nothing_up() {
    let policy = Policy { attempts: 4, ..Policy::default() };
    let mut outbox = outbox(policy);
    outbox.push(message(0), at(0));
    let mut now = at(0);
    for whole in [5, 10, 20] {
        let id = outbox.poll_attempt(now).unwrap().id().to_owned();
        assert_eq!(id, message(0).id(), "the same name at each attempt");
        let Verdict::Again { wait } = outbox.handle_outcome(answered(500), now) else { panic!() };
        assert!(
            wait > Duration::from_secs(whole) / 2 && wait <= Duration::from_secs(whole),
            "{wait:?} of {whole}"
        );
        // Others go out meanwhile.
        outbox.push(message(whole), now);
        assert_eq!(sent(&mut outbox, now, OK), [whole]);
        assert_eq!(outbox.poll_timeout(), Some(now + wait));
        assert_eq!(outbox.poll_attempt(now + (wait - Duration::from_millis(1))), None);
        now += wait;
    }
    assert!(outbox.poll_attempt(now).is_some());
    assert_eq!(outbox.handle_outcome(answered(500), now), Verdict::GivenUp);
    assert!(outbox.is_empty());
    let expected = Counters { delivered: 3, failed_attempts: 4, given_up: 1, dropped: 0 };
    assert_eq!(outbox.counters(), expected);
}

#[test]
fn a_receiver_that_does_not_answer_is_left_alone_whatever_waits() {
    let mut outbox = outbox(Policy::default());
    for count in 0..3 {
        outbox.push(message(count), at(0));
    }
    assert_eq!(sent(&mut outbox, at(0), Outcome::Unanswered), [0], "the others are not tried in vain");
    let until = outbox.poll_timeout().unwrap();
    assert!(until > at(2) && until <= at(5), "{until:?}");
    assert_eq!(outbox.poll_attempt(Time::from_nanos(until.as_nanos() - 1)), None);
    // The next pause is longer, until it answers; then all go out as they are due.
    assert_eq!(sent(&mut outbox, until, Outcome::Unanswered).len(), 1);
    let later = outbox.poll_timeout().unwrap();
    assert!(later.since(until) > Duration::from_secs(5), "{later:?}");
    assert_eq!(sent(&mut outbox, at(60), OK).len(), 3);
}

#[test]
fn a_receiver_that_asks_for_a_pause_gets_it_within_bounds() {
    for (status, retry_after, least, most) in [
        (429, Some(60), 60, 60),
        (503, Some(100_000), 300, 300),
        (500, Some(60), 60, 60),
        (503, None, 2, 5),
        (502, Some(0), 2, 5),
    ] {
        let mut outbox = outbox(Policy::default());
        outbox.push(message(0), at(0));
        outbox.push(message(1), at(0));
        let outcome = Outcome::Answered { status, retry_after: retry_after.map(Duration::from_secs) };
        assert_eq!(sent(&mut outbox, at(0), outcome), [0], "{status}");
        let until = outbox.poll_timeout().unwrap();
        assert!((at(least)..=at(most)).contains(&until), "{status} {retry_after:?}: {until:?}");
    }
}

#[test]
fn redirects_and_refusals_are_failures_and_gone_closes() {
    for status in [100, 199, 300, 301, 307, 400, 401, 404, 418, 999] {
        let mut outbox = outbox(Policy::default());
        outbox.push(message(0), at(0));
        outbox.poll_attempt(at(0)).unwrap();
        assert!(matches!(outbox.handle_outcome(answered(status), at(0)), Verdict::Again { .. }), "{status}");
    }
    for status in [200, 201, 204, 299] {
        let mut outbox = outbox(Policy::default());
        outbox.push(message(0), at(0));
        outbox.poll_attempt(at(0)).unwrap();
        assert_eq!(outbox.handle_outcome(answered(status), at(0)), Verdict::Delivered, "{status}");
    }
    let mut outbox = outbox(Policy::default());
    for count in 0..3 {
        outbox.push(message(count), at(0));
    }
    outbox.poll_attempt(at(0)).unwrap();
    assert_eq!(outbox.handle_outcome(answered(410), at(0)), Verdict::Closed);
    outbox.push(message(3), at(1));
    assert!(outbox.is_empty() && outbox.poll_attempt(at(9999)).is_none());
    assert_eq!(outbox.counters(), Counters { failed_attempts: 1, given_up: 4, ..Counters::default() });
}

#[test]
fn the_oldest_makes_room_and_is_counted() {
    let mut outbox = outbox(Policy { max_messages: 3, ..Policy::default() });
    for count in 0..5 {
        outbox.push(message(count), at(count));
    }
    assert_eq!(outbox.counters().dropped, 2);
    // One that was tried already is still the oldest.
    assert_eq!(number(&outbox.poll_attempt(at(5)).unwrap()), 2);
    outbox.handle_outcome(answered(500), at(5));
    outbox.push(message(5), at(5));
    assert_eq!(sent(&mut outbox, at(60), OK), [3, 4, 5]);
    // By bytes, too; what would never fit does not push out all others.
    let weight = message(0).weight_bytes();
    let mut outbox = Outbox::new(Policy { max_bytes: 2 * weight, ..Policy::default() }, 7);
    for count in 0..3 {
        outbox.push(message(count), at(0));
    }
    assert_eq!(outbox.counters().dropped, 1);
    let large =
        Message::new("a", Utc::from_nanos(0), &json!({ "text": "x".repeat(3 * weight) }), [0; 16]).unwrap();
    outbox.push(large, at(0));
    assert_eq!((outbox.counters().dropped, outbox.len()), (2, 2));
    // One in flight is never dropped.
    outbox.poll_attempt(at(0)).unwrap();
    outbox.push(message(7), at(0));
    outbox.push(message(8), at(0));
    assert_eq!(outbox.handle_outcome(OK, at(0)), Verdict::Delivered);
    assert_eq!(sent(&mut outbox, at(0), OK), [8]);
}

#[test]
fn what_is_too_old_is_given_up() {
    let mut outbox = outbox(Policy { keep: Duration::from_secs(60), ..Policy::default() });
    outbox.push(message(0), at(0));
    outbox.push(message(1), at(30));
    assert_eq!(sent(&mut outbox, at(30), Outcome::Unanswered), [0]);
    assert_eq!(sent(&mut outbox, at(61), OK), [1]);
    assert_eq!(outbox.counters(), Counters { delivered: 1, failed_attempts: 1, given_up: 1, dropped: 0 });
}

proptest! {
    /// Whatever happens, it holds no more than it may, loses count of nothing, and always says when it goes on.
    #[test]
    fn bounds_hold_and_all_messages_are_counted(
        steps in prop::collection::vec((0u8..4, 0u64..400, 0u16..600), 1..200),
        max_messages in 1usize..6,
    ) {
        let weight = message(1000).weight_bytes();
        let policy = Policy { max_messages, max_bytes: 4 * weight, attempts: 3, keep: Duration::from_secs(900), ..Policy::default() };
        let mut outbox = Outbox::new(policy, 3);
        let (mut now, mut pushed, mut flying) = (at(0), 0, false);
        for (step, seconds, status) in steps {
            now += Duration::from_secs(seconds);
            match step {
                0 | 1 => {
                    outbox.push(message(1000 + pushed), now);
                    pushed += 1;
                }
                2 => flying |= outbox.poll_attempt(now).is_some(),
                _ if flying => {
                    let outcome = if status < 100 { Outcome::Unanswered } else { answered(status) };
                    outbox.handle_outcome(outcome, now);
                    flying = false;
                }
                _ => {}
            }
            prop_assert!(outbox.len() <= max_messages && outbox.bytes <= policy.max_bytes);
            let weights: usize = outbox.pending.iter().chain(&outbox.in_flight).map(|one| one.message.weight_bytes()).sum();
            prop_assert_eq!(weights, outbox.bytes);
            prop_assert!(outbox.pending.is_empty() || flying || outbox.poll_timeout().is_some());
            let Counters { delivered, given_up, dropped, .. } = outbox.counters();
            prop_assert_eq!(delivered + given_up + dropped + outbox.len() as u64, pushed);
        }
    }
}
