//! The streams that tracks become: which pictures and which sound each of them has, and the packets that go out.
//!
//! One stream has the name that was asked for. Where there are several pictures, each is a version of one capture with a stream of
//! its own, and the one sound goes into all of them.

use super::counters::Counters;
use super::error::IngestError;
use super::lane::{Lane, Shape};
use super::order::Arrived;
use crate::assemble::Written;
use crate::assemble::program::Program;
use glassline_media::container::ts::AudioFormat;
use glassline_media::{Codec, Time};
use std::collections::VecDeque;

/// What goes out. Streams are counted from 0, which is the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A stream begins that is a version of a capture. Where several versions are there at the beginning, number 0 is one of
    /// them, too, and there is no stream of the name that was asked for; versions that come later stand beside that.
    Begin {
        /// Its number.
        stream: usize,
        /// What stands behind the name and a dash: `360p25`.
        version: String,
    },
    /// Whole packets of a transport stream.
    Packets {
        /// The stream's number.
        stream: usize,
        /// The packets.
        bytes: Vec<u8>,
    },
    /// What follows does not continue what was before: another publisher might as well have come.
    Seam {
        /// The stream's number.
        stream: usize,
    },
}

/// A program, and its pictures' lane.
#[derive(Debug)]
struct Stream {
    program: Program,
    pictures: Option<usize>,
    version: Option<String>,
}

/// See the module. Tracks are called by their places among all lanes.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    outputs: VecDeque<Output>,
}

impl Streams {
    /// Whether none has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The lane of a stream's pictures.
    pub(super) fn pictures_of(&self, stream: usize) -> Option<usize> {
        self.streams.get(stream)?.pictures
    }

    /// What goes out next.
    pub(super) fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When a unit that waits for another track goes out in any case.
    pub(super) fn waits_until(&self) -> Option<Time> {
        self.streams.iter().filter_map(|stream| stream.program.waits_until()).min()
    }

    /// Bytes of the units that wait, of each stream.
    pub(super) fn waiting_bytes(&self) -> impl Iterator<Item = usize> {
        self.streams.iter().map(|stream| stream.program.bytes())
    }

    /// Pictures or sound of these streams are coded in another way from here on.
    fn change(
        &mut self,
        pictures: Option<Codec>,
        sound: Option<AudioFormat>,
        concerns: impl Fn(&Stream) -> bool,
    ) {
        for (number, stream) in self.streams.iter_mut().enumerate().filter(|(_, stream)| concerns(stream)) {
            let mut written = Vec::new();
            stream.program.drain(Time::NEVER, &mut written);
            written.push(stream.program.change(pictures, sound));
            give(number, written, &mut self.outputs);
        }
    }

    /// The pictures of this lane are coded in another way from here on.
    pub(super) fn change_pictures(&mut self, lane: usize, codec: Codec) {
        self.change(Some(codec), None, |stream| stream.pictures == Some(lane));
    }

    /// The sound, which all streams have, is coded in another way from here on.
    pub(super) fn change_sound(&mut self, sound: Option<AudioFormat>) {
        self.change(None, sound, |_| true);
    }

    /// Gives each track a stream that has none.
    pub(super) fn arrange(&mut self, lanes: &mut [Lane], counters: &mut Counters) {
        let sound = lanes.iter().find(|lane| !lane.is_video()).and_then(Lane::sound);
        let has_stream = |at: usize| self.streams.iter().any(|stream| stream.pictures == Some(at));
        let is_new = |at: &usize| lanes[*at].is_video() && lanes[*at].refused.is_none() && !has_stream(*at);
        let mut pictures: Vec<usize> = (0..lanes.len()).filter(is_new).collect();
        // Best first; of equal ones the first that came.
        pictures.sort_by_key(|&at| std::cmp::Reverse(lanes[at].shape()));
        let shapes: Vec<_> = pictures.iter().filter_map(|&at| lanes[at].shape()).map(Shape::name).collect();
        let are_versions = pictures.len() > 1;
        for at in pictures {
            let name = lanes[at].shape().map(Shape::name);
            let alike = shapes.iter().filter(|&other| Some(other) == name.as_ref()).count();
            self.place_pictures(lanes, at, sound, are_versions, alike > 1, counters);
        }
        if self.streams.is_empty() && sound.is_some() {
            self.streams.push(Stream { program: Program::new(None, sound), pictures: None, version: None });
        }
        if sound.is_some() {
            self.change(None, sound, |stream| stream.program.sound().is_none());
        }
    }

