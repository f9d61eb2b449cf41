//! What an ingest has taken, and what not.

/// What was taken, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Chunks that have come up to their last byte.
    pub chunks: u64,
    /// Units dropped because they were there already, or came behind a later one.
    pub late_units: u64,
    /// Units dropped because their times have nothing to do with those of the other track.
    pub stray_units: u64,
    /// Samples of which no unit could be made.
    pub bad_samples: u64,
    /// Times that something was missing in front of a segment and did not come.
    pub gaps: u64,
    /// Tracks that were not taken.
    pub refused_tracks: u64,
}

impl Counters {
    /// So many tracks were not taken.
    pub(super) fn refuse(&mut self, tracks: usize) {
        self.refused_tracks = self.refused_tracks.saturating_add(tracks as u64);
    }
}
