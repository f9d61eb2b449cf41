use super::*;
use crate::packager::testing::*;
use crate::packager::{RenditionName, Settings};
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
    let text = hls::media(checked.packager.presentation(), RenditionName::Video, &Carried::default(), false)
        .unwrap();
    assert_eq!(text, include_str!("golden/video.m3u8"));
}

#[test]
fn a_multivariant_playlist_is_what_it_was() {
    let text = hls::multivariant(checked().packager.presentation(), &Carried::default()).unwrap();
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
    let rendered = |addressing| dash::mpd(checked.packager.presentation(), addressing, &options).unwrap();
    assert_eq!(rendered(dash::Addressing::Number), include_str!("golden/manifest.mpd"));
    assert_eq!(rendered(dash::Addressing::Timeline), include_str!("golden/timeline.mpd"));
}

#[test]
fn what_is_far_from_the_end_is_skipped() {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    feed(&mut checked, 0, 1500, 50);
    let presentation = checked.packager.presentation();
    let text = hls::media(presentation, RenditionName::Video, &Carried::default(), true).unwrap();
    assert!(text.contains("#EXT-X-SKIP:SKIPPED-SEGMENTS=23\n"), "{text}");
    check::all(presentation);
}

#[test]
fn a_discontinuity_has_a_header_of_its_own_and_a_period() {
    let mut checked = checked();
    checked.packager.discontinuity(BEGUN);
    feed(&mut checked, 400, 60, 50);
    let presentation = checked.packager.presentation();
    check::all(presentation);
    let text = hls::media(presentation, RenditionName::Video, &Carried::default(), false).unwrap();
    assert_eq!(text.matches("#EXT-X-DISCONTINUITY\n#EXT-X-MAP:URI=\"video/init-2.mp4\"\n").count(), 1);
    assert!(text.contains("#EXT-X-DISCONTINUITY-SEQUENCE:1\n"));
    let number = dash::mpd(presentation, dash::Addressing::Number, &dash::Options::default()).unwrap();
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
    let number = dash::mpd(checked.packager.presentation(), dash::Addressing::Number, &options).unwrap();
    assert!(number.contains("<SegmentTimeline>") && !number.contains("availabilityTimeOffset"));
}

#[test]
fn the_end_is_told() {
    let mut checked = checked();
    checked.finish(BEGUN);
    let presentation = checked.packager.presentation();
    check::all(presentation);
    let text = hls::media(presentation, RenditionName::Video, &Carried::default(), false).unwrap();
    assert!(text.ends_with("#EXT-X-ENDLIST\n"));
    let text = dash::mpd(presentation, dash::Addressing::Number, &dash::Options::default()).unwrap();
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
        let text = hls::media(presentation, RenditionName::Video, &Carried::default(), false).unwrap();
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
