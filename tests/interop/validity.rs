//! Each way of coding gives a stream that foreign decoders take without a word, whose clock is the capture clock.

use crate::vlc::{self, Statistics};
use crate::{GLASSLINE, have, pictures};
use glassline_measure::pattern::Pattern;
use glassline_media::bitstream::h264::{NalType, Sei, nals};
use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::pes::PesHeader;
use glassline_media::container::ts::{ContinuityChecker, Packet, Pcr};
use glassline_media::container::y4m;
use glassline_media::{FrameRate, Size, Time, Utc};
use glassline_test_support::program::{Scratch, run};
use glassline_test_support::wait::at_once;

/// A way of coding, and the options that ask for it.
const MODES: [(&str, &[&str]); 9] = [
    ("whole pictures", &["--slices", "1", "--threads", "1"]),
    ("eight slices in one thread", &["--slices", "8", "--threads", "1"]),
    ("two sliced threads", &["--slices", "2", "--threads", "2"]),
    ("quantisers that x264 chooses", &["--rate-control", "x264"]),
    ("intra refresh", &["--intra-refresh"]),
    ("VBV of a picture", &["--vbv", "1frame", "--intra-refresh"]),
    ("constant bit rate", &["--cbr"]),
    ("constant mux rate", &["--cbr", "--vbv", "200ms", "--mux-rate", "3M"]),
    ("constant size", &["--constant-size"]),
];
/// Two seconds.
const PICTURES: usize = 100;
const SIZE: Size = Size { width: 640, height: 360 };
/// When the first picture says that it was captured.
const CAPTURED: u64 = 1_700_000_000_000_000;
const TICKS_PER_US: f64 = 27.0;
/// 100 ms: no more may lie between two clock references (ISO/IEC 13818-1 §2.7.2).
const CLOCK_INTERVAL: u64 = Pcr::RATE / 10;

/// A picture as it stands in the stream.
#[derive(Clone, Debug, Default)]
struct Coded {
    /// 27 MHz, modulo the wrap.
    clock: Option<Pcr>,
    /// PTS and DTS, 90 kHz, modulo the wrap.
    stamps: [u64; 2],
    data: Vec<u8>,
}

impl Coded {
    /// Its capture as the clock says it; `constant`: at a constant rate the clock is the packet's place,
    /// and the stamp says it.
    fn time(&self, constant: bool) -> Option<Pcr> {
        if constant { Some(Pcr::new(self.stamps[0] * 300)) } else { self.clock }
    }

    /// What it says itself about its capture.
    fn captured(&self) -> Option<Utc> {
        let mut messages = nals(&self.data).filter(|nal| nal.kind() == NalType::Sei);
        messages.find_map(|nal| Sei::parse(nal.payload()).capture_utc())
    }
}

/// Takes a whole stream apart; checks packets, continuity, and that no more than `longest` (27 MHz) lies between two
/// clock references.
fn coded(stream: &[u8], longest: u64) -> Vec<Coded> {
    assert!(!stream.is_empty() && stream.len().is_multiple_of(188), "{} bytes", stream.len());
    let (mut checker, mut pictures) = (ContinuityChecker::new(), Vec::<Coded>::new());
    let (mut video, mut last_clock) = (None, None);
    for (number, bytes) in packets(stream).enumerate() {
        let packet = Packet::parse(bytes).unwrap_or_else(|error| panic!("packet {number}: {error}"));
        let verdict = checker.check(&packet);
        assert_eq!(checker.errors(), 0, "packet {number}: {verdict:?}");
        if let Some(clock) = packet.pcr()
            && let Some(last) = last_clock.replace(clock)
        {
            let step = clock.since(last);
            assert!(step <= longest, "packet {number}: {step} ticks without a clock");
        }
        let starts = packet.unit_start && packet.payload.get(3).is_some_and(|id| id & 0xF0 == 0xE0);
        if starts {
            video = Some(packet.pid);
            let header = PesHeader::parse(packet.payload).unwrap();
            if let Some(pts) = header.pts {
                let stamps = [pts, header.dts.unwrap_or(pts)];
                pictures.push(Coded { clock: packet.pcr(), stamps, data: Vec::new() });
            }
        }
        if let Some(picture) = pictures.last_mut().filter(|_| video == Some(packet.pid)) {
            let from = if starts { 9 + usize::from(packet.payload[8]) } else { 0 };
            picture.data.extend_from_slice(&packet.payload[from..]);
        }
    }
    pictures
}

