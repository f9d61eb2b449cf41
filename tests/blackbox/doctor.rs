//! `doctor`: what it says of a machine that it does not know, and of configurations that cannot work.

use crate::{GLASSLINE, glassline};
use glassline_test_support::program::{Outcome, Scratch, run};
use glassline_test_support::tls::Identity;
use glassline_test_support::{has_program, skip};
use serde_json::Value;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

fn rows(outcome: &Outcome) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&outcome.stdout).unwrap_or_else(|error| {
        panic!("{error}: {} {}", outcome.text(), outcome.stderr);
    });
    report.as_array().unwrap().clone()
}

/// The row that begins so.
fn row<'a>(rows: &'a [Value], check: &str) -> &'a Value {
    let found: Vec<_> = rows.iter().filter(|row| row["check"].as_str().unwrap().starts_with(check)).collect();
    assert_eq!(found.len(), 1, "{check}: {rows:#?}");
    found[0]
}

fn failing(rows: &[Value]) -> Vec<&str> {
    let failing = rows.iter().filter(|row| row["state"] == "fails");
    failing.map(|row| row["check"].as_str().unwrap()).collect()
}

#[test]
fn a_machine_is_looked_at_and_each_row_has_its_keys() {
    let scratch = Scratch::new("doctor");
    let config = scratch.write("glassline.toml", "listen = ['127.0.0.1:0']\n");
    let outcome = glassline(&["doctor", "--config", &config, "--json"]);
    assert_eq!(outcome.status, Some(0), "{} {}", outcome.text(), outcome.stderr);
    let rows = rows(&outcome);
    for row in &rows {
        let state = row["state"].as_str().unwrap();
        assert!(matches!(state, "ok" | "better"), "{row}");
        for key in ["check", "now", "wanted"] {
            assert!(row[key].as_str().is_some_and(|text| !text.is_empty()), "{row}");
        }
        // What could be better says what to type, and what for.
        assert_eq!(row["command"].is_string(), state == "better", "{row}");
        assert!(state == "ok" || row["worth"].as_str().is_some_and(|text| !text.is_empty()), "{row}");
    }
    for check in [
        "kernel",
        "descriptors",
        "memory",
        "wall clock",
        "net.core.somaxconn",
        "io_uring",
        "port TCP 127.0.0.1:0",
    ] {
        row(&rows, check);
    }
    let text = glassline(&["doctor", "--config", &config]);
    assert_eq!(text.status, Some(0), "{}", text.stderr);
    let better = rows.iter().filter(|row| row["state"] == "better").count();
    let last = text.text().lines().last().unwrap().to_owned();
    assert_eq!(last, format!("0 will fail, {better} could be better, {} ok", rows.len() - better));
}

#[test]
fn a_configuration_that_cannot_work_fails_until_it_can() {
    let test = "a_configuration_that_cannot_work_fails_until_it_can";
    if !has_program("sh") {
        return skip(test, "no sh");
    }
    let scratch = Scratch::new("doctor-fails");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (port, udp) = (taken.local_addr().unwrap(), datagrams.local_addr().unwrap());
    Identity::authority(&["old.example"], 2021).write(&scratch, "site");
    let config = scratch.write(
        "glassline.toml",
        format!(
            "listen = ['{port}']\n[viewer]\nmax_viewers = 5000\n\
             [tls]\nlisten = ['127.0.0.1:0']\ncertificates = [{{ chain = 'site.pem', key = 'site.key' }}]\n\
             [stream.hall]\nsource = 'udp://{udp}'\n[encode.film]\ninput = 'film.y4m'\n"
        ),
    );
    // As many descriptors as a shell often has.
    let script = format!("ulimit -n 1024 && exec {GLASSLINE} doctor --json --config {config}");
    let outcome = run("sh", &["-c", &script], 60);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("5 things will fail"), "{}", outcome.stderr);
    let found = rows(&outcome);
    for (check, words) in [
        (format!("port TCP {port}"), "taken"),
        (format!("port UDP {udp}"), "taken"),
        ("certificate ".to_owned(), "expired"),
        ("encode.film.input".to_owned(), "No such file"),
        ("descriptors".to_owned(), "1024"),
    ] {
        let row = row(&found, &check);
        assert!(row["state"] == "fails" && row["now"].as_str().unwrap().contains(words), "{row}");
    }
    let enough = row(&found, "descriptors")["command"].as_str().unwrap().to_owned();
    // Each is mended by what it says.
    drop((taken, datagrams));
    Identity::authority(&["new.example"], 2099).write(&scratch, "site");
    scratch.write("film.y4m", "YUV4MPEG2 W16 H16 F25:1\n");
    let (_, enough) = enough.split_once("LimitNOFILE=").unwrap();
    let script = format!(
        "ulimit -n {} && exec {GLASSLINE} doctor --json --config {config}",
        enough.trim_end_matches(')')
    );
    let outcome = run("sh", &["-c", &script], 60);
    if outcome.stderr.contains("ulimit") {
        return skip(test, "the hard limit of descriptors is lower than 5,544");
    }
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert_eq!(failing(&rows(&outcome)), Vec::<&str>::new());
}

