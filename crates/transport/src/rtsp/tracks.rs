//! Which tracks of a description are played, and at which addresses they are set up.

use super::uri::Base;
use crate::rtp::coded::Format;
use crate::rtp::session::choice;
use crate::sdp::{CodedDescription, CodedTrack};

pub(super) use choice::short;

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
    // ONVIF: among tracks that are received, one that is sent is the way back to the camera. Others say `sendonly` of what they send.
    let has_way_back = description.tracks.iter().any(|track| track.is_receive_only || !track.is_send_only);
    let refuse = |_: usize, track: &CodedTrack| {
        let is_way_back = track.is_send_only && has_way_back && !track.is_inactive;
        is_way_back.then(|| "it is the way back to the camera".to_owned())
    };
    let choice::Choice { tracks: chosen, left_out } = choice::Choice::of(description, &refuse);
    let mut places = vec![None; description.tracks.len()];
    let mut tracks = Vec::new();
    for choice::Chosen { section, format, payload_type } in chosen {
        if let Some(place) = places.get_mut(section) {
            *place = Some(tracks.len());
        }
        let control = description.tracks.get(section).and_then(|track| track.control.as_deref());
        tracks.push(PlayedTrack { format, payload_type, uri: base.resolve(control), way: Way::default() });
    }
    Choice { tracks, left_out, places }
}