/// The test pattern as a file, whose barcodes say captures at exactly `rate`.
fn source(scratch: &Scratch, rate: FrameRate) -> String {
    let mut pattern = Pattern::new(SIZE, rate);
    let mut bytes = Vec::new();
    for number in 0..PICTURES as u64 {
        let time = rate.time_of(number);
        let captured = Utc::from_nanos(CAPTURED * 1000 + time.as_nanos() as u64);
        let picture = pattern.draw(number, Time::ZERO + time, captured);
        if number == 0 {
            y4m::write_header(&y4m::Header::of(&picture, rate), &mut bytes).unwrap();
        }
        y4m::write_picture(&picture, &mut bytes);
    }
    scratch.write("in.y4m", bytes)
}

/// Codes a file into another.
fn code(scratch: &Scratch, input: &str, options: &[&str]) -> (String, Vec<u8>) {
    let file = scratch.file("out.ts");
    let base = ["encode", input, &file, "--preset", "ultrafast", "--bitrate", "2M"];
    let outcome = run(GLASSLINE, &[&base[..], options].concat(), 120);
    assert_eq!(outcome.status, Some(0), "{options:?}: {}", outcome.stderr);
    let stream = std::fs::read(&file).unwrap();
    (file, stream)
}

#[test]
fn every_way_of_coding_is_valid() {
    if !have("every_way_of_coding_is_valid", &["ffmpeg"]) {
        return;
    }
    // Each file is coded at its own pace.
    at_once(
        || expect_valid(FrameRate::new(50, 1).unwrap()),
        || expect_valid(FrameRate::new(60_000, 1001).unwrap()),
    );
}

/// Codes the pattern at `rate` in every way.
fn expect_valid(rate: FrameRate) {
    let scratch = Scratch::new("validity");
    let input = source(&scratch, rate);
    for (mode, options) in MODES {
        let mode = format!("{mode} at {rate}");
        // At its own pace a file has capture times, which the clock says more finely than its stamps do.
        let (file, stream) = code(&scratch, &input, &[options, &["--realtime"]].concat());
        let coded = coded(&stream, CLOCK_INTERVAL);
        assert_eq!(coded.len(), PICTURES, "{mode}");
        for picture in &coded {
            check_stamps(&mode, picture);
        }
        let rules = run(GLASSLINE, &["probe", "--check", &file], 60);
        assert_eq!(rules.status, Some(0), "{mode}: {}", rules.text());
        let out = run("ffmpeg", &["-v", "warning", "-xerror", "-i", &file, "-f", "null", "-"], 60);
        assert_eq!((out.status, out.stderr.trim()), (Some(0), ""), "{mode}");
        let constant = options.iter().any(|option| ["--cbr", "--constant-size"].contains(option));
        check_barcodes(&mode, &file, &coded, constant);
    }
}

#[test]
fn the_clock_goes_on_as_the_capture_times_that_the_stream_says() {
    let scratch = Scratch::new("validity");
    let (_, stream) = code(&scratch, "test:320x180@60000/1001", &["--limit", "120", "--audio", "none"]);
    // A live picture that a busy machine does not get done is left out, with its clock.
    let coded = coded(&stream, Pcr::RATE);
    // Counted from the first, since a float has no room for nanoseconds since 1970.
    let first = coded[0].captured().unwrap().as_nanos();
    let since = |utc: Utc| (i128::from(utc.as_nanos()) - i128::from(first)) as f64 / 1e3;
    let said: Vec<_> = coded.iter().map(|it| it.captured().map(since)).collect();
    let clocks: Vec<_> = coded.iter().map(|it| it.time(false)).collect();
    assert_goes_along("live", "capture time", &clocks, &said, 0.5);
}

