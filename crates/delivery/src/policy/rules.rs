//! The rules of streams: general ones, and those of streams that have their own.

use super::{HeaderMarks, Marking, PublishPolicy, SlowPolicy, StreamName, WatchPolicy};
use std::collections::BTreeMap;

/// The rules of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamRules {
    /// Which clients may publish it.
    pub publish: PublishPolicy,
    /// What its publisher may send, in bits a second in the mean; `None` is anything.
    pub max_publish_bps: Option<u64>,
    /// Which clients may watch it.
    pub watch: WatchPolicy,
    /// How its viewers' connections are marked.
    pub marking: Marking,
    /// What becomes of a viewer that falls behind.
    pub slow: SlowPolicy,
}

/// The rules of all streams. Keys do not show in its `Debug`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Those of every stream that has none of its own.
    pub general: StreamRules,
    /// Those of single streams; each stands for itself, nothing is added from the general ones.
    pub own: BTreeMap<StreamName, StreamRules>,
    /// What packets bear on connections to single ports of this server.
    pub ports: BTreeMap<u16, HeaderMarks>,
}

impl Rules {
    /// The rules of the stream `name`. Where the name differs by case alone from that of a stream with rules of its own, these
    /// hold for it too: a server behind this one may take both names for one.
    pub fn of(&self, name: &StreamName) -> &StreamRules {
        self.own_of(name).unwrap_or(&self.general)
    }

    fn own_of(&self, name: &StreamName) -> Option<&StreamRules> {
        let is_like = |known: &StreamName| known.as_str().eq_ignore_ascii_case(name.as_str());
        let of_like = || self.own.iter().find(|(known, _)| is_like(known)).map(|(_, rules)| rules);
        self.own.get(name).or_else(of_like)
    }

    /// What packets of the stream `name` bear to a viewer that has connected to `port`: what the stream's own rules say goes before
    /// what holds for the port, and that before the general rules.
    pub fn header_marks(&self, name: &StreamName, port: u16) -> HeaderMarks {
        let of_stream = self.own_of(name).map_or(HeaderMarks::default(), |rules| rules.marking.header);
        let of_port = self.ports.get(&port).copied().unwrap_or_default();
        of_stream.or(of_port).or(self.general.marking.header)
    }

    /// What is said of flow labels anywhere.
    pub fn flow_labels(&self) -> impl Iterator<Item = bool> {
        let of_streams = self.iter().map(|rules| rules.marking.header);
        of_streams.chain(self.ports.values().copied()).filter_map(|marks| marks.flow_label)
    }

    /// All of them, the general ones first.
    pub fn iter(&self) -> impl Iterator<Item = &StreamRules> {
        std::iter::once(&self.general).chain(self.own.values())
    }

    /// Whether connections are marked by any of the rules.
    pub fn want_marks(&self) -> bool {
        self.iter().any(|rules| rules.marking.needs_privilege())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_its_own_rules_or_the_general_ones() {
        let name = |text| StreamName::parse(text).unwrap();
        let with_key = |key: &str| StreamRules {
            publish: PublishPolicy { key: Some(key.into()), ..PublishPolicy::default() },
            ..StreamRules::default()
        };
        let own = BTreeMap::from([(name("stage"), with_key("the-stage's-key"))]);
        let mut rules = Rules { general: with_key("everybody's-key"), own, ports: BTreeMap::new() };
        assert_eq!(rules.of(&name("stage")).publish.key.as_deref(), Some("the-stage's-key"));
        assert_eq!(rules.of(&name("STAGE")).publish.key.as_deref(), Some("the-stage's-key"));
        assert_eq!(rules.of(&name("hall")).publish.key.as_deref(), Some("everybody's-key"));
        let shown = format!("{rules:?}");
        assert!(!shown.contains("-key"), "{shown}");

        assert!(!rules.want_marks());
        rules.general.marking.header.dscp = Some(34);
        assert!(!rules.want_marks(), "a DSCP needs no privilege");
        rules.own.get_mut(&name("stage")).unwrap().marking.shared = Some(17);
        assert!(rules.want_marks());
    }

    #[test]
    fn a_stream_goes_before_a_port_and_a_port_before_all() {
        let name = |text| StreamName::parse(text).unwrap();
        let marks = |dscp, flow_label| HeaderMarks { dscp, flow_label };
        let with = |header| StreamRules {
            marking: Marking { header, ..Marking::default() },
            ..StreamRules::default()
        };
        let rules = Rules {
            general: with(marks(Some(10), Some(true))),
            own: BTreeMap::from([
                (name("stage"), with(marks(Some(34), None))),
                (name("plain"), with(marks(None, None))),
            ]),
            ports: BTreeMap::from([(8443, marks(Some(0), Some(false)))]),
        };
        for (stream, port, expected) in [
            ("stage", 8080, marks(Some(34), Some(true))),
            ("stage", 8443, marks(Some(34), Some(false))),
            ("plain", 8080, marks(Some(10), Some(true))),
            ("plain", 8443, marks(Some(0), Some(false))),
            ("other", 8443, marks(Some(0), Some(false))),
        ] {
            assert_eq!(rules.header_marks(&name(stream), port), expected, "{stream} at {port}");
        }
        assert_eq!(rules.flow_labels().collect::<Vec<_>>(), [true, false]);
    }
}
