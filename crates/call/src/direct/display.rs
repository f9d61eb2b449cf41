//! What shows pictures, on a thread of its own: a slow sink holds up neither the decoder nor its reports.

use super::UNPOISONED;
use super::key_frames::KeyFrameWish;
use super::lip_sync::LipSync;
use super::times::{StageMeter, StageTimes};
use glassline_direct::CodedFrame;
use glassline_direct::coded::ReceivedUnit;
use glassline_io::clock::Clock;
use glassline_media::pixels::Scaler;
use glassline_media::{FrameRate, Picture, Size, Stage, Stamps, Utc};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

/// Pictures that wait for a slow sink; then the oldest goes.
const WAITING_MAX: usize = 3;
/// Access units that wait for it; then all go until a key frame, since each needs the one before.
const UNITS_WAITING_MAX: usize = 60;

/// What a sink shows.
#[derive(Clone, Debug)]
pub enum Content {
    /// A picture, at the size at which it is shown.
    Picture(Picture),
    /// An access unit of H.264, or the rest of one: the sender's pictures are coded by another encoder than ours.
    Unit(ReceivedUnit),
    /// A frame as it came, for a sink that [takes](Sink::takes_frames) them: what is decoded of it is not shown there.
    Frame(CodedFrame),
}

/// A picture that is shown now.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The picture.
    pub content: Content,
    /// Pictures a second of the sender's source; fewer may come.
    pub rate: FrameRate,
    /// What it has passed, on our clock.
    pub stamps: Stamps,
    /// When it was captured, by the sender's wall clock.
    pub captured: Utc,
}

/// Shows pictures when their time has come.
pub trait Sink: Send {
    /// Shows a picture; it may block. Pictures of a stream may change their size.
    ///
    /// # Errors
    /// Any: nothing more is shown, and the receiver's end tells it. `BrokenPipe` says that the pictures have no reader any
    /// more; that ends the session, as does an error before anything was shown.
    fn show(&mut self, shown: &Shown) -> io::Result<()>;

    /// Whether it takes frames as they come, where others can decode them ([`Content::Frame`]).
    fn takes_frames(&self) -> bool {
        false
    }

    /// Where it takes frames: whether it needs a key frame, for viewers that come later. It is asked for once, at the beginning.
    fn key_frame_wish(&self) -> Option<Arc<KeyFrameWish>> {
        None
    }

    /// No other will come.
    ///
    /// # Errors
    /// As those of [`Sink::show`].
    fn finish(&mut self) -> io::Result<()>;
}

#[derive(Default)]
struct State {
    /// With the size at which it is shown, where its own may be another.
    waiting: VecDeque<(Shown, Option<Size>)>,
    is_over: bool,
    shown: u64,
    dropped: u64,
    waits_for_key: bool,
    failure: Option<io::Error>,
    has_failed: bool,
    /// The session ends with the failure: the pictures have no reader any more, or none was ever shown.
    is_fatal: bool,
}

impl State {
    fn take_fatal(&mut self) -> Option<io::Error> {
        self.failure.take_if(|_| self.is_fatal)
    }

    fn fail(&mut self, error: io::Error) {
        self.is_fatal = self.shown == 0 || error.kind() == io::ErrorKind::BrokenPipe;
        if !self.is_fatal {
            tracing::error!(%error, "pictures cannot be written any more; the link goes on without them");
        }
        self.dropped += self.waiting.len() as u64;
        self.waiting.clear();
        (self.failure, self.has_failed) = (Some(error), true);
    }

    fn put(&mut self, shown: Shown, size: Option<Size>) {
        let (is_unit, is_key) = match &shown.content {
            Content::Picture(_) => (false, true),
            Content::Unit(unit) => (true, unit.header.needs.is_none()),
            Content::Frame(frame) => (true, frame.header.source.is_none()),
        };
        if self.waits_for_key && !is_key {
            self.dropped += 1;
            return;
        }
        self.waits_for_key = false;
        self.waiting.push_back((shown, size));
        if is_unit && self.waiting.len() > UNITS_WAITING_MAX {
            self.dropped += self.waiting.len() as u64;
            self.waiting.clear();
            self.waits_for_key = true;
        } else if !is_unit && self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
            self.dropped += 1;
        }
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    times: Mutex<(StageMeter, StageMeter)>,
    lip_sync: Arc<LipSync>,
}

