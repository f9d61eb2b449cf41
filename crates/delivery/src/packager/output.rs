//! Where units go: the presentation, and what is told of it.

use super::presentation::{Presentation, Rendition};
use super::{Event, RenditionName};
use std::collections::VecDeque;

/// The rendition that a lane writes to, and where its events go.
pub(super) struct Output<'a> {
    pub(super) rendition: &'a mut Rendition,
    pub(super) events: &'a mut VecDeque<Event>,
}

/// The presentation of all renditions, and where its events go.
pub(super) struct World<'a> {
    pub(super) presentation: &'a mut Presentation,
    pub(super) events: &'a mut VecDeque<Event>,
}

impl World<'_> {
    /// What the lane of this rendition writes to; `None` where the presentation has none of this name.
    pub(super) fn output(&mut self, name: RenditionName) -> Option<Output<'_>> {
        let rendition = self.presentation.rendition_mut(name)?;
        Some(Output { rendition, events: self.events })
    }
}
