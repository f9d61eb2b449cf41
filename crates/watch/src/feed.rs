//! One stream from its bytes to its alarms.

use crate::decoders::Decoders;
use crate::subtitles::Subtitles;
use crate::thumbnail::Thumbnail;
use glassline_delivery::watch::{Active, Raised, Rules, Saved, Wanted, Watcher};
use glassline_media::container::ts::demux::{Demuxer, Event};
use glassline_media::{AccessUnit, Time};
use std::sync::Arc;
use std::time::Duration;

/// What was done for a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pictures that were decoded.
    pub pictures: u64,
    /// Units that decoders refused.
    pub refused: u64,
    /// How often part of the stream was left out, since the watch was behind.
    pub left_out: u64,
    /// Pictures that were not decoded, since there was no time left for them.
    pub skipped: u64,
}

/// A stream of MPEG-TS, watched. Decodes while it takes bytes.
pub struct Feed {
    watcher: Watcher,
    demuxer: Demuxer,
    /// Errors of the demuxer that were told.
    told: u64,
    decoders: Decoders,
    subtitles: Subtitles,
    left_out: u64,
}

impl Feed {
    /// Watches for what `rules` say, and goes on with what an earlier run has [saved](Feed::save).
    pub fn new(rules: Rules, saved: &Saved) -> Feed {
        Feed {
            watcher: Watcher::restore(rules, saved),
            demuxer: Demuxer::new(),
            told: 0,
            decoders: Decoders::new(),
            subtitles: Subtitles::default(),
            left_out: 0,
        }
    }

    /// Keeps small pictures of the stream from now on.
    pub(crate) fn keep_pictures(&mut self) {
        self.decoders.judge.shown.keep();
    }

    /// Forgets the pictures that there are.
    pub(crate) fn forget_pictures(&mut self) {
        self.decoders.judge.shown.forget();
    }

    /// The newest picture that is kept, once.
    pub(crate) fn take_newest_picture(&mut self) -> Option<Arc<Thumbnail>> {
        self.decoders.judge.shown.take_newest()
    }

    /// What a later run can go on with.
    pub fn save(&self) -> Saved {
        self.watcher.save()
    }

    /// Watches for something else from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.watcher.set_rules(rules);
    }

    /// Takes the next bytes, chopped anywhere, which have come at `now`.
    pub fn push(&mut self, bytes: &[u8], now: Time) {
        self.watcher.push_bytes(now);
        self.demuxer.push(bytes);
        self.take_events();
        for _ in 0..self.subtitles.push(bytes) {
            self.watcher.push_subtitle();
        }
        let counters = self.demuxer.counters();
        let errors = counters.continuity_errors + counters.transport_errors + counters.malformed_packets;
        let new = errors.saturating_sub(std::mem::replace(&mut self.told, errors));
        if new > 0 {
            self.watcher.push_errors(new);
        }
    }

    /// Takes an access unit of a stream that does not come as one transport stream: the elementary stream `pid`, of which there is one of
    /// pictures and one of sound, in the order of decoding.
    pub fn push_unit(&mut self, pid: u16, unit: &AccessUnit) {
        let Feed { watcher, decoders, .. } = self;
        decode(watcher, decoders, pid, unit);
    }

    /// So much of such a stream is missing or damaged.
    pub fn push_errors(&mut self, count: u64) {
        self.watcher.push_errors(count);
    }

    /// The stream is over, as a file is: what was open is whole.
    pub fn finish(&mut self) {
        self.demuxer.finish();
        self.take_events();
    }

    /// The stream is there at `now`: bytes of one that is no MPEG-TS, of which nothing else is watched, or nothing of its segments is missing.
    pub fn push_unknown(&mut self, now: Time) {
        self.watcher.push_bytes(now);
    }

    /// Part of the stream is left out before the next bytes, which begin with tables.
    pub fn push_left_out(&mut self) {
        self.left_out += 1;
        self.push_anew();
    }

    /// The stream begins anew with the next bytes, which begin with tables.
    pub fn push_anew(&mut self) {
        self.demuxer = Demuxer::new();
        self.told = 0;
        self.watcher.push_left_out();
        self.decoders.forget();
    }

    /// Gives the pictures of what is pushed next so much time: those for which there is none are left out, and counted.
    pub fn allow(&mut self, time: Duration) {
        self.decoders.allow(time);
    }

    /// Closes decoders and forgets units that are open: nothing comes for a while.
    pub fn rest(&mut self) {
        self.demuxer = Demuxer::new();
        self.told = 0;
        self.decoders.close();
    }

    /// The publisher has gone.
    pub fn push_gone(&mut self, now: Time) {
        self.watcher.push_gone(now);
    }

    /// When [`Feed::handle_timeout`] has to be called. Changes with that call alone.
    #[must_use]
    pub fn poll_timeout(&self) -> Time {
        self.watcher.poll_timeout()
    }

    /// Looks whether anything arrives at all. Not called for files.
    pub fn handle_timeout(&mut self, now: Time) {
        self.watcher.handle_timeout(now);
    }

    /// The next alarm that has begun or is over.
    pub fn poll(&mut self) -> Option<Raised> {
        self.watcher.poll()
    }

    /// The same with the picture of an alarm that has begun, where pictures are kept.
    pub(crate) fn poll_with_picture(&mut self) -> Option<(Raised, Option<Arc<Thumbnail>>)> {
        let raised = self.watcher.poll()?;
        let picture = self.decoders.judge.shown.take_judged(&raised);
        Some((raised, picture))
    }

    /// Ends all alarms: the stream is no longer watched.
    pub fn end(&mut self) {
        self.watcher.end();
    }

    /// The alarms that are there.
    pub fn active(&self) -> impl Iterator<Item = Active> {
        self.watcher.active()
    }

    /// Why something cannot be decoded, and which alarms are missing by that; said once.
    pub fn take_failure(&mut self) -> Option<String> {
        self.decoders.take_failure()
    }

    /// Whether tables of a transport stream have come.
    pub fn is_transport_stream(&self) -> bool {
        self.demuxer.program().is_some()
    }

    /// What was done.
    pub fn counts(&self) -> Counts {
        let Decoders { ref judge, refused, pictures_skipped: skipped, .. } = self.decoders;
        Counts { pictures: judge.decoded, refused, left_out: self.left_out, skipped }
    }

    fn take_events(&mut self) {
        let Feed { watcher, demuxer, decoders, subtitles, .. } = self;
        while let Some(event) = demuxer.poll() {
            match event {
                Event::Program(program) => {
                    subtitles.follow(&program);
                    watcher.push_program(&program);
                }
                Event::Pcr { pcr, .. } => watcher.push_clock(pcr),
                Event::AccessUnit { pid, unit, .. } => decode(watcher, decoders, pid, &unit),
                Event::Data { .. } => {}
            }
        }
    }
}

/// Gives a unit to the watcher, and decodes of it what that wants.
fn decode(watcher: &mut Watcher, decoders: &mut Decoders, pid: u16, unit: &AccessUnit) {
    match watcher.push_unit(pid, unit) {
        Wanted::Nothing => {}
        Wanted::Sound { at } => decoders.sound(unit, at, watcher),
        Wanted::Picture { at, decoding } => decoders.picture(unit, at, decoding, watcher),
        Wanted::RunEnds => decoders.end_run(watcher),
    }
}
