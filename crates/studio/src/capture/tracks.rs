//! Which tracks of a film are taken: of pictures, never a cover; of sound, the one that the film says, or that was asked for.

use super::{Error, ParseError, Result};
use glassline_delivery::playlist::hls::language_of;
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A track that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Track {
    /// The n-th of its kind in the file, from 1.
    Number(usize),
    /// The one in this language: a tag of RFC 5646 or three letters of ISO 639, as `de`, `deu` or `ger`.
    Language(String),
}

impl FromStr for Track {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Track, ParseError> {
        let refused = || {
            ParseError(format!(
                "{text:?} is no track: write its number, from 1, or its language, as en or deu"
            ))
        };
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().filter(|number| *number > 0).map(Track::Number).ok_or_else(refused);
        }
        let is_tag = text.len() >= 2 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let starts = text.bytes().take(2).all(|byte| byte.is_ascii_alphabetic());
        if is_tag && starts { Ok(Track::Language(text.to_owned())) } else { Err(refused()) }
    }
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Track::Number(number) => write!(f, "number {number}"),
            Track::Language(language) => write!(f, "the language {language}"),
        }
    }
}

/// The tracks of a film that are asked for. Where none is, it is the one that the file marks as its default, or else the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracks {
    /// Of pictures.
    pub video: Option<Track>,
    /// Of sound.
    pub audio: Option<Track>,
}

impl Tracks {
    /// Whether none is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.video.is_none() && self.audio.is_none()
    }
}

/// A file that FFmpeg decodes, and which of its tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Film {
    /// Where it is.
    pub path: PathBuf,
    /// Which tracks are asked for.
    pub tracks: Tracks,
}

impl<T: Into<PathBuf>> From<T> for Film {
    fn from(path: T) -> Film {
        Film { path: path.into(), tracks: Tracks::default() }
    }
}

/// What tracks are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Video,
    Audio,
}

impl Kind {
    /// FFmpeg's word.
    fn name(self) -> &'static str {
        match self {
            Kind::Video => "video",
            Kind::Audio => "audio",
        }
    }
}

/// The entries that ffprobe is asked for; [`chosen`] reads them.
pub(super) const ENTRIES: &str = "stream=index,codec_type,codec_name,channels,width,height,start_time,pix_fmt,\
                                  color_space,color_transfer,color_primaries:stream_tags=language,title,timecode:\
                                  stream_disposition=default,attached_pic,timed_thumbnails";

/// The track of a kind that is taken, as ffprobe describes it; `None` where there is none. Several without a choice are logged.
///
/// # Errors
/// The one that is asked for is not there.
pub(super) fn chosen<'a>(
    report: &'a Value,
    kind: Kind,
    asked: Option<&Track>,
    name: &str,
) -> Result<Option<&'a Value>> {
    let all = tracks(report, kind);
    let found = match asked {
        None => default_of(&all, |_| true),
        Some(Track::Number(number)) => number.checked_sub(1).and_then(|index| all.get(index)).copied(),
        Some(Track::Language(language)) => {
            let wanted = primary(language);
            default_of(&all, |track| {
                track["tags"]["language"].as_str().is_some_and(|tag| primary(tag) == wanted)
            })
        }
    };
    let list = || {
        let described =
            all.iter().enumerate().map(|(index, track)| format!("{}: {}", index + 1, describe(track)));
        described.collect::<Vec<_>>().join("; ")
    };
    match (asked, found) {
        (Some(asked), None) => Err(Error::NoTrack {
            name: name.to_owned(),
            kind: kind.name(),
            asked: asked.to_string(),
            list: if all.is_empty() { "none".to_owned() } else { list() },
        }),
        (None, Some(found)) if all.len() > 1 => {
            let number =
                all.iter().position(|track| std::ptr::eq(*track, found)).map_or(0, |index| index + 1);
            let why = if is_default(found) { "the default" } else { "the first" };
            tracing::info!(
                "{name} has {} {} tracks ({}): {number} is taken, {why}",
                all.len(),
                kind.name(),
                list()
            );
            Ok(Some(found))
        }
        (_, found) => Ok(found),
    }
}

/// What there is of a film without pictures, for people.
pub(super) fn without_pictures(report: &Value) -> Option<&'static str> {
    let has_sound = !tracks(report, Kind::Audio).is_empty();
    let has_cover = streams(report).any(is_still);
    match (has_sound, has_cover) {
        _ if !tracks(report, Kind::Video).is_empty() => None,
        (true, true) => Some("sound and a cover"),
        (true, false) => Some("sound alone"),
        (false, true) => Some("a cover alone"),
        (false, false) => None,
    }
}

fn streams(report: &Value) -> impl Iterator<Item = &Value> {
    report["streams"].as_array().into_iter().flatten()
}

/// The time code of the film's first picture, as FFmpeg tells it: of the track of pictures, of a track of its own, of the file.
pub(super) fn time_code(report: &Value, video: Option<&Value>) -> Option<String> {
    let all = video.into_iter().chain(streams(report)).chain([&report["format"]]);
    all.filter_map(|of| of["tags"]["timecode"].as_str()).map(str::to_owned).next()
}

