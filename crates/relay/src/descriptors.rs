//! How the descriptors that this process may open are divided: so many for connections, the rest for streams and all else.

use super::Settings;
use glassline_delivery::stream::Backlog;
use glassline_io::spool;

/// Kept for what is neither a connection nor a stream's bytes: listeners, epolls, sources, outputs, logs, the files that
/// a page is made of, and up to 128 of objects that are asked for often (`edge::Growing`).
const OTHERS: u64 = 256;
/// Streams that descriptors are kept for, where the configuration names no more; fewer where it allows fewer streams.
const STREAMS: usize = 16;

/// A division of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// What the system lets this process open.
    limit: u64,
    /// What streams and all else should have, and how many streams those are.
    wanted_reserve: u64,
    streams: usize,
    /// Connections that the settings ask for, where they say so.
    wanted_connections: u64,
    /// Connections that there may be.
    pub(super) connections: usize,
}

impl Division {
    /// Of `limit` descriptors. Streams and all else get a half of them at most: nothing is watched without connections.
    pub(super) fn of(limit: u64, settings: &Settings) -> Division {
        let named = settings.streams.len().max(settings.pulls.len());
        let streams = STREAMS.max(named).min(settings.max_streams);
        let mut links: Vec<u64> = settings.streams.values().map(|stream| links(&stream.backlog)).collect();
        links.resize(links.len().max(streams), links_of_others(settings));
        links.sort_unstable_by(|one, other| other.cmp(one));
        let of_streams = links.iter().take(streams).fold(0_u64, |sum, links| sum.saturating_add(*links));
        let wanted_reserve = of_streams.saturating_add(OTHERS);
        let free = limit - wanted_reserve.min(limit / 2);
        let asked = settings.max_connections.max(settings.rules.general.watch.max_viewers) as u64;
        let connections = match settings.max_connections as u64 {
            0 => free,
            most => free.min(most),
        };
        Division {
            limit,
            wanted_reserve,
            streams,
            wanted_connections: asked,
            connections: usize::try_from(connections).unwrap_or(usize::MAX).max(1),
        }
    }

    /// A limit that would be enough; `None` where this one is.
    fn enough(&self) -> Option<u64> {
        let wanted = self.wanted_reserve.saturating_add(self.wanted_connections.max(1));
        let is_enough = wanted <= self.limit && self.limit / 2 >= self.wanted_reserve;
        // A half is for streams at most.
        (!is_enough).then(|| wanted.max(self.wanted_reserve.saturating_mul(2)))
    }

    /// What is too small about it, for people; `None` where nothing is.
    pub(super) fn complaint(&self) -> Option<String> {
        let enough = self.enough()?;
        let Division { limit, wanted_reserve, streams, wanted_connections, connections } = self;
        let asked = match wanted_connections {
            0 => String::new(),
            asked => format!(", where the configuration asks for {asked}"),
        };
        Some(format!(
            "the hard limit of open descriptors is {limit} (ulimit -Hn), too small for what is configured: \
             {streams} streams and all else take up to {wanted_reserve}, and {connections} connections are let in{asked}; \
             raise it to {enough} or more (systemd: LimitNOFILE={enough}), or lower backlog_max, max_streams or max_viewers"
        ))
    }
}

/// What a relay would do with so many descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorNeed {
    /// Connections that there may be at once.
    pub connections: u64,
    /// Connections and viewers that the settings ask for; 0 where they do not say so.
    pub asked: u64,
    /// The least limit that is enough for the settings; `None` where this one is.
    pub enough: Option<u64>,
}

impl Settings {
    /// What a relay with these settings does where it may open `limit` descriptors.
    #[must_use]
    pub fn descriptor_need(&self, limit: u64) -> DescriptorNeed {
        let division = Division::of(limit, self);
        DescriptorNeed {
            connections: division.connections as u64,
            asked: division.wanted_connections,
            enough: division.enough(),
        }
    }
}

