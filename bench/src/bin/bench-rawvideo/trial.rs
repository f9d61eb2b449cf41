//! One run: a receiver on its core, the sender on the other, and what came.

use crate::case::Case;
use crate::counts::{self, Counts, Sockets};
use crate::network::Network;
use crate::search::Outcome;
use crate::sender::{Load, Sender, Sent};
use crate::stream::Stream;
use crate::who::{Start, Who};
use anyhow::{Context, Result, bail, ensure};
use glassline_bench::machine::Cores;
use glassline_bench::process::{Server, busy_time_of};
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PORT: u16 = 5004;
/// How long a receiver may take to open its socket, and to work off what the kernel kept for it.
const OPENING: Duration = Duration::from_secs(10);
const DRAINING: Duration = Duration::from_secs(4);
/// Who uses less than this of a core has nothing left to do.
const STEP: Duration = Duration::from_millis(150);
const IDLE: f64 = 0.08;

/// What a run has shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) sent: Sent,
    /// Packets that are missing, or of those who only count frames: 1 for each that is.
    pub(crate) lost: u64,
    /// Processor time of the receiver, and of its core with all that the kernel did there.
    pub(crate) cpu: Duration,
    pub(crate) core: Duration,
    pub(crate) in_place: Option<f64>,
}

/// What each says is missing: the receiver, the count of its packets, that of its frames, the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Missing {
    told: u64,
    packets: u64,
    frames: u64,
    drops: u64,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { told, packets, frames, drops } = self;
        write!(f, "told {told}, packets {packets}, frames {frames}, socket {drops}")
    }
}

impl Missing {
    fn new(sent: &Sent, counts: &Counts, packets: Option<u64>, drops: u64) -> Missing {
        let packets = packets.map_or(0, |packets| sent.packets.saturating_sub(packets));
        Missing { told: counts.lost, packets, frames: sent.frames.saturating_sub(counts.frames), drops }
    }

    /// By whoever misses most.
    fn most(&self) -> u64 {
        self.told.max(self.packets).max(self.frames).max(self.drops)
    }
}

/// Who loses less than this share may have lost it by a hiccup of the machine.
const LITTLE: f64 = 0.01;

impl Seen {
    /// Whether so little was lost that it may have been a hiccup.
    pub(crate) fn is_hiccup(&self) -> bool {
        (self.lost as f64) < self.sent.packets as f64 * LITTLE
    }

    pub(crate) fn outcome(&self) -> Outcome {
        Outcome { is_clean: self.lost == 0, reached: self.sent.bps() / 1e9 }
    }

    /// Seconds for a gigabyte of video.
    pub(crate) fn seconds_per_gb(&self) -> f64 {
        self.cpu.as_secs_f64() / (self.sent.video_bytes as f64 / 1e9)
    }

    /// The share of a core.
    pub(crate) fn share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.sent.seconds
    }
}

/// A stream's sender and the way to its receivers.
pub(crate) struct Stage<'a> {
    case: Case,
    network: &'a Network,
    cores: Option<Cores>,
    /// Whether each run is told.
    tells: bool,
    sender: Sender,
    to: Vec<SocketAddr>,
    folder: PathBuf,
}

impl<'a> Stage<'a> {
    /// With one path or two.
    pub(crate) fn new(
        case: &Case,
        network: &'a Network,
        paths: u16,
        (cores, tells): (Option<Cores>, bool),
    ) -> Result<Stage<'a>> {
        let to: Vec<SocketAddr> =
            (0..paths).map(|path| SocketAddr::new(network.address(), PORT + 2 * path)).collect();
        let sender = Sender::new(&case.stream, &to)?;
        let folder = Server::folder("description")?;
        Ok(Stage { case: case.clone(), network, cores, tells, sender, to, folder })
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.case.stream
    }

    /// Runs `who` under this load.
    ///
    /// # Errors
    /// Where the receiver does not start or says nothing, or the sender fails.
    pub(crate) fn run(&mut self, who: Who, load: Load, work: Duration) -> Result<Seen> {
        let description = self.folder.join("stream.sdp");
        fs::write(&description, self.case.stream.describe(&self.to)?).context("the description")?;
        let core = self.cores.map(|cores| cores.server);
        let start = Start { case: &self.case, to: &self.to, description: &description, core, work };
        let mut receiver = self.network.start(core, &who.command(&start)?)?;
        await_socket(&mut receiver)?;
        let read_before = datagrams_read(&receiver)?;
        let has_settled = AtomicBool::new(false);
        let (sender, load) = (&mut self.sender, Load { has_gso: self.case.has_gso, ..load });
        let (sent, began) = thread::scope(|scope| -> Result<_> {
            let sending = scope.spawn(|| {
                let sent = sender.send(load, &has_settled);
                // Whoever waits for it does so no longer.
                has_settled.store(true, Ordering::Release);
                sent
            });
            while !has_settled.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(5));
            }
            let began = spent(&receiver, core);
            let sent = sending.join().map_err(|_| anyhow::anyhow!("the sender has panicked"))??;
            Ok((sent, began?))
        })?;
        drain(&mut receiver)?;
        let ended = spent(&receiver, core)?;
        let drops = sockets(&receiver)?.map_or(0, |sockets| sockets.drops);
        let read = datagrams_read(&receiver)?.saturating_sub(read_before);
        let counts = finish(who, &mut receiver)?;
        let packets = counts.packets.or(who.reads_singly().then_some(read));
        let missing = Missing::new(&sent, &counts, packets, drops);
        let seen = Seen {
            sent,
            lost: missing.most(),
            cpu: ended.0.saturating_sub(began.0),
            core: ended.1.saturating_sub(began.1),
            in_place: counts.in_place.map(|in_place| in_place as f64 / packets.unwrap_or(1).max(1) as f64),
        };
        if self.tells {
            eprintln!(
                "rawvideo: {}, {}: {:.2} Gbit/s asked, {:.2} sent, {} of {} lost ({missing}), {:.0} % of a core",
                self.case.name,
                who.name(),
                load.bps / 1e9,
                sent.bps() / 1e9,
                seen.lost,
                sent.packets,
                seen.share() * 100.0
            );
        }
        Ok(seen)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Processor time of the receiver, and of its core.
