//! The ranges of the settings of single streams and of the process.

use super::problem::{NAME_RULE, Problem, problem};
use super::section::SlateKind;
use super::validate::{bitrate, check_backlog, check_key, check_pacing, duration, number};
use super::{Config, Port, Stream, StreamForward, StreamOutput, StreamSource};
use glassline_delivery::policy::{DSCP_MAX, MarkRange, StreamName};
use glassline_delivery::pull::Source;
use glassline_delivery::stream::Mux;
use std::time::Duration;

impl Config {
    pub(super) fn check_streams(&self) -> Result<(), Problem> {
        for (name, stream) in &self.stream {
            let key = format!("stream.{name}");
            if StreamName::parse(name).is_none() {
                return problem(key, format!("{name:?} is no stream name: {NAME_RULE}"));
            }
            if *stream == Stream::default() {
                return problem(key, "says nothing; set one of its keys, or remove it");
            }
            if stream.source.is_some() && self.demo.enabled && self.demo.name == *name {
                return problem(
                    key,
                    "is the demo's name, which makes its own pictures; choose another for one",
                );
            }
            for (index, output) in stream.outputs.iter().enumerate() {
                let place = output.authority();
                if stream.outputs[..index].iter().any(|other| other.authority() == place) {
                    // What stands behind the address of SRT may be a key.
                    let place = place.split(' ').next().unwrap_or_default();
                    return problem(format!("{key}.outputs"), format!("names {place} twice"));
                }
            }
            self.check_descriptions(name, stream, &key)?;
            stream.check_forwards(&key)?;
            stream.check(&key)?;
            let at = |other: &Stream| matches!((&other.source, &stream.source), (Some(StreamSource::Link(one)), Some(StreamSource::Link(same))) if one == same && one.port() != 0);
            if let Some((other, _)) = self.stream.range(..name.clone()).find(|(_, other)| at(other)) {
                return problem(
                    format!("{key}.source"),
                    format!("is the address of stream.{other}, too; give each a port of its own"),
                );
            }
        }
        self.check_marks()?;
        match self.stream.values().filter(|stream| stream.source.is_some()).count() {
            count if count > self.publish.max_streams => problem(
                "publish.max_streams",
                format!("{} is less than the {count} streams that have sources", self.publish.max_streams),
            ),
            _ => Ok(()),
        }
    }

    /// No two outputs write the same session description.
    fn check_descriptions(&self, name: &str, stream: &Stream, key: &str) -> Result<(), Problem> {
        let files = |stream: &Stream| {
            let tracks = stream.outputs.iter().filter_map(StreamOutput::tracks);
            tracks.map(|tracks| tracks.file.clone()).collect::<Vec<_>>()
        };
        let earlier = self.stream.range(..name.to_owned()).flat_map(|(_, other)| files(other));
        let mut seen: Vec<_> = earlier.collect();
        for file in files(stream) {
            if seen.contains(&file) {
                let words = format!("two outputs write {}; give each a file of its own", file.display());
                return problem(format!("{key}.outputs"), words);
            }
            seen.push(file);
        }
        Ok(())
    }

    /// A mark that several connections share must not be in a pool.
    fn check_marks(&self) -> Result<(), Problem> {
        let key_of = |name: &str, key: &str| format!("stream.{name}.{key}");
        let general = ("viewer.mark".to_owned(), self.viewer.mark);
        let own = self.stream.iter().map(|(name, stream)| (key_of(name, "mark"), stream.mark));
        let shared: Vec<_> = std::iter::once(general).chain(own).collect();
        let pools = || self.stream.values().map(|stream| stream.mark_pool).chain([self.viewer.mark_pool]);
        for (key, mark) in shared.into_iter().filter_map(|(key, mark)| Some((key, mark?))) {
            let inside = |pool: &MarkRange| pool.contains(mark);
            if mark == 0 {
                return problem(key, "0 is what unmarked connections have; from 1 to 4294967295");
            }
            if let Some(pool) = pools().flatten().find(inside) {
                return problem(key, format!("{mark} is in the pool {pool}; choose one outside of it"));
            }
        }
        Ok(())
    }

    /// DSCPs are in range, and ports are ports.
    pub(super) fn check_header_marks(&self) -> Result<(), Problem> {
        check_dscp("viewer.dscp".to_owned(), self.viewer.dscp)?;
        for (number, port) in &self.viewer.port {
            let key = format!("viewer.port.{number}");
            if parse_port(number).is_none() {
                return problem(key, format!("{number:?} is no port; write a number from 1 to 65535"));
            }
            if *port == Port::default() {
                return problem(key, "says nothing; set one of its keys, or remove it");
            }
            check_dscp(format!("{key}.dscp"), port.dscp)?;
        }
        Ok(())
    }

    pub(super) fn check_process(&self) -> Result<(), Problem> {
        let process = &self.process;
        for (key, name) in [("process.user", &process.user), ("process.group", &process.group)] {
            let is_name = |name: &str| {
                (1..=256).contains(&name.len()) && !name.contains(|c: char| c == ':' || c.is_control())
            };
            if name.as_ref().is_some_and(|name| !is_name(name)) {
                return problem(key, "is no name; write one as in /etc/passwd and /etc/group, or a number");
            }
        }
        if process.group.is_some() && process.user.is_none() {
            return problem("process.group", "needs a process.user beside it");
        }
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        duration("process.drain", process.drain, hours(0), hours(168))
    }
}

/// The port that a section is about, written without zeros in front, so that no port has two sections.
pub(crate) fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port: &u16| *port > 0 && port.to_string() == text)
}

