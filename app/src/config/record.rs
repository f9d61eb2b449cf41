//! `[record]`: where streams are recorded to.

use super::Config;
use super::problem::{Problem, problem};
use super::validate::duration;
use crate::serde_text::{some, some_duration};
use glassline_delivery::archive::location::Location;
use glassline_delivery::http1::Url;
use glassline_media::quantity::{Bitrate, ByteSize};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The smallest spool: a second of some streams.
const SPOOL_MIN: ByteSize = ByteSize::from_mebibytes(4);
/// How long recordings may be kept.
const KEEP: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(100 * 366 * 86_400));
const READS_MAX: usize = 65_536;
const SPOOL_MAX: ByteSize = ByteSize::from_mebibytes(16 << 20);
/// The folder of the spool in a store that is a folder, where none is named: no stream has such a name.
const SPOOL_FOLDER: &str = ".spool";

/// `[record]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Record {
    /// Where recordings are kept; unset: nothing is recorded. After loading, nothing about it depends on the working directory.
    #[serde(deserialize_with = "some")]
    pub(crate) store: Option<Location>,
    /// The address of a server that speaks S3; unset: Amazon's.
    #[serde(deserialize_with = "some")]
    pub(crate) endpoint: Option<Url>,
    /// The region of the bucket.
    pub(crate) region: Option<String>,
    /// The file with the access key. It is read when the store is first asked, and again when it refuses the key.
    pub(crate) access_key_file: Option<PathBuf>,
    /// The file with the secret key.
    pub(crate) secret_key_file: Option<PathBuf>,
    /// The folder for what the store has not got yet.
    pub(crate) spool: Option<PathBuf>,
    /// What it may take.
    pub(crate) spool_size: ByteSize,
    /// How long recordings are kept; unset: until they are deleted.
    #[serde(deserialize_with = "some_duration")]
    pub(crate) keep: Option<Duration>,
    /// What all recordings may take; unset: any number of bytes.
    pub(crate) keep_size: Option<ByteSize>,
    /// The bit rate to the store at most; unset: as fast as it goes.
    pub(crate) upload_rate: Option<Bitrate>,
    /// Whether the store gets segments of MPEG-TS, too.
    pub(crate) ts: bool,
    /// Objects of recordings that one address may cause to be fetched at once; 0: any number.
    pub(crate) max_reads_per_address: usize,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            store: None,
            endpoint: None,
            region: None,
            access_key_file: None,
            secret_key_file: None,
            spool: None,
            spool_size: ByteSize::from_mebibytes(6 << 10),
            keep: None,
            keep_size: None,
            upload_rate: None,
            ts: false,
            max_reads_per_address: 64,
        }
    }
}

impl Record {
    /// Its files count from the configuration's folder.
    pub(super) fn join(&mut self, folder: &Path) {
        for file in [&mut self.access_key_file, &mut self.secret_key_file, &mut self.spool] {
            *file = file.take().map(|file| folder.join(file));
        }
    }

    /// The folder of the spool.
    pub(crate) fn spool_folder(&self) -> Option<PathBuf> {
        match (&self.spool, &self.store) {
            (Some(folder), _) => Some(folder.clone()),
            (None, Some(Location::Folder(folder))) => Some(folder.join(SPOOL_FOLDER)),
            _ => None,
        }
    }
}

