//! What has come by each of several lines. A line keeps the order of its packets, but one is slower than another: a packet that is
//! missing may still come by a line that has brought nothing later, and is lost once each of them has.

use super::sequence::Sequence;
use glassline_media::Time;
use std::time::Duration;

/// Lines of a peer, at most; further ones are not waited for.
const LINES_MAX: usize = 16;
/// A line that has brought nothing for so long is not waited for.
const QUIET: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Of each line the greatest number that it has brought, and when it brought the last one.
    newest: [Option<(Sequence, Time)>; LINES_MAX],
}

impl Lines {
    /// The packet `sequence` has come by `line`. What is sent again says nothing of what was sent before it.
    pub(super) fn note(&mut self, line: u8, sequence: Sequence, is_again: bool, now: Time) {
        let Some(newest) = self.newest.get_mut(usize::from(line)) else { return };
        match newest {
            Some((greatest, last)) => {
                *last = now;
                if !is_again && sequence.minus(*greatest) > 0 {
                    *greatest = sequence;
                }
            }
            None if is_again => {}
            None => *newest = Some((sequence, now)),
        }
    }

    /// The number that each line which brings something has come to: what is missing before it is lost.
    pub(super) fn passed(&self, now: Time) -> Option<Sequence> {
        let lines = self.newest.iter().flatten().filter(|(_, last)| now.since(*last) < QUIET);
        lines
            .map(|(greatest, _)| *greatest)
            .reduce(|one, other| if one.minus(other) < 0 { one } else { other })
    }
}
