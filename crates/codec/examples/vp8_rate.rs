//! Encodes a y4m file at a bit rate, with a receiver's buffer of a second, and says what came of it:
//! `vp8_rate FILE.y4m SPEED KBITS,… [FRAMES]`.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an example reads a file")]

use glassline_codec::vp8::{
    EncodeWorkspace, Plan, Quality, RateControl, RateSettings, Request, Role, Serial, State, Verdict,
    encode_in,
};
use glassline_media::container::y4m::Reader;
use glassline_media::measure::psnr::SquaredError;
use glassline_media::measure::ssim::{self, Ssim};
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
        let (mut state, mut workspace) = (State::new(), EncodeWorkspace::new());
        let mut stream: Option<(RateControl, Plan)> = None;
        let (mut error, mut ssim) = (SquaredError::default(), Ssim::default());
        let (mut frames, mut bytes, mut again, mut quantizers) = (0, 0, 0, Vec::new());
        'stream: loop {
            let count = std::io::Read::read(&mut file, &mut chunk)?;
            let mut input = &chunk[..count];
            while let Some(picture) = reader.parse(&mut input)? {
                let rate = reader.header().ok_or("a picture without a header")?.frame_rate;
                let bits = 1000 * kilobits.parse::<u64>()?;
                let settings = RateSettings::new(bits, rate, Duration::from_secs(1));
                let (control, plan) = stream
                    .get_or_insert_with(|| (RateControl::new(&settings), Plan::new(rate.as_f64(), None)));
                // A frame that is too large for the buffer is encoded again: nothing has happened to the state.
                let mut role = plan.role();
                let (mut quantizer, mut tries) = (control.quantizer(role), 1);
                let encoded = loop {
                    let quality = Quality::Quantizer(quantizer);
                    let request = Request { quality, speed: speed.parse()?, ..Request::default() };
                    let request = plan.request(role, request);
                    let encoded = encode_in(&state, &picture, &request, &mut workspace, &Serial)?;
                    if plan.is_cut(&encoded.stats) {
                        role = Role::Key;
                        quantizer = control.quantizer(role);
                        continue;
                    }
                    match control.judge(role, quantizer, encoded.bytes.len(), tries) {
                        Verdict::Keep => break encoded,
                        Verdict::Again(other) => quantizer = other,
                    }
                    tries += 1;
                };
                control.encoded(encoded.bytes.len(), quantizer, role);
                plan.encoded(role, &encoded.stats);
                error.add(&SquaredError::of(&picture, &encoded.picture)?);
                ssim.add(&Ssim::of(&picture, &encoded.picture)?);
                bytes += encoded.bytes.len();
                again += u32::from(tries > 1);
                quantizers.push(quantizer);
                state = encoded.state;
                frames += 1;
                if frames == limit {
                    break 'stream;
                }
            }
            if count == 0 {
                break;
            }
        }
        let Some((control, _)) = stream else { return Err("no pictures".into()) };
        let rate = reader.header().ok_or("no header")?.frame_rate.as_f64();
        println!(
            "{kilobits:>6} kbit/s asked, {:8.1} taken, PSNR {:.3} dB, SSIM {:.3} dB, {again} encoded again, {} late; \
             quantisers {:?}",
            bytes as f64 * 8.0 / 1000.0 * rate / frames as f64,
            error.plane_db(0).unwrap_or_default(),
            ssim.plane(0).map(ssim::decibels).unwrap_or_default(),
            control.late_frames(),
            quantizers.iter().step_by(10).collect::<Vec<_>>(),
        );
    }
    Ok(())
}
