//! Network namespaces beside the bench's own, joined by what it makes with `ip`.

use crate::machine::find;
use crate::process::Server;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Runs a program to its end and gives what it prints.
///
/// # Errors
/// Where it is not there or fails: what it says.
pub fn call<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Result<String> {
    let path = find(program).with_context(|| format!("{program} is not installed"))?;
    let done = Command::new(path).args(arguments).output().with_context(|| program.to_owned())?;
    ensure!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The words of a line.
pub fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// A network namespace that lives as long as this.
#[derive(Debug)]
pub struct Namespace(Server);

impl Namespace {
    /// A new one, with nothing in it but a loopback device that is down.
    ///
    /// # Errors
    /// Where `unshare` is missing or not allowed.
    pub fn new() -> Result<Namespace> {
        let unshare = find("unshare").context("unshare is not installed")?;
        let mut holder =
            Server::start(Server::folder("namespace")?, None, &unshare, ["-n", "sleep", "36000"])?;
        // Until it has left our namespace.
        let (ours, theirs) = ("/proc/self/ns/net".to_owned(), format!("/proc/{}/ns/net", holder.id()));
        let name = |path: &str| fs::read_link(path).with_context(|| path.to_owned());
        while name(&ours)? == name(&theirs)? {
            holder.check_alive()?;
            sleep(Duration::from_millis(10));
        }
        Ok(Namespace(holder))
    }

    /// The process that keeps it, by which `ip` names it.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// The words that run a program there, behind `nsenter`.
    pub fn words<S: AsRef<str>>(&self, program: &[S]) -> Vec<String> {
        let (id, program) = (self.0.id().to_string(), program.iter().map(|word| word.as_ref().to_owned()));
        ["-t", &id, "-n"].map(str::to_owned).into_iter().chain(program).collect()
    }

    /// Runs a line there to its end and gives what it prints.
    ///
    /// # Errors
    /// As [`call`].
    pub fn call(&self, line: &str) -> Result<String> {
        call("nsenter", &self.words(&words(line)))
    }

    /// Starts a program there.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start<S: AsRef<str>>(&self, name: &str, core: Option<usize>, program: &[S]) -> Result<Server> {
        let nsenter = find("nsenter").context("nsenter is not installed")?;
        Server::start(Server::folder(name)?, core, &nsenter, self.words(program))
    }
}
