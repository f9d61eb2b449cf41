//! Pgroups: over all formats, numbers of groups, alignments and contents.

use super::*;
use crate::picture::Chroma;

fn formats() -> impl Iterator<Item = PixelFormat> {
    let chromas = [Chroma::Mono, Chroma::Yuv420, Chroma::Yuv422, Chroma::Yuv444, Chroma::Rgb];
    chromas.into_iter().flat_map(|chroma| {
        [8, 10, 12, 16].into_iter().filter_map(move |depth_bits| PixelFormat::pgroups(chroma, depth_bits))
    })
}

/// Bytes of the four lines that `count` groups fill.
fn line_bytes(format: PixelFormat, count: usize) -> [usize; 4] {
    let luma = count * format.pgroup().unwrap().width as usize * format.to_planar().sample_bytes();
    match format.chroma {
        Chroma::Mono => [luma, 0, 0, 0],
        Chroma::Yuv420 => [luma, luma / 2, luma / 2, luma],
        Chroma::Yuv422 => [luma, luma / 2, luma / 2, 0],
        _ => [luma, luma, luma, 0],
    }
}

/// All four lines as a level leaves them, with `skip` bytes in front of them and some more behind.
fn unpacked(simd: Simd, format: PixelFormat, seed: u64, (count, skip): (usize, usize)) -> Vec<Vec<u8>> {
    let groups =
        bytes(seed, (seed >> 7) as u8, count * format.pgroup().unwrap().bytes + skip).split_off(skip);
    let lengths = line_bytes(format, count);
    let mut out: Vec<Vec<u8>> = lengths.iter().map(|length| vec![0xa5; skip + length + 70]).collect();
    let mut places = out.iter_mut().zip(lengths).map(|(line, length)| &mut line[skip..skip + length]);
    simd.unpack_pgroups(format, &groups, &mut std::array::from_fn(|_| places.next().unwrap()));
    out
}

/// The groups as a level packs them, with `skip` bytes in front of them and some more behind. Samples are anything that two bytes
/// can hold.
fn packed(simd: Simd, format: PixelFormat, seed: u64, (count, skip): (usize, usize)) -> Vec<u8> {
    let lines: Vec<Vec<u8>> = line_bytes(format, count)
        .iter()
        .zip(0u64..)
        .map(|(length, line)| {
            bytes(seed.wrapping_add(line * 7919), (seed >> 7) as u8, length + skip).split_off(skip)
        })
        .collect();
    let length = count * format.pgroup().unwrap().bytes;
    let mut out = vec![0xa5; skip + length + 70];
    simd.pack_pgroups(format, &std::array::from_fn(|line| &lines[line][..]), &mut out[skip..skip + length]);
    out
}

#[test]
fn every_level_packs_and_unpacks_alike() {
    let Some(simd) = Simd::avx2() else {
        glassline_test_support::skip("every_level_packs_and_unpacks_alike", "no AVX2 here");
        return;
    };
    for format in formats() {
        for count in (0..140).chain([360, 719, 960, 1921]) {
            for seed in [3, 128, 256, 384, 1 << 40] {
                let at = (count, count % 7);
                let told = || format!("{format:?} {at:?} {seed}");
                let expected = unpacked(Simd::PORTABLE, format, seed, at);
                assert_eq!(unpacked(simd, format, seed, at), expected, "{}", told());
                let expected = packed(Simd::PORTABLE, format, seed, at);
                assert_eq!(packed(simd, format, seed, at), expected, "{}", told());
            }
        }
    }
}

proptest! {
    #[test]
    fn every_level_packs_and_unpacks_the_same_bits(
        format in proptest::sample::select(formats().collect::<Vec<_>>()),
        seed: u64,
        at in (0usize..300, 0usize..40),
    ) {
        if let Some(simd) = Simd::avx2() {
            prop_assert_eq!(unpacked(simd, format, seed, at), unpacked(Simd::PORTABLE, format, seed, at));
            prop_assert_eq!(packed(simd, format, seed, at), packed(Simd::PORTABLE, format, seed, at));
        }
    }
}
