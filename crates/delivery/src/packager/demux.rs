//! A stream's bytes into the packager, whatever its mux.

use super::{Announced, Event, Guide, LeftOut, Packager, Presentation, Settings};
use crate::stream::Mux;
use glassline_media::Utc;
use glassline_media::container::flv::demux as flv;
use glassline_media::container::ts::{self, PACKET_BYTES};
use glassline_media::container::webm::demux as webm;
use std::time::Duration;

/// What takes the bytes apart.
#[derive(Debug)]
enum Demuxer {
    /// Given whole packets alone: so packets tell places.
    Ts(Box<ts::Demuxer>),
    Flv(Box<flv::Demuxer>),
    WebM(Box<webm::Demuxer>),
}

impl Demuxer {
    /// `None` for a mux that is not taken apart.
    fn new(mux: Mux) -> Option<Demuxer> {
        match mux {
            Mux::MpegTs => Some(Demuxer::Ts(Box::default())),
            Mux::Flv => Some(Demuxer::Flv(Box::default())),
            Mux::WebM => Some(Demuxer::WebM(Box::default())),
            Mux::Ogg | Mux::Raw => None,
        }
    }
}

/// A demultiplexer in front of a [`Packager`]. Of a mux that is not [packaged](Mux::is_packaged) it makes nothing.
#[derive(Debug)]
pub struct Intake {
    mux: Mux,
    demuxer: Option<Demuxer>,
    packager: Packager,
    /// Bytes that the demuxer was given.
    pushed_bytes: u64,
    /// Where in the stream the demuxer's first byte would be, if all were of it; wraps.
    origin: u64,
    /// Behind the last byte of the stream.
    reached: u64,
}

impl Intake {
    /// Before the first byte. Settings that are out of their range are brought into it.
    pub fn new(mux: Mux, settings: Settings) -> Intake {
        let (demuxer, packager) = (Demuxer::new(mux), Packager::new(settings));
        Intake { mux, demuxer, packager, pushed_bytes: 0, origin: 0, reached: 0 }
    }

    /// See [`Packager::starting_at`].
    #[must_use]
    pub fn starting_at(mut self, epoch: u32, segment: u64) -> Intake {
        self.packager = self.packager.starting_at(epoch, segment);
        self
    }

    /// What its bytes are.
    pub fn mux(&self) -> Mux {
        self.mux
    }

    /// See [`Packager::is_starting`].
    pub fn is_starting(&self) -> bool {
        self.packager.is_starting()
    }

    /// See [`Packager::follow`].
    pub fn follow(&mut self, guide: Option<Guide>) {
        self.packager.follow(guide);
    }

    /// Takes the next bytes of the stream, chopped anywhere, which came in at `now` and begin at `at` in the stream;
    /// `None` of such as are put in front of it. Poll afterwards.
    pub fn push(&mut self, bytes: &[u8], now: Utc, at: Option<u64>) {
        if let Some(at) = at {
            // What was put in front may have come in between.
            self.origin = at.wrapping_sub(self.pushed_bytes);
            self.reached = at + bytes.len() as u64;
        }
        self.pushed_bytes += bytes.len() as u64;
        match &mut self.demuxer {
            Some(Demuxer::Ts(demuxer)) => demuxer.push(bytes),
            // The relay has refused a publisher of what is refused here.
            Some(Demuxer::Flv(demuxer)) => drop(demuxer.push(bytes)),
            Some(Demuxer::WebM(demuxer)) => drop(demuxer.push(bytes)),
            None => {}
        }
        self.hand_over(now);
    }

    /// A publisher has returned: the stream begins anew, in its mux.
    pub fn discontinuity(&mut self, now: Utc) {
        self.begin(self.mux, now);
    }

    /// The stream begins anew, and is of this mux from now on.
    pub fn begin(&mut self, mux: Mux, now: Utc) {
        (self.mux, self.demuxer, self.pushed_bytes) = (mux, Demuxer::new(mux), 0);
        self.origin = self.reached;
        self.packager.discontinuity(now, self.reached);
    }

    /// The stream has ended for good.
    pub fn finish(&mut self, now: Utc) {
        match &mut self.demuxer {
            Some(Demuxer::Ts(demuxer)) => demuxer.finish(),
            Some(Demuxer::Flv(demuxer)) => demuxer.finish(),
            Some(Demuxer::WebM(demuxer)) => demuxer.finish(),
            None => {}
        }
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

    /// The stream's tracks that no rendition is made of.
    pub fn left_out(&self) -> &[LeftOut] {
        self.packager.left_out()
    }

    fn hand_over(&mut self, now: Utc) {
        let Intake { packager, origin, reached, .. } = self;
        match &mut self.demuxer {
            Some(Demuxer::Ts(demuxer)) => {
                while let Some(event) = demuxer.poll() {
                    match event {
                        ts::Event::Program(program) => packager.handle_program(&program, now, *reached),
                        ts::Event::AccessUnit { pid, packet, unit } => {
                            let at = origin.wrapping_add(packet * PACKET_BYTES as u64);
                            packager.push(pid, &unit, now, at);
                        }
                        ts::Event::Pcr { .. } => {}
                    }
                }
            }
            Some(Demuxer::Flv(demuxer)) => {
                while let Some(event) = demuxer.poll() {
                    take(packager, event, *origin, now, *reached);
                }
            }
            Some(Demuxer::WebM(demuxer)) => {
                while let Some(event) = demuxer.poll() {
                    take(packager, event, *origin, now, *reached);
                }
            }
            None => {}
        }
    }
}

/// Takes what was found in a container of frames, of which byte 0 is at `origin` in the stream.
fn take(packager: &mut Packager, event: flv::Event, origin: u64, now: Utc, reached: u64) {
    match event {
        flv::Event::Tracks(tracks) => {
            let tracks: Vec<Announced> = tracks.into_iter().map(Announced::from).collect();
            packager.handle_streams(&tracks, now, reached);
        }
        flv::Event::AccessUnit { track, at, unit } => {
            packager.push(track, &unit, now, origin.wrapping_add(at));
        }
    }
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
