use super::*;
use proptest::prelude::*;

#[test]
fn outputs_are_told_apart() {
    assert_eq!("-".parse(), Ok(Target::Stdout));
    assert_eq!("null:".parse(), Ok(Target::Null));
    assert_eq!("a/b.ts".parse(), Ok(Target::File("a/b.ts".into())));
    assert_eq!("a/b.MP4".parse(), Ok(Target::File("a/b.MP4".into())));
    for url in [
        "udp://239.1.2.3:5000?ttl=8&interface=eth0",
        "rtp://[ff15::1]:5004",
        "udp://studio-2.example:5000?packets=3",
        "RTP://192.0.2.7:5004?source=192.0.2.1",
    ] {
        assert_eq!(url.parse(), Ok(Target::Datagrams(url.to_owned())));
    }
    for url in ["https://box/live/a.ts", "http://box/live/a.ts", "http://[::1]:8080/live/a.ts?takeover=1"] {
        let target: Target = url.parse().unwrap();
        assert_eq!(target, Target::Http(vec![url.to_owned()]));
        assert_eq!(target.is_tls(), url.starts_with("https"));
    }
}

#[test]
fn servers_that_take_turns_stand_in_one_output() {
    let text = "http://a:81/live/x.ts?key=hush,https://b/live/x,y.ts";
    let target: Target = text.parse().unwrap();
    let urls = ["http://a:81/live/x.ts?key=hush", "https://b/live/x,y.ts"].map(str::to_owned);
    assert_eq!(target, Target::Http(urls.into()));
    assert!(target.is_tls() && target.is_network());
    assert_eq!(target.to_string(), "http://a:81/live/x.ts?key=…,https://b/live/x,y.ts");
    let rendition = target.of_rendition("720p50", 0).unwrap();
    assert_eq!(rendition.to_string(), "http://a:81/live/x-720p50.ts?key=…,https://b/live/x,y-720p50.ts");
    let refused = |text: &str| text.parse::<Target>().unwrap_err();
    for other in ["srt://b:1", "htp://b/live/x.ts", "b:8080/live/x.ts", "b/live/x.ts", "copy.mp4"] {
        let text = format!("http://a/live/x.ts,{other}");
        assert!(matches!(refused(&text), TargetError::NoTurns(_)), "{text}");
    }
    assert!("http://a/x.ts?tags=a,b".parse::<Target>().is_ok(), "a comma may stand in a query");
    assert!(matches!(refused("http://a/live/x.ts,http://b"), TargetError::NoStream(_)));
    assert!(matches!(refused("http://a,http://b/live/x.ts"), TargetError::NoStream(_)));
}

#[test]
fn each_rendition_has_outputs_of_its_own() {
    let of = |text: &str, index| {
        let output: Target = text.parse().unwrap();
        output
            .of_rendition("720p50", index)
            .map(|output| output.to_string())
            .map_err(|error| error.to_string())
    };
    assert_eq!(of("http://box/live/hall.ts", 0).unwrap(), "http://box/live/hall-720p50.ts");
    assert_eq!(of("http://box/live/{rendition}.ts", 0).unwrap(), "http://box/live/720p50.ts");
    assert_eq!(of("http://box{index}/live/hall.ts", 1).unwrap(), "http://box1/live/hall.ts");
    assert_eq!(of("a/hall.ts", 0).unwrap(), "a/hall-720p50.ts");
    assert_eq!(of("udp://239.1.{index}.1:5000", 3).unwrap(), "udp://239.1.3.1:5000");
    assert_eq!(of("udp://239.1.1.1:5000?ttl=8", 2).unwrap(), "udp://239.1.1.1:5004?ttl=8");
    assert_eq!(of("link://relay.example:7000", 1).unwrap(), "link://relay.example:7002");
    assert_eq!(of("link://relay{index}.example:7000", 1).unwrap(), "link://relay1.example:7000");
    assert_eq!(of("null:", 2).unwrap(), "null:");
    assert!(of("-", 0).unwrap_err().contains("standard output"));
    assert!(of("udp://h:65535", 1).unwrap_err().contains("ports"));
}

