//! Video out of a sender, over loopback, into plain sockets.

use super::*;
use crate::capture::{self, Input, Length};
use glassline_io::clock::Clock;
use glassline_io::udp::Route;
use glassline_measure::barcode;
use glassline_media::container::y4m;
use glassline_media::pixels::{self, Converter, Packer, Unpacker};
use glassline_media::quantity::Bitrate;
use glassline_media::{Chroma, Picture, PixelFormat, Time};
use glassline_test_support::program::Scratch;
use glassline_transport::raw_video::{self, Depacketizer, Format, MediaClock, Packing, Scan, Store};
use glassline_transport::rtp::source::Origin;
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Takes all datagrams of one path.
struct Taker {
    settings: PathSettings,
    datagrams: Receiver<Vec<u8>>,
}

impl Taker {
    fn new() -> Taker {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (sender, datagrams) = channel();
        thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok(length) = socket.recv(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let route = Route::to(address);
        Taker { settings: PathSettings { route }, datagrams }
    }

    fn take(&self, count: usize) -> Vec<Vec<u8>> {
        let next = |_| self.datagrams.recv_timeout(Duration::from_secs(20)).expect("a datagram");
        (0..count).map(next).collect()
    }
}

struct Memory(Vec<u8>);

impl Store for Memory {
    fn open(&mut self) -> Option<usize> {
        Some(0)
    }
    fn bytes(&mut self, _: usize) -> &mut [u8] {
        &mut self.0
    }
}

/// The frames of these datagrams, each with its time stamp.
fn frames(format: Format, datagrams: &[Vec<u8>]) -> Vec<(Vec<u8>, u32)> {
    let settings = raw_video::Settings { format, payload_type: 96, paths: 1, skew: Duration::ZERO };
    let mut depacketizer = Depacketizer::new(settings);
    let (mut memory, mut out) = (Memory(vec![0; format.frame_bytes()]), Vec::new());
    for datagram in datagrams {
        depacketizer.take_datagram(Origin::default(), datagram, Time::from_millis(1), &mut memory);
        while let Some(done) = depacketizer.poll() {
            assert_eq!((done.slot, done.holes), (Some(0), Vec::new()));
            out.push((memory.0.clone(), done.timestamp));
        }
    }
    out
}

/// A y4m file of noise, and its pictures.
fn file(scratch: &Scratch, head: &str, count: usize) -> (String, Vec<Picture>) {
    let mut bytes = format!("YUV4MPEG2 {head}\n").into_bytes();
    let mut reader = y4m::Reader::new();
    assert_eq!(reader.parse(&mut &bytes[..]).unwrap(), None);
    let header = reader.header().unwrap().clone();
    let mut state = 1u64;
    for _ in 0..count {
        bytes.extend(b"FRAME\n");
        for index in 0..header.format.packed_bytes(header.size) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let is_high = header.format.sample_bytes() == 2 && index % 2 == 1;
            let mask = if is_high { (1u16 << (header.format.depth_bits - 8)) - 1 } else { 0xFF };
            bytes.push((state >> 56) as u8 & mask as u8);
        }
    }
    let (mut reader, mut rest) = (y4m::Reader::new(), &bytes[..]);
    let pictures = std::iter::from_fn(|| reader.parse(&mut rest).unwrap()).collect();
    (scratch.write("in.y4m", &bytes), pictures)
}

fn open(input: &str, settings: Settings) -> Result<RawSender> {
    RawSender::open(&input.parse::<Input>().unwrap(), settings, Clock::new())
}

fn packed(pictures: &[Picture]) -> Vec<Vec<u8>> {
    let mut packer = Packer::new();
    let pack = |picture| packer.pack(picture).unwrap().planes()[0].lines().collect::<Vec<_>>().concat();
    pictures.iter().map(pack).collect()
}

#[test]
fn frames_of_a_file_arrive_bit_for_bit_on_the_grid_of_the_epoch() {
    let scratch = Scratch::new("raw-send");
    let (path, pictures) = file(&scratch, "W64 H32 F100:1 Ip C422p10", 5);
    let taker = Taker::new();
    let sender = open(&path, Settings::to(vec![taker.settings.clone()])).unwrap();
    let (format, packets, monitor) = (sender.format(), sender.packets(), sender.monitor());
    assert_eq!((format.pixels().depth_bits, format.scan()), (10, Scan::Progressive));
    sender.run().unwrap();
    let frames = frames(format, &taker.take(5 * packets));
    assert_eq!(frames.iter().map(|(bytes, _)| bytes.clone()).collect::<Vec<_>>(), packed(&pictures));
    // A hundred frames a second: 900 ticks, counted from the epoch.
    assert!(frames.windows(2).all(|pair| pair[1].1.wrapping_sub(pair[0].1) == 900));
    let (clock, mut stamps) = (Clock::new(), MediaClock::new(Some(0)));
    let now = clock.now();
    let captured = stamps.captured(frames[4].1, now, clock.utc());
    assert!(now.since(captured) < Duration::from_secs(20));
    let statistics = monitor.statistics();
    assert_eq!((statistics.frames, statistics.packets), (5, 5 * packets as u64));
    assert_eq!((statistics.dropped_frames, statistics.failed_packets()), (0, 0));
    assert!(statistics.class.is_some() && !statistics.launches[0].is_used, "{statistics:?}");
}

