//! Frames of containers that have no boxes (FLV, WebM) to access units: what a track's configuration says of its frames.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::cmaf::{SampleForm, Unfit};
use super::tracks::Kind;
use super::ts::units::{Splitter, Unit};
use crate::access_unit::{AccessUnit, Codec};
use crate::bitstream::aac_config::HeAac;
use crate::bitstream::{self, adts};
use crate::time::Ticks;
use bytes::Bytes;
use std::borrow::Cow;

/// Longer configurations are none: each key frame gets the parameter sets of the configuration.
const RECORD_MAX_BYTES: usize = 16 << 10;

/// A track, as its container says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its number: of FLV the type of its tags (of what is left out beside them 256 more), of WebM its own.
    pub number: u16,
    /// What it carries.
    pub kind: Kind,
    /// The codec of its units; `None` where none are made.
    pub codec: Option<Codec>,
    /// The codec or format, for people.
    pub format: Cow<'static, str>,
    /// Why no units are made, where it is not for the codec alone.
    pub why: Option<&'static str>,
    /// ISO 639-2 code of its language, three ASCII letters.
    pub language: Option<[u8; 3]>,
    /// That AAC is HE-AAC, where its configuration says so.
    pub he_aac: Option<HeAac>,
    /// Channels of sound, where its configuration says how many.
    pub channels: Option<u8>,
}

/// What a demultiplexer found.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are access units")]
pub enum Event {
    /// The tracks from here on: of FLV video first, of WebM those that are marked as default.
    Tracks(Vec<Track>),
    /// An access unit of a track that was told.
    AccessUnit {
        /// The track's number.
        track: u16,
        /// Where its tag or block begins, in bytes from the first.
        at: u64,
        /// The unit, in the form that [`Codec`] names.
        unit: AccessUnit,
    },
}

pub(super) fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

/// A frame as it came.
#[derive(Clone, Copy)]
pub(super) struct Coded<'a> {
    pub(super) data: &'a [u8],
    pub(super) is_key: bool,
    /// `None`: behind the frame before.
    pub(super) times: Option<(Ticks, Ticks)>,
}

/// An access unit before it has a codec.
#[derive(Clone, Debug)]
pub(super) struct Coming {
    pub(super) data: Bytes,
    pub(super) pts: Ticks,
    pub(super) dts: Ticks,
    pub(super) random_access: bool,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Whole,
    Damaged,
    LeftOut,
}

/// How the frames of a track become units.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    /// The codec of the units; `None` where none are made.
    pub(super) codec: Option<Codec>,
    /// Why none are made of a codec of which others are.
    pub(super) why: Option<&'static str>,
    pub(super) he_aac: Option<HeAac>,
    /// Channels of sound, where the configuration says how many.
    pub(super) channels: Option<u8>,
    body: Body,
    /// Behind the last unit of a codec with frames that say how long they last.
    due: Ticks,
}

#[derive(Clone, Debug)]
enum Body {
    /// Frames are samples as those of MP4 are.
    Samples(SampleForm),
    /// Frames say where they end.
    Frames(Splitter),
    /// AAC with a header on each frame.
    Adts,
    /// No units are made of it.
    LeftOut,
}

impl Frames {
    fn new(codec: Option<Codec>, body: Body) -> Frames {
        let codec = codec.filter(|_| !matches!(body, Body::LeftOut));
        Frames { codec, why: None, he_aac: None, channels: None, body, due: Ticks(0) }
    }

    /// Of a format with frames that are not read, though others of its codec are.
    pub(super) fn left_out(why: &'static str) -> Frames {
        Frames { why: Some(why), ..Frames::new(None, Body::LeftOut) }
    }

    /// Of pictures in Annex B form that bring their parameter sets, as browsers record H.264; nothing is read of other codecs.
    pub(super) fn annex_b(codec: Option<Codec>) -> Option<Frames> {
        let codec = codec.filter(|codec| matches!(codec, Codec::H264 | Codec::H265))?;
        Some(Frames::new(Some(codec), Body::Samples(SampleForm::annex_b(codec))))
    }

