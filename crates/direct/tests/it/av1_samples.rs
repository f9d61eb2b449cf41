//! AV1 beside the encoder itself: what is shown is its reconstruction, sample by sample, whatever is lost or overtaken. The test is
//! the sender, and predicts each picture from the one before it, whether that has arrived or not, or from any slot of which it knows
//! what the receiver has there.

use bytes::Bytes;
use glassline_codec::av1::{Decoder, Encoder, Settings, Slot};
use glassline_codec::vp8::Limits;
use glassline_direct::wire::{FrameCodec, PictureHeader, StateTag};
use glassline_direct::{Fate, Receiver, ReceiverCounters};
use glassline_measure::pattern::Pattern;
use glassline_media::{FrameRate, Picture, Size, Stamps, Time, Utc};
use std::collections::{BTreeMap, VecDeque};

const SIZE: Size = Size { width: 96, height: 64 };
const PICTURES: u64 = 3_000;

fn rate() -> FrameRate {
    FrameRate::new(25, 1).unwrap()
}

/// The numbers of a linear congruence: a run repeats exactly.
struct Numbers(u32);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % bound
    }
}

/// The sender, which knows of pictures that were decoded some pictures' time later.
struct Sending {
    encoder: Encoder,
    pattern: Pattern,
    numbers: Numbers,
    /// The picture that each slot holds at this end. A key picture is only looked for in the one that its message names.
    slots: [Option<u64>; Slot::ALL.len()],
    /// The newest of them.
    sent: u64,
    /// Those of them that the receiver is known to hold, in their order.
    known: Vec<u64>,
    /// What the encoder has reconstructed of the newest pictures.
    reconstructions: BTreeMap<u64, Picture>,
}

impl Sending {
    fn new(seed: u32) -> Sending {
        let settings = Settings { size: SIZE, frame_rate: rate(), threads: 1, speed: 10 };
        Sending {
            encoder: Encoder::new(&settings).unwrap(),
            pattern: Pattern::new(SIZE, rate()),
            numbers: Numbers(seed),
            slots: [None; Slot::ALL.len()],
            sent: 0,
            known: Vec::new(),
            reconstructions: BTreeMap::new(),
        }
    }

    /// Takes that these were decoded.
    fn learn(&mut self, decoded: &[u64]) {
        self.known.extend(decoded);
        self.known.retain(|number| self.slots.contains(&Some(*number)));
        self.known.sort_unstable();
        self.known.dedup();
    }

    /// Where to predict the next picture from, and the slot that it overwrites; `None` for the first one.
    fn slots_for_next(&mut self) -> Option<(u64, Slot, Slot)> {
        let newest = *self.known.last()?;
        let source = match self.numbers.below(2) {
            0 => self.sent,
            _ => self.known[self.numbers.below(self.known.len())],
        };
        let from = *Slot::ALL.iter().find(|slot| self.held(**slot) == Some(source))?;
        // The newest one that is known stays.
        let may_go = |slot: &&Slot| ![Some(source), Some(newest)].contains(&self.held(**slot));
        let free: Vec<Slot> = Slot::ALL.iter().filter(may_go).copied().collect();
        Some((source, from, free[self.numbers.below(free.len())]))
    }

    fn held(&self, slot: Slot) -> Option<u64> {
        self.slots[usize::from(slot.index())]
    }

