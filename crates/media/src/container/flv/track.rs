//! A track of FLV: what its sequence header says, and the access units that are made of its frames.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::tag::Format;
use crate::access_unit::Codec;
use crate::bitstream::aac_config::HeAac;
use crate::bitstream::{self, adts};
use crate::container::cmaf::{SampleForm, Unfit};
use crate::container::tracks::Kind;
use crate::container::ts::units::{Splitter, Unit};
use crate::time::Ticks;
use bytes::Bytes;
use std::borrow::Cow;

/// The number of the track of pictures: the type of its tags.
pub const VIDEO_TRACK: u16 = 9;
/// The number of the track of sound.
pub const AUDIO_TRACK: u16 = 8;
/// A track, as its tags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// [`VIDEO_TRACK`] or [`AUDIO_TRACK`]; of what is left out beside them 256 more.
    pub number: u16,
    /// What it carries.
    pub kind: Kind,
    /// The codec of its units; `None` where none are made.
    pub codec: Option<Codec>,
    /// The codec or format, for people.
    pub format: Cow<'static, str>,
    /// Why no units are made, where it is not for the codec alone.
    pub why: Option<&'static str>,
    /// That AAC is HE-AAC, where its configuration says so.
    pub he_aac: Option<HeAac>,
}

/// A frame as it came.
pub(super) struct Coded<'a> {
    pub(super) format: Format,
    pub(super) data: &'a [u8],
    pub(super) is_key: bool,
    pub(super) pts: Ticks,
    pub(super) dts: Ticks,
}

/// An access unit before it has a codec.
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

/// A track, and how its frames become units.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) format: Format,
    pub(super) track: Track,
    /// The sequence header.
    record: Vec<u8>,
    body: Body,
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

impl Known {
    fn new(format: Format, body: Body) -> Known {
        let (number, kind) = match format.is_video {
            true => (VIDEO_TRACK, Kind::Video),
            false => (AUDIO_TRACK, Kind::Audio),
        };
        let codec = format.codec().filter(|_| !matches!(body, Body::LeftOut));
        let track = Track { number, kind, codec, format: format.name().into(), why: None, he_aac: None };
        Known { format, track, record: Vec::new(), body }
    }

    /// Of a format with frames that are not read, though others of its codec are.
    fn left_out(format: Format, why: &'static str) -> Known {
        let mut known = Known::new(format, Body::LeftOut);
        known.track.why = Some(why);
        known
    }

    /// The track that a sequence header begins; `None` where that is cut off.
    pub(super) fn configured(format: Format, record: &[u8]) -> Option<Known> {
        let mut known = match format.codec() {
            Some(codec @ (Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Aac | Codec::Opus)) => {
                // RFC 7845 §5.1; behind its name it is what MP4 has.
                let stripped = if codec == Codec::Opus { record.strip_prefix(b"OpusHead")? } else { record };
                if stripped.is_empty() && codec != Codec::Av1 {
                    return None;
                }
                let (form, media) = SampleForm::of_record(codec, stripped).ok()?;
                let mut known = match (form, codec) {
                    (SampleForm::Other, Codec::Opus) => {
                        Known::left_out(format, "Opus of more than two channels is not written to MP4")
                    }
                    (SampleForm::Other, _) => {
                        Known::left_out(format, "its configuration is none that ADTS can say")
                    }
                    (form, _) => Known::new(format, Body::Samples(form)),
                };
                known.track.he_aac = media.and_then(|media| media.he_aac());
                known
            }
            _ => Known::unconfigured(format, &[])?,
        };
        known.record = record.to_vec();
        Some(known)
    }

    /// The track that a frame begins, before which no sequence header came; `None` where one is needed.
    pub(super) fn unconfigured(format: Format, data: &[u8]) -> Option<Known> {
        let body = match format.codec() {
            Some(Codec::H264 | Codec::H265) => return None,
            Some(Codec::Aac) if is_adts(data) => Body::Adts,
            Some(Codec::Aac) => return None,
            Some(Codec::Av1) => Body::Samples(SampleForm::Av1 { config: Vec::new() }),
            Some(Codec::Opus) => Body::Samples(SampleForm::Opus),
            Some(codec) => Body::Frames(Splitter::new(codec)),
            None => Body::LeftOut,
        };
        Some(Known::new(format, body))
    }

    /// Whether a sequence header says nothing new. Encoders repeat it.
    pub(super) fn is_configured_by(&self, format: Format, record: &[u8]) -> bool {
        self.format == format && self.record == record && !matches!(self.body, Body::Adts)
    }

    /// Makes access units of a frame.
    pub(super) fn take(&mut self, coded: &Coded<'_>, units: &mut Vec<Coming>) -> Taken {
        let &Coded { data, is_key, pts, dts, .. } = coded;
        let codec = self.track.codec;
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
                splitter.split(&Bytes::copy_from_slice(data), Some((pts, dts)), &mut |unit| {
                    let Unit { data, pts, dts } = unit;
                    units.push(Coming { data, pts, dts, random_access: true });
                });
            }
        }
        Taken::Whole
    }
}

/// Whether there is a slice in a unit of H.264 or H.265.
fn has_picture(codec: Codec, data: &[u8]) -> bool {
    !matches!(codec, Codec::H264 | Codec::H265) || bitstream::head(codec, data).1.is_some()
}

/// Whether these bytes are one frame of ADTS (ISO/IEC 13818-7 §6.2).
fn is_adts(data: &[u8]) -> bool {
    adts::Header::parse(data).is_some_and(|header| header.frame_bytes == data.len())
}
