//! The receiving end: decodes what comes, reports, and hands pictures to the display.

use super::UNPOISONED;
use super::display::{self, Content, Display, Sink};
use super::key_frames::KeyFrameWish;
use super::lip_sync::LipSync;
use super::times::StageTimes;
use crate::link::Link;
use crate::link::session::{Served, Service};
use glassline_codec::vp8::Limits;
use glassline_direct::coded::{CodedReceiver, is_unit};
use glassline_direct::wire::{FrameCodec, TakenCodecs};
use glassline_direct::{
    Fate, REPORTS, Receiver, ReceiverCounters, RefusedPicture, Shown, VIDEO, report_options,
};
use glassline_io::clock::Clock;
use glassline_media::{FrameRate, Size, Stage, Stamps, Time, Utc};
use glassline_transport::link::{Event, Options, Received};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long the loop waits for a message before it looks whether the link is still there.
const TICK: Duration = Duration::from_millis(100);

/// A sender that was asked for a key frame for so long, and has sent so many pictures since, makes none.
const KEY_FRAME_PATIENCE: Duration = Duration::from_secs(10);
const HEARD_PICTURES: u64 = 100;

/// Of a sender that does not say how many pictures it gives a second.
const ASSUMED_RATE: FrameRate = match FrameRate::new(30, 1) {
    Some(rate) => rate,
    None => unreachable!(),
};

/// What came, and when.
#[derive(Clone, Debug, Default)]
pub struct ReceiveStatistics {
    /// What became of the messages, of all links.
    pub counters: ReceiverCounters,
    /// Messages that the link has passed over: lost, incomplete, given up.
    pub skipped: u64,
    /// Bytes of pictures.
    pub bytes: u64,
    /// States that are held now.
    pub states: usize,
    /// Pictures that the sink has taken.
    pub shown: u64,
    /// Pictures that the sink was too slow for.
    pub dropped: u64,
    /// At which pictures are shown, and at which they are coded.
    pub size: Option<(Size, Size)>,
    /// Times since the last call. By both machines' wall clocks: they must agree for the way from one to the other.
    pub times: StageTimes,
    /// Times of the whole run.
    pub all_times: StageTimes,
}

/// A service that shows what a [`VideoSender`](super::VideoSender) sends.
pub struct VideoReceiver {
    display: Display,
    limits: Limits,
    /// The sink takes frames as they come.
    takes_frames: bool,
    /// Where it does: with what it has begun. A stream or a file stays with that.
    begun: Mutex<TakenCodecs>,
    /// Says when it needs a key frame among them.
    key_frame_wish: Option<Arc<KeyFrameWish>>,
    /// The link that came last is shown; those before it are of a sender that has begun anew.
    links: AtomicU64,
    figures: Mutex<Figures>,
    clock: Clock,
}

#[derive(Default)]
struct Figures {
    /// Of links that have ended.
    before: ReceiverCounters,
    now: ReceiverCounters,
    skipped: u64,
    bytes: u64,
    states: usize,
    size: Option<(Size, Size)>,
}

impl VideoReceiver {
    /// A receiver that shows pictures in `sink`, none larger than `limits`.
    ///
    /// # Errors
    /// The system makes no more threads.
    pub fn new(sink: Box<dyn Sink>, limits: Limits) -> io::Result<VideoReceiver> {
        let takes_frames = sink.takes_frames();
        Ok(VideoReceiver {
            takes_frames,
            begun: Mutex::default(),
            key_frame_wish: sink.key_frame_wish().filter(|_| takes_frames),
            display: Display::start(sink)?,
            limits,
            links: AtomicU64::new(0),
            figures: Mutex::default(),
            clock: Clock::new(),
        })
    }

    /// How late pictures are, and which one is on screen: for what is played or told beside them.
    pub fn lip_sync(&self) -> Arc<LipSync> {
        self.display.lip_sync()
    }

    /// Waits until all that came is shown.
    ///
    /// # Errors
    /// The sink's.
    pub fn finish(&self) -> io::Result<()> {
        self.display.finish()
    }

