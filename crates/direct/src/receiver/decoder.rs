//! The decoders of the receiving end: from a state and a frame to a picture and the next state.

use crate::wire::{FrameCodec, PictureHeader, StateTag};
use glassline_codec::vp8::{self, Limits, State, Workspace, decode_in};
use glassline_media::{Picture, Size};
use thiserror::Error;

/// Threads that decode AV1: a picture of 720p takes them 4 ms.
#[cfg(feature = "av1")]
const AV1_THREADS: usize = 2;

/// Why pictures are refused that may be whole.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedPicture {
    /// It is larger than the caller's limit.
    #[error("a picture of {size} has {} samples, and the limit on pictures is {max_pixels}", u64::from(size.width) * u64::from(size.height))]
    TooLarge {
        /// Its size.
        size: Size,
        /// The limit, in samples.
        max_pixels: u32,
    },
    /// The pictures are AV1, and there is no decoder of it.
    #[error("the pictures are AV1, and this build has no decoder of it")]
    NoAv1,
}

/// What pictures are decoded against.
#[derive(Clone, Debug)]
pub(super) enum Held {
    Vp8(State),
    /// A slot of the AV1 decoder.
    #[cfg(feature = "av1")]
    Slot(u8),
}

impl Held {
    /// Whether it is this slot's.
    #[cfg(feature = "av1")]
    pub(super) fn is_in(&self, slot: u8) -> bool {
        matches!(self, Held::Slot(own) if *own == slot)
    }

    /// Whether it is this slot's.
    #[cfg(not(feature = "av1"))]
    pub(super) fn is_in(&self, _: u8) -> bool {
        false
    }

    /// Whether it is in a decoder, and not a value.
    pub(super) fn is_in_slots(&self) -> bool {
        !matches!(self, Held::Vp8(_))
    }
}

/// Decodes what comes; `None` as the error: damaged.
pub(super) struct Decoder {
    limits: Limits,
    workspace: Workspace,
    /// That of the run of this epoch.
    #[cfg(feature = "av1")]
    av1: Option<(u32, glassline_codec::av1::Decoder)>,
}

type Decoded = Result<(Picture, Held), Option<RefusedPicture>>;

impl Decoder {
    pub(super) fn new(limits: Limits) -> Decoder {
        Decoder {
            limits,
            workspace: Workspace::new(),
            #[cfg(feature = "av1")]
            av1: None,
        }
    }

    /// Decodes a picture of the run `epoch` against `source`, which is there where the header names one.
    pub(super) fn decode(
        &mut self,
        epoch: u32,
        header: &PictureHeader,
        source: Option<&Held>,
        frame: &[u8],
    ) -> Decoded {
        if let Some(size) = header.size {
            self.limits.check_size(size).map_err(|_| self.too_large(size))?;
        }
        match header.codec {
            FrameCodec::Vp8 => self.decode_vp8(header, source, frame),
            FrameCodec::Av1 { slot } => self.decode_av1(epoch, header, source, slot, frame),
        }
    }

    fn too_large(&self, size: Size) -> Option<RefusedPicture> {
        Some(RefusedPicture::TooLarge { size, max_pixels: self.limits.max_pixels })
    }

    fn decode_vp8(&mut self, header: &PictureHeader, source: Option<&Held>, frame: &[u8]) -> Decoded {
        let source = match source {
            None => State::new(),
            Some(Held::Vp8(state)) => state.clone(),
            #[cfg(feature = "av1")]
            Some(Held::Slot(_)) => return Err(None),
        };
        let workspace = &mut self.workspace;
        let size = header.size.filter(|_| header.source.is_some());
        let source = size.map_or(source.clone(), |size| source.resampled(size, workspace));
        let decoded = decode_in(&source, frame, &self.limits, workspace).map_err(|error| match error {
            vp8::Error::TooLarge { width, height, .. } => {
                Size::new(width.into(), height.into()).ok().and_then(|size| self.too_large(size))
            }
            _ => None,
        })?;
        let is_it =
            StateTag::from(decoded.state.hash()) == header.target && decoded.key == header.source.is_none();
        match decoded.picture {
            Some(picture) if is_it => Ok((picture, Held::Vp8(decoded.state))),
            _ => Err(None),
        }
    }

    #[cfg(not(feature = "av1"))]
    fn decode_av1(&mut self, _: u32, _: &PictureHeader, _: Option<&Held>, _: u8, _: &[u8]) -> Decoded {
        Err(Some(RefusedPicture::NoAv1))
    }

    #[cfg(feature = "av1")]
    fn decode_av1(
        &mut self,
        epoch: u32,
        header: &PictureHeader,
        source: Option<&Held>,
        slot: u8,
        frame: &[u8],
    ) -> Decoded {
        use glassline_codec::av1::{self, Error};
        let is_of_run = self.av1.as_ref().is_some_and(|(run, _)| *run == epoch);
        match source {
            // Another run has its own slots, and begins with a picture that needs no other.
            None if !is_of_run => {
                let decoder = av1::Decoder::new(AV1_THREADS, self.limits.max_pixels).map_err(|_| None)?;
                self.av1 = Some((epoch, decoder));
            }
            None => {}
            Some(Held::Slot(_)) if is_of_run => {}
            Some(_) => return Err(None),
        }
        let Some((_, decoder)) = &mut self.av1 else { return Err(None) };
        let decoded = match decoder.decode(frame) {
            Ok(decoded) => decoded,
            Err(error) => {
                // It takes nothing more of this run but a picture that needs no other.
                self.av1 = None;
                return Err(match error {
                    Error::TooLarge { width, height, .. } => {
                        Size::new(width, height).ok().and_then(|size| self.too_large(size))
                    }
                    _ => None,
                });
            }
        };
        if StateTag::first_of(decoded.hash.to_bytes()) != header.target {
            self.av1 = None;
            return Err(None);
        }
        Ok((decoded.picture, Held::Slot(slot)))
    }
}
