use super::super::index::testing::*;
use super::super::index::{Hole, HoleReason, Line, MpegTsSegment, RecordedSegment, Recording};
use super::super::window::Source;
use super::*;
use crate::packager::later;
use crate::playlist::check;
use proptest::prelude::*;

const VIDEO: RenditionName = RenditionName::Video;
const AUDIO: RenditionName = RenditionName::Audio(1);
const QUERY: &str = "from=2026-11-30T02:25:53Z&token=a%20b&to=-1s&_HLS_msn=4";

const TELLING: Telling<'_> = Telling { utc_timing: "/api/time", segment: Duration::from_secs(2) };

fn after(seconds: u64) -> Utc {
    later(BEGUN, Duration::from_secs(seconds))
}

fn rendered(
    sources: &[(&Recording, bool)],
    span: Option<Span>,
    object: Object,
    query: &str,
) -> Option<String> {
    let sources: Vec<_> =
        sources.iter().map(|(recording, is_running)| Source { recording, is_running: *is_running }).collect();
    let window = Window::for_playlist(&sources, span, after(600)).unwrap()?;
    render(&window, object, query, after(600), TELLING)
}

/// Renders all there is, and checks it; the playlists of the renditions.
fn checked(sources: &[(&Recording, bool)], span: Option<Span>) -> Vec<String> {
    let of = |object| rendered(sources, span, object, QUERY);
    let (mut lists, mut counts) = (Vec::new(), Vec::new());
    check::multivariant(&of(Object::Multivariant).unwrap());
    for name in [VIDEO, AUDIO] {
        let Some(text) = of(Object::Media(name)) else { continue };
        counts.push(check::recorded(&text));
        lists.push(text);
    }
    assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{counts:?}");
    if let Some(text) = of(Object::IFrames) {
        assert!(text.contains("\n#EXT-X-I-FRAMES-ONLY\n") && text.contains("archive/"), "{text}");
    }
    check::mpd(&of(Object::NumberManifest).unwrap());
    lists
}

fn all(begun: Utc) -> Recording {
    recording(begun, (100..105).map(|number| (number, 1)))
}

#[test]
fn a_recording_that_is_over_is_a_vod() {
    let recording = all(BEGUN);
    let lists = checked(&[(&recording, false)], None);
    let begin = "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:0\n\
                 #EXT-X-DISCONTINUITY-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n\
                 #EXT-X-START:TIME-OFFSET=0.000000,PRECISE=YES\n\
                 #EXT-X-MAP:URI=\"archive/20261130T022552.123Z/video/init-1.mp4?token=a+b\"\n\
                 #EXT-X-PROGRAM-DATE-TIME:2026-11-30T02:25:52.123Z\n\
                 #EXTINF:2.000000,\narchive/20261130T022552.123Z/video/100.m4s?token=a+b\n";
    assert!(lists[0].starts_with(begin), "{}", lists[0]);
    assert!(lists[0].ends_with("/104.m4s?token=a+b\n#EXT-X-ENDLIST\n"), "{}", lists[0]);
}

#[test]
fn what_is_there_as_mpeg_ts_is_a_list_with_a_discontinuity_where_it_is_not() {
    let mut recording = recording(BEGUN, (100..105).map(|number| (number, 1 + u32::from(number > 103))));
    assert_eq!(rendered(&[(&recording, false)], None, Object::TransportMedia, QUERY), None);
    for number in [100, 102, 104] {
        recording.add(1, Line::MpegTs(MpegTsSegment { number, bytes: 188, crc32c: 7 }));
    }
    let text = rendered(&[(&recording, false)], None, Object::TransportMedia, QUERY).unwrap();
    let begin = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:0\n\
                 #EXT-X-DISCONTINUITY-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n\
                 #EXT-X-START:TIME-OFFSET=0.000000,PRECISE=YES\n\
                 #EXT-X-PROGRAM-DATE-TIME:2026-11-30T02:25:52.123Z\n\
                 #EXTINF:2.000000,\narchive/20261130T022552.123Z/ts/100.ts?token=a+b\n\
                 #EXT-X-DISCONTINUITY\n#EXT-X-PROGRAM-DATE-TIME:2026-11-30T02:25:56.123Z\n#EXTINF";
    assert!(text.starts_with(begin), "{text}");
    let count = |words: &str| text.matches(words).count();
    assert_eq!((count("#EXTINF"), count("#EXT-X-GAP"), count("#EXT-X-DISCONTINUITY\n")), (3, 0, 2), "{text}");
    assert!(!text.contains("EXT-X-MAP") && text.ends_with("/104.ts?token=a+b\n#EXT-X-ENDLIST\n"), "{text}");
}

