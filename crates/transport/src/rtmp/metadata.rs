//! What a publisher says of its stream before the media: `@setDataFrame` or `onMetaData` (Adobe RTMP 1.0, section 7.1.2; FLV 10.1,
//! E.5).

use super::amf0::Value;

/// Characters of a client's words that go on.
const TEXT_MAX: usize = 256;

/// What a publisher says. It may be wrong: it decides for how long a stream's beginning is waited for, and nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// It says that there are pictures.
    pub has_video: bool,
    /// It says that there is sound.
    pub has_audio: bool,
    /// The program that made it.
    pub encoder: Option<String>,
}

impl Metadata {
    /// Of a data message's values; `None` where they are something else, such as cue points.
    pub(super) fn of(values: &[Value]) -> Option<Metadata> {
        let values = match values {
            [Value::String(name), rest @ ..] if name == "@setDataFrame" => rest,
            values => values,
        };
        let [Value::String(name), told, ..] = values else { return None };
        if name != "onMetaData" {
            return None;
        }
        // A codec is a number, or the letters of its name.
        let is_there = |name: &str| match told.property(name) {
            Some(Value::Number(id)) => *id > 0.0,
            Some(Value::String(id)) => !id.is_empty(),
            _ => false,
        };
        let encoder = told.property("encoder").and_then(Value::as_str).map(shortened);
        Some(Metadata { has_video: is_there("videocodecid"), has_audio: is_there("audiocodecid"), encoder })
    }
}

/// What may go on of a client's words.
pub(super) fn shortened(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::super::amf0::object;
    use super::*;

    #[test]
    fn metadata_tells_which_tracks_come() {
        let told = object([
            ("videocodecid", 7.0.into()),
            ("audiocodecid", "mp4a".into()),
            ("encoder", "Lavf\n59".into()),
        ]);
        let expected = Metadata { has_video: true, has_audio: true, encoder: Some("Lavf59".into()) };
        let with_frame = ["@setDataFrame".into(), "onMetaData".into(), told.clone()];
        assert_eq!(Metadata::of(&with_frame), Some(expected.clone()));
        assert_eq!(Metadata::of(&with_frame[1..]), Some(expected));
        let pictures = object([("videocodecid", 12.0.into()), ("audiocodecid", "".into())]);
        let found = Metadata::of(&["onMetaData".into(), pictures]).unwrap();
        assert_eq!((found.has_video, found.has_audio), (true, false));
        for other in [&["onCuePoint".into(), told][..], &["onMetaData".into()], &[1.0.into()], &[]] {
            assert_eq!(Metadata::of(other), None);
        }
    }
}
