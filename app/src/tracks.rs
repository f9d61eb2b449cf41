//! Which tracks of a file are used.

use crate::encode::input_words;
use anyhow::Result;
use glassline_studio::capture::{Input, Track, Tracks};

/// The help of `--video-track`.
pub(crate) const VIDEO_TRACK: &str = "\
Which video track of a file: its number, from 1 (cover pictures do not count), or its language [default: the track that \
the file marks as its default, otherwise the first]";
/// The help of `--audio-track`.
pub(crate) const AUDIO_TRACK: &str = "\
Which audio track of a file: its number, from 1, or its language, as de or deu [default: the track that the file marks \
as its default, otherwise the first]";

/// The video and audio tracks.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(crate) struct TrackArgs {
    #[arg(long, value_name = "N|LANGUAGE", help = VIDEO_TRACK)]
    video_track: Option<Track>,
    #[arg(long, value_name = "N|LANGUAGE", help = AUDIO_TRACK)]
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
