use super::*;
use glassline_delivery::archive::upload::Uploads;
use glassline_test_support::program::Scratch;

fn append(log: &mut LogFiles, number: u64, text: &str) -> Result<(), LogFailed> {
    let (kind, rendition, part, recording) = (Kind::Ended, None, 0, 1);
    let header = Header { kind, rendition, part, recording, number, length: 0, payload_crc32c: 0 };
    let payload = [Bytes::from(format!("{{}}\n{text}"))];
    log.append(&header.of(&payload).unwrap().write(), &payload)
}

fn names(scratch: &Scratch) -> Vec<String> {
    let names =
        fs::read_dir(scratch.path()).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".log")).collect();
    names.sort();
    names
}

#[test]
fn a_file_goes_when_the_disk_has_what_came_before_its_deletion() {
    let scratch = Scratch::new("log-files");
    let mut log = LogFiles::open(scratch.path()).unwrap();
    assert!(!log.has_file() && append(&mut log, 1, "x").is_err());
    assert!(log.take_failure().is_some(), "why is told");
    log.begin_file(1).unwrap();
    append(&mut log, 1, "one").unwrap();
    log.begin_file(2).unwrap();
    append(&mut log, 2, "two").unwrap();
    log.take_dirty();
    log.delete_file(1);
    // Of what was handed over before, the deletion does not know.
    log.synced();
    assert_eq!(names(&scratch), ["00000001.log", "00000002.log"]);
    append(&mut log, 3, "three").unwrap();
    assert!(!log.take_dirty().is_empty());
    assert_eq!(names(&scratch), ["00000001.log", "00000002.log"]);
    log.synced();
    assert_eq!(names(&scratch), ["00000002.log"]);
    // One that failed: what it was to replace stays.
    log.begin_file(3).unwrap();
    log.delete_file(2);
    log.take_dirty();
    log.sync_failed();
    log.synced();
    assert_eq!(names(&scratch), ["00000002.log", "00000003.log"]);
    assert_eq!(log.take_failure(), None);
}

#[test]
fn damage_in_an_older_file_costs_what_is_damaged_and_a_torn_end_is_cut_off_the_newest() {
    let scratch = Scratch::new("log-damage");
    let mut log = LogFiles::open(scratch.path()).unwrap();
    // Beyond what is searched at once.
    let long = "x".repeat(3 << 20);
    let mut ends = Vec::new();
    for file in 1..=2 {
        log.begin_file(file).unwrap();
        for number in 0..4 {
            append(&mut log, number, if number == 1 { &long } else { "short" }).unwrap();
            ends.push(fs::metadata(path_of(scratch.path(), file)).unwrap().len());
        }
    }
    drop(log);
    for file in 1..=2 {
        let path = path_of(scratch.path(), file);
        let mut bytes = fs::read(&path).unwrap();
        // The header of the long one.
        bytes[ends[0] as usize + 20] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let mut log = LogFiles::open(scratch.path()).unwrap();
    let mut recovery = Recovery::new(64 << 20, Uploads::new(None, 1));
    log.recover(&mut recovery).unwrap();
    let length = |file| fs::metadata(path_of(scratch.path(), file)).unwrap().len();
    assert_eq!((length(1), length(2)), (ends[3], ends[0]));
    let file = File::open(path_of(scratch.path(), 1)).unwrap();
    assert_eq!(find_record(&file, ends[0] + 1, ends[3]).unwrap(), Some(ends[1]));
    assert_eq!(find_record(&file, ends[2] + 1, ends[3]).unwrap(), None);
}
