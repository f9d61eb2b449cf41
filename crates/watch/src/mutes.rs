//! Alarms that are muted for a while: nothing tells receivers of them, and what they missed is told at the end.

use crate::entry::Entry;
use glassline_delivery::playlist::date_time;
use glassline_delivery::watch::Alarm;
use glassline_media::{Choice, Time, Utc};
use serde::Serialize;
use std::collections::BTreeMap;

/// A mute, as `GET /api/alarms` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mute {
    /// The stream.
    pub stream: String,
    /// The alarm, or `*` for all of the stream.
    pub alarm: &'static str,
    /// When it ends (RFC 3339, with milliseconds).
    pub until_utc: String,
}

/// The mutes of a server's streams: at most one for each alarm of each, and one for all alarms of each.
#[derive(Debug, Default)]
pub(crate) struct Mutes {
    /// By stream and alarm (`None`: all of the stream).
    until: BTreeMap<(String, Option<Alarm>), (Time, Utc)>,
    /// By stream and alarm, what receivers were not told of: it has begun and they do not know, or is over and they do not know.
    owed: BTreeMap<(String, Alarm), (Entry, Utc)>,
}

impl Mutes {
    /// Mutes `alarm` of `stream` (`None`: all of its alarms) until a moment, in place of an earlier mute.
    pub(crate) fn set(&mut self, stream: &str, alarm: Option<Alarm>, until: (Time, Utc)) {
        self.until.insert((stream.to_owned(), alarm), until);
    }

    pub(crate) fn is_muted(&self, stream: &str, alarm: Alarm, now: Time) -> bool {
        let is_open =
            |alarm| self.until.get(&(stream.to_owned(), alarm)).is_some_and(|(until, _)| *until > now);
        is_open(Some(alarm)) || is_open(None)
    }

    /// Keeps an event of a muted alarm. With the one that is kept it comes to nothing: what has begun and is over in a mute is never
    /// told, and nor is an end with a new beginning behind it.
    pub(crate) fn hold(&mut self, alarm: Alarm, entry: Entry, utc: Utc) {
        let key = (entry.event.stream.clone(), alarm);
        if self.owed.remove(&key).is_none() {
            self.owed.insert(key, (entry, utc));
        }
    }

    /// Ends the mutes that are over at `now`. Returns what is told now.
    pub(crate) fn settle(&mut self, now: Time) -> Vec<(Entry, Utc)> {
        if self.until.is_empty() {
            return Vec::new();
        }
        self.until.retain(|_, (until, _)| *until > now);
        let owed = std::mem::take(&mut self.owed);
        let (muted, due) =
            owed.into_iter().partition(|((stream, alarm), _)| self.is_muted(stream, *alarm, now));
        let due: BTreeMap<_, _> = due;
        self.owed = muted;
        due.into_values().collect()
    }

    /// Ends all mutes of `stream`. Returns what is told now.
    pub(crate) fn forget(&mut self, stream: &str) -> Vec<(Entry, Utc)> {
        self.until.retain(|(name, _), _| name != stream);
        let owed = std::mem::take(&mut self.owed);
        let (other, due) = owed.into_iter().partition(|((name, _), _)| name != stream);
        let due: BTreeMap<_, _> = due;
        self.owed = other;
        due.into_values().collect()
    }

    /// Those that go on at `now`.
    pub(crate) fn list(&self, now: Time) -> Vec<Mute> {
        let open = self.until.iter().filter(|(_, (until, _))| *until > now);
        let mute = |((stream, alarm), (_, utc)): (&(String, Option<Alarm>), &(Time, Utc))| Mute {
            stream: stream.clone(),
            alarm: alarm.map_or("*", Choice::name),
            until_utc: date_time(*utc),
        };
        open.map(mute).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_delivery::watch::{AlarmEvent, Raised, State};

    const UTC: Utc = Utc::from_micros(0);

    fn at(millis: u64) -> (Time, Utc) {
        (Time::from_millis(millis), Utc::from_micros(millis * 1000))
    }

    fn entry(state: State) -> Entry {
        let raised = Raised { alarm: Alarm::Black, state, at: Time::ZERO, value: None, limit: 10.0 };
        let event = AlarmEvent::new("hall", &raised, UTC);
        Entry { event, unit: raised.alarm.unit(), picture: None, muted: true }
    }

    fn told(mutes: &mut Mutes, millis: u64) -> Vec<State> {
        mutes.settle(Time::from_millis(millis)).into_iter().map(|(entry, _)| entry.event.state).collect()
    }

    #[test]
    fn what_is_still_there_at_the_end_is_told_then() {
        let mut mutes = Mutes::default();
        mutes.set("hall", Some(Alarm::Black), at(1000));
        let muted = |mutes: &Mutes, alarm, millis| mutes.is_muted("hall", alarm, Time::from_millis(millis));
        assert!(muted(&mutes, Alarm::Black, 999) && !muted(&mutes, Alarm::Black, 1000));
        assert!(!muted(&mutes, Alarm::Silence, 0) && !mutes.is_muted("bar", Alarm::Black, Time::ZERO));
        mutes.hold(Alarm::Black, entry(State::Begun), UTC);
        assert_eq!(told(&mut mutes, 999), []);
        assert_eq!(told(&mut mutes, 1000), [State::Begun]);
        assert_eq!(told(&mut mutes, 1001), []);
    }

    #[test]
    fn what_has_come_and_gone_meanwhile_is_never_told() {
        let mut mutes = Mutes::default();
        mutes.set("hall", None, at(1000));
        for state in [State::Begun, State::Over, State::Begun, State::Over] {
            mutes.hold(Alarm::Black, entry(state), UTC);
        }
        assert_eq!(told(&mut mutes, 2000), []);
        // The end of one that receivers know of.
        mutes.set("hall", None, at(3000));
        mutes.hold(Alarm::Black, entry(State::Over), UTC);
        assert_eq!(told(&mut mutes, 3000), [State::Over]);
    }

    #[test]
    fn the_mute_of_a_stream_outlasts_that_of_its_alarm_and_one_that_is_ended_tells() {
        let mut mutes = Mutes::default();
        mutes.set("hall", None, at(5000));
        mutes.set("hall", Some(Alarm::Black), at(1000));
        mutes.hold(Alarm::Black, entry(State::Begun), UTC);
        assert_eq!(told(&mut mutes, 1000), []);
        let listed = mutes.list(Time::from_millis(1000));
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].alarm, &*listed[0].until_utc), ("*", "1970-01-01T00:00:05.000Z"));
        mutes.set("hall", None, at(1500));
        assert_eq!(told(&mut mutes, 1500), [State::Begun]);
        assert!(mutes.list(Time::from_millis(1500)).is_empty());
        mutes.set("hall", None, at(5000));
        mutes.hold(Alarm::Black, entry(State::Over), UTC);
        assert_eq!(mutes.forget("bar").len(), 0);
        assert_eq!(mutes.forget("hall").len(), 1);
        assert!(!mutes.is_muted("hall", Alarm::Black, Time::from_millis(1500)));
    }
}
