//! The presentations that there are.

use glassline_delivery::packager::{self, Presentation};
use glassline_delivery::policy::StreamName;
use glassline_edge::{CaptureVersion, Ladder, PresentationStore};
use glassline_streams::status::StreamStatus;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The presentations, by their streams' names, and the ladders, by those of their captures.
#[derive(Default)]
pub(super) struct PresentationStores {
    stores: RwLock<BTreeMap<StreamName, Arc<PresentationStore>>>,
    ladders: RwLock<BTreeMap<StreamName, Arc<Ladder>>>,
}

impl PresentationStores {
    /// The presentation of a stream.
    pub(super) fn find(&self, name: &StreamName) -> Option<Arc<PresentationStore>> {
        self.stores.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Whether there is a presentation of the stream, or one of the versions of the capture, `name`.
    pub(super) fn have(&self, name: &StreamName) -> bool {
        self.find(name).is_some() || self.ladder(name).is_some()
    }

    /// The streams that have a presentation and are versions of the capture `group`.
    pub(super) fn versions_of(&self, group: &StreamName) -> Vec<StreamName> {
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        stores.keys().filter(|name| is_version_of(name, group)).cloned().collect()
    }

    pub(super) fn ladder(&self, group: &StreamName) -> Option<Arc<Ladder>> {
        self.ladders.read().unwrap_or_else(PoisonError::into_inner).get(group).cloned()
    }

    pub(super) fn ladder_or_begin(&self, group: &StreamName, begin: impl FnOnce() -> Ladder) -> Arc<Ladder> {
        let mut ladders = self.ladders.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(ladders.entry(group.clone()).or_insert_with(|| Arc::new(begin())))
    }

    /// Forgets ladders of which no version is left.
    pub(super) fn forget_ladders(&self) {
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        let has_versions = |group: &StreamName| stores.keys().any(|name| is_version_of(name, group));
        let mut ladders = self.ladders.write().unwrap_or_else(PoisonError::into_inner);
        ladders.retain(|group, _| has_versions(group));
    }

    /// The same, which begins where there is none; then also true.
    pub(super) fn find_or_begin(
        &self,
        name: &StreamName,
        begin: impl FnOnce() -> PresentationStore,
    ) -> (Arc<PresentationStore>, bool) {
        let mut stores = self.stores.write().unwrap_or_else(PoisonError::into_inner);
        match stores.get(name) {
            Some(store) => (Arc::clone(store), false),
            None => {
                let store = Arc::new(begin());
                if let Some(group) = name.version().map(|version| version.group) {
                    let own = CaptureVersion::new(name.clone(), Arc::clone(&store));
                    for (other, its_store) in stores.iter().filter(|(other, _)| is_version_of(other, &group))
                    {
                        its_store.add_version(&own);
                        store.add_version(&CaptureVersion::new(other.clone(), Arc::clone(its_store)));
                    }
                }
                stores.insert(name.clone(), Arc::clone(&store));
                (store, true)
            }
        }
    }

    /// Adds to what is told of a stream which of its tracks are left out: what its packager has found, or what its tables tell
    /// of a stream that is not packaged yet; and how many units of metadata the packager has dropped.
    pub(super) fn complete(&self, status: &mut StreamStatus) {
        let store = self.find(&status.name);
        status.dropped_events = store.as_ref().map(|store| store.look(Presentation::dropped_events));
        let found = store.map(|store| store.left_out()).filter(|left_out| !left_out.is_empty());
        status.left_out = found.unwrap_or_else(|| packager::left_out_of(&status.streams));
    }

    /// The presentation of the stream is that no longer.
    pub(super) fn remove(&self, name: &StreamName) {
        self.stores.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

pub(super) fn is_version_of(name: &StreamName, group: &StreamName) -> bool {
    name.version().is_some_and(|version| version.group == *group)
}

#[cfg(test)]
#[path = "presentation_stores_tests.rs"]
mod tests;
