//! Encodes a y4m file with VP8 at fixed quantisers and prints, for each, bytes, PSNR of luma and seconds of CPU time:
//! `vp8_encode FILE.y4m SPEED QUANTIZER,… [FRAMES] [OUT.ivf]`. With a last argument, writes the last quantiser's
//! stream.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example reads a file and the clock"
)]

use glassline_codec::vp8::{EncodeWorkspace, Quality, Request, Serial, State, encode_in};
use glassline_media::{Picture, PixelFormat, Size, Time};

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
            squares += psnr(picture, &encoded.picture);
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
            write(path, size, &frames)?;
        }
    }
    Ok(())
}

fn read(path: &str, limit: usize) -> Result<Vec<Picture>, Box<dyn std::error::Error>> {
    let bytes = std::fs::read(path)?;
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or("no header")?;
    let header = std::str::from_utf8(&bytes[..end])?;
    let side = |letter: char| -> Result<u32, Box<dyn std::error::Error>> {
        let word = header.split(' ').find(|word| word.starts_with(letter)).ok_or("no size")?;
        Ok(word[1..].parse()?)
    };
    let size = Size::new(side('W')?, side('H')?)?;
    let format = PixelFormat::I420;
    let mut rest = &bytes[end + 1..];
    let mut pictures = Vec::new();
    while pictures.len() < limit && !rest.is_empty() {
        let line = rest.iter().position(|&byte| byte == b'\n').ok_or("no frame")?;
        rest = &rest[line + 1..];
        let mut picture = Picture::new(format, size, Time::ZERO);
        for plane in picture.planes_mut() {
            let width = plane.size().width as usize;
            for line in plane.lines_mut() {
                line.copy_from_slice(&rest[..width]);
                rest = &rest[width..];
            }
        }
        pictures.push(picture);
    }
    Ok(pictures)
}

fn psnr(a: &Picture, b: &Picture) -> f64 {
    let (a, b) = (&a.planes()[0], &b.planes()[0]);
    let squares: u64 = a
        .lines()
        .zip(b.lines())
        .flat_map(|(a, b)| a.iter().zip(b))
        .map(|(&a, &b)| u64::from(a.abs_diff(b)).pow(2))
        .sum();
    let samples = f64::from(a.size().width) * f64::from(a.size().height);
    10.0 * (255.0 * 255.0 * samples / (squares as f64).max(1.0)).log10()
}

fn write(path: &str, size: Size, frames: &[Vec<u8>]) -> std::io::Result<()> {
    let mut out = Vec::new();
    out.extend_from_slice(b"DKIF\0\0\x20\0VP80");
    out.extend_from_slice(&(size.width as u16).to_le_bytes());
    out.extend_from_slice(&(size.height as u16).to_le_bytes());
    for value in [30, 1, frames.len() as u32, 0] {
        out.extend_from_slice(&value.to_le_bytes());
    }
    for (at, frame) in frames.iter().enumerate() {
        out.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        out.extend_from_slice(&(at as u64).to_le_bytes());
        out.extend_from_slice(frame);
    }
    std::fs::write(path, out)
}

/// Seconds that this process has used the processor, in user mode.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or_default() / 1e9
}
