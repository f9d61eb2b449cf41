//! What a service gets of a stream.

use super::*;
use bytes::Bytes;
use glassline_media::container::ts::ElementaryStream;
use glassline_media::{Stamps, Ticks};

const VIDEO: u16 = 256;
const AUDIO: u16 = 257;
const H264: u8 = 0x1b;
const H265: u8 = 0x24;
const AAC: u8 = 0x0f;
const MPEG2: u8 = 0x02;
const ALL: [Codec; 3] = [Codec::H264, Codec::Aac, Codec::MpegAudio];
/// x264's sets: baseline, 320x180.
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0d, 0xd9, 0x01, 0x41, 0x9f, 0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
    0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0xa4, 0x80,
];
const PPS: &[u8] = &[0x68, 0xcb, 0x83, 0xcb, 0x20];

fn program(streams: &[(u16, u8)]) -> Program {
    let stream = |&(pid, kind): &(u16, u8)| ElementaryStream::new(pid, kind, Vec::new());
    let streams = streams.iter().map(stream).collect();
    Program { number: 1, pmt_pid: 4096, pcr_pid: VIDEO, version: 0, streams }
}

fn picture(ms: i64, is_key: bool) -> AccessUnit {
    let nals: &[&[u8]] = if is_key { &[SPS, PPS, &[0x65, 0x88, 7]] } else { &[&[0x41, 0x9a, 7]] };
    let data: Vec<u8> = nals.iter().flat_map(|nal| [&[0, 0, 0, 1], *nal].concat()).collect();
    unit(Codec::H264, data, ms, is_key)
}

fn sound(ms: i64) -> AccessUnit {
    unit(Codec::Aac, vec![0xff, 0xf1, 0x50, 0x80, 1, 0x5f, 0xfc, 0x21, 9, 9], ms, true)
}

