use super::super::testing::*;
use super::super::{Reader, testing};
use super::*;
use glassline_delivery::fill::Object as Filling;
use glassline_io::containment::{Border, contain};
use glassline_media::Ticks;
use glassline_media::access_unit::{AccessUnit, Codec};
use glassline_media::container::ts::{MuxSettings, Muxer};
use glassline_media::stamps::Stamps;

const VIDEO: RenditionName = RenditionName::Video;
const FIRST: u64 = BEGUN_SECS;
const READER: Reader = Reader { thread: 3, token: 9 };
const MEDIA: Object = Object::Media(VIDEO);

fn segment(index: u64) -> Object {
    Object::Segment { rendition: VIDEO, segment: FIRST + index }
}

fn part(index: u64, part: u32) -> Object {
    Object::Part { rendition: VIDEO, segment: FIRST + index, part }
}

fn find(store: &PresentationStore, object: Object) -> FoundObject {
    store.find(object, "", at(1))
}

fn get(store: &PresentationStore, object: Object) -> Arc<Growing> {
    found(find(store, object))
}

/// The media playlist that has this part.
fn reload(store: &PresentationStore, index: u64, part: u32) -> Arc<Growing> {
    found(store.find(MEDIA, &format!("_HLS_msn={}&_HLS_part={part}", FIRST + index), at(1)))
}

fn filled(growing: &Growing) -> (u64, bool) {
    growing.look(|object| (object.filled(), object.progress().is_whole))
}

fn wait(growing: &Growing) {
    assert_eq!(growing.look_or_wait(READER, |_| None::<()>), None);
}

/// The lines of a playlist that begin so.
fn lines(text: &str, begin: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix(begin)).map(str::to_owned).collect()
}

#[test]
fn a_part_is_read_chunk_by_chunk_while_its_pictures_come() {
    let ((store, woken), mut stream) = (store(), Stream::new());
    stream.push_until(&store, 2);
    let (part, whole) = (get(&store, part(0, 0)), get(&store, segment(0)));
    assert_eq!((filled(&part), filled(&whole)), ((790, false), (790, false)));
    for growing in [&part, &whole] {
        wait(growing);
    }
    stream.push_until(&store, 3);
    assert_eq!(woken.take(), [(3, vec![9]), (3, vec![9])]);
    assert_eq!((filled(&part), filled(&whole)), ((1192, false), (1192, false)));
    stream.push_until(&store, PART_EVERY);
    assert_eq!((filled(&part), filled(&whole)), ((1996, true), (1996, false)));
    stream.push_until(&store, KEY_EVERY + 1);
    assert_eq!((filled(&part), filled(&whole)), ((1996, true), (10036, true)));
}

#[test]
fn a_segment_is_its_parts_end_to_end() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, KEY_EVERY + 1);
    let parts: Vec<u8> = (0..5).flat_map(|number| get(&store, part(0, number)).look(bytes)).collect();
    assert_eq!(get(&store, segment(0)).look(bytes), parts);
    assert_eq!(&parts[4..8], b"styp");
}

#[test]
fn a_hinted_part_is_waited_for_and_its_reader_is_woken_by_its_head_and_its_first_chunk() {
    let ((store, woken), mut stream) = (store(), Stream::new());
    stream.push_until(&store, PART_EVERY);
    assert_eq!(
        lines(&text(&reload(&store, 0, 0)), "#EXT-X-PRELOAD-HINT"),
        [format!(":TYPE=PART,URI=\"{}\"", part(0, 1))]
    );
    let hinted = get(&store, part(0, 1));
    assert_eq!(hinted.look(|object| object.progress().head), None);
    wait(&hinted);
    stream.push_until(&store, PART_EVERY + 1);
    assert_eq!(woken.take(), [(3, vec![9])]);
    assert_eq!(filled(&hinted), (402, false));
    assert!(Arc::ptr_eq(&hinted, &get(&store, part(0, 1))), "all that ask read the same one");
}

