//! Network namespaces: networks of their own, with their own devices, addresses and ports.
//!
//! A thread is in one; programs that it starts are in the same. A namespace lasts for as long as a thread, a program or
//! a [`NetworkNamespace`] is left of it, and goes with the last of them, whichever way they end.

use rustix::fs::{Mode, OFlags};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags, capabilities,
    configure_capability_in_ambient_set, move_into_link_name_space, set_capabilities,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use thiserror::Error;

/// Why a namespace cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The system refuses a step.
    #[error("cannot {step}: {error}")]
    Refused {
        /// The step.
        step: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// A process of several threads cannot have a user namespace.
    #[error("{threads} threads run already; a user namespace is for a process of one")]
    Threads {
        /// How many.
        threads: usize,
    },
}

fn refused<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> NamespaceError {
    move |error| NamespaceError::Refused { step, error: error.into() }
}

/// A network namespace that is kept to come back to.
#[derive(Debug)]
pub struct NetworkNamespace(OwnedFd);

impl NetworkNamespace {
    /// The one that this thread is in.
    ///
    /// # Errors
    /// Where `/proc` is not there.
    pub fn current() -> Result<NetworkNamespace, NamespaceError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::open("/proc/thread-self/ns/net", flags, Mode::empty())
            .map(NetworkNamespace)
            .map_err(refused("open this thread's network namespace"))
    }

    /// Moves this thread into it.
    ///
    /// # Errors
    /// Without `CAP_SYS_ADMIN` over it.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(refused("enter a network namespace"))
    }
}

/// Moves this thread into a new network namespace, which has nothing but a loopback device that is down.
///
/// # Errors
/// Without `CAP_SYS_ADMIN`.
pub fn unshare_network() -> Result<(), NamespaceError> {
    unshare(UnshareFlags::NEWNET).map_err(refused("make a network namespace"))
}

/// Whether this thread may make devices and network namespaces where it is.
pub fn may_administer() -> bool {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Moves this process into a new user namespace, in which it stays the user that it is and may administer the networks
/// that are made in it. Programs that it starts keep what they need to look at these (`CAP_NET_ADMIN`, `CAP_NET_RAW`).
///
/// # Errors
/// Where the system lets no user do so (`user.max_user_namespaces` is 0, a container's policy), or several threads run.
pub fn unshare_user() -> Result<(), NamespaceError> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(NamespaceError::Threads { threads });
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER).map_err(refused("make a user namespace"))?;
    // Without privileges outside, groups have to be fixed before the group may be mapped (user_namespaces(7)).
    let write = |file: &str, text: String| {
        std::fs::write(file, text).map_err(refused("map this user into its user namespace"))
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    hand_on(CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW)
        .map_err(refused("hand capabilities on within the user namespace"))
}

fn hand_on(handed: CapabilitySet) -> rustix::io::Result<()> {
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable: inheritable | handed })?;
    handed.iter().try_for_each(|capability| configure_capability_in_ambient_set(capability, true))
}

#[allow(unsafe_code)]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    debug_assert!(!flags.contains(UnshareFlags::FILES));
    // SAFETY: the table of descriptors stays shared, which is all that the function asks for.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}
