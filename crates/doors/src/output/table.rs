//! What the thread tells of each output, for the API and the metrics.

use super::Output;
use glassline_delivery::output::Destination;
use glassline_delivery::policy::StreamName;
use glassline_streams::status::{OutputStatus, StreamStatus};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One output. Counts are since it was first configured.
#[derive(Debug)]
pub(super) struct OutputEntry {
    pub(super) name: StreamName,
    pub(super) destination: Destination,
    pub(super) datagrams: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) moved_forward: AtomicU64,
    pub(super) begun: AtomicBool,
    error: Mutex<Option<String>>,
}

impl OutputEntry {
    fn new(output: &Output) -> OutputEntry {
        OutputEntry {
            name: output.name.clone(),
            destination: output.destination.clone(),
            datagrams: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            moved_forward: AtomicU64::new(0),
            begun: AtomicBool::new(false),
            error: Mutex::default(),
        }
    }

    /// Datagrams, bytes, errors and moves so far.
    pub(super) fn counts(&self) -> [u64; 4] {
        self.counters().map(|counter| counter.load(Ordering::Relaxed))
    }

    pub(super) fn set_counts(&self, counts: [u64; 4]) {
        for (counter, count) in self.counters().into_iter().zip(counts) {
            counter.store(count, Ordering::Relaxed);
        }
    }

    fn counters(&self) -> [&AtomicU64; 4] {
        [&self.datagrams, &self.bytes, &self.errors, &self.moved_forward]
    }

    /// The text is replaced as a whole.
    pub(super) fn error(&self) -> MutexGuard<'_, Option<String>> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> OutputStatus {
        let [datagrams, bytes, errors, moved_forward] = self.counts();
        let error = self.error().clone();
        OutputStatus {
            url: self.destination.to_string(),
            sending: self.begun.load(Ordering::Relaxed) && error.is_none(),
            error,
            datagrams,
            bytes,
            errors,
            moved_forward,
        }
    }
}

/// All outputs.
#[derive(Debug, Default)]
pub struct OutputTable(Vec<Arc<OutputEntry>>);

impl OutputTable {
    /// A entry for each output that differs. What stands on `former` entries for the same outputs stays.
    pub fn new(outputs: &[Output], former: &OutputTable) -> OutputTable {
        let mut entries: Vec<Arc<OutputEntry>> = Vec::new();
        for output in outputs {
            let same = |entry: &&Arc<OutputEntry>| {
                entry.name == output.name && entry.destination == output.destination
            };
            if !entries.iter().any(|entry| same(&entry)) {
                let kept = former.iter().find(same).cloned();
                entries.push(kept.unwrap_or_else(|| Arc::new(OutputEntry::new(output))));
            }
        }
        OutputTable(entries)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<OutputEntry>> {
        self.0.iter()
    }

    /// Whether the stream `name` has any.
    pub fn has(&self, name: &StreamName) -> bool {
        self.0.iter().any(|entry| entry.name == *name)
    }

    /// Adds the outputs to a stream's status.
    pub fn complete(&self, stream: &mut StreamStatus) {
        let of_stream = self.0.iter().filter(|entry| entry.name == stream.name);
        stream.outputs = of_stream.map(|entry| entry.status()).collect();
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
