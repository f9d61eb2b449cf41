//! Encoders that publish to a relay in the test's own process.

use super::*;
use crate::encode::sound::Audio;
use crate::encode::{Keyint, Settings};
use glassline_delivery::stream::{self, Backlog, FlushPolicy, Pacing, Prebuffer};
use glassline_media::quantity::Bitrate;
use glassline_streams::{FreeNames, NoThreads};
use glassline_test_support::program::Scratch;
use glassline_test_support::wait::until;

/// A supervisor and its relay; its encoders end with it, whatever becomes of the test.
struct Desk {
    supervisor: Supervisor,
    streams: Arc<Streams>,
}

impl Desk {
    fn new() -> Desk {
        let settings = stream::Settings {
            backlog: Backlog { time: Duration::from_secs(1), bytes: 1 << 20 },
            flush: FlushPolicy::Frame,
            pacing: Pacing::Off,
            prebuffer: Prebuffer::NONE,
        };
        let plan = Arc::new(FreeNames { settings, max_streams: 100 });
        let streams = Arc::new(Streams::new(plan, Arc::new(NoThreads), Clock::new()));
        Desk { supervisor: Supervisor::new(explain), streams }
    }

    /// Has these encoders and no others, each called as its first stream.
    fn arrange(&self, wanted: &[EncoderRequest]) {
        let wanted = wanted.iter().map(|request| (request.streams[0].clone(), request.clone())).collect();
        self.supervisor.arrange(&self.streams, &wanted);
    }

    fn status(&self, stream: &str) -> EncoderStatus {
        let all = self.supervisor.statuses();
        all.into_iter().find(|status| status.name == stream).expect("an encoder makes it")
    }

    /// How it does once it has coded a picture.
    fn running(&self, stream: &str) -> Status {
        until("a coded picture", || self.status(stream).running.is_some_and(|status| status.pictures > 0));
        self.status(stream).running.expect("it goes on")
    }

    fn until_waiting(&self, stream: &str) -> EncoderStatus {
        until("a failure", || self.status(stream).state == "waiting");
        self.status(stream)
    }

    /// Since when its publisher has published, which is another time for each publisher.
    fn published_since(&self, stream: &str) -> glassline_media::Time {
        let live = self.streams.find(&name(stream)).expect("there is the stream");
        live.published_since().expect("it has a publisher")
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.supervisor.end();
    }
}

fn explain(error: Error) -> String {
    format!("explained: {error}")
}

fn name(text: &str) -> StreamName {
    StreamName::parse(text).expect("a name")
}

fn rate(bits: u64) -> Bitrate {
    Bitrate::from_bits_per_second(bits)
}

fn request(input: &str, streams: &[&str]) -> EncoderRequest {
    let mut request = Request::new(input.parse().unwrap());
    request.settings = Settings {
        preset: "ultrafast".to_owned(),
        bitrate: rate(300_000),
        keyint: Keyint::Infinite,
        threads: 1,
        ..Settings::default()
    };
    request.sound.codec = Some(Audio::None);
    EncoderRequest {
        request,
        input: input.to_owned(),
        streams: streams.iter().map(|stream| name(stream)).collect(),
    }
}

/// One that codes the test pattern until it is told to end.
fn pattern(stream: &str) -> EncoderRequest {
    request("test:64x48@25", &[stream])
}

/// An encoder without a thread, in this phase.
fn still(wanted: EncoderRequest, phase: Phase) -> Encoder {
    Encoder {
        name: name("a"),
        explain,
        wanted: Mutex::new(wanted),
        state: Mutex::new(State { phase, ..State::default() }),
        changed: Condvar::new(),
    }
}

/// What is open, but does not run: what a running encoder is asked by.
fn open(wanted: &EncoderRequest) -> Encoding {
    Encoding::open(&wanted.request, Clock::new()).unwrap()
}

#[test]
fn an_encoder_publishes_its_stream_and_gives_the_name_up_at_the_end() {
    let desk = Desk::new();
    desk.arrange(&[pattern("a")]);
    assert_eq!(desk.running("a").name, "64x48@25");
    let status = desk.status("a");
    let told = (status.section.as_str(), status.input.as_str(), status.state, status.restarts);
    assert_eq!(told, ("a", "test:64x48@25", "running", 0));
    assert_eq!((status.error, status.retry_in_ms), (None, None));
    assert!(desk.streams.publish(&name("a"), Mux::MpegTs).is_err(), "the name is the encoder's");
    desk.supervisor.end();
    assert!(desk.supervisor.statuses().is_empty());
    desk.streams.publish(&name("a"), Mux::MpegTs).expect("the name is free when the end is over");
}

