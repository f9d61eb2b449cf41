//! Encodes a y4m file with VP8 at fixed quantisers and prints, for each, bytes, PSNR of luma and seconds of CPU time:
//! `vp8_encode FILE.y4m SPEED QUANTIZER,… [FRAMES] [OUT.ivf]`. With a last argument, writes the last quantiser's
//! stream, at 30 pictures a second.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example reads a file and the clock"
)]

mod clip;

use clip::{cpu_seconds, read};
use glassline_codec::vp8::{EncodeWorkspace, Quality, Request, Serial, State, encode_in};
use glassline_measure::psnr::SquaredError;
use glassline_media::FrameRate;
use glassline_media::container::ivf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, speed, quantizers, rest @ ..] = &arguments[..] else {
        return Err("vp8_encode FILE.y4m SPEED QUANTIZER,… [FRAMES] [OUT.ivf]".into());
    };
    let limit = rest.first().map_or(Ok(100), |frames| frames.parse())?;
    let pictures = read(path, limit)?;
    let size = pictures[0].size();
    for quantizer in quantizers.split(',') {
        let quality = Quality::Quantizer(quantizer.parse()?);
        let request = Request { quality, speed: speed.parse()?, ..Request::default() };
        let (mut state, mut workspace) = (State::new(), EncodeWorkspace::new());
        let (mut bytes, mut squares, mut frames) = (0, 0.0, Vec::new());
        let (mut intra, mut skipped, mut macroblocks) = (0, 0, 0);
        let mut seconds = 0.0;
        for picture in &pictures {
            let begin = cpu_seconds();
            let encoded = encode_in(&state, picture, &request, &mut workspace, &Serial)?;
            seconds += cpu_seconds() - begin;
            squares += SquaredError::of(picture, &encoded.picture)?.plane_db(0).unwrap_or_default();
            bytes += encoded.bytes.len() + 12;
            state = encoded.state;
            if !encoded.stats.key {
                intra += encoded.stats.intra;
                skipped += encoded.stats.skipped;
                macroblocks += encoded.stats.macroblocks;
            }
            frames.push(encoded.bytes);
        }
        let count = pictures.len() as f64;
        println!(
            "{quantizer} {} {:.4} {seconds:.3} fps {:.1} key {} intra {:.1}% skipped {:.1}%",
            bytes + 32,
            squares / count,
            count / seconds,
            frames[0].len(),
            100.0 * f64::from(intra) / f64::from(macroblocks),
            100.0 * f64::from(skipped) / f64::from(macroblocks),
        );
        if let Some(path) = rest.get(1) {
            let (codec, rate) = (ivf::Header::VP8, FrameRate::new(30, 1).ok_or("no rate")?);
            let (width, height) = (size.width as u16, size.height as u16);
            let mut out = Vec::new();
            ivf::Header { codec, width, height, rate, frames: frames.len() as u32 }.write(&mut out);
            for (time_stamp, bytes) in (0..).zip(frames) {
                ivf::Frame { time_stamp, bytes: bytes.into() }.write(&mut out)?;
            }
            std::fs::write(path, out)?;
        }
    }
    Ok(())
}
