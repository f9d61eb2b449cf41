//! Where received pictures go.

use crate::decode::PictureOutput;
use crate::encode::IvfOutput;
use crate::failure;
use crate::output::ReaderGone;
use anyhow::Result;
use glassline_call::direct::{Content, PublishSettings, Publisher, Shown, Sink};
use glassline_codec::vp8::{Encoder, EncoderSettings, Serial, StreamQuality};
use glassline_media::container::ivf::Header;
use glassline_media::{Stage, Time};
use glassline_studio::output::Target;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The quantiser of pictures that are encoded again for a file: hardly anything is lost beyond what the link has cost.
const KEPT_QUANTIZER: u8 = 12;
/// Speed against quality of that: as fast as a call's.
const SPEED: u8 = 6;

/// An output that is open.
pub(super) struct Opened {
    pub(super) sink: Box<dyn Sink>,
    /// It is standard output.
    pub(super) is_stdout: bool,
    /// Where a stream is made of it, which has sound too.
    pub(super) publisher: Option<Publisher>,
}

/// Opens what the command line names. `publish` says how a stream is made, where one is.
pub(super) fn open(name: &str, publish: impl FnOnce(Target) -> Result<PublishSettings>) -> Result<Opened> {
    let create = || {
        File::create(name).map_err(|error| {
            failure::failed(format!("cannot write {name}: {error}"), "choose another name or folder")
        })
    };
    let alone = |sink| Opened { sink, is_stdout: false, publisher: None };
    match extension(name).as_str() {
        "ivf" => {
            // Written once the pictures' size is known; whether it can be is told now.
            create()?;
            return Ok(alone(Box::new(Encoded { target: Target::File(name.into()), opened: None })));
        }
        "h264" | "264" | "avc" => {
            return Ok(alone(Box::new(Units { writer: Box::new(BufWriter::new(create()?)) })));
        }
        "ts" | "mp4" => return published(name, publish),
        "webm" => {
            // Written once AV1 comes; whether it can be is told now.
            create()?;
            return Ok(of_publisher(Publisher::new(publish(Target::File(name.into()))?)));
        }
        _ if name.contains("://") => return published(name, publish),
        _ => {}
    }
    if name == "-" {
        return Ok(Opened { sink: Box::new(Stdout(None)), is_stdout: true, publisher: None });
    }
    if name != "null:" && extension(name) != "y4m" {
        return Err(failure::usage(
            format!("{name} takes no pictures"),
            "name FILE.y4m, FILE.ivf, FILE.h264, FILE.ts, FILE.mp4, FILE.webm, - (standard output), udp://HOST:PORT, \
             http://HOST:PORT/live/NAME.ts, preview: or null:",
        ));
    }
    Ok(alone(Box::new(Pictures { output: PictureOutput::open(Some(name), "")?, number: 0 })))
}

fn published(name: &str, publish: impl FnOnce(Target) -> Result<PublishSettings>) -> Result<Opened> {
    let target: Target = name.parse().map_err(|error| failure::usage(error, "name one of them"))?;
    Ok(of_publisher(Publisher::new(publish(target)?)))
}

/// An output of which a stream is made.
pub(super) fn of_publisher(publisher: Publisher) -> Opened {
    Opened { sink: publisher.sink(), is_stdout: false, publisher: Some(publisher) }
}

/// What the name of a file ends with, in small letters.
pub(super) fn extension(name: &str) -> String {
    let extension = Path::new(name).extension().unwrap_or_default();
    extension.to_string_lossy().to_ascii_lowercase()
}

/// What comes is coded by another encoder than ours, and there is no decoder here for it.
fn no_pictures() -> io::Error {
    io::Error::other(
        "H.264 comes, of which this output takes none; name FILE.h264, FILE.ts, -, or a relay's URL",
    )
}

/// Standard output: y4m or H.264, as it comes.
struct Stdout(Option<Box<dyn Sink>>);

impl Sink for Stdout {
    fn show(&mut self, shown: &Shown) -> io::Result<()> {
        if self.0.is_none() {
            self.0 = Some(match shown.content {
                Content::Picture(_) => {
                    let output = PictureOutput::open(Some("-"), "").map_err(as_io)?;
                    Box::new(Pictures { output, number: 0 })
                }
                Content::Unit(_) => Box::new(Units { writer: Box::new(io::stdout()) }),
                // It does not ask for frames.
                Content::Frame(_) => return Ok(()),
            });
        }
        self.0.as_mut().map_or(Ok(()), |sink| sink.show(shown))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), |sink| sink.finish())
    }
}

/// Writes access units as they are.
struct Units {
    writer: Box<dyn Write + Send>,
}

impl Sink for Units {
    fn show(&mut self, shown: &Shown) -> io::Result<()> {
        match &shown.content {
            Content::Unit(unit) => {
                self.writer.write_all(&unit.data)?;
                self.writer.flush()
            }
            Content::Picture(_) | Content::Frame(_) => Err(io::Error::other(
                "pictures come, not H.264; name FILE.y4m, FILE.ivf, FILE.ts, -, or a relay's URL",
            )),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
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
        let picture = match &shown.content {
            Content::Picture(picture) => picture,
            Content::Unit(_) if self.output.is_null() => return Ok(()),
            Content::Unit(_) | Content::Frame(_) => return Err(no_pictures()),
        };
        self.number += 1;
        self.output.picture(picture, shown.rate, self.number).map_err(as_io)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.output.finish().map_err(as_io)
    }
}

/// Encodes pictures of VP8 again: what came was coded against states that only our receiver has, and no player could follow.
/// Frames of AV1 are written as they came.
struct Encoded {
    target: Target,
    opened: Option<Stream>,
}

struct Stream {
    output: IvfOutput,
    /// `None`: what is written is coded already.
    encoder: Option<Encoder>,
    first: Time,
    /// The time stamp of the next frame at least.
    next: u64,
}

impl Encoded {
    fn write(&mut self, shown: &Shown) -> Result<()> {
        let size = match &shown.content {
            Content::Picture(picture) => picture.size(),
            Content::Frame(frame) => frame.size,
            Content::Unit(_) => return Err(no_pictures().into()),
        };
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
                let is_coded = matches!(shown.content, Content::Frame(_));
                let codec = if is_coded { Header::AV1 } else { Header::VP8 };
                let output = IvfOutput::open(&self.target, codec, size, shown.rate)?;
                let encoder = (!is_coded).then(|| Encoder::new(&settings));
                self.opened.insert(Stream { output, encoder, first: captured, next: 0 })
            }
        };
        let bytes = match (&shown.content, &mut stream.encoder) {
            (Content::Picture(picture), Some(encoder)) => encoder.encode(picture, &Serial)?.bytes.into(),
            (Content::Frame(frame), None) => frame.frame.clone(),
            _ => return Err(io::Error::other("the sender now codes its pictures otherwise").into()),
        };
        // A picture that was not sent leaves a gap.
        let place = captured.since(stream.first).as_secs_f64() * shown.rate.as_f64();
        let time_stamp = (place.round() as u64).max(stream.next);
        stream.next = time_stamp + 1;
        stream.output.frame_at(bytes, time_stamp)
    }
}

impl Sink for Encoded {
    fn show(&mut self, shown: &Shown) -> io::Result<()> {
        self.write(shown).map_err(as_io)
    }

    fn takes_frames(&self) -> bool {
        true
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.opened.take() {
            Some(stream) => stream.output.finish().map_err(as_io),
            None => Ok(()),
        }
    }
}
