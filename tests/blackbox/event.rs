//! The pages of events: what viewers get, what crews get, and what a signed link opens.

use crate::{glassline, serve, serve_with};
use glassline_test_support::http::{ask, get, publish};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::{Scratch, Server, outer_address};
use glassline_test_support::skip;
use glassline_test_support::wait::until;
use serde_json::Value;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};

const SHAPE: Shape = Shape { packets: 60, group: 10 };

fn publisher(address: SocketAddr, name: &str) -> TcpStream {
    let mut publisher = publish(address, &format!("/live/{name}.ts"));
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    publisher
}

fn page(address: SocketAddr, target: &str) -> Value {
    let answer = get(address, target);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The same where publishers need a key.
fn publisher_with_key(address: SocketAddr, name: &str, key: &str) -> TcpStream {
    let mut publisher = publish(address, &format!("/live/{name}.ts?key={key}"));
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    publisher
}

/// What the page says of its stream `name`.
fn of_stream<'a>(page: &'a Value, name: &str) -> &'a Value {
    page["streams"].as_array().unwrap().iter().find(|stream| stream["name"] == name).unwrap()
}

#[test]
fn an_events_page_tells_which_streams_are_there() {
    let text = "contact = 'the desk'\n[event.finals]\ntitle = 'The finals'\nstreams = ['hall', 'ladder', 'slides']\naudio = 'hall'\n\
                chat = 'https://chat.example/#finals'\nnext = '20:00 Fast compo'\n[event.quiet]\nstreams = ['slides', 'made']\n\
                [stream.made-720p50]\nmax_viewers = 5\n";
    let (server, scratch) = serve_with(text);
    let address = server.address();
    for path in ["/event/finals", "/event/finals/", "/crew/finals", "/crew/finals?sheet"] {
        let answer = get(address, path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.text().contains("assets/app.js"), "{path}");
    }
    let is_live = |name: &str| of_stream(&page(address, "/api/events/finals"), name)["live"] == true;
    assert!(!is_live("hall"));
    // One that the configuration makes is a ladder before it is there.
    assert_eq!(of_stream(&page(address, "/api/events/quiet"), "made")["group"], true);
    let _publishers = ["hall", "ladder-720p50", "ladder-360p25"].map(|name| publisher(address, name));
    let has_picture = || of_stream(&page(address, "/api/events/finals"), "hall")["picture"] == true;
    until("the streams", || is_live("hall") && is_live("ladder") && has_picture());
    let told = page(address, "/api/events/finals");
    for (key, value) in [
        ("name", "finals"),
        ("title", "The finals"),
        ("contact", "the desk"),
        ("chat", "https://chat.example/#finals"),
        ("next", "20:00 Fast compo"),
        ("audio", "hall"),
    ] {
        assert_eq!(told[key], value, "{told}");
    }
    let names: Vec<&str> =
        told["streams"].as_array().unwrap().iter().map(|stream| stream["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["hall", "ladder", "slides"], "they stand in the configuration's order");
    assert_eq!(of_stream(&told, "ladder")["group"], true, "{told}");
    assert_eq!(of_stream(&told, "hall")["group"], false, "{told}");
    assert_eq!(of_stream(&told, "hall")["picture"], true, "{told}");
    assert_eq!(of_stream(&told, "hall")["sound"], false, "{told}");
    assert_eq!(of_stream(&told, "slides")["picture"], Value::Null, "{told}");
    assert!(
        of_stream(&told, "slides")["live"] == false && of_stream(&told, "slides")["known"] == true,
        "{told}"
    );
    assert!(told["crew"]["needs_link"] == false && of_stream(&told, "hall")["needs_link"] == false, "{told}");
    // This machine is an operator's.
    assert!(told["crew"]["access"].is_null() && told["crew"]["public"].is_array(), "{told}");
    assert_eq!(page(address, "/api/events")["events"].as_array().unwrap().len(), 2);

    for path in ["/event/final", "/crew/final", "/api/events/final", "/api/events/..", "/event/"] {
        let answer = get(address, path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains("no such event"), "{path}: {}", answer.text());
    }
    let for_people = ask(address, "GET", "/event/final", &["Accept: text/html"]);
    assert_eq!(for_people.status, 404);
    assert!(for_people.text().contains("There is no such event"), "{}", for_people.text());

    // What is next on stage changes by a reload.
    scratch.write("glassline.toml", text.replace("20:00 Fast compo", "21:00 Prizes"));
    server.process.signal("HUP");
    until("the next thing", || page(address, "/api/events/finals")["next"] == "21:00 Prizes");
    assert!(is_live("hall"));
}

#[test]
fn a_signed_link_to_an_event_opens_its_streams_and_no_others() {
    let scratch = Scratch::new("event-sign");
    let key = scratch.write("viewer.key", "a-viewer-key\n");
    // With an admin listener this machine is no operator at the public one.
    let text = format!(
        "[admin]\nlisten = ['127.0.0.1:0']\n[viewer]\nkey_file = '{key}'\n[stream.own]\nviewer_key = 'another-viewer-key'\n\
         [event.finals]\nstreams = ['hall', 'own']\nchat = 'https://chat.example/'\n[event.other]\nstreams = ['secret']\n"
    );
    let (server, _config) = serve_with(&text);
    let address = server.address();
    let _publishers = ["hall", "own", "secret"].map(|name| publisher(address, name));
    let sign = |path: &str, time: &str| {
        let signed = glassline(&["sign", &server.url(path), "--key-file", &key, "--for", time]);
        assert_eq!(signed.status, Some(0), "{}", signed.stderr);
        signed.text().trim().split_once('?').unwrap().1.to_owned()
    };
    // The page itself says that a link is needed, and nothing of the streams.
    let stranger = page(address, "/api/events/finals");
    let hall = of_stream(&stranger, "hall");
    assert!(hall["known"] == false && hall["live"] == false && hall["access"].is_null(), "{stranger}");
    assert!(stranger["crew"].is_null() && stranger["chat"].is_null(), "{stranger}");

    let query = sign("/event/finals", "1h");
    let target = format!("/api/events/finals?{query}");
    until("the stream", || of_stream(&page(address, &target), "hall")["live"] == true);
    let told = page(address, &target);
    assert_eq!(told["chat"], "https://chat.example/", "{told}");
    let access = of_stream(&told, "hall")["access"].as_str().unwrap().to_owned();
    assert_eq!(get(address, &format!("/api/streams/hall?{access}")).status, 200);
    assert_eq!(access.split('&').next(), query.split('&').next(), "it is good as long as the event's");
    assert_eq!(ask(address, "HEAD", &format!("/live/hall.ts?{access}"), &[]).status, 200);
    // What is known by now is not told to a stranger.
    let stranger = page(address, "/api/events/finals");
    let hall = of_stream(&stranger, "hall");
    assert!(hall["live"] == false && hall["picture"].is_null() && hall["access"].is_null(), "{stranger}");
    // A stream with a key of its own is not opened by the other key.
    assert_eq!(of_stream(&told, "own")["known"], false, "{told}");
    assert!(of_stream(&told, "own")["access"].is_null(), "{told}");
    // The event's token opens nothing by itself, and no other event.
    assert_eq!(get(address, &format!("/live/hall.ts?{query}")).status, 401);
    assert_eq!(get(address, &format!("/live/secret.ts?{access}")).status, 401);
    let other = page(address, &format!("/api/events/other?{query}"));
    assert_eq!(of_stream(&other, "secret")["known"], false, "{other}");
    let expired = page(address, &format!("/api/events/finals?{}", sign("/event/finals", "0s")));
    assert_eq!(of_stream(&expired, "hall")["known"], false, "{expired}");
    // A viewer that came with a stream's own link may watch that stream here, too.
    let own = sign("/watch/hall", "1h");
    let told = page(address, &format!("/api/events/finals?{own}"));
    assert_eq!(of_stream(&told, "hall")["access"], own.as_str(), "{told}");
}

/// The listener for operators.
fn admin_of(server: &Server) -> SocketAddr {
    let output = server.process.output();
    let (_, rest) = output.split_once("all streams: http://").expect("the admin listener is told");
    rest.split('/').next().unwrap().parse().unwrap()
}

#[test]
fn the_crews_page_is_for_operators() {
    let event = "[event.finals]\nstreams = ['hall']\n";
    let (server, _scratch) =
        serve_with(&format!("[admin]\nlisten = ['127.0.0.1:0']\n[viewer]\nkey = 'a-viewer-key'\n{event}"));
    let (public, admin) = (server.address(), admin_of(&server));
    for path in ["/crew/finals", "/api/events", "/api/alarms"] {
        assert_eq!(get(public, path).status, 404, "{path}");
        assert_eq!(get(admin, path).status, 200, "{path}");
    }
    assert_eq!(get(public, "/event/finals").status, 200);
    assert!(page(public, "/api/events/finals")["crew"].is_null());
    let crew = page(admin, "/api/events/finals");
    // The link that the crew gives away opens the event.
    let access = crew["crew"]["access"].as_str().unwrap();
    assert!(crew["crew"]["needs_link"] == true && of_stream(&crew, "hall")["needs_link"] == true, "{crew}");
    assert_eq!(of_stream(&page(public, &format!("/api/events/finals?{access}")), "hall")["known"], true);
    let of_viewers: Vec<String> = serde_json::from_value(crew["crew"]["public"].clone()).unwrap();
    assert!(of_viewers.contains(&format!("http://{public}/")), "{of_viewers:?}");
    assert!(!of_viewers.contains(&format!("http://{admin}/")), "{of_viewers:?}");
}

#[test]
fn without_an_admin_listener_the_crew_is_let_in_by_address_or_key() {
    let Some(outer) = outer_address() else {
        return skip(
            "without_an_admin_listener_the_crew_is_let_in_by_address_or_key",
            "no address but loopback's",
        );
    };
    let scratch = Scratch::new("event-crew");
    let file = scratch
        .write("glassline.toml", "[publish]\nkey = 'a-publish-key'\n[viewer]\nkey = 'a-viewer-key'\n[event.finals]\nstreams = ['hall']\n[watch]\n");
    let server = Server::start_at(crate::GLASSLINE, &format!("{outer}:0"), &["--config", &file]);
    let address = server.address();
    let _publisher = publisher_with_key(address, "hall", "a-publish-key");
    for path in ["/crew/finals", "/api/events", "/api/alarms"] {
        assert_eq!(get(address, path).status, 403, "{path}");
        assert_eq!(get(address, &format!("{path}?key=a-publish-key")).status, 200, "{path}");
        assert_eq!(get(address, &format!("{path}?key=another-key")).status, 403, "{path}");
        let foreign = ["Origin: http://elsewhere.example", "Authorization: Bearer a-publish-key"];
        assert_eq!(ask(address, "GET", path, &foreign).status, 403, "{path}");
    }
    assert!(page(address, "/api/events/finals")["crew"].is_null());
    let crew = page(address, "/api/events/finals?key=a-publish-key");
    // The publish key signs nothing for viewers.
    assert!(crew["crew"].is_object() && crew["crew"]["access"].is_null(), "{crew}");
    assert!(of_stream(&crew, "hall")["access"].is_null(), "{crew}");
    // So that the sheet says that its links are of no use.
    assert!(crew["crew"]["needs_link"] == true && of_stream(&crew, "hall")["needs_link"] == true, "{crew}");
    // What the crew's page asks for is answered, though viewers need a token; where streams come from is not told.
    let crew = |path: &str| get(address, &format!("{path}?key=a-publish-key"));
    until("the stream", || crew("/api/streams").json()["streams"][0]["live"] == true);
    assert!(get(address, "/api/streams").json()["streams"].as_array().unwrap().is_empty());
    assert!(crew("/api/streams").json()["streams"][0]["access"].is_null());
    assert!(crew("/api/streams/hall/thumbnail").text().contains("no picture"));
    assert!(get(address, "/api/streams/hall/thumbnail").text().contains("no such stream"));
    until("the watch", || crew("/api/alarms").json()["watched"][0] == "hall");
    let for_people = ask(address, "GET", "/crew/finals", &["Accept: text/html"]);
    assert_eq!(for_people.status, 403);
    assert!(for_people.text().contains("[admin] networks"), "{}", for_people.text());
}

#[test]
fn an_event_that_names_no_stream_is_refused_with_its_place() {
    let scratch = Scratch::new("event-bad");
    for (text, words) in [
        ("[event.finals]\ntitle = 'x'\n", "glassline.toml:1: event.finals.streams: names no stream"),
        ("[event.finals]\nstreams = []\n", "glassline.toml:2: event.finals.streams: names no stream"),
        ("[event.finals]\nstream = ['hall']\n", "did you mean \"streams\"?"),
        ("[event.finals]\nstreams = ['hall']\naudio = 'hal'\n", "did you mean \"hall\"?"),
    ] {
        let file = scratch.write("glassline.toml", text);
        let outcome = glassline(&["serve", "--config", &file, "--test-config"]);
        assert_eq!(outcome.status, Some(2), "{text}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{text}: {}", outcome.stderr);
    }
    let file = scratch
        .write("glassline.toml", "[stream.hall]\nmax_viewers = 5\n[event.finals]\nstreams = ['hal']\n");
    let outcome = glassline(&["serve", "--config", &file, "--test-config"]);
    assert_eq!(outcome.status, Some(0), "a publisher may bring any name: {}", outcome.stderr);
    assert!(outcome.stderr.contains("did you mean \"hall\"?"), "{}", outcome.stderr);
    let server = serve(&["--demo"]);
    assert_eq!(get(server.address(), "/event/demo").status, 404, "without a section there is no event");
}
