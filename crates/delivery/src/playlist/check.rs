//! A strict reader of what is rendered, for tests: whatever a presentation is, its playlists keep the rules.

use super::names::Object;
use super::{Carried, Variant, dash, hls};
use crate::packager::{Availability, Presentation, RenditionName};
use std::collections::BTreeMap;

/// Renders all there is of a presentation, and checks it.
pub(crate) fn all(presentation: &Presentation) {
    let carried = Carried::of(Some("token=a%20b"));
    let options = hls::MediaOptions { carried: carried.clone(), ..hls::MediaOptions::default() };
    for rendition in presentation.renditions() {
        let name = rendition.name();
        let Some(full) = hls::media(presentation, name, &options) else { continue };
        let whole = Playlist::parse(&full);
        whole.check(presentation);
        let delta =
            hls::media(presentation, name, &hls::MediaOptions { skip: true, ..options.clone() }).unwrap();
        let delta = Playlist::parse(&delta);
        delta.check(presentation);
        assert_eq!(delta.sequence, whole.sequence);
        assert_eq!(delta.skipped + delta.segments.len() as u64, whole.segments.len() as u64);
        assert_eq!(delta.segments[..], whole.segments[delta.skipped as usize..]);
        assert_eq!(delta.parts, whole.parts);
        assert_eq!(delta.ranges, whole.ranges);
    }
    if let Some(text) = hls::multivariant(&[Variant::alone(presentation)], &carried) {
        multivariant(&text);
    }
    if let Some(text) = hls::iframes(presentation, &carried) {
        iframes(&text, presentation);
    }
    for addressing in [dash::Addressing::Number, dash::Addressing::Timeline] {
        let options = dash::Options { carried: carried.clone(), ..dash::Options::default() };
        if let Some(text) = dash::mpd(&[Variant::alone(presentation)], addressing, &options) {
            mpd(&text);
        }
    }
}

/// The attributes of a tag (RFC 8216 §4.2).
pub(super) fn attributes(list: &str) -> BTreeMap<&str, &str> {
    let (mut found, mut rest) = (BTreeMap::new(), list);
    while !rest.is_empty() {
        let (name, behind) = rest.split_once('=').expect("NAME=value");
        assert!(name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-'));
        let (value, behind) = match behind.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').expect("the quote's end"),
            None => behind.split_at(behind.find(',').unwrap_or(behind.len())),
        };
        assert!(found.insert(name, value).is_none(), "{name} once");
        rest = behind.strip_prefix(',').unwrap_or(behind);
        assert!(rest.is_empty() || behind.starts_with(','), "{list}");
    }
    found
}

/// The object behind an address that carries the viewer's query.
fn object(uri: &str) -> Object {
    let (path, query) = uri.split_once('?').expect("the viewer's query");
    assert!(query == "token=a+b" || query.starts_with("token=a+b&from=") && path.ends_with(".m3u8"), "{uri}");
    // What is recorded lies below its recording.
    let path = match path.strip_prefix("archive/") {
        Some(rest) => rest.split_once('/').expect("a recording").1,
        None => path,
    };
    path.parse().unwrap_or_else(|_| panic!("{path}"))
}

fn micros(text: &str) -> u64 {
    let (whole, decimals) = text.split_once('.').expect("a decimal");
    assert_eq!(decimals.len(), 6);
    whole.parse::<u64>().unwrap() * 1_000_000 + decimals.parse::<u64>().unwrap()
}

/// A media playlist, as it was read.
#[derive(Debug, Default)]
struct Playlist {
    ranges: Vec<BTreeMap<String, String>>,
    target: u64,
    part_target: u64,
    sequence: u64,
    discontinuity: u64,
    skipped: u64,
    hold_back: u64,
    /// Object, duration, whether a gap.
    segments: Vec<(Object, u64, bool)>,
    /// Object and duration.
    parts: Vec<(Object, u64)>,
    /// How many segments are complete when a part stands: its segment's number.
    part_segments: Vec<u64>,
    hint: Option<Object>,
    reports: Vec<(Object, u64, u64)>,
    ended: bool,
    maps: usize,
    discontinuities: usize,
    kind: String,
}

