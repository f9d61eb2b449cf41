use super::super::settings::{AncillarySettings, SoundSettings, TimeCodeFrom};
use super::*;
use glassline_io::udp::Route;
use glassline_media::{Chroma, PixelFormat, Size};

fn settings(clock: ClockSource) -> Settings {
    let path = |address: &str, source: Option<&str>| PathSettings {
        route: Route {
            source: source.map(|source| source.parse().unwrap()),
            ..Route::to(address.parse().unwrap())
        },
    };
    let paths = vec![path("239.1.2.3:5004", Some("127.0.0.1")), path("127.0.0.1:5006", None)];
    Settings { clock, ..Settings::to(paths) }
}

fn sent() -> Sent {
    let pixels = PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap();
    let format = Format::new(pixels, Size::new(1920, 1080).unwrap(), Scan::Progressive).unwrap();
    let rate = FrameRate::new(60_000, 1001);
    Sent {
        format,
        rate,
        colour: Colour::BT709,
        sample_aspect: (1, 1),
        is_on_grid: true,
        is_exact: false,
        sound_channels: None,
        has_time_code: false,
        has_captions: false,
    }
}

#[test]
fn what_is_written_is_read_again() {
    for clock in [ClockSource::Local, ClockSource::Ntp, ClockSource::Ptp] {
        let description = describe("a b", 17, &settings(clock), &sent());
        let text = description.to_string();
        assert_eq!(Description::parse(&text).unwrap(), description, "{text}");
        assert!(text.contains("TP=2110TPW") && text.contains("MAXUDP=1460"), "{text}");
        assert!(text.contains("a=source-filter: incl IN IP4 239.1.2.3 127.0.0.1"), "{text}");
        let (flow, _) = description.video().unwrap();
        assert_eq!(flow.direct_offset(&[]), (clock != ClockSource::Local).then_some(0));
    }
}

#[test]
fn the_shape_of_samples_is_told_in_small_numbers() {
    for (sample_aspect, told) in [((128, 120), (16, 15)), ((3, 3), (1, 1)), ((1, 1), (1, 1))] {
        let text =
            describe("a", 1, &settings(ClockSource::Local), &Sent { sample_aspect, ..sent() }).to_string();
        let parsed = Description::parse(&text).unwrap();
        assert_eq!(parsed.video().unwrap().1.pixel_aspect, told, "{text}");
        assert_eq!(text.contains("PAR="), told != (1, 1), "{text}");
    }
}

#[test]
fn stamps_are_related_to_the_clock_that_is_named() {
    let (_, media_clock) = clock(&settings(ClockSource::Ntp), 90_000);
    let MediaClockSource::Direct { offset } = media_clock else { panic!("{media_clock:?}") };
    // Unix time 1,700,000,000 by NTP, in ticks.
    let ntp = ((1_700_000_000u64 + 2_208_988_800) * 90_000) as u32;
    assert_eq!(ntp.wrapping_add(offset), (1_700_000_037u64 * 90_000) as u32);
}

#[test]
fn what_keeps_no_schedule_promises_none() {
    let with = |shape, is_on_grid| {
        let settings = Settings { shape, ..settings(ClockSource::Local) };
        describe("x", 1, &settings, &Sent { is_on_grid, ..sent() }).to_string()
    };
    for text in [with(Shape::Burst, true), with(Shape::Narrow, false)] {
        assert!(!text.contains("TP=") && !text.contains("SSN="), "{text}");
    }
    let exact = Sent { is_exact: true, ..sent() };
    let text = describe("x", 1, &settings(ClockSource::Local), &exact).to_string();
    assert!(text.contains("TP=2110TPN;") || text.contains("TP=2110TPN "), "{text}");
}

/// The description of pictures to these paths, beside what `change` has sent.
fn described(paths: &[&str], change: impl FnOnce(&mut Settings, &mut Sent)) -> Description {
    let path = |text: &&str| {
        let (address, ttl) = text.split_once('?').unwrap_or((text, ""));
        let route = Route { ttl: ttl.parse().ok(), ..Route::to(address.parse().unwrap()) };
        PathSettings { route }
    };
    let (mut settings, mut sent) = (Settings::to(paths.iter().map(path).collect()), sent());
    change(&mut settings, &mut sent);
    describe("x", 1, &settings, &sent)
}

#[test]
fn a_group_of_ipv4_has_a_time_to_live_and_nothing_else_has_one() {
    let ttl = |path: &str| described(&[path], |_, _| ()).flows[0].paths[0].ttl;
    assert_eq!((ttl("239.1.2.3:5004"), ttl("239.1.2.3:5004?16")), (Some(1), Some(16)));
    assert_eq!((ttl("127.0.0.1:5004?16"), ttl("[ff15::1]:5004?16")), (None, None));
}

