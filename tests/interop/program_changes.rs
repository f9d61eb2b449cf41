//! A stream whose program changes in mid-stream: first its PMT lists other PIDs, then the PMT lies elsewhere as well.
//! FFmpeg writes the parts and judges what viewers get of them through the relay.

use crate::{GLASSLINE, have};
use glassline_test_support::http::read_once;
use glassline_test_support::http::{connect, publish, read_head};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// Of each part; a key frame each half of them.
const PICTURES: usize = 50;
/// Pictures that FFmpeg holds back at most until more comes: one in its parser, others in its decoder.
const HELD_BACK: usize = 10;

/// How FFmpeg numbers each part's PIDs: PMT 0x1000, then video and sound from these on; the last has its PMT at 0x1100.
const NUMBERS: [&str; 3] = [
    "-mpegts_start_pid 0x100 -tables_version 0",
    "-mpegts_start_pid 0x200 -tables_version 1",
    "-mpegts_start_pid 0x300 -mpegts_pmt_start_pid 0x1100 -tables_version 2",
];

/// A part, whose stamps follow those of the part before it. Pictures say how long they are, so that the last of a PID
/// is known to be whole.
fn part(index: usize, file: &str) -> Vec<u8> {
    let inputs = "-f lavfi -i testsrc2=size=320x180:rate=25 -f lavfi -i sine=sample_rate=48000 -t 2";
    let coding = "-c:v libx264 -preset ultrafast -g 25 -bf 0 -c:a aac -muxdelay 0 -muxpreload 0";
    let words = format!(
        "-v error -y {inputs} {coding} -output_ts_offset {} -omit_video_pes_length 0 {} -f mpegts {file}",
        10 + 2 * index,
        NUMBERS[index]
    );
    let outcome = run("ffmpeg", &words.split(' ').collect::<Vec<_>>(), 120);
    assert_eq!((outcome.status, outcome.stderr.trim()), (Some(0), ""));
    std::fs::read(file).unwrap()
}

/// Counters as one multiplexer would have them over all parts.
fn count_on(parts: &mut [Vec<u8>]) {
    let mut next = BTreeMap::new();
    for packet in parts.iter_mut().flat_map(|part| part.as_chunks_mut::<188>().0) {
        let counter = next.entry((packet[1] & 0x1f, packet[2])).or_insert(0u8);
        packet[3] = packet[3] & 0xf0 | *counter;
        *counter = (*counter + u8::from(packet[3] & 0x10 != 0)) & 0x0f;
    }
}

/// The pictures that FFmpeg's checksums tell, by stream.
fn sums(listed: &str) -> BTreeMap<u32, Vec<String>> {
    let mut sums: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for line in listed.lines().filter(|line| !line.starts_with('#')) {
        let (stream, sum) = (line.split(',').next().unwrap(), line.rsplit(',').next().unwrap());
        sums.entry(stream.trim().parse().unwrap()).or_default().push(sum.trim().to_owned());
    }
    sums
}

/// All pictures of a file's video streams as FFmpeg decodes them, without a word of complaint.
fn decoded(file: &str) -> Vec<Vec<String>> {
    let words = format!(
        "-v warning -probesize 50M -analyzeduration 50M -i {file} -map 0:v -fps_mode passthrough -f framemd5 -"
    );
    let outcome = run("ffmpeg", &words.split(' ').collect::<Vec<_>>(), 120);
    assert_eq!((outcome.status, outcome.stderr.trim()), (Some(0), ""));
    sums(&outcome.text()).into_values().collect()
}

/// FFmpeg as a viewer that ends after so many pictures; one stream that takes other PIDs stays one where the PMT stays
/// in its place.
fn viewer(server: &Server, pictures: usize) -> Running {
    let words = format!(
        "-v warning -threads 1 -merge_pmt_versions 1 -probesize 30000 -i {} -map 0:v -frames:v {pictures} \
         -fps_mode passthrough -flush_packets 1 -f framemd5 -",
        server.url("/live/change.ts")
    );
    Running::start(Command::new("ffmpeg").args(words.split(' ')))
}

/// The lines of FFmpeg's output that stand for pictures, or are complaints.
fn lines(said: &str) -> usize {
    said.lines().filter(|line| !line.starts_with('#')).count()
}

