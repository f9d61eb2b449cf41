//! AV1 by slots: a state is a slot of the decoder and the name of the picture in it.
//!
//! Each picture is predicted from one slot and overwrites one other. A candidate that is not sent has overwritten a slot at this
//! end alone, so that what the receiver has there is never named again before it is overwritten there too.

use super::{Coder, CodingError, Encoded, Kind, State, Task};
use crate::wire::{FrameCodec, StateTag};
use glassline_codec::av1::{self, COARSEST, Encoder, FINEST, SPEEDS, Settings, Slot};
use glassline_codec::vp8::{Parallel, Quality};
use glassline_media::{FrameRate, Picture, Size};

/// Threads within a picture: more bring nothing at 720p.
const MOST_THREADS: usize = 4;
/// Indices by which a frame's size halves, where nothing else is known: of 214 pictures of people that were encoded twice it was
/// 7.6 in the middle, and 6 to 10 in half of them.
const SLOPE: f64 = 9.0;
/// Tries to meet a size, each of which takes as long as a picture: of a picture that needs no other, and of any other.
const KEY_TRIES: u32 = 3;
const TRIES: u32 = 2;
/// A frame with this share of the bytes that it may take is as good as any.
const MET_SHARE: f64 = 0.75;
/// What is aimed at of the bytes that a frame may take.
const AIM: f64 = 0.92;
/// Where nothing is known of a picture: a quantiser in the middle.
const FIRST_QUANTIZER: u8 = 45;

/// A slot with a picture in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    slot: Slot,
    /// Names what was encoded, of all that was.
    id: u64,
    tag: StateTag,
}

impl Place {
    pub(super) fn tag(&self) -> StateTag {
        self.tag
    }

    pub(super) fn frame_codec(&self) -> FrameCodec {
        FrameCodec::Av1 { slot: self.slot.index() }
    }
}

/// A frame, and the picture that decoders show for it where that is wanted.
struct Coded {
    bytes: Vec<u8>,
    picture: Option<Picture>,
}

/// Encodes, and knows what is in which slot.
pub(super) struct Av1Coder {
    frame_rate: FrameRate,
    encoder: Option<Encoder>,
    speed: u8,
    /// What decoders show is wanted with each picture.
    keeps_pictures: bool,
    /// What each slot holds.
    held: [u64; Slot::ALL.len()],
    next: u64,
    /// What may not be overwritten, the dearest first.
    dear: Vec<Place>,
    /// What was made of the picture under way.
    candidates: Vec<Place>,
    /// Quantiser and bytes of what was encoded last: of key frames, and of others.
    last_key: Option<(u8, usize)>,
    last: Option<(u8, usize)>,
}

impl Av1Coder {
    pub(super) fn new(frame_rate: FrameRate) -> Av1Coder {
        Av1Coder {
            frame_rate,
            encoder: None,
            speed: 0,
            keeps_pictures: false,
            held: [0; Slot::ALL.len()],
            // 0 stands for nothing.
            next: 1,
            dear: Vec::new(),
            candidates: Vec::new(),
            last_key: None,
            last: None,
        }
    }

    fn holds(&self, place: Place) -> bool {
        self.held[usize::from(place.slot.index())] == place.id
    }

    /// The slot to overwrite.
    fn spare(&self) -> Slot {
        let is_in = |places: &[Place], slot: Slot| {
            places.iter().any(|place| place.slot == slot && self.holds(*place))
        };
        let is_free = |slot: &&Slot| !is_in(&self.dear, **slot) && !is_in(&self.candidates, **slot);
        let (staying, others) = self.dear.split_at(self.dear.len().min(2));
        let may_go = |slot: &Slot| !is_in(staying, *slot) && !is_in(&self.candidates, *slot);
        let least_dear = || others.iter().rev().map(|place| place.slot).find(may_go);
        // Two that stay and a few candidates of a picture leave one in any case.
        Slot::ALL.iter().find(is_free).copied().or_else(least_dear).unwrap_or(Slot::ALL[7])
    }

