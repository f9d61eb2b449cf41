use super::*;
use clap::Parser;
use glassline_io::capture::DeviceRequest;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: SendOptions,
}

#[test]
fn what_is_coded_already_is_told_by_its_name() {
    assert_eq!("a/b.H264".parse(), Ok(SendInput::Coded("a/b.H264".into())));
    assert_eq!("file:b.h264".parse(), Ok(SendInput::Pictures(Input::Decoded("b.h264".into()))));
    assert_eq!("-".parse(), Ok(SendInput::Pictures(Input::Stdin)));
    let device = CodedDevice { device: "/dev/video0".into(), requested: DeviceRequest::default() };
    assert_eq!("v4l2:/dev/video0?format=H264".parse(), Ok(SendInput::Camera(device)));
    let raw: SendInput = "v4l2:/dev/video0?format=nv12".parse().unwrap();
    assert!(matches!(raw, SendInput::Pictures(Input::V4l2 { .. })));
}

#[test]
fn a_camera_is_steered_alone_where_it_codes_itself_and_other_options_of_encoders_are_refused() {
    let open = |input: &str, words: &[&str]| {
        let line = Line::parse_from(["line"].iter().chain(words));
        let opened = Sending::open(&input.parse().unwrap(), &line.options);
        format!("{:#}", opened.err().unwrap())
    };
    for input in ["test:64x48@25", "a.h264", "v4l2:/dev/no-such-camera"] {
        let error = open(input, &["--adapt"]);
        assert!(error.contains("--adapt steers the encoder of a camera"), "{input}: {error}");
    }
    let camera = "v4l2:/dev/no-such-camera?format=h264";
    let found = open(camera, &["--adapt", "--bitrate", "3M"]);
    assert!(found.contains("/dev/no-such-camera: cannot open it"), "{found}");
    assert!(open(camera, &["--loop"]).contains("only a file can be looped"));
    let null = open("v4l2:/dev/null?format=h264", &["--adapt"]);
    assert!(null.contains("it is no capture device"), "{null}");
    let file = std::env::temp_dir().join(format!("glassline-adapt-{}.h264", std::process::id()));
    std::fs::write(&file, [0, 0, 0, 1]).unwrap();
    let bounded = open(file.to_str().unwrap(), &["--bitrate", "3M"]);
    std::fs::remove_file(file).unwrap();
    assert!(bounded.contains("is not coded again"), "{bounded}");
}

#[test]
fn addresses_of_cameras_and_servers_are_fetched_and_a_description_by_what_it_has() {
    let parse = |text: &str| text.parse::<SendInput>().unwrap();
    for fetched in [
        "rtsp://user:word@cam/stream1",
        "RTSPS://cam:322/",
        "http://relay:8080/live/hall.ts",
        "https://relay/live/hall",
        "udp://239.1.2.3:5000?interface=eth0",
        "rtp://:5000",
    ] {
        assert!(matches!(parse(fetched), SendInput::Fetched(_)), "{fetched}");
    }
    for unusable in ["rtsp://", "http://relay/live/hall.flv", "udp://camera:5000", "rtp://1.2.3.4"] {
        assert!(matches!(parse(unusable), SendInput::Unusable(_)), "{unusable}");
    }
    let scratch = glassline_test_support::program::Scratch::new("send-described");
    let described = |codec: &str| {
        let text =
            format!("v=0\r\nc=IN IP4 127.0.0.1\r\nm=video 5004 RTP/AVP 96\r\na=rtpmap:96 {codec}/90000\r\n");
        parse(&format!("rtp:{}", scratch.write("a.sdp", text)))
    };
    assert!(matches!(described("H264"), SendInput::Fetched(_)));
    let SendInput::Unusable(error) = described("H265") else { panic!("H.265 is taken") };
    assert!(error.to_string().contains("set the camera's encoder to H.264"), "{error}");
    assert!(matches!(described("raw"), SendInput::Pictures(Input::Rtp { .. })));
    assert!(matches!(parse("rtp:/no/such.sdp"), SendInput::Pictures(Input::Rtp { .. })));
}

#[test]
fn what_is_refused_of_an_address_does_not_repeat_its_password() {
    let open = |input: &str, words: &[&str]| {
        let line = Line::parse_from(["line"].iter().chain(words));
        let opened = Sending::open(&input.parse().unwrap(), &line.options);
        format!("{:#}", opened.err().unwrap())
    };
    let refused = [
        ("rtsp://admin:secret@:554/", &[][..], "host"),
        ("http://admin:secret@relay/live/hall.flv", &[], "is FLV by its name"),
        ("rtsp://admin:secret@cam/", &["--loop"], "only a file can be looped"),
        ("rtsp://admin:secret@cam/", &["--codec", "h264"], "is not coded again"),
        ("rtsp://admin:secret@cam/", &["--adapt"], "--adapt steers the encoder"),
        ("rtsp://admin:secret@cam/", &["--source-ca", "a.pem"], "--source-ca belongs to an input over TLS"),
        ("rtsps://admin:secret@cam/", &["--source-ca", "/no/such.pem"], "check --source-ca"),
        ("rtsps://admin:secret@cam/", &["--source-ca", "Cargo.toml"], "check --source-ca"),
    ];
    for (input, words, wanted) in refused {
        let found = open(input, words);
        assert!(found.contains(wanted) && !found.contains("secret"), "{input} {words:?}: {found}");
    }
}

#[test]
fn nothing_given_is_the_default() {
    assert_eq!(Line::parse_from(["line"]).options, SendOptions::default());
    assert_ne!(Line::parse_from(["line", "--loop"]).options, SendOptions::default());
}
