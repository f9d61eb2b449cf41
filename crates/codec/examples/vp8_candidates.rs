//! Encodes each picture of a y4m file in two qualities and keeps one, then as frames of asked sizes; says what the
//! second candidate costs and how well sizes are met: `vp8_candidates FILE.y4m [SPEED] [FRAMES]`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example reads a file and the clock"
)]

mod clip;

use clip::{cpu_seconds, read};
use glassline_codec::vp8::{
    EncodeWorkspace, Encoded, Quality, Request, Serial, State, encode_candidates_in, encode_in,
};
use glassline_media::Picture;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("vp8_candidates FILE.y4m [SPEED] [FRAMES]")?;
    let speed = arguments.get(1).map_or(Ok(6), |speed| speed.parse())?;
    let limit = arguments.get(2).map_or(Ok(60), |frames| frames.parse())?;
    let pictures = read(path, limit)?;
    let request = Request { speed, ..Request::default() };
    let [one, two, four] = [&[40][..], &[40, 55], &[30, 40, 55, 75]].map(|quantizers| {
        let qualities: Vec<Quality> = quantizers.iter().map(|&index| Quality::Quantizer(index)).collect();
        let begin = cpu_seconds();
        let kept = keep_first(&pictures, &request, &qualities);
        kept.map(|()| cpu_seconds() - begin)
    });
    let (one, two, four) = (one?, two?, four?);
    println!("one {one:.3} s, two {two:.3} s ({:.2} x), four {four:.3} s ({:.2} x)", two / one, four / one);
    for never_above in [false, true] {
        sizes(&pictures, &request, never_above)?;
    }
    Ok(())
}

/// Encodes pictures in some qualities and goes on from the first of them.
fn keep_first(pictures: &[Picture], request: &Request, qualities: &[Quality]) -> Result<(), Failure> {
    let (mut state, mut workspace) = (State::new(), EncodeWorkspace::new());
    for picture in pictures {
        let candidates = encode_candidates_in(&state, picture, request, qualities, &mut workspace, &Serial)?;
        let first: Option<Encoded> = candidates.into_iter().next();
        state = first.ok_or("no candidate")?.state;
    }
    Ok(())
}

/// Asks for 0.5 to 2 times the size that each frame has by itself.
fn sizes(pictures: &[Picture], request: &Request, never_above: bool) -> Result<(), Failure> {
    let (mut state, mut workspace) = (State::new(), EncodeWorkspace::new());
    let (mut met, mut above, mut asked, mut seconds, mut natural_seconds) = (0, 0, 0, 0.0, 0.0);
    let mut missed = Vec::new();
    for (number, picture) in pictures.iter().enumerate() {
        let begin = cpu_seconds();
        let natural = encode_in(&state, picture, request, &mut workspace, &Serial)?;
        natural_seconds += cpu_seconds() - begin;
        for share in [50, 75, 100, 140, 200] {
            let target = (natural.bytes.len() * share / 100).max(1000);
            let quality = Quality::Bytes { target, never_above };
            let begin = cpu_seconds();
            let request = Request { quality, ..*request };
            let encoded = encode_in(&state, picture, &request, &mut workspace, &Serial)?;
            seconds += cpu_seconds() - begin;
            let bytes = encoded.bytes.len();
            let hit = bytes.abs_diff(target) * 20 <= target;
            met += usize::from(hit);
            above += usize::from(bytes > target);
            asked += 1;
            if !hit {
                missed.push(format!("{number}:{share}% {bytes}/{target}"));
            }
        }
        state = natural.state;
    }
    let times = seconds / asked as f64 / (natural_seconds / pictures.len() as f64);
    let share = 100.0 * met as f64 / asked as f64;
    println!(
        "never_above {never_above}: {share:.1} % of {asked} within 5 %, {above} above, {times:.2} x the time"
    );
    println!("  missed: {}", missed.join(" "));
    Ok(())
}
