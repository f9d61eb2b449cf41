use super::*;
use crate::store::StoreSettings;
use glassline_delivery::archive::index::{PartWriter, RecordedSegment};
use glassline_delivery::archive::location::Location;
use glassline_delivery::archive::retention::{Keep, Rules};
use glassline_delivery::packager::{Kind, RenditionName, TrackInfo};
use glassline_test_support::program::Scratch;
use glassline_test_support::wait::until;
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn settings(scratch: &Scratch, keep_bytes: Option<u64>) -> RecordSettings {
    RecordSettings {
        ts: Default::default(),
        streams: BTreeSet::new(),
        store: StoreSettings::new(Location::Folder(scratch.path().to_owned())),
        spool: PathBuf::new(),
        spool_bytes: 0,
        keep: Rules { general: Keep { age: None, bytes: keep_bytes }, ..Rules::default() },
        upload_rate: None,
    }
}

fn hall() -> StreamName {
    StreamName::parse("hall").unwrap()
}

fn session(second: u64) -> Session {
    Session::new(Utc::from_nanos((1_796_000_000 + second) * 1_000_000_000))
}

/// A recording of `parts` parts, each of a segment of a kilobyte of sound. By its stamps it is of the year 2093.
fn write_recording(store: &Store, session: Session, parts: u32) {
    let rendition = RenditionName::Audio(1);
    let track = TrackInfo {
        epoch: 1,
        codec: "mp4a.40.2".to_owned(),
        timescale: 48_000,
        kind: Kind::Audio { channels: 2, rate_hz: 48_000, language: None },
        sample_ticks: 1024,
        chunk_ticks: 9216,
        part_ticks: 9216,
    };
    let path = |object| StoredObject { name: hall(), session, object }.to_string();
    for part in 0..parts {
        let segment = RecordedSegment {
            number: part.into(),
            epoch: 1,
            start: 0,
            duration: 96_000,
            utc: Utc::from_nanos(3_900_000_000_000_000_000),
            captured: true,
            independent: true,
            bytes: 1000,
            crc32c: 1,
            key_frames: Vec::new(),
        };
        let object = SessionObject::Segment { rendition, segment: segment.number };
        store.put_blocking(&path(object), vec![Bytes::from(vec![0; 1000])]).unwrap();
        let mut writer = PartWriter::new(&hall(), session, part);
        writer.add_segment(rendition, &track, &segment);
        if part + 1 == parts {
            writer.end(segment.utc);
        }
        store.put_blocking(&path(SessionObject::Index { part }), vec![writer.finish().into()]).unwrap();
    }
}

fn keeper(scratch: &Scratch, keep_bytes: Option<u64>) -> (Keeper, Store) {
    let settings = settings(scratch, keep_bytes);
    let store = Store::start(settings.store.clone()).unwrap();
    let keeper = Keeper::start().unwrap();
    keeper.configure(Some((settings, store.clone())));
    keeper.set_running(BTreeSet::new());
    (keeper, store)
}

#[test]
fn what_is_too_much_is_deleted_the_oldest_first_and_what_is_locked_stays() {
    let scratch = Scratch::new("keeper");
    let store = Store::start(StoreSettings::new(Location::Folder(scratch.path().to_owned()))).unwrap();
    for second in 0..3 {
        write_recording(&store, session(second), 2);
    }
    store.put_blocking(&format!("hall/{}/lock", session(0)), vec![Bytes::from_static(b"x")]).unwrap();
    // What is no recording is left alone.
    store.put_blocking("notes/mine.txt", vec![Bytes::from_static(b"mine")]).unwrap();
    let (keeper, _store) = keeper(&scratch, Some(5000));
    let sessions = || store.folders_blocking("hall").unwrap();
    until("two recordings", || sessions().len() == 2);
    assert_eq!(sessions(), [session(0).to_string(), session(2).to_string()], "the oldest is locked");
    until("what is known", || keeper.known().len() == 2);
    assert!(keeper.known()[&(hall(), session(0))].is_locked);
    assert!(store.get_blocking("notes/mine.txt", None).is_ok());
}

