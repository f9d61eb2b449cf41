//! A process that is measured: started, pinned, looked at from outside, ended.

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A running server with a folder of its own; both go when it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    folder: PathBuf,
}

const LOG: &str = "log";

impl Server {
    /// A new, empty folder for one run of `name`.
    pub fn folder(name: &str) -> Result<PathBuf> {
        let folder = std::env::temp_dir().join(format!("glassline-bench-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// Starts `program` in `folder`, on `core` where one is given. What it prints goes into a file there.
    pub fn start<A: AsRef<OsStr>>(
        folder: PathBuf,
        core: Option<usize>,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Server> {
        let log = File::create(folder.join(LOG)).context("cannot make the server's log")?;
        let mut command = match core {
            // It sets the affinity and becomes the program: same process.
            Some(core) => {
                let mut command = Command::new("taskset");
                command.arg("-c").arg(core.to_string()).arg(program);
                command
            }
            None => Command::new(program),
        };
        let child = command
            .args(arguments)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("cannot share the server's log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Server { child, folder })
    }

    /// Fails with the end of its log where it has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("cannot look after the server")? {
            bail!("the server ended ({status}); its log ends with:\n{}", self.log_end());
        }
        Ok(())
    }

    /// All that it has printed so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join(LOG)).unwrap_or_default()).into_owned()
    }

    /// The last lines of its log.
    pub fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Processor time so far, user and system, of all its threads. In steps of 10 ms.
    pub fn cpu_time(&self) -> Result<Duration> {
        cpu_time_of(self.child.id())
    }

    /// How long its threads so far could have run, but others had the core.
    pub fn kept_waiting(&self) -> Result<Duration> {
        kept_waiting(&format!("/proc/{}/task", self.child.id()))
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// Resident memory in bytes without files and shared memory: without the streams' own bytes.
    pub fn anonymous_bytes(&self) -> Result<u64> {
        self.memory("RssAnon:")
    }

    fn memory(&self, field: &str) -> Result<u64> {
        memory_of(self.child.id(), field)
    }

    /// Processor time so far of it and of all that it has started, which still run or which it has waited for. In steps
    /// of 10 ms.
    pub fn tree_cpu_time(&self) -> Result<Duration> {
        let stats = all_stats()?;
        let ticks = descendants(&stats, self.child.id()).map(|(.., ticks)| ticks).sum();
        Ok(from_ticks(ticks))
    }

    /// Resident memory in bytes of it and of all that it has started.
    pub fn tree_resident_bytes(&self) -> Result<u64> {
        let stats = all_stats()?;
        descendants(&stats, self.child.id()).map(|(id, ..)| memory_of(id, "VmRSS:")).sum()
    }

    /// Descriptors that it has open.
    pub fn descriptors(&self) -> Result<usize> {
        let folder = format!("/proc/{}/fd", self.child.id());
        Ok(fs::read_dir(&folder).with_context(|| folder.clone())?.count())
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The folder that it runs in, which goes with it.
    pub fn place(&self) -> &Path {
        &self.folder
    }

    /// Ends it as Ctrl-C does, and gives the last lines of its log.
    ///
    /// # Errors
    /// Where it does not end within ten seconds.
    pub fn interrupt(mut self) -> Result<String> {
        self.stop()?;
        Ok(self.log_end())
    }

    /// Ends it as Ctrl-C does; its log and its folder stay until it is dropped.
    ///
    /// # Errors
    /// Where it does not end within ten seconds.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.signal_interrupt();
        self.wait(END_TIMEOUT)
    }

    /// Does to it once what Ctrl-C does, and waits for nothing.
    pub fn signal_interrupt(&self) {
        let id = Pid::from_child(&self.child);
        // Fails only where it has ended by itself.
        let _ = kill_process(id, Signal::INT);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Where it does not come within `time`.
    pub fn wait(&mut self, time: Duration) -> Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().context("cannot look after the program")? {
                return Ok(status);
            }
            ensure!(started.elapsed() < time, "it does not end; its log ends with:\n{}", self.log_end());
            sleep(Duration::from_millis(20));
        }
    }

    /// Connects as soon as it listens.
    ///
    /// # Errors
    /// Where it ends, or nobody listens within ten seconds.
    pub fn connect(&mut self, address: SocketAddr) -> Result<TcpStream> {
        let started = Instant::now();
        loop {
            self.check_alive()?;
            match TcpStream::connect(address) {
                Ok(stream) => return Ok(stream),
                Err(error) if started.elapsed() > END_TIMEOUT => {
                    bail!("the server takes no connection on {address}: {error}\n{}", self.log_end())
                }
                Err(_) => sleep(Duration::from_millis(20)),
            }
        }
    }
}

fn memory_of(id: u32, field: &str) -> Result<u64> {
    let file = format!("/proc/{id}/status");
    let status = fs::read_to_string(&file).with_context(|| file.clone())?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    Ok(kilobytes.with_context(|| format!("{file} tells no {field}"))? * 1024)
}

const END_TIMEOUT: Duration = Duration::from_secs(10);

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// `utime`, `stime` of `/proc/PID/stat` (proc(5), fields 14 and 15).
const CPU_FIELDS: Range<usize> = 0..2;
/// Those of the children that were waited for: `cutime`, `cstime`.
const CHILDREN_CPU_FIELDS: Range<usize> = 2..4;
/// Both.
const CPU_FIELDS_WITH_CHILDREN: Range<usize> = 0..4;

/// Processor time so far, user and system, of all threads of process `id`, which has not been waited for. In steps of
/// 10 ms.
pub fn cpu_time_of(id: u32) -> Result<Duration> {
    cpu_time(&format!("/proc/{id}/stat"), CPU_FIELDS)
}

/// Processor time so far, user and system, of the threads of process `id` that are called `name`. In steps of 10 ms.
pub fn thread_cpu_time_of(id: u32, name: &str) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    let mut is_there = false;
    for task in fs::read_dir(format!("/proc/{id}/task")).context("cannot list threads")? {
        let task = task?.path();
        // One that has ended meanwhile is none of them.
        if fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name) {
            is_there = true;
            sum += cpu_time(&task.join("stat").to_string_lossy(), CPU_FIELDS)?;
        }
    }
    ensure!(is_there, "process {id} has no thread {name}");
    Ok(sum)
}

