//! H.264 by libx264 with quality before delay: it looks at the pictures behind one before it codes it.
//!
//! ```text
//! picture ─► push ─► look-ahead (up to 250 pictures) ─► B-pictures wait for what they refer to ─► unit of an earlier picture
//! ```
//! Units come out whole and in the order of decoding: a unit's `dts` is never above its `pts`, and grows from unit to unit.

use super::x264_interface::{Coded, Input};
use super::x264_library::Handle;
use super::x264_settings::{CODEC, LookAhead, Settings, check_bitrate, checked_preset, failed};
use crate::CodecError;
use glassline_media::{Picture, PixelFormat, Size, Ticks};

/// An open encoder with a look-ahead. Dropping it ends x264's threads; pictures inside are lost then.
///
/// `Send` but not `Sync`, as [`Encoder`](super::x264::Encoder).
pub struct LookAheadEncoder {
    handle: Handle,
    settings: Settings,
    last_pts: Option<Ticks>,
    force_key_frame: bool,
}

/// A unit that has come out: its bytes in Annex B form, slices from `head_bytes` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedUnit<'a> {
    /// Delimiter, parameter sets, messages and slices.
    pub bytes: &'a [u8],
    /// Bytes in front of the first slice: another message of the picture can stand there.
    pub head_bytes: usize,
}

impl LookAheadEncoder {
    /// Opens an encoder. x264's threads have the priority of the calling one.
    ///
    /// # Errors
    /// Which setting is out of range; settings without a look-ahead are.
    pub fn new(settings: &Settings) -> Result<LookAheadEncoder, CodecError> {
        let opening = settings.checked()?;
        if settings.look_ahead.is_none() {
            let expected = "one of 0 to 250 pictures".to_owned();
            let found = "none".to_owned();
            return Err(CodecError::Setting { codec: CODEC, setting: "look-ahead", found, expected });
        }
        if cfg!(not(feature = "x264")) {
            return Err(CodecError::NotBuiltIn { codec: CODEC });
        }
        let handle = Handle::open(&opening).map_err(|reason| failed("open an encoder", reason))?;
        Ok(LookAheadEncoder { handle, settings: settings.clone(), last_pts: None, force_key_frame: false })
    }

    /// Takes `picture` in, to be presented at `pts`, and gives the unit of an earlier one to `take`, if one comes out. `pts` has
    /// to grow. The stream's first `dts` may lie before the first `pts`.
    ///
    /// # Errors
    /// As those of [`Encoder::encode_slices`](super::x264::Encoder::encode_slices).
    pub fn push(
        &mut self,
        picture: &Picture,
        pts: Ticks,
        take: &mut dyn FnMut(DelayedUnit<'_>),
    ) -> Result<Option<Coded>, CodecError> {
        if picture.format() != PixelFormat::I420 || picture.size() != self.settings.size {
            let found = format!("{:?} at {}", picture.format(), picture.size());
            let expected = format!("{:?} at {}", PixelFormat::I420, self.settings.size);
            return Err(CodecError::Input { codec: CODEC, found, expected });
        }
        if let Some(last) = self.last_pts.filter(|&last| pts <= last) {
            return Err(CodecError::TimeStamp { codec: CODEC, found: pts, last });
        }
        self.last_pts = Some(pts);
        let force_idr = std::mem::take(&mut self.force_key_frame);
        let input = Input { planes: picture.planes(), pts: pts.0, force_idr, quantizer: 0, user_data: None };
        self.encode(Some(&input), take)
    }

    /// The source has ended: gives the next unit of those inside; `None` when nothing is left. No picture can be pushed after
    /// this.
    ///
    /// # Errors
    /// x264's own.
    pub fn flush(&mut self, take: &mut dyn FnMut(DelayedUnit<'_>)) -> Result<Option<Coded>, CodecError> {
        while self.handle.delayed() > 0 {
            if let Some(coded) = self.encode(None, take)? {
                return Ok(Some(coded));
            }
        }
        Ok(None)
    }

    fn encode(
        &mut self,
        input: Option<&Input<'_>>,
        take: &mut dyn FnMut(DelayedUnit<'_>),
    ) -> Result<Option<Coded>, CodecError> {
        let mut bytes = 0;
        let output = self.handle.encode_delayed(input, &mut |unit, head_bytes| {
            bytes = unit.len();
            take(DelayedUnit { bytes: unit, head_bytes });
        });
        let output = output.map_err(|reason| failed("encode a picture", reason))?;
        Ok(output.map(|output| Coded {
            pts: Ticks(output.pts),
            dts: Ticks(output.dts),
            random_access: output.key_frame,
            bytes,
        }))
    }

    /// Pictures that wait inside at most before a unit comes out for each that goes in.
    #[must_use]
    pub fn delay_pictures(&self) -> u32 {
        self.handle.delayed_max()
    }

    /// Memory that pictures of `size` take inside, in bytes: a copy of each with its borders, one at half its size with its
    /// motion, for the look-ahead and for what x264's `threads` work on. An estimate: from 640x360 to 1920x1080 it is within a quarter of what was measured.
    #[must_use]
    pub fn memory_bytes(size: Size, look_ahead: LookAhead) -> u64 {
        let samples = u64::from(size.width + 64) * u64::from(size.height + 64);
        samples * BYTES_PER_SAMPLE_HUNDREDTHS / 100 * u64::from(look_ahead.pictures + OTHER_PICTURES)
    }

    /// Makes the next picture that is pushed a key frame (IDR).
    pub fn force_key_frame(&mut self) {
        self.force_key_frame = true;
    }

    /// Sets the rate from the next picture that is coded on. The VBV keeps its size in time.
    ///
    /// # Errors
    /// [`CodecError::Setting`] for a rate out of range; nothing changes then.
    pub fn set_bitrate(&mut self, bitrate_bps: u64) -> Result<(), CodecError> {
        check_bitrate(bitrate_bps)?;
        let settings = Settings { bitrate_bps, ..self.settings.clone() };
        let (bitrate_kbit, vbv_kbit) = settings.rate_kbit();
        let set = self.handle.set_rate(bitrate_kbit, vbv_kbit);
        set.map_err(|reason| failed("change the rate", reason))?;
        self.settings = settings;
        Ok(())
    }

    /// As [`Encoder::set_preset`](super::x264::Encoder::set_preset).
    ///
    /// # Errors
    /// [`CodecError::Setting`] for what is no preset; nothing changes then.
    pub fn set_preset(&mut self, preset: &str) -> Result<(), CodecError> {
        let name = checked_preset(preset)?;
        self.handle.set_preset(&name).map_err(|reason| failed("change the preset", reason))?;
        preset.clone_into(&mut self.settings.preset);
        Ok(())
    }

    /// The preset that holds.
    pub fn preset(&self) -> &str {
        &self.settings.preset
    }

    /// The rate that holds, bits a second.
    pub fn bitrate_bps(&self) -> u64 {
        self.settings.bitrate_bps
    }
}

/// Bytes that a picture inside takes for each sample of its luma.
const BYTES_PER_SAMPLE_HUNDREDTHS: u64 = 300;
/// Pictures inside beside the look-ahead: reference pictures, B-pictures, one for each thread.
const OTHER_PICTURES: u32 = 12;

#[cfg(test)]
#[cfg(feature = "x264")]
#[path = "x264_look_ahead_tests.rs"]
mod tests;
