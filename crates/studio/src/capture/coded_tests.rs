use super::*;
use crate::capture::coded_outlet::ASSUMED_RATE;
use glassline_media::Time;
use glassline_test_support::program::Scratch;
use std::sync::Mutex;

fn run(input: CodedInput) -> (Result<()>, Vec<CodedItem>) {
    let items = Mutex::new(Vec::new());
    let ended = input.run(&|item| {
        items.lock().unwrap().push(item);
        true
    });
    (ended, items.into_inner().unwrap())
}

fn nal(header: u8, rest: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 1, header][..], rest].concat()
}

#[test]
fn a_file_comes_at_its_rate_and_again() {
    let path = std::env::temp_dir().join(format!("glassline-coded-{}.h264", std::process::id()));
    let bytes = [nal(0x65, &[0x88, 1]), nal(0x41, &[0x9a, 2]), nal(0x41, &[0x9a, 3])].concat();
    std::fs::write(&path, bytes).unwrap();
    let length = Length { pictures: Some(5), time: None };
    let input = CodedInput::file(&path, true, length, Clock::new()).unwrap();
    let (ended, items) = run(input);
    ended.unwrap();
    let keys: Vec<bool> = items.iter().map(|item| item.piece.key).collect();
    assert_eq!(keys, [true, false, false, true, false]);
    assert!(items.windows(2).all(|pair| pair[1].captured == pair[0].captured + ASSUMED_RATE.time_of(1)));
    std::fs::write(&path, b"no H.264").unwrap();
    let input = CodedInput::file(&path, true, Length::default(), Clock::new()).unwrap();
    assert!(run(input).0.unwrap_err().to_string().contains("no picture of H.264"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_pipe_gives_a_unit_when_its_writer_pauses() {
    let (reader, mut writer) = io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(reader));
    let kind = Kind::Stdin { file, begun: vec![0, 0, 0, 1] };
    let input = CodedInput { kind, looped: false, length: Length::default(), clock: Clock::new() };
    let (to, units) = std::sync::mpsc::channel();
    let running = thread::spawn(move || input.run(&|item| to.send(item).is_ok()));
    let wait = Duration::from_secs(20);
    for number in 0..3u8 {
        let unit = nal(if number == 0 { 0x65 } else { 0x41 }, &[0x9a, number]);
        // The first one's start code was read already.
        io::Write::write_all(&mut writer, &unit[if number == 0 { 4 } else { 0 }..]).unwrap();
        let item = units.recv_timeout(wait).unwrap();
        assert_eq!((item.piece.key, item.piece.data.to_vec()), (number == 0, unit));
    }
    drop(writer);
    running.join().unwrap().unwrap();
    assert!(units.recv_timeout(wait).is_err());
}

/// A stream of H.264 on a pipe, and the pipe's other end.
fn live(length: Length) -> (CodedInput, io::PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(reader));
    let kind = Kind::Stdin { file, begun: Vec::new() };
    (CodedInput { kind, looped: false, length, clock: Clock::new() }, writer)
}

/// A key frame and so many pictures behind it.
fn pictures(count: u8) -> Vec<u8> {
    let others = (0..count).map(|number| nal(0x41, &[0x9a, number]));
    [nal(0x65, &[0x88, 1])].into_iter().chain(others).flatten().collect()
}

/// A file with this in it.
fn file(scratch: &Scratch, bytes: &[u8], looped: bool, length: Length) -> CodedInput {
    CodedInput::file(scratch.write("a.h264", bytes).as_ref(), looped, length, Clock::new()).unwrap()
}

const ALL: Length = Length { pictures: None, time: None };

#[test]
fn a_file_that_is_not_looped_ends_behind_its_last_picture() {
    let scratch = Scratch::new("coded-once");
    let (ended, items) = run(file(&scratch, &pictures(2), false, ALL));
    ended.unwrap();
    assert_eq!(items.len(), 3);
    let whole: Vec<u8> = items.iter().flat_map(|item| item.piece.data.to_vec()).collect();
    assert_eq!(whole, pictures(2), "not a byte is missing or moved");
}

#[test]
fn a_length_in_time_is_counted_by_the_rate_of_the_pictures() {
    let scratch = Scratch::new("coded-time");
    for (millis, count) in [(1, 1), (40, 1), (41, 2), (80, 2)] {
        let length = Length { pictures: None, time: Some(Duration::from_millis(millis)) };
        assert_eq!(
            run(file(&scratch, &pictures(8), false, length)).1.len(),
            count,
            "{millis} ms at 25 a second"
        );
    }
}

/// The rest of a sequence parameter set: 1280×720, a hundred pictures a second.
const SPS_OF_100: [u8; 24] = [
    0x64, 0x00, 0x1f, 0xac, 0xd9, 0x40, 0x50, 0x05, 0xbb, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
    0x00, 0x0c, 0x80, 0xf1, 0x83, 0x19, 0x60,
];

#[test]
fn the_rate_that_the_parameter_sets_name_is_kept_to() {
    let scratch = Scratch::new("coded-rate");
    let sets = [nal(0x67, &SPS_OF_100), nal(0x68, &[0xce, 0x3c, 0x80])].concat();
    let (ended, items) = run(file(&scratch, &[sets, pictures(3)].concat(), false, ALL));
    ended.unwrap();
    let rate = FrameRate::new(100, 1);
    assert!(items.iter().all(|item| item.rate == rate), "{:?}", items[0].rate);
    let apart: Vec<_> = items.windows(2).map(|pair| pair[1].captured.since(pair[0].captured)).collect();
    assert_eq!(apart, [Duration::from_millis(10); 3]);
}

#[test]
fn a_taker_that_wants_no_more_gets_no_more() {
    let scratch = Scratch::new("coded-enough");
    let items = Mutex::new(0);
    let take = |_: CodedItem| {
        *items.lock().unwrap() += 1;
        false
    };
    file(&scratch, &pictures(8), true, ALL).run(&take).unwrap();
    assert_eq!(*items.lock().unwrap(), 1);
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let refused = CodedInput::file(Path::new("/no/such.h264"), false, ALL, Clock::new()).err().unwrap();
    assert!(matches!(&refused, Error::Open { name, .. } if name == "/no/such.h264"), "{refused}");
}

#[test]
fn a_file_without_a_picture_is_looked_at_no_further_than_a_mebibyte() {
    let scratch = Scratch::new("coded-none");
    for (size, looked_at) in [(10, 10), (3 << 20, LOOKED_AT_MAX + READ_BYTES as u64)] {
        let (ended, items) = run(file(&scratch, &vec![7; size], true, ALL));
        assert!(items.is_empty());
        let Err(Error::H264 { name, bytes }) = ended else { panic!("{ended:?}") };
        assert!(name.ends_with("a.h264") && bytes == looked_at, "{name} {bytes}");
    }
}

#[test]
fn a_pipe_without_a_picture_is_no_input() {
    let (input, mut writer) = live(ALL);
    io::Write::write_all(&mut writer, b"no H.264").unwrap();
    drop(writer);
    let (ended, items) = run(input);
    assert!(items.is_empty());
    assert!(matches!(ended, Err(Error::H264 { name, bytes: 8 }) if name == "standard input"));
}

#[test]
fn a_pipe_that_ends_gives_all_pictures_that_it_had() {
    let (input, mut writer) = live(ALL);
    io::Write::write_all(&mut writer, &pictures(3)).unwrap();
    drop(writer);
    let (ended, items) = run(input);
    ended.unwrap();
    assert_eq!(items.iter().map(|item| item.piece.key).collect::<Vec<_>>(), [true, false, false, false]);
}

#[test]
fn a_pipe_is_left_at_the_length_though_its_writer_goes_on() {
    let (input, mut writer) = live(Length { pictures: Some(2), time: None });
    io::Write::write_all(&mut writer, &pictures(5)).unwrap();
    let (ended, items) = run(input);
    ended.unwrap();
    assert_eq!(items.len(), 2);
    drop(writer);
}

#[test]
fn slices_behind_a_pause_are_of_the_picture_before_it_and_count_as_none() {
    let before = Clock::new().now();
    let (input, mut writer) = live(Length { pictures: Some(1), time: None });
    let (to, units) = std::sync::mpsc::channel();
    let running = thread::spawn(move || input.run(&|item| to.send(item).is_ok()));
    let wait = Duration::from_secs(20);
    io::Write::write_all(&mut writer, &nal(0x65, &[0x88, 1])).unwrap();
    let first = units.recv_timeout(wait).unwrap();
    assert!(!first.piece.continues && first.captured >= before && first.captured <= Clock::new().now());
    // It does not begin with the first macroblock.
    io::Write::write_all(&mut writer, &nal(0x65, &[0x40, 2])).unwrap();
    let rest = units.recv_timeout(wait).unwrap();
    assert_eq!((rest.piece.continues, rest.piece.data.to_vec()), (true, nal(0x65, &[0x40, 2])));
    // Another picture is one too many.
    io::Write::write_all(&mut writer, &pictures(0)).unwrap();
    running.join().unwrap().unwrap();
    assert!(units.recv_timeout(wait).is_err());
}

/// A device that gives these buffers, each with its number and the milliseconds of its stamp, and then fails.
struct Camera {
    buffers: Vec<(u32, u64, Vec<u8>)>,
    next: usize,
    begin: Time,
}

impl CodedCapture for Camera {
    fn rate(&self) -> Option<FrameRate> {
        FrameRate::new(30, 1)
    }

    fn next(&mut self, _: Duration) -> io::Result<Option<glassline_io::capture::Frame<'_>>> {
        let Some((sequence, millis, bytes)) = self.buffers.get(self.next) else {
            return Err(io::Error::other("unplugged"));
        };
        self.next += 1;
        let captured = self.begin + Duration::from_millis(*millis);
        Ok(Some(glassline_io::capture::Frame { bytes, captured, sequence: *sequence }))
    }
}

