use super::super::settings::PathSettings;
use super::*;
use crate::raw::testing::{LONG, wait_for};
use glassline_io::udp::Route;
use glassline_media::FrameRate;
use glassline_transport::rtp::Packet;
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;

fn block(frames: usize, channels: u8, captured: Time) -> AudioBlock {
    AudioBlock {
        samples: vec![0.5; frames * usize::from(channels)],
        channels,
        rate_hz: SOUND_RATE_HZ,
        captured,
    }
}

/// Lets blocks of so many samples in; gives how many of them wait.
fn admitted(room: &mut Room, waiting: &mut VecDeque<AudioBlock>, frames: &[usize]) -> usize {
    for frames in frames {
        assert!(room.admit(waiting, block(*frames, 2, Time::ZERO)).is_none(), "nothing waits for room");
    }
    waiting.len()
}

#[test]
fn two_seconds_of_sound_may_wait_and_that_of_two_pictures() {
    let room = |rate: FrameRate| Room::new(rate.time_of(1)).room;
    assert_eq!(room(FrameRate::new(50, 1).unwrap()), 48 * 2_040);
    assert_eq!(room(FrameRate::new(1, 2).unwrap()), 48 * 6_000, "all sound of a slow picture comes with it");
}

#[test]
fn a_block_that_finds_no_room_is_left_out_and_counted_and_a_smaller_one_may_still_fit() {
    let mut room = Room { room: 1_000, frames: 0, dropped: 0 };
    let mut waiting = VecDeque::new();
    assert_eq!(admitted(&mut room, &mut waiting, &[400, 500]), 2);
    assert_eq!((admitted(&mut room, &mut waiting, &[101]), room.dropped), (2, 101));
    assert_eq!((admitted(&mut room, &mut waiting, &[100]), room.dropped, room.frames), (3, 101, 1_000));
    assert_eq!((admitted(&mut room, &mut waiting, &[1]), room.dropped), (3, 102));
}

#[test]
fn what_is_handed_over_makes_room_for_as_much() {
    let queue: SoundQueue = Queue::new(Room { room: 1_000, frames: 0, dropped: 0 });
    for frames in [600, 400, 600] {
        assert!(queue.push(block(frames, 1, Time::ZERO)));
    }
    let frames = || match queue.take(Some(Duration::ZERO)) {
        Taken::Item(block) => Some(block.frames()),
        Taken::Timeout | Taken::End => None,
    };
    assert_eq!((frames(), queue.look(|_, room| room.dropped)), (Some(600), 600));
    assert!(queue.push(block(600, 1, Time::ZERO)));
    assert_eq!([frames(), frames(), frames()], [Some(400), Some(600), None]);
    assert_eq!(queue.look(|_, room| (room.frames, room.dropped)), (0, 600));
}

#[test]
fn sound_that_comes_with_its_pictures_is_not_later_than_they_and_other_sound_has_time_to_come() {
    let tone = OpenSound { origin: Origin::Tone, channels: 2 };
    let (short, long) = (Duration::from_millis(5), Duration::from_millis(100));
    let file = Pace::File { rate: FrameRate::new(25, 1).unwrap(), timed: true };
    let delay = |pace, delay| SoundSender::delay(&tone, pace, delay);
    assert_eq!([delay(file, short), delay(file, long)], [short, long]);
    let least = super::super::sender::LIVE_DELAY;
    assert_eq!([delay(Pace::Live, short), delay(Pace::Live, long)], [least, long]);
}

#[test]
fn packets_hold_up_to_eight_channels_in_twenty_four_bits() {
    for channels in [1, 2, 8] {
        assert!(SoundSender::packets(channels, 97).is_ok(), "{channels}");
    }
    let refused = SoundSender::packets(64, 97).unwrap_err();
    assert!(matches!(refused, Error::Sound(_)), "{refused}");
}

/// A sender of two channels whose packets leave `delay` after they were captured, its queue, and what receives them.
struct Sending {
    sender: SoundSender,
    queue: Arc<SoundQueue>,
    monitor: Monitor,
    receiver: UdpSocket,
}

fn sending(delay: Duration) -> Sending {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(LONG)).unwrap();
    let address = receiver.local_addr().unwrap();
    let path = PathSettings { route: Route::to(address) };
    let (clock, monitor) = (Clock::new(), Monitor::new());
    let now = clock.now();
    let sender = SoundSender {
        clock,
        stamps: Stamps::new(now, clock.utc_at(now)),
        packets: SoundSender::packets(2, 97).unwrap(),
        ways: Way::open_all(&[path], None).unwrap(),
        delay,
        monitor: monitor.clone(),
    };
    let queue = Arc::new(Queue::new(Room::new(Duration::from_millis(20))));
    Sending { sender, queue, monitor, receiver }
}