#[test]
fn sound_is_described_by_its_channels_in_their_order() {
    for (channels, order) in [(1, "M"), (2, "ST"), (6, "51"), (4, "U04"), (8, "U08")] {
        let description = described(&["127.0.0.1:5004"], |settings, sent| {
            let paths = settings.paths.clone();
            let sound = SoundSettings { paths, payload_type: 98, input: None, tone: true, raw: None };
            (settings.sound, sent.sound_channels) = (Some(sound), Some(channels));
        });
        let (flow, audio) = description.audio().expect("there is sound");
        assert_eq!(
            (flow.payload_type, audio.channels, audio.bits, audio.rate_hz),
            (98, channels, 24, 48_000)
        );
        assert_eq!(audio.packet_time, Duration::from_millis(1));
        assert_eq!(audio.channel_order.as_deref(), Some(format!("SMPTE2110.({order})").as_str()));
        assert_eq!(Description::parse(&description.to_string()).unwrap(), description);
    }
}

#[test]
fn ancillary_data_is_described_by_what_of_it_is_sent() {
    let ids = |has_time_code, has_captions| {
        let description = described(&["127.0.0.1:5004"], |settings, sent| {
            let (paths, time_code) = (settings.paths.clone(), TimeCodeFrom::Clock);
            settings.ancillary = Some(AncillarySettings { paths, payload_type: 100, time_code });
            (sent.has_time_code, sent.has_captions) = (has_time_code, has_captions);
        });
        description.ancillary().map(|(_, data)| data.data_ids.clone())
    };
    assert_eq!(ids(false, false), None, "nothing is sent there");
    assert_eq!(ids(true, false), Some(vec![(0x60, 0x60)]));
    assert_eq!(ids(false, true), Some(vec![(0x61, 0x01)]));
    assert_eq!(ids(true, true), Some(vec![(0x60, 0x60), (0x61, 0x01)]));
}

#[test]
fn what_is_wanted_and_not_there_is_not_described() {
    let description = described(&["127.0.0.1:5004"], |settings, _| {
        let paths = settings.paths.clone();
        let sound = SoundSettings { paths, payload_type: 98, input: None, tone: true, raw: None };
        settings.sound = Some(sound);
    });
    assert!(description.audio().is_none() && description.flows.len() == 1);
}

#[test]
fn datagrams_beyond_the_extended_size_are_of_no_standard_stream() {
    let text = |datagram_bytes| {
        described(&["127.0.0.1:5004"], |settings, _| settings.datagram_bytes = datagram_bytes).to_string()
    };
    let (largest, beyond) = (text(8_952), text(8_953));
    assert!(largest.contains("MAXUDP=8960") && largest.contains("SSN="), "{largest}");
    assert!(beyond.contains("MAXUDP=8961") && !beyond.contains("SSN="), "{beyond}");
}

#[test]
fn a_sender_promises_the_type_of_its_shape_where_its_bursts_leave_exactly() {
    let sender = |shape, is_exact| {
        let description = described(&["127.0.0.1:5004"], |settings, sent| {
            (settings.shape, sent.is_exact) = (shape, is_exact);
        });
        description.video().expect("there is video").1.sender
    };
    assert_eq!(sender(Shape::Narrow, true), Some(SenderType::Narrow));
    assert_eq!(sender(Shape::Linear, true), Some(SenderType::NarrowLinear));
    assert_eq!([sender(Shape::Narrow, false), sender(Shape::Linear, false)], [Some(SenderType::Wide); 2]);
    assert_eq!([sender(Shape::Burst, true), sender(Shape::Burst, false)], [None; 2]);
}

#[test]
fn frames_that_leave_as_fast_as_they_can_have_no_rate_and_no_type() {
    let description = described(&["127.0.0.1:5004"], |_, sent| sent.rate = None);
    let video = description.video().expect("there is video").1;
    assert_eq!((video.rate, video.sender, video.is_standard_2110), (None, None, false));
}

#[test]
fn the_origin_is_the_source_that_is_named() {
    let mut settings = settings(ClockSource::Local);
    settings.paths[0].route.source = Some("192.0.2.9".parse().unwrap());
    let named: IpAddr = "192.0.2.9".parse().unwrap();
    assert_eq!(describe("x", 1, &settings, &sent()).origin, named);
    let local = described(&["127.0.0.1:5004"], |_, _| ());
    assert_eq!(local.origin, IpAddr::from(Ipv4Addr::LOCALHOST), "else the one that the route chooses");
}
