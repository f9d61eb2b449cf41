//! What does not come: a stream, or one of two paths while the other carries the stream, so that this lacks nothing.

use glassline_media::Time;
use glassline_transport::raw_video::Counters;
use std::time::Duration;

/// How long a stream or a path may bring nothing before that is told.
pub const SILENCE: Duration = Duration::from_secs(3);

/// Follows whether a stream comes. Pure.
#[derive(Clone, Copy, Debug)]
pub struct StreamWatch {
    newest: Time,
    has_come: bool,
    was_told: bool,
}

/// What has to be told of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamNews {
    /// Nothing has come yet.
    Absent,
    /// Nothing comes any more.
    Stopped,
    /// It comes again.
    Back,
}

impl StreamWatch {
    /// Of a stream that is awaited since `now`.
    #[must_use]
    pub const fn new(now: Time) -> StreamWatch {
        StreamWatch { newest: now, has_come: false, was_told: false }
    }

    /// Whether something has come since the last look; once a second, or more often.
    pub fn follow(&mut self, comes: bool, now: Time) -> Option<StreamNews> {
        if comes {
            let is_back = self.was_told && self.has_come;
            *self = StreamWatch { newest: now, has_come: true, was_told: false };
            return is_back.then_some(StreamNews::Back);
        }
        if self.was_told || now.since(self.newest) < SILENCE {
            return None;
        }
        self.was_told = true;
        Some(if self.has_come { StreamNews::Stopped } else { StreamNews::Absent })
    }
}

/// Follows what the paths of a stream bring. Pure.
#[derive(Clone, Debug)]
pub struct PathWatch {
    paths: Vec<Path>,
    /// Packets of the stream at the last look.
    packets: u64,
}

#[derive(Clone, Debug)]
struct Path {
    address: String,
    packets: u64,
    /// Since when it brings nothing though the stream comes.
    silent_since: Option<Time>,
    was_told: bool,
}

/// What has to be told of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathNews {
    /// It brings nothing.
    Silent {
        /// Where it comes to.
        address: String,
        /// Whether it has brought something before.
        was_there: bool,
    },
    /// It brings packets again.
    Back {
        /// Where it comes to.
        address: String,
    },
}

impl PathNews {
    /// Logs it.
    pub fn tell(&self) {
        match self {
            PathNews::Silent { address, was_there } => {
                let so_far = if *was_there { "nothing comes any more" } else { "nothing comes" };
                tracing::warn!("{so_far} by {address}: the other path carries the stream alone");
            }
            PathNews::Back { address } => tracing::info!("packets come by {address} again"),
        }
    }
}

impl PathWatch {
    /// Of paths that come to these addresses. Of one alone there is nothing to tell: that it is silent is the stream's silence.
    #[must_use]
    pub fn new(addresses: Vec<String>) -> PathWatch {
        let path = |address| Path { address, packets: 0, silent_since: None, was_told: false };
        PathWatch { paths: addresses.into_iter().map(path).collect(), packets: 0 }
    }

    /// Looks at what has come; about once a second, or more often.
    pub fn follow(&mut self, counters: &Counters, now: Time) -> Vec<PathNews> {
        let comes = counters.packets > self.packets;
        self.packets = counters.packets;
        if self.paths.len() < 2 || !comes {
            // A sender that has stopped is no path that has failed.
            self.paths.iter_mut().for_each(|path| path.silent_since = None);
            return Vec::new();
        }
        self.paths
            .iter_mut()
            .zip(counters.by_path)
            .filter_map(|(path, packets)| path.follow(packets, now))
            .collect()
    }
}

