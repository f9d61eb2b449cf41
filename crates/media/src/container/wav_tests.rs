use super::*;
use proptest::prelude::*;

/// A file of samples that count up, behind a chunk of odd length that means nothing.
pub(super) fn file(
    format: SampleFormat,
    channels: u8,
    rate_hz: u32,
    frames: usize,
    extensible: bool,
) -> Vec<u8> {
    let tag = if matches!(format, SampleFormat::F32 | SampleFormat::F64) { TAG_FLOAT } else { TAG_INTEGER };
    let frame_bytes = format.bytes() * usize::from(channels);
    let mut form = if extensible { TAG_EXTENSIBLE } else { tag }.to_le_bytes().to_vec();
    form.extend(u16::from(channels).to_le_bytes());
    form.extend(rate_hz.to_le_bytes());
    form.extend((rate_hz * frame_bytes as u32).to_le_bytes());
    form.extend((frame_bytes as u16).to_le_bytes());
    form.extend((format.bytes() as u16 * 8).to_le_bytes());
    if extensible {
        form.extend([22, 0, 0, 0, 0, 0, 0, 0]);
        form.extend(tag.to_le_bytes());
        form.extend(GUID_TAIL);
    }
    let mut data = Vec::new();
    for number in 0..frames * usize::from(channels) {
        let value = value(number);
        match format {
            SampleFormat::S16 => data.extend(((value * 32_768.0) as i16).to_le_bytes()),
            SampleFormat::S24 => data.extend(&((value * 8_388_608.0) as i32).to_le_bytes()[..3]),
            SampleFormat::S32 => data.extend(((f64::from(value) * 2_147_483_648.0) as i32).to_le_bytes()),
            SampleFormat::F32 => data.extend(value.to_le_bytes()),
            SampleFormat::F64 => data.extend(f64::from(value).to_le_bytes()),
        }
    }
    let mut out = b"RIFF\0\0\0\0WAVE".to_vec();
    for (name, body) in [(b"fmt ", &form), (b"LIST", &b"odd".to_vec()), (b"data", &data)] {
        out.extend(name);
        out.extend((body.len() as u32).to_le_bytes());
        out.extend(body);
        out.resize(out.len().next_multiple_of(2), 0);
    }
    out
}

/// Exact in 16 bits.
fn value(number: usize) -> f32 {
    (number * 37 % 60_000) as f32 / 32_768.0 - 0.9
}

fn rounded(number: usize) -> f32 {
    ((value(number) * 32_768.0) as i16) as f32 / 32_768.0
}

fn read(bytes: &[u8], piece: usize) -> Result<(Option<Header>, Vec<AudioBlock>), WavError> {
    let (mut reader, mut blocks) = (Reader::new(), Vec::new());
    for mut bytes in bytes.chunks(piece.max(1)) {
        while let Some(block) = reader.parse(&mut bytes)? {
            blocks.push(block);
        }
        assert!(bytes.is_empty(), "all is taken");
    }
    reader.finish()?;
    Ok((reader.header().copied(), blocks))
}

#[test]
fn every_coding_is_read_plain_and_extensible() {
    for format in SampleFormat::ALL {
        for extensible in [false, true] {
            let bytes = file(format, 3, 44_100, 11_000, extensible);
            let (header, blocks) = read(&bytes, usize::MAX).unwrap();
            let expected = Header { format, channels: 3, rate_hz: 44_100, frames: Some(11_000) };
            assert_eq!(header, Some(expected));
            assert_eq!(blocks[2].captured, Time::from_nanos(9_600_000_000_000 / 44_100));
            assert!(blocks.iter().all(|block| block.channels == 3 && block.frames() <= MAX_BLOCK_FRAMES));
            let samples: Vec<f32> = blocks.into_iter().flat_map(|block| block.samples).collect();
            assert_eq!(samples.len(), 33_000);
            for (number, sample) in samples.iter().enumerate() {
                assert!((sample - rounded(number)).abs() < 1.0 / 32_000.0, "{format:?} {number}: {sample}");
            }
        }
    }
}

