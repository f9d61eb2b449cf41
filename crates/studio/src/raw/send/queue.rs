//! Frames between the thread that packs them and the one that sends them.

use crate::capture;
use glassline_io::pages::Block;
use glassline_io::queue::{self, KeepAll};
use glassline_media::Time;

/// A frame as it goes out.
#[derive(Debug)]
pub(super) struct Frame {
    /// Its pgroups.
    pub(super) block: Block,
    /// When its picture was captured; `None` where that is when it is sent.
    pub(super) captured: Option<Time>,
    /// When it was there.
    pub(super) ready: Time,
    /// Its picture's number in the file, from 0, or in the stream.
    pub(super) number: u64,
}

/// Frames that wait, in order. There are never more than there are blocks; [`queue::Queue::wake`] tells that one is free again.
pub(super) type Queue = queue::Queue<Frame, KeepAll, capture::Error>;
