//! Hostile transport streams into the packager: the first byte says how they are chopped, the second after how many packets the
//! publisher returns (0: never). Events come in the order that players rely on, any chop gives the same objects, and every
//! playlist can be written at any end.

use glassline_delivery::packager::{Demultiplexer, Event, Packager, RenditionName, Settings};
use glassline_delivery::playlist::hls::{self, MediaOptions};
use glassline_delivery::playlist::{Carried, Variant, dash};
use glassline_delivery::stream::Mux;
use glassline_media::Utc;
use std::collections::BTreeMap;

const NOW: Utc = Utc::from_nanos(1_700_000_000_000_000_000);

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&[chop, returns], wire)) = data.split_first_chunk::<2>() else { return };
    let whole = packaged(wire, usize::MAX, returns);
    assert_eq!(packaged(wire, 1 + usize::from(chop), returns), whole, "any chop gives the same");
}

/// The bytes of headers, by rendition and number, and of parts, by rendition, segment and part.
type Objects = (BTreeMap<(RenditionName, u32), Vec<u8>>, BTreeMap<(RenditionName, u64, u32), Vec<u8>>);

/// What of a rendition is open.
#[derive(Default)]
struct Open {
    has_header: bool,
    segment: Option<u64>,
    part: Option<u32>,
    /// What the next segment's number is at least.
    next: u64,
}

fn packaged(wire: &[u8], chop: usize, returns: u8) -> Objects {
    let mut demux = Demultiplexer::new(Mux::MpegTs);
    let mut packager = Packager::new(Settings::default()).starting_at(1, 1000);
    let (mut objects, mut open) = (Objects::default(), BTreeMap::new());
    let (before, behind) = match usize::from(returns) * 188 {
        0 => (wire, None),
        at => wire.split_at_checked(at).map_or((wire, None), |(before, behind)| (before, Some(behind))),
    };
    let mut at = 0;
    for (number, part) in [Some(before), behind].into_iter().flatten().enumerate() {
        if number > 0 {
            demux.begin(Mux::MpegTs);
            packager.discontinuity(NOW, demux.reached());
            take(&mut packager, &mut objects, &mut open);
        }
        for bytes in part.chunks(chop.min(part.len().max(1))) {
            demux.push(bytes, Some(at));
            at += bytes.len() as u64;
            hand_over(&mut demux, &mut packager);
            take(&mut packager, &mut objects, &mut open);
        }
    }
    demux.finish();
    hand_over(&mut demux, &mut packager);
    packager.finish(NOW, demux.reached());
    assert!(take(&mut packager, &mut objects, &mut open), "the end is told");
    for (rendition, open) in &open {
        assert!(open.segment.is_none() && open.part.is_none(), "{rendition:?} ends with all that it began");
    }
    write_playlists(&packager, &open);
    objects
}

fn hand_over(demux: &mut Demultiplexer, packager: &mut Packager) {
    while let Some(input) = demux.poll() {
        packager.handle_input(input, NOW, demux.reached());
    }
}

/// Takes the events that there are. Returns whether the end was among them.
fn take(packager: &mut Packager, objects: &mut Objects, open: &mut BTreeMap<RenditionName, Open>) -> bool {
    let mut has_ended = false;
    while let Some(event) = packager.poll() {
        assert!(!has_ended || matches!(event, Event::Expires { .. } | Event::InitExpires { .. }));
        match event {
            Event::Init { rendition, number, bytes } => {
                open.entry(rendition).or_default().has_header = true;
                assert!(
                    objects.0.insert((rendition, number), bytes.to_vec()).is_none(),
                    "a header is told once"
                );
            }
            Event::SegmentBegins { rendition, segment } => {
                let open = open.entry(rendition).or_default();
                assert!(open.has_header && open.segment.is_none() && segment >= open.next);
                (open.segment, open.next) = (Some(segment), segment + 1);
            }
            Event::PartBegins { rendition, segment, part } => {
                let open = open.entry(rendition).or_default();
                assert!(open.segment == Some(segment) && open.part.is_none());
                open.part = Some(part);
                assert!(
                    objects.1.insert((rendition, segment, part), Vec::new()).is_none(),
                    "a part begins once"
                );
            }
            Event::Chunk { rendition, segment, part, bytes } => {
                let open = open.entry(rendition).or_default();
                assert!(
                    open.segment == Some(segment) && open.part == Some(part),
                    "a chunk is of what is open"
                );
                objects.1.entry((rendition, segment, part)).or_default().extend_from_slice(&bytes);
            }
            Event::PartEnds { rendition, segment, part } => {
                let open = open.entry(rendition).or_default();
                assert!(open.segment == Some(segment) && open.part.take() == Some(part));
            }
            Event::SegmentEnds { rendition, segment } => {
                let open = open.entry(rendition).or_default();
                assert!(open.part.is_none() && open.segment.take() == Some(segment));
            }
            Event::Expires { .. } | Event::InitExpires { .. } => {}
            Event::Ended => has_ended = true,
        }
    }
    has_ended
}

fn write_playlists(packager: &Packager, open: &BTreeMap<RenditionName, Open>) {
    let presentation = packager.presentation();
    let variants = [Variant::alone(presentation)];
    let carried = Carried::default();
    let _ = hls::multivariant(&variants, &carried);
    let _ = hls::iframes(presentation, &carried);
    for &rendition in open.keys() {
        let options = MediaOptions { carried: carried.clone(), skip: false, others: Vec::new() };
        let _ = hls::media(presentation, rendition, &options);
    }
    for addressing in [dash::Addressing::Number, dash::Addressing::Timeline] {
        let options =
            dash::Options { carried: carried.clone(), utc_timing: "/time".to_owned(), latency: None };
        let _ = dash::mpd(&variants, addressing, &options);
    }
}
