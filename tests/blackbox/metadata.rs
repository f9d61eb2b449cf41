//! KLV metadata and cues of SCTE 35 beside the pictures: they go through every way on which MPEG-TS goes through, byte by byte, and
//! are timed metadata of HLS and DASH.

use crate::link::said;
use crate::{GLASSLINE, glassline};
use glassline_media::bitstream::klv::uas;
use glassline_media::container::cmaf;
use glassline_media::container::ts::{DataKind, DataWriter};
use glassline_test_support::beside::{self, PLACEMENT_START, only, with_data};
use glassline_test_support::http::{connect, get, publish, read_head};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::synthetic::PICTURE_TICKS;
use glassline_test_support::wait::{PATIENCE, until, until_some};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

const KLV: u16 = 0x1f0;
const CUES: u16 = 0x1f1;
/// The time that the cue announces.
const CUE_PTS: i64 = 0x0_72bd_0050;

/// What the drone says at a picture.
fn set(number: usize) -> Vec<u8> {
    let set = uas::Set {
        time_micros: Some(1_700_000_000_000_000 + number as u64 * 40_000),
        mission: Some("hill".to_owned()),
        latitude_deg: Some(47.5),
        longitude_deg: Some(8.25),
        altitude_m: Some(512.0),
        ..uas::Set::default()
    };
    set.write()
}

/// Four seconds of pictures with a set each fifth picture, asynchronous and without time stamps, and a cue at picture 30, sent twice,
/// for picture 60. The metadata stand first in the map, which says that the clock is on KLV's PID, where there is none.
fn film() -> Vec<u8> {
    let plain = beside::film(CUE_PTS - 90_000 - 60 * PICTURE_TICKS);
    let mut klv = DataWriter::new(KLV, DataKind::Klv { synchronous: false });
    let mut cues = DataWriter::new(CUES, DataKind::Splice);
    let streams = [klv.announced(), cues.announced()];
    with_data(&plain, &streams, Some(KLV), &mut |number, _, out| {
        if number % 5 == 0 {
            klv.write(&set(number), None, out);
        }
        if number == 30 || number == 35 {
            cues.write(PLACEMENT_START, None, out);
        }
    })
}

