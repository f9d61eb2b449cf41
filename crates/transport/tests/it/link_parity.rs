//! Parity on reliable channels: what it makes good is not sent again, and nothing is missing or comes twice.

use crate::link_support::paths::{Pair, millis};
use crate::link_support::{World, figure};
use bytes::Bytes;
use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Loss, Network};
use glassline_transport::link::fuzzing::Linked;
use glassline_transport::link::wire::frame::{Frame, Parity};
use glassline_transport::link::{
    Bonding, CloseReason, Credentials, Event, Fec, Options, Outcome, Path, ReceiveCounters, SendCounters,
    Settings,
};
use std::time::Duration;

const MESSAGES: usize = 400;

fn message(number: usize) -> Bytes {
    let size = number * 7919 % 20_000;
    (0..size).map(|at| (at * 7 + number * 31 + (at >> 8)) as u8).collect()
}

/// What became of messages of up to 20 kB, one each 20 ms, over a line of 20 Mbit/s and 20 ms that loses packets.
struct Run {
    sent: SendCounters,
    received: ReceiveCounters,
    /// How long each was under way, the longest at the end.
    delays: Vec<Duration>,
}

impl Run {
    fn new(fec: Fec, loss: Loss, ordered: bool, takes_parity: bool) -> Run {
        let config = LinkConfig::rate(20_000_000).with_delay(millis(20)).with_loss(loss);
        let mut world = World::shared(Network::symmetric(config, 3).unwrap(), 3);
        world.connect();
        let options = Options { ordered, fec, receipts: true, ..Options::default() };
        world.link(End::Near).unwrap().open(0, options).unwrap();
        world.run_until_up();
        let link = world.link(End::Near).unwrap();
        assert_eq!(link.takes_parity(), Some(true));
        if !takes_parity {
            link.forget_parity();
            assert_eq!(link.takes_parity(), Some(false));
        }
        let (start, mut came) = (world.now(), Vec::new());
        for number in 0..MESSAGES + 100 {
            if number < MESSAGES {
                world.send(End::Near, 0, message(number));
            }
            for _ in 0..20 {
                world.run(millis(1));
                let now = world.now();
                let link = world.link(End::Far).unwrap();
                came.extend(std::iter::from_fn(|| link.receive_message(0)).map(|message| (message, now)));
            }
        }
        if !ordered {
            came.sort_by_key(|(message, _)| message.number);
        }
        assert_eq!(came.len(), MESSAGES, "each comes once");
        let mut delays = Vec::new();
        for (number, (received, at)) in came.into_iter().enumerate() {
            assert_eq!((received.number, received.skipped), (number as u64, 0));
            assert!(received.bytes == message(number), "{number}");
            delays.push(at - (start + millis(20) * number as u32));
        }
        delays.sort();
        let delivered = |event: &Event| matches!(event, Event::Finished { outcome: Outcome::Delivered, .. });
        assert_eq!(world.events.iter().filter(|event| delivered(&event.2)).count(), MESSAGES);
        for end in End::BOTH {
            let link = world.link(end).unwrap();
            assert!(link.is_idle() && link.held_bytes() == (0, 0), "{:?}", link.held_bytes());
        }
        Run {
            sent: world.link(End::Near).unwrap().send_counters(0).unwrap(),
            received: world.link(End::Far).unwrap().receive_counters(0).unwrap(),
            delays,
        }
    }

    fn share(&self, share: f64) -> Duration {
        self.delays[(self.delays.len() as f64 * share) as usize]
    }
}

#[test]
fn what_parity_makes_good_is_not_sent_again() {
    for ordered in [true, false] {
        let plain = Run::new(Fec::Never, Loss::Random(0.02), ordered, true);
        let parity = Run::new(Fec::WhenLossy(20), Loss::Random(0.02), ordered, true);
        let case = "reliable, 2 % lost";
        for (who, run) in [("no parity", &plain), ("20 % of parity", &parity)] {
            figure(case, who, "message p95", "ms", run.share(0.95).as_secs_f64() * 1e3);
            figure(case, who, "sent again", "bytes", run.sent.resent_bytes as f64);
        }
        assert_eq!((plain.sent.parity_bytes, plain.received.recovered), (0, 0));
        assert!(parity.received.recovered > 30, "{:?}", parity.received);
        assert!(parity.sent.resent_bytes * 3 < plain.sent.resent_bytes, "{:?} {:?}", parity.sent, plain.sent);
        let share = parity.sent.parity_bytes as f64 / parity.sent.bytes as f64;
        assert!((0.15..0.35).contains(&share), "{share}");
        assert!(parity.share(0.95) + millis(10) < plain.share(0.95), "{:?}", parity.share(0.95));
    }
}

#[test]
fn a_peer_that_takes_no_parity_on_reliable_channels_gets_none() {
    let run = Run::new(Fec::Always(50), Loss::Random(0.03), true, false);
    assert_eq!((run.sent.parity_bytes, run.received.recovered), (0, 0));
    assert!(run.sent.resent_bytes > 0);
}