/// A sink with its thread.
pub(super) struct Display {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Display {
    pub(super) fn start(sink: Box<dyn Sink>) -> io::Result<Display> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            times: Mutex::new((StageMeter::new(), StageMeter::new())),
            lip_sync: Arc::default(),
        });
        let ours = Arc::clone(&shared);
        let thread = thread::Builder::new().name("display".into()).spawn(move || run(&ours, sink))?;
        Ok(Display { shared, thread: Mutex::new(Some(thread)) })
    }

    /// How late pictures are.
    pub(super) fn lip_sync(&self) -> Arc<LipSync> {
        Arc::clone(&self.shared.lip_sync)
    }

    /// Hands a picture over, which is shown at `size` where one is given.
    ///
    /// # Errors
    /// The sink's, once: where its reader has gone, or it has failed before anything was shown. After any other failure the
    /// pictures are counted as dropped, and [`Display::finish`] tells it: what else goes over the link goes on.
    pub(super) fn push(&self, shown: Shown, size: Option<Size>) -> io::Result<()> {
        let mut state = self.shared.state.lock().expect(UNPOISONED);
        if let Some(error) = state.take_fatal() {
            return Err(error);
        }
        if state.has_failed {
            state.dropped += 1;
        } else {
            state.put(shown, size);
            self.shared.changed.notify_all();
        }
        Ok(())
    }

    /// Whether frames were dropped that the next ones need: nothing is shown before a key frame comes.
    pub(super) fn waits_for_key(&self) -> bool {
        self.shared.state.lock().expect(UNPOISONED).waits_for_key
    }

    /// The sink's failure, if it ends the session and was not returned before.
    pub(super) fn failure(&self) -> io::Result<()> {
        self.shared.state.lock().expect(UNPOISONED).take_fatal().map_or(Ok(()), Err)
    }

    /// Pictures that the sink has taken, and those that it was too slow for.
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = self.shared.state.lock().expect(UNPOISONED);
        (state.shown, state.dropped)
    }

    /// Times of pictures since the last call, and of all.
    pub(super) fn times(&self) -> (StageTimes, StageTimes) {
        let mut times = self.shared.times.lock().expect(UNPOISONED);
        (times.0.take(), times.1.times())
    }

    /// Waits until all that came is shown.
    ///
    /// # Errors
    /// The sink's.
    pub(super) fn finish(&self) -> io::Result<()> {
        self.shared.state.lock().expect(UNPOISONED).is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.lock().expect(UNPOISONED).take() {
            let _ = thread.join();
        }
        self.shared.state.lock().expect(UNPOISONED).failure.take().map_or(Ok(()), Err)
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // A caller that needs the result has called `finish` itself.
        let _ = self.finish();
    }
}

/// Brings a picture to the size at which it is shown.
fn at_size(content: &mut Content, size: Size, scaler: &mut Option<Scaler>) {
    let Content::Picture(picture) = content else { return };
    let scaler = match scaler {
        Some(scaler) if scaler.size() == size => scaler,
        scaler => scaler.insert(Scaler::new(size)),
    };
    *picture = scaler.scale(picture);
}

