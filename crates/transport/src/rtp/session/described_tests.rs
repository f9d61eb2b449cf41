use super::*;
use crate::rtp::Header;
use crate::rtp::rtcp::SenderReport;
use glassline_media::Codec;
use proptest::prelude::*;

const UTC: Utc = Utc::from_nanos(1_700_000_000_000_000_000);

fn read(text: &str) -> Described {
    Described::parse_bytes(text.as_bytes()).unwrap()
}

fn session(text: &str) -> DescribedSession {
    DescribedSession::new(&read(text), 7, rtp::Settings::default())
}

fn packet(payload_type: u8, sequence: u16, timestamp: u32, ssrc: u32) -> Vec<u8> {
    let header = Header { marker: true, payload_type, sequence, timestamp, ssrc };
    // A packet of Opus, and a key frame of H.264.
    let payload: &[u8] = if payload_type == 97 { &[8, 1] } else { &[0x65, 0x88, 0x80] };
    [&header.write(), payload].concat()
}

fn from(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn at(ms: u64) -> Time {
    Time::from_millis(1000 + ms)
}

fn report(ssrc: u32, timestamp: u32) -> Vec<u8> {
    let ntp = rtcp::ntp_of(UTC);
    rtcp::write_sender_report(&SenderReport { ssrc, ntp, timestamp, packets: 1, bytes: 9 }, "x")
}

/// What FFmpeg writes with two outputs of `-f rtp`.
const FFMPEG: &str = "SDP:\nv=0\no=- 0 0 IN IP4 127.0.0.1\ns=No Name\nt=0 0\na=tool:libavformat 59.27.100\n\
    m=video 5004 RTP/AVP 96\nc=IN IP4 127.0.0.1\nb=AS:800\na=rtpmap:96 H264/90000\n\
    a=fmtp:96 packetization-mode=1; sprop-parameter-sets=Z0LAHtkDxWhAAAADAEAAAAwDxYuS,aMuMsg==; profile-level-id=42C01E\n\
    m=audio 5006 RTP/AVP 97\nc=IN IP4 127.0.0.1\nb=AS:96\na=rtpmap:97 opus/48000/2\na=fmtp:97 sprop-stereo=1\n";

#[test]
fn a_file_of_ffmpeg_names_four_ports() {
    let described = read(FFMPEG);
    let ports: Vec<u16> = described.ports.iter().map(|port| port.address.port()).collect();
    assert_eq!(ports, [5004, 5005, 5006, 5007]);
    let tracks: Vec<_> = described.tracks.iter().map(|it| (it.format.codec(), it.rtp, it.rtcp)).collect();
    assert_eq!(tracks, [(Codec::H264, 0, Some(1)), (Codec::Opus, 2, Some(3))]);
    assert_eq!((described.name.as_str(), described.notices.len()), ("No Name", 0));
}

#[test]
fn of_several_tracks_of_one_kind_the_first_that_is_sent_and_can_be_carried_is_taken() {
    let described = read(
        "c=IN IP4 127.0.0.1\nm=audio 5000 RTP/AVP 9\nm=video 0 RTP/AVP 96\na=rtpmap:96 H264/90000\nm=video 5002 RTP/AVP 97\n\
         a=rtpmap:97 raw/90000\nm=video 5004 RTP/AVP 98\na=rtpmap:98 H265/90000\nm=video 5008 RTP/AVP 99\na=rtpmap:99 H264/90000\n\
         m=application 5010 RTP/AVP 107\n",
    );
    assert_eq!(described.tracks.len(), 1);
    assert_eq!((described.tracks[0].format.codec(), described.ports[0].address.port()), (Codec::H265, 5004));
    let words = described.notices.join("\n");
    for part in
        ["G722 has no place", "port is 0", "raw is not read", "a further track", "neither video nor audio"]
    {
        assert!(words.contains(part), "{words}");
    }
    let none = Described::parse_bytes(b"m=audio 5000 RTP/AVP 9\n").unwrap_err();
    assert!(none.to_string().contains("G722 has no place in MPEG-TS"), "{none}");
    assert!(matches!(Described::parse_bytes(b"hello"), Err(DescribedError::Sdp(_))));
}

#[test]
fn a_description_without_an_address_is_received_at_any_of_ours() {
    let described = read("m=video 65535 RTP/AVP 96\nc=IN IP4 encoder.example\na=rtpmap:96 H264/90000\n");
    assert_eq!(described.ports[0].address, from("0.0.0.0:65535"));
    assert_eq!(described.tracks[0].rtcp, None, "there is no port behind it");
    assert!(described.notices[0].contains("no address"), "{:?}", described.notices);
}

#[test]
fn reports_come_where_the_description_says() {
    let described = read(
        "c=IN IP4 239.1.2.3/9\na=source-filter: incl IN IP4 * 192.0.2.7\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\na=rtcp:6001\n\
         m=audio 5008 RTP/AVP 97\na=rtpmap:97 opus/48000/2\na=rtcp-mux\n",
    );
    let ports: Vec<u16> = described.ports.iter().map(|port| port.address.port()).collect();
    assert_eq!(ports, [5004, 6001, 5008]);
    assert_eq!((described.tracks[0].rtcp, described.tracks[1].rtcp), (Some(1), Some(2)));
    assert!(described.ports.iter().all(|port| port.sources == ["192.0.2.7".parse::<IpAddr>().unwrap()]));
    assert_eq!(described.tracks[0].ttl, Some(9));
}

#[test]
fn tracks_at_one_port_are_told_apart_by_payload_type_and_reports_by_ssrc() {
    let mut session = session(
        "c=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\na=rtcp-mux\n\
         m=audio 5004 RTP/AVP 97\na=rtpmap:97 opus/48000/2\na=rtcp-mux\n",
    );
    let sender = from("127.0.0.1:9000");
    session.handle_datagram(0, &packet(96, 1, 0, 11), sender, at(0), UTC);
    session.handle_datagram(0, &packet(97, 1, 0, 12), sender, at(20), UTC);
    session.handle_datagram(0, &packet(98, 1, 0, 13), sender, at(20), UTC);
    assert_eq!(
        (session.refused(), session.poll().map(|it| it.0), session.poll().map(|it| it.0)),
        (1, Some(0), Some(1))
    );
    session.handle_datagram(0, &report(11, 0), sender, at(21), UTC);
    session.handle_datagram(0, &report(12, 0), sender, at(22), UTC);
    assert_eq!(session.receiver().timeline().moved(), 1, "sound is moved by 20 ms");
    assert_eq!(session.refused(), 1);
    // The same port and the same payload type are no way to tell them apart.
    let described = read(
        "c=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\nm=audio 5004 RTP/AVP 96\na=rtpmap:96 opus/48000/2\n",
    );
    assert!(described.tracks.len() == 1 && described.notices[0].contains("payload type"), "{described:?}");
}

#[test]
fn sound_at_the_port_of_the_pictures_reports_is_received() {
    // Some encoders number their ports one after the other.
    let mut session = session(&FFMPEG.replace("m=audio 5006", "m=audio 5005"));
    let sender = from("127.0.0.1:9000");
    session.handle_datagram(0, &packet(96, 1, 0, 11), sender, at(0), UTC);
    session.handle_datagram(1, &packet(97, 1, 0, 12), sender, at(0), UTC);
    session.handle_datagram(1, &report(11, 0), sender, at(1), UTC);
    assert_eq!((session.poll().map(|it| it.0), session.poll().map(|it| it.0)), (Some(0), Some(1)));
    assert_eq!((session.refused(), session.receiver().timeline().believes()), (0, Some(true)));
}

#[test]
fn reports_and_goodbyes_of_strangers_are_refused() {
    let mut session = session(FFMPEG);
    let (sender, stranger) = (from("127.0.0.1:9000"), from("127.0.0.2:9000"));
    session.handle_datagram(1, &report(11, 0), stranger, at(0), UTC);
    session.handle_datagram(0, &packet(96, 1, 0, 11), sender, at(0), UTC);
    session.handle_datagram(0, &packet(96, 2, 3600, 11), stranger, at(1), UTC);
    let mut goodbye = report(11, 0);
    rtcp::write_goodbye(11, &mut goodbye);
    let mut other = report(12, 0);
    rtcp::write_goodbye(11, &mut other);
    session.handle_datagram(1, &goodbye, stranger, at(1), UTC);
    session.handle_datagram(1, &report(12, 0), sender, at(1), UTC);
    session.handle_datagram(1, &other, sender, at(1), UTC);
    assert_eq!((session.refused(), session.receiver().timeline().believes()), (4, None));
    assert!(!session.receiver().has_ended());
    // The sender's own, from its port of reports; sound has sent nothing, and does not hold the end up.
    session.handle_datagram(1, &goodbye, from("127.0.0.1:9001"), at(2), UTC);
    assert_eq!((session.refused(), session.receiver().timeline().believes()), (4, Some(true)));
    assert!(session.receiver().has_ended());
}

#[test]
fn a_report_in_front_of_the_first_packet_counts_once_that_has_come() {
    let mut session = session(FFMPEG);
    let sender = from("127.0.0.1:9000");
    for number in 0..3 {
        session.handle_datagram(1, &report(11, number), from("127.0.0.1:9001"), at(0), UTC);
    }
    session.handle_datagram(3, &report(5, 0), from("127.0.0.2:9001"), at(0), UTC);
    assert_eq!(session.refused(), 2, "the newest is kept");
    session.handle_datagram(0, &packet(96, 1, 0, 11), sender, at(1), UTC);
    assert_eq!(session.receiver().timeline().believes(), Some(true));
    session.handle_datagram(0, &packet(96, 2, 3600, 11), sender, at(41), UTC);
    let captured = std::iter::from_fn(|| session.poll()).filter(|(_, placed)| placed.captured.is_some());
    assert_eq!(captured.count(), 1, "the unit behind it has its capture time");
    session.handle_datagram(2, &packet(97, 1, 0, 12), sender, at(50), UTC);
    assert_eq!(session.refused(), 3, "the other one was of a stranger");
}

#[test]
fn our_reports_go_to_the_group_or_to_where_the_senders_come_from() {
    let begin = |text: &str| {
        let mut session = session(text);
        session.handle_datagram(0, &packet(96, 1, 0, 11), from("127.0.0.1:9000"), at(0), UTC);
        session
    };
    let mut unicast = begin(FFMPEG);
    assert!(unicast.poll_reports(at(7500)).is_empty(), "it is not known where to");
    unicast.handle_datagram(1, &report(11, 0), from("127.0.0.1:9005"), at(7501), UTC);
    let due = unicast.poll_timeout();
    assert!(unicast.poll_reports(at(7502)).is_empty(), "it is not time yet");
    let reports = unicast.poll_reports(due);
    assert_eq!(reports.len(), 1);
    assert_eq!((reports[0].port, reports[0].to, reports[0].ttl), (1, from("127.0.0.1:9005"), None));
    assert_eq!(reports[0].bytes[..2], [0x81, 201]);
    let mut group = begin(&FFMPEG.replace("c=IN IP4 127.0.0.1\nb=AS:800", "c=IN IP4 239.1.2.3/9"));
    let due = group.poll_timeout();
    assert!(due >= at(2500) && due < at(7500), "{due:?}");
    let reports = group.poll_reports(due);
    assert_eq!((reports[0].port, reports[0].to, reports[0].ttl), (1, from("239.1.2.3:5005"), Some(9)));
    // Six hundred receivers share what there is for reports.
    for ssrc in 0..600 {
        let report = rtcp::Receiver::new(ssrc, 90_000).write_report("x", at(7500));
        group.handle_datagram(1, &report, from("127.0.0.9:5005"), at(7500), UTC);
    }
    assert!(group.poll_timeout() < at(16_000), "what was set stays");
    assert!(!group.poll_reports(at(16_000)).is_empty());
    assert!(group.poll_timeout() >= at(16_000 + 50_000) && group.refused() == 0);
    // They are gone.
    group.poll_reports(at(1_000_000));
    group.poll_reports(at(1_200_000));
    assert!(group.poll_timeout() < at(1_207_500));
    for ssrc in 0..5000 {
        let report = rtcp::Receiver::new(ssrc, 90_000).write_report("x", at(7500));
        group.handle_datagram(1, &report, from("127.0.0.9:5005"), at(7500), UTC);
    }
    assert_eq!(group.members.len(), MEMBERS_MAX);
    let name_of = |random| {
        let mut session = DescribedSession::new(&read(FFMPEG), random, rtp::Settings::default());
        session.handle_datagram(1, &report(11, 0), from("127.0.0.1:9005"), at(0), UTC);
        session.handle_datagram(0, &packet(96, 1, 0, 11), from("127.0.0.1:9000"), at(0), UTC);
        session.poll_reports(at(8000))[0].bytes[42..58].to_vec()
    };
    assert_eq!((name_of(7) == name_of(8), name_of(7) == name_of(7)), (false, true));
}

#[test]
fn another_ssrc_is_another_session_and_another_payload_type_is_told() {
    let mut session = session(FFMPEG);
    let sender = from("127.0.0.1:9000");
    for number in 0..3u16 {
        session.handle_datagram(
            0,
            &packet(96, number, u32::from(number) * 3600, 11),
            sender,
            at(40 * u64::from(number)),
            UTC,
        );
    }
    session.handle_datagram(1, &report(11, 0), sender, at(90), UTC);
    // Near stamps of another sender half a second later.
    for number in 0..3u16 {
        session.handle_datagram(
            0,
            &packet(96, 900 + number, 3600 * u32::from(7 + number), 12),
            sender,
            at(600 + 40 * u64::from(number)),
            UTC,
        );
    }
    let placed: Vec<_> = std::iter::from_fn(|| session.poll()).map(|(_, placed)| placed).collect();
    let times: Vec<i64> = placed.iter().map(|it| it.unit.dts.0 / 90).collect();
    let jumps: Vec<bool> = placed.iter().map(|it| it.jumps).collect();
    assert_eq!(jumps, [false, false, false, true, false, false]);
    assert_eq!(times[3..], [1640, 1680, 1720], "the second packet brings both");
    assert!(placed[3..].iter().all(|it| it.captured.is_none()), "the report was the other one's");
    assert_eq!(session.receiver().counters().next().unwrap().packets.restarts, 1);
    assert_eq!(session.other_payload_types().count(), 0);
    let mut other = DescribedSession::new(&read(FFMPEG), 7, rtp::Settings::default());
    for number in 0..40u16 {
        other.handle_datagram(
            0,
            &packet(100, number, u32::from(number) * 3600, 11),
            sender,
            at(40 * u64::from(number)),
            UTC,
        );
    }
    assert_eq!(other.other_payload_types().collect::<Vec<_>>(), [(96, 100)]);
    assert!(other.poll().is_some());
}

#[test]
fn packets_of_others_than_the_named_sender_are_refused() {
    let text = FFMPEG.replace("b=AS:800", "a=source-filter: incl IN IP4 127.0.0.1 127.0.0.5");
    let mut session = session(&text);
    session.handle_datagram(0, &packet(96, 1, 0, 11), from("127.0.0.1:9000"), at(0), UTC);
    assert!(session.poll().is_none());
    session.handle_datagram(0, &packet(96, 1, 0, 12), from("127.0.0.5:9000"), at(1), UTC);
    assert!(session.poll().is_some());
    assert_eq!(session.receiver().counters().next().unwrap().packets.stray, 1);
}

#[test]
fn packets_that_are_refused_keep_nothing_alive_and_are_in_no_report() {
    let mut session = session(FFMPEG);
    let (sender, stranger) = (from("127.0.0.1:9000"), from("127.0.0.2:9000"));
    for number in 0..3u16 {
        let packet = packet(96, number, u32::from(number) * 3600, 11);
        session.handle_datagram(0, &packet, sender, at(40 * u64::from(number)), UTC);
    }
    let mut goodbye = report(11, 0);
    rtcp::write_goodbye(11, &mut goodbye);
    session.handle_datagram(1, &goodbye, from("127.0.0.1:9001"), at(90), UTC);
    // Of another SSRC, and of the same with other numbers.
    for (number, ssrc) in (700..710u16).flat_map(|number| [(number, 5), (number, 11)]) {
        session.handle_datagram(0, &packet(96, number, 7, ssrc), stranger, at(100), UTC);
    }
    assert_eq!(session.receiver().newest(), Some(at(80)));
    assert!(session.receiver().has_ended(), "the goodbye holds");
    let reports = session.poll_reports(at(60_000));
    let block = &reports[0].bytes[8..];
    assert_eq!(block[..8], [0, 0, 0, 11, 0, 0, 0, 0], "nothing is lost");
    assert_eq!(block[10..12], [0, 2], "its own highest number");
    assert_eq!(session.receiver().counters().next().unwrap().packets.stray, 20);
}

#[test]
fn a_sender_that_is_not_allowed_decides_no_payload_type() {
    let text = FFMPEG.replace("b=AS:800", "a=source-filter: incl IN IP4 127.0.0.1 127.0.0.5");
    let mut session = session(&text);
    let (sender, stranger) = (from("127.0.0.5:9000"), from("127.0.0.2:9000"));
    for number in 0..40u16 {
        session.handle_datagram(0, &packet(100, number, 0, 5), stranger, at(0), UTC);
    }
    assert_eq!(session.other_payload_types().count(), 0);
    session.handle_datagram(0, &packet(96, 1, 0, 11), sender, at(1), UTC);
    assert!(session.poll().is_some());
    // Strays of the described type are no reason to refuse an allowed sender of another one.
    let mut session = DescribedSession::new(&read(&text), 7, rtp::Settings::default());
    session.handle_datagram(0, &packet(96, 1, 0, 5), stranger, at(0), UTC);
    for number in 0..20u16 {
        let (stamp, time) = (u32::from(number) * 3600, at(40 * u64::from(number)));
        session.handle_datagram(0, &packet(100, number, stamp, 11), sender, time, UTC);
    }
    assert!(session.poll().is_some());
    assert_eq!(session.other_payload_types().collect::<Vec<_>>(), [(96, 100)]);
}

#[test]
fn a_stream_of_the_described_type_wins_over_strays_that_came_before() {
    let mut session = session(FFMPEG);
    let (sender, stranger) = (from("127.0.0.5:9000"), from("127.0.0.2:9000"));
    for number in 0..40u16 {
        session.handle_datagram(0, &packet(100, number, 0, 5), stranger, at(u64::from(number)), UTC);
    }
    assert_eq!(session.other_payload_types().count(), 1);
    while session.poll().is_some() {}
    session.handle_datagram(0, &packet(96, 7, 0, 6), stranger, at(45), UTC);
    assert_eq!(session.other_payload_types().count(), 1, "one packet is no stream");
    let mut found = 0;
    for number in 1..5u16 {
        // Both go on.
        let (stamp, time) = (u32::from(number) * 3600, at(50 + u64::from(number)));
        session.handle_datagram(0, &packet(96, number, stamp, 11), sender, time, UTC);
        session.handle_datagram(0, &packet(100, 40 + number, 0, 5), stranger, time, UTC);
        found += std::iter::from_fn(|| session.poll()).count();
    }
    assert!(found >= 3, "{found}");
    assert_eq!(session.other_payload_types().count(), 0);
    assert_eq!(session.receiver().source(0), Some((11, Some(sender))));
}

#[test]
fn tracks_at_one_port_keep_to_their_own_senders() {
    for (video, audio) in [("127.0.0.5", Some("127.0.0.6")), ("127.0.0.5", None)] {
        let filter = |address| format!("a=source-filter: incl IN IP4 * {address}\n");
        let described = read(&format!(
            "c=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\na=rtcp-mux\n{}\
             m=audio 5004 RTP/AVP 97\na=rtpmap:97 opus/48000/2\na=rtcp-mux\n{}",
            filter(video),
            audio.map(filter).unwrap_or_default()
        ));
        assert_eq!(described.ports.len(), 1);
        let mut session = DescribedSession::new(&described, 7, rtp::Settings::default());
        session.handle_datagram(0, &packet(96, 1, 0, 5), from("127.0.0.6:9000"), at(0), UTC);
        assert!(session.poll().is_none(), "sound's sender is none of pictures");
        session.handle_datagram(0, &packet(96, 1, 0, 11), from("127.0.0.5:9000"), at(1), UTC);
        session.handle_datagram(0, &packet(97, 1, 0, 12), from("127.0.0.6:9000"), at(1), UTC);
        assert_eq!((session.poll().map(|it| it.0), session.poll().map(|it| it.0)), (Some(0), Some(1)));
    }
}

#[test]
fn a_report_between_the_first_packet_and_the_first_unit_counts() {
    let mut session = session(FFMPEG);
    let sender = from("127.0.0.1:9000");
    // The first slice of a picture that goes on in a second packet.
    let slice = |sequence: u16, marker: bool, payload: [u8; 3]| {
        let header = Header { marker, payload_type: 96, sequence, timestamp: 0, ssrc: 11 };
        [&header.write()[..], &payload].concat()
    };
    session.handle_datagram(0, &slice(1, false, [0x65, 0x88, 0x80]), sender, at(0), UTC);
    session.handle_datagram(1, &report(11, 0), from("127.0.0.1:9001"), at(1), UTC);
    session.handle_datagram(0, &slice(2, true, [0x65, 0x44, 0x80]), sender, at(2), Utc::from_nanos(0));
    assert!(session.poll().is_some());
    let timeline = session.receiver().timeline();
    assert_eq!(timeline.believes(), Some(true), "by our wall clock of when it came");
    session.handle_datagram(0, &packet(96, 3, 3600, 11), sender, at(41), UTC);
    assert!(session.poll().unwrap().1.captured.is_some());
    assert_eq!(session.refused(), 0);
}

#[test]
fn a_compound_of_several_senders_is_read_message_by_message() {
    let mut session = session(
        "c=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\na=rtcp-mux\n\
         m=audio 5004 RTP/AVP 97\na=rtpmap:97 opus/48000/2\na=rtcp-mux\n",
    );
    let sender = from("127.0.0.1:9000");
    session.handle_datagram(0, &packet(96, 1, 0, 11), sender, at(0), UTC);
    session.handle_datagram(0, &packet(97, 1, 0, 12), sender, at(20), UTC);
    let both = [report(11, 0), report(12, 0)].concat();
    session.handle_datagram(0, &[both.clone(), report(13, 0)].concat(), sender, at(21), UTC);
    session.handle_datagram(0, &both, from("127.0.0.2:9000"), at(21), UTC);
    assert_eq!(
        (session.refused(), session.receiver().timeline().moved()),
        (2, 0),
        "strangers' are not mixed in"
    );
    session.handle_datagram(0, &both, sender, at(22), UTC);
    assert_eq!((session.refused(), session.receiver().timeline().moved()), (2, 1));
    assert_eq!(session.poll_reports(at(60_000)).len(), 2, "both are answered");
    let goodbye = [0x82, 203, 0, 2, 0, 0, 0, 11, 0, 0, 0, 12];
    session.handle_datagram(0, &[both, goodbye.to_vec()].concat(), sender, at(60_001), UTC);
    assert!(session.receiver().has_ended());
}

#[test]
fn reports_that_are_kept_are_few() {
    let mut session = session(FFMPEG);
    for ssrc in 100..200 {
        session.handle_datagram(1, &report(ssrc, 0), from("127.0.0.2:9001"), at(0), UTC);
    }
    assert_eq!((session.early.len(), session.refused()), (EARLY_MAX, 100 - EARLY_MAX as u64));
}

#[test]
fn a_section_with_a_filter_that_cannot_be_kept_to_is_left_out() {
    let text = FFMPEG.replace("b=AS:800", "a=source-filter: incl IN IP4 127.0.0.1 encoder.example");
    let described = read(&text);
    assert_eq!((described.tracks.len(), described.tracks[0].format.codec()), (1, Codec::Opus));
    assert!(described.notices[0].contains("encoder.example"), "{:?}", described.notices);
    let described = read(&FFMPEG.replace("b=AS:800", "a=source-filter: excl IN IP4 127.0.0.1 127.0.0.5"));
    assert!(described.tracks.len() == 2 && described.notices[0].contains("excl"), "{:?}", described.notices);
}

/// Descriptions from reports about other programs, each with what is right about it.
#[test]
fn descriptions_that_other_programs_choke_on_are_received_by() {
    let first_units = |text: &str, payloads: &[&[u8]]| {
        let mut session = session(text);
        let mut found = Vec::new();
        for (number, payload) in (0u16..).zip(payloads) {
            let timestamp = u32::from(number) * 3600;
            let header = Header { marker: true, payload_type: 96, sequence: number, timestamp, ssrc: 11 };
            let packet = [&header.write()[..], payload].concat();
            session.handle_datagram(0, &packet, from("127.0.0.1:9000"), at(40 * u64::from(number)), UTC);
            found.extend(std::iter::from_fn(|| session.poll()).map(|(_, placed)| placed.unit.data.to_vec()));
        }
        found
    };
    let (sps, pps, key) = ([0x67, 0x42, 0, 0x1f], [0x68, 0xce], [0x65, 0x88, 0x80]);
    let has = |unit: &[u8], part: &[u8]| unit.windows(part.len()).any(|found| found == part);
    // FFmpeg pull request 181: a camera's description has the sequence parameter set, and nothing behind the comma.
    let hikvision = "m=video 5004 RTP/AVP 96\nc=IN IP4 127.0.0.1\na=rtpmap:96 H264/90000\n\
        a=fmtp:96 sprop-parameter-sets=Z0IAH5WoPASaEAAAcIAAFfkIQA==,;packetization-mode=1\n";
    let units = first_units(hikvision, &[&pps, &key]);
    assert!(
        units.len() == 1 && has(&units[0], &[0x67, 0x42, 0, 0x1f, 0x95]) && has(&units[0], &pps),
        "{units:?}"
    );
    // gortsplib 88, agent 105: parameter sets are in band alone, or the description says an empty one.
    for parameters in
        ["profile-level-id=4D0014;packetization-mode=0", "packetization-mode=1;sprop-parameter-sets="]
    {
        let text = format!(
            "m=video 5004 RTP/AVP 96\nc=IN IP4 127.0.0.1\na=rtpmap:96 H264/90000\na=fmtp:96 {parameters}\n"
        );
        let units = first_units(&text, &[&sps, &pps, &key, &key]);
        assert!(units.len() == 2 && units.iter().all(|unit| has(unit, &sps) && has(unit, &pps)), "{units:?}");
    }
    // mediamtx 115, ijkplayer 3339: VLC's bandwidth modifier, and origins that are no addresses.
    for origin in ["16379793953309178445 16379793953309178445 IN IP4 5c2b68da", "0 0 IN IP4 null"] {
        let described = read(&format!(
            "v=0\no=- {origin}\ns=Unnamed\ni=N/A\nc=IN IP4 192.168.10.10\nt=0 0\na=recvonly\nm=audio 5004 RTP/AVP 96\nb=RR:0\n\
             a=rtpmap:96 mpeg4-generic/22050\na=fmtp:96 streamtype=5; profile-level-id=15; mode=AAC-hbr; config=1388; SizeLength=13; \
             IndexLength=3; IndexDeltaLength=3; Profile=1;\n"
        ));
        assert_eq!((described.tracks[0].format.codec(), described.notices.len()), (Codec::Aac, 0));
    }
    // ZLMediaKit 2181: one sender for all groups, the address behind the media, and a telephone's sound.
    let described = read(
        "a=type:broadcast\na=rtcp-unicast: reflection\na=source-filter: incl IN IP4 * 10.30.7.8\nm=video 34366 RTP/AVP 96\n\
         c=IN IP4 232.198.131.28/25\na=rtpmap:96 H264/90000\nm=audio 34368 RTP/AVP 8\nc=IN IP4 232.198.131.28/25\n\
         a=rtpmap:8 PCMA/8000/1\n",
    );
    assert_eq!(described.ports[0].address, from("232.198.131.28:34366"));
    assert_eq!(described.ports[0].sources, ["10.30.7.8".parse::<IpAddr>().unwrap()]);
    assert_eq!((described.tracks[1].format.name(), described.notices.len()), ("G.711 (PCMA)", 0));
}

proptest! {
    #[test]
    fn no_description_and_no_datagrams_panic(
        lines in prop::collection::vec("(m=(video|audio) [0-9]{1,5} RTP/AVP 9[6-8]|a=rtpmap:9[6-8] (H264/90000|opus/48000/2|L24/48000/2)|c=IN IP4 [12][0-9]{0,2}.0.0.1(/9)?|a=rtcp(-mux|:[0-9]{0,5})|a=source-filter: incl IN IP4 [*] 10.0.0.[0-9])", 0..40),
        datagrams in prop::collection::vec((0usize..6, prop::collection::vec(any::<u8>(), 0..60)), 0..20),
    ) {
        let Ok(described) = Described::parse_bytes(lines.join("\n").as_bytes()) else { return Ok(()) };
        prop_assert!((1..=2).contains(&described.tracks.len()) && described.ports.len() <= 4);
        prop_assert!(described.tracks.iter().all(|it| it.rtp < described.ports.len() && it.rtcp.is_none_or(|rtcp| rtcp < described.ports.len())));
        let mut session = DescribedSession::new(&described, 7, rtp::Settings::default());
        for (port, bytes) in &datagrams {
            session.handle_datagram(*port, bytes, from("127.0.0.1:9"), at(0), UTC);
        }
        session.handle_timeout(at(9000));
        let _ = session.poll_reports(at(9000));
    }
}
