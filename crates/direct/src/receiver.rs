//! The receiving end: decodes what it can, in the order of the pictures' numbers, and says what it has.

mod decoder;

pub use self::decoder::RefusedPicture;
use self::decoder::{Decoder, Held};
use crate::wire::{
    DecodedPicture, FrameCodec, LackingPicture, PictureHeader, Report, StateTag, TakenCodecs, WireError,
};
use bytes::Bytes;
use glassline_codec::vp8::Limits;
use glassline_media::{FrameRate, Picture, Size, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// States that are held at most, whatever the sender says that it still needs.
const STATES_MAX: usize = 40;
/// Pictures that wait for one before them, at most.
const WAITING_MAX: usize = 4;
/// How long a picture waits for its source before the sender is told that the source is missing: packets overtake each other.
const MISSING_TIMEOUT: Duration = Duration::from_millis(4);

/// Of a sender that does not say how many pictures it gives a second.
const ASSUMED_RATE: FrameRate = match FrameRate::new(30, 1) {
    Some(rate) => rate,
    None => unreachable!(),
};

/// A picture to be shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// What the sender said of it.
    pub header: PictureHeader,
    /// Pictures a second of the sender's source.
    pub rate: FrameRate,
    /// The picture; it bears no time of capture but the header's, as the sender's clock is not ours. Where the network takes
    /// little it is smaller than `size`.
    pub picture: Picture,
    /// The size at which to show it: the source's.
    pub size: Size,
    /// Bytes of the encoded frame.
    pub bytes: usize,
    /// Whether it needed no other.
    pub key: bool,
}

/// A frame that was decoded, as it came: those of one run in their order, from the first on, are a stream that any decoder of
/// the codec decodes, since each was coded against one before it.
#[derive(Clone, Debug)]
pub struct CodedFrame {
    /// What the sender said of it.
    pub header: PictureHeader,
    /// Pictures a second of the sender's source.
    pub rate: FrameRate,
    /// The size of its picture.
    pub size: Size,
    /// A temporal unit of AV1.
    pub frame: Bytes,
}

/// What became of a message.
#[derive(Clone, Debug)]
pub enum Fate {
    /// These pictures can be shown: it, or it and those that have waited for it; only the last is news.
    Shown(Vec<Shown>),
    /// It was decoded or not, and is not to be shown: a newer one was.
    Overtaken,
    /// It waits for the picture that it is coded against.
    Waits,
    /// It cannot be decoded, or its state is another than the sender's.
    Damaged,
}

/// Counts of what came, since this end began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// Pictures that came whole.
    pub pictures: u64,
    /// Of them, those that were shown.
    pub shown: u64,
    /// Those that were not: a newer one was there.
    pub overtaken: u64,
    /// Pictures of which the source state never came.
    pub lacking: u64,
    /// Pictures that could not be decoded, or that led to another state than the sender's.
    pub damaged: u64,
    /// Messages of no known format.
    pub malformed: u64,
    /// Pictures that needed no other.
    pub key: u64,
}

struct Waiting {
    header: PictureHeader,
    frame: Bytes,
    since: Time,
    /// The sender knows.
    is_told: bool,
}

/// Takes the messages of channel [`VIDEO`](crate::VIDEO).
///
/// Numbers of the pictures of one run of the sender rise, whatever comes: a run's place is taken by another one only with the
/// first picture of that which can be shown, so that what was shown last is always known.
pub struct Receiver {
    decoder: Decoder,
    /// The run of which a picture was shown last.
    run: Option<Run>,
    /// Another one that nothing could be shown of yet.
    next: Option<Run>,
    counters: ReceiverCounters,
    refused: Option<RefusedPicture>,
    /// Frames that were not taken yet; `None`: none are asked for.
    frames: Option<VecDeque<CodedFrame>>,
    /// Which pictures the sender is told to send.
    codecs: TakenCodecs,
}