#[test]
fn one_that_cannot_be_opened_says_why_in_the_words_for_people_and_tries_again_ever_later() {
    let desk = Desk::new();
    desk.arrange(&[request("/no/such.y4m", &["a"])]);
    let status = desk.until_waiting("a");
    let error = status.error.clone().expect("it has failed");
    assert!(error.starts_with("explained: /no/such.y4m: "), "{error}");
    assert!(status.restarts >= 1 && status.running.is_none(), "{status:?}");
    assert!(status.retry_in_ms.is_some_and(|left| left <= LONGEST_PAUSE.as_secs_f64() * 1e3));
    let refused = desk.supervisor.request_key_frame(&name("a"));
    assert_eq!(refused, Err(NotControlled::NotRunning(Some(error))));
    // The first pause is a second: more than that is left only where the second one is longer.
    until("a longer pause", || {
        let status = desk.status("a");
        status.restarts > 1 && status.retry_in_ms.is_some_and(|left| left > 1_000.0)
    });
}

#[test]
fn an_input_that_has_ended_is_told_as_that() {
    let scratch = Scratch::new("supervisor-ended");
    let film = [&b"YUV4MPEG2 W2 H2 F25:1 C420\nFRAME\n"[..], b"abcdef"].concat();
    let desk = Desk::new();
    desk.arrange(&[request(&scratch.write("a.y4m", film), &["a"])]);
    let status = desk.until_waiting("a");
    assert_eq!(status.error.as_deref(), Some("the input has ended"));
}

#[test]
fn a_name_that_another_publisher_has_is_waited_for() {
    let desk = Desk::new();
    let other = desk.streams.publish(&name("a"), Mux::MpegTs).unwrap();
    desk.arrange(&[pattern("a")]);
    let error = desk.until_waiting("a").error.expect("it has failed");
    assert_eq!(error, "explained: a: stream a has a publisher already");
    drop(other);
    desk.running("a");
    let status = desk.status("a");
    assert_eq!((status.state, status.error), ("running", None), "what was wrong is so no longer");
    assert!(status.restarts >= 1);
}

#[test]
fn a_stream_that_no_encoder_makes_cannot_be_asked_for_anything() {
    let desk = Desk::new();
    desk.arrange(&[pattern("a")]);
    desk.running("a");
    assert_eq!(desk.supervisor.request_key_frame(&name("b")), Err(NotControlled::NotBuiltIn));
    assert_eq!(
        desk.supervisor.change(&name("b"), &Change::Bitrate(rate(9_000))),
        Err(NotControlled::NotBuiltIn)
    );
    let refused = desk.supervisor.change(&name("a"), &Change::Bitrate(rate(1)));
    let expected = ControlError::OutOfRange { bitrate: rate(1) };
    assert_eq!(refused, Err(NotControlled::Refused(expected)));
}

#[test]
fn a_key_frame_comes_when_it_is_asked_for() {
    let desk = Desk::new();
    desk.arrange(&[pattern("a")]);
    assert_eq!(desk.running("a").random_access_points, 1, "the first picture is one");
    desk.supervisor.request_key_frame(&name("a")).unwrap();
    until("the key frame", || desk.running("a").random_access_points == 2);
}

#[test]
fn each_rendition_is_a_stream_whose_bit_rate_changes_alone() {
    let desk = Desk::new();
    let mut ladder = request("test:64x48@50", &["high", "low"]);
    ladder.request.renditions = ["64x48@50:300k", "32x24@25:100k"].map(|text| text.parse().unwrap()).into();
    desk.arrange(&[ladder]);
    assert_eq!((desk.running("high").name, desk.running("low").name), ("64x48@50".into(), "32x24@25".into()));
    assert_eq!((desk.status("low").section, desk.supervisor.statuses().len()), ("high".to_owned(), 2));
    desk.supervisor.change(&name("low"), &Change::Bitrate(rate(60_000))).unwrap();
    until("the new rate", || desk.running("low").bitrate_bps == 60_000);
    assert_eq!(desk.running("high").bitrate_bps, 300_000);
}

#[test]
fn a_bit_rate_that_was_asked_for_holds_when_the_encoder_begins_again() {
    let desk = Desk::new();
    desk.arrange(&[pattern("a")]);
    desk.running("a");
    desk.supervisor.change(&name("a"), &Change::Bitrate(rate(200_000))).unwrap();
    until("the new rate", || desk.running("a").bitrate_bps == 200_000);
    // A stream that the relay has ended takes nothing more: the encoder fails.
    desk.streams.end(&desk.streams.find(&name("a")).unwrap());
    until("another start", || desk.status("a").restarts >= 1);
    until("the rate again", || {
        desk.status("a").running.is_some_and(|status| status.pictures > 0 && status.bitrate_bps == 200_000)
    });
}

