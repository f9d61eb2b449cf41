//! An encoder of which the caller owns the slots.

use super::aom_ffi::{Handle, Numbers};
use super::describe::{Describer, UnitDescription};
use super::error::Error;
use super::planes::PictureHash;
use super::slot::Slot;
use glassline_media::{Colour, FrameRate, Picture, PixelFormat, Size, Time};
use std::ops::RangeInclusive;

/// The coarsest quantizer. They go from 0 to this, on libaom's scale: a step makes a picture smaller by about a tenth.
pub const COARSEST: u8 = 63;

/// The finest quantizer that is encoded with; finer ones are taken as this. libaom 3.6 wants a quantizer index of at least 5
/// for the tenth to fifteenth pictures behind a key picture, and ends the program where it was told to use a smaller one.
pub const FINEST: u8 = 2;

/// Values of cpu-used that an encoder takes.
pub const SPEEDS: RangeInclusive<u8> = 7..=10;

/// What an [`Encoder`] is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Width and height of all pictures: 16 to 8192 each, odd ones too.
    pub size: Size,
    /// The nominal rate, of which only the stream's level depends.
    pub frame_rate: FrameRate,
    /// Threads that work on a picture, the caller's included: 1 to 16.
    pub threads: usize,
    /// libaom's cpu-used, 7 to 10: the higher, the less time a picture takes, and the more bits.
    pub speed: u8,
}

/// One temporal unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The unit, in the low-overhead format (AV1 specification §5.2): temporal delimiter, sequence header where it is a key
    /// unit, one frame that is shown.
    pub bytes: Vec<u8>,
    /// Names the picture that decoders show for it.
    pub hash: PictureHash,
    /// It needs no other.
    pub key: bool,
}

/// An encoder as a function of slots: what a unit says depends on its picture and on what lies in the slot that it is
/// predicted from, and nothing that was encoded beside it is needed for decoding it.
///
/// So one picture can be encoded several times, into as many slots, and one of the units sent, or none; and after a loss the
/// next picture is predicted from a slot that the receiver is known to have. Sizes are another matter: libaom also looks at
/// what stands still since another picture that it was given, to save time. A picture that is encoded again is known by its
/// time of capture, so that libaom does not compare it with itself.
///
/// Threads are libaom's own. The same calls give the same bytes.
pub struct Encoder {
    handle: Handle,
    settings: Settings,
    colour: Colour,
    describer: Describer,
    last: Last,
}

/// What the encoder knows of what it encoded last.
enum Last {
    /// Nothing was encoded.
    Nothing,
    Encoded(Tags),
    /// libaom has failed: what it holds is not known.
    Failed,
}

/// What the library does not keep of a picture.
#[derive(Clone, Copy)]
struct Tags {
    captured: Time,
    captured_utc: Option<glassline_media::Utc>,
    colour: Colour,
    fields: Option<glassline_media::picture::FieldOrder>,
}

impl Encoder {
    /// Opens an encoder.
    ///
    /// # Errors
    /// [`Error::Setting`] for a setting out of its range, [`Error::Library`] where libaom fails.
    pub fn new(settings: &Settings) -> Result<Encoder, Error> {
        let Settings { size, threads, speed, .. } = *settings;
        if ![size.width, size.height].iter().all(|side| SIDES.contains(side)) {
            return Err(Error::setting("size", size, "16 to 8192 each way"));
        }
        check_threads(threads)?;
        check_speed(speed)?;
        let handle = open(settings)?;
        let (colour, describer) = (Colour::UNSPECIFIED, Describer::new());
        Ok(Encoder { handle, settings: *settings, colour, describer, last: Last::Nothing })
    }

    /// Width and height of its pictures.
    pub fn size(&self) -> Size {
        self.settings.size
    }

    /// Changes the speed from the next picture on.
    ///
    /// # Errors
    /// [`Error::Setting`] where it is not 7 to 10; [`Error::Library`] where libaom fails, as with [`Encoder::encode_key`].
    pub fn set_speed(&mut self, speed: u8) -> Result<(), Error> {
        check_speed(speed)?;
        self.settings.speed = speed;
        self.handle.set_speed(speed).map_err(|reason| {
            self.last = Last::Failed;
            failed("change its speed", reason)
        })
    }

