//! HE-AAC is told to players where the stream says that it is: in the program map, in LATM, in the header of CMAF.

use crate::codecs::{pictures, served};
use crate::{GLASSLINE, have};
use glassline_media::Codec;
use glassline_media::bitstream::aac_config::HeAac;
use glassline_media::container::ts::{AudioFormat, Demuxer, Event, MuxSettings, Muxer};
use glassline_test_support::http::get;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use std::process::Command;

/// Frames of AAC-LC at 24 kHz, as HE-AAC has them for 48 kHz; what replicates bands is missing, which the standard permits.
/// FFmpeg's own encoder makes no HE-AAC.
fn core(scratch: &Scratch, channels: u8) -> String {
    let file = scratch.file("core.ts");
    let inputs =
        "-v error -y -f lavfi -i testsrc2=size=320x180:rate=25 -f lavfi -i sine=sample_rate=24000 -t 6";
    let coding = format!("-c:v libx264 -preset ultrafast -g 25 -c:a aac -ac {channels} -f mpegts");
    let arguments: Vec<&str> =
        inputs.split_whitespace().chain(coding.split_whitespace()).chain([&file[..]]).collect();
    let made = run("ffmpeg", &arguments, 120);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    file
}

/// The same in a program whose map says this of its sound.
fn said(scratch: &Scratch, file: &str, channels: u8, he_aac: HeAac) -> String {
    let audio = AudioFormat { codec: Codec::Aac, channels, language: None, he_aac: Some(he_aac) };
    let settings = MuxSettings { video: Some(Codec::H264), audio: Some(audio), ..MuxSettings::default() };
    let (mut muxer, mut demuxer, mut out) = (Muxer::new(settings).unwrap(), Demuxer::new(), Vec::new());
    demuxer.push(&std::fs::read(file).unwrap());
    demuxer.finish();
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { unit, .. } = event {
            muxer.write(&unit, &mut out).unwrap();
        }
    }
    let said = scratch.file("said.ts");
    std::fs::write(&said, out).unwrap();
    said
}

/// Playlist and manifest say this, and FFmpeg reads 48 kHz off the header.
fn expect_told(server: &Server, name: &str, codec: &str, channels: u8) {
    let words = [format!(",{codec}\""), format!("CHANNELS=\"{channels}\"")];
    let playlist = || get(server.address(), &format!("/live/{name}/index.m3u8")).text();
    until("the playlist", || words.iter().all(|words| playlist().contains(words)));
    let manifest = get(server.address(), &format!("/live/{name}/manifest.mpd")).text();
    for words in [format!("codecs=\"{codec}\""), "audioSamplingRate=\"48000\"".to_owned()] {
        assert!(manifest.contains(&words), "{words} is not in {manifest}");
    }
    let url = server.url(&format!("/live/{name}/index.m3u8"));
    let arguments = ["-v", "error", "-select_streams", "a:0", "-show_entries", "stream=sample_rate", &url];
    let told = run("ffprobe", &arguments, 60);
    assert!(told.text().contains("sample_rate=48000\n"), "{}", told.text());
}

/// Samples of each channel that come out of what is at `url`.
fn heard(url: &str) -> usize {
    let arguments = ["-v", "error", "-i", url, "-map", "0:a:0", "-ac", "1", "-f", "s16le", "-"];
    let decoded = run("ffmpeg", &arguments, 60);
    assert_eq!((decoded.status, decoded.stderr.as_str()), (Some(0), ""), "{url}");
    decoded.stdout.len() / 2
}

#[test]
fn he_aac_is_told_where_the_stream_says_it() {
    if !have("he_aac_is_told_where_the_stream_says_it", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("he-aac");
    for (parametric_stereo, core_channels, codec) in [(false, 2, "mp4a.40.5"), (true, 1, "mp4a.40.29")] {
        let plain = core(&scratch, core_channels);
        let file = said(&scratch, &plain, 2, HeAac { parametric_stereo, rate_max_hz: 48_000 });
        let server = served(&file, true);
        expect_told(&server, "a", codec, 2);
        assert_eq!(pictures(&server.url("/live/a/index.m3u8")).len(), 150);
        for object in ["index.m3u8", "manifest.mpd"] {
            let heard = heard(&server.url(&format!("/live/a/{object}")));
            assert!(heard.is_multiple_of(2048) && (280_000..=292_000).contains(&heard), "{object}: {heard}");
        }
        // FFmpeg takes what the header says over into LATM.
        let latm = scratch.file("latm.ts");
        let url = server.url("/live/a/index.m3u8");
        let arguments =
            ["-v", "error", "-y", "-i", &url, "-c", "copy", "-mpegts_flags", "latm", "-f", "mpegts", &latm];
        let copied = run("ffmpeg", &arguments, 60);
        assert_eq!(copied.status, Some(0), "{}", copied.stderr);
        expect_told(&served(&latm, true), "a", codec, 2);
        // And into CMAF, which is put.
        let config = scratch.write("open.toml", "[package]\non_demand = false\nsegment = '1s'\n");
        let house = Server::start(GLASSLINE, &["--config", &config]);
        let target = house.url("/live/b/manifest.mpd");
        let way = "-c copy -f dash -dash_segment_type mp4 -method PUT -seg_duration 1 -window_size 3";
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-re", "-i", &url]).args(way.split_whitespace()).arg(&target);
        let _publisher = Running::start(&mut command);
        expect_told(&house, "b", codec, 2);
        // Where nothing says it, it is what its frames say.
        let server = served(&plain, true);
        assert!(get(server.address(), "/live/a/index.m3u8").text().contains(",mp4a.40.2\""));
    }
}
