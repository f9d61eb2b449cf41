//! Descriptions of others, of our own, and of nobody.

use super::*;
use crate::raw_video::{Format, Packing, Scan};
use glassline_media::{Chroma, Colour, FieldOrder, FrameRate, PixelFormat, Size};
use proptest::prelude::*;
use std::time::Duration;

const ST2110_20: &str = include_str!("../../../../fuzz/corpus/sdp/st2110-20.sdp");
const ST2110_21: &str = include_str!("../../../../fuzz/corpus/sdp/st2110-21.sdp");
const ST2110_30: &str = include_str!("../../../../fuzz/corpus/sdp/st2110-30.sdp");
const ST2110_40: &str = include_str!("../../../../fuzz/corpus/sdp/st2110-40.sdp");
const RFC4175: &str = include_str!("../../../../fuzz/corpus/sdp/rfc4175.sdp");
const FFMPEG: &str = include_str!("../../../../fuzz/corpus/sdp/ffmpeg.sdp");
const ALL: [&str; 6] = [ST2110_20, ST2110_21, ST2110_30, ST2110_40, RFC4175, FFMPEG];

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn format(chroma: Chroma, depth: u8, (width, height): (u32, u32), scan: Scan) -> Format {
    Format::new(PixelFormat::planar(chroma, depth), Size::new(width, height).unwrap(), scan).unwrap()
}

