//! What `encode` takes that FFmpeg makes: every kind of y4m, and files that it decodes for us.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Outcome, Running, Scratch, run};
use glassline_test_support::wait::until;
use std::process::Command;

fn glassline(arguments: &[&str]) -> Outcome {
    run(GLASSLINE, arguments, 120)
}

fn succeeded(outcome: &Outcome) {
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
}

/// The pictures' time stamps in 90 kHz ticks, as ffprobe finds them.
fn times(path: &str) -> Vec<i64> {
    let show = ["-v", "warning", "-select_streams", "v", "-show_entries", "packet=pts", "-of", "csv=p=0"];
    let outcome = run("ffprobe", &[&show[..], &[path]].concat(), 30);
    assert_eq!(outcome.stderr.trim(), "", "{path}");
    let text = outcome.text();
    text.lines().filter_map(|line| line.trim_end_matches(',').parse().ok()).collect()
}

/// Runs FFmpeg on its test picture and returns the file that it wrote. `false` and a skipped test without FFmpeg.
fn ffmpeg(test: &str, arguments: &[&str]) -> bool {
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return false;
    }
    let outcome = run("ffmpeg", &[&["-nostdin", "-v", "error", "-y"], arguments].concat(), 60);
    assert_eq!(outcome.status, Some(0), "ffmpeg {arguments:?}: {}", outcome.stderr);
    true
}

/// Makes a y4m file of FFmpeg's test picture.
fn y4m(test: &str, path: &str, size: &str, format: &str, pictures: u32) -> bool {
    let source = format!("testsrc2=size={size}:rate=25");
    let count = pictures.to_string();
    let how = ["-pix_fmt", format, "-frames:v", &count, "-strict", "-1", "-f", "yuv4mpegpipe", path];
    ffmpeg(test, &[&["-f", "lavfi", "-i", &source], &how[..]].concat())
}

/// What FFmpeg says of the likeness of two files, in decibels; `reference` comes in any format.
fn psnr(coded: &str, reference: &str) -> f64 {
    // By number, since containers round time stamps in their own ways.
    let compare = "[1:v]scale=in_range=auto:out_range=limited,format=yuv420p,settb=1/25,setpts=N[b];\
                   [0:v]format=yuv420p,settb=1/25,setpts=N[a];[a][b]psnr";
    let arguments = ["-nostdin", "-i", coded, "-i", reference, "-lavfi", compare, "-f", "null", "-"];
    let outcome = run("ffmpeg", &arguments, 60);
    let said = outcome.stderr;
    let found =
        said.rsplit_once("average:").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    found.unwrap_or_else(|| if said.contains("average:inf") { f64::INFINITY } else { panic!("{said}") })
}

#[test]
fn every_kind_of_y4m_that_ffmpeg_writes_is_coded() {
    let scratch = Scratch::new("kinds");
    let (input, output) = (scratch.file("in.y4m"), scratch.file("out.ts"));
    for format in [
        "yuv420p",
        "yuv411p",
        "yuv422p",
        "yuv444p",
        "gray",
        "yuv420p9",
        "yuv420p10",
        "yuv422p10",
        "yuv444p10",
        "yuv420p12",
        "yuv422p12",
        "yuv444p14",
        "yuv420p16",
        "yuv422p16",
        "gray9",
        "gray10",
        "gray12",
        "gray16",
    ] {
        if !y4m("every_kind_of_y4m_that_ffmpeg_writes_is_coded", &input, "192x108", format, 5) {
            return;
        }
        let how = ["--bitrate", "20M", "--preset", "ultrafast", "--keyint", "40ms"];
        succeeded(&glassline(&[&["encode", &input, &output], &how[..]].concat()));
        assert_eq!(times(&output).len(), 5, "{format}");
        let likeness = psnr(&output, &input);
        assert!(likeness > 33.0, "{format}: {likeness} dB");
    }
}

