//! Pictures and sound of a stream that is fetched into this process: a camera's by RTSP, a server's by HTTP, what comes in datagrams.
//!
//! ```text
//! Fetched: streams, name ─► Reader: subscription ─► ts::Demuxer ─┬─► run ─► CodedItem (pictures, unchanged)
//!   (a reader each)                                              └─► sound::fetched ─► samples ─► Follower
//! ```
//! A unit is handed over with its last byte, where that shows; where it does not, when the source pauses behind it for longer than
//! within pictures so far ([`Pauses`]), and else with the first bytes of the next one.

mod capture_clock;
mod pauses;
mod reader;

pub(in crate::capture) use capture_clock::CaptureClock;
pub(in crate::capture) use reader::{Next, Reader};

use super::coded_outlet::Outlet;
use super::{Error, Result};
use glassline_delivery::policy::StreamName;
use glassline_media::bitstream::h264::units::Piece;
use glassline_media::bitstream::h264::{self, NalType, Sps, nals};
use glassline_media::container::ts::demux::Follows;
use glassline_media::container::ts::{ElementaryStream, Program};
use glassline_media::{AccessUnit, Codec, FrameRate, Ticks, Time, Utc, bitstream};
use glassline_streams::Streams;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked whether the source has been refused.
const LOOK_TIME: Duration = Duration::from_millis(100);
/// Where a stream's tables name no pictures for so long, it has none.
const PICTURES_WAIT: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 5_000 });
/// A stream that has come for so long without a place to begin at is told of.
const KEY_WAIT: Duration = Duration::from_secs(10);
/// Distances of decoding times that are looked back at; the one in the middle is the distance of pictures.
const DISTANCES: usize = 9;
/// Presentation times that are further back than this are those of another clock, not of pictures in another order.
const ORDER_MAX: Ticks = Ticks(90_000);

/// A stream that is fetched from elsewhere, again and again, and published in this process.
pub trait Fetched: Send + Sync {
    /// The streams of this process.
    fn streams(&self) -> &Arc<Streams>;

    /// What it is called among them.
    fn name(&self) -> &StreamName;

    /// Where it is fetched from, without secrets.
    fn address(&self) -> String;

    /// Pictures, or packets of them, that were lost on the way and that its bytes do not show to be missing. A loss is counted before
    /// what follows it is published.
    fn losses(&self) -> u64;

    /// Why it has never come, and what has to be changed before it can, in words; `None` where it has come, or may.
    fn refusal(&self) -> Option<(String, String)>;
}

/// Why there will be no picture, before the first one: the source is refused, or its tables name none that can be sent.
pub(in crate::capture) fn refused(source: &dyn Fetched) -> Option<Error> {
    let name = source.address();
    if let Some((why, remedy)) = source.refusal() {
        return Some(Error::Refused { name, why, remedy });
    }
    let streams = source.streams();
    let status = streams.find(source.name())?.status(streams.clock().now());
    match Pictures::of(&status.streams) {
        Pictures::Other(Some(codec)) => Some(Error::OtherCodec { name, codec: codec.name() }),
        Pictures::Other(None) if !status.streams.is_empty() && status.uptime >= PICTURES_WAIT => {
            Some(Error::NoPicturesFetched { name })
        }
        Pictures::H264(_) | Pictures::Other(None) | Pictures::Unknown => None,
    }
}

/// The elementary stream of pictures that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pictures {
    Unknown,
    /// It has this PID.
    H264(u16),
    /// There are none, or of another codec.
    Other(Option<Codec>),
}

impl Pictures {
    fn of(streams: &[ElementaryStream]) -> Pictures {
        let video = || streams.iter().filter(|stream| stream.codec.is_some_and(Codec::is_video));
        match video().find(|stream| stream.codec == Some(Codec::H264)) {
            Some(stream) => Pictures::H264(stream.pid),
            None => Pictures::Other(video().next().and_then(|stream| stream.codec)),
        }
    }
}

/// What is known of the stream so far.
struct Run<'a> {
    source: &'a Arc<dyn Fetched>,
    pictures: Pictures,
    clock: CaptureClock,
    /// Since when the stream's tables name no pictures.
    lacks_pictures_since: Option<Time>,
    /// Since when bytes come, without a place to begin at.
    awaits_key_since: Option<Time>,
    follows_gap: bool,
    /// [`Fetched::losses`] that are known.
    losses: u64,
    /// How far the stream had been published when they were known: what was lost is missing somewhere before that, or there.
    lost_until: u64,
    /// The last unit's, for what follows of it.
    is_reference: bool,
    captured: Time,
    newest_pts: Option<Ticks>,
    newest_dts: Option<Ticks>,
    /// Distances of the last decoding times, in ticks.
    distances: VecDeque<u32>,
    /// The rate that the parameter sets name.
    stated: Option<FrameRate>,
    /// When the first picture was captured.
    start: Option<Time>,
    /// How much of the stream is wanted.
    time: Option<Duration>,
    told: Told,
}

