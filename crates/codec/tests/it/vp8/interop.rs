//! Other decoders make of our streams what our own reconstruction is.

use super::plan::half_still;
use super::samples;
use bytes::Bytes;
use glassline_codec::vp8::{Quality, Replace, Request, State, Updates, encode};
use glassline_media::FrameRate;
use glassline_media::container::ivf::{Frame, Header};
use glassline_test_support::{has_program, skip};
use std::path::PathBuf;
use std::process::Command;

/// A stream as an IVF file, and its pictures as its encoder reconstructed them.
fn stream((width, height): (u32, u32), request: Request, name: &str) -> (PathBuf, Vec<u8>) {
    let mut file = Vec::new();
    let rate = FrameRate::new(30, 1).unwrap();
    let header = Header { codec: Header::VP8, width: width as u16, height: height as u16, rate, frames: 8 };
    header.write(&mut file);
    let (mut state, mut reconstructed) = (State::new(), Vec::new());
    for number in 0..8 {
        // Golden is replaced on the way, and a key frame comes once more.
        let golden = if number == 3 { Replace::ByCurrent } else { Replace::Keep };
        let altref = if number == 5 { Replace::ByOther } else { Replace::Keep };
        let updates = Updates { last: true, golden, altref };
        // Segments come, stay with their map, go, and come again; two pictures are the same.
        let still_finer = if [2, 3, 5, 7].contains(&number) { 12 } else { 0 };
        let request = Request { updates, still_finer, key_frame: number == 6, ..request };
        let picture = half_still((width, height), 5 * number.min(2) + 3 * (number / 4));
        let encoded = encode(&state, &picture, &request).unwrap();
        reconstructed.extend_from_slice(&samples(&encoded.picture));
        state = encoded.state;
        let frame = Frame { time_stamp: u64::from(number), bytes: Bytes::from(encoded.bytes) };
        frame.write(&mut file).unwrap();
    }
    let path = std::env::temp_dir().join(format!("glassline-vp8-{}-{name}.ivf", std::process::id()));
    std::fs::write(&path, file).unwrap();
    (path, reconstructed)
}

/// Streams of several kinds go through a decoder, which writes I420 to its standard output.
fn check(test: &str, program: &str, arguments: impl Fn(&str) -> Vec<String>) {
    if !has_program(program) {
        return skip(test, &format!("{program} is absent"));
    }
    let requests = [(0, 8, 1), (2, 30, 4), (4, 50, 2), (6, 20, 1), (6, 100, 8), (10, 70, 1)];
    for (at, (speed, index, token_partitions)) in requests.into_iter().enumerate() {
        let quality = Quality::Quantizer(index);
        let request = Request { quality, speed, token_partitions, ..Request::default() };
        let size = [(176, 144), (175, 131)][at % 2];
        let (path, reconstructed) = stream(size, request, &format!("{program}-{at}"));
        let output = Command::new(program).args(arguments(path.to_str().unwrap())).output().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == reconstructed, "{request:?}: other samples");
    }
}

#[test]
fn ffmpeg_decodes_our_reconstruction() {
    check("ffmpeg_decodes_our_reconstruction", "ffmpeg", |path| {
        let line = format!("-loglevel error -c:v vp8 -i {path} -fps_mode passthrough -f rawvideo -");
        line.split(' ').map(String::from).collect()
    });
}

#[test]
fn libvpx_decodes_our_reconstruction() {
    check("libvpx_decodes_our_reconstruction", "vpxdec", |path| {
        ["--i420", "-o", "-", path].map(String::from).to_vec()
    });
}
