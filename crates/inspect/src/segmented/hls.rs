//! HLS playlists, as much of them as is needed to follow the live edge (RFC 8216, and its second edition for low latency).
//! What is not understood is passed over.

use super::text::{attribute_of_list as attribute, seconds};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a resource: the first one, and how many.
pub type ByteRange = (u64, u64);

/// A part, or a segment of a playlist without parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Media sequence number of its segment, and its place in it.
    pub id: (u64, u64),
    /// Relative to the playlist.
    pub uri: String,
    /// The bytes of it; `None`: all.
    pub range: Option<ByteRange>,
    /// How long it lasts, as the playlist says.
    pub duration: Duration,
    /// Decoding can begin with it.
    pub is_independent: bool,
    /// The server says that it has not got it (`GAP`).
    pub is_gap: bool,
    /// How many breaks were announced before it (`EXT-X-DISCONTINUITY`).
    pub discontinuity: u64,
    /// The initialisation segment that holds for it.
    pub init: Option<Arc<Init>>,
}

/// An initialisation segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// Relative to the playlist.
    pub uri: String,
    /// The bytes of it; `None`: all.
    pub range: Option<ByteRange>,
}

/// A media playlist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// The initialisation segment of what came last.
    pub init: Option<String>,
    /// Parts where there are any, else segments; in order.
    pub items: Vec<Item>,
    /// The part that comes next, which may be asked for already.
    pub hint: Option<Item>,
    /// What a blocking reload waits for: sequence number, and part where there are parts.
    pub next: (u64, Option<u64>),
    /// The server can wait with its answer.
    pub can_block: bool,
    /// A segment's longest duration.
    pub target: Duration,
    /// A part's longest duration, where there are parts.
    pub part_target: Option<Duration>,
    /// Nothing comes any more.
    pub has_ended: bool,
    /// What is listed is encrypted (`EXT-X-KEY`).
    pub is_encrypted: bool,
}

/// One of the versions of a multivariant playlist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Its media playlist.
    pub uri: String,
    /// Bits a second, as the playlist says.
    pub bandwidth_bps: u64,
    /// Width and height, as they are written (`1280x720`).
    pub resolution: Option<String>,
    /// Its sound where that is apart: name and media playlist of the group's default, or of its first.
    pub sound: Option<(String, String)>,
}

/// What a playlist is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Playlist {
    /// The versions that there are; at least one.
    Multivariant(Vec<Variant>),
    /// Segments.
    Media(Media),
}

/// Items of a playlist that are kept where more is to come; before these nothing at the live edge has any business.
const ITEMS: usize = 500;
/// Items of a playlist that has ended: half a day of segments.
const ITEMS_OF_RECORDING: usize = 20_000;
/// Versions that are kept.
const VARIANTS: usize = 200;

impl Playlist {
    /// Reads a playlist; `None` where it is none.
    pub fn parse(text: &str) -> Option<Playlist> {
        let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        if lines.next() != Some("#EXTM3U") {
            return None;
        }
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        if lines.iter().any(|line| line.starts_with("#EXT-X-STREAM-INF:")) {
            return Some(multivariant(&lines))
                .filter(|variants| !variants.is_empty())
                .map(Playlist::Multivariant);
        }
        lines
            .iter()
            .any(|line| line.starts_with("#EXT-X-TARGETDURATION:"))
            .then(|| Playlist::Media(media(&lines)))
    }
}

fn multivariant(lines: &[&str]) -> Vec<Variant> {
    let sound_of = |group: &str| {
        let of_group = || {
            lines.iter().filter(|line| line.starts_with("#EXT-X-MEDIA:")).filter(|line| {
                attribute(line, "TYPE") == Some("AUDIO") && attribute(line, "GROUP-ID") == Some(group)
            })
        };
        let default = of_group().find(|line| attribute(line, "DEFAULT") == Some("YES"));
        // One without a playlist of its own is in that of the pictures.
        let line = default.or_else(|| of_group().find(|line| attribute(line, "URI").is_some()))?;
        let uri = attribute(line, "URI")?.to_owned();
        Some((attribute(line, "NAME").unwrap_or(group).to_owned(), uri))
    };
    let mut variants = Vec::new();
    // The tag that the next address belongs to (RFC 8216 §4.3.4.2); one that another follows has none.
    let mut tag = None;
    for line in lines {
        if variants.len() >= VARIANTS {
            break;
        }
        if line.starts_with("#EXT-X-STREAM-INF:") {
            tag = Some(line);
        } else if !line.starts_with('#')
            && let Some(tag) = tag.take()
        {
            variants.push(Variant {
                uri: (*line).to_owned(),
                bandwidth_bps: attribute(tag, "BANDWIDTH").and_then(|text| text.parse().ok()).unwrap_or(0),
                resolution: attribute(tag, "RESOLUTION").map(str::to_owned),
                sound: attribute(tag, "AUDIO").and_then(sound_of),
            });
        }
    }
    variants
}