/// Processor time so far, user and system, of this process' children that have been waited for. In steps of 10 ms.
pub fn children_cpu_time() -> Result<Duration> {
    cpu_time("/proc/self/stat", CHILDREN_CPU_FIELDS)
}

fn cpu_time(file: &str, fields: Range<usize>) -> Result<Duration> {
    let stat = fs::read_to_string(file).with_context(|| file.to_owned())?;
    let ticks = parse_cpu_ticks(&stat, fields).with_context(|| format!("{file} is unreadable: {stat:?}"))?;
    Ok(from_ticks(ticks))
}

fn from_ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The name, field 2, may hold anything.
fn parse_cpu_ticks(stat: &str, fields: Range<usize>) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let numbers: Vec<u64> = behind_name
        .split_whitespace()
        .skip(11)
        .map_while(|field| field.parse().ok())
        .take(fields.end)
        .collect();
    Some(numbers.get(fields)?.iter().sum())
}

/// Processor time that this machine has spent on others than this process and its ended children, hypervisor's
/// included: the difference of two is what disturbed a measurement.
pub fn spent_on_others() -> Result<Duration> {
    let own = cpu_time("/proc/self/stat", CPU_FIELDS_WITH_CHILDREN)?;
    Ok(busy_time("cpu")?.saturating_sub(own))
}

/// Time so far in which processor `core` did anything: programs, and what the kernel did for them in its own threads and
/// interrupts; and what a hypervisor took. The difference of two counts, in steps of 10 ms.
///
/// It is the time that the processor was not idle, since the kernel measures idling from its beginning to its end
/// (`NO_HZ`). What `/proc/stat` tells of user and system is sampled with the timer's interrupt instead, 250 times a
/// second in Debian: work that comes in step with it, as that of 50 pictures a second does, is counted wholly or not
/// at all.
///
/// # Errors
/// Where `/proc/stat` tells nothing of it.
pub fn busy_time_of(core: usize) -> Result<Duration> {
    busy_time(&format!("cpu{core}"))
}

