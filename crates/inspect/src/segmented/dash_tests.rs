//! Manifests of FFmpeg, of this program, and of others' kinds.

use super::*;
use proptest::prelude::*;

fn url() -> Url {
    "http://h/live/x.mpd?key=1".parse().unwrap()
}

fn at(text: &str) -> Utc {
    parse_utc(text).unwrap()
}

fn names(listing: &Listing) -> Vec<String> {
    listing.objects.iter().map(|object| object.at.url.target().to_owned()).collect()
}

const NUMBERED: &str = r#"<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="dynamic" availabilityStartTime="2026-11-24T12:00:00Z" minimumUpdatePeriod="PT2S">
 <BaseURL>v1/</BaseURL>
 <Period id="1" start="PT10S">
  <AdaptationSet contentType="audio" lang="de"><SegmentTemplate initialization="a/init.mp4" media="a/$Number%05d$.m4s?x=1&amp;y=2" timescale="48000" startNumber="7" duration="96000"/><Representation id="a" bandwidth="1"/></AdaptationSet>
  <AdaptationSet contentType="audio" lang="fr"><SegmentTemplate media="f/$Number$.m4s" duration="2"/><Representation id="f" bandwidth="9"/></AdaptationSet>
  <AdaptationSet mimeType="video/mp4"><SegmentTemplate media="$RepresentationID$/$Number$.m4s" initialization="$RepresentationID$/$Bandwidth$.mp4" duration="2" availabilityTimeOffset="1.5"/>
   <Representation id="low" bandwidth="5" width="320" height="180"/><Representation id="high" bandwidth="50" width="1280" height="720"><BaseURL>h/</BaseURL></Representation></AdaptationSet>
 </Period>
</MPD>"#;

#[test]
fn segments_by_number_follow_the_clock() {
    let manifest = Manifest::parse(NUMBERED, &url()).unwrap();
    let version = manifest.version(Carries::Pictures).unwrap();
    assert_eq!((version.id.as_str(), version.bandwidth_bps, version.size), ("high", 50, Some((1280, 720))));
    assert_eq!(manifest.version(Carries::Sound).unwrap().id, "a", "the language that comes first");
    // Five seconds of the period: two segments have passed, and the third is there early.
    let now = at("2026-11-24T12:00:15Z");
    let pictures = manifest.listing(Carries::Pictures, now);
    assert_eq!(names(&pictures), ["/live/v1/h/high/1.m4s", "/live/v1/h/high/2.m4s", "/live/v1/h/high/3.m4s"]);
    assert_eq!(pictures.objects[0].init.as_ref().unwrap().url.target(), "/live/v1/h/high/50.mp4");
    let sound = manifest.listing(Carries::Sound, now);
    assert_eq!(names(&sound), ["/live/v1/a/00007.m4s?x=1&y=2", "/live/v1/a/00008.m4s?x=1&y=2"]);
    assert!(!sound.has_ended && sound.patience == Duration::from_secs(3));
    assert_eq!(manifest.listing(Carries::Sound, at("2026-11-24T12:00:05Z")).objects, []);
    let later = manifest.listing(Carries::Sound, at("2026-11-24T13:00:10Z"));
    assert_eq!((later.objects.len(), later.objects[49].id), (50, (10_000, 1806)));
}

#[test]
fn segments_of_a_timeline_are_listed() {
    let text = r#"<MPD type="static" mediaPresentationDuration="PT8S"><Period><AdaptationSet contentType="video">
        <Representation id="0" bandwidth="1"><SegmentTemplate timescale="10" initialization="i$RepresentationID$.m4s" media="$RepresentationID$-$Time$-$Number%03d$.m4s" startNumber="1">
        <SegmentTimeline><S t="5" d="20" r="1"/><S d="10"/><S t="100" d="30" r="-1"/><S t="160" d="1"/></SegmentTimeline>
        </SegmentTemplate></Representation></AdaptationSet></Period></MPD>"#;
    let manifest = Manifest::parse(text, &url()).unwrap();
    let listing = manifest.listing(Carries::Pictures, Utc::from_nanos(0));
    let expected = ["0-5-001", "0-25-002", "0-45-003", "0-100-004", "0-130-005", "0-160-006"];
    assert_eq!(names(&listing), expected.map(|name| format!("/live/{name}.m4s")));
    assert!(listing.has_ended && listing.objects[0].duration == Duration::from_secs(2));
    assert!(manifest.version(Carries::Sound).is_none());
}

