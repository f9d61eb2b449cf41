//! Answers that take a while to make: metrics and lists of many streams, up to megabytes of text. A thread of its own makes them, one
//! after the other, so that no worker's viewers wait for that.
//!
//! ```text
//! request ─► worker ─ ask ─► bounded queue ─► thread "answers": Site::respond ─► LongAnswer ─► the connection, on its worker
//! ```
//! Where the queue is full, the request is answered 503 at once: whatever clients ask for, it holds a bounded number of requests. One
//! address has a few of them, and half are for operators alone, so that requests without end of strangers keep neither each other nor
//! monitoring from an answer.

use crate::inboxes::Inboxes;
use crate::listen::ListenerRole;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Response, problem};
use glassline_edge::Wake;
use glassline_io::containment::{Border, contain};
use glassline_streams::ConnectionId;
use glassline_streams::presence::subscriber;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Requests that wait for the thread. Each takes milliseconds; monitoring asks once in seconds.
const QUEUE_MAX: usize = 32;
/// Those of them that are not of operators; and those of one address.
const OTHERS_MAX: usize = QUEUE_MAX / 2;
const PER_ADDRESS_MAX: usize = 4;

/// What is being made for a connection. Dropping it lets the thread pass over it.
#[derive(Debug, Default)]
pub(super) struct LongAnswer(Mutex<Option<Response>>);

impl LongAnswer {
    /// The answer, once it is there.
    pub(super) fn take(&self) -> Option<Response> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    /// The listener that it came to.
    pub(super) door: ListenerRole,
    pub(super) peer: IpAddr,
    /// There is room for operators whatever others do.
    pub(super) is_operator: bool,
}

/// A request that waits for the thread.
struct Job {
    request: Box<Request>,
    client: Client,
    connection: ConnectionId,
    answer: Weak<LongAnswer>,
    /// `None` of operators.
    place: Option<Place>,
}

/// The addresses with a request that waits, an entry for each request; operators' are not among them.
type Waiting = Arc<Mutex<Vec<IpAddr>>>;

/// A request's entry among those that wait, until it is dropped.
struct Place {
    waiting: Waiting,
    address: IpAddr,
}

