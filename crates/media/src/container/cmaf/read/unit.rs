//! Samples back to access units: Annex B, ADTS, packets.

use super::error::ReadError;
use super::fragment::ReadSample;
use super::init::ReadTrack;
use super::sample_entry::{Form, NalForm};
use crate::Stamps;
use crate::access_unit::{AccessUnit, Codec};
use crate::bitstream::aac_config::HeAac;
use crate::bitstream::h264::{self, Nal, NalType, Sei, SliceType};
use crate::bitstream::program_config::ProgramConfig;
use crate::bitstream::{adts, av1, h265};
use crate::time::Ticks;
use bytes::Bytes;

/// Time stamps beyond this, either way, are none: 12,000 years.
const STAMP_MAX: i128 = 1 << 55;

impl ReadTrack {
    /// The codec of the units that [`ReadTrack::to_unit`] makes; `None` where it makes none.
    pub fn codec(&self) -> Option<Codec> {
        self.form.codec()
    }

    /// Channels of sound, 1 to 8, as the header says; `None` of pictures.
    pub fn channels(&self) -> Option<u8> {
        match self.form {
            Form::Frames { channels, .. } => Some(channels),
            _ => self.media.as_ref()?.channels().and_then(|channels| u8::try_from(channels).ok()),
        }
    }

    /// That its sound is HE-AAC, where its header says so: the units do not.
    pub fn he_aac(&self) -> Option<HeAac> {
        self.media.as_ref()?.he_aac()
    }

    /// The bytes of a sample with the track's parameter sets in it, behind its delimiter where it has one, and each behind its length:
    /// for decoders that read the first sample entry of a file alone. `None` where there are none, where the sample brings its own, and
    /// where it is not what the track says.
    pub fn with_parameter_sets(&self, sample: &[u8]) -> Option<Vec<u8>> {
        let (form, is_h264) = match &self.form {
            Form::H264(form) => (form, true),
            Form::H265(form) => (form, false),
            _ => return None,
        };
        let is_delimiter = |nal: &Nal<'_>| match is_h264 {
            true => nal.kind() == NalType::AccessUnitDelimiter,
            false => h265_kind(nal) == h265::NalType::AccessUnitDelimiter,
        };
        let is_set = |nal: &Nal<'_>| match is_h264 {
            true => nal.kind() == NalType::Sps,
            false => h265_kind(nal) == h265::NalType::Sps,
        };
        let lengths = form.length_bytes;
        if !(1..=4).contains(&lengths) || form.sets.is_empty() {
            return None;
        }
        let nals = split(sample, lengths)?;
        if nals.iter().any(is_set) {
            return None;
        }
        let first = nals
            .first()
            .filter(|nal| is_delimiter(nal))
            .map_or(0, |nal| nal.bytes.len().saturating_add(lengths));
        let (delimiter, rest) = sample.split_at_checked(first)?;
        let mut all = delimiter.to_vec();
        for set in h264::nals(&form.sets) {
            let length = u32::try_from(set.bytes.len()).ok()?.to_be_bytes();
            let (too_long, length) = length.split_at_checked(4usize.checked_sub(lengths)?)?;
            if too_long.iter().any(|byte| *byte != 0) {
                return None;
            }
            all.extend_from_slice(length);
            all.extend_from_slice(set.bytes);
        }
        all.extend_from_slice(rest);
        Some(all)
    }

    /// The access unit that is in a sample of this track, in the form that [`Codec`] names: H.264 and H.265 in Annex B and AV1
    /// behind start codes, with a delimiter, and with the track's parameter sets where decoding can begin and the sample brings none itself; AAC
    /// behind an ADTS header, and behind the element that says which channels there are where the header does not; others as
    /// they are. Time stamps count from the presentation's 0, in which the track's edit list is observed; they can be
    /// negative. The bytes are copied, so that a unit does not keep its chunk.
    ///
    /// # Errors
    /// [`ReadError::Sample`] where the sample is not what the track says, or of a codec that is only named.
    pub fn to_unit(&self, sample: &ReadSample) -> Result<AccessUnit, ReadError> {
        let wrong = |found, expected| ReadError::Sample {
            track_id: self.id,
            sample_entry: self.sample_entry,
            decode_time: sample.decode_time,
            found,
            expected,
        };
        let codec =
            self.codec().ok_or(wrong("a codec that is not read", "one that a transport stream has"))?;
        let (data, random_access) = self
            .form
            .unit_data(&sample.data, sample.is_sync())
            .map_err(|Unfit(found, expected)| wrong(found, expected))?;
        let (pts, dts) =
            self.stamps(sample).ok_or(wrong("a time beyond all others", "one within 12,000 years"))?;
        Ok(AccessUnit { codec, data: Bytes::from(data), pts, dts, random_access, stamps: Stamps::default() })
    }

    /// PTS and DTS, to the nearest tick.
    fn stamps(&self, sample: &ReadSample) -> Option<(Ticks, Ticks)> {
        let scaled = |ticks: i128| {
            let (scale, rate) = (i128::from(self.timescale), i128::from(Ticks::RATE));
            let doubled = ticks.checked_mul(rate.saturating_mul(2))?.checked_add(scale)?;
            let ticks = doubled.checked_div_euclid(scale.saturating_mul(2))?;
            let ticks = Some(ticks).filter(|ticks| (-STAMP_MAX..=STAMP_MAX).contains(ticks))?;
            i64::try_from(ticks).ok().map(Ticks)
        };
        let decode = i128::from(sample.decode_time).checked_sub(self.presentation_start.into())?;
        Some((scaled(decode.checked_add(sample.composition_offset.into())?)?, scaled(decode)?))
    }
}