#[test]
fn lists_of_a_time_carry_it_by_the_clock_and_segments_do_not() {
    let recording = all(BEGUN);
    let span = Span { from: after(3), to: Some(after(7)) };
    let lists = checked(&[(&recording, true)], Some(span));
    assert_eq!(lists[0].matches("#EXTINF").count(), 3);
    assert!(lists[0].contains("#EXT-X-START:TIME-OFFSET=1.000000,PRECISE=YES\n"), "{}", lists[0]);
    assert!(!lists[0].contains("from="));
    let text = rendered(&[(&recording, true)], Some(span), Object::Multivariant, QUERY).unwrap();
    let address =
        "video.m3u8?token=a+b&from=2026-11-30T02%3A25%3A55.123000Z&to=2026-11-30T02%3A25%3A59.123000Z\n";
    assert!(text.contains(address), "{text}");
}

#[test]
fn what_goes_on_is_an_event_that_only_grows() {
    let mut recording = all(BEGUN);
    let span = Some(Span { from: BEGUN, to: None });
    let of = |recording: &Recording, object| rendered(&[(recording, true)], span, object, "").unwrap();
    let (list, manifest) = (of(&recording, Object::Media(VIDEO)), of(&recording, Object::NumberManifest));
    assert!(list.contains("#EXT-X-PLAYLIST-TYPE:EVENT\n") && !list.contains("ENDLIST"), "{list}");
    assert!(manifest.contains("type=\"dynamic\"") && manifest.contains("<Period id=\"0\" start=\"PT0S\">"));
    assert!(
        manifest.contains("<Location>manifest.mpd?from=2026-11-30T02%3A25%3A52.123000Z</Location>"),
        "{manifest}"
    );
    add_both(&mut recording, BEGUN, 105, 1);
    assert!(of(&recording, Object::Media(VIDEO)).starts_with(&list));
    // At its end it is what it was, and ended; its target does not move for a segment that is somewhat longer.
    let mut longer = segment(BEGUN, 106, 1, 90_000);
    longer.duration += 90_000;
    let list = of(&recording, Object::Media(VIDEO));
    recording.add(0, Line::Segment(VIDEO, longer));
    let over = rendered(&[(&recording, false)], span, Object::Media(VIDEO), "").unwrap();
    assert!(over.starts_with(&list) && over.ends_with("/106.m4s\n#EXT-X-ENDLIST\n"), "{over}");
    let mut recording = all(BEGUN);
    add_both(&mut recording, BEGUN, 105, 1);
    let over = rendered(&[(&recording, false)], span, Object::NumberManifest, "").unwrap();
    assert!(over.contains("type=\"static\" mediaPresentationDuration=\"PT12S\""), "{over}");
}

#[test]
fn a_stream_that_came_again_is_one_list_with_a_discontinuity() {
    let (first, second) = (all(BEGUN), all(after(3600)));
    for is_running in [false, true] {
        let sources = [(&first, false), (&second, is_running)];
        let span = Some(Span { from: BEGUN, to: None });
        let lists = checked(&sources, span);
        let header = "#EXT-X-DISCONTINUITY\n#EXT-X-MAP:URI=\"archive/20261130T032552.123Z/audio/init-1.mp4?token=a+b\"\n";
        assert_eq!(lists[1].matches(header).count(), 1, "{}", lists[1]);
        let manifest = rendered(&sources, span, Object::NumberManifest, "").unwrap();
        // Shaka Player hung in a hole between periods (shaka-project/shaka-player 384, 7531): what is over has none. What grows has
        // them where the clock has them, and its zero never moves.
        // It is the same at its end; what has an end that was past is packed.
        assert!(manifest.contains("<Period id=\"1\" start=\"PT3600S\""), "{manifest}");
        let clock = "availabilityStartTime=\"2026-11-30T02:25:52.123Z\"";
        assert_eq!(manifest.contains(clock), is_running, "{manifest}");
        assert!(!manifest.contains("timeShiftBufferDepth"));
    }
    let manifest = rendered(&[(&first, false), (&second, false)], None, Object::NumberManifest, "").unwrap();
    assert!(manifest.contains("<Period id=\"1\" start=\"PT10S\""), "{manifest}");
}

#[test]
fn a_manifest_tells_of_no_segment_that_is_not_there() {
    let mut recording = recording(BEGUN, (100..106).map(|number| (number, 1)));
    let reason = HoleReason::Spool;
    let hole = Hole { rendition: AUDIO, first: 102, last: 103, from: BEGUN, to: BEGUN, reason };
    recording.add(1, Line::Hole(hole));
    let lists = checked(&[(&recording, false)], None);
    assert_eq!((lists[0].matches("EXT-X-GAP").count(), lists[1].matches("EXT-X-GAP").count()), (0, 2));
    let manifest = rendered(&[(&recording, false)], None, Object::NumberManifest, "").unwrap();
    let periods: Vec<_> = manifest.split("<Period ").skip(1).collect();
    let sets = |period: &&str| period.matches("<AdaptationSet").count();
    assert_eq!(periods.iter().map(sets).collect::<Vec<_>>(), [2, 1, 2]);
    assert!(periods[2].contains("start=\"PT8S\" duration=\"PT4S\""), "{}", periods[2]);
    assert!(periods[2].contains("presentationTimeOffset=\"384000\" startNumber=\"104\""), "{}", periods[2]);
}