    /// What the configuration `record` says of frames of `codec`; `None` where it is cut off.
    pub(super) fn configured(codec: Option<Codec>, record: &[u8]) -> Option<Frames> {
        let Some(codec @ (Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Aac | Codec::Opus)) = codec else {
            return Frames::unconfigured(codec, &[]);
        };
        if record.len() > RECORD_MAX_BYTES {
            return Some(Frames::left_out("its configuration is longer than 16 KiB"));
        }
        // RFC 7845 §5.1; behind its name it is what MP4 has.
        let stripped = if codec == Codec::Opus { record.strip_prefix(b"OpusHead")? } else { record };
        if stripped.is_empty() && codec != Codec::Av1 {
            return None;
        }
        let (form, media) = SampleForm::of_record(codec, stripped).ok()?;
        let mut frames = match (form, codec) {
            (SampleForm::Other, Codec::Opus) => {
                Frames::left_out("Opus of more than two channels is not written to MP4")
            }
            (SampleForm::Other, _) => Frames::left_out("its configuration is none that ADTS can say"),
            (form, _) => Frames::new(Some(codec), Body::Samples(form)),
        };
        frames.he_aac = media.as_ref().and_then(|media| media.he_aac());
        let channels = media.as_ref().and_then(|media| media.channels());
        frames.channels = channels.and_then(|channels| u8::try_from(channels).ok());
        Some(frames)
    }

    /// What a frame says before which no configuration came; `None` where one is needed.
    pub(super) fn unconfigured(codec: Option<Codec>, data: &[u8]) -> Option<Frames> {
        let body = match codec {
            Some(Codec::H264 | Codec::H265) => return None,
            Some(Codec::Aac) if is_adts(data) => Body::Adts,
            Some(Codec::Aac) => return None,
            Some(Codec::Av1) => Body::Samples(SampleForm::Av1 { config: Vec::new() }),
            Some(Codec::Opus) => Body::Samples(SampleForm::Opus),
            Some(codec) => Body::Frames(Splitter::new(codec)),
            None => Body::LeftOut,
        };
        Some(Frames::new(codec, body))
    }

    /// Whether each frame has a header of ADTS, and no configuration came.
    pub(super) fn is_adts(&self) -> bool {
        matches!(self.body, Body::Adts)
    }

    /// How many pictures may come before one that is shown earlier.
    pub(super) fn reorder_depth(&self) -> usize {
        match &self.body {
            Body::Samples(form) => form.reorder_depth(),
            _ => 0,
        }
    }

    /// Makes access units of a frame.
    pub(super) fn take(&mut self, coded: &Coded<'_>, units: &mut Vec<Coming>) -> Taken {
        let &Coded { data, is_key, times } = coded;
        let (pts, dts) = times.unwrap_or((self.due, self.due));
        let codec = self.codec;
        let first = units.len();
        match &mut self.body {
            _ if data.is_empty() => {}
            Body::LeftOut => return Taken::LeftOut,
            // Some encoders send headers of ADTS behind a sequence header, too; no raw frame begins so.
            Body::Samples(SampleForm::Aac { .. }) | Body::Adts if is_adts(data) => {
                units.push(Coming { data: Bytes::copy_from_slice(data), pts, dts, random_access: true });
            }
            Body::Adts => return Taken::Damaged,
            Body::Samples(form) => match form.unit_data(data, is_key) {
                // Parameter sets or messages alone are no picture, and belong to none.
                Ok((data, _)) if codec.is_some_and(|codec| !has_picture(codec, &data)) => {
                    return Taken::Damaged;
                }
                Ok((data, random_access)) => {
                    units.push(Coming { data: Bytes::from(data), pts, dts, random_access });
                }
                Err(Unfit(..)) => return Taken::Damaged,
            },
            Body::Frames(splitter) => {
                splitter.split(&Bytes::copy_from_slice(data), times, &mut |unit| {
                    let Unit { data, pts, dts } = unit;
                    units.push(Coming { data, pts, dts, random_access: true });
                });
            }
        }
        if let (Some(codec), Some(last)) = (codec, units.get(first..).and_then(<[Coming]>::last)) {
            self.due = last.dts + lasts(codec, &last.data);
        }
        Taken::Whole
    }
}

/// How long a unit of sound lasts, as it says itself; nothing of others.
fn lasts(codec: Codec, data: &[u8]) -> Ticks {
    let (samples, rate_hz) = match codec {
        Codec::Opus => (bitstream::opus::duration_samples(data), 48_000),
        Codec::Aac => {
            let header = adts::Header::parse(data);
            (header.map(|header| header.samples()), header.map_or(0, |header| header.rate_hz))
        }
        _ => (None, 0),
    };
    let ticks = u64::from(samples.unwrap_or(0)).saturating_mul(Ticks::RATE.into());
    Ticks(i64::try_from(ticks.checked_div(rate_hz.into()).unwrap_or(0)).unwrap_or(0))
}

/// Whether there is a slice in a unit of H.264 or H.265.
fn has_picture(codec: Codec, data: &[u8]) -> bool {
    !matches!(codec, Codec::H264 | Codec::H265) || bitstream::head(codec, data).1.is_some()
}

/// Whether these bytes are one frame of ADTS (ISO/IEC 13818-7 §6.2).
fn is_adts(data: &[u8]) -> bool {
    adts::Header::parse(data).is_some_and(|header| header.frame_bytes == data.len())
}
