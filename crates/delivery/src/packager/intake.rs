//! A transport stream's bytes into the packager.

use super::{Event, Guide, LeftOut, Packager, Presentation, Settings};
use glassline_media::Utc;
use glassline_media::container::ts::{self, Demuxer, PACKET_BYTES};
use std::time::Duration;

/// A [`Demuxer`] in front of a [`Packager`].
#[derive(Debug)]
pub struct TsIntake {
    demuxer: Demuxer,
    packager: Packager,
    /// Bytes that the demuxer was given, all of them of whole packets: so packets tell places.
    pushed_bytes: u64,
    /// Where in the stream the demuxer's first byte would be, if all were of it; wraps.
    origin: u64,
    /// Behind the last byte of the stream.
    reached: u64,
}

impl TsIntake {
    /// Before the first byte. Settings that are out of their range are brought into it.
    pub fn new(settings: Settings) -> TsIntake {
        let packager = Packager::new(settings);
        TsIntake { demuxer: Demuxer::new(), packager, pushed_bytes: 0, origin: 0, reached: 0 }
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

    /// Takes the next bytes of a transport stream, chopped anywhere, which came in at `now` and begin at `at` in the stream;
    /// `None` of such as are put in front of it. Poll afterwards.
    pub fn push(&mut self, bytes: &[u8], now: Utc, at: Option<u64>) {
        if let Some(at) = at.filter(|&at| at != self.reached) {
            self.origin = at.wrapping_sub(self.pushed_bytes);
            self.reached = at;
        }
        self.pushed_bytes += bytes.len() as u64;
        if at.is_some() {
            self.reached += bytes.len() as u64;
        }
        self.demuxer.push(bytes);
        self.hand_over(now);
    }

    /// A publisher has returned: the stream begins anew.
    pub fn discontinuity(&mut self, now: Utc) {
        (self.demuxer, self.pushed_bytes) = (Demuxer::new(), 0);
        self.origin = self.reached;
        self.packager.discontinuity(now, self.reached);
    }

    /// The stream has ended for good.
    pub fn finish(&mut self, now: Utc) {
        self.demuxer.finish();
        self.hand_over(now);
        self.packager.finish(now, self.reached);
    }

    /// See [`Packager::patience`].
    pub fn patience(&self) -> Option<Duration> {
        self.packager.patience()
    }

    /// See [`Packager::handle_stall`].
    pub fn handle_stall(&mut self, now: Utc) {
        self.packager.handle_stall(now);
    }

    /// The next event. Poll until `None` after each call above, or they pile up.
    pub fn poll(&mut self) -> Option<Event> {
        self.packager.poll()
    }

    /// What there is to play.
    pub fn presentation(&self) -> &Presentation {
        self.packager.presentation()
    }

    /// See [`Packager::takes_nothing`].
    pub fn takes_nothing(&self) -> bool {
        self.packager.takes_nothing()
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
                ts::Event::Program(program) => self.packager.handle_program(&program, now, self.reached),
                ts::Event::AccessUnit { pid, packet, unit } => {
                    let at = self.origin.wrapping_add(packet * PACKET_BYTES as u64);
                    self.packager.push(pid, &unit, now, at);
                }
                ts::Event::Pcr { .. } => {}
            }
        }
    }
}
