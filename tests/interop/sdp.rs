//! Foreign programs and plain RTP with a session description: FFmpeg and GStreamer as senders, FFmpeg, GStreamer and VLC as
//! receivers.

use crate::{GLASSLINE, have, vlc};
use glassline_test_support::loopback::{free_udp, is_bound};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::skip;
use glassline_test_support::wait::until;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HASTE: &str = "[pull]\nretry_min = '50ms'\nretry_max = '100ms'\nsilence_timeout = '2s'\n";

/// A clip with pictures that all differ, and a tone, by FFmpeg.
fn clip(scratch: &Scratch, coding: &[&str]) -> String {
    let file = scratch.file("clip.mkv");
    let inputs = "-v error -f lavfi -i testsrc2=size=320x240:rate=25 -f lavfi -i sine=440:sample_rate=48000";
    let command: Vec<&str> =
        inputs.split(' ').chain(coding.iter().copied()).chain(["-t", "16", "-y", &file]).collect();
    let made = run("ffmpeg", &command, 60);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    file
}

/// FFmpeg's checksums of the pictures of an input; of so many seconds of it, where they are given. What it says is returned, too.
fn pictures(input: &[&str], seconds: Option<u32>) -> (Vec<String>, String) {
    let time = seconds.map(|seconds| seconds.to_string());
    let mut command = vec!["-v", "error"];
    command.extend(input);
    command.extend(time.iter().flat_map(|time| ["-t", time]));
    command.extend(["-map", "0:v:0", "-fps_mode", "passthrough", "-f", "framemd5", "-"]);
    let decoded = run("ffmpeg", &command, 60);
    assert_eq!(decoded.status, Some(0), "{input:?}: {}", decoded.stderr);
    let hash = |line: &str| line.rsplit(',').next().map(|hash| hash.trim().to_owned());
    let text = decoded.text();
    (text.lines().filter(|line| !line.starts_with('#')).filter_map(hash).collect(), decoded.stderr)
}

/// FFmpeg, which sends the clip to these addresses, pictures and sound, and writes its description.
fn send(clip: &str, pictures: SocketAddr, sound: SocketAddr, sdp: &str, time: &[&str]) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y", "-re"]).args(time).args(["-i", clip]);
    for (track, to) in [("0:v", pictures), ("0:a", sound)] {
        command.args(["-map", track, "-c", "copy", "-f", "rtp"]);
        // One file for all outputs.
        command.args((track == "0:v").then_some(["-sdp_file", sdp]).into_iter().flatten());
        command.arg(format!("rtp://{to}?pkt_size=1200"));
    }
    command
}

/// The description of what FFmpeg sends, before it sends it.
fn described(clip: &str, pictures: SocketAddr, sound: SocketAddr, scratch: &Scratch) -> String {
    let sdp = scratch.file("in.sdp");
    let made = send(clip, pictures, sound, &sdp, &["-t", "0.1"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    sdp
}

fn above(address: SocketAddr, ports: u16) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port() + ports)
}

/// A free port with so many free ones above it.
fn ports() -> SocketAddr {
    std::iter::repeat_with(free_udp).find(|address| address.port() < 65_000).unwrap()
}

fn live(server: &Server, name: &str) {
    until("the source to be live", || {
        server.stream(name).is_some_and(|stream| stream["source"]["state"] == "live")
    });
}

/// How many pictures in a row of `all` are `seen`, at its only place.
fn is_part(seen: &[String], all: &[String]) -> bool {
    let Some(start) = seen.first().and_then(|first| all.iter().position(|one| one == first)) else {
        return false;
    };
    all[start..].starts_with(seen)
}

