use super::*;
use glassline_delivery::policy::Networks;
use glassline_delivery::webhook::AnswerError;
use glassline_test_support::program::Scratch;
use glassline_test_support::tls::Identity;
use glassline_test_support::wait::until;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver as Arrivals};

const AT: Utc = Utc::from_nanos(1_777_863_721_123_000_000);

fn secret() -> WebhookSecret {
    WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()
}

/// A receiver on loopback: each connection goes to `serve`, with its number, in a thread of its own.
struct Local {
    url: Url,
    connections: Arc<AtomicUsize>,
}

impl Local {
    fn new(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Local {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap()).parse().unwrap();
        let (connections, counted) = (Arc::new(AtomicUsize::new(0)), Arc::new(serve));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (number, serve) = (count.fetch_add(1, Ordering::SeqCst), Arc::clone(&counted));
                std::thread::spawn(move || serve(stream, number));
            }
        });
        Local { url, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A request as it came.
#[derive(Debug)]
struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &mut impl Read) -> Option<Request> {
        let mut bytes = Vec::new();
        let mut room = [0; 4096];
        loop {
            let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(end) = end {
                let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
                let request = Request { head, body: bytes[end + 4..].to_vec() };
                let length: usize = request.field("content-length").parse().unwrap();
                if request.body.len() == length {
                    return Some(request);
                }
            }
            match stream.read(&mut room) {
                Ok(0) | Err(_) => return None,
                Ok(count) => bytes.extend_from_slice(&room[..count]),
            }
        }
    }

    fn field(&self, name: &str) -> String {
        let line = |line: &str| {
            Some(line.split_once(": ")?).map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        let mut fields = self.head.split("\r\n").filter_map(line);
        fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).unwrap_or_default()
    }

    /// Whether the signature is that of the standard, by a receiver that has the secret.
    fn is_signed(&self) -> bool {
        let seconds: u64 = self.field("webhook-timestamp").parse().unwrap();
        let now_s = Clock::new().utc().as_nanos() / 1_000_000_000;
        let expected = secret().signature(&self.field("webhook-id"), seconds, &self.body);
        self.field("webhook-signature") == expected && seconds.abs_diff(now_s) < 300
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A receiver that gives each request to the test and answers it with `answer` of its number.
fn answering(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> (Local, Arrivals<Request>) {
    let (arrivals, arrived) = mpsc::channel();
    let arrivals = Mutex::new(arrivals);
    let local = Local::new(move |mut stream, number| {
        let Some(request) = Request::read(&mut stream) else { return };
        // The sender goes on once it is answered: told before, requests arrive in their order.
        let _ = arrivals.lock().unwrap().send(request);
        let _ = stream.write_all(answer(number).as_bytes());
    });
    (local, arrived)
}

fn no_content() -> String {
    "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
}

/// Loopback is listed, and attempts follow each other quickly.
fn settings(urls: &[&Url]) -> Settings {
    let listed = Networks::parse(["127.0.0.0/8", "::1"]).unwrap();
    Settings {
        destinations: Destinations::new(listed),
        policy: Policy {
            retry_min: Duration::from_millis(20),
            retry_max: Duration::from_millis(50),
            ..Policy::default()
        },
        ..Settings::new(urls.iter().map(|url| (*url).clone()).collect(), secret())
    }
}

fn start(settings: Settings) -> WebhookSender {
    WebhookSender::start(settings).unwrap()
}

fn counters(sender: &WebhookSender, index: usize) -> Counters {
    sender.status()[index].counters
}

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn an_event_arrives_signed_at_every_receiver_with_one_name() {
    let ((one, at_one), (other, at_other)) = (answering(|_| no_content()), answering(|_| no_content()));
    let sender = start(settings(&[&one.url, &other.url]));
    sender.send("alarm.begun", AT, &json!({"alarm": "silence", "stream": "hall"})).unwrap();
    let [first, second] = [at_one, at_other].map(|arrived| arrived.recv_timeout(PATIENCE).unwrap());
    for request in [&first, &second] {
        assert!(request.head.starts_with("POST /hook HTTP/1.1\r\n"), "{}", request.head);
        assert!(request.is_signed(), "{request:?}");
        let expected = json!({
            "type": "alarm.begun", "timestamp": "2026-05-04T03:02:01.123Z", "alarm": "silence", "stream": "hall"
        });
        assert_eq!(request.json(), expected);
    }
    assert_eq!(first.field("webhook-id"), second.field("webhook-id"));
    until("both to be counted", || (0..2).all(|index| counters(&sender, index).delivered == 1));
    assert_eq!(sender.status()[0].receiver, one.url.authority());
}

#[test]
fn a_receiver_that_fails_gets_the_same_message_again_signed_anew() {
    let (local, arrived) = answering(|number| match number {
        0 => "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_owned(),
        1 => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
        _ => no_content(),
    });
    let sender = start(settings(&[&local.url]));
    sender.send("alarm.over", AT, &json!({})).unwrap();
    let all: Vec<Request> = (0..3).map(|_| arrived.recv_timeout(PATIENCE).unwrap()).collect();
    assert!(all.iter().all(|request| request.is_signed() && request.body == all[0].body));
    assert!(all.iter().all(|request| request.field("webhook-id") == all[0].field("webhook-id")));
    until("the delivery", || counters(&sender, 0).delivered == 1);
    assert_eq!(counters(&sender, 0).failed_attempts, 2);
}

#[test]
fn a_receiver_that_always_fails_is_given_up_after_a_bounded_number_of_attempts() {
    let (local, _arrived) = answering(|_| "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned());
    let mut settings = settings(&[&local.url]);
    settings.policy.attempts = 3;
    let sender = start(settings);
    sender.send("alarm.begun", AT, &json!({})).unwrap();
    until("the end of it", || counters(&sender, 0).given_up == 1);
    assert_eq!((local.connections(), counters(&sender, 0).failed_attempts), (3, 3));
}

#[test]
fn receivers_that_hang_refuse_or_talk_without_end_hold_up_no_other() {
    let hang = Local::new(|mut stream, _| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let endless_fields = Local::new(|mut stream, _| {
        let _ = Request::read(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"X: y\r\n").is_ok() {}
    });
    let endless_interim = Local::new(|mut stream, _| {
        let _ = Request::read(&mut stream);
        while stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").is_ok() {}
    });
    let drip = Local::new(|mut stream, _| {
        let _ = Request::read(&mut stream);
        // A byte now and then, for as long as the connection is there.
        while stream.write_all(b"H").is_ok() {
            let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
            if matches!(stream.read(&mut [0; 1]), Ok(0)) {
                return;
            }
        }
    });
    let garbage = Local::new(|mut stream, _| {
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let closes = Local::new(|_, _| {});
    let refuses = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap()).parse::<Url>().unwrap()
    };
    let (good, arrived) = answering(|_| no_content());
    let hostile = [
        &hang.url,
        &endless_fields.url,
        &endless_interim.url,
        &drip.url,
        &garbage.url,
        &closes.url,
        &refuses,
    ];
    let urls = [&hostile[..], &[&good.url]].concat();
    let mut settings = settings(&urls);
    settings.exchange_timeout = Duration::from_millis(500);
    let sender = start(settings);
    for number in 0..5 {
        sender.send("alarm.begun", AT, &json!({ "number": number })).unwrap();
    }
    for number in 0..5 {
        assert_eq!(
            arrived.recv_timeout(PATIENCE).unwrap().json()["number"],
            number,
            "in order where nothing fails"
        );
    }
    until("a failure at each of the others", || {
        (0..hostile.len()).all(|index| counters(&sender, index).failed_attempts > 0)
    });
    for (index, url) in hostile.iter().enumerate() {
        assert_eq!(counters(&sender, index).delivered, 0, "{url}");
    }
}

/// One attempt at a receiver that does `serve` once it has the request, with so much time.
fn attempt(timeout: Duration, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Result<Outcome, Failure> {
    let local = Local::new(move |mut stream, _| {
        let _ = Request::read(&mut stream);
        serve(stream);
    });
    let Settings { secret, destinations, .. } = settings(&[]);
    let exchange = Exchange { secret, destinations, connector: None, timeout };
    let message = Message::new("alarm.begun", AT, &json!({}), [0; 16]).unwrap();
    exchange.deliver(&local.url, &message)
}

#[test]
fn an_answer_is_bounded_in_bytes_and_in_time() {
    fn again_and_again(first: &'static [u8], bytes: &'static [u8]) -> impl Fn(TcpStream) + Send + Sync {
        move |mut stream: TcpStream| {
            let _ = stream.write_all(first);
            while stream.write_all(bytes).is_ok() {}
        }
    }
    // Long before the time is over.
    let fields = attempt(PATIENCE, again_and_again(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"));
    assert!(matches!(fields, Err(Failure::Answer(AnswerError::Http(_)))), "{fields:?}");
    let line = attempt(PATIENCE, again_and_again(b"HTTP/1.1 200 ", b"OK "));
    assert!(matches!(line, Err(Failure::Answer(AnswerError::Http(_)))), "{line:?}");
    let interim = attempt(PATIENCE, again_and_again(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"));
    assert!(matches!(interim, Err(Failure::Answer(AnswerError::Endless))), "{interim:?}");
    // A body without end is not read.
    let body = attempt(PATIENCE, again_and_again(b"HTTP/1.1 200 OK\r\n\r\n", b"no end"));
    assert_eq!(body.unwrap(), Outcome::Answered { status: 200, retry_after: None });
    let pause = attempt(PATIENCE, again_and_again(b"HTTP/1.1 503 No\r\nRetry-After: 7\r\n\r\n", b"no end"));
    assert_eq!(pause.unwrap(), Outcome::Answered { status: 503, retry_after: Some(Duration::from_secs(7)) });
    let short = Duration::from_millis(200);
    let silent = attempt(short, |mut stream| drop(stream.read_to_end(&mut Vec::new())));
    assert!(matches!(silent, Err(Failure::Late)), "{silent:?}");
    let slow = attempt(short, |mut stream| {
        stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").unwrap();
        while stream.write_all(b"y").is_ok() && !matches!(stream.read(&mut [0; 1]), Ok(0)) {}
    });
    assert!(matches!(slow, Err(Failure::Late)), "{slow:?}");
    let closed = attempt(PATIENCE, drop);
    assert!(matches!(closed, Err(Failure::Answer(AnswerError::Http(_)) | Failure::Lost(_))), "{closed:?}");
}

#[test]
fn a_panic_ends_one_attempt() {
    let (url, clock) = ("http://127.0.0.1:1/".parse().unwrap(), Clock::new());
    let policy = settings(&[]).policy;
    let shared = Mutex::new(Shared { outbox: Outbox::new(policy, 1), is_over: false });
    let receiver = Arc::new(Receiver { url, shared, changed: Condvar::new() });
    let sender = WebhookSender { receivers: vec![Arc::clone(&receiver)], clock };
    let attempts = AtomicUsize::new(0);
    let thread = std::thread::spawn(move || {
        run(&receiver, clock, |_| match attempts.fetch_add(1, Ordering::SeqCst) {
            0 => panic!("a test asks for it"),
            _ => Ok(Outcome::Answered { status: 200, retry_after: None }),
        });
    });
    sender.send("alarm.begun", AT, &json!({})).unwrap();
    until("the second attempt", || counters(&sender, 0).delivered == 1);
    assert_eq!(counters(&sender, 0).failed_attempts, 1);
    drop(sender);
    thread.join().unwrap();
}

#[test]
fn what_is_not_listed_is_never_connected_to() {
    let (local, _arrived) = answering(|_| no_content());
    let port = local.url.port();
    // A name that leads to loopback, as one would that was bound to it after it was checked.
    let named: Url = format!("http://localhost:{port}/hook").parse().unwrap();
    let mapped: Url = format!("http://[::ffff:127.0.0.1]:{port}/hook").parse().unwrap();
    let number: Url = format!("http://2130706433:{port}/hook").parse().unwrap();
    let mut settings = settings(&[&local.url, &named, &mapped, &number]);
    settings.destinations = Destinations::new(Networks::parse(["10.0.0.0/8"]).unwrap());
    settings.policy.attempts = 2;
    let sender = start(settings);
    sender.send("alarm.begun", AT, &json!({})).unwrap();
    until("all to be given up", || (0..4).all(|index| counters(&sender, index).given_up == 1));
    assert_eq!(local.connections(), 0);
    // The same name arrives where its address is listed.
    let sender = start(self::settings(&[&named]));
    sender.send("alarm.begun", AT, &json!({})).unwrap();
    until("the delivery", || counters(&sender, 0).delivered == 1);
}

#[test]
fn a_redirect_is_not_followed() {
    let (elsewhere, _) = answering(|_| no_content());
    let to = elsewhere.url.authority();
    let (local, _arrived) = answering(move |_| {
        format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{to}/\r\nContent-Length: 0\r\n\r\n")
    });
    let mut settings = settings(&[&local.url]);
    settings.policy.attempts = 2;
    let sender = start(settings);
    sender.send("alarm.begun", AT, &json!({})).unwrap();
    until("the end of it", || counters(&sender, 0).given_up == 1);
    assert_eq!((local.connections(), elsewhere.connections()), (2, 0));
}

#[test]
fn a_receiver_that_is_gone_gets_nothing_more() {
    let (local, _arrived) = answering(|_| "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n".to_owned());
    let sender = start(settings(&[&local.url]));
    sender.send("alarm.begun", AT, &json!({})).unwrap();
    until("the end of it", || counters(&sender, 0).given_up == 1);
    sender.send("alarm.over", AT, &json!({})).unwrap();
    assert_eq!((counters(&sender, 0).given_up, local.connections()), (2, 1));
}

#[test]
fn what_waits_is_bounded_and_the_oldest_is_dropped() {
    let hang = Local::new(|mut stream, _| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut settings = settings(&[&hang.url]);
    settings.policy.max_messages = 3;
    let sender = start(settings);
    sender.send("alarm.begun", AT, &json!({})).unwrap();
    until("the first to be on its way", || hang.connections() == 1);
    for _ in 0..10 {
        sender.send("alarm.begun", AT, &json!({})).unwrap();
    }
    assert_eq!((sender.status()[0].pending, counters(&sender, 0).dropped), (3, 8));
}

#[test]
fn tls_is_spoken_with_those_that_are_trusted_alone() {
    let scratch = Scratch::new("webhook-tls");
    let acceptor = Arc::new(crate::testing_tls::acceptor());
    let trusted = scratch.write("trusted.pem", crate::testing_tls::certificate());
    let other = scratch.write("other.pem", Identity::new(&["localhost"]).chain);
    let (arrivals, arrived) = mpsc::channel();
    let arrivals = Mutex::new(arrivals);
    let local = Local::new(move |stream, _| {
        if let Some(request) = crate::testing_tls::answer_once(&acceptor, stream, no_content().as_bytes()) {
            let _ = arrivals.lock().unwrap().send(request);
        }
    });
    let url: Url = format!("https://localhost:{}/hook", local.url.port()).parse().unwrap();
    let sender = start(Settings { roots: Roots::File(trusted.into()), ..settings(&[&url]) });
    sender.send("alarm.begun", AT, &json!({"alarm": "black"})).unwrap();
    let wire = arrived.recv_timeout(PATIENCE).unwrap();
    let request = Request::read(&mut &wire[..]).unwrap();
    assert!(request.is_signed() && request.json()["alarm"] == "black");
    until("the delivery", || counters(&sender, 0).delivered == 1);
    let sender = start(Settings { roots: Roots::File(other.into()), ..settings(&[&url]) });
    sender.send("alarm.begun", AT, &json!({})).unwrap();
    until("a failure", || counters(&sender, 0).failed_attempts > 0);
    assert_eq!(counters(&sender, 0).delivered, 0);
    let missing = Settings { roots: Roots::File("/nonexistent/ca.pem".into()), ..settings(&[&url]) };
    assert!(WebhookSender::start(missing).unwrap_err().to_string().contains("/nonexistent/ca.pem"));
}

#[test]
fn its_threads_end_with_it() {
    let (local, _arrived) = answering(|_| no_content());
    let sender = start(settings(&[&local.url]));
    let receiver = Arc::downgrade(&sender.receivers[0]);
    drop(sender);
    until("the thread to end", || receiver.strong_count() == 0);
}