/// What is read of a media playlist, and what holds for the next line.
#[derive(Default)]
struct Lines {
    media: Media,
    segments: Vec<Item>,
    sequence: u64,
    part: u64,
    discontinuity: u64,
    init: Option<Arc<Init>>,
    duration: Duration,
    is_gap: bool,
    range: Option<ByteRange>,
    /// Where the range of the next segment, and of the next part, begins if it does not say.
    ends: [(String, u64); 2],
    hint: Option<String>,
}

fn media(lines: &[&str]) -> Media {
    let mut read = Lines::default();
    read.media.target = Duration::from_secs(6);
    for line in lines {
        let (tag, value) = line.split_once(':').unwrap_or((line, ""));
        read.take(line, tag, value);
    }
    let Lines { mut media, segments, sequence, part, hint, discontinuity, init, .. } = read;
    let has_parts = !media.items.is_empty() || hint.is_some();
    if !has_parts {
        media.items = segments;
    }
    let kept = if media.has_ended { ITEMS_OF_RECORDING } else { ITEMS };
    if media.has_ended {
        media.items.truncate(kept);
    } else {
        media.items.drain(..media.items.len().saturating_sub(kept));
    }
    media.next = (sequence, has_parts.then_some(part));
    media.hint = hint.map(|uri| Item { id: (sequence, part), uri, discontinuity, init, ..Item::default() });
    media
}

impl Lines {
    fn take(&mut self, line: &str, tag: &str, value: &str) {
        let media = &mut self.media;
        match tag {
            "#EXT-X-TARGETDURATION" => media.target = seconds(value).unwrap_or(media.target),
            // Both stand before the first segment (RFC 8216 §4.3.3.2): behind it, numbers would go back.
            "#EXT-X-MEDIA-SEQUENCE" if self.segments.is_empty() && media.items.is_empty() => {
                self.sequence = value.parse().unwrap_or(0);
            }
            "#EXT-X-DISCONTINUITY-SEQUENCE" if self.segments.is_empty() && media.items.is_empty() => {
                self.discontinuity = value.parse().unwrap_or(0);
            }
            "#EXT-X-DISCONTINUITY" => self.discontinuity = self.discontinuity.saturating_add(1),
            "#EXT-X-SKIP" => {
                let skipped = attribute(line, "SKIPPED-SEGMENTS").and_then(|count| count.parse().ok());
                self.sequence = self.sequence.saturating_add(skipped.unwrap_or(0));
            }
            "#EXT-X-SERVER-CONTROL" => media.can_block = attribute(line, "CAN-BLOCK-RELOAD") == Some("YES"),
            "#EXT-X-PART-INF" => media.part_target = attribute(line, "PART-TARGET").and_then(seconds),
            "#EXT-X-KEY" => media.is_encrypted = attribute(line, "METHOD") != Some("NONE"),
            "#EXT-X-MAP" => {
                media.init = attribute(line, "URI").map(str::to_owned);
                let range = attribute(line, "BYTERANGE").and_then(|text| byte_range(text, 0));
                self.init = media.init.clone().map(|uri| Arc::new(Init { uri, range }));
            }
            "#EXT-X-ENDLIST" => media.has_ended = true,
            "#EXTINF" => {
                self.duration = seconds(value.split(',').next().unwrap_or_default()).unwrap_or_default();
            }
            "#EXT-X-GAP" => self.is_gap = true,
            "#EXT-X-BYTERANGE" => {
                // Without an offset it follows the segment before, of which the address is known with the next line.
                let known = self.ends[0].1;
                self.range = byte_range(value, known);
            }
            "#EXT-X-PART" => self.take_part(line),
            "#EXT-X-PRELOAD-HINT" if attribute(line, "TYPE") == Some("PART") => {
                // Of a part of a file that grows, the end is not known before it is listed.
                let is_whole = attribute(line, "BYTERANGE-START").is_none();
                self.hint = attribute(line, "URI").filter(|_| is_whole).map(str::to_owned);
            }
            _ if line.starts_with('#') => {}
            _ => self.take_segment(line),
        }
    }

