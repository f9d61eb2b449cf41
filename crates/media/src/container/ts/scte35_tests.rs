use super::*;
use proptest::prelude::*;

/// Base64 of RFC 4648, as the samples stand in the standard.
fn section(base64: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = base64.bytes().filter_map(|letter| LETTERS.iter().position(|&own| own == letter));
    let mut bits = 0u32;
    let mut out = Vec::new();
    for (digit, count) in digits.zip(1..) {
        bits = bits << 6 | digit as u32;
        if count % 4 != 1 {
            out.push((bits >> (2 * (3 - (count + 3) % 4))) as u8);
        }
    }
    out
}

/// The section with a right checksum behind changed bytes.
fn sealed(mut section: Vec<u8>) -> Vec<u8> {
    let covered = section.len() - 4;
    section.truncate(covered);
    let length = (covered + 1) as u16;
    section[1] = section[1] & 0xf0 | (length >> 8) as u8;
    section[2] = length as u8;
    let crc = psi::crc(&section).to_be_bytes();
    section.extend_from_slice(&crc);
    section
}

/// 35 §14.1: time_signal, provider placement opportunity start.
const PLACEMENT_START: &str = "/DA0AAAAAAAA///wBQb+cr0AUAAeAhxDVUVJSAAAjn/PAAGlmbAICAAAAAAsoKGKNAIAmsnRfg==";
/// 35 §14.2: splice_insert.
const INSERT: &str = "/DAvAAAAAAAA///wFAVIAACPf+/+c2nALv4AUsz1AAAAAAAKAAhDVUVJAAABNWLbowo=";
/// 35 §14.3: time_signal, provider placement opportunity end.
const PLACEMENT_END: &str = "/DAvAAAAAAAA///wBQb+dGKQoAAZAhdDVUVJSAAAjn+fCAgAAAAALKChijUCAKnMZ1g=";
/// 35 §14.4: time_signal, program start and end.
const PROGRAM_START_END: &str =
    "/DBIAAAAAAAA///wBQb+ek2ItgAyAhdDVUVJSAAAGH+fCAgAAAAALMvDRBEAAAIXQ1VFSUgAABl/nwgIAAAAACyk26AQAACZcuND";

#[test]
fn the_samples_of_the_standard_are_read() {
    let start = SpliceInfo::parse(&section(PLACEMENT_START)).unwrap();
    assert_eq!((start.time(), start.tier, start.pts_adjustment), (Some(0x0_72bd_0050), 0xfff, 0));
    let [segmentation] = &start.segmentations().collect::<Vec<_>>()[..] else { panic!("{start:?}") };
    assert_eq!(
        (segmentation.event_id, segmentation.type_id, segmentation.segment),
        (0x4800_008e, 0x34, (2, 0))
    );
    assert_eq!(segmentation.duration, Some(0x01_a599b0));
    assert_eq!(segmentation.upid, (8, vec![0, 0, 0, 0, 0x2c, 0xa0, 0xa1, 0x8a]));
    assert_eq!(segmentation.direction(), Some(Direction::Out));
    assert_eq!(
        start.to_string(),
        "time_signal at PTS 21388.766 s; provider placement opportunity start (segmentation 1207959694), for \
         307.000 s, UPID 8 0x000000002ca0a18a"
    );

    let insert = SpliceInfo::parse(&section(INSERT)).unwrap();
    let duration = Some(BreakDuration { ticks: 0x0052_ccf5, auto_return: true });
    let expected = Insert {
        event_id: 0x4800_008f,
        cancelled: false,
        out_of_network: true,
        immediate: false,
        time: Some(0x0_7369_c02e),
        duration,
        program_id: 0,
        avail: (0, 0),
    };
    assert_eq!(insert.command, Command::Insert(expected));
    assert_eq!(insert.descriptors, [Descriptor::Avail { provider_avail_id: 0x135 }]);
    assert_eq!(
        insert.to_string(),
        "splice_insert 1207959695: out of the network at PTS 21514.559 s, for 60.293 s, returning by itself; avail 309"
    );

    let end = SpliceInfo::parse(&section(PLACEMENT_END)).unwrap();
    assert_eq!(
        (end.time(), end.segmentations().next().unwrap().direction()),
        (Some(0x0_7462_90a0), Some(Direction::In))
    );
    let programs = SpliceInfo::parse(&section(PROGRAM_START_END)).unwrap();
    assert_eq!(programs.segmentations().map(|one| one.type_id).collect::<Vec<_>>(), [0x11, 0x10]);
    assert!(programs.segmentations().all(|one| one.direction().is_none()));
}

