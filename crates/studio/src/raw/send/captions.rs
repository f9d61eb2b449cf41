//! A film's captions beside its frames: cc_data as it is in the film, put into one caption distribution packet a frame. Pure but
//! for [`CaptionFeed`], which reads ahead.
//!
//! ```text
//!   thread "captions": film ─► CaptionReader ─► triplets, by round and time ─► CaptionFeed ─┐
//!   thread "raw send": frame's round and time ─► take what is due ─► CaptionPacker ─► Cdp ◄─┘
//! ```
//! The sending thread takes what is there and never waits. Captions that come late go with the next frame, in their order.

use super::{Error, Result, UNPOISONED};
use crate::capture::{self, CaptionItem, CaptionReader, Children, FfmpegInput};
use glassline_media::FrameRate;
use glassline_transport::ancillary::{CaptionRate, CaptionType, Cdp, Triplet};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Triplets of a kind that wait at most: of CEA-608 17 s, of CEA-708 almost a second. Films that
/// have the captions of a whole sentence in one frame need them.
const WAITING_MAX: usize = 512;
/// Pictures with captions that are read ahead at most.
const AHEAD: usize = 256;
/// So many pictures' captions of a film that is looped are kept, so that it is decoded once for them: half an hour at 60 a second.
const KEPT_MAX: usize = 108_000;
/// The first picture's captions are waited for so long, before the first frame is due.
const START: Duration = Duration::from_secs(5);

/// Divides a film's triplets among frames as their rate has it (CTA-708-E §4.3): so many triplets a frame, so many pairs of CEA-608
/// in front. What a frame has no room for goes with those behind it.
#[derive(Debug)]
pub(super) struct CaptionPacker {
    rate: CaptionRate,
    sequence: u16,
    /// Pairs of CEA-608 that wait, by field.
    fields: [VecDeque<Triplet>; 2],
    /// Whether the film has used the field: decoders then await a pair of it in each frame.
    is_used: [bool; 2],
    /// Of CEA-708.
    channel: VecDeque<Triplet>,
    /// The field of the next single pair, where a frame has room for one.
    turn: usize,
    /// Which field's pair the last frame had, in a single pair's place.
    last: Option<usize>,
    /// Whether the last frame had a third pair.
    had_third: bool,
    /// Triplets that found no room.
    pub(super) dropped: u64,
}

impl CaptionPacker {
    pub(super) fn new(rate: CaptionRate) -> CaptionPacker {
        CaptionPacker {
            rate,
            sequence: 0,
            fields: Default::default(),
            is_used: [false; 2],
            channel: VecDeque::new(),
            turn: 0,
            last: None,
            had_third: false,
            dropped: 0,
        }
    }

    /// The film begins again: a single pair's turn is that of the field that comes first.
    pub(super) fn begin_again(&mut self) {
        (self.turn, self.last) = (0, None);
    }

    /// Takes a picture's triplets. Padding and null pairs stay behind: they are made anew where frames need them.
    pub(super) fn push(&mut self, triplet: Triplet) {
        let field = match triplet.kind {
            CaptionType::Field1 => Some(0),
            CaptionType::Field2 => Some(1),
            CaptionType::Data | CaptionType::Start => None,
        };
        if let Some(field) = field {
            self.is_used[field] |= triplet.is_valid;
        }
        if !triplet.is_content() {
            return;
        }
        let queue = field.map_or(&mut self.channel, |field| &mut self.fields[field]);
        if queue.len() < WAITING_MAX {
            queue.push_back(triplet);
        } else {
            self.dropped += 1;
        }
    }

    /// The packet of the next frame, and whether it says something.
    pub(super) fn next(&mut self) -> (Cdp, bool) {
        let mut triplets = self.pairs();
        let room = self.rate.triplets() - self.rate.pairs();
        triplets.extend(self.channel.drain(..room.min(self.channel.len())));
        let has_content = triplets.iter().any(|triplet| triplet.is_content());
        let cdp = Cdp::new(self.rate, self.sequence, &triplets)
            .expect("a frame has room for its pairs and the rest");
        self.sequence = self.sequence.wrapping_add(1);
        (cdp, has_content)
    }

