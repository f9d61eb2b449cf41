//! Pictures of recordings: a key frame, decoded and made small by what the program gives for it.
//!
//! ```text
//! archive/SESSION/poster.jpg ─► Cache ─ miss ─► thread "posters" ─► store: SESSION/poster.jpg ─► JPEG
//!                                                  │ none                     ▲ once
//!                                                  └─ beginning of the index ─► segment ─► key frame ─► Painter ─► JPEG
//! clip ─► Archive::still_at ─────────────────────────────────────────────────────────────────┘
//! ```
//! One picture is made at a time, since a decoder takes memory and a core. A recording's picture that no other will replace is written
//! into the store beside the recording, so that it is made once and not after each start. In memory it is kept as segments are, and so
//! is the answer that there is none.

use super::catalog::{self, Beginning, Current, OBJECT_WITHIN, READ_WITHIN, Wanted};
use super::replay::{Pending, checked};
use super::{Archive, Shared, answers};
use crate::store::{StoreError, StoreErrorKind};
use bytes::Bytes;
use glassline_delivery::archive::index::{RecordedSegment, Recording};
use glassline_delivery::archive::names::{SessionObject, StoredObject};
use glassline_delivery::archive::query::Span;
use glassline_delivery::fill::Head;
use glassline_delivery::packager::{RenditionName, later};
use glassline_delivery::policy::StreamName;
use glassline_io::containment::{Border, contain};
use glassline_media::container::cmaf::{Event, ReadSample, ReadTrack, Reader};
use glassline_media::{AccessUnit, Time, Utc};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Makes a JPEG of the last picture that access units decode to, which begin with one that decoding can begin with; `None` where that is
/// not possible here.
pub type Painter = Box<dyn Fn(&[AccessUnit]) -> Option<Arc<[u8]>> + Send>;

/// What makes pictures, for one that wants one at a time.
pub(super) type Easel = Arc<Mutex<Painter>>;

/// The picture of a recording is the first key frame of the last segment that begins within this time of its beginning: the very first
/// pictures are often black.
const WITHIN: Duration = Duration::from_secs(10);
/// Requests that wait for the thread at most: one page has fifty.
const JOBS_MAX: usize = 64;
/// A request that has waited longer is refused: where the store is slow, a client that still wants the picture asks again.
const ASKED_WITHIN: Duration = Duration::from_secs(10);
/// The largest picture that the store has of this program is 32 KiB; what is larger was put there by another one.
const STORED_MAX_BYTES: usize = 256 << 10;
/// The begin of a JPEG: start of image, and the marker that follows.
const JPEG_BEGIN: [u8; 3] = [0xff, 0xd8, 0xff];
/// Segments that are looked at for the one that the picture is in, and those that are tried where it is gone.
const LOOKED_AT_MAX: usize = 1000;
const CANDIDATES_MAX: usize = 4;
/// A larger segment is not read for a picture.
const SEGMENT_MAX_BYTES: u64 = 64 << 20;
/// Pictures that are decoded at most where there is no key frame, but a point from which on they become whole.
const UNITS_MAX: usize = 120;
/// The longest rest behind a picture.
const REST_MAX: Duration = Duration::from_secs(5);
/// How long a picture that stays is kept in memory, and how long clients may keep it: a recording of which the oldest is deleted gets
/// another one.
const STAYS_FOR: Duration = Duration::from_secs(300);
const STAYS_SECS: u32 = 3600;
/// The same of one that another will replace: the recording has just begun.
const CHANGES_FOR: Duration = Duration::from_secs(2);
/// How long it is said that there is none, before it is tried again.
const NONE_FOR: Duration = Duration::from_secs(60);
/// What of times by the clock is rounded.
const ROUNDED: Duration = Duration::from_micros(2);

/// A picture that was asked for.
pub(super) struct PosterJob {
    pub(super) stored: StoredObject,
    pub(super) pending: Pending,
    /// When.
    pub(super) asked: Time,
}

/// Why there is no picture.
enum NoPicture {
    /// There is no such recording.
    Unknown,
    /// There are no pictures in it that can be decoded here.
    Undecodable,
    /// It goes on, and none of its pictures are known yet.
    NotYet,
    /// It cannot be read.
    Store(StoreError),
}

