//! How messages are sent, by either end: in which chunks, on which chunk streams, and within which window.

use super::chunk::Message;
use super::message;

/// The chunks that are sent, in bytes: each answer fits one. nginx-rtmp, OBS and services have this size; the 128 bytes that hold
/// without it cost a header for each.
pub(super) const CHUNK_BYTES: u32 = 4096;
/// The window that the peer is asked to acknowledge by, in bytes.
pub(super) const WINDOW_BYTES: u32 = 2_500_000;

/// Chunk streams. The number of that for messages of the protocol is fixed (Adobe RTMP 1.0, section 5.4); the others are those that
/// most programs have.
pub(super) const CONTROL: u8 = 2;
pub(super) const COMMANDS: u8 = 3;
pub(super) const AUDIO: u8 = 4;
/// Commands and data of a message stream.
pub(super) const OF_STREAM: u8 = 5;
pub(super) const VIDEO: u8 = 6;

/// The message that says how large chunks are from then on.
pub(super) fn chunk_size() -> Message {
    message::protocol(message::SET_CHUNK_SIZE, CHUNK_BYTES.to_be_bytes().to_vec())
}

/// The message that asks the peer to acknowledge by the window.
pub(super) fn window_size() -> Message {
    message::protocol(message::WINDOW_SIZE, WINDOW_BYTES.to_be_bytes().to_vec())
}
