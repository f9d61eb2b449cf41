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

/// Whether something failed because this process, or the system, has no descriptor left.
pub fn lacks_descriptors(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// The user that this process acts as.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Processors that this process may run on, at least 1.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Has the calling thread run the moment that it can: before all ordinary threads of the machine where the system allows
/// it (root, `RLIMIT_RTPRIO`), else before others of its session as far as it may. For a thread that mostly sleeps.
/// Returns whether it is before all.
pub fn hurry_thread() -> bool {
    let is_first = become_real_time();
    if !is_first {
        // To Linux a thread's number is as good as a process'.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), -20);
    }
    is_first
}

#[allow(unsafe_code)]
fn become_real_time() -> bool {
    let lowest = libc::sched_param { sched_priority: 1 };
    // Programs that it might start are ordinary ones again.
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the pointer is to a whole structure, which the kernel only reads; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const lowest) == 0 }
}

/// Processor time of the calling thread so far, user and system.
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time of this process so far, user and system, of all its threads.
pub fn process_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
