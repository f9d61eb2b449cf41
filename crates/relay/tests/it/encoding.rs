//! From a source to its outputs through the library, as a program of somebody else's has it: files, pipes, sockets, a relay.

use glassline_delivery::http1::Response;
use glassline_delivery::http1::server::Request as HttpRequest;
use glassline_delivery::policy::StreamName;
use glassline_io::clock::Clock;
use glassline_measure::pattern::Pattern;
use glassline_media::container::ts::{Demuxer, Event, PACKET_BYTES};
use glassline_media::container::y4m;
use glassline_media::quantity::Bitrate;
use glassline_media::{AccessUnit, FrameRate, Size, Time, Utc};
use glassline_relay::{Hub, ListenerRole, Relay, Site};
use glassline_studio::capture::{self, Input, Length};
use glassline_studio::encode::{
    Change, EncoderRequest, Encoding, Ended, Error, Keyint, NotControlled, Request, Settings, SoundRequest,
    Supervisor, sound::Audio, sound_error::SoundError,
};
use glassline_studio::output::{self, Credentials, Demand, Opener, Output, Outputs, Packets, State, Target};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Long enough for any machine; nothing waits for it when all is well.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A folder of a test's own, which is gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("glassline-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A y4m file of the test pattern.
fn clip(folder: &Folder, pictures: u64) -> Input {
    let (size, rate) = (Size::new(320, 180).unwrap(), FrameRate::new(25, 1).unwrap());
    let mut pattern = Pattern::new(size, rate);
    let mut bytes = Vec::new();
    for number in 0..pictures {
        let picture = pattern.draw(number, Time::ZERO + rate.time_of(number), Utc::default());
        if number == 0 {
            y4m::write_header(&y4m::Header::of(&picture, rate), &mut bytes).unwrap();
        }
        y4m::write_picture(&picture, &mut bytes);
    }
    let path = folder.file("clip.y4m");
    std::fs::write(&path, bytes).unwrap();
    Input::File(path)
}

fn quick() -> Settings {
    Settings {
        preset: "ultrafast".to_owned(),
        bitrate: Bitrate::from_bits_per_second(500_000),
        keyint: Keyint::Time(Duration::from_millis(400)),
        threads: 1,
        ..Settings::default()
    }
}

/// A file as fast as it goes.
fn unpaced(input: Input) -> Request {
    Request { paced: false, settings: quick(), ..Request::new(input) }
}

/// The test pattern, live.
fn live(pictures: Option<u64>) -> Request {
    let length = Length { pictures, ..Length::default() };
    Request { length, settings: quick(), ..Request::new("test:320x180@50".parse().unwrap()) }
}

fn open(request: &Request) -> Encoding {
    Encoding::open(request, Clock::new()).unwrap()
}

fn targets(texts: &[&str]) -> Vec<Target> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn outputs(encoding: &Encoding, texts: &[&str]) -> Outputs {
    Opener::new(Credentials::default(), encoding.liveness()).open(&targets(texts)).unwrap()
}

/// Video and sound of a transport stream that is without a fault.
fn units(stream: &[u8]) -> (Vec<AccessUnit>, Vec<AccessUnit>) {
    assert!(!stream.is_empty() && stream.len().is_multiple_of(PACKET_BYTES));
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    demuxer.finish();
    let (mut video, mut audio) = (Vec::new(), Vec::new());
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { unit, .. } = event {
            if unit.codec.is_video() { video.push(unit) } else { audio.push(unit) }
        }
    }
    let counters = demuxer.counters();
    assert_eq!((counters.continuity_errors, counters.malformed_packets, counters.damaged_units), (0, 0, 0));
    (video, audio)
}

fn kept() -> (Arc<Mutex<Vec<u8>>>, Box<dyn Output>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&kept);
    let output = move |packets: &Packets<'_>| -> Result<Demand, output::Error> {
        into.lock().unwrap().extend_from_slice(packets.bytes);
        Ok(Demand::Nothing)
    };
    (kept, Box::new(output))
}

