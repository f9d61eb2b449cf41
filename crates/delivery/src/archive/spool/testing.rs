//! A log and a store in memory.

use super::*;
use crate::archive::index::{Part, testing};
use crate::archive::index::{Recording as Index, crc32c};
use crate::archive::log;
use std::time::Duration;

/// A log in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryLog {
    pub(super) files: BTreeMap<u32, Vec<u8>>,
    /// Nothing can be written.
    pub(super) is_full: bool,
    /// Bytes that the disk has; 0: any number.
    pub(super) capacity: u64,
    /// The file that takes what is appended.
    pub(super) newest: Option<u32>,
    /// How much of each file the disk keeps when its power goes.
    pub(super) synced: BTreeMap<u32, usize>,
    /// Files that were deleted since the last synchronization: until then they stay.
    pub(super) condemned: BTreeMap<u32, Vec<u8>>,
}

impl Log for MemoryLog {
    fn append(&mut self, header: &[u8; HEADER_BYTES], payload: &[Bytes]) -> Result<(), LogFailed> {
        let needed = header.len() as u64 + payload.iter().map(|piece| piece.len() as u64).sum::<u64>();
        if self.is_full || (self.capacity > 0 && self.bytes() + needed > self.capacity) {
            return Err(LogFailed);
        }
        let file = self.newest.and_then(|newest| self.files.get_mut(&newest)).ok_or(LogFailed)?;
        file.extend_from_slice(header);
        payload.iter().for_each(|piece| file.extend_from_slice(piece));
        Ok(())
    }

    fn begin_file(&mut self, number: u32) -> Result<(), LogFailed> {
        if self.is_full {
            return Err(LogFailed);
        }
        assert!(self.files.keys().all(|known| *known < number));
        self.files.insert(number, Vec::new());
        self.newest = Some(number);
        Ok(())
    }

    fn has_file(&self) -> bool {
        self.newest.is_some()
    }

    fn delete_file(&mut self, number: u32) {
        assert_eq!(self.files.keys().next(), Some(&number), "files go in their order");
        let file = self.files.remove(&number).unwrap();
        self.condemned.insert(number, file);
    }

    fn read(&mut self, piece: Piece) -> Option<Bytes> {
        let file = self.files.get(&piece.file)?;
        let end = piece.at as usize + piece.length as usize;
        file.get(piece.at as usize..end).map(Bytes::copy_from_slice)
    }
}

impl MemoryLog {
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.len() as u64).sum()
    }

    /// The disk has all of it.
    pub(super) fn sync(&mut self) {
        self.synced = self.files.iter().map(|(number, file)| (*number, file.len())).collect();
        self.condemned.clear();
    }

    /// What came after the last synchronization is gone, and what was deleted since is there.
    pub(super) fn lose_power(&mut self) {
        self.files.append(&mut self.condemned);
        let synced = std::mem::take(&mut self.synced);
        self.files.retain(|number, _| synced.contains_key(number));
        for (number, file) in &mut self.files {
            file.truncate(synced[number]);
        }
        self.sync();
    }

    /// What a process finds that starts now.
    pub(super) fn recover(&mut self, max_bytes: u64, now: Time) -> Spool {
        let mut recovery = Recovery::new(max_bytes, Uploads::new(None, 1));
        self.newest = None;
        let last = self.files.keys().next_back().copied();
        for (number, file) in &mut self.files {
            let mut records = Vec::new();
            let mut begin = 0;
            loop {
                let end = log::scan(&file[begin..], |header, payload, at| {
                    records.push((*header, payload.to_vec(), begin + at));
                });
                let next = log::find(file.get(begin + end + 1..).unwrap_or_default());
                match next.filter(|_| Some(*number) != last) {
                    Some(next) => begin += end + 1 + next,
                    None if Some(*number) == last => break file.truncate(begin + end),
                    None => break,
                }
            }
            recovery.file(*number, file.len() as u64);
            for (header, payload, at) in records {
                // Of parts, the line alone.
                let head = if header.kind == Kind::Part { payload.len().min(1000) } else { payload.len() };
                recovery.record(&header, &payload[..head], at);
            }
        }
        recovery.finish(now, self)
    }
}

/// A store in memory, and what fills it.
#[derive(Debug, Default)]
pub(super) struct MemoryStore {
    pub(super) objects: BTreeMap<String, Vec<u8>>,
}

impl MemoryStore {
    /// Puts all that may leave; `outcome` says what becomes of each.
    pub(super) fn take(
        &mut self,
        spool: &mut Spool,
        log: &mut MemoryLog,
        now: Time,
        mut outcome: impl FnMut(&StoredObject) -> Outcome,
    ) {
        while let Some(upload) = spool.next_upload(now, log) {
            let outcome = outcome(&upload.object);
            if outcome == Outcome::Stored {
                self.objects.insert(upload.object.to_string(), upload.pieces.concat());
            }
            spool.uploaded(upload.id, outcome, now, log);
        }
    }

