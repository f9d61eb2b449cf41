//! Which recordings are kept: by age, and by bytes of all of them or of one stream.
//!
//! What goes is a part of an index with the segments that it tells of, the oldest first. How old it is is judged by when the store
//! got it: what a stream says of its own time may be wrong by years, and a publisher must not decide what others lose.

use super::names::Session;
use crate::policy::StreamName;
use glassline_media::Utc;
use std::collections::BTreeMap;
use std::time::Duration;

/// A part of an index that the store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptPart {
    /// Its number.
    pub number: u32,
    /// When the store got it.
    pub written: Utc,
    /// Bytes of the segments that it tells of, and its own.
    pub bytes: u64,
}

/// A recording that the store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRecording {
    /// The stream.
    pub name: StreamName,
    /// The recording.
    pub session: Session,
    /// What is there of its index, by number.
    pub parts: Vec<KeptPart>,
    /// Nothing of it goes.
    pub is_locked: bool,
    /// It goes on, or the store has not got all of it: what is left of it when its parts are gone stays.
    pub is_running: bool,
}

/// Something that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// A part of the index, after the segments that it tells of.
    Part(StreamName, Session, u32),
    /// All of a recording.
    Recording(StreamName, Session),
}

impl Removal {
    /// The recording that something goes of.
    pub fn recording(&self) -> (StreamName, Session) {
        let (Removal::Part(name, session, _) | Removal::Recording(name, session)) = self;
        (name.clone(), *session)
    }
}

/// How long recordings are kept, and how much of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Of all streams that have no rule of their own.
    pub general: Keep,
    /// Of streams with rules of their own, each with its versions: what is `None` there is as for all. A stream with bytes of its
    /// own does not count among those of all.
    pub streams: BTreeMap<StreamName, Keep>,
}

/// What is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// How long; `None`: for good.
    pub age: Option<Duration>,
    /// How many bytes; `None`: any number.
    pub bytes: Option<u64>,
}

impl Rules {
    /// Whether something may go.
    pub fn has_any(&self) -> bool {
        let any = |keep: &Keep| keep.age.is_some() || keep.bytes.is_some();
        any(&self.general) || self.streams.values().any(any)
    }

    /// Whether something may go for its age.
    pub fn has_age(&self) -> bool {
        self.general.age.is_some() || self.streams.values().any(|keep| keep.age.is_some())
    }

    /// The same, with nothing that goes for its age.
    #[must_use]
    pub fn without_age(&self) -> Rules {
        let ageless = |keep: &Keep| Keep { age: None, ..*keep };
        let streams = self.streams.iter().map(|(name, keep)| (name.clone(), ageless(keep)));
        Rules { general: ageless(&self.general), streams: streams.collect() }
    }

    /// How long recordings of a stream are kept; how many bytes; and of which stream these are: `None` are all without their own.
    fn of(&self, name: &StreamName) -> (Option<Duration>, Option<u64>, Option<StreamName>) {
        let group = || Some(name.version()?.group).filter(|group| self.streams.contains_key(group));
        let key = Some(name).filter(|name| self.streams.contains_key(*name)).cloned().or_else(group);
        let own = key.as_ref().and_then(|key| self.streams.get(key)).copied().unwrap_or_default();
        let age = own.age.or(self.general.age);
        match own.bytes {
            Some(bytes) => (age, Some(bytes), key),
            None => (age, self.general.bytes, None),
        }
    }
}