fn keys(video: &[AccessUnit]) -> Vec<usize> {
    video.iter().enumerate().filter(|(_, unit)| unit.random_access).map(|(at, _)| at).collect()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_file_is_encoded_whole_into_every_kind_of_file() {
    let folder = Folder::new("whole");
    let encoding = open(&unpaced(clip(&folder, 30)));
    let (ts, mp4) = (folder.file("out.ts"), folder.file("out.mp4"));
    let outputs = outputs(&encoding, &[ts.to_str().unwrap(), mp4.to_str().unwrap(), "null:"]);
    let statuses = outputs.statuses();
    let Ended { stats, result } = encoding.run(vec![Box::new(outputs)]);
    result.unwrap();
    let stream = std::fs::read(ts).unwrap();
    let (video, audio) = units(&stream);
    assert_eq!((video.len(), audio.len()), (30, 0));
    assert_eq!(keys(&video), [0, 10, 20], "every 400 ms");
    assert!(video.windows(2).all(|pair| pair[0].pts < pair[1].pts));
    assert_eq!((stats.len(), stats[0].pictures(), stats[0].dropped()), (1, 30, 0));
    let taken: Vec<_> =
        statuses.iter().map(|handle| handle.get()).map(|status| (status.state, status.bytes)).collect();
    assert_eq!(taken[0], (State::Sending, stream.len() as u64));
    assert_eq!(taken[2], taken[0], "null: takes all that a file takes");
    let mp4 = std::fs::read(mp4).unwrap();
    assert_eq!(&mp4[4..8], b"ftyp");
    assert!(mp4.windows(4).filter(|four| four == b"moof").count() >= 3);
}

#[test]
fn renditions_have_times_and_key_frames_in_common() {
    let folder = Folder::new("ladder");
    let renditions = ["320x180@25:400k", "160x90@12.5:100k"].map(|text| text.parse().unwrap()).to_vec();
    let request = Request { renditions, ..unpaced(clip(&folder, 40)) };
    let encoding = open(&request);
    let names: Vec<_> =
        encoding.renditions().map(|(name, format, _)| (name.to_owned(), format.size)).collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[1].1, Size::new(160, 90).unwrap());
    let ((large, one), (small, two)) = (kept(), kept());
    encoding.run(vec![one, two]).result.unwrap();
    let (large, small) = (units(&large.lock().unwrap()).0, units(&small.lock().unwrap()).0);
    assert_eq!((large.len(), small.len()), (40, 20));
    let times = |video: &[AccessUnit]| keys(video).iter().map(|at| video[*at].pts).collect::<Vec<_>>();
    assert_eq!(times(&large), times(&small));
}

#[test]
fn a_looped_file_goes_on_until_it_is_stopped() {
    let folder = Folder::new("looped");
    let request = Request { looped: true, ..unpaced(clip(&folder, 5)) };
    let encoding = open(&request);
    let (stopper, controls) = (encoding.stopper(), encoding.controls());
    let (stream, output) = kept();
    let running = std::thread::spawn(move || encoding.run(vec![output]).result);
    until("three times round", || controls.status()[0].pictures >= 15);
    assert!(!stopper.is_stopped());
    stopper.stop();
    running.join().unwrap().unwrap();
    let (video, _) = units(&stream.lock().unwrap());
    assert!(video.len() >= 15 && video.windows(2).all(|pair| pair[0].pts < pair[1].pts));
}

