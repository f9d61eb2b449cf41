//! AV1 on lines that lose packets: what is shown is what the sender has reconstructed, and what is passed on is a stream.

use crate::experiment::{link, rate, setup};
use glassline_codec::av1::{Decoder, PictureHash};
use glassline_codec::vp8::Serial;
use glassline_direct::VideoCodec;
use glassline_direct::wire::StateTag;
use glassline_lab::experiment::{Received, Setup, Summary, run_watched};
use glassline_measure::pattern::Pattern;
use glassline_media::{Picture, Size, Time, Utc};
use glassline_transport::emulator::{LinkConfig, Loss};
use glassline_transport::link::Fec;
use std::collections::BTreeMap;
use std::time::Duration;

const SIZE: Size = Size { width: 160, height: 96 };
/// 5 % of packets.
const RANDOM: Loss = Loss::Random(0.05);
/// Bursts of four packets on average, of which four in five are lost.
const BURSTS: Loss =
    Loss::GilbertElliott { to_bad: 1.0 / 60.0, to_good: 0.25, loss_good: 0.0, loss_bad: 0.8 };

/// A moving pattern with so much noise that a picture takes several packets.
fn pictures() -> impl FnMut() -> Result<Picture, Box<dyn std::error::Error + Send + Sync>> {
    let mut pattern = Pattern::new(SIZE, rate());
    let (mut number, mut noise) = (0, 1u32);
    move || {
        number += 1;
        let mut picture = pattern.draw(number, Time::ZERO, Utc::default());
        for sample in picture.planes_mut()[0].lines_mut().flatten() {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *sample = sample.saturating_add((noise >> 27) as u8);
        }
        Ok(picture)
    }
}

fn tag_of(picture: &Picture) -> StateTag {
    let hash = PictureHash::of(picture).to_bytes();
    StateTag(std::array::from_fn(|index| hash[index]))
}

/// A decoder that is given what the receiver passes on, from the first key frame on, and what it has made of that.
struct Follower {
    decoder: Decoder,
    decoded: BTreeMap<u64, Picture>,
    frames: u64,
    shown: u64,
}

impl Follower {
    fn new() -> Follower {
        let decoder = Decoder::new(1, SIZE.width * SIZE.height).unwrap();
        Follower { decoder, decoded: BTreeMap::new(), frames: 0, shown: 0 }
    }

    fn take(&mut self, received: Received<'_>) {
        match received {
            Received::Frame(frame) => {
                let number = frame.header.number;
                assert!(self.frames > 0 || frame.header.source.is_none(), "the first one needs no other");
                let decoded = self.decoder.decode(&frame.frame);
                let picture = decoded.unwrap_or_else(|error| panic!("picture {number}: {error}")).picture;
                assert_eq!(tag_of(&picture), frame.header.target, "picture {number} in the stream");
                self.frames += 1;
                self.decoded.insert(number, picture);
                while self.decoded.len() > 16 {
                    self.decoded.pop_first();
                }
            }
            Received::Shown(shown) => {
                let number = shown.header.number;
                // The sender's name of its reconstruction, which libaom made.
                assert_eq!(tag_of(&shown.picture), shown.header.target, "picture {number}");
                let decoded = self.decoded.get(&number);
                let decoded = decoded.unwrap_or_else(|| panic!("picture {number} was not passed on"));
                assert!(decoded.planes() == shown.picture.planes(), "picture {number}: samples differ");
                self.shown += 1;
            }
            _ => {}
        }
    }
}

/// How long pictures are captured: `GLASSLINE_AV1_SECONDS`, or a minute.
fn seconds() -> u64 {
    let Ok(given) = std::env::var("GLASSLINE_AV1_SECONDS") else { return 60 };
    given.parse().unwrap_or_else(|_| panic!("GLASSLINE_AV1_SECONDS is a number of seconds, not {given:?}"))
}

fn av1(up: LinkConfig) -> Setup {
    let mut setup = setup(up, seconds());
    setup.sender.video_codec = VideoCodec::Av1;
    setup.sender.speed = 10;
    setup
}

/// Runs it, and checks what holds whatever is lost.
fn followed(what: &str, setup: &Setup) -> Summary {
    let mut follower = Follower::new();
    let outcome = run_watched(setup, pictures(), &Serial, |received| follower.take(received)).unwrap();
    let summary = outcome.summary();
    let Follower { frames, shown, .. } = follower;
    println!("{what}: {frames} frames passed on, {shown} shown; {summary:?}");
    assert_eq!((summary.damaged, summary.mismatches), (Some(0), Some(0)), "{what}: {summary:?}");
    assert_eq!((summary.shown, frames >= shown), (shown, true), "{what}: {summary:?}");
    summary
}

#[test]
fn what_is_shown_is_the_senders_reconstruction_whatever_is_lost() {
    let parity = Fec::WhenLossy(25);
    for (what, loss, parity) in [
        ("random losses", RANDOM, parity),
        ("random losses, no parity", RANDOM, Fec::Never),
        ("bursts", BURSTS, parity),
        ("bursts, no parity", BURSTS, Fec::Never),
    ] {
        assert!((0.049..0.051).contains(&loss.mean()), "{}", loss.mean());
        let mut setup = av1(link(1_200_000).with_loss(loss).with_reorder(0.02, Duration::from_millis(150)));
        setup.parity = parity;
        let summary = followed(what, &setup);
        assert!(summary.lost > seconds() / 6, "{what}: {summary:?}");
        assert!(summary.shown as f64 > 0.6 * summary.pictures as f64, "{what}: {summary:?}");
    }
}

/// A further key frame overwrites all slots, at both ends or at one.
#[test]
fn key_frames_among_losses_change_nothing_of_that() {
    let mut setup = av1(link(1_200_000).with_loss(RANDOM));
    setup.key_interval = Some(Duration::from_secs(4));
    let summary = followed("a key frame each 4 s", &setup);
    assert!(summary.key >= seconds() / 6 && summary.lost > seconds() / 6, "{summary:?}");
}
