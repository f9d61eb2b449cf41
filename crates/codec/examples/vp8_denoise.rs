//! Takes noise out of a y4m file's pictures, encodes them with VP8 at fixed quantisers and prints, for each, strength and
//! quantiser, kilobytes, PSNR of luma beside a file without noise, and milliseconds of CPU time a picture, of which for
//! denoising: `vp8_denoise NOISY.y4m CLEAN.y4m STRENGTH,… QUANTIZER,… [FRAMES]`, STRENGTH being 0 (not at all) to 3.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example reads a file and the clock"
)]

use glassline_codec::vp8::{
    Denoise, Denoised, EncodeWorkspace, Plan, Quality, Request, Serial, State, denoise_in, encode_in,
};
use glassline_media::{Picture, PixelFormat, Size, Time};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [noisy, clean, strengths, quantizers, rest @ ..] = &arguments[..] else {
        return Err("vp8_denoise NOISY.y4m CLEAN.y4m STRENGTH,… QUANTIZER,… [FRAMES]".into());
    };
    let limit = rest.first().map_or(Ok(100), |frames| frames.parse())?;
    let (noisy, clean) = (read(noisy, limit)?, read(clean, limit)?);
    for strength in strengths.split(',') {
        let strength = match strength {
            "1" => Some(Denoise::Light),
            "2" => Some(Denoise::Medium),
            "3" => Some(Denoise::Strong),
            _ => None,
        };
        for quantizer in quantizers.split(',') {
            encode(&noisy, &clean, strength, quantizer.parse()?)?;
        }
    }
    Ok(())
}

fn encode(
    noisy: &[Picture],
    clean: &[Picture],
    strength: Option<Denoise>,
    nominal: u8,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut state, mut workspace, mut plan) = (State::new(), EncodeWorkspace::new(), Plan::new(30.0, None));
    let mut denoised: Option<Denoised> = None;
    let (mut bytes, mut decibels, mut denoised_decibels) = (0, 0.0, 0.0);
    let (mut seconds, mut denoise_seconds) = (0.0, 0.0);
    for (picture, clean) in noisy.iter().zip(clean) {
        let begin = cpu_seconds();
        if let Some(strength) = strength {
            let next = denoise_in(denoised.as_ref(), picture, strength, &mut workspace, &Serial)?;
            denoised = Some(next);
        }
        denoise_seconds += cpu_seconds() - begin;
        let picture = denoised.as_ref().map_or(picture, Denoised::picture);
        let role = plan.role();
        let quality = Quality::Quantizer(plan.quantizer(role, nominal));
        let request = plan.request(role, Request { quality, ..Request::default() });
        let encoded = encode_in(&state, picture, &request, &mut workspace, &Serial)?;
        seconds += cpu_seconds() - begin;
        plan.encoded(role, &encoded.stats);
        decibels += psnr(clean, &encoded.picture);
        denoised_decibels += psnr(clean, picture);
        bytes += encoded.bytes.len();
        state = encoded.state;
    }
    let count = noisy.len() as f64;
    println!(
        "{strength:?} {nominal}: {:.1} kB, {:.3} dB, before encoding {:.3} dB, noise {:.2}; {:.2} ms, denoising {:.2} ms",
        bytes as f64 / 1000.0,
        decibels / count,
        denoised_decibels / count,
        denoised.and_then(|denoised| denoised.noise()).unwrap_or_default(),
        seconds / count * 1000.0,
        denoise_seconds / count * 1000.0,
    );
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

/// Seconds that this process has used the processor, in user mode.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or_default() / 1e9
}
