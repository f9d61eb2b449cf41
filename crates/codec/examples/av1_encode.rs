//! Encodes a y4m file with AV1 at fixed quantisers and decodes it again: for each speed and quantiser prints bits a second,
//! PSNR of luma, and how long encoding (its hash included), hashing and decoding take, as median and 95th percentile:
//! `av1_encode FILE.y4m SPEED,… QUANTIZER,… [FRAMES] [THREADS]`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example reads a file and the clock"
)]

#[allow(dead_code, reason = "the time of all threads counts here")]
mod clip;

use clip::read;
use glassline_codec::av1::{Decoder, Encoder, PictureHash, Settings, Slot};
use glassline_measure::psnr::SquaredError;
use glassline_media::FrameRate;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, speeds, quantizers, rest @ ..] = &arguments[..] else {
        return Err("av1_encode FILE.y4m SPEED,… QUANTIZER,… [FRAMES] [THREADS]".into());
    };
    let pictures = read(path, rest.first().map_or(Ok(100), |frames| frames.parse())?)?;
    let threads = rest.get(1).map_or(Ok(2), |threads| threads.parse())?;
    let (size, frame_rate) = (pictures[0].size(), FrameRate::new(30, 1).ok_or("a rate")?);
    println!("{} pictures of {size}, {threads} threads; p50/p95 in ms", pictures.len());
    for speed in speeds.split(',') {
        for quantizer in quantizers.split(',') {
            let (speed, quantizer) = (speed.parse()?, quantizer.parse()?);
            let mut encoder = Encoder::new(&Settings { size, frame_rate, threads, speed })?;
            let mut decoder = Decoder::new(threads, size.width * size.height)?;
            let (mut encoding, mut hashing, mut decoding) = (Vec::new(), Vec::new(), Vec::new());
            let (mut bytes, mut squares, mut largest) = (0, SquaredError::default(), 0);
            for (number, picture) in pictures.iter().enumerate() {
                let (source, target) = (Slot::ALL[(number + 7) % 8], Slot::ALL[number % 8]);
                let begin = Instant::now();
                let encoded = match number {
                    0 => encoder.encode_key(picture, quantizer)?,
                    _ => encoder.encode(picture, quantizer, source, target)?,
                };
                let encoded_in = begin.elapsed();
                let begin = Instant::now();
                let decoded = decoder.decode(&encoded.bytes)?;
                let decoded_in = begin.elapsed();
                let begin = Instant::now();
                let hash = PictureHash::of(&decoded.picture);
                hashing.push(begin.elapsed());
                if (hash, decoded.hash) != (encoded.hash, encoded.hash) {
                    return Err(format!("picture {number} is not what was encoded").into());
                }
                squares.add(&SquaredError::of(picture, &decoded.picture)?);
                bytes += encoded.bytes.len();
                largest = encoded.bytes.len().max(largest);
                // The key picture is another matter.
                if number > 0 {
                    encoding.push(encoded_in);
                    decoding.push(decoded_in);
                }
            }
            let kbit = bytes as f64 * 8.0 * 30.0 / pictures.len() as f64 / 1000.0;
            let db = squares.plane_db(0).unwrap_or_default();
            let [encoding, hashing, decoding] = [encoding, hashing, decoding].map(|mut times| {
                times.sort();
                let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
                format!("{:.2}/{:.2}", at(50).as_secs_f64() * 1e3, at(95).as_secs_f64() * 1e3)
            });
            println!(
                "speed {speed} quantizer {quantizer}: {kbit:.0} kbit/s, {db:.2} dB, largest {largest} bytes, \
                 encode {encoding}, hash {hashing}, decode {decoding}"
            );
        }
    }
    Ok(())
}
