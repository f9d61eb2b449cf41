//! Rate control with the encoder itself: what a decoder's buffer sees.

use glassline_codec::vp8::{Encoder, EncoderSettings, RateSettings, Serial, StreamQuality};
use glassline_measure::pattern::Pattern;
use glassline_media::{FrameRate, Size, Time, Utc};
use std::time::Duration;

/// Bits of each frame, whether each is a key frame, and how many came late.
struct Stream {
    frames: Vec<(f64, bool)>,
    late: u64,
}

fn encode(settings: &RateSettings, frames: u64) -> Stream {
    let mut pattern = Pattern::new(Size::new(320, 180).unwrap(), settings.frame_rate);
    let mut encoder = Encoder::new(&EncoderSettings {
        frame_rate: settings.frame_rate,
        key_interval: settings.key_interval,
        quality: StreamQuality::Rate(settings.clone()),
        speed: 8,
        denoise: None,
    });
    let mut stream = Stream { frames: Vec::new(), late: 0 };
    for number in 0..frames {
        let picture = pattern.draw(number, Time::ZERO + settings.frame_rate.time_of(number), Utc::default());
        let encoded = encoder.encode(&picture, &Serial).unwrap();
        assert!(encoded.tries < 12);
        stream.frames.push((encoded.bytes.len() as f64 * 8.0, encoded.stats.key));
    }
    stream.late = encoder.late_frames().unwrap();
    stream
}

/// Plays the buffer by hand: half full at first, filled by the link, emptied by each frame.
fn check(settings: &RateSettings, stream: &Stream) {
    let share = settings.bitrate_bps as f64 / settings.frame_rate.as_f64();
    let size = (settings.bitrate_bps as f64 * settings.buffer.as_secs_f64()).max(share);
    let mut buffered = (size / 2.0).max(share);
    for (number, (bits, _)) in stream.frames.iter().enumerate() {
        buffered -= bits;
        assert!(buffered >= -1e-6, "{settings:?}: frame {number} of {bits} bits comes late");
        buffered = (buffered + share).min(size);
    }
    assert_eq!(stream.late, 0);
}

fn settings(bitrate_bps: u64, buffer: Duration) -> RateSettings {
    RateSettings::new(bitrate_bps, FrameRate::new(25, 1).unwrap(), buffer)
}

#[test]
fn no_frame_comes_late_and_the_rate_is_used() {
    for (bitrate, buffer, least) in [(200_000, 1000, 0.85), (600_000, 300, 0.85), (600_000, 40, 0.5)] {
        let settings = settings(bitrate, Duration::from_millis(buffer));
        let stream = encode(&settings, 100);
        check(&settings, &stream);
        let used = stream.frames[25..].iter().map(|(bits, _)| bits).sum::<f64>() / 3.0 / bitrate as f64;
        assert!((least..1.15).contains(&used), "{settings:?}: {used}");
    }
}

#[test]
fn key_frames_fit_too() {
    let settings = RateSettings { key_interval: Some(20), ..settings(400_000, Duration::from_secs(1)) };
    let stream = encode(&settings, 80);
    check(&settings, &stream);
    let keys: Vec<usize> = (0..80).filter(|&at| stream.frames[at].1).collect();
    assert_eq!(keys, [0, 20, 40, 60]);
}
