//! A stream's bytes, taken apart for the packager, whatever their mux.

use super::Announced;
use crate::stream::Mux;
use glassline_media::AccessUnit;
use glassline_media::container::flv::demux as flv;
use glassline_media::container::ts::{self, DataUnit, PACKET_BYTES};
use glassline_media::container::webm::demux as webm;

/// What takes the bytes apart.
#[derive(Debug)]
enum Container {
    /// Given whole packets alone: so packets tell places.
    Ts(Box<ts::Demuxer>),
    Flv(Box<flv::Demuxer>),
    WebM(Box<webm::Demuxer>),
}

impl Container {
    /// `None` for a mux that is not taken apart.
    fn new(mux: Mux) -> Option<Container> {
        match mux {
            Mux::MpegTs => Some(Container::Ts(Box::new(ts::Demuxer::with_data()))),
            Mux::Flv => Some(Container::Flv(Box::default())),
            Mux::WebM => Some(Container::WebM(Box::default())),
            Mux::Ogg | Mux::Raw => None,
        }
    }
}

/// What was found in a stream's bytes: what [`Packager::handle_input`](super::Packager::handle_input) takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The stream has these tracks from now on.
    Tracks(Vec<Announced>),
    /// An access unit.
    Unit {
        /// The number of its track: in MPEG-TS the PID.
        track: u16,
        /// The unit.
        unit: AccessUnit,
        /// Where it begins in the stream, bytes.
        at: u64,
    },
    /// A unit of a stream of data.
    Data {
        /// The number of its track: the PID.
        track: u16,
        /// The unit.
        unit: DataUnit,
    },
}

/// Takes a stream's bytes apart. Of a mux that is not [packaged](Mux::is_packaged) it makes nothing.
#[derive(Debug)]
pub struct Demultiplexer {
    mux: Mux,
    container: Option<Container>,
    /// Bytes that the container was given.
    pushed_bytes: u64,
    /// Where in the stream the container's first byte would be, if all were of it; wraps.
    origin: u64,
    /// Behind the last byte of the stream.
    reached: u64,
}

impl Demultiplexer {
    /// Before the first byte.
    #[must_use]
    pub fn new(mux: Mux) -> Demultiplexer {
        Demultiplexer { mux, container: Container::new(mux), pushed_bytes: 0, origin: 0, reached: 0 }
    }

    /// What the bytes are.
    #[must_use]
    pub fn mux(&self) -> Mux {
        self.mux
    }

    /// Behind the last byte of the stream.
    #[must_use]
    pub fn reached(&self) -> u64 {
        self.reached
    }

    /// Takes the next bytes of the stream, chopped anywhere, which begin at `at` in it; `None` of such as are put in front of
    /// it. Poll afterwards.
    pub fn push(&mut self, bytes: &[u8], at: Option<u64>) {
        if let Some(at) = at {
            // What was put in front may have come in between.
            self.origin = at.wrapping_sub(self.pushed_bytes);
            self.reached = at + bytes.len() as u64;
        }
        self.pushed_bytes += bytes.len() as u64;
        match &mut self.container {
            Some(Container::Ts(demuxer)) => demuxer.push(bytes),
            // The relay has refused a publisher of what is refused here.
            Some(Container::Flv(demuxer)) => drop(demuxer.push(bytes)),
            Some(Container::WebM(demuxer)) => drop(demuxer.push(bytes)),
            None => {}
        }
    }

    /// The stream begins anew where it is, and is of this mux from now on.
    pub fn begin(&mut self, mux: Mux) {
        (self.mux, self.container, self.pushed_bytes) = (mux, Container::new(mux), 0);
        self.origin = self.reached;
    }

    /// The stream has ended: what was open is complete. Poll afterwards.
    pub fn finish(&mut self) {
        match &mut self.container {
            Some(Container::Ts(demuxer)) => demuxer.finish(),
            Some(Container::Flv(demuxer)) => demuxer.finish(),
            Some(Container::WebM(demuxer)) => demuxer.finish(),
            None => {}
        }
    }

    /// What was found next.
    pub fn poll(&mut self) -> Option<Input> {
        match &mut self.container {
            Some(Container::Ts(demuxer)) => loop {
                return Some(match demuxer.poll()? {
                    ts::Event::Program(program) => {
                        Input::Tracks(program.streams.iter().map(Announced::from).collect())
                    }
                    ts::Event::AccessUnit { pid, packet, unit, .. } => {
                        let at = self.origin.wrapping_add(packet * PACKET_BYTES as u64);
                        Input::Unit { track: pid, unit, at }
                    }
                    ts::Event::Data { pid, unit, .. } => Input::Data { track: pid, unit },
                    ts::Event::Pcr { .. } => continue,
                });
            },
            Some(Container::Flv(demuxer)) => demuxer.poll().map(|event| found(event, self.origin)),
            Some(Container::WebM(demuxer)) => demuxer.poll().map(|event| found(event, self.origin)),
            None => None,
        }
    }
}

/// What was found in a container of frames, of which byte 0 is at `origin` in the stream.
fn found(event: flv::Event, origin: u64) -> Input {
    match event {
        flv::Event::Tracks(tracks) => Input::Tracks(tracks.into_iter().map(Announced::from).collect()),
        flv::Event::AccessUnit { track, at, unit } => {
            Input::Unit { track, unit, at: origin.wrapping_add(at) }
        }
    }
}

#[cfg(test)]
#[path = "demux_tests.rs"]
mod tests;
