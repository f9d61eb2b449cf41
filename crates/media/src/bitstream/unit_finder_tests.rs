use super::*;
use crate::bitstream::av1::tests as av1;
use crate::bitstream::testing::{AUD, layout, pps, slice, sps, units};
use proptest::prelude::*;

fn cut(syntax: Syntax, stream: &[u8], chop: usize) -> Vec<Vec<u8>> {
    let (mut finder, mut held, mut found) = (UnitFinder::new(syntax), Vec::new(), Vec::new());
    for part in stream.chunks(chop) {
        held.extend_from_slice(part);
        while let Some(at) = finder.next(&held, false) {
            found.push(held.drain(..at).collect());
        }
    }
    while let Some(at) = finder.next(&held, true) {
        found.push(held.drain(..at).collect());
    }
    found.push(held);
    found
}

proptest! {
    #[test]
    fn pictures_are_units_however_they_are_chopped(layouts in prop::collection::vec(layout(), 1..12), chop in 1usize..80) {
        let expected = units(&layouts, false);
        prop_assert_eq!(cut(Syntax::H264, &expected.concat(), chop), expected);
    }

    #[test]
    fn the_two_fields_of_a_frame_are_one_unit(layouts in prop::collection::vec(layout(), 1..12), chop in 1usize..80) {
        let expected = units(&layouts, true);
        prop_assert_eq!(cut(Syntax::H264, &expected.concat(), chop), expected);
    }

    #[test]
    fn any_bytes_are_cut_into_themselves(
        stream in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x65), Just(9), any::<u8>()], 0..400),
        chop in 1usize..80,
        syntax in prop_oneof![Just(Syntax::H264), Just(Syntax::H265), Just(Syntax::Av1)],
    ) {
        prop_assert_eq!(cut(syntax, &stream, chop).concat(), stream.clone());
        prop_assert!(first_begin(syntax, &stream).is_none_or(|at| at < stream.len()));
    }

    #[test]
    fn temporal_units_of_av1_are_units(layouts in prop::collection::vec(av1::layout(), 1..12), chop in 1usize..80) {
        let expected: Vec<_> = layouts.iter().map(av1::laid_out).collect();
        prop_assert_eq!(cut(Syntax::Av1, &expected.concat(), chop), expected);
    }

    #[test]
    fn pictures_of_h265_are_units(
        layouts in prop::collection::vec((any::<bool>(), any::<bool>(), 1usize..4, any::<bool>()), 1..12), chop in 1usize..80,
    ) {
        let nal = |kind: u8, rest: &[u8]| [&[0, 0, 1, kind << 1, 1][..], rest].concat();
        let picture = |&(delimiter, key, slices, suffix): &(bool, bool, usize, bool)| {
            let mut unit = if delimiter { nal(35, &[0x50]) } else { Vec::new() };
            if key {
                unit.extend([nal(32, &[1, 7]), nal(33, &[2, 7]), nal(34, &[3, 7]), nal(39, &[4, 0x80])].concat());
            }
            for slice in 0..slices {
                unit.extend(nal(if key { 19 } else { 1 }, &[if slice == 0 { 0xa0 } else { 0x20 }, 9]));
            }
            if suffix {
                unit.extend(nal(40, &[5, 0x80]));
            }
            unit
        };
        let expected: Vec<_> = layouts.iter().map(picture).collect();
        prop_assert_eq!(cut(Syntax::H265, &expected.concat(), chop), expected);
    }
}

#[test]
fn a_picture_whose_first_slice_is_lost_is_a_unit_of_its_own() {
    let first = [sps(false), pps(), slice(0x65, 0, 0, None, &[7]), slice(0x65, 3, 0, None, &[7])].concat();
    let (second, third) = (slice(0x41, 3, 1, None, &[8]), slice(0x01, 3, 2, None, &[9]));
    let stream = [&first[..], &second, &third].concat();
    assert_eq!(cut(Syntax::H264, &stream, 7), [first, second, third]);
}

#[test]
fn a_prefix_before_each_slice_is_no_beginning() {
    let prefix = [0, 0, 1, 0x6e, 0x40, 1, 0x80];
    let [one, two] = [0, 3].map(|first_mb| [&prefix[..], &slice(0x65, first_mb, 0, None, &[7])].concat());
    let first = [sps(false), pps(), one, two].concat();
    let second = [&prefix[..], &slice(0x41, 0, 1, None, &[8])].concat();
    assert_eq!(cut(Syntax::H264, &[&first[..], &second].concat(), 7), [first, second]);
}

/// As rav1e wrote them for a while (its issue 954); samples of MP4 have none of them.
#[test]
fn a_delimiter_before_each_frame_of_av1_divides_no_unit() {
    let delimiter = (2, &[][..]);
    let unit = av1::unit(&[delimiter, (1, av1::PLAIN), (6, &[0x20, 7]), delimiter, (6, &[0x30, 7])]);
    assert_eq!(cut(Syntax::Av1, &[&unit[..], &unit].concat(), 5), [&unit[..], &unit]);
    let mut sample = Vec::new();
    crate::bitstream::av1::to_sample(&unit, &mut sample);
    let kinds: Vec<u8> = crate::bitstream::av1::obus(&sample).map(|obu| obu.header >> 3).collect();
    assert_eq!(kinds, [1, 6, 6]);
}

#[test]
fn one_finds_into_the_middle() {
    let rest = slice(0x41, 3, 1, None, &[8]);
    assert_eq!(first_begin(Syntax::H264, &rest), None);
    let picture = slice(0x41, 0, 2, None, &[8]);
    assert_eq!(first_begin(Syntax::H264, &[&rest[..], &picture].concat()), Some(rest.len()));
    assert_eq!(first_begin(Syntax::H264, &[&rest[..], AUD, &picture].concat()), Some(rest.len()));
}
