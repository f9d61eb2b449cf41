//! Decodes an IVF file with VP8 and says how fast that was: `vp8_decode FILE.ivf [TIMES]`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example reads a file and the clock"
)]

use glassline_codec::vp8::{Limits, State, Workspace, decode_in};
use glassline_media::container::ivf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name an IVF file")?;
    let times: u32 = arguments.next().map_or(Ok(1), |times| times.parse())?;
    let bytes = std::fs::read(&path)?;
    let (mut reader, mut rest) = (ivf::Reader::new(), &bytes[..]);
    let mut frames = Vec::new();
    while let Some(frame) = reader.parse(&mut rest)? {
        frames.push(frame.bytes);
    }
    for _ in 0..times {
        let (mut state, mut workspace) = (State::new(), Workspace::new());
        let begin = Instant::now();
        let mut shown = 0;
        for frame in &frames {
            let decoded = decode_in(&state, frame, &Limits::default(), &mut workspace)?;
            state = decoded.state;
            shown += usize::from(decoded.picture.is_some());
        }
        let seconds = begin.elapsed().as_secs_f64();
        println!(
            "{} frames, {shown} shown, {:.3} s, {:.0} frames/s; {:?} takes {} kB",
            frames.len(),
            seconds,
            frames.len() as f64 / seconds,
            state,
            state.memory_bytes() / 1000,
        );
    }
    Ok(())
}