/// What has been told, each once.
#[derive(Default)]
struct Told {
    reordered: bool,
    no_key: bool,
    other_codec: bool,
}

/// Hands the pictures of `source` over, until the length is reached or no more are wanted.
///
/// # Errors
/// [`Error::Refused`], [`Error::OtherCodec`] and [`Error::NoPicturesFetched`], where there was no picture yet.
pub(in crate::capture) fn run(source: &Arc<dyn Fetched>, outlet: &mut Outlet<'_>) -> Result<()> {
    let mut reader = Reader::new(Arc::clone(source), outlet.clock);
    let mut run = Run::new(source, outlet.length.time.take());
    let mut looked = outlet.clock.now();
    loop {
        // Whatever comes: a source may have sound alone.
        if outlet.clock.now().since(looked) >= LOOK_TIME {
            run.look(&reader, outlet)?;
            looked = outlet.clock.now();
        }
        let goes_on = match reader.next(LOOK_TIME).map_err(Error::read(&source.address()))? {
            Next::Program(program) => {
                run.follow(&program, outlet)?;
                true
            }
            Next::Unit { pid, follows, unit, came } if run.pictures == Pictures::H264(pid) => {
                let has_lost = follows != Follows::Rest && run.has_lost(&reader);
                let follows = if has_lost { Follows::Gap } else { follows };
                run.take(follows, &unit, came, outlet)
            }
            Next::Unit { .. } | Next::Nothing => true,
            Next::Gap => {
                run.begin_anew();
                true
            }
        };
        if !goes_on {
            return Ok(());
        }
    }
}

