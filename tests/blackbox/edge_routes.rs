//! Edges with several groups of upstream servers: which of them is asked, and as whom.

use crate::edge::{Origin, whole};
use crate::pull::{SHAPE, see, watch};
use crate::{serve, serve_with};
use glassline_test_support::http::{Answer, ask, get};
use glassline_test_support::numbered::Check;
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::until;
use std::io::Write;

/// An origin whose answers say who it is, and as whom it was asked for what.
fn origin(name: &'static str) -> Origin {
    Origin::start(move |asked, connection| {
        let text = format!("{name} {} {}", asked.field("host").unwrap(), asked.target);
        connection.write_all(&whole(text.as_bytes(), "Cache-Control: max-age=3600\r\n")).is_ok()
    })
}

/// Asks by another name than the server's own.
fn as_host(edge: &Server, host: &str, path: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    glassline_test_support::http::raw(edge.address(), request.as_bytes()).unwrap()
}

#[test]
fn hosts_and_paths_choose_the_servers() {
    let [one, two, sports] = [origin("one"), origin("two"), origin("sports")];
    let text = format!(
        "[upstream]\nservers = ['{}']\n\
         [[upstream.route]]\nhost = '*.two.example'\nservers = ['{}/base']\nkeep_host = true\n\
         [[upstream.route]]\npath = '/sports/'\nservers = ['http://127.31.7.3:9', '{}']\nstrip = '/sports'\n",
        one.url(),
        two.url(),
        sports.url()
    );
    let (edge, _scratch) = serve_with(&text);
    for _ in 0..2 {
        for (host, path, wanted) in [
            ("one.example", "/a.mp4", format!("one {} /a.mp4", one.address)),
            ("x.two.example", "/a.mp4", "two x.two.example /base/a.mp4".to_owned()),
            ("Y.two.example:81", "/a.mp4", "two y.two.example:81 /base/a.mp4".to_owned()),
            ("two.example", "/a.mp4", format!("one {} /a.mp4", one.address)),
            ("one.example", "/sports/a.mp4?x=1", format!("sports {} /a.mp4?x=1", sports.address)),
            ("x.two.example", "/sports/a.mp4", "two x.two.example /base/sports/a.mp4".to_owned()),
        ] {
            let answer = as_host(&edge, host, path);
            assert_eq!((answer.status, answer.text()), (200, wanted), "{host} {path}");
        }
    }
    assert_eq!((one.count("/a.mp4"), two.count("/base/a.mp4"), sports.count("/a.mp4?x=1")), (1, 2, 1));
}

#[test]
fn without_servers_for_everything_else_the_rest_is_not_there() {
    let only = origin("only");
    let text = format!("[[upstream.route]]\nhost = 'a.example'\nservers = ['{}']\n", only.url());
    let (edge, _scratch) = serve_with(&text);
    assert_eq!(as_host(&edge, "a.example", "/a.mp4").status, 200);
    assert_eq!(as_host(&edge, "b.example", "/a.mp4").status, 404);
    assert_eq!(get(edge.address(), "/live/a.ts").status, 404);
}

#[test]
fn objects_of_two_origins_are_told_apart_on_the_disk() {
    let (one, two, scratch) = (origin("one"), origin("two"), Scratch::new("routes"));
    let text = format!(
        "[upstream]\nservers = ['{}']\ndisk = 'kept'\n\
         [[upstream.route]]\nhost = 'two.example'\nservers = ['{}']\n",
        one.url(),
        two.url()
    );
    let config = scratch.write("glassline.toml", text);
    let objects = |edge: &Server| edge.metrics().sum("glassline_cache_disk_objects", "");
    let mut edge = serve(&["--config", &config]);
    for _ in 0..2 {
        for (host, name) in [("one.example", "one"), ("two.example", "two")] {
            let text = as_host(&edge, host, "/a.mp4").text();
            assert!(text.starts_with(name), "{host}: {text}");
        }
        until("both files", || objects(&edge) == 2.0);
        edge.process.kill();
        edge = serve(&["--config", &config]);
        until("both files again", || objects(&edge) == 2.0);
    }
    assert_eq!((one.count("/a.mp4"), two.count("/a.mp4")), (1, 1));
    // Another origin in its place has other objects.
    let other = origin("other");
    scratch.write("glassline.toml", format!("[upstream]\nservers = ['{}']\ndisk = 'kept'\n", other.url()));
    let edge = serve(&["--config", &config]);
    until("the files to be known", || objects(&edge) == 2.0);
    assert!(ask(edge.address(), "GET", "/a.mp4", &[]).text().starts_with("other"));
}

