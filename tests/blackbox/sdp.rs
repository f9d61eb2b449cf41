//! Plain RTP with a session description, in and out, by senders and receivers made without any code of the product.

use crate::pull::{HASTE, source, until_live, watch};
use crate::{GLASSLINE, serve_with};
use glassline_test_support::http::read_once;
use glassline_test_support::loopback::{free_udp, is_bound};
use glassline_test_support::program::{Scratch, Server, run};
use glassline_test_support::wait::{until, until_some};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// A sender of pictures, each in a packet of its own; each tenth is a key frame.
struct Sender {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    to: SocketAddr,
    ssrc: u32,
    number: u32,
}

impl Sender {
    fn new(to: SocketAddr) -> Sender {
        let [rtp, rtcp] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        Sender { rtp, rtcp, to, ssrc: 9, number: 0 }
    }

    fn packet(&self, payload_type: u8) -> Vec<u8> {
        let number = self.number;
        let mut packet = vec![0x80, 0x80 | payload_type];
        packet.extend((number as u16).to_be_bytes());
        packet.extend((number * 3600).to_be_bytes());
        packet.extend(self.ssrc.to_be_bytes());
        packet.extend(if number.is_multiple_of(10) { [0x65, 0x88] } else { [0x41, 0x9a] });
        packet.extend(format!("picture {number:06}.").bytes());
        packet
    }

    fn send(&mut self) {
        self.send_as(96);
    }

    fn send_as(&mut self, payload_type: u8) {
        self.rtp.send_to(&self.packet(payload_type), self.to).unwrap();
        self.number += 1;
    }

    /// A sender report of now, and with `ends` a goodbye.
    fn report(&self, ends: bool) {
        let ntp = 2_208_988_800 + std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let mut report = vec![0x80, 200, 0, 6];
        report.extend(self.ssrc.to_be_bytes());
        report.extend((ntp << 32).to_be_bytes());
        report.extend((self.number * 3600).to_be_bytes());
        report.extend([0; 8]);
        if ends {
            report.extend([0x81, 203, 0, 1]);
            report.extend(self.ssrc.to_be_bytes());
        }
        let to = SocketAddr::new(self.to.ip(), self.to.port() + 1);
        self.rtcp.send_to(&report, to).unwrap();
    }
}

fn description(to: SocketAddr) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 {}\r\nt=0 0\r\nm=video {} RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n\
         a=fmtp:96 packetization-mode=1;sprop-parameter-sets=Z0LAHtkDxWhAAAADAEAAAAwDxYuS,aMuMsg==\r\n",
        to.ip(),
        to.port()
    )
}

/// A server with a stream from a description, and the file.
fn receiving(text: &str) -> (Server, Scratch, String) {
    let scratch = Scratch::new("sdp");
    let sdp = scratch.write("in.sdp", text);
    let config = format!("{HASTE}[stream.hall]\nsource = 'rtp:in.sdp'\n");
    let server = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", config)]);
    (server, scratch, sdp)
}

/// Sends pictures until the stream is there.
fn go_live(server: &Server, sender: &mut Sender) {
    until("the port to be open", || is_bound(sender.to));
    until("the source to be live", || {
        sender.send();
        std::thread::sleep(Duration::from_millis(5));
        source(server, "hall")["state"] == "live"
    });
}

/// Reads of a viewer until the picture of that number has come.
fn read_until(viewer: &mut std::net::TcpStream, number: u32, sender: &mut Sender) {
    let (wanted, mut seen, mut buffer) = (format!("picture {number:06}."), Vec::new(), [0; 65_536]);
    viewer.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    until("the picture", || {
        sender.send();
        if let Ok(count) = read_once(viewer, &mut buffer) {
            assert!(count > 0, "the viewer's stream has ended");
            seen.extend_from_slice(&buffer[..count]);
        }
        seen.windows(wanted.len()).any(|part| part == wanted.as_bytes())
    });
}

