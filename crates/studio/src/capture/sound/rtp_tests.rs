use super::*;
use glassline_media::AudioBlock;
use glassline_test_support::wait::until;
use glassline_transport::rtp::pcm::{PacketTime, Packetizer, PacketizerSettings};
use glassline_transport::sdp::Description;
use std::net::{SocketAddr, UdpSocket};

const RATE_HZ: u32 = 48_000;

fn blocks(channels: u8, direct: Option<u32>) -> Blocks {
    Blocks {
        format: Format { rate_hz: RATE_HZ, channels },
        clock: Clock::new(),
        media_clock: MediaClock::with_rate(direct, RATE_HZ),
        end: None,
        next: None,
        has_leapt: false,
    }
}

/// A millisecond of sound with this stamp; each sample is the number of its channel.
fn block(timestamp: u32, channels: u8, captured: Time) -> Block {
    let samples = (0..48).flat_map(|_| (0..channels).map(f32::from)).collect();
    let audio = AudioBlock { samples, channels, rate_hz: RATE_HZ, captured };
    Block { audio, timestamp, is_silence: false }
}

const AT: Time = Time::from_millis(5_000);
const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn the_first_channels_are_taken_and_the_others_left() {
    for (channels, expected) in [(1, vec![0.0; 48]), (2, [0.0, 1.0].repeat(48)), (8, [0.0, 1.0].repeat(48))] {
        let mut samples = Vec::new();
        blocks(channels.min(CHANNELS_MAX), None).push(&block(0, channels, AT), &mut samples);
        assert_eq!(samples, expected, "{channels}");
    }
}

#[test]
fn blocks_whose_stamps_go_on_are_joined_over_the_end_of_the_count() {
    let (mut blocks, mut samples) = (blocks(1, None), Vec::new());
    for number in 0..3 {
        let stamp = u32::MAX.wrapping_sub(47).wrapping_add(48 * number);
        blocks.push(&block(stamp, 1, AT + MILLISECOND * number), &mut samples);
    }
    assert_eq!((samples.len(), blocks.has_leapt), (3 * 48, false));
    assert_eq!(blocks.end, Some(AT + MILLISECOND * 3), "the last sample was captured when it came");
}

#[test]
fn what_came_before_a_leap_is_given_up_and_the_leap_is_told() {
    for step in [49, 47, 0, 1 << 31] {
        let (mut blocks, mut samples) = (blocks(1, None), Vec::new());
        blocks.push(&block(100, 1, AT), &mut samples);
        blocks.push(&block(100 + step, 1, AT + MILLISECOND), &mut samples);
        assert_eq!((samples.len(), blocks.has_leapt), (48, true), "{step}");
    }
}

#[test]
fn stamps_of_a_clock_in_common_tell_when_sound_was_captured() {
    // By its stamp it is ten milliseconds older than by its arrival.
    let clock = Clock::new();
    let arrived = clock.now();
    let tai = u128::from(clock.utc_at(arrived).as_nanos()) + MediaClock::TAI_AHEAD.as_nanos();
    let stamp = ((tai * u128::from(RATE_HZ) / 1_000_000_000) as u32).wrapping_sub(480);
    let captured = Time::from_nanos(arrived.as_nanos() - MILLISECOND.as_nanos() as u64);
    let age = |direct| {
        let mut blocks = blocks(1, direct);
        blocks.push(&block(stamp, 1, captured), &mut Vec::new());
        // The end is a millisecond after the first sample.
        arrived.since(blocks.end.expect("a block has come"))
    };
    assert!(age(Some(0)).abs_diff(Duration::from_millis(9)) < MILLISECOND / 10, "{:?}", age(Some(0)));
    assert_eq!(age(None), Duration::ZERO);
    // A clock that is a minute away is none in common.
    assert_eq!(age(Some(RATE_HZ * 60)), Duration::ZERO);
}

/// A flow of sound that is received, what packs for it, and the socket that it is sent by.
fn flow(bits: u8, channels: u8) -> (RtpSound, Packetizer, impl Fn(&[u8])) {
    let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\nm=audio {} RTP/AVP 97\r\nc=IN IP4 127.0.0.1\r\n\
         a=rtpmap:97 L{bits}/{RATE_HZ}/{channels}\r\na=ptime:1\r\n",
        to.port()
    );
    let description = Description::parse(&text).unwrap();
    let (flow, audio) = description.audio().unwrap();
    let sound = RtpSound::open(flow, audio, &Options::default(), Clock::new()).unwrap();
    let depth = if bits == 16 { Depth::L16 } else { Depth::L24 };
    let packetizer = Packetizer::new(PacketizerSettings {
        format: pcm::Format::new(depth, channels, RATE_HZ).unwrap(),
        packet_time: PacketTime::Millisecond,
        payload_type: 97,
        ssrc: 5,
        first_sequence: 65_534,
        first_timestamp: u32::MAX - 100,
    });
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = move |datagram: &[u8]| {
        socket.send_to(datagram, SocketAddr::from(([127, 0, 0, 1], to.port()))).unwrap();
    };
    (sound, packetizer.unwrap(), send)
}

