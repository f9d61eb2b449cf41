//! The pictures of all streams of a server, as JPEG.

use glassline_delivery::watch::Alarm;
use glassline_media::{Choice, Utc};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

/// Pictures of alarms that are kept.
const OF_ALARMS_MAX: usize = 64;

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jpeg {
    /// The file, at most 32 KiB.
    pub bytes: Arc<[u8]>,
    /// Sixteen hexadecimal digits by which it is told from others.
    pub id: String,
}

impl Jpeg {
    /// A picture of a stream.
    pub(crate) fn of_stream(bytes: Arc<[u8]>) -> Jpeg {
        Jpeg::new(bytes, &[])
    }

    /// A picture of an alarm of `stream` that has begun at `at_utc`.
    pub(crate) fn of_alarm(bytes: Arc<[u8]>, stream: &str, alarm: Alarm, at_utc: Utc) -> Jpeg {
        let at = at_utc.as_micros().to_le_bytes();
        Jpeg::new(bytes, &[stream.as_bytes(), alarm.name().as_bytes(), &at])
    }

    fn new(bytes: Arc<[u8]>, of: &[&[u8]]) -> Jpeg {
        // Of what is in it, so that a restart does not give another picture the word of this one.
        let mut hasher = DefaultHasher::new();
        of.iter().for_each(|part| hasher.write(part));
        hasher.write(&bytes);
        Jpeg { id: format!("{:016x}", hasher.finish()), bytes }
    }
}

/// What is kept of them.
#[derive(Debug, Default)]
pub(crate) struct Pictures {
    newest: BTreeMap<String, Jpeg>,
    /// Oldest first.
    of_alarms: VecDeque<Jpeg>,
}

impl Pictures {
    /// The newest picture of `stream`.
    pub(crate) fn newest(&self, stream: &str) -> Option<&Jpeg> {
        self.newest.get(stream)
    }

    /// `stream` has another newest picture, or none.
    pub(crate) fn set_newest(&mut self, stream: &str, picture: Option<Jpeg>) {
        match picture {
            Some(picture) => drop(self.newest.insert(stream.to_owned(), picture)),
            None => drop(self.newest.remove(stream)),
        }
    }

    /// Keeps the picture of an alarm. The oldest one goes where there are too many.
    pub(crate) fn push(&mut self, picture: Jpeg) {
        if self.of_alarms.len() >= OF_ALARMS_MAX {
            self.of_alarms.pop_front();
        }
        self.of_alarms.push_back(picture);
    }

    /// The picture of an alarm.
    pub(crate) fn of_alarm(&self, id: &str) -> Option<&Jpeg> {
        self.of_alarms.iter().find(|picture| picture.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(number: u64) -> Jpeg {
        Jpeg::of_alarm(vec![1, 2, 3].into(), "hall", Alarm::Black, Utc::from_micros(number))
    }

    #[test]
    fn the_oldest_picture_of_an_alarm_goes() {
        let mut pictures = Pictures::default();
        (0..OF_ALARMS_MAX as u64 + 1).for_each(|number| pictures.push(picture(number)));
        assert_eq!(pictures.of_alarm(&picture(0).id), None);
        assert_eq!(pictures.of_alarm(&picture(1).id), Some(&picture(1)));
        assert_eq!(pictures.of_alarm(&picture(64).id), Some(&picture(64)));
        assert_ne!(picture(1).id, picture(2).id);
        assert_ne!(picture(1).id, Jpeg::of_stream(vec![1, 2, 3].into()).id);
    }
}
