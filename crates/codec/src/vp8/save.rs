//! A state as bytes.
//!
//! ```text
//! head     "GLV8" version:1  width:2 height:2  horizontal_scale:1 vertical_scale:1
//!          flags:1 (bit 0 golden's sign bias, 1 altref's, 2 colour_space, 3 clamping_type, 4 segmentation enabled,
//!                   5 segments' values are absolute, 6 filter deltas enabled)
//!          quantiser of 4 segments:4 filter level of 4 segments:4  filter deltas:8
//!          probabilities: coefficients:1056 luma modes:4 chroma modes:3 vectors:38
//!          segment of each macroblock, 1 byte each, row by row
//!          hashes of last, golden, altref: 16 each
//! frames   for each of last, golden, altref with a hash that has not come before: the lines of its three planes,
//!          as far as whole macroblocks reach
//! ```
//! Numbers are little endian. The hash of a state is that of its head, which names the frames by their hashes.

use super::error::Error;
use super::frame::{Frame, Geometry};
use super::limits::Limits;
use super::state::{Filter, Inner, Probabilities, Segmentation, State};
use super::workspace::Workspace;
use std::sync::{Arc, OnceLock};

const MAGIC: &[u8; 4] = b"GLV8";
const VERSION: u8 = 1;

impl Inner {
    /// All but the planes' samples.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1200 + self.segment_map.len());
        out.extend_from_slice(MAGIC);
        out.push(VERSION);
        out.extend_from_slice(&self.geometry.width.to_le_bytes());
        out.extend_from_slice(&self.geometry.height.to_le_bytes());
        out.extend_from_slice(&[self.horizontal_scale, self.vertical_scale]);
        let flags = [
            self.sign_bias[0],
            self.sign_bias[1],
            self.colour_space,
            self.clamping_unneeded,
            self.segmentation.enabled,
            self.segmentation.absolute,
            self.filter.deltas_enabled,
        ];
        out.push(flags.iter().rev().fold(0, |byte, &flag| byte << 1 | u8::from(flag)));
        let signed = [
            self.segmentation.quantizer,
            self.segmentation.filter_level,
            self.filter.reference,
            self.filter.mode,
        ];
        out.extend(signed.as_flattened().iter().map(|&value| value as u8));
        out.extend_from_slice(self.probs.coefficients.as_flattened().as_flattened().as_flattened());
        out.extend_from_slice(&self.probs.y_mode);
        out.extend_from_slice(&self.probs.uv_mode);
        out.extend_from_slice(self.probs.vector.as_flattened());
        out.extend_from_slice(&self.segment_map);
        for frame in [&self.last, &self.golden, &self.altref] {
            out.extend_from_slice(&frame.hash(&self.geometry).to_le_bytes());
        }
        out
    }
}

impl State {
    /// The state as bytes, for [`State::restore`]: 1.4 MB a distinct reference frame at 1280×720; nothing for the
    /// state before the first key frame.
    pub fn save(&self) -> Vec<u8> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let mut out = inner.head();
        let mut written: Vec<u128> = Vec::with_capacity(3);
        for frame in [&inner.last, &inner.golden, &inner.altref] {
            let hash = frame.hash(&inner.geometry);
            if written.contains(&hash) {
                continue;
            }
            written.push(hash);
            for index in 0..3 {
                let (width, lines, stride) = inner.geometry.plane(index);
                for line in frame.plane(index).chunks(stride).take(lines) {
                    out.extend_from_slice(&line[..width]);
                }
            }
        }
        out
    }

    /// The state that [`State::save`] wrote. Its hash is the same, and so is everything that is decoded from it.
    ///
    /// # Errors
    /// `Saved` where the bytes are anything else, damaged ones included; `TooLarge` above the limit. Memory is
    /// asked for in proportion to the bytes that are there.
    pub fn restore(bytes: &[u8], limits: &Limits) -> Result<State, Error> {
        if bytes.is_empty() {
            return Ok(State::new());
        }
        let mut input = Input { rest: bytes, total: bytes.len() };
        if input.array()? != *MAGIC {
            return Err(Error::Saved { problem: "it does not begin with GLV8", at: 0 });
        }
        if input.array()? != [VERSION] {
            return Err(Error::Saved { problem: "its version is not 1", at: 4 });
        }
        let (width, height) = (u16::from_le_bytes(input.array()?), u16::from_le_bytes(input.array()?));
        if !(1..1 << 14).contains(&width) || !(1..1 << 14).contains(&height) {
            return Err(Error::Saved { problem: "a side is not 1 to 16383", at: 5 });
        }
        limits.check(width, height)?;
        let geometry = Geometry::new(width, height);
        let inner = input.inner(geometry)?;
        if !input.rest.is_empty() {
            return Err(input.error("bytes follow the last frame"));
        }
        Ok(State(Some(Arc::new(inner))))
    }
}