    /// The pairs of CEA-608 of the next frame.
    fn pairs(&mut self) -> Vec<Triplet> {
        if self.rate.pairs() == 1 {
            let field = self.single();
            return self.pair(field).into_iter().collect();
        }
        let mut pairs: Vec<_> = [0, 1].into_iter().filter_map(|field| self.pair(field)).collect();
        if self.rate.pairs() == 3 {
            let longer = usize::from(self.fields[1].len() > self.fields[0].len());
            let third = if self.had_third { None } else { self.fields[longer].pop_front() };
            self.had_third = third.is_some();
            pairs.extend(third);
        }
        pairs
    }

    /// The field of the pair that a frame with a single one has: in turns, but where the film has them the other way round.
    fn single(&mut self) -> usize {
        let (turn, other) = (self.turn, 1 - self.turn);
        let is_others =
            self.fields[turn].is_empty() && !self.fields[other].is_empty() && self.last != Some(other);
        let field = if is_others { other } else { turn };
        self.last = (!self.fields[field].is_empty()).then_some(field);
        self.turn = 1 - field;
        field
    }

    /// The next pair of a field; a null pair where none waits; `None` where the film does not use it.
    fn pair(&mut self, field: usize) -> Option<Triplet> {
        self.fields[field].pop_front().or_else(|| self.is_used[field].then(|| Triplet::null(field == 0)))
    }
}

/// A film's captions on their way beside its frames.
#[derive(Debug)]
pub(super) struct Captions {
    packer: CaptionPacker,
    feed: CaptionFeed,
    /// Of the film's pictures.
    rate: FrameRate,
    round: u64,
    /// The last frame's number in the film.
    last: Option<u64>,
}

impl Captions {
    /// Of a film with pictures at `rate`, in frames of which there are `sent` a second.
    ///
    /// # Errors
    /// As of [`CaptionFeed::open`].
    pub(super) fn open(
        file: &FfmpegInput,
        rate: FrameRate,
        sent: CaptionRate,
        looped: bool,
    ) -> Result<Captions> {
        let feed = CaptionFeed::open(file, rate, looped)?;
        Ok(Captions { packer: CaptionPacker::new(sent), feed, rate, round: 0, last: None })
    }

    /// Waits until the first picture's are there, or it is clear that they will be late.
    pub(super) fn wait(&self) {
        self.feed.wait();
    }

    /// The packet of a frame, by its picture's number in the film, and whether it says something. A number that does not grow is
    /// of the film's next round.
    pub(super) fn next(&mut self, number: u64) -> (Cdp, bool) {
        if self.last.is_some_and(|last| number <= last) {
            self.round += 1;
            self.packer.begin_again();
        }
        self.last = Some(number);
        // Stamps of containers are rounded, so a picture's captions are nearer to its own time than to another's.
        let end = self.rate.time_of(number) + self.rate.time_of(1) / 2;
        let packer = &mut self.packer;
        self.feed.take(self.round, end, |triplet| packer.push(triplet));
        self.packer.next()
    }

    /// Triplets that found no room, and why no more captions come, where that is not the film's end.
    pub(super) fn lost(&self) -> (u64, Option<String>) {
        (self.packer.dropped, self.feed.failure())
    }
}

/// Captions of a picture: in which round of the film, when in it, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Due {
    round: u64,
    time: Duration,
    triplets: Vec<Triplet>,
}

/// A film's captions, read ahead by a thread of their own.
#[derive(Debug)]
pub(super) struct CaptionFeed {
    shared: Arc<Shared>,
    children: Children,
    reading: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ahead: VecDeque<Due>,
    /// The round that is being sent.
    round: u64,
    /// The captions of the first picture are known.
    has_begun: bool,
    failure: Option<String>,
    is_over: bool,
    is_stopped: bool,
}

