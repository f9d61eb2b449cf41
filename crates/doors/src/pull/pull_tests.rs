use super::testing::pull;
use super::*;
use crate::testing::{House, ts};
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server that gives each connection a stream that goes on. Counts connections.
fn server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/live/x.ts", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for connection in listener.incoming() {
            let (mut connection, mut head, mut byte) = (connection.unwrap(), Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && connection.read(&mut byte).is_ok_and(|count| count == 1) {
                head.push(byte[0]);
            }
            theirs.fetch_add(1, Ordering::SeqCst);
            // A client that has gone is none of its business.
            let _ = connection.write_all(&[&b"HTTP/1.1 200 OK\r\n\r\n"[..], &ts(3)].concat());
            open.push(connection);
        }
    });
    (url, count)
}

fn pulls(house: &House, pulls: &[Pull]) {
    let mut table = house.pulls.lock().unwrap();
    *table = Arc::new(PullTable::new(pulls, &table));
}

fn fetcher(house: &Arc<House>) -> Fetcher {
    let mut fetcher = Fetcher::new(Arc::clone(house) as Arc<dyn Sources>).unwrap();
    fetcher.rearrange();
    fetcher
}

fn sources(fetcher: &Fetcher) -> Vec<Option<String>> {
    let told = |fetch: &Option<Fetch>| fetch.as_ref().map(|it| it.entry().source.to_string());
    fetcher.fetches.iter().map(told).collect()
}

#[test]
fn a_token_has_a_sources_number_and_how_many_sockets_it_has_had() {
    assert_eq!(token(5, 3), 3 << 32 | 5);
    assert_eq!(token(5, 3 | 1 << 31), token(5, 3), "one bit is left for the thread's own");
    assert_ne!(token(u32::MAX as usize, u32::MAX), WAKE);
}

#[test]
fn sources_come_and_go_with_the_table_and_numbers_are_not_given_again() {
    let house = House::new();
    pulls(&house, &[pull("a", "http://h/a"), pull("b", "udp://127.0.0.1:0")]);
    let mut fetcher = fetcher(&house);
    let before = sources(&fetcher);
    assert_eq!(before.iter().flatten().count(), 2);
    pulls(&house, &[pull("b", "udp://127.0.0.1:0"), pull("c", "http://h/c")]);
    fetcher.rearrange();
    let after = sources(&fetcher);
    let kept: Vec<&Option<String>> =
        before.iter().zip(&after).filter(|(old, new)| old == new).map(|(_, new)| new).collect();
    assert_eq!(kept, [&Some("udp://127.0.0.1:0".to_owned())]);
    assert_eq!((after.len(), after[2].as_deref()), (3, Some("http://h/c")));
    assert_eq!(after.iter().flatten().count(), 2);
}

#[test]
fn streams_are_pulled_until_the_thread_has_to_return_and_then_go_on() {
    let (house, (url, connections)) = (House::new(), server());
    pulls(&house, &[pull("a", &url)]);
    let pulling = Pulling::start(fetcher(&house)).unwrap();
    until("the stream", || house.is_published("a"));
    house.halt();
    let mut fetcher = pulling.join().expect("it did not panic");
    assert_eq!(fetcher.states().len(), 1);
    assert!(house.is_published("a"), "it keeps its connection");
    house.go_on();
    fetcher.rearrange();
    let pulling = Pulling::start(fetcher).unwrap();
    // The thread looks at the table when it is woken.
    pulls(&house, &[pull("a", &url), pull("b", &url.replace("x.ts", "y.ts"))]);
    house.waker.lock().unwrap().as_ref().unwrap().wake();
    until("the other stream", || house.is_published("b"));
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    pulls(&house, &[]);
    house.waker.lock().unwrap().as_ref().unwrap().wake();
    until("their end", || !house.is_published("a") && !house.is_published("b"));
    house.halt();
    assert!(pulling.join().is_some_and(|fetcher| fetcher.states().is_empty()));
}

#[test]
fn a_name_is_resolved_and_its_stream_pulled() {
    let (house, (url, _)) = (House::new(), server());
    pulls(&house, &[pull("a", &url.replace("127.0.0.1", "localhost"))]);
    let pulling = Pulling::start(fetcher(&house)).unwrap();
    until("the stream", || house.is_published("a"));
    house.halt();
    assert!(pulling.join().is_some());
}

#[test]
fn a_source_that_panics_gives_its_slot_back_and_is_asked_again_after_a_pause() {
    let house = House::new();
    pulls(&house, &[pull("a", "udp://127.0.0.1:0"), pull("b", "udp://127.0.0.1:0")]);
    let mut fetcher = fetcher(&house);
    // Both names have the one source.
    let before = house.streams().clock().now();
    let due = fetcher.with(0, |_, _| panic!("a test's"));
    assert!(due >= before + PAUSE_AFTER_PANIC && fetcher.fetches[0].is_none());
    assert_eq!(fetcher.begin_again(before), due, "not before");
    assert!(fetcher.fetches.iter().flatten().next().is_none());
    assert_eq!(fetcher.begin_again(due), Time::NEVER);
    assert_eq!(sources(&fetcher), [None, Some("udp://127.0.0.1:0".to_owned())]);
}

#[test]
fn a_source_that_has_panicked_and_is_wanted_no_more_is_not_asked_again() {
    let house = House::new();
    pulls(&house, &[pull("a", "udp://127.0.0.1:0")]);
    let mut fetcher = fetcher(&house);
    let due = fetcher.with(0, |_, _| panic!("a test's"));
    pulls(&house, &[]);
    fetcher.rearrange();
    assert_eq!(fetcher.begin_again(due), Time::NEVER);
    assert_eq!(sources(&fetcher), [None]);
}

#[test]
fn what_another_process_left_is_taken_for_the_same_streams_alone() {
    let house = House::new();
    pulls(&house, &[pull("a", "udp://127.0.0.1:0")]);
    let mut old = fetcher(&house);
    old.with(0, |fetch, context| fetch.handle_timeout(context));
    for (stream, taken) in [("a", 1), ("b", 0)] {
        let (state, (index, socket)) = old.states().pop().expect("its socket is open");
        assert_eq!((index, state.names.as_slice()), (0, &["a".to_owned()][..]));
        let next = House::new();
        pulls(&next, &[pull(stream, "udp://127.0.0.1:0")]);
        let mut next = fetcher(&next);
        next.restore(state, socket.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(next.states().len(), taken, "{stream}");
    }
}

#[test]
fn only_a_source_over_tls_leaves_a_session_behind() {
    let house = House::new();
    pulls(&house, &[pull("a", "http://127.0.0.1:9/x")]);
    let mut fetcher = fetcher(&house);
    assert!(fetcher.part_with(0).is_none() && fetcher.part_with(7).is_none());
    assert!(fetcher.fetches[0].is_none(), "the thread has no more use for it");
}
