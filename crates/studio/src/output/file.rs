//! Files that get the transport stream as it is.

use super::{Demand, Error, Output, Packets, Result, StatusHandle};
use glassline_media::container::cmaf::Patch;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(|error| Error::Create { name: path.display().to_string(), error })
}

/// A file of pieces, which ends with a whole one also where the disk is full.
pub(super) struct Pieces {
    pub(super) status: StatusHandle,
    file: File,
    /// Bytes of whole pieces.
    whole: u64,
}

impl Pieces {
    pub(super) fn create(path: &Path, status: StatusHandle) -> Result<Pieces> {
        Ok(Pieces { file: create(path)?, status, whole: 0 })
    }

    pub(super) fn append(&mut self, piece: &[u8]) -> Result<()> {
        if let Err(error) = self.file.write_all(piece) {
            // A pipe cannot be cut; its reader sees that it ends.
            let _ = self.file.set_len(self.whole);
            return Err(Error::write(self.status.name())(error));
        }
        self.whole += piece.len() as u64;
        self.status.sent(piece.len());
        Ok(())
    }

    /// Puts bytes in the place of earlier ones. What cannot be sought, as a pipe, stays as it is: files are as good without.
    pub(super) fn patch(&mut self, patch: &Patch) -> Result<()> {
        if !self.file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Ok(());
        }
        self.file.write_all_at(&patch.bytes, patch.offset).map_err(Error::write(self.status.name()))
    }
}

/// A transport stream.
pub(super) struct TsFile(Pieces);

impl TsFile {
    pub(super) fn create(path: &Path, status: StatusHandle) -> Result<TsFile> {
        Ok(TsFile(Pieces::create(path, status)?))
    }
}

impl Output for TsFile {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        self.0.append(packets.bytes)?;
        Ok(Demand::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::container::ts::PACKET_BYTES;
    use glassline_test_support::program::Scratch;

    fn packets(count: usize) -> Vec<u8> {
        let mut packet = [0xff; PACKET_BYTES];
        packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
        packet.repeat(count)
    }

    #[test]
    fn a_transport_stream_is_written_as_it_is_and_is_there_at_once() {
        let scratch = Scratch::new("ts-file");
        let path = scratch.path().join("a.ts");
        let status = StatusHandle::new("a.ts");
        let mut file = TsFile::create(&path, status.clone()).unwrap();
        let bytes = packets(5);
        for piece in [&bytes[..PACKET_BYTES], &[], &bytes[PACKET_BYTES..]] {
            assert_eq!(file.write(&Packets::whole(piece, false)).unwrap(), Demand::Nothing);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), status.get().bytes);
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn a_file_that_was_there_is_begun_anew() {
        let scratch = Scratch::new("ts-file-anew");
        let path = scratch.write("a.ts", packets(9));
        let mut file = TsFile::create(Path::new(&path), StatusHandle::new("a.ts")).unwrap();
        file.write(&Packets::whole(&packets(2), false)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), packets(2));
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_when_the_file_is_made() {
        let path = Path::new("/no/such/folder/a.ts");
        let refused = TsFile::create(path, StatusHandle::new("a.ts")).err().unwrap();
        assert!(
            matches!(&refused, Error::Create { error, .. } if error.kind() == std::io::ErrorKind::NotFound)
        );
        assert!(refused.to_string().starts_with("cannot write /no/such/folder/a.ts: "), "{refused}");
    }

    #[test]
    fn a_full_disk_is_a_failure_and_nothing_counts_as_taken() {
        let status = StatusHandle::new("full");
        let mut file = TsFile::create(Path::new("/dev/full"), status.clone()).unwrap();
        let failed = file.write(&Packets::whole(&packets(1), false)).unwrap_err();
        assert!(
            matches!(&failed, Error::Write { name, error } if name == "full" && error.kind() == std::io::ErrorKind::StorageFull),
            "{failed}"
        );
        assert_eq!(status.get().bytes, 0);
    }

    #[test]
    fn a_piece_that_fails_counts_neither_as_whole_nor_as_taken() {
        let scratch = Scratch::new("pieces");
        let path = scratch.path().join("a.ts");
        let mut pieces = Pieces::create(&path, StatusHandle::new("a.ts")).unwrap();
        pieces.append(&packets(3)).unwrap();
        // A descriptor that can only be read stands for a disk that takes nothing more.
        pieces.file = File::open(&path).unwrap();
        assert!(pieces.append(&packets(1)).is_err());
        assert_eq!((pieces.whole, pieces.status.get().bytes), (3 * 188, 3 * 188));
        assert_eq!(std::fs::read(&path).unwrap(), packets(3));
    }
}
