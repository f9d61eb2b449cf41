//! Thumbnails of streams that FFmpeg has encoded have the colours that it gave them, in all codecs, depths, ranges and matrices.

use crate::{GLASSLINE, have};
use glassline_media::bitstream::av1;
use glassline_media::container::ivf::Reader;
use glassline_media::container::ts::{MuxSettings, Muxer};
use glassline_media::{AccessUnit, Codec, Stamps, Ticks};
use glassline_test_support::http::{get, publish};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::{has_library, skip, wait};
use std::io::Write;
use std::process::Command;

/// Top left, top right, bottom left, bottom right: red, green and blue.
const CORNERS: [[u8; 3]; 4] = [[200, 30, 40], [40, 180, 60], [30, 60, 200], [235, 235, 235]];

/// Some seconds with a colour in each quarter, of `size` in all, as `filter` and `codecs` say.
fn clip(
    scratch: &Scratch,
    name: &str,
    (width, height, seconds): (u32, u32, u32),
    filter: &str,
    codecs: &str,
) -> String {
    let path = scratch.file(name);
    let quarter = |[red, green, blue]: [u8; 3]| {
        let (width, height) = (width / 2, height / 2);
        format!("color=c=0x{red:02x}{green:02x}{blue:02x}:s={width}x{height}:r=25:d={seconds},format=gbrp")
    };
    let [one, two, three, four] = CORNERS.map(quarter);
    let graph = format!(
        "{one}[a];{two}[b];{three}[c];{four}[d];[a][b]hstack[t];[c][d]hstack[u];[t][u]vstack,{filter}"
    );
    let codecs: Vec<&str> = codecs.split(' ').collect();
    let input = ["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", &graph];
    let outcome = run("ffmpeg", &[&input[..], &codecs, &[&path]].concat(), 120);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    path
}

/// AV1 in IVF as a transport stream: FFmpeg 5.1 puts none into one.
fn with_transport(path: &str) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let (mut reader, mut input) = (Reader::new(), &bytes[..]);
    let mut muxer = Muxer::new(MuxSettings { video: Some(Codec::Av1), ..MuxSettings::default() }).unwrap();
    let mut out = Vec::new();
    for number in 0.. {
        let Some(frame) = reader.parse(&mut input).unwrap() else { return out };
        let data = av1::to_unit(&frame.bytes, &[]).unwrap();
        let random_access = av1::is_key(&data);
        let pts = Ticks(number * 3600);
        let unit = AccessUnit {
            codec: Codec::Av1,
            data: data.into(),
            pts,
            dts: pts,
            random_access,
            stamps: Stamps::default(),
        };
        muxer.write(&unit, &mut out).unwrap();
    }
    out
}

#[test]
fn corners_have_the_colours_of_the_stream() {
    let test = "corners_have_the_colours_of_the_stream";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    if !has_library("libavcodec.so.") {
        return skip(test, "libavcodec is not installed");
    }
    let scratch = Scratch::new("thumbnails");
    let config = scratch.write("glassline.toml", "[watch]\n");
    let server = Server::start(GLASSLINE, &["--config", &config, "--open-publish"]);
    let x264 = "-c:v libx264 -preset veryfast -g 25 -f mpegts";
    let x265 = "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25 -f mpegts";
    let wide = format!("-colorspace bt2020nc -color_primaries bt2020 -color_trc bt2020-10 {x265}");
    for (name, size, filter, codecs, expected) in [
        (
            "hd",
            (1280, 720),
            "scale=out_color_matrix=bt709:out_range=limited,format=yuv420p,setparams=colorspace=bt709:range=limited",
            x264,
            (320, 180),
        ),
        // Nothing but the size says which matrix it is.
        (
            "unnamed",
            (1280, 720),
            "scale=out_color_matrix=bt709:out_range=limited,format=yuv422p",
            x264,
            (320, 180),
        ),
        (
            "full",
            (640, 360),
            "scale=out_color_matrix=bt601:out_range=full,format=yuvj444p,setparams=colorspace=smpte170m:range=full",
            x264,
            (320, 180),
        ),
        (
            "anamorphic",
            (720, 576),
            "scale=out_color_matrix=bt601:out_range=limited,format=yuv420p10,setsar=64/45,setparams=colorspace=bt470bg:range=limited",
            x265,
            (320, 180),
        ),
        (
            "uhd",
            (640, 480),
            "scale=out_color_matrix=bt2020:out_range=limited,format=yuv420p10,setparams=colorspace=bt2020nc:range=limited",
            &wide,
            (320, 240),
        ),
        (
            "av1",
            (640, 360),
            "scale=out_color_matrix=bt709:out_range=limited,format=yuv420p,setparams=colorspace=bt709:range=limited",
            "-colorspace bt709 -c:v libaom-av1 -usage realtime -cpu-used 8 -g 25 -f ivf",
            (320, 180),
        ),
    ] {
        let path = clip(&scratch, name, (size.0, size.1, 2), filter, codecs);
        let bytes = if name == "av1" { with_transport(&path) } else { std::fs::read(&path).unwrap() };
        let mut publisher = publish(server.address(), &format!("/live/{name}.ts"));
        publisher.write_all(&bytes).unwrap();
        let address = format!("/api/streams/{name}/thumbnail");
        let answer = wait::until_some(name, || {
            Some(get(server.address(), &address)).filter(|answer| answer.status == 200)
        });
        assert_eq!(answer.header("content-type"), Some("image/jpeg"));
        check(&scratch, name, &answer.body, expected, CORNERS);
    }
}

