//! `[event.NAME]`: streams that viewers get on one page.

use super::Config;
use super::load::nearest;
use super::problem::{NAME_RULE, Problem, problem};
use crate::encode;
use glassline_delivery::http1::Url;
use glassline_delivery::policy::StreamName;
use serde::Deserialize;
use std::collections::BTreeSet;

/// A page is for streams that are watched side by side.
const STREAMS_MAX: usize = 16;
/// Sections at most: a page for crews lists them.
const EVENTS_MAX: usize = 256;
/// The longest line of text, in characters.
const LINE_MAX: usize = 500;

/// `[event.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Event {
    /// What the page is headed with; unset: the section's name.
    pub(crate) title: Option<String>,
    /// Names of streams and of ladders, in the order in which they are shown.
    pub(crate) streams: Vec<String>,
    /// Of these the one that is heard at first; unset: the first that has sound.
    pub(crate) audio: Option<String>,
    /// How viewers can reach the crew; unset: what `contact` of the server says.
    pub(crate) contact: Option<String>,
    /// Where viewers talk to each other.
    pub(crate) chat: Option<String>,
    /// What is next on stage.
    pub(crate) next: Option<String>,
}

impl Config {
    pub(super) fn check_events(&self) -> Result<(), Problem> {
        if self.event.len() > EVENTS_MAX {
            return problem("event", format!("has {} sections; {EVENTS_MAX} at most", self.event.len()));
        }
        self.event.iter().try_for_each(|(name, event)| {
            if StreamName::parse(name).is_none() {
                return problem(
                    format!("event.{name}"),
                    format!("{name:?} is no name of an event: {NAME_RULE}"),
                );
            }
            event.check(&format!("event.{name}"))
        })
    }

    /// Streams of events that no section makes, each with the one that was probably meant: a publisher may bring any name, so
    /// they are no errors.
    pub(super) fn misspelt_events(&self) -> Vec<String> {
        let known = self.stream_names();
        let ladders = self.ladders();
        let known = known.union(&ladders).cloned().collect::<BTreeSet<_>>();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let misspelt = |(event, section): (&String, &Event)| {
            let unknown = section.streams.iter().filter(|name| !known.contains(&name.as_str()));
            let near = unknown.filter_map(|name| Some((name.clone(), nearest(name, &known)?)));
            near.map(|(name, near)| {
                format!(
                    "event.{event}.streams: {name:?} is shown only once a publisher of that name comes; did you mean {near:?}?"
                )
            })
            .collect::<Vec<_>>()
        };
        self.event.iter().flat_map(misspelt).collect()
    }

    /// Streams of events with a viewer key of their own: a link to the event is signed by the general one. Call this after the key
    /// files have been read.
    pub(super) fn closed_streams_of_events(&self) -> Vec<String> {
        let is_closed = |name: &&String| {
            let key = self.stream.get(*name).and_then(|stream| stream.viewer_key.as_ref());
            key.is_some() && key != self.viewer.key.as_ref()
        };
        let closed = |(event, section): (&String, &Event)| {
            let names: Vec<&str> = section.streams.iter().filter(is_closed).map(String::as_str).collect();
            (!names.is_empty()).then(|| {
                format!(
                    "event.{event}.streams: {} has a viewer_key of its own, which links to the event do not open: each viewer needs a link \
                     to that stream",
                    names.join(", ")
                )
            })
        };
        self.event.iter().filter_map(closed).collect()
    }

    /// The names of the streams that the configuration knows.
    fn stream_names(&self) -> BTreeSet<String> {
        let demo = self.demo.enabled.then(|| self.demo.name.clone());
        let encoded = self.encode.iter().flat_map(|(name, section)| encode::stream_names(name, section));
        self.stream.keys().cloned().chain(encoded).chain(demo).collect()
    }

    /// The names of the ladders that the configuration makes.
    pub(crate) fn ladders(&self) -> BTreeSet<String> {
        let group = |name: &String| Some(StreamName::parse(name)?.version()?.group.to_string());
        self.stream_names().iter().filter_map(group).collect()
    }
}

