use super::*;
use glassline_transport::link::MessageId;

fn sender(change: impl FnOnce(&mut SoundSettings)) -> SoundSender {
    let mut settings = SoundSettings { redundancy: Redundancy::Always(0), ..SoundSettings::default() };
    change(&mut settings);
    SoundSender::new(settings).unwrap()
}

/// So many blocks of 10 ms.
fn push(sender: &SoundSender, from_ms: u64, blocks: u64) {
    for block in 0..blocks {
        let captured = Time::from_millis(from_ms + 10 * block);
        sender.push(&AudioBlock { samples: vec![0.1; 960], channels: 2, rate_hz: RATE_HZ, captured });
    }
}

#[test]
fn a_packet_holds_as_much_sound_as_was_asked_for() {
    for (micros, frames) in
        [(2500, Some(120)), (5000, Some(240)), (10_000, Some(480)), (20_000, Some(960)), (15_000, None)]
    {
        let settings = SoundSettings { frame: Duration::from_micros(micros), ..SoundSettings::default() };
        match (SoundSender::new(settings), frames) {
            (Ok(sender), Some(frames)) => assert_eq!(sender.block_frames(), frames),
            (Err(error), None) => assert!(error.to_string().contains("2.5ms, 5ms, 10ms or 20ms"), "{error}"),
            (made, _) => panic!("{micros} µs: {:?}", made.map(|sender| sender.block_frames())),
        }
    }
}

#[test]
fn what_was_captured_is_taken_packet_by_packet_and_counted() {
    let sender = sender(|_| {});
    push(&sender, 1000, 5);
    assert_eq!(sender.statistics().packets, 5);
    let messages = sender.take().expect("it goes on");
    assert_eq!(messages.len(), 5);
    let bytes: usize = messages.iter().map(Bytes::len).sum();
    assert_eq!(
        sender.statistics(),
        SoundSendStatistics { packets: 5, bytes: bytes as u64, lost: 0, repeats: 0 }
    );
    assert_eq!(sender.take(), Some(Vec::new()), "nothing came in a while");
}

#[test]
fn of_packets_that_wait_too_long_the_oldest_are_left_out() {
    let sender = sender(|_| {});
    push(&sender, 1000, 30);
    assert_eq!(sender.take().expect("it goes on").len(), WAITING_MAX);
    assert_eq!(sender.statistics().packets, 30);
}

#[test]
fn packets_that_are_repeated_make_messages_longer_and_are_told_of() {
    let (plain, repeated) = (sender(|_| {}), sender(|settings| settings.redundancy = Redundancy::Always(2)));
    for sender in [&plain, &repeated] {
        push(sender, 1000, 10);
    }
    let length = |sender: &SoundSender| sender.take().expect("it goes on").last().map(Bytes::len).unwrap();
    let (short, long) = (length(&plain), length(&repeated));
    assert!(long > 2 * short, "{short} and {long} bytes");
    assert_eq!((plain.statistics().repeats, repeated.statistics().repeats), (0, 2));
    assert!(plain.bytes_per_second() * 3 / 2 < repeated.bytes_per_second());
}

#[test]
fn a_sender_that_was_stopped_has_nothing_more_and_says_so_at_once() {
    let sender = std::sync::Arc::new(sender(|_| {}));
    push(&sender, 1000, 1);
    let waiting = {
        let sender = std::sync::Arc::clone(&sender);
        std::thread::spawn(move || while sender.take().is_some() {})
    };
    TakesSound::stop(&*sender);
    waiting.join().unwrap();
    assert_eq!(sender.take(), None);
}

#[test]
fn messages_that_did_not_arrive_are_counted() {
    let (endpoint, link) = {
        let settings = glassline_transport::link::Settings::new(
            glassline_transport::link::Credentials::Shared(glassline_transport::link::Key([7; 32])),
        );
        let local = crate::link::Local::at("127.0.0.1:0".parse().unwrap());
        let endpoint = crate::link::Endpoint::open(settings, &[local]).unwrap();
        let link = endpoint.connect("127.0.0.1:9".parse().unwrap()).unwrap();
        (endpoint, link)
    };
    let sender = sender(|_| {});
    for (channel, outcome) in [
        (SOUND, Outcome::Delivered),
        (SOUND, Outcome::Lost),
        (SOUND, Outcome::Skipped),
        (SOUND, Outcome::Cancelled),
        (SOUND + 1, Outcome::Lost),
    ] {
        sender.handle_event(&link, &Event::Finished { channel, message: MessageId(0), outcome });
    }
    sender.handle_event(&link, &Event::Resumed);
    assert_eq!(sender.statistics().lost, 2);
    drop((link, endpoint));
}

#[test]
fn sound_is_neither_waited_for_nor_taken_by_its_sender() {
    let sender = sender(|_| {});
    assert!(!sender.is_input() && sender.takes().is_empty());
    assert_eq!(sender.sends().iter().map(|(channel, _)| *channel).collect::<Vec<_>>(), [SOUND]);
}