#[test]
fn an_alarm_keeps_the_picture_that_was_judged() {
    let test = "an_alarm_keeps_the_picture_that_was_judged";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    if !has_library("libavcodec.so.") {
        return skip(test, "libavcodec is not installed");
    }
    let scratch = Scratch::new("alarm-pictures");
    let config = scratch.write("glassline.toml", "[watch]\n");
    let server = Server::start(GLASSLINE, &["--config", &config, "--open-publish"]);
    let in_colour = "scale=out_color_matrix=bt709,format=yuv420p,setparams=colorspace=bt709:range=limited";
    let black = format!("{in_colour},drawbox=c=black:t=fill:enable='gte(t,3)'");
    let x264 = "-colorspace bt709 -c:v libx264 -preset veryfast -g 25 -f mpegts";
    let silent = "-f lavfi -i anullsrc=r=48000:cl=stereo -shortest -c:a aac -colorspace bt709 -c:v libx264 -preset veryfast -g 25 -f mpegts";
    for (alarm, filter, codecs, corners) in
        [("black", black.as_str(), x264, [[0; 3]; 4]), ("silence", in_colour, silent, CORNERS)]
    {
        let path = clip(&scratch, alarm, (640, 360, 8), filter, codecs);
        let url = server.url(&format!("/live/{alarm}.ts"));
        let arguments =
            ["-nostdin", "-v", "error", "-re", "-i", &path, "-c", "copy", "-f", "mpegts", "-y", &url];
        let _publisher = Running::start(Command::new("ffmpeg").args(arguments));
        let picture = wait::until_some(alarm, || {
            let report = get(server.address(), "/api/alarms").json();
            let recent = report["recent"].as_array().unwrap();
            let begun = recent.iter().find(|event| {
                event["stream"] == alarm && event["alarm"] == alarm && event["state"] == "begun"
            })?;
            Some(begun["picture"].as_str().expect("a picture").to_owned())
        });
        let answer = get(server.address(), &format!("/api/alarms/pictures/{picture}"));
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("image/jpeg")));
        check(&scratch, alarm, &answer.body, (320, 180), corners);
    }
    assert_eq!(get(server.address(), "/api/alarms/pictures/0123456789abcdef").status, 404);
}

/// Compares the corners of a JPEG, as FFmpeg decodes it.
fn check(scratch: &Scratch, name: &str, jpeg: &[u8], (width, height): (usize, usize), corners: [[u8; 3]; 4]) {
    let path = scratch.write(&format!("{name}.jpg"), jpeg);
    let arguments = ["-nostdin", "-v", "error", "-i", &path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"];
    let outcome = run("ffmpeg", &arguments, 60);
    assert_eq!(outcome.stdout.len(), width * height * 3, "{name}: {}", outcome.stderr);
    let pixel = |x: usize, y: usize| &outcome.stdout[(y * width + x) * 3..][..3];
    let places = [(8, 8), (width - 9, 8), (8, height - 9), (width - 9, height - 9)];
    for ((x, y), expected) in places.into_iter().zip(corners) {
        let found = pixel(x, y);
        let is_near = found.iter().zip(expected).all(|(found, expected)| found.abs_diff(expected) <= 6);
        assert!(is_near, "{name}: at {x},{y} {found:?}, not {expected:?}");
    }
}
