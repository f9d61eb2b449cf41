use super::*;
use glassline_media::{FrameRate, Ticks};
use glassline_test_support::program::Scratch;
use glassline_test_support::wait::until;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::time::Duration;

#[test]
fn inputs_are_told_apart() {
    assert_eq!("fd:3".parse(), Ok(AudioIn::Fd(3)));
    assert_eq!("alsa:hw:CARD=PCH,DEV=0".parse(), Ok(AudioIn::Alsa("hw:CARD=PCH,DEV=0".to_owned())));
    assert_eq!("a/b.WAV".parse(), Ok(AudioIn::Wav("a/b.WAV".into())));
    for (text, complaint) in
        [("fd:x", "number"), ("alsa:", "no device"), ("a.mp3", "none of"), ("", "none of")]
    {
        let refused = text.parse::<AudioIn>().unwrap_err().to_string();
        assert!(refused.contains(complaint), "{refused}");
    }
}

#[test]
fn raw_formats_are_read_and_refused() {
    let format = |rate_hz, channels| Format { rate_hz, channels };
    let read: RawFormat = "s24le:44100:6".parse().unwrap();
    assert_eq!(read, RawFormat { sample: SampleFormat::S24, format: format(44_100, 6) });
    assert_eq!("s16le:48000:2".parse(), Ok(RawFormat::default()));
    for (text, complaint) in [
        ("s16le", "not FORMAT:RATE:CHANNELS"),
        ("s16be:48000:2", "one of s16le"),
        ("s16le:100:2", "8000 to 192000"),
        ("s16le:48000:0", "1 to 8"),
        ("s16le:48000:9", "1 to 8"),
    ] {
        let refused = text.parse::<RawFormat>().unwrap_err().to_string();
        assert!(refused.contains(complaint), "{refused}");
    }
}

#[test]
fn a_file_that_is_not_there_is_said() {
    let refused = |input: &str, raw| {
        let error = SoundInput::open(&input.parse().unwrap(), raw).err().unwrap();
        error.to_string()
    };
    assert!(refused("/no/such.wav", None).contains("No such file"));
    assert!(refused("/no/such.wav", Some(RawFormat::default())).contains("says itself"));
    assert!(refused("fd:1000000", None).contains("fd:1000000"));
}

/// Takes sound beside pictures of which the first was captured at a given time, if there is one.
#[derive(Default)]
struct Heard {
    first: Option<Time>,
    /// Blocks that are taken at most.
    most: Option<usize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    blocks: Vec<AudioBlock>,
    accompanies: bool,
    is_over: bool,
}

impl Heard {
    fn blocks(&self) -> Vec<AudioBlock> {
        self.state.lock().unwrap().blocks.clone()
    }
}

impl Consumer for Heard {
    fn push(&self, item: Item) -> bool {
        let Item::Sound(block) = item else { panic!("there are no pictures") };
        let mut state = self.state.lock().unwrap();
        state.blocks.push(block);
        state.is_over = self.most.is_some_and(|most| state.blocks.len() >= most);
        !state.is_over
    }

    fn begin_again(&self, _: Ticks) -> bool {
        true
    }

    fn accompany(&self, _: FileAudio) {
        self.state.lock().unwrap().accompanies = true;
    }

    fn first_picture(&self) -> Option<Time> {
        self.first
    }

    fn count_dropped(&self, _: u64) {}

    fn is_stopped(&self) -> bool {
        self.state.lock().unwrap().is_over
    }

    fn end(&self, _: Result<(), Error>) {}
}

/// A WAVE file of two channels with so many samples of each, 48 kHz, which count up.
fn wave(scratch: &Scratch, frames: usize) -> PathBuf {
    let head = wav::head_of(48_000, 2, 2, Some(4 * frames as u32));
    let samples = (0..2 * frames).flat_map(|at| (at as i16).to_le_bytes());
    scratch.write("a.wav", head.into_iter().chain(samples).collect::<Vec<u8>>()).into()
}

