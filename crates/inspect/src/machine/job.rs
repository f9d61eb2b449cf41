//! What a machine is asked to do.

use super::facts::{CertificateFound, FileFound, PortFound, ProgramFound};

/// A server's job, as its configuration gives it, with what was found of the things that it names.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Whether there is a configuration. Without one the machine is looked at for all that the program does.
    pub is_configured: bool,
    /// The command that looks again as root, for what this user may not read.
    pub as_root: String,
    /// Whether root starts the server, by the configuration, and this process is another user's: what this process may not do
    /// says nothing then.
    pub is_for_root: bool,
    /// Whether this process is of a user that is not root, and the configuration names no other: a service manager may allow the
    /// server what this user may not do.
    pub is_ordinary_user: bool,
    /// The command that looks from within a service that may do that.
    pub in_service: String,
    /// Threads that serve viewers.
    pub workers: usize,
    /// Open descriptors.
    pub descriptors: Descriptors,
    /// The most memory that it takes, in bytes.
    pub memory_bytes: u64,
    /// What that is for, as in `256 streams and 10000 connections`.
    pub memory_for: String,
    /// Whether streams come in datagrams.
    pub takes_datagrams: bool,
    /// Whether streams leave in datagrams.
    pub sends_datagrams: bool,
    /// Whether uncompressed video is received.
    pub takes_raw_video: bool,
    /// Whether viewers' connections are marked, and whether this process may.
    pub marks: Option<Result<(), String>>,
    /// Whether the process may give streams large pages of its own; why not.
    pub large_pages: Result<(), String>,
    /// Whether sends may be handed over in batches; why not.
    pub io_uring: Result<(), String>,
    /// The addresses that it needs.
    pub ports: Vec<PortFound>,
    /// The certificates that it shows.
    pub certificates: Vec<CertificateFound>,
    /// Files, folders, devices and users that it names.
    pub files: Vec<FileFound>,
    /// Programs and libraries.
    pub programs: Vec<ProgramFound>,
}

/// Descriptors, as the server divides them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptors {
    /// The hard limit.
    pub limit: u64,
    /// Connections that are let in under it.
    pub connections: u64,
    /// Connections or viewers that the configuration asks for; 0 where it does not say so.
    pub asked: u64,
    /// The least limit that is enough; `None` where this one is.
    pub enough: Option<u64>,
}

impl Default for Job {
    /// A job that needs nothing, on a system that allows all.
    fn default() -> Job {
        Job {
            is_configured: true,
            as_root: "sudo glassline doctor".to_owned(),
            is_for_root: false,
            is_ordinary_user: false,
            in_service: "sudo systemd-run --pipe glassline doctor".to_owned(),
            workers: 1,
            descriptors: Descriptors::default(),
            memory_bytes: 0,
            memory_for: String::new(),
            takes_datagrams: false,
            sends_datagrams: false,
            takes_raw_video: false,
            marks: None,
            large_pages: Ok(()),
            io_uring: Ok(()),
            ports: Vec::new(),
            certificates: Vec::new(),
            files: Vec::new(),
            programs: Vec::new(),
        }
    }
}

impl Job {
    /// Whether something that only some configurations use matters: to one that uses it, and where there is none.
    pub(super) fn concerns(&self, is_used: bool) -> bool {
        is_used || !self.is_configured
    }
}