#[test]
fn pictures_come_by_the_description_and_a_sender_that_begins_anew_goes_on() {
    let to = free_udp();
    let (server, _scratch, _) = receiving(&description(to));
    let mut sender = Sender::new(to);
    go_live(&server, &mut sender);
    let mut viewer = watch(&server, "hall");
    let next = sender.number + 5;
    read_until(&mut viewer, next, &mut sender);
    // Another SSRC with numbers from elsewhere, from the same port.
    (sender.ssrc, sender.number) = (77, 500_000);
    read_until(&mut viewer, 500_011, &mut sender);
    let told = source(&server, "hall");
    assert_eq!((told["rtp"]["restarts"].as_u64(), told["reconnects"].as_u64()), (Some(1), Some(0)), "{told}");
    assert_eq!(server.count("hall", "continuity_errors"), 0);
    // Another sender's packets are refused while that one sends.
    let mut stranger = Sender::new(to);
    stranger.ssrc = 5;
    until("the stranger's packets to be refused", || {
        sender.send();
        stranger.send();
        source(&server, "hall")["rtp"]["refused"].as_u64() > Some(3)
    });
    assert_eq!(source(&server, "hall")["rtp"]["restarts"], 1);
}

#[test]
fn reports_are_answered_and_a_goodbye_ends_the_stream_at_once() {
    let to = free_udp();
    let (server, _scratch, _) = receiving(&description(to));
    let mut sender = Sender::new(to);
    go_live(&server, &mut sender);
    sender.rtcp.set_nonblocking(true).unwrap();
    let mut answer = [0; 256];
    let count = until_some("a receiver report", || {
        sender.send();
        sender.report(false);
        std::thread::sleep(Duration::from_millis(20));
        sender.rtcp.recv(&mut answer).ok()
    });
    // A receiver report with one block, which is about this sender.
    assert_eq!((&answer[..2], &answer[8..12], count > 32), (&[0x81, 201][..], &[0, 0, 0, 9][..], true));
    assert!(source(&server, "hall")["failures"] == 0);
    sender.report(true);
    until("the source to be away", || source(&server, "hall")["state"] == "waiting");
    let told = source(&server, "hall");
    assert!(told["error"].as_str().unwrap().contains("goodbye"), "{told}");
    go_live(&server, &mut sender);
    assert_eq!(source(&server, "hall")["reconnects"], 1);
}

#[test]
fn silence_is_told_and_a_changed_description_is_followed() {
    let (to, other) = (free_udp(), free_udp());
    let (server, scratch, sdp) = receiving(&description(to));
    let mut sender = Sender::new(to);
    go_live(&server, &mut sender);
    until("silence", || source(&server, "hall")["state"] == "waiting");
    let told = source(&server, "hall");
    assert!(told["error"].as_str().unwrap().contains("no packet for 2 s"), "{told}");
    // Half a description changes nothing, also once the file has been looked at again, which is each second.
    go_live(&server, &mut sender);
    scratch.write("in.sdp", "v=0\r\n");
    let begun = std::time::Instant::now();
    let reconnects = source(&server, "hall")["reconnects"].clone();
    until("the file to be looked at", || {
        sender.send();
        std::thread::sleep(Duration::from_millis(20));
        begun.elapsed() > Duration::from_millis(2500)
    });
    let told = source(&server, "hall");
    assert!(told["state"] == "live" && told["reconnects"] == reconnects && is_bound(to), "{told}");
    std::fs::remove_file(&sdp).unwrap();
    scratch.write("in.sdp", description(other));
    let mut moved = Sender::new(other);
    moved.number = 900;
    go_live(&server, &mut moved);
    until("the old port to be free", || !is_bound(to));
}

#[test]
fn a_payload_type_other_than_described_is_taken() {
    let to = free_udp();
    let (server, _scratch, _) = receiving(&description(to));
    let mut sender = Sender::new(to);
    until("the port to be open", || is_bound(to));
    until("the source to be live", || {
        sender.send_as(100);
        std::thread::sleep(Duration::from_millis(5));
        source(&server, "hall")["state"] == "live"
    });
}

#[test]
fn bad_descriptions_are_refused_with_what_is_wrong_with_them() {
    for (text, words) in [
        ("hello".to_owned(), "no section"),
        ("m=video 5004 RTP/AVP 96\r\n".repeat(40), "sections"),
        ("a=x\r\n".repeat(20_000), "bytes"),
        ("m=audio 5004 RTP/AVP 9\r\n".to_owned(), "G722 has no place in MPEG-TS"),
        ("m=video 99999999999 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n".to_owned(), "can be received"),
    ] {
        let (server, scratch, _) = receiving(&text);
        let error = until_some("the reason", || source(&server, "hall")["error"].as_str().map(str::to_owned));
        assert!(error.contains(words), "{error}");
        let tested =
            run(GLASSLINE, &["serve", "--test-config", "--config", &scratch.file("glassline.toml")], 30);
        assert_eq!(tested.status, Some(2), "{}", tested.stderr);
        assert!(
            tested.stderr.contains("stream.hall.source") && tested.stderr.contains(words),
            "{}",
            tested.stderr
        );
    }
}

