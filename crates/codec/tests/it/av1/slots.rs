//! Candidates, pictures that are not sent, losses, recovery from an acknowledged slot.

use super::{Random, encoder, noise, pattern, size, slot};
use glassline_codec::av1::{Decoder, Encoder, Slot};
use glassline_media::container::y4m;
use glassline_media::{Picture, Size};
use glassline_test_support::{has_program, shared, skip};
use std::collections::VecDeque;
use std::process::{Command, Stdio};

/// Pictures until the sender learns what became of one.
const DELAY: usize = 3;

/// The receiver: a decoder, and which picture (by its number) lies in each of its slots.
struct Receiver {
    decoder: Decoder,
    held: [Option<usize>; 8],
    decoded: usize,
    refused: usize,
    mismatches: usize,
}

/// A unit, the pictures that it is predicted from and makes, and where they lie.
struct Unit {
    bytes: Vec<u8>,
    hash: glassline_codec::av1::PictureHash,
    source: Option<(Slot, usize)>,
    target: Slot,
    id: usize,
}

fn index(slot: Slot) -> usize {
    slot.index().into()
}

impl Receiver {
    fn new(threads: usize) -> Receiver {
        let decoder = Decoder::new(threads, 1280 * 720).unwrap();
        Receiver { decoder, held: [None; 8], decoded: 0, refused: 0, mismatches: 0 }
    }

    /// Whether the unit was decoded.
    fn take(&mut self, unit: &Unit) -> bool {
        if unit.source.is_some_and(|(slot, id)| self.held[index(slot)] != Some(id)) {
            self.refused += 1;
            return false;
        }
        let decoded = self.decoder.decode(&unit.bytes).unwrap();
        self.decoded += 1;
        self.mismatches += usize::from(decoded.hash != unit.hash);
        match unit.source {
            Some(_) => self.held[index(unit.target)] = Some(unit.id),
            None => self.held = [Some(unit.id); 8],
        }
        true
    }
}

/// What the sender knows: which picture lies in each of its slots, the newest one that was sent, and the newest one that the
/// receiver is known to have.
struct Sender {
    encoder: Encoder,
    held: [usize; 8],
    newest: Slot,
    acknowledged: Slot,
    next_id: usize,
    recoveries: usize,
    /// Units under way: when sent, after how many recoveries, what, and whether it will have been decoded.
    under_way: VecDeque<(usize, usize, Slot, usize, bool)>,
}

impl Sender {
    fn learn(&mut self, now: usize) {
        while let Some(&(at, recoveries, slot, id, decoded)) = self.under_way.front() {
            if at + DELAY > now {
                return;
            }
            self.under_way.pop_front();
            if decoded && self.held[index(slot)] == id {
                self.acknowledged = slot;
            } else if !decoded && recoveries == self.recoveries {
                self.newest = self.acknowledged;
                self.recoveries += 1;
            }
        }
    }

    /// A slot that is neither predicted from nor fallen back to.
    fn free(&self, random: &mut Random, taken: Option<Slot>) -> Slot {
        loop {
            let slot = slot(random.below(8) as u8);
            if ![Some(self.newest), Some(self.acknowledged), taken].contains(&Some(slot)) {
                return slot;
            }
        }
    }

    /// Encodes one candidate.
    fn candidate(&mut self, picture: &Picture, quantizer: u8, target: Slot) -> Unit {
        let source = Some((self.newest, self.held[index(self.newest)]));
        let encoded = self.encoder.encode(picture, quantizer, self.newest, target).unwrap();
        let id = self.next_id;
        self.next_id += 1;
        self.held[index(target)] = id;
        Unit { bytes: encoded.bytes, hash: encoded.hash, source, target, id }
    }
}

/// Sends pictures over a line that loses some, and compares each one that is decoded.
fn send(pictures: &[Picture], seed: u64) -> (Sender, Receiver) {
    let mut random = Random(seed);
    let mut receiver = Receiver::new(2);
    let mut encoder = encoder(pictures[0].size());
    let key = encoder.encode_key(&pictures[0], 30).unwrap();
    let unit = Unit { bytes: key.bytes, hash: key.hash, source: None, target: slot(0), id: 0 };
    assert!(receiver.take(&unit));
    let (newest, acknowledged) = (slot(0), slot(0));
    let mut sender = Sender {
        encoder,
        held: [0; 8],
        newest,
        acknowledged,
        next_id: 1,
        recoveries: 0,
        under_way: VecDeque::new(),
    };
    for (now, picture) in pictures.iter().enumerate().skip(1) {
        sender.learn(now);
        let first = sender.free(&mut random, None);
        let second = sender.free(&mut random, Some(first));
        let candidates = [sender.candidate(picture, 32, first), sender.candidate(picture, 44, second)];
        let chosen = &candidates[random.below(2)];
        if random.is_percent(10) {
            continue;
        }
        let decoded = !random.is_percent(5) && receiver.take(chosen);
        sender.newest = chosen.target;
        sender.under_way.push_back((now, sender.recoveries, chosen.target, chosen.id, decoded));
    }
    (sender, receiver)
}