    fn take_part(&mut self, line: &str) {
        if let Some(uri) = attribute(line, "URI") {
            let from = if self.ends[1].0 == uri { self.ends[1].1 } else { 0 };
            let range = attribute(line, "BYTERANGE").and_then(|text| byte_range(text, from));
            self.ends[1] = (uri.to_owned(), range.map_or(0, |(from, count)| from.saturating_add(count)));
            self.media.items.push(Item {
                id: (self.sequence, self.part),
                uri: uri.to_owned(),
                range,
                duration: attribute(line, "DURATION").and_then(seconds).unwrap_or_default(),
                is_independent: attribute(line, "INDEPENDENT") == Some("YES"),
                is_gap: attribute(line, "GAP") == Some("YES"),
                discontinuity: self.discontinuity,
                init: self.init.clone(),
            });
        }
        self.part = self.part.saturating_add(1);
    }

    fn take_segment(&mut self, uri: &str) {
        let range = self.range.take();
        self.ends[0] = (uri.to_owned(), range.map_or(0, |(from, count)| from.saturating_add(count)));
        self.segments.push(Item {
            id: (self.sequence, 0),
            uri: uri.to_owned(),
            range,
            duration: std::mem::take(&mut self.duration),
            is_independent: true,
            is_gap: std::mem::take(&mut self.is_gap),
            discontinuity: self.discontinuity,
            init: self.init.clone(),
        });
        (self.sequence, self.part) = (self.sequence.saturating_add(1), 0);
    }
}

