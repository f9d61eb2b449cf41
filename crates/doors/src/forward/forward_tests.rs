//! Streams that are published to a service of the test: our own server's state machine on a socket, and sockets that misbehave.

use super::*;
use crate::Server;
use crate::testing::{House, name};
use crate::testing_tls::{acceptor, certificate};
use crate::wire::Wire;
use glassline_delivery::stream::Mux;
use glassline_io::tcp::Connection as Socket;
use glassline_io::tls::{READ_BYTES_MIN, Roots};
use glassline_media::container::flv::demux::{self, Tags};
use glassline_media::container::ts::mux::{AudioFormat, MuxSettings, Muxer};
use glassline_media::{AccessUnit, Codec, Stamps, Ticks, Time};
use glassline_streams::Publisher;
use glassline_streams::status::ForwardState;
use glassline_test_support::program::Scratch;
use glassline_test_support::wait::{until, until_some};
use glassline_transport::rtmp::handshake::RANDOM_BYTES;
use glassline_transport::rtmp::{Address, Event, Refusal, ServerSession};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// x264's sets: baseline, 320x180.
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0d, 0xd9, 0x01, 0x41, 0x9f, 0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
    0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0xa4, 0x80,
];
const PPS: &[u8] = &[0x68, 0xcb, 0x83, 0xcb, 0x20];

/// A slice that tells its picture's number, of so many bytes.
fn slice(number: u32, bytes: usize) -> Vec<u8> {
    let first = if number.is_multiple_of(10) { [0x65, 0x88] } else { [0x41, 0x9a] };
    // No start code is in it.
    let digits = number.to_be_bytes().map(|byte| [byte >> 4 | 0x10, byte & 0xf | 0x10]);
    [&first[..], &digits.concat(), &vec![0x55; bytes]].concat()
}

/// A publisher of the stream, 25 pictures a second, ten in a group, with sound.
struct Encoder {
    publisher: Publisher,
    muxer: Muxer,
    number: u32,
    bytes: usize,
    /// The first time stamp, in pictures.
    begin: i64,
}

impl Encoder {
    fn new(house: &House, bytes: usize) -> Encoder {
        Encoder::at(house, bytes, 1000)
    }

    fn at(house: &House, bytes: usize, begin: i64) -> Encoder {
        let audio = AudioFormat { codec: Codec::Aac, channels: 2, language: None, he_aac: None };
        let settings = MuxSettings { video: Some(Codec::H264), audio: Some(audio), ..MuxSettings::default() };
        let (publisher, muxer) = (house.publish("a"), Muxer::new(settings).unwrap());
        Encoder { publisher, muxer, number: 0, bytes, begin }
    }

    /// Publishes the next picture and the sound beside it.
    fn send(&mut self) {
        let number = self.number;
        self.number += 1;
        let is_key = number.is_multiple_of(10);
        let at = Ticks((self.begin + i64::from(number)) * 3600);
        let sets: &[&[u8]] = if is_key { &[&[9, 0xf0], SPS, PPS] } else { &[&[9, 0xf0]] };
        let own = slice(number, self.bytes);
        let nals = sets.iter().copied().chain([&own[..]]);
        let data: Vec<u8> = nals.flat_map(|nal| [&[0, 0, 0, 1], nal].concat()).collect();
        let adts = [&[0xff, 0xf1, 0x4c, 0x80, 1, 0x7f, 0xfc, 0x21][..], &number.to_be_bytes()[..3]].concat();
        let unit = |codec, data: Vec<u8>, random_access| AccessUnit {
            codec,
            data: data.into(),
            pts: at,
            dts: at,
            random_access,
            stamps: Stamps::default(),
        };
        let mut out = Vec::new();
        self.muxer.write(&unit(Codec::H264, data, is_key), &mut out).unwrap();
        self.muxer.write(&unit(Codec::Aac, adts, true), &mut out).unwrap();
        self.publisher.push(&out).unwrap();
    }
}

/// A service's side of a connection.
struct Peer {
    wire: Wire,
    session: ServerSession,
    tags: Tags,
    pending: Vec<u8>,
    is_over: bool,
}

struct Service {
    listener: TcpListener,
    house: Arc<House>,
    forwards: Forwards,
}

