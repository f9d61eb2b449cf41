//! This process: its limits, and what it has used.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Raises the number of descriptors that this process may open to what the system lets it, and returns it.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let granted = if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { limit.current };
    granted.unwrap_or(u64::MAX)
}

/// The user that this process acts as.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Processors that this process may run on, at least 1.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Has the calling thread run as soon as it can, before others of its user and the system's: where the system allows
/// it, which it does for root. Returns whether it did.
pub fn hurry_thread() -> bool {
    // To Linux a thread's number is as good as a process'.
    rustix::process::setpriority_process(Some(rustix::thread::gettid()), -20).is_ok()
}

/// Processor time of the calling thread so far, user and system.
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