/// What is wrong with `from` replaced in the example of ST 2110-20 without its second path.
fn refused(from: &str, to: &str) -> String {
    let one = ST2110_20.split("m=video 50020").next().unwrap();
    let one = one.replace("a=group:DUP primary secondary\r\n", "");
    assert!(Description::parse(&one).is_ok() && one.contains(from), "{from}");
    Description::parse(&one.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn the_example_of_st_2110_20_is_one_flow_of_two_paths() {
    let description = Description::parse(ST2110_20).unwrap();
    assert_eq!(description.name, "Example of a SMPTE ST2110-20 signal");
    assert_eq!((description.session_id, description.version), (123_456, 11));
    assert_eq!(description.origin, address("192.168.100.2"));
    assert_eq!((description.flows.len(), description.skipped.len()), (1, 0));
    let (flow, video) = description.video().unwrap();
    assert_eq!(flow.payload_type, 112);
    let first = Path {
        to: "239.100.9.10:50000".parse().unwrap(),
        sources: vec![address("192.168.100.2")],
        ttl: Some(32),
    };
    let second = Path {
        to: "239.101.9.10:50020".parse().unwrap(),
        sources: vec![address("192.168.101.2")],
        ttl: Some(32),
    };
    assert_eq!(flow.paths, [first, second]);
    let identity = [0x39, 0xA7, 0x94, 0xFF, 0xFE, 0x07, 0xCB, 0xD0];
    let clock = PtpClock::Grandmaster { identity, domain: Some(37) };
    let version = ReferenceClock::PTP_2008.to_owned();
    assert_eq!(flow.reference_clock, Some(ReferenceClock::Ptp { version, clock }));
    assert_eq!(flow.direct_offset(&[]), Some(0));
    assert_eq!(video.format, format(Chroma::Yuv422, 10, (1280, 720), Scan::Progressive));
    assert_eq!(video.rate, FrameRate::new(60_000, 1001));
    assert_eq!((video.colour, video.packing), (Colour::BT709, Packing::General));
    assert!(video.is_standard_2110 && video.field_order().is_none());
    assert!(description.audio().is_none() && description.ancillary().is_none());
}

#[test]
fn parameters_of_senders_colour_and_fields_are_read() {
    let description = Description::parse(ST2110_21).unwrap();
    let (flow, video) = description.video().unwrap();
    assert_eq!(video.format, format(Chroma::Rgb, 12, (1920, 1080), Scan::Interlaced));
    assert_eq!(video.field_order(), Some(FieldOrder::TopFirst));
    assert_eq!(video.rate, FrameRate::new(25, 1));
    assert_eq!(video.colour, Colour { primaries: 9, transfer: 18, matrix: 0, full_range: true });
    assert_eq!((video.packing, video.sender), (Packing::Block, Some(SenderType::NarrowLinear)));
    assert_eq!((video.max_datagram_bytes, video.troff_us, video.cmax), (Some(8960), Some(37), Some(4)));
    assert_eq!(flow.paths[0].sources, [address("fd00:100::2"), address("fd00:100::3")]);
    assert_eq!(flow.paths[0].ttl, None);
    assert_eq!(flow.reference_clock, Some(ReferenceClock::traceable_ptp()));
    assert_eq!(flow.direct_offset(&[]), Some(963_214_424));
}

#[test]
fn sound_takes_what_is_said_for_the_whole_session() {
    let description = Description::parse(ST2110_30).unwrap();
    let (flow, audio) = description.audio().unwrap();
    assert_eq!((audio.bits, audio.rate_hz, audio.channels), (24, 48_000, 8));
    assert_eq!((audio.packet_time, audio.packet_samples()), (Duration::from_micros(125), 6));
    assert_eq!(audio.channel_order.as_deref(), Some("SMPTE2110.(51,ST)"));
    assert_eq!(flow.paths[0].to, "239.0.0.1:5004".parse().unwrap());
    assert_eq!(flow.reference_clock, Some(ReferenceClock::LocalMac([0x00, 0x1B, 0x21, 0x3C, 0x9D, 0xF8])));
    assert_eq!(flow.direct_offset(&[]), None, "nobody else has the sender's own clock");
    if let Some(ReferenceClock::LocalMac(ours)) = flow.reference_clock {
        assert!(flow.direct_offset(&[ours]).is_some());
    }
    let Media::Audio(second) = &description.flows[1].media else { panic!("{description:?}") };
    assert_eq!((second.bits, second.rate_hz, second.channels), (16, 44_100, 2));
    assert_eq!(description.flows[1].payload_type, 10, "PCMU is not taken, the second choice is");
}

#[test]
fn packet_times_are_whole_samples() {
    for (written, rate, samples) in
        [("0.12", "48000", 6), ("0.33", "48000", 16), ("1.09", "44100", 48), ("4", "96000", 384)]
    {
        let text = ST2110_30.replace("0.125", written).replace("48000", rate);
        let description = Description::parse(&text).unwrap();
        assert_eq!(description.audio().unwrap().1.packet_samples(), samples, "{written}");
    }
}

#[test]
fn ancillary_data_says_what_is_in_it() {
    let description = Description::parse(ST2110_40).unwrap();
    let (flow, ancillary) = description.ancillary().unwrap();
    assert_eq!(ancillary.data_ids, [(0x61, 0x02), (0x41, 0x05)]);
    assert_eq!((ancillary.vpid_code, flow.payload_type), (Some(133), 100));
    assert_eq!(description.flows[1].media, Media::Ancillary(Ancillary::default()));
}

#[test]
fn descriptions_older_than_the_standards_are_taken() {
    let description = Description::parse(RFC4175).unwrap();
    let (flow, video) = description.video().unwrap();
    assert_eq!(video.format, format(Chroma::Yuv422, 8, (720, 486), Scan::Interlaced));
    assert_eq!(video.rate, FrameRate::new(30_000, 1001));
    assert_eq!(video.colour, Colour { primaries: 6, transfer: 6, matrix: 6, full_range: false });
    assert_eq!(flow.paths[0].to, "198.51.100.10:30000".parse().unwrap());
    assert!(!video.is_standard_2110 && flow.direct_offset(&[]).is_none());
    assert_eq!(description.skipped, ["video 49170 (H264)", "application 9 (UDP/DTLS/SCTP)"]);

    let description = Description::parse(FFMPEG).unwrap();
    let (_, video) = description.video().unwrap();
    assert_eq!((video.rate, video.colour), (None, Colour::UNSPECIFIED));
    assert_eq!(video.format, format(Chroma::Yuv420, 8, (1920, 1080), Scan::Progressive));
}

#[test]
fn what_is_written_is_what_others_read() {
    let mut video = Video::new(
        format(Chroma::Yuv422, 8, (1920, 1080), Scan::Segmented),
        FrameRate::new(30_000, 1001).unwrap(),
    );
    video.sender = Some(SenderType::Wide);
    let path = |to: &str, source: &str| Path {
        to: to.parse().unwrap(),
        sources: vec![address(source)],
        ttl: Some(64),
    };
    let flow = Flow {
        media: Media::Video(video),
        payload_type: 96,
        paths: vec![path("239.1.1.1:5000", "10.0.0.1"), path("239.2.1.1:5000", "10.1.0.1")],
        reference_clock: Some(ReferenceClock::traceable_ptp()),
        media_clock: Some(MediaClockSource::Direct { offset: 0 }),
    };
    let description = Description {
        name: "Camera 1".to_owned(),
        session_id: 1_700_000_000,
        version: 2,
        origin: address("10.0.0.1"),
        flows: vec![flow],
        skipped: Vec::new(),
        notices: Vec::new(),
    };
    // What FFmpeg would swallow, names without values, stands last.
    let section = "a=rtpmap:96 raw/90000\r\n\
        a=fmtp:96 sampling=YCbCr-4:2:2; width=1920; height=1080; exactframerate=30000/1001; depth=8; TCS=SDR; \
        colorimetry=BT709; TP=2110TPW; interlace; segmented\r\n\
        a=framerate:29.97\r\n\
        a=ts-refclk:ptp=IEEE1588-2008:traceable\r\n\
        a=mediaclk:direct=0\r\n";
    let written = format!(
        "v=0\r\no=- 1700000000 2 IN IP4 10.0.0.1\r\ns=Camera 1\r\nt=0 0\r\na=group:DUP 1a 1b\r\n\
        m=video 5000 RTP/AVP 96\r\nc=IN IP4 239.1.1.1/64\r\na=source-filter: incl IN IP4 239.1.1.1 10.0.0.1\r\n\
        {section}a=mid:1a\r\n\
        m=video 5000 RTP/AVP 96\r\nc=IN IP4 239.2.1.1/64\r\na=source-filter: incl IN IP4 239.2.1.1 10.1.0.1\r\n\
        {section}a=mid:1b\r\n"
    );
    assert_eq!(description.to_string(), written);
    assert_eq!(Description::parse(&written), Ok(description));
}

#[test]
fn errors_say_what_to_do() {
    for (from, to, sentence) in [
        (" width=1280;", "", "`m=video 50000`: the description lacks `width`, which `a=fmtp` should give"),
        ("YCbCr-4:2:2", "CLYCbCr-4:2:2", "`sampling=CLYCbCr-4:2:2` is not taken: YCbCr-4:2:2, YCbCr-4:2:0"),
        ("depth=10", "depth=16f", "`depth=16f` is not taken: 8, 10, 12 and 16 bits are"),
        ("width=1280", "width=1281", "end within a pgroup"),
        ("width=1280", "width=+1280", "`width=+1280` is not taken"),
        ("width=1280", "width=99999", "frames of 99999x720 are not taken"),
        ("TCS=SDR", "segmented", "lacks `interlace`"),
        ("raw/90000", "raw/48000", "its clock has 90000 ticks a second"),
        ("c=IN IP4 239.100.9.10/32", "b=AS:1", "lacks a line `c=IN IP4 ADDRESS`"),
        ("c=IN IP4 239.100.9.10/32", "c=IN IP4 group.example", "not a name"),
        ("c=IN IP4 239.100.9.10/32", "c=IN IP4 239.100.9.10/32/2", "`a=group:DUP` for a second path"),
        ("v=0", "v=1", "this is no session description"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(sentence), "{error}");
    }
    let differ = ST2110_20.replacen("height=720", "height=1080", 1);
    let error = Description::parse(&differ).unwrap_err().to_string();
    assert!(error.contains("`primary` and `secondary` of `a=group:DUP` describe different media"), "{error}");
}

/// The example of ST 2110-20 with something replaced, and the only thing that is told of it.
fn told((from, to): (&str, &str)) -> (Description, String) {
    let text = ST2110_20.replace(from, to);
    assert!(text != ST2110_20, "{from}");
    let description = Description::parse(&text).unwrap_or_else(|error| panic!("{to}: {error}"));
    let [notice] = &description.notices[..] else { panic!("{to}: {:?}", description.notices) };
    let notice = notice.clone();
    (description, notice)
}

#[test]
fn what_samples_do_not_depend_on_is_ignored_and_told() {
    let one =
        ST2110_20.split("m=video 50020").next().unwrap().replace("a=group:DUP primary secondary\r\n", "");
    for (from, to, sentence) in [
        ("60000/1001", "0/1001", "`exactframerate=0/1001` is not taken"),
        ("PM=2110GPM", "PM=2110XPM", "`PM=2110XPM` is not taken: 2110GPM and 2110BPM are; it is ignored"),
        ("TCS=SDR", "TP=2110TPX", "`TP=2110TPX` is not taken"),
        ("TCS=SDR", "MAXUDP=many", "`MAXUDP=many` is not taken"),
        ("TCS=SDR", "PAR=1", "`PAR=1` is not taken"),
        ("a=mediaclk:direct=0", "a=ssrc-group:DUP 1000 1010", "one of them is received"),
        ("a=mediaclk:direct=0", "a=inactive", "nothing is sent now"),
        ("- 123456 ", "- x ", "`o=- x 11 IN IP4 192.168.100.2` is ignored"),
        ("- 123456 ", "- 18446744073709551616 ", "is ignored"),
        ("- 123456 11 ", "- -5 -5 ", "is ignored"),
    ] {
        assert!(one.contains(from), "{from}");
        let description =
            Description::parse(&one.replace(from, to)).unwrap_or_else(|error| panic!("{to}: {error}"));
        let expected = Description::parse(&one).unwrap();
        assert_eq!(description.video().unwrap().1.format, expected.video().unwrap().1.format);
        assert_eq!(description.flows[0].paths, expected.flows[0].paths);
        let [notice] = &description.notices[..] else { panic!("{to}: {:?}", description.notices) };
        assert!(notice.contains(sentence), "{notice}");
    }
}

#[test]
fn a_bad_section_elsewhere_is_told_and_passed_over() {
    let video = Description::parse(ST2110_20).unwrap();
    for (section, sentence) in [
        (
            "m=audio 22012 RTP/AVP 97\r\nc=IN IP4 239.1.1.1/32\r\na=rtpmap:97 L24/48000/80\r\n",
            "`m=audio 22012` is passed over: `channels=80` is not taken: 1 to 64 channels are",
        ),
        (
            "m=audio 22012 RTP/AVP 97\r\nc=IN IP4 239.1.1.1/32/2\r\na=rtpmap:97 L24/48000/2\r\n",
            "`m=audio 22012` is passed over: `c=239.1.1.1/32/2` is not taken",
        ),
        (
            "m=video 22016 RTP/AVP 96\r\nc=IN IP4 239.1.1.1/32\r\na=rtpmap:96 raw/90000\r\n\
             a=fmtp:96 sampling=KEY; width=1920; height=1080; depth=10\r\n",
            "`m=video 22016` is passed over: `sampling=KEY` is not taken",
        ),
        (
            "m=video 22014 RTP/AVP 100\r\nc=nowhere\r\na=rtpmap:100 smpte291/90000\r\n",
            "`m=video 22014` is passed over: `c=nowhere` is not taken",
        ),
        (
            "m=audio x RTP/AVP 97\r\na=fmtp:97 anything\r\n",
            "`m=audio x RTP/AVP 97` is passed over: the line is",
        ),
    ] {
        let (head, media) = ST2110_20.split_at(ST2110_20.find("m=").unwrap());
        for text in [format!("{ST2110_20}{section}"), format!("{head}{section}{media}")] {
            let description = Description::parse(&text).unwrap();
            assert_eq!(description.flows, video.flows, "{section}");
            let [notice] = &description.notices[..] else { panic!("{:?}", description.notices) };
            assert!(notice.contains(sentence), "{notice}");
        }
    }
    // Of ancillary data what is in it is not needed.
    let text = ST2110_40.replace("{0x61,0x02}", "{97,2}");
    let description = Description::parse(&text).unwrap();
    assert_eq!(description.ancillary().unwrap().1.data_ids, [(0x41, 0x05)]);
    assert!(description.notices[0].contains("`DID_SDID={97,2}` is not taken"), "{:?}", description.notices);
}

#[test]
fn two_paths_may_differ_in_what_does_not_concern_samples() {
    let section = ST2110_20.rfind("m=video").unwrap();
    let (before, second) = ST2110_20.split_at(section);
    for (from, to) in [
        ("depth=10", "depth=10; MAXUDP=8960"),
        ("depth=10", "depth=10; TROFF=38; CMAX=4"),
        ("depth=10", "depth=10; TP=2110TPW"),
        ("depth=10", "DEPTH=10"),
        ("exactframerate=60000/1001", "exactframerate=59.94"),
        ("exactframerate=60000/1001", "X=1"),
        ("PM=2110GPM", "PM=\"2110GPM\""),
    ] {
        assert!(second.contains(from), "{from}");
        let description = Description::parse(&format!("{before}{}", second.replace(from, to))).unwrap();
        assert_eq!((description.flows.len(), description.flows[0].paths.len()), (1, 2), "{to}");
        assert!(description.notices.is_empty(), "{to}: {:?}", description.notices);
    }
    for (from, to) in [
        ("depth=10", "depth=8"),
        ("width=1280", "width=1920"),
        ("60000/1001", "50"),
        ("YCbCr-4:2:2", "YCbCr-4:4:4"),
        ("depth=10", "depth=10; interlace"),
    ] {
        let error = Description::parse(&format!("{before}{}", second.replace(from, to))).unwrap_err();
        assert!(error.to_string().contains("describe different media"), "{to}: {error}");
    }
    // Where something else is to be had, that is what is told.
    let audio = "m=audio 22012 RTP/AVP 97\r\nc=IN IP4 239.1.1.1/32\r\na=rtpmap:97 L24/48000/2\r\n";
    let description =
        Description::parse(&format!("{before}{}{audio}", second.replace("depth=10", "depth=8"))).unwrap();
    assert!(description.video().is_none() && description.audio().is_some());
    assert_eq!(description.skipped.len(), 2);
    assert!(description.notices[0].contains("both are passed over"), "{:?}", description.notices);
}

#[test]
fn a_missing_second_leg_is_one_path_and_told() {
    let second = &ST2110_20[ST2110_20.rfind("m=video").unwrap()..];
    let inactive = format!("{second}a=inactive\r\n");
    for (from, to) in [
        (second, ""),
        ("m=video 50020 ", "m=video 0 "),
        ("m=video 50020 RTP/AVP", "m=video 50020 RTP/SAVP"),
        (second, &inactive),
        ("a=group:DUP primary secondary", "a=group:DUP primary other"),
    ] {
        let (description, notice) = told((from, to));
        assert_eq!(description.flows[0].paths.len(), 1, "{to}");
        assert_eq!(description.flows[0].paths[0].to, "239.100.9.10:50000".parse().unwrap());
        assert!(notice.contains("has one path: `primary` is received by itself"), "{notice}");
    }
    let (description, notice) = told(("DUP primary secondary", "DUP primary secondary third"));
    assert_eq!(description.flows[0].paths.len(), 2);
    assert!(notice.contains("joins 3 sections: two paths at most"), "{notice}");
}

#[test]
fn what_programs_and_people_make_of_lines_is_taken() {
    let expected = Description::parse(ST2110_20).unwrap();
    let folded = ST2110_20.replace("; height", "; \r\n   height");
    let comments = format!("# camera 1\r\n\r\n{}\r\n", ST2110_20.replace("t=0 0", "# always\r\n\r\nt=0 0"));
    for text in [
        ST2110_20.replace("\r\n", "\n"),
        ST2110_20.replace("\r\n", "\r"),
        ST2110_20.replace("\r\n", "\r\n\r\n"),
        folded,
        comments,
        ST2110_20.replace("\r\n", " \t\r\n  "),
        ST2110_20.replace("a=fmtp:112 ", "a=fmtp:112\t").replace("a=rtpmap:112 ", "a=rtpmap:112\t"),
        ST2110_20.replace("; ", ";\t"),
        ST2110_20.replace("PM=2110GPM", "PM=\"2110GPM\"").replace("BT709", "\"BT709\""),
        ST2110_20.replace("depth=", "Depth=").replace("YCbCr", "YCBCR"),
        ST2110_20.replace("t=0 0", "t=always"),
        ST2110_20.replace("t=0 0", "t=0 0\r\nb=much\r\nr=never"),
        ST2110_20.replace("depth=10", "depth=10; interlace=0"),
    ] {
        let mut description = Description::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(description.notices, Vec::<String>::new(), "{text}");
        description.notices = Vec::new();
        assert_eq!(description, expected, "{text}");
    }
    let name = b"s=Cam\xE9ra";
    let (head, tail) = ST2110_20.split_once("s=Example of a SMPTE ST2110-20 signal").unwrap();
    let bytes = [head.as_bytes(), name, tail.as_bytes()].concat();
    assert_eq!(Description::parse_bytes(&bytes).unwrap().name, "Cam\u{e9}ra");
    let bytes = [head.as_bytes(), "s=Cam\u{e9}ra".as_bytes(), tail.as_bytes()].concat();
    assert_eq!(Description::parse_bytes(&bytes).unwrap().name, "Cam\u{e9}ra");
    for word in ["interlace", "interlace=1", "interlaced", "Interlace=true"] {
        let text = ST2110_20.replace("depth=10", &format!("depth=10; {word}"));
        let scan = Description::parse(&text).unwrap().video().unwrap().1.format.scan();
        assert_eq!(scan, Scan::Interlaced, "{word}");
    }
    let filter =
        |from: &str, to: &str| Description::parse(&ST2110_20.replace(from, to)).map(|found| found.flows);
    assert_eq!(
        filter("incl IN IP4 239.100.9.10 ", "incl IN IP4 239.100.9.10/32 "),
        Ok(expected.flows.clone())
    );
    assert_eq!(filter("c=IN IP4", "c=IN IPV4"), Ok(expected.flows));
    let commas = "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=x\r\nm=video 5004 RTP/AVP 96\r\nc=IN IP4 10.0.0.2\r\n\
        a=rtpmap:96 raw/90000\r\na=fmtp:96 sampling=YCbCr-4:2:2,width=1920,height=1080,depth=10\r\n";
    let description = Description::parse(commas).unwrap();
    assert_eq!(
        description.video().unwrap().1.format,
        format(Chroma::Yuv422, 10, (1920, 1080), Scan::Progressive)
    );
}

#[test]
fn no_text_costs_more_than_is_allowed() {
    let long = format!("{ST2110_20}{}", "a=x\r\n".repeat(MAX_BYTES / 5));
    assert_eq!(Description::parse(&long), Err(SdpError::Length(long.len())));
    let film = "\0\0\0\x18ftypmp42".repeat(MAX_BYTES);
    assert_eq!(Description::parse(&film), Err(SdpError::Lines("it does not begin with v=0".into())));
    let head = ST2110_40.split("m=").next().unwrap();
    let section = ST2110_40.rsplit("m=").next().unwrap();
    let many = |count: usize| format!("{head}{}", format!("m={section}").repeat(count));
    assert_eq!(Description::parse(&many(MAX_FLOWS)).unwrap().flows.len(), MAX_FLOWS);
    assert!(matches!(Description::parse(&many(MAX_FLOWS + 1)), Err(SdpError::Flows(_))));
    assert!(matches!(Description::parse(&many(700)), Err(SdpError::Flows(700))));
}

#[test]
fn a_path_whose_partner_is_not_taken_stands_alone() {
    let text = ST2110_20.replacen("m=video 50020 RTP/AVP", "m=video 50020 RTP/SAVP", 1);
    let description = Description::parse(&text).unwrap();
    assert_eq!(description.flows[0].paths.len(), 1);
    assert_eq!(description.skipped, ["video 50020 (RTP/SAVP)"]);
}

#[test]
fn the_clock_that_others_share_is_chosen_among_several() {
    let text = ST2110_21
        .replace("a=ts-refclk:", "a=ts-refclk:localmac=00-1B-21-3C-9D-F8\r\na=ts-refclk:")
        .replace("direct=963214424", "sender");
    let flow = &Description::parse(&text).unwrap().flows[0];
    assert_eq!(flow.reference_clock, Some(ReferenceClock::traceable_ptp()));
    assert_eq!((&flow.media_clock, flow.direct_offset(&[])), (&Some(MediaClockSource::Sender), None));
}

fn video() -> impl Strategy<Value = Media> {
    let samples =
        prop_oneof![Just(Chroma::Yuv422), Just(Chroma::Yuv444), Just(Chroma::Rgb), Just(Chroma::Yuv420)];
    let depth = prop_oneof![Just(8u8), Just(10), Just(12), Just(16)];
    let scan = prop_oneof![Just(Scan::Progressive), Just(Scan::Interlaced), Just(Scan::Segmented)];
    let pictures = (samples, depth, (1u32..500, 1u32..4000), scan);
    let rate = prop_oneof![
        Just(None),
        (1u32..1000).prop_map(|whole| FrameRate::new(whole, 1)),
        (1u32..120).prop_map(|whole| FrameRate::new(whole * 1000, 1001)),
    ];
    let curves = prop_oneof![
        Just((1u8, 1u8, 1u8)),
        Just((9, 16, 9)),
        Just((9, 18, 9)),
        Just((2, 2, 2)),
        Just((2, 1, 2))
    ];
    let sender = prop_oneof![
        Just(None),
        Just(Some(SenderType::Narrow)),
        Just(Some(SenderType::NarrowLinear)),
        Just(Some(SenderType::Wide)),
    ];
    let numbers = (any::<Option<u32>>(), any::<Option<u32>>(), any::<Option<u32>>(), (1u32..100, 1u32..100));
    (pictures, rate, (curves, any::<bool>()), sender, numbers, any::<(bool, bool)>()).prop_map(
        |(
            (chroma, depth, (width, height), scan),
            rate,
            (colour, full_range),
            sender,
            numbers,
            (is_block, is_2110),
        )| {
            let scan = if chroma == Chroma::Yuv420 { Scan::Progressive } else { scan };
            let matrix = if chroma == Chroma::Rgb { 0 } else { colour.2 };
            Media::Video(Video {
                format: format(chroma, depth, (width * 8, height * 2), scan),
                rate,
                colour: Colour { primaries: colour.0, transfer: colour.1, matrix, full_range },
                packing: if is_block { Packing::Block } else { Packing::General },
                sender,
                max_datagram_bytes: numbers.0,
                troff_us: numbers.1,
                cmax: numbers.2,
                pixel_aspect: numbers.3,
                is_standard_2110: is_2110,
            })
        },
    )
}

fn media() -> impl Strategy<Value = Media> {
    let rate = prop_oneof![Just(44_100u32), Just(48_000), Just(96_000)];
    let audio = (any::<bool>(), rate, 1u8..=64, 1u32..1000, any::<bool>()).prop_map(
        |(is_24, rate_hz, channels, samples, has_order)| {
            Media::Audio(Audio {
                bits: if is_24 { 24 } else { 16 },
                rate_hz,
                channels,
                packet_time: Duration::from_nanos(u64::from(samples) * 1_000_000_000 / u64::from(rate_hz)),
                channel_order: has_order.then(|| "SMPTE2110.(ST,M)".to_owned()),
            })
        },
    );
    let rate = prop::sample::select(vec![None, FrameRate::new(50, 1), FrameRate::new(60_000, 1001)]);
    let ancillary = (prop::collection::vec(any::<(u8, u8)>(), 0..4), any::<Option<u8>>(), rate)
        .prop_map(|(data_ids, vpid_code, rate)| Media::Ancillary(Ancillary { data_ids, vpid_code, rate }));
    prop_oneof![video(), audio, ancillary]
}

fn path() -> impl Strategy<Value = Path> {
    let four =
        (any::<[u8; 4]>(), any::<u16>(), prop::collection::vec(any::<[u8; 4]>(), 0..3), any::<Option<u8>>())
            .prop_map(|(to, port, sources, ttl)| {
                (IpAddr::from(to), port, sources.into_iter().map(IpAddr::from).collect(), ttl)
            });
    let six = (any::<[u8; 16]>(), any::<u16>(), prop::collection::vec(any::<[u8; 16]>(), 0..3)).prop_map(
        |(to, port, sources)| (IpAddr::from(to), port, sources.into_iter().map(IpAddr::from).collect(), None),
    );
    prop_oneof![four, six].prop_map(|(to, port, sources, ttl): (_, u16, _, _)| Path {
        to: SocketAddr::new(to, port.max(1)),
        sources,
        ttl,
    })
}

fn clocks() -> impl Strategy<Value = (Option<ReferenceClock>, Option<MediaClockSource>)> {
    let ptp =
        (any::<[u8; 8]>(), prop::option::of(0u8..128)).prop_map(|(identity, domain)| ReferenceClock::Ptp {
            version: ReferenceClock::PTP_2008.to_owned(),
            clock: PtpClock::Grandmaster { identity, domain },
        });
    let reference = prop_oneof![
        ptp,
        Just(ReferenceClock::traceable_ptp()),
        Just(ReferenceClock::Ntp("/traceable/".to_owned())),
        any::<[u8; 6]>().prop_map(ReferenceClock::LocalMac),
        Just(ReferenceClock::Other("gps".to_owned())),
    ];
    let media = prop_oneof![
        any::<u32>().prop_map(|offset| MediaClockSource::Direct { offset }),
        Just(MediaClockSource::Sender),
        Just(MediaClockSource::Other("direct=0 rate=1000/1001".to_owned())),
    ];
    (prop::option::of(reference), prop::option::of(media))
}

fn descriptions() -> impl Strategy<Value = Description> {
    let flow = (media(), 0u8..128, prop::collection::vec(path(), 1..=2), clocks()).prop_map(
        |(media, payload_type, paths, (reference_clock, media_clock))| Flow {
            media,
            payload_type,
            paths,
            reference_clock,
            media_clock,
        },
    );
    let flows = prop::collection::vec(flow, 0..=MAX_FLOWS);
    ("([a-zA-Z0-9ü][a-z ]{0,20}[a-z])?", any::<u64>(), any::<u64>(), any::<[u8; 4]>(), flows).prop_map(
        |(name, session_id, version, origin, flows)| Description {
            name,
            session_id,
            version,
            origin: origin.into(),
            flows,
            skipped: Vec::new(),
            notices: Vec::new(),
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(description in descriptions()) {
        prop_assert_eq!(Description::parse(&description.to_string()), Ok(description));
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>(), line in "[a-z]=[ -~]{0,40}", at in any::<prop::sample::Index>()) {
        let _ = Description::parse(&text);
        for vector in ALL {
            let at = at.index(vector.len());
            let _ = Description::parse(&vector[..at]);
            let _ = Description::parse(&vector[at..]);
            let _ = Description::parse(&format!("{}\n{line}\n{}", &vector[..at], &vector[at..]));
        }
    }
}
