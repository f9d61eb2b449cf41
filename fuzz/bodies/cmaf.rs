//! Fragmented MP4 and CMAF from a hostile publisher: the first byte says how the rest is chopped; what was read is made into
//! access units, and written and read again.

use glassline_media::container::cmaf::{
    Brand, Chunk, Event, ReadError, ReadRun, ReadTrack, Reader, Run, Sample, Track, write_chunk, write_event,
    write_init,
};

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, wire)) = data.split_first() else { return };
    let (events, error) = read(wire, wire.len().max(1));
    assert_eq!(read(wire, 1 + usize::from(choice)), (events.clone(), error), "any chop tells the same");
    let (mut tracks, mut given_bytes) = (Vec::new(), 0);
    for event in events {
        match event {
            Event::Init(found) => tracks = found,
            Event::SegmentType(brands) => assert!(!brands.is_empty()),
            Event::Message(message) => {
                let mut again = b"\0\0\0\x08ftyp".to_vec();
                write_event(&message, &mut again);
                assert_eq!(read(&again, again.len()).0, [Event::Message(message)]);
            }
            Event::Chunk(chunk) => {
                for run in &chunk.runs {
                    let track = tracks.iter().find(|track| track.id == run.track_id).expect("it was told");
                    given_bytes += units(track, run);
                }
                write_again(&tracks, &chunk);
            }
            _ => {}
        }
    }
    assert!(given_bytes <= wire.len(), "no byte is given twice");
}

/// The events, and the error.
fn read(wire: &[u8], chop: usize) -> (Vec<Event>, Option<ReadError>) {
    let (mut reader, mut events) = (Reader::new(), Vec::new());
    for part in wire.chunks(chop) {
        let pushed = reader.push(part);
        events.extend(std::iter::from_fn(|| reader.poll()));
        if let Err(error) = pushed {
            assert!(!error.to_string().is_empty());
            return (events, Some(error));
        }
    }
    (events, None)
}

/// Makes access units of a run's samples. Returns how many bytes these have.
fn units(track: &ReadTrack, run: &ReadRun) -> usize {
    assert_eq!(run.decode_time, run.samples[0].decode_time);
    for sample in &run.samples {
        assert!(!sample.data.is_empty());
        if let Ok(unit) = track.to_unit(sample) {
            assert_eq!(Some(unit.codec), track.codec());
            assert!(!unit.data.is_empty());
        }
    }
    run.samples.iter().map(|sample| sample.data.len()).sum()
}

/// What is written of a chunk is read again, where the tracks can be written.
fn write_again(tracks: &[ReadTrack], chunk: &Chunk) {
    let known = tracks.iter().filter_map(|track| {
        let media = track.media.clone()?;
        Some(Track { id: track.id, media })
    });
    let known: Vec<Track> = known.collect();
    let mut out = Vec::new();
    write_init(Brand::File, &known, &mut out);
    for run in chunk.runs.iter().filter(|run| known.iter().any(|track| track.id == run.track_id)) {
        let samples: Vec<Sample> = run
            .samples
            .iter()
            .map(|sample| Sample {
                bytes: sample.data.len() as u32,
                duration: sample.duration,
                composition_offset: sample.composition_offset as i32,
                is_sync: sample.is_sync(),
                roll: 0,
            })
            .collect();
        let data: Vec<u8> = run.samples.iter().flat_map(|sample| &sample.data[..]).copied().collect();
        let written =
            Run { track_id: run.track_id, decode_time: run.decode_time, samples: &samples, data: &data };
        let mut file = out.clone();
        write_chunk(chunk.sequence, None, &[written], &mut file);
        let (events, error) = read(&file, file.len());
        assert_eq!(error, None);
        let Some(Event::Chunk(again)) = events.last() else { panic!("a chunk was written") };
        assert_eq!((again.sequence, again.runs.len()), (chunk.sequence, 1));
        let again = again.runs[0].samples.iter().map(|sample| &sample.data);
        assert!(again.eq(run.samples.iter().map(|sample| &sample.data)));
    }
}