    fn encoder(
        &mut self,
        size: Size,
        speed: u8,
        parallel: &dyn Parallel,
    ) -> Result<&mut Encoder, CodingError> {
        if self.encoder.as_ref().is_none_or(|encoder| encoder.size() != size) {
            let threads = parallel.threads().clamp(1, MOST_THREADS);
            let settings = Settings { size, frame_rate: self.frame_rate, threads, speed };
            self.encoder = Some(Encoder::new(&settings)?);
            self.held = [0; Slot::ALL.len()];
        } else if self.speed != speed
            && let Some(encoder) = &mut self.encoder
        {
            encoder.set_speed(speed)?;
        }
        self.speed = speed;
        self.encoder.as_mut().ok_or(CodingError::Av1(av1::Error::NoPicture))
    }

    /// Encodes once, into a slot that is spare or into `target`.
    fn encode_at(
        &mut self,
        task: Task<'_>,
        quantizer: u8,
        target: Option<Slot>,
        parallel: &dyn Parallel,
    ) -> Result<(Coded, Place), CodingError> {
        let source = task.source.and_then(place_of).filter(|place| self.holds(*place));
        let id = self.next;
        self.next += 1;
        let slot = match source {
            Some(_) => target.unwrap_or_else(|| self.spare()),
            None => Slot::ALL[0],
        };
        let speed = task.request.speed.clamp(*SPEEDS.start(), *SPEEDS.end());
        let encoder = self.encoder(task.picture.size(), speed, parallel)?;
        let encoded = match source {
            Some(source) => encoder.encode(task.picture, quantizer, source.slot, slot),
            None => encoder.encode_key(task.picture, quantizer),
        };
        match source {
            Some(_) => self.held[usize::from(slot.index())] = id,
            None => self.held = [id; Slot::ALL.len()],
        }
        let encoded = encoded.inspect_err(|_| {
            // What the library has overwritten before it failed is not known.
            self.encoder = None;
            self.held = [0; Slot::ALL.len()];
        })?;
        let size = Some((quantizer, encoded.bytes.len()));
        match source {
            Some(_) => self.last = size,
            None => self.last_key = size,
        }
        let tag = StateTag::first_of(encoded.hash.to_bytes());
        let wanted = self.encoder.as_ref().filter(|_| self.keeps_pictures);
        let picture = wanted.map(Encoder::reconstruction).transpose()?;
        Ok((Coded { bytes: encoded.bytes, picture }, Place { slot, id, tag }))
    }

    /// Encodes until the frame has a size, with the tries that there are.
    fn encode_sized(
        &mut self,
        task: Task<'_>,
        (bytes, never_above): (usize, bool),
        parallel: &dyn Parallel,
    ) -> Result<(Coded, Place, u8), CodingError> {
        let tries = if task.source.is_none() { KEY_TRIES } else { TRIES };
        let wanted = |(quantizer, found): (u8, usize)| {
            let octaves = (found.max(1) as f64 / (bytes.max(1) as f64 * AIM)).log2();
            from_index((f64::from(to_index(quantizer)) + octaves * SLOPE).round().clamp(0.0, 127.0) as u8)
        };
        // What was encoded last was this picture, or the one before it; of key frames one may be a while ago, and tells more still than
        // a picture that is predicted.
        let last =
            if task.source.is_none() { self.last_key.or(self.last) } else { self.last.or(self.last_key) };
        let mut quantizer = last.map_or(FIRST_QUANTIZER, wanted);
        let mut target = None;
        for tried in 1.. {
            let (encoded, place) = self.encode_at(task, quantizer, target, parallel)?;
            let found = encoded.bytes.len();
            let fits = found <= bytes;
            let is_met = fits && (found as f64 >= MET_SHARE * bytes as f64 || quantizer <= FINEST);
            if is_met || fits && tried >= tries || !never_above && tried >= tries {
                return Ok((encoded, place, quantizer));
            }
            if !fits && (quantizer == COARSEST || tried > tries) {
                return Err(CodingError::Target { target: bytes });
            }
            let other = wanted((quantizer, found));
            quantizer = if fits {
                other.min(quantizer - 1)
            } else {
                // The last chance: what is too large would be none.
                let caution = if tried >= tries { 2 } else { 0 };
                COARSEST.min(other.max(quantizer + 1) + caution)
            };
            target = task.source.is_some().then_some(place.slot);
        }
        unreachable!("tries end")
    }
}

