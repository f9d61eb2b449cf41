use super::*;
use glassline_test_support::program::Scratch;
use std::io::Write;

/// A line that is a file for now, as it was opened once, `tried` ago.
fn line(folder: &Scratch, tried: Duration) -> Arc<Line> {
    let device = PathBuf::from(folder.write("line", b"12345"));
    let file = File::options().read(true).write(true).open(&device).unwrap();
    let tried_at = Instant::now().checked_sub(tried).expect("the machine has run for a second");
    let state = State { file: Some(Arc::new(file)), opened: 1, tried_at, dropped: 0 };
    Arc::new(Line { device, baud: 9600, state: Mutex::new(state) })
}

#[test]
fn what_is_no_line_is_refused() {
    let folder = Scratch::new("line");
    let path = folder.write("file", b"");
    assert_eq!(Line::open(Path::new(&path), 9600).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(Line::open(Path::new("/no/such/line"), 9600).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_line_is_one_for_all_that_share_it() {
    let folder = Scratch::new("line");
    let line = line(&folder, Duration::ZERO);
    let (one, other) = (line.opened().unwrap(), line.opened().unwrap());
    assert!(Arc::ptr_eq(one.file(), other.file()));
    assert_eq!((one.number, other.number), (1, 1));
}

#[test]
fn a_line_that_has_gone_is_away_and_tried_again_after_a_while() {
    let folder = Scratch::new("line");
    let line = line(&folder, Duration::ZERO);
    let opened = line.opened().unwrap();
    line.handle_gone(&opened);
    assert!(line.opened().is_none());
    line.count_dropped();
    line.count_dropped();
    assert_eq!(line.lock().dropped, 2);
    // Its time has come, and what is there is no line.
    let before = Instant::now().checked_sub(TRY_EVERY).expect("the machine has run for a second");
    line.lock().tried_at = before;
    assert!(line.opened().is_none());
    let state = line.lock();
    assert!(state.tried_at > before, "it is tried again later");
    assert_eq!((state.opened, state.dropped), (1, 2), "and nothing is counted as over");
}

#[test]
fn news_that_a_line_has_gone_are_about_the_one_that_was_opened_then() {
    let folder = Scratch::new("line");
    let line = line(&folder, Duration::ZERO);
    let older = line.opened().unwrap();
    line.lock().opened = 2;
    line.handle_gone(&older);
    let newer = line.opened().expect("the line that was opened since is there");
    assert_eq!(newer.number, 2);
    line.handle_gone(&newer);
    assert!(line.opened().is_none());
}

#[test]
fn a_reader_reads_to_the_lines_end_and_tells_that_it_has_gone() {
    let folder = Scratch::new("line");
    let line = line(&folder, Duration::ZERO);
    let mut reader = LineReader::new(&line);
    let mut buffer = [0; 3];
    assert_eq!((reader.read(&mut buffer).unwrap(), &buffer), (3, b"123"));
    assert_eq!(reader.read(&mut []).unwrap(), 0);
    assert!(!reader.has_gone(), "nothing was asked for");
    assert_eq!((reader.read(&mut buffer).unwrap(), &buffer[..2]), (2, &b"45"[..]));
    assert!(!reader.has_gone() && line.opened().is_some());
    assert_eq!(reader.read(&mut buffer).unwrap(), 0);
    assert!(reader.has_gone() && line.opened().is_none());
}

#[test]
fn what_is_written_to_the_line_is_there_for_its_reader() {
    let folder = Scratch::new("line");
    let line = line(&folder, Duration::ZERO);
    let opened = line.opened().unwrap();
    let mut all = Vec::new();
    LineReader::new(&line).read_to_end(&mut all).unwrap();
    assert_eq!(all, b"12345");
    (&**opened.file()).write_all(b"678").unwrap();
    assert_eq!(std::fs::read(folder.path().join("line")).unwrap(), b"12345678");
}
