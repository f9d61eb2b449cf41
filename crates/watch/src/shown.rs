//! The pictures of one stream that may be shown: small ones of what was decoded to watch it.

use crate::thumbnail::Thumbnail;
#[cfg(feature = "avcodec")]
use glassline_codec::avcodec::DecodedPicture;
use std::sync::Arc;

/// Holds a small picture, some hundred kilobytes, where it is asked to.
#[derive(Default)]
pub(crate) struct Shown {
    is_wanted: bool,
    newest: Option<Arc<Thumbnail>>,
    /// It was not taken yet.
    is_new: bool,
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

    /// Takes a picture that has come out of the decoder, a key frame or another one.
    #[cfg(feature = "avcodec")]
    pub(crate) fn push(&mut self, picture: &DecodedPicture<'_>, is_key: bool) {
        if !self.is_wanted || !is_key {
            return;
        }
        if let Some(small) = Thumbnail::of(picture) {
            (self.newest, self.is_new) = (Some(Arc::new(small)), true);
        }
    }

    /// The newest key frame, once.
    pub(crate) fn take_newest(&mut self) -> Option<Arc<Thumbnail>> {
        self.newest.clone().filter(|_| std::mem::take(&mut self.is_new))
    }
}