fn place_of(state: &State) -> Option<Place> {
    match state.kind {
        Kind::Av1(place) => Some(place),
        Kind::Vp8(_) => None,
    }
}

/// Steps of AC coefficients (AV1 specification §7.12.2) for the library's quantisers from 2, the finest that it has, to 63.
const STEPS: [u16; 62] = [
    15, 19, 23, 27, 31, 35, 39, 43, 47, 51, 55, 59, 63, 67, 71, 75, 79, 83, 87, 91, 95, 99, 104, 112, 120,
    128, 136, 144, 152, 164, 176, 188, 200, 215, 231, 247, 265, 285, 305, 329, 353, 380, 408, 440, 474, 510,
    550, 593, 639, 689, 743, 801, 864, 933, 1007, 1087, 1173, 1267, 1369, 1479, 1628, 1828,
];

/// Indices by which the step doubles. The library's quantisers are far apart at the fine end and close together at the coarse
/// one; sizes go with steps.
const INDICES_PER_OCTAVE: f64 = 16.0;

/// What is an index of 0 to 111 in steps of the same ratio, as a quantiser of the library.
fn from_index(index: u8) -> u8 {
    let after = STEPS.partition_point(|step| index_of(*step) <= f64::from(index));
    // The nearer one of the two around it.
    let distance = |at: &usize| (index_of(STEPS[*at]) - f64::from(index)).abs();
    let near = [after.saturating_sub(1), after.min(STEPS.len() - 1)];
    let nearest = near.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0);
    FINEST + nearest as u8
}

fn to_index(quantizer: u8) -> u8 {
    let step = STEPS[usize::from(quantizer.clamp(FINEST, COARSEST) - FINEST)];
    index_of(step).round() as u8
}

fn index_of(step: u16) -> f64 {
    INDICES_PER_OCTAVE * (f64::from(step) / f64::from(STEPS[0])).log2()
}

fn told((coded, place): (Coded, Place), quantizer: u8, picture: &Picture) -> Encoded {
    let state = State { kind: Kind::Av1(place), size: picture.size() };
    Encoded { bytes: coded.bytes, state, quantizer: to_index(quantizer), picture: coded.picture }
}

impl Coder for Av1Coder {
    fn begin(&mut self, dear: &[&State]) {
        self.dear = dear.iter().filter_map(|state| place_of(state)).collect();
        self.candidates.clear();
    }

    fn encode(
        &mut self,
        task: Task<'_>,
        qualities: &[Quality],
        parallel: &dyn Parallel,
    ) -> Result<Vec<Encoded>, CodingError> {
        let mut all = Vec::with_capacity(qualities.len());
        for quality in qualities {
            let (encoded, place, quantizer) = match *quality {
                Quality::Quantizer(index) => {
                    let quantizer = from_index(index);
                    let (encoded, place) = self.encode_at(task, quantizer, None, parallel)?;
                    (encoded, place, quantizer)
                }
                Quality::Bytes { target, never_above } => {
                    self.encode_sized(task, (target, never_above), parallel)?
                }
            };
            self.candidates.push(place);
            all.push(told((encoded, place), quantizer, task.picture));
        }
        Ok(all)
    }

    fn keep_pictures(&mut self, wanted: bool) {
        self.keeps_pictures = wanted;
    }

    fn has(&self, state: &State) -> bool {
        place_of(state).is_some_and(|place| self.holds(place))
    }

    fn resampled(&mut self, state: &State, size: Size) -> Option<State> {
        (state.size == size && self.has(state)).then(|| state.clone())
    }

    fn has_cheap_candidates(&self) -> bool {
        false
    }

    fn nearest(&self, index: u8) -> u8 {
        to_index(from_index(index))
    }

    fn slope(&self) -> f64 {
        SLOPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_go_with_steps() {
        for quantizer in FINEST..=COARSEST {
            assert_eq!(from_index(to_index(quantizer)), quantizer);
        }
        assert_eq!((to_index(0), to_index(FINEST), to_index(COARSEST)), (0, 0, 111));
        assert_eq!((from_index(0), from_index(112), from_index(127)), (FINEST, COARSEST, COARSEST));
        assert!((0..127).all(|index| from_index(index) <= from_index(index + 1)));
    }
}
