//! Clients that ask for each object while it grows, each time at another moment.

use super::bytes::{Bytes, Reader, mix};
use super::{Figures, Timeline, path_of};
use crate::load::exchange::{Crowd, Next};
use crate::load::generator::nth;
use glassline_delivery::http1::client::Head;
use glassline_media::Time;

#[derive(Clone, Debug)]
struct Follower {
    /// The object that it asks for next, or is reading.
    number: u64,
    due: Time,
    asked: Time,
    reader: Reader,
    refused: bool,
}

/// Clients that ask for each object once, each over a connection of its own.
#[derive(Clone, Debug)]
pub struct Followers {
    timeline: Timeline,
    bytes: Bytes,
    followers: Vec<Follower>,
    figures: Figures,
}

impl Followers {
    /// `count` of them, of which `ramp` come each second from `now` on.
    pub fn new(count: usize, ramp: f64, timeline: Timeline, bytes: Bytes, now: Time) -> Followers {
        let follower = |index: usize| {
            let due = nth(now, index as u64, ramp);
            Follower { number: 0, due, asked: now, reader: Reader::new(0), refused: false }
        };
        let followers = (0..count).map(follower).collect();
        Followers { timeline, bytes, followers, figures: Figures::default() }
    }

    /// What they have seen since the last reset.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Figures count from now on.
    pub fn reset(&mut self) {
        self.figures = Figures::default();
    }

    fn due(&self, index: usize, number: u64) -> Time {
        let share = mix(number << 32 ^ index as u64) as f64 / u64::MAX as f64;
        self.timeline.begin_of(number) + self.timeline.shape.period().mul_f64(share)
    }

    /// The client is done with its object, well or not.
    fn go_on(&mut self, index: usize, now: Time) {
        let before = self.followers[index].number;
        // Objects of the time that has passed are not asked for: a player that is late goes to the live edge.
        let number = (before + 1).max(self.timeline.object_at(now));
        self.figures.skipped += number - before - 1;
        self.followers[index].number = number;
        self.followers[index].due = self.due(index, number);
    }
}

impl Crowd for Followers {
    fn next(&mut self, index: usize, now: Time) -> Next {
        let follower = &mut self.followers[index];
        if now < follower.due {
            return Next::At(follower.due);
        }
        // The first one is whichever grows then.
        let number = follower.number.max(self.timeline.object_at(now));
        *follower = Follower { number, asked: now, reader: Reader::new(number), refused: false, ..*follower };
        Next::Ask(path_of(follower.number))
    }

    fn head(&mut self, index: usize, head: &Head, _now: Time) {
        if head.status != 200 {
            self.followers[index].refused = true;
            self.figures.fail(&format!("answered {}", head.status));
        }
    }

    fn data(&mut self, index: usize, bytes: &[u8], now: Time) {
        let (figures, shape, follower) = (&mut self.figures, self.timeline.shape, &mut self.followers[index]);
        if follower.refused {
            return;
        }
        if follower.reader.position() == 0 {
            figures.first_byte.record_time(now.since(follower.asked));
        }
        figures.bytes += bytes.len() as u64;
        let before = follower.reader.wrong_bytes();
        let asked = follower.asked;
        follower.reader.push(&self.bytes, shape, bytes, &mut |available| {
            if let Some(available) = available.filter(|time| *time >= asked) {
                let delay = now.since(available);
                figures.chunk_delay.record_time(delay);
                figures.stalls += u64::from(delay > shape.step);
            }
        });
        figures.wrong_bytes += follower.reader.wrong_bytes() - before;
    }

    fn end(&mut self, index: usize, now: Time) {
        let follower = &self.followers[index];
        if !follower.refused {
            if follower.reader.position() == self.timeline.shape.object_bytes() {
                self.figures.objects += 1;
            } else {
                self.figures.fail("ended before the object was whole");
            }
        }
        self.go_on(index, now);
    }

    fn failed(&mut self, index: usize, reason: &str, now: Time) {
        self.figures.fail(reason);
        self.go_on(index, now);
    }
}
