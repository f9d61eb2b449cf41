use super::testing::{Answer, Origin, client, fields, text};
use super::*;
use glassline_delivery::fill::{KeyQuery, Object, Route};
use glassline_test_support::wait::until;

struct Unheard;

impl Wake for Unheard {
    fn wake(&self, _: usize, _: Vec<u64>) {}
}

fn start(settings: UpstreamSettings) -> Edge {
    Edge::start(settings, Arc::new(Unheard), Clock::new(), 0xabc).unwrap()
}

fn route(path: &str, strip: Option<&str>, keeps_host: bool, server: &str) -> UpstreamRoute {
    let rule = Route::new(None, Some(path), strip, keeps_host).unwrap();
    UpstreamRoute { rule, servers: vec![server.parse().unwrap()], own_pages: false }
}

fn get(edge: &Edge, host: Option<&str>, path: &str) -> String {
    let located = edge.locate(host, path, "").unwrap();
    let (reading, _) = edge.find(located, Via::default(), client(1), Clock::new().now());
    until("an object to be whole", || reading.look(|object: &Object| object.progress().is_whole));
    text(&reading)
}

/// Answers with the path and the name that it is asked by.
fn echo() -> Origin {
    Origin::start(|_, request| {
        let target = request.split(' ').nth(1).unwrap();
        let host = request.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap();
        let name = if host.starts_with("127.") { "itself" } else { host };
        let body = format!("{target} of {name}");
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {length}\r\n\r\n");
        Answer::keeps(format!("{head}{body}").into_bytes())
    })
}

#[test]
fn without_servers_no_path_is_asked_for_but_those_of_routes() {
    let mut settings = UpstreamSettings::new(Vec::new());
    settings.routes = vec![route("/vod/", None, false, "http://127.0.0.1:9")];
    let edge = start(settings);
    assert_eq!(edge.locate(None, "/a", ""), None);
    assert_eq!(edge.locate(None, "/vod/a", "").map(|located| located.route), Some(Some(0)));
}

#[test]
fn a_query_is_part_of_a_name_as_far_as_the_settings_say() {
    let mut settings = UpstreamSettings::new(vec!["http://127.0.0.1:9".parse().unwrap()]);
    assert_eq!(start(settings.clone()).locate(None, "/a", "x=1&y=2").unwrap().target, "/a?x=1&y=2");
    settings.key_query = KeyQuery::default();
    let edge = start(settings);
    assert_eq!(edge.locate(None, "/a", "").unwrap().key(), "/a");
}

#[test]
fn routes_have_servers_names_and_places_of_their_own() {
    let (origin, other) = (echo(), echo());
    let mut settings = UpstreamSettings::new(vec![origin.url.parse().unwrap()]);
    settings.routes =
        vec![route("/vod/", Some("/vod"), false, &other.url), route("/by-name/", None, true, &other.url)];
    let edge = start(settings);
    assert_eq!(get(&edge, None, "/a"), "/a of itself");
    assert_eq!(get(&edge, None, "/vod/a"), "/a of itself");
    assert_eq!(get(&edge, Some("b.example"), "/by-name/a"), "/by-name/a of b.example");
    assert_eq!(get(&edge, Some("c.example"), "/by-name/a"), "/by-name/a of c.example");
    assert_eq!((origin.requests().len(), other.requests().len(), edge.cache_figures().objects), (1, 3, 4));
}

#[test]
fn a_purge_is_about_paths_as_clients_ask_for_them() {
    let origin = echo();
    let mut settings = UpstreamSettings::new(vec![origin.url.parse().unwrap()]);
    settings.routes = vec![route("/vod/", Some("/vod"), false, &origin.url)];
    let edge = start(settings);
    for path in ["/a/1", "/a/2", "/vod/a/1"] {
        get(&edge, None, path);
    }
    assert_eq!(edge.purge("no path", false), None);
    assert_eq!(edge.purge("/a", false), Some(0));
    assert_eq!(edge.purge("/a/", true), Some(2));
    assert_eq!(edge.purge("/vod/a/1", false), Some(1));
    get(&edge, None, "/a/1");
    assert_eq!((origin.requests().len(), edge.disk_figures()), (4, None));
}

#[test]
fn a_request_that_has_passed_here_is_known_by_this_servers_name() {
    let edge = start(UpstreamSettings::new(Vec::new()));
    assert!(edge.is_loop(&fields("Via: 1.1 other, 1.1 glassline-0000000000000abc\r\n")));
    assert!(!edge.is_loop(&fields("Via: 1.1 glassline-0000000000000abd\r\n")));
    assert!(!edge.is_loop(&fields("")));
}

#[test]
fn servers_are_told_by_which_others_a_request_came() {
    let origin = echo();
    let edge = start(UpstreamSettings::new(vec![origin.url.parse().unwrap()]));
    let via = Via::of(&fields("Via: 1.1 glassline-00000000000000ff\r\n"));
    let located = edge.locate(None, "/a", "").unwrap();
    let (_reading, _) = edge.find(located, via, client(1), Clock::new().now());
    until("the request", || origin.requests().len() == 1);
    let expected = "\r\nVia: 1.1 glassline-00000000000000ff, 1.1 glassline-0000000000000abc\r\n";
    assert!(origin.requests()[0].contains(expected), "{:?}", origin.requests());
}

#[test]
fn memory_is_the_caches_and_a_window_for_each_connection_of_each_server() {
    let url = || "http://127.0.0.1:9".parse().unwrap();
    let mut settings = UpstreamSettings::new(vec![url(), url()]);
    (settings.cache_bytes, settings.connections) = (1 << 30, 10);
    assert_eq!(settings.memory_bytes(), (1 << 30) + 20 * (64 << 10));
    settings.routes = vec![route("/vod/", None, false, "http://127.0.0.1:9")];
    assert_eq!(settings.memory_bytes(), (1 << 30) + 30 * (64 << 10));
    settings.connections = usize::MAX;
    assert_eq!(settings.memory_bytes(), u64::MAX);
}