impl Place {
    /// `None` where `address`, or all, have as many as they may.
    fn take(waiting: &Waiting, address: IpAddr) -> Option<Place> {
        let address = subscriber(address);
        let mut list = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let own = list.iter().filter(|other| **other == address).count();
        if list.len() >= OTHERS_MAX || own >= PER_ADDRESS_MAX {
            return None;
        }
        list.push(address);
        Some(Place { waiting: Arc::clone(waiting), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut list = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = list.iter().position(|address| *address == self.address) {
            list.swap_remove(at);
        }
    }
}

/// Makes an answer; `None` where the relay has gone, which the thread then ends with.
pub(super) type Maker = dyn Fn(&Request, ListenerRole, IpAddr) -> Option<Response> + Send + Sync;

/// The queue in front of the thread, which begins with the first request and ends with the relay.
#[derive(Default)]
pub(super) struct LongAnswers {
    maker: OnceLock<Arc<Maker>>,
    queue: OnceLock<Option<SyncSender<Job>>>,
    waiting: Waiting,
}

impl LongAnswers {
    /// Has answers made by `maker`, which does not keep the relay. Called before [`LongAnswers::ask`].
    pub(super) fn set_maker(&self, maker: Arc<Maker>) {
        let _ = self.maker.set(maker);
    }

    /// Has the answer to `request` made, for `connection`, which is woken when it is there. `None` where too many wait.
    pub(super) fn ask(
        &self,
        inboxes: &Arc<Inboxes>,
        request: &Request,
        client: Client,
        connection: ConnectionId,
    ) -> Option<Arc<LongAnswer>> {
        let maker = self.maker.get()?;
        let place = if client.is_operator { None } else { Some(Place::take(&self.waiting, client.peer)?) };
        let queue = self.queue.get_or_init(|| match start(maker, inboxes) {
            Ok(queue) => Some(queue),
            Err(error) => {
                tracing::error!(%error, "the thread that makes long answers cannot be started");
                None
            }
        });
        let answer = Arc::new(LongAnswer::default());
        let request = Box::new(request.clone());
        let job = Job { request, client, connection, answer: Arc::downgrade(&answer), place };
        queue.as_ref()?.try_send(job).ok()?;
        Some(answer)
    }
}

/// The thread does not keep the relay: it ends when that has gone, and the queue with it.
fn start(maker: &Arc<Maker>, inboxes: &Arc<Inboxes>) -> io::Result<SyncSender<Job>> {
    let (queue, jobs) = sync_channel(QUEUE_MAX);
    let (maker, inboxes) = (Arc::clone(maker), Arc::clone(inboxes));
    std::thread::Builder::new().name("answers".to_owned()).spawn(move || run(&*maker, &inboxes, &jobs))?;
    Ok(queue)
}

fn run(make: &Maker, inboxes: &Inboxes, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        // Its place is free when its answer is made.
        let Job { request, client, connection, answer, place: _place } = job;
        let Some(answer) = answer.upgrade() else { continue };
        let response = match contain(Border::Connection, || make(&request, client.door, client.peer)) {
            Ok(Some(response)) => response,
            Ok(None) => return,
            Err(_) => problem(500, "an internal fault", "See the server's log, and report it."),
        };
        *answer.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(response);
        inboxes.wake(connection.worker, vec![connection.token]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::Hub;
    use crate::inboxes::Message;
    use crate::test_streams::hub_with;
    use crate::{Settings, Site};
    use glassline_delivery::http1::Limits;
    use glassline_delivery::http1::server::{Event, Server};
    use glassline_test_support::wait::{until, until_some};
    use std::sync::Condvar;

    /// Answers with the path, once it may; panics where the path says so.
    #[derive(Default)]
    struct Slow {
        may: Mutex<bool>,
        changed: Condvar,
    }

    impl Slow {
        fn let_go(&self) {
            *self.may.lock().unwrap() = true;
            self.changed.notify_all();
        }
    }

    impl Site for Slow {
        fn respond(&self, request: &Request, _door: ListenerRole, _peer: IpAddr, _hub: &Hub) -> Response {
            drop(self.changed.wait_while(self.may.lock().unwrap(), |may| !*may).unwrap());
            assert!(request.path != "/panic", "a test's");
            Response::ok("text/plain", request.path.clone())
        }
    }

    fn request(path: &str) -> Request {
        let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut server = Server::new(Limits::DEFAULT, glassline_media::Time::ZERO);
        match server.next(&mut head.as_bytes(), glassline_media::Time::ZERO) {
            Ok(Some(Event::Request(request))) => *request,
            _ => panic!("a request"),
        }
    }

    fn ask(hub: &Hub, path: &str, token: u64) -> Option<Arc<LongAnswer>> {
        ask_from(hub, path, token, IpAddr::from([127, 0, 0, 1]), true)
    }

    fn ask_from(
        hub: &Hub,
        path: &str,
        token: u64,
        peer: IpAddr,
        is_operator: bool,
    ) -> Option<Arc<LongAnswer>> {
        let client = Client { door: ListenerRole::Shared, peer, is_operator };
        let connection = ConnectionId { worker: 1, token };
        hub.long_answers.ask(&hub.inboxes, &request(path), client, connection)
    }

    #[test]
    fn an_answer_comes_to_its_worker_and_one_that_panics_is_an_answer_too() {
        let slow = Arc::new(Slow::default());
        let hub = hub_with(Settings::default(), 2, Arc::clone(&slow) as _).into_shared();
        let (panicked, long) = (ask(&hub, "/panic", 7).unwrap(), ask(&hub, "/long", 8).unwrap());
        assert!(long.take().is_none());
        slow.let_go();
        let answer = until_some("the answer", || long.take());
        assert_eq!((answer.status, &*answer.body), (200, &b"/long"[..]));
        assert_eq!(panicked.take().unwrap().status, 500);
        let mut woken = Vec::new();
        let mut messages = Vec::new();
        hub.inboxes.collect(1, &mut messages);
        for message in messages {
            let Message::Grown(tokens) = message else { panic!("{message:?}") };
            woken.extend(tokens);
        }
        assert_eq!(woken[0], 7);
    }

    #[test]
    fn only_so_many_wait_and_connections_that_are_gone_take_no_time() {
        let slow = Arc::new(Slow::default());
        let hub = hub_with(Settings::default(), 2, Arc::clone(&slow) as _).into_shared();
        let first = ask(&hub, "/first", 0).unwrap();
        // The thread has that one in hand, or will have it in a moment.
        let mut waiting = Vec::new();
        until("the queue to be full", || match ask(&hub, "/other", 1) {
            Some(answer) => {
                waiting.push(answer);
                false
            }
            None => true,
        });
        assert!((QUEUE_MAX - 1..=QUEUE_MAX + 1).contains(&waiting.len()), "{}", waiting.len());
        let last = waiting.pop().unwrap();
        drop(waiting);
        slow.let_go();
        assert_eq!(until_some("the last", || last.take()).status, 200);
        assert_eq!(first.take().unwrap().status, 200);
    }

    #[test]
    fn strangers_keep_neither_each_other_nor_operators_from_an_answer() {
        let slow = Arc::new(Slow::default());
        let hub = hub_with(Settings::default(), 2, Arc::clone(&slow) as _).into_shared();
        let stranger = |last| IpAddr::from([192, 0, 2, last]);
        let mut waiting = Vec::new();
        for last in 0..8 {
            waiting.extend((0..100).filter_map(|_| ask_from(&hub, "/long", 1, stranger(last), false)));
            let expected = (PER_ADDRESS_MAX * (usize::from(last) + 1)).min(OTHERS_MAX);
            assert_eq!(waiting.len(), expected, "address {last}");
        }
        let operator = ask(&hub, "/metrics", 2).expect("room for operators");
        slow.let_go();
        until("the operator's answer", || operator.take().is_some());
        until("all others", || hub.long_answers.waiting.lock().unwrap().is_empty());
        assert!(ask_from(&hub, "/long", 1, stranger(0), false).is_some(), "and there is room again");
    }

    #[test]
    fn the_thread_ends_with_its_relay() {
        let slow = Arc::new(Slow::default());
        let hub = hub_with(Settings::default(), 1, Arc::clone(&slow) as _).into_shared();
        let answer = ask(&hub, "/long", 0).unwrap();
        slow.let_go();
        until("the answer", || answer.take().is_some());
        drop(hub);
        until("the site to be let go of", || Arc::strong_count(&slow) == 1);
    }

    #[test]
    fn an_address_of_ipv6_is_all_that_a_subscriber_has() {
        let waiting = Waiting::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut places: Vec<_> = (0..PER_ADDRESS_MAX)
            .map(|last| Place::take(&waiting, address(&format!("2001:db8:1:2::{last:x}"))).expect("a place"))
            .collect();
        assert!(Place::take(&waiting, address("2001:db8:1:2:ffff::1")).is_none());
        let other = Place::take(&waiting, address("2001:db8:1:3::1")).expect("another subscriber's");
        places.pop();
        assert!(Place::take(&waiting, address("2001:db8:1:2:ffff::1")).is_some());
        drop((other, places));
        assert!(waiting.lock().unwrap().is_empty());
    }

    proptest::proptest! {
        #[test]
        fn places_are_bounded_for_each_address_and_for_all(
            steps in proptest::collection::vec((proptest::prelude::any::<bool>(), 0u8..9), 0..200),
        ) {
            let (waiting, mut held) = (Waiting::default(), Vec::<(u8, Place)>::new());
            for (comes, last) in steps {
                if comes {
                    let own = held.iter().filter(|(other, _)| *other == last).count();
                    let may = own < PER_ADDRESS_MAX && held.len() < OTHERS_MAX;
                    let place = Place::take(&waiting, IpAddr::from([192, 0, 2, last]));
                    proptest::prop_assert_eq!(place.is_some(), may);
                    held.extend(place.map(|place| (last, place)));
                } else if let Some(at) = held.iter().position(|(other, _)| *other == last) {
                    held.remove(at);
                }
                proptest::prop_assert_eq!(waiting.lock().unwrap().len(), held.len());
            }
        }
    }

    #[test]
    fn what_no_maker_is_there_for_is_not_taken() {
        let (inboxes, _pollers) = Inboxes::new(1).expect("pollers");
        let (answers, inboxes) = (LongAnswers::default(), Arc::new(inboxes));
        let client =
            Client { door: ListenerRole::Public, peer: IpAddr::from([192, 0, 2, 1]), is_operator: false };
        let connection = ConnectionId { worker: 0, token: 1 };
        assert!(answers.ask(&inboxes, &request("/long"), client, connection).is_none());
        assert!(answers.waiting.lock().unwrap().is_empty(), "and has no place");
    }

    #[test]
    fn a_client_is_answered_by_its_own_door_and_address() {
        let (inboxes, _pollers) = Inboxes::new(1).expect("pollers");
        let (answers, inboxes) = (LongAnswers::default(), Arc::new(inboxes));
        answers.set_maker(Arc::new(|request, door, peer| {
            Some(Response::ok("text/plain", format!("{} {door:?} {peer}", request.path)))
        }));
        let client =
            Client { door: ListenerRole::Admin, peer: IpAddr::from([192, 0, 2, 1]), is_operator: true };
        let connection = ConnectionId { worker: 0, token: 1 };
        let answer = answers.ask(&inboxes, &request("/long"), client, connection).expect("room");
        let made = until_some("the answer", || answer.take());
        assert_eq!(&*made.body, b"/long Admin 192.0.2.1");
        assert!(answer.take().is_none(), "it is taken once");
        // A second maker is none.
        answers.set_maker(Arc::new(|_, _, _| None));
        let again = answers.ask(&inboxes, &request("/again"), client, connection).expect("room");
        assert_eq!(until_some("the answer", || again.take()).status, 200);
    }
}
