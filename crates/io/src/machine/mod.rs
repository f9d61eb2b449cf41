//! What this machine is and how it is set up, as the kernel tells in `/proc` and `/sys`: kernel, limits, processors, memory,
//! network cards. Nothing is changed, and nothing of it needs privileges; what a user may not read is [`Known::Hidden`].
//!
//! [`parse`] reads the texts and is pure. What it all means for a job is judged elsewhere.

mod network;
pub mod parse;

pub use network::{Interface, Queues};

use crate::clock::Clock;
use crate::nic::Ring;
use glassline_media::stamps::ClockAccuracy;
use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// More than any file that is read here holds; one that is longer is cut.
const FILE_BYTES: u64 = 64 << 10;

/// Something that a system may tell of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known<T> {
    /// It is this.
    Is(T),
    /// The system has no such thing: another kernel, a container, a kind of processor.
    Absent,
    /// There is one, and it cannot be read: why, for people.
    Hidden(String),
}

impl<T> Known<T> {
    /// The value, where it is known.
    pub fn value(&self) -> Option<&T> {
        match self {
            Known::Is(value) => Some(value),
            _ => None,
        }
    }

    /// What `read` makes of the value. What it makes nothing of is hidden.
    pub fn and_then<U>(self, read: impl FnOnce(&T) -> Option<U>) -> Known<U> {
        match self {
            Known::Is(value) => read(&value)
                .map_or_else(|| Known::Hidden("in a form that is not known here".into()), Known::Is),
            Known::Absent => Known::Absent,
            Known::Hidden(reason) => Known::Hidden(reason),
        }
    }
}

/// Where the kernel's files are.
#[derive(Clone, Debug)]
pub struct Files {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl Default for Files {
    fn default() -> Files {
        Files { proc: "/proc".into(), sys: "/sys".into() }
    }
}

impl Files {
    fn of_proc(&self, path: &str) -> Known<String> {
        read(&self.proc.join(path))
    }

    fn of_sys(&self, path: &str) -> Known<String> {
        read(&self.sys.join(path))
    }
}

/// A file's text without white space around it.
fn read(path: &Path) -> Known<String> {
    let read = fs::File::open(path).and_then(|file| {
        let mut text = Vec::new();
        file.take(FILE_BYTES).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    });
    match read {
        Ok(text) => Known::Is(text),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Known::Absent,
        Err(error) => Known::Hidden(format!("{}: {error}", path.display())),
    }
}

/// The kernel's parameters that are read, as `sysctl` names them.
const PARAMETERS: [&str; 13] = [
    "fs.nr_open",
    "kernel.io_uring_disabled",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_wmem",
    "vm.nr_hugepages",
];

/// The machine as it is now.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel's release, as in `6.1.0-18-amd64`.
    pub release: Known<String>,
    /// Its parameters, by the names that `sysctl` has for them.
    pub parameters: BTreeMap<&'static str, Known<String>>,
    /// Processors that this process may run on.
    pub processors: usize,
    /// How many processors' time its group of processes may use, by the smallest quota above it; `Absent` without one.
    pub processor_quota: Known<f64>,
    /// The drivers of the processors' clock rates with their governors, each pair once, as in `("intel_pstate", "powersave")`.
    pub governors: Known<Vec<(String, String)>>,
    /// What the kernel reads the time from.
    pub clock_source: Known<String>,
    /// How near the wall clock is to UTC.
    pub accuracy: ClockAccuracy,
    /// The clocks of network cards that PTP can use, by name.
    pub ptp_clocks: Known<Vec<String>>,
    /// All memory and what programs can still have, in bytes.
    pub memory: Known<(u64, u64)>,
    /// What its group of processes may have, in bytes, by the smallest limit above it; `Absent` without one.
    pub memory_limit: Known<u64>,
    /// The choice for huge pages of ordinary memory, as in `madvise`.
    pub huge_pages: Known<String>,
    /// The choice for those of memory files.
    pub huge_memory_files: Known<String>,
    /// The network cards: interfaces with a device behind them that are up.
    pub cards: Known<Vec<Interface>>,
    /// Descriptors that this process may have open: what it has now, and what it may raise that to.
    pub descriptors: (u64, u64),
}

