use super::*;
use bytes::Bytes;
use glassline_delivery::stream::{Backlog, FlushPolicy, Pacing, Prebuffer, Settings};
use glassline_io::clock::Clock;
use glassline_media::{FrameRate, Size};
use glassline_streams::{FreeNames, NoThreads};
use glassline_test_support::wait::until;
use std::sync::atomic::AtomicUsize;

/// A picture that counts how often it is coded, or cannot be.
struct Counted {
    name: String,
    coded: AtomicUsize,
    is_broken: bool,
}

impl Picture for Counted {
    fn identity(&self) -> &str {
        &self.name
    }

    fn has_one_format(&self) -> bool {
        false
    }

    fn code(&self, format: Format) -> Result<Reel, String> {
        self.coded.fetch_add(1, Ordering::Relaxed);
        if self.is_broken {
            return Err("it cannot be coded".to_owned());
        }
        let picture = |key: bool| {
            let nal = if key { 0x65 } else { 0x41 };
            Bytes::from(vec![0, 0, 0, 1, 0x67, 0x42, 0, 0, 0, 1, 0x68, 0xce, 0, 0, 0, 1, nal, 0x88])
        };
        let pictures = (0..50).map(|number| picture(number == 0)).collect();
        Reel::still(pictures, format.frame_rate).ok_or_else(|| "no pictures".to_owned())
    }
}

fn picture(name: &str, is_broken: bool) -> Arc<Counted> {
    Arc::new(Counted { name: name.to_owned(), coded: AtomicUsize::new(0), is_broken })
}

fn slate(stream: &str, picture: &Arc<Counted>) -> Slate {
    let stream = StreamName::parse(stream).expect("a name");
    Slate { stream, picture: Arc::clone(picture) as _, silence: Duration::from_secs(2) }
}

fn streams(max_streams: usize) -> Arc<Streams> {
    let settings = Settings {
        backlog: Backlog { time: Duration::from_secs(1), bytes: 1 << 20 },
        flush: FlushPolicy::Frame,
        pacing: Pacing::Off,
        prebuffer: Prebuffer::NONE,
    };
    Arc::new(Streams::new(Arc::new(FreeNames { settings, max_streams }), Arc::new(NoThreads), Clock::new()))
}

fn shown(streams: &Streams, name: &str) -> bool {
    let name = StreamName::parse(name).expect("a name");
    streams.find(&name).is_some_and(|live| live.shows_slate() && live.chain.head() > 0)
}

#[test]
fn many_streams_show_a_picture_that_is_coded_once() {
    let (streams, slates, picture) = (streams(100), Slates::default(), picture("a", false));
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let all = names.iter().map(|name| slate(name, &picture)).collect();
    slates.arrange(&streams, all).expect("threads");
    until("all slates", || names.iter().all(|name| shown(&streams, name)));
    assert_eq!(picture.coded.load(Ordering::Relaxed), 1);
    assert_eq!(FrameRate::new(25, 1), Some(Format::USUAL.frame_rate));
    // One that is no longer wanted is over; a stream that has ended begins again.
    slates.arrange(&streams, vec![slate("s1", &picture)]).expect("threads");
    until("the end of one", || !shown(&streams, "s0"));
    let live = streams.find(&StreamName::parse("s1").expect("a name")).expect("it is there");
    streams.end(&live);
    until("another stream", || shown(&streams, "s1"));
    assert_eq!(picture.coded.load(Ordering::Relaxed), 1);
    slates.end();
    let head = streams.find(&StreamName::parse("s1").expect("a name")).expect("it stays").chain.head();
    assert!(head > 0);
}

#[test]
fn a_picture_that_cannot_be_coded_is_tried_once_and_another_takes_its_place() {
    let (streams, slates) = (streams(100), Slates::default());
    let (broken, good) = (picture("broken", true), picture("good", false));
    slates.arrange(&streams, vec![slate("a", &broken), slate("b", &good)]).expect("threads");
    until("the good one", || shown(&streams, "b"));
    until("the attempt", || broken.coded.load(Ordering::Relaxed) == 1);
    assert!(!shown(&streams, "a"));
    slates.arrange(&streams, vec![slate("a", &good)]).expect("threads");
    until("the good one there", || shown(&streams, "a"));
    assert_eq!((broken.coded.load(Ordering::Relaxed), good.coded.load(Ordering::Relaxed)), (1, 1));
}

