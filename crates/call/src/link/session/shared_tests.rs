use super::*;
use crate::link::{Endpoint, Local};
use bytes::Bytes;
use glassline_transport::link::{Credentials, Event, Key, Settings};
use std::io;
use std::sync::mpsc::{self, Receiver};

/// A service that ends as it is told.
struct Ends {
    how: Box<dyn Fn() -> io::Result<Served> + Send + Sync>,
    is_input: bool,
}

impl Service for Ends {
    fn sends(&self) -> Vec<(u8, Options)> {
        Vec::new()
    }

    fn takes(&self) -> Vec<u8> {
        vec![7]
    }

    fn serve(&self, _: &Link) -> io::Result<Served> {
        (self.how)()
    }

    fn handle_event(&self, _: &Link, _: &Event) {}

    fn is_input(&self) -> bool {
        self.is_input
    }
}

struct Nowhere;

impl Output for Nowhere {
    fn write(&mut self, _: &Bytes) -> io::Result<()> {
        Ok(())
    }
}

fn shared(services: Vec<Running>) -> (Shared, Receiver<Message>, Receiver<SessionEvent>) {
    let ((messages, inbox), (events, told)) = (mpsc::channel(), mpsc::channel());
    let output: Box<dyn Output> = Box::new(Nowhere);
    let shared = Shared {
        messages,
        events,
        peers: Peers::default(),
        inputs_ended: AtomicBool::new(false),
        channels: Vec::new(),
        is_waited_for: false,
        continuity: BTreeMap::new(),
        outputs: [(3, Mutex::new(output))].into(),
        gives_stamps: true,
        needs_stamps: [3].into(),
        services,
    };
    (shared, inbox, told)
}

/// A link that is not up, and its endpoint.
fn link() -> (Endpoint, Link) {
    let settings = Settings::new(Credentials::Shared(Key([7; 32])));
    let endpoint = Endpoint::open(settings, &[Local::at("127.0.0.1:0".parse().unwrap())]).unwrap();
    let link = endpoint.connect("127.0.0.1:9".parse().unwrap()).unwrap();
    (endpoint, link)
}

fn running(is_input: bool, how: impl Fn() -> io::Result<Served> + Send + Sync + 'static) -> Running {
    Running::new(Arc::new(Ends { how: Box::new(how), is_input }))
}

/// What the main thread is told of a service that has served a link so often.
fn told(running: &Running, times: usize) -> Vec<Message> {
    let ((shared, inbox, _events), (_endpoint, link)) = (shared(Vec::new()), link());
    (0..times).for_each(|_| running.serve(&shared, &link));
    inbox.try_iter().collect()
}

#[test]
fn a_service_that_has_sent_all_says_so_once_however_many_links_it_served() {
    let all = told(&running(true, || Ok(Served::All)), 3);
    assert!(matches!(all[..], [Message::ServiceEnded]), "{}", all.len());
    assert!(told(&running(false, || Ok(Served::All)), 1).is_empty(), "one that takes is not waited for");
    assert!(told(&running(true, || Ok(Served::ThisLink)), 2).is_empty());
}

#[test]
fn a_service_that_fails_ends_the_session_by_what_has_failed() {
    let gone = told(&running(false, || Err(ErrorKind::BrokenPipe.into())), 1);
    assert!(matches!(gone[..], [Message::Failed(Error::ServiceClosed)]));
    let full = told(&running(true, || Err(ErrorKind::StorageFull.into())), 1);
    let [Message::Failed(Error::Service(error))] = &full[..] else { panic!("{}", full.len()) };
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    let broken = told(&running(true, || panic!("a test's")), 1);
    assert!(matches!(broken[..], [Message::Failed(Error::Fault(_))]));
}

#[test]
fn a_channel_is_taken_by_an_output_by_a_service_or_by_the_session_itself() {
    let (shared, ..) = shared(vec![running(false, || Ok(Served::All))]);
    let nothing: Vec<u8> = (0..=CONTROL).filter(|channel| shared.takes_nothing_of(*channel)).collect();
    let expected: Vec<u8> = (0..CONTROL).filter(|channel| ![3, 7].contains(channel)).collect();
    assert_eq!(nothing, expected);
}

#[test]
fn what_is_told_after_the_end_is_lost_and_no_fault() {
    let (shared, inbox, events) = shared(Vec::new());
    shared.notify(Message::Changed);
    shared.emit(SessionEvent::Reconnecting);
    assert!(matches!(inbox.try_recv(), Ok(Message::Changed)));
    assert!(matches!(events.try_recv(), Ok(SessionEvent::Reconnecting)));
    drop((inbox, events));
    shared.notify(Message::Stop);
    shared.emit(SessionEvent::Ended);
    assert!(shared.statistics().is_empty());
}

#[test]
fn a_peer_that_gives_or_takes_no_stamps_is_told_of_where_they_are_needed() {
    let (shared, _inbox, told) = shared(Vec::new());
    shared.tell_of_opened("drone", 3, true);
    shared.tell_of_opened("drone", 4, false);
    shared.tell_of_connected("drone", Some(true));
    shared.tell_of_connected("drone", None);
    assert!(told.try_recv().is_err());
    shared.tell_of_opened("drone", 3, false);
    assert!(matches!(told.try_recv(), Ok(SessionEvent::Unstamped { peer, channel: 3 }) if peer == "drone"));
    shared.tell_of_connected("drone", Some(false));
    assert!(matches!(told.try_recv(), Ok(SessionEvent::StampsNotTaken { peer }) if peer == "drone"));
    let without = Shared { gives_stamps: false, ..shared };
    without.tell_of_connected("drone", Some(false));
    assert!(told.try_recv().is_err());
}