    /// Gives pictures a stream: one of the name that was asked for, or that of a version, with its bit rate where others that
    /// begin with it are `alike`.
    fn place_pictures(
        &mut self,
        lanes: &mut [Lane],
        at: usize,
        sound: Option<AudioFormat>,
        are_versions: bool,
        alike: bool,
        counters: &mut Counters,
    ) {
        let shape = lanes[at].shape();
        let codec = Some(lanes[at].codec);
        match self.streams.first_mut() {
            Some(first) if !first.program.has_pictures() => {
                first.pictures = Some(at);
                return self.change(codec, None, |stream| stream.pictures == Some(at));
            }
            None if !are_versions || shape.is_none() => {
                let program = Program::new(codec, sound);
                return self.streams.push(Stream { program, pictures: Some(at), version: None });
            }
            _ => {}
        }
        let Some(shape) = shape else {
            if lanes[at].first().is_some() {
                // Its pictures do not say what they are.
                let sample_entry = lanes[at].track.sample_entry;
                lanes[at].refuse(IngestError::Codec { sample_entry }, counters);
            }
            return;
        };
        let name = shape.name();
        let exact = lanes[at].bitrate().map(|bitrate| format!("{name}-{bitrate}"));
        let name_of = |stream: &Stream| match &stream.version {
            Some(version) => Some(version.clone()),
            None => Some(lanes[stream.pictures?].shape()?.name()),
        };
        let taken: Vec<String> = self.streams.iter().filter_map(name_of).collect();
        let names = if alike { [exact, Some(name.clone())] } else { [Some(name.clone()), exact] };
        let Some(version) = names.into_iter().flatten().find(|name| !taken.contains(name)) else {
            return lanes[at].refuse(IngestError::SameName { name }, counters);
        };
        self.outputs.push_back(Output::Begin { stream: self.streams.len(), version: version.clone() });
        let program = Program::new(codec, sound);
        self.streams.push(Stream { program, pictures: Some(at), version: Some(version) });
    }

    /// Gives the units of a track to its streams that may go on.
    pub(super) fn distribute(&mut self, at: usize, lane: &mut Lane, now: Time, counters: &mut Counters) {
        let is_video = lane.is_video();
        let takes = |stream: &Stream| if is_video { stream.pictures == Some(at) } else { true };
        if !self.streams.iter().any(takes) {
            return;
        }
        while let Some(arrived) = lane.order.poll(now, counters) {
            let Arrived { unit, at: came, jumps, .. } = arrived;
            let mut is_taken = false;
            for (number, stream) in self.streams.iter_mut().enumerate().filter(|(_, stream)| takes(stream)) {
                let mut written = Vec::new();
                let is_near = stream.program.push(unit.clone(), came, jumps, &mut written);
                counters.stray_units = counters.stray_units.saturating_add((!is_near).into());
                is_taken |= is_near;
                give(number, written, &mut self.outputs);
            }
            lane.strays = if is_taken { 0 } else { lane.strays.saturating_add(1) };
        }
    }

    /// Writes what need not wait any longer.
    pub(super) fn drain(&mut self, now: Time) {
        for (number, stream) in self.streams.iter_mut().enumerate() {
            let mut written = Vec::new();
            stream.program.drain(now, &mut written);
            give(number, written, &mut self.outputs);
        }
    }
}

fn give(stream: usize, written: Vec<Written>, outputs: &mut VecDeque<Output>) {
    for written in written {
        match (written, outputs.back_mut()) {
            (Written::Bytes(bytes), Some(Output::Packets { stream: last, bytes: packets }))
                if *last == stream =>
            {
                packets.extend_from_slice(&bytes);
            }
            (Written::Bytes(bytes), _) => outputs.push_back(Output::Packets { stream, bytes }),
            (Written::Seam, _) => outputs.push_back(Output::Seam { stream }),
        }
    }
}
