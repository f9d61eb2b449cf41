//! `probe --watch`: the alarms that compare with what was before, or with a standard, by clips with one fault each. FFmpeg makes
//! all of them; the first captions and subtitles come from here, since it has no source of either, and go through its encoders.

use crate::alarms::{can, clip, stood, units, watch};
use glassline_media::Codec;
use glassline_media::bitstream::h264::sei::write_message;
use glassline_media::container::ts::{MuxSettings, Muxer};
use glassline_test_support::program::{Scratch, run};

/// Five pictures a second, so that minutes are encoded in a second; a key frame each second.
const PICTURES: &str = "testsrc2=s=320x180:r=5";
const SOUND: &str = "sine=frequency=440:sample_rate=48000";
const CODECS: &str = "-c:v libx264 -preset ultrafast -g 5 -pix_fmt yuv420p -c:a mp2 -b:a 64k -f mpegts";
/// The time of most alarms, a key frame's, and a second that means are of.
const SOON: f64 = 2.0 + 1.0 + 1.0;

fn inputs(seconds: u32) -> [String; 2] {
    [PICTURES, SOUND].map(|input| format!("{input}:d={seconds}"))
}

fn made(scratch: &Scratch, name: &str, seconds: u32, filters: &[&str], codecs: &str) -> String {
    let [pictures, sound] = inputs(seconds);
    clip(scratch, name, [&pictures, &sound], filters, codecs)
}

/// That the alarm begins soon after `from`, and is over soon after `to`, and is the only one.
fn is_told(path: &str, alarm: &str, options: &[&str], [from, to]: [f64; 2], [begins, ends]: [f64; 2]) {
    let (begun, stood) = stood(path, alarm, options);
    // The command takes a moment to start.
    assert!((from..from + begins + 1.0).contains(&begun), "{alarm} began at {begun} s");
    let over = begun + stood;
    assert!((to..to + ends + 1.0).contains(&over), "{alarm} was over at {over} s");
}

#[test]
fn a_picture_that_loses_its_sharpness() {
    if !can("a_picture_that_loses_its_sharpness") {
        return;
    }
    let scratch = Scratch::new("alarms-blurred");
    let blur = "gblur=sigma=4:enable='between(t,130,138)'";
    let path = made(&scratch, "blurred.ts", 145, &["-vf", blur], CODECS);
    // A blurred picture has fewer bits.
    is_told(&path, "blurred", &["--no-alarm", "bitrate"], [130.0, 138.0], [SOON, SOON]);
}

#[test]
fn rates_that_rise_and_fall() {
    if !can("rates_that_rise_and_fall") {
        return;
    }
    let scratch = Scratch::new("alarms-bitrate");
    for (name, when) in [("falls", "not(between(t,15,25))"), ("rises", "between(t,15,25)")] {
        let noise = format!("noise=alls=80:allf=t:enable='{when}'");
        // What stands still has next to no bits.
        let inputs = ["smptehdbars=s=320x180:r=5:d=35", "sine=frequency=440:sample_rate=48000:d=35"];
        let path = clip(&scratch, &format!("{name}.ts"), inputs, &["-vf", &noise], CODECS);
        // The rate is a mean of four seconds.
        is_told(&path, "bitrate", &[], [15.0, 25.0], [SOON + 4.0, SOON + 4.0]);
    }
}

