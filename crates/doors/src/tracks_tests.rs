use super::*;
use glassline_media::bitstream::s302m;
use glassline_media::container::ts::{Demuxer, Event};
use glassline_media::{AccessUnit, Codec, Stamps, Ticks};
use glassline_transport::sdp::Encoding;

fn format(name: &str, clock_hz: u32, channels: u8) -> coded::Format {
    let encoding =
        Encoding { payload_type: 0, name: name.to_owned(), clock_hz, channels, parameters: String::new() };
    coded::Format::of(&encoding).unwrap()
}

/// Twenty milliseconds of a tone of 437 Hz that began at 0, as the session gives a telephone's sound.
fn sound(millis: u64) -> Placed {
    let tone = |at: u64| (0.5 * (std::f64::consts::TAU * 437.0 * at as f64 / 48_000.0).sin()) as f32;
    let samples: Vec<f32> = (0..960).flat_map(|at| [tone(millis * 48 + at); 2]).collect();
    let mut data = Vec::new();
    s302m::write(&samples, 2, s302m::Depth::Bits16, 0, &mut data).unwrap();
    let pts = Ticks(millis.cast_signed() * 90);
    let unit = AccessUnit {
        codec: Codec::S302m,
        data: data.into(),
        pts,
        dts: pts,
        random_access: true,
        stamps: Stamps::default(),
    };
    Placed { unit, captured: None, jumps: false }
}

/// The units of sound in what `tracks` give, with their times in ticks, and their number of seams.
fn units(tracks: &mut Tracks) -> (Vec<AccessUnit>, usize) {
    let (mut demuxer, mut units, mut seams) = (Demuxer::new(), Vec::new(), 0);
    while let Some(written) = tracks.poll() {
        match written {
            Written::Bytes(bytes) => demuxer.push(&bytes),
            Written::Seam => seams += 1,
        }
    }
    demuxer.finish();
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { unit, .. } = event {
            units.push(unit);
        }
    }
    (units, seams)
}

#[cfg(feature = "opus")]
#[test]
fn a_telephone_s_sound_leaves_as_opus_on_its_own_clock() {
    use glassline_codec::audio::opus::Decoder;
    let now = Time::from_millis(5000);
    let (mut tracks, left_out) = Tracks::new([format("PCMU", 8_000, 1)].iter(), now);
    assert_eq!(left_out, None);
    // Losses of 20, 40 and 80 ms.
    let lost = [20, 30, 31, 40, 41, 42, 43];
    for number in (0..60).filter(|number| !lost.contains(number)) {
        tracks.push(0, sound(1000 + number * 20), now);
    }
    let (found, seams) = units(&mut tracks);
    assert!(seams == 0 && found.iter().all(|unit| unit.codec == Codec::Opus));
    // Evenly, with the encoder's look-ahead of 2.5 ms taken off, but over the longest loss, which stays a gap.
    let times: Vec<i64> = found.iter().map(|unit| unit.pts.0).collect();
    let steps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps.iter().filter(|step| **step != 1800).copied().collect::<Vec<_>>(), [9000], "{steps:?}");
    let mut decoder = Decoder::new(1).unwrap();
    let mut loud = |unit: &AccessUnit| {
        let sound = decoder.decode(&unit.data, Time::ZERO).unwrap();
        // In the middle, where no neighbour fades in.
        sound.samples[300..700].iter().map(|sample| sample.abs()).fold(0.0, f32::max)
    };
    let levels: Vec<(i64, f32)> =
        found.iter().map(|unit| ((unit.pts.0 - times[0]) / 1800, loud(unit))).collect();
    for (number, level) in levels.into_iter().filter(|(number, _)| *number > 2) {
        assert_eq!(level < 0.05, lost.contains(&number.cast_unsigned()), "{number}: {level}");
    }
}

#[cfg(feature = "opus")]
#[test]
fn a_track_of_which_the_times_jump_all_the_time_opens_no_encoders() {
    let now = Time::from_millis(5000);
    let (mut tracks, _) = Tracks::new([format("PCMU", 8_000, 1)].iter(), now);
    for number in 0..200 {
        tracks.push(0, sound(if number % 2 == 0 { 60_000 } else { 1000 } + number * 20), now);
    }
    let (found, seams) = units(&mut tracks);
    // One that is opened for each jump would make a seam of each.
    assert!(seams == 0 && found.len() > 150, "{seams} {}", found.len());
}

#[cfg(feature = "opus")]
#[test]
fn a_track_of_which_the_times_go_back_goes_on() {
    let now = Time::from_millis(5000);
    let (mut tracks, _) = Tracks::new([format("PCMA", 8_000, 1)].iter(), now);
    for number in 0..10 {
        tracks.push(0, sound(60_000 + number * 20), now);
    }
    for number in 0..10 {
        tracks.push(0, sound(1000 + number * 20), now + std::time::Duration::from_secs(2));
    }
    let (found, _) = units(&mut tracks);
    assert!(found.len() >= 18, "{}", found.len());
}

#[test]
fn sound_that_transport_streams_carry_goes_on_as_it_is() {
    let now = Time::from_millis(5000);
    let (mut tracks, left_out) = Tracks::new([format("L16", 48_000, 2)].iter(), now);
    assert_eq!(left_out, None);
    for number in 0..10 {
        tracks.push(0, sound(1000 + number * 20), now);
    }
    let (found, _) = units(&mut tracks);
    assert!(found.len() == 10 && found.iter().all(|unit| unit.codec == Codec::S302m), "{}", found.len());
}
