//! Becoming a user that may less.
//!
//! A server is started as root for what only root may (ports below 1024, files that others must not read) and then
//! goes on as a user of its own. Linux has credentials for each thread and hands a thread's on to those that it
//! starts; so this is done while there is one thread, and refused where there are more.

use rustix::process::{Gid, Uid, geteuid, getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use thiserror::Error;

/// A user that a process can be, with its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's number.
    pub uid: u32,
    /// Its group's.
    pub gid: u32,
    /// The other groups that it is in.
    pub groups: Vec<u32>,
}

/// What a process keeps of root's privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// To mark connections (`CAP_NET_ADMIN`).
    pub net_admin: bool,
    /// To listen on ports below 1024 (`CAP_NET_BIND_SERVICE`).
    pub low_ports: bool,
}

impl Keep {
    fn capabilities(self) -> CapabilitySet {
        let mut kept = CapabilitySet::empty();
        kept.set(CapabilitySet::NET_ADMIN, self.net_admin);
        kept.set(CapabilitySet::NET_BIND_SERVICE, self.low_ports);
        kept
    }
}

/// Why a process cannot become a user.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PrivilegeError {
    /// There is no user or group of this name.
    #[error("no {what} {name:?} in {file}")]
    Unknown {
        /// "user" or "group".
        what: &'static str,
        /// The name that was asked for.
        name: String,
        /// Where it was looked for.
        file: &'static str,
    },
    /// A file with users or groups cannot be read.
    #[error("cannot read {file}: {error}")]
    Unreadable {
        /// The file.
        file: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// Only root can become another user.
    #[error("this process runs as user {found}; only root can become user {wanted}")]
    NotRoot {
        /// The user that it is.
        found: u32,
        /// The user that it should become.
        wanted: u32,
    },
    /// Other threads would keep what this one gives up.
    #[error("{threads} threads run already")]
    Threads {
        /// How many.
        threads: usize,
    },
    /// The system refuses.
    #[error("{step}: {error}")]
    Refused {
        /// What was being done.
        step: &'static str,
        /// What the system says.
        error: io::Error,
    },
}

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// Whether this process has root's user number.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// The user called `user` and its groups, `group` in place of its own where that is given. Both may be numbers, too,
/// which need not be known here.
///
/// Read from the system's own files, /etc/passwd and /etc/group; users of a directory service have to be given by
/// number.
pub fn find(user: &str, group: Option<&str>) -> Result<Identity, PrivilegeError> {
    let read =
        |file| std::fs::read_to_string(file).map_err(|error| PrivilegeError::Unreadable { file, error });
    find_in(user, group, &read(USERS)?, &read(GROUPS)?)
}

/// How people call a user: by name and number where /etc/passwd has a name for it.
pub fn name(uid: u32) -> String {
    let users = std::fs::read_to_string(USERS).unwrap_or_default();
    name_in(uid, &users).map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

fn name_in(uid: u32, users: &str) -> Option<&str> {
    let mut entries = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    entries.find(|entry| entry.len() >= 4 && entry[2].parse() == Ok(uid)).map(|entry| entry[0])
}

fn find_in(user: &str, group: Option<&str>, users: &str, groups: &str) -> Result<Identity, PrivilegeError> {
    let unknown = |what, name: &str, file| PrivilegeError::Unknown { what, name: name.into(), file };
    // name:password:number:… (passwd(5), group(5)); in /etc/passwd the group follows, in /etc/group the members.
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let entry = |text: &str, name: &str| {
        let entries = || text.lines().map(fields).filter(|entry| entry.len() >= 4);
        let named = entries().find(|entry| entry[0] == name);
        named.or_else(|| entries().find(|entry| entry[2] == name))
    };
    let number = |text: &str| text.parse::<u32>().ok().filter(|&number| number != u32::MAX);

    let found = entry(users, user);
    let uid = number(found.as_ref().map_or(user, |entry| &entry[2]));
    let uid = uid.ok_or_else(|| unknown("user", user, USERS))?;
    let gid = match (group, &found) {
        (Some(group), _) => {
            let entry = entry(groups, group);
            number(entry.as_ref().map_or(group, |entry| &entry[2]))
                .ok_or_else(|| unknown("group", group, GROUPS))?
        }
        (None, Some(entry)) => number(&entry[3]).ok_or_else(|| unknown("group", &entry[3], GROUPS))?,
        // A number that stands in no file: its group is called the same.
        (None, None) => uid,
    };
    let name = found.as_ref().map_or(user, |entry| &entry[0]);
    let is_member =
        |entry: &Vec<String>| entry.len() >= 4 && entry[3].split(',').any(|member| member == name);
    let mut others: Vec<_> = groups.lines().map(fields).filter(is_member).collect();
    others.retain(|entry| number(&entry[2]) != Some(gid));
    Ok(Identity { uid, gid, groups: others.iter().filter_map(|entry| number(&entry[2])).collect() })
}

/// Makes this process `identity` for good, with nothing of root's privileges but `keep`, and bars it and whatever it
/// executes from ever gaining any (`no_new_privs`). What is kept is handed on to programs that it executes.
///
/// Where the process is that user already it keeps what it has.
///
/// # Errors
/// Where it is neither that user nor root, or has more threads than this one. It may then have given up a part: end it.
pub fn become_user(identity: &Identity, keep: Keep) -> Result<(), PrivilegeError> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(PrivilegeError::Threads { threads });
    }
    if (getuid().as_raw(), geteuid().as_raw()) != (identity.uid, identity.uid) {
        if !is_root() {
            let found = geteuid().as_raw();
            return Err(PrivilegeError::NotRoot { found, wanted: identity.uid });
        }
        change_user(identity, keep.capabilities())?;
    }
    step("cannot set no_new_privs", set_no_new_privs(true))
}