    /// Encodes a picture that needs no other. All eight slots hold it afterwards.
    ///
    /// # Errors
    /// [`Error::Input`] for a picture of another size or format, [`Error::Setting`] for a quantizer above [`COARSEST`]; nothing
    /// has changed after both. [`Error::Library`] where libaom fails: only key pictures are taken then, and the next one
    /// opens it anew.
    pub fn encode_key(&mut self, picture: &Picture, quantizer: u8) -> Result<Encoded, Error> {
        self.check(picture, quantizer)?;
        if matches!(self.last, Last::Failed) {
            self.handle = open(&self.settings)?;
            self.colour = Colour::UNSPECIFIED;
        }
        let colour = writable(picture.colour);
        if colour != self.colour {
            self.handle.set_colour(colour).map_err(|reason| {
                self.last = Last::Failed;
                failed("change the colour", reason)
            })?;
            self.colour = colour;
        }
        self.encode_into(picture, quantizer, None)
    }

    /// Encodes a picture that is predicted from slot `source` alone. Slot `target` alone holds it afterwards.
    ///
    /// # Errors
    /// As [`Encoder::encode_key`], and [`Error::Slots`] where the slots are the same, or before the first key picture and after
    /// an [`Error::Library`].
    pub fn encode(
        &mut self,
        picture: &Picture,
        quantizer: u8,
        source: Slot,
        target: Slot,
    ) -> Result<Encoded, Error> {
        self.check(picture, quantizer)?;
        if source == target || !matches!(self.last, Last::Encoded(_)) {
            return Err(Error::Slots);
        }
        self.encode_into(picture, quantizer, Some((source, target)))
    }

    /// The picture that decoders show for what was encoded last: a copy, with the times and the colour of the picture that was
    /// encoded.
    ///
    /// # Errors
    /// [`Error::NoPicture`] where nothing was encoded, or libaom has failed since.
    pub fn reconstruction(&self) -> Result<Picture, Error> {
        let Last::Encoded(tags) = self.last else { return Err(Error::NoPicture) };
        let planes = self.handle.reconstruction().map_err(|reason| failed(GIVE, reason))?;
        let mut picture = Picture::new(PixelFormat::I420, planes.size, tags.captured);
        planes.copy_to(&mut picture);
        picture.captured_utc = tags.captured_utc;
        picture.colour = tags.colour;
        picture.fields = tags.fields;
        Ok(picture)
    }

    fn check(&self, picture: &Picture, quantizer: u8) -> Result<(), Error> {
        if quantizer > COARSEST {
            return Err(Error::setting("quantizer", quantizer, "0 to 63"));
        }
        let (found, expected) = ((picture.size(), picture.format()), (self.settings.size, PixelFormat::I420));
        if found != expected {
            let name = |(size, format): (Size, PixelFormat)| format!("{size}, {format:?}");
            return Err(Error::Input { found: name(found), expected: name(expected) });
        }
        Ok(())
    }

    /// Encodes a picture that was checked: predicted from the first slot into the second one, or a key picture.
    fn encode_into(
        &mut self,
        picture: &Picture,
        quantizer: u8,
        slots: Option<(Slot, Slot)>,
    ) -> Result<Encoded, Error> {
        let encoded = self.encode_unit(picture, quantizer, slots);
        self.last = match encoded {
            Ok(_) => Last::Encoded(Tags {
                captured: picture.captured,
                captured_utc: picture.captured_utc,
                colour: picture.colour,
                fields: picture.fields,
            }),
            Err(_) => Last::Failed,
        };
        encoded
    }

