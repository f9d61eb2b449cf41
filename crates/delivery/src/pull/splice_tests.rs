use super::*;
use proptest::prelude::*;

/// Picture number `number` in so many packets, and a table in front of each tenth; each packet is another.
fn picture(number: u64, packets: u64) -> Vec<u8> {
    let mut bytes = if number.is_multiple_of(10) { table(number) } else { Vec::new() };
    for part in 0..packets {
        let mut packet = [0x55; PACKET];
        packet[..4].copy_from_slice(&[0x47, if part == 0 { 0x41 } else { 0x01 }, 0x00, 0x10]);
        packet[4..8].copy_from_slice(&[0, 0, 1, 0xE0]);
        packet[8..16].copy_from_slice(&(number << 16 | part).to_le_bytes());
        bytes.extend_from_slice(&packet);
    }
    bytes
}

fn table(counter: u64) -> Vec<u8> {
    let mut packet = vec![0xFF; PACKET];
    packet[..5].copy_from_slice(&[0x47, 0x40, 0, 0x10 | (counter % 16) as u8, 0]);
    packet
}

fn pictures(range: std::ops::Range<u64>) -> Vec<u8> {
    range.flat_map(|number| picture(number, 1 + number % 7)).collect()
}

/// What comes out: the bytes between two that are anew.
fn passed(splice: &mut Splice, bytes: &[u8], chop: usize) -> Vec<Vec<u8>> {
    let mut out = vec![Vec::new()];
    for piece in bytes.chunks(chop.max(1)) {
        splice.push(piece, &mut |piece| match piece {
            Piece::Data(data) => out.last_mut().unwrap().extend_from_slice(data),
            Piece::Anew => out.push(Vec::new()),
        });
    }
    out
}

proptest! {
    /// Whatever was sent before an end at any byte, and from whichever picture the other server begins: what comes is the stream without a
    /// gap or a repetition, and where that cannot be it is anew.
    #[test]
    fn a_stream_goes_on_at_the_byte_at_which_it_ended(
        end in 1_usize..20_000,
        from in 0_u64..60,
        chops in (1_usize..2000, 1_usize..2000),
    ) {
        let whole = pictures(0..60);
        let end = end.min(whole.len());
        let mut splice = Splice::default();
        splice.begin();
        let first = passed(&mut splice, &whole[..end], chops.0);
        prop_assert_eq!(&first, &vec![whole[..end].to_vec()]);
        splice.begin();
        let start = pictures(0..from).len();
        let mut joined = table(3);
        joined.extend(table(4));
        joined.extend_from_slice(&whole[start..]);
        let second = passed(&mut splice, &joined, chops.1);
        let first_packet = start + if from.is_multiple_of(10) { PACKET } else { 0 };
        if first_packet + PACKET <= end {
            prop_assert_eq!(second, vec![whole[end..].to_vec()]);
        } else if start < whole.len() {
            prop_assert_eq!(second, vec![Vec::new(), joined]);
        }
    }

    #[test]
    fn nothing_of_what_comes_is_lost_whatever_it_is(
        connections in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 1..4),
        chop in 1_usize..300,
    ) {
        let mut splice = Splice::default();
        for bytes in &connections {
            splice.begin();
            let out: usize = passed(&mut splice, bytes, chop).iter().map(Vec::len).sum();
            prop_assert!(out <= bytes.len() && splice.input.len() < PACKET && splice.tail.len() < PACKET);
        }
    }
}

#[test]
fn another_stream_is_anew_from_its_first_byte_and_so_is_one_that_departs_from_what_is_known() {
    let mut splice = Splice::default();
    passed(&mut splice, &pictures(0..20), 1000);
    splice.begin();
    let other = pictures(100..110);
    assert_eq!(passed(&mut splice, &other, 1000), [vec![], other.clone()]);
    splice.begin();
    let mut departs = pictures(105..108);
    let rest = pictures(300..310);
    departs.extend_from_slice(&rest);
    // Its key frame may be among what is known.
    assert_eq!(passed(&mut splice, &departs, 1000), [vec![], departs]);
    // It goes on as any other.
    splice.begin();
    let mut again = rest.clone();
    again.extend(pictures(310..320));
    assert_eq!(passed(&mut splice, &again, 1000), [pictures(310..320)]);
}

#[test]
fn what_is_kept_has_a_bound() {
    let mut splice = Splice::default();
    let many: Vec<u8> = (0..40_000).flat_map(|number| picture(number * 10 + 1, 1)).collect();
    passed(&mut splice, &many, 100_000);
    assert_eq!(splice.known.len(), PACKETS_MAX);
    // The oldest are not known any more.
    splice.begin();
    assert_eq!(passed(&mut splice, &many[..PACKET], 1000).len(), 2);
    splice.begin();
    let tables: Vec<u8> = (0..1000).flat_map(table).collect();
    let out = passed(&mut splice, &tables, 1000);
    assert_eq!(out[1].len(), tables.len(), "nothing begins: it is no stream that could be continued");
}

#[test]
fn what_is_known_again_is_kept_up_to_a_bound_for_a_stream_that_departs_from_it() {
    let known = pictures(0..4_000);
    assert!(known.len() > MATCHED_MAX_BYTES + PACKET);
    let mut splice = Splice::default();
    passed(&mut splice, &known, 100_000);
    splice.begin();
    let rest = pictures(9_000..9_003);
    let out = passed(&mut splice, &[&known[..], &rest].concat(), 100_000);
    assert_eq!(out.concat(), rest, "it continues what was before");
    splice.begin();
    let departs = [&known[..known.len() - 100 * PACKET], &rest].concat();
    let out = passed(&mut splice, &departs, 100_000);
    // The table in front of the first picture, and what departs.
    assert_eq!(out, [vec![], [table(0), rest].concat()]);
    assert!(splice.known.len() < 200);
}
