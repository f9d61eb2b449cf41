//! An alarm of `[watch]` arrives at a receiver, signed, and a receiver that hangs holds nothing up.

use crate::commands::assert_fails;
use crate::{GLASSLINE, serve_with};
use glassline_test_support::http::{ask, get, publish};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::{Scratch, Server, run};
use glassline_test_support::wait::{until, until_some};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Of the specification's own example.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";

const SHAPE: Shape = Shape { packets: 5, group: 5 };

/// What a receiver got: head and body of each message.
type Got = Arc<Mutex<Vec<(String, String)>>>;

/// The port of a receiver that answers with 204.
fn receiver() -> (u16, Got) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, got) = (listener.local_addr().unwrap().port(), Got::default());
    let into = Arc::clone(&got);
    // Ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
            let head = head.to_ascii_lowercase();
            let length = head.split("content-length:").nth(1).unwrap().lines().next().unwrap();
            let mut body = vec![0; length.trim().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            into.lock().unwrap().push((head, String::from_utf8(body).unwrap()));
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        }
    });
    (port, got)
}

fn watching(port: u16, silent: u16, scratch: &Scratch) -> (Server, Scratch) {
    let secret = scratch.write("webhook.key", SECRET);
    serve_with(&format!(
        "[watch]\nstreams = ['missing']\nwebhook = ['http://127.0.0.1:{silent}/', 'http://127.0.0.1:{port}/alarms?room=1']\n\
         webhook_secret_file = '{secret}'\nwebhook_networks = ['127.0.0.0/8']\n[watch.absent]\nafter = '200ms'\n"
    ))
}

#[test]
fn an_alarm_is_posted_and_signed_though_another_receiver_hangs() {
    // Accepts connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, got) = receiver();
    let scratch = Scratch::new("webhook");
    let (server, _config) = watching(port, silent.local_addr().unwrap().port(), &scratch);
    let (head, body) = until_some("the alarm", || got.lock().unwrap().first().cloned());
    assert!(head.starts_with("post /alarms?room=1 http/1.1\r\n"), "{head}");
    for field in
        ["webhook-id: ", "webhook-timestamp: ", "webhook-signature: v1,", "content-type: application/json"]
    {
        assert!(head.contains(field), "{field}: {head}");
    }
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["type"], &body["alarm"]), (&"alarm.begun".into(), &"absent".into()), "{body}");
    assert_eq!((&body["stream"], &body["state"]), (&"missing".into(), &"begun".into()), "{body}");
    assert!(body.get("picture").is_none() && body.get("muted").is_none(), "{body}");
    let alarms = get(server.address(), "/api/alarms").json();
    assert!(alarms["active"][0]["picture"].is_null() && alarms["active"][0]["unit"] == "s", "{alarms}");
    assert_eq!(alarms["active"][0]["alarm"], "absent", "{alarms}");
    let delivered = || server.metrics().sum("glassline_webhook_delivered_total", "");
    until("the count", || delivered() == 1.0);
    assert!(server.metrics().sum("glassline_webhook_pending", "") >= 1.0, "it hangs");
}

#[test]
fn a_muted_alarm_is_told_once_the_mute_is_over() {
    let (port, got) = receiver();
    let scratch = Scratch::new("webhook-mute");
    let secret = scratch.write("webhook.key", SECRET);
    let (server, _config) = serve_with(&format!(
        "[publish]\nopen = true\nsilence_timeout = '60s'\n[watch]\nstreams = ['missing']\nwebhook = ['http://127.0.0.1:{port}/']\n\
         webhook_secret_file = '{secret}'\nwebhook_networks = ['127.0.0.0/8']\n\
         [watch.absent]\nlimit = 60\nafter = '200ms'\nclear = '0s'\n"
    ));
    let address = server.address();
    let types = || -> Vec<String> {
        let of = |(_, body): &(String, String)| {
            serde_json::from_str::<serde_json::Value>(body).unwrap()["type"].to_string()
        };
        got.lock().unwrap().iter().map(of).collect()
    };
    let post = |query: &str| {
        ask(address, "POST", &format!("/api/alarms/mute?{query}"), &["Content-Length: 0"]).status
    };
    let active = || get(address, "/api/alarms").json()["active"].clone();
    until("the alarm", || types().len() == 1);
    assert_eq!(active()[0]["muted"], false);
    let mut publisher = publish(address, "/live/missing.ts");
    let mut pictures = (0..).map(|number| SHAPE.picture(number));
    until("its end", || {
        publisher.write_all(&pictures.next().unwrap()).unwrap();
        types().len() == 2
    });

    for (query, status) in [
        ("stream=missing&alarm=silense&for=1m", 400),
        ("stream=missing&alarm=absent&for=25h", 400),
        ("stream=missing&alarm=absent", 400),
        ("stream=other&alarm=absent&for=1m", 404),
        ("stream=missing&alarm=absent&for=24h", 204),
    ] {
        assert_eq!(post(query), status, "{query}");
    }
    let foreign = ["Origin: http://elsewhere.example", "Content-Length: 0"];
    let path = "/api/alarms/mute?stream=missing&alarm=*&for=1h";
    assert_eq!(ask(address, "POST", path, &foreign).status, 403);
    assert_eq!(get(address, path).status, 405);
    let muted = get(address, "/api/alarms").json()["muted"].clone();
    assert_eq!((&muted[0]["stream"], &muted[0]["alarm"]), (&"missing".into(), &"absent".into()), "{muted}");
    assert!(muted[0]["until_utc"].is_string() && muted[1].is_null(), "{muted}");

    drop(publisher);
    until("the muted alarm", || active()[0]["muted"] == true);
    until("its line", || server.process.output().contains("muted alarm: absent"));
    assert_eq!(server.metrics().sum("glassline_alarms_total", ""), 2.0);
    assert_eq!(post("stream=missing&alarm=absent&for=0s"), 204);
    until("the alarm that is still there", || types().len() >= 3);
    assert_eq!(types(), ["alarm.begun", "alarm.over", "alarm.begun"].map(|kind| format!("{kind:?}")));
    assert_eq!(active()[0]["muted"], false);
    assert_eq!(get(address, "/api/alarms").json()["muted"], serde_json::json!([]));
}

#[test]
fn receivers_that_could_do_harm_or_verify_nothing_are_refused() {
    let scratch = Scratch::new("webhook-refused");
    scratch.write("webhook.key", SECRET);
    scratch.write("bad.key", "whsec_short\n");
    for (watch, words) in [
        (
            "webhook = ['http://127.0.0.1/']\nwebhook_secret_file = 'webhook.key'",
            &["watch.webhook", "webhook_networks"][..],
        ),
        (
            "webhook = ['http://[::1]:80/']\nwebhook_secret_file = 'webhook.key'",
            &["watch.webhook", "webhook_networks"],
        ),
        ("webhook = ['file:///etc/passwd']\nwebhook_secret_file = 'webhook.key'", &["watch.webhook"]),
        ("webhook = ['https://alarms.example/']", &["watch.webhook", "webhook_secret_file"]),
        ("webhook = ['https://alarms.example/']\nwebhook_secret_file = 'bad.key'", &["bad.key"]),
        ("webhok = ['https://alarms.example/']", &["webhok", "webhook"]),
        ("[watch.silense]\nenabled = true", &["silense", "silence"]),
    ] {
        let file = scratch.write("glassline.toml", format!("[watch]\n{watch}\n"));
        let outcome = run(GLASSLINE, &["serve", "--config", &file, "--test-config"], 30);
        assert_fails(&outcome, 2, words);
    }
}
