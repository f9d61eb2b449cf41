//! Pictures of a stream by the clock: read ahead as far as there is room, handed over when [`Timeline`] says that their
//! time has come.
//!
//! ```text
//!   live writer           picture ─► handed over at once, nothing waits
//!   writer that is ahead  picture ─► waiting (bounded) ─► handed over at its place on the grid
//! ```
//! What comes by a pipe is read on while pictures wait, since how fast it comes then tells what writes it. A file is not.

use super::prepare::Prepare;
use super::stream::{Next, Y4m};
use super::timeline::{Arrival, LEAD_MAX, Timeline};
use super::{Length, Outlet, sleep_until};
use crate::capture::Result;
use glassline_media::{FrameRate, Picture, Time};
use std::collections::VecDeque;

/// What the pictures that wait take at most, as far as [`LEAST_WAITING`] allows.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// With fewer a small constant lead cannot be told from a growing one.
const LEAST_WAITING: usize = 4;

/// Pictures that have come and wait for their place, each with when it was there.
struct Waiting {
    pictures: VecDeque<(Picture, Time)>,
    rate: FrameRate,
}

impl Waiting {
    /// Whether one more would be too many. A picture of an interlaced stream may give two: then it is one more.
    fn is_full(&self) -> bool {
        let count = self.pictures.len();
        let bytes: usize =
            self.pictures.front().map_or(0, |(picture, _)| bytes_of(picture)).saturating_mul(count + 1);
        self.rate.time_of(count as u64) >= LEAD_MAX.max(self.rate.time_of(LEAST_WAITING as u64))
            || count >= LEAST_WAITING && bytes > MAX_WAITING_BYTES
    }
}

fn bytes_of(picture: &Picture) -> usize {
    picture.planes().iter().map(|plane| plane.bytes().len()).sum()
}

/// Feeds pictures until the stream ends or fails, the length is reached or the consumer wants no more.
pub(super) fn run(
    stream: &mut Y4m,
    prepare: &mut Prepare,
    begin: Option<Time>,
    length: Length,
    outlet: &mut Outlet<'_>,
) -> Result<()> {
    let reads_ahead = stream.is_stdin();
    let mut timeline = Timeline::new(outlet.rate, reads_ahead);
    if let Some(begin) = begin.filter(|_| !reads_ahead) {
        timeline.begin(begin);
    }
    let mut waiting = Waiting { pictures: VecDeque::new(), rate: outlet.rate };
    // How the stream ended. What waits then still has its time.
    let mut ended = None;
    loop {
        while let Some(captured) = timeline.poll(outlet.clock.now()) {
            let Some((picture, arrived)) = waiting.pictures.pop_front() else { break };
            let is_over = length.ends_before(outlet.number, outlet.rate);
            if is_over || !outlet.push_at(picture, captured, arrived) {
                return Ok(());
            }
        }
        if length.ends_before(outlet.number, outlet.rate) {
            return Ok(());
        }
        let due = timeline.poll_timeout();
        if due.is_none() && ended.is_some() {
            return ended.unwrap_or(Ok(()));
        }
        if let Some(due) = due {
            let is_full = waiting.is_full();
            if is_full && ended.is_none() {
                timeline.full(outlet.clock.now());
            }
            if !reads_ahead || is_full || ended.is_some() {
                sleep_until(due, outlet.clock);
                continue;
            }
        }
        match stream.next_picture_before(due, outlet.clock) {
            Ok(Next::Picture(picture)) => {
                take(picture, stream, prepare, &mut timeline, &mut waiting, outlet);
            }
            Ok(Next::Later) => {}
            Ok(Next::End) => ended = Some(Ok(())),
            Err(error) => ended = Some(Err(error)),
        }
    }
}

/// Gives a picture that has come its place, or leaves it out.
fn take(
    picture: Picture,
    stream: &mut Y4m,
    prepare: &mut Prepare,
    timeline: &mut Timeline,
    waiting: &mut Waiting,
    outlet: &mut Outlet<'_>,
) {
    let arrived = outlet.clock.now();
    outlet.again |= stream.take_again();
    for picture in prepare.pictures(picture) {
        match timeline.arrive(arrived) {
            Arrival::Dropped => {
                outlet.consumer.count_dropped(1);
                continue;
            }
            Arrival::Waits => {}
            Arrival::Stalled(late) => {
                tracing::warn!("{} gave no picture for {:.1} s", stream.name(), late.as_secs_f64());
            }
        }
        waiting.pictures.push_back((picture, arrived));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{PixelFormat, Size};

    /// How many pictures of this size wait at most at so many a second.
    fn room(width: u32, height: u32, rate: u32) -> usize {
        let rate = FrameRate::new(rate, 1).unwrap();
        let picture = Picture::new(PixelFormat::I420, Size::new(width, height).unwrap(), Time::ZERO);
        let mut waiting = Waiting { pictures: VecDeque::new(), rate };
        while !waiting.is_full() {
            waiting.pictures.push_back((picture.clone(), Time::ZERO));
        }
        waiting.pictures.len()
    }

    #[test]
    fn small_pictures_wait_for_as_long_as_a_writer_may_lead() {
        let rate = 50;
        let longest = FrameRate::new(rate, 1).unwrap();
        let count = room(64, 48, rate) as u64;
        assert!(longest.time_of(count) >= LEAD_MAX && longest.time_of(count - 1) < LEAD_MAX);
    }

    #[test]
    fn at_least_four_pictures_wait_however_slow_or_large_they_are() {
        assert_eq!(room(64, 48, 1), LEAST_WAITING.max(LEAD_MAX.as_secs() as usize));
        assert_eq!(room(8192, 4320, 50), LEAST_WAITING);
    }
}