impl Service {
    /// A service that nothing is published to yet.
    fn new() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let pauses = Pauses { least: Duration::from_millis(300), most: Duration::from_millis(600) };
        Service { listener, house: House::new(), forwards: Forwards::new(pauses) }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    fn forward(&self, scheme: &str, roots: Roots) {
        self.forward_to(&format!("{scheme}://localhost:{}/live/SECRET", self.address().port()), roots);
    }

    fn forward_to(&self, url: &str, roots: Roots) {
        let wanted = WantedForward { stream: name("a"), address: Address::parse(url).unwrap(), roots };
        self.forwards.arrange(self.house.streams(), vec![wanted]);
    }

    fn status(&self) -> ForwardStatus {
        self.forwards.forwards(&name("a")).remove(0)
    }

    fn figure(&self, wanted: &str) -> u64 {
        self.status().figures.iter().find(|figure| figure.name == wanted).unwrap().value as u64
    }

    /// The next connection.
    fn accept(&self) -> Socket {
        let stream = until_some("a connection", || self.listener.accept().ok()).0;
        stream.set_nonblocking(true).unwrap();
        Socket::from_descriptor(OwnedFd::from(stream))
    }
}

impl Peer {
    fn new(wire: Wire) -> Peer {
        let session = ServerSession::new([1; RANDOM_BYTES], Time::ZERO);
        Peer { wire, session, tags: Tags::new(), pending: Vec::new(), is_over: false }
    }

    fn plain(service: &Service) -> Peer {
        Peer::new(Wire::plain(service.accept()))
    }

    /// What comes next, where it has come; `None` for nothing.
    fn look(&mut self) -> Option<Event> {
        let mut room = vec![0; READ_BYTES_MIN];
        match self.wire.read(&mut room) {
            Ok(Some(0)) | Err(_) => self.is_over = true,
            Ok(Some(count)) => self.pending.extend_from_slice(&room[..count]),
            Ok(None) => {}
        }
        let mut rest = &self.pending[..];
        let event = self.session.push(&mut rest).unwrap();
        self.pending = rest.to_vec();
        self.answer();
        event
    }

    fn answer(&mut self) {
        let answer = self.session.take_output();
        let mut rest = &answer[..];
        while !rest.is_empty() && !self.is_over {
            match self.wire.write(rest) {
                Ok(count) => rest = &rest[count.unwrap_or(0)..],
                Err(_) => self.is_over = true,
            }
        }
        let _ = self.wire.flush();
    }

    fn event(&mut self, what: &str) -> Event {
        until_some(what, || self.look())
    }

    /// Takes the publisher, whatever its key. Returns the name that it asks with.
    fn take(&mut self) -> String {
        let Event::Publish(publish) = self.event("a publisher") else { panic!("something else") };
        self.session.accept();
        self.answer();
        publish.name
    }

    /// Units that have come, until `is_enough` of them.
    fn units(
        &mut self,
        mut feed: impl FnMut(),
        is_enough: impl Fn(&[AccessUnit]) -> bool,
    ) -> Vec<AccessUnit> {
        let mut units = Vec::new();
        until("units", || {
            feed();
            while let Some(event) = self.look() {
                if let Event::Media(media) = event {
                    self.tags.push(media.is_video, media.time, &media.payload);
                }
            }
            while let Some(event) = self.tags.poll() {
                if let demux::Event::AccessUnit { unit, .. } = event {
                    units.push(unit);
                }
            }
            is_enough(&units)
        });
        units
    }
}

/// The pictures' slices, in their order.
fn slices(units: &[AccessUnit]) -> Vec<Vec<u8>> {
    let of_unit = |unit: &AccessUnit| {
        let mut nals = glassline_media::bitstream::h264::nals(&unit.data).filter(|nal| nal.kind().is_slice());
        nals.next().unwrap().bytes.to_vec()
    };
    units.iter().filter(|unit| unit.codec == Codec::H264).map(of_unit).collect()
}

