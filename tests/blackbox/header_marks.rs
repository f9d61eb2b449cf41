//! What packets bear in IP's header for routers: DSCP and flow label, of viewers, outputs and links, as they are on the wire.

use crate::link::{key, listen_at, port, start, udp};
use crate::{GLASSLINE, glassline, serve, serve_with};
use glassline_test_support::http::{connect, get, publish, read_head};
use glassline_test_support::numbered::Shape;
use glassline_test_support::packets::{Header, Packets};
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::skip;
use glassline_test_support::wait::{until, until_some};
use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

const SHAPE: Shape = Shape { packets: 60, group: 10 };

/// A copy of all packets; `None`, and the test counted as skipped, where this process may not have it, or there is no IPv6.
fn packets(test: &str) -> Option<Packets> {
    let packets = Packets::open();
    if packets.is_none() || TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        skip(test, "may not read packets (CAP_NET_RAW), or no IPv6");
        return None;
    }
    packets
}

/// Whether the system lets sockets decide on flow labels.
fn labels_are_free() -> bool {
    let setting = fs::read_to_string("/proc/sys/net/ipv6/auto_flowlabels").unwrap_or_default();
    ["1", "2"].contains(&setting.trim())
}

struct Publisher {
    stream: TcpStream,
    number: u64,
}

impl Publisher {
    fn new(server: &Server, name: &str) -> Publisher {
        let stream = publish(server.address(), &format!("/live/{name}.ts"));
        let mut publisher = Publisher { stream, number: 0 };
        publisher.push();
        until("the stream", || server.count(name, "bytes_in") > 0);
        publisher
    }

    fn push(&mut self) {
        self.stream.write_all(&SHAPE.picture(self.number)).unwrap();
        self.number += 1;
    }
}

/// A viewer of the stream that is let in by this address.
fn watch(server: &Server, ip: impl Into<IpAddr>, name: &str) -> TcpStream {
    let mut stream = connect(SocketAddr::new(ip.into(), server.address().port()));
    write!(stream, "GET /live/{name}.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut stream).status, 200);
    stream
}

/// What the server's packets to this viewer bear from now on.
fn to_viewer(packets: &Packets, publisher: &mut Publisher, viewer: &TcpStream) -> Header {
    let ports = (viewer.peer_addr().unwrap().port(), viewer.local_addr().unwrap().port());
    // What it got before.
    let _ = packets.take();
    until_some("a packet to the viewer", || {
        publisher.push();
        packets.take().into_iter().rfind(|header| (header.from, header.to) == ports)
    })
}

#[test]
fn a_viewer_s_packets_bear_the_dscp_of_its_stream_its_port_or_all() {
    let test = "a_viewer_s_packets_bear_the_dscp_of_its_stream_its_port_or_all";
    let Some(packets) = packets(test) else { return };
    let scratch = Scratch::new("dscp");
    let general = "[viewer]\ndscp = 10\n[stream.a]\ndscp = 34\n[stream.b]\nflow_label = false\n\
                   [stream.c]\nflow_label = true\n";
    let file = scratch.write("glassline.toml", general);
    // IPv4 comes to its socket too.
    let server = Server::start_at(GLASSLINE, "[::]:0", &["--config", &file]);
    let mut publishers = ["a", "b", "c"].map(|name| Publisher::new(&server, name));
    let mut old = None;
    for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let names = [("a", 34, None), ("b", 10, Some(false)), ("c", 10, Some(true))];
        for (publisher, (name, dscp, labelled)) in publishers.iter_mut().zip(names) {
            let viewer = watch(&server, ip, name);
            let header = to_viewer(&packets, publisher, &viewer);
            assert_eq!((header.is_ipv6, header.dscp), (ip.is_ipv6(), dscp), "{name} by {ip}: {header:?}");
            if ip.is_ipv6() && labels_are_free() {
                assert!(labelled.is_none_or(|labelled| labelled == (header.flow_label != 0)), "{header:?}");
            }
            old = Some(viewer);
        }
    }
    // Of the port that the system chose more is said now. Viewers that are there stay as they are.
    let of_port = format!("{general}[viewer.port.{}]\ndscp = 18\n", server.address().port());
    fs::write(&file, of_port).unwrap();
    server.process.signal("HUP");
    let [a, _, c] = &mut publishers;
    until("the new configuration", || {
        let viewer = watch(&server, Ipv4Addr::LOCALHOST, "c");
        to_viewer(&packets, c, &viewer).dscp == 18
    });
    let viewer = watch(&server, Ipv4Addr::LOCALHOST, "a");
    assert_eq!(to_viewer(&packets, a, &viewer).dscp, 34);
    assert_eq!(to_viewer(&packets, c, &old.unwrap()).dscp, 10);
}

