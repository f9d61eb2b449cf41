//! The codec as the sender sees it: a function of a state and a picture.
//!
//! What a state is differs. Of VP8 it is a value: there are as many as one likes, and each can be brought to another size. Of AV1
//! it is one of a decoder's eight slots and the name of the picture in it: a later picture may overwrite it, so the coder is told
//! which ones are dear ([`Coder::begin`]), and says which ones are there still ([`Coder::has`]). A hardware encoder of which the
//! application chooses the slots fits the same trait.

#[cfg(feature = "av1")]
mod av1;
mod vp8;

use crate::settings::{SenderSettings, VideoCodec};
use crate::wire::{FrameCodec, StateTag};
use glassline_codec::vp8::{EncodeError, Parallel, Quality};
use glassline_media::{Picture, Size};
use thiserror::Error;

/// Why a picture was not encoded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CodingError {
    /// VP8's encoder refuses it.
    #[error(transparent)]
    Vp8(EncodeError),
    /// AV1's encoder refuses it.
    #[cfg(feature = "av1")]
    #[error(transparent)]
    Av1(#[from] glassline_codec::av1::Error),
    /// Not even the coarsest quantiser makes a frame so small.
    #[error("no frame of this picture is as small as {target} bytes")]
    Target {
        /// What was asked for.
        target: usize,
    },
}

impl From<EncodeError> for CodingError {
    fn from(error: EncodeError) -> CodingError {
        match error {
            EncodeError::Target { target, .. } => CodingError::Target { target },
            other => CodingError::Vp8(other),
        }
    }
}

/// What a picture may be coded against.
#[derive(Clone, Debug)]
pub(crate) struct State {
    kind: Kind,
    size: Size,
}

#[derive(Clone, Debug)]
enum Kind {
    Vp8(glassline_codec::vp8::State),
    #[cfg(feature = "av1")]
    Av1(av1::Place),
}

impl State {
    /// The size of its picture.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Names it to the receiver.
    pub(crate) fn tag(&self) -> StateTag {
        match &self.kind {
            // Made when it is asked for first: of most candidates it never is.
            Kind::Vp8(state) => state.hash().into(),
            #[cfg(feature = "av1")]
            Kind::Av1(place) => place.tag(),
        }
    }

    /// How the frame that made it is told to the receiver.
    pub(crate) fn frame_codec(&self) -> FrameCodec {
        match &self.kind {
            Kind::Vp8(_) => FrameCodec::Vp8,
            #[cfg(feature = "av1")]
            Kind::Av1(place) => place.frame_codec(),
        }
    }
}

/// How a picture is coded, whatever its quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Speed against quality, 0 to 10.
    pub(crate) speed: u8,
    /// It becomes the long-term reference, where the codec has one in its state.
    pub(crate) renews_long_term: bool,
}

/// A picture, and how it is encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    /// What it is coded against, of the picture's size; `None`: it needs no other.
    pub(crate) source: Option<&'a State>,
    pub(crate) picture: &'a Picture,
    pub(crate) request: Request,
}

/// A picture that was encoded.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    /// What the next one may be coded against.
    pub(crate) state: State,
    /// Index, 0 (best) to 127, whatever the codec's own scale.
    pub(crate) quantizer: u8,
    /// What a decoder shows, where that is there for nothing, or asked for ([`Coder::keep_pictures`]).
    pub(crate) picture: Option<Picture>,
}

/// A codec that codes against what it is told.
pub(crate) trait Coder: Send {
    /// Another picture comes. `dear` are the states that were sent and may be coded against, the dearest first: the first two
    /// stay in any case, of the others the last go first.
    fn begin(&mut self, dear: &[&State]);

    /// Encodes the picture in each of `qualities`, in their order; quantiser indices are 0 to 127. Sizes beside quantisers may
    /// be left out where time is short.
    ///
    /// # Errors
    /// [`CodingError::Target`]: a size that cannot be had. Any other: the picture cannot be encoded.
    fn encode(
        &mut self,
        task: Task<'_>,
        qualities: &[Quality],
        parallel: &dyn Parallel,
    ) -> Result<Vec<Encoded>, CodingError>;

    /// Whether what a decoder shows is wanted with each picture from now on.
    #[cfg(feature = "av1")]
    fn keep_pictures(&mut self, _wanted: bool) {}

    /// Whether a picture can be coded against `state` still.
    fn has(&self, state: &State) -> bool;

    /// `state` at another size; `None`: only a picture that needs no other changes the size.
    fn resampled(&mut self, state: &State, size: Size) -> Option<State>;

    /// Whether further qualities cost little beside the first one. Otherwise a picture is encoded once, and once more only
    /// where its size is not what was wanted.
    fn has_cheap_candidates(&self) -> bool;

    /// The quantiser index that is used where this one is asked for.
    fn nearest(&self, index: u8) -> u8;

    /// Indices by which a frame's size halves, before anything is known.
    fn slope(&self) -> f64;

    /// As [`Coder::encode`], in one quality.
    ///
    /// # Errors
    /// As there.
    fn encode_one(
        &mut self,
        task: Task<'_>,
        quality: Quality,
        parallel: &dyn Parallel,
    ) -> Result<Encoded, CodingError> {
        let mut encoded = self.encode(task, &[quality], parallel)?;
        // One quality was asked for, so one frame is there.
        Ok(encoded.swap_remove(0))
    }
}

/// The coder that is asked for.
pub(crate) fn of(settings: &SenderSettings) -> Box<dyn Coder> {
    match settings.video_codec {
        VideoCodec::Vp8 => Box::new(vp8::Vp8Coder::default()),
        #[cfg(feature = "av1")]
        VideoCodec::Av1 | VideoCodec::Auto => Box::new(av1::Av1Coder::new(settings.frame_rate)),
    }
}

/// A state for tests of what holds states: each shade makes another one.
#[cfg(test)]
pub(crate) fn test_state(shade: u8) -> State {
    use glassline_codec::vp8::Serial;
    use glassline_media::{PixelFormat, Time};
    let mut picture = Picture::new(PixelFormat::I420, Size::new(16, 16).expect("a size"), Time::ZERO);
    picture.planes_mut()[0].lines_mut().for_each(|line| line.fill(shade));
    let request = Request { speed: 6, renews_long_term: false };
    let task = Task { source: None, picture: &picture, request };
    let encoded = vp8::Vp8Coder::default().encode_one(task, Quality::Quantizer(40), &Serial);
    encoded.expect("a picture that can be encoded").state
}
