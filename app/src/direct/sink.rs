//! Where received pictures go.

use crate::decode::PictureOutput;
use crate::encode::IvfOutput;
use crate::failure;
use crate::output::ReaderGone;
use anyhow::Result;
use glassline_codec::vp8::{Encoder, EncoderSettings, Serial, StreamQuality};
use glassline_engine::direct::{Shown, Sink};
use glassline_engine::output::Target;
use glassline_media::{Stage, Time};
use std::fs::File;
use std::io;
use std::path::Path;

/// The quantiser of pictures that are encoded again for a file: hardly anything is lost beyond what the link has cost.
const KEPT_QUANTIZER: u8 = 12;
/// Speed against quality of that: as fast as a call's.
const SPEED: u8 = 6;

/// Opens what the command line names; and whether it is standard output.
pub(super) fn open(name: &str) -> Result<(Box<dyn Sink>, bool)> {
    let is_ivf = Path::new(name).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ivf"));
    if is_ivf {
        // Written once the pictures' size is known; whether it can be is told now.
        File::create(name).map_err(|error| {
            failure::failed(format!("cannot write {name}: {error}"), "choose another name or folder")
        })?;
        return Ok((Box::new(Encoded { target: Target::File(name.into()), opened: None }), false));
    }
    let output = PictureOutput::open(Some(name), "")?;
    let is_stdout = output.takes_stdout();
    Ok((Box::new(Pictures { output, number: 0 }), is_stdout))
}

fn as_io(error: anyhow::Error) -> io::Error {
    if error.is::<ReaderGone>() {
        io::ErrorKind::BrokenPipe.into()
    } else {
        io::Error::other(format!("{error:#}"))
    }
}

/// Writes pictures as they come.
struct Pictures {
    output: PictureOutput,
    number: u64,
}

impl Sink for Pictures {
    fn show(&mut self, shown: &Shown) -> io::Result<()> {
        self.number += 1;
        self.output.picture(&shown.picture, shown.rate, self.number).map_err(as_io)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.output.finish().map_err(as_io)
    }
}

/// Encodes pictures again: what came was coded against states that only our receiver has, and no player could follow.
struct Encoded {
    target: Target,
    opened: Option<Stream>,
}

struct Stream {
    output: IvfOutput,
    encoder: Encoder,
    first: Time,
    /// The time stamp of the next frame at least.
    next: u64,
}

impl Encoded {
    fn write(&mut self, shown: &Shown) -> Result<()> {
        let captured = shown.stamps.at(Stage::Captured).unwrap_or_default();
        let stream = match &mut self.opened {
            Some(stream) => stream,
            None => {
                let settings = EncoderSettings {
                    frame_rate: shown.rate,
                    key_interval: None,
                    quality: StreamQuality::Quantizer(KEPT_QUANTIZER),
                    speed: SPEED,
                    denoise: None,
                };
                let output = IvfOutput::open(&self.target, shown.picture.size(), shown.rate)?;
                let encoder = Encoder::new(&settings);
                self.opened.insert(Stream { output, encoder, first: captured, next: 0 })
            }
        };
        let frame = stream.encoder.encode(&shown.picture, &Serial)?;
        // A picture that was not sent leaves a gap.
        let place = captured.since(stream.first).as_secs_f64() * shown.rate.as_f64();
        let time_stamp = (place.round() as u64).max(stream.next);
        stream.next = time_stamp + 1;
        stream.output.frame_at(frame.bytes, time_stamp)
    }
}

impl Sink for Encoded {
    fn show(&mut self, shown: &Shown) -> io::Result<()> {
        self.write(shown).map_err(as_io)
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.opened.take() {
            Some(stream) => stream.output.finish().map_err(as_io),
            None => Ok(()),
        }
    }
}
