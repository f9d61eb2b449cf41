//! The pictures of one stream that may be shown: small ones of what was decoded to watch it.

use crate::thumbnail::Thumbnail;
#[cfg(feature = "avcodec")]
use glassline_codec::avcodec::DecodedPicture;
use glassline_delivery::watch::{Alarm, Raised, State};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Holds small pictures, some hundred kilobytes each, where it is asked to: one, and those of alarms that are not taken yet.
#[derive(Default)]
pub(crate) struct Shown {
    is_wanted: bool,
    newest: Option<Arc<Thumbnail>>,
    /// It was not taken yet.
    is_new: bool,
    /// The pictures that were judged when these alarms began.
    judged: BTreeMap<Alarm, Arc<Thumbnail>>,
}

impl Shown {
    /// Keeps pictures from now on.
    pub(crate) fn keep(&mut self) {
        self.is_wanted = true;
    }

    /// Forgets the pictures that there are.
    pub(crate) fn forget(&mut self) {
        *self = Shown { is_wanted: self.is_wanted, ..Shown::default() };
    }

    /// Takes a picture that has come out of the decoder, a key frame or another one, and the alarms that have begun by it.
    #[cfg(feature = "avcodec")]
    pub(crate) fn push(
        &mut self,
        picture: &DecodedPicture<'_>,
        is_key: bool,
        begun: &mut dyn Iterator<Item = Alarm>,
    ) {
        let mut begun = begun.peekable();
        if !self.is_wanted || !is_key && begun.peek().is_none() {
            return;
        }
        let Some(small) = Thumbnail::of(picture).map(Arc::new) else { return };
        for alarm in begun {
            // Of one that comes and goes the first time is told.
            self.judged.entry(alarm).or_insert_with(|| Arc::clone(&small));
        }
        (self.newest, self.is_new) = (Some(small), true);
    }

    /// The picture of an alarm that begins: the one that was judged, or the newest.
    pub(crate) fn take_judged(&mut self, raised: &Raised) -> Option<Arc<Thumbnail>> {
        match raised.state {
            State::Begun => self.judged.remove(&raised.alarm).or_else(|| self.newest.clone()),
            State::Over => None,
        }
    }

    /// The newest key frame, or a later picture by which an alarm has begun; once.
    pub(crate) fn take_newest(&mut self) -> Option<Arc<Thumbnail>> {
        self.newest.clone().filter(|_| std::mem::take(&mut self.is_new))
    }
}
