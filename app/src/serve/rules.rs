//! The rules of streams, from what is configured: a stream's own section goes before the general ones.

use crate::config::{Config, Port, Secret, Slow, Stream, parse_port};
use glassline_delivery::policy::{
    HeaderMarks, Marking, PublishPolicy, Rules, SlowPolicy, StreamName, StreamRules, WatchPolicy,
};

/// All rules.
pub(super) fn rules(config: &Config) -> Rules {
    let viewer = &config.viewer;
    let own = |(name, own): (&String, &Stream)| Some((StreamName::parse(name)?, stream_rules(config, own)));
    let port = |(number, port): (&String, &Port)| {
        let marks = HeaderMarks { dscp: port.dscp, flow_label: port.flow_label };
        Some((parse_port(number)?, marks))
    };
    let mut general = stream_rules(config, &Stream::default());
    general.marking.header = HeaderMarks { dscp: viewer.dscp, flow_label: viewer.flow_label };
    Rules {
        general,
        own: config.stream.iter().filter_map(own).collect(),
        ports: config.viewer.port.iter().filter_map(port).collect(),
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
        marking: Marking {
            shared: own.mark.or(viewer.mark),
            pool: own.mark_pool.or(viewer.mark_pool),
            // What is said of a port goes before what is said of all: `Rules::header_marks` puts them together.
            header: HeaderMarks { dscp: own.dscp, flow_label: own.flow_label },
        },
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
        let marking = |shared, pool: &str| Marking {
            shared: Some(shared),
            pool: pool.parse().ok(),
            ..Marking::default()
        };
        assert_eq!((a.marking, b.marking), (marking(5, "200-299"), marking(6, "100-199")));
        assert_eq!((a.slow, b.slow), (SlowPolicy::Move { max_moves: 4 }, SlowPolicy::Drop));
        assert_eq!(c.slow, SlowPolicy::Move { max_moves: 1 });
        assert_eq!(read("").general, StreamRules::default());
    }

    #[test]
    fn a_port_says_what_is_different_with_it_and_a_stream_goes_before_it() {
        let rules = read(
            "listen = ['[::]:8080', '[::]:8081']\n[viewer]\ndscp = 10\nflow_label = true\n[viewer.port.8081]\ndscp = 0\n\
             [stream.a]\ndscp = 34\n[stream.b]\nflow_label = false\n",
        );
        let of = |name, port| {
            let marks = rules.header_marks(&StreamName::parse(name).unwrap(), port);
            (marks.dscp, marks.flow_label)
        };
        assert_eq!((of("a", 8080), of("a", 8081)), ((Some(34), Some(true)), (Some(34), Some(true))));
        assert_eq!((of("b", 8080), of("b", 8081)), ((Some(10), Some(false)), (Some(0), Some(false))));
        assert_eq!((of("other", 8080), of("other", 8081)), ((Some(10), Some(true)), (Some(0), Some(true))));
        assert!(!rules.want_marks());
    }
}