    /// Figures now.
    pub fn statistics(&self) -> ReceiveStatistics {
        let (shown, dropped) = self.display.counts();
        let (times, all_times) = self.display.times();
        let figures = self.figures.lock().expect(UNPOISONED);
        ReceiveStatistics {
            counters: sum(figures.before, figures.now),
            skipped: figures.skipped,
            bytes: figures.bytes,
            states: figures.states,
            shown,
            dropped,
            size: figures.size,
            times,
            all_times,
        }
    }

    /// When a picture passed what, on our clock.
    fn stamps(&self, sent: Utc, passed: &Stamps, received: &Received) -> Stamps {
        // How old it is says the wall clock, which both ends have.
        let (now, utc) = (self.clock.now(), self.clock.utc());
        let age = utc.as_nanos().saturating_sub(sent.as_nanos());
        let captured = Time::from_nanos(now.as_nanos().saturating_sub(age));
        passed
            .rebased(captured)
            .with(Stage::Received, received.first)
            .with(Stage::Reassembled, received.last)
            .with(Stage::Decoded, now)
    }

    /// Tells a sender that may choose the codec what the sink can go on with.
    fn keep_to(&self, receiver: &mut Receiver, codec: TakenCodecs) {
        if self.takes_frames {
            let mut begun = self.begun.lock().expect(UNPOISONED);
            if *begun == TakenCodecs::Any {
                *begun = codec;
            }
            receiver.take_only(*begun);
        }
    }

    /// Whether the sender is asked for a key frame now.
    fn wants_key_frame(&self) -> bool {
        let is_wanted = self.key_frame_wish.as_ref().is_some_and(|wish| wish.is_wanted(self.clock.now()));
        is_wanted || self.takes_frames && self.display.waits_for_key()
    }

    /// Whether the sender does not do what it is asked for, though its pictures come.
    fn is_unheard(&self, since: Time, then: ReceiverCounters, now: ReceiverCounters) -> bool {
        self.clock.now().since(since) >= KEY_FRAME_PATIENCE && now.pictures >= then.pictures + HEARD_PICTURES
    }

    /// Takes an access unit; shows what can be decoded.
    fn take_unit(&self, receiver: &mut CodedReceiver, received: &Received) -> io::Result<()> {
        let units = match receiver.handle(self.clock.now(), &received.bytes) {
            Ok(units) => units,
            Err(error) => {
                tracing::warn!(%error, "the peer sends what is no access unit");
                self.figures.lock().expect(UNPOISONED).now.malformed += 1;
                return Ok(());
            }
        };
        let mut figures = self.figures.lock().expect(UNPOISONED);
        let (shown, passed) = receiver.counts();
        let keys = units.iter().filter(|unit| unit.header.needs.is_none()).count() as u64;
        (figures.now.pictures, figures.now.shown, figures.now.lacking) = (shown + passed, shown, passed);
        figures.now.key += keys;
        figures.skipped += received.skipped;
        figures.bytes += received.bytes.len() as u64;
        drop(figures);
        for unit in units {
            let stamps = self.stamps(unit.header.captured, &unit.header.passed, received);
            let (rate, captured) = (unit.header.rate.unwrap_or(ASSUMED_RATE), unit.header.captured);
            let content = Content::Unit(unit);
            self.display.push(display::Shown { content, rate, stamps, captured }, None)?;
        }
        Ok(())
    }

    /// Takes a message; shows what it makes possible.
    fn take(&self, receiver: &mut Receiver, received: &Received) -> io::Result<()> {
        let fate = match receiver.handle(self.clock.now(), &received.bytes) {
            Ok(fate) => fate,
            Err(error) => {
                tracing::warn!(%error, "the peer sends what is no picture");
                return Ok(());
            }
        };
        if let Some(error) = receiver.poll_refused() {
            let advice = match &error {
                RefusedPicture::TooLarge { .. } => "receive --max-picture raises the limit",
                _ => "build it with the feature av1, or have the peer send --codec vp8",
            };
            tracing::warn!(%error, advice, "the peer's pictures are not shown");
        }
        let size = if let Fate::Shown(pictures) = fate {
            let size = pictures.last().map(|shown| (shown.size, shown.picture.size()));
            let is_taken = |shown: &Shown| self.takes_frames && shown.header.codec != FrameCodec::Vp8;
            for shown in pictures.into_iter().filter(|shown| !is_taken(shown)) {
                self.keep_to(receiver, TakenCodecs::Vp8);
                let stamps = self.stamps(shown.header.captured, &shown.header.passed, received);
                let (content, captured) = (Content::Picture(shown.picture), shown.header.captured);
                let picture = display::Shown { content, rate: shown.rate, stamps, captured };
                self.display.push(picture, Some(shown.size))?;
            }
            size
        } else {
            None
        };
        while let Some(frame) = receiver.poll_frame() {
            self.keep_to(receiver, TakenCodecs::Av1);
            let stamps = self.stamps(frame.header.captured, &frame.header.passed, received);
            if let Some(wish) = self.key_frame_wish.as_ref().filter(|_| frame.header.source.is_none()) {
                wish.note_received();
            }
            let (rate, captured) = (frame.rate, frame.header.captured);
            let content = Content::Frame(frame);
            self.display.push(display::Shown { content, rate, stamps, captured }, None)?;
        }
        let mut figures = self.figures.lock().expect(UNPOISONED);
        figures.size = size.or(figures.size);
        figures.skipped += received.skipped;
        figures.bytes += received.bytes.len() as u64;
        (figures.now, figures.states) = (receiver.counters(), receiver.states());
        Ok(())
    }
}