/// What an input makes of these buffers, and when the clock stood at zero milliseconds of their stamps.
fn of_camera(buffers: Vec<(u32, u64, Vec<u8>)>, length: Length) -> (Result<()>, Vec<CodedItem>, Time) {
    let clock = Clock::new();
    let begin = clock.now();
    let capture = Box::new(Camera { buffers, next: 0, begin });
    let kind = Kind::Device { capture, controls: None, name: "camera".to_owned() };
    let (ended, items) = run(CodedInput { kind, looped: false, length, clock });
    (ended, items, begin)
}

#[test]
fn a_device_gives_a_unit_with_each_buffer_at_the_driver_s_time() {
    let buffers = vec![
        // Parameter sets in a buffer of their own belong to the picture behind them.
        (0, 0, [nal(0x67, &[1, 2]), nal(0x68, &[3])].concat()),
        (1, 10, nal(0x65, &[0x88, 1])),
        (2, 43, nal(0x41, &[0x9a, 2])),
        // The second slice of that picture.
        (3, 44, nal(0x41, &[0x40, 3])),
        (4, 76, nal(0x41, &[0x9a, 4])),
    ];
    let (ended, items, begin) = of_camera(buffers, Length::default());
    assert!(ended.unwrap_err().to_string().contains("unplugged"));
    let found: Vec<_> = items
        .iter()
        .map(|item| (item.captured.since(begin).as_millis(), item.piece.key, item.piece.continues))
        .collect();
    assert_eq!(found, [(10, true, false), (43, false, false), (44, false, true), (76, false, false)]);
    assert!(items.iter().all(|item| item.rate == FrameRate::new(30, 1) && !item.follows_gap));
}

#[test]
fn a_gap_in_the_driver_s_count_is_told_with_the_unit_behind_it() {
    let unit = |sequence| (sequence, u64::from(sequence), nal(0x41, &[0x9a, 2]));
    let length = Length { pictures: Some(4), time: None };
    let (ended, items, _) = of_camera([0, 1, 3, 4, 5].map(unit).to_vec(), length);
    ended.unwrap();
    let gaps: Vec<bool> = items.iter().map(|item| item.follows_gap).collect();
    assert_eq!(gaps, [false, false, true, false]);
    // A count that begins anew is no gap.
    let (_, items, _) = of_camera([70_000, 0, 1].map(unit).to_vec(), Length::default());
    assert!(items.len() == 3 && items.iter().all(|item| !item.follows_gap));
}

#[test]
fn a_device_that_gives_no_h264_is_told_of() {
    let buffers = (0..20).map(|sequence| (sequence, 0, vec![7; 1 << 16])).collect();
    let (ended, items, _) = of_camera(buffers, Length::default());
    let error = ended.unwrap_err().to_string();
    assert!(items.is_empty() && error.contains("camera: no picture of H.264"), "{error}");
}