#[test]
fn recordings_by_number_and_lists_have_an_end() {
    let text = r#"<MPD mediaPresentationDuration="PT5.0S"><Period><AdaptationSet contentType="video"><SegmentTemplate media="$Number$" duration="2"/>
        <Representation id="0"/></AdaptationSet><AdaptationSet contentType="audio"><Representation id="1"><BaseURL>all.mp4</BaseURL>
        <SegmentList timescale="1000" duration="1000"><Initialization range="0-99"/><SegmentURL mediaRange="100-149"/><SegmentURL mediaRange="150-160"/></SegmentList>
        </Representation></AdaptationSet></Period></MPD>"#;
    let manifest = Manifest::parse(text, &url()).unwrap();
    assert_eq!(
        names(&manifest.listing(Carries::Pictures, Utc::from_nanos(0))),
        ["/live/1", "/live/2", "/live/3"]
    );
    let sound = manifest.listing(Carries::Sound, Utc::from_nanos(0));
    let ranges: Vec<_> =
        sound.objects.iter().map(|object| (object.at.url.target(), object.at.range)).collect();
    assert_eq!(ranges, [("/live/all.mp4", Some((100, 50))), ("/live/all.mp4", Some((150, 11)))]);
    assert_eq!(sound.objects[0].init.as_ref().unwrap().range, Some((0, 100)));
}

#[test]
fn periods_follow_each_other() {
    let set = r#"<AdaptationSet contentType="video"><SegmentTemplate media="P-$Number$" duration="2"/><Representation id="0"/></AdaptationSet>"#;
    let text = format!(
        r#"<MPD type="dynamic" availabilityStartTime="2026-11-24T12:00:00Z"><Period duration="PT4S">{}</Period><Period>{}</Period></MPD>"#,
        set.replace("P-", "a-"),
        set.replace("P-", "b-")
    );
    let manifest = Manifest::parse(&text, &url()).unwrap();
    let listing = manifest.listing(Carries::Pictures, at("2026-11-24T12:00:08Z"));
    let told: Vec<_> = listing.objects.iter().map(|object| (object.id, object.timeline)).collect();
    assert_eq!(told, [((0, 1), 0), ((0, 2), 0), ((4000, 1), 1), ((4000, 2), 1)]);
}

#[test]
fn what_cannot_be_followed_is_said() {
    let refused = |text: &str| Manifest::parse(text, &url()).unwrap_err();
    assert_eq!(refused("<html/>"), "it is no manifest of DASH");
    assert!(refused("<MPD><Period/></MPD>").contains("no segments"));
    let live = NUMBERED.replace("availabilityStartTime", "x");
    assert!(refused(&live).contains("available"));
}

proptest! {
    #[test]
    fn a_changed_manifest_never_panics(at in 0usize..1400, with in ".{0,8}", seconds in any::<u32>()) {
        let at = (0..=at.min(NUMBERED.len())).rev().find(|at| NUMBERED.is_char_boundary(*at)).unwrap_or(0);
        let text = format!("{}{with}{}", &NUMBERED[..at], NUMBERED.get(at + 1..).unwrap_or_default());
        if let Ok(manifest) = Manifest::parse(&text, &url()) {
            let now = Utc::from_nanos(u64::from(seconds) * 1_000_000_000);
            for carries in [Carries::Pictures, Carries::Sound] {
                let listing = manifest.listing(carries, now);
                prop_assert!(listing.objects.len() <= 50_000);
                prop_assert!(listing.objects.windows(2).all(|pair| pair[0].timeline <= pair[1].timeline));
            }
        }
    }
}
