//! Any bytes as the answer of a webhook's receiver. The first two bytes choose how they are chopped and what becomes of the outbox.

use glassline_delivery::webhook::{
    ANSWER_BYTES_MAX, AnswerError, AnswerReader, Message, Outbox, Outcome, Policy, Verdict,
};
use glassline_media::{Time, Utc};
use std::time::Duration;

const NOW: Utc = Utc::from_nanos(1_777_863_721_123_000_000);

/// Panics where the chop has an influence, where more is taken than an answer may have, where an answer is none of HTTP's, and where
/// an outbox waits longer than its policy says.
pub fn run(data: &[u8]) {
    let Some(([chop, seed], wire)) = data.split_first_chunk() else { return };
    let (whole, taken) = read(wire, usize::MAX);
    let (chopped, taken_chopped) = read(wire, 1 + usize::from(*chop));
    // What is wrong is told as far as it has come; that something is, always.
    assert_eq!(whole.as_ref().map_err(drop), chopped.as_ref().map_err(drop), "any chop tells the same");
    assert!(taken_chopped <= ANSWER_BYTES_MAX + usize::from(*chop), "{taken_chopped} bytes");
    assert!(taken <= wire.len());
    match whole {
        Ok(Some(outcome)) => {
            let Outcome::Answered { status, .. } = outcome else { panic!("it has answered") };
            assert!((200..1000).contains(&status), "{status}");
            check_outbox(outcome, status, (*seed).into());
        }
        Ok(None) => assert!(wire.len() < ANSWER_BYTES_MAX, "it waits for more for ever"),
        Err(_) => check_outbox(Outcome::Unanswered, 0, (*seed).into()),
    }
}

/// What comes of an answer that is chopped into pieces of so many bytes, and how many bytes were given.
fn read(wire: &[u8], chop: usize) -> (Result<Option<Outcome>, AnswerError>, usize) {
    let (mut reader, mut given) = (AnswerReader::new(), 0);
    for piece in wire.chunks(chop) {
        given += piece.len();
        match reader.push(piece, NOW) {
            Ok(None) => {}
            other => return (other, given),
        }
    }
    (Ok(None), given)
}

/// An outbox goes on, whatever the answer was.
fn check_outbox(outcome: Outcome, status: u16, seed: u64) {
    let (policy, now) = (Policy::default(), Time::from_millis(1000));
    let mut outbox = Outbox::new(policy, seed);
    let message = Message::new("alarm.begun", NOW, &serde_json::json!({}), [0; 16]).expect("plain JSON");
    outbox.push(message, now);
    assert!(outbox.poll_attempt(now).is_some());
    let verdict = outbox.handle_outcome(outcome, now);
    match verdict {
        Verdict::Delivered => assert!((200..300).contains(&status) && outbox.is_empty()),
        Verdict::Closed => assert!(status == 410 && outbox.is_empty()),
        Verdict::GivenUp => panic!("after one attempt"),
        Verdict::Again { wait } => {
            assert!(!(200..300).contains(&status), "{status}");
            assert!(wait <= policy.retry_max, "{wait:?}");
            let due = outbox.poll_timeout().expect("one waits");
            assert!(due <= now + policy.retry_max + Duration::from_millis(1), "{due:?}");
        }
    }
}
