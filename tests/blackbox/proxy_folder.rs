//! A reverse proxy that has the server in a folder, as nginx with `location /tv/ { proxy_pass http://server/; }`.

use crate::serve_with;
use glassline_test_support::http::{Answer, ask, get, resolve};
use glassline_test_support::program::Server;
use glassline_test_support::wait::{until, until_some};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Takes `/tv` off each request's path, and refuses what is not in the folder. One request a connection.
fn proxy(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || pass(client, server));
        }
    });
    address
}

fn pass(mut client: TcpStream, server: SocketAddr) -> Option<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let Some((method, rest)) = head.split_once(" /tv/") else {
        return client
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .ok();
    };
    let mut upstream = TcpStream::connect(server).ok()?;
    upstream.write_all(format!("{method} /{rest}").as_bytes()).ok()?;
    std::io::copy(&mut upstream, &mut client).ok()?;
    Some(())
}

/// What stands in quotes behind each `name=`.
fn quoted<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!("{name}=\"");
    text.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

fn found(proxy: SocketAddr, target: &str) -> Answer {
    let answer = get(proxy, target);
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    answer
}

/// The demo behind a proxy's folder.
fn demo(config: &str) -> (Server, SocketAddr) {
    let (server, _scratch) = serve_with(&format!("{config}[demo]\nenabled = true\n"));
    let proxy = proxy(server.address());
    server.wait_for_pictures("demo");
    (server, proxy)
}

#[test]
fn pages_find_all_that_they_need_in_the_folder() {
    let (_server, proxy) = demo("");
    for page in ["/tv/", "/tv/watch/demo", "/tv/watch/demo/", "/tv/stream/demo"] {
        let text = found(proxy, page).text();
        let addresses: Vec<&str> = ["src", "href"].iter().flat_map(|name| quoted(&text, name)).collect();
        assert_eq!(addresses.len(), 3, "{text}");
        for address in addresses {
            let target = resolve(page, address);
            assert!(target.starts_with("/tv/assets/"), "{address} of {page}");
            found(proxy, &target);
        }
    }
    // All that the script asks for is behind the folder that it comes from.
    let script = found(proxy, "/tv/assets/app.js").text();
    assert!(script.contains("new URL(\"../\""), "it looks where it is");
    for address in [
        "\"/api/",
        "\"/live/",
        "\"/watch/",
        "\"/stream/",
        "\"/assets/",
        "`/api/",
        "`/live/",
        "`/watch/",
        "`/stream/",
    ] {
        assert!(!script.contains(address), "{address}");
    }
    for target in ["/tv/api/streams", "/tv/api/time", "/tv/api/streams/demo"] {
        found(proxy, target).json();
    }
}

#[test]
fn playlists_and_their_redirects_stay_in_the_folder() {
    let (_server, proxy) = demo("base_path = '/tv'\n");
    let moved = get(proxy, "/tv/live/demo.m3u8");
    let index = resolve("/tv/live/demo.m3u8", moved.header("location").unwrap());
    assert_eq!((moved.status, index.as_str()), (302, "/tv/live/demo/index.m3u8"));
    let text = found(proxy, &index).text();
    let media = text.lines().find(|line| line.ends_with("video.m3u8")).unwrap();
    let media = resolve(&index, media);
    let segment = until_some("a segment", || {
        let text = found(proxy, &media).text();
        text.lines().find(|line| line.ends_with(".m4s")).map(str::to_owned)
    });
    assert!(!found(proxy, &resolve(&media, &segment)).body.is_empty());
    let manifest = found(proxy, "/tv/live/demo/manifest.mpd").text();
    let timing = manifest.split("<UTCTiming").nth(1).unwrap();
    let timing = quoted(timing, "value")[0];
    assert_eq!(timing, "/tv/api/time?format=iso");
    // Players parse all of it: 2026-11-26T17:40:26.873Z.
    let time = found(proxy, timing).text();
    assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time:?}");
}

#[test]
fn signed_links_lead_through_the_folder() {
    let (_server, proxy) = demo("[viewer]\nkey = 'a-key-of-many-letters'\n");
    let scratch = glassline_test_support::program::Scratch::new("sign");
    let key = scratch.write("viewer.key", "a-key-of-many-letters");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let page = format!("http://{proxy}/tv/live/demo/index.m3u8");
    let signed = crate::glassline(&["sign", &page, "--key-file", &key]).text();
    let target = signed.trim().strip_prefix(&format!("http://{proxy}")).unwrap();
    let text = found(proxy, target).text();
    let media = text.lines().find(|line| line.contains("video.m3u8?")).unwrap();
    assert!(media.contains("token="), "{media}");
    found(proxy, &resolve(target, media));
    assert_eq!(get(proxy, "/tv/live/demo/index.m3u8").status, 401);
}

