//! Versions of one capture that are told of together.

use crate::packager::{Epoch, Presentation, Rendition, RenditionName, SegmentLength};
use std::time::Duration;

/// One of the versions of a capture that a multivariant playlist or a manifest tells of. All have the same sound; that of
/// the first is told of.
#[derive(Clone, Copy, Debug)]
pub struct Variant<'a> {
    /// What is put in front of the addresses of its objects: the way from where the playlist is to where they are, such as
    /// `../hall-720p50/`.
    pub base: &'a str,
    /// What there is to play of it.
    pub presentation: &'a Presentation,
}

impl<'a> Variant<'a> {
    /// A presentation by itself, with its objects beside its playlists.
    pub const fn alone(presentation: &'a Presentation) -> Variant<'a> {
        Variant { base: "", presentation }
    }

    /// Its pictures and its epoch on the timeline of `epoch`, which is another variant's: the newest with the same zero. `None`
    /// where it has nothing there.
    pub(super) fn counterpart(&self, epoch: &Epoch) -> Option<(&'a Rendition, &'a Epoch)> {
        // The zeros of one clock may differ by rounds of its stamps.
        let is_same =
            |own: &&Epoch| own.zero.wrapped() == epoch.zero.wrapped() && own.first_ticks == epoch.first_ticks;
        let own = self.presentation.epochs().rev().find(is_same)?;
        let rendition = self.presentation.rendition(RenditionName::Video)?;
        rendition.track_in(own.number).map(|_| (rendition, own))
    }
}

/// Lengths that differ by no more than this are one.
const LENGTHS_AGREE: Duration = Duration::from_millis(100);

/// How long an epoch's segments are, where all `lengths` are known and agree, give or take a tenth of a second.
pub(super) fn common_length(lengths: impl Iterator<Item = Option<SegmentLength>>) -> Option<SegmentLength> {
    let mut common: Option<SegmentLength> = None;
    for length in lengths {
        let length = length?;
        if common.get_or_insert(length).abs_diff(length) > LENGTHS_AGREE {
            return None;
        }
    }
    common
}
