//! Pictures that a foreign decoder gave, and what their barcodes say.

use glassline_measure::barcode;
use glassline_media::container::y4m::Reader;
use glassline_test_support::http::read_once;
use std::io::Read;

/// A barcode that was read, and how long after capture, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) frame_number: u32,
    pub(crate) captured_micros: u64,
    pub(crate) delay_ms: f64,
}

/// The barcode's time counts modulo this many microseconds.
const MODULUS: u64 = 1 << 40;

/// Reads y4m to its end, or up to `limit` pictures, as it comes. `None` stands for a picture without a barcode.
pub(crate) fn read_y4m(mut source: impl Read, limit: usize) -> Vec<Option<Seen>> {
    let (mut reader, mut seen) = (Reader::new(), Vec::new());
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = read_once(&mut source, &mut buffer).unwrap();
        if count == 0 {
            return seen;
        }
        let mut input = &buffer[..count];
        while let Some(picture) = reader.parse(&mut input).unwrap() {
            let found = barcode::read(&picture);
            seen.push(found.top_left.or(found.bottom_right).map(|code| {
                let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64 % MODULUS;
                let delay = (now + MODULUS - code.captured_utc_micros) % MODULUS;
                Seen {
                    frame_number: code.frame_number,
                    captured_micros: code.captured_utc_micros,
                    delay_ms: delay as f64 / 1000.0,
                }
            }));
            if seen.len() >= limit {
                return seen;
            }
        }
    }
}

/// Checks that nearly each picture had a barcode, and that numbers and times go up together at `rate`, with no
/// more than `gaps` pictures left out. Returns those seen.
pub(crate) fn check(seen: &[Option<Seen>], rate: f64, gaps: u32) -> Vec<Seen> {
    let read: Vec<Seen> = seen.iter().flatten().copied().collect();
    assert!(read.len() * 100 >= seen.len() * 95, "barcodes in {} of {} pictures", read.len(), seen.len());
    assert!(read.len() >= 20, "only {} pictures", read.len());
    let (mut left_out, frame_micros) = (0, 1e6 / rate);
    for pair in read.windows(2) {
        let step = pair[1].frame_number.wrapping_sub(pair[0].frame_number);
        assert!((1..1000).contains(&step), "frame {} after {}", pair[1].frame_number, pair[0].frame_number);
        left_out += step - 1;
        let time = (pair[1].captured_micros + MODULUS - pair[0].captured_micros) % MODULUS;
        // A source that fell behind its clock may catch up: the time must only not contradict the number.
        assert!((time as f64) > 0.1 * frame_micros * f64::from(step), "{pair:?}");
    }
    let unread = (seen.len() - read.len()) as u32;
    assert!(left_out <= gaps + unread, "{left_out} pictures are missing");
    read
}
