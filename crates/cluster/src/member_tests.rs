use super::*;
use glassline_delivery::ownership::{Key, StreamEntry};

fn member() -> Member {
    let settings = Settings {
        servers: Vec::new(),
        credentials: None,
        ca: None,
        bucket: "b".to_owned(),
        replicas: 1,
        node: NodeName::parse("a").unwrap(),
        address: "http://node:hush@h".to_owned(),
        public: String::new(),
        zone: String::new(),
        version: String::new(),
    };
    Member::new(&settings, 7, Clock::new())
}

fn name(text: &str) -> StreamName {
    StreamName::parse(text).unwrap()
}

/// The entry of a run of the node "b".
fn other(incarnation: u64) -> NodeEntry {
    NodeEntry {
        run: Run { node: NodeName::parse("b").unwrap(), incarnation },
        address: "http://node:hush@b:8080".to_owned(),
        public: String::new(),
        zone: "there".to_owned(),
        version: "1".to_owned(),
        viewers: 3,
        is_leaving: false,
        is_draining: false,
    }
}

fn see_node(member: &Member, entry: &NodeEntry, revision: u64, now: Time) {
    let key = Key::Node(entry.run.node.clone());
    member.ownership().handle_entry(&key, Some(&entry.write()), revision, now);
}

fn see_stream(member: &Member, stream: &str, entry: &StreamEntry, revision: u64, now: Time) {
    member.ownership().handle_entry(&Key::Stream(name(stream)), Some(&entry.write()), revision, now);
}

fn owned_by(entry: &NodeEntry) -> StreamEntry {
    StreamEntry { owner: entry.run.clone(), claimed: Some(1), is_live: true }
}

fn is_away(member: &Member, stream: &str) -> bool {
    matches!(member.find(&name(stream)), Whereabouts::Away { .. })
}

#[test]
fn another_server_of_the_same_name_is_told_of_until_it_has_not_been_heard_for_three_leases() {
    let member = member();
    let at = Time::from_millis;
    assert!(!member.has_twin(at(1000)) && member.note_twin(at(1000)) && !member.note_twin(at(1400)));
    assert!(member.has_twin(at(5899)) && !member.has_twin(at(5900)));
    assert!(member.note_twin(at(6000)), "it is told of again");
    assert_eq!(ownership::Settings::default().lease * 3, TWIN_LASTS);
}

#[test]
fn what_is_not_known_is_away_until_all_is_listed_and_not_for_ever() {
    let member = member();
    let now = member.clock.now();
    member.ownership().publish(&name("here"), false, now);
    member.ownership().publish(&name("hall-720p50"), false, now);
    assert!(is_away(&member, "x") && is_away(&member, "hallway"));
    for here in ["here", "hall", "hall-720p50"] {
        assert_eq!(member.find(&name(here)), Whereabouts::Unknown, "{here} has its publisher here");
    }
    member.ownership().handle_connection(true, now);
    // Its node is listed behind it.
    see_stream(&member, "x", &owned_by(&other(8)), 1, now);
    assert!(is_away(&member, "x") && is_away(&member, "y"));
    see_node(&member, &other(8), 2, now);
    assert!(matches!(member.find(&name("x")), Whereabouts::At { .. }) && is_away(&member, "y"));
    member.ownership().handle_listed(now);
    assert_eq!(member.find(&name("y")), Whereabouts::Unknown);
    // A connection that is lost later changes nothing of that.
    member.ownership().handle_connection(false, now);
    assert_eq!(member.find(&name("y")), Whereabouts::Unknown);

    // A registry that is not there says nothing.
    let mut alone = self::member();
    assert!(is_away(&alone, "x"));
    alone.begun_at = Time::ZERO;
    let ownership = alone.ownership();
    let found = |now| alone.unknown(&name("x"), &ownership, now);
    assert_ne!(found(Time::from_millis(9_999)), Whereabouts::Unknown);
    assert_eq!(found(Time::from_millis(10_000)), Whereabouts::Unknown);
}

#[test]
fn a_stream_of_a_server_that_is_upgraded_is_away_until_the_new_process_claims_it() {
    let member = member();
    let now = member.clock.now();
    member.ownership().handle_connection(true, now);
    see_node(&member, &other(8), 1, now);
    see_stream(&member, "x", &owned_by(&other(8)), 2, now);
    member.ownership().handle_listed(now);
    assert!(matches!(member.find(&name("x")), Whereabouts::At { .. }));
    see_node(&member, &other(9), 3, now);
    assert!(is_away(&member, "x"));
    assert!(member.may_publish(&name("x"), false).is_err());
    see_stream(&member, "x", &owned_by(&other(9)), 4, now);
    assert!(matches!(member.find(&name("x")), Whereabouts::At { .. }));
}

#[test]
fn all_streams_are_told_of_and_counted_in_several_turns() {
    let member = member();
    let now = member.clock.now();
    member.ownership().handle_connection(true, now);
    see_node(&member, &other(8), 1, now);
    let count = STREAMS_A_TURN as u64 * 3;
    for number in 0..count {
        let entry = StreamEntry { is_live: number % 3 == 0, ..owned_by(&other(8)) };
        see_stream(&member, &format!("s{number}"), &entry, number + 2, now);
    }
    let own = StreamEntry { owner: member.run.clone(), claimed: Some(5), is_live: true };
    see_stream(&member, "own", &own, count + 2, now);
    member.ownership().handle_entry(&Key::Stream(name("z")), Some(br#"{"v":9}"#), count + 3, now);
    let status = member.status();
    assert_eq!((status.streams.len() as u64, status.unread.len()), (count + 1, 1));
    assert!(status.streams.is_sorted_by(|a, b| a.name < b.name));
    assert_eq!(status.streams.iter().filter(|stream| stream.live).count() as u64, count / 3 + 1);
    assert!(status.nodes[0].alive && status.nodes[0].address == "http://b:8080/", "{:?}", status.nodes);
    let figures = member.figures();
    assert_eq!((figures.streams_here, figures.streams_elsewhere), (1, count / 3));
    assert_eq!((figures.nodes_alive, figures.entries_unread), (1, 1));
    assert_eq!(figures.registry, status.registry);
}

#[test]
fn what_is_shown_of_a_member_has_no_key() {
    let member = member();
    let now = member.clock.now();
    member.ownership().handle_connection(true, now);
    see_node(&member, &other(8), 1, now);
    let shown = format!("{member:?} {:?}", other(8));
    assert!(!shown.contains("hush") && shown.contains("incarnation"), "{shown}");
}