impl<'a> Run<'a> {
    fn new(source: &'a Arc<dyn Fetched>, time: Option<Duration>) -> Run<'a> {
        Run {
            source,
            pictures: Pictures::Unknown,
            clock: CaptureClock::default(),
            lacks_pictures_since: None,
            awaits_key_since: None,
            follows_gap: false,
            losses: 0,
            lost_until: 0,
            is_reference: false,
            captured: Time::ZERO,
            newest_pts: None,
            newest_dts: None,
            distances: VecDeque::new(),
            stated: None,
            start: None,
            time,
            told: Told::default(),
        }
    }

    /// What follows is of another place, and perhaps on another clock.
    fn begin_anew(&mut self) {
        (self.follows_gap, self.lost_until) = (true, 0);
        (self.newest_pts, self.newest_dts) = (None, None);
        self.distances.clear();
    }

    /// Whether something may be missing in front of the picture that has just come. A loss is told before what follows it is
    /// published, and where several pictures have come at once, it may lie in front of any: also behind a key frame among them.
    fn has_lost(&mut self, reader: &Reader) -> bool {
        let losses = self.source.losses();
        if losses != std::mem::replace(&mut self.losses, losses) {
            self.lost_until = reader.published();
            return true;
        }
        reader.read_from() < self.lost_until
    }

    fn has_begun(outlet: &Outlet<'_>) -> bool {
        outlet.number > 0
    }

    fn follow(&mut self, program: &Program, outlet: &Outlet<'_>) -> Result<()> {
        let pictures = Pictures::of(&program.streams);
        if pictures == self.pictures {
            return Ok(());
        }
        // Another stream than before, or another camera.
        self.follows_gap |= self.pictures != Pictures::Unknown;
        self.pictures = pictures;
        match pictures {
            Pictures::Other(Some(codec)) if !Self::has_begun(outlet) => {
                return Err(Error::OtherCodec { name: self.source.address(), codec: codec.name() });
            }
            Pictures::Other(Some(codec)) if !std::mem::replace(&mut self.told.other_codec, true) => {
                tracing::warn!(
                    source = self.source.address(),
                    "{} comes now, which is not sent: set the camera's encoder to H.264 again",
                    codec.name()
                );
            }
            _ => {}
        }
        let lacks = matches!(pictures, Pictures::Other(None));
        self.lacks_pictures_since = lacks.then(|| outlet.clock.now());
        Ok(())
    }

    /// If no pictures come: is there a reason?
    fn look(&mut self, reader: &Reader, outlet: &Outlet<'_>) -> Result<()> {
        let now = outlet.clock.now();
        if !Self::has_begun(outlet) {
            if let Some(error) = refused(&**self.source) {
                return Err(error);
            }
            if self.lacks_pictures_since.is_some_and(|since| now.since(since) >= PICTURES_WAIT) {
                return Err(Error::NoPicturesFetched { name: self.source.address() });
            }
        }
        if reader.awaits_entry() {
            let since = *self.awaits_key_since.get_or_insert(now);
            if now.since(since) >= KEY_WAIT && !std::mem::replace(&mut self.told.no_key, true) {
                tracing::warn!(
                    source = self.source.address(),
                    "no key frame has come for {} s, and nothing can be sent before one: set a shorter interval of key \
                     frames (GOP, I-frame interval) in the camera",
                    KEY_WAIT.as_secs()
                );
            }
        } else {
            self.awaits_key_since = None;
        }
        Ok(())
    }

    /// Hands a unit over; false where that was the last.
    fn take(&mut self, follows: Follows, unit: &AccessUnit, came: Time, outlet: &mut Outlet<'_>) -> bool {
        let continues = follows == Follows::Rest;
        if !continues {
            self.follows_gap |= follows == Follows::Gap;
            self.note_order(unit.pts);
            let (now, utc) = (outlet.clock.now(), outlet.clock.utc());
            let captured = self.clock.picture(unit.pts, capture_utc(unit), came, (now, utc));
            if let Some(sentence) = self.clock.take_doubt() {
                tracing::warn!(source = self.source.address(), "{sentence}");
            }
            self.captured = captured;
            self.is_reference = nals(&unit.data).any(|nal| nal.kind().is_slice() && nal.reference() > 0);
        }
        let key = !continues && h264::join(&unit.data).is_some();
        self.note_rate(key, continues, unit);
        outlet.rate = FrameRate::believed(self.stated, self.distance());
        // Of a camera that gives fewer pictures in the dark, a number of pictures tells no time.
        let start = *self.start.get_or_insert(self.captured);
        if self.time.is_some_and(|time| self.captured.since(start) >= time) {
            return false;
        }
        let piece = Piece { data: unit.data.clone(), key, reference: self.is_reference, continues };
        outlet.follows_gap |= std::mem::take(&mut self.follows_gap);
        outlet.push(piece, self.captured)
    }

    fn note_rate(&mut self, key: bool, continues: bool, unit: &AccessUnit) {
        if key
            && let Some(nal) = nals(&unit.data).find(|nal| nal.kind() == NalType::Sps)
            && let Ok(sps) = Sps::parse(nal.payload())
        {
            self.stated = sps.frame_rate;
        }
        if continues {
            return;
        }
        let before = self.newest_dts.replace(unit.dts);
        let distance = before.and_then(|before| u32::try_from((unit.dts - before).0).ok());
        if let Some(distance) = distance.filter(|ticks| (1..=Ticks::RATE).contains(ticks)) {
            self.distances.push_back(distance);
            if self.distances.len() > DISTANCES {
                self.distances.pop_front();
            }
        }
    }

    /// Ticks from one picture to the next, once enough have come.
    fn distance(&self) -> Option<u32> {
        let mut sorted: Vec<u32> = self.distances.iter().copied().collect();
        sorted.sort_unstable();
        (sorted.len() == DISTANCES).then(|| sorted[DISTANCES / 2])
    }

    /// Pictures that are shown in another order than they come in cost a picture's time each.
    fn note_order(&mut self, pts: Ticks) {
        let is_earlier = self.newest_pts.is_some_and(|newest| pts < newest && (newest - pts) < ORDER_MAX);
        if is_earlier && !std::mem::replace(&mut self.told.reordered, true) {
            tracing::warn!(
                source = self.source.address(),
                "the camera codes B pictures, which are sent too, but each of them is later by a picture's time or more: \
                 turn them off in the camera (no B-frames, baseline profile, or low delay)"
            );
        }
        // A clock that was set back begins anew.
        self.newest_pts = if is_earlier { self.newest_pts } else { Some(pts) };
    }
}

/// When a picture was captured, by what it says.
pub(in crate::capture) fn capture_utc(unit: &AccessUnit) -> Option<Utc> {
    let (mut head, _) = bitstream::head(unit.codec, &unit.data);
    head.find_map(|nal| bitstream::messages(unit.codec, &nal)?.capture_utc())
}

#[cfg(test)]
pub(in crate::capture) mod testing;

#[cfg(test)]
#[path = "fetched_tests.rs"]
mod tests;
