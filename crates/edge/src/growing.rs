//! An object that fills, and the readers that wait for more of it.

use super::readers::{Feeder, Readers};
use glassline_delivery::fill::{
    Budget, Bytes, Charge, Failure, Head, Memory, OVERHEAD_BYTES, Object, Pace, Standing,
};
use glassline_delivery::http1::{Coding, Effort, Headers};
use glassline_io::spool::Frozen;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::{fmt, io};

/// A reader of an object: a thread, and what that thread knows the reader by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reader {
    /// The thread's number.
    pub thread: usize,
    /// What the thread knows the reader by.
    pub token: u64,
}

/// Tells readers that there is news of what they wait for. Called from any thread, perhaps under locks of the code that fills
/// the object: it must not look at objects itself.
pub trait Wake: Send + Sync {
    /// All of `readers` are of one thread.
    fn wake(&self, thread: usize, readers: Vec<u64>);
}

/// An object that one thread fills and many read. A reader that has read all there is says that it waits, in the same look;
/// it is woken once by the next change, and then looks again.
pub struct Growing {
    shared: Mutex<Shared>,
    wake: Arc<dyn Wake>,
    /// How often it was asked for as a whole, up to [`FREEZE_AT`].
    asked: AtomicU32,
    frozen: OnceLock<Option<Arc<ObjectFile>>>,
    /// What fills it, where that pauses for readers and for memory.
    feeder: Option<Arc<dyn Feeder>>,
    /// Its number among those that wait for a connection to a server; 0 where it does not.
    ticket: AtomicU64,
    /// The same text in other codings, in the order of [`Coding::ALL`], once each was asked for; `None` where that is no
    /// smaller.
    coded: [OnceLock<Option<Arc<Growing>>>; Coding::ALL.len()],
    /// What it takes beside its bytes.
    _overhead: Option<Charge>,
}

/// An object is put into a file of its own, for `sendfile`, when it is asked for so often: what is asked for once costs more
/// that way than a copy into the socket does.
const FREEZE_AT: u32 = 4;
/// Smaller ones cost less by a copy, larger ones would keep a worker from its other connections for too long.
const FREEZE_BYTES: std::ops::RangeInclusive<u64> = 32 << 10..=16 << 20;
/// Each takes a descriptor, of those that `relay::descriptors` leaves for what is neither a connection nor a stream: half of
/// them.
const FROZEN_MAX: usize = 128;
static FROZEN: AtomicUsize = AtomicUsize::new(0);

/// An object's bytes in a file of their own, which is memory too.
#[derive(Debug)]
pub struct ObjectFile {
    frozen: Frozen,
    _charge: Option<Charge>,
}

impl ObjectFile {
    fn of(pieces: &[Bytes], memory: Option<&Memory>) -> Option<ObjectFile> {
        let is_room = FROZEN.fetch_add(1, Ordering::Relaxed) < FROZEN_MAX;
        let frozen = if is_room { Frozen::of(pieces.iter().map(|piece| &piece[..])).ok() } else { None };
        if frozen.is_none() {
            FROZEN.fetch_sub(1, Ordering::Relaxed);
        }
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        frozen.map(|frozen| ObjectFile { frozen, _charge: memory.map(|memory| memory.charge(bytes)) })
    }

    /// See [`Frozen::send`].
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&self, socket: impl AsFd, from: u64, to: u64) -> io::Result<Option<usize>> {
        self.frozen.send(socket, from, to)
    }
}

impl Drop for ObjectFile {
    fn drop(&mut self) {
        FROZEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The same bytes, for code that reads them as memory.
struct MappedBytes(Arc<ObjectFile>);

impl AsRef<[u8]> for MappedBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.frozen.as_ref()
    }
}

struct Shared {
    object: Object,
    waiting: BTreeSet<Reader>,
    readers: Readers,
}

/// Whether an object with this head may be given in other codings than it has: it says so, and does not forbid it by
/// `no-transform` (RFC 9110 §7.7).
fn comes_in_codings(head: &Head) -> bool {
    is_plain(head) && has_token(head, "vary", "accept-encoding")
}

/// Whether it is in no coding, and may be given in one.
fn is_plain(head: &Head) -> bool {
    head.status() == 200
        && head.field("content-encoding").is_none()
        && !has_token(head, "cache-control", "no-transform")
}

fn has_token(head: &Head, name: &str, token: &str) -> bool {
    let values = head.fields().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    let mut tokens = values.flat_map(|(_, value)| value.split(',')).map(str::trim);
    tokens.any(|it| it.eq_ignore_ascii_case(token))
}

