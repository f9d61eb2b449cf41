//! A soak of the link's core: very many mutated datagrams, of strangers and of peers that hold the keys, without a socket.
//!
//! `bench/soak-link [--datagrams N] [--seed N] [--threads N]`. One half of the datagrams goes to endpoints as they came over
//! a network (`outside`), the other to links behind their decryption (`inside`). One seed gives the same datagrams each time;
//! a panic tells the seed and the number that it came to. What has to hold: nothing panics, an honest peer's messages come
//! whole and in order whatever is between them, and what is held stays within the budgets.
#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods)]

mod inside;
mod mutate;
mod outside;

use mutate::Dice;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: bench/soak-link [--datagrams N] [--seed N] [--threads N]
  --datagrams N  how many mutated datagrams in all; 100000000 where nothing is said
  --seed N       which ones; 1 where nothing is said
  --threads N    how many worlds at once, each with a seed of its own; as many as there are processors";
/// Datagrams between two looks at the clock.
const STEP: u64 = 10_000;
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// The process may take so much memory beyond what it took when all worlds were warm, bytes.
const GROWTH_MAX: u64 = 64 << 20;

struct Args {
    datagrams: u64,
    seed: u64,
    threads: u64,
}

impl Args {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let mut args = Args { datagrams: 100_000_000, seed: 1, threads };
        while let Some(word) = words.next() {
            let field = match word.as_str() {
                "--datagrams" => &mut args.datagrams,
                "--seed" => &mut args.seed,
                "--threads" => &mut args.threads,
                _ => return Err(format!("'{word}' is no option")),
            };
            let value = words.next().ok_or_else(|| format!("{word} wants a number"))?;
            *field = value.parse().map_err(|_| format!("{word} wants a number, not '{value}'"))?;
        }
        args.threads = args.threads.max(1);
        Ok(args)
    }
}

/// Bytes of memory that the process takes; `None` where the system does not say.
fn resident_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    pages.split(' ').nth(1)?.parse::<u64>().ok().map(|pages| pages * 4096)
}

/// One thread's share: strangers and peers in turn.
fn soak(seed: u64, share: u64, done: &AtomicU64, failed: &AtomicU64) {
    let (mut outside, mut inside) = (outside::World::new(seed), inside::World::new(seed));
    let mut left = share;
    while left > 0 && failed.load(Ordering::Relaxed) == 0 {
        let step = left.min(STEP);
        outside.run(step / 2);
        inside.run(step - step / 2);
        left -= step;
        done.fetch_add(step, Ordering::Relaxed);
    }
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    let mut warm = None;
    let mut most = 0;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for thread in 0..args.threads {
            let share = args.datagrams / args.threads + u64::from(thread < args.datagrams % args.threads);
            let seed = Dice::new(args.seed).fork(thread);
            let (done, failed) = (&done, &failed);
            threads.push(scope.spawn(move || {
                let outcome = std::panic::catch_unwind(|| soak(seed, share, done, failed));
                if outcome.is_err() {
                    failed.fetch_add(1, Ordering::Relaxed);
                    eprintln!(
                        "NOT HELD: the world of seed {seed} (--seed {}, thread {thread}) panicked",
                        args.seed
                    );
                }
            }));
        }
        let mut told = began;
        while !threads.iter().all(|thread| thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(100));
            let resident = resident_bytes().unwrap_or(0);
            // Both worlds have been through some links by then.
            if warm.is_none() && done.load(Ordering::Relaxed) >= 40 * STEP * args.threads {
                warm = Some(resident);
            }
            most = resident.max(most);
            if told.elapsed() >= PROGRESS_EVERY {
                told = Instant::now();
                let (count, seconds) = (done.load(Ordering::Relaxed), began.elapsed().as_secs_f64());
                println!(
                    "{count} of {} datagrams, {:.0} a second, {} MiB resident",
                    args.datagrams,
                    count as f64 / seconds,
                    resident >> 20
                );
            }
        }
    });
    let (count, seconds) = (done.load(Ordering::Relaxed), began.elapsed().as_secs_f64());
    let grown = warm.map_or(0, |warm| most.saturating_sub(warm));
    println!(
        "{count}/{} mutated datagrams in {seconds:.0} s ({:.0} a second), {} panics, memory grew by {} MiB",
        args.datagrams,
        count as f64 / seconds,
        failed.load(Ordering::Relaxed),
        grown >> 20
    );
    if failed.load(Ordering::Relaxed) > 0 || count < args.datagrams {
        return ExitCode::FAILURE;
    }
    if grown > GROWTH_MAX {
        eprintln!("NOT HELD: memory grew by more than {} MiB", GROWTH_MAX >> 20);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
