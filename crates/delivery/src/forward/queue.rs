//! What waits for a server: each track in its order, both together in the order of their times, and no more than some seconds of it.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use glassline_media::Time;
use glassline_media::container::cmaf::Pictures;
use std::collections::VecDeque;
use std::time::Duration;

/// What waits for longer is dropped, up to the newest key frame.
pub const BACKLOG: Duration = Duration::from_secs(5);
/// A key frame that has waited for less than this is where it goes on.
const FRESH: Duration = Duration::from_millis(2500);
/// The same of more bytes: the backlog of 50 Mbit/s.
const BACKLOG_BYTES: usize = 32 << 20;
/// How long a track waits for the other one, so that times of both grow together.
const INTERLEAVE: Duration = Duration::from_millis(500);

/// What is in a stream, for its metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Described {
    /// The codec's number, and what is known of pictures.
    pub video: Option<(u32, Pictures)>,
    /// The codec's number, the rate in samples a second, and channels.
    pub audio: Option<(u32, u32, u16)>,
}

/// What is sent next.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Metadata.
    Metadata(Described),
    /// The body of an FLV tag.
    Tag {
        /// Pictures; otherwise sound.
        is_video: bool,
        /// Milliseconds from the beginning, modulo 2³².
        time: u32,
        /// The body.
        body: Vec<u8>,
    },
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A sequence header.
    Header,
    /// Decoding can begin here.
    Key,
    /// Another unit.
    Frame,
}

/// A tag that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) is_video: bool,
    pub(super) kind: Kind,
    pub(super) time_ms: i64,
    pub(super) body: Vec<u8>,
    /// When its unit came.
    pub(super) arrived: Time,
}

/// What was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) pictures: u64,
    pub(super) sounds: u64,
    /// There was no key frame to go on from: one has to come.
    pub(super) awaits_key: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ForwardQueue {
    described: Option<Described>,
    video: VecDeque<Entry>,
    audio: VecDeque<Entry>,
    has_video: bool,
    has_audio: bool,
    bytes: usize,
}

impl ForwardQueue {
    /// Which tracks there are.
    pub(super) fn set_tracks(&mut self, has_video: bool, has_audio: bool) {
        (self.has_video, self.has_audio) = (has_video, has_audio);
    }

    /// Metadata, which go in front of all that waits.
    pub(super) fn describe(&mut self, described: Described) {
        self.described = Some(described);
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.bytes = self.bytes.saturating_add(entry.body.len());
        if entry.is_video { &mut self.video } else { &mut self.audio }.push_back(entry);
    }

    /// Which track is next, and when that may leave.
    fn next(&self) -> Option<(bool, Time)> {
        match (self.video.front(), self.audio.front()) {
            (Some(video), Some(audio)) => Some((video.time_ms <= audio.time_ms, Time::ZERO)),
            (Some(video), None) => Some((true, wait(video, self.has_audio))),
            (None, Some(audio)) => Some((false, wait(audio, self.has_video))),
            (None, None) => None,
        }
    }

    /// Takes what is next, with its kind; metadata have that of a header.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Item, Kind)> {
        if let Some(described) = self.described.take() {
            return Some((Item::Metadata(described), Kind::Header));
        }
        let (is_video, at) = self.next()?;
        if now < at {
            return None;
        }
        let entry = if is_video { self.video.pop_front() } else { self.audio.pop_front() }?;
        self.bytes = self.bytes.saturating_sub(entry.body.len());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "times are told modulo 2^32"
        )]
        let time = entry.time_ms as u32;
        Some((Item::Tag { is_video, time, body: entry.body }, entry.kind))
    }

    /// Drops all that waits.
    pub(super) fn clear(&mut self) -> Dropped {
        let count = |queue: &mut VecDeque<Entry>| {
            let all = queue.drain(..).filter(|entry| entry.kind != Kind::Header);
            all.fold(0u64, |count, _| count.saturating_add(1))
        };
        let (pictures, sounds) = (count(&mut self.video), count(&mut self.audio));
        self.bytes = 0;
        Dropped { pictures, sounds, awaits_key: true }
    }

    pub(super) fn poll_timeout(&self) -> Time {
        if self.described.is_some() {
            return Time::ZERO;
        }
        self.next().map_or(Time::NEVER, |(_, at)| at)
    }

    /// When the oldest unit came that waits.
    pub(super) fn oldest(&self) -> Option<Time> {
        let fronts = [self.video.front(), self.audio.front()];
        fronts.into_iter().flatten().map(|entry| entry.arrived).min()
    }

    /// Bytes of what waits from this time on.
    fn bytes_from(&self, time_ms: i64) -> usize {
        let all = self.video.iter().chain(&self.audio).filter(|entry| entry.time_ms >= time_ms);
        all.fold(0, |bytes, entry| bytes.saturating_add(entry.body.len()))
    }

    /// Drops what waits for too long, up to the newest key frame. Sequence headers stay, at the time of what comes behind them.
    pub(super) fn bound(&mut self, now: Time) -> Dropped {
        let is_late = self.oldest().is_some_and(|oldest| now.since(oldest) > BACKLOG);
        if !is_late && self.bytes <= BACKLOG_BYTES {
            return Dropped::default();
        }
        let keys = if self.has_video { &self.video } else { &self.audio };
        let newest = keys.iter().rev().find(|entry| entry.kind == Kind::Key);
        // A key frame that is late itself is no place to go on from, nor one with more behind it than there may be.
        let key = newest.filter(|key| now.since(key.arrived) <= FRESH).map(|key| key.time_ms);
        let key = key.filter(|key| self.bytes_from(*key) <= BACKLOG_BYTES / 2);
        let mut dropped = Dropped { awaits_key: key.is_none(), ..Dropped::default() };
        for (queue, count) in
            [(&mut self.video, &mut dropped.pictures), (&mut self.audio, &mut dropped.sounds)]
        {
            let (mut header, mut bytes) = (None, 0usize);
            queue.retain(|entry| {
                let stays = key.is_some_and(|key| entry.time_ms >= key);
                if !stays {
                    bytes = bytes.saturating_add(entry.body.len());
                    match entry.kind {
                        Kind::Header => header = Some(entry.clone()),
                        Kind::Key | Kind::Frame => *count = count.saturating_add(1),
                    }
                }
                stays
            });
            self.bytes = self.bytes.saturating_sub(bytes);
            if let Some(header) = header {
                let time_ms = key.unwrap_or(header.time_ms);
                self.bytes = self.bytes.saturating_add(header.body.len());
                queue.push_front(Entry { time_ms, arrived: now, ..header });
            }
        }
        dropped
    }
}