/// `n[@o]`: `n` bytes, from `o` on, or from `next` on where that is not said.
fn byte_range(text: &str, next: u64) -> Option<ByteRange> {
    let (count, from) =
        text.trim().split_once('@').map_or((text.trim(), None), |(count, from)| (count, Some(from)));
    let from = from.map_or(Some(next), |from| from.parse().ok())?;
    Some((from, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEDIA: &str = "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:2\n\
        #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=0.6\n#EXT-X-PART-INF:PART-TARGET=0.2\n\
        #EXT-X-MEDIA-SEQUENCE:7\n#EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:2.0,\nold.m4s\n\
        #EXT-X-PART:DURATION=0.2,URI=\"8.0.m4s\",INDEPENDENT=YES\n#EXT-X-PART:DURATION=0.2,URI=\"8.1.m4s\"\n\
        #EXTINF:2.0,\n8.m4s\n#EXT-X-PART:DURATION=0.2,URI=\"9.0.m4s\",INDEPENDENT=YES\n\
        #EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"9.1.m4s\"\n";

    fn item(id: (u64, u64), uri: &str, is_independent: bool, millis: u64) -> Item {
        let duration = Duration::from_millis(millis);
        Item { id, uri: uri.to_owned(), is_independent, duration, ..Item::default() }
    }

    fn parsed(text: &str) -> Media {
        let Some(Playlist::Media(media)) = Playlist::parse(text) else { panic!("{text}") };
        media
    }

    #[test]
    fn parts_and_the_next_one_are_found() {
        let media = parsed(MEDIA);
        let init = Some(Arc::new(Init { uri: "init.mp4".to_owned(), range: None }));
        let items = [
            item((8, 0), "8.0.m4s", true, 200),
            item((8, 1), "8.1.m4s", false, 200),
            item((9, 0), "9.0.m4s", true, 200),
        ]
        .map(|item| Item { init: init.clone(), ..item });
        assert_eq!((&media.items[..], media.next, media.can_block), (&items[..], (9, Some(1)), true));
        assert_eq!(
            (media.hint, media.init.as_deref()),
            (Some(Item { init, ..item((9, 1), "9.1.m4s", false, 0) }), Some("init.mp4"))
        );
        assert_eq!(
            (media.target, media.part_target),
            (Duration::from_secs(2), Some(Duration::from_millis(200)))
        );
    }

    #[test]
    fn a_playlist_without_parts_has_segments() {
        let media = parsed(
            "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:3\n#EXTINF:4,\na.ts\n#EXTINF:4,\nb.ts\n#EXT-X-ENDLIST\n",
        );
        assert_eq!(media.items, [item((3, 0), "a.ts", true, 4000), item((4, 0), "b.ts", true, 4000)]);
        assert!(media.has_ended && media.next == (5, None) && media.hint.is_none() && !media.is_encrypted);
    }

    #[test]
    fn numbers_that_stand_behind_segments_put_none_of_them_back() {
        let media = parsed(
            "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:30\n#EXTINF:4,\na.ts\n#EXT-X-MEDIA-SEQUENCE:3\n\
             #EXTINF:4,\nb.ts\n",
        );
        assert_eq!(media.items.iter().map(|item| item.id.0).collect::<Vec<_>>(), [30, 31]);
    }

    #[test]
    fn ranges_gaps_breaks_and_keys_are_told() {
        let media = parsed(
            "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-DISCONTINUITY-SEQUENCE:5\n#EXT-X-MAP:URI=\"all.mp4\",BYTERANGE=\"700@0\"\n\
             #EXTINF:4,\n#EXT-X-BYTERANGE:100@700\nall.mp4\n#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n#EXTINF:4,\n#EXT-X-BYTERANGE:50\nall.mp4\n\
             #EXT-X-DISCONTINUITY\n#EXT-X-GAP\n#EXTINF:4,\nc.mp4\n",
        );
        let told: Vec<_> =
            media.items.iter().map(|item| (item.range, item.is_gap, item.discontinuity)).collect();
        assert_eq!(told, [(Some((700, 100)), false, 5), (Some((800, 50)), false, 5), (None, true, 6)]);
        assert_eq!(media.items[0].init.as_ref().unwrap().range, Some((0, 700)));
        assert!(media.is_encrypted);
        let parts = parsed(
            "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-PART:DURATION=1,URI=\"a\",BYTERANGE=\"10@0\"\n\
             #EXT-X-PART:DURATION=1,URI=\"a\",BYTERANGE=\"20\"\n#EXT-X-PART:DURATION=1,URI=\"b\",BYTERANGE=\"5\",GAP=YES\n\
             #EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"a\",BYTERANGE-START=30\n",
        );
        let told: Vec<_> = parts.items.iter().map(|item| (item.range.unwrap(), item.is_gap)).collect();
        assert_eq!((told, parts.hint), (vec![((0, 10), false), ((10, 20), false), ((0, 5), true)], None));
    }

    #[test]
    fn variants_come_with_their_sound() {
        let text = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"x, y\",URI=\"audio.m3u8\"\n\
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"z\",DEFAULT=YES,URI=\"default.m3u8\"\n\
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"in\",NAME=\"z\",DEFAULT=YES\n\
            #EXT-X-STREAM-INF:BANDWIDTH=1,CODECS=\"avc1,opus\",AUDIO=\"a\"\nvideo.m3u8\n\
            #EXT-X-STREAM-INF:BANDWIDTH=2,RESOLUTION=1280x720,AUDIO=\"in\"\nother.m3u8\n";
        let Some(Playlist::Multivariant(variants)) = Playlist::parse(text) else { panic!() };
        let sound = Some(("z".to_owned(), "default.m3u8".to_owned()));
        let uri = |uri: &str| uri.to_owned();
        assert_eq!(
            variants,
            [
                Variant { uri: uri("video.m3u8"), bandwidth_bps: 1, resolution: None, sound },
                Variant {
                    uri: uri("other.m3u8"),
                    bandwidth_bps: 2,
                    resolution: Some(uri("1280x720")),
                    sound: None
                },
            ]
        );
        // The tag whose version is missing does not take the next one's address.
        let text =
            "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=9\n#EXT-X-STREAM-INF:BANDWIDTH=1\na.m3u8\nstray.m3u8\n";
        let only = Variant { uri: uri("a.m3u8"), bandwidth_bps: 1, ..Variant::default() };
        assert_eq!(Playlist::parse(text), Some(Playlist::Multivariant(vec![only])));
        let many = format!("#EXTM3U\n{}", "#EXT-X-STREAM-INF:BANDWIDTH=1\na\n".repeat(VARIANTS + 1));
        let Some(Playlist::Multivariant(variants)) = Playlist::parse(&many) else { panic!() };
        assert_eq!(variants.len(), VARIANTS);
        assert_eq!(Playlist::parse("<html>"), None);
        assert_eq!(Playlist::parse("#EXTM3U\n"), None);
        assert_eq!(Playlist::parse("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n"), None);
    }

    proptest! {
        #[test]
        fn any_lines_are_read(
            lines in proptest::collection::vec(
                "(#EXT-X-(PART|MAP|SKIP|MEDIA|STREAM-INF|PRELOAD-HINT|MEDIA-SEQUENCE|SERVER-CONTROL|BYTERANGE|KEY):)?[A-Z=\",0-9é.@-]{0,30}", 0..20),
        ) {
            let _ = Playlist::parse(&format!("#EXTM3U\n#EXT-X-TARGETDURATION:2\n{}", lines.join("\n")));
            let _ = Playlist::parse(&lines.join("\n"));
        }
    }
}