#[test]
fn all_arrives_when_much_is_lost_in_bursts_and_most_of_the_parity_with_it() {
    let bursts = Loss::GilbertElliott { to_bad: 0.03, to_good: 0.15, loss_good: 0.0, loss_bad: 1.0 };
    for percent in [1, 30, 100] {
        let run = Run::new(Fec::Always(percent), bursts, true, true);
        assert!(run.sent.resent_bytes > 0 && run.sent.parity_bytes > 0);
    }
}

/// Two lines, of which the quicker one carries messages that fit into a packet, and a shard of parity goes by the other one: while
/// the quicker one loses all for some packets, nothing waits for being sent again.
#[test]
fn parity_goes_by_another_line_than_what_it_protects() {
    let late = |fec: Fec| {
        let lines = [20, 22].map(|delay| LinkConfig::rate(20_000_000).with_delay(millis(delay)));
        let mut pair = Pair::new(Bonding::Sum, lines, 5);
        pair.connect();
        pair.run(millis(1000));
        let options = Options { fec, ..Options::default() };
        pair.link(End::Near).unwrap().open(0, options).unwrap();
        let (start, mut worst) = (pair.now(), Duration::ZERO);
        for step in 0..500u32 {
            let (now, is_lost) = (pair.now(), step % 10 == 5);
            let loss = if is_lost { Loss::Random(1.0) } else { Loss::None };
            pair.networks[0].set_loss(End::Near, loss).unwrap();
            let mut bytes = vec![0; 1000];
            bytes[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
            pair.send(End::Near, 0, bytes);
            pair.run_until(start + millis(20) * (step + 1), |pair| {
                for message in pair.take(End::Far, 0) {
                    let sent = Time::from_nanos(u64::from_be_bytes(message[..8].try_into().unwrap()));
                    worst = worst.max(pair.now() - sent);
                }
            });
        }
        worst
    };
    let (with, without) = (late(Fec::Always(20)), late(Fec::Never));
    assert!(with < millis(28), "{with:?}");
    assert!(without > millis(40), "{without:?}");
}

/// The link is suspended while parts and parity are under way, and goes on: what was gone is sent again.
#[test]
fn a_link_that_goes_on_after_an_outage_waits_for_no_parity_of_before() {
    let lines = [20, 30].map(|delay| LinkConfig::rate(5_000_000).with_delay(millis(delay)));
    let mut pair = Pair::new(Bonding::Sum, lines, 5);
    pair.connect();
    pair.run(millis(1000));
    let options = Options { fec: Fec::Always(40), ..Options::default() };
    pair.link(End::Near).unwrap().open(0, options).unwrap();
    let (mut came, mut sent) = (Vec::new(), 0);
    for step in 0..900 {
        match step {
            100 => (0..2).for_each(|via| pair.set_loss(via, Loss::Random(1.0))),
            // Longer than what has the link count as away.
            600 => (0..2).for_each(|via| pair.set_loss(via, Loss::Random(0.05))),
            _ => {}
        }
        if !(150..=620).contains(&step) {
            pair.send(End::Near, 0, message(sent).to_vec());
            sent += 1;
        }
        pair.run(millis(20));
        came.extend(pair.take(End::Far, 0));
    }
    pair.run(millis(5000));
    came.extend(pair.take(End::Far, 0));
    assert!(pair.events.iter().any(|event| matches!(event.2, Event::Suspended { .. })), "{:?}", pair.events);
    assert!(came.into_iter().eq((0..sent).map(message)));
    assert_eq!(pair.link(End::Near).unwrap().held_bytes().0, 0);
}

/// Parity of reliable messages is counted as their parts are: more than there is room for ends the link.
#[test]
fn more_parity_than_there_is_room_for_ends_the_link() {
    let settings =
        Settings { window_bytes: 1 << 20, link_bytes: 4 << 20, ..Settings::new(Credentials::Insecure) };
    let path = Path { remote: ([192, 0, 2, 1], 7000).into(), via: 0 };
    let mut victim = Linked::new(settings, Time::ZERO, path);
    let options = Options { max_size: 100_000, ..Options::default() };
    let mut packet = Vec::new();
    Frame::Open { channel: 0, options: options.on_the_wire() }.write(&mut packet);
    assert!(victim.link().handle_unsealed(Time::ZERO, path, &packet));
    let (bytes, mut goes_on, mut count) = ([5; 1000], true, 0);
    for step in 0..10_000u64 {
        packet.clear();
        let (message, index) = (step / 40, (step % 40) as u32);
        let parity =
            Parity { channel: 0, message, packed: false, total: 90_000, count: 40, index, bytes: &bytes };
        Frame::Parity(parity).write(&mut packet);
        goes_on = victim.link().handle_unsealed(Time::ZERO, path, &packet);
        assert!(victim.held_bytes() <= 2 << 20);
        if !goes_on {
            break;
        }
        count += 1;
    }
    assert!(!goes_on && (1500..2000).contains(&count), "{count}");
    let closed = std::iter::from_fn(|| victim.link().poll_event()).last();
    let reason = CloseReason::Violation("more data than there is room for");
    assert_eq!(closed, Some(Event::Closed { reason }));
}