fn unit(codec: Codec, data: Vec<u8>, ms: i64, random_access: bool) -> AccessUnit {
    let (data, at) = (Bytes::from(data), Ticks(ms * 90));
    AccessUnit { codec, data, pts: at, dts: at, random_access, stamps: Stamps::default() }
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// What leaves at `ms`, in words: `meta`, and of each tag its track, first two bytes and time.
fn drain(feed: &mut Feed, ms: u64) -> Vec<String> {
    let word = |item| match item {
        Item::Metadata(Described { video, audio }) => {
            format!("meta {:?} {:?}", video.map(|(id, _)| id), audio)
        }
        Item::Tag { is_video, time, body } => {
            format!("{} {:02x}{:02x} {time}", if is_video { "video" } else { "audio" }, body[0], body[1])
        }
    };
    std::iter::from_fn(|| feed.poll(at(ms))).map(word).collect()
}

#[test]
fn a_stream_begins_with_metadata_headers_and_a_key_frame() {
    let mut feed = Feed::new(&ALL);
    feed.program(&program(&[(VIDEO, H264), (AUDIO, AAC)])).unwrap();
    // It is joined in the middle of a group of pictures.
    feed.push(AUDIO, sound(90_000), at(0)).unwrap();
    feed.push(VIDEO, picture(90_010, false), at(10)).unwrap();
    feed.push(VIDEO, picture(90_050, true), at(50)).unwrap();
    feed.push(VIDEO, picture(90_090, false), at(90)).unwrap();
    // What the sound is, is known of the unit before.
    assert_eq!(drain(&mut feed, 90), ["meta Some(7) Some((10, 44100, 2))", "video 1700 0"]);
    for ms in [90_060, 90_083, 90_104] {
        feed.push(AUDIO, sound(ms), at(100)).unwrap();
    }
    assert_eq!(
        drain(&mut feed, 100),
        ["video 1701 0", "audio af00 10", "audio af01 10", "audio af01 33", "video 2701 40"]
    );
    assert_eq!(feed.counters(), ForwardCounters { pictures: 2, sounds: 2, ..ForwardCounters::default() });
}

#[test]
fn sound_that_does_not_come_is_waited_for_a_second_and_taken_later() {
    let mut feed = Feed::new(&ALL);
    feed.program(&program(&[(VIDEO, H264), (AUDIO, AAC)])).unwrap();
    for number in 0..26 {
        feed.push(VIDEO, picture(number * 40, number == 0), at(number as u64 * 40)).unwrap();
    }
    let sent = drain(&mut feed, 1000);
    assert_eq!(sent[..3], ["meta Some(7) None", "video 1700 0", "video 1701 0"]);
    feed.push(AUDIO, sound(1000), at(1001)).unwrap();
    let sent = drain(&mut feed, 2000);
    assert_eq!(sent[0], "meta Some(7) Some((10, 44100, 2))");
    assert!(
        sent.contains(&"audio af00 1000".to_owned()) && sent.contains(&"audio af01 1000".to_owned()),
        "{sent:?}"
    );
}

#[test]
fn sound_alone_is_a_stream() {
    let mut feed = Feed::new(&ALL);
    feed.program(&program(&[(AUDIO, AAC)])).unwrap();
    feed.push(AUDIO, sound(50), at(50)).unwrap();
    feed.push(AUDIO, sound(73), at(73)).unwrap();
    assert_eq!(
        drain(&mut feed, 73),
        ["meta None Some((10, 44100, 2))", "audio af00 0", "audio af01 0", "audio af01 23"]
    );
}

#[test]
fn codecs_that_the_server_does_not_take_are_named() {
    let refused = |streams: &[(u16, u8)]| Feed::new(&ALL).program(&program(streams)).unwrap_err().to_string();
    assert!(
        refused(&[(VIDEO, H265), (AUDIO, AAC)])
            .starts_with("the stream's pictures are H.265, which the server")
    );
    assert!(refused(&[(VIDEO, MPEG2)]).contains("MPEG-2 video"));
    assert!(refused(&[(VIDEO, H264), (AUDIO, 0x81)]).starts_with("the stream's sound is AC-3"));
    assert!(refused(&[(300, 0x06)]).contains("neither pictures nor sound"));
    // Of several, the first that is taken.
    let mut feed = Feed::new(&ALL);
    feed.program(&program(&[(VIDEO, H265), (258, H264), (259, 0x81), (AUDIO, AAC)])).unwrap();
    feed.push(258, picture(0, true), at(0)).unwrap();
    feed.push(AUDIO, sound(0), at(0)).unwrap();
    assert_eq!(drain(&mut feed, 600).len(), 5);
    let takes_all = [Codec::H265, Codec::Aac];
    assert_eq!(Feed::new(&takes_all).program(&program(&[(VIDEO, H265), (AUDIO, AAC)])), Ok(()));
}

#[test]
fn a_slow_server_costs_pictures_up_to_a_key_frame_and_nothing_else() {
    let mut feed = Feed::new(&[Codec::H264]);
    feed.program(&program(&[(VIDEO, H264)])).unwrap();
    // A key frame each 10 s: none is new enough.
    for number in 0..=300 {
        feed.push(VIDEO, picture(number * 40, number % 250 == 0), at(number as u64 * 40)).unwrap();
        assert!(feed.behind(at(number as u64 * 40)) <= BACKLOG);
    }
    let counters = feed.counters();
    assert_eq!(counters.dropped_pictures, 250, "all before the key frame at 10 s");
    let sent = drain(&mut feed, 12_000);
    assert_eq!(sent[..3], ["meta Some(7) None", "video 1700 10000", "video 1701 10000"]);
    assert_eq!((sent.len(), feed.counters().pictures), (2 + 51, 51));
    feed.skip();
    feed.push(VIDEO, picture(12_040, false), at(12_040)).unwrap();
    feed.push(VIDEO, picture(12_080, true), at(12_080)).unwrap();
    assert_eq!(drain(&mut feed, 12_080), ["video 1701 12080"], "what is missing ends at a key frame too");
}

#[test]
fn another_publisher_goes_on_and_other_parameter_sets_are_told() {
    let mut feed = Feed::new(&[Codec::H264]);
    feed.program(&program(&[(VIDEO, H264)])).unwrap();
    feed.push(VIDEO, picture(500_000, true), at(0)).unwrap();
    feed.push(VIDEO, picture(500_040, false), at(40)).unwrap();
    drain(&mut feed, 40);
    feed.program(&program(&[(VIDEO, H264)])).unwrap();
    let mut other = picture(0, true);
    let mut data = other.data.to_vec();
    data[7] = 0x1e;
    other.data = Bytes::from(data);
    feed.push(VIDEO, other, at(1040)).unwrap();
    assert_eq!(drain(&mut feed, 1040), ["video 1700 1040", "video 1701 1040"]);
    assert_eq!(feed.counters().jumps, 1);
    // Another program begins as a stream does.
    feed.program(&program(&[(300, H264)])).unwrap();
    feed.push(VIDEO, picture(40, true), at(1080)).unwrap();
    feed.push(300, picture(80, false), at(1120)).unwrap();
    feed.push(300, picture(120, true), at(1160)).unwrap();
    assert_eq!(drain(&mut feed, 1160), ["meta Some(7) None", "video 1700 1160", "video 1701 1160"]);
}

#[test]
fn mpeg_audio_of_another_layer_is_left_out_or_refused() {
    let layer =
        |layer: u8, ms| unit(Codec::MpegAudio, vec![0xff, 0xf9 | (4 - layer) << 1, 0x50, 0], ms, true);
    // 0x03 is MPEG-1 audio: the tables do not tell the layer.
    let mut feed = Feed::new(&ALL);
    feed.program(&program(&[(VIDEO, H264), (AUDIO, 0x03)])).unwrap();
    feed.push(VIDEO, picture(0, true), at(0)).unwrap();
    let refused = feed.push(AUDIO, layer(2, 0), at(0)).unwrap_err().to_string();
    assert!(
        refused.starts_with("the stream's sound is MPEG audio of layer II, which the server"),
        "{refused}"
    );
    // Another track that is taken is sent instead, and pictures that were held are not lost.
    let mut feed = Feed::new(&ALL);
    let tables = program(&[(VIDEO, H264), (AUDIO, 0x03), (258, AAC)]);
    feed.program(&tables).unwrap();
    feed.push(VIDEO, picture(0, true), at(0)).unwrap();
    feed.push(AUDIO, layer(1, 0), at(0)).unwrap();
    feed.program(&tables).unwrap();
    feed.push(258, sound(0), at(0)).unwrap();
    assert_eq!(
        drain(&mut feed, 600),
        ["meta Some(7) Some((10, 44100, 2))", "video 1700 0", "video 1701 0", "audio af00 0", "audio af01 0"]
    );
    // Layer III is sent.
    let mut feed = Feed::new(&ALL);
    feed.program(&program(&[(AUDIO, 0x03)])).unwrap();
    feed.push(AUDIO, layer(3, 0), at(0)).unwrap();
    assert_eq!(drain(&mut feed, 600)[0], "meta None Some((2, 44100, 2))");
    // A layer that comes in the middle, from another publisher.
    assert!(feed.push(AUDIO, layer(2, 26), at(26)).is_err());
}

#[test]
fn sound_that_changes_does_not_interrupt_pictures() {
    let mut feed = Feed::new(&ALL);
    feed.program(&program(&[(VIDEO, H264), (AUDIO, AAC)])).unwrap();
    feed.push(VIDEO, picture(0, true), at(0)).unwrap();
    feed.push(AUDIO, sound(0), at(0)).unwrap();
    drain(&mut feed, 500);
    feed.program(&program(&[(VIDEO, H264), (258, AAC)])).unwrap();
    feed.push(VIDEO, picture(40, false), at(540)).unwrap();
    feed.push(258, sound(40), at(540)).unwrap();
    feed.push(VIDEO, picture(80, false), at(580)).unwrap();
    let sent = drain(&mut feed, 2000);
    assert_eq!(sent[0], "meta Some(7) Some((10, 44100, 2))");
    assert_eq!(sent[1..], ["video 2701 40", "audio af00 40", "audio af01 40", "video 2701 80"]);
    assert_eq!(feed.counters().dropped_pictures, 0);
}

#[test]
fn each_picture_is_sent_or_counted() {
    let mut feed = Feed::new(&ALL);
    feed.program(&program(&[(VIDEO, H264), (AUDIO, AAC)])).unwrap();
    // The second is missing while the first sound is waited for: what is sent begins with the fourth.
    feed.push(VIDEO, picture(0, true), at(0)).unwrap();
    feed.skip();
    feed.push(VIDEO, picture(80, false), at(80)).unwrap();
    feed.push(VIDEO, picture(120, true), at(120)).unwrap();
    feed.push(AUDIO, sound(120), at(120)).unwrap();
    let sent = drain(&mut feed, 700);
    assert_eq!(sent[..3], ["meta Some(7) Some((10, 44100, 2))", "video 1700 0", "video 1701 0"]);
    let pictures = |feed: &Feed| (feed.counters().pictures, feed.counters().dropped_pictures);
    assert_eq!(pictures(&feed), (1, 0));
    // Other pictures, which begin with a key frame.
    feed.program(&program(&[(300, H264), (AUDIO, AAC)])).unwrap();
    feed.push(300, picture(160, false), at(760)).unwrap();
    assert_eq!(pictures(&feed), (1, 1));
    for number in 5..10 {
        feed.push(300, picture(number * 40, number == 5), at(600 + number as u64 * 40)).unwrap();
    }
    assert_eq!(feed.poll_timeout(), Time::ZERO);
    feed.finish();
    assert_eq!((pictures(&feed), drain(&mut feed, 9000).len()), ((1, 6), 1));
}

#[test]
fn a_picture_that_lies_before_the_beginning_is_counted_and_a_key_frame_awaited() {
    let mut feed = Feed::new(&[Codec::H264]);
    feed.program(&program(&[(VIDEO, H264)])).unwrap();
    feed.push(VIDEO, picture(5000, true), at(0)).unwrap();
    feed.push(VIDEO, picture(4900, false), at(10)).unwrap();
    feed.push(VIDEO, picture(5040, false), at(40)).unwrap();
    feed.push(VIDEO, picture(5080, true), at(80)).unwrap();
    assert_eq!(drain(&mut feed, 80), ["meta Some(7) None", "video 1700 0", "video 1701 0", "video 1701 80"]);
    assert_eq!(feed.counters().dropped_pictures, 2);
}