/// What is known of one run of the sender.
struct Run {
    epoch: u32,
    rate: FrameRate,
    /// The size at which to show pictures, where they are not of that size.
    display: Option<Size>,
    /// By the number of the picture that they are behind.
    states: BTreeMap<u64, (Held, StateTag)>,
    /// Pictures that wait for one before them.
    waiting: BTreeMap<u64, Waiting>,
    newest: Option<u64>,
    /// The newest that was shown.
    shown: Option<u64>,
    lacking: Option<LackingPicture>,
    /// A report is due.
    is_due: bool,
    /// A key frame is asked for, behind this picture.
    key_after: Option<u64>,
    /// Pictures that came whole, and of them those that were shown.
    pictures: u64,
    shown_pictures: u64,
}

/// What decodes, and what is counted, whichever run a picture is of.
struct Shared<'a> {
    decoder: &'a mut Decoder,
    counters: &'a mut ReceiverCounters,
    refused: &'a mut Option<RefusedPicture>,
    frames: Option<&'a mut VecDeque<CodedFrame>>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = self.run.as_ref().and_then(|run| run.shown);
        f.debug_struct("Receiver").field("shown", &shown).field("states", &self.states()).finish()
    }
}

impl Receiver {
    /// An end that holds nothing yet. `limits` bounds the pictures that it decodes.
    pub fn new(limits: Limits) -> Receiver {
        let (decoder, counters) = (Decoder::new(limits), ReceiverCounters::default());
        let codecs = TakenCodecs::Any;
        Receiver { decoder, run: None, next: None, counters, refused: None, frames: None, codecs }
    }

    /// Tells the sender, where that may choose, which pictures can be taken from now on.
    pub fn take_only(&mut self, codecs: TakenCodecs) {
        self.codecs = codecs;
    }

    /// Keeps frames for [`Receiver::poll_frame`] from now on, which the caller then calls behind each [`Receiver::handle`].
    pub fn keep_frames(&mut self) {
        self.frames.get_or_insert_default();
    }

    /// A frame that was decoded, of a codec of which others can follow it: AV1. What is coded in VP8 was coded against states
    /// that only this end has.
    pub fn poll_frame(&mut self) -> Option<CodedFrame> {
        self.frames.as_mut()?.pop_front()
    }

    /// Why a picture was refused since the last call, if one was: it counts as damaged, and so do all that are predicted from it.
    pub fn poll_refused(&mut self) -> Option<RefusedPicture> {
        self.refused.take()
    }

    /// Counts.
    pub fn counters(&self) -> ReceiverCounters {
        self.counters
    }

    /// States that are held.
    pub fn states(&self) -> usize {
        self.runs().map(|run| run.states.len()).sum()
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.run.iter().chain(&self.next)
    }

    /// Takes a message and decodes what it makes possible.
    ///
    /// # Errors
    /// It is no message of this format; it is counted.
    pub fn handle(&mut self, now: Time, message: &Bytes) -> Result<Fate, WireError> {
        let (header, frame) = PictureHeader::parse(message).inspect_err(|_| self.counters.malformed += 1)?;
        let frame = message.slice_ref(frame);
        self.counters.pictures += 1;
        let is_next = self.run.as_ref().is_none_or(|run| run.epoch != header.epoch);
        if is_next && self.next.as_ref().is_none_or(|next| next.epoch != header.epoch) {
            self.next = Some(Run::new(header.epoch));
        }
        let Some(run) = (if is_next { &mut self.next } else { &mut self.run }) else {
            return Ok(Fate::Overtaken);
        };
        let mut shared = Shared {
            decoder: &mut self.decoder,
            counters: &mut self.counters,
            refused: &mut self.refused,
            frames: self.frames.as_mut(),
        };
        let fate = run.handle(now, header, frame, &mut shared);
        if is_next && matches!(fate, Fate::Shown(_)) {
            self.run = self.next.take();
        }
        if self.refused == Some(RefusedPicture::NoAv1) {
            self.codecs = TakenCodecs::Vp8;
        }
        Ok(fate)
    }