/// A cover, or thumbnails of a film: FFmpeg has them as video, too (its specifier `V` leaves them out).
fn is_still(stream: &Value) -> bool {
    let is = |disposition: &str| stream["disposition"][disposition] == 1;
    stream["codec_type"] == "video" && (is("attached_pic") || is("timed_thumbnails"))
}

fn tracks(report: &Value, kind: Kind) -> Vec<&Value> {
    streams(report).filter(|stream| stream["codec_type"] == kind.name() && !is_still(stream)).collect()
}

fn is_default(track: &Value) -> bool {
    track["disposition"]["default"] == 1
}

fn default_of<'a>(all: &[&'a Value], is_meant: impl Fn(&Value) -> bool) -> Option<&'a Value> {
    let meant = || all.iter().copied().filter(|track| is_meant(track));
    meant().find(|track| is_default(track)).or_else(|| meant().next())
}

/// The language of a tag, of two letters where there is such a code: `ger`, `deu` and `de-AT` are `de`.
fn primary(tag: &str) -> String {
    let language = tag.split(['-', '_']).next().unwrap_or(tag).to_ascii_lowercase();
    let letters = <[u8; 3]>::try_from(language.as_bytes()).ok();
    language_of(letters).unwrap_or(language)
}

fn describe(track: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let number = |value: &Value| value.as_u64();
    let size = number(&track["width"]).zip(number(&track["height"]));
    let channels = number(&track["channels"]).map(|count| match count {
        1 => "1 channel".to_owned(),
        count => format!("{count} channels"),
    });
    let title = text(&track["tags"]["title"]).map(|title| format!("{title:?}"));
    let words = [
        text(&track["tags"]["language"]),
        text(&track["codec_name"]),
        size.map(|(width, height)| format!("{width}x{height}")),
        channels,
        title,
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cover, two tracks of pictures and four of sound.
    fn film() -> Value {
        serde_json::from_str(
            r#"{"streams": [
                {"index": 0, "codec_type": "video", "codec_name": "mjpeg", "disposition": {"attached_pic": 1, "default": 1}},
                {"index": 1, "codec_type": "video", "width": 320, "height": 180, "disposition": {"default": 0}},
                {"index": 2, "codec_type": "video", "width": 640, "height": 360, "disposition": {"default": 1}},
                {"index": 3, "codec_type": "audio", "channels": 2, "tags": {"language": "eng"}, "disposition": {"default": 0}},
                {"index": 4, "codec_type": "audio", "channels": 6, "tags": {"language": "ger"}, "disposition": {"default": 1}},
                {"index": 5, "codec_type": "audio", "channels": 1, "tags": {"language": "eng"}, "disposition": {"default": 1}},
                {"index": 6, "codec_type": "audio", "channels": 2, "tags": {"language": "pt-BR"}, "disposition": {}}
            ]}"#,
        )
        .unwrap()
    }

    fn index(kind: Kind, asked: &str) -> Result<Option<u64>> {
        let asked = (!asked.is_empty()).then(|| asked.parse().unwrap());
        let film = film();
        Ok(chosen(&film, kind, asked.as_ref(), "film.mp4")?.and_then(|track| track["index"].as_u64()))
    }

    #[test]
    fn the_default_track_is_taken_or_the_one_that_is_asked_for() {
        for (kind, asked, expected) in [
            (Kind::Video, "", 2),
            (Kind::Video, "1", 1),
            (Kind::Video, "2", 2),
            (Kind::Audio, "", 4),
            (Kind::Audio, "1", 3),
            (Kind::Audio, "3", 5),
            (Kind::Audio, "de", 4),
            (Kind::Audio, "deu", 4),
            (Kind::Audio, "ger", 4),
            (Kind::Audio, "de-CH", 4),
            // Of two the default one.
            (Kind::Audio, "en", 5),
            (Kind::Audio, "ENG", 5),
            (Kind::Audio, "por", 6),
        ] {
            assert_eq!(index(kind, asked).unwrap(), Some(expected), "{kind:?} {asked}");
        }
        let error = index(Kind::Audio, "fr").unwrap_err().to_string();
        assert!(
            error.contains("no audio track of the language fr") && error.contains("2: ger 6 channels"),
            "{error}"
        );
        assert!(index(Kind::Video, "3").unwrap_err().to_string().contains("no video track of number 3"));
        // Without a default one, the first.
        let mut film = film();
        for stream in film["streams"].as_array_mut().unwrap() {
            stream["disposition"]["default"] = 0.into();
        }
        let first = |kind| chosen(&film, kind, None, "").unwrap().unwrap()["index"].clone();
        assert_eq!((first(Kind::Video), first(Kind::Audio)), (1.into(), 3.into()));
    }

    #[test]
    fn a_cover_is_no_film() {
        let mut film = film();
        assert_eq!(without_pictures(&film), None);
        film["streams"].as_array_mut().unwrap().drain(1..3);
        assert_eq!(without_pictures(&film), Some("sound and a cover"));
        film["streams"].as_array_mut().unwrap().remove(0);
        assert_eq!(without_pictures(&film), Some("sound alone"));
        assert!(chosen(&film, Kind::Video, None, "").unwrap().is_none());
        assert_eq!(without_pictures(&Value::Null), None, "what cannot be looked into is FFmpeg's to say");
    }

    #[test]
    fn what_is_no_track_is_refused() {
        for text in ["", "0", "-1", "d", "1a", "english please", "99999999999999999999"] {
            assert!(text.parse::<Track>().is_err(), "{text:?}");
        }
        assert_eq!("2".parse(), Ok(Track::Number(2)));
    }
    #[test]
    fn a_language_is_a_tag_of_two_characters_and_more_that_begins_with_letters() {
        for text in ["de", "deu", "pt-BR", "zh-Hant-TW", "en-0"] {
            assert_eq!(text.parse(), Ok(Track::Language(text.to_owned())), "{text}");
        }
        for text in ["d", "d1", "-de", "de_AT", "dé", "de ", "1e"] {
            assert!(text.parse::<Track>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_track_says_how_it_was_asked_for() {
        let said = |text: &str| text.parse::<Track>().unwrap().to_string();
        assert_eq!((said("007").as_str(), said("de-CH").as_str()), ("number 7", "the language de-CH"));
    }

    #[test]
    fn tracks_are_empty_only_where_neither_kind_is_asked_for() {
        let track = Some(Track::Number(1));
        assert!(Tracks::default().is_empty());
        assert!(!Tracks { video: track.clone(), audio: None }.is_empty());
        assert!(!Tracks { video: None, audio: track }.is_empty());
    }

    #[test]
    fn a_film_without_tracks_of_a_kind_says_so_to_those_that_ask_for_one() {
        let silent = serde_json::json!({ "streams": [{ "index": 0, "codec_type": "video" }] });
        let refused = chosen(&silent, Kind::Audio, Some(&Track::Number(1)), "film.mp4").unwrap_err();
        let Error::NoTrack { name, kind, asked, list } = refused else { panic!("{refused}") };
        let said = [name.as_str(), kind, asked.as_str(), list.as_str()];
        assert_eq!(said, ["film.mp4", "audio", "number 1", "none"]);
        assert!(chosen(&silent, Kind::Audio, None, "film.mp4").unwrap().is_none());
    }

    #[test]
    fn a_report_that_is_no_report_has_no_tracks() {
        for report in [
            serde_json::json!(null),
            serde_json::json!([]),
            serde_json::json!({ "streams": {} }),
            serde_json::json!({ "streams": [null, 7, "video", {}, { "codec_type": 1 }] }),
        ] {
            assert!(chosen(&report, Kind::Video, None, "").unwrap().is_none(), "{report}");
            assert_eq!((without_pictures(&report), time_code(&report, None)), (None, None), "{report}");
        }
    }

    #[test]
    fn thumbnails_are_no_pictures_and_a_film_of_them_alone_is_a_cover() {
        let report = serde_json::json!({ "streams": [
            { "codec_type": "video", "disposition": { "timed_thumbnails": 1 } },
        ] });
        assert!(chosen(&report, Kind::Video, None, "").unwrap().is_none());
        assert_eq!(without_pictures(&report), Some("a cover alone"));
    }

    #[test]
    fn the_time_code_is_the_pictures_own_then_a_track_s_then_the_file_s() {
        let tagged = |code: &str| serde_json::json!({ "tags": { "timecode": code } });
        let mut report = serde_json::json!({
            "streams": [{ "codec_type": "audio" }, tagged("02:00:00:00")],
            "format": tagged("03:00:00:00"),
        });
        let video = tagged("01:00:00:00");
        assert_eq!(time_code(&report, Some(&video)).as_deref(), Some("01:00:00:00"));
        assert_eq!(time_code(&report, None).as_deref(), Some("02:00:00:00"));
        report["streams"] = serde_json::json!([]);
        assert_eq!(time_code(&report, None).as_deref(), Some("03:00:00:00"));
    }

    #[test]
    fn a_track_is_described_by_what_is_known_of_it() {
        let track = serde_json::json!({
            "codec_name": "aac", "channels": 1, "tags": { "language": "eng", "title": "Director's \"cut\"" },
        });
        assert_eq!(describe(&track), r#"eng aac 1 channel "Director's \"cut\"""#);
        let half = serde_json::json!({ "codec_name": "h264", "width": 640 });
        assert_eq!(describe(&half), "h264", "a width alone is no size");
        assert_eq!(describe(&serde_json::json!({})), "");
    }

    #[test]
    fn languages_are_alike_by_their_first_part_and_its_shortest_code() {
        assert_eq!(["de", "DEU", "ger", "de-AT", "de_AT"].map(primary), ["de"; 5]);
        assert_eq!([primary("tlh"), primary("")], ["tlh", ""]);
        assert_ne!(primary("de"), primary("da"));
    }
}