/// Packets of so many milliseconds; each sample is the number of its channel, in sixteenths.
fn packets(packetizer: &mut Packetizer, millis: usize, channels: u8) -> Vec<Vec<u8>> {
    let samples = (0..48 * millis).flat_map(|_| (0..channels).map(|channel| f32::from(channel) / 16.0));
    let block = AudioBlock { samples: samples.collect(), channels, rate_hz: RATE_HZ, captured: Time::ZERO };
    let mut packets = Vec::new();
    packetizer.push(&block, &mut |datagram| packets.push(datagram.to_vec())).unwrap();
    packets
}

/// Reads until so many samples are there, of all channels. Gives them, and whether some were lost.
fn read(sound: &mut RtpSound, count: usize) -> (Vec<f32>, bool) {
    let (mut samples, mut is_lost) = (Vec::new(), false);
    until("samples", || {
        let arrival = sound.read(&Clock::new(), &mut samples).unwrap().expect("a flow has no end");
        is_lost |= arrival.lost;
        samples.len() >= count
    });
    (samples, is_lost)
}

#[test]
fn samples_arrive_as_they_were_sent_in_either_depth() {
    for (bits, channels) in [(16, 1), (24, 2), (24, 8)] {
        let (mut sound, mut packetizer, send) = flow(bits, channels);
        let taken = channels.min(2);
        let format = sound.format();
        assert_eq!((format.rate_hz, format.channels), (RATE_HZ, taken));
        packets(&mut packetizer, 20, channels).iter().for_each(|packet| send(packet));
        let (samples, is_lost) = read(&mut sound, 20 * 48 * usize::from(taken));
        let expected: Vec<f32> =
            (0..20 * 48).flat_map(|_| (0..taken).map(|channel| f32::from(channel) / 16.0)).collect();
        assert!(samples == expected && !is_lost, "{bits} bits, {channels} channels");
    }
}

#[test]
fn a_packet_that_is_missing_is_silence_and_its_place_is_kept() {
    let (mut sound, mut packetizer, send) = flow(24, 2);
    let all = packets(&mut packetizer, 10, 2);
    all.iter().enumerate().filter(|(index, _)| *index != 4).for_each(|(_, packet)| send(packet));
    let (samples, is_lost) = read(&mut sound, 10 * 96);
    let right = |packet: usize| samples[packet * 96 + 1];
    assert_eq!((samples.len(), is_lost), (960, false), "there is silence for it");
    assert_eq!((0..10).map(right).collect::<Vec<_>>(), {
        let mut expected = vec![1.0 / 16.0; 10];
        expected[4] = 0.0;
        expected
    });
    assert_eq!(sound.depacketizer.counters().packets.lost, 1);
    assert_eq!(sound.told.0, 1, "it was told");
}

#[test]
fn losses_are_told_at_once_and_then_no_more_often_than_each_ten_seconds() {
    let (mut sound, mut packetizer, send) = flow(24, 1);
    let mut lose = |sound: &mut RtpSound| {
        let all = packets(&mut packetizer, 3, 1);
        [&all[0], &all[2]].into_iter().for_each(|packet| send(packet));
        read(sound, 3 * 48);
    };
    lose(&mut sound);
    let (told, at) = sound.told;
    lose(&mut sound);
    assert_eq!((told, sound.told), (1, (told, at)), "the second one waits");
    sound.tell(at + TOLD);
    assert_eq!(sound.told, (2, at + TOLD));
    sound.tell(at + TOLD * 3);
    assert_eq!(sound.told, (2, at + TOLD), "there is nothing new to tell");
}

#[test]
fn what_is_no_sound_of_the_flow_is_counted_and_gives_nothing() {
    let (mut sound, mut packetizer, send) = flow(24, 1);
    let mut foreign = packets(&mut packetizer, 1, 1).remove(0);
    foreign[1] = 96;
    send(&foreign);
    send(b"no RTP at all");
    packets(&mut packetizer, 2, 1).iter().for_each(|packet| send(packet));
    let (samples, is_lost) = read(&mut sound, 2 * 48);
    assert_eq!((samples.len(), is_lost), (2 * 48, false));
    assert_eq!(sound.depacketizer.counters().refused, 2);
}

#[test]
fn where_nothing_comes_there_is_an_arrival_without_a_sample() {
    let (mut sound, _, _send) = flow(24, 2);
    let (mut samples, before) = (Vec::new(), Clock::new().now());
    let arrival = sound.read(&Clock::new(), &mut samples).unwrap().expect("a flow has no end");
    assert!(samples.is_empty() && !arrival.lost && arrival.end >= before);
}