    /// The next picture as a message.
    fn encode(&mut self, number: u64) -> Bytes {
        let mut picture = self.pattern.draw(number, Time::ZERO, Utc::default());
        picture.captured = Time::from_millis(number * 40);
        let quantizer = 10 + self.numbers.below(50) as u8;
        let slots = self.slots_for_next();
        let (encoded, slot) = match slots {
            Some((_, from, to)) => (self.encoder.encode(&picture, quantizer, from, to), to),
            None => (self.encoder.encode_key(&picture, quantizer), Slot::ALL[0]),
        };
        let encoded = encoded.unwrap();
        self.slots[usize::from(slot.index())] = Some(number);
        self.sent = number;
        match slots {
            Some(_) => self.known.retain(|known| self.slots.contains(&Some(*known))),
            // The first one arrives in any case.
            None => self.known.push(number),
        }
        self.reconstructions.insert(number, self.encoder.reconstruction().unwrap());
        while self.reconstructions.len() > 64 {
            self.reconstructions.pop_first();
        }
        let hash = encoded.hash.to_bytes();
        let header = PictureHeader {
            epoch: 7,
            number,
            source: slots.map(|(source, ..)| source),
            kept: self.known.first().copied().unwrap_or(number),
            target: StateTag(std::array::from_fn(|index| hash[index])),
            captured: Utc::default(),
            rate: None,
            size: None,
            codec: FrameCodec::Av1 { slot: slot.index() },
            passed: Stamps::captured_at(Time::ZERO),
        };
        let mut message = Vec::new();
        header.write(&mut message);
        [&message[..], &encoded.bytes].concat().into()
    }
}

/// Sends pictures of which some are lost, one by one or several in a row, and some are overtaken by the next ones, up to six.
/// Reports take `delay` pictures' time. Returns how many were lost, and what the receiver has counted.
fn run(seed: u32, delay: usize) -> (u64, ReceiverCounters) {
    let (mut sending, mut chances) = (Sending::new(seed), Numbers(seed ^ 0x5EED));
    let mut receiver = Receiver::new(Limits::default());
    receiver.keep_frames();
    let mut follower = Decoder::new(1, SIZE.width * SIZE.height).unwrap();
    let (mut reports, mut late) = (VecDeque::from(vec![Vec::new(); delay]), None);
    let (mut lost, mut burst) = (0, 0);
    for number in 0..PICTURES {
        let message = sending.encode(number);
        // One in twenty: half of them alone, and bursts of up to five.
        if burst == 0 && number > 0 {
            burst = match chances.below(1_000) {
                0..25 => 1,
                25..34 => 1 + chances.below(5),
                _ => 0,
            };
        }
        let mut arriving = Vec::new();
        if burst > 0 {
            burst -= 1;
            lost += 1;
        } else if number > 0 && late.is_none() && chances.below(100) < 8 {
            late = Some((number + 1 + chances.below(6) as u64, message));
        } else {
            arriving.push(message);
        }
        arriving.extend(late.take_if(|(due, _)| *due <= number).map(|(_, message)| message));
        let mut decoded = Vec::new();
        for message in arriving {
            let fate = receiver.handle(Time::from_millis(number * 40), &message).unwrap();
            // Whatever passes on what came gives another decoder the same pictures.
            let mut followed = BTreeMap::new();
            while let Some(frame) = receiver.poll_frame() {
                followed.insert(frame.header.number, follower.decode(&frame.frame).unwrap().picture);
                decoded.push(frame.header.number);
            }
            let Fate::Shown(pictures) = fate else { continue };
            for picture in pictures {
                let number = picture.header.number;
                let made = &sending.reconstructions[&number];
                assert!(made.planes() == picture.picture.planes(), "seed {seed}: picture {number} differs");
                assert!(
                    made.planes() == followed[&number].planes(),
                    "seed {seed}: picture {number} in the stream"
                );
            }
        }
        reports.push_back(decoded);
        if let Some(decoded) = reports.pop_front() {
            sending.learn(&decoded);
        }
    }
    let counters = receiver.counters();
    assert_eq!((counters.damaged, counters.malformed), (0, 0), "seed {seed}: {counters:?}");
    (lost, counters)
}

#[test]
fn what_is_shown_is_the_reconstruction_sample_by_sample() {
    for (seed, delay) in [(1, 1), (2, 3), (3, 6)] {
        let (lost, counters) = run(seed, delay);
        println!("seed {seed}, reports after {delay} pictures: {lost} lost of {PICTURES}, {counters:?}");
        let share = lost as f64 / PICTURES as f64;
        assert!((0.03..0.08).contains(&share), "seed {seed}: {lost} lost");
        assert!(counters.shown > PICTURES * 3 / 4, "seed {seed}: {lost} lost, {counters:?}");
        assert!(counters.overtaken > 50 && counters.lacking > 50, "seed {seed}: {lost} lost, {counters:?}");
    }
}