#[test]
fn a_part_behind_the_last_of_its_segment_fails_when_that_ends() {
    let ((store, woken), mut stream) = (store(), Stream::new());
    stream.push_until(&store, KEY_EVERY);
    let (none, next) = (get(&store, part(0, 5)), get(&store, segment(1)));
    wait(&none);
    stream.push_until(&store, KEY_EVERY + 1);
    assert_eq!(woken.take(), [(3, vec![9])]);
    assert_eq!(none.look(Filling::failure), Some(Failure::Ended));
    assert!(matches!(find(&store, part(0, 5)), FoundObject::Unknown));
    assert_eq!((next.look(Filling::failure), filled(&next)), (None, (388, false)), "the next segment comes");
}

#[test]
fn what_no_part_and_no_segment_can_be_is_unknown() {
    let ((store, _), mut stream) = (store(), Stream::new());
    assert!(matches!(find(&store, segment(0)), FoundObject::Unknown), "no pictures are known yet");
    stream.push_until(&store, 3);
    let sound = RenditionName::Audio(1);
    for object in [
        segment(2),
        part(0, 2),
        part(1, 1),
        part(2, 0),
        Object::Init { rendition: VIDEO, number: 1 },
        Object::Init { rendition: sound, number: 0 },
        Object::Segment { rendition: sound, segment: FIRST },
    ] {
        assert!(matches!(find(&store, object), FoundObject::Unknown), "{object}");
    }
}

#[test]
fn a_header_of_an_epoch_is_whole_from_its_begin() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, 2);
    let init = get(&store, Object::Init { rendition: VIDEO, number: 0 });
    assert_eq!(filled(&init), (669, true));
    assert_eq!(init.look(bytes)[4..8], *b"ftyp");
}

#[test]
fn objects_say_what_they_are_for_how_long_they_last_and_of_which_run_they_are() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, 2);
    let head = get(&store, segment(0)).look(|object| object.progress().head).unwrap();
    assert_eq!(head.field("content-type"), Some("video/mp4"));
    assert_eq!(head.field("etag"), Some(&*format!("\"{FIRST:x}-video/{FIRST}.m4s\"")));
    assert_eq!(head.field("cache-control"), Some("max-age=6"));
}

#[test]
fn what_has_left_the_window_is_gone_and_its_reader_reads_on() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, KEY_EVERY + 1);
    let read = get(&store, segment(0));
    stream.push_until(&store, 20 * KEY_EVERY);
    for object in [segment(0), part(0, 0), part(0, 9)] {
        assert!(matches!(find(&store, object), FoundObject::Gone), "{object}");
    }
    assert_eq!(filled(&read), (10036, true));
    let kept = store.lock().objects.len();
    stream.push_until(&store, 40 * KEY_EVERY);
    assert_eq!(store.lock().objects.len(), kept, "no more are kept than before");
    assert!(matches!(find(&store, part(0, 0)), FoundObject::Gone));
}

#[test]
fn segments_are_numbered_by_the_time_of_their_begin() {
    let (woken, base) = (Arc::new(testing::Woken::default()), Arc::<str>::from(""));
    let first_of = |seconds: u64, segment: Duration| {
        let settings = Settings { segment, ..settings() };
        let utc = Utc::from_nanos(seconds * 1_000_000_000 + 5);
        let store =
            PresentationStore::new(Mux::MpegTs, settings, woken.as_wake(), Arc::clone(&base), at(1), utc);
        let mut stream = Stream::new();
        stream.push_until(&store, 2);
        store.look(|it| (it.lead().unwrap().media_sequence(), it.current_epoch().unwrap().number))
    };
    assert_eq!(first_of(7205, Duration::from_secs(1)), (7205, 5));
    assert_eq!(
        first_of(7205, Duration::from_secs(2)),
        (3602, 5),
        "a segment of two seconds needs half the numbers"
    );
    assert_eq!(first_of(3599, Duration::from_millis(500)), (7198, 3599));
}

#[test]
fn a_playlist_without_directives_waits_for_a_whole_segment_and_one_with_them_for_its_part() {
    let ((store, woken), mut stream) = (store(), Stream::new());
    stream.push_until(&store, 2);
    let (plain, blocking) = (get(&store, MEDIA), reload(&store, 0, 0));
    wait(&blocking);
    stream.push_until(&store, PART_EVERY);
    assert_eq!(woken.take(), [(3, vec![9])]);
    assert_eq!((filled(&blocking).1, filled(&plain).1), (true, false));
    assert_eq!(lines(&text(&blocking), "#EXT-X-PART:").len(), 1);
    stream.push_until(&store, KEY_EVERY);
    assert!(!filled(&plain).1, "the segment's last picture says nothing of its end");
    stream.push_until(&store, KEY_EVERY + 1);
    assert_eq!(lines(&text(&plain), "#EXTINF:"), ["1.000000,"]);
}