fn sum(a: ReceiverCounters, b: ReceiverCounters) -> ReceiverCounters {
    ReceiverCounters {
        pictures: a.pictures + b.pictures,
        shown: a.shown + b.shown,
        overtaken: a.overtaken + b.overtaken,
        lacking: a.lacking + b.lacking,
        damaged: a.damaged + b.damaged,
        malformed: a.malformed + b.malformed,
        key: a.key + b.key,
    }
}

impl Service for VideoReceiver {
    fn sends(&self) -> Vec<(u8, Options)> {
        vec![(REPORTS, report_options())]
    }

    fn takes(&self) -> Vec<u8> {
        vec![VIDEO]
    }

    fn serve(&self, link: &Link) -> io::Result<Served> {
        let ours = self.links.fetch_add(1, Ordering::Relaxed) + 1;
        let mut receiver = Receiver::new(self.limits);
        if self.takes_frames {
            receiver.keep_frames();
        }
        let mut units = CodedReceiver::new();
        // Since when a key frame is asked for, with what had come by then; whether it was told that none comes.
        let (mut asked, mut is_told) = (None, false);
        loop {
            let now = self.clock.now();
            let due = [receiver.poll_timeout(), units.poll_timeout()].into_iter().flatten().min();
            let wait = due.map_or(TICK, |at| at.since(now).min(TICK));
            match link.receive_message(VIDEO, wait) {
                Ok(Some(_)) if self.links.load(Ordering::Relaxed) != ours => {}
                // What a session before this one left is of no use: its states are gone.
                Ok(Some(received)) if received.stale => {}
                Ok(Some(received)) if is_unit(&received.bytes) => self.take_unit(&mut units, &received)?,
                Ok(Some(received)) => self.take(&mut receiver, &received)?,
                Ok(None) => self.display.failure()?,
                Err(_) => break,
            }
            receiver.handle_timeout(self.clock.now());
            units.handle_timeout(self.clock.now());
            if self.wants_key_frame() {
                receiver.ask_key_frame();
                asked.get_or_insert((self.clock.now(), receiver.counters()));
            }
            asked = asked.filter(|(_, then)| receiver.counters().key == then.key);
            if !is_told
                && asked.is_some_and(|(since, then)| self.is_unheard(since, then, receiver.counters()))
            {
                is_told = true;
                let advice = "bring it to this version, or receive with --out-codec h264";
                tracing::warn!(advice, "the sender makes no key frame for viewers that come later");
            }
            if let Some(report) = receiver.poll_report().or_else(|| units.poll_report()) {
                // The next one says it too.
                let _ = link.try_send(REPORTS, report);
            }
        }
        let mut figures = self.figures.lock().expect(UNPOISONED);
        if self.links.load(Ordering::Relaxed) == ours {
            (figures.before, figures.now) = (sum(figures.before, figures.now), ReceiverCounters::default());
            figures.states = 0;
        }
        Ok(Served::ThisLink)
    }

    fn handle_event(&self, _: &Link, _: &Event) {}

    fn is_input(&self) -> bool {
        false
    }
}

impl std::fmt::Debug for VideoReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VideoReceiver")
    }
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
