//! The pipeline as a whole: what comes out is a transport stream that holds what went in.

use super::*;
use glassline_media::container::ts::Scanner;
use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::{Demuxer, Event, PACKET_BYTES};
use glassline_media::container::y4m;
use glassline_media::quantity::Bitrate;
use glassline_media::{AccessUnit, Codec, FrameRate, Picture, PixelFormat, Size, Ticks, Time};
use glassline_studio::encode;
use glassline_studio::output::{self, Demand, Packets};
use glassline_test_support::{has_program, skip};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Demuxes a whole stream and checks what holds for each.
pub(super) fn units(stream: &[u8]) -> (Vec<AccessUnit>, Vec<AccessUnit>) {
    assert!(stream.len().is_multiple_of(PACKET_BYTES));
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
    for stream in [&video, &audio] {
        assert!(stream.windows(2).all(|pair| pair[0].pts < pair[1].pts), "time stamps grow");
    }
    (video, audio)
}

fn line(args: &[&str]) -> Result<Line> {
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        line: Line,
    }
    let cli: Cli = clap::Parser::try_parse_from(std::iter::once(&"encode").chain(args))?;
    Ok(cli.line)
}

fn parse(args: &[&str]) -> Result<Args> {
    Ok(line(args)?.args)
}

pub(super) fn encode(args: &[&str]) -> Result<()> {
    run(line(args)?)
}

pub(super) fn refused(args: &[&str]) -> String {
    format!("{:#}", encode(args).unwrap_err())
}

#[test]
fn the_demo_is_coded_as_the_command_line_would() {
    let args = parse(&["-", "null:"]).unwrap();
    let expected = EncodeOptions { input: Some("-".parse().unwrap()), ..EncodeOptions::default() };
    assert_eq!(args.options, expected);
    assert_eq!(args.request().unwrap().settings, encode::Settings::default());
}

#[test]
fn a_file_is_paced_where_somebody_watches_unless_told_otherwise() {
    let paced = |args: &[&str]| parse(&[&["in.y4m", "out.ts"], args].concat()).unwrap().paced();
    assert!(!paced(&[]) && paced(&["--realtime"]));
    assert!(paced(&["udp://host:1"]) && !paced(&["udp://host:1", "--no-realtime"]));
    assert!(parse(&["-", "-", "--realtime", "--no-realtime"]).is_err());
}

/// Keeps what it gets.
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Output for Kept {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand, output::Error> {
        self.0.lock().unwrap().extend_from_slice(packets.bytes);
        Ok(Demand::Nothing)
    }
}

#[test]
fn the_demo_is_a_stream_with_picture_and_sound() {
    let stream = Arc::new(Mutex::new(Vec::new()));
    let section = EncodeOptions {
        input: Some("test:320x180@25".parse().unwrap()),
        preset: "ultrafast".to_owned(),
        bitrate: Some(Bitrate::from_bits_per_second(300_000)),
        keyint: "200ms".parse().unwrap(),
        threads: 1,
        ..EncodeOptions::default()
    };
    let into = Arc::clone(&stream);
    let name = glassline_delivery::policy::StreamName::parse("demo").unwrap();
    let request = encoder_request(&name, &section).unwrap().request;
    let demo = Encoding::open(&request, Clock::new()).unwrap();
    let stopper = demo.stopper();
    let demo = std::thread::spawn(move || demo.run(vec![Box::new(Kept(into))]).result);
    let deadline = Instant::now() + Duration::from_secs(20);
    let enough = || units(&stream.lock().unwrap()).0.len() >= 16;
    while !enough() {
        assert!(Instant::now() < deadline, "took too long");
        std::thread::sleep(Duration::from_millis(20));
    }
    stopper.stop();
    demo.join().unwrap().unwrap();
    let (video, audio) = units(&stream.lock().unwrap());
    assert!(video[0].random_access);
    assert!(video.iter().filter(|unit| unit.random_access).count() >= 3, "a key frame each 200 ms");
    // Pictures may be left out where the machine is busy; what comes lies on the grid of the frame rate.
    for unit in &video {
        let off_grid = (unit.pts - video[0].pts).0.rem_euclid(3600);
        assert!(off_grid <= 1 || off_grid >= 3599, "{off_grid}");
    }
    if cfg!(feature = "opus") {
        assert!(audio.len() > 40, "{} packets of 5 ms", audio.len());
        assert!(audio.iter().all(|unit| unit.codec == Codec::Opus));
        let first = (audio[0].pts - video[0].pts).as_secs_f64();
        assert!(first.abs() < 0.1, "sound and picture are on one clock: {first} s apart");
    }
}

