//! The decoder's whole state as a value: what a frame is decoded against, and what it leaves behind.

use super::frame::{Frame, Geometry};
use super::tables::{coefficients, modes};
use glassline_media::Size;
use std::fmt;
use std::sync::{Arc, OnceLock};
use twox_hash::xxhash3_128;

/// All that decoding a frame depends on, beside the frame's bytes: three reference frames, probabilities,
/// segmentation, filter offsets.
///
/// A state never changes. Cloning one costs the same as cloning an [`Arc`] and copies no plane; two states that were
/// made from one share what neither of them replaced. At 1280×720 a state takes 4.0 MiB where its three references
/// are three different frames.
///
/// Two states are equal where their [hashes](State::hash) are.
#[derive(Clone, Default)]
pub struct State(pub(crate) Option<Arc<Inner>>);

/// A state that a key frame has made.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) geometry: Geometry,
    pub(crate) last: Frame,
    pub(crate) golden: Frame,
    pub(crate) altref: Frame,
    pub(crate) probs: Probabilities,
    pub(crate) segmentation: Segmentation,
    pub(crate) segment_map: Arc<[u8]>,
    pub(crate) filter: Filter,
    pub(crate) sign_bias: [bool; 2],
    pub(crate) horizontal_scale: u8,
    pub(crate) vertical_scale: u8,
    pub(crate) colour_space: bool,
    pub(crate) clamping_unneeded: bool,
    /// The hash, once someone has asked for it.
    pub(crate) hash: OnceLock<u128>,
}

/// Probabilities that last from frame to frame (RFC 6386 §9.9 to §9.11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probabilities {
    pub(crate) coefficients: coefficients::CoefficientProbs,
    pub(crate) y_mode: [u8; 4],
    pub(crate) uv_mode: [u8; 3],
    pub(crate) vector: modes::VectorProbs,
}

impl Default for Probabilities {
    fn default() -> Probabilities {
        Probabilities {
            coefficients: coefficients::DEFAULT,
            y_mode: modes::DEFAULT_Y_MODE,
            uv_mode: modes::DEFAULT_UV_MODE,
            vector: modes::DEFAULT_VECTOR,
        }
    }
}

/// What the four segments of a picture do differently (§9.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segmentation {
    pub(crate) enabled: bool,
    /// Whether the values replace the frame's instead of being added to them.
    pub(crate) absolute: bool,
    pub(crate) quantizer: [i8; 4],
    pub(crate) filter_level: [i8; 4],
}

/// What reference frame and mode of a macroblock add to its filter level (§9.6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) deltas_enabled: bool,
    /// For intra, last, golden, altref.
    pub(crate) reference: [i8; 4],
    /// For B_PRED, zero vector, other vectors, split.
    pub(crate) mode: [i8; 4],
}

/// 128 bits that name a [`State`]; equal for equal states, on every platform and in every version that reads the
/// same [saved](State::save) format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateHash(u128);

impl StateHash {
    /// The hash as bytes, for the wire: little endian.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// The hash that [`StateHash::to_bytes`] gave.
    pub const fn from_bytes(bytes: [u8; 16]) -> StateHash {
        StateHash(u128::from_le_bytes(bytes))
    }
}

impl fmt::Display for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateHash({self})")
    }
}

impl State {
    /// The state in which every stream begins: nothing to predict from, so only a key frame can be decoded.
    pub fn new() -> State {
        State::default()
    }

    /// The size of the stream's pictures, or `None` before the first key frame.
    pub fn size(&self) -> Option<Size> {
        self.0.as_ref().map(|inner| inner.geometry.size())
    }

    /// How the newest key frame asks for pictures to be enlarged for display, horizontally and vertically: 0 not at
    /// all, 1 by 5/4, 2 by 5/3, 3 by 2. Decoding does not do it.
    pub fn scaling(&self) -> (u8, u8) {
        self.0.as_ref().map_or((0, 0), |inner| (inner.horizontal_scale, inner.vertical_scale))
    }