/// Width and height as ffprobe finds them.
fn size(path: &str) -> String {
    let show =
        ["-v", "error", "-select_streams", "v", "-show_entries", "stream=width,height", "-of", "csv=p=0"];
    run("ffprobe", &[&show[..], &[path]].concat(), 30)
        .text()
        .lines()
        .next()
        .unwrap_or("")
        .trim_end_matches(',')
        .to_owned()
}

#[test]
fn odd_sizes_grow_by_a_column_and_a_line() {
    let scratch = Scratch::new("odd");
    let (input, output) = (scratch.file("in.y4m"), scratch.file("out.ts"));
    for (given, coded) in [("161x91", "162,92"), ("160x91", "160,92"), ("33x16", "34,16")] {
        // Of the two test pictures, this one takes odd sizes.
        let source = format!("testsrc=size={given}:rate=25");
        let how = ["-frames:v", "3", "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", &input];
        let test = "odd_sizes_grow_by_a_column_and_a_line";
        if !ffmpeg(test, &[&["-f", "lavfi", "-i", &source], &how[..]].concat()) {
            return;
        }
        succeeded(&glassline(&["encode", &input, &output, "--preset", "ultrafast"]));
        assert_eq!(size(&output), coded, "{given}");
    }
}

#[test]
fn fields_become_pictures_unless_told_otherwise() {
    let scratch = Scratch::new("fields");
    let (input, output) = (scratch.file("in.y4m"), scratch.file("out.ts"));
    let interlaced = "testsrc2=size=192x108:rate=50,tinterlace=mode=interleave_top";
    let how = ["-field_order", "tt", "-frames:v", "10", "-f", "yuv4mpegpipe", &input];
    let test = "fields_become_pictures_unless_told_otherwise";
    if !ffmpeg(test, &[&["-f", "lavfi", "-i", interlaced], &how[..]].concat()) {
        return;
    }
    let head = std::fs::read(&input).unwrap();
    assert!(head.windows(4).take(100).any(|tag| tag == b" It "), "FFmpeg says that it is interlaced");
    succeeded(&glassline(&["encode", &input, &output, "--preset", "ultrafast"]));
    let pictures = times(&output);
    assert_eq!(pictures.len(), 20);
    assert!(pictures.windows(2).all(|pair| pair[1] - pair[0] == 1800), "{pictures:?}");
    // Taken for whole pictures: nothing says that they are not.
    succeeded(&glassline(&["encode", &input, &output, "--preset", "ultrafast", "--deinterlace", "ignore"]));
    assert_eq!((times(&output).len(), field_order(&output).as_str()), (10, "progressive"));
}

/// The order of the fields as ffprobe finds it.
fn field_order(path: &str) -> String {
    let show =
        ["-v", "error", "-select_streams", "v", "-show_entries", "stream=field_order", "-of", "csv=p=0"];
    let text = run("ffprobe", &[&show[..], &[path]].concat(), 30).text();
    text.lines().next().unwrap_or("").trim_end_matches(',').to_owned()
}

#[test]
fn fields_are_coded_as_fields_where_they_stay() {
    let test = "fields_are_coded_as_fields_where_they_stay";
    let scratch = Scratch::new("interlaced");
    let (input, output) = (scratch.file("in.y4m"), scratch.file("out.ts"));
    for (order, mode) in [("tt", "interleave_top"), ("bb", "interleave_bottom")] {
        let interlaced = format!("testsrc2=size=192x108:rate=50,tinterlace=mode={mode}");
        let how = ["-field_order", order, "-frames:v", "10", "-f", "yuv4mpegpipe", &input];
        if !ffmpeg(test, &[&["-f", "lavfi", "-i", &interlaced], &how[..]].concat()) {
            return;
        }
        for more in [
            &["--threads", "1", "--slices", "3"][..],
            &["--threads", "2", "--slices", "3"],
            &["--preset", "medium"],
        ] {
            let common = ["encode", &input, &output, "--bitrate", "20M", "--deinterlace", "off"];
            succeeded(&glassline(&[&common, more].concat()));
            assert_eq!((times(&output).len(), field_order(&output).as_str()), (10, order), "{more:?}");
            let decoded = run("ffmpeg", &["-v", "warning", "-i", &output, "-f", "null", "-"], 60);
            assert_eq!((decoded.status, decoded.stderr.as_str()), (Some(0), ""), "{more:?}");
            let likeness = psnr(&output, &input);
            assert!(likeness > 33.0, "{order} {more:?}: {likeness} dB");
        }
    }
    // Scaling would mix the fields, and a refresh that wanders has whole pictures.
    for more in [["--rendition", "96x52@25:1M"], ["--intra-refresh", "--cbr"]] {
        let outcome = glassline(&[&["encode", &input, &output, "--deinterlace", "off"], &more[..]].concat());
        assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
    }
}