#[test]
fn a_stream_is_pulled_from_the_servers_of_its_path() {
    let (usual, special) = (serve(&[]), serve(&[]));
    let mut publisher = glassline_test_support::http::publish(special.address(), "/live/far.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("pictures at the origin", || special.count("far", "bytes_in") > 0);
    let text = format!(
        "[upstream]\nservers = ['{}']\n[[upstream.route]]\npath = '/live/far.ts'\nservers = ['{}']\n",
        usual.url(""),
        special.url("")
    );
    let (edge, _scratch) = serve_with(&text);
    let (mut viewer, mut check) = (watch(&edge, "far"), Check::new(SHAPE));
    see(&mut viewer, &mut check, 1);
    assert_eq!(edge.stream("far").unwrap()["source"]["failures"], 0);
}

#[test]
fn an_answer_says_by_what_it_came_how_old_it_is_and_what_was_found_of_it() {
    let origin = Origin::start(|_, connection| {
        let fields = "Cache-Control: max-age=3600\r\nAge: 100\r\nContent-Type: text/html\r\n";
        connection.write_all(&whole(b"<script>1</script>", fields)).is_ok()
    });
    let text = format!(
        "[upstream]\nservers = ['{0}']\n[[upstream.route]]\npath = '/site/'\nservers = ['{0}']\nown_pages = true\n",
        origin.url()
    );
    let (edge, _scratch) = serve_with(&text);
    for (path, sandbox) in [("/a.html", Some("sandbox")), ("/site/a.html", None)] {
        for found in ["glassline; fwd=miss", "glassline; hit"] {
            let answer = get(edge.address(), path);
            assert_eq!(answer.status, 200, "{path}");
            assert_eq!(answer.header("cache-status"), Some(found), "{path}");
            assert_eq!(answer.header("via"), Some("1.1 glassline"));
            let age: u64 = answer.header("age").unwrap().parse().unwrap();
            assert!((100..160).contains(&age), "{age}");
            assert_eq!(answer.header("content-security-policy"), sandbox, "{path}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        }
    }
    let told = "pages of upstream servers run no scripts";
    until("the log says why", || edge.process.output().contains(told));
    assert_eq!(edge.process.output().matches(told).count(), 1);
}

#[test]
fn what_is_the_servers_own_never_comes_from_upstream() {
    let origin = origin("origin");
    let text = format!("[admin]\nlisten = ['127.0.0.1:0']\n[upstream]\nservers = ['{}']\n", origin.url());
    let (edge, _scratch) = serve_with(&text);
    for path in
        ["/", "/index.html", "/api", "/api/streams", "/api/other", "/metrics", "/healthz", "/stream/a"]
    {
        let answer = get(edge.address(), path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
        assert_eq!(origin.count(path), 0, "{path}");
    }
    assert_eq!(get(edge.address(), "/apidocs").status, 200, "that is another path");
}

#[test]
fn a_route_that_leads_into_names_of_the_servers_own_is_refused() {
    let scratch = Scratch::new("routes");
    for (route, complaint) in [
        ("path = '/x/live/'\nstrip = '/x'", "leaves of path what streams here are called by"),
        ("path = '/api/'", "/api is this server's own"),
        ("path = '/watch'", "/watch is this server's own"),
    ] {
        let text = format!("[[upstream.route]]\n{route}\nservers = ['http://origin.example']\n");
        let file = scratch.write("glassline.toml", text);
        let outcome = crate::glassline(&["serve", "--config", &file, "--test-config"]);
        assert_eq!(outcome.status, Some(2), "{route}");
        assert!(outcome.stderr.contains(complaint), "{route}: {}", outcome.stderr);
    }
}
