//! Manifests of FFmpeg, of this program, and of others' kinds.

use super::super::follow::{Follower, Step};
use super::*;
use glassline_media::Time;
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
    assert_eq!(told, [((0, 1), 0), ((0, 2), 0), ((4000, 1), 4000), ((4000, 2), 4000)]);
}

#[test]
fn a_period_stays_the_same_when_an_older_one_leaves() {
    let set = r#"<AdaptationSet contentType="video"><SegmentTemplate media="$Number$" duration="2"/><Representation id="0"/></AdaptationSet>"#;
    let manifest = |starts: &[u64]| {
        let periods: String = starts
            .iter()
            .map(|start| format!(r#"<Period id="{start}" start="PT{start}S">{set}</Period>"#))
            .collect();
        let head = r#"<MPD type="dynamic" availabilityStartTime="2026-11-24T12:00:00Z">"#;
        Manifest::parse(&format!("{head}{periods}</MPD>"), &url()).unwrap()
    };
    let now = Time::from_millis(1000);
    let mut follower = Follower::default();
    let mut breaks = |starts: &[u64], utc: &str| {
        follower.update(manifest(starts).listing(Carries::Pictures, at(utc)), now);
        let mut breaks = 0;
        loop {
            match follower.next(now) {
                Step::Get(_) => follower.done(),
                Step::Init(init) => follower.has_init(init),
                Step::Break => breaks += 1,
                Step::Look(_) | Step::Wait(_) | Step::Over => return breaks,
            }
        }
    };
    assert_eq!(breaks(&[0, 4], "2026-11-24T12:00:06Z"), 0);
    assert_eq!(breaks(&[4], "2026-11-24T12:00:08Z"), 0, "the same period, now the first");
    assert_eq!(breaks(&[4, 8], "2026-11-24T12:00:10Z"), 1, "another one");
    assert_eq!(breaks(&[8, 12], "2026-11-24T12:00:14Z"), 1, "another one at the same place");
}

/// Two hundred periods of a hundred thousand segments, as 40 KB say them.
fn many(kind: &str, segments: &str) -> Manifest {
    let set = |carries: &str| {
        format!(
            r#"<AdaptationSet contentType="{carries}"><Representation>{segments}</Representation></AdaptationSet>"#
        )
    };
    let period = |number: u64| {
        let sets = set("video") + &set("audio");
        format!(r#"<Period start="PT{}S" duration="PT100S">{sets}</Period>"#, number * 100)
    };
    let periods: String = (0..PERIODS as u64).map(period).collect();
    let text = format!(r#"<MPD type="{kind}" availabilityStartTime="2026-11-24T12:00:00Z">{periods}</MPD>"#);
    Manifest::parse(&text, &url()).unwrap()
}

const TIMELINE: &str = r#"<SegmentTemplate timescale="1000" media="$Number$"><SegmentTimeline><S t="7" d="1"/><S d="1" r="99998"/></SegmentTimeline></SegmentTemplate>"#;
const BY_NUMBER: &str = r#"<SegmentTemplate timescale="1000" media="$Number$" duration="1"/>"#;

#[test]
fn what_a_manifest_repeats_is_held_in_bounds() {
    let later = at("2026-11-25T12:00:00Z");
    for (segments, last) in [(TIMELINE, 100_000u64), (BY_NUMBER, 100_000)] {
        for (kind, most) in [("static", OBJECTS), ("dynamic", LIVE_OBJECTS)] {
            let manifest = many(kind, segments);
            for carries in [Carries::Pictures, Carries::Sound] {
                let representations = || {
                    manifest.periods.iter().map(|period| (period, period.representation(carries).unwrap()))
                };
                let held: usize = representations().map(|(_, found)| found.segments.listed()).sum();
                assert!(held <= OBJECTS, "{held} of {kind}");
                for (period, found) in representations() {
                    let within = manifest.is_live.then_some(Duration::from_secs(100));
                    assert!(found.list(period, within, 7).len() <= 7, "a period takes more than is left");
                }
                let listing = manifest.listing(carries, later);
                assert_eq!(listing.objects.len(), most);
                let end = &listing.objects[most - 1];
                let (period, number) =
                    if manifest.is_live { (19_900_000, last) } else { (0, OBJECTS as u64) };
                assert_eq!((end.timeline, end.at.url.target()), (period, format!("/live/{number}").as_str()));
            }
        }
    }
}

#[test]
fn the_newest_are_taken_of_several_periods() {
    let timeline = r#"<SegmentTemplate media="$Number$" startNumber="5"><SegmentTimeline><S t="3" d="2" r="19"/></SegmentTimeline></SegmentTemplate>"#;
    let list = format!(
        r#"<SegmentList duration="2" startNumber="5">{}</SegmentList>"#,
        (5..25).map(|number| format!(r#"<SegmentURL media="{number}"/>"#)).collect::<String>()
    );
    for segments in [timeline, &list] {
        let listing = many("dynamic", segments).listing(Carries::Pictures, at("2026-11-25T12:00:00Z"));
        let told: Vec<_> = listing
            .objects
            .iter()
            .map(|object| (object.timeline, object.at.url.target().to_owned()))
            .collect();
        let expected = (197..200u64)
            .flat_map(|period| (5..25).map(move |number| (period * 100_000, format!("/live/{number}"))));
        assert_eq!(told, expected.skip(10).collect::<Vec<_>>());
        assert!(listing.objects.windows(2).all(|pair| pair[0].id < pair[1].id));
    }
    let recording = many("static", &list).listing(Carries::Pictures, Utc::from_nanos(0));
    assert_eq!((recording.objects.len(), recording.objects[25].id), (20 * PERIODS, (100_000, 10)));
}

#[test]
fn the_version_with_the_most_bits_that_can_be_followed_is_taken() {
    let version = |id: &str, bandwidth: u64, within: &str| {
        format!(r#"<Representation id="{id}" bandwidth="{bandwidth}">{within}</Representation>"#)
    };
    let template = r#"<SegmentTemplate media="$Number$" duration="2"/>"#;
    let set = |kind: &str, lang: &str, versions: &str| {
        format!(r#"<AdaptationSet contentType="{kind}" lang="{lang}">{versions}</AdaptationSet>"#)
    };
    let parsed = |sets: &str| {
        let text = format!(r#"<MPD mediaPresentationDuration="PT8S"><Period>{sets}</Period></MPD>"#);
        let manifest = Manifest::parse(&text, &url()).unwrap();
        [Carries::Pictures, Carries::Sound]
            .map(|carries| manifest.version(carries).map(|version| version.id.clone()))
    };
    let whole =
        [("a", 5), ("b", 9), ("c", 9)].map(|(id, bandwidth)| version(id, bandwidth, template)).concat();
    let bare = version("x", 10, "");
    let sets = [
        set("video", "de", &whole),
        set("video", "fr", &(version("v", 20, template) + &bare)),
        set(
            "video",
            "fr",
            &(version("t", 90, template) + r#"<EssentialProperty schemeIdUri="urn:x:trickmode"/>"#),
        ),
        set("audio", "en", &bare),
        set("audio", "fr", &(bare.clone() + &whole)),
        set("audio", "de", &version("s", 30, template)),
        set("audio", "fr", &version("z", 20, template)),
    ];
    assert_eq!(parsed(&sets.concat()), [Some("v".to_owned()), Some("z".to_owned())]);
    // As many that cannot be followed as the manifest likes are not all tried.
    let bare = set("video", "", &(bare.repeat(TRIED) + &whole));
    assert_eq!(parsed(&(bare + &set("audio", "", &whole))), [None, Some("b".to_owned())]);
}

#[test]
fn addresses_have_an_end() {
    let long = "x".repeat(ADDRESS_BYTES);
    for template in
        [format!("{long}$Number$"), format!("$RepresentationID${}", &long[20..]), "$Number%020d$".repeat(120)]
    {
        let text = format!(
            r#"<MPD mediaPresentationDuration="PT8S"><Period><BaseURL>{long}{long}/</BaseURL><AdaptationSet contentType="video"><SegmentTemplate media="{template}" duration="2"/>
            <Representation id="0123456789012345678901"/></AdaptationSet><AdaptationSet contentType="audio"><SegmentTemplate media="a" duration="2"/><Representation id="1"/></AdaptationSet></Period></MPD>"#
        );
        let manifest = Manifest::parse(&text, &url()).unwrap();
        assert_eq!(manifest.listing(Carries::Pictures, Utc::from_nanos(0)).objects, []);
        assert_eq!(names(&manifest.listing(Carries::Sound, Utc::from_nanos(0)))[0], "/live/a");
    }
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
                let most = if manifest.is_live() { LIVE_OBJECTS } else { OBJECTS };
                prop_assert!(listing.objects.len() <= most);
                prop_assert!(listing.objects.windows(2).all(|pair| pair[0].timeline <= pair[1].timeline));
            }
        }
    }
}