#[test]
fn objects_of_a_stream_bear_its_dscp() {
    let Some(packets) = packets("objects_of_a_stream_bear_its_dscp") else { return };
    let scratch = Scratch::new("dscp-objects");
    let file = scratch.write("glassline.toml", "[stream.demo]\ndscp = 34\n");
    let server = serve(&["--demo", "--config", &file]);
    until("the playlist", || get(server.address(), "/live/demo/index.m3u8").status == 200);
    let mut client = connect(server.address());
    let ports = (server.address().port(), client.local_addr().unwrap().port());
    let mut ask = |target: &str| {
        let _ = packets.take();
        until_some("a packet of an answer", || {
            write!(client, "HEAD {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            assert_eq!(read_head(&mut client).status, 200, "{target}");
            packets.take().into_iter().rfind(|header| (header.from, header.to) == ports)
        })
    };
    assert_eq!(ask("/healthz").dscp, 0);
    assert_eq!(ask("/live/demo/index.m3u8").dscp, 34);
}

#[test]
fn outputs_bear_the_dscp_of_their_address() {
    let Some(packets) = packets("outputs_bear_the_dscp_of_their_address") else { return };
    let [bare, rtp] = ["127.0.0.1:0", "[::1]:0"].map(|address| UdpSocket::bind(address).unwrap());
    let urls = [
        format!("udp://{}?dscp=46", bare.local_addr().unwrap()),
        format!("rtp://{}?dscp=18&flow_label=false", rtp.local_addr().unwrap()),
    ];
    let (server, _scratch) = serve_with(&format!("[stream.a]\noutputs = ['{}', '{}']\n", urls[0], urls[1]));
    let mut publisher = Publisher::new(&server, "a");
    for (socket, dscp) in [(&bare, 46), (&rtp, 18)] {
        let to = port(socket);
        let header = until_some("a datagram", || {
            publisher.push();
            packets.take().into_iter().find(|header| header.to == to)
        });
        assert_eq!(header.dscp, dscp);
        assert!(!header.is_ipv6 || header.flow_label == 0 || !labels_are_free(), "{header:?}");
    }
    let shown: Vec<_> = server.stream("a").unwrap()["outputs"].as_array().unwrap().clone();
    assert!(shown.iter().zip(&urls).all(|(output, url)| output["url"] == **url), "{shown:?}");
}

#[test]
fn an_encoder_s_datagrams_bear_the_dscp_of_their_address() {
    let Some(packets) = packets("an_encoder_s_datagrams_bear_the_dscp_of_their_address") else { return };
    let taker = udp();
    let url = format!("udp://{}?dscp=63", taker.local_addr().unwrap());
    let _encoder = Running::start(Command::new(GLASSLINE).args(["encode", "test:64x64@25", &url]));
    let to = port(&taker);
    let header = until_some("a datagram", || packets.take().into_iter().find(|header| header.to == to));
    assert_eq!(header.dscp, 63);
}

#[test]
fn an_encoder_s_connection_to_a_server_bears_the_dscp_of_its_address() {
    let test = "an_encoder_s_connection_to_a_server_bears_the_dscp_of_its_address";
    let Some(packets) = packets(test) else { return };
    let server = serve(&[]);
    let url = server.url("/live/pushed.ts?dscp=34&takeover=1");
    let _encoder = Running::start(Command::new(GLASSLINE).args(["encode", "test:64x64@25", &url]));
    until("the stream", || server.count("pushed", "bytes_in") > 0);
    let to = server.address().port();
    let _ = packets.take();
    // Other tests ask this server for nothing, and this test on connections of its own, which bear none.
    until("a packet with it", || {
        packets.take().into_iter().any(|header| header.to == to && header.dscp == 34)
    });
}

#[test]
fn both_ends_of_a_link_have_a_dscp_of_their_own_beside_its_congestion_bits() {
    let test = "both_ends_of_a_link_have_a_dscp_of_their_own_beside_its_congestion_bits";
    let Some(packets) = packets(test) else { return };
    let scratch = Scratch::new("dscp-link");
    let key = key(&scratch);
    let (taker, source) = (udp(), udp());
    let into = port(&udp());
    let out = format!("0:out=udp:127.0.0.1:{}", port(&taker));
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let listener = ["--key", &key, "--channel", &out, "--dscp", "34"];
        let (_listener, address) = listen_at(at, &listener);
        let listening = address.parse::<SocketAddr>().unwrap().port();
        let channel = format!("0:in=udp:127.0.0.1:{into}");
        let _sender = start(&[
            "connect",
            &address,
            "--key",
            &key,
            "--channel",
            &channel,
            "--dscp=46",
            "--flow-label=true",
        ]);
        let (mut there, mut back) = (Vec::new(), Vec::new());
        // Data have the bits of a sender that hears of congestion (ECT(0)), handshakes have none.
        until("packets both ways, with the bits of congestion and without", || {
            let _ = source.send_to(b"a message", ("127.0.0.1", into));
            for header in packets.take() {
                there.extend((header.to == listening).then_some(header));
                back.extend((header.from == listening).then_some(header));
            }
            [&there, &back].into_iter().all(|headers| headers.iter().any(|header| header.ecn == 2))
                && there.iter().any(|header| header.ecn == 0)
        });
        assert!(there.iter().all(|header| header.dscp == 46), "{there:?}");
        assert!(back.iter().all(|header| header.dscp == 34), "{back:?}");
        assert!(!labels_are_free() || there.iter().all(|header| header.is_ipv6 == (header.flow_label != 0)));
    }
}

