//! Segments of one rendition, made into access units: MPEG-TS, and fragmented MP4 with its initialisation.

use glassline_media::container::cmaf::{Chunk, Event as Mp4, ReadTrack, Reader};
use glassline_media::container::ts::demux::{Demuxer, Event as Ts};
use glassline_media::{AccessUnit, Ticks};

/// What came of a rendition, in its order.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are units")]
pub enum Piece {
    /// A picture, or a run of sound.
    Unit(AccessUnit),
    /// So much of it is missing or damaged: packets, boxes, or segments.
    Errors(u64),
    /// What comes next does not follow what came.
    Break,
}

/// What of a rendition is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Pictures.
    pub pictures: bool,
    /// Sound.
    pub sound: bool,
}

/// A time stamp of MPEG-TS has 33 bits.
const WRAP: i64 = 1 << 33;
/// Bytes in front of which a segment's format shows.
const HEAD: usize = 8;

/// Reads the segments of one rendition.
#[derive(Debug)]
pub struct SegmentReader {
    wanted: Wanted,
    /// What the initialisation says.
    init: Option<Reader>,
    body: Body,
    /// The decoding time of the last unit of a transport stream.
    last: Option<Ticks>,
    /// What cannot be read, in words that are not taken yet; and those that were.
    notes: Vec<String>,
    said: Vec<String>,
    has_units: bool,
}

#[derive(Debug)]
enum Body {
    /// Not known yet: the bytes that have come.
    Head(Vec<u8>),
    Ts {
        demuxer: Box<Demuxer>,
        told: u64,
        pids: [Option<u16>; 2],
    },
    Mp4(Box<Reader>),
    /// Neither.
    Unknown,
}

impl SegmentReader {
    /// Before the first segment.
    pub fn new(wanted: Wanted) -> SegmentReader {
        SegmentReader {
            wanted,
            init: None,
            body: Body::Head(Vec::new()),
            last: None,
            notes: Vec::new(),
            said: Vec::new(),
            has_units: false,
        }
    }

    /// Takes an initialisation segment.
    pub fn set_init(&mut self, bytes: &[u8]) {
        let mut reader = Reader::new();
        let outcome = reader.push(bytes);
        if let Err(error) = outcome {
            self.note(format!("the initialisation segment cannot be read: {error}"));
        }
        self.note_tracks(&mut reader);
        self.init = Some(reader);
    }

    /// A segment begins, or a part of the same one as before.
    pub fn begin(&mut self, is_same_segment: bool) {
        let goes_on = is_same_segment && matches!(self.body, Body::Ts { .. });
        if !goes_on {
            self.body = Body::Head(Vec::new());
        }
    }