#[test]
fn files_are_decoded_by_ffmpeg() {
    let scratch = Scratch::new("decoded");
    let (input, output) = (scratch.file("-a film: 100%.mkv"), scratch.file("out.ts"));
    let source = ["-f", "lavfi", "-i", "testsrc2=size=192x108:rate=30000/1001", "-frames:v", "20"];
    if !ffmpeg(
        "files_are_decoded_by_ffmpeg",
        &[&source[..], &["-c:v", "mpeg4", "-q:v", "2", &input]].concat(),
    ) {
        return;
    }
    succeeded(&glassline(&["encode", &input, &output, "--bitrate", "20M", "--keyint", "40ms"]));
    let pictures = times(&output);
    assert_eq!(pictures.len(), 20);
    assert!(pictures.windows(2).all(|pair| pair[1] - pair[0] == 3003), "{pictures:?}");
    assert!(psnr(&output, &input) > 33.0);
    succeeded(&glassline(&["encode", &format!("file:{input}"), &output, "--loop", "--limit", "50"]));
    assert_eq!(times(&output).len(), 50);
}

#[test]
fn what_ffmpeg_cannot_read_is_told_in_its_words() {
    let scratch = Scratch::new("undecoded");
    let output = scratch.file("out.ts");
    let outcome = glassline(&["encode", &scratch.file("none.mp4"), &output]);
    assert_eq!(outcome.status, Some(1));
    assert!(outcome.stderr.contains("check the name"), "{}", outcome.stderr);
    if !have("what_ffmpeg_cannot_read_is_told_in_its_words", &["ffmpeg"]) {
        return;
    }
    let input = scratch.write("text.mp4", "no film at all ".repeat(1000));
    let outcome = glassline(&["encode", &input, &output]);
    assert_eq!(outcome.status, Some(1));
    assert!(
        outcome.stderr.contains("ffmpeg failed: ") && outcome.stderr.contains("Invalid data"),
        "{}",
        outcome.stderr
    );
    assert!(!std::path::Path::new(&output).exists(), "nothing was overwritten");
}

/// Processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let list = run("ps", &["-o", "pid=", "--ppid", &parent.to_string()], 10).text();
    list.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

#[test]
fn the_decoder_ends_with_the_encoder() {
    let scratch = Scratch::new("children");
    let input = scratch.file("in.mkv");
    let source = ["-f", "lavfi", "-i", "testsrc2=size=192x108:rate=25", "-frames:v", "20", "-c:v", "mpeg4"];
    if !have("the_decoder_ends_with_the_encoder", &["ps"]) {
        return;
    }
    if !ffmpeg("the_decoder_ends_with_the_encoder", &[&source[..], &[&input]].concat()) {
        return;
    }
    for signal in ["TERM", "KILL"] {
        let output = scratch.file("out.ts");
        let arguments = ["encode", &input, &output, "--loop", "--realtime"];
        let mut encoder = Running::start(Command::new(GLASSLINE).args(arguments));
        // Once it writes, it listens to signals too.
        until("bytes", || std::fs::metadata(&output).is_ok_and(|file| file.len() > 100_000));
        let decoders = children(encoder.id());
        assert!(!decoders.is_empty());
        std::fs::remove_file(&output).unwrap();
        encoder.signal(signal);
        let status = encoder.wait();
        assert!(signal == "KILL" || status.code() == Some(0), "{}", encoder.output());
        until("the decoder's end", || {
            decoders.iter().all(|id| !std::path::Path::new(&format!("/proc/{id}")).exists())
        });
    }
}

