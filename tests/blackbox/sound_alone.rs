//! A stream of sound without pictures: its viewers have no key frame to wait for, and its playlists have sound alone. And a
//! publisher that comes back with another program: with pictures, then with sound alone.

use crate::serve;
use bytes::Bytes;
use glassline_media::access_unit::{AccessUnit, Codec};
use glassline_media::container::ts::{AudioFormat, Demuxer, Event, MuxSettings, Muxer};
use glassline_media::{Stamps, Ticks};
use glassline_test_support::http::{get, publish, read_head};
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::net::TcpStream;

/// A packet of Opus of 20 ms (CELT, fullband).
const OPUS: &[u8] = &[0xfc, 1, 2, 3, 4, 5, 6, 7];
const STEP: i64 = 1800;

/// The first unit's time; each publisher begins at another minute, by which its units are told.
fn begin(publisher: i64) -> i64 {
    90_000 * (1 + 60 * publisher)
}

fn unit(codec: Codec, number: i64, data: &'static [u8]) -> AccessUnit {
    let pts = Ticks(number * STEP);
    AccessUnit {
        codec,
        data: Bytes::from_static(data),
        pts,
        dts: pts,
        random_access: true,
        stamps: Stamps::default(),
    }
}

/// `count` packets of sound of a publisher, in a program of their own.
fn sound(publisher: i64, count: i64) -> Vec<u8> {
    let audio = Some(AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None });
    let mut muxer = Muxer::new(MuxSettings { audio, ..MuxSettings::default() }).unwrap();
    let mut bytes = Vec::new();
    let first = begin(publisher) / STEP;
    for number in first..first + count {
        muxer.write(&unit(Codec::Opus, number, OPUS), &mut bytes).unwrap();
    }
    bytes
}

/// The same with a picture to each packet of sound.
fn pictures_and_sound(publisher: i64, count: i64) -> Vec<u8> {
    const PICTURE: &[u8] = &[
        0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x20, 0xd9, 0x00, 0x50, 0x05, 0xbb, 0x01, 0x6a, 0x02, 0x02, 0x02, 0x80,
        0, 0, 3, 0, 0x80, 0, 0, 0x32, 0x07, 0x8c, 0x19, 0x24, 0, 0, 0, 1, 0x68, 0xcb, 0x8c, 0xb2, 0, 0, 0, 1,
        0x65, 0x88, 0x84, 0x55,
    ];
    let audio = Some(AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None });
    let settings = MuxSettings { video: Some(Codec::H264), audio, ..MuxSettings::default() };
    let (mut muxer, mut bytes) = (Muxer::new(settings).unwrap(), Vec::new());
    let first = begin(publisher) / STEP;
    for number in first..first + count {
        muxer.write(&unit(Codec::H264, number, PICTURE), &mut bytes).unwrap();
        muxer.write(&unit(Codec::Opus, number, OPUS), &mut bytes).unwrap();
    }
    bytes
}

/// A viewer, and what it has of the stream.
struct Viewer {
    stream: TcpStream,
    demuxer: Demuxer,
}

impl Viewer {
    fn join(server: &glassline_test_support::program::Server, path: &str) -> Viewer {
        let mut stream = glassline_test_support::http::connect(server.address());
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        assert_eq!(read_head(&mut stream).status, 200);
        Viewer { stream, demuxer: Demuxer::new() }
    }

    /// Reads until a unit of this codec and publisher has come; fails where nothing comes for long.
    fn reads(&mut self, codec: Codec, publisher: i64) {
        let times = begin(publisher)..begin(publisher + 1);
        let mut buffer = [0; 4096];
        loop {
            while let Some(event) = self.demuxer.poll() {
                let is_its = |unit: &AccessUnit| unit.codec == codec && times.contains(&unit.pts.0);
                if matches!(&event, Event::AccessUnit { unit, .. } if is_its(unit)) {
                    return;
                }
            }
            let read = self.stream.read(&mut buffer).unwrap();
            assert!(read > 0, "the answer ended before {codec:?} came");
            self.demuxer.push(&buffer[..read]);
        }
    }
}

#[test]
fn a_viewer_of_sound_alone_joins_at_once() {
    let server = serve(&[]);
    let mut publisher = publish(server.address(), "/live/radio.ts");
    let bytes = sound(0, 100);
    publisher.write_all(&bytes).unwrap();
    until("all of the sound", || server.count("radio", "bytes_in") == bytes.len() as u64);
    // The publisher sends nothing more: what comes is what there was.
    Viewer::join(&server, "/live/radio.ts").reads(Codec::Opus, 0);
}

#[test]
fn playlists_of_sound_alone_have_sound_alone() {
    let server = serve(&[]);
    let mut publisher = publish(server.address(), "/live/radio.ts");
    publisher.write_all(&sound(0, 400)).unwrap();
    until("the sound", || server.count("radio", "bytes_in") > 0);
    let index = get(server.address(), "/live/radio/index.m3u8");
    assert_eq!(index.status, 200, "{}", index.text());
    let index = index.text();
    assert!(index.contains("CODECS=\"opus\"") && index.contains("audio.m3u8"), "{index}");
    assert!(!index.contains("video.m3u8") && !index.contains("RESOLUTION"), "{index}");
    let manifest = get(server.address(), "/live/radio/manifest.mpd").text();
    assert!(manifest.contains("audio/mp4") && !manifest.contains("video/mp4"), "{manifest}");
    until("a part", || get(server.address(), "/live/radio/audio.m3u8").text().contains("#EXT-X-PART:"));
}

#[test]
fn a_viewer_stays_where_the_publisher_comes_back_without_pictures_and_with_them_again() {
    let server = serve(&[]);
    let mut publisher = publish(server.address(), "/live/hall.ts");
    publisher.write_all(&pictures_and_sound(0, 50)).unwrap();
    until("the pictures", || server.count("hall", "bytes_in") > 0);
    let mut viewer = Viewer::join(&server, "/live/hall.ts");
    viewer.reads(Codec::H264, 0);
    for (number, bytes, codec) in
        [(1, sound(1, 50), Codec::Opus), (2, pictures_and_sound(2, 50), Codec::H264)]
    {
        drop(publisher);
        until("the publisher to be gone", || server.stream("hall").unwrap()["live"] == false);
        publisher = publish(server.address(), "/live/hall.ts");
        publisher.write_all(&bytes).unwrap();
        viewer.reads(codec, number);
    }
}