#[test]
fn a_request_before_the_stream_is_answered_when_its_first_part_is_there() {
    let ((store, _), mut stream) = (store(), Stream::new());
    let waits =
        [MEDIA, Object::Multivariant, Object::NumberManifest, Object::TimelineManifest, Object::IFrames]
            .map(|object| get(&store, object));
    assert!(waits.iter().all(|growing| !growing.look(Filling::is_over)));
    stream.push_until(&store, KEY_EVERY + 1);
    for growing in &waits {
        assert!(filled(growing).1, "{growing:?}");
    }
    assert!(text(&waits[1]).contains("\nvideo.m3u8\n"));
    assert!(text(&waits[2]).starts_with("<?xml") && text(&waits[3]).contains("<SegmentTimeline>"));
}

#[test]
fn equal_requests_share_one_playlist_until_something_changes() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, KEY_EVERY + 1);
    let one = reload(&store, 0, 4);
    let other = found(store.find(MEDIA, &format!("_HLS_part=4&_HLS_msn={FIRST}"), at(2)));
    assert!(Arc::ptr_eq(&one, &other), "the order of the directives says nothing");
    let token = found(store.find(MEDIA, &format!("token=T&_HLS_part=4&_HLS_msn={FIRST}"), at(2)));
    assert!(!Arc::ptr_eq(&one, &token) && text(&token).contains(".m4s?token=T\n"));
    stream.push_until(&store, KEY_EVERY + 2);
    assert!(Arc::ptr_eq(&one, &reload(&store, 0, 4)), "a chunk is not told of in playlists");
    stream.push_until(&store, KEY_EVERY + PART_EVERY);
    let later = reload(&store, 0, 4);
    assert!(!Arc::ptr_eq(&one, &later));
    assert_eq!([&one, &later].map(|it| lines(&text(it), "#EXT-X-PART:").len()), [5, 6]);
}

#[test]
fn all_that_wait_for_one_playlist_get_the_same_and_later_requests_too() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, 2);
    let (one, other) = (reload(&store, 0, 0), reload(&store, 0, 0));
    assert!(Arc::ptr_eq(&one, &other));
    stream.push_until(&store, PART_EVERY);
    assert!(Arc::ptr_eq(&one, &reload(&store, 0, 0)), "it is not rendered again");
}

#[test]
fn a_request_for_what_is_too_far_ahead_or_makes_no_sense_is_told_why() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, KEY_EVERY + 1);
    let why = |query: &str| match store.find(MEDIA, query, at(1)) {
        FoundObject::Bad(why) => why,
        other => panic!("{query}: {other:?}"),
    };
    assert_eq!(
        why("_HLS_part=1"),
        "_HLS_part without _HLS_msn; expected the segment's number beside the part's"
    );
    assert!(why("_HLS_msn=x").starts_with("_HLS_msn is no number"));
    let ahead = "the segment or part is too far ahead of what there is";
    assert_eq!(why(&format!("_HLS_msn={}", FIRST + 3)), ahead);
    assert_eq!(why(&format!("_HLS_msn={}&_HLS_part=15", FIRST + 1)), ahead);
    let waits = found(store.find(MEDIA, &format!("_HLS_msn={}", FIRST + 2), at(1)));
    assert!(!waits.look(Filling::is_over), "the next but one is waited for");
}

#[test]
fn a_playlist_of_a_part_is_worth_longer_than_one_of_whatever_there_is() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, KEY_EVERY + 1);
    let field = |growing: &Growing, name: &str| {
        growing.look(|object| object.progress().head).unwrap().field(name).unwrap().to_owned()
    };
    let (plain, blocking) = (get(&store, MEDIA), reload(&store, 0, 4));
    assert_eq!([&plain, &blocking].map(|it| field(it, "cache-control")), ["max-age=1", "max-age=6"]);
    assert_eq!(field(&plain, "etag"), field(&blocking, "etag"), "they are one text");
    stream.push_until(&store, KEY_EVERY + PART_EVERY);
    assert_ne!(field(&plain, "etag"), field(&get(&store, MEDIA), "etag"));
    assert_eq!(field(&plain, "vary"), "Accept-Encoding");
}

