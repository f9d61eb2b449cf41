//! Takes noise out of a y4m file's pictures, encodes them with VP8 at fixed quantisers and prints, for each, strength and
//! quantiser, kilobytes, PSNR of luma beside a file without noise, and milliseconds of CPU time a picture, of which for
//! denoising: `vp8_denoise NOISY.y4m CLEAN.y4m STRENGTH,… QUANTIZER,… [FRAMES]`, STRENGTH being 0 (not at all) to 3.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example reads a file and the clock"
)]

mod clip;

use clip::{cpu_seconds, read};
use glassline_codec::vp8::{
    Denoise, Denoised, EncodeWorkspace, Plan, Quality, Request, Serial, State, denoise_in, encode_in,
};
use glassline_measure::psnr::SquaredError;
use glassline_media::Picture;

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
        decibels += SquaredError::of(clean, &encoded.picture)?.plane_db(0).unwrap_or_default();
        denoised_decibels += SquaredError::of(clean, picture)?.plane_db(0).unwrap_or_default();
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