/// FFmpeg multiplexes by time stamps, so that these have to change behind its interleaving: then sound runs ahead of pictures, or behind them.
#[test]
fn sound_that_leaves_the_pictures() {
    if !can("sound_that_leaves_the_pictures") {
        return;
    }
    let scratch = Scratch::new("alarms-sync");
    let inputs = ["testsrc2=s=320x180:r=25:d=40", "sine=frequency=440:sample_rate=48000:d=40"];
    // A PES packet for each frame of sound, as live encoders send them.
    let frames = ["-pes_payload_size", "190"];
    let good = clip(&scratch, "good.ts", inputs, &frames, &CODECS.replace("-g 5", "-g 25"));
    for (name, drift) in [("ahead", "36000"), ("behind", "-36000")] {
        let path = scratch.file(&format!("{name}.ts"));
        // Sound drifts by 0.4 s within a second and a half, and back.
        let passed = "(TS-STARTPTS)*TB";
        let shift = format!("setts=ts=TS+{drift}*clip(min(({passed}-15)/1.5\\,(30-{passed})/1.5)\\,0\\,1)");
        let copy = [
            "-c",
            "copy",
            "-bsf:a",
            &shift,
            "-max_interleave_delta",
            "1",
            "-pes_payload_size",
            "190",
            "-f",
            "mpegts",
            &path,
        ];
        let outcome =
            run("ffmpeg", &[&["-nostdin", "-v", "error", "-y", "-i", &good][..], &copy].concat(), 60);
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        is_told(&path, "av_sync", &[], [15.0, 28.5], [SOON + 1.5, SOON + 1.5]);
    }
}

#[test]
fn loudness_and_its_true_peak() {
    if !can("loudness_and_its_true_peak") {
        return;
    }
    let scratch = Scratch::new("alarms-loudness");
    // EBU Tech 3341: a sine of 1 kHz at -23 dBFS in both channels has -23 LUFS.
    let tone = |level: &str, seconds: u32| {
        format!("aevalsrc='{level}*sin(1000*2*PI*t)|{level}*sin(1000*2*PI*t)':s=48000:d={seconds}")
    };
    let codecs = "-c:v libx264 -preset ultrafast -g 5 -pix_fmt yuv420p -strict -2 -c:a s302m -f mpegts";
    let options = ["--alarm", "loudness", "--no-alarm", "bitrate"];
    // By 8 LU louder for five seconds, of which the mean is 3 LU too loud after three and a half, and for six and a half behind it.
    let louder = tone("0.0708*if(between(t\\,15\\,20)\\,2.51\\,1)", 95);
    let path = clip(&scratch, "louder.ts", [&format!("{PICTURES}:d=95"), &louder], &[], codecs);
    is_told(&path, "loudness", &options, [15.0, 20.0], [7.0, 12.0]);
    // Quieter by 7 LU: half of the energy is gone after 33 s.
    let quieter = tone("0.0708*if(between(t\\,20\\,60)\\,0.447\\,1)", 120);
    let path = clip(&scratch, "quieter.ts", [&format!("{PICTURES}:d=120"), &quieter], &[], codecs);
    is_told(&path, "loudness", &options, [20.0, 60.0], [38.0, 28.0]);
    // A quarter of the rate, in phases that put the peak between samples at 0.68: -0.3 dBTP.
    let wave = "0.5*if(between(t\\,10\\,15)\\,1.92\\,1)*sin(12000*2*PI*t+PI/4)";
    let peak = format!("aevalsrc='{wave}|{wave}':s=48000:d=25");
    let path = clip(&scratch, "peak.ts", [&format!("{PICTURES}:d=25"), &peak], &[], codecs);
    let options = ["--alarm", "loudness=40", "--no-alarm", "bitrate"];
    is_told(&path, "loudness", &options, [10.0, 15.0], [SOON, SOON]);
}