#[test]
fn what_goes_out_is_described_and_reported_and_ends_with_goodbyes() {
    let (to, out) = (free_udp(), free_udp());
    let scratch = Scratch::new("sdp");
    scratch.write("in.sdp", description(to));
    let config = |outputs: &str| {
        format!("{HASTE}[publish]\nreturn_window = '0s'\n[stream.hall]\nsource = 'rtp:in.sdp'\n{outputs}")
    };
    let outputs = format!("outputs = ['rtp+sdp://{out}?sdp=out.sdp']\n");
    let file = scratch.write("glassline.toml", config(&outputs));
    let server = Server::start(GLASSLINE, &["--config", &file]);
    let [rtp, rtcp] = [0, 1].map(|above| {
        let socket = UdpSocket::bind(SocketAddr::new(out.ip(), out.port() + above)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    });
    let mut sender = Sender::new(to);
    go_live(&server, &mut sender);
    let (mut seen, mut buffer) = (Vec::new(), [0; 2048]);
    until("thirty pictures", || {
        sender.send();
        while let Ok(count) = rtp.recv(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..count]);
            seen.extend(text.split_once("picture ").and_then(|(_, rest)| rest.get(..6)?.parse::<u32>().ok()));
        }
        seen.len() >= 30
    });
    assert!(seen[0].is_multiple_of(10), "it begins with a key frame: {seen:?}");
    assert!(seen.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seen:?}");
    let text = std::fs::read_to_string(scratch.file("out.sdp")).unwrap();
    for line in [
        format!("c=IN IP4 {}", out.ip()),
        format!("m=video {} RTP/AVP 96", out.port()),
        "a=rtpmap:96 H264/90000".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(text.contains("sprop-parameter-sets=Z0LAHtkDxWhAAAADAEAAAAwDxYuS,aMuMsg=="), "{text}");
    let count = rtcp.recv(&mut buffer).unwrap();
    assert!(count >= 28 && buffer[1] == 200, "{:?}", &buffer[..count]);
    // The stream ends: a goodbye follows.
    sender.report(true);
    until("the source to be away", || source(&server, "hall")["state"] == "waiting");
    until("a goodbye", || {
        let Ok(count) = rtcp.recv(&mut buffer) else { return false };
        buffer[..count].windows(2).any(|pair| pair == [0x81, 203])
    });
    until_live_again(&server, &mut sender, &rtp);
    // An output that is not wanted any more ends, too.
    std::fs::write(&file, config("")).unwrap();
    server.process.signal("HUP");
    until("another goodbye", || {
        sender.send();
        let Ok(count) = rtcp.recv(&mut buffer) else { return false };
        buffer[..count].windows(2).any(|pair| pair == [0x81, 203])
    });
}

fn until_live_again(server: &Server, sender: &mut Sender, rtp: &UdpSocket) {
    let mut buffer = [0; 2048];
    go_live(server, sender);
    until_live(server, "hall");
    // What is of before.
    while rtp.recv(&mut buffer).is_ok() {}
    until("packets", || {
        sender.send();
        rtp.recv(&mut buffer).is_ok()
    });
}

#[test]
fn a_description_that_cannot_be_written_is_told_and_two_outputs_need_two_files() {
    let out = free_udp();
    let demo = "[demo]\nenabled = true\nsize = '320x240'\nframe_rate = 25\nbitrate = '500k'\n[stream.demo]\n";
    let output = format!("rtp+sdp://{out}?sdp=nowhere/out.sdp");
    let (server, _scratch) = serve_with(&format!("{demo}outputs = ['{output}']\n"));
    let told = until_some("the reason", || {
        let stream = server.stream("demo")?;
        stream["outputs"][0]["error"].as_str().map(str::to_owned)
    });
    assert!(told.contains("cannot write") && told.contains("out.sdp"), "{told}");
    until("packets all the same", || {
        server.stream("demo").is_some_and(|stream| stream["outputs"][0]["datagrams"].as_u64() > Some(5))
    });
    let scratch = Scratch::new("sdp");
    let both = format!("{demo}outputs = ['rtp+sdp://{out}?sdp=a', 'rtp+sdp://127.0.0.1:5004?sdp=a']\n");
    let tested = run(GLASSLINE, &["serve", "--test-config", "--config", &scratch.write("a.toml", both)], 30);
    assert!(tested.status == Some(2) && tested.stderr.contains("a file of its own"), "{}", tested.stderr);
}