impl From<StoreError> for NoPicture {
    fn from(error: StoreError) -> NoPicture {
        NoPicture::Store(error)
    }
}

/// Starts the thread that makes pictures.
pub(super) fn start(shared: &Arc<Shared>, easel: &Easel) -> io::Result<mpsc::SyncSender<PosterJob>> {
    let (jobs, receiver) = mpsc::sync_channel(JOBS_MAX);
    let (shared, easel) = (Arc::clone(shared), Arc::clone(easel));
    let run = move || {
        for job in receiver {
            // A panic drops what is pending, which answers.
            let _ = contain(Border::Output, || answer_in_time(&shared, &easel, job));
        }
    };
    std::thread::Builder::new().name("posters".into()).spawn(run)?;
    Ok(jobs)
}

/// Answers a request, where it has not waited for too long, and a client still waits for the answer.
pub(super) fn answer_in_time(shared: &Shared, easel: &Easel, job: PosterJob) {
    let PosterJob { stored, pending, asked } = job;
    if shared.clock.now().since(asked) > ASKED_WITHIN {
        pending.refuse(answers::late());
    } else if pending.is_awaited() {
        answer(shared, easel, &stored, pending);
    }
}

fn answer(shared: &Shared, easel: &Easel, stored: &StoredObject, mut pending: Pending) {
    let deadline = shared.clock.now() + READ_WITHIN;
    let made = match stored_picture(shared, stored, deadline) {
        Some(picture) => Ok((picture, true)),
        None => poster_of(shared, easel, stored, deadline).map(|(picture, stays)| {
            if stays {
                store_picture(shared, stored, picture.clone(), deadline);
            }
            (picture, stays)
        }),
    };
    match made {
        Ok((picture, stays)) => {
            let (keep, seconds) = match stays {
                true => (STAYS_FOR, STAYS_SECS),
                false => (CHANGES_FOR, CHANGES_FOR.as_secs() as u32),
            };
            let tag = glassline_delivery::archive::index::crc32c(&picture);
            let head = Head::new(stored.object.media_type())
                .with("ETag", &format!("\"{tag:08x}-{}\"", picture.len()))
                .with("Cache-Control", &format!("max-age={seconds}"));
            pending.fill(head, picture.to_vec(), keep);
        }
        Err(NoPicture::Unknown) => pending.refuse(answers::not_found(false)),
        Err(NoPicture::NotYet) => pending.refuse(answers::not_yet()),
        Err(NoPicture::Undecodable) => pending.answer(answers::no_picture(), NONE_FOR),
        Err(NoPicture::Store(error)) => {
            // What is asked of the store for playlists and segments tells of it in the log.
            tracing::debug!(%error, object = %stored, "cannot read a recording for its picture");
            pending.refuse(answers::store_failed(&error));
        }
    }
}

/// The picture of a recording that the store has.
fn stored_picture(shared: &Shared, stored: &StoredObject, deadline: Time) -> Option<Bytes> {
    // The store is not asked for those of recordings that are not there.
    if !catalog::is_listed(shared, &stored.name, stored.session) {
        return None;
    }
    let picture = catalog::wait_for_object(shared, &stored.to_string(), deadline).ok()?;
    (picture.len() <= STORED_MAX_BYTES && picture.starts_with(&JPEG_BEGIN)).then_some(picture)
}

/// Puts a picture beside its recording. One that is being deleted meanwhile gets none: a folder would stay with nothing but a picture.
/// What fails is left; the picture is made again then.
fn store_picture(shared: &Shared, stored: &StoredObject, picture: Bytes, deadline: Time) {
    let index = format!("{}/{}/index", stored.name, stored.session);
    // The deletion of a recording takes the last part of its index, and looks after that for what has come meanwhile.
    let has_index = || {
        let listed = catalog::wait_until(shared, deadline, |done| shared.objects.list(&index, 1, done));
        listed.map(|listed| !listed.is_empty())
    };
    if !matches!(has_index(), Ok(true)) {
        return;
    }
    let path = stored.to_string();
    match catalog::wait_until(shared, deadline, |done| shared.objects.put(&path, picture, done)) {
        Ok(()) if matches!(has_index(), Ok(false)) => shared.objects.delete(&path),
        Ok(()) => {}
        Err(error) => tracing::debug!(%error, object = path, "the store does not take a picture"),
    }
}

