//! The admin listener: what is the crew's is there, and what viewers need stays with them.

use crate::serve_with;
use glassline_test_support::http::{ask, get, publish};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::Server;
use glassline_test_support::wait::until;
use std::io::Write;
use std::net::SocketAddr;

const SHAPE: Shape = Shape { packets: 5, group: 5 };

/// Where the crew's listener is, by what the server says when it starts.
fn admin_of(server: &Server) -> SocketAddr {
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
