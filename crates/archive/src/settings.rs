//! What is recorded, and where to.

use crate::store::StoreSettings;
use glassline_delivery::archive::location::Location;
use glassline_delivery::archive::retention::Rules;
use glassline_delivery::policy::StreamName;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What is recorded, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// The streams that are recorded; with one that has versions, each of them.
    pub streams: BTreeSet<StreamName>,
    /// Whether recordings are made as MPEG-TS, too: of streams that do not say so themselves, and of those that do, each with its
    /// versions.
    pub ts: (bool, BTreeMap<StreamName, bool>),
    /// Where recordings are kept.
    pub store: StoreSettings,
    /// The folder of the spool, on a disk of this machine.
    pub spool: PathBuf,
    /// Bytes of the spool at most.
    pub spool_bytes: u64,
    /// How long recordings are kept, and how much of them.
    pub keep: Rules,
    /// Bytes a second to the store at most.
    pub upload_rate: Option<u64>,
}

impl RecordSettings {
    /// Whether the stream `name` is recorded.
    pub fn has(&self, name: &StreamName) -> bool {
        let group = || name.version().is_some_and(|version| self.streams.contains(&version.group));
        self.streams.contains(name) || group()
    }

    /// Whether recordings of the stream `name` are made as MPEG-TS, too.
    pub fn has_ts(&self, name: &StreamName) -> bool {
        let (general, streams) = &self.ts;
        let of_group = || streams.get(&name.version()?.group);
        *streams.get(name).or_else(of_group).unwrap_or(general)
    }

    pub(crate) fn store_folder(&self) -> Option<&Path> {
        match &self.store.location {
            Location::Folder(folder) => Some(folder),
            Location::S3 { .. } => None,
        }
    }
}
