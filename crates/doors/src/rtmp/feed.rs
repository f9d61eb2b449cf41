//! A publisher's media: bodies of FLV tags in, a transport stream out. Without a socket and a clock.

use glassline_delivery::assemble::{Assembler, Counters, Format, Kinds, Written};
use glassline_media::Time;
use glassline_media::container::flv::demux::{self, Event, Tags};
use glassline_media::container::tracks::Kind;
use glassline_media::container::ts::AudioFormat;
use glassline_transport::rtmp::{Media, Metadata};
use thiserror::Error;

/// What channels are taken for where nothing says how many there are: MPEG-TS says it of Opus alone.
const CHANNELS: u8 = 2;
/// Codecs that MPEG-TS has a place for, in words.
const PICTURES: &str = "H.264, H.265 or AV1";
const SOUND: &str = "AAC, MP3, Opus, AC-3 or E-AC-3";

/// Media that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the {subject} {format}, which this server does not carry{}; publish {wanted}", in_brackets(*.why))]
pub(super) struct Uncarried {
    /// With its verb.
    subject: &'static str,
    format: String,
    why: Option<&'static str>,
    wanted: &'static str,
}

fn in_brackets(why: Option<&'static str>) -> String {
    why.map_or_else(String::new, |why| format!(" ({why})"))
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Feed {
    tags: Tags,
    assembler: Assembler,
    /// Further tracks were left out and told of.
    has_told: bool,
}

impl Feed {
    /// What the publisher says of its stream.
    pub(super) fn push_metadata(&mut self, metadata: &Metadata, now: Time) {
        let kinds = Kinds { pictures: metadata.has_video, sound: metadata.has_audio };
        self.assembler.expect(kinds, now);
    }

    /// Takes a message of media. Poll afterwards.
    pub(super) fn push(&mut self, media: &Media, now: Time) -> Result<(), Uncarried> {
        self.tags.push(media.is_video, media.time, &media.payload);
        while let Some(event) = self.tags.poll() {
            match event {
                Event::Tracks(tracks) => {
                    for track in tracks {
                        self.declare(&track, now)?;
                    }
                }
                Event::AccessUnit { track, unit, .. } => self.assembler.push(track, unit, None, now),
            }
        }
        Ok(())
    }

    fn declare(&mut self, track: &demux::Track, now: Time) -> Result<(), Uncarried> {
        let (subject, wanted) = match track.kind {
            Kind::Video => ("pictures are", PICTURES),
            Kind::Audio | Kind::Other => ("sound is", SOUND),
        };
        let uncarried = |why| Uncarried { subject, format: track.format.to_string(), why, wanted };
        // Further tracks stand beside those that are taken, under numbers of their own.
        if !matches!(track.number, demux::VIDEO_TRACK | demux::AUDIO_TRACK) {
            if !std::mem::replace(&mut self.has_told, true) {
                tracing::warn!("further tracks (multitrack) of a publisher are left out: {}", track.format);
            }
            return Ok(());
        }
        let codec = track.codec.ok_or_else(|| uncarried(track.why))?;
        let format = if codec.is_video() {
            Format::Pictures(codec)
        } else {
            let channels = track.channels.unwrap_or(CHANNELS);
            Format::Sound(AudioFormat { codec, channels, language: track.language, he_aac: track.he_aac })
        };
        let declared = self.assembler.declare(track.number, format, now);
        declared.map_err(|_| uncarried(Some("MPEG-TS has no place for it")))
    }

    /// What goes out next.
    pub(super) fn poll(&mut self) -> Option<Written> {
        self.assembler.poll()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.assembler.handle_timeout(now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.assembler.poll_timeout()
    }

    /// The publisher is over: what waits goes out.
    pub(super) fn finish(&mut self) {
        self.assembler.finish();
    }

    pub(super) fn counters(&self) -> (demux::Counters, Counters) {
        (self.tags.counters(), self.assembler.counters())
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