fn step(step: &'static str, done: rustix::io::Result<()>) -> Result<(), PrivilegeError> {
    done.map_err(|error| PrivilegeError::Refused { step, error: error.into() })
}

fn change_user(identity: &Identity, kept: CapabilitySet) -> Result<(), PrivilegeError> {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    let groups: Vec<_> =
        std::iter::once(gid).chain(identity.groups.iter().map(|group| Gid::from_raw(*group))).collect();
    // A container's root may lack some of the capabilities to keep; what needs one then says so itself.
    let had = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted);
    let kept = kept & had;
    step("cannot keep capabilities", set_keep_capabilities(true))?;
    step("cannot leave root's groups", set_thread_groups(&groups))?;
    step("cannot change the group", set_thread_res_gid(gid, gid, gid))?;
    step("cannot change the user", set_thread_res_uid(uid, uid, uid))?;
    step("cannot keep capabilities", set_keep_capabilities(false))?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    step("cannot give up capabilities", set_capabilities(None, sets))?;
    for capability in kept.iter() {
        step("cannot hand capabilities on", configure_capability_in_ambient_set(capability, true))?;
    }
    debug_assert!(getuid() == uid && getgid() == gid);
    Ok(())
}

/// Gives an open file to `identity`, so that it can be opened again later.
pub fn give_file(file: &File, identity: &Identity) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    Ok(rustix::fs::fchown(file.as_fd(), Some(uid), Some(gid))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS_TEXT: &str = "root:x:0:0:root:/root:/bin/bash\n# a comment\nglassline:x:990:985::/:/sbin/nologin\n\
                              7:x:1007:1007::/:/bin/sh\nbroken:x:abc:def\n";
    const GROUPS_TEXT: &str = "root:x:0:\nglassline:x:985:\nssl-cert:x:110:www,glassline\nvideo:x:44:glassline\n\
                               own:x:985:glassline\nodd\n";

    fn find(user: &str, group: Option<&str>) -> Result<Identity, String> {
        find_in(user, group, USERS_TEXT, GROUPS_TEXT).map_err(|error| error.to_string())
    }

    #[test]
    fn users_are_found_with_their_groups() {
        let glassline = Identity { uid: 990, gid: 985, groups: vec![110, 44] };
        assert_eq!(find("glassline", None).unwrap(), glassline);
        assert_eq!(find("990", None).unwrap(), glassline);
        let in_video = Identity { uid: 990, gid: 44, groups: vec![110, 985] };
        assert_eq!(find("glassline", Some("video")).unwrap(), in_video);
        assert_eq!(find("glassline", Some("44")).unwrap(), in_video);
        // A name that is a number goes before the number.
        assert_eq!(find("7", None).unwrap().uid, 1007);
        assert_eq!(find("4711", None).unwrap(), Identity { uid: 4711, gid: 4711, groups: vec![] });
        assert_eq!(find("4711", Some("815")).unwrap().gid, 815);
    }

    #[test]
    fn a_user_is_called_by_name() {
        assert_eq!(name_in(990, USERS_TEXT), Some("glassline"));
        assert_eq!(name_in(4711, USERS_TEXT), None);
        assert_eq!(name(0), "root (uid 0)");
    }

    #[test]
    fn who_is_not_there_is_named() {
        for (user, group, words) in [
            ("nobdy", None, "no user \"nobdy\" in /etc/passwd"),
            ("glassline", Some("vidoe"), "no group \"vidoe\" in /etc/group"),
            ("", None, "no user \"\""),
            ("-1", None, "no user \"-1\""),
            ("4294967295", None, "no user"),
            ("broken", None, "no user \"broken\""),
            ("# a comment", None, "no user"),
        ] {
            let error = find(user, group).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn other_threads_would_keep_what_this_one_gives_up() {
        // The test runner is a thread beside this one.
        let error = become_user(&Identity { uid: 1, gid: 1, groups: vec![] }, Keep::default()).unwrap_err();
        assert!(matches!(error, PrivilegeError::Threads { threads: 2.. }), "{error}");
    }
}