/// Captions of CEA-608 and CEA-708 that an encoder of FFmpeg has passed on from its source.
#[test]
fn captions_that_stop() {
    if !can("captions_that_stop") {
        return;
    }
    let scratch = Scratch::new("alarms-captions");
    let plain = made(&scratch, "plain.ts", 30, &[], CODECS);
    let mut muxer = Muxer::new(MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() }).unwrap();
    let mut out = Vec::new();
    let pictures = units(&plain).into_iter().filter(|(_, unit)| unit.codec == Codec::H264);
    for (number, (_, mut unit)) in pictures.enumerate() {
        // Five a second: none from ten to twenty seconds.
        if !(50..100).contains(&number) {
            let mut data = vec![0, 0, 0, 1, 9, 0xf0];
            write_message(4, b"\xb5\0\x31GA94\x03\x41\xff\xfc\x94\x2c\xff", &mut data);
            data.extend_from_slice(&unit.data);
            unit.data = data.into();
        }
        muxer.write(&unit, &mut out).unwrap();
    }
    let source = scratch.write("source.ts", out);
    let options = ["--alarm", "captions=2"];
    for (name, codecs) in
        [("h264", "-c:v libx264 -preset ultrafast -a53cc 1 -g 5"), ("mpeg2", "-c:v mpeg2video -a53cc 1 -g 5")]
    {
        let path = scratch.file(&format!("{name}.ts"));
        let codecs: Vec<&str> = codecs.split(' ').collect();
        let input = ["-nostdin", "-v", "error", "-y", "-i", &source];
        let outcome =
            run("ffmpeg", &[&input[..], &codecs, &["-r", "25", "-f", "mpegts", &path]].concat(), 60);
        assert_eq!(outcome.status, Some(0), "{name}: {}", outcome.stderr);
        is_told(&path, "captions", &options, [10.0, 20.0], [2.0 + SOON, SOON]);
    }
}

/// Subtitles of DVB, made by FFmpeg of those of a Blu-ray disc.
#[test]
fn subtitles_that_stop() {
    if !can("subtitles_that_stop") {
        return;
    }
    let scratch = Scratch::new("alarms-subtitles");
    let plain = made(&scratch, "plain.ts", 40, &[], CODECS);
    // Every second for a second, with none between 10 and 25 s.
    let shown = (0..40).filter(|second| !(10..25).contains(second));
    let disc =
        scratch.write("disc.sup", shown.flat_map(|second| caption(second * 90_000)).collect::<Vec<u8>>());
    let path = scratch.file("subtitled.ts");
    let arguments = [
        "-nostdin",
        "-v",
        "error",
        "-y",
        "-i",
        &plain,
        "-fix_sub_duration",
        "-i",
        &disc,
        "-map",
        "0",
        "-map",
        "1",
        "-c",
        "copy",
        "-c:s",
        "dvbsub",
        "-f",
        "mpegts",
        &path,
    ];
    let outcome = run("ffmpeg", &arguments, 60);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    // Subtitles may stay away for twelve times as long.
    is_told(&path, "captions", &["--alarm", "captions=0.5"], [10.0, 25.0], [6.0 + SOON, SOON]);
    assert_eq!(watch(&path, &[]).0, []);
}

/// A subtitle of Presentation Graphics (Blu-ray), of four by two pixels, that is shown at `at` (90 kHz) for half a second.
fn caption(at: u32) -> Vec<u8> {
    let segment = |kind: u8, at: u32, body: &[u8]| {
        let length = u16::try_from(body.len()).unwrap();
        [b"PG", &at.to_be_bytes()[..], &[0; 4], &[kind], &length.to_be_bytes(), body].concat()
    };
    let composition = |number: u8, objects: &[u8]| {
        // 320x180 at the usual rate, an epoch that begins, palette 0.
        [&[1, 64, 0, 180, 0x10, 0, number, 0x80, 0, 0, u8::from(!objects.is_empty())], objects].concat()
    };
    let window = [1, 0, 0, 16, 0, 16, 0, 4, 0, 2];
    let palette = [0, 0, 1, 235, 128, 128, 255];
    // Two lines of four pixels of colour 1, each with its end.
    let line = [0, 0x84, 1, 0, 0];
    let object = [&[0, 0, 0, 0xc0, 0, 0, 14, 0, 4, 0, 2][..], &line, &line].concat();
    let end = at + 45_000;
    let number = u8::try_from(at / 90_000 % 120 * 2).unwrap();
    [
        segment(0x16, at, &composition(number, &[0, 0, 0, 0, 0, 16, 0, 16])),
        segment(0x17, at, &window),
        segment(0x14, at, &palette),
        segment(0x15, at, &object),
        segment(0x80, at, &[]),
        segment(0x16, end, &composition(number + 1, &[])),
        segment(0x17, end, &window),
        segment(0x80, end, &[]),
    ]
    .concat()
}