#[test]
fn stamps_of_a_publisher_keep_nothing_and_a_torn_part_is_passed_over() {
    let scratch = Scratch::new("keeper-torn");
    let store = Store::start(StoreSettings::new(Location::Folder(scratch.path().to_owned()))).unwrap();
    write_recording(&store, session(0), 2);
    store
        .put_blocking(&format!("hall/{}/index/00000002.jsonl", session(0)), vec![Bytes::from_static(b"{")])
        .unwrap();
    let (keeper, _store) = keeper(&scratch, None);
    until("the recording", || keeper.known().contains_key(&(hall(), session(0))));
    let known = keeper.known().remove(&(hall(), session(0))).unwrap();
    assert!(known.bytes > 2000 && known.ended.is_some() && known.parts.len() == 2 && known.torn.len() == 1);
    // Its parts are as old as the store says, and not of the year 2093.
    let now = Clock::new().utc();
    assert!(known.parts.values().all(|part| part.written <= now));
}

#[test]
fn a_recording_that_goes_on_or_is_not_there_is_not_deleted() {
    let scratch = Scratch::new("keeper-delete");
    let store = Store::start(StoreSettings::new(Location::Folder(scratch.path().to_owned()))).unwrap();
    write_recording(&store, session(0), 1);
    let (keeper, _store) = keeper(&scratch, None);
    until("the recording", || keeper.known().len() == 1);
    keeper.set_running([(hall(), session(0))].into());
    assert_eq!(keeper.delete(hall(), session(0)), Err(KeepError::Running));
    keeper.set_running(BTreeSet::new());
    assert_eq!(keeper.delete(hall(), session(1)), Err(KeepError::Unknown));
    keeper.lock(hall(), session(0), true).unwrap();
    until("the lock", || keeper.known()[&(hall(), session(0))].is_locked);
    assert_eq!(keeper.delete(hall(), session(0)), Err(KeepError::Locked));
    keeper.lock(hall(), session(0), false).unwrap();
    until("no lock", || !keeper.known()[&(hall(), session(0))].is_locked);
    keeper.delete(hall(), session(0)).unwrap();
    until("nothing", || keeper.known().is_empty() && store.folders_blocking("hall").unwrap().is_empty());
}

#[test]
fn a_request_to_unlock_is_not_undone_by_the_one_to_lock_before_it() {
    let scratch = Scratch::new("keeper-unlock");
    let store = Store::start(StoreSettings::new(Location::Folder(scratch.path().to_owned()))).unwrap();
    write_recording(&store, session(0), 1);
    let (keeper, _store) = keeper(&scratch, None);
    until("the recording", || keeper.known().len() == 1);
    let is_locked = || keeper.known()[&(hall(), session(0))].is_locked;
    let is_wanted = || locked(&keeper.wanted).contains_key(&(hall(), session(0)));
    for round in 0..200 {
        keeper.lock(hall(), session(0), true).unwrap();
        keeper.lock(hall(), session(0), false).unwrap();
        // Without a pause: it would be undone for no longer than the store takes.
        let begun = Instant::now();
        while is_wanted() {
            assert!(!is_locked(), "round {round}");
            assert!(begun.elapsed() < Duration::from_secs(60), "the store is not told");
        }
    }
    assert!(store.get_blocking(&format!("hall/{}/lock", session(0)), None).is_err());
}

#[test]
fn nothing_is_deleted_before_it_is_known_what_goes_on_and_then_at_once() {
    let scratch = Scratch::new("keeper-first");
    let settings = settings(&scratch, Some(0));
    let store = Store::start(settings.store.clone()).unwrap();
    write_recording(&store, session(0), 3);
    write_recording(&store, session(1), 3);
    let keeper = Keeper::start().unwrap();
    keeper.configure(Some((settings, store.clone())));
    until("the recordings", || keeper.known().len() == 2);
    // The next task comes behind all that the first look has done.
    keeper.lock(hall(), session(1), false).unwrap();
    until("the next task", || store.get_blocking(&format!("hall/{}/lock", session(1)), None).is_err());
    assert_eq!(store.folders_blocking("hall").unwrap().len(), 2);
    keeper.set_running([(hall(), session(0))].into());
    until("what is not kept", || keeper.known().len() == 1);
    // Of the one that goes on the parts went.
    assert_eq!(store.folders_blocking("hall").unwrap(), Vec::<String>::new());
    assert_eq!(keeper.known()[&(hall(), session(0))].bytes, 0);
}

