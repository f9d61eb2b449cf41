//! Presentations of what was recorded: of segments that are all complete, for playlists and manifests of them.

use super::super::{RenditionName, Settings};
use super::rendition::rate_bps;
use super::{Epoch, Presentation, Rendition, Segment, TrackInfo};
use glassline_media::Utc;

impl Rendition {
    /// Of what it was in its epochs, and of complete segments with numbers that follow each other.
    pub(crate) fn recorded(name: RenditionName, tracks: Vec<TrackInfo>, segments: Vec<Segment>) -> Rendition {
        let first = segments.first().map_or(0, |segment| segment.number);
        let mut rendition = Rendition::new(name, first);
        rendition.next = segments.last().map_or(first, |last| last.number.saturating_add(1));
        rendition.tracks = tracks.into();
        rendition.longest = segments.iter().map(Segment::duration_time).max().unwrap_or_default();
        // The last segment of an epoch may have a few pictures only: its rate says nothing of the others'.
        let told = segments
            .iter()
            .filter(|segment| !segment.gap && segment.duration_time() >= rendition.longest / 2)
            .map(|segment| rate_bps(segment.size_bytes, segment.duration_time()));
        rendition.peak_bps = told.max().unwrap_or(0);
        rendition.segments = segments.into();
        rendition
    }
}

impl Presentation {
    /// Of one epoch that is over, in which `renditions` are.
    pub(crate) fn recorded(epoch: Epoch, renditions: Vec<Rendition>, begun: Utc) -> Presentation {
        let mut presentation = Presentation::new(Settings::default());
        presentation.renditions = renditions;
        presentation.epochs.push_back(epoch);
        (presentation.begun, presentation.changed) = (Some(begun), begun);
        presentation.ended = true;
        presentation
    }
}