#[test]
fn each_picture_that_can_be_decoded_is_the_one_that_was_encoded() {
    let pictures = pattern(size(320, 180), 300);
    let seed = 88_172_645_463_325_252;
    let (sender, receiver) = send(&pictures, seed);
    println!(
        "seed {seed}: {} decoded, {} refused, {} recoveries",
        receiver.decoded, receiver.refused, sender.recoveries
    );
    assert_eq!(receiver.mismatches, 0);
    assert!(receiver.decoded > 200 && receiver.refused > 5 && sender.recoveries > 5);
}

#[test]
fn filmed_pictures_are_decoded_as_they_were_encoded() {
    let test = "filmed_pictures_are_decoded_as_they_were_encoded";
    let Some(file) = shared("media/people_480p30.mp4") else {
        return skip(test, "the shared folder has no media/people_480p30.mp4");
    };
    if !has_program("ffmpeg") {
        return skip(test, "ffmpeg is not installed");
    }
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-i"]).arg(file).args(["-frames:v", "120", "-pix_fmt", "yuv420p"]);
    let output = command.args(["-f", "yuv4mpegpipe", "-"]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut reader, mut rest, mut pictures) = (y4m::Reader::new(), &output.stdout[..], Vec::new());
    while let Some(picture) = reader.parse(&mut rest).unwrap() {
        pictures.push(picture);
    }
    assert_eq!(pictures.len(), 120);
    let (_, receiver) = send(&pictures, 1);
    assert_eq!(receiver.mismatches, 0);
    assert!(receiver.decoded > 60, "{}", receiver.decoded);
}

/// Bytes of a picture that is predicted from a slot.
fn bytes(encoder: &mut Encoder, picture: &Picture, source: u8, target: u8) -> usize {
    encoder.encode(picture, 40, slot(source), slot(target)).unwrap().bytes.len()
}

#[test]
fn a_picture_is_predicted_from_its_source_and_left_in_its_target() {
    let size = size(320, 180);
    let (one, two) = (noise(size, 1), noise(size, 2));
    let mut encoder = encoder(size);
    let key = encoder.encode_key(&one, 40).unwrap().bytes.len();
    for held in [1, 4, 7] {
        // A still scene costs next to nothing from whichever slot it lies in, and another one what a key picture costs.
        let new = bytes(&mut encoder, &two, 0, held);
        let still = bytes(&mut encoder, &two, held, 2);
        let old = bytes(&mut encoder, &one, 0, 3);
        let wrong = bytes(&mut encoder, &two, 3, 5);
        let wrong_again = bytes(&mut encoder, &one, held, 6);
        let text = format!("key {key}, {new}, {still}, {old}, {wrong}, {wrong_again}");
        assert!(key > 10_000 && new.min(wrong).min(wrong_again) > key / 2, "{text}");
        assert!(still.max(old) < key / 8, "{text}");
    }
}

#[test]
fn a_key_picture_lies_in_all_slots() {
    let size = size(160, 96);
    let (one, two) = (noise(size, 1), noise(size, 2));
    let mut encoder = encoder(size);
    let mut decoder = Decoder::new(1, size.width * size.height).unwrap();
    for picture in [&one, &two] {
        let key = encoder.encode_key(picture, 40).unwrap();
        assert!(key.key);
        assert_eq!(decoder.decode(&key.bytes).unwrap().hash, key.hash);
        for source in Slot::ALL {
            let target = slot((source.index() + 1) % 8);
            let still = encoder.encode(picture, 40, source, target).unwrap();
            assert!(!still.key && still.bytes.len() < key.bytes.len() / 4, "{source}: {}", still.bytes.len());
            assert_eq!(decoder.decode(&still.bytes).unwrap().hash, still.hash);
        }
    }
}

#[test]
fn what_is_encoded_beside_a_picture_is_not_needed_for_it() {
    let pictures = pattern(size(176, 144), 20);
    let mut encoder = encoder(pictures[0].size());
    let mut decoder = Decoder::new(2, 176 * 144).unwrap();
    decoder.decode(&encoder.encode_key(&pictures[0], 40).unwrap().bytes).unwrap();
    let (mut source, mut target) = (slot(0), slot(1));
    for picture in &pictures[1..] {
        encoder.encode(picture, 20, source, slot(2)).unwrap();
        encoder.encode(&pictures[0], 60, slot(2), slot(3)).unwrap();
        let sent = encoder.encode(picture, 40, source, target).unwrap();
        assert_eq!(decoder.decode(&sent.bytes).unwrap().hash, sent.hash);
        (source, target) = (target, source);
    }
    let Size { width, height } = encoder.size();
    assert_eq!((width, height), (176, 144));
}