    /// Takes bytes of it.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Piece>) {
        if let Body::Head(head) = &mut self.body {
            head.extend_from_slice(bytes);
            if head.len() < HEAD {
                return;
            }
            let head = std::mem::take(head);
            self.body = self.body_of(&head);
            self.take(&head, out);
        } else {
            self.take(bytes, out);
        }
    }

    /// The segment, or part, is over; `goes_on` where another part of the same segment may follow.
    pub fn end(&mut self, goes_on: bool, out: &mut Vec<Piece>) {
        match &mut self.body {
            Body::Ts { demuxer, .. } if !goes_on => {
                demuxer.finish();
                self.take(&[], out);
            }
            Body::Mp4(reader) if !reader.is_between_boxes() => out.push(Piece::Errors(1)),
            Body::Head(head) if !head.is_empty() => out.push(Piece::Errors(1)),
            _ => {}
        }
    }

    /// What comes next does not follow.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Whether there was anything in it that is wanted.
    pub fn has_units(&self) -> bool {
        self.has_units
    }

    /// The segment is in no format that is read here, or cannot be read any further.
    pub fn is_unknown(&self) -> bool {
        matches!(self.body, Body::Unknown)
    }

    /// What cannot be read, said once.
    pub fn take_note(&mut self) -> Option<String> {
        self.notes.pop()
    }

    fn note(&mut self, note: String) {
        // A server that has a new complaint for each segment is heard a few times.
        if self.said.len() < 16 && !self.said.contains(&note) {
            self.said.push(note.clone());
            self.notes.push(note);
        }
    }

    fn body_of(&mut self, head: &[u8]) -> Body {
        let is_box = matches!(
            head.get(4..8),
            Some(
                b"ftyp"
                    | b"styp"
                    | b"moov"
                    | b"moof"
                    | b"sidx"
                    | b"emsg"
                    | b"prft"
                    | b"free"
                    | b"mdat"
                    | b"uuid"
            )
        );
        if head.first() == Some(&0x47) {
            return Body::Ts { demuxer: Box::default(), told: 0, pids: [None; 2] };
        }
        if is_box {
            let reader = self.init.as_ref().map_or_else(Reader::new, Reader::of_segment);
            return Body::Mp4(Box::new(reader));
        }
        let found = match head {
            [b'I', b'D', b'3', ..] => "packed audio, which is not read here",
            [b'W', b'E', b'B', b'V', b'T', b'T', ..] => "subtitles, which are not watched",
            _ => "neither MPEG-TS nor fragmented MP4",
        };
        self.note(format!("its segments are {found}"));
        Body::Unknown
    }

    fn take(&mut self, bytes: &[u8], out: &mut Vec<Piece>) {
        match std::mem::replace(&mut self.body, Body::Unknown) {
            Body::Ts { mut demuxer, mut told, mut pids } => {
                demuxer.push(bytes);
                while let Some(event) = demuxer.poll() {
                    match event {
                        Ts::Program(program) => {
                            pids = [program.video(), program.audio()]
                                .map(|stream| stream.map(|stream| stream.pid));
                        }
                        Ts::AccessUnit { pid, unit, .. } if pids.contains(&Some(pid)) => {
                            let unit = self.unwrapped(unit);
                            self.give(unit, out);
                        }
                        _ => {}
                    }
                }
                let counters = demuxer.counters();
                let errors =
                    counters.continuity_errors + counters.transport_errors + counters.malformed_packets;
                let new = errors.saturating_sub(std::mem::replace(&mut told, errors));
                if new > 0 {
                    out.push(Piece::Errors(new));
                }
                self.body = Body::Ts { demuxer, told, pids };
            }
            Body::Mp4(mut reader) => {
                let mut rest = bytes;
                let outcome = loop {
                    let pushed = reader.push_next(&mut rest);
                    while let Some(event) = reader.poll() {
                        match event {
                            Mp4::Chunk(chunk) => self.take_chunk(&chunk, &reader, out),
                            Mp4::Init(tracks) => self.note_codecs(&tracks),
                            _ => {}
                        }
                    }
                    if pushed.is_err() || rest.is_empty() {
                        break pushed;
                    }
                };
                match outcome {
                    Ok(()) => self.body = Body::Mp4(reader),
                    Err(error) => {
                        out.push(Piece::Errors(1));
                        self.note(format!("a segment cannot be read: {error}"));
                    }
                }
            }
            // The rest of what cannot be read.
            Body::Unknown | Body::Head(_) => {}
        }
    }

    fn take_chunk(&mut self, chunk: &Chunk, reader: &Reader, out: &mut Vec<Piece>) {
        let mut units = Vec::new();
        let mut refused = 0;
        for run in &chunk.runs {
            let Some(track) = reader.track(run.track_id).filter(|track| self.wants(track)) else { continue };
            for sample in &run.samples {
                match track.to_unit(sample) {
                    Ok(unit) => units.push(unit),
                    Err(_) => refused += 1,
                }
            }
        }
        // Runs of several tracks lie behind each other, and last equally long.
        units.sort_by_key(|unit| unit.dts);
        if refused > 0 {
            out.push(Piece::Errors(refused));
        }
        units.into_iter().for_each(|unit| self.give(unit, out));
    }

    fn wants(&self, track: &ReadTrack) -> bool {
        track
            .codec()
            .is_some_and(|codec| if codec.is_video() { self.wanted.pictures } else { self.wanted.sound })
    }

    fn give(&mut self, unit: AccessUnit, out: &mut Vec<Piece>) {
        if if unit.codec.is_video() { self.wanted.pictures } else { self.wanted.sound } {
            self.has_units = true;
            out.push(Piece::Unit(unit));
        }
    }

    fn note_tracks(&mut self, reader: &mut Reader) {
        while let Some(event) = reader.poll() {
            if let Mp4::Init(tracks) = event {
                self.note_codecs(&tracks);
            }
        }
    }

    fn note_codecs(&mut self, tracks: &[ReadTrack]) {
        for track in tracks.iter().filter(|track| track.codec().is_none()) {
            let name = track.sample_entry;
            let note = match &name.0 {
                b"encv" | b"enca" => format!("a track is encrypted ({name}), and not watched"),
                _ => format!("a track of {name} is not watched: its codec is not known here"),
            };
            self.note(note);
        }
    }

    /// A unit of a transport stream with its time stamps near those of the segment before: each is read by itself.
    fn unwrapped(&mut self, mut unit: AccessUnit) -> AccessUnit {
        if let Some(last) = self.last {
            let turns = last.0.saturating_sub(unit.dts.0).saturating_add(WRAP / 2).div_euclid(WRAP);
            let shift = turns.saturating_mul(WRAP);
            unit.dts = Ticks(unit.dts.0.saturating_add(shift));
            unit.pts = Ticks(unit.pts.0.saturating_add(shift));
        }
        self.last = Some(unit.dts);
        unit
    }
}
