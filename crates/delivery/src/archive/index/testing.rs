//! Recordings for tests.

use super::*;
use crate::archive::names::Session;
use crate::packager::Kind;
use crate::policy::StreamName;
use glassline_media::bitstream::hdr::Range;

/// When the recordings of tests begin: 2026-11-30T02:25:52.123Z.
pub(crate) const BEGUN: Utc = Utc::from_nanos(1_796_005_552_123_000_000);

pub(crate) fn name() -> StreamName {
    StreamName::parse("hall").unwrap()
}

pub(crate) fn session() -> Session {
    Session::new(BEGUN)
}

pub(crate) fn video(epoch: u32) -> TrackInfo {
    TrackInfo {
        epoch,
        codec: "avc1.64001F".to_owned(),
        timescale: 90_000,
        kind: Kind::Video {
            width_px: 1280,
            height_px: 720,
            frame_rate: glassline_media::FrameRate::new(50, 1),
            sample_aspect: None,
            colour: None,
            range: Range::Sdr,
        },
        sample_ticks: 1800,
        chunk_ticks: 18_000,
        part_ticks: 18_000,
    }
}

pub(crate) fn audio(epoch: u32) -> TrackInfo {
    TrackInfo {
        epoch,
        codec: "mp4a.40.2".to_owned(),
        timescale: 48_000,
        kind: Kind::Audio { channels: 2, rate_hz: 48_000, language: Some(*b"eng") },
        sample_ticks: 1024,
        chunk_ticks: 9216,
        part_ticks: 9216,
    }
}

/// The segment of this number, two seconds long, where number 100 begins at `begun` and at the epoch's zero.
pub(crate) fn segment(begun: Utc, number: u64, epoch: u32, timescale: u32) -> RecordedSegment {
    let at = number - 100;
    RecordedSegment {
        number,
        epoch,
        start: at * 2 * u64::from(timescale),
        duration: 2 * u64::from(timescale),
        utc: later(begun, Duration::from_secs(at * 2)),
        captured: false,
        independent: true,
        bytes: 100_000 + number,
        crc32c: 0x1234_5678,
        key_frames: if timescale == 90_000 {
            vec![KeyFrame { time: 0, offset_bytes: 24, size_bytes: 20_000 }]
        } else {
            Vec::new()
        },
    }
}

/// A recording of pictures and sound with segments of these numbers and epoch.
pub(crate) fn recording(begun: Utc, numbers: impl IntoIterator<Item = (u64, u32)>) -> Recording {
    let mut recording = Recording::new(name(), Session::new(begun));
    for (number, epoch) in numbers {
        add_both(&mut recording, begun, number, epoch);
    }
    recording
}

/// Adds a segment of pictures and one of sound.
pub(crate) fn add_both(recording: &mut Recording, begun: Utc, number: u64, epoch: u32) {
    for (rendition, track) in [(RenditionName::Video, video(epoch)), (RenditionName::Audio(1), audio(epoch))]
    {
        let segment = segment(begun, number, epoch, track.timescale);
        recording.add(0, Line::Track(rendition, track));
        recording.add(0, Line::Segment(rendition, segment));
    }
}