#[test]
fn where_there_is_no_room_a_slate_waits() {
    let (streams, slates, picture) = (streams(1), Slates::default(), picture("a", false));
    slates.arrange(&streams, vec![slate("a", &picture), slate("b", &picture)]).expect("threads");
    until("the first one", || shown(&streams, "a"));
    assert!(!shown(&streams, "b"));
    slates.arrange(&streams, vec![slate("b", &picture)]).expect("threads");
    until("the other one", || shown(&streams, "b"));
}

#[test]
fn more_formats_than_are_kept_are_coded_once_each_and_stay() {
    let (streams, picture) = (streams(100), picture("a", false));
    let mut player = player(&streams);
    let (jobs, wanted) = channel();
    player.jobs = jobs;
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let mut playing: Vec<Playing> = names.iter().map(|name| playing(slate(name, &picture))).collect();
    let format =
        |number: u32| Format { size: Size { width: 320 + 2 * number, height: 240 }, ..Format::USUAL };
    for round in 0..3 {
        for (number, playing) in (0..).zip(&mut playing) {
            let live = streams.begin(&playing.slate.stream, Mux::MpegTs).expect("room");
            player.give(playing, &live, format(number));
            // It wants another one meanwhile: it has one job at a time.
            player.give(playing, &live, format(100 + number));
        }
        let asked = wanted.try_iter().count();
        assert_eq!(asked, if round == 0 { 20 } else { 0 }, "asked again in round {round}");
    }
    for number in 0..20 {
        let (identity, format) = ("a".to_owned(), format(number));
        let reel = picture.code(format);
        player.take(Coded { identity, format: Some(format), reel });
    }
    for (number, playing) in (0..).zip(&mut playing) {
        let live = streams.find(&playing.slate.stream).expect("it is there");
        player.give(playing, &live, format(number));
        assert_eq!(playing.given, Some(("a".to_owned(), Some(format(number)))));
    }
    assert_eq!(wanted.try_iter().count(), 0);
    // What no stream wants any more makes room.
    for (number, playing) in (0..).zip(&mut playing) {
        let live = streams.find(&playing.slate.stream).expect("it is there");
        player.give(playing, &live, format(100 + number % 2));
        let (identity, format) = ("a".to_owned(), format(100 + number % 2));
        player.take(Coded { identity, format: Some(format), reel: picture.code(format) });
    }
    let live = streams.find(&playing[0].slate.stream).expect("it is there");
    player.give(&mut playing[0], &live, format(200));
    assert!(player.reels["a"].len() <= FORMATS_MAX, "{}", player.reels["a"].len());
}

#[test]
fn a_slate_that_another_process_left_is_taken_from_a_stream_that_has_none_here() {
    let (streams, picture) = (streams(100), picture("a", false));
    let name = |name: &str| StreamName::parse(name).expect("a name");
    let left = |stream: &str| {
        let live = streams.begin(&name(stream), Mux::MpegTs).expect("room");
        let settings = SlateSettings { silence: Duration::from_secs(2), waker: Waker::noop().clone() };
        live.set_slate(Some(settings), streams.clock().now());
        live
    };
    let (one, other) = (left("one"), left("other"));
    Slates::default().arrange(&streams, Vec::new()).expect("no thread");
    assert!(!one.has_slate() && !other.has_slate(), "where there are no slates at all");
    let (one, other) = (left("one"), left("other"));
    let slates = Slates::default();
    slates.arrange(&streams, vec![slate("one", &picture)]).expect("threads");
    until("the end of the other", || !other.has_slate());
    assert!(one.has_slate());
}

fn playing(slate: Slate) -> Playing {
    Playing { slate, live: None, given: None, next: Time::ZERO, is_refused: false }
}

fn player(streams: &Arc<Streams>) -> Player {
    let waking = Arc::new(Waking { mailbox: channel().0, is_woken: AtomicBool::new(false) });
    Player {
        streams: Arc::clone(streams),
        waking,
        jobs: channel().0,
        playing: BTreeMap::new(),
        reels: BTreeMap::new(),
        wanted: BTreeMap::new(),
    }
}
