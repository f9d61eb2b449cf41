use super::*;
use std::cell::Cell;

/// A clock that only waiting moves.
struct Virtual(Cell<Time>);

impl Virtual {
    fn new() -> Virtual {
        Virtual(Cell::new(Time::from_millis(10_000)))
    }
}

impl Timer for Virtual {
    fn now(&self) -> Time {
        self.0.get()
    }

    fn sleep_until(&self, time: Time) {
        self.0.set(self.0.get().max(time));
    }
}

/// Stands for a sound card: it has 10 ms ready each 10 ms, by a crystal that is off, and loses some on demand.
struct Card {
    format: Format,
    ppm: f64,
    blocks: u64,
    end: u64,
    /// The block before which samples are lost.
    loses: Option<u64>,
    start: Option<Time>,
}

impl Card {
    fn new(ppm: f64, end: u64) -> Card {
        Card {
            format: Format { rate_hz: 48_000, channels: 2 },
            ppm,
            blocks: 0,
            end,
            loses: None,
            start: None,
        }
    }
}

impl LiveSound for Card {
    fn format(&self) -> Format {
        self.format
    }

    fn read(&mut self, timer: &dyn Timer, samples: &mut Vec<f32>) -> Result<Option<Arrival>> {
        if self.blocks == self.end {
            return Ok(None);
        }
        let start = *self.start.get_or_insert(timer.now());
        let lost = self.loses == Some(self.blocks);
        if lost {
            self.start = Some(start + Duration::from_millis(700));
        }
        self.blocks += 1;
        let due = self.blocks as f64 * 0.01 / (1.0 + self.ppm * 1e-6);
        timer.sleep_until(self.start.unwrap_or(start) + Duration::from_secs_f64(due));
        samples.extend([0.25; 960]);
        Ok(Some(Arrival { end: timer.now(), lost }))
    }
}

fn run(capture: &mut dyn LiveSound, timer: &Virtual) -> Vec<AudioBlock> {
    let mut blocks: Vec<AudioBlock> = Vec::new();
    let mut push = |block: AudioBlock| {
        // Sound is handed over when it is there, and not before it was captured.
        let end = block.captured + time_of(block.frames() as u64);
        assert!(end <= timer.now() + Duration::from_millis(1), "{end:?} at {:?}", timer.now());
        assert!(timer.now().since(end) < Duration::from_millis(16), "{end:?} at {:?}", timer.now());
        blocks.push(block);
        true
    };
    pump(capture, timer, &mut push, &|| false).unwrap();
    blocks
}

#[test]
fn a_card_whose_crystal_is_off_gives_sound_without_a_gap() {
    let blocks = run(&mut Card::new(150.0, 3_000), &Virtual::new());
    for pair in blocks.windows(2) {
        let end = pair[0].captured + time_of(pair[0].frames() as u64);
        assert!(end.since(pair[1].captured) + pair[1].captured.since(end) < Duration::from_nanos(3));
    }
    let samples: usize = blocks.iter().map(AudioBlock::frames).sum();
    // 30 s less the half second of measuring, by the capture clock and not by the card's.
    let expected = 48_000.0 * (30.0 / 1.000_15 - 0.5);
    assert!((samples as f64 - expected).abs() < 1_500.0, "{samples} samples, {expected}");
}

#[test]
fn a_card_that_lost_samples_goes_on_at_the_right_time() {
    let timer = Virtual::new();
    let mut card = Card { loses: Some(300), ..Card::new(0.0, 1_000) };
    let blocks = run(&mut card, &timer);
    let gaps: Vec<_> = blocks
        .windows(2)
        .map(|pair| pair[1].captured.since(pair[0].captured + time_of(pair[0].frames() as u64)))
        .filter(|gap| *gap > Duration::from_millis(1))
        .collect();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!((Duration::from_millis(1100)..Duration::from_millis(1400)).contains(&gaps[0]), "{gaps:?}");
}

/// Sound of a stream that was entered further back, or of a connection that had stalled: two seconds of it come at once.
struct Burst(Card, u32);

impl LiveSound for Burst {
    fn format(&self) -> Format {
        self.0.format()
    }

    fn is_always_live(&self) -> bool {
        true
    }

    fn read(&mut self, timer: &dyn Timer, samples: &mut Vec<f32>) -> Result<Option<Arrival>> {
        if self.1 == 0 {
            return self.0.read(timer, samples);
        }
        self.1 -= 1;
        samples.extend([0.25; 2 * 24_000]);
        Ok(Some(Arrival { end: timer.now(), lost: false }))
    }
}

#[test]
fn what_is_live_is_never_read_at_its_nominal_rate() {
    let timer = Virtual::new();
    let start = timer.now();
    let blocks = run(&mut Burst(Card::new(0.0, 500), 4), &timer);
    assert_eq!(timer.now().since(start), Duration::from_secs(5), "it went by the source's time alone");
    assert!(!blocks.is_empty());
}

/// A pipe with a file at its other end.
struct Pipe(std::io::Cursor<Vec<u8>>, usize);

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let length = into.len().min(self.1);
        self.0.read(&mut into[..length])
    }
}

#[test]
fn a_file_in_a_pipe_is_read_at_its_rate_and_whole() {
    let values: Vec<i16> = (0..48_000 * 3).map(|at| (at % 20_000) as i16).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    // Pieces of an odd length: samples are cut anywhere.
    for piece in [usize::MAX, 4_001] {
        let input = Box::new(Pipe(std::io::Cursor::new(bytes.clone()), piece));
        let format = Format { rate_hz: 48_000, channels: 1 };
        let mut raw = Raw::new("pipe".to_owned(), input, SampleFormat::S16, format);
        let timer = Virtual::new();
        let blocks = run(&mut raw, &timer);
        assert_eq!(timer.now(), Time::from_millis(13_000));
        assert_eq!(blocks[0].captured, Time::from_millis(10_000));
        let samples: Vec<f32> = blocks.into_iter().flat_map(|block| block.samples).collect();
        assert!(samples.iter().copied().eq(values.iter().map(|value| f32::from(*value) / 32_768.0)));
    }
}

#[test]
fn the_end_of_the_queue_ends_it() {
    let mut card = Card::new(0.0, u64::MAX);
    let mut count = 0;
    let mut push = |_| {
        count += 1;
        count < 5
    };
    pump(&mut card, &Virtual::new(), &mut push, &|| false).unwrap();
    assert_eq!(count, 5);
}

/// Stands for a flow that nobody sends.
struct Silent;

impl LiveSound for Silent {
    fn format(&self) -> Format {
        Format { rate_hz: 48_000, channels: 2 }
    }

    fn read(&mut self, timer: &dyn Timer, _: &mut Vec<f32>) -> Result<Option<Arrival>> {
        Ok(Some(Arrival { end: timer.now(), lost: false }))
    }
}

#[test]
fn what_brings_nothing_is_left_when_nobody_waits_any_more() {
    let asked = Cell::new(0);
    let is_stopped = || {
        asked.set(asked.get() + 1);
        asked.get() == 3
    };
    pump(&mut Silent, &Virtual::new(), &mut |_| panic!("there is no sound"), &is_stopped).unwrap();
    assert_eq!(asked.get(), 3);
}
