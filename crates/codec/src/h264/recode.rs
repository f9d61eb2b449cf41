//! A group of pictures decoded and coded anew from one of them on: by libavcodec and x264.

use super::x264::{DelayedUnit, KeyInterval, LookAhead, LookAheadEncoder, Profile, Settings};
use super::x264_settings::CODEC;
use crate::CodecError;
use crate::avcodec::{DecodedPicture, PictureDecoder};
use glassline_media::bitstream::h264::{NalType, Sps, nals};
use glassline_media::{AccessUnit, Codec, FrameRate, Picture, PixelFormat, Size, Stamps, Ticks, Time};

/// Coded once and not in real time: better than the preset of live pictures, and still several times as fast as they come.
const PRESET: &str = "fast";
/// What is looked at before a picture is coded.
const LOOK_AHEAD: u32 = 25;

/// Codes the pictures of a group anew that are shown at `from` or later. `units` are in the order of decoding and begin with a key frame;
/// their `pts` are all that counts of their times, and go over to what is coded, which has no reordered pictures: a key frame, and pictures
/// that refer to what is before them. `bitrate_bps` is the rate that is met. `is_wanted` is asked before each unit; `None` where it is not any
/// more.
///
/// # Errors
/// [`CodecError::Input`] for pictures that are not 4:2:0 of 8 bits with even sides, or are fields, and what decoder and encoder say.
pub fn recode(
    units: &[AccessUnit],
    from: Ticks,
    frame_rate: FrameRate,
    bitrate_bps: u64,
    is_wanted: &mut dyn FnMut() -> bool,
) -> Result<Option<Vec<AccessUnit>>, CodecError> {
    let Some(first) = units.first() else { return Ok(Some(Vec::new())) };
    let sps = fitting(first)?;
    let size = Size::new(sps.width_px, sps.height_px);
    let size = size.map_err(|_| unfit(format!("pictures of {}x{}", sps.width_px, sps.height_px)))?;
    let mut decoder = PictureDecoder::exact(Codec::H264)?;
    let mut coding = Coding { size, frame_rate, bitrate_bps, encoder: None, units: Vec::new() };
    let mut outcome = Ok(());
    let mut each = |at: Time, picture: DecodedPicture<'_>| {
        let pts = Ticks(i64::try_from(at.as_nanos()).unwrap_or(i64::MAX));
        if outcome.is_ok() && pts >= from {
            outcome = coding.push(&picture, pts);
        }
    };
    for unit in units {
        if !is_wanted() {
            return Ok(None);
        }
        // The decoder gives back what it was given: ticks.
        let at = Time::from_nanos(u64::try_from(unit.pts.0).unwrap_or(0));
        decoder.decode(&unit.data, at, &mut each)?;
    }
    decoder.drain(&mut each)?;
    outcome?;
    coding.finish().map(Some)
}

/// What an encoder of these pictures would not have.
fn unfit(found: String) -> CodecError {
    CodecError::Input {
        codec: CODEC,
        found,
        expected: "whole pictures in 4:2:0 of 8 bits, with even sides".into(),
    }
}

fn fitting(unit: &AccessUnit) -> Result<Sps, CodecError> {
    let sps = nals(&unit.data).find(|nal| nal.kind() == NalType::Sps);
    let sps = sps.and_then(|nal| Sps::parse(nal.payload()).ok());
    let sps = sps.ok_or_else(|| unfit("a key frame without a sequence parameter set".into()))?;
    if sps.chroma_format != 1 || sps.bit_depth != 8 {
        let chroma = ["4:0:0", "4:2:0", "4:2:2", "4:4:4"].get(usize::from(sps.chroma_format));
        return Err(unfit(format!("{} of {} bits", chroma.unwrap_or(&"another format"), sps.bit_depth)));
    }
    if sps.interlaced {
        return Err(unfit("pictures that may be fields".into()));
    }
    if sps.width_px % 2 != 0 || sps.height_px % 2 != 0 {
        return Err(unfit(format!("pictures of {}x{}", sps.width_px, sps.height_px)));
    }
    Ok(sps)
}

/// Pictures that are coded.
struct Coding {
    size: Size,
    frame_rate: FrameRate,
    bitrate_bps: u64,
    /// Opened with the first picture, which says what its samples mean.
    encoder: Option<LookAheadEncoder>,
    units: Vec<AccessUnit>,
}

impl Coding {
    fn push(&mut self, decoded: &DecodedPicture<'_>, pts: Ticks) -> Result<(), CodecError> {
        let picture = self.copied(decoded)?;
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            None => {
                let settings = Settings {
                    preset: PRESET.to_owned(),
                    // The next key frame is one that was there.
                    key_interval: KeyInterval::Pictures(u32::from(u16::MAX)),
                    colour: decoded.colour,
                    sample_aspect: Some(decoded.sample_aspect).filter(|(wide, high)| *wide > 0 && *high > 0),
                    look_ahead: Some(LookAhead { pictures: LOOK_AHEAD, b_pictures: Some(0) }),
                    profile: Some(Profile::High),
                    ..Settings::new(self.size, self.frame_rate, self.bitrate_bps)
                };
                self.encoder.insert(LookAheadEncoder::new(&settings)?)
            }
        };
        let mut data = Vec::new();
        let coded = encoder.push(&picture, pts, &mut |unit: DelayedUnit<'_>| data = unit.bytes.to_vec())?;
        if let Some(coded) = coded {
            self.units.push(unit(data, coded.pts, coded.random_access));
        }
        Ok(())
    }

    /// The decoder's picture in memory of its own.
    fn copied(&self, decoded: &DecodedPicture<'_>) -> Result<Picture, CodecError> {
        let (width, height) = (self.size.width as usize, self.size.height as usize);
        let chroma = decoded.chroma.filter(|chroma| {
            (decoded.width_px, decoded.height_px) == (width, height)
                && (chroma.width_px, chroma.height_px) == (width / 2, height / 2)
        });
        let found = || unfit(format!("a picture of {}x{}", decoded.width_px, decoded.height_px));
        let chroma = chroma.ok_or_else(found)?;
        let mut picture = Picture::new(PixelFormat::I420, self.size, Time::ZERO);
        let [luma, planes @ ..] = picture.planes_mut() else { return Err(found()) };
        for (to, from) in luma.lines_mut().zip(decoded.luma.chunks(decoded.stride)) {
            to.copy_from_slice(&from[..width]);
        }
        let mut line = Vec::new();
        for (index, plane) in planes.iter_mut().enumerate() {
            for (y, to) in plane.lines_mut().enumerate() {
                chroma.line(index, y, &mut line);
                to.copy_from_slice(&line);
            }
        }
        Ok(picture)
    }

    fn finish(mut self) -> Result<Vec<AccessUnit>, CodecError> {
        let Some(mut encoder) = self.encoder.take() else { return Ok(self.units) };
        loop {
            let mut data = Vec::new();
            match encoder.flush(&mut |unit: DelayedUnit<'_>| data = unit.bytes.to_vec())? {
                Some(coded) => self.units.push(unit(data, coded.pts, coded.random_access)),
                None => return Ok(self.units),
            }
        }
    }
}

fn unit(data: Vec<u8>, pts: Ticks, random_access: bool) -> AccessUnit {
    AccessUnit {
        codec: Codec::H264,
        data: data.into(),
        pts,
        dts: pts,
        random_access,
        stamps: Stamps::default(),
    }
}

#[cfg(test)]
#[cfg(feature = "x264")]
#[path = "recode_tests.rs"]
mod tests;
