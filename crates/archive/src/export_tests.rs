use super::*;
use crate::reading::{Done, Objects, ReadingSettings};
use crate::store::{Listed, Store, StoreSettings};
use glassline_delivery::archive::index::{Line, RecordedSegment, Recording};
use glassline_delivery::archive::location::Location;
use glassline_delivery::archive::names::Session;
use glassline_delivery::packager::{Kind, RenditionName, TrackInfo};
use glassline_io::clock::Clock;
use glassline_media::Utc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("glassline-export-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("store")).unwrap();
        Folder(path)
    }

    fn recordings(&self) -> Archive {
        let store = Store::start(StoreSettings::new(Location::Folder(self.0.join("store")))).unwrap();
        Archive::start(Box::new(store), None, ReadingSettings::default(), Clock::new()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_stream_that_is_not_recorded_is_told_with_those_that_are() {
    let folder = Folder::new("absent");
    let name = StreamName::parse("hall").unwrap();
    let request = ExportRequest { name, span: None, container: Container::Mp4 };
    let target = folder.0.join("out.mp4");
    let error = export(&folder.recordings(), &request, &target, Former::Kept, None, |_| true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nothing of hall is recorded in this store, and nothing of any other stream"
    );
    std::fs::create_dir_all(folder.0.join("store/stage/20261130T022552.123Z/index")).unwrap();
    let error = export(&folder.recordings(), &request, &target, Former::Kept, None, |_| true).unwrap_err();
    assert!(error.to_string().ends_with("there are recordings of stage"), "{error}");
    let name = StreamName::parse("stage").unwrap();
    let error =
        export(&folder.recordings(), &ExportRequest { name, ..request }, &target, Former::Kept, None, |_| {
            true
        })
        .unwrap_err();
    assert_eq!(error.to_string(), "nothing of stage is recorded in that time");
    assert!(!target.exists());
}

#[test]
fn a_file_that_is_not_finished_leaves_nothing_and_one_that_is_takes_its_place() {
    let folder = Folder::new("unfinished");
    let target = folder.0.join("out.mp4");
    std::fs::write(&target, "before").unwrap();
    let mut file = Unfinished::beside(&target, "data").unwrap();
    file.file().unwrap().write_all(b"half").unwrap();
    drop(file);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2, "the store and the former file");
    let mut file = Unfinished::beside(&target, "data").unwrap();
    file.file().unwrap().write_all(b"data").unwrap();
    let mut whole = Unfinished::beside(&target, "part").unwrap();
    assert!(copy_behind(b"head ", &mut file, &mut whole, || true).unwrap());
    drop(file);
    let mut other = Unfinished::beside(&target, "other").unwrap();
    other.file().unwrap().write_all(b"other").unwrap();
    whole.finish(&target, Former::Replaced).unwrap();
    let error = other.finish(&target, Former::Kept).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "one that came meanwhile stays");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "head data");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2);
    let mut file = Unfinished::beside(&target, "data").unwrap();
    file.file().unwrap().write_all(b"data").unwrap();
    let new = folder.0.join("new.mp4");
    file.finish(&new, Former::Kept).unwrap();
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "data");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 3, "nothing is left beside it");
    let kept = check_name(&new, Former::Kept);
    assert!(matches!(kept, Err(ExportFailure::Exists { .. })) && check_name(&new, Former::Replaced).is_ok());
    let kept = check_name(Path::new("/dev/null"), Former::Replaced);
    assert!(matches!(kept, Err(ExportFailure::NoFile { .. })));
    let error = Unfinished::beside(Path::new("/nonexistent/x.mp4"), "data").map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

/// A store that has one object, and fails so many times before it gives it.
struct Flaky {
    bytes: Bytes,
    failures: Arc<AtomicUsize>,
}

impl Objects for Flaky {
    fn get(&self, _: &str, done: Done<Bytes>) {
        let left = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        done(match left {
            Ok(_) => Err(StoreError::new(StoreErrorKind::Busy, "slow down")),
            Err(_) => Ok(self.bytes.clone()),
        });
    }

    fn list(&self, _: &str, _: usize, done: Done<Vec<Listed>>) {
        done(Ok(Vec::new()));
    }

    fn folders(&self, _: &str, done: Done<Vec<String>>) {
        done(Ok(Vec::new()));
    }

    fn put(&self, _: &str, _: Bytes, done: Done<()>) {
        done(Ok(()));
    }

    fn delete(&self, _: &str) {}
}

#[test]
fn an_object_that_fails_is_asked_for_again_while_it_is_wanted() {
    let (bytes, failures) = (Bytes::from_static(b"segment"), Arc::new(AtomicUsize::new(0)));
    let store = Box::new(Flaky { bytes: bytes.clone(), failures: Arc::clone(&failures) });
    let recordings = Archive::start(store, None, ReadingSettings::default(), Clock::new()).unwrap();
    let begun = Utc::from_nanos(1_777_863_721_000_000_000);
    let mut recording = Recording::new(StreamName::parse("hall").unwrap(), Session::new(begun));
    let kind = Kind::Audio { language: None, channels: 2, rate_hz: 48_000 };
    let codec = "mp4a.40.2".to_owned();
    let (sample_ticks, chunk_ticks, part_ticks) = (1024, 1024, 9 * 1024);
    let track = TrackInfo { epoch: 1, codec, timescale: 48_000, kind, sample_ticks, chunk_ticks, part_ticks };
    recording.add(0, Line::Track(RenditionName::Audio(1), track));
    let segment = RecordedSegment {
        number: 1,
        epoch: 1,
        start: 0,
        duration: 96_000,
        utc: begun,
        captured: false,
        independent: true,
        bytes: bytes.len() as u64,
        crc32c: glassline_delivery::archive::index::crc32c(&bytes),
        key_frames: Vec::new(),
    };
    recording.add(0, Line::Segment(RenditionName::Audio(1), segment));
    let sources = [Source { recording: &recording, is_running: false }];
    let now = Clock::new().utc();
    let plan = Plan::new(&Window::of(&sources, None, now).unwrap().unwrap(), None, now);
    let step = plan.steps.last().unwrap();
    let fetch = |fails: usize, is_wanted: bool| {
        failures.store(fails, Ordering::SeqCst);
        objects_of(&recordings, step, recordings.fetch_step(step), || is_wanted)
    };
    assert_eq!(fetch(1, true).unwrap(), [Some(bytes)]);
    assert!(matches!(fetch(1, false), Err(ExportFailure::Stopped)), "it is left at once");
}