/// The head of a text that clients are to get in the coding that they want ([`Growing::coded`]): it says so, where it may.
pub(super) fn told_of_codings(head: Head) -> Head {
    let says_so = has_token(&head, "vary", "accept-encoding");
    if is_plain(&head) && !says_so { head.with("Vary", "Accept-Encoding") } else { head }
}

/// The head of the same text in another coding: another representation, so that its tag is another one (RFC 9110 §8.8.3.3).
fn coded_head(head: &Head, coding: Coding) -> Head {
    let name = coding.name();
    let coded = head.fields().fold(Head::of_status(head.status()), |coded, (field, value)| {
        match value.strip_suffix('"').filter(|_| field.eq_ignore_ascii_case("etag")) {
            Some(tag) => coded.with(field, &format!("{tag}-{name}\"")),
            None => coded.with(field, value),
        }
    });
    coded.with("Content-Encoding", name)
}

impl fmt::Debug for Growing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Growing").field(&self.look(Object::progress)).finish()
    }
}

/// The same object, not one with the same bytes.
impl PartialEq for Growing {
    fn eq(&self, other: &Growing) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Growing {
    /// `object`; `wake` wakes its readers.
    pub fn new(object: Object, wake: Arc<dyn Wake>) -> Arc<Growing> {
        Arc::new(Growing::with(object, wake, None))
    }

    /// An object that `feeder` is about to fill; its bytes count in `memory`.
    pub(super) fn fed(memory: Memory, wake: Arc<dyn Wake>, feeder: Arc<dyn Feeder>) -> Arc<Growing> {
        let overhead = memory.charge(OVERHEAD_BYTES);
        let growing = Growing::with(Object::counted(memory), wake, Some(feeder));
        Arc::new(Growing { _overhead: Some(overhead), ..growing })
    }

    fn with(object: Object, wake: Arc<dyn Wake>, feeder: Option<Arc<dyn Feeder>>) -> Growing {
        Growing {
            shared: Mutex::new(Shared { object, waiting: BTreeSet::new(), readers: Readers::default() }),
            wake,
            asked: AtomicU32::new(0),
            frozen: OnceLock::new(),
            feeder,
            ticket: AtomicU64::new(0),
            coded: Default::default(),
            _overhead: None,
        }
    }

    /// The same object in the coding that a request with these fields wants, where it is a text that is whole and comes in
    /// codings (its head says so by `Vary`), and is smaller in it. The first request makes it, once for all: other requests
    /// at that moment wait for it, some tenths of a millisecond.
    pub fn coded(&self, headers: &Headers, effort: Effort) -> Option<Arc<Growing>> {
        let coding = Coding::wanted(headers, &Coding::ALL)?;
        let at = Coding::ALL.iter().position(|it| *it == coding)?;
        let coded = self.coded.get(at)?;
        if let Some(made) = coded.get() {
            return made.clone();
        }
        let mut pieces = Vec::new();
        let head = self.look(|object| {
            let progress = object.progress();
            let head = progress.head.filter(|head| progress.is_whole && comes_in_codings(head))?;
            object.read(0, u64::MAX, &mut pieces);
            Some(head)
        })?;
        let make = || {
            let text = pieces.concat();
            let bytes = self.hold(coding.encode(&text, effort).into());
            let object = Object::whole(coded_head(&head, coding), bytes);
            (object.filled() < text.len() as u64).then(|| Growing::new(object, Arc::clone(&self.wake)))
        };
        coded.get_or_init(make).clone()
    }

    /// How many read it.
    pub(super) fn readers(&self) -> usize {
        self.lock().readers.count()
    }

    pub(super) fn take_slot(&self, place: u64) -> usize {
        self.lock().readers.take_slot(place)
    }

    pub(super) fn leave_slot(&self, slot: usize) {
        let Shared { object, readers, .. } = &mut *self.lock();
        let is_awaited = readers.leave(slot, object);
        self.resume_if(is_awaited);
    }

    /// See [`Reading::look_or_wait`](super::Reading::look_or_wait).
    pub(super) fn go_on(&self, slot: usize, (place, wants): (u64, u64)) {
        let Shared { object, readers, .. } = &mut *self.lock();
        let is_awaited = readers.go_on(slot, place, wants, object);
        self.resume_if(is_awaited);
    }

    /// See [`Reading::holds_others_up`](super::Reading::holds_others_up).
    pub(super) fn is_held_up_by(&self, slot: usize) -> bool {
        self.lock().readers.are_held_up_by(slot)
    }

    fn resume_if(&self, is_awaited: bool) {
        if let (true, Some(feeder)) = (is_awaited, &self.feeder) {
            feeder.resume();
        }
    }

    /// What its feeder does next, where all objects together stand as `budget` says, and `pending` bytes have come that it
    /// does not have yet. Where the feeder has to wait, the readers resume it when that may be over.
    pub(super) fn pace(&self, budget: Budget, pending: u64) -> Pace {
        let Shared { object, readers, .. } = &mut *self.lock();
        let pace = readers.standing(object.filled() + pending).pace(budget);
        match pace {
            Pace::Fill(_) => {}
            Pace::WaitForReader(place) => readers.await_reader(place),
            Pace::WaitForRoom => readers.await_reader(0),
        }
        pace
    }

    /// How it stands to its readers.
    pub(super) fn standing(&self) -> Standing {
        let Shared { object, readers, .. } = &*self.lock();
        readers.standing(object.filled())
    }

    /// From now on it drops what all of its readers have read. No new reader may come.
    pub(super) fn slide(&self) {
        let Shared { object, readers, .. } = &mut *self.lock();
        readers.is_sliding = true;
        readers.slide_on(object);
    }

    /// Whether a part of it may be gone.
    pub(super) fn is_sliding(&self) -> bool {
        self.lock().readers.is_sliding
    }

    /// Its number among those that wait for a connection to a server; 0 where it does not.
    pub(super) fn ticket(&self) -> &AtomicU64 {
        &self.ticket
    }

    /// `bytes` as memory that counts where this one's does.
    pub fn hold(&self, bytes: Vec<u8>) -> Bytes {
        match self.lock().object.memory() {
            Some(memory) => memory.hold(bytes),
            None => Bytes::from(bytes),
        }
    }

    /// `object`, for one of the readers of this one alone.
    pub fn beside(&self, object: Object) -> Arc<Growing> {
        Growing::new(object, Arc::clone(&self.wake))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|poisoned| self.fail_broken(poisoned.into_inner()))
    }