fn check_dscp(key: String, dscp: Option<u8>) -> Result<(), Problem> {
    number(key, dscp.unwrap_or(0).into(), 0, DSCP_MAX.into())
}

impl Stream {
    /// No service gets the stream twice.
    fn check_forwards(&self, section: &str) -> Result<(), Problem> {
        let key = || format!("{section}.forward");
        for (index, forward) in self.forward.iter().enumerate() {
            if self.forward[..index].contains(forward) {
                return problem(
                    key(),
                    format!("names one stream of a service twice, as number {} too", index + 1),
                );
            }
            let is_output = |output: &StreamOutput| match (output, forward) {
                (StreamOutput::Srt(output), StreamForward::Srt(forward)) => output == forward,
                _ => false,
            };
            if self.outputs.iter().any(is_output) {
                return problem(key(), format!("number {} is among the outputs, too; remove one", index + 1));
            }
        }
        Ok(())
    }

    /// A link has a key, and a key a link.
    fn check_links(&self, key: &impl Fn(&str) -> String) -> Result<(), Problem> {
        let outputs = || self.outputs.iter().filter_map(StreamOutput::link);
        let has_source = matches!(self.source, Some(StreamSource::Link(_)));
        let advice =
            "make one (glassline key new FILE), copy it to both ends, and name it: link_key_file = \"FILE\"";
        if self.link_key_file.is_none() && has_source {
            return problem(key("source"), format!("a link needs a key: {advice}"));
        }
        if self.link_key_file.is_none() && outputs().any(|output| output.key_file.is_none()) {
            return problem(key("outputs"), format!("a link needs a key: {advice}"));
        }
        if self.link_key_file.is_some() && !has_source && outputs().next().is_none() {
            return problem(
                key("link_key_file"),
                "belongs to a link, and neither source nor outputs have one",
            );
        }
        if self.link_key_file.is_none() && !self.link_peer.is_empty() {
            return problem(key("link_peer"), "belongs beside link_key_file");
        }
        Ok(())
    }

    /// A slate's file says by its name what it is.
    fn check_slate(&self, key: &impl Fn(&str) -> String) -> Result<(), Problem> {
        let Some(file) = &self.slate else {
            return match self.slate_after {
                Some(_) => problem(key("slate_after"), "belongs beside slate, which names the file"),
                None => Ok(()),
            };
        };
        if SlateKind::of(file).is_none() {
            let advice = "names neither a picture (.png) nor a transport stream (.ts)";
            return problem(key("slate"), format!("{} {advice}", file.display()));
        }
        if self.mux.is_some_and(|mux| mux != Mux::MpegTs) {
            return problem(key("slate"), "is MPEG-TS, which the source is not; remove one of mux and slate");
        }
        match self.slate_after {
            // Less would take a late picture for silence.
            Some(after) => {
                duration(key("slate_after"), after, Duration::from_millis(200), Duration::from_secs(3600))
            }
            None => Ok(()),
        }
    }

    fn check(&self, section: &str) -> Result<(), Problem> {
        let key = |name: &str| format!("{section}.{name}");
        self.check_slate(&key)?;
        if let Some(pacing) = self.pacing {
            check_pacing(key("pacing"), pacing)?;
        }
        check_backlog(section, self.backlog, self.backlog_max, self.prebuffer)?;
        match (&self.mux, &self.source) {
            (Some(_), None) => {
                return problem(key("mux"), "belongs to a source; a publisher's address tells its mux");
            }
            (
                Some(mux),
                Some(
                    StreamSource::Pulled(Source::Udp(_) | Source::Rtsp(_) | Source::Sdp(_))
                    | StreamSource::Link(_)
                    | StreamSource::Srt(_),
                ),
            ) if *mux != Mux::MpegTs => {
                return problem(
                    key("mux"),
                    "comes over HTTP alone; datagrams and links carry MPEG-TS, and what cameras send is made so",
                );
            }
            _ => {}
        }
        let may_be_secured =
            matches!(&self.source, Some(StreamSource::Pulled(Source::Http(_) | Source::Rtsp(_))))
                || self.forward.iter().filter_map(StreamForward::rtmp).any(|address| address.tls);
        if self.ca.is_some() && !may_be_secured {
            return problem(
                key("ca"),
                "belongs to an https:// or rtsps:// source, or to one that may lead to one, or to an rtmps:// forward",
            );
        }
        let (publish, viewer) = (&self.publish_key, &self.viewer_key);
        check_key(publish, &self.publish_key_file, [key("publish_key"), key("publish_key_file")])?;
        check_key(viewer, &self.viewer_key_file, [key("viewer_key"), key("viewer_key_file")])?;
        self.check_links(&key)?;
        check_dscp(key("dscp"), self.dscp)?;
        bitrate(key("max_bitrate"), self.max_bitrate)?;
        number(key("max_viewers"), self.max_viewers.unwrap_or(0), 0, 10_000_000)?;
        number(key("max_moves"), self.max_moves.unwrap_or(0).into(), 0, 1000)?;
        let for_publishers = [
            ("publish_key", publish.is_some()),
            ("publish_key_file", self.publish_key_file.is_some()),
            ("max_bitrate", self.max_bitrate.is_some()),
        ];
        match for_publishers.iter().find(|(_, is_set)| self.source.is_some() && *is_set) {
            Some((name, _)) => problem(
                key(name),
                "is for publishers, and a stream that has a source has none; remove one of the two",
            ),
            None => Ok(()),
        }
    }
}