fn busy_time(processor: &str) -> Result<Duration> {
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let since_start = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let since_start = Duration::try_from(since_start).context("the time since the machine's start")?;
    let (processors, idle) = parse_idle_ticks(&stat, processor)
        .with_context(|| format!("/proc/stat has no line for {processor}"))?;
    Ok((since_start * processors).saturating_sub(from_ticks(idle)))
}

/// How many processors the line of `processor` is about (`cpu` is all of them), and how long they did nothing or waited
/// for a disk.
fn parse_idle_ticks(stat: &str, processor: &str) -> Option<(u32, u64)> {
    let lines = || stat.lines().filter_map(|line| line.split_once(' '));
    let (_, fields) = lines().find(|(name, _)| *name == processor)?;
    let ticks: Option<Vec<u64>> = fields.split_whitespace().map(|field| field.parse().ok()).collect();
    let [_user, _nice, _system, idle, waiting, ..] = ticks?[..] else { return None };
    let all = lines().filter(|(name, _)| name.len() > 3 && name.starts_with("cpu")).count();
    Some((if processor == "cpu" { all as u32 } else { 1 }, idle + waiting))
}

/// What other programs take of the processors while something is measured: neither this process nor any that descends
/// from it, and no thread of the kernel, which works for whoever asks it; but what a hypervisor takes is in it.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    began: Instant,
    spent: Duration,
}

impl Others {
    /// Begins to look.
    ///
    /// # Errors
    /// Where `/proc` cannot be read.
    pub fn begin() -> Result<Others> {
        Ok(Others { began: Instant::now(), spent: spent_elsewhere()? })
    }

    /// The share of one core that others have had since then; above 1 where they had several. In steps of 10 ms.
    ///
    /// # Errors
    /// Where `/proc` cannot be read.
    pub fn share(&self) -> Result<f64> {
        let spent = spent_elsewhere()?.saturating_sub(self.spent);
        Ok(spent.as_secs_f64() / self.began.elapsed().as_secs_f64().max(f64::EPSILON))
    }
}

/// Processor time of all programs that are none of ours, with that of their children that have ended, and stolen time.
fn spent_elsewhere() -> Result<Duration> {
    let stats = all_stats()?;
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let stolen = parse_stolen_ticks(&stat).context("/proc/stat has no line for all processors")?;
    Ok(from_ticks(ticks_elsewhere(&stats, std::process::id()) + stolen))
}

/// `(id, parent, ticks)` of all processes, with the ticks of their children that have ended.
fn all_stats() -> Result<Vec<(u32, u32, u64)>> {
    let mut stats = Vec::new();
    for entry in fs::read_dir("/proc").context("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process may have ended since.
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        if let Some((parent, ticks)) =
            parse_parent(&stat).zip(parse_cpu_ticks(&stat, CPU_FIELDS_WITH_CHILDREN))
        {
            stats.push((id, parent, ticks));
        }
    }
    Ok(stats)
}

/// Of `stats`, process `root` and those that descend from it.
fn descendants(stats: &[(u32, u32, u64)], root: u32) -> impl Iterator<Item = (u32, u32, u64)> {
    let parents: BTreeMap<u32, u32> = stats.iter().map(|&(id, parent, _)| (id, parent)).collect();
    let descends = move |id: u32| {
        let mut line = std::iter::successors(Some(id), |id| parents.get(id).copied()).take(parents.len());
        line.any(|ancestor| ancestor == root)
    };
    stats.iter().copied().filter(move |(id, ..)| descends(*id))
}

/// `(id, parent, ticks)` of all processes: the ticks of those that neither are `own` or descend from it, nor are threads
/// of the kernel. The ended children of those above `own` are counted with them, but never `own` itself, which runs.
fn ticks_elsewhere(stats: &[(u32, u32, u64)], own: u32) -> u64 {
    /// `kthreadd`, whose children the kernel's threads are.
    const KERNEL: u32 = 2;
    let parents: BTreeMap<u32, u32> = stats.iter().map(|&(id, parent, _)| (id, parent)).collect();
    let is_elsewhere = |id: u32| {
        let (mut at, mut steps) = (id, 0);
        // Ids may be used again while the list is read: what looks like a circle ends all the same.
        while at > 1 && steps < stats.len() {
            if at == own || at == KERNEL {
                return false;
            }
            at = parents.get(&at).copied().unwrap_or(0);
            steps += 1;
        }
        true
    };
    stats.iter().filter(|(id, ..)| is_elsewhere(*id)).map(|(.., ticks)| ticks).sum()
}