#[test]
fn a_service_gets_the_pictures_and_the_sound_as_they_were_published() {
    let service = Service::new();
    let mut encoder = Encoder::new(&service.house, 3000);
    service.forward("rtmp", Roots::System);
    let mut peer = Peer::plain(&service);
    until("the stream", || {
        encoder.send();
        encoder.number >= 12
    });
    assert_eq!(peer.take(), "SECRET");
    let Event::Metadata(metadata) = until_some("metadata", || {
        encoder.send();
        peer.look()
    }) else {
        panic!("something else")
    };
    assert!(metadata.has_video && metadata.has_audio, "{metadata:?}");
    let units = peer.units(|| encoder.send(), |units| units.len() >= 100);
    let pictures = slices(&units);
    let number =
        |slice: &[u8]| slice[2..10].iter().fold(0u32, |all, digit| all << 4 | u32::from(digit & 0xf));
    let first = number(&pictures[0]);
    assert!(first.is_multiple_of(10), "it begins with a key frame");
    for (index, picture) in pictures.iter().enumerate() {
        assert_eq!(*picture, slice(first + index as u32, 3000), "picture {index}");
    }
    let sounds: Vec<&AccessUnit> = units.iter().filter(|unit| unit.codec == Codec::Aac).collect();
    assert!(sounds.len() > 40 && sounds.iter().all(|unit| unit.data.len() == 11));
    // From 0 on, in the order of both.
    assert_eq!(units[0].dts, Ticks(0));
    assert!(units.windows(2).all(|pair| pair[0].dts <= pair[1].dts), "times never go back");
    // The figures come a moment behind what they count.
    until("the figures", || service.status().bytes > 100_000);
    let status = service.status();
    assert_eq!((&status.state, status.protocol), (&ForwardState::Publishing, "rtmp"));
    assert!(!format!("{status:?}").contains("SECRET"), "{status:?}");
    assert_eq!(service.figure("dropped_pictures"), 0);
    // Taken out of the configuration: the service is told that the stream is over.
    service.forwards.arrange(service.house.streams(), Vec::new());
    let last = until_some("the end", || peer.look().filter(|event| *event == Event::Unpublish));
    assert_eq!(last, Event::Unpublish);
    let counts = service.forwards.counts();
    let count = |name: &str| counts.iter().find(|count| count.name == name).unwrap().value;
    assert!(count("rtmp_forward_pictures_total") > 50 && count("rtmp_forwards") == 0);
}

#[test]
fn a_publisher_that_comes_back_with_another_clock_goes_on_where_it_was() {
    let service = Service::new();
    let mut encoder = Encoder::at(&service.house, 100, 5_000_000);
    service.forward("rtmp", Roots::System);
    let mut peer = Peer::plain(&service);
    encoder.send();
    peer.take();
    let before = peer.units(|| encoder.send(), |units| units.len() > 20);
    let mut all = before;
    // Another clock, 3 s back, and 9 s ahead, which is a hole of the same clock.
    for (jump, jumps) in [(None, 1), (Some(-75), 2), (Some(225), 2)] {
        let begin = jump.map_or(10, |jump| encoder.begin + i64::from(encoder.number) + jump);
        drop(encoder);
        encoder = Encoder::at(&service.house, 100, begin);
        let is_enough =
            |units: &[AccessUnit]| slices(units).iter().filter(|slice| slice[0] == 0x65).count() > 2;
        all.extend(peer.units(|| encoder.send(), is_enough));
        until("the jump", || service.figure("clock_jumps") == jumps);
    }
    assert!(all.windows(2).all(|pair| pair[1].dts >= pair[0].dts), "times never go back");
    assert!(all.windows(2).all(|pair| pair[1].dts.0 - pair[0].dts.0 < 60 * 90_000), "nor jump ahead");
    assert_eq!(service.figure("restarts"), 0, "it is the same connection");
}