#[test]
fn a_recording_without_an_end_that_got_a_part_just_now_is_another_servers() {
    let scratch = Scratch::new("keeper-recent");
    let store = Store::start(StoreSettings::new(Location::Folder(scratch.path().to_owned()))).unwrap();
    write_recording(&store, session(0), 2);
    store.delete_blocking(&format!("hall/{}/index/00000001.jsonl", session(0))).unwrap();
    let (keeper, _store) = keeper(&scratch, None);
    until("the recording", || keeper.known().len() == 1);
    assert_eq!(keeper.delete(hall(), session(0)), Err(KeepError::Running));
    let known = keeper.known().remove(&(hall(), session(0))).unwrap();
    let now = Clock::new().utc();
    let later = Utc::from_nanos(now.as_nanos() + 301_000_000_000);
    assert!(known.is_recent(now) && !known.is_recent(later));
}

#[test]
fn a_lock_that_another_server_has_set_is_seen_before_anything_goes() {
    let scratch = Scratch::new("keeper-lock");
    let store = Store::start(StoreSettings::new(Location::Folder(scratch.path().to_owned()))).unwrap();
    write_recording(&store, session(0), 2);
    write_recording(&store, session(1), 2);
    let (keeper, _store) = keeper(&scratch, None);
    until("the recordings", || keeper.known().len() == 2);
    store.put_blocking(&format!("hall/{}/lock", session(0)), vec![Bytes::from_static(b"x")]).unwrap();
    // Complete recordings are not read again: that it is locked is not known here.
    assert!(!keeper.known()[&(hall(), session(0))].is_locked);
    keeper.delete(hall(), session(0)).unwrap();
    keeper.configure(Some((settings(&scratch, Some(0)), store.clone())));
    until("the other one to go", || !keeper.known().contains_key(&(hall(), session(1))));
    assert_eq!(store.list_blocking(&format!("hall/{}/audio", session(0)), 10).unwrap().len(), 2);
    assert!(keeper.known()[&(hall(), session(0))].is_locked);
    let errors: u64 = keeper.errors().iter().sum();
    assert_eq!(errors, 1, "the deletion that was asked for");
}

#[test]
fn what_cannot_be_deleted_is_counted_and_keeps_nothing_else() {
    let scratch = Scratch::new("keeper-error");
    let store = Store::start(StoreSettings::new(Location::Folder(scratch.path().to_owned()))).unwrap();
    write_recording(&store, session(0), 40);
    write_recording(&store, session(1), 40);
    // A file where the folder of its segments was.
    let folder = scratch.path().join(format!("hall/{}/audio", session(0)));
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "x").unwrap();
    let (keeper, _store) = keeper(&scratch, Some(0));
    let has = |session| keeper.known().contains_key(&(hall(), session));
    until("the other one to go", || has(session(0)) && !has(session(1)));
    assert_eq!(keeper.known()[&(hall(), session(0))].parts.len(), 40);
    until("the count", || keeper.errors().iter().sum::<u64>() > 0);
    // What a crash has left half written goes with its recording.
    std::fs::remove_file(&folder).unwrap();
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("7.m4s#1"), "half").unwrap();
    keeper.delete(hall(), session(0)).unwrap();
    until("nothing", || !scratch.path().join(format!("hall/{}", session(0))).exists());
}

