//! Any bytes as H.264, as ADTS and as Opus: units, parameter sets, messages, frames.

use glassline_media::Time;
use glassline_media::bitstream::aac_config::AudioSpecificConfig;
use glassline_media::bitstream::h264::{self, NalType, Sei, Sps, sei};
use glassline_media::bitstream::{adts, opus};
use glassline_media::stamps::{RECORD_BYTES_MAX, Record, STAGE_LONGEST, Stage};

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let mut end = 0;
    for nal in h264::nals(data) {
        assert!(nal.offset >= end && !nal.bytes.is_empty(), "units lie one behind the other");
        assert_eq!(&data[nal.offset..nal.offset + nal.bytes.len()], nal.bytes);
        end = nal.offset + nal.bytes.len();
        match nal.kind() {
            NalType::Sps => parameter_set(nal.payload()),
            NalType::Sei => messages(nal.payload()),
            _ => drop(h264::slice_type(&nal)),
        }
    }
    parameter_set(data);
    messages(data);
    if let Some(record) = Record::parse(data) {
        stamps(&record);
    }
    let split: Vec<u8> = h264::split_at_delimiters(data).flatten().copied().collect();
    assert_eq!(split, data, "splitting loses nothing");
    let _ = (h264::is_key(data), h264::begins_with_delimiter(data), h264::first_slice_type(data));
    assert_eq!(h264::is_key(data), h264::join(data) == Some(h264::Join::Idr));
    escaping(data);
    for (header, frame) in adts::frames(data) {
        assert_eq!(header.frame_bytes, frame.len());
        let config = AudioSpecificConfig::of(&header, None);
        let _ = (config.and_then(|config| config.write()), header.write());
    }
    for (_, packet) in opus::packets(data) {
        let _ = opus::duration_samples(packet);
    }
}

fn parameter_set(payload: &[u8]) {
    if let Ok(set) = Sps::parse(payload) {
        assert!(set.width_px > 0 && set.height_px > 0 && set.reorder_depth() <= 16);
        assert_eq!(set.codec_string().len(), "avc1.42C01F".len());
    }
}

/// Every message can be written and read again.
fn messages(payload: &[u8]) {
    let found = Sei::parse(payload);
    let _ = (found.recovery_point(), found.capture_utc());
    if let Some(record) = found.stamp_record() {
        stamps(&record);
    }
    for (kind, body) in found.messages().take(64).filter(|(kind, body)| *kind < 4096 && body.len() < 4096) {
        let mut written = Vec::new();
        sei::write_message(kind, body, &mut written);
        let again = Sei::parse(&written[5..]);
        assert!(again.messages().eq([(kind, body)]));
    }
}

/// What is told of a sender's stages is possible, and can be told again.
fn stamps(record: &Record) {
    let behind = record.previous.map(|previous| previous.stages);
    for stamps in [Some(record.own), behind].into_iter().flatten() {
        for stage in Stage::ALL {
            let after = stamps.at(stage).map(|time| time.since(Time::ZERO));
            assert!(after.is_none_or(|after| after <= STAGE_LONGEST), "{stamps:?}");
        }
    }
    let mut written = Vec::new();
    record.write(&mut written);
    assert!(written.len() <= RECORD_BYTES_MAX);
    let again = Record::parse(&written).expect("what was written is read");
    assert_eq!((again.own, again.clock), (record.own, record.clock));
}

fn escaping(data: &[u8]) {
    let payload = [data, &[0x80]].concat();
    let (mut escaped, mut back) = (Vec::new(), Vec::new());
    h264::escape(&payload, &mut escaped);
    assert_eq!(h264::find_start_code(&escaped, 0), None);
    h264::unescape(&escaped, usize::MAX, &mut back);
    assert_eq!(back, payload);
}