#[test]
fn a_service_that_refuses_closes_or_is_absent_is_tried_again() {
    let service = Service::new();
    let mut encoder = Encoder::new(&service.house, 100);
    encoder.send();
    service.forward("rtmp", Roots::System);
    // It does not take the key, and says it in its words.
    let mut peer = Peer::plain(&service);
    assert!(matches!(peer.event("a publisher"), Event::Publish(_)));
    peer.session.refuse(Refusal::Denied, "the key SECRET is wrong");
    peer.answer();
    until("the refusal", || matches!(service.status().state, ForwardState::Refused { .. }));
    let reason = service.status().reason.unwrap();
    assert_eq!(reason, "publish was refused: NetStream.Publish.Denied (the key … is wrong)");
    assert_eq!(service.status().state.name(), "refused");
    drop(peer);
    // It closes at once.
    drop(service.accept());
    until("the failure", || service.figure("failures") == 2);
    let reason = service.status().reason.unwrap();
    assert!(
        reason.starts_with("the server has closed the connection instead of an answer to the handshake"),
        "{reason}"
    );
    assert_eq!(service.status().state.name(), "waiting");
    // It speaks something else.
    let mut http = Wire::plain(service.accept());
    http.write(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    until("the failure", || service.figure("failures") == 3);
    assert!(service.status().reason.unwrap().contains("HTTP"));
    // It says that the stream is published, and closes in the same breath, as nginx-rtmp does where publishing is denied.
    let mut peer = Peer::plain(&service);
    assert!(matches!(peer.event("a publisher"), Event::Publish(_)));
    peer.session.accept();
    let told = peer.session.take_output();
    assert_eq!(peer.wire.write(&told).unwrap(), Some(told.len()));
    drop(peer);
    until("the failure", || service.figure("failures") == 4);
    let reason = service.status().reason.unwrap();
    assert!(reason.contains("the stream key may be wrong"), "{reason}");
    // At last it takes the stream.
    let mut peer = Peer::plain(&service);
    peer.take();
    peer.units(|| encoder.send(), |units| units.len() > 5);
    assert_eq!((service.status().state, service.status().reason), (ForwardState::Publishing, None));
    // And goes away in the middle.
    drop(peer);
    until("the failure", || {
        encoder.send();
        service.figure("failures") == 5
    });
    let mut peer = Peer::plain(&service);
    let before = service.figure("restarts");
    peer.take();
    until("a restart", || service.figure("restarts") == before + 1);
}

#[test]
fn a_service_that_is_absent_at_first_is_found_when_it_comes() {
    let mut service = Service::new();
    let address = service.address();
    service.listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut encoder = Encoder::new(&service.house, 100);
    encoder.send();
    service.forward_to(&format!("rtmp://{address}/live/SECRET"), Roots::System);
    until("a failure", || service.figure("failures") >= 1);
    assert!(service.status().reason.unwrap().starts_with("cannot connect"), "{:?}", service.status());
    service.listener = TcpListener::bind(address).unwrap();
    service.listener.set_nonblocking(true).unwrap();
    let mut peer = Peer::plain(&service);
    peer.take();
    peer.units(|| encoder.send(), |units| units.len() > 5);
}

#[test]
fn a_service_that_reads_nothing_costs_pictures_and_never_holds_the_stream() {
    let service = Service::new();
    let mut encoder = Encoder::new(&service.house, 200_000);
    service.forward("rtmp", Roots::System);
    let mut peer = Peer::plain(&service);
    encoder.send();
    peer.take();
    until("dropped pictures", || {
        encoder.send();
        service.figure("dropped_pictures") > 20
    });
    assert_eq!(service.status().state, ForwardState::Publishing);
    // It reads again: what comes then is whole pictures, and goes on from a key frame.
    let units = peer.units(|| encoder.send(), |units| slices(units).len() > 60);
    let pictures = slices(&units);
    let number =
        |slice: &[u8]| slice[2..10].iter().fold(0u32, |all, digit| all << 4 | u32::from(digit & 0xf));
    for pair in pictures.windows(2) {
        let (one, next) = (number(&pair[0]), number(&pair[1]));
        assert_eq!(pair[1].len(), slice(next, 200_000).len());
        assert!(next == one + 1 || next > one && next.is_multiple_of(10), "{one} then {next}");
    }
}

#[test]
fn rtmps_is_spoken_with_a_service_that_is_trusted() {
    let service = Service::new();
    let mut encoder = Encoder::new(&service.house, 100);
    encoder.send();
    let scratch = Scratch::new("forward-tls");
    let roots = Roots::File(scratch.write("ca.pem", certificate()).into());
    service.forward("rtmps", roots.clone());
    let mut peer = Peer::new(Wire::secured(service.accept(), acceptor().accept().unwrap()));
    assert_eq!(peer.take(), "SECRET");
    peer.units(|| encoder.send(), |units| units.len() > 20);
    assert_eq!(service.status().protocol, "rtmps");
    drop(peer);
    // A certificate that no authority vouches for.
    let other = glassline_test_support::tls::Identity::new(&["localhost"]);
    let roots = Roots::File(scratch.write("other.pem", other.chain).into());
    service.forward("rtmps", roots);
    let mut wire = Wire::secured(service.accept(), acceptor().accept().unwrap());
    until("the refusal", || {
        let _ = wire.read(&mut vec![0; READ_BYTES_MIN]);
        let _ = wire.flush();
        service.status().reason.is_some_and(|reason| reason.starts_with("TLS failed"))
    });
}

#[test]
fn a_stream_that_is_not_there_is_not_connected_for_and_its_end_is_told() {
    let service = Service::new();
    service.forward("rtmp", Roots::System);
    until("idleness", || service.status().state == ForwardState::Idle);
    let mut encoder = Encoder::new(&service.house, 100);
    encoder.send();
    let mut peer = Peer::plain(&service);
    peer.take();
    peer.units(|| encoder.send(), |units| units.len() > 20);
    drop(encoder);
    let live = service.house.streams().find(&name("a")).unwrap();
    service.house.streams().end(&live);
    until("the end", || peer.look() == Some(Event::Unpublish));
    until("idleness", || service.status().state == ForwardState::Idle);
    assert_eq!(service.figure("failures"), 0);
}

#[test]
fn a_service_that_sends_on_and_on_ends_nothing_but_its_connection() {
    let service = Service::new();
    let mut encoder = Encoder::new(&service.house, 100);
    encoder.send();
    service.forward("rtmp", Roots::System);
    let mut peer = Peer::plain(&service);
    peer.take();
    until("the stream", || service.status().state == ForwardState::Publishing);
    // Requests of a ping, of which no answer is read.
    let ping = [2, 0, 0, 0, 0, 0, 6, 4, 0, 0, 0, 0, 0, 6, 0, 0, 0, 1];
    let pings = ping.repeat(2000);
    let mut written = 0;
    until("the end of the connection", || {
        for _ in 0..64 {
            match peer.wire.write(&pings[written..]) {
                Ok(Some(count)) => written = (written + count) % pings.len(),
                Ok(None) => break,
                Err(_) => return true,
            }
        }
        service.figure("failures") == 1
    });
    until("the reason", || service.figure("failures") == 1);
    let reason = service.status().reason.unwrap();
    assert!(reason.contains("takes no answers"), "{reason}");
}

#[test]
fn a_service_that_sends_on_and_on_does_not_hold_the_thread() {
    let service = Service::new();
    let mut encoder = Encoder::new(&service.house, 100);
    encoder.send();
    service.forward("rtmp", Roots::System);
    let mut peer = Peer::plain(&service);
    peer.take();
    until("the stream", || service.status().state == ForwardState::Publishing);
    // Acknowledgements, which nothing answers, as fast as they are taken.
    let told = [2, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 0, 1].repeat(4096);
    let (is_over, house) = (std::sync::atomic::AtomicBool::new(false), service.house.streams());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut written = 0;
            while !is_over.load(std::sync::atomic::Ordering::Acquire) {
                match peer.wire.write(&told[written..]) {
                    Ok(count) => written = (written + count.unwrap_or(0)) % told.len(),
                    Err(_) => break,
                }
            }
        });
        scope.spawn(|| {
            service.forwards.arrange(house, Vec::new());
            is_over.store(true, std::sync::atomic::Ordering::Release);
        });
        until("the end of the thread", || is_over.load(std::sync::atomic::Ordering::Acquire));
    });
}