#[test]
fn playlists_are_compressed_for_those_who_ask() {
    let (server, _proxy) = demo("");
    let at = |target: &str, coding: &str| {
        ask(server.address(), "GET", target, &[&format!("Accept-Encoding: {coding}")])
    };
    // Of a playlist that names what it is to have the text stays the same.
    let text = found(server.address(), "/live/demo/video.m3u8").text();
    let sequence = text.split("#EXT-X-MEDIA-SEQUENCE:").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let next = sequence.parse::<u64>().unwrap() + text.matches("#EXTINF").count() as u64;
    let due = format!("/live/demo/video.m3u8?_HLS_msn={next}");
    for target in ["/live/demo/index.m3u8", "/live/demo/manifest.mpd", &due] {
        let plain = get(server.address(), target);
        assert_eq!((plain.status, plain.header("content-encoding")), (200, None), "{target}");
        assert_eq!(plain.header("vary"), Some("Accept-Encoding"));
        let mut tags = vec![plain.header("etag").unwrap().to_owned()];
        for (accepts, coding) in
            [("gzip", "gzip"), ("br", "br"), ("gzip, deflate, br", "br"), ("gzip;q=1, br;q=0.5", "gzip")]
        {
            let coded = at(target, accepts);
            assert_eq!((coded.status, coded.header("content-encoding")), (200, Some(coding)), "{target}");
            assert_eq!(coded.header("vary"), Some("Accept-Encoding"));
            assert_eq!(coded.header("content-type"), plain.header("content-type"));
            assert_eq!(coded.header("content-length"), Some(&*coded.body.len().to_string()));
            let tag = coded.header("etag").unwrap().to_owned();
            assert!(tag.ends_with(&format!("-{coding}\"")), "{tag}");
            tags.push(tag.clone());
        }
        tags.sort();
        tags.dedup();
        assert!(tags.len() >= 3, "each representation has a tag of its own: {tags:?}");
        for none in ["identity", "gzip;q=0", "zstd"] {
            assert_eq!(at(target, none).header("content-encoding"), None, "{none}");
        }
    }
    // A client that has it by its tag gets nothing more; the bit rates that it names are measured, and may change between two.
    until("an answer without a body", || {
        let coded = at("/live/demo/index.m3u8", "gzip");
        let known = format!("If-None-Match: {}", coded.header("etag").unwrap());
        let fields = ["Accept-Encoding: gzip", &known];
        let same = ask(server.address(), "GET", "/live/demo/index.m3u8", &fields);
        assert_eq!(same.header("content-encoding"), Some("gzip"));
        same.status == 304
    });
    // Media is not.
    let init = text
        .split("URI=\"")
        .find_map(|rest| rest.split('"').next().filter(|name| name.contains("init")))
        .unwrap();
    assert_eq!(at(&format!("/live/demo/{init}"), "gzip, br").header("content-encoding"), None);
    // An edge asks for the text as it is, and gives it as its own clients want it.
    let (edge, _scratch) = crate::edge::edge(&[&server.url("")]);
    for (wanted, coding) in [("gzip, br", Some("br")), ("identity", None)] {
        let fields = [&*format!("Accept-Encoding: {wanted}")];
        let by_edge = ask(edge.address(), "GET", "/live/demo/index.m3u8", &fields);
        assert_eq!((by_edge.status, by_edge.header("content-encoding")), (200, coding));
        assert_eq!(by_edge.text().starts_with("#EXTM3U"), coding.is_none());
    }
}

#[test]
fn compressed_playlists_are_what_they_are_of() {
    let (server, _proxy) = demo("");
    let at = |coding: &str| {
        let answer =
            ask(server.address(), "GET", "/live/demo/index.m3u8", &[&format!("Accept-Encoding: {coding}")]);
        assert_eq!(answer.header("content-encoding"), Some(coding));
        answer.body
    };
    let plain = found(server.address(), "/live/demo/index.m3u8").body;
    let (mut gzip, mut brotli) = (Vec::new(), Vec::new());
    flate2::read::GzDecoder::new(&at("gzip")[..]).read_to_end(&mut gzip).unwrap();
    brotli::BrotliDecompress(&mut &at("br")[..], &mut brotli).unwrap();
    // What the playlist says of bit rates may have changed between.
    let names = |text: &[u8]| {
        let text = String::from_utf8(text.to_vec()).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(plain.starts_with(b"#EXTM3U") && gzip.starts_with(b"#EXTM3U") && brotli.starts_with(b"#EXTM3U"));
    assert_eq!((names(&gzip), names(&brotli)), (names(&plain), names(&plain)));
}