/// What is wrong with a sample, and what would be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::container) struct Unfit(
    pub(in crate::container) &'static str,
    pub(in crate::container) &'static str,
);

impl Form {
    /// The codec of the units that [`Form::unit_data`] makes; `None` where it makes none.
    pub(in crate::container) fn codec(&self) -> Option<Codec> {
        match self {
            Form::H264(_) => Some(Codec::H264),
            Form::H265(_) => Some(Codec::H265),
            Form::Av1 { .. } => Some(Codec::Av1),
            Form::Aac { .. } => Some(Codec::Aac),
            Form::Opus => Some(Codec::Opus),
            Form::Frames { codec, .. } => Some(*codec),
            Form::Other => None,
        }
    }

    /// How many pictures may come before one that is shown earlier, as the parameter sets of the configuration say.
    pub(in crate::container) fn reorder_depth(&self) -> usize {
        let depth = match self {
            Form::H264(form) => {
                let sets = h264::nals(&form.sets).filter(|nal| nal.kind() == NalType::Sps);
                sets.filter_map(|nal| h264::Sps::parse(nal.payload()).ok())
                    .map(|sps| sps.reorder_depth())
                    .max()
            }
            Form::H265(form) => {
                let sets = h264::nals(&form.sets).filter_map(|nal| h265::Sps::parse(nal.bytes).ok());
                sets.filter_map(|sps| sps.reorder_pictures).max()
            }
            _ => None,
        };
        usize::from(depth.unwrap_or(0))
    }

    /// The bytes of the access unit that is in `sample`, as [`ReadTrack::to_unit`] has them, and whether decoding can begin
    /// at it; `is_sync` is what the container says of that.
    ///
    /// # Errors
    /// Where the sample is not what the configuration says.
    pub(in crate::container) fn unit_data(
        &self,
        sample: &[u8],
        is_sync: bool,
    ) -> Result<(Vec<u8>, bool), Unfit> {
        let nals = |form: &NalForm| match form.length_bytes {
            // They lie behind start codes.
            0 => Ok(h264::nals(sample).collect()),
            length_bytes => {
                split(sample, length_bytes).ok_or(Unfit("a NAL unit that is cut off", "whole ones"))
            }
        };
        Ok(match self {
            Form::H264(form) => {
                let nals = nals(form)?;
                let begins = can_begin(&nals, is_sync);
                (annex_b(&nals, if begins { &form.sets } else { &[] }), begins)
            }
            Form::H265(form) => {
                let nals = nals(form)?;
                let begins = nals.iter().any(|nal| h265_kind(nal) == h265::NalType::RandomAccess);
                (h265_annex_b(&nals, if begins { &form.sets } else { &[] }), begins)
            }
            Form::Av1 { config } => {
                let unit = av1::to_unit(sample, config);
                let unit = unit.ok_or(Unfit("an OBU that is cut off", "whole ones"))?;
                let begins = av1::is_key(&unit);
                (unit, begins)
            }
            Form::Aac { header, program } => {
                let brings = !program.is_empty() && ProgramConfig::of_frame(sample).is_some();
                let program = if brings { &[][..] } else { program };
                let overhead = adts::HEADER_BYTES.saturating_add(program.len());
                let frame_bytes = sample.len().saturating_add(overhead);
                let header = adts::Header { frame_bytes, ..*header }.write();
                let header = header.ok_or(Unfit("too many bytes", "a frame of less than 8 kB"))?;
                ([&header, program, sample].concat(), true)
            }
            Form::Opus | Form::Frames { .. } | Form::Other => (sample.to_vec(), true),
        })
    }
}

