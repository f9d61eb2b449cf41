//! What becomes of a stream's decoded pictures: figures for the watcher, and small pictures to be shown.

use crate::shown::Shown;
#[cfg(feature = "avcodec")]
use glassline_codec::avcodec::DecodedPicture;
use glassline_delivery::watch::PictureMeter;
#[cfg(feature = "avcodec")]
use glassline_delivery::watch::{Luma, State, Watcher};
#[cfg(feature = "avcodec")]
use glassline_media::Time;

/// Takes pictures as they come out of the decoder.
pub(crate) struct Judge {
    meter: PictureMeter,
    /// When the key frame is seen that decoding began with last.
    #[cfg(feature = "avcodec")]
    key_at: Option<Time>,
    /// It has come out.
    #[cfg(feature = "avcodec")]
    is_key_out: bool,
    /// Small pictures of what was decoded.
    pub(crate) shown: Shown,
    /// Pictures that have come out.
    pub(crate) decoded: u64,
}

impl Judge {
    pub(crate) fn new() -> Judge {
        Judge {
            meter: PictureMeter::new(),
            #[cfg(feature = "avcodec")]
            key_at: None,
            #[cfg(feature = "avcodec")]
            is_key_out: false,
            shown: Shown::default(),
            decoded: 0,
        }
    }

    /// Begins anew, but for what is shown and counted.
    pub(crate) fn restart(&mut self) {
        *self = Judge { shown: std::mem::take(&mut self.shown), decoded: self.decoded, ..Judge::new() };
    }

    /// Part of the stream was left out.
    pub(crate) fn forget(&mut self) {
        self.meter.forget();
    }

    /// Decoding begins with the key frame that is seen at `at`.
    #[cfg(feature = "avcodec")]
    pub(crate) fn begin(&mut self, at: Time) {
        (self.key_at, self.is_key_out) = (Some(at), false);
    }

    /// Whether the last key frame has come out.
    #[cfg(feature = "avcodec")]
    pub(crate) fn is_key_out(&self) -> bool {
        self.is_key_out
    }

    /// Gives `watcher` the figures of a picture that is seen at `at`.
    #[cfg(feature = "avcodec")]
    pub(crate) fn picture(&mut self, at: Time, picture: &DecodedPicture<'_>, watcher: &mut Watcher) {
        self.decoded += 1;
        let is_key = self.key_at == Some(at);
        if is_key && std::mem::replace(&mut self.is_key_out, true) {
            // It was decoded again for the pictures behind it, and has been judged.
            return;
        }
        let DecodedPicture { luma: samples, width_px, height_px, stride, colour, .. } = *picture;
        let is_full_range = colour.full_range;
        let luma = Luma { samples, width_px, height_px, stride, is_full_range };
        let known = watcher.raised().len();
        if let Some(figures) = self.meter.measure(&luma, watcher.figures_wanted(is_key)) {
            watcher.push_picture(&figures, at);
        }
        let begun = watcher.raised().skip(known).filter(|raised| raised.state == State::Begun);
        self.shown.push(picture, is_key, &mut begun.map(|raised| raised.alarm));
    }
}
