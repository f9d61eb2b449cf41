//! What readers may have of a recording that is not in the store yet.

use super::files::read_record;
use super::{Item, Log, Spool, State};
use crate::archive::index::{Crc32c, Line, Part, RecordedSegment};
use crate::archive::log;
use crate::archive::names::{Session, SessionObject};
use crate::packager::RenditionName;
use crate::policy::StreamName;
use bytes::Bytes;

impl Spool {
    /// The bytes of an object that waits; `None` where they are not what was written.
    pub(super) fn read_object(
        &self,
        id: u64,
        line: Option<&RecordedSegment>,
        log: &mut dyn Log,
    ) -> Option<Vec<Bytes>> {
        let item = self.items.get(&id)?;
        if let Some(memory) = &item.memory {
            return Some(vec![memory.text.clone()]);
        }
        let payload = read_record(item.record, log)?;
        let (_, body) = log::split(&payload).ok()?;
        let SessionObject::Segment { .. } = item.object else {
            return Some(vec![payload.slice_ref(body)]);
        };
        let pieces = log::read_pieces(body).ok()?;
        let pieces: Option<Vec<Bytes>> = pieces.into_iter().map(|piece| log.read(piece)).collect();
        pieces.filter(|pieces| line.is_some_and(|line| is_whole(pieces, line)))
    }

    /// What the index will say of the recordings of the stream `name` and does not say in the store yet: of each its session,
    /// the number of the part that the lines will be in at least, and the lines, tracks first.
    pub fn lines_of(&self, name: &StreamName, log: &mut dyn Log) -> Vec<(Session, u32, Vec<Line>)> {
        let recordings = self.recordings.iter().filter(|(_, recording)| recording.name == *name);
        let of_recording = |(number, recording): (&u64, &super::Recording)| {
            let tracks = recording.tracks.iter();
            let mut lines: Vec<Line> =
                tracks.map(|((rendition, _), track)| Line::Track(*rendition, track.clone())).collect();
            for (id, item) in self.items_of(*number) {
                match item.object {
                    SessionObject::Index { .. } => {
                        let text = self.read_object(id, None, log).map(|pieces| pieces.concat());
                        let part = text.and_then(|text| Part::read(&text).ok());
                        lines.extend(part.into_iter().flat_map(|part| part.lines));
                    }
                    SessionObject::Segment { rendition, .. } if item.state != State::Stored => {
                        lines.extend(self.line_of(id, log).map(|line| Line::Segment(rendition, line)));
                    }
                    SessionObject::MpegTs { .. } if item.state != State::Stored => {
                        lines.extend(item.mpeg_ts.map(Line::MpegTs));
                    }
                    _ => {}
                }
            }
            lines.extend(recording.pending.iter().map(|pending| pending.line.clone()));
            lines.extend(recording.ended.map(Line::Ended));
            (recording.session, recording.next_part, lines)
        };
        recordings.map(of_recording).collect()
    }

    /// An object that is not in the store yet, or was not a moment ago.
    pub fn find(&self, name: &StreamName, session: Session, object: SessionObject) -> Option<u64> {
        let is_it = |(_, recording): &(&u64, &super::Recording)| {
            recording.name == *name && recording.session == session
        };
        let (number, _) = self.recordings.iter().find(is_it)?;
        self.by_object.get(&(*number, object)).copied()
    }

    /// The items of a recording.
    pub(super) fn items_of(&self, number: u64) -> impl Iterator<Item = (u64, &Item)> {
        let first = SessionObject::Init { rendition: RenditionName::Video, number: 0 };
        let of_recording =
            self.by_object.range((number, first)..).take_while(move |((of, _), _)| *of == number);
        of_recording.filter_map(|(_, id)| self.items.get(id).map(|item| (*id, item)))
    }

    /// Reads the object that [`Spool::find`] has found.
    pub fn read(&self, id: u64, log: &mut dyn Log) -> Option<Vec<Bytes>> {
        let line = self.line_of(id, log);
        self.read_object(id, line.as_ref(), log)
    }
}

fn is_whole(pieces: &[Bytes], line: &RecordedSegment) -> bool {
    let whole: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
    let crc = pieces.iter().fold(Crc32c::default(), |crc, piece| crc.with(piece));
    whole == line.bytes && crc.value() == line.crc32c
}
