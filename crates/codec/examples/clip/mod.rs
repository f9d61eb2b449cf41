//! What examples that measure have in common.

use glassline_media::Picture;
use glassline_media::container::y4m;
use std::error::Error;
use std::fs::File;
use std::io::Read;

/// The first pictures of a y4m file, `limit` at most.
pub(crate) fn read(path: &str, limit: usize) -> Result<Vec<Picture>, Box<dyn Error>> {
    let (mut file, mut chunk) = (File::open(path)?, vec![0; 1 << 20]);
    let (mut reader, mut pictures) = (y4m::Reader::new(), Vec::new());
    loop {
        let count = file.read(&mut chunk)?;
        let mut rest = &chunk[..count];
        while let Some(picture) = reader.parse(&mut rest)? {
            pictures.push(picture);
            if pictures.len() == limit {
                return Ok(pictures);
            }
        }
        if count == 0 {
            reader.finish()?;
            return if pictures.is_empty() { Err("no pictures".into()) } else { Ok(pictures) };
        }
    }
}

/// Seconds that this thread has used the processor.
pub(crate) fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or_default() / 1e9
}
