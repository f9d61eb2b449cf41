//! Where pictures and sound come from: the test pattern, files, pipes, what FFmpeg decodes, capture devices.
//!
//! ```text
//!   Input ─► Source ──── pictures ──┐
//!   (test pattern, y4m, ffmpeg,     ├─► Consumer: takes each when its time has come
//!    v4l2)                          │
//!   AudioIn ─► SoundInput ─ sound ──┘
//! ```
//! [`Source::run`] and the threads of [`SoundInput::start`] hand over what was captured, stamped on one capture clock; the
//! implementation of [`Consumer`] decides what becomes of it. [`Pictures`] gives pictures on request instead, for encoding
//! files and for measurements.

mod captions;
mod coded;
mod coded_outlet;
mod error;
mod fetched;
mod ffmpeg;
mod first_picture;
mod input;
mod sound;
mod source;
mod tracks;

pub(crate) use captions::{CaptionItem, CaptionReader};
pub use coded::CodedInput;
pub use coded_outlet::CodedItem;
pub use error::{Error, ParseError};
pub use fetched::Fetched;
pub use ffmpeg::{Children, FfmpegInput};
pub use first_picture::FirstPicture;
pub use input::{CodedDevice, Input};
pub use sound::{Accompaniment, AudioIn, FileAudio, RawFormat, SoundInput};
pub use source::{Deinterlace, Format, Length, Pace, Pictures, Pixels, Request, Source};
pub use tracks::{Film, Track, Tracks};

use glassline_media::{AudioBlock, Picture, Stamps, Ticks, Time};

/// Channels of the test pattern's tone.
pub const TONE_CHANNELS: u8 = 2;
/// Samples a second of all sound that is handed over.
pub const SOUND_RATE_HZ: u32 = glassline_codec::audio::RATE_HZ;

/// What a source gives.
#[derive(Debug)]
pub enum Item {
    /// A picture.
    Picture {
        /// In 8-bit 4:2:0, or as [`Pixels`] had it asked.
        picture: Picture,
        /// When to present it.
        pts: Ticks,
        /// When it was captured, was there, and was handed over.
        stamps: Stamps,
    },
    /// Sound of 48 kHz.
    Sound(AudioBlock),
}

/// Takes what is captured. Called from the source's thread and from the sound's.
pub trait Consumer: Send + Sync {
    /// Takes the next item; false once no more items are wanted, and the source should end.
    fn push(&self, item: Item) -> bool;

    /// The file begins again with the picture of this stamp, which is pushed next, and so does the sound that goes along with
    /// it; false once no more items are wanted.
    fn begin_again(&self, pts: Ticks) -> bool;

    /// Sets the file's sound that goes along with the pictures: the consumer takes what is heard before a picture before that
    /// picture.
    fn accompany(&self, sound: FileAudio);

    /// Waits for the first picture and tells when it was captured; `None` where the source ends without one.
    fn first_picture(&self) -> Option<Time>;

    /// Counts pictures that the source itself left out because it was late.
    fn count_dropped(&self, pictures: u64);

    /// Whether no more items are wanted.
    fn is_stopped(&self) -> bool;

    /// The pictures have ended, well or not; nothing is pushed any more but sound.
    fn end(&self, ended: Result<(), Error>);
}

/// What can fail here.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;
