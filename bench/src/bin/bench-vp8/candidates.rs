//! What no command line shows, asked of the crate itself: what a second candidate costs, and a state's hash, and how well
//! sizes are met.
//! Processor time of this thread, in which all of it runs.

use crate::clips::Clip;
use anyhow::{Context, Result};
use glassline_bench::process::Others;
use glassline_bench::report::Report;
use glassline_codec::vp8::{
    EncodeWorkspace, Quality, Request, Serial, State, encode_candidates_in, encode_in,
};
use glassline_io::process::thread_cpu_time;
use glassline_media::Picture;
use glassline_media::container::y4m::Reader;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;

/// Indices of the candidates: one; two as far apart as a sender steps; four.
const SETS: [&[u8]; 3] = [&[40], &[40, 58], &[34, 40, 50, 64]];
/// Asked sizes by the natural one, that of [`NATURAL`].
const SHARES: [f64; 5] = [0.5, 0.7, 1.0, 1.4, 2.0];
const NATURAL: u8 = 40;
/// Smaller sizes are not asked for: headers alone take some tens of bytes.
const LEAST_BYTES: usize = 1000;
const WHO: &str = "glassline";

/// All pictures of a clip, up to `most`.
fn read(clip: &Clip, most: usize) -> Result<Vec<Picture>> {
    let mut file = File::open(&clip.path).with_context(|| clip.path.display().to_string())?;
    let (mut reader, mut chunk, mut pictures) = (Reader::new(), vec![0; 1 << 20], Vec::new());
    loop {
        let count = file.read(&mut chunk).with_context(|| clip.path.display().to_string())?;
        let mut input = &chunk[..count];
        while let Some(picture) = reader.parse(&mut input)? {
            pictures.push(picture);
            if pictures.len() == most {
                return Ok(pictures);
            }
        }
        if count == 0 {
            return Ok(pictures);
        }
    }
}

/// Pictures that are held in memory at most.
const MOST_PICTURES: usize = 100;

fn request(speed: u8) -> Request {
    Request { speed, ..Request::default() }
}

/// The price of two and of four candidates, and of the hash of the state behind one, by that of one; the stream goes on from index [`NATURAL`] each time.
pub(crate) fn candidates(clip: &Clip, speed: u8, runs: u32, report: &mut Report) -> Result<()> {
    let case = format!("{}, candidates at speed {speed}", clip.name);
    let pictures = read(clip, MOST_PICTURES)?;
    let metrics = ["one, ms a picture", "two by one", "four by one"];
    let hash = "hash, % of a frame";
    for _ in 0..runs {
        let others = Others::begin()?;
        let (mut seconds, mut hash_s) = ([0.0; SETS.len()], 0.0);
        let mut streams = SETS.map(|_| (State::new(), EncodeWorkspace::new()));
        // By turns, picture by picture, so that what disturbs one disturbs all.
        for (number, picture) in pictures.iter().enumerate() {
            for (set, (qualities, (state, workspace))) in SETS.iter().zip(&mut streams).enumerate() {
                let asked: Vec<Quality> = qualities.iter().map(|&index| Quality::Quantizer(index)).collect();
                let before = thread_cpu_time();
                let encoded =
                    encode_candidates_in(state, picture, &request(speed), &asked, workspace, &Serial)?;
                let took = thread_cpu_time().saturating_sub(before);
                // The first picture is a key frame, which is another matter.
                if number > 0 {
                    seconds[set] += took.as_secs_f64();
                }
                let kept = encoded.into_iter().find(|one| one.stats.quantizer == NATURAL);
                *state = kept.context("one of the candidates is the natural one")?.state;
                // Of the one frame that is new in the state; the others' are known.
                let before = thread_cpu_time();
                black_box(state.hash());
                if set == 0 && number > 0 {
                    hash_s += thread_cpu_time().saturating_sub(before).as_secs_f64();
                }
            }
        }
        report.disturbance(&case, WHO, others.share()?);
        let frames = pictures.len().saturating_sub(1).max(1) as f64;
        report.add_context(&case, WHO, metrics[0], "", seconds[0] / frames * 1000.0);
        report.add_context(&case, WHO, metrics[1], "×", seconds[1] / seconds[0]);
        report.add_context(&case, WHO, metrics[2], "×", seconds[2] / seconds[0]);
        report.add_context(&case, WHO, hash, "%", hash_s / seconds[0] * 100.0);
    }
    for (metric, limit) in [(metrics[1], 1.45), (metrics[2], 2.2), (hash, 2.0)] {
        if let Some(value) = report.value(&case, WHO, metric) {
            report.term(format!("{case}: {metric}"), value, limit, true);
        }
    }
    Ok(())
}

/// How many frames come within 5 % of the size that they should have, how many are larger than they may be, and what a
/// size costs by a quantiser.
pub(crate) fn sizes(clip: &Clip, speed: u8, report: &mut Report) -> Result<()> {
    let case = format!("{}, sizes at speed {speed}", clip.name);
    let pictures = read(clip, MOST_PICTURES)?;
    let (mut state, mut workspace) = (State::new(), EncodeWorkspace::new());
    let (mut asked, mut near, mut bounded, mut above) = (0u32, 0u32, 0u32, 0u32);
    let (mut plain_s, mut sized_s) = (0.0, 0.0);
    for (number, picture) in pictures.iter().enumerate() {
        let mut encode = |quality, seconds: &mut f64| {
            let before = thread_cpu_time();
            let request = Request { quality, ..request(speed) };
            let encoded = encode_in(&state, picture, &request, &mut workspace, &Serial);
            *seconds += thread_cpu_time().saturating_sub(before).as_secs_f64();
            encoded
        };
        let natural = encode(Quality::Quantizer(NATURAL), &mut plain_s)?;
        let share = SHARES[number % SHARES.len()];
        let target = (natural.bytes.len() as f64 * share) as usize;
        if target >= LEAST_BYTES {
            for never_above in [false, true] {
                let sized = encode(Quality::Bytes { target, never_above }, &mut sized_s)?;
                let found = sized.bytes.len();
                asked += 1;
                near += u32::from(found.abs_diff(target) * 20 <= target);
                bounded += u32::from(never_above);
                above += u32::from(never_above && found > target);
            }
        }
        state = natural.state;
    }
    if asked == 0 {
        report.note(format!("{case}: no frame has {LEAST_BYTES} bytes"));
        return Ok(());
    }
    let within = f64::from(near) / f64::from(asked) * 100.0;
    report.add_context(&case, WHO, "sizes asked for", "", f64::from(asked));
    report.add_context(&case, WHO, "within 5 %", "% of frames", within);
    report.add_context(&case, WHO, "above where never", "frames", f64::from(above));
    let by_plain = sized_s / f64::from(asked) / (plain_s / pictures.len() as f64);
    report.add_context(&case, WHO, "price by a quantiser's", "×", by_plain);
    report.term(format!("{case}: frames within 5 %, %"), within, 95.0, false);
    report.term(format!("{case}: frames above where never, of {bounded}"), f64::from(above), 0.0, true);
    Ok(())
}
