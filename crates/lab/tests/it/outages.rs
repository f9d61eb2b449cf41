//! Outages of one way or both, at any moment, after which a fresh picture has to come at once; and what goes on while only the
//! way back is dead. In virtual time.

use crate::experiment::{link, pictures, setup};
use glassline_codec::vp8::Serial;
use glassline_lab::experiment::{Line, Outcome, run};
use glassline_media::Time;
use glassline_transport::emulator::{OutageEffect, OutageTimes, Random};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(40);

/// Which ways are dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ways {
    Up,
    Back,
    Both,
}

#[derive(Clone, Copy, Debug)]
struct Outage {
    ways: Ways,
    effect: OutageEffect,
    /// After the link's start.
    from: Duration,
    length: Duration,
}

impl Outage {
    /// The `number`th of a sequence that covers lengths from 0.5 s to `longest`, all ways and moments.
    fn nth(number: u32, longest: f64, effect: OutageEffect) -> Outage {
        // A few of these cover all as evenly as many do (M. Roberts' R2 sequence).
        let part = |base: f64| (f64::from(number + 1) * base).fract();
        Outage {
            ways: [Ways::Up, Ways::Both, Ways::Back][number as usize % 3],
            effect,
            from: Duration::from_secs_f64(3.0 + part(0.754_877_666)),
            length: Duration::from_secs_f64(0.5 * (longest / 0.5).powf(part(0.569_840_291))),
        }
    }

    /// One of many that have nothing to do with each other: of any way, from 0.5 to 30 s long (as many from 0.5 to 1 s as
    /// from 15 to 30 s), and begun at any moment from 1 to 9 s after the link's start.
    fn random(seed: u64) -> Outage {
        let mut random = Random::stream(seed, 0);
        let mut part = || random.up_to(1 << 32) as f64 / (1u64 << 32) as f64;
        let (way, from, length) = (part(), part(), part());
        Outage {
            ways: [Ways::Up, Ways::Both, Ways::Back][((way * 3.0) as usize).min(2)],
            effect: OutageEffect::Drop,
            from: Duration::from_secs_f64(1.0 + 8.0 * from),
            length: Duration::from_secs_f64(0.5 * 60f64.powf(length)),
        }
    }

    fn end(&self) -> Duration {
        self.from + self.length
    }

    fn run(&self) -> Outcome {
        let seconds = self.end().as_secs() + 3;
        let times = OutageTimes::Once { after: self.from, off: self.length };
        let mut setup = setup(link(1_500_000), seconds);
        let Line { mut up, mut down } = setup.lines.remove(0);
        if self.ways != Ways::Back {
            up = up.with_outages(times.clone(), self.effect);
        }
        if self.ways != Ways::Up {
            down = down.with_outages(times, self.effect);
        }
        setup.lines.push(Line { up, down });
        run(&setup, pictures(), &Serial, |_, _| {}).unwrap()
    }
}

/// Of a run: how long after the line was back a picture was shown that had been captured after its end or within two pictures before it.
fn fresh_after(outcome: &Outcome, end: Time) -> Option<Duration> {
    let fresh = outcome.slots.iter().filter(|slot| slot.captured + 2 * INTERVAL >= end);
    fresh.filter_map(|slot| slot.shown).filter(|shown| *shown >= end).min().map(|shown| shown - end)
}

/// Those of `outages` after which a fresh picture takes longer than `most`, or a key frame was needed.
fn late_after(outages: impl Iterator<Item = Outage>, most: Duration) -> Vec<(Outage, Option<Duration>, u64)> {
    let run = |outage: Outage| {
        let outcome = outage.run();
        let after = fresh_after(&outcome, Time::ZERO + outage.end());
        println!("{outage:?}: {after:?}");
        (outage, after, outcome.summary().key)
    };
    outages.map(run).filter(|(_, after, key)| after.is_none_or(|after| after > most) || *key != 1).collect()
}

/// Two round trips and two pictures.
const MOST: Duration = Duration::from_millis(4 * 20 + 2 * 40);
/// Where the network keeps what was sent into the outage, that comes first: what left before the outage was noticed, a small
/// picture now and then, and probes.
const MOST_HELD: Duration = Duration::from_millis(600);

#[test]
fn after_an_outage_of_any_length_of_any_way_a_fresh_picture_comes_at_once() {
    let outages = (0..9).map(|number| Outage::nth(number, 12.0, OutageEffect::Drop));
    let late = late_after(outages, MOST);
    assert!(late.is_empty(), "{late:#?}");
}

/// Random outages after which a picture once came too late: a packet that asked for no acknowledgement came first, and hid
/// from the receiver that the probe behind it had a gap before it.
const ONCE_LATE: [u64; 1] = [106];

/// Seeds of random outages: those of `GLASSLINE_OUTAGES` (`FROM..TO`), or a few.
fn seeds() -> Vec<u64> {
    let Ok(given) = std::env::var("GLASSLINE_OUTAGES") else { return [&ONCE_LATE[..], &[0, 1]].concat() };
    let range = given.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.unwrap_or_else(|| panic!("GLASSLINE_OUTAGES is FROM..TO, not {given:?}")).collect()
}

#[test]
fn after_random_outages_of_up_to_30_seconds_a_fresh_picture_comes_at_once() {
    // GLASSLINE_OUTAGES=0..200 takes about a quarter of an hour.
    let late = late_after(seeds().into_iter().map(Outage::random), MOST);
    assert!(late.is_empty(), "{late:#?}");
}

#[test]
fn what_a_network_has_kept_during_an_outage_is_little() {
    let outages = (0..3).map(|number| Outage::nth(number, 10.0, OutageEffect::Hold));
    let late = late_after(outages, MOST_HELD);
    assert!(late.is_empty(), "{late:#?}");
}

#[test]
fn pictures_go_on_while_only_the_way_back_is_dead() {
    for length in [4, 8] {
        let outage = Outage {
            ways: Ways::Back,
            effect: OutageEffect::Drop,
            from: Duration::from_secs(3),
            length: Duration::from_secs(length),
        };
        let outcome = outage.run();
        let begin = Time::ZERO + outage.from;
        for second in 0..length {
            let from = begin + Duration::from_secs(second);
            let within = |shown: &Time| (from..from + Duration::from_secs(1)).contains(shown);
            let shown = outcome.slots.iter().filter_map(|slot| slot.shown).filter(within).count();
            println!("{length} s: second {second}: {shown} pictures");
            assert!(shown >= 1, "nothing is shown in second {second} of {length}");
        }
        assert_eq!(outcome.summary().key, 1);
    }
}
