use super::*;
use glassline_media::container::ts::PACKET_BYTES;
use glassline_test_support::program::Scratch;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Fails at the `at`-th run, counted from 0.
struct Failing {
    at: usize,
    with: fn() -> Error,
}

impl Output for Failing {
    fn write(&mut self, _: &Packets<'_>) -> Result<Demand> {
        self.at = self.at.checked_sub(1).ok_or_else(self.with)?;
        Ok(Demand::KeyFrame)
    }
}

fn outputs(failing: Vec<Failing>) -> Outputs {
    let entry =
        |output: Failing| Entry { status: StatusHandle::new("x"), output: Some(Box::new(output) as _) };
    Outputs { entries: failing.into_iter().map(entry).collect(), failure: None, _network: None }
}

fn broken() -> Error {
    Error::write("x")(io::Error::other("it broke"))
}

const PACKETS: Packets<'_> = Packets::whole(b"", false);

#[test]
fn an_output_that_fails_leaves_the_others_and_is_told_at_the_end() {
    let mut outputs = outputs(vec![Failing { at: 9, with: broken }, Failing { at: 1, with: broken }]);
    for _ in 0..3 {
        assert_eq!(outputs.write(&PACKETS).unwrap(), Demand::KeyFrame);
    }
    let states: Vec<State> = outputs.statuses().iter().map(|status| status.get().state).collect();
    assert_eq!(states, [State::Sending, State::Failed]);
    assert!(outputs.finish().unwrap_err().to_string().contains("it broke"));
}

#[test]
fn the_last_outputs_failure_ends_it() {
    let gone = || Error::ReaderGone;
    let mut all = outputs(vec![Failing { at: 0, with: broken }, Failing { at: 1, with: gone }]);
    all.write(&PACKETS).unwrap();
    assert!(all.write(&PACKETS).unwrap_err().to_string().contains("it broke"));
    let mut quiet = outputs(vec![Failing { at: 0, with: gone }]);
    assert!(matches!(quiet.write(&PACKETS), Err(Error::ReaderGone)));
}

/// What an output was asked to do, and how it answers.
#[derive(Default)]
struct Asked {
    writes: AtomicUsize,
    finishes: AtomicUsize,
}

/// Counts what it is asked, and answers as it is told to.
struct Counting {
    asked: Arc<Asked>,
    write: fn() -> Result<Demand>,
    finish: fn() -> Result<()>,
}

impl Output for Counting {
    fn write(&mut self, _: &Packets<'_>) -> Result<Demand> {
        self.asked.writes.fetch_add(1, Ordering::Relaxed);
        (self.write)()
    }

    fn finish(&mut self) -> Result<()> {
        self.asked.finishes.fetch_add(1, Ordering::Relaxed);
        (self.finish)()
    }
}

/// How an output answers to packets, and to the end.
type Answers = (fn() -> Result<Demand>, fn() -> Result<()>);

/// Outputs that answer so, and what each was asked: writes, finishes.
fn counting(answers: &[Answers]) -> (Outputs, impl Fn() -> Vec<[usize; 2]>) {
    let asked: Vec<Arc<Asked>> = answers.iter().map(|_| Arc::default()).collect();
    let entry = |((write, finish), asked): (&Answers, &Arc<Asked>)| {
        let output = Counting { asked: Arc::clone(asked), write: *write, finish: *finish };
        Entry { status: StatusHandle::new("x"), output: Some(Box::new(output) as _) }
    };
    let entries = answers.iter().zip(&asked).map(entry).collect();
    let counts = move || {
        let both =
            |asked: &Arc<Asked>| [&asked.writes, &asked.finishes].map(|count| count.load(Ordering::Relaxed));
        asked.iter().map(both).collect()
    };
    (Outputs { entries, failure: None, _network: None }, counts)
}

fn well() -> Result<Demand> {
    Ok(Demand::Nothing)
}

fn gone() -> Result<Demand> {
    Err(Error::ReaderGone)
}

#[test]
fn a_key_frame_is_wanted_where_any_of_the_outputs_wants_one() {
    let (mut none, _) = counting(&[(well, || Ok(())), (well, || Ok(()))]);
    assert_eq!(none.write(&PACKETS).unwrap(), Demand::Nothing);
    let wants: fn() -> Result<Demand> = || Ok(Demand::KeyFrame);
    for (one, other) in [(wants, well as fn() -> _), (well, wants)] {
        let (mut some, _) = counting(&[(one, || Ok(())), (other, || Ok(()))]);
        assert_eq!(some.write(&PACKETS).unwrap(), Demand::KeyFrame);
    }
}

#[test]
fn one_that_panics_has_a_fault_of_its_own_and_the_others_go_on() {
    let (mut outputs, asked) = counting(&[(|| panic!("the test's own"), || Ok(())), (well, || Ok(()))]);
    for _ in 0..3 {
        outputs.write(&PACKETS).unwrap();
    }
    assert_eq!(asked(), [[1, 0], [3, 0]], "it is asked for nothing more");
    let failure = outputs.finish().unwrap_err();
    assert!(
        matches!(&failure, Error::Fault { name, panicked } if name == "x" && panicked.message == "the test's own"),
        "{failure}"
    );
    assert_eq!(asked(), [[1, 0], [3, 1]]);
}

