//! What each of a link's reserved channels carries.

use glassline_transport::link::{Fec, MAX_CHANNELS, Options};
use std::time::Duration;

/// Pictures, from the sender. The channels with the highest numbers are reserved: the highest for `call::link::session`, those
/// below it for direct video. All others are the user's.
pub const VIDEO: u8 = MAX_CHANNELS as u8 - 2;
/// What the receiver says of them.
pub const REPORTS: u8 = MAX_CHANNELS as u8 - 3;
/// Sound, from the sender.
pub const SOUND: u8 = MAX_CHANNELS as u8 - 4;

/// A picture that has waited for so long is of no use: many newer ones were captured.
const PICTURE_CANCEL_AFTER: Duration = Duration::from_secs(1);
/// An access unit that has waited for so long: a key frame is there sooner.
const UNIT_CANCEL_AFTER: Duration = Duration::from_millis(400);
/// The largest encoded picture, bytes.
const PICTURE_BYTES_MAX: u32 = 4 << 20;
/// A packet of sound that has waited for so long would be played too late.
const SOUND_CANCEL_AFTER: Duration = Duration::from_millis(200);
/// Packets in one message, bytes: five of the largest.
const SOUND_BYTES_MAX: u32 = 8 << 10;

/// How pictures go: the newest replaces one that waits, and one that has begun is finished. `parity` goes along while packets
/// are lost.
pub fn video_options(parity: Fec) -> Options {
    Options {
        reliable: false,
        ordered: false,
        newest: true,
        priority: 8,
        cancel_after: Some(PICTURE_CANCEL_AFTER),
        max_size: PICTURE_BYTES_MAX,
        queue: 16,
        fec: parity,
        receipts: true,
        ..Options::default()
    }
}

/// How pictures go that were coded elsewhere, each against the one before: what was lost is sent again while it is of use, and
/// the newest replaces one that waits.
pub fn coded_options() -> Options {
    Options { reliable: true, cancel_after: Some(UNIT_CANCEL_AFTER), ..video_options(Fec::Never) }
}

/// How sound goes: before pictures, each packet by itself, and not at all where it could only come too late.
pub fn sound_options() -> Options {
    Options {
        reliable: false,
        ordered: false,
        priority: 4,
        cancel_after: Some(SOUND_CANCEL_AFTER),
        max_size: SOUND_BYTES_MAX,
        queue: 64,
        receipts: true,
        ..Options::default()
    }
}

/// How reports go: ahead of everything, and only the newest counts.
pub fn report_options() -> Options {
    Options {
        reliable: false,
        ordered: false,
        newest: true,
        priority: 0,
        max_size: 1 << 10,
        queue: 16,
        ..Options::default()
    }
}