/// The pictures that such a viewer has seen, which is to be all that it says. It is ended then: FFmpeg 7 may wait for its
/// silent input to give more, although it has all that it wants.
fn seen(mut viewer: Running, pictures: usize) -> Vec<String> {
    until("pictures", || lines(&viewer.output()) >= pictures || viewer.ended().is_some());
    viewer.kill();
    let said = viewer.output();
    let seen = sums(&said);
    assert_eq!(lines(&said), pictures, "{said}");
    assert_eq!((seen.len(), seen.values().map(Vec::len).sum()), (1, pictures), "{said}");
    seen.into_values().next().unwrap()
}

/// Reads all that a viewer gets, for as long as the server lives.
fn record(server: &Server) -> Arc<Mutex<Vec<u8>>> {
    let mut stream = connect(server.address());
    stream.write_all(b"GET /live/change.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut stream).status, 200);
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&bytes);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = read_once(&mut stream, &mut buffer) {
            taken.lock().unwrap().extend_from_slice(&buffer[..count]);
        }
    });
    bytes
}

#[test]
fn viewers_go_on_where_the_program_changes_and_others_join_behind() {
    let test = "viewers_go_on_where_the_program_changes_and_others_join_behind";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("program");
    let mut parts: Vec<Vec<u8>> =
        (0..NUMBERS.len()).map(|index| part(index, &scratch.file(&format!("{index}.ts")))).collect();
    let expected: Vec<Vec<String>> =
        (0..parts.len()).map(|index| decoded(&scratch.file(&format!("{index}.ts"))).remove(0)).collect();
    assert!(expected.iter().all(|pictures| pictures.len() == PICTURES));
    count_on(&mut parts);

    // Between the parts nothing is sent for as long as FFmpeg takes.
    let config = scratch.write("glassline.toml", "[publish]\nsilence_timeout = '10m'\n");
    let server = Server::start(GLASSLINE, &["--config", &config]);
    let mut publisher = publish(server.address(), "/live/change.ts");
    let viewers = |count: u64| until("viewers", || server.count("change", "viewers") == count);
    // They are there before the first change, from the first key frame on.
    let (begun, rest) = parts[0].split_at(parts[0].len() / 188 / 4 * 188);
    publisher.write_all(begun).unwrap();
    server.wait_for_pictures("change");
    let recorded = record(&server);
    let through = viewer(&server, 2 * PICTURES - HELD_BACK);
    viewers(2);
    publisher.write_all(rest).unwrap();
    publisher.write_all(&parts[1]).unwrap();
    assert_eq!(
        seen(through, 2 * PICTURES - HELD_BACK),
        [&expected[0][..], &expected[1][..PICTURES - HELD_BACK]].concat()
    );
    viewers(1);

    // Who joins behind a change begins at its part's last key frame.
    let last_group = PICTURES / 2..PICTURES - HELD_BACK;
    assert_eq!(seen(viewer(&server, last_group.len()), last_group.len()), expected[1][last_group.clone()]);
    publisher.write_all(&parts[2]).unwrap();
    let last = parts[2].rchunks(1880).next().unwrap();
    until("the end of the last part", || recorded.lock().unwrap().ends_with(last));
    assert_eq!(seen(viewer(&server, last_group.len()), last_group.len()), expected[2][last_group]);
    let entry = server.stream("change").unwrap();
    assert_eq!((&entry["continuity_errors"], &entry["garbage_bytes"]), (&0.into(), &0.into()), "{entry}");

    // Who was there all the time has every picture, and the counters go on.
    let file = scratch.write("recorded.ts", &*recorded.lock().unwrap());
    assert_eq!(decoded(&file), expected);
    let probe = run(GLASSLINE, &["probe", &file, "--json"], 60);
    assert_eq!(probe.status, Some(0), "{}", probe.stderr);
    let report: Value = serde_json::from_str(&probe.text()).unwrap();
    assert_eq!((&report["clock"]["jumps"], &report["errors"]["continuity_errors"]), (&0.into(), &0.into()));
    let streams = report["streams"].as_array().unwrap();
    let videos = streams.iter().filter(|stream| stream["kind"] == "video");
    let videos: Vec<_> = videos.map(|stream| (stream["pid"].as_u64(), stream["units"].as_u64())).collect();
    assert_eq!(videos, [0x100, 0x200, 0x300].map(|pid| (Some(pid), Some(PICTURES as u64))), "{report}");
}