#[test]
fn what_is_no_output_is_refused_with_what_would_be() {
    for (text, complaint) in [
        ("udp://host", "no host and port"),
        ("udp://:5000", "no host and port"),
        ("udp://host:0", "no host and port"),
        ("udp://host:65536", "no host and port"),
        ("udp://[::1:5000", "no host and port"),
        ("udp://[host]:5000", "no host and port"),
        ("udp://::1:5000", "no host and port"),
        ("link://host", "link://HOST:PORT"),
        ("link://host:0", "link://HOST:PORT"),
        ("link://:7000", "link://HOST:PORT"),
        ("link://host:7000?key=a", "link://HOST:PORT"),
        ("link://me@host:7000", "link://HOST:PORT"),
        ("udp://host:5000?ttl=0", "from 1 to 255"),
        ("rtp://host:5000?pkt_size=1316", "another option"),
        ("http://[::1/live/a.ts", "no name or address"),
        ("http://host:0/live/a.ts", "1 to 65535"),
        ("http://host:8080", "names no stream"),
        ("http://host:8080/", "names no stream"),
        ("http://me@host/live/a.ts", "\"http://…@host/live/a.ts\" names a user"),
        ("http://host/live/a b.ts", "visible ASCII"),
        ("https://host", "names no stream"),
        ("rtmp://host/app", "is not known"),
        ("film.mkv", "none of FILE.ts"),
        ("", "none of FILE.ts"),
    ] {
        let error = text.parse::<Target>().unwrap_err().to_string();
        assert!(error.contains(complaint), "{text}: {error}");
    }
}

#[test]
fn outputs_get_the_rendition_s_name() {
    assert_eq!(appended("/live/hall.ts?takeover=1", "720p50"), "/live/hall-720p50.ts?takeover=1");
    assert_eq!(appended("a.b/film", "360p25"), "a.b/film-360p25");
    assert_eq!(appended("x.ts", "360p25"), "x-360p25.ts");
    assert_eq!(filled("239.1.{index}.3", "720p50", 2).as_deref(), Some("239.1.2.3"));
    assert_eq!(filled("/live/{rendition}/a.ts", "720p50", 2).as_deref(), Some("/live/720p50/a.ts"));
    assert_eq!(filled("plain", "720p50", 2), None);
}

#[test]
fn ports_go_up() {
    assert_eq!(further_port("udp://[ff15::1]:5000", 4).as_deref(), Some("udp://[ff15::1]:5004"));
    assert_eq!(further_port("rtp://h:5000?ttl=8", 2).as_deref(), Some("rtp://h:5002?ttl=8"));
    assert_eq!((further_port("udp://h:65535", 1), further_port("udp://h", 1)), (None, None));
}

#[test]
fn a_key_is_not_shown() {
    let shown = |text: &str| text.parse::<Target>().unwrap().to_string();
    assert_eq!(shown("http://h:1/live/a.ts?key=secret&takeover=1"), "http://h:1/live/a.ts?key=…&takeover=1");
    assert_eq!(shown("http://h:1/live/a.ts?takeover=1"), "http://h:1/live/a.ts?takeover=1");
}
#[test]
fn neither_a_key_nor_a_user_is_shown_by_a_refusal() {
    for text in [
        "http://host:0/live/a.ts?key=secret",
        "http://[::1/live/a.ts?takeover=1&key=secret",
        "http://host/live/a.ts?key=secret#x",
        "http://host/live/a b.ts?key=secret",
        "http://secret@host/live/a.ts",
        "http://me:secret@[::1/live/a.ts",
        "https://secret@host:0/live/a.ts?key=secret",
        "rtmp://me:secret@host/app?key=secret",
    ] {
        let error = text.parse::<Target>().unwrap_err().to_string();
        assert!(!error.contains("secret"), "{text}: {error}");
    }
}

#[test]
fn a_user_that_is_a_part_of_the_scheme_is_hidden_where_it_stands() {
    let error = "http://http@host/live/a.ts".parse::<Target>().unwrap_err();
    assert_eq!(error, TargetError::User("http://…@host/live/a.ts".to_owned()));
}

#[test]
fn an_at_sign_behind_the_host_is_no_user() {
    for url in ["http://host/live/a@b.ts", "http://host/live/a.ts?mail=a@b"] {
        assert_eq!(url.parse(), Ok(Target::Http(vec![url.to_owned()])));
    }
}

#[test]
fn extensions_say_what_a_file_holds_in_any_case_of_letters() {
    let of = |text: &str| {
        let target: Target = text.parse().unwrap();
        (target.is_mp4(), target.is_ivf(), target.is_network())
    };
    assert_eq!(of("a.mp4"), (true, false, false));
    assert_eq!(of("a.MP4"), (true, false, false));
    assert_eq!(of("a.Ivf"), (false, true, false));
    assert_eq!(of("a.ts"), (false, false, false));
    assert_eq!(of("null:"), (false, false, false));
    assert_eq!(of("udp://h:1"), (false, false, true));
    assert_eq!(of("http://h/live/a.mp4"), (false, false, true));
    // Most streams are of codecs that WebM does not hold.
    assert!("a.webm".parse::<Target>().is_err());
    assert!(Target::File("a.WebM".into()).is_webm() && !Target::File("a.mp4".into()).is_webm());
}

