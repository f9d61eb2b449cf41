//! The user that the server goes on as, and that it says no secrets.

use crate::{GLASSLINE, glassline, serve_with};
use glassline_test_support::http::{ask, connect, get, publish, raw, read_head};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use glassline_test_support::{has_program, skip};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

const SHAPE: Shape = Shape { packets: 60, group: 10 };
const CAP_NET_BIND_SERVICE: u64 = 1 << 10;
const CAP_NET_ADMIN: u64 = 1 << 12;

/// The lines of `/proc/PID/task/*/status` that begin with `field`, without it, of all threads.
fn of_all_threads(server: &Server, field: &str) -> Vec<String> {
    let folder = format!("/proc/{}/task", server.process.id());
    let lines = fs::read_dir(folder).unwrap().map(|thread| {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let line =
            status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_else(|| panic!("{status}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    lines.collect()
}

/// The number of the user "nobody", where this process is root and there is one.
fn nobody(test: &str) -> Option<u32> {
    let number = run("id", &["-u", "nobody"], 60).text();
    let is_root = run("id", &["-u"], 60).text().trim() == "0";
    let found = number.trim().parse().ok().filter(|_| is_root);
    if found.is_none() {
        skip(test, "not root, or no user called nobody");
    }
    found
}

/// Publishes and watches.
fn serves(server: &Server, query: &str) {
    let mut publisher = publish(server.address(), &format!("/live/stage.ts{query}"));
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || server.count("stage", "bytes_in") > 0);
    let mut viewer = connect(server.address());
    viewer.write_all(b"GET /live/stage.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    until("bytes for the viewer", || server.count("stage", "bytes_out") > 0);
}

#[test]
fn root_becomes_another_user_with_all_its_threads() {
    let Some(uid) = nobody("root_becomes_another_user_with_all_its_threads") else { return };
    let group = run("id", &["-g", "nobody"], 60).text().trim().to_owned();
    // What only root may read or write.
    let scratch = Scratch::new("root");
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let key = scratch.write("publish.key", "from-a-file-of-roots\n");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let config = |more: &str| {
        let text = format!(
            "workers = 2\n[publish]\nkey_file = 'publish.key'\n[log]\naccess = 'access.log'\n{more}\n"
        );
        scratch.write("glassline.toml", text)
    };
    for (more, option, capabilities) in [
        ("[process]\nuser = 'nobody'", None, 0),
        ("", Some("nobody"), 0),
        ("[process]\nuser = 'root'\n[viewer]\nmark_pool = '1000-1999'", Some("nobody"), CAP_NET_ADMIN),
    ] {
        let file = config(more);
        let arguments: Vec<&str> = ["--config", &file, "--demo"]
            .into_iter()
            .chain(option.iter().flat_map(|user| ["--user", user]))
            .collect();
        let server = Server::start(GLASSLINE, &arguments);
        serves(&server, "?key=from-a-file-of-roots");
        let user = format!("{uid} {uid} {uid} {uid}");
        let users = of_all_threads(&server, "Uid:");
        // Two workers, the encoder's, the log's.
        assert!(users.len() > 4 && users.iter().all(|shown| *shown == user), "{users:?}");
        let groups = format!("{group} {group} {group} {group}");
        assert!(of_all_threads(&server, "Gid:").iter().all(|shown| *shown == groups));
        assert!(of_all_threads(&server, "Groups:").iter().all(|shown| *shown == group));
        assert!(of_all_threads(&server, "NoNewPrivs:").iter().all(|shown| shown == "1"));
        for field in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
            let shown = of_all_threads(&server, field);
            assert!(
                shown.iter().all(|shown| u64::from_str_radix(shown, 16).unwrap() == capabilities),
                "{field} {shown:?}"
            );
        }
        let log = scratch.path().join("access.log");
        until("a line", || fs::read_to_string(&log).is_ok_and(|log| log.contains("GET /api/streams")));
        assert_eq!(fs::metadata(&log).unwrap().uid(), uid, "it may open its log again");
    }
}

#[test]
fn a_log_that_was_there_stays_its_owners() {
    if nobody("a_log_that_was_there_stays_its_owners").is_none() {
        return;
    }
    let (target, folder) = (Scratch::new("owner"), Scratch::new("link"));
    let file = target.write("other", "not a log\n");
    std::os::unix::fs::symlink(&file, folder.path().join("access.log")).unwrap();
    let config = folder.write("glassline.toml", "[log]\naccess = 'access.log'\n[process]\nuser = 'nobody'\n");
    let server = Server::start(GLASSLINE, &["--config", &config]);
    assert_eq!(get(server.address(), "/gen204").status, 204);
    assert_eq!(fs::metadata(&file).unwrap().uid(), 0);
}

#[test]
fn it_may_listen_on_low_ports_again_where_it_does() {
    let Some(uid) = nobody("it_may_listen_on_low_ports_again_where_it_does") else { return };
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let Some(port) = (600..1023).rev().find(free) else {
        return skip("it_may_listen_on_low_ports_again_where_it_does", "no free port below 1024");
    };
    let scratch = Scratch::new("low");
    let config = scratch.write("glassline.toml", "[process]\nuser = 'nobody'\ngroup = 'root'\n");
    // The port is the configuration's as the command line changes it.
    let server = Server::start_at(GLASSLINE, &format!("127.0.0.1:{port}"), &["--config", &config]);
    serves(&server, "");
    assert!(of_all_threads(&server, "Uid:").iter().all(|shown| shown.starts_with(&format!("{uid} "))));
    assert!(of_all_threads(&server, "Gid:").iter().all(|shown| shown == "0 0 0 0"));
    let shown = of_all_threads(&server, "CapEff:");
    assert!(
        shown.iter().all(|shown| u64::from_str_radix(shown, 16).unwrap() == CAP_NET_BIND_SERVICE),
        "{shown:?}"
    );
}

#[test]
fn the_other_user_reads_the_configuration_again() {
    let Some(uid) = nobody("the_other_user_reads_the_configuration_again") else { return };
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = (300..600).rev().filter(free);
    let (Some(first), Some(second)) = (ports.next(), ports.next()) else {
        return skip("the_other_user_reads_the_configuration_again", "no two free ports below 1024");
    };
    // Its folder, so that it finds its configuration and may make its log anew.
    let scratch = Scratch::new("again");
    std::os::unix::fs::chown(scratch.path(), Some(uid), None).unwrap();
    let config = |admin: &str, more: &str| {
        let text = format!(
            "[admin]\nlisten = [{admin}]\n[log]\naccess = 'access.log'\n[process]\nuser = 'nobody'\n{more}\n"
        );
        scratch.write("glassline.toml", text)
    };
    let file = config(&format!("'127.0.0.1:{first}'"), "");
    let server = Server::start(GLASSLINE, &["--config", &file]);
    let publishes = |query: &str| {
        ask(server.address(), "PUT", &format!("/live/stage.ts{query}"), &["Content-Length: 0"]).status
    };
    assert_eq!(publishes(""), 204);
    let read_again = |times: usize, words: &str| {
        server.process.signal("HUP");
        until(words, || server.process.output().matches(words).count() == times);
    };
    // A low port that is new, a log that was moved away, a key that was not there.
    std::fs::rename(scratch.path().join("access.log"), scratch.path().join("access.log.1")).unwrap();
    config(&format!("'127.0.0.1:{second}'"), "[stream.stage]\npublish_key = 'a-key-of-its-own'");
    read_again(1, "the configuration was read again");
    let admin = format!("127.0.0.1:{second}").parse().unwrap();
    assert_eq!(get(admin, "/healthz").status, 200);
    assert_eq!((publishes(""), publishes("?key=a-key-of-its-own")), (401, 204));
    until("the new log", || scratch.path().join("access.log").exists());
    // What it gave up it does not get back, and goes on as it was.
    config(&format!("'127.0.0.1:{second}'"), "[viewer]\nmark = 7");
    read_again(1, "the configuration stays as it was");
    assert!(server.process.output().contains("SO_MARK"), "{}", server.process.output());
    assert_eq!((publishes(""), get(admin, "/healthz").status), (401, 200));
}

#[test]
fn root_is_warned_of_being_root() {
    if nobody("root_is_warned_of_being_root").is_none() {
        return;
    }
    let words = "runs as root; give it a user of its own";
    let (server, _scratch) = serve_with("");
    until("the warning", || server.process.output().contains(words));
    let (server, _scratch) = serve_with("[process]\nuser = 'root'\n");
    serves(&server, "");
    assert!(!server.process.output().contains(words), "{}", server.process.output());
}

#[test]
fn who_cannot_become_a_user_says_why() {
    let outcome = glassline(&["serve", "--listen", "127.0.0.1:0", "--user", "no-such-user-here"]);
    assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("no user \"no-such-user-here\" in /etc/passwd"), "{}", outcome.stderr);

    // As somebody else, one can be only that one.
    let name = "who_cannot_become_a_user_says_why";
    let Some(uid) = nobody(name) else { return };
    let uid = uid.to_string();
    let as_nobody = ["--reuid", &uid, "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--"];
    let is_allowed = has_program("setpriv")
        && run("setpriv", &[&as_nobody[..], &["test", "-x", GLASSLINE]].concat(), 60).status == Some(0);
    if !is_allowed {
        return skip(name, "no setpriv, or others may not execute the program where it is");
    }
    let serve = [&as_nobody[..], &[GLASSLINE, "serve", "--listen", "127.0.0.1:0", "--user"]].concat();
    let outcome = run("setpriv", &[&serve[..], &["root"]].concat(), 60);
    assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("start it as root or as that user"), "{}", outcome.stderr);
    let mut command = std::process::Command::new("setpriv");
    let same = Running::start(command.args(&serve).arg("nobody"));
    until("the server", || same.output().contains("open http://"));
}

#[test]
fn the_systemd_unit_is_one() {
    if !has_program("systemd-analyze") {
        return skip("the_systemd_unit_is_one", "systemd-analyze is not installed");
    }
    const UNIT: &str = include_str!("../../examples/glassline.service");
    let scratch = Scratch::new("unit");
    let file = scratch.write("glassline.service", UNIT.replace("/usr/local/bin/glassline", GLASSLINE));
    let outcome = run("systemd-analyze", &["verify", "--man=no", &file], 60);
    let words = outcome.text() + &outcome.stderr;
    assert!(outcome.status == Some(0) && !words.contains("glassline.service"), "{words}");
    // What it executes is a command line that the program takes.
    let commands: Vec<_> =
        UNIT.lines().filter_map(|line| line.split_once("=/usr/local/bin/glassline ")).collect();
    assert_eq!(commands.len(), 3);
    for (_, arguments) in commands {
        let arguments: Vec<_> = arguments.split(' ').chain(["--help"]).collect();
        assert_eq!(glassline(&arguments).status, Some(0), "{arguments:?}");
    }
}

#[test]
fn no_log_tells_a_secret() {
    const SECRETS: [&str; 9] = [
        "general-publish-secret",
        "general-viewer-secret",
        "stage-publish-secret",
        "stage-viewer-secret",
        "a-wrong-secret",
        "upstream-user-secret",
        "upstream-password-secret",
        "upstream-query-secret",
        "referer-secret",
    ];
    // Nobody listens at the source: it fails, and says so again and again.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let keys = Scratch::new("secrets");
    let viewer_key = keys.write("viewer.key", "stage-viewer-secret\n");
    let (server, scratch) = serve_with(&format!(
        "[publish]\nkey = 'general-publish-secret'\n[viewer]\nkey = 'general-viewer-secret'\n\
         [stream.stage]\npublish_key = 'stage-publish-secret'\nviewer_key_file = '{viewer_key}'\n\
         [stream.pulled]\nsource = 'http://upstream-user-secret:upstream-password-secret@{gone}/live/x.ts?k=upstream-query-secret'\n\
         [pull]\nretry_min = '300ms'\n[log]\nlevel = 'trace'\naccess = 'access.log'\n"
    ));
    let address = server.address();
    // Base64 of "any:stage-publish-secret" and "any:a-wrong-secret".
    let (right, wrong) = ("YW55OnN0YWdlLXB1Ymxpc2gtc2VjcmV0", "YW55OmEtd3Jvbmctc2VjcmV0");
    let put = |target: &str, fields: &[&str]| {
        ask(address, "PUT", target, &[&["Content-Length: 0"], fields].concat()).status
    };
    assert_eq!(put("/live/stage.ts?key=stage-publish-secret", &[]), 204);
    assert_eq!(put("/live/hall.ts?key=general-publish-secret", &[]), 204);
    assert_eq!(put("/live/stage.ts?key=a-wrong-secret", &[]), 401);
    assert_eq!(put("/live/stage.ts", &[&format!("Authorization: Basic {right}")]), 204);
    assert_eq!(put("/live/stage.ts", &[&format!("Authorization: Basic {wrong}")]), 401);
    assert_eq!(put("/live/stage.ts", &["Authorization: Bearer a-wrong-secret"]), 401);
    // Malformed requests that hold secrets.
    assert_eq!(put("/live/stage.ts?key=stage-publish-secret", &["Content-Length: x"]), 400);
    raw(address, b"PUT /live/stage.ts?key=stage-publish-secret HTTP/9\r\n\r\n");

    let mut publisher = publish(address, "/live/stage.ts?key=stage-publish-secret");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || server.count("stage", "bytes_in") > 0);
    let url = server.url("/live/stage.ts");
    let signed = glassline(&["sign", &url, "--key-file", &viewer_key]).text();
    let token = signed.trim().split_once("token=").unwrap().1.to_owned();
    let target = signed.trim().strip_prefix(&server.url("")).unwrap().to_owned();
    let mut viewer = connect(address);
    write!(viewer, "GET {target} HTTP/1.1\r\nHost: h\r\nReferer: http://h{target}&r=referer-secret\r\n\r\n")
        .unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    assert_eq!(ask(address, "HEAD", &target, &[]).status, 200);
    assert_eq!(get(address, &target.replace("stage", "pulled")).status, 401, "another stream's token");
    let general_key = keys.write("general.key", "general-viewer-secret\n");
    let url = server.url("/live/pulled.ts");
    let signed = glassline(&["sign", &url, "--key-file", &general_key]).text();
    assert_eq!(get(address, signed.trim().strip_prefix(&server.url("")).unwrap()).status, 503);
    assert_eq!(get(address, "/live/stage.ts?token=a-wrong-secret&expires=9").status, 401);
    assert_eq!(get(address, "/watch/stage?token=a-wrong-secret").status, 200);
    drop((viewer, publisher));

    let access = || fs::read_to_string(scratch.path().join("access.log")).unwrap();
    until("the viewer's line", || access().contains("\"GET /live/stage.ts HTTP/1.1\" 200"));
    until("the log of it all", || {
        let log = server.process.output();
        ["publisher refused", "viewer joined", "viewer refused", "bad request", "source is not there"]
            .iter()
            .all(|words| log.contains(words))
    });
    let told = [
        server.process.output(),
        access(),
        get(address, "/api/streams").text(),
        get(address, "/metrics").text(),
    ];
    for secret in SECRETS.iter().copied().chain([right, wrong, &token]) {
        assert!(told.iter().all(|text| !text.contains(secret)), "{secret} is told: {told:#?}");
    }
}