/// The picture that stands for a recording, and whether that stays.
fn poster_of(
    shared: &Shared,
    easel: &Easel,
    stored: &StoredObject,
    deadline: Time,
) -> Result<(Bytes, bool), NoPicture> {
    let mut is_relisted = false;
    loop {
        let beginning = catalog::beginning(shared, &stored.name, stored.session)?;
        let Beginning { current, kept_from, failed } = beginning.ok_or(NoPicture::Unknown)?;
        let Current { recording, is_running } = current;
        let (candidates, is_last) = chosen(&recording, kept_from);
        if candidates.is_empty() {
            return Err(match failed {
                Some(error) => NoPicture::Store(error),
                None if is_running && recording.segments(RenditionName::Video).next().is_none() => {
                    NoPicture::NotYet
                }
                None => NoPicture::Undecodable,
            });
        }
        // Between a look at the index and now, retention may have deleted the first of them.
        let tries = if is_relisted { candidates.len() } else { 1 };
        for segment in candidates.into_iter().take(tries) {
            match paint(shared, easel, &recording, segment, (None, deadline)) {
                Err(NoPicture::Store(error)) if error.kind() == StoreErrorKind::NotFound => {}
                painted => return painted.map(|picture| (picture, !(is_last && is_running))),
            }
        }
        if std::mem::replace(&mut is_relisted, true) {
            return Err(NoPicture::Unknown);
        }
        shared.catalog().relist(&stored.name, stored.session);
    }
}

/// The segment that a recording's picture is in, with those that follow it, where it is gone; and whether it is the last one that is known.
/// What was captured before `kept_from` is not looked at.
fn chosen(recording: &Recording, kept_from: Option<Utc>) -> (Vec<&RecordedSegment>, bool) {
    let is_kept = |segment: &&RecordedSegment| kept_from.is_none_or(|from| segment.utc >= from);
    let of = recording.segments(RenditionName::Video).filter(|segment| has_entry(segment)).filter(is_kept);
    let all: Vec<&RecordedSegment> = of.take(LOOKED_AT_MAX).collect();
    let Some(until) = all.first().map(|first| later(first.utc, WITHIN)) else { return (Vec::new(), true) };
    let within = all.iter().take_while(|segment| segment.utc <= until).count();
    let place = within.saturating_sub(1);
    let candidates: Vec<_> = all.iter().skip(place).take(CANDIDATES_MAX).copied().collect();
    (candidates, within == all.len())
}

/// Whether decoding can begin somewhere in a segment that may be read.
fn has_entry(segment: &RecordedSegment) -> bool {
    !segment.is_gap()
        && segment.bytes <= SEGMENT_MAX_BYTES
        && (segment.independent || !segment.key_frames.is_empty())
}

/// The picture of a segment's first key frame; of its last one up to `until`, by the segment's time, where that is said. The store has to
/// give what that takes before `deadline`.
fn paint(
    shared: &Shared,
    easel: &Easel,
    recording: &Recording,
    segment: &RecordedSegment,
    (until, deadline): (Option<Duration>, Time),
) -> Result<Bytes, NoPicture> {
    let rendition = RenditionName::Video;
    let of = |object| StoredObject { name: recording.name().clone(), session: recording.session(), object };
    let header = get(shared, &of(SessionObject::Init { rendition, number: segment.epoch }), deadline)?;
    let object = of(SessionObject::Segment { rendition, segment: segment.number });
    let bytes = get(shared, &object, deadline)?;
    if !checked(&object, &bytes, Some((segment.crc32c, segment.bytes))) {
        return Err(NoPicture::Undecodable);
    }
    let units = units_of(&header, &bytes, segment.independent, until).ok_or(NoPicture::Undecodable)?;
    // What was read is not held while another picture is made.
    drop((header, bytes));
    let paint = easel.lock().unwrap_or_else(PoisonError::into_inner);
    let begun = shared.clock.now();
    let picture = paint(&units);
    // However many are asked for, they take half a core.
    std::thread::sleep(shared.clock.now().since(begun).min(REST_MAX));
    picture.map(Bytes::from_owner).ok_or(NoPicture::Undecodable)
}