/// When an entry may leave though the other track has none.
fn wait(entry: &Entry, has_other: bool) -> Time {
    if has_other && entry.kind != Kind::Header { entry.arrived + INTERLEAVE } else { Time::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(is_video: bool, kind: Kind, ms: i64) -> Entry {
        Entry { is_video, kind, time_ms: ms, body: vec![0; 100], arrived: Time::from_millis(ms as u64) }
    }

    fn queue(entries: &[(bool, Kind, i64)]) -> ForwardQueue {
        let mut queue = ForwardQueue::default();
        queue.set_tracks(true, true);
        entries.iter().for_each(|&(is_video, kind, ms)| queue.push(entry(is_video, kind, ms)));
        queue
    }

    fn drain(queue: &mut ForwardQueue, now: u64) -> Vec<(bool, u32)> {
        let pop = || queue.pop(Time::from_millis(now));
        let tag = |(item, _)| match item {
            Item::Tag { is_video, time, .. } => (is_video, time),
            Item::Metadata(_) => panic!("metadata"),
        };
        std::iter::from_fn(pop).map(tag).collect()
    }

    #[test]
    fn tracks_leave_in_the_order_of_their_times() {
        // Pictures come 90 ms before the sound that belongs to them.
        let mut queue = queue(&[
            (true, Kind::Key, 0),
            (true, Kind::Frame, 40),
            (true, Kind::Frame, 80),
            (false, Kind::Frame, 10),
            (false, Kind::Frame, 31),
            (false, Kind::Frame, 52),
        ]);
        assert_eq!(drain(&mut queue, 90), [(true, 0), (false, 10), (false, 31), (true, 40), (false, 52)]);
        assert_eq!(queue.poll_timeout(), Time::from_millis(80) + INTERLEAVE);
        assert_eq!(drain(&mut queue, 579), []);
        assert_eq!(
            drain(&mut queue, 580),
            [(true, 80)],
            "sound that does not come holds nothing back for ever"
        );
        assert_eq!((queue.poll_timeout(), queue.bytes), (Time::NEVER, 0));
    }

    #[test]
    fn a_track_alone_waits_for_nothing() {
        let mut queue = queue(&[(true, Kind::Key, 0), (true, Kind::Frame, 40)]);
        queue.set_tracks(true, false);
        assert_eq!(drain(&mut queue, 40), [(true, 0), (true, 40)]);
    }

    #[test]
    fn what_is_late_is_dropped_up_to_the_newest_key_frame() {
        let mut all = vec![(true, Kind::Header, 0)];
        all.extend(
            (0..126)
                .map(|number| (true, if number % 50 == 0 { Kind::Key } else { Kind::Frame }, number * 40)),
        );
        all.extend((0..50).map(|number| (false, Kind::Frame, number * 100)));
        let mut queue = queue(&all);
        assert_eq!(queue.bound(Time::from_millis(5000)), Dropped::default());
        let dropped = queue.bound(Time::from_millis(5001));
        // The newest key frame is number 100, at 4 s.
        assert_eq!(dropped, Dropped { pictures: 100, sounds: 40, awaits_key: false });
        let left = drain(&mut queue, 9000);
        assert_eq!(left[..2], [(true, 4000), (true, 4000)], "the header, then the key frame");
        assert_eq!((left.len(), queue.bytes), (1 + 26 + 10, 0));
    }

    #[test]
    fn without_a_key_frame_all_is_dropped_but_the_header() {
        let mut queue = queue(&[
            (true, Kind::Header, 0),
            (true, Kind::Key, 0),
            (true, Kind::Frame, 40),
            (false, Kind::Header, 0),
            (false, Kind::Frame, 10),
        ]);
        let dropped = queue.bound(Time::from_millis(5001));
        assert_eq!(dropped, Dropped { pictures: 2, sounds: 1, awaits_key: true });
        assert_eq!((queue.video.len(), queue.audio.len(), queue.bytes), (1, 1, 200));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut queue = queue(&[(true, Kind::Key, 0)]);
        for number in 0..40 {
            let body = vec![0; 1 << 20];
            queue.push(Entry { body, ..entry(true, Kind::Frame, number) });
            queue.bound(Time::from_millis(40));
            assert!(queue.bytes <= BACKLOG_BYTES);
        }
    }
}
