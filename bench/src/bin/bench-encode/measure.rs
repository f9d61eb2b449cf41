//! One encoder, one clip, once.

use crate::Args;
use crate::arrivals::{Arrival, Arrivals};
use crate::clip::{Clip, RATE, Written};
use crate::encoders::Who;
use anyhow::{Context, Result, anyhow, ensure};
use glassline_bench::process;
use glassline_bench::report::Report;
use glassline_io::clock::Clock;
use glassline_io::poll::{Poller, Watch};
use glassline_io::udp::{Inbox, Receiver, Settings};
use glassline_media::Time;
use hdrhistogram::Histogram;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How long the receiver listens on after the encoder has ended: what it sent is there by then.
const TAIL: Duration = Duration::from_millis(50);
/// The writer and the receiver go before the encoders where they are allowed to, so that stamps are those of the
/// event and not of the next free core.
const MEASURING_NICENESS: i32 = -15;

/// The metrics that the terms are about.
pub(crate) const FIRST_P50: &str = "to first packet p50";
pub(crate) const LAST_P50: &str = "to last packet p50";

/// Ends the encoder whatever happens.
struct Encoder(Child);

impl Drop for Encoder {
    fn drop(&mut self) {
        // Fails only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What came out of an encoder.
pub(crate) struct Ran {
    /// The pictures that went in, in order.
    pub(crate) written: Vec<Written>,
    /// Those that came out.
    pub(crate) arrivals: Vec<Arrival>,
    /// The transport stream.
    pub(crate) stream: Vec<u8>,
    /// What the program said.
    pub(crate) told: String,
    /// Its processor time from picture `skip` on.
    spent: Duration,
    /// What others used meanwhile, of one core.
    others: f64,
}

/// Starts an encoder, whose command is given the address that it is to send to, and plays `count` pictures of the clip
/// into it, each when it is `due`.
pub(crate) fn run(
    name: &str,
    command: &dyn Fn(SocketAddr) -> Result<Command>,
    clip: &Clip,
    due: &(dyn Fn(u64) -> Duration + Sync),
    (skip, count): (u64, u64),
) -> Result<Ran> {
    let clock = Clock::new();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let receiver = Receiver::open(&Settings { address, interface: None, sender: None })?;
    let mut command = command(receiver.local_address()?)?;
    let (started, others_before) = (clock.now(), process::spent_on_others()?);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut encoder = Encoder(child.with_context(|| format!("cannot start {name}"))?);
    let input = encoder.0.stdin.take().context("the encoder's input")?;
    let id = encoder.0.id();
    let done = AtomicBool::new(false);
    let (written, spent, received, status) = thread::scope(|scope| -> Result<_> {
        let listening = scope.spawn(|| receive(&receiver, clock, &done));
        let writing = scope.spawn(|| -> Result<_> {
            prefer_this_thread();
            let mut before = Duration::ZERO;
            let written = clip.play(input, count, due, clock, &mut |number| {
                if number == skip {
                    before = process::cpu_time_of(id)?;
                }
                Ok(())
            });
            // It may have ended by now, but its figures stay until it is waited for.
            let spent = process::cpu_time_of(id)?.saturating_sub(before);
            Ok((written?, spent))
        });
        let written = writing.join().map_err(|_| anyhow!("the writer's thread panicked"));
        let status = encoder.0.wait().with_context(|| format!("cannot wait for {name}"));
        done.store(true, Ordering::Relaxed);
        let received = listening.join().map_err(|_| anyhow!("the receiver's thread panicked"))?;
        let (written, spent) = written?.with_context(|| told(&mut encoder.0))?;
        Ok((written, spent, received?, status?))
    })?;
    let told = told(&mut encoder.0);
    ensure!(status.success(), "{name} ended with {status}:\n{told}");
    let lost = receiver.dropped()?;
    ensure!(lost == 0, "the receiver lost {lost} datagrams of {name}");
    let others = process::spent_on_others()?.saturating_sub(others_before).as_secs_f64();
    let others = others / clock.now().since(started).as_secs_f64();
    let (arrivals, stream) = received;
    Ok(Ran { written, arrivals, stream, told, spent, others })
}

impl Ran {
    /// Says how busy the machine was with other things, and warns where that was too much.
    pub(crate) fn tell_others(&self, name: &str, case: &str, report: &mut Report) {
        report.disturbance(case, name, self.others);
    }
}

/// Plays the clip into `who` and adds its figures to `case`. Gives the transport stream.
pub(crate) fn measure(
    who: Who,
    preset: &str,
    case: &str,
    clip: &Clip,
    args: &Args,
    report: &mut Report,
) -> Result<Vec<u8>> {
    let name = who.name();
    let skip = args.warm_up * u64::from(RATE);
    let count = (args.warm_up + args.seconds) * u64::from(RATE);
    let due = |number| clip.rate().time_of(number);
    let ran = run(name, &|to| who.command(preset, to), clip, &due, (skip, count))?;
    ensure!(
        ran.written.len() == ran.arrivals.len(),
        "{name} made {} pictures of {}: they cannot be told apart",
        ran.arrivals.len(),
        ran.written.len()
    );
    let pairs: Vec<_> = ran.written.iter().zip(&ran.arrivals).skip(usize::try_from(skip)?).collect();
    add_delays(name, case, &pairs, report)?;
    let pictures = (count - skip) as f64;
    report.add(case, name, "CPU for a picture", "ms", ran.spent.as_secs_f64() * 1e3 / pictures);
    ran.tell_others(name, case, report);
    Ok(ran.stream)
}

/// Delays from the moment that a picture was whole in the pipe (an encoder cannot begin before), and with the time
/// that it took to get there.
pub(crate) fn add_delays(
    who: &str,
    case: &str,
    pairs: &[(&Written, &Arrival)],
    report: &mut Report,
) -> Result<()> {
    let mut add = |metric, quantile, span: &dyn Fn(&Written, &Arrival) -> (Time, Time)| -> Result<()> {
        let mut histogram = Histogram::<u64>::new_with_max(60_000_000_000, 3).context("histogram")?;
        for (written, arrival) in pairs {
            let (from, to) = span(written, arrival);
            histogram.saturating_record(to.since(from).as_nanos() as u64);
        }
        report.add(case, who, metric, "ms", histogram.value_at_quantile(quantile) as f64 / 1e6);
        Ok(())
    };
    add(FIRST_P50, 0.5, &|written, arrival| (written.taken, arrival.first))?;
    add("to first packet p99", 0.99, &|written, arrival| (written.taken, arrival.first))?;
    add(LAST_P50, 0.5, &|written, arrival| (written.taken, arrival.last))?;
    add("to last packet p99", 0.99, &|written, arrival| (written.taken, arrival.last))?;
    add("write to first packet p50", 0.5, &|written, arrival| (written.offered, arrival.first))?;
    add("write to last packet p50", 0.5, &|written, arrival| (written.offered, arrival.last))?;
    for (metric, quantile) in [("write itself p50", 0.5), ("write itself p99", 0.99)] {
        add(metric, quantile, &|written, _| (written.offered, written.taken))?;
    }
    Ok(())
}

/// Takes datagrams, each with its time, until `done` and then some. Gives the pictures in them, and all of their bytes.
fn receive(receiver: &Receiver, clock: Clock, done: &AtomicBool) -> Result<(Vec<Arrival>, Vec<u8>)> {
    prefer_this_thread();
    let poller = Poller::new()?;
    poller.add(receiver, 0, Watch::Accepts)?;
    let (mut inbox, mut ready, mut arrivals) = (Inbox::default(), Vec::new(), Arrivals::default());
    let mut stream = Vec::new();
    loop {
        let ended = done.load(Ordering::Relaxed);
        poller.wait(Some(TAIL), &mut ready)?;
        if ready.is_empty() && ended {
            return Ok((arrivals.pictures(), stream));
        }
        receiver.receive(&mut inbox)?;
        let now = clock.now();
        for datagram in inbox.datagrams() {
            arrivals.push(datagram, now)?;
            stream.extend_from_slice(datagram);
        }
    }
}

/// Without the privilege it stays as it is, for all encoders alike.
fn prefer_this_thread() {
    let _ = rustix::process::setpriority_process(None, MEASURING_NICENESS);
}

/// What a program that has ended wrote to its standard error.
fn told(child: &mut Child) -> String {
    let _ = child.kill();
    let mut text = String::new();
    if let Some(errors) = &mut child.stderr {
        let _ = errors.read_to_string(&mut text);
    }
    text
}
