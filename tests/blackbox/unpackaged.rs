//! Streams of which nothing can be packaged: their playlists say so at once, and their bytes go on as they are. And streams
//! of which nothing comes.

use crate::{GLASSLINE, serve};
use glassline_media::container::ts::{PACKET_BYTES, psi};
use glassline_test_support::http::{get, publish};
use glassline_test_support::program::{Scratch, Server, left_out, run};
use glassline_test_support::wait::until;
use std::io::Write;

const VIDEO: u16 = 0x100;

/// PAT, PMT and pictures of MPEG-2 video, each an intra picture in one packet.
fn stream_of_mpeg_2(pictures: u8) -> Vec<u8> {
    let (mut pat, mut pmt, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    psi::Pat { transport_stream_id: 1, version: 0, current: true, programs: vec![(1, 0x1000)] }
        .write(&mut pat);
    let streams = vec![psi::ElementaryStream::new(VIDEO, 0x02, Vec::new())];
    psi::Pmt { program_number: 1, version: 0, current: true, pcr_pid: VIDEO, streams }.write(&mut pmt);
    psi::write_packets(0, &pat, &mut 0, &mut bytes);
    psi::write_packets(0x1000, &pmt, &mut 0, &mut bytes);
    for number in 0..pictures {
        let start = bytes.len();
        bytes.extend([0x47, 0x40 | (VIDEO >> 8) as u8, VIDEO as u8, 0x10 | number & 15]);
        bytes.extend([0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, number << 1, 1]);
        // Sequence header, picture header (type I), slice (13818-2 §6.2).
        bytes.extend([0, 0, 1, 0xb3, 0x02, 0x80, 0x1e, 0x13, 0, 0, 1, 0, 0, 0x0f, 0, 0, 1, 1, 9]);
        bytes.resize(start + PACKET_BYTES, 0x33);
    }
    bytes
}

#[test]
fn what_is_open_of_a_part_is_there_soon_after_a_publisher_stalls() {
    let config = "[package]\non_demand = false\nsegment = '1s'\npart = '200ms'\n";
    let scratch = Scratch::new("stalled");
    let server = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", config)]);
    let file = scratch.file("a.ts");
    let arguments = "encode test:160x90@25 --keyint 1s --duration 2880ms --preset ultrafast --audio none";
    let arguments: Vec<&str> = arguments.split_whitespace().chain([file.as_str()]).collect();
    // The test pattern is live: of a picture that a busy machine leaves out, the parts would have other lengths.
    until("a film without a gap", || {
        let made = run(GLASSLINE, &arguments, 60);
        assert_eq!(made.status, Some(0), "{}", made.stderr);
        left_out(&made.stderr) == 0
    });
    let mut publisher = publish(server.address(), "/live/a.ts");
    publisher.write_all(&std::fs::read(&file).unwrap()).unwrap();
    // Two pictures behind four parts of five, and nothing that would end the fifth.
    until("the last two pictures", || {
        get(server.address(), "/live/a/video.m3u8").text().contains("#EXT-X-PART:DURATION=0.080000")
    });
    assert!(server.stream("a").unwrap()["live"].as_bool().unwrap());
}

#[test]
fn playlists_of_what_cannot_be_packaged_say_so_at_once() {
    let server = serve(&[]);
    let mut publisher = publish(server.address(), "/live/a.ts");
    publisher.write_all(&stream_of_mpeg_2(12)).unwrap();
    until("the stream", || server.count("a", "bytes_in") > 0);
    // The first request begins the packaging, and waits until the program is known; the second one finds that.
    for asked in ["index.m3u8", "manifest.mpd", "video.m3u8", "index.m3u8"] {
        let answer = get(server.address(), &format!("/live/a/{asked}"));
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (406, Some("application/problem+json")),
            "{asked}"
        );
        let problem = answer.json();
        assert_eq!(problem["tracks"][0]["codec"], "MPEG-2 video", "{problem}");
        assert_eq!(problem["tracks"][0]["pid"], u64::from(VIDEO), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("H.264"), "{problem}");
    }
}