#[test]
fn a_reader_that_has_gone_is_told_only_where_nothing_worse_has_happened() {
    let broken_at_the_end: fn() -> Result<()> = || Err(broken());
    let (mut outputs, _) = counting(&[(gone, || Ok(())), (well, broken_at_the_end)]);
    outputs.write(&PACKETS).unwrap();
    assert!(outputs.finish().unwrap_err().to_string().contains("it broke"));
    let (mut outputs, _) = counting(&[(|| Err(broken()), || Ok(())), (well, || Err(Error::ReaderGone))]);
    outputs.write(&PACKETS).unwrap();
    assert!(outputs.finish().unwrap_err().to_string().contains("it broke"));
    let (mut outputs, _) = counting(&[(gone, || Ok(())), (well, || Ok(()))]);
    outputs.write(&PACKETS).unwrap();
    assert!(matches!(outputs.finish(), Err(Error::ReaderGone)));
}

#[test]
fn all_are_ended_though_one_fails_at_its_end_and_the_failure_is_told_once() {
    let (mut outputs, asked) =
        counting(&[(well, || Err(broken())), (well, || Ok(())), (well, || Err(Error::ReaderGone))]);
    assert!(outputs.finish().unwrap_err().to_string().contains("it broke"));
    assert_eq!(asked(), [[0, 1], [0, 1], [0, 1]]);
    outputs.finish().unwrap();
    assert_eq!(asked(), [[0, 1], [0, 2], [0, 1]], "those that have failed are over");
}

/// Packets that carry nothing.
fn filler(count: usize) -> Vec<u8> {
    let mut packet = [0xff; PACKET_BYTES];
    packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
    packet.repeat(count)
}

fn opener(live: bool) -> Opener {
    Opener::new(Credentials::default(), Liveness { live, ..Liveness::default() })
}

fn targets(texts: &[&str]) -> Vec<Target> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn each_target_gets_all_packets_in_its_own_form_and_is_told_of_by_its_name() {
    let scratch = Scratch::new("outputs");
    let (ts, mp4) = (scratch.file("a.ts"), scratch.file("b.mp4"));
    let bytes = filler(5);
    for live in [false, true] {
        let mut outputs = opener(live).open(&targets(&[&ts, &mp4, "null:"])).unwrap();
        outputs.write(&Packets::whole(&bytes, true)).unwrap();
        outputs.finish().unwrap();
        assert_eq!(std::fs::read(&ts).unwrap(), bytes);
        assert_eq!(std::fs::read(&mp4).unwrap(), [0; 0], "filler is nothing to an MP4 file");
        let told: Vec<_> =
            outputs.statuses().iter().map(StatusHandle::get).map(|told| (told.output, told.bytes)).collect();
        assert_eq!(told, [(ts.clone(), 940), (mp4.clone(), 0), ("null:".to_owned(), 940)]);
    }
}

#[test]
fn a_file_holds_a_live_source_no_longer_than_it_takes_to_copy_the_packets() {
    let scratch = Scratch::new("outputs-full");
    let full = scratch.file("full.ts");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let bytes = filler(1);
    // What is written on the caller's thread fails there, what is written on another one fails later.
    let mut waiting = opener(false).open(&targets(&[&full])).unwrap();
    assert!(waiting.write(&Packets::whole(&bytes, true)).is_err());
    let mut live = opener(true).open(&targets(&[&full])).unwrap();
    live.write(&Packets::whole(&bytes, true)).unwrap();
    assert!(live.finish().unwrap_err().to_string().starts_with(&format!("cannot write {full}: ")));
}

#[test]
fn outputs_that_are_sockets_share_a_thread_and_files_need_none() {
    let scratch = Scratch::new("outputs-network");
    let mut opener = opener(true);
    let network = |outputs: Outputs| outputs._network;
    assert!(network(opener.open(&targets(&[&scratch.file("a.ts"), "null:"])).unwrap()).is_none());
    let sockets = ["udp://127.0.0.1:9", "http://127.0.0.1:1/live/a.ts"];
    let [one, other] = sockets.map(|url| network(opener.open(&targets(&[url])).unwrap()).expect("a thread"));
    assert!(Arc::ptr_eq(&one, &other));
}

#[test]
fn a_server_is_told_of_without_its_key_and_as_being_connected_to() {
    let outputs = opener(true).open(&targets(&["http://127.0.0.1:1/live/a.ts?key=secret"])).unwrap();
    let told = outputs.statuses()[0].get();
    assert_eq!((told.output.as_str(), told.state), ("http://127.0.0.1:1/live/a.ts?key=…", State::Connecting));
}

#[test]
fn the_first_target_that_cannot_be_opened_is_the_failure() {
    let scratch = Scratch::new("outputs-refused");
    let good = scratch.file("good.ts");
    let refused = opener(false).open(&targets(&[&good, "/no/such/a.ts", "/no/such/b.ts"])).err().unwrap();
    assert!(refused.to_string().starts_with("cannot write /no/such/a.ts: "), "{refused}");
}