/// The NAL units behind their lengths (ISO/IEC 14496-15 §5.3.2); `None` where one is cut off.
fn split(mut bytes: &[u8], length_bytes: usize) -> Option<Vec<Nal<'_>>> {
    let (all, mut nals) = (bytes.len(), Vec::new());
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_at_checked(length_bytes)?;
        let length = length.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
        let (nal, behind) = rest.split_at_checked(length)?;
        if !nal.is_empty() {
            nals.push(Nal { bytes: nal, offset: all.saturating_sub(rest.len()) });
        }
        bytes = behind;
    }
    Some(nals)
}

/// Whether decoding can begin at a unit: at an IDR picture, at a recovery point, or at an I slice of which the container
/// says so.
fn can_begin(nals: &[Nal<'_>], is_sync: bool) -> bool {
    let slice = nals.iter().find(|nal| nal.kind().is_slice());
    slice.is_some_and(|slice| {
        slice.kind() == NalType::Idr
            || (is_sync && h264::slice_type(slice) == Some(SliceType::I))
            || nals
                .iter()
                .any(|nal| nal.kind() == NalType::Sei && Sei::parse(nal.payload()).recovery_point().is_some())
    })
}

/// The byte stream of a unit of H.264, behind `sets` where it brings none.
fn annex_b(nals: &[Nal<'_>], sets: &[u8]) -> Vec<u8> {
    let has = |kind| nals.iter().any(|nal| nal.kind() == kind);
    let sets = if has(NalType::Sps) && has(NalType::Pps) { &[] } else { sets };
    let is_delimiter = |nal: &Nal<'_>| nal.kind() == NalType::AccessUnitDelimiter;
    byte_stream(&h264::ACCESS_UNIT_DELIMITER, sets, nals, is_delimiter)
}

/// The same of H.265.
fn h265_annex_b(nals: &[Nal<'_>], sets: &[u8]) -> Vec<u8> {
    let has = |kind| nals.iter().any(|nal| h265_kind(nal) == kind);
    let brings = has(h265::NalType::Vps) && has(h265::NalType::Sps) && has(h265::NalType::Pps);
    let is_delimiter = |nal: &Nal<'_>| h265_kind(nal) == h265::NalType::AccessUnitDelimiter;
    byte_stream(&h265::ACCESS_UNIT_DELIMITER, if brings { &[] } else { sets }, nals, is_delimiter)
}

fn h265_kind(nal: &Nal<'_>) -> h265::NalType {
    h265::NalType::of(nal.bytes.first().copied().unwrap_or_default())
}

/// NAL units behind start codes, `delimiter` and `sets` in front of them in place of delimiters of their own.
fn byte_stream(
    delimiter: &[u8],
    sets: &[u8],
    nals: &[Nal<'_>],
    is_delimiter: impl Fn(&Nal<'_>) -> bool,
) -> Vec<u8> {
    let sizes = nals.iter().map(|nal| nal.bytes.len().saturating_add(4));
    let fixed = delimiter.len().saturating_add(sets.len());
    let mut out = Vec::with_capacity(sizes.fold(fixed, usize::saturating_add));
    out.extend_from_slice(delimiter);
    out.extend_from_slice(sets);
    for nal in nals.iter().filter(|nal| !is_delimiter(nal)) {
        out.extend_from_slice(&[0, 0, 0, 1]);
        out.extend_from_slice(nal.bytes);
    }
    out
}
