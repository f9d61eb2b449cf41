//! Pictures that are given when the source pauses, and what is told of those that are missing.

use super::*;
use crate::container::ts::Packet;

/// Pictures and how they follow, in order.
fn found(demuxer: &mut Demuxer) -> Vec<(Vec<u8>, Follows)> {
    let mut found = Vec::new();
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { follows, unit, .. } = event {
            found.push((unit.data.to_vec(), follows));
        }
    }
    found
}

/// Five pictures without a length or mark, a PES packet each.
fn open_pictures() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut stream = Stream::new(Codec::H264);
    let key = [sps(false), pps(), slice(0x65, 0, 0, None, &[9; 600])].concat();
    let others = (1..5).map(|number| slice(0x41, 0, number, None, &[7; 400]));
    let units: Vec<Vec<u8>> = std::iter::once(key).chain(others).collect();
    let packed = units.iter().zip(0..).map(|(unit, number)| {
        stream.push(&Pes { stamp: Some(number * 3600), bounded: false, payload: unit.clone() });
        std::mem::take(&mut stream.bytes)
    });
    (units.clone(), packed.collect())
}

#[test]
fn a_pause_gives_the_picture_that_has_begun_and_nothing_twice() {
    let (units, packed) = open_pictures();
    let mut demuxer = Demuxer::new();
    for (unit, packets) in units.iter().zip(&packed) {
        demuxer.push(packets);
        assert_eq!(found(&mut demuxer), []);
        assert_eq!(demuxer.begun_bytes(), unit.len());
        demuxer.pause();
        assert_eq!(found(&mut demuxer), [(unit.clone(), Follows::Directly)]);
        assert_eq!(demuxer.begun_bytes(), 0);
        demuxer.pause();
        assert_eq!(found(&mut demuxer), []);
    }
    assert_eq!(demuxer.counters().damaged_units, 0);
}

#[test]
fn what_follows_of_a_picture_behind_a_pause_is_its_rest() {
    let (units, packed) = open_pictures();
    let whole = packed.concat();
    for cut in (3..whole.len() / 188 - 1).map(|packet| packet * 188) {
        let mut demuxer = Demuxer::new();
        let mut all = Vec::new();
        demuxer.push(&whole[..cut]);
        all.extend(found(&mut demuxer));
        demuxer.pause();
        all.extend(found(&mut demuxer));
        demuxer.push(&whole[cut..]);
        demuxer.finish();
        all.extend(found(&mut demuxer));
        let joined: Vec<u8> = all.iter().flat_map(|(data, _)| data.clone()).collect();
        assert_eq!(joined, units.concat(), "{cut}");
        let rests = all.iter().filter(|(_, follows)| *follows == Follows::Rest).count();
        assert!(rests <= 1 && all.len() == units.len() + rests, "{cut}: {rests} of {}", all.len());
        assert!(all.iter().all(|(_, follows)| *follows != Follows::Gap), "{cut}");
        assert_eq!(demuxer.counters().damaged_units, 0, "{cut}");
    }
}

#[test]
fn a_long_rest_comes_before_its_end_shows() {
    let mut stream = Stream::new(Codec::H264);
    let key = [sps(false), pps(), slice(0x65, 0, 0, None, &[9; 100_000])].concat();
    stream.push(&Pes { stamp: Some(0), bounded: false, payload: key.clone() });
    let mut demuxer = Demuxer::new();
    demuxer.push(&stream.bytes[..30 * 188]);
    demuxer.pause();
    let begun = found(&mut demuxer);
    demuxer.push(&stream.bytes[30 * 188..]);
    let rests = found(&mut demuxer);
    assert!(begun.len() == 1 && rests.len() >= 4, "{}", rests.len());
    assert!(rests.iter().all(|(data, follows)| *follows == Follows::Rest && data.len() < 20_000));
    demuxer.finish();
    let all = [begun, rests, found(&mut demuxer)].concat();
    assert_eq!(all.iter().flat_map(|(data, _)| data.clone()).collect::<Vec<_>>(), key);
}