impl CaptionFeed {
    /// Begins to read the captions of a film with pictures at `rate`, over and over where it is `looped`.
    ///
    /// # Errors
    /// There is no thread. A film that cannot be read shows later, by [`CaptionFeed::failure`].
    pub(super) fn open(file: &FfmpegInput, rate: FrameRate, looped: bool) -> Result<CaptionFeed> {
        let film = file.apart();
        let (children, name) = (film.children(), film.name());
        CaptionFeed::start(move || CaptionReader::open(&film, rate), name, children, looped)
    }

    /// Begins to read what `open` opens for each round.
    fn start<R>(
        open: impl Fn() -> capture::Result<R> + Send + 'static,
        name: String,
        children: Children,
        looped: bool,
    ) -> Result<CaptionFeed>
    where
        R: Iterator<Item = capture::Result<CaptionItem>>,
    {
        let shared = Arc::<Shared>::default();
        let writer = Arc::clone(&shared);
        let read = move || {
            let ended = writer.read(open, looped);
            let mut state = writer.lock();
            if let (Err(error), false) = (ended, state.is_stopped) {
                tracing::warn!("{name}: its captions are not sent any further: {error:#}");
                state.failure = Some(error.to_string());
            }
            state.is_over = true;
            writer.changed.notify_all();
        };
        let reading = thread::Builder::new()
            .name("captions".to_owned())
            .spawn(read)
            .map_err(Error::system("a thread"))?;
        Ok(CaptionFeed { shared, children, reading: Some(reading) })
    }

    /// Waits until the captions of the first picture are there, or it is clear that they will be late.
    pub(super) fn wait(&self) {
        let is_awaited = |state: &mut State| !state.has_begun && !state.is_over;
        let state = self.shared.lock();
        drop(self.shared.changed.wait_timeout_while(state, START, is_awaited).expect(UNPOISONED));
    }

