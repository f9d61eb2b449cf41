//! FLV, WebM and Ogg from a hostile publisher, up to what viewers and the crew see of them: the file, where viewers may
//! join, which header they get, and the tracks that it names.
//!
//! Three bytes in front choose the container, the chop, and where another publisher takes over.

use glassline_delivery::stream::{
    Backlog, FlushPolicy, Mux, Pacing, Prebuffer, Settings, Stream, StreamError,
};
use glassline_media::Time;
use glassline_media::container::split::{Container, HEADER_MAX_BYTES, Split, Splitter};
use glassline_media::container::tracks::{Track, tracks};
use std::time::Duration;

const SETTINGS: Settings = Settings {
    backlog: Backlog { time: Duration::from_secs(5), bytes: 1 << 20 },
    flush: FlushPolicy::Frame,
    pacing: Pacing::Off,
    prebuffer: Prebuffer::NONE,
};
/// Tracks that are told, and characters of a name or of a codec string.
const TRACKS_MAX: usize = 64;
const NAME_MAX: usize = 40;

/// Carries the bytes. Panics where the chop or a change of process has an influence, where bytes are lost, doubled or
/// invented, where marks lie outside of the file, and where tracks are told without end.
pub fn run(data: &[u8]) {
    let [choice, chop, cut, wire @ ..] = data else { return };
    let container = usize::from(choice % 3);
    let mux = [Mux::Flv, Mux::WebM, Mux::Ogg][container];
    let publishers = wire.split_at(wire.len() * usize::from(*cut) / 256);
    let publishers = [publishers.0, publishers.1];
    let whole = carry(mux, publishers, usize::MAX, false);
    compare(&whole, &carry(mux, publishers, 1 + usize::from(*chop), false), false);
    let container = [Container::Flv, Container::WebM, Container::Ogg][container];
    let may_forget = publishers.iter().any(|wire| headers(container, wire) > 1);
    compare(&whole, &carry(mux, publishers, usize::MAX, true), may_forget);
    // A header that nobody has split.
    check_tracks(&tracks(container, wire), wire.len());
}

/// How often a publisher's header comes: another one may come in its midst.
fn headers(container: Container, wire: &[u8]) -> usize {
    let mut count = 0;
    // What is refused has no more headers.
    let _ = Splitter::new(container)
        .push(wire, &mut |split| count += usize::from(matches!(split, Split::Header(_))));
    count
}

/// What is seen of a stream when a publisher is done.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    /// Bytes in the file so far.
    file: Vec<u8>,
    /// Whether its bytes were refused.
    refused: Option<std::mem::Discriminant<StreamError>>,
    /// Where a viewer begins who comes now, and with what.
    join: Option<(u64, Vec<u8>)>,
    newest_seam: u64,
    tracks: Vec<Track>,
    /// The ends of records behind some offsets.
    record_ends: Vec<u64>,
}

fn carry(mux: Mux, publishers: [&[u8]; 2], chop: usize, restore: bool) -> Vec<Seen> {
    let mut stream = Stream::new(mux, SETTINGS, Time::ZERO);
    let (mut file, mut seen, mut given) = (Vec::new(), Vec::new(), 0);
    for (number, wire) in publishers.into_iter().enumerate() {
        let now = Time::from_millis(20_000 * number as u64);
        stream.begin_session(now);
        let mut refused = None;
        for part in wire.chunks(chop.min(wire.len().max(1))) {
            given += part.len();
            let pushed = stream.push(part, now, &mut |run| file.extend_from_slice(run));
            assert_eq!(stream.head(), file.len() as u64);
            assert!(file.len() <= given, "bytes out of nothing");
            if let Err(error) = pushed {
                refused = Some(std::mem::discriminant(&error));
                break;
            }
        }
        stream.pause(now);
        stream.flushed();
        if restore {
            let saved = serde_json::to_vec(&stream).expect("plain values");
            stream = serde_json::from_slice::<Stream>(&saved).expect("what was saved").restored();
        }
        seen.push(look(&stream, &file, refused));
    }
    seen
}

fn look(stream: &Stream, file: &[u8], refused: Option<std::mem::Discriminant<StreamError>>) -> Seen {
    let head = stream.head();
    assert!(stream.tail() <= head && stream.newest_seam() <= head);
    let join = stream.newest_entry().map(|entry| (entry.offset, entry.prelude(false)));
    let tracks = stream.carried_tracks();
    check_tracks(&tracks, HEADER_MAX_BYTES);
    if let Some((offset, header)) = &join {
        assert!((stream.newest_seam()..=head).contains(offset), "{offset} of {head}");
        assert!(header.len() <= HEADER_MAX_BYTES);
    }
    let mut record_ends = Vec::new();
    for offset in (0..=head).step_by(1 + file.len() / 16) {
        let end = stream.record_end(offset);
        assert!((offset..=head).contains(&end), "{offset} to {end} of {head}");
        assert!(record_ends.last().is_none_or(|before| *before <= end));
        let seam = stream.seam_behind(offset);
        assert!(seam.is_none_or(|seam| offset < seam && seam <= stream.newest_seam()));
        record_ends.push(end);
    }
    Seen { file: file.to_vec(), refused, join, newest_seam: stream.newest_seam(), tracks, record_ends }
}

/// The same comes of the same bytes. A process that takes over `may_forget` where viewers begin, if the place has
/// another header than the newest, since it is told that one alone.
fn compare(one: &[Seen], other: &[Seen], may_forget: bool) {
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one.refused, other.refused, "they are refused alike");
        if one.refused.is_some() {
            // How much of what is refused enters the file is not promised, and what comes behind it moves.
            let shorter = one.file.len().min(other.file.len());
            assert_eq!(one.file[..shorter], other.file[..shorter]);
            return;
        }
        if may_forget && other.join.is_none() {
            assert_eq!(&Seen { join: None, ..one.clone() }, other);
        } else {
            assert_eq!(one, other);
        }
    }
}

fn check_tracks(tracks: &[Track], header_bytes: usize) {
    assert!(tracks.len() <= TRACKS_MAX.min(1 + header_bytes));
    for track in tracks {
        let texts = [Some(&track.codec), track.codec_string.as_ref()];
        for text in texts.into_iter().flatten() {
            assert!(text.len() <= NAME_MAX, "{text:?}");
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{text:?}");
        }
        assert!(track.size.is_none_or(|size| size.width > 0 && size.height > 0));
    }
}