#[test]
fn a_picture_behind_lost_ones_or_a_seam_is_told() {
    let (units, packed) = open_pictures();
    let follows_of = |bytes: &[u8]| {
        let mut demuxer = Demuxer::new();
        demuxer.push(bytes);
        demuxer.finish();
        found(&mut demuxer)
            .into_iter()
            .map(|(data, follows)| (units.iter().position(|unit| *unit == data).unwrap(), follows))
            .collect::<Vec<_>>()
    };
    let (no, gap) = (Follows::Directly, Follows::Gap);
    assert_eq!(follows_of(&packed.concat()), [(0, no), (1, no), (2, no), (3, no), (4, no)]);
    // The last packet of the second one is lost, then all of it.
    let cut = &packed[1][..packed[1].len() - 188];
    assert_eq!(
        follows_of(&[&packed[0], cut, &packed[2], &packed[3], &packed[4]].concat()),
        [(0, no), (2, gap), (3, no), (4, no)]
    );
    assert_eq!(
        follows_of(&[&packed[0][..], &packed[2], &packed[3], &packed[4]].concat()).last(),
        Some(&(4, no))
    );
    let continuity = Packet::parse(packed[2].first_chunk().unwrap()).unwrap().continuity;
    for before in [continuity.wrapping_sub(1) & 15, continuity.wrapping_add(5) & 15] {
        let seam = discontinuity_packet(VIDEO_PID, before).to_vec();
        let told = follows_of(&[&packed[0][..], &packed[1], &seam, &packed[2], &packed[3]].concat());
        assert!(told.contains(&(2, gap)) && told.contains(&(3, no)), "{before}: {told:?}");
    }
}

/// The second picture has no stamp, and how far pictures lie apart is not known: it waits for that, and its rest would come first.
#[test]
fn a_rest_comes_behind_the_beginning_that_it_belongs_to() {
    let mut stream = Stream::new(Codec::H264);
    let key = [sps(false), pps(), slice(0x65, 0, 0, None, &[9; 600])].concat();
    let other = slice(0x41, 0, 1, None, &[7; 1200]);
    let mut packed = Vec::new();
    for (unit, stamp) in [(&key, Some(0)), (&other, None)] {
        stream.push(&Pes { stamp, bounded: false, payload: unit.clone() });
        packed.push(std::mem::take(&mut stream.bytes));
    }
    let mut demuxer = Demuxer::new();
    demuxer.push(&packed[0]);
    demuxer.push(&packed[1][..3 * 188]);
    demuxer.pause();
    demuxer.push(&packed[1][3 * 188..]);
    demuxer.pause();
    let given = found(&mut demuxer);
    let follows: Vec<_> = given.iter().map(|(_, follows)| *follows).collect();
    assert_eq!(follows, [Follows::Directly, Follows::Directly, Follows::Rest]);
    assert_eq!(given.into_iter().flat_map(|(data, _)| data).collect::<Vec<_>>(), [key, other].concat());
}

#[test]
fn a_picture_that_loses_packets_behind_a_pause_is_counted() {
    let mut stream = Stream::new(Codec::H264);
    let key = [sps(false), pps(), slice(0x65, 0, 0, None, &[9; 2000])].concat();
    stream.push(&Pes { stamp: Some(0), bounded: false, payload: key });
    let mut demuxer = Demuxer::new();
    demuxer.push(&stream.bytes[..5 * 188]);
    assert!(!demuxer.is_behind_pause());
    demuxer.pause();
    assert!(demuxer.is_behind_pause());
    demuxer.push(&stream.bytes[6 * 188..]);
    assert_eq!((demuxer.counters().damaged_units, demuxer.is_behind_pause()), (1, false));
}

proptest! {
    /// Pauses anywhere in any bytes harm nothing, and give no byte twice.
    #[test]
    fn pauses_give_each_byte_once_at_most(
        cuts in proptest::collection::vec(1usize..700, 1..30),
        damage in proptest::collection::vec((0usize..4000, any::<u8>()), 0..4),
    ) {
        let mut bytes = open_pictures().1.concat();
        let length = bytes.len();
        for (at, byte) in damage {
            bytes[at % length] = byte;
        }
        let (mut demuxer, mut given, mut rest) = (Demuxer::new(), 0, &bytes[..]);
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            rest = behind;
            demuxer.push(piece);
            demuxer.pause();
            given += found(&mut demuxer).iter().map(|(data, _)| data.len()).sum::<usize>();
        }
        demuxer.finish();
        given += found(&mut demuxer).iter().map(|(data, _)| data.len()).sum::<usize>();
        // A key frame that lacks its parameter sets gets them again.
        prop_assert!(given <= bytes.len() + 5 * 64);
    }
}
