//! The parameter sets of a video track, kept for key frames that come without them: many cameras say them in SDP alone.

use glassline_media::Codec;
use glassline_media::bitstream::h264::{self, nal, nals};
use glassline_media::bitstream::{self, h265};

/// Sets of one kind at most.
pub(in crate::rtp) const SETS_MAX: usize = 16;
/// Bytes of a set at most; larger ones do not occur.
pub(in crate::rtp) const SET_BYTES_MAX: usize = 4096;

/// What a NAL unit is, as far as access units depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A coded slice. It begins a picture where it has the picture's first block.
    Slice { begins_picture: bool },
    /// A parameter set: 0 video, 1 sequence, 2 picture.
    Set(usize),
    /// Something that stands in front of a picture: behind a slice it begins the next access unit.
    Front,
    /// Something else.
    Other,
}

impl Kind {
    /// By the first bytes of a NAL unit.
    pub(super) fn of(codec: Codec, nal: &[u8]) -> Kind {
        let Some(&header) = nal.first() else { return Kind::Other };
        // The first field of a slice is which block it begins with: 0 is a single set bit.
        let begins = |at: usize| nal.get(at).is_some_and(|byte| byte & 0x80 != 0);
        if codec == Codec::H265 {
            // ITU-T H.265 §7.4.2.4.4: what begins an access unit behind a slice.
            return match header >> 1 & 0x3f {
                0..=31 => Kind::Slice { begins_picture: begins(2) },
                32 => Kind::Set(0),
                33 => Kind::Set(1),
                34 => Kind::Set(2),
                35 | 39 | 41..=44 | 48..=55 => Kind::Front,
                _ => Kind::Other,
            };
        }
        // ITU-T H.264 §7.4.1.2.3.
        match header & 0x1f {
            1..=5 => Kind::Slice { begins_picture: begins(1) },
            7 => Kind::Set(1),
            8 => Kind::Set(2),
            6 | 9 | 14..=18 => Kind::Front,
            _ => Kind::Other,
        }
    }

    /// Whether it begins the next access unit behind a slice.
    pub(super) fn begins_unit(self) -> bool {
        matches!(self, Kind::Set(_) | Kind::Front)
    }
}

/// Sets by their kind: video (H.265 alone), sequence, picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ParameterSets([Vec<Vec<u8>>; 3]);

impl ParameterSets {
    /// Of NAL units that came beside the stream; what is no parameter set is left out.
    pub(super) fn of<'a>(codec: Codec, nals: impl IntoIterator<Item = &'a [u8]>) -> ParameterSets {
        let mut sets = ParameterSets::default();
        for nal in nals {
            sets.add(codec, nal);
        }
        sets
    }

    fn add(&mut self, codec: Codec, nal: &[u8]) {
        if let Kind::Set(kind) = Kind::of(codec, nal)
            && let Some(sets) = self.0.get_mut(kind)
            && sets.len() < SETS_MAX
            && nal.len() <= SET_BYTES_MAX
        {
            sets.push(nal.to_vec());
        }
    }

    /// The first sequence parameter set: how many pictures may be decoded before one that is shown earlier, where it says it.
    pub(super) fn reorder_depth(&self, codec: Codec) -> Option<usize> {
        let [_, sequences, _] = &self.0;
        let set = sequences.first()?;
        if codec == Codec::H265 {
            return h265::Sps::parse(set).ok()?.reorder_pictures.map(usize::from);
        }
        let sps = h264::Sps::parse(set.get(1..)?).ok()?;
        // What follows from the number of reference frames is a bound that few encoders come near to.
        let depth = sps.reorder_depth();
        (sps.reorder_frames.is_some() || depth == 0).then_some(depth.into())
    }

    /// Takes over the sets in front of a whole unit. Returns whether sequence parameter sets are others now.
    pub(super) fn update(&mut self, codec: Codec, unit: &[u8]) -> bool {
        let (head, _) = bitstream::head(codec, unit);
        let mut shown = ParameterSets::default();
        for nal in head {
            shown.add(codec, nal.bytes);
        }
        let mut is_changed = false;
        for (kind, (own, shown)) in self.0.iter_mut().zip(shown.0).enumerate() {
            if !shown.is_empty() && *own != shown {
                *own = shown;
                is_changed |= kind == 1;
            }
        }
        is_changed
    }

    /// Puts the sets that a key frame lacks in front of its first slice's unit, behind a delimiter.
    pub(super) fn complete(&self, codec: Codec, unit: Vec<u8>) -> Vec<u8> {
        let mut has = [false; 3];
        let (mut after, mut is_first) = (0, true);
        let (head, _) = bitstream::head(codec, &unit);
        for nal in head {
            match Kind::of(codec, nal.bytes) {
                Kind::Set(kind) => {
                    if let Some(has) = has.get_mut(kind) {
                        *has = true;
                    }
                }
                _ if is_first && is_delimiter(codec, nal.bytes) => {
                    after = nal.offset.saturating_add(nal.bytes.len());
                }
                _ => {}
            }
            is_first = false;
        }
        let missing = || {
            let kinds = self.0.iter().zip(has).filter(|(_, has)| !has);
            kinds.flat_map(|(sets, _)| sets)
        };
        let bytes = missing().fold(0usize, |sum, set| sum.saturating_add(set.len()).saturating_add(4));
        if bytes == 0 {
            return unit;
        }
        let (delimiter, rest) = unit.split_at(after.min(unit.len()));
        let mut whole = Vec::with_capacity(unit.len().saturating_add(bytes));
        whole.extend_from_slice(delimiter);
        for set in missing() {
            whole.extend_from_slice(&START_CODE);
            whole.extend_from_slice(set);
        }
        whole.extend_from_slice(rest);
        whole
    }
}

/// In front of each NAL unit.
pub(super) const START_CODE: [u8; 4] = [0, 0, 0, 1];

fn is_delimiter(codec: Codec, nal: &[u8]) -> bool {
    nal.first().is_some_and(|header| match codec {
        Codec::H265 => header >> 1 & 0x3f == 35,
        _ => header & 0x1f == 9,
    })
}

/// The NAL units in bytes that may have start codes although the format has none there: some senders leave them in.
pub(super) fn without_start_codes(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let has_codes = bytes.starts_with(&[0, 0, 1]) || bytes.starts_with(&START_CODE);
    let whole = if has_codes { None } else { Some(bytes) };
    let split = if has_codes { bytes } else { &[] };
    whole.into_iter().chain(nals(split).map(|nal: nal::Nal<'_>| nal.bytes)).filter(|nal| !nal.is_empty())
}
