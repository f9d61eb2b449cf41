//! What is put at an address, and which header a segment belongs to, as far as names tell.

/// The longest path behind a stream's name.
pub const PATH_MAX_BYTES: usize = 256;

/// What is put at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A manifest or playlist: this server makes its own, and has no use for it.
    Manifest,
    /// A track's header, segments of it, or both.
    Track,
}

impl Target {
    /// What is put at `/live/NAME/PATH`, by the end of `PATH`; `None` where that is no path.
    pub fn of(path: &str) -> Option<Target> {
        if path.is_empty() || path.len() > PATH_MAX_BYTES {
            return None;
        }
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        let is_manifest = ["mpd", "m3u8"].iter().any(|known| extension.eq_ignore_ascii_case(known));
        Some(if is_manifest { Target::Manifest } else { Target::Track })
    }
}

/// How well the names of a header and of a segment fit. The best one of all headers is the segment's.
///
/// `Streams(video.cmfv)` is named again by its segments; FFmpeg writes `init-stream0.m4s` and `chunk-stream0-00001.m4s`,
/// others `video/init.mp4` and `video/1.m4s`. So a folder in common counts most, then the words that are in both names; of a
/// segment's words the last number is its own.
pub(super) fn likeness(header: &str, segment: &str) -> i32 {
    if header == segment {
        return i32::MAX;
    }
    let ((header_folder, header), (segment_folder, segment)) = (split(header), split(segment));
    let mut left = track_words(segment);
    let mut score = if header_folder == segment_folder { 1000 } else { 0 };
    for word in words(header).iter().filter(|word| !is_common(word)) {
        match left.iter().position(|other| other == word) {
            Some(at) => {
                left.remove(at);
                score = i32::saturating_add(score, 2);
            }
            None => score = score.saturating_sub(1),
        }
    }
    score
}

/// Whether all that a header is named is in a segment's name too, so that no other header can fit better by its words.
pub(super) fn fits(header: &str, segment: &str) -> bool {
    let ((header_folder, header_name), (segment_folder, segment_name)) = (split(header), split(segment));
    let theirs = track_words(segment_name);
    header == segment
        || header_folder == segment_folder
            && words(header_name).iter().all(|word| is_common(word) || theirs.contains(word))
}

/// Folder, and name without its extension.
fn split(path: &str) -> (&str, &str) {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    (folder, name.rsplit_once('.').map_or(name, |(name, _)| name))
}

/// The words of a segment's name without its own number.
fn track_words(segment: &str) -> Vec<String> {
    let mut words = words(segment);
    if let Some(number) = words.iter().rposition(|word| is_number(word)) {
        words.remove(number);
    }
    words
}

/// What all headers are called, whatever is in them.
fn is_common(word: &str) -> bool {
    ["init", "header", "initialization", "initialisation"].contains(&word)
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Runs of letters and of digits, in lower case, numbers without zeros in front.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = None;
    for letter in name.chars() {
        let kind = match letter {
            '0'..='9' => Some(true),
            _ if letter.is_alphabetic() => Some(false),
            _ => None,
        };
        match (kind, words.last_mut()) {
            (None, _) => {}
            (Some(_), Some(word)) if kind == before => word.extend(letter.to_lowercase()),
            (Some(_), _) => words.push(letter.to_lowercase().collect()),
        }
        before = kind;
    }
    for word in words.iter_mut().filter(|word| is_number(word)) {
        let digits = word.trim_start_matches('0');
        *word = if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_told_from_tracks() {
        assert_eq!(Target::of("manifest.mpd"), Some(Target::Manifest));
        assert_eq!(Target::of("a/Index.M3U8"), Some(Target::Manifest));
        for track in ["Streams(video.cmfv)", "video.cmfa", "init-stream0.m4s", "x", "a.mpd/b"] {
            assert_eq!(Target::of(track), Some(Target::Track), "{track}");
        }
        assert_eq!(Target::of(""), None);
        assert_eq!(Target::of(&"x".repeat(257)), None);
    }

    #[test]
    fn a_segment_is_most_like_its_own_header() {
        let cases: [(&[&str], &str, &str); 11] = [
            (&["init-stream0.m4s", "init-stream1.m4s"], "chunk-stream1-00001.m4s", "init-stream1.m4s"),
            (&["init-stream0.m4s", "init-stream1.m4s"], "chunk-stream0-00001.m4s", "init-stream0.m4s"),
            (&["init_0.mp4", "init_1.mp4"], "seg_0_1.m4s", "init_0.mp4"),
            (&["init_0.mp4", "init_1.mp4"], "stream0_00001.m4s", "init_0.mp4"),
            (&["video/init.mp4", "audio/init.mp4"], "audio/7.m4s", "audio/init.mp4"),
            (&["video/init.mp4", "audio/init.mp4"], "video/0.m4s", "video/init.mp4"),
            (&["video-init.mp4", "audio-init.mp4"], "audio-12.m4s", "audio-init.mp4"),
            (&["init.mp4"], "index0.m4s", "init.mp4"),
            (&["init.mp4", "init-audio.mp4"], "1.m4s", "init.mp4"),
            (&["Streams(v.cmfv)", "Streams(a.cmfa)"], "Streams(v.cmfv)", "Streams(v.cmfv)"),
            (&["720p/Init.mp4", "360p/Init.mp4"], "360p/720.m4s", "360p/Init.mp4"),
        ];
        for (headers, segment, expected) in cases {
            let best = headers.iter().max_by_key(|header| likeness(header, segment));
            assert_eq!(best, Some(&expected), "{segment}");
            let score = likeness(expected, segment);
            let alike = headers.iter().filter(|header| likeness(header, segment) == score);
            assert_eq!(alike.count(), 1, "{segment} is like one of them alone");
            assert!(fits(expected, segment), "{segment}");
        }
    }

    #[test]
    fn a_header_of_another_track_does_not_fit() {
        assert!(!fits("init-stream1.m4s", "chunk-stream0-00001.m4s"));
        assert!(!fits("audio/init.mp4", "video/0.m4s"));
        assert!(!fits("Streams(a.cmfa)", "Streams(v.cmfv)"));
    }

    #[test]
    fn names_that_say_nothing_are_alike() {
        assert_eq!(likeness("init_0.mp4", "out_00.m4s"), likeness("init_1.mp4", "out_00.m4s"));
        assert_eq!(words("Chunk-Stream0-00012é"), ["chunk", "stream", "0", "12", "é"]);
    }
}
