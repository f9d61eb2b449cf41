//! How much memory a relay may take, out of its settings.

use super::Settings;
use glassline_edge::UpstreamSettings;
use glassline_io::spool;

/// What the program takes beside what is counted here: its code, its threads, their buffers, its page.
const PROGRAM_BYTES: u64 = 64 << 20;
/// What a connection takes at most of memory of its own: its state, that of TLS and what was encrypted and not sent, a head
/// that comes.
const CONNECTION_BYTES: u64 = 64 << 10;

/// The most that streams, objects from upstream servers and `connections` take together, as docs/serve.md sums it up.
pub(super) fn budget_bytes(settings: &Settings, connections: usize) -> u64 {
    let link_bytes = spool::Settings::MPEG_TS.link_bytes;
    let mut streams: Vec<u64> = settings.streams.values().map(|stream| stream.backlog.bytes).collect();
    streams.resize(streams.len().max(settings.max_streams), settings.stream.backlog.bytes);
    streams.sort_unstable_by(|one, other| other.cmp(one));
    let parts = streams
        .iter()
        .take(settings.max_streams)
        .map(|backlog_bytes| backlog_bytes.saturating_add(link_bytes))
        .chain(settings.upstream.as_ref().map(UpstreamSettings::memory_bytes))
        .chain([CONNECTION_BYTES.saturating_mul(connections as u64), settings.beside_bytes, PROGRAM_BYTES]);
    parts.fold(0, u64::saturating_add)
}

impl Settings {
    /// The most memory that streams, objects from upstream servers and `connections` take together, in bytes.
    #[must_use]
    pub fn memory_budget(&self, connections: usize) -> u64 {
        budget_bytes(self, connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_documentation() {
        let mut settings = Settings { max_streams: 4, ..Settings::default() };
        let server = "http://origin".parse().unwrap();
        settings.upstream = Some(UpstreamSettings::new(vec![server]));
        assert_eq!(budget_bytes(&settings, 2000) >> 20, 989);
        settings.upstream = None;
        assert_eq!(budget_bytes(&settings, 2000) >> 20, 461);
        settings.beside_bytes = 384 << 20;
        assert_eq!(budget_bytes(&settings, 2000) >> 20, 845);
    }

    #[test]
    fn the_streams_with_the_longest_backlogs_are_the_ones_that_count() {
        use glassline_delivery::policy::StreamName;
        use glassline_delivery::stream::Backlog;
        let mut settings = Settings { max_streams: 2, ..Settings::default() };
        let before = budget_bytes(&settings, 0);
        let mut keep = |name: &str, bytes| {
            let backlog = Backlog { bytes, ..settings.stream.backlog };
            let own = glassline_delivery::stream::Settings { backlog, ..settings.stream };
            settings.streams.insert(StreamName::parse(name).unwrap(), own);
        };
        let all = Settings::default().stream.backlog.bytes;
        keep("a", all - 1000);
        keep("b", all - 1000);
        keep("c", all + 5000);
        assert_eq!(budget_bytes(&settings, 0), before + 4000, "of three streams two are there at once");
        assert_eq!(budget_bytes(&settings, 3) - budget_bytes(&settings, 0), 3 * (64 << 10));
    }

    #[test]
    fn a_sum_that_is_too_large_is_the_largest_there_is() {
        let mut settings = Settings::default();
        settings.stream.backlog.bytes = u64::MAX;
        assert_eq!(budget_bytes(&settings, usize::MAX), u64::MAX);
    }
}