impl Config {
    pub(super) fn check_record(&self) -> Result<(), Problem> {
        let record = &self.record;
        let Some(store) = &record.store else {
            let text = "nothing is recorded without [record] store; name one there, as in store = \"file:/srv/recordings\"";
            for (name, stream) in &self.stream {
                let is_set = [
                    ("record", stream.record == Some(true)),
                    ("record_ts", stream.record_ts == Some(true)),
                    ("keep", stream.keep.is_some()),
                    ("keep_size", stream.keep_size.is_some()),
                ];
                if let Some((key, _)) = is_set.iter().find(|(_, is_set)| *is_set) {
                    return problem(format!("stream.{name}.{key}"), text);
                }
            }
            return Ok(());
        };
        if !cfg!(feature = "archive") {
            return problem("record.store", "this program was built without recordings (feature 'archive')");
        }
        if record.spool_folder().is_none() {
            let text = "is needed with a store over the network: a folder on a disk of this machine, for what the store has not got \
                        yet, as in \"/var/lib/glassline/spool\"";
            return problem("record.spool", text);
        }
        let is_s3 = matches!(store, Location::S3 { .. });
        if record.access_key_file.is_some() != record.secret_key_file.is_some() {
            let (key, other) = match record.access_key_file {
                Some(_) => ("record.access_key_file", "secret_key_file"),
                None => ("record.secret_key_file", "access_key_file"),
            };
            return problem(key, format!("needs {other} beside it: a key has two halves"));
        }
        for (key, is_set) in [
            ("record.endpoint", record.endpoint.is_some()),
            ("record.region", record.region.is_some()),
            ("record.access_key_file", record.access_key_file.is_some()),
        ] {
            if is_set && !is_s3 {
                return problem(key, "is for stores at s3://BUCKET/PREFIX, and this one is a folder");
            }
        }
        if record.max_reads_per_address > READS_MAX {
            let text = format!("{} is out of range; from 0 to {READS_MAX}", record.max_reads_per_address);
            return problem("record.max_reads_per_address", text);
        }
        let bytes = record.spool_size.bytes();
        if !(SPOOL_MIN.bytes()..=SPOOL_MAX.bytes()).contains(&bytes) {
            let text = format!("{} is out of range; from {SPOOL_MIN} to {SPOOL_MAX}", record.spool_size);
            return problem("record.spool_size", text);
        }
        if let Some(keep) = record.keep {
            duration("record.keep", keep, KEEP.0, KEEP.1)?;
        }
        for (name, stream) in &self.stream {
            if let Some(keep) = stream.keep {
                duration(format!("stream.{name}.keep"), keep, KEEP.0, KEEP.1)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        Config::parse(text, "a.toml".as_ref()).expect_err(text).to_string()
    }

    #[test]
    fn a_store_says_where_and_a_folder_has_its_spool_within() {
        let record = Config::parse(
            "[record]\nstore = 'file:/srv/r'\n[stream.hall]\nrecord = true\n",
            "a.toml".as_ref(),
        )
        .unwrap()
        .record;
        assert_eq!(record.spool_folder(), Some("/srv/r/.spool".into()));
        let text = "[record]\nstore = 's3://live/tv'\nspool = '/var/spool'\nendpoint = 'http://127.0.0.1:7070'\nkeep = '7d'\n\
                    spool_size = '1GiB'\nupload_rate = '80M'\naccess_key_file = 'a'\nsecret_key_file = 's'\nkeep_size = '1000GiB'\n";
        let record = Config::parse(text, "a.toml".as_ref()).unwrap().record;
        assert_eq!(
            (record.keep, record.spool_folder()),
            (Some(Duration::from_secs(7 * 86_400)), Some("/var/spool".into()))
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused_in_words() {
        for (text, words) in [
            ("[stream.hall]\nrecord = true\n", "[record] store"),
            ("[record]\nstore = 's3://live'\n", "record.spool"),
            ("[record]\nstore = 'recordings'\n", "file:DIR"),
            ("[record]\nstore = 'file:/r'\nregion = 'eu'\n", "s3://BUCKET"),
            ("[record]\nstore = 's3://live'\nspool = '/s'\naccess_key_file = 'a'\n", "secret_key_file"),
            ("[record]\nstore = 'file:/r'\nspool_size = '1MiB'\n", "4MiB"),
            ("[record]\nstore = 'file:/r'\nkeep = '1s'\n", "record.keep"),
            ("[record]\nstor = 'file:/r'\n", "store"),
            ("[record]\nstore = 'file:/r'\nmax_reads_per_address = 65537\n", "65536"),
            ("[stream.hall]\nkeep = '30d'\n", "stream.hall.keep"),
            ("[stream.hall]\nkeep_size = '1GiB'\n", "stream.hall.keep_size"),
            ("[stream.hall]\nrecord_ts = true\n", "stream.hall.record_ts"),
            ("[record]\nstore = 'file:/r'\n[stream.hall]\nkeep = '1s'\n", "stream.hall.keep"),
        ] {
            assert!(complaint(text).contains(words), "{text}: {}", complaint(text));
        }
    }
}
