// Takes a file of a spool's log: its records, and what a start makes of them.
use bytes::Bytes;
use glassline_delivery::archive::log::{self, Piece};
use glassline_delivery::archive::spool::{Log, LogFailed, Recovery};
use glassline_delivery::archive::upload::Uploads;
use glassline_media::Time;

struct Memory(Vec<u8>);

impl Log for Memory {
    fn append(&mut self, _: &[u8; log::HEADER_BYTES], _: &[Bytes]) -> Result<(), LogFailed> {
        Ok(())
    }
    fn begin_file(&mut self, _: u32) -> Result<(), LogFailed> {
        Ok(())
    }
    fn has_file(&self) -> bool {
        true
    }
    fn delete_file(&mut self, _: u32) {}
    fn read(&mut self, piece: Piece) -> Option<Bytes> {
        let end = piece.at as usize + piece.length as usize;
        self.0.get(piece.at as usize..end).map(Bytes::copy_from_slice)
    }
}

pub fn run(data: &[u8]) {
    let mut recovery = Recovery::new(1 << 20, Uploads::new(None, 1));
    recovery.file(1, data.len() as u64);
    let mut begin = 0;
    loop {
        let end = begin
            + log::scan(&data[begin..], |header, payload, at| recovery.record(header, payload, begin + at));
        assert!(end <= data.len());
        // Damage in the middle of a file.
        match log::find(data.get(end + 1..).unwrap_or_default()) {
            Some(next) => begin = end + 1 + next,
            None => break,
        }
    }
    let mut log = Memory(data.to_vec());
    let now = Time::from_millis(1_000);
    let mut spool = recovery.finish(now, &mut log);
    for _ in 0..64 {
        if spool.next_upload(now, &mut log).is_none() {
            break;
        }
    }
}