    /// When the caller has to call [`Receiver::handle_timeout`], if at all.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.runs().filter_map(Run::poll_timeout).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        for run in self.run.iter_mut().chain(&mut self.next) {
            if run.poll_timeout().is_some_and(|at| at <= now) {
                run.tell_lacking();
            }
        }
    }

    /// Asks the sender for a key frame, for what takes [frames](Receiver::poll_frame) from here on. Each report says it until a newer
    /// key frame is decoded; to ask again before that changes nothing. The sender decides when it comes. Where nothing was decoded
    /// yet a key frame comes anyway.
    pub fn ask_key_frame(&mut self) {
        if let Some(run) = &mut self.run
            && run.key_after.is_none()
        {
            (run.key_after, run.is_due) = (run.newest, true);
        }
    }

    /// A message for channel [`REPORTS`](crate::REPORTS), where there is something to say: after each picture that came. Where
    /// two runs of the sender have something, the newer one's is first.
    pub fn poll_report(&mut self) -> Option<Vec<u8>> {
        let run = self.next.iter_mut().chain(&mut self.run).find(|run| run.is_due)?;
        run.is_due = false;
        Some(Report { codecs: self.codecs, ..run.report() }.to_bytes())
    }
}

impl Run {
    fn new(epoch: u32) -> Run {
        Run {
            epoch,
            rate: ASSUMED_RATE,
            display: None,
            states: BTreeMap::new(),
            waiting: BTreeMap::new(),
            newest: None,
            shown: None,
            lacking: None,
            is_due: false,
            key_after: None,
            pictures: 0,
            shown_pictures: 0,
        }
    }

    fn handle(&mut self, now: Time, header: PictureHeader, frame: Bytes, shared: &mut Shared<'_>) -> Fate {
        self.is_due = true;
        self.pictures += 1;
        self.newest = self.newest.max(Some(header.number));
        self.release(header.kept, shared.counters);
        if self.shown.is_some_and(|shown| header.number <= shown) && !self.is_waited_for(header.number) {
            shared.counters.overtaken += 1;
            return Fate::Overtaken;
        }
        if self.would_overwrite_newer(&header) {
            shared.counters.overtaken += 1;
            return Fate::Overtaken;
        }
        if header.source.is_some_and(|source| !self.states.contains_key(&source)) {
            self.wait(now, header, frame, shared.counters);
            return Fate::Waits;
        }
        let mut shown = Vec::new();
        let mut next = Some((header, frame));
        let mut damaged = false;
        while let Some((header, frame)) = next {
            // One that has waited may be late by now.
            if self.would_overwrite_newer(&header) {
                shared.counters.overtaken += 1;
                next = self.next_ready();
                continue;
            }
            match self.decode(&header, &frame, shared) {
                None => damaged = true,
                Some(picture) if self.shown.is_none_or(|shown| header.number > shown) => {
                    self.shown = Some(header.number);
                    self.shown_pictures += 1;
                    shared.counters.shown += 1;
                    shared.counters.key += u64::from(header.source.is_none());
                    let (rate, bytes, key) = (self.rate, frame.len(), header.source.is_none());
                    let size = self.display.unwrap_or(picture.size());
                    shown.push(Shown { header, rate, picture, size, bytes, key });
                }
                Some(_) => shared.counters.overtaken += 1,
            }
            next = self.next_ready();
        }
        match shown.is_empty() {
            false => Fate::Shown(shown),
            true if damaged => Fate::Damaged,
            true => Fate::Overtaken,
        }
    }

    /// Lets states go that the sender will not code against, and more where it wants too many.
    fn release(&mut self, kept: u64, counters: &mut ReceiverCounters) {
        // A header may lie about it: the newest stays in any case, since it is what the next one is coded against.
        let newest = self.states.keys().next_back().copied().unwrap_or(0);
        self.states = self.states.split_off(&kept.min(newest));
        // The one that the sender names is the one that it knows to be here: without it there would be nothing in common.
        while self.states.len() >= STATES_MAX {
            let Some(oldest) = self.states.keys().copied().find(|number| *number != kept) else { break };
            self.states.remove(&oldest);
        }
        let before = self.waiting.len();
        self.waiting.retain(|_, waiting| waiting.header.source >= Some(kept));
        counters.lacking += (before - self.waiting.len()) as u64;
    }

    fn is_waited_for(&self, number: u64) -> bool {
        self.waiting.values().any(|waiting| waiting.header.source == Some(number))
    }

    fn wait(&mut self, now: Time, header: PictureHeader, frame: Bytes, counters: &mut ReceiverCounters) {
        let waiting = Waiting { header, frame, since: now, is_told: false };
        counters.lacking += u64::from(self.waiting.insert(header.number, waiting).is_some());
        while self.waiting.len() > WAITING_MAX {
            self.tell_lacking();
            self.waiting.pop_first();
            counters.lacking += 1;
        }
    }