fn track(path: &Path) -> Track {
    Track::Wav(Box::new(WavFile::open(path).unwrap()))
}

/// A time that is over, so that nothing is waited for.
fn past() -> Time {
    Time::from_nanos(Clock::new().now().as_nanos() - 5_000_000_000)
}

/// When blocks begin after `first`, in milliseconds.
fn begins(blocks: &[AudioBlock], first: Time) -> Vec<u128> {
    blocks.iter().map(|block| block.captured.since(first).as_millis()).collect()
}

#[test]
fn a_file_beside_live_pictures_begins_with_the_first_of_them() {
    let scratch = Scratch::new("play-once");
    let first = past();
    let heard = Heard { first: Some(first), ..Heard::default() };
    play(track(&wave(&scratch, 600)), false, &heard, Clock::new()).unwrap();
    let blocks = heard.blocks();
    assert_eq!(begins(&blocks, first), [0, 5, 10]);
    assert_eq!(blocks.iter().map(AudioBlock::frames).collect::<Vec<_>>(), [240, 240, 120]);
}

#[test]
fn a_file_that_is_played_again_goes_on_where_it_ended() {
    let scratch = Scratch::new("play-again");
    let first = past();
    let heard = Heard { first: Some(first), most: Some(7), ..Heard::default() };
    play(track(&wave(&scratch, 720)), true, &heard, Clock::new()).unwrap();
    let blocks = heard.blocks();
    assert_eq!(begins(&blocks, first), [0, 5, 10, 15, 20, 25, 30]);
    assert_eq!((&blocks[3].samples, &blocks[6].samples), (&blocks[0].samples, &blocks[0].samples));
    assert_ne!(blocks[1].samples, blocks[0].samples);
}

#[test]
fn sound_is_handed_over_when_it_would_have_been_captured_and_no_earlier() {
    let scratch = Scratch::new("play-timed");
    let first = Clock::new().now();
    let heard = Heard { first: Some(first), ..Heard::default() };
    play(track(&wave(&scratch, 2_400)), false, &heard, Clock::new()).unwrap();
    assert!(Clock::new().now().since(first) >= Duration::from_millis(50), "faster than it sounds");
    assert_eq!(heard.blocks().len(), 10);
}

#[test]
fn nothing_is_played_beside_a_source_that_gave_no_picture() {
    let scratch = Scratch::new("play-nothing");
    let heard = Heard::default();
    play(track(&wave(&scratch, 600)), true, &heard, Clock::new()).unwrap();
    assert!(heard.blocks().is_empty());
}

#[test]
fn a_file_without_a_sample_ends_also_where_it_would_be_played_again() {
    let scratch = Scratch::new("play-empty");
    let heard = Heard { first: Some(past()), ..Heard::default() };
    play(track(&wave(&scratch, 0)), true, &heard, Clock::new()).unwrap();
    assert!(heard.blocks().is_empty());
}

#[test]
fn a_file_that_has_gone_when_it_would_be_played_again_is_a_failure() {
    let scratch = Scratch::new("play-gone");
    let path = wave(&scratch, 240);
    let track = track(&path);
    std::fs::remove_file(&path).unwrap();
    let heard = Heard { first: Some(past()), ..Heard::default() };
    let failed = play(track, true, &heard, Clock::new()).unwrap_err();
    assert!(matches!(failed, Error::Open { .. }), "{failed}");
    assert_eq!(heard.blocks().len(), 1, "it was heard once");
}

#[test]
fn a_file_goes_along_with_pictures_of_a_file_and_is_played_beside_live_ones() {
    let scratch = Scratch::new("sound-start");
    let input = AudioIn::Wav(wave(&scratch, 600));
    let rate = FrameRate::new(25, 1).unwrap();
    let start = |pace| {
        let heard = Arc::new(Heard { first: Some(past()), ..Heard::default() });
        let opened = SoundInput::open(&input, None).unwrap();
        assert_eq!((opened.channels(), opened.is_live()), (2, false));
        opened.start(&heard, pace, false, Clock::new()).unwrap();
        heard
    };
    for timed in [false, true] {
        let along = start(Pace::File { rate, timed });
        assert!(along.state.lock().unwrap().accompanies && along.blocks().is_empty());
    }
    let beside = start(Pace::Live);
    until("all of it", || beside.blocks().len() == 3);
    assert!(!beside.state.lock().unwrap().accompanies);
}