/// Links of a stream that keeps so much: those that are full, one that is being written, one that is about to go.
fn links(backlog: &Backlog) -> u64 {
    backlog.bytes.div_ceil(spool::Settings::MPEG_TS.link_bytes) + 2
}

fn links_of_others(settings: &Settings) -> u64 {
    links(&settings.stream.backlog)
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_delivery::policy::StreamName;
    use std::time::Duration;

    fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
        let mut settings = Settings::default();
        change(&mut settings);
        settings
    }

    #[test]
    fn sixteen_streams_links_are_kept_room_for() {
        // 64 MiB are 16 links, and two more.
        let division = Division::of(1 << 20, &Settings::default());
        assert_eq!(division.connections, (1 << 20) - 256 - 16 * 18);
        assert_eq!(division.complaint(), None);
        let few = settings(|settings| settings.max_streams = 2);
        assert_eq!(Division::of(1 << 20, &few).connections, (1 << 20) - 256 - 2 * 18);
        let long = settings(|settings| {
            let backlog = Backlog { time: Duration::from_secs(60), bytes: 400 << 20 };
            let stream = glassline_delivery::stream::Settings { backlog, ..settings.stream };
            settings.streams.insert(StreamName::parse("long").expect("a name"), stream);
        });
        assert_eq!(Division::of(1 << 20, &long).connections, (1 << 20) - 256 - 102 - 15 * 18);
        let limited = settings(|settings| settings.max_connections = 50);
        assert_eq!(Division::of(1 << 20, &limited).connections, 50);
    }

    #[test]
    fn a_limit_that_is_too_small_is_told_with_one_that_is_not() {
        let complaint = Division::of(386, &Settings::default()).complaint().expect("too small");
        for words in ["is 386 (ulimit -Hn)", "16 streams", "up to 544", "193 connections", "LimitNOFILE=1088"]
        {
            assert!(complaint.contains(words), "{words}: {complaint}");
        }
        assert_eq!(Division::of(1088, &Settings::default()).complaint(), None);
        let hall = settings(|settings| settings.rules.general.watch.max_viewers = 10_000);
        let complaint = Division::of(4096, &hall).complaint().expect("too small");
        for words in
            ["3552 connections are let in, where the configuration asks for 10000", "LimitNOFILE=10544"]
        {
            assert!(complaint.contains(words), "{words}: {complaint}");
        }
        assert_eq!(Division::of(10_544, &hall).complaint(), None);
        let division = Division::of(0, &settings(|settings| settings.stream.backlog.bytes = u64::MAX));
        assert_eq!(division.connections, 1);
    }

    proptest::proptest! {
        #[test]
        fn a_division_keeps_within_the_limit_and_its_advice_is_enough(
            limit in 1u64..200_000,
            backlog in 0u64..1 << 40,
            max_streams in 0usize..500,
            max_connections in 0usize..100_000,
            max_viewers in 0usize..100_000,
        ) {
            let settings = settings(|settings| {
                settings.stream.backlog.bytes = backlog;
                (settings.max_streams, settings.max_connections) = (max_streams, max_connections);
                settings.rules.general.watch.max_viewers = max_viewers;
            });
            let division = Division::of(limit, &settings);
            proptest::prop_assert!(division.connections >= 1 && division.connections as u64 <= limit.max(1));
            proptest::prop_assert!(max_connections == 0 || division.connections <= max_connections);
            proptest::prop_assert_eq!(settings.descriptor_need(limit).enough.is_some(), division.complaint().is_some());
            if let Some(words) = division.complaint() {
                let (_, behind) = words.split_once("LimitNOFILE=").unwrap();
                let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
                let enough: u64 = digits.parse().unwrap();
                proptest::prop_assert!(enough > limit);
                proptest::prop_assert_eq!(Division::of(enough, &settings).complaint(), None);
            }
        }
    }
}
