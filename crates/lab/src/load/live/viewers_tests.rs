//! Viewers of a server that is made of a table: what they ask for, and what they make of its answers.

use super::*;
use glassline_delivery::http1::client::{Client, Event, Request};
use glassline_delivery::http1::{Limits, Method};
use proptest::prelude::*;

fn viewers(protocol: Protocol) -> Viewers {
    let url = "http://h/live/x/index.m3u8".parse().unwrap();
    let settings = Settings { url, protocol, viewers: 1, ramp: 1000.0, latency: Duration::from_secs(1) };
    Viewers::new(settings, Time::from_millis(1_000))
}

const NOW: Time = Time::from_millis(2_000);

/// Answers the request of a connection.
fn answer(viewers: &mut Viewers, index: usize, status: u16, body: &[u8]) {
    let wire = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
    let mut client: Client = Request::new(Method::Get, "h", "/").client(Limits::DEFAULT);
    let Ok(Some(Event::Head(head))) = client.next(&mut wire.as_bytes()) else { panic!() };
    viewers.head(index, &head, NOW);
    viewers.data(index, body, NOW);
    viewers.end(index, NOW);
}

fn asks(viewers: &mut Viewers, index: usize) -> String {
    match viewers.next(index, NOW) {
        Next::Ask(path) => path,
        other => panic!("connection {index}: {other:?}"),
    }
}

const MASTER: &[u8] = b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nvideo.m3u8\n";
const MEDIA: &[u8] = b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES\n\
    #EXT-X-MEDIA-SEQUENCE:9\n#EXT-X-PART:DURATION=1,URI=\"9.0\",INDEPENDENT=YES\n\
    #EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"9.1\"\n";

#[test]
fn a_viewer_waits_for_the_playlist_and_the_hinted_part_at_once() {
    let mut viewers = viewers(Protocol::Hls);
    assert_eq!(viewers.next(1, NOW), Next::Rest);
    assert_eq!(asks(&mut viewers, 0), "/live/x/index.m3u8");
    answer(&mut viewers, 0, 200, MASTER);
    assert_eq!(asks(&mut viewers, 0), "/live/x/video.m3u8");
    answer(&mut viewers, 0, 200, MEDIA);
    assert_eq!(asks(&mut viewers, 0), "/live/x/video.m3u8?_HLS_msn=9&_HLS_part=1");
    assert!(std::iter::from_fn(|| viewers.poll_wake()).any(|index| index == 1));
    assert_eq!(asks(&mut viewers, 1), "/live/x/9.0");
    answer(&mut viewers, 1, 200, b"\0\0\0\x08mdat");
    assert_eq!(asks(&mut viewers, 1), "/live/x/9.1");
    let tally = viewers.tally();
    assert_eq!((tally.playing, tally.chunks, tally.unstamped, tally.failures()), (1, 1, 1, 0));
}

/// A segment that ends before the part that was hinted is no fault: the playlist says what comes instead.
#[test]
fn a_hint_that_comes_to_nothing_is_counted_and_not_waited_for() {
    let mut viewers = viewers(Protocol::Hls);
    asks(&mut viewers, 0);
    answer(&mut viewers, 0, 200, MASTER);
    asks(&mut viewers, 0);
    answer(&mut viewers, 0, 200, MEDIA);
    assert_eq!(asks(&mut viewers, 1), "/live/x/9.0");
    answer(&mut viewers, 1, 200, b"\0\0\0\x08mdat");
    assert_eq!(asks(&mut viewers, 1), "/live/x/9.1");
    answer(&mut viewers, 1, 404, b"");
    asks(&mut viewers, 0);
    let next = [MEDIA, b"#EXTINF:1,\n9.mp4\n#EXT-X-PART:DURATION=1,URI=\"10.0\",INDEPENDENT=YES\n"].concat();
    answer(&mut viewers, 0, 200, &next);
    assert_eq!(viewers.tally().hints_unmet, 1);
    assert_eq!(asks(&mut viewers, 1), "/live/x/10.0");
    answer(&mut viewers, 1, 404, b"");
    let tally = viewers.tally();
    assert_eq!((tally.hints_unmet, tally.http_errors), (1, 1), "what is listed has to be there");
}

#[test]
fn a_hinted_part_that_is_refused_and_listed_after_that_is_a_fault() {
    let mut viewers = viewers(Protocol::Hls);
    asks(&mut viewers, 0);
    answer(&mut viewers, 0, 200, MASTER);
    asks(&mut viewers, 0);
    answer(&mut viewers, 0, 200, MEDIA);
    asks(&mut viewers, 1);
    answer(&mut viewers, 1, 200, b"\0\0\0\x08mdat");
    assert_eq!(asks(&mut viewers, 1), "/live/x/9.1");
    answer(&mut viewers, 1, 404, b"");
    asks(&mut viewers, 0);
    let next = [MEDIA, b"#EXT-X-PART:DURATION=1,URI=\"9.1\"\n"].concat();
    answer(&mut viewers, 0, 200, &next);
    let tally = viewers.tally();
    assert_eq!((tally.hints_unmet, tally.http_errors), (0, 1));
}

#[test]
fn what_is_refused_or_is_none_is_counted_and_asked_for_later() {
    let mut viewers = viewers(Protocol::Hls);
    asks(&mut viewers, 0);
    answer(&mut viewers, 0, 503, b"");
    assert_eq!(viewers.next(0, NOW), Next::At(NOW + AGAIN));
    answer(&mut viewers, 0, 200, b"<html>");
    assert_eq!(viewers.next(0, NOW), Next::At(NOW + AGAIN));
    let tally = viewers.tally();
    assert_eq!((tally.http_errors, tally.malformed), (1, 1));
}

proptest! {
    #[test]
    fn nothing_that_a_server_answers_panics(
        dash in any::<bool>(),
        answers in proptest::collection::vec((0usize..LANES, 200u16..600, ".{0,40}", any::<bool>()), 0..20),
    ) {
        let mut viewers = viewers(if dash { Protocol::Dash } else { Protocol::Hls });
        for (index, status, text, media) in answers {
            if matches!(viewers.next(index, NOW), Next::Ask(_)) {
                let body = if media { [MEDIA, text.as_bytes()].concat() } else { text.into_bytes() };
                answer(&mut viewers, index, status, &body);
            }
        }
    }
}
