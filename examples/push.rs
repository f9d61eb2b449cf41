//! Encodes the test pattern and pushes it to a relay. Once per second it prints the latency.
//!
//! ```text
//! glassline serve                                                                       a relay on this machine
//! cargo run -p glassline-studio --example push http://127.0.0.1:8080/live/example.ts    pushes until Ctrl-C
//! cargo run -p glassline-studio --example push udp://239.1.1.1:1234 file.mp4 250        or elsewhere, 250 pictures of a file
//! ```
//! If the relay goes away, the connection is made again, and viewers join at the next key frame.

use glassline_io::clock::Clock;
use glassline_studio::capture::{Input, Length};
use glassline_studio::encode::{Encoding, Request};
use glassline_studio::output::{Credentials, Opener, Target};
use std::error::Error;

/// The default input: a test pattern with a clock, and a barcode of the time of capture.
const PATTERN: &str = "test:1280x720@50";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, rest @ ..] = &arguments[..] else {
        return Err(
            "push URL [INPUT] [PICTURES]: the URL is http://HOST/live/NAME.ts or udp://HOST:PORT".into()
        );
    };
    let target: Target = target.parse()?;
    let input: Input = rest.first().map_or(PATTERN, String::as_str).parse()?;
    let pictures = rest.get(1).map(|pictures| pictures.parse()).transpose()?;

    let length = Length { pictures, ..Length::default() };
    let mut encoding = Encoding::open(&Request { length, ..Request::new(input) }, Clock::new())?;
    for (name, format, _) in encoding.renditions() {
        println!("{name}{} at {} to {target}", format.size, format.rate);
    }
    encoding.report_progress(|progress| {
        println!(
            "{:.1} pictures/s, {}, first packet {:.1} ms after capture, last {:.1} ms",
            progress.pictures_per_second, progress.bitrate, progress.first_packet_ms, progress.last_packet_ms,
        );
    });

    // All sockets share one thread. A slow socket drops pictures, and never delays the encoder.
    let mut opener = Opener::new(Credentials::default(), encoding.liveness());
    let outputs = opener.open(&[target])?;
    let ended = encoding.run(vec![Box::new(outputs)]);
    Ok(ended.result?)
}