impl Playlist {
    fn parse(text: &str) -> Playlist {
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("#EXTM3U"));
        assert!(text.ends_with('\n'));
        let mut playlist = Playlist::default();
        let (mut extinf, mut gap, mut has_map, mut dated) = (None, false, false, false);
        for line in lines {
            if !line.starts_with('#') {
                assert!((has_map || gap) && dated, "a header and a date before a segment");
                let duration = extinf.take().expect("EXTINF before a segment");
                playlist.segments.push((object(line), duration, std::mem::take(&mut gap)));
                dated = false;
                continue;
            }
            let (tag, value) = line.split_once(':').unwrap_or((line, ""));
            match tag {
                "#EXTINF" => extinf = Some(micros(value.strip_suffix(',').unwrap())),
                "#EXT-X-GAP" => gap = true,
                "#EXT-X-MAP" => {
                    assert!(matches!(object(attributes(value)["URI"]), Object::Init { .. }));
                    (has_map, playlist.maps) = (true, playlist.maps + 1);
                }
                "#EXT-X-PROGRAM-DATE-TIME" => {
                    assert!(value.len() == 24 && value.ends_with('Z') && !dated, "{value}");
                    dated = true;
                }
                "#EXT-X-DISCONTINUITY" => {
                    (has_map, playlist.discontinuities) = (false, playlist.discontinuities + 1);
                }
                _ => playlist.tag(tag, value, dated && has_map),
            }
        }
        playlist
    }

    fn tag(&mut self, tag: &str, value: &str, in_segment: bool) {
        let number = || value.parse::<u64>().unwrap();
        match tag {
            "#EXT-X-VERSION" => assert_eq!(value, "9"),
            "#EXT-X-TARGETDURATION" => self.target = number() * 1_000_000,
            "#EXT-X-MEDIA-SEQUENCE" => self.sequence = number(),
            "#EXT-X-DISCONTINUITY-SEQUENCE" => self.discontinuity = number(),
            "#EXT-X-PART-INF" => self.part_target = micros(attributes(value)["PART-TARGET"]),
            "#EXT-X-SERVER-CONTROL" => {
                let control = attributes(value);
                assert_eq!(control["CAN-BLOCK-RELOAD"], "YES");
                self.hold_back = micros(control["PART-HOLD-BACK"]);
                assert!(micros(control["CAN-SKIP-UNTIL"]) >= 6 * self.target);
                assert!(micros(control["HOLD-BACK"]) >= 3 * self.target);
            }
            "#EXT-X-SKIP" => {
                assert!(self.segments.is_empty() && self.parts.is_empty() && self.maps == 0);
                self.skipped = attributes(value)["SKIPPED-SEGMENTS"].parse().unwrap();
            }
            "#EXT-X-PART" => {
                assert!(in_segment, "a header and a date before a part");
                let part = attributes(value);
                self.parts.push((object(part["URI"]), micros(part["DURATION"])));
                self.part_segments.push(self.sequence + self.skipped + self.segments.len() as u64);
            }
            "#EXT-X-PRELOAD-HINT" => {
                let hint = attributes(value);
                assert_eq!(hint["TYPE"], "PART");
                self.hint = Some(object(hint["URI"]));
            }
            "#EXT-X-RENDITION-REPORT" => {
                let report = attributes(value);
                let number = |name: &str| report[name].parse::<u64>().unwrap();
                self.reports.push((object(report["URI"]), number("LAST-MSN"), number("LAST-PART")));
            }
            "#EXT-X-DATERANGE" => {
                let range = attributes(value);
                assert!(!range["ID"].is_empty() && range["START-DATE"].ends_with('Z'), "{value}");
                let told = ["SCTE35-OUT", "SCTE35-IN", "SCTE35-CMD"].map(|name| range.get(name));
                assert_eq!(told.iter().flatten().filter(|told| told.starts_with("0x")).count(), 1, "{value}");
                for name in ["DURATION", "PLANNED-DURATION"] {
                    assert!(
                        range.get(name).is_none_or(|told| told.parse::<f64>().unwrap() >= 0.0),
                        "{value}"
                    );
                }
                // All tags of one name agree in what they have in common.
                let own: BTreeMap<_, _> =
                    range.iter().map(|(name, told)| ((*name).to_owned(), (*told).to_owned())).collect();
                for (name, told) in self.ranges.iter().filter(|other| other["ID"] == range["ID"]).flatten() {
                    assert!(own.get(name).is_none_or(|own| own == told), "{value}");
                }
                self.ranges.push(own);
            }
            "#EXT-X-ENDLIST" => self.ended = true,
            "#EXT-X-PLAYLIST-TYPE" => value.clone_into(&mut self.kind),
            "#EXT-X-START" => {
                let start = attributes(value);
                assert_eq!(start["PRECISE"], "YES");
                micros(start["TIME-OFFSET"]);
            }
            other => panic!("{other} is no tag of a media playlist"),
        }
    }

    fn check(&self, presentation: &Presentation) {
        assert!(self.part_target > 0 && self.hold_back == 5 * self.part_target / 2);
        for ((object, duration, gap), number) in self.segments.iter().zip(self.sequence + self.skipped..) {
            assert!(
                (duration + 500_000) / 1_000_000 * 1_000_000 <= self.target,
                "{duration} in {}",
                self.target
            );
            assert!(
                matches!(object, Object::Segment { segment, .. } if *segment == number),
                "{object} {number}"
            );
            let expected = if *gap { Availability::Unknown } else { Availability::Exists };
            assert_eq!(presentation.availability(*object), expected);
        }
        let mut expected = None;
        for ((object, duration), number) in self.parts.iter().zip(&self.part_segments) {
            assert!(*duration <= self.part_target, "{duration} > {}", self.part_target);
            assert_eq!(presentation.availability(*object), Availability::Exists);
            let Object::Part { segment, part, .. } = *object else { panic!("{object}") };
            assert_eq!(segment, *number);
            if let Some(expected) = expected {
                assert!((segment, part) == expected || (segment > expected.0 && part == 0), "{object}");
            }
            expected = Some((segment, part + 1));
        }
        assert_eq!(self.ended, presentation.is_ended());
        assert_eq!(self.hint.is_none(), self.ended);
        if let Some(hint) = self.hint {
            let Object::Part { rendition, segment, part } = hint else { panic!("{hint}") };
            let position = presentation.rendition(rendition).unwrap().position();
            let last = self.sequence + self.skipped + self.segments.len() as u64;
            assert!(position.segment == last || self.segments.is_empty(), "{position:?} {last}");
            assert!((segment, part) == (position.segment, position.part) || (segment, part) == (last + 1, 0));
        }
        for (object, ..) in &self.reports {
            assert!(matches!(object, Object::Media(_)));
        }
    }
}

