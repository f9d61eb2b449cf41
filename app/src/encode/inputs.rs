//! What stands open before anything is coded: a film that has been looked into, sound from elsewhere, and how sound is coded.

use super::film::Film;
use super::input::Input;
use super::sound::{self, Audio, Opened, Refusal, Wanted};
use super::source;
use anyhow::Result;

/// The inputs of a stream.
pub(super) struct Inputs {
    /// Where FFmpeg decodes the input.
    pub(super) film: Option<Film>,
    /// Sound that does not come with the test picture.
    pub(super) sound: Option<Opened>,
    pub(super) audio: sound::Settings,
}

impl Inputs {
    /// Opens what `input` and `wanted` name. `timed`: pictures come by the clock. `explain` puts what is refused in the words of
    /// who asked.
    pub(super) fn open(
        input: &Input,
        wanted: &Wanted,
        timed: bool,
        explain: impl Fn(Refusal) -> anyhow::Error,
    ) -> Result<Inputs> {
        let film = match input {
            Input::Decoded(path) => Some(Film::open(path)?),
            _ => None,
        };
        let mut sound = wanted.open(timed)?;
        let asked_of = film.as_ref().filter(|_| sound.is_none() && wanted.any());
        let Some(film_asked) = asked_of else {
            let own = input.has_sound().then_some(source::SOUND_CHANNELS);
            let audio = wanted.settings(sound.as_ref().map(Opened::channels).or(own)).map_err(explain)?;
            return Ok(Inputs { film, sound, audio });
        };
        let Some(channels) = film_asked.channels() else {
            let name = film_asked.name();
            // Who names a codec counts on sound.
            if wanted.audio.is_some() {
                tracing::warn!("{name} has no sound that ffprobe finds: the stream has none");
            } else {
                tracing::info!("{name} has no sound");
            }
            let audio = sound::Settings { codec: Audio::None, ..sound::Settings::default() };
            return Ok(Inputs { film, sound, audio });
        };
        let channels = wanted.coded_channels(channels);
        let audio = wanted.settings(Some(channels)).map_err(&explain)?;
        audio.check().map_err(&explain)?;
        sound = Some(Opened::film(film_asked, channels)?);
        Ok(Inputs { film, sound, audio })
    }

    /// Ends what was started to decode a film.
    pub(super) fn end(film: Option<&Film>) {
        if let Some(film) = film {
            film.children().end();
        }
    }
}
