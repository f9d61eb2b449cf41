use super::*;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("glassline.toml")).map_err(|error| error.to_string())
}

#[test]
fn streams_are_placed_at_servers_with_the_memory_of_upstream() {
    let text = "[upstream]\ncache = '64MiB'\n[cluster]\nca = 'ca.pem'\nstatic = { a = 'http://h:81', 'b-*' = 'https://edge:key@i' }";
    let config = parse(text).unwrap();
    let fetching = config.fetching().unwrap();
    assert_eq!((fetching.cache_bytes, fetching.servers.len()), (64 << 20, 0));
    assert_eq!(fetching.ca, Some("ca.pem".into()));
    assert_eq!(config.cluster.directory().entries().count(), 2);
    assert_eq!(parse("").unwrap().fetching(), None);
}

#[test]
fn what_contradicts_it_is_told() {
    let refused = |text: &str| parse(text).unwrap_err();
    let place = "[cluster]\nstatic = { a = 'http://h' }\n";
    for (more, words) in [
        ("[upstream]\nservers = ['http://o']", "upstream.servers: has servers, and so has [cluster]"),
        ("[upstream]\ndisk = 'd'", "upstream.disk: objects of a cluster's servers are kept in memory alone"),
        (
            "[stream.a]\nsource = 'http://o/a.ts'",
            "stream.a: is made here, and [cluster] static places it at http://h",
        ),
    ] {
        let error = refused(&format!("{place}{more}"));
        assert!(error.contains(words), "{error}");
    }
    let error = refused("[cluster]\nstatic = { 'a*b' = 'http://h' }");
    assert!(error.contains("cluster.static: \"a*b\" is no stream's name"), "{error}");
    let error = refused("[cluster]\nstatic = { a = 'http://edge:se/cret@h' }");
    assert!(error.contains("in a key, / is written %2F") && !error.contains("cret@"), "{error}");
}

#[cfg(feature = "cluster")]
#[test]
fn an_address_that_no_server_would_read_is_told() {
    let config = |key: usize| {
        let key = "k".repeat(key);
        parse(&format!(
            "[cluster]\nnats = ['nats://h']\nnode = 'a'\naddress = 'http://node:{key}@10.0.0.1:8080'"
        ))
    };
    let rest = "http://node:@10.0.0.1:8080".len();
    config(256 - rest).unwrap();
    let error = config(257 - rest).unwrap_err();
    assert!(
        error.contains("cluster.address: has at most 256 bytes, with its key; this one has 257"),
        "{error}"
    );
    assert!(!error.contains("kkk"), "{error}");
}

#[test]
fn what_is_shown_of_it_has_no_key() {
    let cluster = Cluster {
        nats: vec!["nats://user:hush@h:4222".to_owned(), "hush@h".to_owned(), "tls://i".to_owned()],
        address: Some("http://node:hush@10.0.0.1:8080".to_owned()),
        places: [("a".to_owned(), "http://edge:hush@j".parse().unwrap())].into(),
        ..Cluster::default()
    };
    let shown = format!("{cluster:?}");
    assert!(!shown.contains("hush"), "{shown}");
    for part in ["\"nats://h:4222\"", "\"tls://i\"", "\"http://10.0.0.1:8080\"", "http://j"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[cfg(feature = "cluster")]
#[test]
fn viewers_are_told_an_address_without_a_key() {
    let base =
        "[cluster]\nnats = ['nats://h']\nnode = 'a'\naddress = 'http://edge:secret@10.0.0.1:8080/tv'\n";
    let public = |more: &str| parse(&format!("{base}{more}")).map(|config| config.cluster.public_address());
    assert_eq!(public("").unwrap(), "http://10.0.0.1:8080/tv");
    assert_eq!(public("public = 'https://[2001:db8::1]/'").unwrap(), "https://[2001:db8::1]");
    let refused = public("public = 'https://u:secret@h'").unwrap_err();
    assert!(
        refused.contains("cluster.public: is told to viewers") && !refused.contains("secret@"),
        "{refused}"
    );
    assert!(public("public = 'ftp://h'").is_err());
}