#[test]
fn pictures_become_what_is_asked_for() {
    let scratch = Scratch::new("raw-send");
    let (path, pictures) = file(&scratch, "W64 H32 F100:1 Ip C420jpeg", 2);
    for (chroma, depth) in [(Chroma::Yuv422, 8), (Chroma::Yuv420, 8), (Chroma::Yuv444, 10), (Chroma::Rgb, 8)]
    {
        let taker = Taker::new();
        let pixels = PixelFormat::planar(chroma, depth);
        let settings = Settings { pixels: Some(pixels), ..Settings::to(vec![taker.settings.clone()]) };
        let sender = open(&path, settings).unwrap();
        let (format, packets) = (sender.format(), sender.packets());
        sender.run().unwrap();
        let mut expander = pixels::Expander::new(pixels);
        let expected: Vec<_> = pictures.iter().map(|picture| expander.expand(picture.clone())).collect();
        let found: Vec<_> =
            frames(format, &taker.take(2 * packets)).into_iter().map(|frame| frame.0).collect();
        assert!(found == packed(&expected), "{chroma:?} {depth}");
    }
}

#[test]
fn two_paths_carry_the_same_packets() {
    let scratch = Scratch::new("raw-send");
    let (path, _) = file(&scratch, "W64 H32 F100:1 Ip C422", 3);
    let (one, other) = (Taker::new(), Taker::new());
    let settings = Settings {
        packing: Packing::Block,
        datagram_bytes: 500,
        ..Settings::to(vec![one.settings.clone(), other.settings.clone()])
    };
    let sender = open(&path, settings).unwrap();
    let packets = sender.packets();
    assert!(packets > 5);
    let description = sender.description("two").to_string();
    assert!(description.contains("a=group:DUP"), "{description}");
    sender.run().unwrap();
    assert_eq!(one.take(3 * packets), other.take(3 * packets));
}

#[test]
fn fields_go_one_after_the_other_with_stamps_of_their_own() {
    let scratch = Scratch::new("raw-send");
    let (path, pictures) = file(&scratch, "W64 H32 F50:1 It C422", 2);
    let taker = Taker::new();
    let sender = open(&path, Settings::to(vec![taker.settings.clone()])).unwrap();
    let (format, packets) = (sender.format(), sender.packets());
    assert_eq!(format.scan(), Scan::Interlaced);
    sender.run().unwrap();
    let datagrams = taker.take(2 * packets);
    let found: Vec<_> = frames(format, &datagrams).into_iter().map(|frame| frame.0).collect();
    assert!(found == packed(&pictures));
    let stamp = |datagram: &Vec<u8>| u32::from_be_bytes(*datagram[4..].first_chunk().unwrap());
    let is_second = |datagram: &&Vec<u8>| datagram[16] & 0x80 != 0;
    let second = datagrams.iter().find(is_second).unwrap();
    assert_eq!(stamp(second).wrapping_sub(stamp(&datagrams[0])), 900, "half of a fiftieth of a second");
    // A bottom field that comes first is no first field of ours.
    let (bottom, _) = file(&scratch, "W64 H32 F50:1 Ib C422", 2);
    assert!(matches!(open(&bottom, Settings::to(vec![taker.settings.clone()])), Err(Error::BottomFirst)));
    let whole = Settings { scan: Some(Scan::Segmented), ..Settings::to(vec![taker.settings.clone()]) };
    assert_eq!(open(&bottom, whole).unwrap().format().scan(), Scan::Segmented);
}

#[test]
fn a_file_goes_round_and_round_from_memory() {
    let scratch = Scratch::new("raw-send");
    let (path, pictures) = file(&scratch, "W64 H32 F100:1 Ip C422p10", 3);
    let expected = packed(&pictures);
    for rate in [Rate::Unlimited, Rate::Bits(Bitrate::from_bits_per_second(20_000_000)), Rate::Source] {
        let taker = Taker::new();
        let length = Length { pictures: Some(8), time: None };
        let paths = vec![taker.settings.clone()];
        let settings = Settings { looped: true, rate, length, shape: Shape::Burst, ..Settings::to(paths) };
        let sender = open(&path, settings.clone()).unwrap();
        assert_eq!(sender.kept(), Some(3));
        let (format, packets, monitor) = (sender.format(), sender.packets(), sender.monitor());
        sender.run().unwrap();
        let frames = frames(format, &taker.take(8 * packets));
        let is_right = |(number, (bytes, _)): (usize, &(Vec<u8>, u32))| *bytes == expected[number % 3];
        assert!(frames.len() == 8 && frames.iter().enumerate().all(is_right), "{rate:?}");
        assert!(frames.windows(2).all(|pair| pair[1].1.wrapping_sub(pair[0].1) as i32 > 0), "{rate:?}");
        assert_eq!(monitor.statistics().class.is_some(), rate != Rate::Unlimited);
        // One that does not fit is read while it is sent.
        let sender = open(&path, Settings { memory_bytes: format.frame_bytes(), ..settings }).unwrap();
        assert_eq!(sender.kept(), None);
        sender.run().unwrap();
        let found = self::frames(format, &taker.take(8 * packets));
        assert!(found.iter().enumerate().all(is_right), "{rate:?}");
    }
}