/// The clock stands with each picture and its stamps lie ahead of it, by less than what receivers may be asked to
/// hold (a second; ISO/IEC 13818-1 §2.4.2.3).
fn check_stamps(mode: &str, picture: &Coded) {
    let clock = picture.clock.unwrap_or_else(|| panic!("{mode}: a picture without a clock"));
    for stamp in picture.stamps {
        let ahead = Pcr::new(stamp * 300).since(clock);
        assert!(ahead > 0 && ahead <= Pcr::RATE, "{mode}: stamped {ahead} ticks after its clock");
    }
}

/// From each picture to the next the clock goes on as the times in the barcodes do, which are whole microseconds; at a
/// `constant` rate the stamps do, which are whole ticks of 11 microseconds.
fn check_barcodes(mode: &str, file: &str, coded: &[Coded], constant: bool) {
    let arguments = "-an -fps_mode passthrough -f yuv4mpegpipe -pix_fmt yuv420p -".split(' ');
    let arguments: Vec<_> = ["-v", "error", "-i", file].into_iter().chain(arguments).collect();
    let decoded = run("ffmpeg", &arguments, 60);
    let seen = pictures::read_y4m(&decoded.stdout[..], usize::MAX);
    assert_eq!(seen.len(), coded.len(), "{mode}: pictures decoded");
    let shown: Vec<_> = seen.iter().map(|seen| seen.map(|seen| seen.captured_micros as f64)).collect();
    let clocks: Vec<_> = coded.iter().map(|it| it.time(constant)).collect();
    assert_goes_along(mode, "barcode", &clocks, &shown, if constant { 12.7 } else { 1.5 });
}

/// Compares steps of the clock with those of `captured`, microseconds. The wall clock may be set meanwhile: what counts
/// is what most say.
fn assert_goes_along(
    mode: &str,
    what: &str,
    clocks: &[Option<Pcr>],
    captured: &[Option<f64>],
    limit_us: f64,
) {
    let mut off: Vec<f64> = clocks
        .windows(2)
        .zip(captured.windows(2))
        .filter_map(|(clocks, captured)| {
            let clock = clocks[1]?.since(clocks[0]?) as f64 / TICKS_PER_US;
            Some((clock - (captured[1]? - captured[0]?)).abs())
        })
        .collect();
    assert!(
        off.len() * 10 >= clocks.len() * 9,
        "{mode}: {what} in {} of {} pictures",
        off.len(),
        clocks.len()
    );
    off.sort_by(f64::total_cmp);
    let most = off[off.len() * 9 / 10];
    eprintln!("{mode}: clock against {what}: median {:.3} us, 90 % within {most:.3} us", off[off.len() / 2]);
    assert!(most <= limit_us, "{mode}: the clock leaves the {what} by {most} us");
}

#[test]
fn vlc_loses_no_picture_of_any_way_of_coding() {
    if !have("vlc_loses_no_picture_of_any_way_of_coding", &["cvlc", "setpriv"]) {
        return;
    }
    let (one, other) = MODES.split_at(MODES.len() / 2);
    // It plays each file at its own pace.
    at_once(|| expect_whole_in_vlc(one), || expect_whole_in_vlc(other));
}

/// Has VLC play the pattern in each of these ways of coding.
fn expect_whole_in_vlc(modes: &[(&str, &[&str])]) {
    let scratch = Scratch::new("validity");
    let input = source(&scratch, FrameRate::new(50, 1).unwrap());
    for (mode, options) in modes {
        let (file, stream) = code(&scratch, &input, options);
        let pictures = coded(&stream, CLOCK_INTERVAL).len() as u64;
        let found = vlc::play_to_the_end(&scratch, &file, pictures);
        let Statistics { corrupted, discontinuities, decoded, lost } = found;
        assert_eq!([corrupted, discontinuities, lost], [0; 3], "{mode}: {found:?}");
        // It counts a picture where it is cut out of the stream and where it is decoded, and the last one again.
        assert!((2 * pictures..=2 * pictures + 2).contains(&decoded), "{mode}: {found:?} of {pictures}");
    }
}
