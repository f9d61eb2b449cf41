use super::*;
use crate::packager::testing::*;
use crate::packager::{Guide, Packager, RenditionName, Settings};
use crate::playlist::hls::{Decision, Directives, decide};
use std::time::Duration;

/// Six seconds and three pictures, in segments of two seconds.
fn checked() -> Checked {
    let settings = Settings { part: Duration::from_millis(500), ..Settings::default() };
    let mut checked = Checked::new(settings, &video_and_aac());
    feed(&mut checked, 0, 178, 50);
    checked
}

#[test]
fn a_media_playlist_is_what_it_was() {
    let checked = checked();
    let text =
        hls::media(checked.packager.presentation(), RenditionName::Video, &hls::MediaOptions::default())
            .unwrap();
    assert_eq!(text, include_str!("golden/video.m3u8"));
}

#[test]
fn a_multivariant_playlist_is_what_it_was() {
    let text =
        hls::multivariant(&[Variant::alone(checked().packager.presentation())], &Carried::default()).unwrap();
    assert_eq!(text, include_str!("golden/index.m3u8"));
}

#[test]
fn a_playlist_of_key_frames_is_what_it_was() {
    let text = hls::iframes(checked().packager.presentation(), &Carried::default()).unwrap();
    assert_eq!(text, include_str!("golden/video-iframes.m3u8"));
}

#[test]
fn manifests_are_what_they_were() {
    let (checked, options) = (checked(), dash::Options::default());
    let rendered = |addressing| {
        dash::mpd(&[Variant::alone(checked.packager.presentation())], addressing, &options).unwrap()
    };
    assert_eq!(rendered(dash::Addressing::Number), include_str!("golden/manifest.mpd"));
    assert_eq!(rendered(dash::Addressing::Timeline), include_str!("golden/timeline.mpd"));
}

#[test]
fn what_is_far_from_the_end_is_skipped() {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    feed(&mut checked, 0, 1500, 50);
    let presentation = checked.packager.presentation();
    let text = hls::media(
        presentation,
        RenditionName::Video,
        &hls::MediaOptions { skip: true, ..hls::MediaOptions::default() },
    )
    .unwrap();
    assert!(text.contains("#EXT-X-SKIP:SKIPPED-SEGMENTS=23\n"), "{text}");
    check::all(presentation);
}

#[test]
fn a_discontinuity_has_a_header_of_its_own_and_a_period() {
    let mut checked = checked();
    checked.packager.discontinuity(BEGUN, 0);
    feed(&mut checked, 400, 60, 50);
    let presentation = checked.packager.presentation();
    check::all(presentation);
    let text = hls::media(presentation, RenditionName::Video, &hls::MediaOptions::default()).unwrap();
    assert_eq!(text.matches("#EXT-X-DISCONTINUITY\n#EXT-X-MAP:URI=\"video/init-2.mp4\"\n").count(), 1);
    assert!(text.contains("#EXT-X-DISCONTINUITY-SEQUENCE:1\n"));
    let number =
        dash::mpd(&[Variant::alone(presentation)], dash::Addressing::Number, &dash::Options::default())
            .unwrap();
    assert!(number.contains("<Period id=\"1\" start=\"PT0S\" duration=\"PT7.125S\">"), "{number}");
    assert!(number.contains("<Period id=\"2\" start=\"PT16S\">"), "{number}");
}

#[test]
fn segments_of_odd_lengths_are_listed() {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    for index in 0..600i64 {
        let key = [0, 50, 100, 230, 300, 480].contains(&index);
        checked.push(VIDEO, &picture(key, 60, index * PICTURE));
        checked.push(SOUND, &aac(30, index * PICTURE));
    }
    let options = dash::Options::default();
    let number =
        dash::mpd(&[Variant::alone(checked.packager.presentation())], dash::Addressing::Number, &options)
            .unwrap();
    assert!(number.contains("<SegmentTimeline>") && !number.contains("availabilityTimeOffset"));
}

#[test]
fn the_end_is_told() {
    let mut checked = checked();
    checked.finish(BEGUN);
    let presentation = checked.packager.presentation();
    check::all(presentation);
    let text = hls::media(presentation, RenditionName::Video, &hls::MediaOptions::default()).unwrap();
    assert!(text.ends_with("#EXT-X-ENDLIST\n"));
    let text =
        dash::mpd(&[Variant::alone(presentation)], dash::Addressing::Number, &dash::Options::default())
            .unwrap();
    assert!(text.contains("type=\"static\" mediaPresentationDuration=\"PT7.125S\""), "{text}");
    assert!(!text.contains("availabilityTimeOffset"));
}