    /// A panic has left the object half-written: it fails, and its readers are woken.
    #[cold]
    fn fail_broken<'a>(&self, mut shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        let mut object = Object::new();
        object.fail(Failure::Fault);
        shared.object = object;
        self.shared.clear_poison();
        self.wake_all(std::mem::take(&mut shared.waiting));
        shared
    }

    fn wake_all(&self, waiting: BTreeSet<Reader>) {
        let mut waiting = waiting.into_iter().peekable();
        while let Some(Reader { thread, token }) = waiting.next() {
            let mut tokens = vec![token];
            while let Some(reader) = waiting.next_if(|reader| reader.thread == thread) {
                tokens.push(reader.token);
            }
            self.wake.wake(thread, tokens);
        }
    }

    /// Changes the object, and wakes all readers that wait for that.
    pub fn change<T>(&self, change: impl FnOnce(&mut Object) -> T) -> T {
        let mut shared = self.lock();
        let changed = change(&mut shared.object);
        let waiting = std::mem::take(&mut shared.waiting);
        drop(shared);
        self.wake_all(waiting);
        changed
    }

    /// The bytes of what is whole in a file of their own, where it is asked for often enough that this is worth it. Says that
    /// it is asked for once more.
    pub fn frozen(&self) -> Option<Arc<ObjectFile>> {
        if let Some(frozen) = self.frozen.get() {
            return frozen.clone();
        }
        if self.asked.fetch_add(1, Ordering::Relaxed) < FREEZE_AT {
            return None;
        }
        self.frozen.get_or_init(|| self.freeze()).clone()
    }

    fn freeze(&self) -> Option<Arc<ObjectFile>> {
        let mut pieces = Vec::new();
        let (is_worth_it, memory) = self.look(|object| {
            let count = object.read(0, u64::MAX, &mut pieces);
            let is_all_there = object.progress().is_whole && count == object.filled();
            (is_all_there && FREEZE_BYTES.contains(&count), object.memory().cloned())
        });
        let file = Arc::new(if is_worth_it { ObjectFile::of(&pieces, memory.as_ref()) } else { None }?);
        // What it was made of is let go.
        self.lock().object.lie_in(Bytes::from_owner(MappedBytes(Arc::clone(&file))));
        Some(file)
    }

    /// Looks at the object.
    pub fn look<T>(&self, look: impl FnOnce(&Object) -> T) -> T {
        look(&self.lock().object)
    }

    /// Looks at the object as `reader`, which waits from now on if `look` returns `None`.
    pub fn look_or_wait<T>(&self, reader: Reader, look: impl FnOnce(&Object) -> Option<T>) -> Option<T> {
        let mut shared = self.lock();
        let seen = look(&shared.object);
        if seen.is_none() {
            shared.waiting.insert(reader);
        }
        seen
    }

    /// `reader` waits no longer.
    pub fn leave(&self, reader: Reader) {
        self.lock().waiting.remove(&reader);
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::Reading;
    use super::super::testing::{Resumed, Woken, bytes, fields, plain, text};
    use super::*;
    use glassline_delivery::fill::Head;
    use glassline_io::containment::{Border, contain};
    use glassline_io::tcp::Connection;
    use proptest::prelude::*;

    #[test]
    fn a_text_is_made_smaller_once_for_all_who_ask_for_that() {
        let head = Head::new("text/plain").with("ETag", "\"7\"").with("Vary", "Accept-Encoding");
        let text = Bytes::from("#EXT-X-PART:DURATION=0.20000\n".repeat(40));
        let new = |head: &Head, text: &Bytes| {
            let wake = Arc::new(Woken::default()) as Arc<dyn Wake>;
            Growing::new(Object::whole(head.clone(), text.clone()), wake)
        };
        let (growing, both) = (new(&head, &text), fields("Accept-Encoding: gzip, br\r\n"));
        let brotli = growing.coded(&both, Effort::Shared).expect("a smaller one");
        let again = growing.coded(&fields("Accept-Encoding: br\r\n"), Effort::Shared).expect("the same");
        assert!(Arc::ptr_eq(&brotli, &again), "it is made once");
        let gzip =
            growing.coded(&fields("Accept-Encoding: gzip\r\n"), Effort::Shared).expect("a smaller one");
        for (coded, name, tag) in [(&brotli, "br", "\"7-br\""), (&gzip, "gzip", "\"7-gzip\"")] {
            let progress = coded.look(Object::progress);
            let head = progress.head.unwrap();
            assert_eq!((head.field("content-encoding"), head.field("etag")), (Some(name), Some(tag)));
            assert_eq!((head.field("vary"), progress.is_whole), (Some("Accept-Encoding"), true));
            assert!(progress.filled * 4 < text.len() as u64, "{name}: {}", progress.filled);
            assert!(coded.coded(&both, Effort::Shared).is_none(), "not twice");
        }
        assert!(growing.coded(&fields(""), Effort::Shared).is_none(), "it was not asked for");
        assert!(growing.coded(&fields("Accept-Encoding: identity\r\n"), Effort::Shared).is_none());
        assert!(
            new(&head, &Bytes::from_static(b"#EXTM3U")).coded(&both, Effort::Shared).is_none(),
            "it would be larger"
        );
        assert!(
            new(&Head::new("text/plain"), &text).coded(&both, Effort::Shared).is_none(),
            "it comes in one coding"
        );
        let fixed = head.clone().with("Cache-Control", "max-age=1, no-transform");
        assert!(new(&fixed, &text).coded(&both, Effort::Shared).is_none());
        // What still grows is looked at again when it is whole.
        let growing = Growing::new(Object::new(), Arc::new(Woken::default()) as Arc<dyn Wake>);
        growing.change(|object| {
            object.begin(head, None);
            object.append(text);
        });
        assert!(growing.coded(&both, Effort::Shared).is_none());
        growing.change(Object::finish);
        assert!(growing.coded(&both, Effort::Shared).is_some());
    }

    #[test]
    fn a_panic_under_the_lock_fails_the_object_and_wakes_its_readers() {
        let woken = Arc::new(Woken::default());
        let growing = Growing::new(Object::new(), Arc::clone(&woken) as Arc<dyn Wake>);
        let wait = |_: &Object| None::<()>;
        assert_eq!(growing.look_or_wait(Reader { thread: 1, token: 4 }, wait), None);
        let torn = contain(Border::Exchange, || {
            growing.change(|object| {
                object.begin(Head::new("video/mp4"), None);
                panic!("a test's");
            })
        });
        assert!(torn.is_err());
        assert_eq!(growing.look(|object| object.progress().failure), Some(Failure::Fault));
        assert_eq!(woken.take(), [(1, vec![4])]);
        // It goes on as any object that has failed.
        assert_eq!(growing.waiting(), 0);
    }

    #[test]
    fn who_waits_is_woken_once_a_thread() {
        let woken = Arc::new(Woken::default());
        let growing = Growing::new(Object::new(), Arc::clone(&woken) as Arc<dyn Wake>);
        let reader = |thread, token| Reader { thread, token };
        let more = |object: &Object| (object.filled() > 0).then(|| object.filled());
        for (thread, token) in [(1, 5), (0, 9), (1, 4), (0, 9)] {
            assert_eq!(growing.look_or_wait(reader(thread, token), more), None);
        }
        growing.look_or_wait(reader(0, 7), more);
        growing.leave(reader(0, 7));
        assert_eq!(growing.waiting(), 3);
        growing.change(|object| {
            object.begin(Head::new("video/mp4"), None);
            object.append(Bytes::from_static(b"ab"));
        });
        assert_eq!(woken.take(), [(0, vec![9]), (1, vec![4, 5])]);
        assert_eq!(growing.look_or_wait(reader(0, 9), more), Some(2));
        growing.change(Object::finish);
        assert_eq!(woken.take(), [], "no reader waited any more");
    }

    #[test]
    fn what_is_whole_and_asked_for_often_lies_in_a_file() {
        let woken: Arc<dyn Wake> = Arc::new(Woken::default());
        let bytes = vec![5; 100_000];
        let whole = Object::whole(Head::new("video/mp4"), Bytes::from(bytes.clone()));
        let growing = Growing::new(whole, Arc::clone(&woken));
        for _ in 0..FREEZE_AT {
            assert!(growing.frozen().is_none());
        }
        let file = growing.frozen().unwrap();
        assert!(Arc::ptr_eq(&file, &growing.frozen().unwrap()));
        let mut pieces = Vec::new();
        growing.look(|object| object.read(0, u64::MAX, &mut pieces));
        assert_eq!(pieces.concat(), bytes);
        assert_eq!(pieces[0].as_ptr(), file.frozen.as_ref().as_ptr(), "they are kept once");
        // What is small, or not whole, stays where it is.
        let small = Growing::new(Object::whole(Head::new("video/mp4"), Bytes::from_static(b"x")), woken);
        assert!((0..=FREEZE_AT + 1).all(|_| small.frozen().is_none()));
    }
    fn growing() -> (Arc<Growing>, Arc<Woken>) {
        let woken = Arc::new(Woken::default());
        (Growing::new(Object::new(), Arc::clone(&woken) as Arc<dyn Wake>), woken)
    }

    fn begin(growing: &Growing) {
        growing.change(|object| object.begin(plain(), None));
    }

    fn append(growing: &Growing, bytes: &'static [u8]) {
        growing.change(|object| object.append(Bytes::from_static(bytes)));
    }

    const READER: Reader = Reader { thread: 0, token: 1 };

    #[test]
    fn a_reader_that_sees_something_does_not_wait() {
        let (growing, wakes) = growing();
        append(&growing, b"ab");
        assert_eq!(growing.look_or_wait(READER, |object| Some(object.filled())), Some(2));
        assert_eq!(growing.waiting(), 0);
        append(&growing, b"c");
        assert_eq!(wakes.take(), []);
    }

    #[test]
    fn a_reader_that_comes_late_reads_from_the_begin() {
        let (growing, _) = growing();
        begin(&growing);
        append(&growing, b"early ");
        append(&growing, b"and late");
        growing.change(Object::finish);
        assert_eq!(text(&growing), "early and late");
    }

    #[test]
    fn a_reader_is_woken_by_the_head_by_bytes_by_the_end_and_by_a_failure_alike() {
        type Change = fn(&mut Object);
        let changes: [(&str, Change); 4] = [
            ("head", |object| object.begin(plain(), None)),
            ("bytes", |object| object.append(Bytes::from_static(b"x"))),
            ("end", Object::finish),
            ("failure", |object| object.fail(Failure::Upstream)),
        ];
        for (what, change) in changes {
            let (growing, wakes) = growing();
            growing.look_or_wait(READER, |_| None::<()>);
            growing.change(change);
            assert_eq!(wakes.take(), [(0, vec![1])], "{what}");
            assert_eq!(growing.waiting(), 0, "{what}: it waits again when it has looked again");
        }
    }

    #[test]
    fn a_change_gives_what_it_makes() {
        let (growing, _) = growing();
        assert_eq!(growing.change(|object| object.filled() + 7), 7);
    }

    #[test]
    fn a_reader_that_has_left_is_not_woken() {
        let (growing, wakes) = growing();
        let other = Reader { thread: 2, token: 1 };
        for reader in [READER, other] {
            growing.look_or_wait(reader, |_| None::<()>);
        }
        growing.leave(READER);
        growing.leave(Reader { thread: 7, token: 7 });
        append(&growing, b"x");
        assert_eq!(wakes.take(), [(2, vec![1])]);
    }

    #[test]
    fn a_wake_is_called_without_a_lock_so_that_it_may_look() {
        struct Looks(Mutex<Option<Arc<Growing>>>, AtomicU64);
        impl Wake for Looks {
            fn wake(&self, _: usize, _: Vec<u64>) {
                let growing = self.0.lock().unwrap().clone().unwrap();
                self.1.store(growing.look(Object::filled), Ordering::SeqCst);
            }
        }
        let looks = Arc::new(Looks(Mutex::default(), AtomicU64::new(0)));
        let growing = Growing::new(Object::new(), Arc::clone(&looks) as Arc<dyn Wake>);
        *looks.0.lock().unwrap() = Some(Arc::clone(&growing));
        growing.look_or_wait(READER, |_| None::<()>);
        append(&growing, b"abc");
        assert_eq!(looks.1.load(Ordering::SeqCst), 3);
        *looks.0.lock().unwrap() = None;
    }

    #[test]
    fn readers_of_threads_read_all_that_a_writer_writes_meanwhile() {
        struct Unparks(Vec<std::thread::Thread>);
        impl Wake for Unparks {
            fn wake(&self, thread: usize, _: Vec<u64>) {
                self.0[thread].unpark();
            }
        }
        let (give, take): (Vec<_>, Vec<_>) =
            (0..2).map(|_| std::sync::mpsc::channel::<Arc<Growing>>()).unzip();
        let readers: Vec<_> = take
            .into_iter()
            .enumerate()
            .map(|(thread, growing)| {
                std::thread::spawn(move || {
                    let growing = growing.recv().unwrap();
                    let (mut got, mut pieces) = (Vec::new(), Vec::new());
                    loop {
                        let reader = Reader { thread, token: 0 };
                        let at = got.len() as u64;
                        let seen = growing.look_or_wait(reader, |object| {
                            let count = object.read(at, u64::MAX, &mut pieces);
                            (count > 0 || object.is_over()).then(|| object.is_over() && count == 0)
                        });
                        got.extend(pieces.drain(..).flatten());
                        match seen {
                            Some(true) => return got,
                            Some(false) => {}
                            None => std::thread::park_timeout(glassline_test_support::wait::PATIENCE),
                        }
                    }
                })
            })
            .collect();
        let wake = Unparks(readers.iter().map(|reader| reader.thread().clone()).collect());
        let growing = Growing::new(Object::new(), Arc::new(wake) as Arc<dyn Wake>);
        give.iter().for_each(|give| give.send(Arc::clone(&growing)).unwrap());
        begin(&growing);
        let written: Vec<u8> = (0..20_000u32).map(|at| at as u8).collect();
        for run in written.chunks(97) {
            growing.change(|object| object.append(Bytes::copy_from_slice(run)));
        }
        growing.change(Object::finish);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), written);
        }
    }

    #[test]
    fn an_object_without_a_feeder_does_not_miss_one() {
        let (growing, _) = growing();
        let reading = Reading::new(Arc::clone(&growing));
        let full = Budget { bytes_max: 1, held_bytes: 1 };
        assert_eq!(growing.pace(full, 0), Pace::WaitForRoom);
        reading.look_or_wait(READER, (0, 0), |_| Some(()));
        drop(reading);
        assert_eq!(growing.readers(), 0);
    }

    #[test]
    fn what_is_held_counts_where_the_object_does_and_what_is_beside_it_wakes_alike() {
        let memory = Memory::default();
        let wakes = Arc::new(Woken::default());
        let feeder = Arc::new(Resumed::default());
        let fed = Growing::fed(memory.clone(), Arc::clone(&wakes) as Arc<dyn Wake>, feeder);
        assert_eq!(memory.bytes(), OVERHEAD_BYTES);
        let held = fed.hold(vec![1; 500]);
        assert_eq!((memory.bytes(), held.len()), (OVERHEAD_BYTES + 500, 500));
        let beside = fed.beside(Object::new());
        beside.look_or_wait(READER, |_| None::<()>);
        beside.change(Object::finish);
        assert_eq!(wakes.take(), [(0, vec![1])]);
        assert!(*fed != *beside && *fed == *fed, "they are two objects");
        drop((held, beside, fed));
        assert_eq!(memory.bytes(), 0);
        // Without one that counts, nothing does.
        let (plain, _) = growing();
        assert_eq!(plain.hold(vec![7; 3]), &[7, 7, 7][..]);
    }

    #[test]
    fn a_coded_text_counts_in_the_memory_of_the_plain_one() {
        let memory = Memory::default();
        let object = Object::counted(memory.clone());
        let growing = Growing::new(object, Arc::new(Woken::default()) as Arc<dyn Wake>);
        growing.change(|object| {
            object.begin(plain().with("Vary", "Accept-Encoding"), None);
            object.append(memory.hold(vec![b'a'; 4000]));
            object.finish();
        });
        assert_eq!(memory.bytes(), 4000);
        let coded = growing.coded(&fields("Accept-Encoding: gzip\r\n"), Effort::Shared).unwrap();
        assert_eq!(memory.bytes(), 4000 + coded.look(Object::filled));
    }

    #[test]
    fn a_failed_text_comes_in_no_coding() {
        let (growing, _) = growing();
        growing.change(|object| {
            object.begin(plain().with("Vary", "Accept-Encoding"), None);
            object.append(Bytes::from(vec![b'a'; 4000]));
            object.fail(Failure::Upstream);
        });
        assert!(growing.coded(&fields("Accept-Encoding: gzip\r\n"), Effort::Shared).is_none());
    }

    #[test]
    fn a_coding_changes_a_strong_tag_a_weak_one_and_nothing_that_is_no_tag() {
        let coded = |tag: &str| {
            let head = coded_head(&plain().with("ETag", tag), Coding::Gzip);
            head.field("etag").unwrap().to_owned()
        };
        assert_eq!(coded("\"1\""), "\"1-gzip\"");
        assert_eq!(coded("W/\"1\""), "W/\"1-gzip\"");
        assert_eq!(coded("unquoted"), "unquoted");
        let other = coded_head(&Head::of_status(200).with("X-Note", "\"quoted\""), Coding::Brotli);
        assert_eq!(other.lines(), "X-Note: \"quoted\"\r\nContent-Encoding: br\r\n");
    }

    #[test]
    fn a_head_says_that_it_comes_in_codings_where_it_may_and_does_not_say_so_yet() {
        let vary = |head: Head| {
            let told = told_of_codings(head);
            let values: Vec<String> = told
                .fields()
                .filter(|(name, _)| name.eq_ignore_ascii_case("vary"))
                .map(|(_, value)| value.to_owned())
                .collect();
            values.join("; ")
        };
        assert_eq!(vary(plain()), "Accept-Encoding");
        assert_eq!(vary(plain().with("vary", "Origin, accept-encoding")), "Origin, accept-encoding");
        assert_eq!(vary(plain().with("Vary", "Origin")), "Origin; Accept-Encoding");
        assert_eq!(vary(plain().with("Content-Encoding", "gzip")), "");
        assert_eq!(vary(plain().with("Cache-Control", "public, No-Transform")), "");
        assert_eq!(vary(plain().with("Cache-Control", "no-transformer")), "Accept-Encoding");
        assert_eq!(vary(Head::of_status(404)), "");
    }

    #[test]
    fn what_is_too_small_too_large_or_in_part_gone_lies_in_no_file() {
        let asked = |object: Object| {
            let growing = Growing::new(object, Arc::new(Woken::default()) as Arc<dyn Wake>);
            growing.asked.store(FREEZE_AT, Ordering::Relaxed);
            growing.frozen().is_some()
        };
        let whole = |count: u64| Object::whole(plain(), Bytes::from(vec![3; count as usize]));
        let (least, most) = (*FREEZE_BYTES.start(), *FREEZE_BYTES.end());
        assert_eq!(
            [least - 1, least, most, most + 1].map(|count| asked(whole(count))),
            [false, true, true, false]
        );
        let mut growing = Object::new();
        growing.begin(plain(), None);
        growing.append(vec![0; 1 << 20].into());
        assert!(!asked(growing.clone()), "it is not whole");
        growing.append(vec![0; 1 << 20].into());
        growing.finish();
        growing.trim(1 << 20);
        assert!(!asked(growing), "its begin is gone");
    }

    #[test]
    fn a_file_sends_the_bytes_of_a_range_to_a_socket() {
        let object = Object::whole(plain(), (0..100_000u32).map(|at| at as u8).collect::<Vec<_>>().into());
        let file = ObjectFile::of(&[Bytes::from(bytes(&object))], None).unwrap();
        let (one, other) = Connection::pair(1 << 17).unwrap();
        assert_eq!(file.send(&one, 70_000, 70_010).unwrap(), Some(10));
        let mut got = [0; 64];
        assert_eq!(other.read(&mut got).unwrap(), Some(10));
        let expected: Vec<u8> = (70_000..70_010u32).map(|at| at as u8).collect();
        assert_eq!(got[..10], expected);
    }

    #[test]
    fn a_file_counts_as_memory_until_the_last_hold_on_it_goes() {
        let memory = Memory::default();
        let growing =
            Growing::new(Object::counted(memory.clone()), Arc::new(Woken::default()) as Arc<dyn Wake>);
        growing.change(|object| {
            object.begin(plain(), None);
            object.append(memory.hold(vec![9; 80_000]));
            object.finish();
        });
        growing.asked.store(FREEZE_AT, Ordering::Relaxed);
        let file = growing.frozen().unwrap();
        assert_eq!(memory.bytes(), 80_000, "it is kept once");
        drop(growing);
        assert_eq!(memory.bytes(), 80_000);
        drop(file);
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn a_panic_while_it_is_looked_at_fails_it_too() {
        let (growing, _) = growing();
        begin(&growing);
        append(&growing, b"abc");
        let torn = contain(Border::Exchange, || growing.look(|_| panic!("a test's")));
        assert!(torn.is_err());
        let progress = growing.look(Object::progress);
        assert_eq!((progress.failure, progress.head, progress.filled), (Some(Failure::Fault), None, 0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Begin(Option<u64>),
        Append(Vec<u8>),
        Finish,
        Fail,
        Wait(usize, u64),
        Leave(usize, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            2 => prop::option::of(0u64..200).prop_map(Step::Begin),
            8 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Step::Append),
            1 => Just(Step::Finish),
            1 => Just(Step::Fail),
            6 => (0usize..3, 0u64..4).prop_map(|(thread, token)| Step::Wait(thread, token)),
            2 => (0usize..3, 0u64..4).prop_map(|(thread, token)| Step::Leave(thread, token)),
        ];
        prop::collection::vec(step, 0..50)
    }

    proptest! {
        /// It holds the bytes that a plain vector does, and each change wakes exactly the readers that wait, each thread once.
        #[test]
        fn it_fills_like_a_vector_and_wakes_exactly_those_that_wait(steps in steps()) {
            let (growing, wakes) = growing();
            let (mut all, mut announced, mut has_head) = (Vec::new(), None, false);
            let (mut is_whole, mut has_failed) = (false, false);
            let mut waiting = BTreeSet::new();
            for step in steps {
                let is_over = is_whole || has_failed;
                let is_change = !matches!(step, Step::Wait(..) | Step::Leave(..));
                match step {
                    Step::Begin(total) => {
                        growing.change(|object| object.begin(plain(), total));
                        if !has_head && !has_failed {
                            (has_head, announced) = (true, total);
                        }
                    }
                    Step::Append(run) => {
                        growing.change(|object| object.append(Bytes::copy_from_slice(&run)));
                        let end = (all.len() + run.len()) as u64;
                        if !is_over && announced.is_some_and(|total| end > total) {
                            has_failed = true;
                        } else if !is_over {
                            all.extend_from_slice(&run);
                        }
                    }
                    Step::Finish => {
                        growing.change(Object::finish);
                        let is_short = announced.is_some_and(|total| (all.len() as u64) < total);
                        has_failed |= is_short && !is_whole;
                        is_whole |= !has_failed;
                    }
                    Step::Fail => {
                        growing.change(|object| object.fail(Failure::Upstream));
                        has_failed |= !is_whole;
                    }
                    Step::Wait(thread, token) => {
                        growing.look_or_wait(Reader { thread, token }, |_| None::<()>);
                        waiting.insert((thread, token));
                    }
                    Step::Leave(thread, token) => {
                        growing.leave(Reader { thread, token });
                        waiting.remove(&(thread, token));
                    }
                }
                let mut expected = Vec::<(usize, Vec<u64>)>::new();
                if is_change {
                    for (thread, token) in std::mem::take(&mut waiting) {
                        match expected.last_mut() {
                            Some((last, tokens)) if *last == thread => tokens.push(token),
                            _ => expected.push((thread, vec![token])),
                        }
                    }
                }
                prop_assert_eq!(wakes.take(), expected);
                prop_assert_eq!(growing.waiting(), waiting.len());
                let progress = growing.look(Object::progress);
                prop_assert_eq!(growing.look(bytes), all.clone());
                prop_assert_eq!((progress.is_whole, progress.failure.is_some()), (is_whole, has_failed));
                prop_assert_eq!(progress.head.is_some(), has_head);
            }
        }
    }
}
