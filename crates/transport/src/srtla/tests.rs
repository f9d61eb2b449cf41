use super::*;
use proptest::prelude::*;

fn at(millis: u64) -> Time {
    Time::from_millis(1000 + millis)
}

fn link(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 4000))
}

fn groups() -> Groups {
    Groups::new(200, [7; 32], at(0))
}

fn packet(kind: u16, id: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes(), id].concat()
}

fn answers(groups: &mut Groups) -> Vec<(SocketAddr, u16, Vec<u8>)> {
    let kind = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
    std::iter::from_fn(|| groups.poll_answer())
        .map(|(to, bytes)| (to, kind(&bytes), bytes[2..].to_vec()))
        .collect()
}

/// A group with so many links; its id.
fn register(groups: &mut Groups, links: u8, millis: u64) -> Vec<u8> {
    let question = packet(REG1, &[links; ID_BYTES]);
    groups.handle_datagram(at(millis), link(1), &question);
    let (to, kind, id) = answers(groups).pop().unwrap();
    assert_eq!((to, kind, &id[..128]), (link(1), REG2, &[links; 128][..]));
    for number in 1..=links {
        groups.handle_datagram(at(millis), link(number), &packet(REG2, &id));
        assert_eq!(answers(groups), [(link(number), REG3, vec![])]);
    }
    id
}

/// A data packet of SRT, or a control packet where `kind` says so.
fn srt(first: u32) -> Vec<u8> {
    let mut packet = first.to_be_bytes().to_vec();
    packet.resize(100, 0);
    packet
}

#[test]
fn packets_of_all_links_are_of_one_peer_and_acknowledged_to_each() {
    let mut groups = groups();
    register(&mut groups, 3, 0);
    for number in 0..30u32 {
        let from = link(1 + (number % 3) as u8);
        assert_eq!(
            groups.handle_datagram(at(10), from, &srt(number)),
            Handled::Packet(link(1), (number % 3) as u8)
        );
    }
    let answers = answers(&mut groups);
    assert_eq!(
        answers.iter().map(|(to, kind, _)| (*to, *kind)).collect::<Vec<_>>(),
        [1, 2, 3].map(|number| (link(number), ACK))
    );
    // The word of the type is whole, then come the numbers: 0, 3, 6 … by the first link.
    assert_eq!(answers[0].2.len(), 2 + 40);
    assert_eq!(answers[0].2[..14], [0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 6]);
    assert_eq!(
        groups.figures(link(1), at(20)).iter().map(|link| link.packets).collect::<Vec<_>>(),
        [10, 10, 10]
    );
}

#[test]
fn acknowledgements_go_by_all_links_and_reports_by_those_heard_last() {
    let mut groups = groups();
    register(&mut groups, 3, 0);
    for number in [3, 1, 2] {
        groups.handle_datagram(at(10), link(number), &srt(5));
    }
    let to = |first| groups.destinations(link(1), &srt(first)).collect::<Vec<_>>();
    assert_eq!(to(0x8002_0000), [link(2), link(1), link(3)]);
    assert_eq!(to(0x8003_0000), [link(2), link(1)]);
    assert_eq!(to(0x8000_0000), [link(2)]);
    assert_eq!(groups.destinations(link(9), &srt(0)).count(), 0);
}

#[test]
fn nothing_is_kept_of_one_that_has_not_shown_an_id_of_ours() {
    let mut groups = groups();
    for number in 0..5000u32 {
        let from = SocketAddr::from(([198, 51, (number >> 8) as u8, number as u8], 9));
        groups.handle_datagram(at(0), from, &packet(REG1, &[number as u8; ID_BYTES]));
        groups.handle_datagram(at(0), from, &srt(number));
    }
    assert_eq!((groups.count(), groups.of_links.len(), groups.answers.len()), (0, 0, ANSWERS_MAX));
    groups.answers.clear();
    groups.handle_datagram(at(0), link(1), &packet(REG2, &[5; ID_BYTES]));
    assert_eq!(answers(&mut groups), [(link(1), REG_NO_GROUP, vec![])]);
    assert_eq!(groups.handle_datagram(at(0), link(1), &packet(KEEP_ALIVE, &[])), Handled::Nothing);
    assert!(answers(&mut groups).is_empty());
}

