//! A fetched source in a test's hands, and what it publishes.

use super::Fetched;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{self, Backlog, FlushPolicy, Mux, Pacing, Prebuffer};
use glassline_io::clock::Clock;
use glassline_media::container::ts::{MuxSettings, Muxer};
use glassline_media::{AccessUnit, Codec, Stamps, Ticks};
use glassline_streams::{FreeNames, NoThreads, Publisher, Streams};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A source in a test's hands.
pub(in crate::capture) struct Source {
    streams: Arc<Streams>,
    name: StreamName,
    pub(super) refusal: Mutex<Option<(String, String)>>,
    pub(super) losses: AtomicU64,
}

impl Source {
    pub(in crate::capture) fn new() -> Arc<Source> {
        let settings = stream::Settings {
            backlog: Backlog { time: Duration::from_secs(10), bytes: 1 << 20 },
            flush: FlushPolicy::Frame,
            pacing: Pacing::Off,
            prebuffer: Prebuffer::NONE,
        };
        let plan = Arc::new(FreeNames { settings, max_streams: 1 });
        let streams = Arc::new(Streams::new(plan, Arc::new(NoThreads), Clock::new()));
        let name = StreamName::parse("input").unwrap();
        Arc::new(Source { streams, name, refusal: Mutex::default(), losses: AtomicU64::default() })
    }

    pub(in crate::capture) fn publish(&self) -> Publisher {
        self.streams.publish(&self.name, Mux::MpegTs).unwrap()
    }

    pub(in crate::capture) fn refuse(&self) {
        let words = ("it answers 404".to_owned(), "check the path".to_owned());
        *self.refusal.lock().unwrap() = Some(words);
    }
}

impl Fetched for Source {
    fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    fn name(&self) -> &StreamName {
        &self.name
    }

    fn address(&self) -> String {
        "rtsp://cam/…".to_owned()
    }

    fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    fn refusal(&self) -> Option<(String, String)> {
        self.refusal.lock().unwrap().clone()
    }
}

pub(in crate::capture) const SETS: &[u8] = &[
    0, 0, 0, 1, 0x67, 0x42, 0xC0, 0x1E, 0xD9, 0x03, 0xC5, 0x68, 0x40, 0, 0, 3, 0, 0x40, 0, 0, 0x0C, 3, 0xC5,
    0x8B, 0x92, 0, 0, 0, 1, 0x68, 0xCB, 0x8C, 0xB2,
];

/// What the multiplexer puts in front of a unit that has none.
pub(in crate::capture) const DELIMITER: &[u8] = &[0, 0, 0, 1, 9, 0xF0];

/// A picture: every fifth a key frame, every odd one such that no other refers to it.
pub(in crate::capture) fn picture(number: u64) -> Vec<u8> {
    let header = match number {
        number if number.is_multiple_of(5) => 0x65,
        number if number % 2 == 1 => 0x01,
        _ => 0x41,
    };
    let sets = if header == 0x65 { SETS } else { &[] };
    let slice =
        [&[0, 0, 0, 1, header, if header == 0x65 { 0x88 } else { 0x9A }][..], &number.to_be_bytes()].concat();
    // No byte of it may be taken for a start code.
    let slice: Vec<u8> =
        slice[..6].iter().copied().chain(slice[6..].iter().map(|byte| byte | 0x80)).collect();
    [DELIMITER, sets, &slice[..]].concat()
}

pub(in crate::capture) fn muxer(codec: Codec) -> Muxer {
    Muxer::new(MuxSettings { video: Some(codec), audio: None, ..MuxSettings::default() }).unwrap()
}

/// Writes picture `number`, shown `later` pictures after it is decoded.
pub(in crate::capture) fn write(muxer: &mut Muxer, number: u64, later: i64, data: Vec<u8>) -> Vec<u8> {
    let dts = Ticks(90_000 + number as i64 * 3600);
    let unit = AccessUnit {
        codec: Codec::H264,
        data: data.into(),
        pts: dts + Ticks(later * 3600),
        dts,
        random_access: number.is_multiple_of(5),
        stamps: Stamps::default(),
    };
    let mut packets = Vec::new();
    muxer.write(&unit, &mut packets).unwrap();
    packets
}
