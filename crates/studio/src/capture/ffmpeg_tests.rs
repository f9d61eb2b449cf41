use super::*;
use std::ffi::OsStr;

fn file(report: &str) -> FfmpegInput {
    let mut file = FfmpegInput::open(&"/dev/null".into()).unwrap();
    file.learn(&serde_json::from_str(report).unwrap(), &Tracks::default()).unwrap();
    file
}

#[test]
fn a_file_begins_with_its_first_picture() {
    let file = file(
        r#"{"streams": [{"codec_type": "audio", "channels": 6, "start_time": "1.400000"},
                        {"codec_type": "video", "start_time": "1.480000"}],
            "format": {"start_time": "1.400000", "duration": "10.5"}}"#,
    );
    assert_eq!((file.channels(), file.duration), (Some(6), Some(Duration::from_millis(10_500))));
    let words = |part| {
        let command = file.command(part);
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    assert!(words(Part::Pictures).contains("setpts=PTS-0.08"), "{}", words(Part::Pictures));
    assert!(words(Part::Sound(2)).contains("first_pts=3840 -ac 2"), "{}", words(Part::Sound(2)));
}

#[test]
fn colour_is_the_films_and_that_of_rgb_what_it_becomes() {
    let of = |stream: &str| {
        file(&format!(r#"{{"streams": [{{"codec_type": "video", {stream}}}], "format": {{}}}}"#))
    };
    let any = Size::new(64, 64).unwrap();
    let points = |file: &FfmpegInput| {
        let Colour { primaries, transfer, matrix, full_range } = file.colour(any);
        ([primaries, transfer, matrix], full_range)
    };
    let words = |file: &FfmpegInput| {
        let command = file.command(Part::Pictures);
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    let hlg = of(r#""pix_fmt": "yuv420p10le", "color_space": "bt2020nc", "color_transfer": "arib-std-b67",
                    "color_primaries": "bt2020", "width": 1920, "height": 1080"#);
    assert_eq!(points(&hlg), ([9, 18, 9], false));
    assert!(words(&hlg).contains("-vf format="), "{}", words(&hlg));
    let odd = of(r#""pix_fmt": "yuv420p", "color_space": "reserved", "color_primaries": 7, "width": -1"#);
    assert_eq!(points(&odd), ([2, 2, 2], false));
    for (size, rest, expected, matrix) in [
        (r#""width": 1920, "height": 1080"#, r#""color_transfer": "iec61966-2-1""#, [1, 13, 1], "bt709"),
        (r#""width": 720, "height": 576"#, r#""color_space": "gbr""#, [5, 6, 5], "bt601"),
        (r#""width": 640, "height": 480"#, r#""color_space": "gbr""#, [6, 6, 6], "bt601"),
        (r#""width": 640, "height": 480"#, r#""color_primaries": "bt2020""#, [9, 14, 9], "bt2020"),
    ] {
        let rgb = of(&format!(r#""pix_fmt": "gbrp", {size}, {rest}"#));
        assert_eq!(points(&rgb), (expected, false), "{size}");
        let filter = format!("-vf scale=out_color_matrix={matrix}:out_range=limited,format=");
        assert!(words(&rgb).contains(&filter), "{}", words(&rgb));
    }
}

#[test]
fn what_is_not_known_is_not_made_up() {
    for report in ["{}", "[]", r#"{"streams": [{"codec_type": "video", "start_time": "N/A"}], "format": {}}"#]
    {
        let file = file(report);
        assert_eq!((file.channels(), file.duration, file.shift), (None, None, 0.0));
        let odd = r#"{"streams": [{"codec_type": "video"}, {"codec_type": "audio", "channels": 0}], "format": {"duration": "-1"}}"#;
        assert_eq!((super::tests::file(odd).channels(), super::tests::file(odd).duration), (None, None));
    }
}

/// What is asked of FFmpeg for a part, in one line.
fn words(file: &FfmpegInput, part: Part) -> String {
    let command = file.command(part);
    command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// A program that stands for FFmpeg.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Of a film that cannot be looked into: only its children matter here.
fn any() -> FfmpegInput {
    FfmpegInput::open(&"/dev/null".into()).unwrap()
}

fn all_of(decoder: &mut Decoder) -> io::Result<String> {
    let mut text = String::new();
    decoder.read_to_string(&mut text).map(|_| text)
}

#[test]
fn a_film_that_is_not_there_or_is_a_folder_is_told_before_ffmpeg_is_asked() {
    let refused = |path: &str| FfmpegInput::open(&path.into()).unwrap_err();
    assert!(matches!(refused("/"), Error::Folder { name } if name == "/"));
    let absent = refused("/no/such/film.mp4");
    assert!(
        matches!(&absent, Error::Open { name, error } if name == "/no/such/film.mp4" && error.kind() == io::ErrorKind::NotFound),
        "{absent}"
    );
}

#[test]
fn no_track_is_chosen_of_what_cannot_be_looked_into() {
    let with = |tracks| FfmpegInput::open(&Film { path: "/dev/null".into(), tracks });
    let asked = Tracks { video: None, audio: "2".parse().ok() };
    assert!(matches!(with(asked), Err(Error::NotLookedInto { name }) if name == "/dev/null"));
    let file = with(Tracks::default()).unwrap();
    // FFmpeg itself then chooses, but for covers.
    assert_eq!((file.video(), file.first(), file.codec()), ("0:V:0", None, None));
    assert!(words(&file, Part::Sound(2)).contains("-map 0:a:0 "));
}

#[test]
fn the_tracks_that_are_asked_for_are_those_that_are_decoded() {
    let report = serde_json::json!({ "streams": [
        { "index": 0, "codec_type": "video", "codec_name": "h264" },
        { "index": 1, "codec_type": "audio", "channels": 2, "tags": { "language": "eng" } },
        { "index": 2, "codec_type": "video", "codec_name": "hevc", "start_time": "2.5" },
        { "index": 3, "codec_type": "audio", "channels": 6, "tags": { "language": "deu" } },
    ], "format": { "start_time": "0.0" } });
    let mut file = any();
    let wanted = Tracks { video: "2".parse().ok(), audio: "de".parse().ok() };
    file.learn(&report, &wanted).unwrap();
    assert_eq!((file.video(), file.codec(), file.channels()), ("0:2", Some("hevc"), Some(6)));
    assert_eq!(file.first(), Some(2.5));
    assert!(words(&file, Part::Pictures).contains("-map 0:2 -fps_mode cfr -vf setpts=PTS-2.5/TB,"));
    assert!(words(&file, Part::Sound(1)).contains("-map 0:3 -vn "));
    let absent = Tracks { video: None, audio: "fr".parse().ok() };
    assert!(matches!(any().learn(&report, &absent), Err(Error::NoTrack { kind: "audio", .. })));
}

#[test]
fn sound_without_pictures_is_no_film() {
    let report = serde_json::json!({ "streams": [{ "index": 0, "codec_type": "audio", "channels": 2 }] });
    let refused = any().learn(&report, &Tracks::default()).unwrap_err();
    assert_eq!(refused.to_string(), "/dev/null has no pictures: it is sound alone");
}

#[test]
fn what_begins_before_the_pictures_is_left_out_of_the_sound_alone() {
    let begins = |video: &str, format: &str| {
        let video = format!(r#"{{"codec_type": "video", "start_time": "{video}"}}"#);
        file(&format!(r#"{{"streams": [{video}], "format": {{"start_time": "{format}"}}}}"#))
    };
    let together = begins("5.0", "5.0");
    assert!(words(&together, Part::Pictures).contains("-vf format="));
    assert!(words(&together, Part::Sound(2)).contains("first_pts=0 "));
    let later = begins("5.5", "5.0");
    assert!(words(&later, Part::Pictures).contains("-vf setpts=PTS-0.5/TB,format="));
    assert!(words(&later, Part::Sound(2)).contains("first_pts=24000 "));
    assert_eq!(begins("4.0", "5.0").shift, 0.0, "pictures are not moved back before the beginning");
    assert_eq!(begins("nan", "5.0").shift, 0.0);
}

#[test]
fn a_length_that_no_film_has_is_none() {
    let length = |duration: &str| {
        let video = r#"{"codec_type": "video"}"#;
        file(&format!(r#"{{"streams": [{video}], "format": {{"duration": "{duration}"}}}}"#)).duration
    };
    assert_eq!(length("0.040000"), Some(Duration::from_millis(40)));
    for odd in ["0.0", "-3", "1e9", "inf", "nan", "N/A", ""] {
        assert_eq!(length(odd), None, "{odd}");
    }
}

#[test]
fn clocks_that_may_jump_are_those_of_transport_and_program_streams() {
    let jumps = |container: &str| {
        let format = format!(r#"{{"format_name": "{container}"}}"#);
        file(&format!(r#"{{"streams": [{{"codec_type": "video"}}], "format": {format}}}"#)).has_jumps()
    };
    assert_eq!(["mpegts", "mpeg", "mov,mp4,m4a", "mpegvideo"].map(jumps), [true, true, false, false]);
    assert!(!any().has_jumps());
}

#[test]
fn the_time_code_is_passed_on_as_the_file_has_it() {
    let video = r#"{"codec_type": "video", "tags": {"timecode": "10:00:00;02"}}"#;
    let film = file(&format!(r#"{{"streams": [{video}], "format": {{}}}}"#));
    assert_eq!((film.time_code(), any().time_code()), (Some("10:00:00;02"), None));
}

#[test]
fn a_file_s_name_is_never_taken_for_an_option_or_a_protocol() {
    let file = FfmpegInput { path: "-i http:x".into(), ..any() };
    assert_eq!((file.url(), file.name()), (OsString::from("file:-i http:x"), "-i http:x".to_owned()));
    let command = file.command(Part::Pictures);
    let mut words = command.get_args().skip_while(|word| *word != "-i");
    assert_eq!(words.nth(1), Some(OsStr::new("file:-i http:x")));
}

#[test]
fn what_a_child_writes_is_read_to_its_end() {
    let mut decoder = any().start(shell("echo first; echo last; echo a warning >&2")).unwrap();
    assert_eq!(all_of(&mut decoder).unwrap(), "first\nlast\n", "a complaint alone is no failure");
    assert_eq!(all_of(&mut decoder).unwrap(), "", "the end stays the end");
}

#[test]
fn a_child_that_fails_is_told_with_its_last_complaints_behind_all_that_it_wrote() {
    let script = "echo data; for n in 1 2 3 4 5 6; do echo \"wrong $n\" >&2; echo >&2; done; exit 3";
    let mut decoder = any().start(shell(script)).unwrap();
    let mut data = [0; 5];
    decoder.read_exact(&mut data).unwrap();
    assert_eq!(&data, b"data\n");
    let failed = all_of(&mut decoder).unwrap_err().to_string();
    assert_eq!(failed, "sh failed: wrong 3; wrong 4; wrong 5; wrong 6");
}

#[test]
fn a_child_that_fails_without_a_word_is_told_by_its_status() {
    let mut decoder = any().start(shell("exit 3")).unwrap();
    assert_eq!(all_of(&mut decoder).unwrap_err().to_string(), "sh failed: exit status: 3");
}

#[test]
fn a_program_that_is_not_installed_is_told_from_one_that_cannot_be_started() {
    let refused = |program: &str| any().start(Command::new(program)).err().unwrap();
    let absent = refused("/no/such/ffmpeg");
    assert!(matches!(&absent, Error::FfmpegAbsent { name } if name == "/dev/null"), "{absent}");
    let other = refused("/dev/null");
    assert!(
        matches!(&other, Error::Ffmpeg(error) if error.kind() == io::ErrorKind::PermissionDenied),
        "{other}"
    );
}

#[test]
fn children_that_are_ended_are_no_failure_and_none_begins_behind_them() {
    let file = any();
    let mut decoder = file.start(shell("echo it runs; exec sleep 1000")).unwrap();
    let mut line = [0; 8];
    decoder.read_exact(&mut line).unwrap();
    let reading = thread::spawn(move || all_of(&mut decoder));
    file.children().end();
    assert_eq!(reading.join().unwrap().unwrap(), "");
    let refused = file.start(shell("echo too late")).err().unwrap();
    assert!(refused.to_string().contains("the end has been asked for"), "{refused}");
}

#[test]
fn a_film_that_stands_apart_has_children_of_its_own() {
    let file = any();
    let (apart, clone) = (file.apart(), file.clone());
    file.children().end();
    assert!(clone.start(shell("true")).is_err(), "a clone's are the same");
    let mut decoder = apart.start(shell("echo on")).unwrap();
    assert_eq!(all_of(&mut decoder).unwrap(), "on\n");
}

#[test]
fn a_decoder_that_nothing_reads_any_more_takes_its_child_along() {
    let file = any();
    let mut decoder = file.start(shell("echo $$; exec sleep 1000")).unwrap();
    let mut line = String::new();
    let mut byte = [0];
    while !line.ends_with('\n') {
        decoder.read_exact(&mut byte).unwrap();
        line.push(char::from(byte[0]));
    }
    let process = std::path::Path::new("/proc").join(line.trim());
    assert!(process.exists());
    drop(decoder);
    assert!(!process.exists(), "it was waited for");
    assert!(file.children().lock().children.is_empty());
}