#[test]
fn a_stream_that_is_no_mpeg_ts_is_not_connected_for() {
    let service = Service::new();
    let publisher = service.house.streams().publish(&name("a"), Mux::WebM).unwrap();
    service.forward("rtmp", Roots::System);
    until("the refusal", || matches!(service.status().state, ForwardState::Refused { .. }));
    assert!(service.status().reason.unwrap().contains("only MPEG-TS is forwarded"));
    assert!(service.listener.accept().is_err(), "no connection");
    // The publisher goes: it is not waited for the next attempt.
    drop(publisher);
    until("idleness", || service.status().state == ForwardState::Idle);
}

#[test]
fn counters_never_go_back_while_a_forward_ends() {
    let service = Service::new();
    let mut encoder = Encoder::new(&service.house, 200_000);
    service.forward("rtmp", Roots::System);
    let mut peer = Peer::plain(&service);
    encoder.send();
    peer.take();
    // It reads nothing: the end waits for a moment.
    until("dropped pictures", || {
        encoder.send();
        service.figure("dropped_pictures") > 20
    });
    let counts = || {
        let all = service.forwards.counts();
        all.into_iter().filter(|count| !count.is_gauge).map(|count| count.value).collect::<Vec<_>>()
    };
    let mut last = counts();
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| service.forwards.end());
        until("the end", || {
            let now = counts();
            assert!(now.iter().zip(&last).all(|(now, last)| now >= last), "{now:?} after {last:?}");
            last = now;
            ending.is_finished()
        });
    });
}