/// Sections on which other readers were reported to fail.
#[test]
fn sections_that_others_stumbled_on_are_read() {
    // Comcast/scte35-js #26: a splice_insert behind the ten bytes of which a descriptor of another kind stands.
    let with_dtmf = section("/DAxAAAAAAAAAP/wFAUAAAD5f+//vbeKtH4AUmNiAAAAAAAMAQpDVUVJUJ8xMjEqiKYAKA==");
    let info = SpliceInfo::parse(&with_dtmf).unwrap();
    let Command::Insert(insert) = info.command else { panic!("{info:?}") };
    assert_eq!((insert.event_id, insert.duration.unwrap().ticks), (249, 0x0052_6362));
    assert_eq!((insert.time, insert.duration.unwrap().auto_return), (Some(0x1_bdb7_8ab4), false));
    assert_eq!(info.descriptors, [Descriptor::Other { tag: 1, identifier: CUEI }]);
    // Comcast/scte35-js #13.
    let info =
        SpliceInfo::parse(&section("/DAlAAAAAAAAAP/wFAUAAqbVf+/+AAAAAH4AUmXAAAAAAAAAdIQsGg==")).unwrap();
    assert_eq!(info.time(), Some(0));
    // futzu/threefive #79: adjustment and time, both of them needed; the length of the command is that of time_signal.
    let adjusted = b"\xfc0.\x00\x00\x00\x03(\x98\x00\xff\xf0\x05\x06\xfe\x00\x0b\xfeP\x00\x18\x02\x16CUEIdW\xe4\x91\x7f\xcb\x00\x00Re\xc0\x00\x004\x00\x00\x00\x00j[\xbc\x14";
    let info = SpliceInfo::parse(adjusted).unwrap();
    assert_eq!((info.pts_adjustment, info.time()), (207_000, Some(786_000 + 207_000)));
    assert_eq!(info.segmentations().next().unwrap().duration, Some(0x5265c0));
    // gpac/gpac #3890, Comcast/scte35-js #141: a command length of 0xfff says nothing.
    let mut unstated = section(INSERT);
    (unstated[11], unstated[12]) = (unstated[11] | 0x0f, 0xff);
    let info = SpliceInfo::parse(&sealed(unstated)).unwrap();
    assert_eq!(info, SpliceInfo::parse(&section(INSERT)).unwrap());
    // livesim2 #334, gots #42: the sum goes around at 33 bits.
    let mut wrapped = section(PLACEMENT_START);
    wrapped[4] |= 1;
    wrapped[5..9].fill(0xff);
    assert_eq!(SpliceInfo::parse(&sealed(wrapped)).unwrap().time(), Some(0x0_72bd_0050 - 1));
}

#[test]
fn what_is_wrong_or_hidden_is_told_as_that() {
    let right = section(INSERT);
    let mut flipped = right.clone();
    flipped[20] ^= 1;
    assert!(matches!(SpliceInfo::parse(&flipped), Err(Error::Crc { .. })));
    assert!(matches!(SpliceInfo::parse(&right[..right.len() - 1]), Err(Error::Truncated { .. })));
    let mut other = right.clone();
    other[0] = 2;
    assert!(matches!(SpliceInfo::parse(&other), Err(Error::Unexpected { .. })));
    let mut newer = right.clone();
    newer[3] = 1;
    assert!(matches!(SpliceInfo::parse(&sealed(newer)), Err(Error::Unexpected { .. })));
    let mut short = right.clone();
    short[12] = 3;
    assert!(matches!(SpliceInfo::parse(&sealed(short)), Err(Error::Truncated { .. })));
    let mut encrypted = right.clone();
    encrypted[4] |= 0x82;
    let info = SpliceInfo::parse(&sealed(encrypted)).unwrap();
    assert_eq!((info.time(), info.command), (None, Command::Encrypted { algorithm: 1 }));
    // A descriptor that is cut within leaves the command as it is.
    let mut cut = section(PLACEMENT_START);
    let at = cut.len() - 4 - 30 + 1;
    cut[at] = 9;
    cut.drain(at + 10..cut.len() - 4);
    cut[at - 2] = 11;
    let info = SpliceInfo::parse(&sealed(cut)).unwrap();
    assert_eq!(info.descriptors, [Descriptor::Other { tag: 2, identifier: CUEI }]);
}