impl Event {
    fn check(&self, section: &str) -> Result<(), Problem> {
        let key = |key: &str| format!("{section}.{key}");
        for (name, line) in [("title", &self.title), ("contact", &self.contact), ("next", &self.next)] {
            let is_line = |line: &String| {
                line.chars().count() <= LINE_MAX
                    && !line.chars().any(char::is_control)
                    && !line.trim().is_empty()
            };
            if line.as_ref().is_some_and(|line| !is_line(line)) {
                return problem(key(name), format!("must be one line of 1 to {LINE_MAX} characters"));
            }
        }
        if self.streams.is_empty() {
            let words = "names no stream; give the streams that the page shows, as in streams = [\"hall\", \"slides\"]";
            return problem(key("streams"), words);
        }
        if self.streams.len() > STREAMS_MAX {
            let found = self.streams.len();
            return problem(
                key("streams"),
                format!("names {found} streams; {STREAMS_MAX} at most stand on a page"),
            );
        }
        for (index, name) in self.streams.iter().enumerate() {
            if StreamName::parse(name).is_none() {
                return problem(key("streams"), format!("{name:?} is no stream name: {NAME_RULE}"));
            }
            if self.streams[..index].contains(name) {
                return problem(key("streams"), format!("names {name:?} twice; remove one"));
            }
        }
        if let Some(audio) = self.audio.as_ref().filter(|audio| !self.streams.contains(audio)) {
            let own: Vec<&str> = self.streams.iter().map(String::as_str).collect();
            let advice = match nearest(audio, &own) {
                Some(nearest) => format!("did you mean {nearest:?}?"),
                None => format!("it has {}", own.join(", ")),
            };
            return problem(key("audio"), format!("{audio:?} is none of the event's streams; {advice}"));
        }
        if let Some(chat) = &self.chat {
            let is_short = chat.len() <= LINE_MAX;
            let wrong = match chat.parse::<Url>() {
                Ok(url) if url.authorization().is_some() => {
                    "it has a user or password, which all viewers would see".into()
                }
                Ok(_) if is_short => return Ok(()),
                Ok(_) => format!("it has more than {LINE_MAX} characters"),
                Err(error) => error.to_string(),
            };
            return problem(key("chat"), format!("is no address to open in a browser: {wrong}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Config::parse(text, "a.toml".as_ref()).unwrap_err().to_string()
    }

    #[test]
    fn an_event_has_streams_and_one_sound() {
        let text = "[event.finals]\ntitle = 'Finals'\nstreams = ['hall', 'slides']\naudio = 'hall'\n\
                    chat = 'https://matrix.example/#/#room:example.org'\nnext = '20:00 fast compo'\n";
        let config = Config::parse(text, "a.toml".as_ref()).unwrap();
        let event = &config.event["finals"];
        assert_eq!(event.streams, ["hall", "slides"]);
        // What is behind # belongs to the address that viewers open.
        assert_eq!(event.chat.as_deref(), Some("https://matrix.example/#/#room:example.org"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_the_nearest_right_word() {
        for (text, words) in [
            (
                "[event.finals]\ntitle = 'x'",
                "a.toml:1: event.finals.streams: names no stream; give the streams",
            ),
            ("[event.finals]\nstreams = []", "a.toml:2: event.finals.streams: names no stream"),
            (
                "[event.finals]\nstreams = ['a b']",
                "a.toml:2: event.finals.streams: \"a b\" is no stream name",
            ),
            ("[event.finals]\nstreams = ['a', 'a']", "names \"a\" twice"),
            (
                "[event.finals]\nstreams = ['hall', 'slides']\naudio = 'hal'",
                "a.toml:3: event.finals.audio: \"hal\" is none of the event's streams; did you mean \"hall\"?",
            ),
            (
                "[event.finals]\nstreams = ['hall']\naudio = 'radio'",
                "none of the event's streams; it has hall",
            ),
            (
                "[event.finals]\nstreams = ['a']\nchat = 'file:///etc/passwd'",
                "a.toml:3: event.finals.chat: is no address",
            ),
            (
                "[event.finals]\nstreams = ['a']\nchat = 'javascript:alert(1)'",
                "begins with http:// or https://",
            ),
            ("[event.finals]\nstreams = ['a']\nchat = 'https://u:p@h/'", "which all viewers would see"),
            (
                "[event.finals]\nstreams = ['a']\nnext = \"\"\"a\nb\"\"\"",
                "event.finals.next: must be one line",
            ),
            ("[event.finals]\nstreams = ['a']\ntitle = ' '", "event.finals.title: must be one line"),
            ("[event.finals]\nstraems = ['a']", "did you mean \"streams\"?"),
            ("[event.'a b']\nstreams = ['a']", "is no name of an event"),
        ] {
            let error = error(text);
            assert!(error.contains(words), "{text}: {error}");
        }
        let many: Vec<String> = (0..17).map(|index| format!("'s{index}'")).collect();
        let text = format!("[event.finals]\nstreams = [{}]", many.join(","));
        assert!(error(&text).contains("names 17 streams; 16 at most"));
    }

    #[test]
    fn a_stream_that_is_probably_misspelt_is_a_doubt() {
        let text = "[stream.hall]\nmax_viewers = 5\n[encode.stage]\ninput = 'test:64x64@25'\nrenditions = ['640x360@25:500k', '320x180@25:200k']\n\
                    [event.finals]\nstreams = ['hal', 'stage', 'stgae', 'camera']\n";
        let config = Config::parse(text, "a.toml".as_ref()).unwrap();
        let doubts = config.misspelt_events();
        assert_eq!(doubts.len(), 2, "{doubts:?}");
        assert!(doubts[0].contains("\"hal\"") && doubts[0].contains("did you mean \"hall\"?"), "{doubts:?}");
        assert!(
            doubts[1].contains("\"stgae\"") && doubts[1].contains("did you mean \"stage\"?"),
            "{doubts:?}"
        );
    }

    #[test]
    fn a_stream_that_the_events_link_does_not_open_is_a_doubt() {
        let text = "[viewer]\nkey = 'a-viewer-key'\n[stream.hall]\nviewer_key = 'another-key'\n\
                    [stream.bar]\nviewer_key = 'a-viewer-key'\n[event.finals]\nstreams = ['hall', 'bar', 'slides']\n";
        let doubts = Config::parse(text, "a.toml".as_ref()).unwrap().closed_streams_of_events();
        assert_eq!(doubts.len(), 1, "{doubts:?}");
        assert!(doubts[0].contains("streams: hall has a viewer_key of its own"), "{doubts:?}");
    }
}
