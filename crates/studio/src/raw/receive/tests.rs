use super::*;
use crate::raw::testing::{LONG, Sender, format, free, settings, wait_for};
use glassline_media::pixels::Packer;
use std::cell::Cell;
use std::net::UdpSocket;

fn next(receiver: &mut Receiver) -> Frame {
    receiver.next(LONG).unwrap().expect("a frame within 20 s")
}

#[test]
fn frames_come_bit_by_bit_as_they_were_sent() {
    for depth in [8, 10, 12] {
        let (format, to) = (format(depth), [free()]);
        let mut receiver = Receiver::start(&settings(format, &to, 8), Clock::new()).unwrap();
        let mut sender = Sender::new(format);
        let mut last = Time::ZERO;
        for number in 0..20 {
            let sent = sender.send(number, &to, |_, _| false);
            let frame = next(&mut receiver);
            assert!(frame.picture.planes()[0].lines().flatten().eq(&sent), "frame {number}");
            assert_eq!((frame.timestamp, frame.lost, frame.is_related), (number * 1500, 0, false));
            assert!(frame.picture.captured > last && frame.picture.captured <= frame.began);
            last = frame.picture.captured;
        }
        let report = receiver.report();
        assert_eq!((report.counters.frames, report.counters.lost, report.kernel_drops), (20, 0, 0));
        assert!(report.counters.in_place > 0, "the kernel wrote into frames: {report:?}");
        receiver.stop();
        assert_eq!(receiver.next(LONG).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

/// The bytes of a frame, as it was sent.
fn packed(picture: &Picture) -> Vec<u8> {
    let packed = match picture.format().layout {
        Layout::Pgroups => picture.clone(),
        Layout::Planar => Packer::new().pack(picture).unwrap(),
    };
    packed.planes()[0].lines().flatten().copied().collect()
}

#[test]
fn planes_are_bit_by_bit_what_was_sent_and_holes_what_was_before() {
    for (depth, paths) in [(8, 1), (10, 1), (12, 1), (10, 2)] {
        let (format, to) = (format(depth), (0..paths).map(|_| free()).collect::<Vec<_>>());
        let settings = Settings { layout: Layout::Planar, ..settings(format, &to, 8) };
        let mut receiver = Receiver::start(&settings, Clock::new()).unwrap();
        let mut sender = Sender::new(format);
        let count = sender.packetizer.layout().len();
        let mut before = Vec::new();
        for number in 0..12 {
            // A packet of every third frame is lost, on all paths.
            let hole = (number % 3 == 2).then_some(number as usize);
            let mut sent = sender.send(number, &to, |_, index| Some(index) == hole);
            wait_for("packets come", || {
                let counters = receiver.report().counters;
                counters.packets + counters.lost + u64::from(hole.is_some())
                    >= (number as usize + 1) as u64 * count as u64
            });
            if let Some(hole) = hole {
                let bytes = sent.len() / count;
                let hole = hole * bytes..(hole + 1) * bytes;
                sent[hole.clone()].copy_from_slice(&before[hole]);
                // The next one ends it.
                before.clone_from(&sent);
                continue;
            }
            if number > 0 && number % 3 == 0 {
                let frame = next(&mut receiver);
                assert!(packed(&frame.picture) == before && frame.lost == 1, "frame {}", number - 1);
            }
            let frame = next(&mut receiver);
            assert_eq!(frame.picture.format(), format.pixels().to_planar());
            assert!(packed(&frame.picture) == sent && frame.lost == 0, "frame {number}");
            before = sent;
        }
        assert_eq!(receiver.report().counters.in_place, 0);
    }
}

#[test]
fn what_is_lost_is_counted_and_concealed() {
    let (format, to) = (format(8), [free()]);
    let mut receiver = Receiver::start(&settings(format, &to, 8), Clock::new()).unwrap();
    let mut sender = Sender::new(format);
    let count = sender.packetizer.layout().len();
    let come = |receiver: &Receiver, packets: usize| {
        wait_for("packets come", || receiver.report().counters.packets >= packets as u64);
    };
    let first = sender.send(0, &to, |_, index| index == 3);
    come(&receiver, count - 1);
    let second = sender.send(1, &to, |_, index| index == 5);
    come(&receiver, 2 * (count - 1));
    let third = sender.send(2, &to, |_, _| false);
    let bytes = first.len() / count;
    let line = |picture: &Picture| picture.planes()[0].lines().flatten().copied().collect::<Vec<u8>>();
    let frame = next(&mut receiver);
    let mut expected = first;
    for pair in expected[3 * bytes..4 * bytes].chunks_mut(2) {
        pair.copy_from_slice(&[128, 16]);
    }
    assert!(line(&frame.picture) == expected && frame.lost == 1);
    let frame = next(&mut receiver);
    let before = expected[5 * bytes..6 * bytes].to_vec();
    expected = second;
    expected[5 * bytes..6 * bytes].copy_from_slice(&before);
    assert!(line(&frame.picture) == expected && frame.lost == 1);
    let frame = next(&mut receiver);
    assert!(line(&frame.picture) == third, "{} lost; {:?}", frame.lost, receiver.report());
    let counters = receiver.report().counters;
    assert_eq!((counters.frames, counters.incomplete, counters.lost), (1, 2, 2));
}

#[test]
fn who_joins_within_a_frame_begins_with_the_next_one() {
    let (format, to) = (format(8), [free()]);
    let mut receiver = Receiver::start(&settings(format, &to, 8), Clock::new()).unwrap();
    let mut sender = Sender::new(format);
    sender.send(0, &to, |_, index| index < 20);
    let packets = sender.packetizer.layout().len() as u64 - 20;
    wait_for("packets come", || receiver.report().counters.packets >= packets);
    let sent = sender.send(1, &to, |_, _| false);
    let frame = next(&mut receiver);
    assert!(frame.timestamp == 1500 && frame.picture.planes()[0].lines().flatten().eq(&sent));
    // And who leaves within a frame has lost nothing.
    sender.send(2, &to, |_, index| index > 20);
    wait_for("packets come", || receiver.report().counters.packets > packets + 60 + 20);
    receiver.stop();
    assert_eq!(receiver.next(LONG).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    let counters = receiver.report().counters;
    assert_eq!((counters.frames, counters.partial, counters.incomplete, counters.lost), (1, 1, 0, 0));
}

#[test]
fn two_paths_are_one_stream_that_either_may_fail() {
    let (format, to) = (format(10), [free(), free()]);
    let mut receiver = Receiver::start(&settings(format, &to, 8), Clock::new()).unwrap();
    let mut sender = Sender::new(format);
    for number in 0..30u32 {
        let down = (number / 10) as usize;
        // Both, then the first one alone, then each other packet by each.
        let sent = sender.send(number, &to, |path, index| match down {
            0 => false,
            1 => path == 1,
            _ => index % 2 == path,
        });
        let frame = next(&mut receiver);
        assert!(frame.picture.planes()[0].lines().flatten().eq(&sent), "frame {number}");
    }
    let counters = receiver.report().counters;
    assert_eq!((counters.frames, counters.lost, counters.incomplete), (30, 0, 0));
}

#[test]
fn who_is_late_loses_whole_frames_and_no_packets() {
    let (format, to) = (format(8), [free()]);
    let mut receiver = Receiver::start(&settings(format, &to, 4), Clock::new()).unwrap();
    let mut sender = Sender::new(format);
    for number in 0..12u32 {
        sender.send(number, &to, |_, _| false);
        let have = u64::from(number) + 1;
        wait_for("each frame is taken or dropped", || {
            let counters = receiver.report().counters;
            counters.frames + counters.dropped >= have
        });
    }
    let counters = receiver.report().counters;
    assert!(counters.dropped >= 8 && counters.lost == 0 && counters.incomplete == 0, "{counters:?}");
    let mut numbers = Vec::new();
    for _ in 0..counters.frames {
        let frame = next(&mut receiver);
        let number = frame.timestamp / 1500;
        assert!(frame.picture.planes()[0].lines().flatten().eq(&sender.bytes(number)), "frame {number}");
        numbers.push(number);
    }
    assert_eq!(numbers, (0..counters.frames as u32).collect::<Vec<_>>());
    // It has room again.
    let sent = sender.send(12, &to, |_, _| false);
    assert!(next(&mut receiver).picture.planes()[0].lines().flatten().eq(&sent));
}

#[test]
fn frames_wait_as_long_as_there_is_memory_for_them() {
    let (format, to) = (format(10), [free()]);
    let mut receiver = Receiver::start(&settings(format, &to, 40), Clock::new()).unwrap();
    let mut sender = Sender::new(format);
    for number in 0..30u32 {
        sender.send(number, &to, |_, _| false);
        wait_for("each frame comes", || receiver.report().counters.frames > u64::from(number));
    }
    for number in 0..30 {
        let frame = next(&mut receiver);
        assert!(frame.picture.planes()[0].lines().flatten().eq(&sender.bytes(number)), "frame {number}");
    }
    assert_eq!(receiver.report().counters.dropped, 0);
}

/// Holds the receiving thread up at its first message.
#[derive(Debug)]
struct HeldUp(Option<mpsc::Receiver<()>>);

impl Tap for HeldUp {
    fn see(&mut self, _: usize, _: &Message<'_>) {
        if let Some(release) = self.0.take() {
            let _ = release.recv();
        }
    }
}

#[test]
fn what_waits_in_the_socket_is_not_given_up_when_the_thread_was_held_up() {
    for paths in [1, 2] {
        let (format, to) = (format(8), (0..paths).map(|_| free()).collect::<Vec<_>>());
        let (release, held) = mpsc::channel();
        let tap: Box<dyn Tap> = Box::new(HeldUp(Some(held)));
        let mut receiver =
            Receiver::start_tapped(&settings(format, &to, 8), Clock::new(), Some(tap)).unwrap();
        let mut sender = Sender::new(format);
        let sent = sender.send(0, &to, |_, _| false);
        // Longer than the depacketizer waits for a frame of which nothing comes.
        let over = Clock::new().now() + Duration::from_millis(400);
        wait_for("time to pass", || Clock::new().now() >= over);
        release.send(()).unwrap();
        assert!(next(&mut receiver).picture.planes()[0].lines().flatten().eq(&sent));
        wait_for("all packets", || {
            let counters = receiver.report().counters;
            counters.packets + counters.duplicates + counters.late
                == (paths * sender.packetizer.layout().len()) as u64
        });
        let counters = receiver.report().counters;
        assert_eq!((counters.frames, counters.incomplete, counters.lost), (1, 0, 0), "{paths} paths");
    }
}

/// Packets that others send to the same port, in the middle of each frame: with the stream's own SSRC and numbers, with another
/// SSRC, and from the future.
#[test]
fn strangers_packets_are_in_no_frame() {
    for layout in [Layout::Pgroups, Layout::Planar] {
        let (format, to) = (format(8), [free()]);
        let settings = Settings { layout, ..settings(format, &to, 8) };
        let mut receiver = Receiver::start(&settings, Clock::new()).unwrap();
        let mut sender = Sender::new(format);
        let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
        let (mut before, mut sent_foreign) = (Sender::new(format), 0);
        for number in 0..40 {
            let mut foreign = before.datagrams(number, 0x99);
            foreign.truncate(10);
            for (index, datagram) in foreign.iter_mut().enumerate() {
                // The stream's own; another SSRC; the future.
                match index % 3 {
                    0 => {}
                    1 => datagram[11] ^= 1,
                    _ => datagram[4] ^= 0x40,
                }
            }
            // Not before the stream has begun: whoever is first is listened to.
            if number == 0 {
                foreign.clear();
            }
            let (gone, packets) = (Cell::new(0), sender.packetizer.layout().len());
            let frame = sender.send(number, &to, |_, index| {
                if index > 0
                    && index % 5 == 0
                    && index < packets - 1
                    && let Some(datagram) = foreign.get(gone.get())
                {
                    stranger.send_to(datagram, to[0]).unwrap();
                    gone.set(gone.get() + 1);
                }
                false
            });
            sent_foreign += gone.get();
            let got = next(&mut receiver);
            assert!(packed(&got.picture) == frame && got.lost == 0, "frame {number}");
        }
        let counters = receiver.report().counters;
        assert!(sent_foreign > 300, "{sent_foreign}");
        assert_eq!((counters.frames, counters.lost, counters.restarts), (40, 0, 0), "{counters:?}");
        assert_eq!((counters.refused, counters.incomplete), (sent_foreign as u64, 0), "{counters:?}");
    }
}

#[test]
fn an_observer_follows_the_largest_frames_without_memory_for_them() {
    let size = glassline_media::Size::new(16_384, 16_384).unwrap();
    let pixels = glassline_media::PixelFormat::pgroups(glassline_media::Chroma::Rgb, 16).unwrap();
    let format = raw_video::Format::new(pixels, size, raw_video::Scan::Progressive).unwrap();
    let (address, begun) = (free(), resident_bytes());
    let settings = settings(format, &[address], 4);
    let mut observer = Observer::start(&settings, Clock::new(), Box::new(HeldUp(None))).unwrap();
    let taken = resident_bytes().saturating_sub(begun);
    assert!(taken < format.frame_bytes() as u64 / 4, "{taken} bytes");
    let mut sender = Sender::new(format);
    // Nobody waits for 400,000 packets: of each frame only the beginning is sent.
    let watch = observer.watch();
    let heads: Vec<Vec<Vec<u8>>> = (0..3)
        .map(|number| {
            let packets = sender.packetizer.frame([number * 1500; 2]).take(100);
            packets.map(|packet| [packet.head, &vec![7; packet.bytes - packet.head.len()]].concat()).collect()
        })
        .collect();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sent = 0;
    for datagram in heads.iter().flatten() {
        socket.send_to(datagram, address).unwrap();
        sent += 1;
        // A socket holds few of them where the receiver does not get to run.
        if sent % 20 == 0 {
            wait_for("packets come", || watch.report().counters.packets == sent);
        }
    }
    let observed = observer.next(LONG).unwrap().expect("the first frame within 20 s");
    assert!(observed.captured <= observed.began && !observed.is_related);
    let counters = watch.report().counters;
    assert_eq!((counters.in_place, counters.refused), (0, 0), "{counters:?}");
}

/// Memory that this process has.
fn resident_bytes() -> u64 {
    let told = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = told.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

#[test]
fn what_cannot_be_opened_says_so() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = [taken.local_addr().unwrap()];
    let error = Receiver::start(&settings(format(8), &to, 4), Clock::new()).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let absent = Settings { processor: Some(4_000), ..settings(format(8), &[free()], 4) };
    assert!(Receiver::start(&absent, Clock::new()).is_err());
}