#[test]
fn key_frames_and_rates_come_when_they_are_asked_for() {
    let settings = Settings { keyint: Keyint::Time(Duration::from_secs(60)), ..quick() };
    let encoding = open(&Request { settings, ..live(None) });
    assert_eq!(encoding.audio(), Audio::default());
    let (stopper, controls) = (encoding.stopper(), encoding.controls());
    // An output that wants a key frame, as one does that somebody joins, gets it without anybody's asking.
    let (mut wants, stream) = (true, Arc::new(Mutex::new(Vec::new())));
    let into = Arc::clone(&stream);
    let output = move |packets: &Packets<'_>| -> Result<Demand, output::Error> {
        into.lock().unwrap().extend_from_slice(packets.bytes);
        let first = packets.ends_picture && std::mem::take(&mut wants);
        Ok(if first { Demand::KeyFrame } else { Demand::Nothing })
    };
    let running = std::thread::spawn(move || encoding.run(vec![Box::new(output)]).result);
    until("the output's key frame", || controls.status()[0].random_access_points >= 2);
    controls.request_key_frame();
    until("the key frame that was asked for", || controls.status()[0].random_access_points >= 3);
    controls.set_bitrate(0, Bitrate::from_bits_per_second(300_000)).unwrap();
    assert!(
        controls.set_bitrate(1, Bitrate::from_bits_per_second(300_000)).is_err(),
        "there is no second one"
    );
    until("the bit rate", || controls.status()[0].bitrate_bps == 300_000);
    stopper.stop();
    running.join().unwrap().unwrap();
    let (video, audio) = units(&stream.lock().unwrap());
    assert!(keys(&video).len() >= 3 && !audio.is_empty());
}

#[test]
fn progress_is_told_and_pictures_are_counted() {
    let mut encoding = open(&live(Some(75)));
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&told);
    encoding.report_progress(move |progress| into.lock().unwrap().push((progress.elapsed, progress.dropped)));
    let Ended { stats, result } = encoding.run(vec![kept().1]);
    result.unwrap();
    assert_eq!(stats[0].pictures() + stats[0].dropped(), 75);
    let told = told.lock().unwrap();
    assert!(!told.is_empty() && told.windows(2).all(|pair| pair[0].0 < pair[1].0), "{told:?}");
}

#[test]
fn an_output_that_fails_ends_the_encoding_with_its_error() {
    let encoding = open(&live(None));
    let mut left = 5;
    let output = move |packets: &Packets<'_>| -> Result<Demand, output::Error> {
        left -= u32::from(packets.ends_picture);
        if left == 0 { Err(output::Error::ReaderGone) } else { Ok(Demand::Nothing) }
    };
    let result = encoding.run(vec![Box::new(output)]).result;
    assert!(matches!(result, Err(Error::Output(output::Error::ReaderGone))), "{result:?}");
}

#[test]
fn one_output_that_fails_leaves_the_others_alone_and_is_told_at_the_end() {
    if !Path::new("/dev/full").exists() {
        return glassline_test_support::skip(
            "one_output_that_fails_leaves_the_others_alone_and_is_told_at_the_end",
            "there is no /dev/full",
        );
    }
    let folder = Folder::new("full");
    let encoding = open(&unpaced(clip(&folder, 20)));
    let (full, good) = (folder.file("full.ts"), folder.file("good.ts"));
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let outputs = outputs(&encoding, &[full.to_str().unwrap(), good.to_str().unwrap()]);
    let statuses = outputs.statuses();
    let result = encoding.run(vec![Box::new(outputs)]).result;
    assert!(
        matches!(&result, Err(Error::Output(output::Error::Write { name, .. })) if name.ends_with("full.ts")),
        "{result:?}"
    );
    assert_eq!(statuses[0].get().state, State::Failed);
    assert_eq!(units(&std::fs::read(good).unwrap()).0.len(), 20);
}

#[test]
fn outputs_that_cannot_be_opened_are_named() {
    let encoding = open(&live(Some(1)));
    let mut opener = Opener::new(Credentials::default(), encoding.liveness());
    let missing = opener.open(&targets(&["/nowhere/at/all.ts"])).err().unwrap();
    assert!(
        matches!(&missing, output::Error::Create { name, .. } if name == "/nowhere/at/all.ts"),
        "{missing}"
    );
    let unknown = opener.open(&targets(&["udp://no-such-name.invalid:1234"])).err().unwrap();
    assert!(unknown.to_string().contains("no-such-name.invalid"), "{unknown}");
    for wrong in ["ftp://host/live/a.ts", "http://host", "udp://host"] {
        assert!(wrong.parse::<Target>().is_err() || opener.open(&targets(&[wrong])).is_err(), "{wrong}");
    }
}