#[test]
fn a_player_may_skip_what_it_knows() {
    let window = Duration::from_secs(20);
    let (wake, base) = (Arc::new(testing::Woken::default()).as_wake(), Arc::from(""));
    let settings = Settings { window, ..settings() };
    let store = PresentationStore::new(Mux::MpegTs, settings, wake, base, at(1), utc(0));
    let ask = |query: &str| text(&found(store.find(MEDIA, query, at(1))));
    let mut stream = Stream::new();
    // The fourth one begins exactly six seconds before the end, and then a picture earlier than that.
    for (pictures, skipped, listed) in [(10 * KEY_EVERY, 3, 9), (10 * KEY_EVERY + 1, 4, 10)] {
        stream.push_until(&store, pictures);
        let (all, rest) = (ask(""), ask("_HLS_skip=YES"));
        assert_eq!(lines(&all, "#EXT-X-SKIP:"), Vec::<String>::new());
        assert_eq!(lines(&rest, "#EXT-X-SKIP:"), [format!("SKIPPED-SEGMENTS={skipped}")]);
        assert_eq!([&all, &rest].map(|it| lines(it, "#EXTINF:").len()), [listed, listed - skipped]);
    }
}

#[test]
fn an_end_makes_whole_what_has_begun_and_fails_what_was_awaited() {
    let ((store, woken), mut stream) = (store(), Stream::new());
    stream.push_until(&store, KEY_EVERY + 7);
    let (begun, hinted, next) = (get(&store, segment(1)), get(&store, part(2, 0)), get(&store, segment(2)));
    let (playlist, far) = (reload(&store, 1, 1), reload(&store, 2, 0));
    for growing in [&begun, &hinted, &next, &playlist, &far] {
        wait(growing);
    }
    assert!(!store.has_ended());
    store.finish(utc(100));
    assert!(store.has_ended());
    assert_eq!(woken.take().len(), 5, "no reader is left waiting");
    assert!(filled(&begun).1);
    assert_eq!([&hinted, &next].map(|it| it.look(Filling::failure)), [Some(Failure::Ended); 2]);
    assert_eq!(lines(&text(&playlist), "#EXT-X-ENDLIST").len(), 1);
    assert_eq!(lines(&text(&far), "#EXT-X-ENDLIST").len(), 1, "what was too early is the last one, too");
    assert!(matches!(find(&store, segment(2)), FoundObject::Unknown));
    assert!(filled(&get(&store, MEDIA)).1);
}

#[test]
fn a_stream_that_ends_before_its_first_picture_fails_the_requests_that_waited() {
    let (store, _) = store();
    let waits = [MEDIA, Object::Multivariant, Object::TransportMedia].map(|object| get(&store, object));
    store.finish(utc(0));
    for growing in &waits {
        assert_eq!(growing.look(Filling::failure), Some(Failure::Ended), "{growing:?}");
    }
    assert!(matches!(find(&store, Object::Multivariant), FoundObject::Unknown), "there is nothing to render");
}

#[test]
fn a_stall_ends_the_open_part_so_that_its_reader_has_all_there_is() {
    let ((store, woken), mut stream) = (store(), Stream::new());
    assert_eq!(store.stall_timeout(), None, "nothing is open");
    stream.push_until(&store, 3);
    assert_eq!(store.stall_timeout(), Some(Duration::from_millis(600)));
    let open = get(&store, part(0, 0));
    wait(&open);
    store.handle_stall(utc(20));
    assert_eq!(woken.take(), [(3, vec![9])]);
    assert_eq!((filled(&open).1, store.stall_timeout()), (true, None));
    assert_eq!(lines(&text(&reload(&store, 0, 0)), "#EXT-X-PART:").len(), 1);
}