#[test]
fn a_length_that_nobody_knew_means_until_the_end() {
    let mut bytes = file(SampleFormat::S16, 2, 48_000, 100, false);
    let at = bytes.windows(4).position(|four| four == b"data").unwrap() + 4;
    // As FFmpeg, SoX, arecord and others write it into a pipe.
    for length in [0, UNKNOWN_LENGTH, 0x7fff_f000, 0x8000_0000, 0x7fff_ffdb, 0xffff_ffdb] {
        bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        let (header, blocks) = read(&bytes, 33).unwrap();
        assert_eq!(header.unwrap().frames, None);
        assert_eq!(blocks.iter().map(AudioBlock::frames).sum::<usize>(), 100);
    }
    // RF64 tells the length elsewhere; bytes behind it are none of the sound.
    let mut long = b"RF64\xff\xff\xff\xffWAVEds64".to_vec();
    long.extend(28u32.to_le_bytes());
    long.extend([0; 8]);
    long.extend(40u64.to_le_bytes());
    long.extend([0; 12]);
    long.extend(&bytes[12..]);
    for name in [b"RF64", b"BW64"] {
        long[..4].copy_from_slice(name);
        let (header, blocks) = read(&long, 7).unwrap();
        assert_eq!(header.unwrap().frames, Some(10));
        assert_eq!(blocks.iter().map(AudioBlock::frames).sum::<usize>(), 10);
    }
}

#[test]
fn bytes_behind_samples_that_end_in_the_first_are_taken() {
    let mut bytes = file(SampleFormat::S24, 2, 48_000, 20, true);
    let at = bytes.windows(4).position(|four| four == b"data").unwrap() + 4;
    bytes[at..at + 4].copy_from_slice(&5u32.to_le_bytes());
    for piece in [1, 7, usize::MAX] {
        let (header, blocks) = read(&bytes, piece).unwrap();
        assert_eq!((header.unwrap().frames, blocks), (Some(0), Vec::new()));
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    let good = file(SampleFormat::S16, 2, 48_000, 10, true);
    let with = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        read(&bytes, usize::MAX).unwrap_err()
    };
    assert!(matches!(with(0, b"OggS"), WavError::Magic { .. }));
    assert_eq!(with(16, &8u32.to_le_bytes()), WavError::FormatLength { found: 8, expected: 16 });
    assert_eq!(with(16, &18u32.to_le_bytes()), WavError::FormatLength { found: 18, expected: 40 });
    assert_eq!(with(44, &[6, 0]), WavError::Coding { tag: 6, bits: 16 });
    assert_eq!(with(46, &[1]), WavError::Coding { tag: 0xfffe, bits: 16 });
    assert_eq!(with(34, &[8]), WavError::Coding { tag: 1, bits: 8 });
    assert_eq!(with(32, &[5]), WavError::Coding { tag: 1, bits: 16 });
    assert_eq!(with(22, &[0, 1]), WavError::Channels { found: 256 });
    assert_eq!(with(24, &[1, 0, 0, 0]), WavError::Rate { found: 1 });
    assert_eq!(with(12, b"fmx "), WavError::NoFormat);
    assert_eq!(read(&good[..60], 9).unwrap_err(), WavError::NoData);
    let words = WavError::Rate { found: 1 }.to_string();
    assert!(words.contains("8000 to 192000"), "{words}");
}

proptest! {
    #[test]
    fn any_chop_gives_the_same(piece in 1usize..200, channels in 1u8..=8, frames in 0usize..400, format in 0usize..5) {
        let bytes = file(SampleFormat::ALL[format], channels, 48_000, frames, format % 2 == 0);
        let all = |piece| -> Vec<f32> {
            read(&bytes, piece).unwrap().1.into_iter().flat_map(|block| block.samples).collect()
        };
        let whole = all(usize::MAX);
        prop_assert_eq!(whole.len(), frames * usize::from(channels));
        prop_assert!(all(piece) == whole);
    }

    #[test]
    fn damaged_files_end(at in prop::collection::vec((0usize..200, any::<u8>()), 0..6), piece in 1usize..300) {
        let mut bytes = file(SampleFormat::S24, 2, 48_000, 20, true);
        for (at, value) in at {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        if let Ok((_, blocks)) = read(&bytes, piece) {
            let samples: usize = blocks.iter().map(|block| block.samples.len()).sum();
            prop_assert!(samples <= bytes.len());
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    for (bytes, frames) in [(Some(16), Some(4)), (None, None)] {
        let mut file = head(48_000, 2, bytes).to_vec();
        write_samples(&[0.5, -0.5, 1.5, -2.0, 0.0, 0.25, 0.0, 0.0], &mut file);
        let mut reader = Reader::new();
        let mut rest = &file[..];
        let mut samples = Vec::new();
        while let Some(block) = reader.parse(&mut rest).unwrap() {
            samples.extend(block.samples);
        }
        let header = Header { format: SampleFormat::S16, channels: 2, rate_hz: 48_000, frames };
        assert_eq!(reader.header(), Some(&header));
        let near = |(a, b): (&f32, f32)| (a - b).abs() < 1e-3;
        assert!(samples.iter().zip([0.5, -0.5, 1.0, -1.0, 0.0, 0.25]).all(near), "{samples:?}");
    }
}