#[test]
fn raw_samples_are_live_whatever_pictures_they_go_with() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let raw = "s16le:48000:1".parse().ok();
    let opened = SoundInput::open(&AudioIn::Fd(reader.as_raw_fd() as u32), raw).unwrap();
    assert_eq!((opened.channels(), opened.is_live()), (1, true));
    let heard = Arc::new(Heard { most: Some(3), ..Heard::default() });
    let pace = Pace::File { rate: FrameRate::new(25, 1).unwrap(), timed: true };
    opened.start(&heard, pace, false, Clock::new()).unwrap();
    // More than a second of it at once: it is read, not captured.
    writer.write_all(&[1; 2 * 60_000]).unwrap();
    drop(writer);
    until("some of it", || heard.blocks().len() == 3);
    assert!(!heard.state.lock().unwrap().accompanies);
    assert!(heard.blocks()[0].samples.iter().all(|sample| *sample == f32::from(0x0101_i16) / 32_768.0));
}

/// A description with this section.
fn described(scratch: &Scratch, section: &str) -> PathBuf {
    let text = format!("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\n{section}");
    scratch.write("a.sdp", text).into()
}

const VIDEO: &str = "m=video 5004 RTP/AVP 96\r\nc=IN IP4 127.0.0.1\r\na=rtpmap:96 raw/90000\r\n\
    a=fmtp:96 sampling=YCbCr-4:2:2; width=320; height=60; exactframerate=60; depth=8; colorimetry=BT709; \
    PM=2110GPM; SSN=ST2110-20:2017; TP=2110TPN\r\n";

#[test]
fn a_description_without_sound_is_an_error_where_it_is_named_and_none_where_it_is_the_pictures() {
    let scratch = Scratch::new("sound-none-described");
    let path = described(&scratch, VIDEO);
    let named = SoundInput::open(&AudioIn::Rtp(path.clone()), None).err().unwrap();
    assert!(matches!(&named, Error::NoSoundDescribed { path: found } if *found == path), "{named}");
    let input: Input = format!("rtp:{}", path.display()).parse().unwrap();
    assert!(SoundInput::named_or_described(None, None, &input, Clock::new()).unwrap().is_none());
    let pattern: Input = "test:64x48@25".parse().unwrap();
    assert!(SoundInput::named_or_described(None, None, &pattern, Clock::new()).unwrap().is_none());
}

#[test]
fn what_is_described_needs_no_format_of_raw_samples() {
    let refused = SoundInput::open(&AudioIn::Rtp("a.sdp".into()), Some(RawFormat::default())).err().unwrap();
    assert!(matches!(refused, Error::FormatOfDescription), "{refused}");
}

#[test]
fn sound_that_is_named_goes_before_what_the_pictures_description_has() {
    let scratch = Scratch::new("sound-named");
    let named = AudioIn::Wav(wave(&scratch, 240));
    let input: Input = format!("rtp:{}", scratch.file("no.sdp")).parse().unwrap();
    let opened = SoundInput::named_or_described(Some(&named), None, &input, Clock::new()).unwrap();
    assert!(opened.is_some_and(|opened| !opened.is_live()));
    assert!(SoundInput::named_or_described(None, None, &input, Clock::new()).is_err(), "it is not there");
}

#[test]
fn a_path_behind_rtp_is_a_description_and_rtp_alone_is_nothing() {
    assert_eq!("rtp:a/b.sdp".parse(), Ok(AudioIn::Rtp("a/b.sdp".into())));
    for text in ["rtp:", "a.sdp", "alsa:a\0b", "fd:", "fd:-1", "fd:4294967296"] {
        assert!(text.parse::<AudioIn>().is_err(), "{text:?}");
    }
}
