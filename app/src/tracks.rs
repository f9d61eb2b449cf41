//! Which tracks of a file are used.

use crate::encode::input_words;
use anyhow::Result;
use glassline_studio::capture::{Input, Track, Tracks};

/// The video and audio tracks.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(crate) struct TrackArgs {
    /// Which video track of a file: its number, from 1 (cover pictures do not count), or its language [default: the
    /// track that the file marks as its default, otherwise the first]
    #[arg(long, value_name = "N|LANGUAGE")]
    video_track: Option<Track>,
    /// Which audio track of a file: its number, from 1, or its language, as de or deu [default: the track that the
    /// file marks as its default, otherwise the first]
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
