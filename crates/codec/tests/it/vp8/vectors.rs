//! The WebM project's conformance streams decode to what their checksums say.

use super::{frames, samples, streams};
use glassline_codec::vp8::{Limits, State, Workspace, decode_in};
use md5::{Digest, Md5};
use std::fmt::Write;

/// Decodes each stream in a workspace of its own, which `new` makes.
fn check(test: &str, new: fn() -> Workspace) {
    let streams = streams(test);
    assert!(streams.is_empty() || streams.len() == 61, "{} streams", streams.len());
    let mut wrong = Vec::new();
    for path in &streams {
        let sums = std::fs::read_to_string(path.with_extension("ivf.md5")).unwrap();
        let mut expected = sums.lines().map(|line| &line[..32]);
        let (mut state, mut workspace) = (State::new(), new());
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        for (number, frame) in frames(path).iter().enumerate() {
            let decoded = match decode_in(&state, frame, &Limits::default(), &mut workspace) {
                Ok(decoded) => decoded,
                Err(error) => {
                    wrong.push(format!("{name}, frame {number}: {error}"));
                    break;
                }
            };
            state = decoded.state;
            let Some(picture) = decoded.picture else { continue };
            let sum = Md5::digest(samples(&picture)).iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            if expected.next() != Some(&sum) {
                wrong.push(format!("{name}: frame {number} of {}", picture.size()));
                break;
            }
        }
        if wrong.is_empty() {
            assert_eq!(expected.next(), None, "{name} shows fewer pictures than there are checksums");
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} streams are wrong:\n{}",
        wrong.len(),
        streams.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_conformance_stream_decodes_to_its_checksums() {
    check("every_conformance_stream_decodes_to_its_checksums", Workspace::new);
}

#[test]
fn every_conformance_stream_decodes_to_its_checksums_with_portable_kernels() {
    check("every_conformance_stream_decodes_to_its_checksums_with_portable_kernels", Workspace::portable);
}
