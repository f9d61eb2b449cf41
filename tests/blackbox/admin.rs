//! The admin listener: what is for operators only is there, and what viewers need stays with them.

use crate::serve_with;
use glassline_test_support::http::{ask, get, publish, raw};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::{Scratch, Server, outer_address};
use glassline_test_support::skip;
use glassline_test_support::wait::until;
use std::io::Write;
use std::net::SocketAddr;

const SHAPE: Shape = Shape { packets: 5, group: 5 };

/// Where the listener for operators is, by what the server says when it starts.
pub(crate) fn admin_of(server: &Server) -> SocketAddr {
    let output = server.process.output();
    let (_, rest) = output.split_once("all streams: http://").expect("the admin listener is told");
    rest.split('/').next().unwrap().parse().unwrap()
}

#[test]
fn the_crews_things_are_on_the_admin_listener_alone() {
    let (server, _scratch) = serve_with("contact = 'call Ada'\n[admin]\nlisten = ['127.0.0.1:0']\n");
    let (public, admin) = (server.address(), admin_of(&server));
    assert_ne!(public, admin);
    let mut publisher = publish(public, "/live/a.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || get(public, "/api/streams/a").status == 200);

    for path in [
        "/",
        "/index.html",
        "/metrics",
        "/healthz",
        "/readyz",
        "/api/streams",
        "/api",
        "/api/",
        "/api/clients",
        "/api/streams/a/history",
        "/api/streams/a/thumbnail",
        "/api/alarms/mute",
        "/api/alarms/pictures/0123456789abcdef",
        "/stream/a",
    ] {
        let refused = get(public, path);
        assert_eq!(refused.status, 404, "{path}");
        assert!(refused.text().contains("admin listener"), "{path}: {}", refused.text());
        assert_eq!(ask(public, "HEAD", path, &[]).status, 404, "{path}");
    }
    for path in [
        "/",
        "/metrics",
        "/healthz",
        "/readyz",
        "/api/streams",
        "/api/streams/a",
        "/watch/a",
        "/api/clients",
        "/api/streams/a/history",
        "/stream/a",
    ] {
        assert_eq!(get(admin, path).status, 200, "{path}");
    }
    // Whoever reaches the admin listener may see who watches, through a proxy too; pages of other sites may not.
    let status = |field: &str| ask(admin, "GET", "/api/clients", &[field]).status;
    assert_eq!((status("Via: 1.1 proxy"), status("Origin: http://elsewhere.example")), (200, 403));
    // What the player needs.
    for path in ["/watch/a", "/assets/app.js", "/api/time", "/api/contact", "/api/streams/a"] {
        assert_eq!(get(public, path).status, 200, "{path}");
    }
    assert_eq!(get(public, "/gen204").status, 204);
    assert_eq!(get(public, "/api/contact").json()["contact"], "call Ada");
    let streams = get(admin, "/api/streams").json();
    assert_eq!(streams["streams"][0]["name"], "a");
}

#[test]
fn where_a_stream_comes_from_is_told_to_the_crew_alone() {
    let (server, _scratch) = serve_with(
        "[admin]\nlisten = ['127.0.0.1:0']\n[stream.inner]\nsource = 'http://127.0.0.1:9/live/inner.ts'\n",
    );
    let told = |address| get(address, "/api/streams/inner").json()["source"].clone();
    assert!(told(admin_of(&server)).is_object());
    assert!(told(server.address()).is_null());
}

/// With `[admin] networks`, where a request to an address outside of loopback comes from.
fn from_outside(test: &str, config: &str) -> Option<(Server, Scratch, SocketAddr)> {
    let Some(address) = outer_address() else {
        skip(test, "this machine has no address but loopback");
        return None;
    };
    let scratch = Scratch::new("serve");
    let file = scratch.write("glassline.toml", config.replace("OUTSIDE", &address.to_string()));
    let server = Server::start_at(crate::GLASSLINE, "0.0.0.0:0", &["--config", &file]);
    let outside = SocketAddr::new(address.into(), server.address().port());
    Some((server, scratch, outside))
}

const SOURCE: &str =
    "[stream.inner]\nsource = 'http://127.0.0.1:9/live/inner.ts'\noutputs = ['udp://127.0.0.1:9']\n";

#[test]
fn without_an_admin_listener_the_inside_is_told_to_this_machine_alone() {
    let test = "without_an_admin_listener_the_inside_is_told_to_this_machine_alone";
    let Some((server, _scratch, outside)) = from_outside(test, SOURCE) else { return };
    for path in ["/metrics", "/api/encoders", "/api/objects"] {
        assert_eq!(get(server.address(), path).status, 200, "{path}");
        let refused = get(outside, path);
        assert_eq!(
            (refused.status, refused.header("content-type")),
            (403, Some("application/problem+json")),
            "{path}"
        );
        assert!(refused.text().contains("[admin] networks"), "{path}: {}", refused.text());
        let from_page = ask(server.address(), "GET", path, &["Origin: http://elsewhere.example"]);
        assert_eq!(from_page.status, 403, "{path}");
    }
    for path in ["/", "/healthz", "/api/streams", "/api/streams/inner", "/watch/inner", "/stream/inner"] {
        assert_eq!(get(outside, path).status, 200, "{path}");
    }
    let told = |address| {
        let one = get(address, "/api/streams/inner").json();
        let all = get(address, "/api/streams").json()["streams"][0].clone();
        assert_eq!(
            (&one["source"]["url"], &one["outputs"][0]["url"]),
            (&all["source"]["url"], &all["outputs"][0]["url"])
        );
        (one["source"]["url"].clone(), one["outputs"][0]["url"].clone())
    };
    assert_eq!(
        told(server.address()),
        ("http://127.0.0.1:9/live/inner.ts".into(), "udp://127.0.0.1:9".into())
    );
    assert_eq!(told(outside), (serde_json::Value::Null, serde_json::Value::Null));
}

#[test]
fn networks_of_the_crew_see_what_this_machine_sees() {
    let test = "networks_of_the_crew_see_what_this_machine_sees";
    let config = format!("[admin]\nnetworks = ['OUTSIDE']\n{SOURCE}");
    let Some((server, _scratch, outside)) = from_outside(test, &config) else { return };
    for address in [server.address(), outside] {
        for path in ["/metrics", "/api/encoders", "/api/clients", "/api/objects"] {
            assert_eq!(get(address, path).status, 200, "{address} {path}");
            assert_eq!(ask(address, "GET", path, &["Via: 1.1 proxy"]).status, 403, "{address} {path}");
        }
        assert!(get(address, "/api/streams/inner").json()["source"]["url"].is_string(), "{address}");
    }
    // Publishing is another matter.
    assert_eq!(ask(outside, "PUT", "/live/a.ts", &["Content-Length: 0"]).status, 403);
}

#[test]
fn an_admin_listener_is_for_its_networks_and_for_names_of_its_own() {
    let test = "an_admin_listener_is_for_its_networks_and_for_names_of_its_own";
    let paths = ["/", "/metrics", "/api/streams", "/api/clients", "/api/encoders"];
    let everywhere = "[admin]\nlisten = ['0.0.0.0:0']\n";
    for (config, far) in [
        (everywhere.to_owned(), 200),
        (format!("{everywhere}networks = ['OUTSIDE']\n"), 200),
        (format!("{everywhere}networks = ['240.0.0.1']\n"), 403),
    ] {
        let Some((server, _scratch, outside)) = from_outside(test, &config) else { return };
        let port = admin_of(&server).port();
        let near = SocketAddr::from(([127, 0, 0, 1], port));
        for path in paths {
            assert_eq!(get(near, path).status, 200, "{config} {path}");
            assert_eq!(get(SocketAddr::new(outside.ip(), port), path).status, far, "{config} {path}");
            let evil = format!("GET {path} HTTP/1.1\r\nHost: evil:{port}\r\nConnection: close\r\n\r\n");
            assert_eq!(raw(near, evil.as_bytes()).unwrap().status, 403, "{config} {path}");
        }
        assert_eq!(get(SocketAddr::new(outside.ip(), port), "/healthz").status, 200, "{config}");
    }
}
