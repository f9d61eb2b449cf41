//! What is recorded, and where to.

use crate::store::StoreSettings;
use glassline_delivery::archive::location::Location;
use glassline_delivery::archive::retention::Rules;
use glassline_delivery::policy::StreamName;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What is recorded, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// The streams that are recorded; with one that has versions, each of them.
    pub streams: BTreeSet<StreamName>,
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

    pub(crate) fn store_folder(&self) -> Option<&Path> {
        match &self.store.location {
            Location::Folder(folder) => Some(folder),
            Location::S3 { .. } => None,
        }
    }
}