#[test]
fn splices_at_once_of_components_and_by_the_wall_clock_are_read() {
    let whole = |command: &[u8], kind: u8| {
        let mut section = vec![0xfc, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xf0, command.len() as u8, kind];
        section.extend_from_slice(command);
        section.extend_from_slice(&[0, 0, 0, 0, 0, 0]);
        SpliceInfo::parse(&sealed(section)).unwrap()
    };
    let at_once = whole(&[0, 0, 0, 7, 0x7f, 0x5f, 0, 1, 2, 3], 5);
    assert_eq!(at_once.time(), None);
    assert_eq!(at_once.to_string(), "splice_insert 7: back into the network at once");
    let cancelled = whole(&[0, 0, 0, 7, 0xff], 5);
    assert_eq!(cancelled.to_string(), "splice_insert 7: cancelled");
    let components =
        whole(&[0, 0, 0, 7, 0x7f, 0x8f, 2, 9, 0xfe, 0, 0, 0, 5, 8, 0xfe, 0, 0, 0, 6, 0, 1, 2, 3], 5);
    assert_eq!(components.time(), Some(5));
    let scheduled =
        whole(&[1, 0, 0, 0, 7, 0x7f, 0xff, 0x40, 0, 0, 0, 0xfe, 0, 0x0d, 0xbb, 0xa0, 0, 0, 0, 0], 4);
    assert_eq!(
        scheduled.to_string(),
        "splice_schedule of 1; event 7: out of the network at GPS second 1073741824, for 10.000 s, returning by itself"
    );
    assert_eq!(whole(&[], 0).to_string(), "splice_null");
    assert_eq!(whole(b"ABCD", 0xff).to_string(), "private_command of ABCD");
}

proptest! {
    #[test]
    fn hostile_sections_do_no_harm(
        at in proptest::collection::vec((3usize..70, any::<u8>()), 0..12), which in 0usize..4, cut in 0usize..80,
    ) {
        let samples = [PLACEMENT_START, INSERT, PLACEMENT_END, PROGRAM_START_END];
        let mut bytes = section(samples[which]);
        for (at, value) in at {
            if at < bytes.len() {
                bytes[at] = value;
            }
        }
        if let Ok(info) = SpliceInfo::parse(&sealed(bytes.clone())) {
            prop_assert!(info.time().is_none_or(|time| time < TIME_WRAP));
            prop_assert!(!info.to_string().is_empty());
        }
        bytes.truncate(cut.max(8));
        let _ = SpliceInfo::parse(&bytes);
        let _ = SpliceInfo::parse(&sealed(bytes));
    }
}

proptest! {
    #[test]
    fn a_cue_is_moved_by_its_adjustment(distance in -Ticks::WRAP..Ticks::WRAP, again in -Ticks::WRAP..Ticks::WRAP) {
        for sample in [PLACEMENT_START, INSERT, PROGRAM_START_END] {
            let mut bytes = section(sample);
            let before = SpliceInfo::parse(&bytes).unwrap();
            let field = bytes[4..9].try_into().unwrap();
            let field = adjusted(adjusted(field, Ticks(distance)), Ticks(again));
            bytes[4..9].copy_from_slice(&field);
            let moved = SpliceInfo::parse(&sealed(bytes)).unwrap();
            let expected = Ticks(before.pts_adjustment as i64 + distance + again).wrapped();
            prop_assert_eq!(&moved, &SpliceInfo { pts_adjustment: expected, ..before });
        }
    }
}
