//! Programs that this one starts and answers for: their end with ours, and signals passed on to them.

use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
pub use rustix::process::Signal;
use rustix::process::{Pid, getpid, getppid, kill_process, kill_process_group};
use rustix::process::{WaitOptions, set_child_subreaper, set_parent_process_death_signal};
use rustix::process::{test_kill_process_group, waitpid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// What is taken out of this process' hands by [`Signals::block`].
const TAKEN: [Signal; 7] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::CHILD];

/// Signals to this process, as something to be read instead of something that happens.
#[derive(Debug)]
pub struct Signals(OwnedFd);

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    /// Which one.
    pub signal: Signal,
    /// The kernel sent it, as it does at a key of the terminal: then every program in front there has got it.
    pub is_of_kernel: bool,
}

impl Signals {
    /// Holds SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 and SIGCHLD back from this thread and those that it
    /// starts from now on. Programs started by [`spawn`] get them as ever.
    ///
    /// # Errors
    /// Where the system has no descriptor left.
    #[allow(unsafe_code)]
    pub fn block() -> io::Result<Signals> {
        let set = signal_set(&TAKEN);
        // SAFETY: the set is initialised, and no old one is asked for.
        if unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the set is initialised; -1 asks for a new descriptor.
        let descriptor =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened just now, and nothing else has it.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// The next signal, if one came.
    pub fn next(&self) -> Option<Caught> {
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        let length = rustix::io::read(&self.0, &mut bytes).ok()?;
        // `ssi_signo` and `ssi_code`, the first and the third number (signalfd(2)).
        let number = |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let found = TAKEN.into_iter().find(|signal| signal.as_raw() == number(0));
        let signal = found.filter(|_| length == bytes.len())?;
        Some(Caught { signal, is_of_kernel: number(8) == libc::SI_KERNEL })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Has `command` run with nothing of the privileges that this process kept when it became another user
/// ([`privileges`](crate::privileges)), which are its own business: no ambient capabilities, none to be inherited. A
/// program that root starts as root has root's.
#[allow(unsafe_code)]
pub fn without_capabilities(command: &mut Command) -> &mut Command {
    let prepare = || {
        // A kernel without ambient capabilities (before 4.3) has none to hand on.
        let _ = clear_ambient_capability_set();
        let sets = capabilities(None)?;
        if !sets.inheritable.is_empty() {
            set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::empty(), ..sets })?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made: nothing is allocated, no lock taken.
    unsafe { command.pre_exec(prepare) }
}

/// Starts a program that the kernel kills when the calling thread ends, however that comes, and that gets all signals.
/// It has no capabilities of ours ([`without_capabilities`]).
///
/// # Errors
/// Where it cannot be started.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    spawn_with_capabilities(without_capabilities(command))
}

/// The same with the capabilities that this process hands on: for programs that are to look at a network of ours
/// ([`unshare_user`](crate::namespace::unshare_user)).
///
/// # Errors
/// Where it cannot be started.
#[allow(unsafe_code)]
pub fn spawn_with_capabilities(command: &mut Command) -> io::Result<Child> {
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have ended before.
        if getppid() != Some(parent) {
            return Err(rustix::io::Errno::SRCH.into());
        }
        let none = signal_set(&[]);
        // SAFETY: the set is initialised, and no old one is asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made: nothing is allocated, no lock taken.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// Makes this process the parent of programs that have lost theirs: the kernel hands them to it instead of to the
/// system's first process (`PR_SET_CHILD_SUBREAPER` of prctl(2)).
#[derive(Debug)]
pub struct Orphans(());

impl Orphans {
    /// From now on they are this process'.
    ///
    /// # Errors
    /// The kernel has no such thing (before 3.4).
    pub fn adopt() -> io::Result<Orphans> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Orphans(()))
    }

    /// Has all children of this process end, and theirs: asks by SIGTERM, and kills what is left after `timeout`. Of programs that
    /// this process started itself the end must have been waited for. Returns how many programs were running.
    pub fn end(&self, timeout: Duration) -> usize {
        const STEP: Duration = Duration::from_millis(10);
        let deadline = Instant::now() + timeout;
        let mut known = Vec::new();
        loop {
            // What one of them leaves behind comes to us when that has ended.
            let left: Vec<Pid> = children().into_iter().filter(|child| !has_ended(*child)).collect();
            if left.is_empty() {
                return known.len();
            }
            let is_late = Instant::now() >= deadline;
            for child in left {
                let is_new = !known.contains(&child);
                if is_new {
                    known.push(child);
                }
                if is_new || is_late {
                    // It may have ended meanwhile.
                    let _ = kill_process(child, if is_late { Signal::KILL } else { Signal::TERM });
                }
            }
            thread::sleep(STEP);
        }
    }
}

/// Takes a child's end, if that has come.
fn has_ended(child: Pid) -> bool {
    !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
}

/// The children of this process, those that have ended among them (`/proc/PID/stat`, proc(5)).
fn children() -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = getpid().as_raw_nonzero().get();
    let is_ours = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The program's name is in parentheses, and may hold some.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parent == Some(own)
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(is_ours).filter_map(Pid::from_raw).collect()
}

/// Sends a signal to a program that [`spawn`] started and that has not been waited for yet.
///
/// # Errors
/// Where it has become a user that we may not send to.
pub fn send(child: &Child, signal: Signal) -> io::Result<()> {
    Ok(kill_process(pid(child), signal)?)
}

/// Sends a signal to a program that was started in a process group of its own, and to all that it started in that group.
/// Nothing happens where none of them is left.
pub fn send_to_group(child: &Child, signal: Signal) {
    let _ = kill_process_group(pid(child), signal);
}

/// Whether a program that was started in a process group of its own, or any of its group, is left.
pub fn is_group_left(child: &Child) -> bool {
    test_kill_process_group(pid(child)).is_ok()
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

#[allow(unsafe_code)]
fn signal_set(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set, `sigaddset` takes an initialised one and a signal's number.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
        }
        set.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::configure_capability_in_ambient_set;
    use std::process::Stdio;

    /// The capabilities that a program says it has, started by a thread that hands some on.
    fn shown(start: fn(&mut Command) -> io::Result<Child>) -> Option<String> {
        // Credentials are each thread's own: the test runner's other threads keep theirs.
        let thread = std::thread::spawn(move || {
            let sets = capabilities(None).ok()?;
            let handed = CapabilitySet::NET_BIND_SERVICE;
            set_capabilities(None, CapabilitySets { inheritable: sets.inheritable | handed, ..sets }).ok()?;
            configure_capability_in_ambient_set(handed, true).ok()?;
            let mut command = Command::new("grep");
            command.args(["-E", "CapAmb|CapInh", "/proc/self/status"]).stdout(Stdio::piped());
            let output = start(&mut command).unwrap().wait_with_output().unwrap();
            Some(String::from_utf8(output.stdout).unwrap())
        });
        thread.join().unwrap()
    }

    #[test]
    fn a_program_gets_no_capabilities_of_ours() {
        let (Some(bare), Some(given)) = (shown(spawn), shown(spawn_with_capabilities)) else {
            return glassline_test_support::skip(
                "a_program_gets_no_capabilities_of_ours",
                "no CAP_NET_BIND_SERVICE to hand on",
            );
        };
        let none = "0000000000000000";
        assert_eq!(bare.matches(none).count(), 2, "{bare}");
        assert_eq!(given.matches(none).count(), 0, "{given}");
        let other = shown(|command| without_capabilities(command).spawn()).unwrap();
        assert_eq!(other.matches(none).count(), 2, "{other}");
    }
}
