use super::de::{Problem, from_table};
use super::*;
use glassline_io::small_file::Accept;
use std::path::Path;
use std::time::Duration;

const EXAMPLE: &str = include_str!("../../../examples/glassline.toml");

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("glassline.toml"))
}

fn complaint(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

/// The example with the optional lines switched on whose key `wanted` accepts.
fn example_with(wanted: impl Fn(&str) -> bool) -> String {
    let section = |line: &str| {
        line.strip_prefix("#[").and_then(|rest| rest.split(['.', ']']).next()).is_some_and(&wanted)
    };
    let line =
        |line: &str| match line.strip_prefix('#').and_then(|rest| Some((rest, rest.split_once(" = ")?))) {
            Some((rest, (key, _))) if !key.contains(' ') && wanted(key) => rest.to_owned(),
            _ if section(line) => line[1..].to_owned(),
            _ => line.to_owned(),
        };
    EXAMPLE.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The keys that are known in a section ("" for the top), read off the refusal of one that is not.
fn known_keys(section: &str) -> Vec<String> {
    let header = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
    let text = format!("{header}no-such-key = 1");
    let table = toml::de::DeTable::parse(&text).unwrap().into_inner();
    match from_table::<Config>(table).unwrap_err().what {
        Problem::UnknownKey { known, .. } => known.iter().map(|key| (*key).to_owned()).collect(),
        Problem::Other(problem) => panic!("{problem}"),
    }
}

#[test]
fn the_example_gives_the_defaults() {
    assert_eq!(parse(EXAMPLE).unwrap(), Config::default());
    assert_eq!(parse("").unwrap(), Config::default());
}

#[test]
fn the_example_lists_every_key() {
    let keys_of = |table: &toml::Table| table.keys().cloned().collect::<std::collections::BTreeSet<_>>();
    let table: toml::Table = toml::from_str(&example_with(|_| true)).unwrap();
    let sections: Vec<&str> =
        table.iter().filter(|(_, value)| value.is_table()).map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys_of(&table), known_keys("").into_iter().collect());
    assert_eq!(sections.len(), 19, "{sections:?}");
    for section in sections.iter().map(|name| match *name {
        "stream" => "stream.stage",
        "encode" => "encode.studio",
        "event" => "event.finals",
        name => name,
    }) {
        let inner = section.split('.').fold(&table, |table, part| table[part].as_table().unwrap());
        assert_eq!(keys_of(inner), known_keys(section).into_iter().collect(), "[{section}]");
    }
}

#[test]
fn the_examples_optional_lines_are_good_ones() {
    let is_file = |key: &str| key.ends_with("key_file") && key != "link_key_file";
    // A publish key is not for a stream that has a source, a mux only for one that has; a mux rate is for a constant one.
    let belongs_to_source = |key: &str| ["source", "mux", "ca", "mux_rate"].contains(&key);
    // A link's key is for a stream that has a link. Renditions have bit rates of their own, Opus has no samples of so many bits, and only films have several tracks.
    let of_others = |key: &str| {
        ["renditions", "audio_bits", "video_track", "audio_track", "link_key_file", "link_peer"]
            .contains(&key)
    };
    let config =
        parse(&example_with(|key| !is_file(key) && !belongs_to_source(key) && !of_others(key))).unwrap();
    assert!(config.viewer.key.is_some() && config.viewer.allow_origin.as_deref() == Some("*"));
    assert!(config.contact.is_some() && config.publish.key.is_some());
    let stage = &config.stream["stage"];
    assert!(stage.publish_key.is_some() && stage.viewer_key.is_some() && stage.mark_pool.is_some());
    assert_eq!((stage.mark, stage.max_viewers, stage.slow), (Some(18), Some(500), Some(Slow::Drop)));
    let studio = &config.encode["studio"];
    assert!(studio.input.is_some() && studio.audio.is_some() && studio.audio_in.is_some());
    let config = parse(&example_with(|key| ["encode", "input", "renditions"].contains(&key))).unwrap();
    assert_eq!(config.encode["studio"].bitrates().len(), 3);
    let config = parse(&example_with(|key| is_file(key) || key == "stream")).unwrap();
    let stage = &config.stream["stage"];
    assert!(stage.publish_key_file.is_some() && stage.viewer_key_file.is_some());
    assert_eq!(config.publish.key_file.as_deref(), Some(Path::new("/etc/glassline/publish.key")));
    assert_eq!(config.viewer.key_file.as_deref(), Some(Path::new("/etc/glassline/viewer.key")));
    let config = parse(&example_with(|key| key == "stream" || key == "source")).unwrap();
    let source = config.stream["stage"].source.as_ref().unwrap();
    let StreamSource::Pulled(source) = source else { panic!("it is fetched") };
    assert_eq!(source.to_string(), "http://origin.example:8080/live/stage.ts");
}

/// Each range that the example states holds at both ends, and the values just outside are refused with it.
#[test]
fn the_examples_ranges_are_the_ones_that_are_checked() {
    for (section, key, least, most, below, above) in [
        ("", "workers", "0", "1024", "-1", "1025"),
        ("tls", "check_interval", "'1s'", "'1h'", "'999ms'", "'3601s'"),
        ("publish", "silence_timeout", "'1s'", "'1h'", "'999ms'", "'3601s'"),
        ("publish", "return_window", "'0s'", "'1h'", "'-1s'", "'3601s'"),
        ("publish", "max_bitrate", "'100k'", "'10000M'", "'99k'", "'10001M'"),
        ("publish", "max_per_address", "0", "65536", "-1", "65537"),
        ("viewer", "max_per_stream", "0", "10000000", "-1", "10000001"),
        ("viewer", "max_per_address", "0", "10000000", "-1", "10000001"),
        ("publish", "max_streams", "1", "65536", "0", "65537"),
        ("viewer", "max_viewers", "0", "10000000", "-1", "10000001"),
        ("viewer", "max_bitrate", "'100k'", "'10000M'", "'99k'", "'10001M'"),
        ("viewer", "max_bitrate_per_address", "'100k'", "'10000M'", "'99k'", "'10001M'"),
        ("viewer", "max_moves", "0", "1000", "-1", "1001"),
        ("viewer", "mark", "1", "4294967295", "0", "4294967296"),
        ("viewer", "dscp", "0", "63", "-1", "64"),
        ("viewer.port.8080", "dscp", "0", "63", "-1", "64"),
        ("stream.stage", "max_bitrate", "'100k'", "'10000M'", "'99k'", "'10001M'"),
        ("stream.stage", "max_viewers", "0", "10000000", "-1", "10000001"),
        ("stream.stage", "max_moves", "0", "1000", "-1", "1001"),
        ("stream.stage", "mark", "1", "4294967295", "0", "4294967296"),
        ("stream.stage", "dscp", "0", "63", "-1", "64"),
        ("viewer", "backlog", "'1s'", "'10m'", "'999ms'", "'601s'"),
        ("viewer", "backlog_max", "'1MiB'", "'64GiB'", "'1023KiB'", "'65GiB'"),
        ("viewer", "prebuffer", "'0s'", "'10m'", "'-1s'", "'601s'"),
        ("viewer", "prebuffer", "'0B'", "'64GiB'", "'-1B'", "'65GiB'"),
        ("viewer", "pacing", "'1.5x'", "'100x'", "'1.4x'", "'101x'"),
        ("viewer", "pacing", "'100k'", "'10000M'", "'99k'", "'10001M'"),
        ("viewer", "stall_timeout", "'1s'", "'10m'", "'999ms'", "'601s'"),
        ("viewer", "max_connections", "0", "10000000", "-1", "10000001"),
        ("viewer", "max_connections_per_address", "0", "10000000", "-1", "10000001"),
        ("viewer", "max_unanswered_per_address", "0", "10000000", "-1", "10000001"),
        ("viewer", "body_timeout", "'1s'", "'10m'", "'999ms'", "'601s'"),
        ("pull", "silence_timeout", "'1s'", "'1h'", "'999ms'", "'3601s'"),
        ("pull", "retry_min", "'50ms'", "'60s'", "'49ms'", "'61s'"),
        ("pull", "retry_max", "'50ms'", "'1h'", "'49ms'", "'3601s'"),
        ("pull", "reorder", "'0ms'", "'1s'", "'-1ms'", "'1001ms'"),
        ("process", "drain", "'0s'", "'168h'", "'-1s'", "'169h'"),
        ("demo", "size", "'16x16'", "'4096x4096'", "'14x16'", "'4096x4098'"),
        ("demo", "frame_rate", "'1'", "'240'", "'1/2'", "'241'"),
        ("demo", "bitrate", "'100k'", "'100M'", "'99k'", "'101M'"),
        ("encode.studio", "bitrate", "'100k'", "'100M'", "'99k'", "'101M'"),
        ("encode.studio", "vbv", "'1ms'", "'60s'", "'0s'", "'61s'"),
        ("encode.studio", "vbv", "'1frame'", "'500frames'", "'0frame'", "'501frames'"),
        ("encode.studio", "keyint", "'1ms'", "'1h'", "'0s'", "'3601s'"),
        ("encode.studio", "threads", "0", "64", "-1", "65"),
        ("encode.studio", "slices", "0", "64", "-1", "65"),
    ] {
        let header = match section {
            "" => String::new(),
            "encode.studio" => format!("[{section}]\ninput = 'test:320x180@25'\n"),
            section => format!("[{section}]\n"),
        };
        let with = |value: &str| parse(&format!("{header}{key} = {value}\n"));
        for good in [least, most] {
            assert!(with(good).is_ok(), "{key} = {good}: {:?}", with(good));
        }
        for bad in [below, above] {
            let error = with(bad).expect_err(key).to_string();
            let line = 1 + header.matches('\n').count();
            assert!(error.starts_with(&format!("glassline.toml:{line}: ")), "{error}");
            assert!(error.contains(key), "{error}");
        }
        // The comment above the key states the same ends.
        let body = if section.is_empty() {
            EXAMPLE
        } else {
            let example = EXAMPLE.replace("\n#[stream.stage]\n", "\n[stream.stage]\n");
            let example = example.replace("\n#[encode.studio]\n", "\n[encode.studio]\n");
            let example = example.replace("\n#[viewer.port.8080]\n", "\n[viewer.port.8080]\n");
            let rest = example.split(&format!("\n[{section}]\n")).nth(1).expect(section).to_owned();
            &rest.split("\n[").next().and_then(|rest| rest.split("\n#[").next()).expect(section).to_owned()
        };
        let optional = body.contains(&format!("\n#{key} = "));
        let comment: String = body
            .split(&if optional { format!("\n#{key} = ") } else { format!("\n{key} = ") })
            .next()
            .and_then(|before| before.rsplit("\n\n").next())
            .unwrap_or_default()
            .replace('\n', " ");
        for end in [least, most] {
            let end = end.trim_matches('\'').split('x').next().unwrap();
            assert!(comment.contains(end), "the comment of {key} lacks {end}: {comment}");
        }
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest() {
    assert_eq!(
        complaint("workers = 2\n\n# how long\n[viewer]\n\nstall_timeout = '5s'\nbacklgo = '5s'\n"),
        "glassline.toml:7: unknown key \"backlgo\" in [viewer]; did you mean \"backlog\"?"
    );
    assert_eq!(
        complaint("viewer.backlgo = '5s'"),
        "glassline.toml:1: unknown key \"backlgo\" in [viewer]; did you mean \"backlog\"?"
    );
    assert_eq!(
        complaint("workers = 1\n[viewers]\nbacklog = '5s'"),
        "glassline.toml:2: unknown key or section \"viewers\"; did you mean \"viewer\"?"
    );
    assert_eq!(
        complaint("[log]\ncolour = true"),
        "glassline.toml:2: unknown key \"colour\" in [log]; known here: format, level, access"
    );
    assert_eq!(
        complaint("[stream.stage]\nsorce = 'http://h/a'"),
        "glassline.toml:2: unknown key \"sorce\" in [stream.stage]; did you mean \"source\"?"
    );
}

#[test]
fn a_list_that_is_not_closed_is_named_where_it_begins() {
    for text in [
        "\nlisten = ['[::]:80'\n[viewer]\nbacklog = '5s'",
        "\nlisten = [\n  '[::]:80',\n  '[::]:81'\n\nworkers = 1",
        "\nlisten = ['[::]:80'",
        "\nlisten = ['[::]:80'\n",
        "\nlisten=['[::]:80' # all",
    ] {
        assert_eq!(
            complaint(text),
            "glassline.toml:2: the list that begins here is not closed: write ] behind its last element",
            "{text}"
        );
    }
}

#[test]
fn what_is_no_toml_is_told_what_to_write() {
    for (text, told) in [
        ("listen = [127.0.0.1:8080]", "texts stand in quotes: write listen = [\"127.0.0.1:8080\"]"),
        ("listen = [[::]:80, '[::]:81']", ""),
        ("base_path = /tv # a folder", "a text stands in quotes: write base_path = \"/tv\""),
        ("contact = “the desk”", "a text stands in straight quotes: write contact = \"the desk\""),
        ("hosts = [„a“]", "texts stand in straight quotes: write hosts = [\"a\"]"),
        ("workers = \n", ""),
        ("base_path: /tv", "a key and its value are parted by =: write base_path = \"/tv\""),
        ("workers: 2", "a key and its value are parted by =: write workers = 2"),
        ("workers", "workers has no value: write workers = and the value"),
        ("hosts = ['a]", "a text of hosts has no end"),
        ("base_path = \"/tv", "a text of base_path has no end: write the same quote behind it as before it"),
        (
            "workers = 1\nworkers = 2",
            "this name stands in the file already: put both together, and remove one",
        ),
    ] {
        let complaint = complaint(text);
        let line = text.lines().count();
        assert!(complaint.starts_with(&format!("glassline.toml:{line}: {told}")), "{text:?}: {complaint}");
    }
    let complaint_of = |value: &str| complaint(&format!("[package]\non_demand = {value}"));
    for value in ["yes", "Off", "no # never"] {
        assert_eq!(complaint_of(value), "glassline.toml:2: write on_demand = true or false");
    }
}

#[test]
fn what_may_be_meant_otherwise_is_doubted() {
    let doubts = |text: &str| Config::parse(text, Path::new("glassline.toml")).unwrap().doubts();
    const KEY: &str = "key = 'a-key-of-many-letters'\n";
    assert_eq!(doubts(&format!("[publish]\n{KEY}[viewer]\nkey = 'another-of-many-letters'")), [""; 0]);
    assert!(doubts(&format!("[publish]\n{KEY}[viewer]\n{KEY}"))[0].contains("same key"));
    assert!(doubts(&format!("[publish]\n{KEY}open = true"))[0].contains("open = true changes nothing"));
}

#[test]
fn a_key_in_a_servers_address_is_a_key() {
    let holds = |text: &str| Config::parse(text, Path::new("glassline.toml")).unwrap().holds_keys();
    assert!(holds("[upstream]\nservers = ['http://edge:secret@h']"));
    assert!(holds("[[upstream.route]]\npath = '/a/'\nservers = ['http://edge:secret@h']"));
    assert!(!holds("[upstream]\nservers = ['http://h']"));
}

#[test]
fn a_wrong_value_is_named_with_its_line_and_key() {
    for (text, expected) in [
        ("\n\nworkers = 'many'", "glassline.toml:3: workers: invalid type"),
        ("listen = '0.0.0.0:80'", "glassline.toml:1: listen: a list is wanted: write [\"0.0.0.0:80\"]"),
        (
            "workers = 'two'",
            "glassline.toml:1: workers: invalid type: string \"two\", expected a whole number",
        ),
        (
            "[upstream]\nservers = { a = 'http://h' }",
            "glassline.toml:2: upstream.servers: a list is wanted: write [\"…\"]",
        ),
        (
            "[upstream]\nservers = ['https://edge:se/cret@h']",
            "glassline.toml:2: upstream.servers: \"https://…@h\": in a key, / is written %2F",
        ),
        (
            "[upstream]\nservers = ['https://secret@h:90']",
            "glassline.toml:2: upstream.servers: \"https://…@h:90\": a key stands behind a word and a colon: \
             https://edge:KEY@h:90",
        ),
        (
            "[upstream]\nservers = ['https://edge:@h']",
            "glassline.toml:2: upstream.servers: \"https://…@h\": a key stands behind",
        ),
        (
            "[upstream]\nservers = ['https://edge:secret@h:port']",
            "glassline.toml:2: upstream.servers: \"https://…@h:port\": the port is not a number",
        ),
        ("[upstream.route]\npath = '/a/'", "glassline.toml:1: upstream.route: a list is wanted"),
        (
            "[upstream]\ndisk_size = '10GB'",
            "glassline.toml:2: upstream.disk_size: \"10GB\": \"GB\" is no unit of a size",
        ),
        ("workers = -1", "glassline.toml:1: workers: invalid value"),
        ("[publish]\nopen = 1", "glassline.toml:2: publish.open: invalid type"),
        (
            "[publish]\nopen = 'yes'",
            "glassline.toml:2: publish.open: invalid type: string \"yes\", expected true or false, without quotes",
        ),
        (
            "[streams.stage]\nbacklog = '5s'",
            "glassline.toml:1: unknown key or section \"streams\"; did you mean \"stream\"?",
        ),
        ("[demo]\nbitrate = 5000", "glassline.toml:2: demo.bitrate: \"5000\" has no unit"),
        (
            "[viewer]\nbacklog = '5 parsecs'",
            "glassline.toml:2: viewer.backlog: \"5 parsecs\": \"parsecs\" is no unit of a duration",
        ),
        ("listen = ['8080']", "glassline.toml:1: listen: \"8080\" is not an address with a port"),
        ("listen = []", "glassline.toml:1: listen: is empty"),
        ("[tls]\nlisten = ['[::]:1']", "glassline.toml:2: tls.listen: needs a certificate"),
        ("[rtsp]\ntls_listen = ['[::]:8322']", "glassline.toml:2: rtsp.tls_listen: needs a certificate"),
        (
            "[rtsp]\nlisten = ['[::]:8080']",
            "glassline.toml:2: rtsp.listen: names [::]:8080 twice; remove one",
        ),
        ("[admin]\ntls = true", "glassline.toml:2: admin.tls: needs a certificate"),
        ("[rtmp]\ntls_listen = ['[::]:1936']", "glassline.toml:2: rtmp.tls_listen: needs a certificate"),
        (
            "[rtmp]\nlisten = ['[::]:8080']",
            "glassline.toml:2: rtmp.listen: names [::]:8080 twice; remove one",
        ),
        ("[admin]\nnetworks = ['near']", "glassline.toml:2: admin.networks: \"near\" is no network"),
        ("base_path = '/tv/'", "glassline.toml:1: base_path: \"/tv/\" is no folder"),
        ("base_path = 'tv'", "glassline.toml:1: base_path: \"tv\" is no folder"),
        ("base_path = '/'", "glassline.toml:1: base_path: \"/\" is no folder"),
        ("base_path = '/a/../b'", "glassline.toml:1: base_path: \"/a/../b\" is no folder"),
        ("base_path = '/a<b'", "glassline.toml:1: base_path: \"/a<b\" is no folder"),
        ("hosts = ['a.example', 'b:80']", "glassline.toml:1: hosts: \"b:80\" is no host name"),
        (
            "[tls]\ncertificates = [{ chain = 'a' }]",
            "glassline.toml:2: tls.certificates: missing field `key`",
        ),
        ("listen = ['[::]:1', '[::]:1']", "glassline.toml:1: listen: names [::]:1 twice"),
        (
            "listen = ['[::]:1']\n[admin]\nlisten = ['[::]:1']",
            "glassline.toml:3: admin.listen: names [::]:1 twice",
        ),
        (
            "[upstream]\n[[upstream.route]]\nservers = ['http://h']",
            "glassline.toml:2: upstream.route: the 1. one: has neither host nor path",
        ),
        (
            "[[upstream.route]]\nhost = 'a:80'\nservers = ['http://h']",
            "glassline.toml:1: upstream.route: the 1. one: host is a name or address without a port",
        ),
        (
            "[upstream]\nroute = [{ path = '/a/', servers = [] }]",
            "glassline.toml:2: upstream.route: /a/ has no servers",
        ),
        (
            "[upstream]\nroute = [{ path = '/a', servers = ['http://h'], strip = '/b' }]",
            "glassline.toml:2: upstream.route: the 1. one: strip is the begin of path",
        ),
        (
            "[upstream]\nroute = [{ host = 'A', servers = ['http://h'] }, { host = 'a', servers = ['http://i'] }]",
            "glassline.toml:2: upstream.route: a stands there twice",
        ),
        ("contact = \"\"\"a\nb\"\"\"", "glassline.toml:1: contact: must be one line"),
        ("[demo]\nname = '../x'", "glassline.toml:2: demo.name: "),
        (
            "[demo]\npreset = 'slowest'",
            "glassline.toml:2: demo.preset: \"slowest\" is not known; one of ultrafast",
        ),
        ("[log]\nlevel = 'loud'", "glassline.toml:2: log.level: "),
        ("[log]\nformat = 'xml'", "glassline.toml:2: log.format: "),
        ("[publish]\nkey = 'short'", "glassline.toml:2: publish.key: must be 8 to 256"),
        (
            "[publish]\nkey_file = 'k'\nkey = 'long-enough'",
            "glassline.toml:2: publish.key_file: stands beside",
        ),
        ("[viewer]\nkey = 'short'", "glassline.toml:2: viewer.key: must be 8 to 256"),
        ("[viewer]\nallow_origin = 'https://a/b'", "glassline.toml:2: viewer.allow_origin: \"https://a/b\""),
        (
            "[viewer]\nnetworks = ['10.0.0.0/40']",
            "glassline.toml:2: viewer.networks: \"10.0.0.0/40\" is no network",
        ),
        ("[stream.a]\npacing = '1x'", "glassline.toml:2: stream.a.pacing: 1x is out of range"),
        ("[stream.a]\nmux = 'ts'", "glassline.toml:2: stream.a.mux: belongs to a source"),
        (
            "[stream.a]\nmux = 'avi'\nsource = 'http://h/'",
            "glassline.toml:2: stream.a.mux: \"avi\" is not known",
        ),
        (
            "[stream.a]\nsource = 'udp://239.1.2.3:5000'\nmux = 'raw'",
            "glassline.toml:3: stream.a.mux: comes over HTTP alone",
        ),
        ("[stream.a]\nprebuffer = '5'", "glassline.toml:2: stream.a.prebuffer: \"5\" has no unit"),
        ("[stream.a]\nprebuffer = '11m'", "glassline.toml:2: stream.a.prebuffer: 11m is out of range"),
        ("[stream.a]\nbacklog = '0s'", "glassline.toml:2: stream.a.backlog: 0s is out of range"),
        ("[stream.a]\nbacklog_max = '1B'", "glassline.toml:2: stream.a.backlog_max: 1B is out of range"),
        (
            "[stream.a]\noutputs = ['udp://h']",
            "glassline.toml:2: stream.a.outputs: \"udp://h\": an output wants",
        ),
        (
            "[stream.a]\noutputs = ['udp://10.0.0.1:5', 'rtp://10.0.0.1:5']",
            "glassline.toml:2: stream.a.outputs: names 10.0.0.1:5 twice",
        ),
        (
            "[stream.a]\nflush = 'never'",
            "glassline.toml:2: stream.a.flush: \"never\" is not known; one of frame, balanced, thrifty",
        ),
        ("[stream.a]\nsource = 5", "glassline.toml:2: stream.a.source: invalid type"),
        (
            "[stream.a]\nsource = 'ftp://h/'",
            "glassline.toml:2: stream.a.source: a source begins with http://",
        ),
        (
            "[stream.a]\nsource = 'ftp://h/'",
            "glassline.toml:2: stream.a.source: a source begins with http://, https",
        ),
        (
            "[stream.a]\nsource = 'udp://@:5'\nca = 'a.pem'",
            "glassline.toml:3: stream.a.ca: belongs to an https://",
        ),
        ("[viewer]\nslow = 'kill'", "glassline.toml:2: viewer.slow: unknown variant"),
        (
            "[viewer]\nmark_pool = '9-1'",
            "glassline.toml:2: viewer.mark_pool: \"9-1\" is no range of marks; write two numbers",
        ),
        (
            "[viewer]\nmark_pool = '10-19'\nmark = 19",
            "glassline.toml:3: viewer.mark: 19 is in the pool 10-19; choose one outside",
        ),
        (
            "[viewer]\nmark = 15\n[stream.a]\nmark_pool = '10-19'",
            "glassline.toml:2: viewer.mark: 15 is in the pool 10-19",
        ),
        (
            "[viewer]\nmark_pool = '10-19'\n[stream.a]\nmark = 12",
            "glassline.toml:4: stream.a.mark: 12 is in the pool 10-19",
        ),
        ("[stream.a]\npublish_key = 'short'", "glassline.toml:2: stream.a.publish_key: must be 8 to 256"),
        ("[stream.a]\nviewer_key = 'short'", "glassline.toml:2: stream.a.viewer_key: must be 8 to 256"),
        (
            "[stream.a]\nviewer_key = 'long-enough'\nviewer_key_file = 'k'",
            "glassline.toml:3: stream.a.viewer_key_file: stands beside stream.a.viewer_key",
        ),
        (
            "[stream.a]\nsource = 'http://h/'\npublish_key = 'long-enough'",
            "glassline.toml:3: stream.a.publish_key: is for publishers",
        ),
        (
            "[stream.a]\nmax_bitrate = '1M'\nsource = 'http://h/'",
            "glassline.toml:2: stream.a.max_bitrate: is for publishers",
        ),
        ("[encode.a]\npreset = 'fast'", "glassline.toml:1: encode.a: has no input"),
        (
            "[encode.'a b']\ninput = 'test:320x180@25'",
            "glassline.toml:1: encode.a b: \"a b\" is no stream name",
        ),
        (
            "[encode.a]\ninput = 'test:320x180'",
            "glassline.toml:2: encode.a.input: \"test:320x180\" has no rate",
        ),
        (
            "[encode.a]\ninput = '-'",
            "glassline.toml:2: encode.a.input: standard input is no input of a server",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\naudio = 'mp3'",
            "glassline.toml:3: encode.a.audio: \"mp3\" is not known; one of ",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\npreset = 'slowest'",
            "glassline.toml:3: encode.a.preset: \"slowest\" is not known",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\nloop = true",
            "glassline.toml:3: encode.a.loop: only a file can begin again",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\ndeinterlace = 'bob'",
            "glassline.toml:3: encode.a.deinterlace: \"bob\" is not known; one of auto, off",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\naudio_in = 'fd:3'",
            "glassline.toml:3: encode.a.audio_in: a server has no descriptors",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\naudio_in = 'a.mp3'",
            "glassline.toml:3: encode.a.audio_in: \"a.mp3\" is none of",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\naudio_format = 's16le:48000:2'",
            "glassline.toml:3: encode.a.audio_format: says what audio_in is like",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\naudio_bits = 20",
            "glassline.toml:3: encode.a.audio_bits: is for audio s302m; leave it out",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\naudio_frame = '3ms'",
            "glassline.toml:3: encode.a.audio_frame: 3ms: Opus has",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\naudio_bitrate = '1k'",
            "glassline.toml:3: encode.a.audio_bitrate: ",
        ),
        (
            "[encode.a]\ninput = 'a.y4m'\naudio = 'opus'",
            "glassline.toml:3: encode.a.audio: this input carries no sound; leave audio out, give audio_in",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\nrenditions = ['320x180']",
            "glassline.toml:3: encode.a.renditions: \"320x180\" is no rendition",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\nrenditions = ['320x180@20:1M']",
            "glassline.toml:3: encode.a.renditions: 20 pictures a second are no whole part of the source's 25",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\nrenditions = ['320x180@25:1k']",
            "glassline.toml:3: encode.a.renditions: 1k is out of range",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\nrenditions = ['320x180@25:1M', '320x180@25:1M']",
            "glassline.toml:3: encode.a.renditions: two renditions are 180p25-1M",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\nrenditions = ['320x180@25:1M']\nbitrate = '1M'",
            "glassline.toml:4: encode.a.bitrate: is each rendition's own",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\nrenditions = ['320x180@25:1M']\nintra_refresh = true",
            "glassline.toml:4: encode.a.intra_refresh: goes without key frames",
        ),
        (
            "[encode.a-180p25]\ninput = 'test:320x180@25'\n[encode.a]\ninput = 'test:320x180@25'\n\
             renditions = ['320x180@25:1M']",
            "glassline.toml:1: encode.a-180p25: encode.a makes the stream a-180p25, too",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\nbitrat = '1M'",
            "glassline.toml:3: unknown key \"bitrat\" in [encode.a]; did you mean \"bitrate\"?",
        ),
        (
            "[encode.a]\ninput = 'test:320x180@25'\n[stream.a]\nsource = 'http://h/'",
            "glassline.toml:1: encode.a: stream.a has a source",
        ),
        (
            "[demo]\nenabled = true\n[encode.demo]\ninput = 'test:320x180@25'",
            "glassline.toml:3: encode.demo: is the demo's name",
        ),
        ("[process]\nuser = ''", "glassline.toml:2: process.user: is no name"),
        ("[process]\ngroup = 'video'", "glassline.toml:2: process.group: needs a process.user"),
        ("workers = 1\n[stream.a]", "glassline.toml:2: stream.a: says nothing"),
        ("[stream.'a.b']\n[stream.a]\nsource = 'http://h/'", "glassline.toml:1: stream.a.b: says nothing"),
        ("[stream.'a b']\nsource = 'http://h/'", "glassline.toml:1: stream.a b: \"a b\" is no stream name"),
        (
            "[demo]\nenabled = true\n[stream.demo]\nsource = 'http://h/'",
            "glassline.toml:3: stream.demo: is the demo's name",
        ),
        (
            "[publish]\nmax_streams = 1\n[stream.a]\nsource = 'http://h/'\n[stream.b]\nsource = 'http://h/'",
            "glassline.toml:2: publish.max_streams: 1 is less than the 2 streams",
        ),
        ("workers = 1\nworkers = 2", "glassline.toml:2: this name stands in the file already"),
        ("workers = \n", "glassline.toml:1: "),
        ("[publish\n", "glassline.toml:1: "),
    ] {
        let error = complaint(text);
        assert!(error.starts_with(expected), "{text:?}\n gave {error}\n not {expected}");
    }
}

#[test]
fn values_are_read() {
    let text = "listen = ['127.0.0.1:80', '[::1]:81']\nworkers = 3\ncontact = 'ring'\n\
        [publish]\nkey = 'long-enough'\nopen = true\nsilence_timeout = '1.5s'\n\
        [admin]\nlisten = ['127.0.0.1:9090']\n[log]\nformat = 'json'\nlevel = 'warn'\n[demo]\nenabled = true\nframe_rate = 25\n";
    let config = parse(text).unwrap();
    assert_eq!(config.listen, ["127.0.0.1:80".parse().unwrap(), "[::1]:81".parse().unwrap()]);
    assert_eq!(config.admin.listen, ["127.0.0.1:9090".parse().unwrap()]);
    assert_eq!((config.workers, config.contact.as_deref()), (3, Some("ring")));
    assert_eq!(config.publish.key.as_ref().map(Secret::expose), Some("long-enough"));
    assert_eq!(config.publish.silence_timeout, Duration::from_millis(1500));
    assert_eq!(config.log.format, crate::logging::Format::Json);
    assert_eq!(config.demo.frame_rate.as_f64(), 25.0);
    assert_eq!(config.viewer, Viewer::default());
}

#[test]
fn the_key_stays_secret() {
    let config = parse("[publish]\nkey = 'very-secret'").unwrap();
    assert!(!format!("{config:?}").contains("very-secret"));
    let config = parse("[stream.a]\nsource = 'http://u:very-secret@h/?key=very-secret'").unwrap();
    assert!(!format!("{config:?}").contains("very-secret"));
    assert!(!complaint("[stream.a]\nsource = 'gopher://u:very-secret@h/'").contains("very-secret"));
    let config = parse("[stream.a]\npublish_key = 'very-secret'\nviewer_key = 'very-secret'").unwrap();
    assert!(!format!("{config:?}").contains("very-secret"));
    // Not even the complaint about a bad one shows it.
    for key in ["[publish]\nkey", "[viewer]\nkey", "[stream.a]\npublish_key", "[stream.a]\nviewer_key"] {
        let complaint = complaint(&format!("{key} = 4711471147"));
        let name = key.split_once('\n').unwrap().1;
        assert!(complaint.contains(&format!("{name}: must be a text in quotes")), "{complaint}");
        assert!(complaint.starts_with("glassline.toml:2") && !complaint.contains("4711"), "{complaint}");
    }
    assert!(!complaint("[publish]\nkey = 'spaces in it'").contains("spaces in it"));
    assert!(!complaint("[publish]\nkey = ['spaces in it']").contains("spaces in it"));
}

#[test]
fn https_alone_is_enough_and_its_files_are_beside_the_configuration() {
    let folder = std::env::temp_dir().join(format!("glassline-config-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("glassline.toml");
    let text =
        "listen = []\n[tls]\nlisten = ['[::]:8443']\ncertificates = [{ chain = 'a.pem', key = '/b.key' }]\n";
    std::fs::write(&file, text).unwrap();
    let tls = Config::load(&file, Accept::RegularFile).unwrap().tls;
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(tls.listen, ["[::]:8443".parse().unwrap()]);
    let files = &tls.certificates[0];
    assert_eq!((&files.chain, files.key.as_path()), (&folder.join("a.pem"), Path::new("/b.key")));
}

#[test]
fn a_key_file_is_found_beside_the_configuration() {
    let folder = std::env::temp_dir().join(format!("glassline-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("glassline.toml");
    std::fs::write(&file, "[publish]\nkey_file = 'publish.key'\n").unwrap();

    let error = Config::load(&file, Accept::RegularFile).unwrap_err().to_string();
    assert!(error.contains("publish.key: No such file"), "{error}");
    let mode = |file: &str, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(folder.join(file), mode).unwrap();
    };
    std::fs::write(folder.join("publish.key"), "short\n").unwrap();
    mode("publish.key", 0o644);
    let error = Config::load(&file, Accept::RegularFile).unwrap_err().to_string();
    assert!(error.contains("others may read") && error.contains("; type: chmod 600 "), "{error}");
    mode("publish.key", 0o600);
    let error = Config::load(&file, Accept::RegularFile).unwrap_err().to_string();
    assert!(error.contains("publish.key:1: the publish key must be 8 to 256"), "{error}");
    std::fs::write(folder.join("publish.key"), "from-the-file\n").unwrap();
    let key = Config::load(&file, Accept::RegularFile).unwrap().publish.key.unwrap();
    assert_eq!(key.expose(), "from-the-file");
    std::fs::write(folder.join("viewer.key"), "for-viewers\n").unwrap();
    mode("viewer.key", 0o600);
    std::fs::write(
        &file,
        "[stream.a]\npublish_key_file = 'publish.key'\nviewer_key_file = 'viewer.key'\n[stream.b]\nmark = 1\n",
    )
    .unwrap();
    let streams = Config::load(&file, Accept::RegularFile).unwrap().stream;
    assert_eq!(streams["a"].publish_key.as_ref().map(Secret::expose), Some("from-the-file"));
    assert_eq!(streams["a"].viewer_key.as_ref().map(Secret::expose), Some("for-viewers"));
    assert!(streams["b"].publish_key.is_none() && streams["b"].viewer_key.is_none());

    std::fs::remove_dir_all(&folder).unwrap();
    assert!(
        matches!(Config::load(&file, Accept::RegularFile), Err(ConfigError::File(error)) if error.is_not_found())
    );
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[a-z_\\[\\]\\.=\"'\n 0-9é#]{0,200}") {
        let _ = parse(&text);
    }
}

#[test]
fn what_is_watched_is_checked() {
    use glassline_delivery::watch::{Alarm, Rules};
    assert_eq!(parse("").unwrap().watched(), None);
    let config = parse("[watch]\n[stream.test]\nwatch = false\n").unwrap();
    let watched = config.watched().unwrap();
    assert_eq!((watched.streams, watched.rules), (vec!["*".to_owned()], Rules::default()));
    assert_eq!(watched.except.len(), 1);
    let text = "[watch]\nstreams = ['hall*']\n[watch.silence]\nlimit = -50\nafter = '5s'\n[watch.frozen]\nenabled = true\n";
    let rules = parse(text).unwrap().watched().unwrap().rules;
    assert_eq!((rules[Alarm::Silence].limit, rules[Alarm::Silence].after), (-50.0, Duration::from_secs(5)));
    assert!(rules[Alarm::Frozen].enabled && !rules[Alarm::Loudness].enabled);
    for (text, words) in [
        ("[watch]\n[watch.silenc]\n", &["silenc", "silence"][..]),
        ("[watch.silence]\nlimits = 1\n", &["limits", "limit"]),
        ("[watch.silence]\nlimit = 1\n", &["glassline.toml:2", "watch.silence.limit", "from -110 to 0"]),
        ("[watch.black]\nafter = '2h'\n", &["watch.black.after", "from 0s to 60m"]),
        ("[watch.loudness]\ntarget = 3\n", &["watch.loudness.target", "from -70 to 0"]),
        ("[watch.silence]\ntarget = -23\n", &["target"]),
        (
            "[stream.hall]\nwatch = true\n",
            &["glassline.toml:2", "stream.hall.watch", "without a section [watch]"],
        ),
        ("[watch]\nstreams = ['a b']\n", &["watch.streams", "no stream name"]),
    ] {
        let complaint = complaint(text);
        assert!(words.iter().all(|word| complaint.contains(word)), "{complaint}");
    }
}
