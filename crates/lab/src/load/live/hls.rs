//! HLS playlists, as much of them as a viewer at the live edge needs (RFC 8216, and its second edition for low latency).
//! What is not understood is passed over.

use std::time::Duration;

/// A part, or a segment of a playlist without parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Media sequence number of its segment, and its place in it.
    pub id: (u64, u64),
    /// Relative to the playlist.
    pub uri: String,
    /// Decoding can begin with it.
    pub is_independent: bool,
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
    /// Nothing comes any more.
    pub has_ended: bool,
}

/// What a playlist is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Playlist {
    /// Media playlists of the first variant: its own, and that of its sound where that is apart.
    Multivariant(Vec<String>),
    /// Segments.
    Media(Media),
}

/// Items of a playlist that are kept; before these a viewer at the live edge has no business.
const ITEMS: usize = 500;

impl Playlist {
    /// Reads a playlist; `None` where it is none.
    pub fn parse(text: &str) -> Option<Playlist> {
        let mut lines = text.lines().map(str::trim);
        if lines.next() != Some("#EXTM3U") {
            return None;
        }
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        if lines.iter().any(|line| line.starts_with("#EXT-X-STREAM-INF:")) {
            return multivariant(&lines).map(Playlist::Multivariant);
        }
        lines
            .iter()
            .any(|line| line.starts_with("#EXT-X-TARGETDURATION:"))
            .then(|| Playlist::Media(media(&lines)))
    }
}

fn multivariant(lines: &[&str]) -> Option<Vec<String>> {
    let at = lines.iter().position(|line| line.starts_with("#EXT-X-STREAM-INF:"))?;
    let video = lines[at..].iter().find(|line| !line.starts_with('#'))?;
    let group = attribute(lines[at], "AUDIO");
    let sound = lines.iter().filter(|line| line.starts_with("#EXT-X-MEDIA:")).find_map(|line| {
        let is_its = attribute(line, "TYPE") == Some("AUDIO") && attribute(line, "GROUP-ID") == group;
        attribute(line, "URI").filter(|_| is_its && group.is_some())
    });
    Some([Some(*video), sound].into_iter().flatten().map(str::to_owned).collect())
}

fn media(lines: &[&str]) -> Media {
    let mut media = Media { target: Duration::from_secs(6), ..Media::default() };
    let (mut sequence, mut part, mut segments, mut hint) = (0u64, 0u64, Vec::new(), None);
    for line in lines {
        let (tag, value) = line.split_once(':').unwrap_or((line, ""));
        match tag {
            "#EXT-X-TARGETDURATION" => media.target = seconds(value).unwrap_or(media.target),
            "#EXT-X-MEDIA-SEQUENCE" => sequence = value.parse().unwrap_or(0),
            "#EXT-X-SKIP" => {
                let skipped = attribute(line, "SKIPPED-SEGMENTS").and_then(|count| count.parse().ok());
                sequence = sequence.saturating_add(skipped.unwrap_or(0));
            }
            "#EXT-X-SERVER-CONTROL" => media.can_block = attribute(line, "CAN-BLOCK-RELOAD") == Some("YES"),
            "#EXT-X-MAP" => media.init = attribute(line, "URI").map(str::to_owned),
            "#EXT-X-ENDLIST" => media.has_ended = true,
            "#EXT-X-PART" => {
                if let Some(uri) = attribute(line, "URI").filter(|_| attribute(line, "GAP") != Some("YES")) {
                    let is_independent = attribute(line, "INDEPENDENT") == Some("YES");
                    media.items.push(Item { id: (sequence, part), uri: uri.to_owned(), is_independent });
                }
                part += 1;
            }
            "#EXT-X-PRELOAD-HINT" if attribute(line, "TYPE") == Some("PART") => {
                hint = attribute(line, "URI").map(str::to_owned);
            }
            _ if line.starts_with('#') => {}
            _ => {
                segments.push(Item { id: (sequence, 0), uri: (*line).to_owned(), is_independent: true });
                (sequence, part) = (sequence.saturating_add(1), 0);
            }
        }
    }
    let has_parts = !media.items.is_empty() || hint.is_some();
    if !has_parts {
        media.items = segments;
    }
    media.items.drain(..media.items.len().saturating_sub(ITEMS));
    media.next = (sequence, has_parts.then_some(part));
    media.hint = hint.map(|uri| Item { id: (sequence, part), uri, is_independent: false });
    media
}

/// The value of an attribute, without its quotes. A quoted value may hold commas.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = line.split_once(':')?.1;
    loop {
        let (key, behind) = rest.split_once('=')?;
        let (value, behind) = match behind.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => behind.split_at_checked(behind.find(',').unwrap_or(behind.len()))?,
        };
        if key.trim() == name {
            return Some(value);
        }
        rest = behind.strip_prefix(',')?;
    }
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?)
        .ok()
        .filter(|time| *time < Duration::from_secs(3600))
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

    fn item(id: (u64, u64), uri: &str, is_independent: bool) -> Item {
        Item { id, uri: uri.to_owned(), is_independent }
    }

    #[test]
    fn parts_and_the_next_one_are_found() {
        let Some(Playlist::Media(media)) = Playlist::parse(MEDIA) else { panic!() };
        let items =
            [item((8, 0), "8.0.m4s", true), item((8, 1), "8.1.m4s", false), item((9, 0), "9.0.m4s", true)];
        assert_eq!((&media.items[..], media.next, media.can_block), (&items[..], (9, Some(1)), true));
        assert_eq!(
            (media.hint, media.init.as_deref()),
            (Some(item((9, 1), "9.1.m4s", false)), Some("init.mp4"))
        );
        assert_eq!(media.target, Duration::from_secs(2));
    }

    #[test]
    fn a_playlist_without_parts_has_segments() {
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:3\n#EXTINF:4,\na.ts\n#EXTINF:4,\nb.ts\n#EXT-X-ENDLIST\n";
        let Some(Playlist::Media(media)) = Playlist::parse(text) else { panic!() };
        assert_eq!(media.items, [item((3, 0), "a.ts", true), item((4, 0), "b.ts", true)]);
        assert!(media.has_ended && media.next == (5, None) && media.hint.is_none());
    }

    #[test]
    fn the_first_variant_comes_with_its_sound() {
        let text = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"x, y\",URI=\"audio.m3u8\"\n\
            #EXT-X-STREAM-INF:BANDWIDTH=1,CODECS=\"avc1,opus\",AUDIO=\"a\"\nvideo.m3u8\n\
            #EXT-X-STREAM-INF:BANDWIDTH=2\nother.m3u8\n";
        let expected = ["video.m3u8", "audio.m3u8"].map(str::to_owned).to_vec();
        assert_eq!(Playlist::parse(text), Some(Playlist::Multivariant(expected)));
        assert_eq!(Playlist::parse("<html>"), None);
        assert_eq!(Playlist::parse("#EXTM3U\n"), None);
    }

    proptest! {
        #[test]
        fn any_lines_are_read(
            lines in proptest::collection::vec(
                "(#EXT-X-(PART|MAP|SKIP|MEDIA|STREAM-INF|PRELOAD-HINT|MEDIA-SEQUENCE|SERVER-CONTROL):)?[A-Z=\",0-9é.-]{0,30}", 0..20),
        ) {
            let _ = Playlist::parse(&format!("#EXTM3U\n#EXT-X-TARGETDURATION:2\n{}", lines.join("\n")));
            let _ = Playlist::parse(&lines.join("\n"));
        }
    }
}
