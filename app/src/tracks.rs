//! Which tracks of a film are taken.

use crate::encode::input_words;
use anyhow::Result;
use glassline_engine::capture::{Input, Track, Tracks};

/// The tracks of pictures and of sound.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(crate) struct TrackArgs {
    /// Which pictures of a film with several tracks: a number, from 1 (covers do not count), or a language
    /// [default: the track that the file marks as its default, else the first]
    #[arg(long, value_name = "N|LANGUAGE")]
    video_track: Option<Track>,
    /// Which sound of a film with several tracks: a number, from 1, or a language, as de or deu
    /// [default: the track that the file marks as its default, else the first]
    #[arg(long, value_name = "N|LANGUAGE")]
    audio_track: Option<Track>,
}

impl TrackArgs {
    /// The input with the tracks that are asked for.
    pub(crate) fn of(&self, input: Input) -> Result<Input> {
        input.with_tracks(self.tracks()).map_err(input_words)
    }

    /// What is asked for.
    pub(crate) fn tracks(&self) -> Tracks {
        Tracks { video: self.video_track.clone(), audio: self.audio_track.clone() }
    }
}