impl Path {
    fn follow(&mut self, packets: u64, now: Time) -> Option<PathNews> {
        if packets > self.packets {
            let was_told = self.was_told;
            (self.packets, self.silent_since, self.was_told) = (packets, None, false);
            return was_told.then(|| PathNews::Back { address: self.address.clone() });
        }
        let since = *self.silent_since.get_or_insert(now);
        if self.was_told || now.since(since) < SILENCE {
            return None;
        }
        self.was_told = true;
        Some(PathNews::Silent { address: self.address.clone(), was_there: packets > 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_that_fails_is_told_once_and_when_it_is_back() {
        let mut watch = PathWatch::new(vec!["one".into(), "two".into()]);
        let mut look = |second: u64, by_path: [u64; 2]| {
            let counters = Counters { packets: by_path[0].max(by_path[1]), by_path, ..Counters::default() };
            watch.follow(&counters, Time::from_millis(second * 1000))
        };
        let silent = |was_there| vec![PathNews::Silent { address: "two".into(), was_there }];
        // It never comes.
        let first: Vec<_> = (1..8).flat_map(|second| look(second, [100 * second, 0])).collect();
        assert_eq!(first, silent(false));
        assert_eq!(look(8, [800, 50]), [PathNews::Back { address: "two".into() }]);
        // The sender stops, and goes on by one path.
        assert!((9..20).all(|second| look(second, [800, 50]).is_empty()));
        let later: Vec<_> = (20..26).flat_map(|second| look(second, [100 * second, 50])).collect();
        assert_eq!(later, silent(true));
    }

    #[test]
    fn a_stream_that_stops_is_told_once_and_when_it_is_back() {
        let mut watch = StreamWatch::new(Time::ZERO);
        let mut look = |second: u64, comes| watch.follow(comes, Time::from_millis(second * 1000));
        let told = |looks: Vec<Option<StreamNews>>| looks.into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(told((0..9).map(|second| look(second, false)).collect()), [StreamNews::Absent]);
        // That it begins is no return.
        assert_eq!(told((9..12).map(|second| look(second, true)).collect()), []);
        assert_eq!(look(13, false), None);
        assert_eq!(told((14..30).map(|second| look(second, false)).collect()), [StreamNews::Stopped]);
        assert_eq!(told((30..33).map(|second| look(second, true)).collect()), [StreamNews::Back]);
    }

    #[test]
    fn of_a_single_path_nothing_is_told() {
        let mut watch = PathWatch::new(vec!["one".into()]);
        let counters = |packets| Counters { packets, ..Counters::default() };
        assert!(
            (0..9).all(|second| watch.follow(&counters(second), Time::from_millis(second * 1000)).is_empty())
        );
    }

    #[test]
    fn a_silence_is_told_when_its_three_seconds_are_over_and_no_earlier() {
        let mut watch = StreamWatch::new(Time::from_millis(500));
        assert_eq!(watch.follow(false, Time::from_millis(3_499)), None);
        assert_eq!(watch.follow(false, Time::from_millis(3_500)), Some(StreamNews::Absent));
        assert_eq!(watch.follow(true, Time::from_millis(4_000)), None);
        assert_eq!(watch.follow(false, Time::from_millis(6_999)), None, "it counts from the newest packet");
        assert_eq!(watch.follow(false, Time::from_millis(7_000)), Some(StreamNews::Stopped));
    }

    #[test]
    fn a_sender_that_stops_is_no_path_that_fails() {
        let mut watch = PathWatch::new(vec!["one".into(), "two".into()]);
        let mut look = |millis: u64, by_path: [u64; 2]| {
            let counters = Counters { packets: by_path[0], by_path, ..Counters::default() };
            watch.follow(&counters, Time::from_millis(millis))
        };
        assert!(look(0, [10, 10]).is_empty());
        assert!(look(2_000, [20, 10]).is_empty(), "the second path is silent since now");
        assert!(look(4_000, [20, 10]).is_empty(), "the sender has stopped, which begins the time anew");
        assert!(look(6_000, [30, 10]).is_empty());
        assert!(look(8_999, [40, 10]).is_empty());
        let silent = PathNews::Silent { address: "two".into(), was_there: true };
        assert_eq!(look(9_000, [50, 10]), [silent]);
    }

    proptest! {
        /// Beside the plainest watch, which keeps all looks and judges them anew each time.
        #[test]
        fn a_stream_is_told_of_once_for_each_silence(
            looks in prop::collection::vec((any::<bool>(), 0..2_000_u64), 0..60),
        ) {
            let mut watch = StreamWatch::new(Time::ZERO);
            let (mut now, mut newest, mut has_come, mut is_silent) = (0, 0, false, false);
            for (comes, step) in looks {
                now += step;
                let wanted = match (comes, is_silent) {
                    (true, was_silent) => (was_silent && has_come).then_some(StreamNews::Back),
                    (false, false) if now - newest >= 3_000 && has_come => Some(StreamNews::Stopped),
                    (false, false) if now - newest >= 3_000 => Some(StreamNews::Absent),
                    (false, _) => None,
                };
                if comes {
                    (newest, has_come, is_silent) = (now, true, false);
                } else if wanted.is_some() {
                    is_silent = true;
                }
                prop_assert_eq!(watch.follow(comes, Time::from_millis(now)), wanted);
            }
        }
    }
}
