//! What a server of segments may send. The first byte chooses: a playlist of HLS (0), a manifest of DASH (1), or segments (the
//! rest; its number is how the bytes are chopped).

use glassline_delivery::http1::Url;
use glassline_inspect::segmented::dash::{Carries, Manifest};
use glassline_inspect::segmented::follow::{Follower, Step};
use glassline_inspect::segmented::hls::Playlist;
use glassline_inspect::segmented::{Listing, Piece, SegmentReader, Wanted};
use glassline_media::{Time, Utc};
use std::time::Duration;

/// Objects of a listing at most, and of a live manifest's.
const OBJECTS_MAX: usize = 20_000;
const LIVE_OBJECTS_MAX: usize = 50;

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    let url: Url = "http://server.example/live/index.m3u8?key=1".parse().expect("a URL");
    match choice {
        0 => match Playlist::parse(&text) {
            Some(Playlist::Media(media)) => follow(&Listing::of_hls(&media, &url, &url)),
            Some(Playlist::Multivariant(variants)) => assert!(!variants.is_empty()),
            None => {}
        },
        1 => {
            let Ok(manifest) = Manifest::parse(&text, &url) else { return };
            for seconds in [0, 1_795_524_388, u64::MAX / 1_000_000_000] {
                for carries in [Carries::Pictures, Carries::Sound] {
                    let listing = manifest.listing(carries, Utc::from_nanos(seconds * 1_000_000_000));
                    assert!(listing.objects.len() <= LIVE_OBJECTS_MAX || !manifest.is_live());
                    follow(&listing);
                }
            }
        }
        chop => {
            let whole = units(bytes, usize::MAX);
            assert_eq!(units(bytes, usize::from(chop)), whole, "a chop changes nothing");
        }
    }
}

/// Nothing is asked for twice, and all of it is got at some time.
fn follow(listing: &Listing) {
    assert!(listing.objects.len() <= OBJECTS_MAX);
    let (mut follower, mut now) = (Follower::default(), Time::from_millis(1000));
    follower.update(listing.clone(), now);
    let (mut last, mut inits) = (None, 0);
    loop {
        match follower.next(now) {
            Step::Get(object) => {
                assert!(last.is_none_or(|last| object.id > last), "{last:?} and then {:?}", object.id);
                last = Some(object.id);
                follower.done();
            }
            Step::Init(init) => {
                inits += 1;
                assert!(inits <= OBJECTS_MAX);
                follower.has_init(init);
            }
            Step::Wait(until) => {
                assert!(until > now, "it waits for what has been");
                now = until;
            }
            Step::Break => {}
            Step::Look(_) | Step::Over => break,
        }
    }
    assert!(follower.is_at_edge());
    follower.update(listing.clone(), now + Duration::from_secs(1));
    assert!(follower.is_at_edge(), "the same listing has nothing new");
}

/// The units of two segments of which each is `bytes`.
fn units(bytes: &[u8], chop: usize) -> Vec<Piece> {
    let mut reader = SegmentReader::new(Wanted { pictures: true, sound: true });
    reader.set_init(bytes);
    let mut out = Vec::new();
    for part in [false, true] {
        reader.begin(part);
        bytes.chunks(chop).for_each(|bytes| reader.push(bytes, &mut out));
        reader.end(!part, &mut out);
    }
    out.retain(|piece| matches!(piece, Piece::Unit(_)));
    out
}