    /// Hands over the triplets of all pictures before `end` in this round of the film, as far as they have been read.
    pub(super) fn take(&self, round: u64, end: Duration, mut out: impl FnMut(Triplet)) {
        let mut state = self.shared.lock();
        state.round = round;
        let is_due = |due: &Due| (due.round, due.time) < (round, end);
        while state.ahead.front().is_some_and(is_due) {
            let due = state.ahead.pop_front();
            due.into_iter().flat_map(|due| due.triplets).for_each(&mut out);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Why no more captions come, where that is not the film's end.
    pub(super) fn failure(&self) -> Option<String> {
        self.shared.lock().failure.clone()
    }
}

impl Drop for CaptionFeed {
    fn drop(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.changed.notify_all();
        self.children.end();
        if let Some(reading) = self.reading.take() {
            let _ = reading.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }

    /// Reads round after round, one ahead of the one that is sent at most. Captions of the first round are kept, as long as they
    /// are few enough, and the others made of them.
    fn read<R>(&self, open: impl Fn() -> capture::Result<R>, looped: bool) -> capture::Result<()>
    where
        R: Iterator<Item = capture::Result<CaptionItem>>,
    {
        let mut kept = Some(Vec::new()).filter(|_| looped);
        for round in 0.. {
            if !self.wait_for(|state| state.round + 1 >= round) {
                return Ok(());
            }
            let is_wanted = match kept.take().filter(|_| round > 0) {
                Some(all) => {
                    // Without any there is nothing to go round for.
                    let is_wanted = !all.is_empty()
                        && all.iter().all(|due: &Due| self.push(Due { round, ..due.clone() }));
                    kept = Some(all);
                    is_wanted
                }
                None => {
                    let keep = looped && round == 0;
                    let (is_wanted, all) = self.read_round(round, open()?, keep)?;
                    kept = all;
                    is_wanted
                }
            };
            if !looped || !is_wanted {
                break;
            }
        }
        Ok(())
    }

    /// Reads one round; false where nothing is wanted any more. Returns all of it where `keep` asks for that and it is not
    /// too much.
    fn read_round(
        &self,
        round: u64,
        items: impl Iterator<Item = capture::Result<CaptionItem>>,
        keep: bool,
    ) -> capture::Result<(bool, Option<Vec<Due>>)> {
        let (mut kept, mut pictures) = (Some(Vec::new()).filter(|_| keep), 0);
        for item in items {
            match item? {
                CaptionItem::Picture(_) => {
                    pictures += 1;
                    if pictures == 2 {
                        self.begin();
                    }
                }
                CaptionItem::Captions(time, bytes) => {
                    let due = Due { round, time, triplets: bytes.into_iter().map(Triplet::parse).collect() };
                    kept = kept.filter(|kept| kept.len() < KEPT_MAX);
                    kept.iter_mut().for_each(|kept| kept.push(due.clone()));
                    if !self.push(due) {
                        return Ok((false, None));
                    }
                }
            }
        }
        Ok((true, kept))
    }

    /// The second picture was decoded. Captions come behind their picture, so that those of the first are there.
    fn begin(&self) {
        let mut state = self.lock();
        if !state.has_begun {
            state.has_begun = true;
            self.changed.notify_all();
        }
    }

    /// Waits for room; false where nothing is wanted any more.
    fn push(&self, due: Due) -> bool {
        if !self.wait_for(|state| state.ahead.len() < AHEAD) {
            return false;
        }
        self.lock().ahead.push_back(due);
        self.begin();
        true
    }

    /// Waits until it is so; false where nothing is wanted any more.
    fn wait_for(&self, is_so: impl Fn(&State) -> bool) -> bool {
        let mut state = self.lock();
        while !state.is_stopped && !is_so(&state) {
            state = self.changed.wait(state).expect(UNPOISONED);
        }
        !state.is_stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_test_support::wait::until;
    use proptest::prelude::*;
    use std::io;

    /// Letters of a text, two in a triplet with this head.
    fn letters(head: u8, text: &str) -> Vec<Triplet> {
        text.as_bytes().chunks(2).map(|pair| Triplet::parse([head, pair[0], pair[1]])).collect()
    }

    /// What a packet says, its padding as dots: of CEA-608 fields `1` and `2` stand before letters or `-`.
    fn told(cdp: &Cdp) -> String {
        let told = |triplet: &Triplet| match (triplet.kind, triplet.is_content()) {
            (CaptionType::Field1, false) => "1-".to_owned(),
            (CaptionType::Field2, false) => "2-".to_owned(),
            (CaptionType::Field1, true) => format!("1{}", String::from_utf8_lossy(&triplet.data)),
            (CaptionType::Field2, true) => format!("2{}", String::from_utf8_lossy(&triplet.data)),
            (_, true) => String::from_utf8_lossy(&triplet.data).into_owned(),
            (_, false) => ".".to_owned(),
        };
        let words: Vec<_> = cdp.triplets().iter().map(told).collect();
        words.join(" ").trim_end_matches([' ', '.']).to_owned()
    }

    /// What frames say whose pictures have these triplets.
    fn packed(rate: CaptionRate, pictures: &[Vec<Triplet>]) -> Vec<String> {
        let mut packer = CaptionPacker::new(rate);
        let frames = pictures.iter().map(|triplets| {
            triplets.iter().for_each(|triplet| packer.push(*triplet));
            let (cdp, has_content) = packer.next();
            assert_eq!(cdp.triplets().len(), rate.triplets());
            assert_eq!(has_content, cdp.triplets().iter().any(|triplet| triplet.is_content()));
            told(&cdp)
        });
        frames.collect()
    }

    #[test]
    fn pairs_of_cea_608_stand_in_front_and_the_rest_goes_with_the_next_frames() {
        // A whole sentence in a picture, as OBS sends it; the channel's data in front of the pairs.
        let burst =
            [letters(0xFF, "AB"), letters(0xFE, "CD"), letters(0xFC, "HELLO!"), letters(0xFD, "xy")].concat();
        let found = packed(CaptionRate::Ntsc, &[vec![], burst, vec![], vec![], vec![]]);
        assert_eq!(found, ["", "1HE 2xy AB CD", "1LL 2-", "1O! 2-", "1- 2-"]);
    }

    #[test]
    fn a_single_pair_is_of_the_fields_in_turns_as_the_film_has_them() {
        let frame = |head: u8, text: &str| letters(head, text);
        let alternating = [frame(0xFC, "ab"), frame(0xFD, "uv"), frame(0xFC, "cd"), frame(0xFD, "wx")];
        assert_eq!(packed(CaptionRate::DoubleNtsc, &alternating), ["1ab", "2uv", "1cd", "2wx"]);
        // The second field first, and both in every second picture.
        assert_eq!(packed(CaptionRate::DoubleNtsc, &alternating[1..]), ["2uv", "1cd", "2wx"]);
        let both = |one: &str, two: &str| [letters(0xFC, one), letters(0xFD, two)].concat();
        let pictures = [both("ab", "uv"), vec![], both("cd", "wx"), vec![]];
        assert_eq!(packed(CaptionRate::DoubleNtsc, &pictures), ["1ab", "2uv", "1cd", "2wx"]);
        // A field alone keeps to half of the frames, as a television set reads it.
        let pictures = [frame(0xFC, "abcd"), vec![], vec![], vec![]];
        assert_eq!(packed(CaptionRate::Hz60, &pictures), ["1ab", "", "1cd", ""]);
    }

    #[test]
    fn frames_of_24_a_second_have_two_and_three_pairs() {
        let pictures =
            [letters(0xFC, "abcd"), letters(0xFC, "ef"), letters(0xFC, "ghij"), letters(0xFC, "kl")];
        let film = pictures.map(|one| [one, letters(0xFD, "zz")].concat());
        let found = packed(CaptionRate::Film, &film);
        assert_eq!(found, ["1ab 2zz 1cd", "1ef 2zz", "1gh 2zz 1ij", "1kl 2zz"]);
    }

    #[test]
    fn null_pairs_do_not_make_what_waits_later() {
        let null = Triplet::null(true);
        let mut pictures = vec![vec![null]; 6];
        pictures[0] = [letters(0xFC, "HELLO!"), vec![null]].concat();
        let found = packed(CaptionRate::Hz25, &pictures);
        assert_eq!(found, ["1HE", "1LL", "1O!", "1-", "1-", "1-"]);
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let mut packer = CaptionPacker::new(CaptionRate::Ntsc);
        let push = |packer: &mut CaptionPacker, count: usize| {
            (0..count).for_each(|_| packer.push(Triplet::parse([0xFC, 0xC8, 0xC5])));
        };
        push(&mut packer, WAITING_MAX);
        assert_eq!(packer.dropped, 0);
        push(&mut packer, 3);
        assert_eq!(packer.dropped, 3);
        packer.next();
        push(&mut packer, 1);
        assert_eq!(packer.dropped, 3);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_overtakes(
            code in 1u8..=8, pictures in prop::collection::vec(prop::collection::vec(any::<[u8; 3]>(), 0..30), 0..12),
        ) {
            let rate = CaptionRate::of_code(code).unwrap();
            let mut packer = CaptionPacker::new(rate);
            let (mut pushed, mut found) = (Vec::new(), Vec::new());
            for frame in 0..400 {
                let triplets = pictures.get(frame).into_iter().flatten().copied().map(Triplet::parse);
                triplets.for_each(|triplet| {
                    pushed.push(triplet);
                    packer.push(triplet);
                });
                let (cdp, _) = packer.next();
                prop_assert_eq!(usize::from(cdp.sequence), frame);
                let is_608 = |triplet: &&Triplet| matches!(triplet.kind, CaptionType::Field1 | CaptionType::Field2);
                let in_front = cdp.triplets().iter().take_while(is_608).count();
                prop_assert!(in_front <= rate.pairs());
                prop_assert_eq!(cdp.triplets().iter().filter(is_608).count(), in_front);
                found.extend_from_slice(cdp.triplets());
            }
            let of = |all: &[Triplet], field: Option<CaptionType>| {
                let is_of = |triplet: &&Triplet| match triplet.kind {
                    kind @ (CaptionType::Field1 | CaptionType::Field2) => field == Some(kind),
                    _ => field.is_none(),
                };
                all.iter().filter(is_of).filter(|triplet| triplet.is_content()).copied().collect::<Vec<_>>()
            };
            for field in [None, Some(CaptionType::Field1), Some(CaptionType::Field2)] {
                prop_assert_eq!(of(&found, field), of(&pushed, field));
            }
        }
    }

    fn film() -> Vec<capture::Result<CaptionItem>> {
        let at = |number: u64| Duration::from_millis(40 * number);
        let captions =
            |number, two: &[u8; 2]| CaptionItem::Captions(at(number), vec![[0xFC, two[0], two[1]]]);
        let picture = |number| CaptionItem::Picture(at(number));
        [picture(0), captions(0, b"ab"), picture(1), picture(2), captions(2, b"cd")].map(Ok).into()
    }

    /// What is handed over before picture `number` has ended.
    fn taken(feed: &CaptionFeed, round: u64, number: u64) -> String {
        let mut text = String::new();
        let end = Duration::from_millis(40 * number + 20);
        feed.take(round, end, |triplet| text.push_str(&String::from_utf8_lossy(&triplet.data)));
        text
    }

    #[test]
    fn captions_go_with_their_pictures_and_begin_again_with_the_film() {
        for looped in [false, true] {
            let open = || Ok(film().into_iter());
            let feed = CaptionFeed::start(open, "film".to_owned(), Children::default(), looped).unwrap();
            feed.wait();
            let rounds: Vec<_> = (0..3)
                .map(|round| {
                    // The reader is a round ahead at most: until it is in this one nothing can be said.
                    let is_there = |state: &State| {
                        state.is_over || state.ahead.iter().filter(|due| due.round == round).count() == 2
                    };
                    feed.shared.lock().round = round;
                    feed.shared.changed.notify_all();
                    until("a round", || is_there(&feed.shared.lock()));
                    [0, 1, 2].map(|number| taken(&feed, round, number))
                })
                .collect();
            let (once, never) = (["ab", "", "cd"].map(str::to_owned), [(); 3].map(|()| String::new()));
            let expected = if looped { [&once, &once, &once] } else { [&once, &never, &never] };
            assert!(rounds.iter().eq(expected), "{rounds:?}");
            assert_eq!(feed.failure(), None);
        }
    }

    #[test]
    fn a_reader_that_fails_is_told_and_what_it_had_is_sent() {
        let open = || {
            let error = capture::Error::Ffmpeg(io::Error::other("gone"));
            Ok(film().into_iter().chain([Err(error)]))
        };
        let feed = CaptionFeed::start(open, "film".to_owned(), Children::default(), true).unwrap();
        feed.wait();
        until("the end", || feed.shared.lock().is_over);
        assert!(feed.failure().unwrap().contains("gone"));
        assert_eq!(taken(&feed, 0, 2), "abcd", "late ones come with the next frame");
    }

    #[test]
    fn an_endless_reader_waits_for_frames_and_ends_with_the_feed() {
        let open = || {
            Ok((0..)
                .map(|number| Ok(CaptionItem::Captions(Duration::from_millis(number), vec![[0xFC, 65, 65]]))))
        };
        let feed = CaptionFeed::start(open, "film".to_owned(), Children::default(), true).unwrap();
        until("as much as is read ahead", || feed.shared.lock().ahead.len() == AHEAD);
        assert_eq!(taken(&feed, 0, 0).len(), 2 * 20);
        drop(feed);
    }
}