#[test]
fn datagrams_carry_whole_packets() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let encoding = open(&live(Some(40)));
    let outputs = outputs(&encoding, &[&format!("udp://{}", receiver.local_addr().unwrap())]);
    let status = outputs.statuses().remove(0);
    let running = std::thread::spawn(move || encoding.run(vec![Box::new(outputs)]).result);
    let (mut stream, mut datagram) = (Vec::new(), [0; 2048]);
    // What was sent is known once it has ended; a receiver on loopback has it then.
    until("the end of the stream", || {
        if let Ok(size) = receiver.recv(&mut datagram) {
            assert!(size.is_multiple_of(PACKET_BYTES) && size <= 7 * PACKET_BYTES, "{size}");
            stream.extend_from_slice(&datagram[..size]);
        }
        running.is_finished() && stream.len() as u64 >= status.get().bytes
    });
    running.join().unwrap().unwrap();
    assert!(units(&stream).0.len() >= 30);
}

/// Has no pages.
struct NoSite;

impl Site for NoSite {
    fn respond(&self, request: &HttpRequest, _: ListenerRole, _: IpAddr, _: &Hub) -> Response {
        Response::ok("text/plain", request.path.clone())
    }
}

fn relay() -> Relay {
    let listen = vec!["127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()];
    let settings = glassline_relay::Settings { listen, workers: 1, ..Default::default() };
    Relay::start(settings, Arc::new(NoSite)).unwrap()
}

fn bytes_in(relay: &Relay) -> u64 {
    relay.hub().streams().iter().map(|stream| stream.bytes_in).sum()
}

#[test]
fn a_pushed_stream_is_watched_and_its_end_is_told() {
    let relay = relay();
    let address = relay.addresses()[0];
    let encoding = open(&live(None));
    let (stopper, outputs) =
        (encoding.stopper(), outputs(&encoding, &[&format!("http://{address}/live/a.ts")]));
    let status = outputs.statuses().remove(0);
    let running = std::thread::spawn(move || encoding.run(vec![Box::new(outputs)]).result);
    until("the stream", || bytes_in(&relay) > 0);
    let mut viewer = TcpStream::connect(address).unwrap();
    viewer.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(viewer, "GET /live/a.ts HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut got = vec![0; 20_000];
    viewer.read_exact(&mut got).unwrap();
    assert!(got.starts_with(b"HTTP/1.1 200 "));
    assert_eq!(status.get().state, State::Sending);
    stopper.stop();
    running.join().unwrap().unwrap();
    assert_eq!(status.get().bytes, bytes_in(&relay), "the server has all that was sent");
}

#[test]
fn a_server_that_refuses_the_stream_ends_the_encoding() {
    let relay = relay();
    let held = relay.publish(&StreamName::parse("a").unwrap()).unwrap();
    let encoding = open(&live(None));
    let outputs = outputs(&encoding, &[&format!("http://{}/live/a.ts", relay.addresses()[0])]);
    let result = encoding.run(vec![Box::new(outputs)]).result;
    assert!(matches!(&result, Err(Error::Output(output::Error::Push { .. }))), "{result:?}");
    assert!(result.unwrap_err().to_string().contains("409"));
    drop(held);
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_runs() {
    let folder = Folder::new("refused");
    let clip = clip(&folder, 2);
    let refused = |request: &Request| Encoding::open(request, Clock::new()).err().unwrap();
    let looped = Request { looped: true, ..live(None) };
    assert!(matches!(refused(&looped), Error::Capture(capture::Error::NotAFile)));
    let sound = SoundRequest { codec: Some(Audio::S302m), ..SoundRequest::default() };
    let silent = Request { sound, ..unpaced(clip.clone()) };
    assert!(matches!(refused(&silent), Error::Sound(SoundError::None)));
    let settings = Settings { mux_rate: Some(Bitrate::from_bits_per_second(1_000_000)), ..quick() };
    let mux_rate = Request { settings, ..unpaced(clip.clone()) };
    assert!(matches!(refused(&mux_rate), Error::MuxRate(_)));
    let renditions = vec!["320x180@24:400k".parse().unwrap()];
    assert!(matches!(refused(&Request { renditions, ..unpaced(clip) }), Error::Ladder(_)));
    let missing = unpaced(Input::File(folder.file("missing.y4m")));
    assert!(matches!(refused(&missing), Error::Capture(_)));
    std::fs::write(folder.file("text.y4m"), "no y4m at all").unwrap();
    let text = unpaced(Input::File(folder.file("text.y4m")));
    assert!(matches!(refused(&text), Error::Capture(_)));
}

fn request(stream: &str, request: Request) -> (StreamName, EncoderRequest) {
    let name = StreamName::parse(stream).unwrap();
    let streams = vec![name.clone()];
    (name, EncoderRequest { request, input: "the pattern".to_owned(), streams })
}

#[test]
fn a_supervisor_has_the_encoders_that_are_wanted_and_no_others() {
    let relay = relay();
    let supervisor = Supervisor::new(|error| format!("in words: {error}"));
    let (a, of_a) = request("a", live(None));
    let (b, of_b) = request("b", unpaced(Input::File("/nowhere/clip.y4m".into())));
    supervisor
        .arrange(relay.hub().live_streams(), &BTreeMap::from([(a.clone(), of_a.clone()), (b.clone(), of_b)]));
    let status = |name: &str| supervisor.statuses().into_iter().find(|status| status.name == name);
    until("a's pictures", || status("a").unwrap().running.is_some_and(|running| running.pictures > 0));
    until("b's failure", || status("b").unwrap().state == "waiting");
    let failed = status("b").unwrap();
    assert!(failed.error.unwrap().starts_with("in words: ") && failed.retry_in_ms.unwrap() > 0.0);
    assert!(relay.publish(&a).is_err(), "the name is taken");

    // What can be asked of one that runs, of one that waits, and of one that is not there.
    supervisor.request_key_frame(&a).unwrap();
    supervisor.change(&a, &Change::Bitrate(Bitrate::from_bits_per_second(400_000))).unwrap();
    assert!(supervisor.request_key_frame(&b).is_err());
    let other = StreamName::parse("c").unwrap();
    assert!(matches!(supervisor.request_key_frame(&other), Err(NotControlled::NotBuiltIn)));

    // Another bit rate is no reason to begin anew; another size is. Who is not wanted any more ends.
    let mut changed = of_a.clone();
    changed.request.settings.bitrate = Bitrate::from_bits_per_second(700_000);
    supervisor.arrange(relay.hub().live_streams(), &BTreeMap::from([(a.clone(), changed)]));
    until("the bit rate", || {
        status("a").unwrap().running.is_some_and(|running| running.bitrate_bps == 700_000)
    });
    assert!(status("b").is_none() && status("a").unwrap().restarts == 0);
    let before = bytes_in(&relay);
    let larger = Request { input: "test:640x360@25".parse().unwrap(), ..live(None) };
    supervisor.arrange(relay.hub().live_streams(), &BTreeMap::from([request("a", larger)]));
    until("the larger pictures", || {
        let runs = status("a").unwrap().running.is_some_and(|running| running.name.contains("640x360"));
        runs || bytes_in(&relay) > before + 100_000
    });
    supervisor.end();
    assert!(supervisor.statuses().is_empty());
    until("the name", || relay.publish(&a).is_ok());
}
