//! At which size pictures are encoded; and a picture that is encoded once more at another size, with as many bytes: because it would
//! be beyond recognition as it is, or to see whether pictures had better be coded at that size.

use super::pending::{Pending, told_size};
use crate::coder::{Coder, CodingError, Encoded, Request, State, Task};
use crate::size::{CodedSize, SizeControl};
use glassline_codec::vp8::{Parallel, Quality};
use glassline_measure::ssim::Ssim;
use glassline_media::pixels::Scaler;
use glassline_media::{Picture, Size, Time};

/// A picture is sent at a smaller size at once where that leaves this share of its distortion or less.
const RESCUE_SHARE: f64 = 0.8;

/// A picture that was sent, for a comparison.
struct Sample {
    /// As it was captured.
    source: Picture,
    pending: Pending,
    encoded: Encoded,
}

/// A picture at another size than it was encoded at before.
struct Resized {
    /// What is coded.
    picture: Picture,
    /// What it is coded against.
    state: Option<State>,
    encoded: Encoded,
}

/// A comparison of sizes.
pub(super) struct Tried {
    /// The size that was tried.
    pub(super) size: Size,
    /// By how much the area of the next picture is another, where it is.
    pub(super) factor: Option<f64>,
}

/// Brings pictures and states to the size at which they are coded, and keeps that size.
pub(super) struct Resizing {
    sizes: SizeControl,
    scaler: Option<Scaler>,
    /// The picture that is being encoded or waits for the choice, as it was captured.
    source: Option<Picture>,
    /// What was sent last.
    sample: Option<Sample>,
}

impl Resizing {
    pub(super) fn new(mode: CodedSize) -> Resizing {
        Resizing { sizes: SizeControl::new(mode), scaler: None, source: None, sample: None }
    }

    /// A picture of the source comes; whether it has the size of those before.
    pub(super) fn begin(&mut self, picture: &Picture) -> bool {
        self.source = Some(picture.clone());
        self.sizes.begin(picture.size())
    }

    /// A picture that needs no other comes next, and may take so many bytes.
    pub(super) fn begin_key(&mut self, bytes: u64) {
        self.sizes.begin_key(bytes);
    }

    /// The size at which pictures are coded now.
    pub(super) fn coded(&self) -> Size {
        self.sizes.coded()
    }

    /// The encoder's speed at that size, where this one is asked for at the source's.
    pub(super) fn speed(&self, asked: u8) -> u8 {
        self.sizes.speed(asked)
    }

    /// A picture of the source at that size.
    pub(super) fn scaled(&mut self, picture: &Picture) -> Picture {
        let coded = self.sizes.coded();
        if picture.size() == coded {
            return picture.clone();
        }
        match &mut self.scaler {
            Some(scaler) if scaler.size() == coded => scaler.scale(picture),
            scaler => scaler.insert(Scaler::new(coded)).scale(picture),
        }
    }

    /// A picture was sent with this quantiser. Returns by how much the area of the next is another, where it changes.
    pub(super) fn sent(&mut self, captured: Time, quantizer: u8) -> Option<f64> {
        self.sizes.sent(captured, quantizer)
    }

    /// Encodes `source` at `size` as `pending` was encoded at its own, with no more than so many bytes. `None`: not even the
    /// coarsest quantiser makes it so small.
    fn encode_at(
        &mut self,
        size: Size,
        source: &Picture,
        pending: &Pending,
        (bytes, asked_speed): (usize, u8),
        coder: &mut dyn Coder,
        parallel: &dyn Parallel,
    ) -> Result<Option<Resized>, CodingError> {
        let state = match &pending.state {
            Some(state) => match coder.resampled(state, size) {
                Some(state) => Some(state),
                None => return Ok(None),
            },
            None => None,
        };
        let picture = Scaler::new(size).scale(source);
        let quality = Quality::Bytes { target: bytes, never_above: true };
        let speed = self.sizes.speed_at(size, asked_speed);
        let request = Request { speed, ..pending.request };
        let task = Task { source: state.as_ref(), picture: &picture, request };
        match coder.encode_one(task, quality, parallel) {
            Ok(encoded) => Ok(Some(Resized { picture, state, encoded })),
            Err(CodingError::Target { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where the chosen candidate is so coarse that the picture can hardly be recognised, as at a cut on a narrow path: encodes
    /// the picture in as many bytes at a smaller size, and takes that instead if it is clearly nearer to the source. Returns
    /// by how much the area of the next picture is another, if it does.
    pub(super) fn rescue(
        &mut self,
        pending: &mut Pending,
        chosen: usize,
        asked_speed: u8,
        coder: &mut dyn Coder,
        parallel: &dyn Parallel,
    ) -> Result<Option<f64>, CodingError> {
        let (quantizer, bytes) = {
            let Encoded { quantizer, bytes, .. } = &pending.candidates[chosen];
            (*quantizer, bytes.len())
        };
        let Some(source) = self.source.clone() else { return Ok(None) };
        let Some(size) = self.sizes.rescue(quantizer) else { return Ok(None) };
        let resized = self.encode_at(size, &source, pending, (bytes, asked_speed), coder, parallel)?;
        let Some(Resized { picture, state, encoded }) = resized else { return Ok(None) };
        // What stands still in a picture is worth more than what is new in it, where its references are good.
        let ours = distortion(&source, pending.candidates[chosen].picture.as_ref());
        if distortion(&source, encoded.picture.as_ref()) > RESCUE_SHARE * ours {
            return Ok(None);
        }
        let factor = self.sizes.rescued(size, encoded.quantizer);
        pending.size = told_size(pending.source_size, source.size(), size);
        (pending.candidates[chosen], pending.picture, pending.state) = (encoded, picture, state);
        Ok(Some(factor))
    }

    /// Keeps what was sent, where it is good for a comparison.
    pub(super) fn keep_sample(&mut self, pending: Pending, encoded: Encoded) {
        // A key frame says nothing of those behind it.
        let source = self.source.take().filter(|_| pending.source.is_some());
        self.sample = source.map(|source| Sample { source, pending, encoded });
    }

    /// Compares the picture that was sent last with itself at the next smaller or larger size, where it is time for that
    /// ([`Sender::compare_sizes`](crate::Sender::compare_sizes)).
    pub(super) fn compare(
        &mut self,
        now: Time,
        asked_speed: u8,
        coder: &mut dyn Coder,
        parallel: &dyn Parallel,
    ) -> Result<Option<Tried>, CodingError> {
        let Some(sample) = self.sample.take() else { return Ok(None) };
        let Some(size) = self.sizes.poll_comparison(now) else { return Ok(None) };
        let Sample { source, pending, encoded } = sample;
        let bytes = encoded.bytes.len();
        let other = self.encode_at(size, &source, &pending, (bytes, asked_speed), coder, parallel)?;
        let other = other.map_or(f64::INFINITY, |other| distortion(&source, other.encoded.picture.as_ref()));
        let ours = distortion(&source, encoded.picture.as_ref());
        Ok(Some(Tried { size, factor: self.sizes.compared(now, ours, other) }))
    }
}

/// How far a picture is from its source when it is shown at its size: 1 - SSIM of luma.
pub(crate) fn distortion(source: &Picture, shown: Option<&Picture>) -> f64 {
    let Some(shown) = shown else { return f64::INFINITY };
    let shown = Scaler::new(source.size()).scale(shown);
    let ssim = Ssim::of(source, &shown).ok().and_then(|ssim| ssim.plane(0));
    1.0 - ssim.unwrap_or(0.0)
}
