use super::*;
use crate::sound::{FRAME_UNIT, Redundancy, SoundSender};
use proptest::prelude::*;

/// 10 ms of sound in a packet.
const FRAME: u8 = 4;
/// What the sender's wall clock is ahead of our clock.
const AHEAD: u64 = 1_000_000_000_000;

/// Sends a packet each 10 ms, of which `way` says how long it takes; `None`: it is lost. Returns what was played.
fn play(
    receiver: &mut SoundReceiver,
    count: u64,
    redundancy: Redundancy,
    recovers: bool,
    way: impl Fn(u64) -> Option<Duration>,
) -> Vec<Play> {
    let mut sender = SoundSender::new(redundancy, FRAME, 2, recovers);
    let frame = FRAME_UNIT * u32::from(FRAME);
    let mut arrivals: Vec<(Time, Bytes)> = Vec::new();
    for number in 0..count {
        let captured = Time::from_millis(1000) + frame * u32::try_from(number).unwrap();
        let utc = Utc::from_nanos(captured.as_nanos() + AHEAD);
        let message = sender.message(Bytes::from(number.to_be_bytes().to_vec()), utc);
        // It is there when all of it was captured.
        arrivals.extend(way(number).map(|way| (captured + frame + way, message)));
    }
    arrivals.sort_by_key(|(at, _)| *at);
    let mut plays = Vec::new();
    let mut arrivals = arrivals.into_iter().peekable();
    loop {
        let arrival = arrivals.peek().map(|(at, _)| *at);
        let due = receiver.poll_timeout();
        match (arrival, due) {
            (Some(at), due) if due.is_none_or(|due| at <= due) => {
                let (_, message) = arrivals.next().unwrap();
                receiver.handle(at, &message).unwrap();
            }
            (_, Some(due)) => plays.extend(receiver.poll(due)),
            (None, None) => return plays,
            (Some(_), None) => unreachable!(),
        }
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Packets that were played, by number, in order.
fn numbers(plays: &[Play]) -> Vec<u64> {
    let number = |bytes: &Bytes| u64::from_be_bytes(bytes[..].try_into().unwrap());
    plays
        .iter()
        .flat_map(|play| match &play.what {
            What::Packet(packet) => vec![number(packet)],
            What::Merged(first, second) => vec![number(first), number(second)],
            _ => vec![],
        })
        .collect()
}

fn is_even(plays: &[Play]) -> bool {
    plays.windows(2).all(|pair| pair[1].at == pair[0].at + pair[0].time)
}

#[test]
fn an_even_line_is_played_evenly_with_little_delay() {
    let mut receiver = SoundReceiver::new();
    let plays = play(&mut receiver, 1000, Redundancy::Auto, false, |_| Some(millis(20)));
    assert_eq!(numbers(&plays), (0..1000).collect::<Vec<_>>());
    assert!(is_even(&plays));
    // Expected jitter at first, then what was seen: none.
    let delay = |play: &Play| play.at.as_nanos() + AHEAD - play.captured.as_nanos();
    let last = plays.iter().rev().find(|play| matches!(play.what, What::Packet(_))).unwrap();
    assert!(delay(&plays[0]) <= millis(44).as_nanos() as u64, "{}", delay(&plays[0]));
    assert!(delay(last) <= millis(43).as_nanos() as u64, "{}", delay(last));
}

#[test]
fn the_delay_grows_with_the_jitter_and_falls_again() {
    let mut receiver = SoundReceiver::new();
    // Each second packet takes 40 ms more, for ten seconds; then none does.
    let plays = play(&mut receiver, 3000, Redundancy::Auto, false, |number| {
        Some(millis(if number < 1000 && number % 2 == 0 { 60 } else { 20 }))
    });
    assert!(is_even(&plays));
    let played = numbers(&plays);
    assert!(played.is_sorted() && played.len() > 2940, "{}", played.len());
    let delay = |wanted: u64| {
        let is =
            |play: &&Play| matches!(&play.what, What::Packet(packet) if packet[..] == wanted.to_be_bytes());
        let play = plays.iter().rev().find(is).unwrap();
        Duration::from_nanos(play.at.as_nanos() + AHEAD - play.captured.as_nanos())
    };
    assert!((millis(70)..millis(85)).contains(&delay(900)), "{:?}", delay(900));
    assert!(delay(2990) < millis(50), "{:?}", delay(2990));
}

#[test]
fn lost_packets_are_repeated_recovered_or_concealed() {
    let lossy = |number: u64| (number % 10 != 5).then_some(millis(20));
    for (redundancy, recovers) in
        [(Redundancy::Always(1), false), (Redundancy::Always(0), true), (Redundancy::Always(0), false)]
    {
        let mut receiver = SoundReceiver::new();
        let plays = play(&mut receiver, 500, redundancy, recovers, lossy);
        assert!(is_even(&plays));
        let counters = receiver.counters();
        let by = [counters.repeated, counters.recovered];
        match (redundancy, recovers) {
            (Redundancy::Always(1), _) => {
                assert_eq!(numbers(&plays), (0..500).collect::<Vec<_>>());
                assert_eq!(by, [50, 0]);
            }
            (_, true) => assert!(by[0] == 0 && by[1] >= 40, "{counters:?}"),
            (_, false) => assert!(by == [0, 0] && (45..=50).contains(&counters.concealed), "{counters:?}"),
        }
    }
}

#[test]
fn nothing_is_missing_at_the_end_of_the_sound() {
    let mut receiver = SoundReceiver::new();
    let plays = play(&mut receiver, 100, Redundancy::Always(0), false, |_| Some(millis(20)));
    assert!(plays.iter().any(|play| play.what == What::Concealed), "the sound's end is not known beforehand");
    assert_eq!((receiver.counters().played, receiver.counters().concealed), (100, 0));
}

#[test]
fn after_an_outage_sound_goes_on_without_its_delay() {
    let mut receiver = SoundReceiver::new();
    // From 3 s on nothing for 700 ms; what was sent then comes all at once.
    let plays = play(&mut receiver, 800, Redundancy::Auto, false, |number| {
        Some(millis(20 + if (300..370).contains(&number) { (370 - number) * 10 } else { 0 }))
    });
    let last = plays.iter().rposition(|play| matches!(play.what, What::Packet(_))).unwrap();
    let plays = &plays[..=last];
    let silence = plays.iter().filter(|play| play.what == What::Silence).count();
    let concealed = plays.iter().filter(|play| play.what == What::Concealed).count();
    assert!((40..75).contains(&silence) && (5..20).contains(&concealed), "{silence} {concealed}");
    let last = plays.last().unwrap();
    let delay = Duration::from_nanos(last.at.as_nanos() + AHEAD - last.captured.as_nanos());
    // Ways of the outage are still remembered, and are more than 2 of 100: bounded, and no packet is played twice.
    assert!(delay < millis(900), "{delay:?}");
    let played = numbers(plays);
    assert!(played.windows(2).all(|pair| pair[0] < pair[1]));
    // A long outage ends the clock: nothing is played for what will never come.
    assert!(receiver.poll_timeout().is_none());
}

/// When each play was captured, without the clocks' difference, in milliseconds.
fn captured(plays: &[Play]) -> Vec<i64> {
    plays.iter().map(|play| (play.captured.as_nanos() as i64 - AHEAD as i64) / 1_000_000).collect()
}

#[test]
fn sound_that_comes_late_has_the_time_at_which_it_was_captured() {
    let mut receiver = SoundReceiver::new();
    // From 3 s on nothing passes for 6 s, and then all of it at four times its speed: behind the outage each packet comes later
    // than what was seen before allows.
    let plays = play(&mut receiver, 1600, Redundancy::Auto, false, |number| {
        let late = if number < 300 {
            0
        } else {
            (6_000 + (number - 300) * 10 / 4).saturating_sub((number - 300) * 10)
        };
        Some(millis(20 + late))
    });
    for play in &plays {
        if let What::Packet(packet) = &play.what {
            let number = u64::from_be_bytes(packet[..].try_into().unwrap());
            assert_eq!(play.captured.as_nanos() - AHEAD, 1_000_000_000 + number * 10_000_000, "{number}");
        }
    }
    let times = captured(&plays);
    let back = times.windows(2).map(|pair| pair[0] - pair[1]).max();
    assert!(back <= Some(20), "time goes back by {back:?} ms");
    let played = numbers(&plays);
    assert!(
        played.windows(2).all(|pair| pair[0] < pair[1]) && played.last() == Some(&1599),
        "{}",
        played.len()
    );
    let (waits, _) = receiver.delay();
    assert!(waits < millis(100), "what came last waited for {waits:?}");
}

#[test]
fn sound_that_was_overtaken_is_not_what_it_begins_again_with() {
    let mut receiver = SoundReceiver::new();
    let way = |number| (number < 100 || number == 200).then(|| millis(if number == 50 { 3_000 } else { 20 }));
    let plays = play(&mut receiver, 201, Redundancy::Always(0), false, way);
    let played = numbers(&plays);
    assert!(played.windows(2).all(|pair| pair[0] < pair[1]), "{played:?}");
    assert_eq!(played.last(), Some(&200));
    assert_eq!(receiver.counters().late, 1);
}

#[test]
fn sound_waits_for_the_pictures() {
    let mut receiver = SoundReceiver::new();
    receiver.set_picture_delay(Time::from_millis(1150), Utc::from_nanos(AHEAD + 1_000_000_000));
    let plays = play(&mut receiver, 300, Redundancy::Auto, false, |_| Some(millis(20)));
    let last = plays.iter().rev().find(|play| matches!(play.what, What::Packet(_))).unwrap();
    assert_eq!(last.at.as_nanos() + AHEAD - last.captured.as_nanos(), 150_000_000);
}

proptest! {
    #[test]
    fn whatever_comes_is_played_in_order_and_in_bounds(
        steps in prop::collection::vec((0u64..300_000, 0u64..5_000, 0u64..1 << 52, 1u8..9, any::<bool>()), 1..200),
    ) {
        let mut receiver = SoundReceiver::new();
        let (mut now, mut last) = (Time::from_millis(5), Time::ZERO);
        for (wait, number, micros, frame, near) in steps {
            now += Duration::from_micros(wait);
            let captured = if near { Utc::from_micros(number * 10_000) } else { Utc::from_micros(micros) };
            let header = SoundHeader { frame, channels: 2, recovers: near, number, captured };
            let message = SoundMessage { header, packets: vec![Bytes::from_static(&[1])] }.to_bytes();
            receiver.handle(now, &message).unwrap();
            let mut polled = 0;
            while let Some(play) = receiver.poll(now) {
                prop_assert!(play.at <= now);
                polled += 1;
                last = last.max(play.at);
            }
            prop_assert!(polled <= 400, "{}", polled);
            prop_assert!(receiver.packets.len() <= PACKETS_MAX);
        }
    }
}
