//! A sender of which the codec changes, and one that codes what another one sends, to see what that would look like.

use super::Sender;
use crate::coder::{CodingError, Request, Task};
use crate::settings::VideoCodec;
use crate::size::CodedSize;
use crate::wire::TakenCodecs;
use glassline_codec::vp8::{Parallel, Quality};
use glassline_media::Picture;

/// A quantiser with which a picture looks as it is.
const AS_IT_IS: u8 = 8;

impl Sender {
    /// Pictures are encoded by another codec, or at another size, from the next one on, which needs no other.
    pub(crate) fn set_codec(&mut self, codec: VideoCodec, size: CodedSize, speed: u8) {
        (self.settings.video_codec, self.settings.size, self.settings.speed) = (codec, size, speed);
        (self.coder, self.ladder, self.resizing) = Sender::coding(&self.settings);
        (self.pending, self.conventional, self.on_screen) = (None, None, None);
        self.history.forget();
    }

    /// Whether what the receiver shows is wanted with each picture from now on ([`Sender::on_screen`]).
    pub(crate) fn keep_pictures(&mut self, wanted: bool) {
        self.coder.keep_pictures(wanted);
    }

    /// What decoders show for the picture that was sent last.
    pub(crate) fn on_screen(&self) -> Option<&Picture> {
        self.on_screen.as_ref()
    }

    /// The codec that the receiver takes alone, where it says so.
    pub(crate) fn wanted_codec(&self) -> Option<VideoCodec> {
        match self.taken {
            TakenCodecs::Any => None,
            TakenCodecs::Vp8 => Some(VideoCodec::Vp8),
            TakenCodecs::Av1 => Some(VideoCodec::Av1),
        }
    }

    /// A receiver that has said nothing yet takes all.
    pub(crate) fn forget_wishes(&mut self) {
        self.taken = TakenCodecs::Any;
    }

    /// Takes a picture as if it had been sent and come: what follows is coded against it. It is coded as well as it can be, so that
    /// nothing is known of bytes and quantisers.
    ///
    /// # Errors
    /// The picture cannot be encoded.
    pub(crate) fn begin_with(
        &mut self,
        picture: &Picture,
        parallel: &dyn Parallel,
    ) -> Result<(), CodingError> {
        self.resizing.begin(picture);
        self.resizing.begin_key(u64::MAX);
        let picture = &self.resizing.scaled(picture);
        let request = Request { renews_long_term: true, ..self.request() };
        let task = Task { source: None, picture, request };
        self.coder.begin(&[]);
        let encoded = self.coder.encode_one(task, Quality::Quantizer(AS_IT_IS), parallel)?;
        self.history.push(self.next, encoded.state, None);
        self.on_screen.clone_from(&encoded.picture);
        self.next += 1;
        Ok(())
    }

    /// The number of the next picture that is sent.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// What follows from the next picture's being coded against `source` by the sender that this one follows
    /// ([`History::follow`](crate::history::History::follow)).
    pub(crate) fn follow(&mut self, source: u64, safely: bool) {
        self.history.follow(source, safely);
    }
}
