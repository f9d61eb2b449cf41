//! What is configured at this moment, where all threads read it: the settings, the sources and the outputs.

use crate::output::OutputTable;
use crate::pull::PullTable;
use crate::settings::Settings;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream;
use glassline_streams::{Owner, Plan};
use std::sync::{Arc, PoisonError, RwLock};

/// The settings, with the tables that are made of them. Sources also come from what viewers ask for.
pub(super) struct Configuration {
    settings: RwLock<Arc<Settings>>,
    pulls: RwLock<Arc<PullTable>>,
    outputs: RwLock<Arc<OutputTable>>,
    workers: usize,
}

impl Configuration {
    /// `settings`, for so many workers.
    pub(super) fn new(settings: Settings, workers: usize) -> Configuration {
        let pulls = PullTable::new(&settings.pulls, &PullTable::default());
        let outputs = OutputTable::new(&settings.outputs, &OutputTable::default());
        Configuration {
            settings: RwLock::new(Arc::new(settings)),
            pulls: RwLock::new(Arc::new(pulls)),
            outputs: RwLock::new(Arc::new(outputs)),
            workers,
        }
    }

    /// Puts `settings` in the place of those that there are, and makes the table of outputs anew.
    pub(super) fn change(&self, settings: Arc<Settings>) {
        let outputs = OutputTable::new(&settings.outputs, &self.outputs());
        *self.outputs.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(outputs);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// Puts another table of sources in the place of the one that there is.
    pub(super) fn set_pulls(&self, make: impl FnOnce(&PullTable) -> PullTable) {
        let mut pulls = self.pulls.write().unwrap_or_else(PoisonError::into_inner);
        *pulls = Arc::new(make(&pulls));
    }

    pub(super) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn pulls(&self) -> Arc<PullTable> {
        Arc::clone(&self.pulls.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn outputs(&self) -> Arc<OutputTable> {
        Arc::clone(&self.outputs.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Plan for Configuration {
    fn owner(&self, name: &StreamName) -> Option<Owner> {
        let is_encoded = self.settings().reserved.contains(name);
        let of_encoder = is_encoded.then_some(Owner::Encoder);
        if self.pulls().has(name) { Some(Owner::Source) } else { of_encoder }
    }

    fn has_outputs(&self, name: &StreamName) -> bool {
        self.outputs().has(name)
    }

    fn settings(&self, name: &StreamName) -> stream::Settings {
        Configuration::settings(self).of_stream(name)
    }

    fn max_streams(&self) -> usize {
        Configuration::settings(self).max_streams
    }

    fn workers(&self) -> usize {
        self.workers
    }
}

#[cfg(test)]
#[path = "configuration_tests.rs"]
mod tests;
