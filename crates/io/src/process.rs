//! This process: its limits, and what it has used.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU64;
use std::time::Duration;

/// Raises the number of descriptors that this process may open to what the system lets it, and returns it.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let granted = if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { limit.current };
    granted.unwrap_or(u64::MAX)
}

/// Descriptors that this process may have open: what it has now, and what it may raise that to.
pub fn descriptor_limits() -> (u64, u64) {
    let limit = getrlimit(Resource::Nofile);
    (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX))
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

/// Bytes of memory that programs can still have without swapping, as the kernel estimates; `None` where it does not tell.
pub fn available_memory() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = told.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB"))?;
    Some(kib.trim().parse::<u64>().ok()? << 10)
}

/// The numbers of the processors that the calling thread may run on, as the system counts them (`/proc/cpuinfo`).
///
/// # Errors
/// Where the machine has more processors than the system tells us of (1,024).
pub fn allowed_processors() -> std::io::Result<Vec<usize>> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).collect())
}

/// Has the calling thread run on one processor alone, and threads that it makes later.
///
/// # Errors
/// `InvalidInput` where the machine has no such processor, or this process may not run on it.
pub fn pin_thread(processor: usize) -> std::io::Result<()> {
    let mut one = CpuSet::new();
    if processor < CpuSet::MAX_CPU {
        one.set(processor);
    }
    rustix::thread::sched_setaffinity(None, &one).map_err(|error| {
        let allowed = allowed_processors().unwrap_or_default();
        let what = format!("processor {processor}: {error}; this thread may run on {allowed:?}");
        std::io::Error::new(error.kind(), what)
    })
}

/// Has the calling thread run the moment that it can: before all ordinary threads of the machine where the system allows
/// it (root, `RLIMIT_RTPRIO`), else before others of its session as far as it may. For a thread that mostly sleeps.
/// Returns whether it is before all.
pub fn hurry_thread() -> bool {
    let is_first = become_real_time();
    if !is_first {
        prefer_thread();
    }
    is_first
}

/// Has the calling thread run before most others, as far as the system allows it (root, `RLIMIT_NICE`): for a thread that may
/// have a lot to do, which the kernel would hold up now and then if it went before all (`sched_rt_runtime_us`). Returns whether
/// it does.
pub fn prefer_thread() -> bool {
    // To Linux a thread's number is as good as a process'.
    rustix::process::setpriority_process(Some(rustix::thread::gettid()), -20).is_ok()
}

/// Has the calling thread, and those that it starts, run when others have nothing to do (`SCHED_IDLE`): for work that may come late.
/// A processor that does such work is as good as one without any to a thread that wakes up; with a low `nice` value alone two
/// of these would be put on one processor while the other one does work that may wait.
#[allow(unsafe_code)]
pub fn defer_thread() {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a whole structure, which the kernel only reads; 0 is the calling thread.
    let is_deferred = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const priority) == 0 };
    if !is_deferred {
        // Lower is always allowed (setpriority(2)).
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 19);
    }
}

/// Has the calling thread's sleeps end when they are to, and not up to 50 µs later, as is usual so that wake-ups can be put
/// together.
pub fn sharpen_timers() {
    // Where the kernel refuses it, sleeps are as long as they were.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

#[allow(unsafe_code)]
fn become_real_time() -> bool {
    let lowest = libc::sched_param { sched_priority: 1 };
    // Programs that it might start are ordinary ones again.
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the pointer is to a whole structure, which the kernel only reads; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const lowest) == 0 }
}

/// Gives back to the system what of this process' memory is free, where its allocator keeps that for later use (glibc). Takes
/// some milliseconds, in which other threads may wait for memory: for moments in which much has become free.
#[allow(unsafe_code)]
pub fn return_memory() {
    // SAFETY: it takes no memory of ours, and may be called by any thread at any time (malloc_trim(3)).
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deferred_thread_hands_its_priority_on_and_leaves_others_alone() {
        let policy = || {
            let status = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields: Vec<&str> = status.rsplit(')').next().unwrap().split_whitespace().collect();
            // Field 41 of proc_pid_stat(5); those behind the name begin with the third.
            fields[41 - 3].parse::<i32>().unwrap()
        };
        let before = policy();
        let deferred = std::thread::spawn(move || {
            defer_thread();
            (policy(), std::thread::spawn(policy).join().unwrap())
        });
        let idle = libc::SCHED_IDLE;
        assert_eq!((deferred.join().unwrap(), policy()), ((idle, idle), before));
        assert_ne!(before, idle);
    }

    #[test]
    fn a_thread_is_pinned_to_one_processor() {
        let allowed = allowed_processors().unwrap();
        assert!(!allowed.is_empty() && allowed.is_sorted());
        let last = allowed[allowed.len() - 1];
        // A thread of its own, since it stays there.
        let pinned = std::thread::spawn(move || {
            pin_thread(last).unwrap();
            (allowed_processors().unwrap(), rustix::thread::sched_getcpu())
        });
        assert_eq!(pinned.join().unwrap(), (vec![last], last));
        assert_eq!(allowed_processors().unwrap(), allowed, "others are not");
    }

    #[test]
    fn a_processor_that_is_not_there_is_told() {
        for number in [1000, usize::MAX] {
            let error = pin_thread(number).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&number.to_string()), "{error}");
        }
    }
}
