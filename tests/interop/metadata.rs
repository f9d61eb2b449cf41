//! KLV metadata of a stream that went through the server, as FFmpeg reads it out; and KLV that FFmpeg has muxed.

use crate::{GLASSLINE, have};
use glassline_media::bitstream::klv::{self, uas};
use glassline_media::container::ts::{DataKind, DataWriter};
use glassline_test_support::beside::{PLACEMENT_START, film, only, with_data};
use glassline_test_support::http::{connect, get, publish, read_head};
use glassline_test_support::program::{Scratch, Server, run};
use glassline_test_support::wait::{PATIENCE, until};
use std::io::{Read, Write};
use std::process::Command;

const KLV: u16 = 0x1f0;
const CUES: u16 = 0x1f1;

fn set(number: usize) -> Vec<u8> {
    uas::Set { time_micros: Some(number as u64), ..uas::Set::default() }.write()
}

#[test]
fn ffmpeg_reads_the_klv_that_went_through_and_what_it_muxes_is_read() {
    if !have("ffmpeg_reads_the_klv_that_went_through_and_what_it_muxes_is_read", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("klv-ffmpeg");
    for synchronous in [false, true] {
        let mut writer = DataWriter::new(KLV, DataKind::Klv { synchronous });
        let streams = [writer.announced()];
        let sent = with_data(&film(0), &streams, None, &mut |number, pts, out| {
            if number % 5 == 0 {
                writer.write(&set(number), Some(pts), out);
            }
        });
        let server = Server::start(GLASSLINE, &[]);
        // Ten pictures behind a key frame.
        let part = sent.len() / 188 * 6 / 10 * 188;
        let mut publisher = publish(server.address(), "/live/drone.ts");
        publisher.write_all(&sent[..part]).unwrap();
        server.wait_for_pictures("drone");
        let mut viewer = connect(server.address());
        viewer.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(viewer, "GET /live/drone.ts HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        assert_eq!(read_head(&mut viewer).status, 200);
        publisher.write_all(&sent[part..]).unwrap();
        let metadata = only(&sent, &[KLV]);
        let last = &metadata[metadata.len() - 188..];
        let mut received = Vec::new();
        while !received.ends_with(last) {
            let mut packet = [0; 188];
            viewer.read_exact(&mut packet).unwrap();
            received.extend_from_slice(&packet);
        }
        let through = scratch.write("through.ts", &received);

        let kind = ["-v", "quiet", "-show_entries", "stream=codec_name", "-of", "csv=p=0", &through];
        let codecs = run("ffprobe", &kind, 60).text();
        assert!(codecs.lines().any(|line| line == "klv"), "{codecs}");
        let out = scratch.file("out.klv");
        let made = run(
            "ffmpeg",
            &["-v", "error", "-y", "-i", &through, "-map", "0:d", "-c", "copy", "-f", "data", &out],
            60,
        );
        assert_eq!(made.status, Some(0), "{}", made.stderr);
        let read = std::fs::read(&out).unwrap();
        let found: Vec<_> = klv::packets(&read).filter_map(|packet| uas::Set::parse(&packet)).collect();
        assert!(found.len() >= 9, "{} sets, synchronous: {synchronous}", found.len());
        assert!(found.iter().all(|set| set.checksum_right == Some(true)));

        // Muxed again by FFmpeg, which gives asynchronous KLV a time stamp.
        let again = scratch.file("again.ts");
        let arguments =
            ["-v", "error", "-y", "-i", &through, "-map", "0", "-c", "copy", "-f", "mpegts", again.as_str()];
        assert_eq!(run("ffmpeg", &arguments, 60).status, Some(0));
        let report = run(GLASSLINE, &["probe", &again, "--json"], 60);
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
        let data: Vec<_> =
            report["streams"].as_array().unwrap().iter().filter(|one| !one["data"].is_null()).collect();
        assert_eq!(data.len(), 1, "{report}");
        assert!(data[0]["units"].as_u64().unwrap() >= 9, "{report}");
        assert_eq!(data[0]["data"]["drone"]["checksums_wrong"], 0, "{report}");
    }
}

#[test]
fn manifests_with_streams_of_events_keep_the_schema() {
    if !have("manifests_with_streams_of_events_keep_the_schema", &["xmllint"]) {
        return;
    }
    let scratch = Scratch::new("events-schema");
    let config = "[package]\non_demand = false\nsegment = '1s'\npart = '200ms'\n";
    let server = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", config)]);
    let mut klv = DataWriter::new(KLV, DataKind::Klv { synchronous: true });
    let mut cues = DataWriter::new(CUES, DataKind::Splice);
    let streams = [klv.announced(), cues.announced()];
    let sent = with_data(&film(0), &streams, None, &mut |number, pts, out| {
        klv.write(&set(number), Some(pts), out);
        if number == 30 {
            cues.write(PLACEMENT_START, None, out);
        }
    });
    let mut publisher = publish(server.address(), "/live/drone.ts");
    publisher.write_all(&sent).unwrap();
    for name in ["manifest.mpd", "timeline.mpd"] {
        let address = format!("/live/drone/{name}");
        until("the manifest", || get(server.address(), &address).status == 200);
        let manifest = get(server.address(), &address);
        assert_eq!(manifest.text().matches("<InbandEventStream ").count(), 2, "{}", manifest.text());
        let file = scratch.write("manifest.mpd", &manifest.body);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/interop/dash");
        let mut command = Command::new("xmllint");
        command.env("XML_CATALOG_FILES", format!("{folder}/catalog.xml"));
        command.args(["--noout", "--nonet", "--schema", &format!("{folder}/DASH-MPD.xsd"), &file]);
        let checked = command.output().unwrap();
        assert!(checked.status.success(), "{name}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}
