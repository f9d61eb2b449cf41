//! A transport stream's bytes into the packager.

use super::{Event, Guide, LeftOut, Packager, Presentation, Settings};
use glassline_media::Utc;
use glassline_media::container::ts::{self, Demuxer};

/// A [`Demuxer`] in front of a [`Packager`].
#[derive(Debug)]
pub struct TsIntake {
    demuxer: Demuxer,
    packager: Packager,
}

impl TsIntake {
    /// Before the first byte. Settings that are out of their range are brought into it.
    pub fn new(settings: Settings) -> TsIntake {
        TsIntake { demuxer: Demuxer::new(), packager: Packager::new(settings) }
    }

    /// See [`Packager::starting_at`].
    #[must_use]
    pub fn starting_at(mut self, epoch: u32, segment: u64) -> TsIntake {
        self.packager = self.packager.starting_at(epoch, segment);
        self
    }

    /// See [`Packager::is_starting`].
    pub fn is_starting(&self) -> bool {
        self.packager.is_starting()
    }

    /// See [`Packager::follow`].
    pub fn follow(&mut self, guide: Option<Guide>) {
        self.packager.follow(guide);
    }

    /// Takes the next bytes of a transport stream, chopped anywhere, which came in at `now`. Poll afterwards.
    pub fn push(&mut self, bytes: &[u8], now: Utc) {
        self.demuxer.push(bytes);
        self.hand_over(now);
    }

    /// A publisher has returned: the stream begins anew.
    pub fn discontinuity(&mut self, now: Utc) {
        self.demuxer = Demuxer::new();
        self.packager.discontinuity(now);
    }

    /// The stream has ended for good.
    pub fn finish(&mut self, now: Utc) {
        self.demuxer.finish();
        self.hand_over(now);
        self.packager.finish(now);
    }

    /// The next event. Poll until `None` after each call above, or they pile up.
    pub fn poll(&mut self) -> Option<Event> {
        self.packager.poll()
    }

    /// What there is to play.
    pub fn presentation(&self) -> &Presentation {
        self.packager.presentation()
    }

    /// The program's streams that no rendition is made of.
    pub fn left_out(&self) -> &[LeftOut] {
        self.packager.left_out()
    }

    /// What the demuxer counts.
    pub fn counters(&self) -> ts::demux::Counters {
        self.demuxer.counters()
    }

    fn hand_over(&mut self, now: Utc) {
        while let Some(event) = self.demuxer.poll() {
            match event {
                ts::Event::Program(program) => self.packager.handle_program(&program, now),
                ts::Event::AccessUnit { pid, unit, .. } => self.packager.push(pid, &unit, now),
                ts::Event::Pcr { .. } => {}
            }
        }
    }
}