#[test]
fn what_does_not_follow_begins_another_epoch_with_a_header_of_its_own() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, KEY_EVERY + 1);
    store.discontinuity(utc(30));
    stream.skip_until(4 * KEY_EVERY);
    stream.push_until(&store, 5 * KEY_EVERY + 1);
    let playlist = text(&get(&store, MEDIA));
    assert_eq!(lines(&playlist, "#EXT-X-DISCONTINUITY").len(), 2, "with the sequence's number");
    assert_eq!(lines(&playlist, "#EXT-X-MAP:URI="), ["\"video/init-0.mp4\"", "\"video/init-1.mp4\""]);
    let inits = [0, 1].map(|number| get(&store, Object::Init { rendition: VIDEO, number }));
    assert!(inits.iter().all(|init| filled(init).1));
    // With the last segment of the first epoch its header goes, too.
    stream.push_until(&store, 25 * KEY_EVERY);
    let first = Object::Init { rendition: VIDEO, number: 0 };
    assert!(matches!(find(&store, first), FoundObject::Unknown));
    assert!(!store.lock().objects.contains_key(&first));
}

#[test]
fn a_gap_in_the_pictures_leaves_no_request_waiting() {
    let ((store, woken), mut stream) = (store(), Stream::new());
    stream.push_until(&store, 7);
    let open = get(&store, part(0, 1));
    wait(&open);
    stream.skip_until(1000 * KEY_EVERY);
    stream.push_until(&store, 1001 * KEY_EVERY + 1);
    assert_eq!(woken.take(), [(3, vec![9])]);
    assert!(open.look(Filling::is_over));
    assert_eq!(lines(&text(&get(&store, MEDIA)), "#EXT-X-MAP").len(), 2);
}

#[test]
fn a_stream_in_another_mux_begins_anew_and_one_in_the_same_does_not() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, 3);
    store.begin(Mux::MpegTs, utc(3));
    assert!(!store.is_starting());
    store.begin(Mux::Flv, utc(3));
    assert!(store.is_starting());
    assert!(matches!(find(&store, Object::TransportMedia), FoundObject::Unknown), "it has no packets now");
    store.begin(Mux::MpegTs, utc(3));
    assert!(!get(&store, Object::TransportMedia).look(Filling::is_over));
}

#[test]
fn each_request_says_when_it_is_wanted() {
    let (store, _) = store();
    assert_eq!(store.wanted_at(), at(1));
    drop(store.find(segment(0), "", at(5)));
    assert_eq!(store.wanted_at(), at(5));
    drop(store.find(MEDIA, "_HLS_msn=bad", at(6)));
    assert_eq!(store.wanted_at(), at(6));
}

#[test]
fn segments_of_the_streams_own_bytes_are_made_once_they_are_asked_for() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, 3 * KEY_EVERY + 1);
    let idle = Duration::from_secs(10);
    assert_eq!(store.missing_mpeg_ts(at(1), idle), [], "no client has asked");
    let playlist = found(store.find(Object::TransportMedia, "", at(2)));
    assert!(!filled(&playlist).1);
    let missing = store.missing_mpeg_ts(at(3), idle);
    assert_eq!(missing.iter().map(|it| it.segment - FIRST).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(missing.windows(2).all(|pair| pair[0].source.end == pair[1].source.start), "{missing:?}");
    for MissingSegment { segment, source } in &missing {
        let source = source.start as usize..source.end as usize;
        let bytes = Bytes::copy_from_slice(&stream.bytes[source]);
        assert_eq!((bytes[0], bytes.len() % 188), (0x47, 0));
        store.put_mpeg_ts(*segment, Some(bytes));
    }
    assert_eq!(store.missing_mpeg_ts(at(3), idle), []);
    assert_eq!(lines(&text(&found(store.find(Object::TransportMedia, "", at(3)))), "#EXTINF:").len(), 3);
    assert_eq!(lines(&text(&playlist), "#EXTINF:").len(), 1, "the first one answers what waited");
    let object = Object::TransportSegment { segment: FIRST };
    let head = get(&store, object).look(|object| object.progress().head).unwrap();
    assert_eq!(head.field("content-type"), Some("video/mp2t"));
    assert_eq!(head.field("etag"), Some(&*format!("\"{FIRST:x}-{object}\"")));
}

