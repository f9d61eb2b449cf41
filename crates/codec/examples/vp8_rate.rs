//! Encodes a y4m file at a bit rate, with a receiver's buffer of a second, and says what came of it:
//! `vp8_rate FILE.y4m SPEED KBITS,… [FRAMES]`.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an example reads a file")]

use glassline_codec::vp8::{Encoder, EncoderSettings, RateSettings, Serial, StreamQuality};
use glassline_measure::psnr::SquaredError;
use glassline_measure::ssim::{self, Ssim};
use glassline_media::container::y4m::Reader;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, speed, rates, rest @ ..] = &arguments[..] else {
        return Err("vp8_rate FILE.y4m SPEED KBITS,… [FRAMES]".into());
    };
    let limit: usize = rest.first().map_or(Ok(usize::MAX), |frames| frames.parse())?;
    for kilobits in rates.split(',') {
        let mut file = std::fs::File::open(path)?;
        let (mut reader, mut chunk) = (Reader::new(), vec![0; 1 << 20]);
        let mut stream: Option<Encoder> = None;
        let (mut error, mut ssim) = (SquaredError::default(), Ssim::default());
        let (mut frames, mut bytes, mut again, mut quantizers) = (0, 0, 0, Vec::new());
        'stream: loop {
            let count = std::io::Read::read(&mut file, &mut chunk)?;
            let mut input = &chunk[..count];
            while let Some(picture) = reader.parse(&mut input)? {
                let rate = reader.header().ok_or("a picture without a header")?.frame_rate;
                let bits = 1000 * kilobits.parse::<u64>()?;
                let quality = StreamQuality::Rate(RateSettings::new(bits, rate, Duration::from_secs(1)));
                let (frame_rate, speed) = (rate, speed.parse()?);
                let settings =
                    EncoderSettings { frame_rate, key_interval: None, quality, speed, denoise: None };
                let encoder = stream.get_or_insert_with(|| Encoder::new(&settings));
                let encoded = encoder.encode(&picture, &Serial)?;
                error.add(&SquaredError::of(&picture, &encoded.picture)?);
                ssim.add(&Ssim::of(&picture, &encoded.picture)?);
                bytes += encoded.bytes.len();
                again += u32::from(encoded.tries > 1);
                quantizers.push(encoded.quantizer);
                frames += 1;
                if frames == limit {
                    break 'stream;
                }
            }
            if count == 0 {
                break;
            }
        }
        let Some(encoder) = stream else { return Err("no pictures".into()) };
        let rate = reader.header().ok_or("no header")?.frame_rate.as_f64();
        println!(
            "{kilobits:>6} kbit/s asked, {:8.1} taken, PSNR {:.3} dB, SSIM {:.3} dB, {again} encoded again, {} late; \
             quantisers {:?}",
            bytes as f64 * 8.0 / 1000.0 * rate / frames as f64,
            error.plane_db(0).unwrap_or_default(),
            ssim.plane(0).map(ssim::decibels).unwrap_or_default(),
            encoder.late_frames().unwrap_or_default(),
            quantizers.iter().step_by(10).collect::<Vec<_>>(),
        );
    }
    Ok(())
}
