//! What strangers can have an edge fetch and keep: its memory is bounded, and connections to its servers go round addresses.

use crate::edge::{Origin, pattern, whole};
use crate::serve_with;
use glassline_test_support::http::{connect, connect_from, connect_narrow, get, read_answer, read_head};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

const MEBIBYTE: u64 = 1 << 20;

fn edge(origin: &Origin, more: &str) -> (Server, Scratch) {
    serve_with(&format!("[upstream]\nservers = ['{}']\nconnect_timeout = '1s'\n{more}", origin.url()))
}

fn figure(edge: &Server, name: &str) -> u64 {
    edge.metrics().sum(&format!("glassline_{name}"), "") as u64
}

fn send(stream: &mut TcpStream, target: &str) {
    write!(stream, "GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
}

#[test]
fn many_large_objects_at_once_keep_within_the_cache() {
    const CACHE: u64 = 16 * MEBIBYTE;
    let body = Arc::new(pattern(20 << 20));
    let (answer, wanted) = (whole(&body, "Cache-Control: max-age=3600\r\n"), Arc::clone(&body));
    let origin = Origin::start(move |_, connection| connection.write_all(&answer).is_ok());
    let (edge, _scratch) = edge(&origin, "cache = '16MiB'\n");
    let before = edge.own_memory_bytes();
    // Each has the begin of an object of its own, and then reads nothing.
    let mut stalled: Vec<TcpStream> = (0..40)
        .map(|number| {
            let mut client = connect_narrow(edge.address());
            send(&mut client, &format!("/a.m4s?{number}"));
            assert_eq!(read_head(&mut client).status, 200);
            client
        })
        .collect();
    let bound = CACHE + 256 * 64 * 1024;
    let check = || {
        let (held, own) = (figure(&edge, "cache_held_bytes"), edge.own_memory_bytes() - before);
        assert!(held <= bound, "{held} bytes are held");
        assert!(own <= 2 * bound + 32 * MEBIBYTE, "the process has {own} bytes more of its own");
    };
    // One that is larger than all the memory comes whole all the same, and so does another one's.
    for target in ["/other.m4s", "/a.m4s?0"] {
        check();
        let answer = get(edge.address(), target);
        assert!(answer.status == 200 && answer.body == *wanted, "{target}");
    }
    check();
    // Who has waited gets every byte.
    let mut rest = Vec::new();
    stalled[7].read_to_end(&mut rest).unwrap();
    assert!(rest == wanted[wanted.len() - rest.len()..] && rest.len() == wanted.len());
    check();
    // What the kernel buffers for the sockets of those that do not read comes, too.
    let fetched = figure(&edge, "upstream_bytes_total");
    assert!(
        fetched <= 15 * 20 * MEBIBYTE,
        "{fetched} bytes were fetched for the three that were read, and others that were not"
    );
    // All but that one: who asked for the first one's again got one of its own.
    drop(stalled);
    until("the fetches that nobody reads to end", || figure(&edge, "upstream_cancelled_total") == 39);
    until("their memory to be released", || figure(&edge, "cache_held_bytes") <= CACHE);
    until("it to be given back", || edge.own_memory_bytes() <= before + 2 * CACHE);
}

#[test]
fn what_nobody_reads_is_not_fetched_on() {
    let origin = Origin::start(|_, connection| {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
        // Until the edge has had enough.
        connection.write_all(head).is_ok() && matches!(connection.read(&mut [0]), Ok(0) | Err(_))
    });
    let (edge, _scratch) = edge(&origin, "");
    let mut client = connect(edge.address());
    send(&mut client, "/endless.m4s");
    assert_eq!(read_head(&mut client).status, 200);
    drop(client);
    until("it to be cancelled", || figure(&edge, "upstream_cancelled_total") == 1);
    until("its memory to be released", || figure(&edge, "cache_held_bytes") == 0);
    assert_eq!(figure(&edge, "upstream_failed_total"), 0);
}

#[test]
fn addresses_take_turns_where_connections_are_few() {
    let (open, opened) = channel::<()>();
    let opened = Mutex::new(opened);
    let order: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&order);
    let origin = Origin::start(move |asked, connection| {
        seen.lock().unwrap().push(asked.target.clone());
        opened.lock().unwrap().recv().is_ok() && connection.write_all(&whole(b"x", "")).is_ok()
    });
    let (edge, _scratch) = edge(&origin, "connections = 1\n");
    let joined = |count: usize| {
        let metrics = edge.metrics();
        let asked = ["miss", "joined"]
            .map(|found| metrics.sum("glassline_cache_requests_total", &format!("\"{found}\"")) as usize);
        asked.iter().sum::<usize>() == count
    };
    let ask = |from: u8, target: &str| {
        let mut client = connect_from(Ipv4Addr::new(127, 31, 8, from).into(), edge.address());
        send(&mut client, target);
        client
    };
    let mut greedy = vec![ask(1, "/0.m4s")];
    until("the first to be asked for", || order.lock().unwrap().len() == 1);
    for number in 1..=30 {
        greedy.push(ask(1, &format!("/{number}.m4s")));
        // In their order.
        until("a request to be seen", || joined(number + 1));
    }
    let mut others = vec![ask(2, "/b.m4s")];
    until("another one's to be seen", || joined(32));
    // One that the first has asked for long ago, and last.
    others.push(ask(3, "/30.m4s"));
    until("a third one's to be seen", || joined(33));
    // Whoever has gone does not wait any more.
    greedy.drain(1..25);
    until("those to be taken out", || figure(&edge, "upstream_cancelled_total") == 24);
    for _ in 0..8 {
        open.send(()).unwrap();
    }
    for client in greedy.iter_mut().chain(&mut others) {
        let answer = read_answer(client);
        assert_eq!((answer.status, answer.body), (200, b"x".to_vec()));
    }
    let order = order.lock().unwrap();
    assert_eq!(order.len(), 8, "{order:?}");
    let place = |target: &str| order.iter().position(|asked| asked == target).unwrap();
    assert!(place("/b.m4s") <= 2 && place("/30.m4s") <= 3, "{order:?}");
}

#[test]
fn only_the_parameters_that_count_make_an_object_of_its_own() {
    let origin = Origin::start(|asked, connection| {
        connection.write_all(&whole(asked.target.as_bytes(), "Cache-Control: max-age=60\r\n")).is_ok()
    });
    let (edge, _scratch) = edge(&origin, "key_query = ['v']\n");
    for query in ["?v=1&x=1", "?x=2&v=1", "?v=1"] {
        assert_eq!(get(edge.address(), &format!("/a.m4s{query}")).text(), "/a.m4s?v=1", "{query}");
    }
    assert_eq!(get(edge.address(), "/a.m4s?y=v").text(), "/a.m4s");
    assert_eq!((origin.count("/a.m4s?v=1"), origin.count("/a.m4s")), (1, 1));
}