fn spent(receiver: &Server, core: Option<usize>) -> Result<(Duration, Duration)> {
    let busy = core.map_or(Ok(Duration::ZERO), busy_time_of)?;
    Ok((receiver.cpu_time()?, busy))
}

fn table(receiver: &Server, name: &str) -> Result<String> {
    let path = format!("/proc/{}/net/{name}", receiver.id());
    fs::read_to_string(&path).context(path)
}

/// Those of our ports; `None` where nobody has opened them.
fn sockets(receiver: &Server) -> Result<Option<Sockets>> {
    let tables = [table(receiver, "udp")?, table(receiver, "udp6").unwrap_or_default()];
    let ports = [PORT, PORT + 2];
    let all = tables.iter().flat_map(|table| ports.map(|port| counts::sockets(table, port)));
    Ok(all.flatten().reduce(Sockets::and))
}

fn datagrams_read(receiver: &Server) -> Result<u64> {
    counts::datagrams_read(&table(receiver, "snmp")?).context("/proc/net/snmp tells nothing of UDP")
}

fn await_socket(receiver: &mut Server) -> Result<()> {
    let until = Instant::now() + OPENING;
    loop {
        receiver.check_alive()?;
        // Until it has left our namespace, it has our table.
        if sockets(receiver)?.is_some() {
            thread::sleep(Duration::from_millis(100));
            return Ok(());
        }
        ensure!(Instant::now() < until, "it opens no socket; its log ends with:\n{}", receiver.log_end());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the receiver has read all that the kernel kept for it, and has nothing left to do.
fn drain(receiver: &mut Server) -> Result<()> {
    let until = Instant::now() + DRAINING;
    let mut before = receiver.cpu_time()?;
    while Instant::now() < until {
        thread::sleep(STEP);
        let now = receiver.cpu_time()?;
        let is_idle = now.saturating_sub(before).as_secs_f64() < STEP.as_secs_f64() * IDLE;
        if is_idle && sockets(receiver)?.is_none_or(|sockets| sockets.waiting_bytes == 0) {
            break;
        }
        before = now;
    }
    receiver.check_alive()
}

/// Ends it, and reads what it says.
fn finish(who: Who, receiver: &mut Server) -> Result<Counts> {
    if who.ends_itself() {
        receiver.wait(OPENING)?;
    } else {
        if who == Who::Ffmpeg {
            // While it reads a socket to which nothing comes it heeds the second one only.
            receiver.signal_interrupt();
            thread::sleep(STEP);
        }
        receiver.stop()?;
    }
    match who.read(&receiver.log()) {
        Some(counts) => Ok(counts),
        None => bail!("it tells no frames; its log ends with:\n{}", receiver.log_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_what_anybody_misses() {
        let sent = Sent { frames: 60, packets: 6000, video_bytes: 1_000_000_000, seconds: 0.5 };
        let counts = Counts { frames: 60, ..Counts::default() };
        let lost = |counts: &Counts, packets, drops| Missing::new(&sent, counts, packets, drops).most();
        assert_eq!(lost(&counts, Some(6000), 0), 0);
        assert_eq!(lost(&counts, None, 0), 0, "who tells no packets");
        assert_eq!(lost(&counts, Some(5990), 3), 10);
        assert_eq!(lost(&Counts { frames: 58, ..counts }, None, 0), 2);
        assert_eq!(lost(&Counts { lost: 7, ..counts }, Some(6000), 9), 9);
        let (cpu, core) = (Duration::from_millis(250), Duration::ZERO);
        let seen = Seen { sent, lost: 1, cpu, core, in_place: None };
        assert_eq!(seen.outcome(), Outcome { is_clean: false, reached: 16.0 });
        assert_eq!((seen.seconds_per_gb(), seen.share()), (0.25, 0.5));
    }
}