#[test]
fn the_test_pattern_arrives_with_its_barcode() {
    let taker = Taker::new();
    let pixels = PixelFormat::planar(Chroma::Yuv422, 10);
    let length = Length { pictures: Some(2), time: None };
    let settings = Settings { length, pixels: Some(pixels), ..Settings::to(vec![taker.settings.clone()]) };
    let sender = open("test:320x240@10", settings).unwrap();
    let (format, packets) = (sender.format(), sender.packets());
    sender.run().unwrap();
    let (bytes, stamp) = frames(format, &taker.take(packets)).remove(0);
    let mut picture = Picture::new(format.pixels(), format.size(), Time::ZERO);
    for (line, bytes) in picture.planes_mut()[0].lines_mut().zip(bytes.chunks(format.line_bytes())) {
        line.copy_from_slice(bytes);
    }
    let picture = Converter::new().convert(Unpacker::new().unpack(&picture), pixels::Scan::Progressive);
    let found = barcode::read(&picture).top_left.expect("a barcode");
    // The picture says when it was captured, and so does its stamp.
    let now = Clock::new().utc().as_micros();
    let captured = now - (now.wrapping_sub(found.captured_utc_micros) & 0xFF_FFFF_FFFF);
    let tai_ticks = ((u128::from(captured) + 37_000_000) * 90_000 / 1_000_000) as u32;
    assert!((tai_ticks.wrapping_sub(stamp) as i32).abs() <= 1, "{found:?} {stamp}");
}

#[test]
fn a_sender_ends_when_it_is_told_to() {
    let taker = Taker::new();
    let sender = open("test:64x32@50", Settings::to(vec![taker.settings.clone()])).unwrap();
    let (stopper, monitor) = (sender.stopper(), sender.monitor());
    let running = thread::spawn(move || sender.run());
    taker.take(10);
    stopper.stop();
    running.join().unwrap().unwrap();
    assert!(monitor.statistics().frames > 0);
}

#[test]
fn what_cannot_be_sent_is_told() {
    let taker = Taker::new();
    let to = || Settings::to(vec![taker.settings.clone()]);
    assert!(matches!(open("test:64x32@50", Settings::to(Vec::new())), Err(Error::Paths(0))));
    assert!(matches!(
        open("test:64x32@50", Settings { datagram_bytes: 20, ..to() }),
        Err(Error::Datagram(20))
    ));
    assert!(matches!(open("test:63x32@50", to()), Err(Error::Format(_))));
    assert!(matches!(
        open("test:64x32@50", Settings { looped: true, ..to() }),
        Err(Error::Capture(capture::Error::NotAFile))
    ));
    let scratch = Scratch::new("raw-send");
    let empty = scratch.write("empty.y4m", "YUV4MPEG2 W64 H32 F50:1 C422\n");
    assert!(matches!(open(&empty, Settings { looped: true, ..to() }), Err(Error::Empty(_))));
    let cut = scratch.write("cut.y4m", "YUV4MPEG2 W64 H32 F50:1 C422\nFRAME\nabc");
    let sender = open(&cut, to()).unwrap();
    assert!(matches!(sender.run(), Err(Error::Capture(_))));
    let nowhere = Route { source: "198.51.100.1".parse().ok(), ..Route::to("192.0.2.1:9".parse().unwrap()) };
    let settings = Settings::to(vec![PathSettings { route: nowhere }]);
    assert!(matches!(open("test:64x32@50", settings), Err(Error::Open { .. })));
}

#[test]
fn a_time_code_that_cannot_leave_at_all_is_an_error() {
    let taker = Taker::new();
    let beside = Taker::new();
    let broadcast = Route { address: "255.255.255.255:9".parse().unwrap(), ..beside.settings.route.clone() };
    let to = |route: &Route| {
        let paths = vec![PathSettings { route: route.clone() }];
        Some(AncillarySettings { paths, payload_type: 100, time_code: TimeCodeFrom::Clock })
    };
    let length = Length { pictures: Some(2), time: None };
    let settings = Settings { length, ..Settings::to(vec![taker.settings.clone()]) };
    let sent = |ancillary| open("test:64x32@50", Settings { ancillary, ..settings.clone() }).unwrap().run();
    // What is broadcast needs a permission that no sender asks for.
    let Err(error) = sent(to(&broadcast)) else { panic!("it was sent") };
    assert!(matches!(&error, Error::Beside { what: "time code", .. }), "{error}");
    sent(to(&beside.settings.route)).unwrap();
}