#[test]
fn segments_of_the_streams_own_bytes_are_dropped_when_no_client_asks_any_more() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, 2 * KEY_EVERY + 1);
    drop(store.find(Object::TransportMedia, "", at(2)));
    store.put_mpeg_ts(FIRST, Some(Bytes::from_static(b"packets")));
    let idle = Duration::from_secs(10);
    let object = Object::TransportSegment { segment: FIRST };
    drop(store.find(object, "", at(11)));
    assert_eq!(store.missing_mpeg_ts(at(20), idle).len(), 1, "a segment that is asked for counts, too");
    assert_eq!(store.missing_mpeg_ts(at(21), idle), []);
    assert_eq!(store.lock().mpeg_ts.range(), None);
    assert_eq!(store.missing_mpeg_ts(at(21), idle), [], "nothing is asked for now");
    assert!(matches!(store.find(object, "", at(22)), FoundObject::Unknown));
}

#[test]
fn a_segment_of_the_streams_own_bytes_leaves_with_the_others_of_its_number() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, KEY_EVERY + 1);
    store.put_mpeg_ts(FIRST, Some(Bytes::from_static(b"packets")));
    let object = Object::TransportSegment { segment: FIRST };
    assert_eq!(text(&get(&store, object)), "packets");
    stream.push_until(&store, 20 * KEY_EVERY);
    assert!(matches!(find(&store, object), FoundObject::Gone));
    assert_eq!(store.lock().mpeg_ts.range(), None);
}

#[test]
fn playlists_of_pictures_tell_how_far_the_other_versions_are() {
    let ((store, _), mut stream) = (store(), Stream::new());
    let ((near, _), (far, _)) = (testing::store(), testing::store());
    let version = |name: &str, store: &Arc<PresentationStore>| {
        CaptureVersion::new(StreamName::parse(name).unwrap(), Arc::clone(store))
    };
    store.add_version(&version("hall-b", &far));
    store.add_version(&version("hall-a", &near));
    store.add_version(&version("hall-c", &testing::store().0));
    stream.push_until(&store, KEY_EVERY + 1);
    Stream::new().push_until(&near, 2 * KEY_EVERY + 1);
    Stream::new().push_until(&far, PART_EVERY);
    stream.push_until(&store, KEY_EVERY + PART_EVERY);
    let reports =
        |store: &PresentationStore| lines(&text(&get(store, MEDIA)), "#EXT-X-RENDITION-REPORT:URI=");
    let report = |name: &str, index: u64, part: u64| {
        format!("\"../{name}/video.m3u8\",LAST-MSN={},LAST-PART={part}", FIRST + index)
    };
    assert_eq!(reports(&store), [report("hall-a", 1, 4), report("hall-b", 0, 0)]);
    // One that is known takes the place of the one of its name; one that has gone is not told of.
    let (again, _) = testing::store();
    Stream::new().push_until(&again, 2 * PART_EVERY);
    store.add_version(&version("hall-a", &again));
    drop(far);
    stream.push_until(&store, KEY_EVERY + 2 * PART_EVERY);
    assert_eq!(reports(&store), [report("hall-a", 0, 1)]);
}

#[test]
fn a_version_that_begins_later_joins_the_segments_of_another() {
    let ((store, _), mut stream) = (store(), Stream::new());
    assert_eq!(store.guide(), None);
    stream.push_until(&store, 3 * KEY_EVERY + 3);
    let (late, _) = testing::store();
    assert!(late.is_starting());
    late.follow(store.guide());
    let mut other = Stream::new();
    other.skip_until(3 * KEY_EVERY);
    other.push_until(&late, 3 * KEY_EVERY + 3);
    assert!(!late.is_starting());
    assert_eq!(late.look(|it| it.lead().unwrap().position().segment), FIRST + 3);
    store.finish(utc(100));
    assert_eq!(store.guide(), None, "what has ended can be joined no more");
}

/// A stream of which nothing can be packaged.
fn push_mpeg_2_video(store: &PresentationStore) {
    let settings = MuxSettings { video: Some(Codec::Mpeg2Video), ..MuxSettings::default() };
    let (mut muxer, mut bytes) = (Muxer::new(settings).unwrap(), Vec::new());
    for number in 0..3 {
        let pts = Ticks(90_000 + number * 3600);
        let data = vec![0, 0, 1, 0xb3, 1, 2, 3, 4].into();
        let stamps = Stamps::default();
        let unit = AccessUnit { codec: Codec::Mpeg2Video, data, pts, dts: pts, random_access: true, stamps };
        muxer.write(&unit, &mut bytes).unwrap();
    }
    store.push(&bytes, utc(0), Some(0));
}

