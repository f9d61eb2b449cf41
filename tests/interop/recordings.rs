//! Recordings in a folder, as a server writes them, of what FFmpeg makes.

use glassline_delivery::archive::index::{PartWriter, RecordedSegment, crc32c};
use glassline_delivery::archive::names::{Session, SessionObject, StoredObject};
use glassline_delivery::packager::{Demultiplexer, Event, Packager, RenditionName, Settings};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Mux;
use glassline_media::Utc;
use glassline_test_support::program::run;
use std::collections::BTreeMap;
use std::path::Path;

/// A transport stream of pictures with a key frame each second, and of sound, by FFmpeg.
pub(crate) fn transport_stream(seconds: u32, options: &str) -> Vec<u8> {
    made(seconds, "320x180", &format!("{options} -c:a aac"))
}

/// The same of this size, with the codec of sound among the options.
pub(crate) fn made(seconds: u32, size: &str, options: &str) -> Vec<u8> {
    let arguments = format!(
        "-v error -f lavfi -i testsrc2=size={size}:rate=25 -f lavfi -i sine=frequency=440:sample_rate=48000 -t {seconds} \
         -c:v libx264 -preset ultrafast -g 25 {options} -ac 2 -f mpegts -"
    );
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let made = run("ffmpeg", &arguments, 120);
    assert_eq!((made.status, made.stderr.as_str()), (Some(0), ""));
    made.stdout
}

/// What a packager made of a stream.
struct Packaged {
    packager: Packager,
    inits: BTreeMap<(RenditionName, u32), Vec<u8>>,
    segments: BTreeMap<(RenditionName, u64), Vec<u8>>,
}

impl Packaged {
    fn drain(&mut self) {
        while let Some(event) = self.packager.poll() {
            match event {
                Event::Init { rendition, number, bytes } => {
                    self.inits.insert((rendition, number), bytes.to_vec());
                }
                Event::Chunk { rendition, segment, bytes, .. } => {
                    self.segments.entry((rendition, segment)).or_default().extend_from_slice(&bytes);
                }
                _ => {}
            }
        }
    }
}

/// Writes a recording of the stream `name` that began then into the store `folder`; a discontinuity lies between `streams`.
pub(crate) fn record(folder: &Path, name: &str, begun: Utc, streams: &[&[u8]]) -> Session {
    let window = std::time::Duration::from_secs(3600 * 24);
    let settings = Settings { window, ..Settings::default() };
    let (inits, segments) = Default::default();
    let mut packaged = Packaged { packager: Packager::new(settings), inits, segments };
    let mut now = begun;
    for stream in streams {
        let mut demux = Demultiplexer::new(Mux::MpegTs);
        let mut first = None;
        for piece in stream.chunks(188 * 7) {
            demux.push(piece, None);
            while let Some(input) = demux.poll() {
                // What comes in does so at its own time.
                let reached = demux.reached();
                packaged.packager.handle_input(input, now, reached);
            }
            packaged.drain();
            let listed = packaged.packager.presentation().renditions().first();
            let last = listed.and_then(|it| it.complete().next_back().map(|segment| segment.end_date_time()));
            first = first.or(last);
            now = last.map_or(now, |last| last.max(now));
        }
        demux.finish();
        while let Some(input) = demux.poll() {
            packaged.packager.handle_input(input, now, demux.reached());
        }
        packaged.packager.discontinuity(now, demux.reached());
        packaged.drain();
    }
    packaged.packager.finish(now, 0);
    packaged.drain();
    write(folder, name, begun, &packaged)
}

fn write(folder: &Path, name: &str, begun: Utc, packaged: &Packaged) -> Session {
    let (name, session) = (StreamName::parse(name).unwrap(), Session::new(begun));
    let put = |object: SessionObject, bytes: &[u8]| {
        let path = folder.join(StoredObject { name: name.clone(), session, object }.to_string());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    for ((rendition, number), bytes) in &packaged.inits {
        put(SessionObject::Init { rendition: *rendition, number: *number }, bytes);
    }
    let mut part = PartWriter::new(&name, session, 0);
    let (mut number, mut end) = (0, begun);
    for rendition in packaged.packager.presentation().renditions() {
        for segment in rendition.complete() {
            let Some(bytes) = packaged.segments.get(&(rendition.name(), segment.number)) else { continue };
            let told = RecordedSegment {
                number: segment.number,
                epoch: segment.epoch,
                start: segment.start,
                duration: segment.duration,
                utc: segment.program_date_time,
                captured: segment.captured,
                independent: segment.independent,
                bytes: bytes.len() as u64,
                crc32c: crc32c(bytes),
                key_frames: segment.key_frames.clone(),
            };
            end = end.max(segment.end_date_time());
            part.add_segment(rendition.name(), rendition.track_in(segment.epoch).unwrap(), &told);
            put(SessionObject::Segment { rendition: rendition.name(), segment: segment.number }, bytes);
            if part.is_full() {
                put(SessionObject::Index { part: number }, &part.finish());
                number += 1;
                part = PartWriter::new(&name, session, number);
            }
        }
    }
    part.end(end);
    put(SessionObject::Index { part: number }, &part.finish());
    session
}
