use super::*;

#[test]
fn a_burst_is_never_sent_faster_than_its_speed() {
    let mut sender = TrainSender::new(1, TrainSpec::burst(40), 28);
    assert_eq!(sender.due(), Some(Time::ZERO));
    let now = Time::from_millis(5);
    assert_eq!(sender.next(now), (0..16, 1200));
    let chunk = Duration::from_nanos(16 * 1228 * 8);
    assert_eq!(sender.due(), Some(now + chunk), "at 1 Gbit/s");
    // One that is late makes the next one late.
    assert_eq!(sender.next(Time::from_millis(9)), (16..32, 1200));
    assert_eq!(sender.due(), Some(Time::from_millis(9) + chunk));
    assert_eq!(sender.next(Time::from_millis(10)), (32..40, 1200));
    assert!(sender.is_done() && sender.due().is_none());
    sender.handle_refused(3);
    let (first_ns, last_ns) = (5_000_000, 10_000_000);
    assert_eq!(sender.sent(), Sent { packets: 40, refused: 3, first_ns, last_ns });
    assert!(sender.is_refused(37) && !sender.is_refused(36));
}

#[test]
fn packets_of_growing_size_go_one_by_one() {
    let spec = TrainSpec { packets: 4, payload_bytes: 1200, growth_bytes: 34, gap_us: 5_000 };
    let mut sender = TrainSender::new(1, spec, 28);
    let sizes: Vec<u16> = (0..4).map(|step| sender.next(Time::from_millis(5 * step)).1).collect();
    assert_eq!(sizes, [1200, 1200, 1234, 1234]);
    assert_eq!(spec.wire_bytes(28), 2 * 1228 + 2 * 1262);
}

#[test]
fn a_packet_counts_once_and_one_beyond_every_train_does_not() {
    let mut receiver = TrainReceiver::new(3);
    receiver.handle(5, 10, Time::from_millis(1));
    receiver.handle(5, 10, Time::from_millis(2));
    receiver.handle(MAX_BURST, 10, Time::from_millis(3));
    assert_eq!((receiver.arrivals.len(), receiver.duplicates), (1, 1));
}