/// So many datagrams: of each its stamp, and its payload.
fn received(receiver: &UdpSocket, count: usize) -> Vec<(u32, Vec<u8>)> {
    let mut bytes = [0; 2_000];
    let mut next = || {
        let length = receiver.recv(&mut bytes).expect("a datagram in time");
        let packet = Packet::parse(&bytes[..length]).expect("RTP");
        assert_eq!(packet.header.payload_type, 97);
        (packet.header.timestamp, packet.payload.to_vec())
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn blocks_leave_in_packets_of_a_millisecond_and_the_last_one_is_filled_up_with_silence() {
    let Sending { sender, queue, monitor, receiver } = sending(Duration::ZERO);
    let begin = sender.clock.now();
    let stamp = sender.stamps.of_sound(begin, SOUND_RATE_HZ);
    assert!(queue.push(block(72, 2, begin)));
    assert!(queue.push(block(72, 2, begin + Duration::from_micros(1_500))));
    assert!(queue.push(block(12, 2, begin + Duration::from_millis(3))));
    queue.end(Ok(()));
    sender.run(&queue).unwrap();
    let packets = received(&receiver, 4);
    let stamps: Vec<_> = packets.iter().map(|(at, _)| at.wrapping_sub(stamp)).collect();
    assert_eq!(stamps, [0, 48, 96, 144]);
    // Half of full scale, in 24 bits.
    let sounding = [0x40, 0, 0].repeat(2 * 48);
    assert!(packets[..3].iter().all(|(_, payload)| *payload == sounding));
    let last = [[0x40, 0, 0].repeat(2 * 12), vec![0; 6 * 36]].concat();
    assert_eq!(packets[3].1, last);
    let sound = monitor.statistics().sound.unwrap();
    assert_eq!((sound.packets, sound.bytes, sound.failed_packets), (4, 4 * (12 + 288), 0));
    assert_eq!((sound.dropped_samples, sound.failure), (0, None));
}

#[test]
fn a_packet_leaves_when_its_time_has_come_and_is_not_told_as_early() {
    let delay = Duration::from_millis(60);
    let Sending { sender, queue, monitor, receiver } = sending(delay);
    let (clock, begin) = (sender.clock, sender.clock.now());
    assert!(queue.push(block(48, 2, begin)));
    queue.end(Ok(()));
    sender.run(&queue).unwrap();
    assert!(
        clock.now().since(begin) >= delay + Duration::from_millis(1),
        "its last sample is a millisecond later"
    );
    received(&receiver, 1);
    assert_eq!(monitor.statistics().sound.unwrap().packets, 1);
}

#[test]
fn packets_whose_time_was_over_before_they_came_are_told_as_late() {
    let Sending { sender, queue, monitor, receiver } = sending(Duration::ZERO);
    let begin = Time::from_nanos(sender.clock.now().as_nanos() - 2_000_000_000);
    assert!(queue.push(block(96, 2, begin)));
    queue.end(Ok(()));
    sender.run(&queue).unwrap();
    received(&receiver, 2);
    let sound = monitor.statistics().sound.unwrap();
    assert_eq!((sound.packets, sound.late_packets), (2, 2), "they leave all the same");
    assert!(sound.latest >= Duration::from_millis(1_990), "{:?}", sound.latest);
}

#[test]
fn sound_of_a_time_that_was_sent_already_is_left_out_and_counted() {
    let Sending { sender, queue, monitor, receiver } = sending(Duration::ZERO);
    let begin = Time::from_nanos(sender.clock.now().as_nanos() - 1_000_000_000);
    assert!(queue.push(block(480, 2, begin)));
    // The same again: half of it is new.
    assert!(queue.push(block(480, 2, begin + Duration::from_millis(5))));
    queue.end(Ok(()));
    sender.run(&queue).unwrap();
    received(&receiver, 15);
    let sound = monitor.statistics().sound.unwrap();
    assert_eq!((sound.packets, sound.dropped_samples), (15, 240));
}

#[test]
fn one_that_is_stopped_waits_for_no_packet_s_time() {
    let Sending { sender, queue, monitor, .. } = sending(Duration::from_secs(3_600));
    assert!(queue.push(block(96, 2, sender.clock.now())));
    let running = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || sender.run(&queue))
    };
    wait_for("the block is taken", || queue.look(|waiting, _| waiting.is_empty()));
    queue.stop();
    running.join().unwrap().unwrap();
    assert_eq!(monitor.statistics().sound.map_or(0, |sound| sound.packets), 0);
}

#[test]
fn sound_that_changes_its_channels_cannot_go_on() {
    let Sending { sender, queue, .. } = sending(Duration::ZERO);
    let begin = sender.clock.now();
    assert!(queue.push(block(48, 2, begin)) && queue.push(block(48, 1, begin + Duration::from_millis(1))));
    queue.end(Ok(()));
    assert!(matches!(sender.run(&queue), Err(Error::Sound(_))));
}