#[test]
fn a_link_may_come_later_and_one_that_is_silent_is_forgotten() {
    let mut groups = groups();
    let id = register(&mut groups, 2, 0);
    groups.handle_datagram(at(8000), link(2), &packet(KEEP_ALIVE, &[1, 2]));
    assert_eq!(answers(&mut groups), [(link(2), KEEP_ALIVE, vec![1, 2])]);
    groups.handle_datagram(at(11_000), link(2), &srt(1));
    assert_eq!(
        groups.figures(link(1), at(11_000)).len(),
        1,
        "the first link is silent, and its address stays the peer's"
    );
    groups.handle_datagram(at(12_000), link(3), &packet(REG2, &id));
    assert_eq!(groups.handle_datagram(at(12_000), link(3), &srt(2)), Handled::Packet(link(1), 0));
    groups.handle_datagram(at(60_000), link(9), &srt(1));
    assert_eq!((groups.count(), groups.of_links.len(), groups.of_addresses.len()), (0, 0, 0));
}

#[test]
fn a_sender_that_begins_anew_has_a_new_group() {
    let mut groups = groups();
    let id = register(&mut groups, 2, 0);
    // Its addresses may be written by others: while it is heard, they stay with it.
    groups.handle_datagram(at(100), link(9), &packet(REG1, &[9; ID_BYTES]));
    let (.., other) = answers(&mut groups).pop().unwrap();
    for from in [link(1), link(2)] {
        groups.handle_datagram(at(100), from, &packet(REG2, &other));
        groups.handle_datagram(at(100), from, &packet(REG2, &[1; ID_BYTES]));
    }
    let kinds: Vec<u16> = answers(&mut groups).into_iter().map(|(_, kind, _)| kind).collect();
    assert_eq!(kinds, [REG_ERROR, REG_NO_GROUP, REG_ERROR, REG_NO_GROUP]);
    assert_eq!(groups.figures(link(1), at(100)).len(), 2);
    groups.handle_datagram(at(200), link(2), &packet(REG2, &id));
    assert_eq!(answers(&mut groups), [(link(2), REG3, vec![])]);
    register(&mut groups, 3, 6000);
    assert_eq!(groups.count(), 1);
    assert_eq!(groups.figures(link(1), at(6000)).len(), 3);
}

#[test]
fn a_group_that_carries_no_connection_is_forgotten() {
    let mut groups = groups();
    register(&mut groups, 2, 0);
    groups.keep(at(4000), |_| false);
    groups.keep(at(6000), |address| address == link(1));
    assert_eq!(groups.count(), 1);
    groups.keep(at(6000), |_| false);
    assert_eq!(groups.count(), 0);
}

#[test]
fn groups_and_links_have_bounds() {
    let mut groups = Groups::new(30, [7; 32], at(0));
    let mut register = |from: SocketAddr, mark: u8| {
        groups.handle_datagram(at(0), from, &packet(REG1, &[mark; ID_BYTES]));
        if let Some((_, REG2, id)) = answers(&mut groups).pop() {
            groups.handle_datagram(at(0), from, &packet(REG2, &id));
        }
        groups.count()
    };
    let one_address =
        (0..20).map(|number| register(SocketAddr::from(([192, 0, 2, 1], 9 + u16::from(number))), number));
    assert_eq!(one_address.last(), Some(GROUPS_OF_ADDRESS));
    let many = (0..100).map(|number| register(SocketAddr::from(([198, 51, 100, number], 9)), 100 + number));
    assert_eq!(many.last(), Some(30));
    let mut groups = self::groups();
    let id = self::register(&mut groups, 16, 0);
    groups.handle_datagram(at(0), link(17), &packet(REG2, &id));
    assert_eq!(answers(&mut groups), [(link(17), REG_ERROR, vec![])]);
}

proptest! {
    #[test]
    fn any_datagrams_keep_the_tables_whole(
        datagrams in proptest::collection::vec((1u8..6, 0u16..6, proptest::collection::vec(any::<u8>(), 0..300), 0u64..4000), 1..80),
    ) {
        let mut groups = groups();
        let id = register(&mut groups, 2, 0);
        let mut millis = 0;
        for (number, kind, body, wait) in datagrams {
            millis += wait;
            let kind = [KEEP_ALIVE, REG1, REG2, REG3, 0x8002, 0x0001][usize::from(kind)];
            let body = if kind == REG2 && body.len() % 2 == 0 { id.clone() } else { body };
            let question = packet(kind, &body);
            groups.handle_datagram(at(millis), link(number), &question);
            let bytes: usize = answers(&mut groups).iter().map(|(.., body)| body.len() + 2).sum();
            prop_assert!(bytes <= question.len().max(44), "{} for {}", bytes, question.len());
            let links: usize = groups.groups.values().map(|group| group.links.len()).sum();
            prop_assert_eq!(links, groups.of_links.len());
            prop_assert_eq!(groups.groups.len(), groups.of_addresses.len());
        }
    }
}