/// Reads an object: from the spool, where that has it, or from the store.
fn get(shared: &Shared, stored: &StoredObject, deadline: Time) -> Result<Bytes, StoreError> {
    let spooled = shared.running.as_ref().and_then(|running| running.spooled(stored));
    match spooled.map(|read| read()) {
        Some(Ok(bytes)) => Ok(bytes),
        _ => catalog::wait_for_object(shared, &stored.to_string(), deadline),
    }
}

/// The access units that have to be decoded for a picture of a segment: a key frame, or, where it has none and decoding can begin with
/// its first sample, what it has.
fn units_of(
    header: &[u8],
    segment: &[u8],
    is_entry: bool,
    until: Option<Duration>,
) -> Option<Vec<AccessUnit>> {
    let mut reader = Reader::new();
    reader.push(header).ok()?;
    let track = std::iter::from_fn(|| reader.poll()).find_map(|event| match event {
        Event::Init(tracks) => tracks.into_iter().next(),
        _ => None,
    })?;
    let mut reader = reader.of_segment();
    // What is damaged behind the picture does not matter.
    let _ = reader.push(segment);
    let mut samples: Vec<ReadSample> = Vec::new();
    while let Some(event) = reader.poll() {
        let Event::Chunk(chunk) = event else { continue };
        let own = chunk.runs.into_iter().filter(|run| run.track_id == track.id);
        samples.extend(own.flat_map(|run| run.samples));
    }
    let first = presented(samples.first()?, &track);
    let is_key = |sample: &&ReadSample| sample.is_sync();
    let is_early = |sample: &&ReadSample| {
        until.is_none_or(|until| presented(sample, &track).saturating_sub(first) <= until)
    };
    let key = match until {
        Some(_) => samples.iter().filter(is_key).rfind(is_early),
        None => None,
    };
    let units = match key.or_else(|| samples.iter().find(is_key)) {
        Some(key) => vec![track.to_unit(key).ok()?],
        None if is_entry => samples.iter().take(UNITS_MAX).map_while(|it| track.to_unit(it).ok()).collect(),
        None => return None,
    };
    Some(units)
}

fn presented(sample: &ReadSample, track: &ReadTrack) -> Duration {
    let ticks = (i128::from(sample.decode_time) + i128::from(sample.composition_offset)).max(0);
    let nanos = ticks.saturating_mul(1_000_000_000) / i128::from(track.timescale.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl Archive {
    /// The picture that was captured at `utc`, or the key frame before it; `None` where there is none. Waits for the store, and for
    /// other pictures.
    pub(crate) fn still_at(&self, name: &StreamName, utc: Utc) -> Option<Bytes> {
        let easel = &self.easel.as_ref()?;
        let span = Span { from: utc, to: Some(later(utc, Duration::from_secs(1))) };
        let wanted = Wanted { span: Some(span), is_playlist: true };
        let current = catalog::current(&self.shared, name, wanted).ok()?;
        for Current { recording, .. } in current {
            let scale = |segment: &RecordedSegment| {
                recording.track(RenditionName::Video, segment.epoch).map_or(1, |track| track.timescale)
            };
            let is_then = |segment: &&RecordedSegment| {
                segment.utc <= later(utc, ROUNDED)
                    && segment.end_utc(scale(segment)) > utc
                    && has_entry(segment)
            };
            let Some(segment) = recording.segments(RenditionName::Video).rfind(is_then) else { continue };
            let until = Duration::from_nanos(utc.as_nanos().saturating_sub(segment.utc.as_nanos()));
            let until = Some(until.saturating_add(ROUNDED));
            let deadline = self.shared.clock.now() + OBJECT_WITHIN;
            if let Ok(picture) = paint(&self.shared, easel, &recording, segment, (until, deadline)) {
                return Some(picture);
            }
        }
        None
    }
}