/// `ppid` of `/proc/PID/stat` (proc(5), field 4).
fn parse_parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// What a hypervisor has given to others, from the line of all processors.
fn parse_stolen_ticks(stat: &str) -> Option<u64> {
    let fields = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    fields.split_whitespace().nth(7)?.parse().ok()
}

/// How long this process' threads so far could have run, but others had the core.
pub fn own_kept_waiting() -> Result<Duration> {
    kept_waiting("/proc/self/task")
}

/// Sums the second field of all `schedstat` files (Documentation/scheduler/sched-stats.rst): nanoseconds spent in
/// the run queue.
fn kept_waiting(tasks: &str) -> Result<Duration> {
    let mut nanos = 0;
    for task in fs::read_dir(tasks).with_context(|| tasks.to_owned())? {
        // A thread may have ended since; a kernel without these statistics has no such file.
        let Ok(stat) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        nanos += stat.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ticks_are_found_behind_a_nasty_name() {
        let stat = "17 (a) b (c) S 1 17 17 0 -1 4194560 950 0 0 0 123 45 2 3 20 0 1 0 7 0 0";
        assert_eq!(parse_cpu_ticks(stat, CPU_FIELDS), Some(168));
        assert_eq!(parse_cpu_ticks(stat, CPU_FIELDS_WITH_CHILDREN), Some(173));
        assert_eq!(parse_cpu_ticks(stat, CHILDREN_CPU_FIELDS), Some(5));
        assert_eq!(parse_cpu_ticks("17 (a", CPU_FIELDS), None);
    }

    #[test]
    fn others_are_neither_we_nor_what_descends_from_us_nor_the_kernel() {
        // init, kthreadd and a thread of it; a shell, we, our child and its child; a compiler beside us.
        let stats = [
            (1, 0, 5),
            (2, 0, 100),
            (9, 2, 100),
            (20, 1, 7),
            (30, 20, 100),
            (31, 30, 100),
            (32, 31, 100),
            (40, 20, 11),
        ];
        assert_eq!(ticks_elsewhere(&stats, 30), 5 + 7 + 11);
        assert_eq!(ticks_elsewhere(&[(7, 8, 1), (8, 7, 1)], 30), 2, "a circle ends");
        let stat = "17 (a) b (c) S 16 17 17 0 -1 4194560 950 0 0 0 123 45 2 3 20 0 1 0 7 0 0";
        assert_eq!(parse_parent(stat), Some(16));
        assert_eq!(parse_stolen_ticks("cpu  1 2 4 100 200 8 16 32 0 0\n"), Some(32));
    }

    #[test]
    fn idle_is_told_of_one_processor_and_of_all() {
        let stat = "cpu  1 2 4 100 200 8 16 32 0 0\ncpu0 1 2\ncpu1 1 1 1 9 9 1 1 1 0 0\nintr 5\n";
        assert_eq!(parse_idle_ticks(stat, "cpu"), Some((2, 300)));
        assert_eq!(parse_idle_ticks(stat, "cpu0"), None);
        assert_eq!(parse_idle_ticks(stat, "cpu1"), Some((1, 18)));
    }

    #[test]
    fn a_processor_that_always_works_is_busy_all_the_time() {
        let core = rustix::thread::sched_getcpu();
        let mut only = rustix::thread::CpuSet::new();
        only.set(core);
        rustix::thread::sched_setaffinity(None, &only).unwrap();
        let (began, before) = (Instant::now(), busy_time_of(core).unwrap());
        while began.elapsed() < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        let busy = busy_time_of(core).unwrap().saturating_sub(before);
        // Steps of 10 ms at both ends.
        assert!(busy >= Duration::from_millis(180), "{busy:?}");
        assert!(busy <= began.elapsed() + Duration::from_millis(20), "{busy:?}");
    }
}
