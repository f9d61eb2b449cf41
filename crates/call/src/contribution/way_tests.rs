use super::*;
use crate::contribution::Outgoing;
use crate::contribution::lookup::Answer;
use glassline_test_support::wait::PATIENCE;
use glassline_transport::link::Credentials;
use std::sync::mpsc;

#[test]
fn a_stop_does_not_wait_for_a_resolver_that_does_not_answer() {
    let (asked, questions) = mpsc::channel();
    let resolver = move |_, _, answer| {
        asked.send(answer).unwrap();
        Ok(())
    };
    let direction = Direction::Connect {
        to: "name.example:9".to_owned(),
        locals: Arc::new(|_| Err("no path".to_owned())),
        spares: Vec::new(),
    };
    let way = Way { name: "test".to_owned(), settings: Settings::new(Credentials::Insecure), direction };
    let service = Outgoing::new(PATIENCE, false);
    let runner = Runner::start_with(way, service, |_| {}, Lookup::with(Box::new(resolver)));
    let _unanswered: Answer = questions.recv_timeout(PATIENCE).unwrap();
    let (told, ended) = mpsc::channel();
    thread::spawn(move || {
        drop(runner);
        told.send(())
    });
    ended.recv_timeout(PATIENCE).expect("the link ends");
}