    /// The state's name.
    ///
    /// XXH3-128 of what [`State::save`] writes in front of the planes – their hashes are part of it – so it is stable
    /// as long as that format is. A frame is hashed once, when a state that holds it is first asked, which takes about
    /// a tenth of a millisecond at 1280×720, 1 to 2 % of encoding it; the references that a state has in common with
    /// one that was asked before cost nothing more. The hash is not cryptographic: two states of the same hash can be
    /// made on purpose.
    pub fn hash(&self) -> StateHash {
        StateHash(match &self.0 {
            Some(inner) => *inner.hash.get_or_init(|| xxhash3_128::Hasher::oneshot(&inner.head())),
            None => xxhash3_128::Hasher::oneshot(b""),
        })
    }

    /// Bytes of memory that the state takes where it shares nothing with other states. Frames that are several
    /// references at once count once.
    pub fn memory_bytes(&self) -> usize {
        let Some(inner) = &self.0 else { return 0 };
        let frames = inner.distinct_frames();
        let planes: usize =
            frames.iter().flat_map(|frame| (0..3).map(|index| frame.plane(index).len())).sum();
        planes + inner.segment_map.len() + size_of::<Inner>()
    }
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        self.hash() == other.hash()
    }
}

impl Eq for State {}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size() {
            Some(size) => write!(f, "State({size}, {})", self.hash()),
            None => f.write_str("State(before the first key frame)"),
        }
    }
}

impl Inner {
    /// The references without repetition: last, then golden and altref where they are other frames.
    pub(crate) fn distinct_frames(&self) -> Vec<&Frame> {
        let mut frames: Vec<&Frame> = Vec::with_capacity(3);
        for frame in [&self.last, &self.golden, &self.altref] {
            if !frames.iter().any(|known| known.same(frame)) {
                frames.push(frame);
            }
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::{Quality, Replace, Request, Updates, encode};
    use super::*;
    use glassline_media::{Picture, PixelFormat, Time};

    fn picture(size: Size, number: usize) -> Picture {
        let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
        for plane in picture.planes_mut() {
            for (y, line) in plane.lines_mut().enumerate() {
                line.fill((60 * number + y / 9) as u8);
            }
        }
        picture
    }

    /// A state whose three references are three frames.
    fn state(size: Size) -> State {
        let mut state = State::new();
        for (number, golden) in [Replace::Keep, Replace::ByCurrent, Replace::Keep].into_iter().enumerate() {
            let updates = Updates { golden, ..Updates::default() };
            let request =
                Request { quality: Quality::Quantizer(100), speed: 10, updates, ..Request::default() };
            state = encode(&state, &picture(size, number), &request).unwrap().state;
        }
        assert_eq!(state.0.as_ref().unwrap().distinct_frames().len(), 3);
        state
    }

    #[test]
    fn nothing_shared_takes_less_than_4_5_mib_at_720p() {
        let bytes = state(Size::new(1280, 720).unwrap()).memory_bytes();
        // Three frames of 4:2:0 are the least.
        assert!((3 * 1280 * 720 * 3 / 2..=9 << 19).contains(&bytes), "{bytes} bytes");
    }

    #[test]
    fn a_clone_copies_nothing_and_the_next_state_only_what_is_new() {
        let size = Size::new(48, 48).unwrap();
        let before = state(size);
        let clone = before.clone();
        let (Some(a), Some(b)) = (&before.0, &clone.0) else { unreachable!("a picture was encoded") };
        assert!(Arc::ptr_eq(a, b));
        let next = encode(&clone, &picture(size, 3), &Request::default()).unwrap().state;
        let next = next.0.unwrap();
        assert!(next.golden.same(&a.golden) && next.altref.same(&a.altref));
        assert!(!next.last.same(&a.last));
    }
}
