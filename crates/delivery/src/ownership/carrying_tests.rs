use super::*;

fn name(text: &str) -> StreamName {
    StreamName::parse(text).unwrap()
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn node(text: &str, zone: &str, viewers: u64) -> NodeEntry {
    NodeEntry {
        run: Run { node: NodeName::parse(text).unwrap(), incarnation: 7 },
        address: format!("http://{text}:8080"),
        zone: zone.to_owned(),
        version: "1".to_owned(),
        viewers,
        is_leaving: false,
        public: String::new(),
        is_draining: false,
    }
}

fn see_node(ownership: &mut Ownership, entry: &NodeEntry, revision: u64, now: Time) {
    let key = Key::Node(entry.run.node.clone());
    ownership.handle_entry(&key, Some(&entry.write()), revision, now);
}

fn carriage(entry: &NodeEntry, epoch: u64, hops: u8) -> CarriageEntry {
    let streams = [(name("hall"), Carried { epoch, hops })].into();
    CarriageEntry { run: entry.run.clone(), streams }
}

fn see_carriage(ownership: &mut Ownership, entry: &CarriageEntry, revision: u64) {
    ownership.handle_entry(&Key::Carries(entry.run.node.clone()), Some(&entry.write()), revision, at(2));
}

fn see_owned(ownership: &mut Ownership, revision: u64, now: Time) {
    let entry = StreamEntry { owner: node("owner", "far", 0).run, claimed: Some(4), is_live: true };
    ownership.handle_entry(&Key::Stream(name("hall")), Some(&entry.write()), revision, now);
}

/// A node of the zone `near` that knows an owner of `hall` in the zone `far`, and has heard all that there is.
fn heard() -> Ownership {
    let mut own = Ownership::new(Settings::default(), node("own", "near", 0));
    own.handle_connection(true, at(0));
    see_node(&mut own, &node("owner", "far", 0), 1, at(1));
    see_node(&mut own, &node("own", "near", 0), 1, at(1));
    see_owned(&mut own, 2, at(1));
    own.handle_listed(at(2));
    requests(&mut own);
    own
}

/// What is written and removed under `carries`.
fn requests(ownership: &mut Ownership) -> Vec<(u64, Option<CarriageEntry>)> {
    let of = |output| match output {
        Output::Request { id, request: Request::Put { key: Key::Carries(_), value } } => {
            Some((id, Some(CarriageEntry::read(&value).unwrap())))
        }
        Output::Request { id, request: Request::Remove { key: Key::Carries(_) } } => Some((id, None)),
        _ => None,
    };
    std::iter::from_fn(|| ownership.poll_output()).filter_map(of).collect()
}

fn asked(ownership: &Ownership, level: Level, now: Time) -> Vec<(String, u8)> {
    let holders = ownership.holders(&name("hall"), level, None, now);
    holders.into_iter().map(|holder| (holder.node.to_string(), holder.hops)).collect()
}

fn told(nodes: &[(&str, u8)]) -> Vec<(String, u8)> {
    nodes.iter().map(|(node, hops)| ((*node).to_owned(), *hops)).collect()
}

#[test]
fn a_stream_is_pulled_from_a_live_carrier_of_the_same_epoch_and_run_before_an_owner_in_another_zone() {
    let mut own = heard();
    assert_eq!(asked(&own, Level::NONE, at(3)), told(&[("owner", 0)]));
    let carrier = node("carrier", "near", 0);
    see_carriage(&mut own, &carriage(&carrier, 4, 1), 3);
    assert_eq!(asked(&own, Level::NONE, at(3)), told(&[("owner", 0)]), "the node was never heard");
    see_node(&mut own, &carrier, 4, at(100));
    assert_eq!(asked(&own, Level::NONE, at(100)), told(&[("carrier", 1), ("owner", 0)]));
    assert_eq!(asked(&own, Level::of(1), at(100)), told(&[("owner", 0)]), "it is as far away as this node");
    see_carriage(&mut own, &carriage(&carrier, 3, 1), 5);
    assert_eq!(asked(&own, Level::NONE, at(100)), told(&[("owner", 0)]), "it has an earlier owner's");
    see_carriage(&mut own, &carriage(&carrier, 4, 3), 6);
    assert_eq!(asked(&own, Level::NONE, at(100)), told(&[("owner", 0)]), "the tree would be too deep");
    let mut other_run = carriage(&carrier, 4, 1);
    other_run.run.incarnation = 8;
    see_carriage(&mut own, &other_run, 7);
    assert_eq!(asked(&own, Level::NONE, at(100)), told(&[("owner", 0)]), "another run has begun since");
    see_carriage(&mut own, &carriage(&carrier, 4, 2), 8);
    assert_eq!(asked(&own, Level::NONE, at(100)), told(&[("carrier", 2), ("owner", 0)]));
    // Its lease ends, by this node's clock; the owner's goes on. This node has seen its own all the time.
    see_node(&mut own, &node("own", "near", 0), 9, at(800));
    see_node(&mut own, &node("owner", "far", 0), 9, at(1400));
    see_node(&mut own, &node("own", "near", 0), 10, at(1590));
    assert_eq!(asked(&own, Level::NONE, at(1599)).len(), 2);
    assert_eq!(asked(&own, Level::NONE, at(1600)), told(&[("owner", 0)]));
    assert_eq!(own.holders(&name("other"), Level::NONE, None, at(3)), []);
}

#[test]
fn an_entry_that_is_not_read_is_counted_and_takes_the_place_of_what_was_read_before() {
    let mut own = heard();
    let carrier = node("carrier", "near", 0);
    see_node(&mut own, &carrier, 3, at(100));
    see_carriage(&mut own, &carriage(&carrier, 4, 1), 4);
    let key = Key::Carries(carrier.run.node.clone());
    own.handle_entry(&key, Some(br#"{"v":2}"#), 5, at(100));
    assert_eq!((own.counters().dropped, asked(&own, Level::NONE, at(100)).len()), (1, 1));
    // One under the name of another node says nothing of either.
    let strange = carriage(&node("stranger", "near", 0), 4, 1);
    own.handle_entry(&key, Some(&strange.write()), 6, at(100));
    assert_eq!((own.counters().dropped, asked(&own, Level::NONE, at(100)).len()), (2, 1));
    see_carriage(&mut own, &carriage(&carrier, 4, 1), 7);
    assert_eq!(asked(&own, Level::NONE, at(100)).len(), 2);
    own.handle_entry(&key, None, 8, at(100));
    assert_eq!((own.counters().dropped, asked(&own, Level::NONE, at(100)).len()), (2, 1));
    // A removal that comes behind later news is passed over.
    see_carriage(&mut own, &carriage(&carrier, 4, 1), 10);
    own.handle_entry(&key, None, 9, at(100));
    assert_eq!(asked(&own, Level::NONE, at(100)).len(), 2);
    // What the bucket does not have any more when it is heard again is not there.
    own.handle_connection(false, at(200));
    own.handle_connection(true, at(300));
    see_node(&mut own, &node("owner", "far", 0), 1, at(301));
    see_node(&mut own, &carrier, 2, at(301));
    see_owned(&mut own, 3, at(301));
    assert_eq!(asked(&own, Level::NONE, at(301)).len(), 2, "until all has come");
    own.handle_listed(at(302));
    assert_eq!(asked(&own, Level::NONE, at(302)).len(), 1);
}

#[test]
fn what_is_pulled_is_told_at_once_and_then_once_a_second_and_only_where_it_changes() {
    let mut own = heard();
    let pulled = |streams: &[&str]| -> BTreeMap<StreamName, Carried> {
        streams.iter().map(|stream| (name(stream), Carried { epoch: 4, hops: 1 })).collect()
    };
    own.carry(pulled(&[]), at(1000));
    assert_eq!(requests(&mut own), [], "there is no entry, and needs none");
    own.carry(pulled(&["a"]), at(1000));
    let written = requests(&mut own);
    assert_eq!(written.len(), 1);
    assert_eq!(written[0].1.as_ref().unwrap().streams, pulled(&["a"]));
    own.handle_answer(written[0].0, Answer::Written { revision: 5 }, at(1000));
    for millis in 1001..1999 {
        own.carry(pulled(if millis % 2 == 0 { &["a", "b"] } else { &["b"] }), at(millis));
        own.handle_timeout(at(millis));
        assert_eq!(requests(&mut own), [], "{millis}");
    }
    assert!(own.poll_timeout() <= at(2000));
    own.handle_timeout(at(2000));
    let written = requests(&mut own);
    assert_eq!(written[0].1.as_ref().unwrap().streams, pulled(&["a", "b"]));
    own.carry(pulled(&["a", "b"]), at(2900));
    own.handle_timeout(at(2900));
    assert_eq!(requests(&mut own), [], "nothing has changed");
    // What was not answered is written again.
    own.handle_timeout(at(5000));
    own.handle_timeout(at(5001));
    let again = requests(&mut own);
    assert_eq!(again.len(), 1);
    own.handle_answer(again[0].0, Answer::Written { revision: 9 }, at(5002));
    own.handle_timeout(at(6500));
    assert_eq!(requests(&mut own), []);
    own.carry(pulled(&[]), at(7000));
    assert_eq!(requests(&mut own).pop().map(|(_, entry)| entry), Some(None), "it is removed");
}

#[test]
fn a_node_that_leaves_removes_its_entry_and_one_that_begins_removes_that_of_its_last_run() {
    let mut own = heard();
    let pulled: BTreeMap<_, _> = [(name("a"), Carried { epoch: 4, hops: 1 })].into();
    own.carry(pulled.clone(), at(1000));
    assert_eq!(requests(&mut own).len(), 1);
    own.describe(0, true, at(1001));
    own.leave_carriages(at(1001));
    assert_eq!(requests(&mut own).pop().map(|(_, entry)| entry), Some(None), "though it was just written");

    let mut next = Ownership::new(Settings::default(), node("own", "near", 0));
    next.carry(pulled.clone(), at(0));
    assert_eq!((requests(&mut next), next.poll_timeout()), (vec![], Time::NEVER), "it is not heard yet");
    next.handle_connection(true, at(1));
    let mut former = node("own", "near", 0);
    former.run.incarnation = 3;
    see_carriage(&mut next, &carriage(&former, 4, 1), 5);
    next.carry(BTreeMap::new(), at(2));
    assert_eq!(requests(&mut next), []);
    next.handle_listed(at(3));
    assert_eq!(requests(&mut next).pop().map(|(_, entry)| entry), Some(None));
    // A bucket that was made anew gets it again.
    next.carry(pulled, at(2000));
    assert_eq!(requests(&mut next).len(), 1);
    next.handle_connection(false, at(4000));
    next.handle_connection(true, at(4001));
    next.handle_listed(at(4002));
    assert_eq!(requests(&mut next).len(), 1);
}

#[test]
fn a_carrier_from_which_the_stream_comes_is_kept_as_long_as_it_may_be_asked() {
    let mut own = heard();
    let carriers = ["busy", "idle"].map(|text| node(text, "near", if text == "busy" { 9 } else { 0 }));
    for (revision, carrier) in (10..).step_by(2).zip(&carriers) {
        see_node(&mut own, carrier, revision, at(100));
        see_carriage(&mut own, &carriage(carrier, 4, 1), revision + 1);
    }
    let first = |own: &Ownership, level: Level, from: Option<&NodeName>| {
        own.holders(&name("hall"), level, from, at(100))[0].node.to_string()
    };
    let busy = Some(&carriers[0].run.node);
    assert_eq!(first(&own, Level::NONE, None), "idle");
    assert_eq!(first(&own, Level::of(2), busy), "busy");
    assert_eq!(first(&own, Level::of(1), busy), "owner");
    see_carriage(&mut own, &carriage(&carriers[0], 3, 1), 20);
    assert_eq!(first(&own, Level::of(2), busy), "idle");
}

#[test]
fn a_node_that_is_emptied_carries_nothing_for_others_and_sends_viewers_to_one_that_goes_on() {
    let mut own = heard();
    let open = |text: &str, zone: &str| NodeEntry {
        public: format!("https://{text}.example"),
        ..node(text, zone, 3)
    };
    let carrier = open("carrier", "near");
    see_node(&mut own, &carrier, 10, at(100));
    see_carriage(&mut own, &carriage(&carrier, 4, 1), 11);
    see_node(&mut own, &NodeEntry { viewers: 0, ..open("idle", "near") }, 12, at(100));
    see_node(&mut own, &open("owner", "far"), 13, at(100));
    see_node(
        &mut own,
        &NodeEntry { public: "https://own.example".to_owned(), ..node("own", "near", 0) },
        14,
        at(100),
    );
    let refuge = |own: &Ownership, now| own.refuge(&name("hall"), now).map(|node| node.public.clone());
    let to = |text: &str| Some(format!("https://{text}.example"));
    assert_eq!(refuge(&own, at(100)), to("carrier"), "it has the stream, and is near");
    assert_eq!(asked(&own, Level::NONE, at(100)).len(), 2);
    see_node(&mut own, &NodeEntry { is_draining: true, ..carrier.clone() }, 15, at(100));
    assert!(
        !own.may_carry(&carrier.run.node, at(100))
            && own.may_carry(&NodeName::parse("idle").unwrap(), at(100))
    );
    assert_eq!(asked(&own, Level::NONE, at(100)), told(&[("owner", 0)]));
    let from = Some(&carrier.run.node);
    assert_eq!(own.holders(&name("hall"), Level::of(2), from, at(100)).len(), 1, "nor what comes from there");
    assert_eq!(refuge(&own, at(100)), to("idle"));
    see_node(&mut own, &NodeEntry { is_leaving: true, ..open("idle", "near") }, 16, at(100));
    assert_eq!(refuge(&own, at(100)), to("owner"));
    // Leases end, and this node's own does not.
    see_node(&mut own, &node("own", "near", 0), 17, at(900));
    see_node(&mut own, &node("own", "near", 0), 18, at(1590));
    assert_eq!(refuge(&own, at(1600)), None, "no other is alive");
    // What is told of this node is told at once.
    let said = |own: &mut Ownership| {
        let of = |output| match output {
            Output::Request { request: Request::Put { key: Key::Node(_), value }, .. } => {
                Some(NodeEntry::read(&value).unwrap().is_draining)
            }
            _ => None,
        };
        std::iter::from_fn(|| own.poll_output()).filter_map(of).last()
    };
    said(&mut own);
    own.drain(true, at(1600));
    assert_eq!(said(&mut own), Some(true));
    own.drain(true, at(1600));
    assert_eq!(said(&mut own), None);
    own.drain(false, at(1600));
    assert_eq!(said(&mut own), Some(false));
}

#[test]
fn no_viewer_is_sent_by_what_was_heard_before_the_registry_was_lost() {
    let mut own = heard();
    let open = NodeEntry { public: "http://idle.example".to_owned(), ..node("idle", "near", 0) };
    see_node(&mut own, &open, 12, at(100));
    assert!(own.refuge(&name("hall"), at(100)).is_some());
    own.handle_connection(false, at(200));
    assert!(
        own.refuge(&name("hall"), at(200)).is_none(),
        "the other may be emptied by now, and would send it back"
    );
}