#[test]
fn a_reload_waits_for_what_comes_and_for_nothing_else() {
    let checked = checked();
    let presentation = checked.packager.presentation();
    // Segments 0 to 2 are complete, and of segment 3 one part.
    let decided =
        |query: &str| decide(presentation, RenditionName::Video, Directives::of(Some(query)).unwrap());
    for now in [
        "",
        "_HLS_msn=0",
        "_HLS_msn=2",
        "_HLS_msn=2&_HLS_part=1",
        "_HLS_msn=3&_HLS_part=1",
        "_HLS_msn=2&_HLS_part=9",
    ] {
        assert_eq!(decided(now), Decision::Now, "{now}");
    }
    for wait in [
        "_HLS_msn=3",
        "_HLS_msn=3&_HLS_part=2",
        "_HLS_msn=3&_HLS_part=3",
        "_HLS_msn=4",
        "_HLS_msn=4&_HLS_part=0",
        "_HLS_msn=5",
    ] {
        assert_eq!(decided(wait), Decision::Wait, "{wait}");
    }
    for bad in ["_HLS_msn=6", "_HLS_msn=18446744073709551615", "_HLS_msn=3&_HLS_part=99"] {
        assert_eq!(decided(bad), Decision::BadRequest, "{bad}");
    }
    for wrong in ["_HLS_part=1", "_HLS_msn=x", "_HLS_msn=-1", "_HLS_msn=", "_HLS_msn=1&_HLS_part=4294967296"]
    {
        assert!(Directives::of(Some(wrong)).is_err(), "{wrong}");
    }
    let skip = Directives { skip: true, ..Directives::default() };
    assert_eq!(Directives::of(Some("t=1&_HLS_skip=YES")), Ok(skip));
    assert_eq!(Directives::of(Some("_HLS_skip=no&_HLS_other=7")), Ok(Directives::default()));
}

#[test]
fn the_next_segment_is_hinted_at_where_a_key_frame_is_due() {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    let hint = |checked: &Checked| {
        let presentation = checked.packager.presentation();
        let text = hls::media(presentation, RenditionName::Video, &hls::MediaOptions::default()).unwrap();
        text.lines()
            .find_map(|line| line.strip_prefix("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=").map(str::to_owned))
    };
    feed(&mut checked, 0, 50, 50);
    assert_eq!(hint(&checked).unwrap(), "\"video/0.10.m4s\"", "nothing is known yet");
    feed(&mut checked, 50, 45, 50);
    assert_eq!(hint(&checked).unwrap(), "\"video/1.9.m4s\"");
    feed(&mut checked, 95, 5, 50);
    assert_eq!(hint(&checked).unwrap(), "\"video/2.0.m4s\"");
}

/// Two versions of one capture; the second joins while the first goes on.
fn ladder() -> (Checked, Checked) {
    let settings = Settings::default();
    let mut first = Checked::new(settings, &video_and_aac());
    first.packager = std::mem::replace(&mut first.packager, Packager::new(settings)).starting_at(7, 100);
    feed(&mut first, 25, 225, 25);
    let mut second = Checked::new(settings, &video_and_aac());
    second.packager = std::mem::replace(&mut second.packager, Packager::new(settings)).starting_at(9, 900);
    second.packager.follow(Guide::of(first.packager.presentation()));
    feed(&mut second, 60, 190, 25);
    (first, second)
}

#[test]
fn a_version_that_joins_another_is_cut_and_numbered_like_it() {
    let (first, second) = ladder();
    let told = |checked: &Checked| -> Vec<(u64, u64, u32)> {
        let rendition = checked.packager.presentation().rendition(RenditionName::Video).unwrap();
        rendition.complete().map(|segment| (segment.number, segment.start, segment.epoch)).collect()
    };
    let (first, second) = (told(&first), told(&second));
    assert_eq!(first.iter().map(|it| it.0).collect::<Vec<_>>(), [100, 101, 102, 103]);
    assert_eq!(second[..], first[1..], "it begins at the first key frame where the other has one");
}

#[test]
fn pictures_with_mp3_are_offered_without_it_too() {
    // Chromium and Firefox decode MP3, and not in MP4: without that choice they would play nothing.
    let tracks = vec![stream(VIDEO, 0x1b, &[]), stream(SOUND, 0x03, &[])];
    let mut checked = Checked::new(Settings::default(), &program(tracks));
    for index in 0..200i64 {
        checked.push(VIDEO, &picture(index % 50 == 0, 60, index * PICTURE));
        checked.push(SOUND, &mpeg_audio(3, index * PICTURE));
    }
    let variants = [Variant::alone(checked.packager.presentation())];
    let text = hls::multivariant(&variants, &Carried::default()).unwrap();
    assert_eq!(text.matches("#EXT-X-STREAM-INF").count(), 2, "{text}");
    assert!(text.contains("mp4a.6") && text.contains(",SCORE=2,AUDIO=\"audio\"\n"), "{text}");
    assert!(text.contains(",SCORE=1\n"), "{text}");
}

