//! The examples for several servers: the program, systemd and NATS take their files as they stand.

use crate::{GLASSLINE, glassline};
use glassline_test_support::program::Scratch;
use glassline_test_support::skip;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

/// The folder of the cluster with the keys of its store beside it.
fn cluster() -> Scratch {
    let scratch = Scratch::new("examples-cluster");
    for file in fs::read_dir(examples().join("cluster")).unwrap() {
        let file = file.unwrap().path();
        if file.is_file() {
            fs::copy(&file, scratch.path().join(file.file_name().unwrap())).unwrap();
        }
    }
    for key in ["s3-access.key", "s3-secret.key"] {
        let path = scratch.write(key, "0123456789abcdef\n");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(path, private).unwrap();
    }
    scratch
}

/// What a line of a configuration says.
fn value(text: &str, key: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
    line.unwrap_or_else(|| panic!("{key} in {text}")).to_owned()
}

/// The compose file as JSON, with what its anchors stand for.
fn compose() -> Option<Value> {
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let file = examples().join("cluster/compose.yaml");
    let has_yaml = Command::new("python3").args(["-c", "import yaml"]).output();
    if !has_yaml.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let output = Command::new("python3").args(["-c", script]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn each_server_of_the_cluster_has_a_configuration_that_is_taken_and_a_name_of_its_own() {
    let scratch = cluster();
    let mut nodes = BTreeSet::new();
    for number in 1..=3 {
        let file = scratch.path().join(format!("relay-{number}.toml"));
        let tested = glassline(&["serve", "--config", file.to_str().unwrap(), "--test-config"]);
        assert_eq!(tested.status, Some(0), "{}", tested.stderr);
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(value(&text, "node"), format!("\"relay-{number}\""));
        assert_eq!(value(&text, "address"), format!("\"http://relay-{number}:8080\""));
        nodes.insert(text.replace(&format!("relay-{number}"), "").replace(&format!("Server {number} "), ""));
    }
    let zones = |text: &String| value(text, "zone");
    assert_eq!(
        nodes.iter().map(zones).collect::<BTreeSet<_>>().len(),
        2,
        "they differ in nothing but names and zone"
    );
    assert_eq!(nodes.len(), 2);
    // Without the keys it says what is missing.
    fs::remove_file(scratch.path().join("s3-secret.key")).unwrap();
    let file = scratch.path().join("relay-1.toml");
    let tested = glassline(&["serve", "--config", file.to_str().unwrap(), "--test-config"]);
    assert!(tested.status != Some(0) && tested.stderr.contains("s3-secret.key"), "{}", tested.stderr);
}

#[test]
fn the_compose_file_has_all_that_the_configurations_name() {
    let Some(compose) = compose() else {
        return skip(
            "the_compose_file_has_all_that_the_configurations_name",
            "python3 with yaml is not there",
        );
    };
    let services = compose["services"].as_object().unwrap();
    let text = fs::read_to_string(examples().join("cluster/relay-1.toml")).unwrap();
    for (key, scheme, port) in [("nats", "nats://", ":4222"), ("endpoint", "http://", ":7070")] {
        let named = value(&text, key);
        let hosts: Vec<&str> =
            named.split('"').filter_map(|part| part.strip_prefix(scheme)?.strip_suffix(port)).collect();
        assert!(!hosts.is_empty() && hosts.iter().all(|host| services.contains_key(*host)), "{named}");
    }
    for number in 1..=3 {
        let relay = &services[&format!("relay-{number}")];
        let volumes: Vec<&str> =
            relay["volumes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(volumes[0], format!("./relay-{number}.toml:/etc/glassline/glassline.toml:ro"));
        // A spool belongs to one server.
        assert_eq!(volumes[1], format!("spool-{number}:/var/lib/glassline"));
        assert!(compose["volumes"].get(format!("spool-{number}")).is_some());
        let secrets: Vec<&str> =
            relay["secrets"].as_array().unwrap().iter().filter_map(|it| it["target"].as_str()).collect();
        assert_eq!(secrets, ["/etc/glassline/s3-access.key", "/etc/glassline/s3-secret.key"]);
        let depends = relay["depends_on"].as_object().unwrap();
        assert!(depends.keys().all(|name| services.contains_key(name)));
    }
    for service in services.values() {
        let volumes = service["volumes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let named = volumes.filter(|volume| !volume.starts_with("./"));
        for volume in named {
            assert!(compose["volumes"].get(volume.split(':').next().unwrap()).is_some(), "{volume}");
        }
    }
    // The bucket of the configurations is the folder that is made.
    let bucket = value(&text, "store");
    let bucket = bucket.trim_matches('"').strip_prefix("s3://").unwrap().split('/').next().unwrap();
    assert_eq!(services["bucket"]["command"][2], format!("/data/{bucket}"));
}

#[test]
fn systemd_takes_the_unit_with_what_recordings_add_to_it() {
    let verify = Command::new("systemd-analyze").arg("--version").output();
    if !verify.is_ok_and(|output| output.status.success()) {
        return skip("systemd_takes_the_unit_with_what_recordings_add_to_it", "systemd-analyze is not there");
    }
    let scratch = Scratch::new("examples-systemd");
    let unit = fs::read_to_string(examples().join("glassline.service")).unwrap();
    let unit = unit.replace("/usr/local/bin/glassline", GLASSLINE);
    let unit = scratch.write("glassline.service", unit);
    let folder = scratch.path().join("glassline.service.d");
    fs::create_dir(&folder).unwrap();
    let added = examples().join("cluster/glassline.service.d/recording.conf");
    fs::copy(added, folder.join("recording.conf")).unwrap();
    let verified = |unit: &str| {
        let output = Command::new("systemd-analyze").args(["verify", "--man=no", unit]).output().unwrap();
        // Of other units of this machine it may say what it likes.
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let own: Vec<String> = told
            .lines()
            .filter(|line| line.contains("glassline") || line.contains("recording.conf"))
            .map(str::to_owned)
            .collect();
        own
    };
    assert_eq!(verified(&unit), [""; 0]);
    fs::write(folder.join("recording.conf"), "[Service]\nStateDirectory=/not/relative\n").unwrap();
    assert!(!verified(&unit).is_empty(), "it says what is wrong with it");
}

#[test]
fn nats_takes_its_configuration() {
    let file = examples().join("cluster/nats.conf");
    match Command::new("nats-server").args(["-t", "-c"]).arg(&file).output() {
        Ok(tested) => assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr)),
        Err(_) => skip("nats_takes_its_configuration", "nats-server is not there"),
    }
}