/// Moves the boxes of an MP4's `moov` so that the cover's stands in front of the tracks: FFmpeg finds streams in this order.
fn put_cover_first(path: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    let boxes = |bytes: &[u8]| {
        let (mut at, mut all) = (0, Vec::new());
        while at < bytes.len() {
            let length = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            all.push((bytes[at + 4..at + 8].to_vec(), at..at + length));
            at += length;
        }
        all
    };
    let (_, moov) = boxes(&bytes).into_iter().find(|(kind, _)| kind == b"moov").unwrap();
    let children = bytes[moov.start + 8..moov.end].to_vec();
    let mut order = boxes(&children);
    order.sort_by_key(|(kind, _)| kind != b"udta");
    let moved: Vec<u8> = order.iter().flat_map(|(_, range)| children[range.clone()].to_vec()).collect();
    bytes[moov.start + 8..moov.end].copy_from_slice(&moved);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn the_film_is_taken_and_not_its_cover() {
    let (test, scratch) = ("the_film_is_taken_and_not_its_cover", Scratch::new("cover"));
    let (cover, film, song, output) = (
        scratch.file("cover.jpg"),
        scratch.file("film.mp4"),
        scratch.file("song.mp3"),
        scratch.file("out.ts"),
    );
    let red = ["-f", "lavfi", "-i", "color=red:size=400x400", "-frames:v", "1", "-pix_fmt", "yuvj420p"];
    if !ffmpeg(test, &[&red[..], &[&cover]].concat()) {
        return;
    }
    let tone = ["-f", "lavfi", "-i", "sine=frequency=440:duration=1"];
    let pictures = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=1"];
    let coded = ["-c:v:0", "copy", "-disposition:v:0", "attached_pic", "-c:v:1", "mpeg4", "-c:a", "aac"];
    let maps = ["-map", "0", "-map", "1", "-map", "2", "-movflags", "+faststart"];
    ffmpeg(test, &[&["-i", &cover][..], &pictures, &tone, &maps, &coded, &[&film]].concat());
    put_cover_first(&film);
    let first = ["-v", "error", "-show_entries", "stream=codec_name", "-of", "csv=p=0", &film];
    assert!(run("ffprobe", &first, 30).text().starts_with("mjpeg"), "the cover is the file's first stream");
    for codec in [&["--preset", "ultrafast"][..], &["--codec", "vp8"]] {
        let output = if codec[0] == "--codec" { scratch.file("out.ivf") } else { output.clone() };
        succeeded(&glassline(&[&["encode", &film, &output], codec].concat()));
        assert_eq!((size(&output).as_str(), times(&output).len()), ("320,180", 25), "{codec:?}");
    }
    // A song with a cover is no film, and neither is one without.
    let maps = ["-map", "0", "-map", "1", "-c:v", "copy", "-disposition:v:0", "attached_pic"];
    ffmpeg(test, &[&["-i", &cover][..], &tone, &maps, &[&song]].concat());
    let wav = scratch.file("song.mka");
    ffmpeg(test, &[&tone[..], &[&wav]].concat());
    for (name, words) in
        [(&song, "has no pictures: it is sound and a cover"), (&wav, "has no pictures: it is sound alone")]
    {
        let outcome = glassline(&["encode", name, &output]);
        assert_eq!(outcome.status, Some(1), "{name}");
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
}

/// The loudest sample of a file's sound in decibels below full scale.
fn loudest(path: &str) -> f64 {
    let outcome =
        run("ffmpeg", &["-nostdin", "-i", path, "-vn", "-af", "volumedetect", "-f", "null", "-"], 60);
    let said = outcome.stderr;
    let found =
        said.rsplit_once("max_volume:").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    found.unwrap_or_else(|| panic!("no sound: {said}"))
}

#[test]
fn the_default_track_is_taken_or_the_one_that_is_asked_for() {
    let (test, scratch) = ("the_default_track_is_taken_or_the_one_that_is_asked_for", Scratch::new("tracks"));
    let (film, plain, output) = (scratch.file("film.mkv"), scratch.file("plain.mkv"), scratch.file("out.ts"));
    // Two sizes, and three tones: 0, 20 and 40 dB below the loudest.
    let inputs = [
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=320x180:rate=25:duration=1",
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=192x108:rate=25:duration=1",
        "-f",
        "lavfi",
        "-i",
        "aevalsrc=0.5*sin(2764*t):duration=1",
        "-f",
        "lavfi",
        "-i",
        "aevalsrc=0.05*sin(2764*t):duration=1",
        "-f",
        "lavfi",
        "-i",
        "aevalsrc=0.005*sin(2764*t):duration=1",
        "-map",
        "0",
        "-map",
        "1",
        "-map",
        "2",
        "-map",
        "3",
        "-map",
        "4",
        "-c:v",
        "mpeg4",
        "-c:a",
        "flac",
        "-metadata:s:a:0",
        "language=eng",
        "-metadata:s:a:1",
        "language=ger",
        "-metadata:s:a:2",
        "language=fre",
    ];
    let defaults = [
        "-disposition:v:0",
        "0",
        "-disposition:v:1",
        "default",
        "-disposition:a:0",
        "0",
        "-disposition:a:1",
        "default",
        "-disposition:a:2",
        "0",
    ];
    if !ffmpeg(test, &[&inputs[..], &defaults, &[&film]].concat()) {
        return;
    }
    let none = ["-disposition:v", "0", "-disposition:a", "0", "-default_mode", "passthrough"];
    ffmpeg(test, &[&inputs[..], &none, &[&plain]].concat());
    for (name, options, expected, level_db) in [
        (&film, &[][..], "192,108", -26.0),
        (&plain, &[], "320,180", -6.0),
        (&film, &["--audio-track", "1"], "192,108", -6.0),
        (&film, &["--audio-track", "fr", "--video-track", "1"], "320,180", -46.0),
        (&plain, &["--audio-track", "deu", "--video-track", "2"], "192,108", -26.0),
        (&plain, &["--audio-track", "3"], "320,180", -46.0),
    ] {
        let how = ["--preset", "ultrafast", "--audio", "s302m"];
        let outcome = glassline(&[&["encode", name, &output], &how[..], options].concat());
        succeeded(&outcome);
        assert_eq!(size(&output), expected, "{name} {options:?}");
        let level = loudest(&output);
        assert!((level - level_db).abs() < 1.5, "{name} {options:?}: {level} dB in place of {level_db}");
        if options.is_empty() {
            let list = "3 audio tracks (1: eng flac 1 channel; 2: ger flac 1 channel; 3: fre flac 1 channel)";
            assert!(outcome.stderr.contains(list), "{}", outcome.stderr);
        }
    }
    for (options, words) in [
        (&["--audio-track", "it"], "no audio track of the language it; it has 1: eng flac"),
        (&["--video-track", "3"], "no video track of number 3"),
        (&["--audio-track", "0"], "is no track"),
    ] {
        let outcome = glassline(&[&["encode", &film, &output][..], options].concat());
        assert_eq!(outcome.status, Some(2), "{options:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
    let outcome = glassline(&["encode", "test:192x108@25", &output, "--video-track", "1"]);
    assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
    let raw = ["send-raw", &film, "rtp://127.0.0.1:9", "--limit", "1", "--sdp", "-"];
    for (options, width) in [(&[][..], "width=192;"), (&["--video-track", "1"], "width=320;")] {
        let outcome = glassline(&[&raw[..], options].concat());
        assert!(outcome.text().contains(width), "{options:?}: {} {}", outcome.text(), outcome.stderr);
    }
}