    /// Lets time pass until all is in the store.
    pub(super) fn take_all(&mut self, spool: &mut Spool, log: &mut MemoryLog, mut now: Time) -> Time {
        for _ in 0..100 {
            self.take(spool, log, now, |_| Outcome::Stored);
            spool.handle_timeout(now, log);
            now += Duration::from_secs(31);
        }
        now
    }

    /// The recordings by their indexes. Each segment that they name is there as they say.
    pub(super) fn indexes(&self) -> Vec<Index> {
        let mut indexes: BTreeMap<(StreamName, Session), Index> = BTreeMap::new();
        for (path, bytes) in &self.objects {
            let stored: StoredObject = path.parse().expect("a name");
            if let SessionObject::Index { .. } = stored.object {
                let key = (stored.name.clone(), stored.session);
                let index = indexes.entry(key).or_insert_with(|| Index::new(stored.name, stored.session));
                index.add_part(Part::read(bytes).expect("a part")).expect("of this recording");
            }
        }
        for index in indexes.values() {
            for rendition in index.renditions().collect::<Vec<_>>() {
                for segment in index.segments(rendition).filter(|segment| !segment.is_gap()) {
                    let object = SessionObject::Segment { rendition, segment: segment.number };
                    let stored =
                        StoredObject { name: index.name().clone(), session: index.session(), object };
                    let bytes = self.objects.get(&stored.to_string());
                    let bytes = bytes.unwrap_or_else(|| panic!("{stored} is named and not there"));
                    assert_eq!((bytes.len() as u64, crc32c(bytes)), (segment.bytes, segment.crc32c));
                    let init = SessionObject::Init { rendition, number: segment.epoch };
                    assert!(self.objects.contains_key(&StoredObject { object: init, ..stored }.to_string()));
                }
            }
        }
        indexes.into_values().collect()
    }
}

pub(super) const VIDEO: RenditionName = RenditionName::Video;
pub(super) const AUDIO: RenditionName = RenditionName::Audio(1);
pub(super) const PARTS: u64 = 4;

/// A publisher of a stream of half-second parts, four to a segment, of pictures and sound.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) number: u64,
    /// The next part, from 0.
    pub(super) next: u64,
    pub(super) epoch: u32,
    pub(super) part_bytes: usize,
}

impl Source {
    pub(super) fn begin(
        spool: &mut Spool,
        log: &mut MemoryLog,
        name: &str,
        part_bytes: usize,
        now: Time,
    ) -> Source {
        let number = spool.begin(StreamName::parse(name).unwrap(), testing::BEGUN);
        let mut source = Source { number, next: 0, epoch: 1, part_bytes };
        source.init(spool, log, now);
        source
    }

    pub(super) fn init(&mut self, spool: &mut Spool, log: &mut MemoryLog, now: Time) {
        let (video, audio) = (testing::video(self.epoch), testing::audio(self.epoch));
        spool.init(self.number, VIDEO, video, Bytes::from_static(b"video header"), now, log);
        spool.init(self.number, AUDIO, audio, Bytes::from_static(b"audio header"), now, log);
    }

    pub(super) fn segment(&self, rendition: RenditionName, parts: u64) -> RecordedSegment {
        let number = 100 + self.next / PARTS;
        let timescale = if rendition.is_video() { 90_000 } else { 48_000 };
        let whole = testing::segment(testing::BEGUN, number, self.epoch, timescale);
        RecordedSegment { duration: whole.duration * parts / PARTS, bytes: 0, crc32c: 0, ..whole }
    }

    /// What part `part` of a rendition is made of.
    pub(super) fn chunks(&self, rendition: RenditionName, part: u64) -> Vec<Bytes> {
        let letter = if rendition.is_video() { b'v' } else { b'a' };
        let text = format!("{} {part} ", char::from(letter));
        let rest = self.part_bytes.saturating_sub(text.len());
        vec![Bytes::from(text), Bytes::from(vec![letter; rest])]
    }

    /// The next part of both renditions, and the segment's end where it is its last.
    pub(super) fn part(&mut self, spool: &mut Spool, log: &mut MemoryLog, now: Time) {
        for rendition in [VIDEO, AUDIO] {
            let parts = self.next % PARTS + 1;
            let segment = self.segment(rendition, parts);
            spool.part(self.number, rendition, &segment, self.chunks(rendition, self.next), now, log);
            if parts == PARTS {
                spool.segment_end(self.number, rendition, &segment, now, log);
            }
        }
        self.next += 1;
    }

    /// The bytes of a segment with so many parts.
    pub(super) fn bytes(&self, rendition: RenditionName, number: u64, parts: u64) -> Vec<u8> {
        let first = (number - 100) * PARTS;
        (first..first + parts).flat_map(|part| self.chunks(rendition, part)).flatten().collect()
    }
}