#[test]
fn tls_is_told_by_the_scheme_in_any_case_of_letters() {
    let is_tls = |text: &str| text.parse::<Target>().unwrap().is_tls();
    assert!(is_tls("HTTPS://h/live/a.ts"));
    assert!(!is_tls("http://h/live/https:a.ts") && !is_tls("https.ts"));
}

#[test]
fn a_name_that_is_an_extension_alone_is_a_hidden_file_of_no_kind() {
    for text in [".ts", "a/.mp4", "ts", "a.ts/"] {
        let parsed = text.parse::<Target>();
        let is_file = matches!(parsed, Ok(Target::File(_)));
        // A slash at the end is no part of the name for the system.
        assert_eq!(is_file, text == "a.ts/", "{text}: {parsed:?}");
    }
}

#[test]
fn a_hidden_file_keeps_its_dot_in_front_of_the_rendition_s_name() {
    assert_eq!(appended("a/.hidden", "360p25"), "a/.hidden-360p25");
    assert_eq!(appended("a/.hidden.ts", "360p25"), "a/.hidden-360p25.ts");
    assert_eq!(appended("/live/a.tar.ts", "x"), "/live/a.tar-x.ts");
}

#[test]
fn a_file_with_a_name_that_is_no_text_has_no_renditions() {
    use std::os::unix::ffi::OsStrExt;
    let path = Path::new(std::ffi::OsStr::from_bytes(b"a\xff.ts")).to_owned();
    let refused = Target::File(path).of_rendition("720p50", 0);
    assert_eq!(refused, Err(TargetError::NotUtf8("a\u{fffd}.ts".to_owned())));
}

#[test]
fn a_rendition_s_name_that_makes_no_place_is_refused() {
    let target: Target = "http://h/live/{rendition}.ts".parse().unwrap();
    assert!(matches!(target.of_rendition("a b", 0), Err(TargetError::Url { .. })));
    let group: Target = "udp://239.1.{index}.1:5000".parse().unwrap();
    assert!(matches!(group.of_rendition("x", 3), Ok(Target::Datagrams(_))));
}

#[test]
fn the_last_port_is_taken_and_none_beyond_it() {
    assert_eq!(further_port("udp://h:65533", 2).as_deref(), Some("udp://h:65535"));
    assert_eq!(further_port("udp://h:65534", 2), None);
    assert_eq!(further_port("udp://h:1/x", 1).as_deref(), Some("udp://h:2/x"));
    assert_eq!(further_port("h:5000", 1), None, "without a scheme it is no URL");
}

proptest! {
    #[test]
    fn no_text_is_too_odd_and_what_is_taken_is_taken_as_it_stands(
        text in r"((udp|rtp|http|https|HTTP|file|link|srt)://)?[a-z0-9:/?#@\[\]{}.=&%ä -]{0,40}(\.ts|\.mp4)?",
    ) {
        match text.parse::<Target>() {
            Ok(Target::File(path)) => prop_assert_eq!(path, PathBuf::from(&text)),
            Ok(Target::Http(urls)) => prop_assert_eq!(urls.join(","), text),
            Ok(Target::Datagrams(url) | Target::Srt(url)) => prop_assert_eq!(url, text),
            Ok(Target::Link(peer)) => prop_assert!(text.contains(&peer)),
            Ok(Target::Stdout | Target::Null) => prop_assert!(text == "-" || text == "null:"),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn renditions_have_places_that_differ(
        text in prop::sample::select(vec![
            "a/film.ts", "film.mp4", "http://h/live/a.ts?key=x", "http://h/live/{rendition}.ts",
            "udp://239.1.1.1:5000?ttl=3", "udp://239.1.{index}.1:5000", "rtp://[ff15::1]:5004",
        ]),
        one in 0usize..100,
        other in 0usize..100,
    ) {
        let target: Target = text.parse().unwrap();
        let place = |index: usize| target.of_rendition(&format!("r{index}"), index).unwrap();
        prop_assert_eq!(place(one) == place(other), one == other);
        prop_assert!(matches!(
            (&target, place(one)),
            (Target::File(_), Target::File(_))
                | (Target::Http(_), Target::Http(_))
                | (Target::Datagrams(_), Target::Datagrams(_))
        ));
    }
}