impl Machine {
    /// Reads all of it. Takes some milliseconds.
    pub fn read(files: &Files) -> Machine {
        let parameter =
            |name: &'static str| (name, files.of_proc(&format!("sys/{}", name.replace('.', "/"))));
        let chosen = |path: &str| files.of_sys(path).and_then(|text| parse::chosen(text).map(str::to_owned));
        let groups = files.of_proc("self/cgroup");
        let limits = |file: &str| group_limits(files, &groups, file);
        Machine {
            release: files.of_proc("sys/kernel/osrelease"),
            parameters: PARAMETERS.map(parameter).into(),
            processors: crate::process::processors(),
            processor_quota: smallest(limits("cpu.max"), parse::processor_quota),
            governors: governors(files),
            clock_source: files.of_sys("devices/system/clocksource/clocksource0/current_clocksource"),
            accuracy: Clock::new().accuracy(),
            ptp_clocks: entries(&files.sys.join("class/ptp")).and_then(|names| {
                let name =
                    |entry: &String| files.of_sys(&format!("class/ptp/{entry}/clock_name")).value().cloned();
                Some(
                    names
                        .iter()
                        .map(|entry| name(entry).map_or(entry.clone(), |name| format!("{entry} ({name})")))
                        .collect(),
                )
            }),
            memory: files.of_proc("meminfo").and_then(|text| parse::memory(text)),
            memory_limit: smallest(limits("memory.max"), |text| {
                text.parse().ok().map(|bytes: u64| bytes as f64)
            })
            .and_then(|bytes| Some(*bytes as u64)),
            huge_pages: chosen("kernel/mm/transparent_hugepage/enabled"),
            huge_memory_files: chosen("kernel/mm/transparent_hugepage/shmem_enabled"),
            cards: network::cards(files),
            descriptors: crate::process::descriptor_limits(),
        }
    }

    /// A kernel's parameter by its name.
    ///
    /// # Panics
    /// For one that is none of those that are read: a mistake of the caller's.
    pub fn parameter(&self, name: &str) -> &Known<String> {
        self.parameters.get(name).unwrap_or_else(|| panic!("{name} is not read"))
    }

    /// A parameter's number: of several, as `net.ipv4.tcp_wmem` has, the last.
    pub fn number(&self, name: &str) -> Known<u64> {
        self.parameter(name).clone().and_then(|text| text.split_ascii_whitespace().next_back()?.parse().ok())
    }

    /// The same machine with another value of a parameter: for tests of what judges it.
    #[doc(hidden)]
    #[must_use]
    pub fn with_parameter(mut self, name: &'static str, value: Known<String>) -> Machine {
        self.parameters.insert(name, value);
        self
    }

    /// A machine that tells nothing: for tests.
    #[doc(hidden)]
    pub fn silent() -> Machine {
        Machine {
            release: Known::Absent,
            parameters: PARAMETERS.map(|name| (name, Known::Absent)).into(),
            processors: 1,
            processor_quota: Known::Absent,
            governors: Known::Absent,
            clock_source: Known::Absent,
            accuracy: ClockAccuracy::Unknown,
            ptp_clocks: Known::Absent,
            memory: Known::Absent,
            memory_limit: Known::Absent,
            huge_pages: Known::Absent,
            huge_memory_files: Known::Absent,
            cards: Known::Absent,
            descriptors: (1 << 20, 1 << 20),
        }
    }
}

/// The names in a folder, in order.
fn entries(folder: &Path) -> Known<Vec<String>> {
    match fs::read_dir(folder) {
        Ok(found) => {
            let names = found.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            let mut names: Vec<_> = names.collect();
            names.sort_unstable();
            Known::Is(names)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Known::Absent,
        Err(error) => Known::Hidden(format!("{}: {error}", folder.display())),
    }
}

/// What `file` says in the group of this process and in all above it (cgroups(7), version 2).
fn group_limits(files: &Files, groups: &Known<String>, file: &str) -> Vec<Known<String>> {
    let Some(path) = groups.value().and_then(|text| parse::group(text)) else { return Vec::new() };
    let root = files.sys.join("fs/cgroup");
    let below = Path::new(path.trim_start_matches('/'));
    below.ancestors().map(|group| read(&root.join(group).join(file))).collect()
}

/// The smallest of some limits; what is no limit (`max`) is left out.
fn smallest(found: Vec<Known<String>>, read: impl Fn(&str) -> Option<f64>) -> Known<f64> {
    let values = found
        .iter()
        .filter_map(|known| read(known.value()?))
        .fold(None, |least: Option<f64>, value| Some(least.map_or(value, |least| least.min(value))));
    let hidden = found.iter().find_map(|known| match known {
        Known::Hidden(reason) => Some(reason.clone()),
        _ => None,
    });
    match (values, hidden) {
        (Some(least), _) => Known::Is(least),
        (None, Some(reason)) => Known::Hidden(reason),
        (None, None) => Known::Absent,
    }
}

fn governors(files: &Files) -> Known<Vec<(String, String)>> {
    let processors = entries(&files.sys.join("devices/system/cpu"));
    let Known::Is(names) = processors else { return processors.and_then(|_| None) };
    let is_processor =
        |name: &&String| name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let mut pairs = Vec::new();
    for name in names.iter().filter(is_processor) {
        let of = |file: &str| files.of_sys(&format!("devices/system/cpu/{name}/cpufreq/{file}"));
        match of("scaling_governor") {
            Known::Is(governor) => {
                let driver = of("scaling_driver").value().cloned().unwrap_or_default();
                pairs.push((driver, governor));
            }
            Known::Absent => {}
            Known::Hidden(reason) => return Known::Hidden(reason),
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    // Virtual machines and many boards leave the clock rate to others.
    if pairs.is_empty() { Known::Absent } else { Known::Is(pairs) }
}

/// How long a card's two rings are; `None` of one that the device does not tell of.
pub type Rings = (Option<Ring>, Option<Ring>);

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