    /// Whether decoding the picture would overwrite the state of a newer one: it is late, and for the sender the newer one's state
    /// is there.
    fn would_overwrite_newer(&self, header: &PictureHeader) -> bool {
        let newer = || self.states.range(header.number..).map(|(_, (held, _))| held);
        match header.codec {
            FrameCodec::Vp8 => false,
            FrameCodec::Av1 { .. } if header.source.is_none() => newer().next().is_some(),
            FrameCodec::Av1 { slot } => newer().any(|held| held.is_in(slot)),
        }
    }

    /// A picture that has waited for its source, which is there now.
    fn next_ready(&mut self) -> Option<(PictureHeader, Bytes)> {
        let ready =
            |waiting: &Waiting| waiting.header.source.is_some_and(|source| self.states.contains_key(&source));
        let number = *self.waiting.iter().find(|(_, waiting)| ready(waiting))?.0;
        let waiting = self.waiting.remove(&number)?;
        Some((waiting.header, waiting.frame))
    }

    /// Decodes a picture and keeps its state; its source is there. `None` where the picture is damaged.
    fn decode(&mut self, header: &PictureHeader, frame: &Bytes, shared: &mut Shared<'_>) -> Option<Picture> {
        let source = match header.source {
            Some(source) => self.states.get(&source).map(|(held, _)| held),
            None => None,
        };
        let decoded = if header.source.is_some() == source.is_some() {
            shared.decoder.decode(self.epoch, header, source, frame)
        } else {
            Err(None)
        };
        let (picture, state) = match decoded {
            Ok(decoded) => decoded,
            Err(refused) => {
                *shared.refused = refused.or(shared.refused.take());
                shared.counters.damaged += 1;
                if header.codec != FrameCodec::Vp8 {
                    // What a decoder of slots holds behind an error is not known.
                    self.states.retain(|_, (held, _)| !held.is_in_slots());
                }
                // The sender takes it for lost by what is said of it.
                self.lacking = Some(LackingPicture { number: header.number, source: header.number });
                return None;
            }
        };
        if let FrameCodec::Av1 { slot } = header.codec {
            let is_key = header.source.is_none();
            self.states.retain(|_, (held, _)| !(held.is_in(slot) || is_key && held.is_in_slots()));
        }
        if header.source.is_none() {
            self.key_after.take_if(|after| header.number > *after);
            self.rate = header.rate.unwrap_or(self.rate);
            self.display = Some(header.size.unwrap_or(picture.size()));
        }
        if let Some(frames) = &mut shared.frames
            && header.codec != FrameCodec::Vp8
        {
            let (header, frame) = (*header, frame.clone());
            frames.push_back(CodedFrame { header, rate: self.rate, size: picture.size(), frame });
        }
        self.states.insert(header.number, (state, header.target));
        if self.lacking.is_some_and(|lacking| lacking.source <= header.number) {
            self.lacking = None;
        }
        Some(picture)
    }

    fn tell_lacking(&mut self) {
        let newest = self.waiting.values().next_back();
        if let Some((number, source)) =
            newest.and_then(|waiting| Some((waiting.header.number, waiting.header.source?)))
        {
            self.lacking = Some(LackingPicture { number, source });
            self.is_due = true;
        }
        self.waiting.values_mut().for_each(|waiting| waiting.is_told = true);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let untold = self.waiting.values().filter(|waiting| !waiting.is_told);
        untold.map(|waiting| waiting.since + MISSING_TIMEOUT).min()
    }

    fn report(&self) -> Report {
        let decoded = self.states.iter().next_back().map(|(number, (_, tag))| DecodedPicture {
            number: *number,
            state: *tag,
            held: self.states.len() as u64,
        });
        Report {
            epoch: self.epoch,
            newest: self.newest,
            decoded,
            lacking: self.lacking,
            shown: self.shown_pictures,
            passed: self.pictures.saturating_sub(self.shown_pictures),
            key_after: self.key_after,
            codecs: TakenCodecs::Any,
        }
    }
}
