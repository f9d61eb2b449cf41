//! What was found of the things that a configuration names: ports, certificates, files, programs.

use std::net::SocketAddr;

/// Why something cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is so for this process and every other.
    Certain(String),
    /// This user may not find out; the server may be another one.
    NotForThisUser(String),
    /// It is so for this user, and a service manager may arrange it before it starts the server.
    ForService(String),
}

/// An address that is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFound {
    /// What it is for, as in `listen` or `stream.hall.source`.
    pub key: String,
    /// The address.
    pub address: SocketAddr,
    /// Whether datagrams come to it.
    pub is_udp: bool,
    /// What was in the way when it was tried.
    pub problem: Option<Problem>,
}

/// Why an address cannot be listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Another process has it.
    Taken,
    /// This user may not. `is_started_as_root`: the configuration says that root starts the server.
    NotAllowed {
        /// Whether that says nothing, since another user starts the server.
        is_started_as_root: bool,
    },
    /// No interface has the address.
    NoSuchAddress,
    /// What else the system says.
    Other(String),
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFound {
    /// The chain's file.
    pub file: String,
    /// From when until when all of the chain is good, in seconds since 1970; or why it cannot be used.
    pub validity: Result<(i64, i64), Fault>,
}

/// A file, folder, device or user that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFound {
    /// The key that names it, as in `encode.hall.input`.
    pub key: String,
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub fault: Option<Fault>,
    /// What to type against that.
    pub command: Option<String>,
}

/// A program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFound {
    /// Its name.
    pub name: String,
    /// What it is for, as in `input files that FFmpeg decodes`.
    pub purpose: String,
    /// Its version or place; or why it is missing.
    pub found: Result<String, String>,
    /// Whether the configuration cannot do without it.
    pub is_needed: bool,
    /// Whether the configuration makes use of it and works without it.
    pub is_wanted: bool,
    /// What to type to get it.
    pub command: String,
}
