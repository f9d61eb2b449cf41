//! Which tracks of a description are taken.

use super::uri::Base;
use crate::rtp::coded::Format;
use crate::sdp::{CodedDescription, CodedTrack, Encoding};

/// A track that is taken.
#[derive(Clone, Debug, PartialEq)]
pub struct PlayedTrack {
    /// How its packets are read.
    pub format: Format,
    /// Its payload type.
    pub payload_type: u8,
    /// The address for SETUP.
    pub(super) uri: String,
    /// Where its packets come from, once the server has said it.
    pub(super) way: Way,
}

/// How a track's packets come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// The channels of RTP and RTCP, where they come on the connection.
    pub(super) channels: Option<(u8, u8)>,
    /// The server's ports, where they come in datagrams and it has said them.
    pub(super) server_ports: Option<(u16, u16)>,
}

/// What is taken: the first track of pictures and the first of sound that can be carried, pictures first.
pub(super) struct Choice {
    pub(super) tracks: Vec<PlayedTrack>,
    /// What is left out, and why, in sentences.
    pub(super) left_out: Vec<String>,
    /// For each track of the description which of `tracks` it is.
    pub(super) places: Vec<Option<usize>>,
}

/// Where `tracks` is empty, `left_out` says why.
pub(super) fn choose(description: &CodedDescription, base: &Base) -> Choice {
    let mut video: Option<(usize, PlayedTrack)> = None;
    let mut audio: Option<(usize, PlayedTrack)> = None;
    let mut left_out = Vec::new();
    // ONVIF: among tracks that are received, one that is sent is the way back to the camera. Others say `sendonly` of what they send.
    let has_way_back = description.tracks.iter().any(|track| track.is_receive_only || !track.is_send_only);
    for (number, track) in description.tracks.iter().enumerate() {
        let place = match track.medium.to_ascii_lowercase().as_str() {
            "video" => &mut video,
            "audio" => &mut audio,
            medium => {
                left_out.push(format!(
                    "the track `{}` is left out: it is neither video nor audio",
                    short(medium)
                ));
                continue;
            }
        };
        match format_of(track, has_way_back) {
            Err(why) => left_out.push(format!("the track `{}` is left out: {why}", track.medium)),
            Ok(_) if place.is_some() => {
                left_out.push(format!("a further track `{}` is left out: one is carried", track.medium));
            }
            Ok((format, encoding)) => {
                let (payload_type, uri) = (encoding.payload_type, base.resolve(track.control.as_deref()));
                let played = PlayedTrack { format, payload_type, uri, way: Way::default() };
                *place = Some((number, played));
            }
        }
    }
    let mut places = vec![None; description.tracks.len()];
    let mut tracks = Vec::new();
    for (number, played) in video.into_iter().chain(audio) {
        if let Some(place) = places.get_mut(number) {
            *place = Some(tracks.len());
        }
        tracks.push(played);
    }
    Choice { tracks, left_out, places }
}

fn format_of(track: &CodedTrack, has_way_back: bool) -> Result<(Format, &Encoding), String> {
    if track.is_inactive {
        return Err("it is not sent now".to_owned());
    }
    if track.is_send_only && has_way_back {
        return Err("it is the way back to the camera".to_owned());
    }
    let protocol = track.protocol.to_ascii_uppercase();
    if !matches!(protocol.as_str(), "RTP/AVP" | "RTP/AVPF" | "RTP/AVP/TCP" | "RTP/AVP/UDP") {
        return Err(format!("{} is not taken", short(&track.protocol)));
    }
    let mut why = "it has no payload type that is known".to_owned();
    for encoding in &track.encodings {
        match Format::of(encoding) {
            Ok(format) => return Ok((format, encoding)),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// The beginning of a text from outside.
pub(super) fn short(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(60).collect()
}
