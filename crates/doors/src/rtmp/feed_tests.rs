//! Media of encoders as public reports describe them, and what comes out.

use super::*;
use glassline_media::Codec;
use glassline_media::container::ts::{Demuxer, Event as TsEvent};
use glassline_test_support::rtmp::{picture, video_header};

const LC: &[u8] = &[0xaf, 0, 0x12, 0x10];
const SOUND: &[u8] = &[0xaf, 1, 0x21, 9, 9];

#[derive(Default)]
struct Run {
    feed: Feed,
    demuxer: Demuxer,
    seams: usize,
}

impl Run {
    /// What a message gives: codec and decoding time in milliseconds, without the multiplexer's delay.
    fn push(&mut self, is_video: bool, time: u32, payload: &[u8], at_ms: u64) -> Vec<(Codec, i64)> {
        let media = Media { is_video, time, payload: payload.to_vec() };
        self.feed.push(&media, Time::from_millis(at_ms)).unwrap();
        self.look()
    }

    fn timeout(&mut self, at_ms: u64) -> Vec<(Codec, i64)> {
        self.feed.handle_timeout(Time::from_millis(at_ms));
        self.look()
    }

    fn look(&mut self) -> Vec<(Codec, i64)> {
        let mut found = Vec::new();
        while let Some(written) = self.feed.poll() {
            match written {
                Written::Bytes(bytes) => self.demuxer.push(&bytes),
                Written::Seam => {
                    self.demuxer = Demuxer::new();
                    self.seams += 1;
                }
            }
            let events = std::iter::from_fn(|| self.demuxer.poll());
            found.extend(events.filter_map(|event| match event {
                TsEvent::AccessUnit { unit, .. } => Some((unit.codec, unit.dts.0 / 90 - 300)),
                _ => None,
            }));
        }
        found
    }

    fn says(&mut self, has_video: bool, has_audio: bool) {
        let metadata = Metadata { has_video, has_audio, encoder: None };
        self.feed.push_metadata(&metadata, Time::ZERO);
    }
}

#[test]
fn what_an_encoder_sends_goes_on_at_once() {
    let mut run = Run::default();
    run.says(true, true);
    assert_eq!(run.push(true, 0, &video_header(), 0), []);
    assert_eq!(run.push(false, 0, LC, 0), []);
    for number in 0..20 {
        let time = number * 40;
        let expected = [(Codec::H264, i64::from(time))];
        assert_eq!(run.push(true, time, &picture(number == 0), time.into()), expected);
        assert_eq!(run.push(false, time, SOUND, time.into()), [(Codec::Aac, i64::from(time))]);
    }
    assert_eq!((run.seams, run.feed.poll_timeout()), (0, None));
}

/// MediaMTX, issue 386: "first packet must be metadata". Some encoders send none.
#[test]
fn metadata_may_never_come() {
    let mut run = Run::default();
    run.push(true, 0, &video_header(), 0);
    assert_eq!(run.push(true, 0, &picture(true), 0), [], "sound may come within a second");
    assert_eq!(run.push(false, 10, LC, 10), [(Codec::H264, 0)]);
    assert_eq!(run.push(false, 10, SOUND, 10), [(Codec::Aac, 10)]);
}

/// SRS, issue 939: the metadata tells of sound that never comes; and the other way round.
#[test]
fn metadata_may_be_wrong() {
    let mut run = Run::default();
    run.says(true, true);
    run.push(true, 0, &video_header(), 0);
    assert_eq!(run.push(true, 0, &picture(true), 0), []);
    assert_eq!(run.timeout(999), []);
    assert_eq!(run.timeout(1000), [(Codec::H264, 0)]);
    let mut run = Run::default();
    run.says(true, false);
    run.push(true, 0, &video_header(), 0);
    assert_eq!(run.push(true, 0, &picture(true), 0), [(Codec::H264, 0)]);
    run.push(false, 40, LC, 40);
    assert_eq!(run.seams, 1, "sound comes all the same");
    assert_eq!(run.push(false, 40, SOUND, 40), [(Codec::Aac, 40)]);
}

/// xiu, pull request 110: FFmpeg sends a sequence header of AAC without a configuration first. Ant Media Server, issue 3790: raw
/// frames before any.
#[test]
fn a_sequence_header_of_nothing_and_frames_before_one_are_counted() {
    let mut run = Run::default();
    run.says(false, true);
    assert_eq!(run.push(false, 0, &[0xaf, 0], 0), []);
    assert_eq!(run.push(false, 0, SOUND, 0), []);
    assert_eq!(run.push(false, 0, LC, 0), []);
    assert_eq!(run.push(false, 23, SOUND, 23), [(Codec::Aac, 23)]);
    let (tags, units) = run.feed.counters();
    assert_eq!((tags.damaged_tags, tags.unconfigured), (1, 1));
    assert_eq!(units, Counters::default());
}

/// SRS, issue 597: an encoder that is started again under the same connection counts from 0 once more.
#[test]
fn times_that_begin_anew_make_a_seam() {
    let mut run = Run::default();
    run.says(true, false);
    run.push(true, 3_391_920, &video_header(), 0);
    assert_eq!(run.push(true, 3_391_920, &picture(true), 0).len(), 1);
    assert_eq!(run.push(true, 160_380, &picture(true), 40), [(Codec::H264, 160_380)]);
    assert_eq!(run.seams, 1);
    // A wrap of 32 bits is none.
    let mut run = Run::default();
    run.says(true, false);
    run.push(true, u32::MAX - 19, &video_header(), 0);
    run.push(true, u32::MAX - 19, &picture(true), 0);
    assert_eq!(run.push(true, 20, &picture(false), 40), [(Codec::H264, 20)]);
    assert_eq!(run.seams, 0);
}

#[test]
fn a_codec_that_is_not_carried_is_named() {
    let refused = |is_video, payload: &[u8]| {
        let media = Media { is_video, time: 0, payload: payload.to_vec() };
        Feed::default().push(&media, Time::ZERO).unwrap_err().to_string()
    };
    assert_eq!(
        refused(true, b"\x91vp09\x01\x02"),
        "the pictures are VP9, which this server does not carry; publish H.264, H.265 or AV1"
    );
    assert_eq!(
        refused(false, &[0xb2, 1, 2]),
        "the sound is Speex, which this server does not carry; publish AAC, MP3, Opus, AC-3 or E-AC-3"
    );
    let opus = b"\x90OpusOpusHead\x01\x06\x38\x01\x80\xbb\0\0\0\0\x01\x04\x02\0";
    assert!(refused(false, opus).contains("(Opus of more than two channels"));
}

/// OBS with several qualities ("Multitrack Video"): the first goes on, the others are left out.
#[test]
fn further_tracks_are_left_out() {
    let mut run = Run::default();
    run.says(true, false);
    let record = &video_header()[5..];
    run.push(true, 0, &[&[0x90][..], b"avc1", record].concat(), 0);
    let other = [&[0x96, 0x00][..], b"avc1", &[1], record].concat();
    assert_eq!(run.push(true, 0, &other, 0), []);
    let frame = &picture(true)[5..];
    assert_eq!(run.push(true, 0, &[&[0x93][..], b"avc1", frame].concat(), 0), [(Codec::H264, 0)]);
    assert_eq!(run.feed.counters().0.left_out, 1);
}
