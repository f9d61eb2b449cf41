//! What denoising is worth: fewer bytes and a picture that is nearer to the one without noise.

use super::encode::picture;
use glassline_codec::vp8::{
    Denoise, Denoised, Limits, Plan, Quality, Request, State, decode, denoise, encode, encode_candidates,
};
use glassline_media::Picture;

/// The picture with noise of about 6 on it; `number` is its seed.
fn noisy(clean: &Picture, number: u32) -> Picture {
    let mut picture = clean.clone();
    let mut random = number.wrapping_mul(2_654_435_761) | 1;
    let mut eighth = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as i32 - 127
    };
    for plane in picture.planes_mut() {
        for sample in plane.lines_mut().flatten() {
            let noise = (eighth() + eighth() + eighth() + eighth()) * 6 / 148;
            *sample = (i32::from(*sample) + noise).clamp(0, 255) as u8;
        }
    }
    picture
}

/// Bytes of a stream, and the mean squared error of its pictures beside those without noise.
fn stream(strength: Option<Denoise>, index: u8) -> (usize, f64) {
    let (mut state, mut plan) = (State::new(), Plan::new(30.0, None));
    let mut denoised: Option<Denoised> = None;
    let (mut bytes, mut squares, mut samples) = (0, 0, 0);
    for number in 0..30 {
        // It stands still, moves on, and stands still again.
        let clean = picture((176, 144), 5, 2 * number.clamp(10, 18), 0);
        let noisy = noisy(&clean, number);
        denoised = strength.map(|strength| denoise(denoised.as_ref(), &noisy, strength).unwrap());
        let source = denoised.as_ref().map_or(&noisy, Denoised::picture);
        let role = plan.role();
        let quality = Quality::Quantizer(plan.quantizer(role, index));
        let request = plan.request(role, Request { quality, ..Request::default() });
        let encoded = encode(&state, source, &request).unwrap();
        let decoded = decode(&state, &encoded.bytes, &Limits::default()).unwrap();
        assert_eq!(decoded.state, encoded.state);
        plan.encoded(role, &encoded.stats);
        bytes += encoded.bytes.len();
        for (a, b) in super::samples(&clean).into_iter().zip(super::samples(&encoded.picture)) {
            squares += u64::from(a.abs_diff(b)).pow(2);
            samples += 1;
        }
        state = encoded.state;
    }
    (bytes, squares as f64 / f64::from(samples))
}

#[test]
fn noise_costs_fewer_bytes_and_the_picture_is_nearer_to_the_clean_one() {
    for index in [15, 29, 51] {
        let (plain_bytes, plain_error) = stream(None, index);
        for strength in [Denoise::Light, Denoise::Medium, Denoise::Strong] {
            let (bytes, error) = stream(Some(strength), index);
            let told =
                format!("{strength:?}, {index}: {bytes} of {plain_bytes} bytes, {error} of {plain_error}");
            assert!(bytes < plain_bytes && error < plain_error, "{told}");
            let much = strength != Denoise::Light;
            assert!(!much || (bytes * 10 < plain_bytes * 7 && error * 10.0 < plain_error * 9.0), "{told}");
        }
    }
}

#[test]
fn candidates_are_made_of_one_denoised_picture() {
    let clean = picture((96, 80), 7, 0, 0);
    let first = denoise(None, &noisy(&clean, 1), Denoise::Medium).unwrap();
    let second = denoise(Some(&first), &noisy(&clean, 2), Denoise::Medium).unwrap();
    let state = encode(&State::new(), first.picture(), &Request::default()).unwrap().state;
    let qualities = [Quality::Quantizer(20), Quality::Quantizer(60)];
    let candidates = encode_candidates(&state, second.picture(), &Request::default(), &qualities).unwrap();
    for candidate in candidates {
        assert_eq!(decode(&state, &candidate.bytes, &Limits::default()).unwrap().state, candidate.state);
    }
}