#[test]
fn a_lock_that_was_asked_for_holds_before_the_store_has_it() {
    let scratch = Scratch::new("keeper-wanted");
    let store = Store::start(StoreSettings::new(Location::Folder(scratch.path().to_owned()))).unwrap();
    write_recording(&store, session(0), 2);
    write_recording(&store, session(1), 2);
    let (keeper, _store) = keeper(&scratch, None);
    until("the recordings", || keeper.known().len() == 2);
    // The store does not take the lock: a folder with something in it has its name.
    let lock = scratch.path().join(format!("hall/{}/lock", session(0)));
    std::fs::create_dir_all(lock.join("x")).unwrap();
    keeper.lock(hall(), session(0), true).unwrap();
    keeper.configure(Some((settings(&scratch, Some(0)), store.clone())));
    until("the other one to go", || !keeper.known().contains_key(&(hall(), session(1))));
    assert!(keeper.known()[&(hall(), session(0))].is_locked);
    assert_eq!(store.list_blocking(&format!("hall/{}/audio", session(0)), 10).unwrap().len(), 2);
    // It gets it with a later look.
    std::fs::remove_dir_all(&lock).unwrap();
    keeper.configure(Some((settings(&scratch, Some(0)), store.clone())));
    until("the lock", || lock.is_file());
}

/// A recording of which the index cannot be read, with a segment that nothing tells of.
fn write_torn(store: &Store, session: Session) {
    let path = |rest: &str| format!("hall/{session}/{rest}");
    store.put_blocking(&path("audio/0.m4s"), vec![Bytes::from(vec![0; 1000])]).unwrap();
    for part in 0..2 {
        store.put_blocking(&path(&format!("index/{part:08}.jsonl")), vec![Bytes::from_static(b"{")]).unwrap();
    }
}

#[test]
fn a_recording_with_torn_parts_alone_is_deleted_when_it_is_old_or_that_is_asked_for() {
    let scratch = Scratch::new("keeper-all-torn");
    let store = Store::start(StoreSettings::new(Location::Folder(scratch.path().to_owned()))).unwrap();
    write_torn(&store, session(0));
    write_torn(&store, session(1));
    let by_age = |keep: &mut Keep, seconds: u64| keep.age = Some(Duration::from_secs(seconds));
    let keeper = Keeper::start().unwrap();
    let mut settings = settings(&scratch, None);
    by_age(&mut settings.keep.general, 3600);
    keeper.configure(Some((settings.clone(), store.clone())));
    keeper.set_running(BTreeSet::new());
    until("both", || keeper.known().len() == 2);
    let known = keeper.known().remove(&(hall(), session(0))).unwrap();
    assert_eq!((known.torn.len(), known.parts.len(), known.bytes), (2, 0, 2));
    // A server of another version may be writing it at this moment.
    assert_eq!(keeper.delete(hall(), session(0)), Err(KeepError::Running));
    let make_old = |session: Session| {
        let old = std::time::SystemTime::now() - Duration::from_secs(600);
        for part in 0..2 {
            let path = scratch.path().join(format!("hall/{session}/index/{part:08}.jsonl"));
            std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        }
    };
    make_old(session(0));
    make_old(session(1));
    // What is known of them is read anew for another store alone; here it is the same, as of another process.
    let again = Keeper::start().unwrap();
    again.configure(Some((settings.clone(), store.clone())));
    again.set_running(BTreeSet::new());
    until("both again", || again.known().len() == 2);
    again.delete(hall(), session(0)).unwrap();
    let sessions = || store.folders_blocking("hall").unwrap();
    until("one less", || sessions() == [session(1).to_string()]);
    by_age(&mut settings.keep.general, 500);
    again.configure(Some((settings, store.clone())));
    until("nothing", || sessions().is_empty() && again.known().is_empty());
}

fn make_old(scratch: &Scratch, path: &str, seconds: u64) {
    let old = std::time::SystemTime::now() - Duration::from_secs(seconds);
    let file = std::fs::File::options().write(true).open(scratch.path().join(path)).unwrap();
    file.set_modified(old).unwrap();
}