fn run(shared: &Shared, mut sink: Box<dyn Sink>) {
    let clock = Clock::new();
    let mut scaler = None;
    let fail = |error| shared.state.lock().expect(UNPOISONED).fail(error);
    loop {
        let mut state = shared.state.lock().expect(UNPOISONED);
        let (mut shown, size) = loop {
            if let Some(next) = state.waiting.pop_front() {
                break next;
            }
            if state.is_over {
                drop(state);
                if let Err(error) = sink.finish() {
                    fail(error);
                }
                return;
            }
            state = shared.changed.wait(state).expect(UNPOISONED);
        };
        drop(state);
        // Here, so that pictures that were dropped are not scaled.
        if let Some(size) = size {
            at_size(&mut shown.content, size, &mut scaler);
        }
        if let Err(error) = sink.show(&shown) {
            return fail(error);
        }
        shown.stamps.set(Stage::Shown, clock.now());
        shared.lip_sync.on_screen(shown.captured);
        if let Some(delay) = shown.stamps.between(Stage::Captured, Stage::Shown) {
            shared.lip_sync.shown(delay);
        }
        let mut times = shared.times.lock().expect(UNPOISONED);
        times.0.record(&shown.stamps);
        times.1.record(&shown.stamps);
        drop(times);
        shared.state.lock().expect(UNPOISONED).shown += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{PixelFormat, Size, Time};
    use glassline_test_support::wait::until;
    use std::sync::mpsc;

    /// Shows a picture whenever it is told to, and fails at the end if it is to.
    struct Slow(mpsc::Receiver<()>, mpsc::Sender<Time>);

    impl Sink for Slow {
        fn show(&mut self, shown: &Shown) -> io::Result<()> {
            self.0.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            let Content::Picture(picture) = &shown.content else { panic!("a picture") };
            assert_eq!(picture.size(), Size::new(32, 32).unwrap());
            self.1.send(picture.captured).map_err(|_| io::ErrorKind::BrokenPipe.into())
        }

        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn push(display: &Display, millis: u64) -> io::Result<()> {
        let time = Time::from_millis(millis);
        let picture = Picture::new(PixelFormat::I420, Size::new(16, 16).unwrap(), time);
        let rate = FrameRate::new(25, 1).unwrap();
        let (stamps, captured) = (Stamps::captured_at(time), Utc::from_micros(millis * 1000));
        let shown = Shown { content: Content::Picture(picture), rate, stamps, captured };
        display.push(shown, Size::new(32, 32).ok())
    }

    /// Takes so many pictures, and then fails so.
    struct Failing(u32, io::ErrorKind);

    impl Sink for Failing {
        fn show(&mut self, _: &Shown) -> io::Result<()> {
            self.0 = self.0.checked_sub(1).ok_or(self.1)?;
            Ok(())
        }

        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_sink_that_fails_when_it_has_worked_does_not_end_the_link_and_is_told_at_its_end() {
        for (works, kind, is_fatal) in [
            (2, io::ErrorKind::StorageFull, false),
            (0, io::ErrorKind::StorageFull, true),
            (2, io::ErrorKind::BrokenPipe, true),
        ] {
            let display = Display::start(Box::new(Failing(works, kind))).unwrap();
            for number in 0..u64::from(works) {
                push(&display, number).unwrap();
                until("it is shown", || display.counts().0 > number);
            }
            push(&display, 7).unwrap();
            until("it has failed", || display.shared.state.lock().unwrap().has_failed);
            let told = push(&display, 8);
            assert_eq!(told.map_err(|error| error.kind()), if is_fatal { Err(kind) } else { Ok(()) });
            assert!(display.failure().is_ok(), "it is told once");
            let ended = display.finish().map_err(|error| error.kind());
            assert_eq!(ended, if is_fatal { Ok(()) } else { Err(kind) });
            assert_eq!(display.counts().1, u64::from(!is_fatal));
        }
    }

    #[test]
    fn a_slow_sink_misses_the_oldest_and_its_end_is_told() {
        let ((go, told), (shown, seen)) = (mpsc::channel(), mpsc::channel());
        let display = Display::start(Box::new(Slow(told, shown))).unwrap();
        for number in 0..10 {
            push(&display, number).unwrap();
        }
        for _ in 0..3 {
            go.send(()).unwrap();
        }
        let times: Vec<Time> = (0..3).map(|_| seen.recv().unwrap()).collect();
        assert!(times.is_sorted() && *times.last().unwrap() >= Time::from_millis(8), "{times:?}");
        // Whoever looked has gone.
        drop(seen);
        go.send(()).unwrap();
        drop(go);
        let failed = display.finish().is_err() || display.failure().is_err() || push(&display, 10).is_err();
        let (_, dropped) = display.counts();
        assert!(dropped >= 6, "{dropped} dropped; failed: {failed}");
    }

    fn shown(content: Content) -> Shown {
        let (rate, captured) = (FrameRate::new(25, 1).unwrap(), Utc::default());
        Shown { content, rate, stamps: Stamps::default(), captured }
    }

    fn unit(number: u64, needs: Option<u64>) -> Shown {
        let header = glassline_direct::coded::UnitHeader {
            epoch: 1,
            number,
            needs,
            continues: false,
            reference: true,
            captured: glassline_media::Utc::from_nanos(0),
            rate: None,
            passed: Stamps::default(),
        };
        shown(Content::Unit(ReceivedUnit { header, data: bytes::Bytes::new(), after_gap: false }))
    }

    fn numbers(state: &State) -> Vec<u64> {
        let number = |(shown, _): &(Shown, Option<Size>)| match &shown.content {
            Content::Unit(unit) => unit.header.number,
            Content::Frame(frame) => frame.header.number,
            Content::Picture(picture) => picture.captured.as_nanos() / 1_000_000,
        };
        state.waiting.iter().map(number).collect()
    }

    #[test]
    fn of_units_that_wait_for_too_long_none_is_shown_before_the_next_key_frame() {
        let mut state = State::default();
        state.put(unit(0, None), None);
        for number in 1..UNITS_WAITING_MAX as u64 {
            state.put(unit(number, Some(number - 1)), None);
        }
        assert_eq!((state.waiting.len(), state.dropped), (60, 0));
        state.put(unit(60, Some(59)), None);
        assert_eq!((state.waiting.len(), state.dropped), (0, 61));
        state.put(unit(61, Some(60)), None);
        assert_eq!((state.waiting.len(), state.dropped), (0, 62), "it needs one that is gone");
        state.put(unit(62, None), None);
        state.put(unit(63, Some(62)), None);
        assert_eq!((numbers(&state), state.dropped), (vec![62, 63], 62));
    }

    #[test]
    fn of_pictures_that_wait_the_newest_three_are_shown() {
        let mut state = State::default();
        for millis in 0..5 {
            let picture =
                Picture::new(PixelFormat::I420, Size::new(16, 16).unwrap(), Time::from_millis(millis));
            state.put(shown(Content::Picture(picture)), None);
        }
        assert_eq!((numbers(&state), state.dropped), (vec![2, 3, 4], 2));
    }

    #[test]
    fn a_picture_ends_a_wait_for_a_key_frame() {
        let mut state = State { waits_for_key: true, ..State::default() };
        let picture = Picture::new(PixelFormat::I420, Size::new(16, 16).unwrap(), Time::from_millis(7));
        state.put(shown(Content::Picture(picture)), None);
        assert_eq!((numbers(&state), state.waits_for_key, state.dropped), (vec![7], false, 0));
    }

    #[test]
    fn a_failure_drops_what_waits_and_is_fatal_where_nothing_was_shown() {
        for (shown_before, kind, is_fatal) in [
            (0, io::ErrorKind::Other, true),
            (1, io::ErrorKind::Other, false),
            (1, io::ErrorKind::BrokenPipe, true),
        ] {
            let mut state = State { shown: shown_before, ..State::default() };
            state.put(unit(0, None), None);
            state.put(unit(1, Some(0)), None);
            state.fail(kind.into());
            assert_eq!((state.waiting.len(), state.dropped, state.has_failed), (0, 2, true));
            assert_eq!(state.take_fatal().map(|error| error.kind()), is_fatal.then_some(kind));
            assert_eq!(state.failure.is_some(), !is_fatal);
        }
    }

    #[test]
    fn a_picture_is_scaled_to_the_size_at_which_it_is_shown_and_a_unit_is_not() {
        let [small, large] = [16, 48].map(|side| Size::new(side, side).unwrap());
        let mut scaler = None;
        let mut content = Content::Picture(Picture::new(PixelFormat::I420, small, Time::ZERO));
        at_size(&mut content, large, &mut scaler);
        let Content::Picture(picture) = &content else { panic!("a picture") };
        assert_eq!((picture.size(), scaler.as_ref().map(Scaler::size)), (large, Some(large)));
        // Another size takes another scaler.
        at_size(&mut content, small, &mut scaler);
        assert_eq!(scaler.as_ref().map(Scaler::size), Some(small));
        let mut coded = unit(0, None).content;
        at_size(&mut coded, large, &mut scaler);
        assert!(matches!(coded, Content::Unit(_)));
        assert_eq!(scaler.map(|scaler| scaler.size()), Some(small));
    }

    #[test]
    fn what_was_shown_is_counted_timed_and_told_to_the_sound() {
        let display = Display::start(Box::new(Failing(9, io::ErrorKind::Other))).unwrap();
        assert_eq!((display.lip_sync().delay(), display.lip_sync().captured()), (None, None));
        let millis = Clock::new().now().as_nanos() / 1_000_000;
        push(&display, millis).unwrap();
        until("it is shown", || display.counts().0 == 1);
        assert!(display.lip_sync().delay().is_some());
        assert_eq!(display.lip_sync().captured(), Some(Utc::from_micros(millis * 1000)));
        let (since, all) = display.times();
        assert_eq!((since.total.count, all.total.count), (1, 1));
        let (since, all) = display.times();
        assert_eq!((since.total.count, all.total.count), (0, 1));
        display.finish().unwrap();
        display.finish().unwrap();
    }

    #[test]
    fn a_sinks_end_is_told_too() {
        struct Ends;

        impl Sink for Ends {
            fn show(&mut self, _: &Shown) -> io::Result<()> {
                Ok(())
            }

            fn finish(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::StorageFull.into())
            }
        }

        let display = Display::start(Box::new(Ends)).unwrap();
        assert_eq!(display.finish().map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
        assert!(display.finish().is_ok(), "once");
    }
}