#[test]
fn what_stays_as_it_was_goes_on_and_what_changes_begins_anew() {
    let desk = Desk::new();
    desk.arrange(&[pattern("a"), pattern("b"), pattern("c")]);
    let began = ["a", "b"].map(|stream| {
        desk.running(stream);
        desk.published_since(stream)
    });
    desk.running("c");
    let mut other = pattern("b");
    other.request.settings.preset = "superfast".to_owned();
    desk.arrange(&[pattern("a"), other]);
    desk.streams.publish(&name("c"), Mux::MpegTs).expect("the name of the one that is over is free");
    assert!(desk.supervisor.statuses().iter().all(|status| status.name != "c"));
    assert_eq!(desk.published_since("a"), began[0]);
    assert_eq!(desk.running("b").preset, "superfast");
    assert!(desk.published_since("b") > began[1]);
    assert_eq!(desk.status("b").restarts, 0, "it found its name free");
}

#[test]
fn a_request_with_another_bit_rate_alone_changes_it_as_the_encoder_runs() {
    let desk = Desk::new();
    desk.arrange(&[pattern("a")]);
    desk.running("a");
    let began = desk.published_since("a");
    let mut other = pattern("a");
    other.request.settings.bitrate = rate(150_000);
    desk.arrange(&[other]);
    until("the new rate", || desk.running("a").bitrate_bps == 150_000);
    assert_eq!(desk.published_since("a"), began);
}

#[test]
fn one_that_waits_takes_another_bit_rate_for_its_next_attempt() {
    let encoder = still(pattern("a"), Phase::Waiting(Instant::now()));
    encoder.lock().keep(0, &Change::Bitrate(rate(9_000)));
    let mut other = pattern("a");
    other.request.settings.bitrate = rate(150_000);
    assert!(encoder.adopt(&other));
    assert_eq!(*encoder.request(), other);
    assert!(
        encoder.lock().changes.values().all(Vec::is_empty),
        "what was asked for before holds until the request changes"
    );
}

#[test]
fn one_that_is_being_opened_begins_anew_for_another_bit_rate_and_not_for_the_same() {
    let encoder = still(pattern("a"), Phase::Starting);
    assert!(encoder.adopt(&pattern("a")));
    let mut other = pattern("a");
    other.request.settings.bitrate = rate(150_000);
    assert!(!encoder.adopt(&other), "it has read the request already");
}

#[test]
fn another_input_or_other_names_are_no_change_that_one_goes_on_with() {
    let encoder = still(pattern("a"), Phase::Waiting(Instant::now()));
    let renamed = EncoderRequest { streams: vec![name("b")], ..pattern("a") };
    let called = EncoderRequest { input: "another word for it".to_owned(), ..pattern("a") };
    for other in [request("test:32x24@25", &["a"]), renamed, called] {
        assert!(!encoder.adopt(&other), "{other:?}");
        assert_eq!(*encoder.request(), pattern("a"), "it is left as it was");
    }
}

#[test]
fn a_bit_rate_that_a_running_one_refuses_has_it_begin_anew() {
    let wanted = pattern("a");
    let encoding = open(&wanted);
    let encoder = still(wanted, Phase::Running(encoding.stopper(), encoding.controls()));
    let with = |bits| {
        let mut other = pattern("a");
        other.request.settings.bitrate = rate(bits);
        other
    };
    assert!(encoder.adopt(&with(150_000)));
    assert_eq!(encoding.controls().take_bitrate(0), Some(rate(150_000)));
    assert!(!encoder.adopt(&with(1)));
}

#[test]
fn stopping_one_that_runs_ends_what_it_encodes() {
    let wanted = pattern("a");
    let encoding = open(&wanted);
    let encoder = still(wanted, Phase::Running(encoding.stopper(), encoding.controls()));
    assert!(encoder.controls().is_ok());
    encoder.stop();
    assert!(encoding.stopper().is_stopped() && encoder.lock().stopping);
}

#[test]
fn each_phase_is_told_by_a_word_and_only_a_wait_has_a_time() {
    let told = |phase| {
        let encoder = still(pattern("a"), phase);
        encoder.lock().restarts = 3;
        encoder.status().remove(0)
    };
    let starting = told(Phase::Starting);
    assert_eq!((starting.state, starting.retry_in_ms, starting.restarts), ("starting", None, 3));
    let waiting = told(Phase::Waiting(Instant::now() + Duration::from_secs(3_600)));
    let left = waiting.retry_in_ms.expect("it is tried again");
    assert!(waiting.state == "waiting" && (1.0..=3_600_000.0).contains(&left), "{left}");
    let over = told(Phase::Waiting(Instant::now()));
    assert_eq!(over.retry_in_ms, Some(0.0), "it is about to be tried");
    assert!(starting.running.is_none() && waiting.running.is_none());
    let refused = still(pattern("a"), Phase::Starting).controls().err();
    assert_eq!(refused, Some(NotControlled::NotRunning(None)));
}