/// What FFmpeg sends is what viewers by HTTP see, and what FFmpeg receives by the description of the output.
fn passes(test: &str, coding: &[&str], encodings: [&str; 2]) {
    if !have(test, &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("sdp");
    let clip = clip(&scratch, coding);
    let (whole, _) = pictures(&["-i", &clip], None);
    let (to, out) = (ports(), ports());
    let sdp = described(&clip, to, above(to, 2), &scratch);
    let far = scratch.file("out.sdp");
    let config =
        format!("{HASTE}[stream.hall]\nsource = 'rtp:in.sdp'\noutputs = ['rtp+sdp://{out}?sdp=out.sdp']\n");
    let server = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", config)]);
    until("the ports to be open", || is_bound(to));
    let sender = Running::start(&mut send(&clip, to, above(to, 2), &sdp, &[]));
    live(&server, "hall");
    until("the description", || std::fs::exists(&far).unwrap());
    let text = std::fs::read_to_string(&far).unwrap();
    for (encoding, port) in encodings.into_iter().zip([out.port(), out.port() + 2]) {
        assert!(text.contains(encoding) && text.contains(&format!(" {port} RTP/AVP ")), "{text}");
    }
    let url = server.url("/live/hall.ts");
    let (near, distant) = std::thread::scope(|scope| {
        let near = scope.spawn(|| pictures(&["-i", &url], Some(3)));
        let input = ["-protocol_whitelist", "file,udp,rtp", "-i", &far];
        let distant = scope.spawn(move || pictures(&input, Some(3)));
        (near.join().unwrap(), distant.join().unwrap())
    });
    let say = sender.output();
    assert!(near.0.len() >= 60 && is_part(&near.0, &whole), "{} {} {say}", near.0.len(), near.1);
    // A receiver that joins between key frames shows what it cannot decode yet, or nothing.
    let clean = distant.0.iter().position(|one| whole.contains(one)).unwrap_or(0);
    let clean = &distant.0[clean..];
    assert!(
        clean.len() >= 40 && is_part(clean, &whole),
        "{} of {} {}",
        clean.len(),
        distant.0.len(),
        distant.1
    );
    let stream = server.stream("hall").unwrap();
    let (source, output) = (&stream["source"], &stream["outputs"][0]);
    assert_eq!((&source["rtp"]["lost"], &source["rtp"]["damaged_units"]), (&0.into(), &0.into()), "{source}");
    assert!(output["datagrams"].as_u64() > Some(100) && output["errors"] == 0, "{output}");
}

#[test]
fn h264_and_aac_pass_from_ffmpeg_to_ffmpeg() {
    let coding = ["-c:v", "libx264", "-g", "25", "-bf", "2", "-c:a", "aac", "-b:a", "96k"];
    passes("h264_and_aac_pass_from_ffmpeg_to_ffmpeg", &coding, ["H264/90000", "MPEG4-GENERIC/48000"]);
}

#[test]
fn h265_and_opus_pass_from_ffmpeg_to_ffmpeg() {
    let x265 = "log-level=error:keyint=25";
    let coding = ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", x265, "-c:a", "libopus"];
    passes("h265_and_opus_pass_from_ffmpeg_to_ffmpeg", &coding, ["H265/90000", "opus/48000/2"]);
}

#[test]
fn h264_and_mpeg_audio_pass_from_ffmpeg_to_ffmpeg() {
    let coding = ["-c:v", "libx264", "-g", "25", "-tune", "zerolatency", "-c:a", "mp2"];
    passes("h264_and_mpeg_audio_pass_from_ffmpeg_to_ffmpeg", &coding, ["H264/90000", "MPA/90000"]);
}

#[test]
fn h264_and_uncompressed_sound_pass_from_ffmpeg_to_ffmpeg() {
    let coding = ["-c:v", "libx264", "-g", "25", "-c:a", "pcm_s24be", "-ac", "2"];
    passes("h264_and_uncompressed_sound_pass_from_ffmpeg_to_ffmpeg", &coding, ["H264/90000", "L24/48000/2"]);
}

/// Passes datagrams on from one address to another but for each `lost`th. Ends when told to.
fn forward(
    from: SocketAddr,
    to: SocketAddr,
    lost: usize,
    ends: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<usize> {
    let (socket, ends) = (UdpSocket::bind(from).unwrap(), Arc::clone(ends));
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    std::thread::spawn(move || {
        let (mut buffer, mut count, mut dropped) = ([0; 2048], 0, 0);
        while !ends.load(Ordering::Relaxed) {
            let Ok(bytes) = socket.recv(&mut buffer) else { continue };
            count += 1;
            if lost > 0 && count % lost == 0 {
                dropped += 1;
            } else {
                socket.send_to(&buffer[..bytes], to).unwrap();
            }
        }
        dropped
    })
}

#[test]
fn a_loss_of_one_in_a_hundred_damages_pictures_and_the_stream_goes_on() {
    let test = "a_loss_of_one_in_a_hundred_damages_pictures_and_the_stream_goes_on";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("sdp");
    let clip = clip(&scratch, &["-c:v", "libx264", "-g", "25", "-b:v", "3M", "-c:a", "aac"]);
    let (to, line) = (ports(), ports());
    let sdp = described(&clip, to, above(to, 2), &scratch);
    let config = format!("{HASTE}[stream.hall]\nsource = 'rtp:in.sdp'\n");
    let server = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", config)]);
    until("the ports to be open", || is_bound(to));
    let ends = Arc::default();
    let lines = [0, 1, 2, 3].map(|above_it| {
        let lost = if above_it == 0 { 100 } else { 0 };
        forward(above(line, above_it), above(to, above_it), lost, &ends)
    });
    let _sender = Running::start(&mut send(&clip, line, above(line, 2), &format!("{sdp}.other"), &[]));
    live(&server, "hall");
    let url = server.url("/live/hall.ts");
    let (seen, _) = pictures(&["-i", &url], Some(6));
    assert!(seen.len() >= 100, "{}", seen.len());
    let source = server.stream("hall").unwrap()["source"].clone();
    let count = |field: &str| source["rtp"][field].as_u64().unwrap();
    ends.store(true, Ordering::Relaxed);
    let dropped: usize = lines.map(|line| line.join().unwrap()).into_iter().sum();
    assert!(count("lost") > 5 && count("lost") <= dropped as u64, "{source} {dropped}");
    assert!(count("damaged_units") > 5 && count("damaged_units") <= count("lost"), "{source}");
    assert_eq!(
        (source["state"].as_str(), source["reconnects"].as_u64()),
        (Some("live"), Some(0)),
        "{source}"
    );
}

/// GStreamer sends pictures by `coding` and says nothing of them but their payload type.
#[test]
fn gstreamer_sends_by_a_description_without_parameter_sets() {
    let test = "gstreamer_sends_by_a_description_without_parameter_sets";
    if !have(test, &["ffmpeg", "gst-launch-1.0"]) {
        return;
    }
    let scratch = Scratch::new("sdp");
    let clip = clip(&scratch, &["-c:v", "libx264", "-g", "25", "-bf", "2", "-an"]);
    let (whole, _) = pictures(&["-i", &clip], None);
    let to = ports();
    let (ip, port) = (to.ip(), to.port());
    scratch.write(
        "in.sdp",
        format!("v=0\nc=IN IP4 {ip}\nm=video {port} RTP/AVP 96\na=rtpmap:96 H264/90000\na=rtcp-mux\n"),
    );
    let config = format!("{HASTE}[stream.hall]\nsource = 'rtp:in.sdp'\n");
    let server = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", config)]);
    until("the port to be open", || is_bound(to));
    let line = format!(
        "-q filesrc location={clip} ! matroskademux ! h264parse ! rtph264pay config-interval=-1 mtu=1200 aggregate-mode=zero-latency \
         ! udpsink host={ip} port={port} sync=true"
    );
    let mut command = Command::new("gst-launch-1.0");
    command.args(line.split_ascii_whitespace());
    let sender = Running::start(&mut command);
    live(&server, "hall");
    let (seen, said) = pictures(&["-i", &server.url("/live/hall.ts")], Some(3));
    assert!(seen.len() >= 60 && is_part(&seen, &whole), "{} {said} {}", seen.len(), sender.output());
}

/// A server with the demo as an output that a file describes.
fn sending() -> (Server, Scratch, String) {
    let (scratch, out) = (Scratch::new("sdp"), ports());
    let config = format!(
        "[demo]\nenabled = true\nsize = '640x360'\nframe_rate = 25\nbitrate = '1M'\n\
         [stream.demo]\noutputs = ['rtp+sdp://{out}?sdp=out.sdp']\n"
    );
    let server = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", config)]);
    let sdp = scratch.file("out.sdp");
    until("the description", || std::fs::exists(&sdp).unwrap());
    (server, scratch, sdp)
}

#[test]
fn gstreamer_receives_by_the_description() {
    let test = "gstreamer_receives_by_the_description";
    if !have(test, &["gst-launch-1.0"]) {
        return;
    }
    let (_server, _scratch, sdp) = sending();
    let text = std::fs::read_to_string(&sdp).unwrap();
    assert!(text.contains("H264/90000"), "{text}");
    let line = format!(
        "filesrc location={sdp} ! sdpdemux latency=100 ! rtph264depay ! h264parse ! avdec_h264 ! fakesink num-buffers=50"
    );
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let seen = run("gst-launch-1.0", &words, 60);
    assert_eq!(seen.status, Some(0), "{}{}", seen.text(), seen.stderr);
}

#[test]
fn vlc_receives_by_the_description() {
    let test = "vlc_receives_by_the_description";
    if !have(test, &["cvlc", "setpriv"]) {
        return;
    }
    // Debian builds VLC without it. By itself VLC reads descriptions of a single track alone, of none of these codecs.
    let folders = std::fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    if !folders.into_iter().any(|folder| folder.join("vlc/plugins/access/liblive555_plugin.so").exists()) {
        return skip(test, "this VLC has no live555, by which it reads descriptions of coded tracks");
    }
    let (_server, scratch, sdp) = sending();
    let shown = scratch.file("shown.y4m");
    let mut words = vlc::words(scratch.path());
    words.extend(["--vout", "yuv", "--yuv-yuv4mpeg2", "--yuv-file", &shown].map(Into::into));
    words.extend(["--aout", "dummy", "--no-spu", "--network-caching=300"].map(Into::into));
    words.push(format!("file://{sdp}"));
    let vlc = Running::start(&mut vlc::command(&words));
    // 25 pictures of 640x360.
    until("VLC to show pictures", || {
        std::fs::metadata(&shown).is_ok_and(|file| file.len() > 25 * 640 * 360 * 3 / 2)
    });
    let log = vlc.output();
    assert!(!log.contains("SDP required"), "{log}");
}

#[test]
fn multicast_is_joined_by_the_description_and_received_by_ffmpeg() {
    let test = "multicast_is_joined_by_the_description_and_received_by_ffmpeg";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    if !glassline_test_support::multicast::loopback_hears_itself() {
        return skip(test, "loopback takes no multicast here");
    }
    let port = ports().port();
    let group: IpAddr = "239.255.77.38".parse().unwrap();
    let (scratch, to) = (Scratch::new("sdp"), SocketAddr::new(group, port));
    let config = format!(
        "{HASTE}[demo]\nenabled = true\nsize = '320x240'\nframe_rate = 25\nbitrate = '500k'\n\
         [stream.demo]\noutputs = ['rtp+sdp://{to}?sdp=out.sdp&interface=lo&source=127.0.0.1&ttl=1']\n\
         [stream.far]\nsource = 'rtp:out.sdp?interface=lo'\n"
    );
    let server = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", config)]);
    live(&server, "far");
    let text = std::fs::read_to_string(scratch.file("out.sdp")).unwrap();
    assert!(
        text.contains(&format!("c=IN IP4 {group}/1")) && text.contains("a=source-filter: incl IN IP4"),
        "{text}"
    );
    let (seen, said) = pictures(&["-i", &server.url("/live/far.ts")], Some(2));
    assert!(seen.len() >= 40, "{} {said}", seen.len());
}