    fn encode_unit(
        &mut self,
        picture: &Picture,
        quantizer: u8,
        slots: Option<(Slot, Slot)>,
    ) -> Result<Encoded, Error> {
        let again = matches!(self.last, Last::Encoded(tags) if tags.captured == picture.captured);
        let (bytes, key) = self
            .handle
            .encode(picture, quantizer.max(FINEST), slots, again)
            .map_err(|reason| failed("encode", reason))?;
        // libaom says nothing where it leaves a picture in another slot than it was told to, or in none.
        let said = self.describer.describe(&bytes);
        let refresh = slots.map_or(u8::MAX, |(_, target)| target.bit());
        let expected = UnitDescription { key: slots.is_none(), shown: true, refresh };
        if said != Some(expected) || key != expected.key {
            let reason = format!("it wrote {said:?} where {expected:?} was asked for");
            return Err(failed("encode", reason));
        }
        let hash = self.handle.reconstruction().map_err(|reason| failed(GIVE, reason))?.hash();
        Ok(Encoded { bytes, hash, key })
    }
}

/// Sides that are taken: the format goes to 65,536, and libaom's time and memory with it.
pub const SIDES: RangeInclusive<u32> = 16..=8192;
/// More threads than this find nothing to do in a picture.
const THREADS: RangeInclusive<usize> = 1..=16;
const GIVE: &str = "give its picture";

pub(super) fn check_threads(threads: usize) -> Result<(), Error> {
    if THREADS.contains(&threads) { Ok(()) } else { Err(Error::setting("threads", threads, "1 to 16")) }
}

fn check_speed(speed: u8) -> Result<(), Error> {
    if SPEEDS.contains(&speed) { Ok(()) } else { Err(Error::setting("speed", speed, "7 to 10")) }
}

fn open(settings: &Settings) -> Result<Handle, Error> {
    let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    let (rate_numerator, rate_denominator) = base_rate(settings.frame_rate);
    let numbers = Numbers {
        width: number(settings.size.width),
        height: number(settings.size.height),
        rate_numerator,
        rate_denominator,
        threads: number(settings.threads as u32),
        // As many columns as threads, up to four: they are coded side by side.
        tile_columns_log2: number(settings.threads.min(4).ilog2()),
        speed: settings.speed.into(),
    };
    Handle::open(settings.size, &numbers).map_err(|reason| failed("open an encoder", reason))
}

/// A rate that libaom takes: of at least one picture a second, of numbers up to a thousand million.
fn base_rate(rate: FrameRate) -> (i32, i32) {
    let parts = (i32::try_from(rate.numerator()), i32::try_from(rate.denominator()));
    match parts {
        (Ok(numerator @ ..=1_000_000_000), Ok(denominator)) if denominator <= numerator => {
            (numerator, denominator)
        }
        // Rounded; it is the level's alone.
        _ => (rate.as_f64().round().clamp(1.0, 1000.0) as i32, 1),
    }
}

/// A colour that a sequence header of 4:2:0 has: libaom ends the program at a matrix of RGB, and refuses numbers that are not
/// known (AV1 specification §6.4.2).
fn writable(colour: Colour) -> Colour {
    let known = |value: u8, last: u8, reserved: u8| {
        let is_known = (1..=last).contains(&value) && value != reserved;
        if is_known { value } else { 2 }
    };
    Colour {
        primaries: if colour.primaries == 22 { 22 } else { known(colour.primaries, 12, 3) },
        transfer: known(colour.transfer, 18, 3),
        matrix: known(colour.matrix, 14, 3),
        full_range: colour.full_range,
    }
}

fn failed(action: &'static str, reason: String) -> Error {
    Error::Library { library: "libaom", action, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_that_failed_begins_anew_with_a_key_picture() {
        let size = Size { width: 32, height: 16 };
        let frame_rate = FrameRate::new(30, 1).unwrap();
        let mut encoder = Encoder::new(&Settings { size, frame_rate, threads: 1, speed: 9 }).unwrap();
        let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
        picture.colour = Colour { primaries: 1, transfer: 1, matrix: 1, full_range: false };
        let first = encoder.encode_key(&picture, 40).unwrap();
        encoder.last = Last::Failed;
        let [source, target] = [Slot::ALL[0], Slot::ALL[1]];
        assert_eq!(encoder.encode(&picture, 40, source, target), Err(Error::Slots));
        assert_eq!(encoder.reconstruction(), Err(Error::NoPicture));
        // As new, its colour included.
        assert_eq!(encoder.encode_key(&picture, 40), Ok(first));
        assert!(encoder.encode(&picture, 40, source, target).is_ok());
    }
}
