//! What the tests of several files share.

use super::cache::{Cache, Job, Unfinished};
use super::readers::Feeder;
use super::{Growing, Wake};
use glassline_delivery::fill::{Freshness, Head, Object, Via};
use glassline_delivery::http1::server::{Event, Server};
use glassline_delivery::http1::{Headers, Limits};
use glassline_media::Time;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Writes down the readers that are woken.
#[derive(Default)]
pub(crate) struct Woken(Mutex<Vec<(usize, Vec<u64>)>>);

impl Woken {
    /// The same as what is handed to objects.
    pub(crate) fn as_wake(self: &Arc<Woken>) -> Arc<dyn Wake> {
        Arc::clone(self) as Arc<dyn Wake>
    }

    /// Those that were woken since this was called the last time.
    pub(crate) fn take(&self) -> Vec<(usize, Vec<u64>)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Wake for Woken {
    fn wake(&self, thread: usize, readers: Vec<u64>) {
        self.0.lock().unwrap().push((thread, readers));
    }
}

/// Counts how often what fills objects was resumed.
#[derive(Default)]
pub(crate) struct Resumed(AtomicUsize);

impl Resumed {
    /// How often that was since this was called the last time.
    pub(crate) fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

impl Feeder for Resumed {
    fn resume(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A cache of so many bytes, and what counts how often its feeder is resumed.
pub(crate) fn cache(bytes_max: u64) -> (Arc<Cache>, Arc<Resumed>) {
    let (wake, feeder) = (Arc::new(Woken::default()), Arc::new(Resumed::default()));
    let fed = Arc::clone(&feeder) as Arc<dyn Feeder>;
    (Arc::new(Cache::new(bytes_max, wake.as_wake(), fed)), feeder)
}

/// The address that the tests' clients have, told apart by their last number.
pub(crate) fn client(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, number))
}

/// A job for `growing`, which is kept under its target.
pub(crate) fn job(cache: &Arc<Cache>, target: &str, growing: &Arc<Growing>) -> Job {
    let unfinished =
        Unfinished { cache: Arc::clone(cache), key: target.to_owned(), growing: Arc::clone(growing) };
    Job {
        asker: client(1),
        key: target.to_owned(),
        group: 0,
        target: target.to_owned(),
        host: None,
        growing: Arc::clone(growing),
        refresh: None,
        old: None,
        old_until: Time::ZERO,
        begun: None,
        via: Via::default(),
        _unfinished: Arc::new(unfinished),
    }
}

/// So many seconds behind the clock's begin.
pub(crate) fn at(seconds: u64) -> Time {
    Time::from_millis(seconds * 1000)
}

/// Fresh for so many seconds, then of use while it is asked for anew, then of use where no server can be reached.
pub(crate) fn freshness(fresh: u64, revalidate: u64, error: u64) -> Freshness {
    Freshness {
        fresh: Duration::from_secs(fresh),
        stale_while_revalidate: Duration::from_secs(revalidate),
        stale_if_error: Duration::from_secs(error),
    }
}

/// The head of a text.
pub(crate) fn plain() -> Head {
    Head::new("text/plain")
}

/// All bytes of an object that are there.
pub(crate) fn bytes(object: &Object) -> Vec<u8> {
    let mut pieces = Vec::new();
    object.read(0, u64::MAX, &mut pieces);
    pieces.concat()
}

/// The same as text.
pub(crate) fn text(growing: &Growing) -> String {
    String::from_utf8(growing.look(bytes)).expect("a text")
}

/// The fields of a request that has these lines.
pub(crate) fn fields(lines: &str) -> Headers {
    let wire = format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
    let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
    match server.next(&mut wire.as_bytes(), Time::ZERO) {
        Ok(Some(Event::Request(request))) => request.headers,
        other => panic!("{other:?}"),
    }
}
