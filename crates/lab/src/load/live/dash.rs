//! DASH manifests, as much of them as a viewer at the live edge needs (ISO/IEC 23009-1): segment templates by number of
//! the last period. What is not understood is passed over.

use glassline_inspect::segmented::text::{
    attribute_of_tag as attribute, parse_duration, parse_utc, unescaped,
};
use glassline_media::Utc;
use std::time::Duration;

/// Segments of one representation, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The initialisation segment, relative to the manifest.
    pub init: Option<String>,
    /// Segments, with `$Number$` in it.
    media: String,
    start_number: u64,
    segment: Duration,
    /// When the segment `start_number` begins.
    begin: Utc,
}

/// A manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The first representations of video and of sound.
    pub tracks: Vec<Template>,
    /// How soon it may say something else.
    pub update: Duration,
}

impl Template {
    /// The address of segment `number`.
    pub fn address(&self, number: u64) -> String {
        let Some((before, behind)) = self.media.split_once("$Number") else { return self.media.clone() };
        let (format, after) = behind.split_once('$').unwrap_or(("", behind));
        let width = format.strip_prefix("%0").and_then(|format| format.strip_suffix('d'));
        let width = width.and_then(|width| width.parse::<usize>().ok()).unwrap_or(0).min(20);
        format!("{before}{number:0width$}{after}")
    }

    /// The segment that grows at `now`.
    pub fn number_at(&self, now: Utc) -> u64 {
        let passed = u128::from(now.as_nanos().saturating_sub(self.begin.as_nanos()));
        let segments = u64::try_from(passed / self.segment.as_nanos().max(1)).unwrap_or(u64::MAX);
        self.start_number.saturating_add(segments)
    }

    /// When segment `number` begins.
    pub fn begin_of(&self, number: u64) -> Utc {
        let before = u128::from(number.saturating_sub(self.start_number)) * self.segment.as_nanos();
        let before = u64::try_from(before).unwrap_or(u64::MAX);
        Utc::from_nanos(self.begin.as_nanos().saturating_add(before))
    }
}

impl Manifest {
    /// Reads a manifest; `None` where it is none, or tells of no segments by number.
    pub fn parse(text: &str) -> Option<Manifest> {
        let mpd = tags(text).find(|tag| name(tag) == "MPD")?;
        let start = attribute(mpd, "availabilityStartTime").and_then(parse_utc)?;
        let update = attribute(mpd, "minimumUpdatePeriod").and_then(parse_duration);
        let period = text.rfind("<Period").and_then(|at| text.get(at..))?;
        let offset = tags(period).next().and_then(|tag| attribute(tag, "start")).and_then(parse_duration);
        let start =
            start.as_nanos().checked_add(u64::try_from(offset.unwrap_or_default().as_nanos()).ok()?)?;
        let sets: Vec<&str> = period.split("<AdaptationSet").skip(1).collect();
        let of = |kind: &str| sets.iter().find(|set| kind_of(set) == Some(kind));
        let found = [of("video"), of("audio")].into_iter().flatten();
        let tracks: Vec<Template> = found.filter_map(|set| template(set, Utc::from_nanos(start))).collect();
        let update = update.unwrap_or(Duration::from_secs(2)).max(Duration::from_secs(1));
        (!tracks.is_empty()).then_some(Manifest { tracks, update })
    }
}

/// Of an adaptation set, from behind its name on.
fn kind_of(set: &str) -> Option<&str> {
    let own = set.split('>').next()?;
    let inner =
        || tags(set).find(|tag| name(tag) == "Representation").and_then(|tag| attribute(tag, "mimeType"));
    let kind = attribute(own, "contentType").or_else(|| attribute(own, "mimeType")).or_else(inner)?;
    kind.split('/').next()
}

fn template(set: &str, begin: Utc) -> Option<Template> {
    let tag = tags(set).find(|tag| name(tag) == "SegmentTemplate")?;
    let representation = tags(set).find(|tag| name(tag) == "Representation");
    let id = representation.and_then(|tag| attribute(tag, "id")).unwrap_or_default();
    let number = |name| attribute(tag, name).and_then(|value| value.parse::<u64>().ok());
    let filled = |name| attribute(tag, name).map(|value| unescaped(value).replace("$RepresentationID$", id));
    let (duration, timescale) = (number("duration")?, number("timescale").unwrap_or(1));
    let nanos = u128::from(duration) * 1_000_000_000 / u128::from(timescale.max(1));
    let segment = Duration::from_nanos(u64::try_from(nanos).ok().filter(|nanos| *nanos > 0)?);
    let media = filled("media").filter(|media| media.contains("$Number"))?;
    Some(Template {
        init: filled("initialization"),
        media,
        start_number: number("startNumber").unwrap_or(1),
        segment,
        begin,
    })
}

/// All tags: what stands between `<` and `>`.
fn tags(text: &str) -> impl Iterator<Item = &str> {
    text.split('<').skip(1).filter_map(|tag| tag.split('>').next())
}

fn name(tag: &str) -> &str {
    tag.split(|letter: char| letter.is_whitespace() || letter == '/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MPD: &str = r#"<?xml version="1.0"?>
<MPD type="dynamic" availabilityStartTime="2026-11-24T12:46:28.112Z" minimumUpdatePeriod="PT2S">
 <Period id="1" start="PT10S">
  <AdaptationSet id="2" contentType="audio"><SegmentTemplate initialization="a/init.mp4" media="a/$Number%05d$.m4s?x=1&amp;y=2" timescale="48000" startNumber="7" duration="96000"/><Representation id="a"/></AdaptationSet>
  <AdaptationSet id="1" mimeType="video/mp4"><SegmentTemplate media="$RepresentationID$/$Number$.m4s" duration="2"/><Representation id="v" bandwidth="5"/></AdaptationSet>
 </Period>
</MPD>"#;

    #[test]
    fn numbers_follow_the_clock() {
        let manifest = Manifest::parse(MPD).unwrap();
        let [video, audio] = &manifest.tracks[..] else { panic!("{manifest:?}") };
        assert_eq!(
            (video.address(3).as_str(), audio.address(8).as_str()),
            ("v/3.m4s", "a/00008.m4s?x=1&y=2")
        );
        let start = parse_utc("2026-11-24T12:46:38.112Z").unwrap();
        assert_eq!((audio.number_at(start), video.number_at(start), audio.begin_of(7)), (7, 1, start));
        let later = Utc::from_nanos(start.as_nanos() + 4_100_000_000);
        assert_eq!((audio.number_at(later), video.number_at(later)), (9, 3));
        assert_eq!((audio.init.as_deref(), video.init.as_deref()), (Some("a/init.mp4"), None));
    }

    proptest! {
        #[test]
        fn a_changed_manifest_never_panics(at in 0usize..900, with in ".{0,8}", number in any::<u64>()) {
            let at = (0..=at.min(MPD.len())).rev().find(|at| MPD.is_char_boundary(*at)).unwrap_or(0);
            let text = format!("{}{with}{}", &MPD[..at], MPD.get(at + 1..).unwrap_or_default());
            if let Some(manifest) = Manifest::parse(&text) {
                for track in &manifest.tracks {
                    let (address, begin) = (track.address(number), track.begin_of(number));
                    prop_assert!(!address.is_empty() && track.number_at(begin) >= 1 || track.start_number == 0);
                }
            }
        }
    }
}
