//! Which tracks of a film are taken.

use crate::encode::input_words;
use anyhow::Result;
use glassline_engine::capture::{Input, Track, Tracks};

/// The track of pictures.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(crate) struct VideoTrack {
    /// Which pictures of a film with several tracks: a number, from 1 (covers do not count), or a language
    /// [default: the track that the file marks as its default, else the first]
    #[arg(long, value_name = "N|LANGUAGE")]
    video_track: Option<Track>,
}

/// The tracks of pictures and of sound.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(crate) struct TrackArgs {
    #[command(flatten)]
    video: VideoTrack,
    /// Which sound of a film with several tracks: a number, from 1, or a language, as de or deu
    /// [default: the track that the file marks as its default, else the first]
    #[arg(long, value_name = "N|LANGUAGE")]
    audio_track: Option<Track>,
}

impl VideoTrack {
    /// The input with the tracks that are asked for.
    pub(crate) fn of(&self, input: Input) -> Result<Input> {
        chosen(input, Tracks { video: self.video_track.clone(), audio: None })
    }
}

impl TrackArgs {
    /// The input with the tracks that are asked for.
    pub(crate) fn of(&self, input: Input) -> Result<Input> {
        chosen(input, self.tracks())
    }

    /// What is asked for.
    pub(crate) fn tracks(&self) -> Tracks {
        Tracks { video: self.video.video_track.clone(), audio: self.audio_track.clone() }
    }
}

fn chosen(input: Input, tracks: Tracks) -> Result<Input> {
    input.with_tracks(tracks).map_err(input_words)
}
