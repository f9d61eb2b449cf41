//! WAVE files from a stranger: the first byte says where to cut; what comes out does not depend on it.

use glassline_media::container::wav::{Reader, WavError};

/// The samples in `parts`, and how reading ended.
fn read(parts: [&[u8]; 2]) -> (Vec<f32>, Option<WavError>) {
    let mut reader = Reader::new();
    let mut samples = Vec::new();
    for mut input in parts {
        loop {
            match reader.parse(&mut input) {
                Ok(Some(block)) => samples.extend(block.samples),
                Ok(None) => break,
                Err(error) => return (samples, Some(error)),
            }
        }
        assert!(input.is_empty(), "all is taken");
    }
    (samples, None)
}

/// Reads `data` as a file, whole and cut in two.
pub fn run(data: &[u8]) {
    let Some((&cut, file)) = data.split_first() else { return };
    let (samples, ended) = read([file, &[]]);
    assert!(samples.len() <= file.len());
    assert!(samples.iter().all(|sample| sample.abs() <= 8.0));
    let (again, ended_again) = read(file.split_at(file.len() * usize::from(cut) / 256).into());
    assert!(samples == again && ended == ended_again, "a cut changes something");
}