#[test]
fn a_clock_that_is_set_back_spoils_no_list() {
    // Others count what such a recording lasts in hours (bluenviron/mediamtx 4711): a length is that of the segments.
    let mut recording = recording(BEGUN, (100..103).map(|number| (number, 1)));
    let earlier = Utc::from_nanos(BEGUN.as_nanos() - 3_600_000_000_000);
    (103..106).for_each(|number| add_both(&mut recording, earlier, number, 1));
    let far = Utc::from_nanos(u64::MAX / 1000 * 1000);
    let mut segment = segment(BEGUN, 106, 1, 90_000);
    segment.utc = far;
    recording.add(0, Line::Segment(VIDEO, segment));
    let list = rendered(&[(&recording, false)], None, Object::Media(VIDEO), "").unwrap();
    assert_eq!((list.matches("#EXTINF:2.0").count(), list.matches("DISCONTINUITY\n").count()), (7, 0));
    let manifest = rendered(&[(&recording, false)], None, Object::NumberManifest, "").unwrap();
    assert!(manifest.contains("mediaPresentationDuration=\"PT14S\""), "{manifest}");
}

#[test]
fn codecs_are_those_of_all_epochs() {
    let mut recording = all(BEGUN);
    let track = crate::packager::TrackInfo { codec: "hvc1.1.6.L93.B0".to_owned(), ..video(2) };
    recording.add(0, Line::Track(VIDEO, track));
    recording.add(0, Line::Segment(VIDEO, segment(BEGUN, 105, 2, 90_000)));
    let text = rendered(&[(&recording, false)], None, Object::Multivariant, "").unwrap();
    assert!(text.contains("CODECS=\"hvc1.1.6.L93.B0,avc1.64001F,mp4a.40.2\""), "{text}");
}

#[test]
fn key_frames_have_the_discontinuities_of_the_pictures() {
    let mut recording = recording(
        BEGUN,
        (100..110).map(|number| (number, 1 + u32::from(number > 102) + u32::from(number > 105))),
    );
    for number in 103..=105 {
        let bare = RecordedSegment { key_frames: Vec::new(), ..segment(BEGUN, number, 2, 90_000) };
        recording.add(0, Line::Segment(VIDEO, bare));
    }
    let of = |object| rendered(&[(&recording, false)], None, object, "").unwrap();
    let count = |text: &str| text.matches("#EXT-X-DISCONTINUITY\n").count();
    assert_eq!((count(&of(Object::Media(VIDEO))), count(&of(Object::IFrames))), (2, 2));
}

#[test]
fn a_manifest_of_very_many_pieces_is_refused() {
    let mut recording = Recording::new(name(), session());
    recording.add(0, Line::Track(VIDEO, video(1)));
    for number in 0..=PERIODS_MAX as u64 {
        recording.add(0, Line::Segment(VIDEO, segment(BEGUN, 100 + number * 2, 1, 90_000)));
    }
    let sources = [Source { recording: &recording, is_running: false }];
    let window = Window::for_playlist(&sources, None, after(600)).unwrap().unwrap();
    assert!(is_cut_up(&window, Object::NumberManifest) && !is_cut_up(&window, Object::Media(VIDEO)));
}

#[test]
fn what_is_of_no_rendition_is_not_rendered() {
    let recording = all(BEGUN);
    let of = |object| rendered(&[(&recording, false)], None, object, "");
    assert_eq!(of(Object::Media(RenditionName::Audio(2))), None);
    assert_eq!(of(Object::TransportMedia), None);
    let late = Span { from: after(1000), to: None };
    assert_eq!(rendered(&[(&recording, false)], Some(late), Object::Multivariant, ""), None);
}

proptest! {
    /// Whatever was recorded and lost of it: lists keep the rules, and have the same number of segments and discontinuities.
    #[test]
    fn lists_keep_the_rules(
        rows in proptest::collection::vec((0..3u64, 0..8u32, 0..3u8), 1..40),
        second in any::<bool>(),
        is_running in any::<bool>(),
        from in proptest::option::of(0..60u64),
        length in proptest::option::of(1..30u64),
    ) {
        let mut recording = Recording::new(name(), session());
        let (mut number, mut epoch) = (100, 1);
        for (step, change, which) in rows {
            number += if step == 2 { 3 } else { 1 };
            epoch += u32::from(change == 0);
            for (name, track) in [(VIDEO, video(epoch)), (AUDIO, audio(epoch))] {
                if which == 0 || name.is_video() == (which == 1) {
                    let segment = segment(BEGUN, number, epoch, track.timescale);
                    recording.add(0, Line::Track(name, track));
                    recording.add(0, Line::Segment(name, segment));
                }
            }
        }
        let other = all(after(500));
        let mut sources = vec![(&recording, is_running && !second)];
        sources.extend(second.then_some((&other, is_running)));
        let span = from.map(|from| Span { from: after(from), to: length.map(|length| after(from + length)) });
        if rendered(&sources, span, Object::Multivariant, QUERY).is_some() {
            checked(&sources, span);
        }
    }
}
