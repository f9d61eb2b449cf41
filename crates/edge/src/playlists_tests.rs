use super::super::testing::{BEGUN_SECS, KEY_EVERY, Stream, Woken, found, plain, store, text};
use super::super::{PresentationStore, Reader};
use super::*;
use glassline_delivery::packager::RenditionName;

const MEDIA: Object = Object::Media(RenditionName::Video);
const FIRST: u64 = BEGUN_SECS;
const READER: Reader = Reader { thread: 0, token: 0 };

fn request(object: Object, query: &str) -> PlaylistRequest {
    PlaylistRequest::new(object, query).unwrap()
}

/// The number of a segment that is asked for, as a query.
fn msn(index: u64) -> String {
    format!("_HLS_msn={}", FIRST + index)
}

fn playlists() -> Playlists {
    Playlists::new(Arc::new(Woken::default()).as_wake(), Arc::from("/base"))
}

/// A presentation of so many pictures.
fn of_pictures(count: u64) -> Arc<PresentationStore> {
    let (store, _) = store();
    Stream::new().push_until(&store, count);
    store
}

fn with_sources<T>(store: &PresentationStore, act: impl FnOnce(PlaylistSources<'_>) -> T) -> T {
    store.look(|presentation| {
        let variants = [Variant::alone(presentation)];
        act(PlaylistSources { variants: &variants, others: &[], mpeg_ts: None })
    })
}

fn find(playlists: &mut Playlists, store: &PresentationStore, object: Object, query: &str) -> FoundObject {
    with_sources(store, |sources| playlists.find(request(object, query), sources))
}

fn decide(store: &PresentationStore, object: Object, query: &str) -> Option<Decision> {
    with_sources(store, |sources| request(object, query).decide(sources))
}

#[test]
fn requests_are_equal_where_their_playlists_are() {
    let one = request(MEDIA, "_HLS_msn=7&_HLS_part=2&a=b");
    assert_eq!(one, request(MEDIA, "a=b&_HLS_part=2&_HLS_msn=7&_HLS_other=x"));
    for query in ["_HLS_msn=7&a=b", "_HLS_msn=7&_HLS_part=3&a=b", "_HLS_msn=7&_HLS_part=2", ""] {
        assert_ne!(one, request(MEDIA, query), "{query}");
    }
    assert_ne!(one, request(Object::Multivariant, "_HLS_msn=7&_HLS_part=2&a=b"));
    assert_ne!(request(MEDIA, "_HLS_skip=YES"), request(MEDIA, ""));
}

#[test]
fn a_request_goes_on_with_the_directives_that_it_was_made_of() {
    for (query, expected) in [
        ("", Directives::default()),
        ("_HLS_msn=7", Directives { msn: Some(7), ..Directives::default() }),
        ("_HLS_part=2&_HLS_msn=7&_HLS_skip=v2", Directives { msn: Some(7), part: Some(2), skip: true }),
    ] {
        assert_eq!(request(MEDIA, query).directives(), expected, "{query}");
    }
}

#[test]
fn a_request_that_makes_no_sense_is_none() {
    for query in ["_HLS_part=0", "_HLS_msn=-1", "_HLS_msn=1&_HLS_part=4294967296"] {
        assert!(PlaylistRequest::new(MEDIA, query).is_err(), "{query}");
    }
}

#[test]
fn a_media_playlist_is_due_with_its_first_segment_or_with_the_part_that_is_asked_for() {
    let sound = Object::Media(RenditionName::Audio(1));
    for (pictures, plain, blocking, of_sound) in [
        (0, Some(Decision::Wait), Some(Decision::Wait), Some(Decision::Wait)),
        (5, Some(Decision::Wait), Some(Decision::Now), None),
        (KEY_EVERY + 1, Some(Decision::Now), Some(Decision::Now), None),
    ] {
        let store = of_pictures(pictures);
        let asked = format!("{}&_HLS_part=0", msn(0));
        let got = [decide(&store, MEDIA, ""), decide(&store, MEDIA, &asked), decide(&store, sound, "")];
        assert_eq!(got, [plain, blocking, of_sound], "{pictures}");
    }
}

#[test]
fn a_playlist_of_nothing_at_all_is_none() {
    let sources = PlaylistSources { variants: &[], others: &[], mpeg_ts: None };
    assert_eq!(request(Object::Multivariant, "").decide(sources), None);
    assert_eq!(request(Object::Multivariant, "").render(sources, ""), None);
    assert!(matches!(playlists().find(request(MEDIA, ""), sources), FoundObject::Unknown));
}

#[test]
fn key_frames_are_listed_with_the_first_complete_segment() {
    let due = |pictures| decide(&of_pictures(pictures), Object::IFrames, "");
    assert_eq!(
        [0, KEY_EVERY, KEY_EVERY + 1].map(due),
        [Some(Decision::Wait), Some(Decision::Wait), Some(Decision::Now)]
    );
}

#[test]
fn segments_of_the_streams_own_bytes_are_listed_where_some_are_kept() {
    let store = of_pictures(2 * KEY_EVERY + 1);
    store.look(|presentation| {
        let variants = [Variant::alone(presentation)];
        let kept = FIRST + 1..=FIRST + 1;
        let sources = |mpeg_ts| PlaylistSources { variants: &variants, others: &[], mpeg_ts };
        let request = request(Object::TransportMedia, "token=T");
        assert_eq!(request.decide(sources(None)), Some(Decision::Wait));
        assert_eq!(request.decide(sources(Some(&kept))), Some(Decision::Now));
        let text = request.render(sources(Some(&kept)), "").unwrap();
        let segments: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let object = Object::TransportSegment { segment: FIRST + 1 };
        assert_eq!(segments, [format!("{object}?token=T")]);
    });
}

#[test]
fn players_are_told_of_versions_when_each_has_a_segment_or_one_has_three() {
    let may = |counts: &[u64]| {
        let stores: Vec<_> = counts.iter().map(|count| of_pictures(*count)).collect();
        let [one, other] = &stores[..] else { panic!("two of them") };
        one.look(|one| other.look(|other| may_begin(&[Variant::alone(one), Variant::alone(other)])))
    };
    assert!(!may(&[0, 0]));
    assert!(!may(&[KEY_EVERY + 1, 0]));
    assert!(!may(&[2 * KEY_EVERY + 1, 0]));
    assert!(may(&[KEY_EVERY + 1, KEY_EVERY + 1]));
    assert!(may(&[0, 3 * KEY_EVERY + 1]));
}

#[test]
fn what_has_ended_is_waited_for_no_more() {
    let store = of_pictures(3);
    store.finish(super::super::testing::utc(3));
    for object in [MEDIA, Object::IFrames, Object::TransportMedia, Object::Multivariant] {
        assert_eq!(decide(&store, object, ""), Some(Decision::Now), "{object}");
    }
    assert!(store.look(has_segments));
}

#[test]
fn a_playlist_is_rendered_once_for_all_equal_requests() {
    let (mut playlists, store) = (playlists(), of_pictures(KEY_EVERY + 1));
    assert!(playlists.are_idle());
    let one = found(find(&mut playlists, &store, MEDIA, ""));
    let other = found(find(&mut playlists, &store, MEDIA, ""));
    assert!(Arc::ptr_eq(&one, &other) && !playlists.are_idle());
    with_sources(&store, |sources| playlists.change(sources));
    assert!(playlists.are_idle(), "nothing waits, and what was rendered is out of date");
    assert!(!Arc::ptr_eq(&one, &found(find(&mut playlists, &store, MEDIA, ""))));
}

#[test]
fn a_change_answers_those_that_are_due_and_leaves_the_others_waiting() {
    let (store, _) = store();
    let (mut playlists, mut stream) = (playlists(), Stream::new());
    stream.push_until(&store, KEY_EVERY + 1);
    let near = found(find(&mut playlists, &store, MEDIA, &format!("{}&_HLS_part=0", msn(1))));
    let far = found(find(&mut playlists, &store, MEDIA, &msn(2)));
    stream.push_until(&store, KEY_EVERY + 5);
    with_sources(&store, |sources| playlists.change(sources));
    assert_eq!([&near, &far].map(|it| it.look(Filling::is_over)), [true, false]);
    assert!(!playlists.are_idle());
    stream.push_until(&store, 3 * KEY_EVERY + 1);
    with_sources(&store, |sources| playlists.change(sources));
    assert!(text(&far).contains(&format!("video/{}.m4s\n", FIRST + 2)));
}

#[test]
fn an_awaited_playlist_that_comes_to_nothing_fails() {
    let ((store, _), mut playlists) = (store(), playlists());
    let growing = found(find(&mut playlists, &store, MEDIA, ""));
    store.finish(super::super::testing::utc(0));
    with_sources(&store, |sources| playlists.change(sources));
    assert_eq!(growing.look(Filling::failure), Some(Failure::Ended));
}

#[test]
fn so_many_queries_are_waited_for_at_once_and_no_more() {
    let ((store, _), mut playlists) = (store(), playlists());
    for number in 0..AWAITED_MAX {
        found(find(&mut playlists, &store, MEDIA, &format!("n={number}")));
    }
    assert!(matches!(find(&mut playlists, &store, MEDIA, "n=new"), FoundObject::Busy));
    found(find(&mut playlists, &store, MEDIA, "n=7"));
    Stream::new().push_until(&store, KEY_EVERY + 1);
    with_sources(&store, |sources| playlists.change(sources));
    found(find(&mut playlists, &store, MEDIA, &format!("{}&n=new", msn(1))));
}

#[test]
fn so_many_queries_are_remembered_rendered_and_further_ones_are_answered_all_the_same() {
    let (mut playlists, store) = (playlists(), of_pictures(KEY_EVERY + 1));
    for number in 0..AWAITED_MAX {
        found(find(&mut playlists, &store, MEDIA, &format!("n={number}")));
    }
    let ask = |playlists: &mut Playlists, query| found(find(playlists, &store, MEDIA, query));
    assert!(!Arc::ptr_eq(&ask(&mut playlists, "n=new"), &ask(&mut playlists, "n=new")));
    assert!(Arc::ptr_eq(&ask(&mut playlists, "n=0"), &ask(&mut playlists, "n=0")));
}

#[test]
fn a_refusal_answers_all_that_wait_but_those_for_the_streams_own_bytes() {
    let ((store, _), mut playlists) = (store(), playlists());
    let of = |playlists: &mut Playlists, object| found(find(playlists, &store, object, ""));
    let [media, all, packets] =
        [MEDIA, Object::Multivariant, Object::TransportMedia].map(|object| of(&mut playlists, object));
    playlists.refuse(&plain(), &Bytes::from_static(b"not here"));
    for refused in [&media, &all] {
        assert_eq!(text(refused), "not here");
        assert!(refused.look(|object| object.progress().is_whole));
    }
    assert!(!packets.look(Filling::is_over));
    assert!(Arc::ptr_eq(&packets, &of(&mut playlists, Object::TransportMedia)));
}

#[test]
fn an_end_fails_all_that_wait_and_wakes_their_readers() {
    let woken = Arc::new(Woken::default());
    let mut playlists = Playlists::new(woken.as_wake(), Arc::from(""));
    let (store, _) = store();
    let growing = found(find(&mut playlists, &store, MEDIA, ""));
    growing.look_or_wait(READER, |_| None::<()>);
    playlists.end();
    assert_eq!(woken.take(), [(0, vec![0])]);
    assert_eq!(growing.look(Filling::failure), Some(Failure::Ended));
    assert!(playlists.are_idle());
}

#[test]
fn a_tag_tells_texts_apart_and_the_head_says_of_what_kind_they_are() {
    let head = |object, query: &str, text: &str| request(object, query).head(text);
    let tag = |head: &Head| head.field("etag").unwrap().to_owned();
    let one = head(MEDIA, "", "#EXTM3U\n");
    assert_eq!(tag(&one), tag(&head(Object::Multivariant, "_HLS_msn=1", "#EXTM3U\n")));
    assert_ne!(tag(&one), tag(&head(MEDIA, "", "#EXTM3U\n\n")));
    assert_eq!((tag(&one).len(), one.field("content-type")), (18, Some("application/vnd.apple.mpegurl")));
    let manifest = head(Object::NumberManifest, "", "<MPD/>");
    assert_eq!(manifest.field("content-type"), Some("application/dash+xml"));
}

#[test]
fn manifests_ask_for_the_time_below_the_folder_of_this_server() {
    let store = of_pictures(KEY_EVERY + 1);
    let mpd = |base: &str| {
        with_sources(&store, |sources| request(Object::NumberManifest, "").render(sources, base)).unwrap()
    };
    assert!(mpd("").contains("value=\"/api/time?format=iso\""));
    assert!(mpd("/tv").contains("value=\"/tv/api/time?format=iso\""));
}