/// A folder of its own that goes when the test is over.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("glassline-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn write_y4m(path: &str, pictures: u64) {
    let rate = FrameRate::new(30_000, 1001).unwrap();
    let mut picture = Picture::new(PixelFormat::I420, Size::new(64, 48).unwrap(), Time::ZERO);
    let mut bytes = Vec::new();
    y4m::write_header(&y4m::Header::of(&picture, rate), &mut bytes).unwrap();
    for number in 0..pictures {
        picture.planes_mut()[0].bytes_mut().fill(40 + number as u8);
        y4m::write_picture(&picture, &mut bytes);
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_file_becomes_a_file_picture_by_picture() {
    let folder = Folder::new("file");
    let (input, output, copy) = (folder.path("in.y4m"), folder.path("out.ts"), folder.path("copy.ts"));
    write_y4m(&input, 45);
    encode(&[&input, &output, &copy, "--preset", "ultrafast", "--stats"]).unwrap();
    let stream = std::fs::read(&output).unwrap();
    assert!(stream == std::fs::read(&copy).unwrap(), "all outputs get the same");
    let (video, audio) = units(&stream);
    assert_eq!((video.len(), audio.len()), (45, 0));
    let rate = FrameRate::new(30_000, 1001).unwrap();
    for (number, unit) in (0..).zip(&video) {
        let time = Ticks::from_time(Time::ZERO + rate.time_of(number));
        assert_eq!(unit.pts - video[0].pts, time, "picture {number}");
    }
    encode(&[&input, &output, "--limit", "7"]).unwrap();
    assert_eq!(units(&std::fs::read(&output).unwrap()).0.len(), 7);
    encode(&[&input, &output, "--duration", "0.5s"]).unwrap();
    assert_eq!(units(&std::fs::read(&output).unwrap()).0.len(), 15);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_written() {
    let folder = Folder::new("wrong");
    let (input, output) = (folder.path("in.y4m"), folder.path("out.ts"));
    write_y4m(&input, 3);
    std::fs::write(&output, "precious").unwrap();
    for (args, complaint) in [
        (["--bitrate", "5000"], "has no unit"),
        (["--vbv", "1"], "has no unit"),
        (["--preset", "fastest"], "ultrafast, superfast"),
        #[cfg(feature = "opus")]
        (["--audio", "opus"], "this input carries no sound"),
        (["--publish-key-file", "/no/such/file"], "cannot read /no/such/file"),
        (["--slices", "99"], "slices is 99"),
    ] {
        let refused = refused(&[&[input.as_str(), output.as_str()], &args[..]].concat());
        assert!(refused.contains(complaint), "{refused}");
    }
    assert!(refused(&[&input]).contains("OUTPUT"));
    let mp4 = folder.path("out.mp4");
    let lpcm = refused(&["test:64x48@25", &mp4, "--audio", "s302m"]);
    assert!(lpcm.contains("SMPTE 302M") && !std::path::Path::new(&mp4).exists(), "{lpcm}");
    assert!(refused(&[&folder.path("none.y4m"), &output]).contains("check the name"));
    std::fs::write(&input, "YUV4MPEG2 W64 H48 C444alpha\nFRAME\n").unwrap();
    assert!(refused(&[&input, &output]).contains("444alpha"));
    assert_eq!(std::fs::read(&output).unwrap(), b"precious");
}

#[test]
fn a_file_that_is_cut_short_gives_its_pictures_and_fails() {
    let folder = Folder::new("short");
    let (input, output) = (folder.path("in.y4m"), folder.path("out.ts"));
    write_y4m(&input, 5);
    let bytes = std::fs::read(&input).unwrap();
    std::fs::write(&input, &bytes[..bytes.len() - 10]).unwrap();
    let refused = refused(&[&input, &output]);
    assert!(refused.contains("in.y4m") && refused.contains("picture 4"), "{refused}");
    assert_eq!(units(&std::fs::read(&output).unwrap()).0.len(), 4);
}

#[test]
fn every_way_to_code_gives_a_stream_that_ffmpeg_takes_without_a_word() {
    let folder = Folder::new("ways");
    let (input, output) = (folder.path("in.y4m"), folder.path("out.ts"));
    write_y4m(&input, 70);
    for ways in [
        &[][..],
        &["--slices", "3", "--threads", "1"],
        &["--intra-refresh", "--vbv", "1frame"],
        &["--cbr", "--vbv", "200ms", "--bitrate", "900k"],
        &["--constant-size", "--bitrate", "600k"],
        &["--adapt", "--preset", "faster"],
    ] {
        encode(&[&[input.as_str(), &output], ways].concat()).unwrap();
        let stream = std::fs::read(&output).unwrap();
        let (video, _) = units(&stream);
        assert_eq!(video.len(), 70, "{ways:?}");
        let mut scanner = Scanner::new();
        let joins = packets(&stream).filter(|packet| scanner.scan(packet).entry.is_some()).count();
        assert_eq!(joins, video.iter().filter(|unit| unit.random_access).count(), "{ways:?}");
        assert!(joins >= 2, "{ways:?}");
        if ways.contains(&"--constant-size") {
            let sizes: Vec<_> = video[1..].iter().map(|unit| unit.data.len()).collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            // 600,000 bits a second at 30000/1001 pictures.
            assert!(*least >= 2_400 && *most <= 2_600, "{least} to {most}");
        }
        if !has_program("ffmpeg") {
            skip(
                "every_way_to_code_gives_a_stream_that_ffmpeg_takes_without_a_word",
                "ffmpeg is not installed",
            );
            continue;
        }
        let said = std::process::Command::new("ffmpeg")
            .args(["-v", "warning", "-i", &output, "-f", "null", "-"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.is_empty(), "{ways:?}: {said}");
    }
}

#[test]
fn the_budget_is_drawn_and_the_table_is_json_where_asked_for() {
    let folder = Folder::new("budget");
    let (input, output, svg) = (folder.path("in.y4m"), folder.path("out.ts"), folder.path("b.svg"));
    write_y4m(&input, 10);
    encode(&[&input, &output, "--budget", &svg, "--stats"]).unwrap();
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.contains("10 pictures") && drawn.contains("last slice out"));
    let nowhere = folder.path("none/b.svg");
    let refused = encode(&[&input, &output, "--budget", &nowhere]).unwrap_err().to_string();
    assert!(refused.contains("--budget"), "{refused}");
    let refused = encode(&[&input, "-", "--stats", "--json"]).unwrap_err().to_string();
    assert!(refused.contains("standard output"), "{refused}");
}