#[test]
fn key_files_of_links_and_webhooks_are_looked_at_and_links_that_do_not_go_together() {
    let scratch = Scratch::new("doctor-keys");
    let pair = scratch.file("pair.key");
    assert_eq!(glassline(&["key", "new", "--pair", &pair]).status, Some(0));
    let config = scratch.write(
        "glassline.toml",
        "listen = ['127.0.0.1:0']\n[stream.a]\nsource = 'link://127.0.0.1:0'\nlink_key_file = 'a.key'\n\
         [stream.b]\noutputs = ['link://127.0.0.1:9?key_file=b.key']\n\
         [stream.c]\noutputs = ['link://127.0.0.1:9?key_file=pair.key']\n\
         [watch]\nwebhook = ['https://alarms.example/']\nwebhook_secret_file = 'c.key'\n",
    );
    let outcome = glassline(&["doctor", "--json", "--config", &config]);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    let found = rows(&outcome);
    for (check, words) in [
        (format!("stream.a.link_key_file {}", scratch.file("a.key")), "No such file"),
        (format!("stream.b.outputs {}", scratch.file("b.key")), "No such file"),
        (format!("watch.webhook_secret_file {}", scratch.file("c.key")), "No such file"),
        ("stream.c (its links)".to_owned(), "is one half of a key pair"),
    ] {
        let row = row(&found, &check);
        assert!(row["state"] == "fails" && row["now"].as_str().unwrap().contains(words), "{row}");
    }
    assert_eq!(row(&found, &format!("stream.c.outputs {pair}"))["state"], "ok");
    assert_eq!(failing(&found).len(), 4, "{found:#?}");
}

#[test]
fn what_an_ordinary_user_may_not_read_is_unknown_and_no_failure() {
    let test = "what_an_ordinary_user_may_not_read_is_unknown_and_no_failure";
    let scratch = Scratch::new("doctor-user");
    Identity::authority(&["site.example"], 2099).write(&scratch, "site");
    let key = scratch.write("publish.key", "a-long-random-text");
    let config = scratch.write(
        "glassline.toml",
        "listen = ['127.0.0.1:0']\n[publish]\nkey_file = 'publish.key'\n\
         [tls]\nlisten = ['127.0.0.1:0']\ncertificates = [{ chain = 'site.pem', key = 'site.key' }]\n\
         [log]\naccess = 'logs/access.log'\n",
    );
    let mut command = Command::new(GLASSLINE);
    command.args(["doctor", "--json", "--config", &config]);
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if is_root {
        // The files stay root's own.
        fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
        command.uid(65_534).gid(65_534);
    } else {
        for file in [key, scratch.file("site.key")] {
            fs::set_permissions(file, PermissionsExt::from_mode(0o000)).unwrap();
        }
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            return skip(test, &format!("another user cannot start the program where it lies: {error}"));
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    for check in ["certificate", "publish.key_file"] {
        let row = row(&report, check);
        assert!(row["state"] == "better" && row["now"].as_str().unwrap().starts_with("unknown: "), "{row}");
        assert_eq!(row["command"], format!("sudo glassline doctor --config {config}"));
    }
    // A folder that systemd may make.
    let row = row(&report, "log.access");
    assert!(row["state"] == "better" && row["now"].as_str().unwrap().contains("No such file"), "{row}");
    let command = row["command"].as_str().unwrap();
    assert!(command.contains("-p LogsDirectory=") && command.ends_with(&config), "{row}");
}

#[test]
fn a_configuration_that_cannot_be_read_is_wrong_usage() {
    let scratch = Scratch::new("doctor-bad");
    let bad = scratch.write("bad.toml", "listen = ['[::]:8080']\nlissten = 3\n");
    for (config, words) in [(bad.as_str(), "bad.toml:2"), ("/nonexistent/glassline.toml", "cannot read")] {
        let outcome = glassline(&["doctor", "--config", config]);
        assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(words) && outcome.stdout.is_empty(), "{}", outcome.stderr);
    }
}
