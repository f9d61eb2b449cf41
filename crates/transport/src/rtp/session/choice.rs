//! Which tracks of a description are taken.

use crate::rtp::coded::Format;
use crate::sdp::{CodedDescription, CodedTrack, Encoding};

/// A section that is taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Its number in the description.
    pub section: usize,
    /// How its packets are read.
    pub format: Format,
    /// Their payload type.
    pub payload_type: u8,
}

/// What is taken: the first track of pictures and the first of sound that can be carried, pictures first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// Where none is, `left_out` says why.
    pub tracks: Vec<Chosen>,
    /// What is left out, and why, in sentences.
    pub left_out: Vec<String>,
}

impl Choice {
    /// Of a description. `refuse` says why a section is not taken, whatever is in it.
    pub fn of(
        description: &CodedDescription,
        refuse: &dyn Fn(usize, &CodedTrack) -> Option<String>,
    ) -> Choice {
        let (mut video, mut audio): (Option<Chosen>, Option<Chosen>) = (None, None);
        let mut left_out = Vec::new();
        for (section, track) in description.tracks.iter().enumerate() {
            let place = match track.medium.to_ascii_lowercase().as_str() {
                "video" => &mut video,
                "audio" => &mut audio,
                medium => {
                    let medium = short(medium);
                    left_out.push(format!("the track `{medium}` is left out: it is neither video nor audio"));
                    continue;
                }
            };
            let found = refuse(section, track).map_or_else(|| format_of(track), Err);
            match found {
                Err(why) => left_out.push(format!("the track `{}` is left out: {why}", track.medium)),
                // A telephone's sound is the last choice.
                Ok((format, _))
                    if place.as_ref().is_some_and(|held| format.is_narrow() || !held.format.is_narrow()) =>
                {
                    left_out.push(format!("a further track `{}` is left out: one is carried", track.medium));
                }
                Ok((format, encoding)) => {
                    let payload_type = encoding.payload_type;
                    if place.is_some() {
                        left_out.push(format!(
                            "a first track `{}` is left out: it has a telephone's sound",
                            track.medium
                        ));
                    }
                    *place = Some(Chosen { section, format, payload_type });
                }
            }
        }
        Choice { tracks: video.into_iter().chain(audio).collect(), left_out }
    }
}

fn format_of(track: &CodedTrack) -> Result<(Format, &Encoding), String> {
    if track.is_inactive {
        return Err("it is not sent now".to_owned());
    }
    let protocol = track.protocol.to_ascii_uppercase();
    if !matches!(protocol.as_str(), "RTP/AVP" | "RTP/AVPF" | "RTP/AVP/TCP" | "RTP/AVP/UDP") {
        return Err(format!("{} is not taken", short(&track.protocol)));
    }
    let mut why = "it has no payload type that is known".to_owned();
    let mut narrow = None;
    for encoding in &track.encodings {
        match Format::of(encoding) {
            Ok(format) if format.is_narrow() => narrow = narrow.or(Some((format, encoding))),
            Ok(format) => return Ok((format, encoding)),
            Err(error) => why = error.to_string(),
        }
    }
    narrow.ok_or(why)
}

/// The beginning of a text from outside.
pub fn short(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(60).collect()
}
