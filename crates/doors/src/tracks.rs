//! The tracks of a session of RTP, merged into MPEG-TS, whatever protocol has set the session up.
//!
//! ```text
//! units ─┬─────────────────────────► delivery::assemble ─► MPEG-TS
//!        └─ G.711 ─► Opus encoder ──►
//! ```

#[cfg(feature = "opus")]
mod telephone;

use glassline_delivery::assemble::{Assembler, Format, Kinds, Written};
use glassline_media::Time;
use glassline_transport::rtp::coded::{self, Placed};
#[cfg(feature = "opus")]
use {glassline_media::container::ts::AudioFormat, telephone::Telephone};

/// The tracks of one session.
pub(crate) struct Tracks {
    assembler: Assembler,
    /// Those that are encoded anew, with their numbers.
    #[cfg(feature = "opus")]
    telephones: Vec<(usize, Telephone)>,
}

impl std::fmt::Debug for Tracks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracks").field("assembler", &self.assembler).finish_non_exhaustive()
    }
}

impl Tracks {
    /// Tracks in these formats, and in words for people why one of them is left out.
    pub(crate) fn new<'a>(
        formats: impl Iterator<Item = &'a coded::Format>,
        now: Time,
    ) -> (Tracks, Option<String>) {
        let mut tracks = Tracks {
            assembler: Assembler::new(),
            #[cfg(feature = "opus")]
            telephones: Vec::new(),
        };
        let (mut kinds, mut left_out) = (Kinds::default(), None);
        for (number, format) in formats.enumerate() {
            #[cfg(feature = "opus")]
            let encoded = tracks.encode(number, format, now);
            #[cfg(not(feature = "opus"))]
            let encoded = None;
            let format = encoded.or(format.audio()).map_or(Format::Pictures(format.codec()), Format::Sound);
            kinds.pictures |= matches!(format, Format::Pictures(_));
            kinds.sound |= matches!(format, Format::Sound(_));
            if let Err(error) = tracks.assembler.declare(id(number), format, now) {
                left_out = left_out.or(Some(error.to_string()));
            }
        }
        tracks.assembler.expect(kinds, now);
        (tracks, left_out)
    }

    /// What a track becomes that is encoded anew; `None` of others.
    #[cfg(feature = "opus")]
    fn encode(&mut self, number: usize, format: &coded::Format, now: Time) -> Option<AudioFormat> {
        if !format.is_narrow() {
            return None;
        }
        match Telephone::new(now) {
            Ok(telephone) => {
                self.telephones.push((number, telephone));
                Some(Telephone::FORMAT)
            }
            Err(error) => {
                tracing::warn!("a telephone's sound stays uncompressed: {error}");
                None
            }
        }
    }

    /// Takes a unit of track `number`.
    pub(crate) fn push(&mut self, number: usize, placed: Placed, now: Time) {
        #[cfg(feature = "opus")]
        if let Some((_, telephone)) = self.telephones.iter_mut().find(|(of, _)| *of == number) {
            for unit in telephone.encode(&placed.unit, now) {
                self.assembler.push(id(number), unit, None, now);
            }
            return;
        }
        self.assembler.push(id(number), placed.unit, placed.captured, now);
    }

    /// What goes out, in order.
    pub(crate) fn poll(&mut self) -> Option<Written> {
        self.assembler.poll()
    }

    /// When [`Tracks::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.assembler.poll_timeout()
    }

    /// Gives up waiting for tracks that do not come.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.assembler.handle_timeout(now);
    }
}

/// A track's number, for the assembler.
fn id(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
#[path = "tracks_tests.rs"]
mod tests;