#[test]
fn what_is_no_dscp_is_refused_with_its_place_and_the_range() {
    let scratch = Scratch::new("dscp-bad");
    let test = |text: &str| {
        let file = scratch.write("glassline.toml", text);
        let outcome = glassline(&["serve", "--config", &file, "--test-config"]);
        (outcome.status, outcome.stderr)
    };
    for (text, said) in [
        ("[viewer]\ndscp = 64", "glassline.toml:2: viewer.dscp: 64 is out of range; from 0 to 63"),
        (
            "[viewer.port.0]\ndscp = 1",
            "glassline.toml:1: viewer.port.0: \"0\" is no port; write a number from 1",
        ),
        ("[stream.a]\ndcsp = 34", "unknown key \"dcsp\" in [stream.a]; did you mean \"dscp\"?"),
        (
            "[stream.a]\noutputs = ['udp://127.0.0.1:5?dscp=99']",
            "dscp is a number from 0 to 63, as in dscp=34",
        ),
        ("[stream.a]\noutputs = ['udp://127.0.0.1:5?flow_label=true']", "the address is of IPv4"),
    ] {
        let (status, stderr) = test(text);
        assert_eq!(status, Some(2), "{text}: {stderr}");
        assert!(stderr.contains(said), "{text}: {stderr}");
    }
    let (status, stderr) = test("listen = ['127.0.0.1:8090']\n[viewer.port.8091]\ndscp = 1");
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("[viewer.port.8091] has no effect"), "{stderr}");
    for command in [
        &["link", "listen", "127.0.0.1:0", "--insecure", "--channel", "0:out=-", "--dscp", "64"][..],
        &["send", "test:64x64@25", "link://127.0.0.1:9", "--insecure", "--dscp", "64"],
        &["receive", "link://127.0.0.1:0", "null:", "--insecure", "--dscp", "64"],
        &["encode", "test:64x64@25", "udp://127.0.0.1:9?dscp=64"],
        &["encode", "test:64x64@25", "http://127.0.0.1:9/live/a.ts?dscp=64"],
    ] {
        let outcome = glassline(command);
        assert_eq!(outcome.status, Some(2), "{command:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("63"), "{command:?}: {}", outcome.stderr);
    }
}