#[test]
fn a_ladder_is_variants_of_one_playlist_and_representations_of_one_set() {
    let (first, second) = ladder();
    let variants = [
        Variant { base: "../hall-720p50/", presentation: first.packager.presentation() },
        Variant { base: "../hall-360p25/", presentation: second.packager.presentation() },
    ];
    let text = hls::multivariant(&variants, &Carried::of(Some("token=x"))).unwrap();
    assert_eq!(text.matches("#EXT-X-STREAM-INF").count(), 3, "two of pictures, one of sound alone: {text}");
    assert!(text.contains("\n../hall-720p50/video.m3u8?token=x\n"), "{text}");
    assert!(text.contains("\n../hall-360p25/video.m3u8?token=x\n"), "{text}");
    assert_eq!(text.matches("#EXT-X-MEDIA").count(), 1, "one sound: {text}");
    for addressing in [dash::Addressing::Number, dash::Addressing::Timeline] {
        let text = dash::mpd(&variants, addressing, &dash::Options::default()).unwrap();
        glassline_test_support::xml::texts(text.split_once('\n').unwrap().1).unwrap();
        assert_eq!(text.matches("<AdaptationSet").count(), 2, "{text}");
        assert_eq!(text.matches("<Representation").count(), 3, "{text}");
        assert!(text.contains("<Representation id=\"hall-360p25\""), "{text}");
        assert!(text.contains("media=\"../hall-360p25/video/$Number$.m4s\""), "{text}");
        let by_number = addressing == dash::Addressing::Number;
        assert_eq!(text.contains("availabilityTimeOffset"), by_number, "{text}");
        if by_number {
            assert_eq!(text.matches("startNumber=\"100\"").count(), 3, "{text}");
        }
    }
}

#[test]
fn media_playlists_of_a_ladder_report_each_other() {
    let (first, second) = ladder();
    let rendition = second.packager.presentation().rendition(RenditionName::Video).unwrap();
    let last = rendition.last_part().unwrap();
    let others = vec![hls::Report { base: "../hall-360p25/".to_owned(), last }];
    let options = hls::MediaOptions { others, ..hls::MediaOptions::default() };
    let render = |name| hls::media(first.packager.presentation(), name, &options).unwrap();
    let report = format!(
        "#EXT-X-RENDITION-REPORT:URI=\"../hall-360p25/video.m3u8\",LAST-MSN={},LAST-PART={}\n",
        last.segment, last.part
    );
    assert!(render(RenditionName::Video).contains(&report));
    assert!(!render(RenditionName::Audio(1)).contains(&report));
}

#[test]
fn a_version_on_another_clock_is_no_part_of_the_ladder() {
    let (first, _) = ladder();
    let mut other = Checked::new(Settings::default(), &video_and_aac());
    other.packager.follow(Guide::of(first.packager.presentation()));
    feed(&mut other, 100_000, 150, 25);
    let variants = [first.packager.presentation(), other.packager.presentation()].map(Variant::alone);
    let text = dash::mpd(&variants, dash::Addressing::Number, &dash::Options::default()).unwrap();
    assert_eq!(text.matches("<Representation").count(), 2, "{text}");
}

#[test]
fn segments_of_mpeg_ts_are_those_of_the_others() {
    let checked = checked();
    let presentation = checked.packager.presentation();
    let lead: Vec<_> = presentation.lead().unwrap().complete().collect();
    let sources: Vec<_> = lead.iter().map(|segment| segment.source.clone().unwrap()).collect();
    assert_eq!(sources[0].start, 1, "the first unit");
    assert!(sources.windows(2).all(|pair| pair[0].end == pair[1].start), "without gap: {sources:?}");
    let text = hls::mpeg_ts(presentation, 1..=9, &Carried::of(Some("t=1"))).unwrap();
    assert!(text.contains("#EXT-X-MEDIA-SEQUENCE:1\n"), "{text}");
    assert_eq!(
        text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(),
        ["ts/1.ts?t=1", "ts/2.ts?t=1"]
    );
    assert_eq!(hls::mpeg_ts(presentation, 7..=9, &Carried::default()), None);
    let text =
        hls::mpeg_ts_variants(&[Variant { base: "../a/", presentation }], &Carried::default()).unwrap();
    assert!(
        text.contains("CODECS=\"avc1.42C00D,mp4a.40.2\"") && text.ends_with("\n../a/ts.m3u8\n"),
        "{text}"
    );
}
