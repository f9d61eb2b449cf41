//! Memory files in pages of 2 MiB.
//!
//! For each packet `sendfile` looks up, holds and lets go of sixteen pages of 4 KiB, and the reader's core lets go of
//! them too: a quarter of what a send of 60 kB costs. The system gives memory files no larger pages by itself
//! (`/sys/kernel/mm/transparent_hugepage/shmem_enabled` is `never` in most places), but a mount of tmpfs may ask for
//! them. So the process mounts one for itself, which has no place in any directory and ends with its last file.

use rustix::fs::Mode;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

static MOUNT: OnceLock<OwnedFd> = OnceLock::new();

/// Makes the process's spools take large pages from their second links on. To be called before root's privileges are
/// given up.
///
/// # Errors
/// Without `CAP_SYS_ADMIN`, and where the system has no tmpfs of large pages.
pub fn prepare() -> io::Result<()> {
    if are_there() {
        return Ok(());
    }
    let tmpfs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // As much as there is, as for memory files.
    for (key, value) in [("huge", "always"), ("size", "0"), ("nr_inodes", "0"), ("mode", "1777")] {
        fsconfig_set_string(&tmpfs, key, value)?;
    }
    fsconfig_create(&tmpfs)?;
    // No times of reading, as with the other links.
    let flags = MountAttrFlags::MOUNT_ATTR_NOATIME
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(&tmpfs, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
    // Another thread was first: as good.
    let _ = MOUNT.set(mount);
    Ok(())
}

/// Whether spools take large pages.
pub fn are_there() -> bool {
    MOUNT.get().is_some()
}

/// A file without a name in large pages.
pub(super) fn open() -> io::Result<OwnedFd> {
    let mount = MOUNT.get().ok_or_else(|| io::Error::other("no large pages were prepared"))?;
    Ok(rustix::fs::openat(mount, ".", super::UNNAMED, Mode::RUSR | Mode::WUSR)?)
}