fn watch(server: &Server, name: &str) -> TcpStream {
    let mut viewer = connect(server.address());
    viewer.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(viewer, "GET /live/{name}.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    viewer
}

/// Reads until the last packets of `sent` on the metadata's PIDs have come, all of those from somewhere on, and returns how many.
fn see(mut read: impl FnMut(&mut [u8]) -> usize, sent: &[u8]) -> usize {
    let sent = only(sent, &[KLV, CUES]);
    let last = &sent[sent.len() - 188..];
    let (mut got, mut buffer) = (Vec::new(), vec![0; 65_536]);
    while !got.ends_with(last) {
        let count = read(&mut buffer);
        assert!(count > 0, "the stream ends early");
        got.extend_from_slice(&only(&buffer[..count], &[KLV, CUES]));
    }
    assert!(sent.ends_with(&got), "other bytes than were sent");
    got.len() / 188
}

/// Reads whole packets of a viewer's stream.
fn packets(viewer: &mut TcpStream, buffer: &mut [u8]) -> usize {
    viewer.read_exact(&mut buffer[..188]).unwrap();
    188
}

#[test]
fn metadata_go_through_http_srt_and_udp_byte_by_byte() {
    let scratch = Scratch::new("metadata-ways");
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let text = format!(
        "[publish]\nsilence_timeout = '1m'\n[srt]\nlisten = ['127.0.0.1:0']\nlatency = '20ms'\n[stream.drone]\noutputs = ['udp://{}']\n",
        receiver.local_addr().unwrap()
    );
    let mut first = Server::start(GLASSLINE, &["--config", &scratch.write("first.toml", text)]);
    let srt = said(&mut first.process, "SRT is served address=");
    let text = format!("[stream.drone]\nsource = 'srt://{srt}?streamid=read:drone&latency=20'\n");
    let second = Server::start(GLASSLINE, &["--config", &scratch.write("second.toml", text)]);
    let film = film();
    // Ten pictures behind a key frame.
    let part = film.len() / 188 * 6 / 10 * 188;
    let mut publisher = publish(first.address(), "/live/drone.ts");
    publisher.write_all(&film[..part]).unwrap();
    first.wait_for_pictures("drone");
    until("the second server at the first one", || {
        first.stream("drone").and_then(|stream| stream["peers"].as_array().map(|peers| !peers.is_empty()))
            == Some(true)
    });
    let mut near = watch(&first, "drone");
    // Five pictures behind the next key frame, which the second server shows.
    let later = film.len() / 188 * 8 / 10 * 188;
    publisher.write_all(&film[part..later]).unwrap();
    second.wait_for_pictures("drone");
    let mut far = watch(&second, "drone");
    publisher.write_all(&film[later..]).unwrap();
    let wanted = |from: usize| only(&film[from..], &[KLV, CUES]).len() / 188;
    assert!(see(|buffer| packets(&mut near, buffer), &film) >= wanted(part), "HTTP");
    assert!(see(|buffer| packets(&mut far, buffer), &film) >= wanted(later), "SRT, then HTTP");
    let _ = see(|buffer| receiver.recv(buffer).unwrap(), &film);
}

#[test]
fn metadata_are_events_and_date_ranges_of_the_segmented_stream() {
    let scratch = Scratch::new("metadata-segments");
    let config =
        "[publish]\nsilence_timeout = '1m'\n[package]\non_demand = false\nsegment = '1s'\npart = '200ms'\n";
    let server = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", config)]);
    let mut publisher = publish(server.address(), "/live/drone.ts");
    publisher.write_all(&film()).unwrap();
    let media = until_some("three segments", || {
        let answer = get(server.address(), "/live/drone/video.m3u8");
        (answer.status == 200 && answer.text().matches("#EXTINF").count() >= 3).then(|| answer.text())
    });
    let ranges: Vec<_> = media.lines().filter(|line| line.starts_with("#EXT-X-DATERANGE:")).collect();
    assert_eq!(ranges.len(), 1, "{media}");
    assert!(ranges[0].contains("ID=\"segmentation-1207959694-34-"), "{}", ranges[0]);
    assert!(ranges[0].contains(",PLANNED-DURATION=307.000,SCTE35-OUT=0xFC303400"), "{}", ranges[0]);
    // It begins 60 pictures behind the first segment.
    let dates: Vec<_> =
        media.lines().filter_map(|line| line.strip_prefix("#EXT-X-PROGRAM-DATE-TIME:")).collect();
    let third = dates[2].split('T').nth(1).unwrap();
    let start = ranges[0].split("START-DATE=\"").nth(1).unwrap().split('T').nth(1).unwrap();
    let seconds = |text: &str| text[6..12].parse::<f64>().unwrap();
    let behind = (seconds(start) - seconds(third)).rem_euclid(60.0);
    assert!((behind - 0.4).abs() < 0.002, "{start} and {third}");

    let init = media.split("#EXT-X-MAP:URI=\"").nth(1).unwrap().split('"').next().unwrap();
    let mut reader = cmaf::Reader::new();
    reader.push(&get(server.address(), &format!("/live/drone/{init}")).body).unwrap();
    for segment in media.lines().filter(|line| !line.starts_with('#')) {
        reader.push(&get(server.address(), &format!("/live/drone/{segment}")).body).unwrap();
    }
    let (mut klv, mut cues) = (Vec::new(), Vec::new());
    while let Some(event) = reader.poll() {
        match event {
            cmaf::Event::Message(event) if event.scheme_id_uri == "urn:misb:KLV:bin:1910.1" => {
                klv.push(event);
            }
            cmaf::Event::Message(event) if event.scheme_id_uri == "urn:scte:scte35:2013:bin" => {
                cues.push(event);
            }
            _ => {}
        }
    }
    assert!(klv.len() >= 13 && klv.iter().all(|event| event.value == "KLV0:01BD"), "{}", klv.len());
    assert!(klv.iter().any(|event| event.message_data == set(40)));
    assert_eq!(cues.len(), 2);
    assert!(cues.iter().all(|cue| cue.message_data == PLACEMENT_START && cue.id == cues[0].id));
    let expected = cmaf::EventTime::At(60 * PICTURE_TICKS as u64);
    assert_eq!((cues[0].presentation_time, cues[0].timescale), (expected, 90_000));

    let manifest = get(server.address(), "/live/drone/manifest.mpd").text();
    for stream in
        ["\"urn:misb:KLV:bin:1910.1\" value=\"KLV0:01BD\"", "\"urn:scte:scte35:2013:bin\" value=\"497\""]
    {
        assert!(manifest.contains(&format!("<InbandEventStream schemeIdUri={stream}/>")), "{manifest}");
    }
    // FFmpeg's and others' segments of MPEG-TS are the stream's own bytes.
    let listed = get(server.address(), "/live/drone/ts.m3u8").text();
    let one = listed.lines().find(|line| !line.starts_with('#')).unwrap();
    let bytes = get(server.address(), &format!("/live/drone/{one}")).body;
    assert!(!only(&bytes, &[KLV]).is_empty(), "{listed}");
}

#[test]
fn probe_tells_sets_positions_and_cues() {
    let scratch = Scratch::new("metadata-probe");
    let file = scratch.write("drone.ts", film());
    let shown = glassline(&["probe", &file]);
    assert_eq!(shown.status, Some(0), "{}", shown.stderr);
    let text = shown.text();
    for line in [
        "Data on PID 496: KLV metadata",
        "060e2b34020b01010e01030101000000, UAS datalink local set (ST 0601): 20",
        "hill",
        "47.500000, 8.250000, 512.0 m",
        "2023-11-14T22:13:23.800000Z",
        "Data on PID 497: SCTE 35 cues",
        "time_signal at PTS 21388.766 s; provider placement opportunity start (segmentation 1207959694), for 307.000 s, \
         UPID 8 0x000000002ca0a18a (2 times)",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    let report = glassline(&["probe", &file, "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let data = &report["streams"][0]["data"];
    assert_eq!((&data["format"], &data["synchronous"]), (&"klv".into(), &false.into()), "{report}");
    let rate = data["units_per_s"].as_f64().unwrap();
    assert!((rate - 5.05).abs() < 0.1, "{rate}");
    assert_eq!(report["streams"][1]["data"]["cues"][0]["times"], 2, "{report}");
    assert_eq!(report["errors"]["damaged_data"], 0);
}
