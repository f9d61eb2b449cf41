//! What a request is for, by its address.

/// What of a presentation an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A playlist of HLS, a manifest of DASH.
    Playlist,
    /// The header of a rendition.
    Init,
    /// A segment.
    Segment,
    /// A part of one.
    Part,
    /// Anything else.
    Other,
}

/// How names of files with media end.
const MEDIA: [&str; 8] = ["m4s", "mp4", "ts", "m4v", "m4a", "cmfv", "cmfa", "aac"];

impl ObjectKind {
    /// All of them.
    pub const ALL: [ObjectKind; 5] =
        [ObjectKind::Playlist, ObjectKind::Init, ObjectKind::Segment, ObjectKind::Part, ObjectKind::Other];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            ObjectKind::Playlist => "playlist",
            ObjectKind::Init => "init",
            ObjectKind::Segment => "segment",
            ObjectKind::Part => "part",
            ObjectKind::Other => "other",
        }
    }

    /// What is at `path`: by its last name alone, as ours and those of other packagers are written. Allocates nothing.
    pub fn of(path: &str) -> ObjectKind {
        let file = path.rsplit('/').next().unwrap_or_default();
        let Some((stem, extension)) = file.rsplit_once('.') else { return ObjectKind::Other };
        let is = |known: &&str| extension.eq_ignore_ascii_case(known);
        if ["m3u8", "mpd"].iter().any(is) {
            ObjectKind::Playlist
        } else if !MEDIA.iter().any(is) {
            ObjectKind::Other
        } else if has_init(stem) {
            ObjectKind::Init
        } else if has_part(stem) {
            ObjectKind::Part
        } else {
            ObjectKind::Segment
        }
    }
}

/// `init-3`, `init-stream0`, `video_init`.
fn has_init(stem: &str) -> bool {
    let (bytes, word) = (stem.as_bytes(), b"init");
    bytes.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
        || bytes.len().checked_sub(word.len()).is_some_and(|at| bytes[at..].eq_ignore_ascii_case(word))
}

/// `17.3`, `filePart271.1`, `seg5_part_2`.
fn has_part(stem: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if stem.split_once('.').is_some_and(|(segment, part)| is_number(segment) && is_number(part)) {
        return true;
    }
    // The word, perhaps a sign, and a digit.
    stem.as_bytes().windows(6).any(|six| {
        six[..4].eq_ignore_ascii_case(b"part")
            && (six[4].is_ascii_digit() || (b"._-".contains(&six[4]) && six[5].is_ascii_digit()))
    }) || stem
        .as_bytes()
        .last_chunk::<5>()
        .is_some_and(|five| five[..4].eq_ignore_ascii_case(b"part") && five[4].is_ascii_digit())
}

/// Whether a playlist that is asked for with `query` is to have something that may not be made yet: a blocking reload
/// (draft-pantos-hls-rfc8216bis §6.2.5.2).
pub(super) fn is_blocking_reload(query: &str) -> bool {
    query.split('&').any(|pair| pair.starts_with("_HLS_msn="))
}

/// The NAME of `/live/NAME/…`.
pub(super) fn presentation_name(path: &str) -> Option<&str> {
    path.strip_prefix("/live/")?.split_once('/').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_names_of_ours_and_of_others() {
        for (kind, paths) in [
            (ObjectKind::Playlist, &["/live/a/index.m3u8", "/a.MPD"][..]),
            (ObjectKind::Init, &["/live/a/video/init-1700.mp4", "/x/init-stream0.m4s", "/a_init.mp4"]),
            (
                ObjectKind::Segment,
                &["/live/a/video/12.m4s", "/live/a/ts/7.ts", "/party-000.m4s", "/chunk-1.2-x.m4s"],
            ),
            (
                ObjectKind::Part,
                &["/live/a/video/12.3.m4s", "/filePart271.1.mp4", "/s5_part_2.m4s", "/s5_part7.mp4"],
            ),
            (ObjectKind::Other, &["/", "", "/key", "/a/init", "/logo.png", "/.", "/a/b.m4s/c"]),
        ] {
            for path in paths {
                assert_eq!(ObjectKind::of(path), kind, "{path}");
            }
        }
    }

    #[test]
    fn a_reload_blocks_where_it_names_a_segment() {
        assert!(is_blocking_reload("_HLS_msn=5") && is_blocking_reload("token=x&_HLS_msn=5&_HLS_part=1"));
        assert!(!is_blocking_reload("") && !is_blocking_reload("x_HLS_msn=5&_HLS_skip=YES"));
    }

    #[test]
    fn names_are_those_of_presentations() {
        assert_eq!(presentation_name("/live/a/video/1.m4s"), Some("a"));
        for path in ["/live/a.ts", "/live/", "/a/1.m4s", "live/a/b"] {
            assert_eq!(presentation_name(path), None, "{path}");
        }
    }
}
