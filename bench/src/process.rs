//! A process that is measured: started, pinned, looked at from outside, ended.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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

    /// The last lines of its log.
    pub fn log_end(&self) -> String {
        let log = fs::read(self.folder.join(LOG)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Processor time so far, user and system, of all its threads. In steps of 10 ms.
    pub fn cpu_time(&self) -> Result<Duration> {
        let file = format!("/proc/{}/stat", self.child.id());
        let stat = fs::read_to_string(&file).with_context(|| file.clone())?;
        let ticks = parse_cpu_ticks(&stat).with_context(|| format!("{file} is unreadable: {stat:?}"))?;
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    /// How long its threads so far could have run, but others had the core.
    pub fn kept_waiting(&self) -> Result<Duration> {
        kept_waiting(&format!("/proc/{}/task", self.child.id()))
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        let file = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&file).with_context(|| file.clone())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        Ok(kilobytes.with_context(|| format!("{file} tells no VmRSS"))? * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// `utime + stime` of `/proc/PID/stat` (proc(5), fields 14 and 15). The name, field 2, may hold anything.
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
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

/// Processor time of the calling thread so far, to the nanosecond.
pub fn own_thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ticks_are_found_behind_a_nasty_name() {
        let stat = "17 (a) b (c) S 1 17 17 0 -1 4194560 950 0 0 0 123 45 0 0 20 0 1 0 7 0 0";
        assert_eq!(parse_cpu_ticks(stat), Some(168));
        assert_eq!(parse_cpu_ticks("17 (a"), None);
    }
}