fn by_age(scratch: &Scratch, store: &Store, seconds: u64) -> Keeper {
    let mut settings = settings(scratch, None);
    settings.keep.general.age = Some(Duration::from_secs(seconds));
    let keeper = Keeper::start().unwrap();
    keeper.configure(Some((settings, store.clone())));
    keeper.set_running(BTreeSet::new());
    keeper
}

#[test]
fn a_folder_without_an_index_is_listed_and_goes_when_all_of_it_is_old() {
    let scratch = Scratch::new("keeper-bare");
    let store = Store::start(StoreSettings::new(Location::Folder(scratch.path().to_owned()))).unwrap();
    for second in 0..3 {
        for number in 0..2 {
            let path = format!("hall/{}/audio/{number}.m4s", session(second));
            store.put_blocking(&path, vec![Bytes::from(vec![0; 1000])]).unwrap();
            // Of the second one something is young.
            if second == 0 || second == 1 && number == 0 {
                make_old(&scratch, &path, 700);
            }
        }
    }
    // Of the third one the index has come when it is looked at again.
    let keeper = by_age(&scratch, &store, 3600);
    until("all", || keeper.known().len() == 3);
    let known = |second| keeper.known()[&(hall(), session(second))].clone();
    assert_eq!((known(0).bytes, known(0).ended, known(0).bare.is_some()), (2000, None, true));
    let listed = keeper.summaries(|_| true);
    assert!(listed.iter().all(|(_, summary)| summary.span.is_none() && summary.ended.is_none()));
    assert_eq!(keeper.delete(hall(), session(1)), Err(KeepError::Running), "it may have just begun");
    write_recording(&store, session(2), 2);
    let keeper = by_age(&scratch, &store, 600);
    until("two", || keeper.known().len() == 2);
    assert_eq!(store.folders_blocking("hall").unwrap(), [session(1), session(2)].map(|it| it.to_string()));
    let known = keeper.known().remove(&(hall(), session(2))).unwrap();
    assert!(known.bare.is_none() && known.bytes > 2000 && known.parts.len() == 2);
}

#[test]
fn a_clock_that_has_jumped_ahead_deletes_nothing_for_its_age_and_what_is_too_much_goes_all_the_same() {
    let scratch = Scratch::new("keeper-clock");
    let store = Store::start(StoreSettings::new(Location::Folder(scratch.path().to_owned()))).unwrap();
    write_recording(&store, session(0), 2);
    write_recording(&store, session(1), 2);
    let days = |days: u64| days * 86_400;
    for second in 0..2 {
        for part in 0..2 {
            let path = format!("hall/{}/index/{part:08}.jsonl", session(second));
            make_old(&scratch, &path, days(40) - second);
        }
    }
    // So the clock was when it was believed last: half an hour after that, and now it is forty days later.
    let believed = |ago: u64| {
        let nanos = Clock::new().utc().as_nanos() - ago * 1_000_000_000;
        let text = glassline_delivery::playlist::date_time(Utc::from_nanos(nanos));
        store.put_blocking(".glassline/clock", vec![Bytes::from(text)]).unwrap();
    };
    believed(days(40) - 1800);
    let keeper = by_age(&scratch, &store, days(30));
    until("the recordings", || keeper.known().len() == 2);
    until("that it is held", || keeper.is_held());
    // A quota needs no clock.
    let mut too_much = settings(&scratch, Some(3000));
    too_much.keep.general.age = Some(Duration::from_secs(days(30)));
    keeper.configure(Some((too_much.clone(), store.clone())));
    let known = || keeper.known().keys().map(|(_, session)| *session).collect::<Vec<_>>();
    until("the quota", || known() == [session(1)]);
    // The next start finds the same: what was believed stays.
    let again = by_age(&scratch, &store, days(30));
    until("that it is held again", || again.is_held());
    assert_eq!(store.folders_blocking("hall").unwrap(), [session(1).to_string()]);
    // One that has seen the time go by deletes.
    believed(3600);
    let right = by_age(&scratch, &store, days(30));
    until("nothing", || right.known().is_empty() && store.folders_blocking("hall").unwrap().is_empty());
    assert!(!right.is_held());
}
