use super::*;

fn name(text: &str) -> StreamName {
    StreamName::parse(text).unwrap()
}

fn node(text: &str, incarnation: u64) -> NodeEntry {
    NodeEntry {
        run: Run { node: NodeName::parse(text).unwrap(), incarnation },
        address: format!("http://{text}:8080"),
        zone: "here".to_owned(),
        version: "1".to_owned(),
        viewers: 0,
        is_leaving: false,
        public: String::new(),
        is_draining: false,
    }
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// A node that hears the registry from 0 on, which had nothing.
fn heard() -> Ownership {
    let mut ownership = Ownership::new(Settings::default(), node("own", 1));
    ownership.handle_connection(true, at(0));
    ownership.handle_listed(at(0));
    ownership
}

fn outputs(ownership: &mut Ownership) -> Vec<Output> {
    std::iter::from_fn(|| ownership.poll_output())
        .filter(|output| !matches!(output, Output::Request { request: Request::Put { .. }, .. }))
        .collect()
}

fn see_node(ownership: &mut Ownership, entry: &NodeEntry, revision: u64, now: Time) {
    let key = Key::Node(entry.run.node.clone());
    ownership.handle_entry(&key, Some(&entry.write()), revision, now);
}

fn see_stream(ownership: &mut Ownership, stream: &str, entry: &StreamEntry, revision: u64, now: Time) {
    ownership.handle_entry(&Key::Stream(name(stream)), Some(&entry.write()), revision, now);
}

fn owned_by(entry: &NodeEntry, epoch: u64) -> StreamEntry {
    StreamEntry { owner: entry.run.clone(), claimed: Some(epoch), is_live: true }
}

/// The request to write, with its number.
fn claim(outputs: &[Output]) -> (u64, StreamEntry, u64) {
    match outputs {
        [Output::Request { id, request: Request::Set { value, revision, .. } }] => {
            (*id, StreamEntry::read(value).unwrap(), *revision)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_best_live_version_of_a_capture_is_found_by_the_names_of_streams() {
    let mut own = heard();
    let (there, gone) = (node("b", 2), node("c", 3));
    see_node(&mut own, &there, 1, at(100));
    let streams =
        ["hall-360p25", "hall-720p25", "hall-720p50", "hall-1080p50", "hall-wide", "hall", "hallway-2160p50"];
    for (revision, stream) in (10..).zip(streams) {
        let owner = if stream == "hall-1080p50" { &gone } else { &there };
        let entry = StreamEntry { is_live: stream != "hall-720p50", ..owned_by(owner, revision) };
        see_stream(&mut own, stream, &entry, revision, at(100));
    }
    // Its node has been heard for long enough to know that the owner of the best is not there.
    for renewal in 1..20 {
        for (revision, entry) in (20 + 2 * renewal..).zip([&there, &node("own", 1)]) {
            see_node(&mut own, entry, revision, at(100 + renewal * 200));
        }
    }
    let now = at(4_000);
    assert_eq!(own.best_version(&name("hall"), now), Some(&name("hall-720p25")));
    assert_eq!(own.best_version(&name("hallway"), now), Some(&name("hallway-2160p50")));
    for other in ["hal", "hall-720p25", "wide"] {
        assert_eq!(own.best_version(&name(other), now), None, "{other}");
    }
}

#[test]
fn a_name_that_is_free_is_claimed_and_given_back() {
    let mut own = heard();
    own.publish(&name("hall"), false, at(5));
    let (id, entry, revision) = claim(&outputs(&mut own));
    assert_eq!((entry.claimed, entry.is_live, revision), (None, true, 0));
    own.handle_answer(id, Answer::Written { revision: 9 }, at(6));
    assert_eq!(outputs(&mut own), [Output::Granted { name: name("hall"), epoch: 9 }]);
    assert_eq!(own.place(&name("hall"), at(7)), Place::Here { epoch: 9 });
    // The news of it come behind the answer.
    see_stream(&mut own, "hall", &entry, 9, at(8));
    assert_eq!(outputs(&mut own), []);
    own.release(&name("hall"), at(9));
    let (_, entry, revision) = claim(&outputs(&mut own));
    assert_eq!((entry.claimed, entry.is_live, revision), (Some(9), false, 9));
}

#[test]
fn a_name_whose_owner_is_heard_after_the_publisher_came_is_refused() {
    let (mut own, other) = (heard(), node("other", 7));
    see_node(&mut own, &other, 1, at(100));
    see_stream(&mut own, "hall", &owned_by(&other, 4), 2, at(100));
    own.publish(&name("hall"), false, at(200));
    outputs(&mut own);
    assert_eq!(own.owned(&name("hall")), None);
    see_node(&mut own, &other, 3, at(500));
    let why = Refusal::Taken(other.run.node.clone());
    assert_eq!(outputs(&mut own), [Output::Refused { name: name("hall"), why }]);
    // One that asks for it takes it over.
    own.publish(&name("hall"), true, at(600));
    let (id, entry, revision) = claim(&outputs(&mut own));
    assert_eq!((entry.is_live, revision), (true, 2));
    own.handle_answer(id, Answer::Written { revision: 4 }, at(601));
    assert_eq!(outputs(&mut own), [Output::Granted { name: name("hall"), epoch: 4 }]);
}

#[test]
fn a_name_is_free_when_its_owners_lease_has_ended_by_this_clock() {
    let (mut own, other) = (heard(), node("other", 7));
    see_node(&mut own, &other, 1, at(1000));
    see_stream(&mut own, "hall", &owned_by(&other, 4), 2, at(1000));
    see_node(&mut own, &node("own", 1), 3, at(1000));
    own.publish(&name("hall"), false, at(1200));
    outputs(&mut own);
    let lease = Settings::default().lease;
    let end = at(1000) + lease;
    see_node(&mut own, &node("own", 1), 4, at(1800));
    see_node(&mut own, &node("own", 1), 5, at(2300));
    own.handle_timeout(at(2499));
    assert_eq!(outputs(&mut own), []);
    assert!(own.is_alive(&other.run, at(2499)) && !own.is_alive(&other.run, end));
    own.handle_timeout(end);
    assert_eq!(claim(&outputs(&mut own)).2, 2);
}

#[test]
fn a_lease_is_not_judged_while_the_registry_is_not_heard() {
    let (mut own, other) = (heard(), node("other", 7));
    see_node(&mut own, &other, 1, at(100));
    see_stream(&mut own, "hall", &owned_by(&other, 4), 2, at(100));
    own.handle_connection(false, at(200));
    assert!(own.is_alive(&other.run, at(100_000)));
    let place = own.place(&name("hall"), at(100_000));
    assert!(matches!(place, Place::At { node: Some(_), epoch: 4, is_live: true, .. }), "{place:?}");
    // Heard again, the others have a lease's time to be heard.
    own.handle_connection(true, at(100_000));
    see_node(&mut own, &node("own", 1), 5, at(100_000));
    own.handle_listed(at(100_000));
    see_node(&mut own, &other, 6, at(100_000));
    see_node(&mut own, &node("own", 1), 7, at(100_800));
    see_node(&mut own, &node("own", 1), 8, at(101_400));
    assert!(own.is_alive(&other.run, at(101_499)) && !own.is_alive(&other.run, at(101_500)));
}

#[test]
fn a_later_claim_elsewhere_ends_the_publisher_here_and_older_news_do_not() {
    let (mut own, other) = (heard(), node("other", 7));
    own.publish(&name("hall"), false, at(5));
    let (id, mine, _) = claim(&outputs(&mut own));
    own.handle_answer(id, Answer::Written { revision: 9 }, at(6));
    outputs(&mut own);
    see_stream(&mut own, "hall", &owned_by(&other, 3), 8, at(7));
    assert_eq!((outputs(&mut own), own.owned(&name("hall"))), (vec![], Some(9)));
    see_stream(&mut own, "hall", &owned_by(&other, 12), 12, at(7));
    let lost = Output::Lost { name: name("hall"), owner: other.run.node.clone(), epoch: 12 };
    assert_eq!(outputs(&mut own), [lost]);
    see_stream(&mut own, "hall", &mine, 9, at(8));
    assert_eq!((outputs(&mut own), own.owned(&name("hall"))), (vec![], None));
}

#[test]
fn a_bucket_that_was_made_anew_is_filled_again_by_those_that_own() {
    let mut own = heard();
    own.publish(&name("hall"), false, at(5));
    let (id, ..) = claim(&outputs(&mut own));
    own.handle_answer(id, Answer::Written { revision: 900 }, at(6));
    outputs(&mut own);
    own.handle_connection(false, at(10));
    own.handle_connection(true, at(20));
    own.handle_listed(at(21));
    let asked = outputs(&mut own);
    let (_, entry, revision) = claim(&asked[1..]);
    assert_eq!((entry.is_live, revision), (true, 0));
    // Its revisions count from the beginning.
    let Output::Request { id, .. } = asked[1] else { panic!("{asked:?}") };
    own.handle_answer(id, Answer::Written { revision: 2 }, at(22));
    assert_eq!(outputs(&mut own), [Output::Granted { name: name("hall"), epoch: 2 }]);
}

#[test]
fn a_claim_of_which_it_is_not_known_what_came_is_looked_up() {
    let mut own = heard();
    own.publish(&name("hall"), false, at(5));
    let (id, mine, _) = claim(&outputs(&mut own));
    own.handle_timeout(own.poll_timeout().max(at(1005)));
    own.handle_timeout(at(1205));
    let asked = outputs(&mut own);
    let [Output::Request { id: look, request: Request::Get { .. } }] = asked[..] else { panic!("{asked:?}") };
    // An answer that comes too late is none.
    own.handle_answer(id, Answer::Written { revision: 9 }, at(1206));
    assert_eq!(outputs(&mut own), []);
    own.handle_answer(look, Answer::Found { value: mine.write(), revision: 9 }, at(1207));
    assert_eq!(outputs(&mut own), [Output::Granted { name: name("hall"), epoch: 9 }]);
    assert_eq!(own.counters().failed, 1 + 1, "the claim, and a renewal of the lease");
}

#[test]
fn a_claim_that_was_given_up_and_is_granted_is_given_back() {
    let mut own = heard();
    own.publish(&name("hall"), false, at(5));
    let (id, ..) = claim(&outputs(&mut own));
    own.release(&name("hall"), at(6));
    assert_eq!(outputs(&mut own), []);
    own.handle_answer(id, Answer::Written { revision: 9 }, at(7));
    let (_, entry, revision) = claim(&outputs(&mut own));
    assert_eq!((entry.is_live, revision), (false, 9));
}

#[test]
fn an_entry_of_a_later_version_is_neither_read_nor_written_over() {
    let mut own = heard();
    own.handle_entry(&Key::Stream(name("hall")), Some(br#"{"v":9}"#), 3, at(1));
    own.publish(&name("hall"), true, at(5));
    let why = Refusal::Entry(EntryError::Form(9));
    assert!(why.to_string().contains("bring all nodes to one version"));
    let told = outputs(&mut own);
    assert_eq!(told.last(), Some(&Output::Refused { name: name("hall"), why }));
}

#[test]
fn a_node_that_leaves_gives_its_streams_to_the_next_that_comes() {
    let (mut own, mut other) = (heard(), node("other", 7));
    see_node(&mut own, &other, 1, at(100));
    see_stream(&mut own, "hall", &owned_by(&other, 4), 2, at(100));
    other.is_leaving = true;
    see_node(&mut own, &other, 3, at(200));
    outputs(&mut own);
    own.publish(&name("hall"), false, at(250));
    assert_eq!(claim(&outputs(&mut own)).2, 2);
}

#[test]
fn a_node_that_does_not_see_its_own_lease_judges_no_other() {
    let (mut own, other) = (heard(), node("other", 7));
    see_node(&mut own, &node("own", 1), 1, at(100));
    see_node(&mut own, &other, 2, at(100));
    see_stream(&mut own, "hall", &owned_by(&other, 4), 3, at(100));
    outputs(&mut own);
    // It stood still, and what came meanwhile waits in its socket.
    assert_eq!(own.may_publish(&name("hall"), false, at(5000)), Ok(()), "it is not sure");
    own.publish(&name("hall"), false, at(5000));
    own.handle_timeout(at(5000));
    assert_eq!(outputs(&mut own), [], "the other's lease may have been renewed");
    assert!(own.poll_timeout() > at(5000), "nothing is due that could be done");
    see_node(&mut own, &node("own", 1), 20, at(5001));
    see_node(&mut own, &other, 21, at(5002));
    let why = Refusal::Taken(other.run.node.clone());
    assert!(outputs(&mut own).contains(&Output::Refused { name: name("hall"), why: why.clone() }));
    assert_eq!(own.may_publish(&name("hall"), false, at(5100)), Err(why));
    assert_eq!(own.may_publish(&name("hall"), true, at(5100)), Ok(()));
}

#[test]
fn a_list_that_takes_longer_than_a_lease_judges_no_node_that_stands_at_its_end() {
    let (mut own, other) = (Ownership::new(Settings::default(), node("own", 1)), node("other", 7));
    own.handle_connection(true, at(0));
    see_stream(&mut own, "hall", &owned_by(&other, 4), 2, at(100));
    own.publish(&name("hall"), false, at(150));
    outputs(&mut own);
    own.handle_timeout(at(1900));
    // Its own lease, too, was written behind the list.
    see_node(&mut own, &node("own", 1), 20_000, at(2000));
    own.handle_timeout(at(2000));
    assert!(own.is_alive(&other.run, at(2000)) && !own.was_listed());
    assert_eq!(outputs(&mut own), [], "the other's lease has not been listed yet");
    see_node(&mut own, &other, 20_001, at(2100));
    own.handle_listed(at(2100));
    assert!(own.was_listed());
    let why = Refusal::Taken(other.run.node.clone());
    assert_eq!(outputs(&mut own), [Output::Refused { name: name("hall"), why }]);
}

#[test]
fn a_node_that_stood_early_in_a_long_list_has_a_lease_to_be_heard_behind_it() {
    let (mut own, other) = (Ownership::new(Settings::default(), node("own", 1)), node("other", 7));
    own.handle_connection(true, at(0));
    see_node(&mut own, &other, 1, at(100));
    see_stream(&mut own, "hall", &owned_by(&other, 4), 2, at(100));
    see_node(&mut own, &node("own", 1), 20_000, at(2900));
    own.handle_listed(at(2950));
    outputs(&mut own);
    own.publish(&name("hall"), false, at(2960));
    own.handle_timeout(at(2990));
    assert_eq!(outputs(&mut own), [], "what it has renewed meanwhile comes now");
    see_node(&mut own, &other, 20_001, at(3000));
    let why = Refusal::Taken(other.run.node.clone());
    assert_eq!(outputs(&mut own), [Output::Refused { name: name("hall"), why }]);
}

#[test]
fn a_list_that_is_not_over_judges_nothing_though_this_node_sees_its_own_lease() {
    let (mut own, other) = (Ownership::new(Settings::default(), node("own", 1)), node("other", 7));
    own.handle_connection(true, at(0));
    see_stream(&mut own, "hall", &owned_by(&other, 4), 2, at(100));
    own.publish(&name("hall"), false, at(150));
    outputs(&mut own);
    for renewal in 1..10 {
        let now = at(renewal * 400);
        see_node(&mut own, &node("own", 1), renewal * 10, now);
        own.handle_timeout(now);
    }
    assert_eq!(outputs(&mut own), []);
    // The list is over, and has no such node.
    own.handle_listed(at(3700));
    assert_eq!(claim(&outputs(&mut own)).2, 2);
}

#[test]
fn a_stream_of_a_run_that_was_replaced_just_now_is_the_nodes_for_a_lease_more() {
    let (mut own, old, new) = (heard(), node("other", 7), node("other", 8));
    see_node(&mut own, &node("own", 1), 1, at(0));
    see_node(&mut own, &old, 2, at(0));
    see_stream(&mut own, "hall", &owned_by(&old, 4), 3, at(0));
    see_node(&mut own, &node("own", 1), 4, at(700));
    see_node(&mut own, &node("own", 1), 5, at(1400));
    see_node(&mut own, &node("own", 1), 6, at(2000));
    outputs(&mut own);
    // An upgrade: the new process says that it is there, and claims its streams one after the other.
    see_node(&mut own, &new, 7, at(2000));
    let taken = Refusal::Taken(old.run.node.clone());
    assert_eq!(own.may_publish(&name("hall"), false, at(2001)), Err(taken.clone()));
    assert!(matches!(own.place(&name("hall"), at(2001)), Place::At { node: None, is_live: true, .. }));
    own.publish(&name("hall"), false, at(2001));
    assert_eq!(outputs(&mut own), [], "it waits");
    see_stream(&mut own, "hall", &owned_by(&new, 8), 8, at(2010));
    see_node(&mut own, &new, 9, at(2400));
    assert_eq!(outputs(&mut own), [Output::Refused { name: name("hall"), why: taken }]);
    // What the new run has not claimed in a lease's time is free.
    see_stream(&mut own, "other", &owned_by(&old, 5), 10, at(2410));
    outputs(&mut own);
    own.publish(&name("other"), false, at(2420));
    see_node(&mut own, &node("own", 1), 11, at(3000));
    own.handle_timeout(at(3000));
    assert_eq!((outputs(&mut own), own.poll_timeout()), (vec![], at(3400)));
    see_node(&mut own, &new, 12, at(3400));
    own.handle_timeout(at(3499));
    assert_eq!((outputs(&mut own), own.poll_timeout()), (vec![], at(3500)));
    own.handle_timeout(at(3500));
    assert_eq!(claim(&outputs(&mut own)).2, 10);
    assert_eq!(own.may_publish(&name("other"), false, at(3500)), Ok(()));
}

#[test]
fn names_that_are_over_make_room_for_those_that_come() {
    let (mut own, other) = (heard(), node("other", 7));
    let over = StreamEntry { is_live: false, ..owned_by(&other, 1) };
    see_stream(&mut own, "live", &owned_by(&other, 1), 1, at(1));
    for number in 0..70_000_u64 {
        see_stream(&mut own, &format!("s{number}"), &over, number + 2, at(2));
    }
    assert_eq!(own.counters().dropped, 0);
    assert!(own.streams().count() <= 65_536);
    assert!(own.is_published(&name("live")), "what is live stays");
    assert!(own.streams().any(|(known, _)| known.as_str() == "s69999"), "the newest are known");
    own.publish(&name("mine"), false, at(5));
    let set = |output: &Output| match output {
        Output::Request { id, request: Request::Set { .. } } => Some(*id),
        _ => None,
    };
    let id = outputs(&mut own).iter().find_map(set).unwrap();
    own.handle_answer(id, Answer::Written { revision: 80_000 }, at(6));
    assert_eq!(own.owned(&name("mine")), Some(80_000));
}