struct Input<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Input<'a> {
    fn error(&self, problem: &'static str) -> Error {
        Error::Saved { problem, at: self.total - self.rest.len() }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(|| self.error("it ends early"))?;
        self.rest = rest;
        Ok(*head)
    }

    fn slice(&mut self, bytes: usize) -> Result<&'a [u8], Error> {
        let (head, rest) = self.rest.split_at_checked(bytes).ok_or_else(|| self.error("it ends early"))?;
        self.rest = rest;
        Ok(head)
    }

    fn signed(&mut self) -> Result<[i8; 4], Error> {
        Ok(self.array()?.map(|byte: u8| byte as i8))
    }

    fn inner(&mut self, geometry: Geometry) -> Result<Inner, Error> {
        let [horizontal_scale, vertical_scale, flags] = self.array()?;
        if horizontal_scale > 3 || vertical_scale > 3 || flags > 0x7f {
            return Err(self.error("scaling or flags are out of range"));
        }
        let flag = |bit: u8| flags >> bit & 1 == 1;
        let segmentation = Segmentation {
            enabled: flag(4),
            absolute: flag(5),
            quantizer: self.signed()?,
            filter_level: self.signed()?,
        };
        let filter = Filter { deltas_enabled: flag(6), reference: self.signed()?, mode: self.signed()? };
        let mut probs = Probabilities::default();
        let coefficients = probs.coefficients.as_flattened_mut().as_flattened_mut().as_flattened_mut();
        coefficients.copy_from_slice(self.slice(coefficients.len())?);
        probs.y_mode = self.array()?;
        probs.uv_mode = self.array()?;
        let vector = probs.vector.as_flattened_mut();
        vector.copy_from_slice(self.slice(vector.len())?);
        let segment_map: Arc<[u8]> = self.slice(geometry.columns * geometry.rows)?.into();
        if segment_map.iter().any(|&segment| segment > 3) {
            return Err(self.error("a segment is not 0 to 3"));
        }
        let hashes = [self.array()?, self.array()?, self.array()?].map(u128::from_le_bytes);
        let last = self.frame(&geometry, hashes[0])?;
        let golden = if hashes[1] == hashes[0] { last.clone() } else { self.frame(&geometry, hashes[1])? };
        let altref = if hashes[2] == hashes[0] {
            last.clone()
        } else if hashes[2] == hashes[1] {
            golden.clone()
        } else {
            self.frame(&geometry, hashes[2])?
        };
        Ok(Inner {
            geometry,
            last,
            golden,
            altref,
            probs,
            segmentation,
            segment_map,
            filter,
            sign_bias: [flag(0), flag(1)],
            horizontal_scale,
            vertical_scale,
            colour_space: flag(2),
            clamping_unneeded: flag(3),
            hash: OnceLock::new(),
        })
    }

    fn frame(&mut self, geometry: &Geometry, expected: u128) -> Result<Frame, Error> {
        let bytes: usize = (0..3).map(|index| geometry.plane(index).0 * geometry.plane(index).1).sum();
        // Looked at before any memory is asked for.
        let mut samples = self.slice(bytes)?;
        let mut frame = Workspace::new().frame(geometry);
        for (index, plane) in frame.planes_mut().into_iter().enumerate() {
            let (width, lines, stride) = geometry.plane(index);
            for y in 0..lines {
                let (line, rest) = samples.split_at(width);
                plane[y * stride..][..width].copy_from_slice(line);
                samples = rest;
            }
        }
        let frame = frame.finish();
        if frame.hash(geometry) != expected {
            return Err(self.error("the samples of a frame are not those of its hash"));
        }
        Ok(frame)
    }
}
