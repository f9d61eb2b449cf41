//! The rules of streams, from what is configured: a stream's own section goes before the general ones.

use crate::config::{Config, Secret, Slow, Stream};
use glassline_delivery::policy::{
    Marking, PublishPolicy, Rules, SlowPolicy, StreamName, StreamRules, WatchPolicy,
};

/// All rules.
pub(super) fn rules(config: &Config) -> Rules {
    let own = |(name, own): (&String, &Stream)| Some((StreamName::parse(name)?, stream_rules(config, own)));
    Rules {
        general: stream_rules(config, &Stream::default()),
        own: config.stream.iter().filter_map(own).collect(),
    }
}

fn stream_rules(config: &Config, own: &Stream) -> StreamRules {
    let Config { publish, viewer, .. } = config;
    let key =
        |own: &Option<Secret>, general: &Option<Secret>| own.as_ref().or(general.as_ref()).map(Secret::rule);
    let bps = |rate: Option<glassline_media::quantity::Bitrate>| rate.map(|rate| rate.bits_per_second());
    StreamRules {
        publish: PublishPolicy {
            key: key(&own.publish_key, &publish.key),
            open: publish.open,
            networks: publish.networks.clone(),
        },
        max_publish_bps: bps(own.max_bitrate.or(publish.max_bitrate)),
        watch: WatchPolicy {
            key: key(&own.viewer_key, &viewer.key),
            networks: viewer.networks.clone(),
            max_viewers: viewer.max_viewers,
            max_per_stream: own.max_viewers.unwrap_or(viewer.max_per_stream),
            max_per_address: viewer.max_per_address,
            max_bps: bps(viewer.max_bitrate).unwrap_or(0),
            max_bps_per_address: bps(viewer.max_bitrate_per_address).unwrap_or(0),
        },
        marking: Marking { shared: own.mark.or(viewer.mark), pool: own.mark_pool.or(viewer.mark_pool) },
        slow: match own.slow.unwrap_or(viewer.slow) {
            Slow::Move => SlowPolicy::Move { max_moves: own.max_moves.unwrap_or(viewer.max_moves) },
            Slow::Drop => SlowPolicy::Drop,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Rules {
        rules(&Config::parse(text, "glassline.toml".as_ref()).unwrap())
    }

    #[test]
    fn a_stream_says_what_is_different_with_it() {
        let rules = read(
            "[publish]\nkey = 'general-publish'\nmax_bitrate = '9M'\nnetworks = ['10.0.0.0/8']\n\
             [viewer]\nkey = 'general-viewer'\nmax_per_stream = 9\nmax_per_address = 3\nmark = 5\n\
             mark_pool = '100-199'\nmax_moves = 4\nmax_bitrate = '1G'\n\
             [stream.a]\npublish_key = 'own-publish'\nmax_viewers = 0\nmark_pool = '200-299'\n\
             [stream.b]\nviewer_key = 'own-viewer'\nmax_bitrate = '2M'\nmark = 6\nslow = 'drop'\n\
             [stream.c]\nmax_moves = 1\n",
        );
        let of = |name| rules.of(&StreamName::parse(name).unwrap());
        let (a, b, c, other) = (of("a"), of("b"), of("c"), of("other"));
        let keys =
            |rules: &StreamRules| (rules.publish.key.clone().unwrap(), rules.watch.key.clone().unwrap());
        assert_eq!(keys(other), ("general-publish".into(), "general-viewer".into()));
        assert_eq!(keys(a), ("own-publish".into(), "general-viewer".into()));
        assert_eq!(keys(b), ("general-publish".into(), "own-viewer".into()));
        assert_eq!((a.max_publish_bps, b.max_publish_bps), (Some(9_000_000), Some(2_000_000)));
        assert_eq!((a.watch.max_per_stream, b.watch.max_per_stream), (0, 9));
        assert_eq!((a.watch.max_per_address, a.watch.max_bps), (3, 1_000_000_000));
        assert_eq!(a.publish.networks, other.publish.networks);
        let marking = |shared, pool: &str| Marking { shared: Some(shared), pool: pool.parse().ok() };
        assert_eq!((a.marking, b.marking), (marking(5, "200-299"), marking(6, "100-199")));
        assert_eq!((a.slow, b.slow), (SlowPolicy::Move { max_moves: 4 }, SlowPolicy::Drop));
        assert_eq!(c.slow, SlowPolicy::Move { max_moves: 1 });
        assert_eq!(read("").general, StreamRules::default());
    }
}
