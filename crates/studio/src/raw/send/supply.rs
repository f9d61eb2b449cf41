//! Where frames come from.

use super::queue::{Frame, Queue};
use glassline_io::pages::Block;
use glassline_io::queue::Taken;
use glassline_media::{Memory, Time};
use std::sync::Arc;
use std::time::Duration;

/// How long a frame is waited for before the caller looks whether it is to end.
const TICK: Duration = Duration::from_millis(100);

/// Gives frames.
#[derive(Debug)]
pub(super) enum Supply {
    /// From the thread that packs them.
    Queue {
        queue: Arc<Queue>,
        /// The one that was given last.
        current: Option<Frame>,
    },
    /// From memory, once or over and over.
    Kept { blocks: Vec<Block>, looped: bool, next: usize },
}

/// What came out of [`Supply::next`].
pub(super) enum Next<'a> {
    /// A frame.
    Frame {
        bytes: &'a [u8],
        /// When it was captured, if that is known.
        captured: Option<Time>,
        /// When it was there, if not always.
        ready: Option<Time>,
        /// Its picture's number in the file, from 0, or in the stream.
        number: u64,
    },
    /// None has come yet.
    Nothing,
    /// None will come any more.
    End,
}

impl Supply {
    /// The next frame. The one before it is done with.
    pub(super) fn next(&mut self) -> Next<'_> {
        match self {
            Supply::Queue { queue, current } => {
                if current.take().is_some() {
                    queue.wake();
                }
                match queue.take(Some(TICK)) {
                    Taken::Item(frame) => {
                        let frame = current.insert(frame);
                        Next::Frame {
                            bytes: frame.block.bytes(),
                            captured: frame.captured,
                            ready: Some(frame.ready),
                            number: frame.number,
                        }
                    }
                    Taken::Timeout => Next::Nothing,
                    Taken::End => Next::End,
                }
            }
            Supply::Kept { blocks, looped, next } => {
                if *next == blocks.len() && *looped {
                    *next = 0;
                }
                let Some(block) = blocks.get(*next) else { return Next::End };
                let number = *next as u64;
                *next += 1;
                Next::Frame { bytes: block.bytes(), captured: None, ready: None, number }
            }
        }
    }
}

#[cfg(test)]
#[path = "supply_tests.rs"]
mod tests;
