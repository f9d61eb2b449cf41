//! `link discover`, `link listen --announce` and `link connect mdns:NAME`: multicast DNS at the loopback interface.

use crate::{GLASSLINE, glassline};
use glassline_test_support::multicast::loopback_hears_itself;
use glassline_test_support::program::{Running, Scratch};
use glassline_test_support::skip;
use glassline_test_support::wait::{until, until_some};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn listen(name: &str, key: &str, output: &str) -> Running {
    let channel = format!("1:lines,out={output}");
    let arguments =
        ["link", "listen", "127.0.0.1:0", "--announce", name, "--key", key, "--channel", &channel];
    Running::start(Command::new(GLASSLINE).args(arguments))
}

/// Where `name` is, by `link discover`.
fn discovered(name: &str) -> Option<String> {
    let found = glassline(&["link", "discover", "--interface", "lo", "--wait", "2s", "--json"]);
    assert_eq!(found.status, Some(0), "{}", found.stderr);
    let rows: serde_json::Value = serde_json::from_str(&found.text()).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name)?;
    assert_eq!(row["version"], 1);
    Some(row["addresses"][0].as_str().unwrap().to_owned())
}

#[test]
fn a_listener_is_found_by_its_name_wherever_it_comes_back() {
    let test = "a_listener_is_found_by_its_name_wherever_it_comes_back";
    if !loopback_hears_itself() {
        skip(test, "no multicast at the loopback interface, or its port is taken");
        return;
    }
    let scratch = Scratch::new("discovery");
    let key = scratch.file("link.key");
    assert_eq!(glassline(&["key", "new", &key]).status, Some(0));
    let name = format!("ground {}", std::process::id());
    let (first, second) = (scratch.file("first"), scratch.file("second"));
    let mut listener = listen(&name, &key, &first);
    let address = until_some("the name", || discovered(&name));
    assert!(listener.output().contains(&address), "{address}: {}", listener.output());
    let table = until_some("the table", || {
        let table = glassline(&["link", "discover", "--interface", "lo"]).text();
        table.contains(&name).then_some(table)
    });
    assert!(table.starts_with("NAME") && table.contains(&address), "{table}");

    let to = format!("mdns:{name}");
    let arguments = ["link", "connect", &to, "--key", &key, "--channel", "1:in=udp:127.0.0.1:0"];
    let mut connector = Running::start(Command::new(GLASSLINE).args(arguments));
    let input = until_some("the connector's input", || {
        let output = connector.output();
        let (_, rest) = output.split_once("datagrams are taken channel=1 address=")?;
        rest.split_whitespace().next().map(str::to_owned)
    });
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let until_written = |line: &str, file: &str| {
        until(line, || {
            let _ = sender.send_to(line.as_bytes(), &input);
            std::fs::read_to_string(file).is_ok_and(|text| text.contains(line))
        });
    };
    until_written("one", &first);
    // It comes back at another port.
    listener.kill();
    let mut listener = listen(&name, &key, &second);
    until_written("two", &second);
    assert!(connector.output().contains("is at another address now"), "{}", connector.output());
    connector.signal("TERM");
    assert_eq!(connector.wait().code(), Some(0));
    // It takes its name with it.
    listener.signal("TERM");
    assert_eq!(listener.wait().code(), Some(0));
    until("its end", || discovered(&name).is_none());
    let absent = ["link", "connect", &to, "--key", &key, "--channel", "1:in=-", "--connect-timeout", "1s"];
    let absent = glassline(&absent);
    assert_eq!(absent.status, Some(1));
    assert!(absent.stderr.contains("no listener announces itself"), "{}", absent.stderr);
}

/// An unasked answer of multicast DNS (RFC 6762 §6): there is an instance of `kind` whose whole name is `instance`.
fn claim(kind: &str, instance: &str) -> Vec<u8> {
    let name = |text: &str| -> Vec<u8> {
        let labels = text.trim_end_matches('.').split('.');
        labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).chain([0]).collect()
    };
    // Name, type, class IN, 120 s to live, length, data.
    let record = |of: &str, kind: u16, data: &[u8]| {
        let fixed = [&kind.to_be_bytes()[..], &[0, 1, 0, 0, 0, 120], &(data.len() as u16).to_be_bytes()];
        [name(of), fixed.concat(), data.to_vec()].concat()
    };
    let place = [&[0, 0, 0, 0, 0x1b, 0x58][..], &name("claimed.local.")].concat();
    let records = [
        record(kind, 12, &name(instance)),
        record(instance, 33, &place),
        record(instance, 16, b"\x03v=1"),
        record("claimed.local.", 1, &[127, 0, 0, 1]),
    ];
    [&[0, 0, 0x84, 0, 0, 0, 0, 4, 0, 0, 0, 0][..], &records.concat()].concat()
}

#[test]
fn no_name_that_a_stranger_announces_ends_the_search() {
    let test = "no_name_that_a_stranger_announces_ends_the_search";
    if !loopback_hears_itself() {
        skip(test, "no multicast at the loopback interface, or its port is taken");
        return;
    }
    let stranger = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    stranger.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
    let stranger = UdpSocket::from(stranger);
    // As long as the type and the dot before it, with a letter of two bytes in the dot's place.
    let odd = "äglassline-link._udp.local.";
    let good = format!("good {}", std::process::id());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for instance in [odd.to_owned(), format!("{good}._glassline-link._udp.local.")] {
                    let claim = claim("_glassline-link._udp.local.", &instance);
                    stranger.send_to(&claim, (Ipv4Addr::new(224, 0, 0, 251), 5353)).unwrap();
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let both = std::panic::catch_unwind(|| {
            until("both names", || discovered(&good).is_some() && discovered(odd).is_some());
        });
        done.store(true, Ordering::Relaxed);
        both.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    });
}

#[test]
fn waiting_for_a_name_ends_with_a_signal() {
    if !loopback_hears_itself() {
        let reason = "no multicast at the loopback interface, or its port is taken";
        skip("waiting_for_a_name_ends_with_a_signal", reason);
        return;
    }
    let name = format!("mdns:nobody {}", std::process::id());
    let arguments = ["link", "connect", &name, "--insecure", "--channel", "1:in=udp:127.0.0.1:0"];
    for signal in ["INT", "TERM"] {
        let mut connector = Running::start(Command::new(GLASSLINE).args(arguments));
        until("looking", || connector.output().contains("looking for a listener of this name"));
        connector.signal(signal);
        assert_eq!(connector.wait().code(), Some(0), "{signal}: {}", connector.output());
        until("a word", || connector.output().contains("ending"));
    }
}

#[test]
fn what_cannot_be_announced_is_said() {
    let at = ["link", "listen", "127.0.0.1:0", "--insecure", "--channel", "1:out=-"];
    for (name, complaint) in
        [("", "empty"), ("a.b", "dot"), ("a\nb", "control"), (&"x".repeat(64), "63 bytes")]
    {
        let outcome = glassline(&[&at[..], &["--announce", name]].concat());
        assert_eq!(outcome.status, Some(2), "{name:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(complaint), "{name:?}: {}", outcome.stderr);
    }
    let nowhere = glassline(&["link", "discover", "--interface", "nowhere0"]);
    assert!(nowhere.status == Some(1) && nowhere.stderr.contains("nowhere0"), "{}", nowhere.stderr);
}