/// What goes now, the oldest first.
pub fn removals(recordings: &[KeptRecording], rules: &Rules, now: Utc) -> Vec<Removal> {
    let of: Vec<_> = recordings.iter().map(|recording| rules.of(&recording.name)).collect();
    let mut totals: BTreeMap<Option<StreamName>, u64> = BTreeMap::new();
    let mut left: Vec<usize> = Vec::with_capacity(recordings.len());
    for (recording, (_, _, share)) in recordings.iter().zip(&of) {
        let bytes: u64 = recording.parts.iter().map(|part| part.bytes).sum();
        *totals.entry(share.clone()).or_default() += bytes;
        left.push(recording.parts.len());
    }
    let unlocked = recordings.iter().enumerate().filter(|(_, recording)| !recording.is_locked);
    let mut parts: Vec<(Utc, usize, KeptPart)> = unlocked
        .flat_map(|(index, it)| it.parts.iter().map(move |part| (part.written, index, *part)))
        .collect();
    parts.sort_by_key(|(written, index, part)| (*written, *index, part.number));
    let mut removals = Vec::new();
    for (written, index, part) in parts {
        let Some(((recording, left), (age, most, share))) =
            recordings.get(index).zip(left.get_mut(index)).zip(of.get(index))
        else {
            continue;
        };
        let Some(total) = totals.get_mut(share) else { continue };
        let is_old =
            age.is_some_and(|age| now.as_nanos().saturating_sub(written.as_nanos()) as u128 > age.as_nanos());
        if !is_old && most.is_none_or(|most| *total <= most) {
            continue;
        }
        *total = total.saturating_sub(part.bytes);
        *left = left.saturating_sub(1);
        let (name, session) = (recording.name.clone(), recording.session);
        removals.push(Removal::Part(name.clone(), session, part.number));
        if *left == 0 && !recording.is_running {
            removals.push(Removal::Recording(name, session));
        }
    }
    removals
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn utc(hours: u64) -> Utc {
        Utc::from_nanos(1_796_000_000_000_000_000 + hours * 3_600_000_000_000)
    }

    fn recording(name: &str, begun: u64, hours: u32) -> KeptRecording {
        let part = |number| KeptPart { number, written: utc(begun + u64::from(number)), bytes: 100 };
        KeptRecording {
            name: StreamName::parse(name).unwrap(),
            session: Session::new(utc(begun)),
            parts: (0..hours).map(part).collect(),
            is_locked: false,
            is_running: false,
        }
    }

    fn all(age: Option<Duration>, bytes: Option<u64>) -> Rules {
        Rules { general: Keep { age, bytes }, ..Rules::default() }
    }

    #[test]
    fn a_stream_with_its_own_rules_goes_by_those_with_its_versions() {
        let names = ["hall", "hall-720p25", "door", "yard"];
        let recordings: Vec<_> = names.iter().map(|name| recording(name, 0, 4)).collect();
        let [hall, small, door, yard] = &recordings[..] else { panic!() };
        let name = |name| StreamName::parse(name).unwrap();
        let mut rules = all(Some(DAY), Some(700));
        rules.streams.insert(name("hall"), Keep { age: None, bytes: Some(600) });
        rules.streams.insert(name("door"), Keep { age: Some(DAY * 30), bytes: None });
        // 800 bytes of hall where 600 may be; 800 of the others where 700 may be, of door and yard together.
        let gone = removals(&recordings, &rules, utc(5));
        assert_eq!(gone, [part(hall, 0), part(small, 0), part(door, 0)]);
        // When all but door is old.
        let gone = removals(&recordings, &rules, utc(100));
        let is_of = |name: &StreamName| gone.contains(&Removal::Recording(name.clone(), hall.session));
        assert!(is_of(&hall.name) && is_of(&small.name) && is_of(&yard.name) && !is_of(&door.name));
        assert!(rules.has_age() && !rules.without_age().has_age());
        assert_eq!(removals(&recordings, &rules.without_age(), utc(100)).len(), 3, "by bytes alone");
        assert!(Rules { general: Keep::default(), ..rules }.has_any() && !Rules::default().has_any());
    }

    fn part(of: &KeptRecording, number: u32) -> Removal {
        Removal::Part(of.name.clone(), of.session, number)
    }

    #[test]
    fn what_is_old_goes_and_the_rest_of_a_recording_with_its_last_part() {
        let (old, new) = (recording("a", 0, 2), recording("b", 10, 20));
        let recordings = [new.clone(), old.clone()];
        assert_eq!(removals(&recordings, &all(None, None), utc(10_000)), []);
        assert_eq!(removals(&recordings, &all(Some(DAY), None), utc(24)), []);
        assert_eq!(removals(&recordings, &all(Some(DAY), None), utc(25)), [part(&old, 0)]);
        let whole = Removal::Recording(old.name.clone(), old.session);
        let gone = [part(&old, 0), part(&old, 1), whole, part(&new, 0)];
        assert_eq!(removals(&recordings, &all(Some(DAY), None), utc(35)), gone);
    }

    #[test]
    fn what_is_too_much_goes_over_all_streams_and_no_more_than_that() {
        let (a, b) = (recording("a", 0, 3), recording("b", 1, 3));
        let recordings = [a.clone(), b.clone()];
        assert_eq!(removals(&recordings, &all(None, Some(600)), utc(5)), []);
        assert_eq!(
            removals(&recordings, &all(None, Some(350)), utc(5)),
            [part(&a, 0), part(&a, 1), part(&b, 0)]
        );
    }

    #[test]
    fn what_is_locked_stays_and_what_goes_on_is_not_removed_as_a_whole() {
        let locked = KeptRecording { is_locked: true, ..recording("a", 0, 3) };
        let running = KeptRecording { is_running: true, ..recording("b", 1, 2) };
        let gone = removals(&[locked, running.clone()], &all(Some(DAY), Some(0)), utc(1000));
        assert_eq!(gone, [part(&running, 0), part(&running, 1)]);
    }

    proptest! {
        #[test]
        fn what_is_left_is_young_and_little(begun in proptest::collection::vec((0u64..100, 0u32..20), 0..6), hours in 1u64..100, most in 0u64..3000) {
            let recordings: Vec<_> = begun.iter().map(|(begun, hours)| recording("a", *begun, *hours)).collect();
            let keep = Duration::from_secs(hours * 3600);
            let gone = removals(&recordings, &all(Some(keep), Some(most)), utc(120));
            let gone = gone.iter().filter(|removal| matches!(removal, Removal::Part(..))).count() as u64;
            let parts = recordings.iter().flat_map(|recording| &recording.parts);
            let young = parts.clone().filter(|part| part.written >= utc(120 - hours.min(120))).count() as u64;
            let all = parts.count() as u64;
            prop_assert_eq!(all - gone, young.min(most / 100));
        }
    }
}