#[test]
fn a_stream_of_which_nothing_can_be_packaged_is_refused_with_its_tracks_and_the_reason() {
    let (store, woken) = store();
    let (waits, packets) = (get(&store, Object::Multivariant), get(&store, Object::TransportMedia));
    wait(&waits);
    push_mpeg_2_video(&store);
    assert_eq!(woken.take(), [(3, vec![9])]);
    for refusal in [waits, get(&store, Object::Multivariant), get(&store, MEDIA)] {
        let progress = refusal.look(Filling::progress);
        let head = progress.head.unwrap();
        assert_eq!((head.status(), progress.is_whole), (406, true));
        assert_eq!(head.field("content-type"), Some("application/problem+json"));
        let told: serde_json::Value = serde_json::from_str(&text(&refusal)).unwrap();
        assert_eq!(told["status"], 406);
        let detail = told["detail"].as_str().unwrap();
        assert!(detail.ends_with(". The stream itself is at /live/NAME.ts."), "{detail}");
        assert!(detail.contains(" on PID 256: its codec is not written to MP4"), "{detail}");
        assert_eq!(told["tracks"][0]["pid"], 256);
    }
    assert!(!packets.look(Filling::is_over), "its own bytes can be cut all the same");
}

#[test]
fn what_is_left_out_is_news_once() {
    let (store, _) = store();
    assert_eq!(store.news_of_left_out(), None);
    push_mpeg_2_video(&store);
    assert_eq!(store.left_out().len(), 1);
    let news = store.news_of_left_out().unwrap();
    assert!(news.contains(" on PID 256: ") && !news.contains("; its"), "{news}");
    assert_eq!(store.news_of_left_out(), None);
}

#[test]
fn tracks_are_told_of_by_pid_where_the_mux_has_pids() {
    let track = |pid, codec: &'static str| LeftOut { pid, codec: codec.into(), why: "of its own".into() };
    let tracks = [track(256, "one"), track(257, "other")];
    assert_eq!(words_of(Mux::MpegTs, &tracks), "one on PID 256: of its own; other on PID 257: of its own");
    assert_eq!(words_of(Mux::Flv, &tracks), "one: of its own; other: of its own");
    assert_eq!(words_of(Mux::Flv, &[]), "");
}

#[test]
fn a_panic_under_the_lock_ends_the_presentation_and_fails_what_is_read() {
    let ((store, woken), mut stream) = (store(), Stream::new());
    stream.push_until(&store, 3);
    let (open, playlist) = (get(&store, part(0, 0)), get(&store, MEDIA));
    for growing in [&open, &playlist] {
        wait(growing);
    }
    let torn = contain(Border::Output, || store.look(|_| panic!("a test's")));
    assert!(torn.is_err());
    assert!(!store.has_ended(), "it is seen by the next one that looks");
    assert!(matches!(find(&store, part(0, 0)), FoundObject::Unknown));
    assert!(store.has_ended());
    assert_eq!(woken.take().len(), 2);
    assert_eq!(open.look(Filling::failure), Some(Failure::Fault));
    assert_eq!(playlist.look(Filling::failure), Some(Failure::Ended));
    assert_eq!(format!("{store:?}"), "PresentationStore(0 objects)");
}

#[test]
fn what_is_made_behind_a_fault_has_no_name_of_what_was_made_before() {
    let ((store, _), mut stream) = (store(), Stream::new());
    stream.push_until(&store, 2 * KEY_EVERY + 3);
    let names = |store: &PresentationStore| store.lock().objects.keys().copied().collect::<Vec<_>>();
    let before = names(&store);
    // Twice in a row, so that there is nothing to see of the first time. The thread that packages knows nothing of it, and goes on.
    for _ in 0..2 {
        assert!(contain(Border::Output, || store.look(|_| panic!("a test's"))).is_err());
        assert!(names(&store).is_empty());
    }
    stream.push_until(&store, 4 * KEY_EVERY + 3);
    let after = names(&store);
    let again: Vec<&Object> = after.iter().filter(|object| before.contains(object)).collect();
    assert!(after.contains(&Object::Init { rendition: VIDEO, number: 1 }) && again.is_empty(), "{again:?}");
    // Numbers go on, so that players of before find their way.
    assert_eq!(store.look(|it| it.lead().unwrap().media_sequence()), FIRST + 3);
}