/// The media playlist of what was recorded. Returns how many segments and discontinuities it has, which are the same in the lists
/// of all renditions.
pub(crate) fn recorded(text: &str) -> (usize, usize) {
    let playlist = Playlist::parse(text);
    assert_eq!((playlist.sequence, playlist.discontinuity), (0, 0), "nothing ever leaves the list");
    assert!(playlist.parts.is_empty() && playlist.hint.is_none() && playlist.skipped == 0);
    assert!(playlist.kind == "EVENT" || playlist.ended && playlist.kind == "VOD");
    for (object, duration, _) in &playlist.segments {
        assert!((duration + 500_000) / 1_000_000 * 1_000_000 <= playlist.target, "{duration}");
        assert!(matches!(object, Object::Segment { .. }));
    }
    let dates: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("#EXT-X-PROGRAM-DATE-TIME:")).collect();
    assert!(dates.is_sorted(), "{dates:?}");
    (playlist.segments.len(), playlist.discontinuities)
}

pub(crate) fn multivariant(text: &str) {
    let mut lines = text.lines();
    assert_eq!((lines.next(), lines.next()), (Some("#EXTM3U"), Some("#EXT-X-VERSION:9")));
    let mut streams = 0;
    while let Some(line) = lines.next() {
        let (tag, value) = line.split_once(':').unwrap();
        let values = attributes(value);
        match tag {
            "#EXT-X-MEDIA" => {
                assert!(matches!(object(values["URI"]), Object::Media(RenditionName::Audio(_))));
            }
            "#EXT-X-STREAM-INF" => {
                streams += 1;
                let rate = |name: &str| values[name].parse::<u64>().unwrap();
                assert!(rate("BANDWIDTH") >= rate("AVERAGE-BANDWIDTH") && rate("AVERAGE-BANDWIDTH") > 0);
                assert!(!values["CODECS"].is_empty());
                assert!(matches!(object(lines.next().unwrap()), Object::Media(_)));
            }
            "#EXT-X-I-FRAME-STREAM-INF" => assert_eq!(object(values["URI"]), Object::IFrames),
            other => panic!("{other}"),
        }
    }
    assert_eq!(streams, 1);
}

fn iframes(text: &str, presentation: &Presentation) {
    assert!(text.contains("\n#EXT-X-I-FRAMES-ONLY\n"));
    let target = presentation.target_duration_secs() * 1_000_000;
    let ranges = text.lines().filter_map(|line| line.strip_prefix("#EXT-X-BYTERANGE:"));
    let uris = text.lines().filter(|line| !line.starts_with('#'));
    for (range, uri) in ranges.zip(uris) {
        let Object::Segment { rendition, segment } = object(uri) else { panic!("{uri}") };
        let size = presentation.rendition(rendition).unwrap().segment(segment).unwrap().size_bytes;
        let (length, offset) = range.split_once('@').unwrap();
        assert!(length.parse::<u64>().unwrap() + offset.parse::<u64>().unwrap() <= size);
    }
    for duration in text.lines().filter_map(|line| line.strip_prefix("#EXTINF:")) {
        assert!((micros(duration.strip_suffix(',').unwrap()) + 500_000) / 1_000_000 * 1_000_000 <= target);
    }
}

/// What is well-formed, and has times that follow each other.
pub(crate) fn mpd(text: &str) {
    glassline_test_support::xml::texts(text.split_once('\n').unwrap().1).unwrap();
    assert!(text.matches("<Period ").count() > 0);
    assert!(text.matches("?token=a+b").count() >= 2);
    let ids: Vec<_> = text.split("<Period id=\"").skip(1).map(|rest| rest.split('"').next()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    for timeline in text.split("<SegmentTimeline>").skip(1) {
        let timeline = timeline.split("</SegmentTimeline>").next().unwrap();
        let mut end = 0u64;
        for entry in timeline.split("<S ").skip(1) {
            let value = |name: &str| {
                let at =
                    entry.split_once(&format!("{name}=\"")).map(|(_, rest)| rest.split('"').next().unwrap());
                at.map(|digits| digits.parse::<u64>().unwrap())
            };
            let (start, length, repeats) =
                (value("t").unwrap(), value(" d").unwrap(), value("r").unwrap_or(0));
            assert!(start >= end, "{timeline}");
            end = start + length * (repeats + 1);
        }
    }
}
