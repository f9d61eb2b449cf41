use super::*;
use crate::connection::Turn;
use crate::test_connections::{PEER, Stage, beside, chunk, get, opening, put, stage};
use crate::test_streams::name;
use glassline_edge::UpstreamSettings;
use glassline_streams::{Directory, NameRefusal};
use std::sync::Arc;

/// Another server, if there is one.
#[derive(Debug)]
struct Other(Option<&'static str>);

impl Directory for Other {
    fn find(&self, _name: &StreamName) -> Whereabouts {
        Whereabouts::Unknown
    }

    fn find_version(&self, _group: &StreamName) -> Whereabouts {
        Whereabouts::Unknown
    }

    fn is_complete(&self) -> bool {
        true
    }

    fn refuge(&self, _name: &StreamName) -> Option<Url> {
        self.0.map(|url| url.parse().expect("a URL"))
    }

    fn may_publish(&self, _name: &StreamName, _takes_over: bool) -> Result<(), NameRefusal> {
        Ok(())
    }

    fn publishers_changed(&self) {}
}

/// A server of a cluster, in which another one may be at this address.
fn server(other: Option<&'static str>) -> Stage {
    let first = stage(|settings| settings.upstream = Some(UpstreamSettings::new(Vec::new())));
    first.hub.arrange_edge().expect("a thread that fetches");
    first.hub.set_directory(Some(Arc::new(Other(other)) as Arc<dyn Directory>));
    first
}

const OTHER: Option<&str> = Some("http://other.example/tv/");

/// The status, and where it leads.
fn answer(first: &Stage, token: u64, target: &str, fields: &str) -> (String, Option<String>) {
    let mut stage = beside(first, PEER, token);
    stage.say(format!("GET {target} HTTP/1.1\r\nHost: evil.example\r\n{fields}\r\n"));
    stage.turn();
    said(&mut stage)
}

fn said(stage: &mut Stage) -> (String, Option<String>) {
    let heard = String::from_utf8_lossy(&stage.heard()).into_owned();
    let location = heard.lines().find_map(|line| line.strip_prefix("Location: ")).map(str::to_owned);
    (heard.split(' ').nth(1).unwrap_or("waits").to_owned(), location)
}

fn to(path: &str) -> (String, Option<String>) {
    ("307".to_owned(), Some(format!("http://other.example/tv{path}")))
}

fn drain(stage: &Stage) {
    stage.hub.drain(Some(Duration::ZERO));
}

#[test]
fn viewers_that_come_and_players_are_sent_to_the_address_of_the_registry() {
    let first = server(OTHER);
    let mut publisher = first.hub.publish(&name("a")).expect("a free name");
    publisher.push(&opening(3).1).expect("it has the slot");
    assert_eq!(answer(&first, 8, "/live/a.ts", "").0, "200");
    drain(&first);
    for (token, path) in (10..).zip([
        "/live/a.ts",
        "/live/a.ts?key=k&x=//h",
        "/live/a/index.m3u8",
        "/live/a/manifest.mpd?from=-5m",
    ]) {
        assert_eq!(answer(&first, token, path, ""), to(path));
    }
    for (token, path) in (20..).zip(["/live/a/video/init.mp4", "/metrics", "/live/a.ts?x=\\\\h"]) {
        assert_ne!(answer(&first, token, path, "").0, "307", "{path}");
    }
    let of_page = [
        "Origin: https://here.example\r\n",
        "Sec-Fetch-Mode: no-cors\r\n",
        // What a page fetches of an address by plain http.
        "User-Agent: Mozilla/5.0 (X11)\r\nAccept: */*\r\n",
    ];
    for (token, fields) in (50..).zip(of_page) {
        let words = "a page is not sent elsewhere";
        assert_eq!(answer(&first, token, "/live/a.ts", fields).0, "200", "{words}: {fields}");
    }
    let opened = ["Sec-Fetch-Mode: navigate\r\n", "User-Agent: Mozilla/5.0 (X11)\r\nAccept: text/html\r\n"];
    for (token, fields) in (56..).zip(opened) {
        assert_eq!(answer(&first, token, "/live/a.ts", fields), to("/live/a.ts"));
    }
    assert_eq!(answer(&first, 54, "/watch/a?x=1", "Sec-Fetch-Mode: navigate\r\n"), to("/watch/a?x=1"));
    assert_eq!(answer(&first, 55, "/watch/other", "").0, "200", "nothing is known of it");
    let _version = first.hub.publish(&name("hall-720p50")).expect("a free name");
    assert_eq!(answer(&first, 53, "/live/hall/index.m3u8", ""), to("/live/hall/index.m3u8"));
    assert_eq!(first.hub.drain_counts().viewers_sent, 8);
    publisher.push(&opening(3).1).expect("what runs goes on");
    first.hub.drain(None);
    assert_eq!(answer(&first, 40, "/live/a.ts", "").0, "200");
}

#[test]
fn servers_of_the_cluster_stay_and_other_servers_are_sent_on_with_the_stream_alone() {
    let first = server(OTHER);
    let mut publisher = first.hub.publish(&name("a")).expect("a free name");
    publisher.push(&opening(3).1).expect("it has the slot");
    drain(&first);
    let via = "Via: 1.1 glassline-0000000000000001\r\n";
    let hops = format!("{via}Glassline-Hops: 2\r\n");
    assert_eq!(answer(&first, 30, "/live/a.ts", &hops).0, "200", "it knows what it asks for");
    assert_eq!(answer(&first, 31, "/live/a.ts", via), to("/live/a.ts"));
    assert_ne!(answer(&first, 32, "/live/a/index.m3u8", via).0, "307", "objects of a list are of one server");
    assert_eq!(first.hub.drain_counts().players, 1, "what is behind it depends on this server");
}

#[test]
fn publishers_that_come_are_sent_on_as_well_and_refused_where_there_is_no_other_server() {
    for (other, wanted) in [
        (OTHER, to("/live/b.ts?takeover=0")),
        (None, ("503".to_owned(), None)),
        // A publisher that was not given https:// may speak none, and ends where it is led there.
        (Some("https://other.example/"), ("503".to_owned(), None)),
    ] {
        let first = server(other);
        drain(&first);
        let mut comes = beside(&first, PEER, 31);
        comes.say(put("/live/b.ts?takeover=0"));
        comes.turn();
        assert_eq!(said(&mut comes), wanted);
        assert!(comes.sees_end() && first.hub.streams.find(&name("b")).is_none());
    }
}

#[test]
fn a_publisher_that_follows_is_moved_behind_a_whole_picture_and_takes_its_name_over_there() {
    let (first, (mut source, begin)) = (server(OTHER), opening(3));
    let mut publishers: Vec<Stage> = Vec::new();
    for (token, (target, fields)) in (1..).zip([("a.ts", ""), ("b.ts?x=1", "Glassline-Follows: 307\r\n")]) {
        let mut publisher = beside(&first, PEER, token);
        publisher.say(put(&format!("/live/{target}")).replace("\r\n\r\n", &format!("\r\n{fields}\r\n")));
        publisher.say(chunk(&begin));
        publisher.turn();
        publishers.push(publisher);
    }
    drain(&first);
    let picture = chunk(&source.picture(false, 2));
    let (some, rest) = picture.split_at(200);
    for publisher in &mut publishers {
        publisher.say(some);
        publisher.turn();
        assert!(publisher.heard().is_empty(), "the picture is not whole");
        publisher.say(rest);
        publisher.turn();
    }
    assert_eq!(said(&mut publishers[1]), to("/live/b.ts?x=1&takeover=1"));
    assert!(publishers[0].heard().is_empty(), "it reads no answers");
    let live = first.hub.streams.find(&name("b")).expect("its viewers wait");
    assert!(live.published_since().is_none() && live.chain.head() == (begin.len() + 2 * 188) as u64);
    assert_eq!(first.hub.drain_counts().publishers_sent, 1);
}

/// What the viewer gets of the stream `a`, and whether it is over.
fn feed(viewer: &mut Stage) -> (usize, bool) {
    // Behind the pace at which it is sent to.
    viewer.now += Duration::from_secs(1);
    let turn = viewer.turn();
    (viewer.heard().len(), matches!(turn, Turn::Over))
}

#[test]
fn a_viewer_that_runs_ends_before_a_key_frame_and_a_page_or_a_server_of_the_cluster_goes_on() {
    let first = server(OTHER);
    let (mut source, begin) = opening(3);
    let mut publisher = first.hub.publish(&name("a")).expect("a free name");
    publisher.push(&begin).expect("it has the slot");
    let mut viewers: Vec<Stage> = (1..)
        .zip(["", "Origin: http://p\r\n", "Glassline-Hops: 2\r\n"])
        .map(|(token, fields)| {
            let mut viewer = beside(&first, PEER, token);
            viewer.say(get("/live/a.ts").replace("\r\n\r\n", &format!("\r\n{fields}\r\n")));
            assert!(feed(&mut viewer).0 > begin.len());
            viewer
        })
        .collect();
    let sweep = |viewer: &mut Stage| {
        viewer.with(|connection, context| connection.check_drain(&mut Refuges::default(), context));
    };
    viewers.iter_mut().for_each(sweep);
    drain(&first);
    viewers.iter_mut().for_each(sweep);
    let (rest, key) = (source.picture(false, 2), source.picture(true, 4));
    publisher.push(&rest).expect("it has the slot");
    for viewer in &mut viewers {
        assert_eq!(feed(viewer), (rest.len(), false), "what is before the key frame");
    }
    // One that has not ended yet stays where the server is not emptied any more.
    first.hub.drain(None);
    viewers.iter_mut().for_each(sweep);
    publisher.push(&key).expect("it has the slot");
    for viewer in &mut viewers {
        assert_eq!(feed(viewer), (key.len(), false));
    }
    drain(&first);
    viewers.iter_mut().for_each(sweep);
    publisher.push(&source.picture(false, 2)).expect("it has the slot");
    publisher.push(&source.picture(true, 4)).expect("it has the slot");
    let fed: Vec<_> = viewers.iter_mut().map(feed).collect();
    assert_eq!(fed, [(rest.len(), true), (rest.len() + key.len(), false), (rest.len() + key.len(), false)]);
    viewers.iter_mut().for_each(Stage::close);
    assert_eq!(first.hub.drain_counts().viewers_ended, 1);
}

#[test]
fn viewers_stay_where_no_other_server_can_serve_them() {
    let first = server(None);
    let (mut source, begin) = opening(3);
    let mut publisher = first.hub.publish(&name("a")).expect("a free name");
    publisher.push(&begin).expect("it has the slot");
    drain(&first);
    let mut viewer = beside(&first, PEER, 1);
    viewer.say(get("/live/a.ts"));
    assert!(feed(&mut viewer).0 > begin.len());
    viewer.with(|connection, context| connection.check_drain(&mut Refuges::default(), context));
    let key = source.picture(true, 4);
    publisher.push(&key).expect("it has the slot");
    assert_eq!(feed(&mut viewer), (key.len(), false));
}

#[test]
fn a_server_that_is_emptied_is_so_in_the_next_process() {
    let first = server(OTHER);
    drain(&first);
    let left = rmp_serde::to_vec_named(&first.hub.state()).expect("a message");
    let mut there = crate::test_streams::hub(crate::Settings::default(), 1);
    there
        .inherit(rmp_serde::from_slice(&left).expect("a state"), Vec::new())
        .expect("counts of this version");
    assert!(there.is_draining());
}

#[test]
fn an_address_from_which_playlists_are_read_counts_once() {
    let first = server(OTHER);
    answer(&first, 5, "/live/nonsense/index.m3u8", "");
    assert_eq!(first.hub.drain_counts().players, 0, "anything may be asked for");
    let _publisher = first.hub.publish(&name("a")).expect("a free name");
    // A drain that begins has to know of them.
    for token in 1..4 {
        answer(&first, token, "/live/a/index.m3u8", "");
    }
    assert_eq!(first.hub.drain_counts().players, 1);
}

#[test]
fn viewers_are_spread_over_the_time_from_when_another_server_is_there() {
    let first = server(None);
    let _publisher = first.hub.publish(&name("a")).expect("a free name");
    first.hub.drain(Some(Duration::from_secs(10)));
    let began = first.hub.clock.now();
    let leaving = |after: u64| {
        let now = began + Duration::from_secs(after);
        let mut refuges = Refuges::default();
        let id = |token| ConnectionId { worker: 0, token };
        (0..100)
            .filter(|token| first.hub.sends_on((id(*token), false), &name("a"), &mut refuges, now))
            .count()
    };
    assert_eq!(leaving(600), 0);
    first.hub.set_directory(Some(Arc::new(Other(OTHER)) as Arc<dyn Directory>));
    assert!(leaving(601) < 5, "not all at once");
    assert!((30..70).contains(&leaving(606)) && leaving(612) == 100);
    // Another time is another drain, the same one is not.
    first.hub.drain(Some(Duration::from_secs(10)));
    assert_eq!(leaving(612), 100);
    first.hub.drain(Some(Duration::from_secs(20)));
    assert!(leaving(613) < 5);
}
