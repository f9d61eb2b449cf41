//! The certificates that a relay shows, and how it notices that their files have changed.

use glassline_io::small_file::Accept;
use glassline_io::tls::{Acceptor, CertificateFiles, Identities, Session, TlsError};
use glassline_media::Time;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Differs between a file and the one that was there before: device, inode, size, and the times at which the contents
/// (mtime) and the owner or permissions (ctime) were changed last.
type Print = (u64, u64, u64, [i64; 4]);

/// The files that were looked at last, and how they were.
#[derive(Debug, Default, PartialEq, Eq)]
struct Looked {
    files: Vec<CertificateFiles>,
    prints: Vec<Option<Print>>,
}

impl Looked {
    /// How `files` are now.
    fn at(files: &[CertificateFiles]) -> Looked {
        let print = |file: &Path| {
            let found = fs::metadata(file).ok()?;
            let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
            Some((found.dev(), found.ino(), found.size(), times))
        };
        let prints = files.iter().flat_map(|files| [print(&files.chain), print(&files.key)]);
        Looked { files: files.to_vec(), prints: prints.collect() }
    }
}

/// Certificates that were read and are good, to be shown from some moment on.
pub(super) struct Fresh {
    looked: Looked,
    identities: Identities,
}

impl Fresh {
    /// Reads `files`, all of which have to be good, and what `accept` says.
    pub(super) fn read(files: &[CertificateFiles], accept: Accept) -> Result<Fresh, TlsError> {
        // Looked at first: what changes meanwhile is noticed the next time.
        let looked = Looked::at(files);
        Ok(Fresh { looked, identities: Identities::read(files, accept)? })
    }
}

/// The certificates of a relay.
pub(super) struct Certificates {
    acceptor: Acceptor,
    looked: Mutex<Looked>,
    next_look: Mutex<Option<Time>>,
}

impl Certificates {
    /// None yet: each handshake fails.
    pub(super) fn new() -> Result<Certificates, TlsError> {
        Ok(Certificates { acceptor: Acceptor::new()?, looked: Mutex::default(), next_look: Mutex::default() })
    }

    /// A session for a connection that has just come in.
    pub(super) fn accept(&self) -> Result<Session, TlsError> {
        self.acceptor.accept()
    }

    /// Whether one of them is for the DNS name `name`.
    pub(super) fn have_name(&self, name: &str) -> bool {
        self.acceptor.has_name(name)
    }

    /// Shows `fresh` ones from now on.
    pub(super) fn show(&self, fresh: Fresh) {
        self.acceptor.use_identities(fresh.identities);
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = fresh.looked;
    }

    /// Looks whether `files` have changed, where it is time to do that again. Reading them may take a disk's time,
    /// which no viewer waits for: a thread does it.
    pub(super) fn look_in_time(self: &Arc<Self>, files: &[CertificateFiles], every: Duration, now: Time) {
        if files.is_empty() {
            return;
        }
        let mut next_look = self.next_look.lock().unwrap_or_else(PoisonError::into_inner);
        match *next_look {
            Some(next) if next <= now => {
                *next_look = Some(now + every);
                let (certificates, files) = (Arc::clone(self), files.to_vec());
                let thread = std::thread::Builder::new().name("certificates".into());
                if let Err(error) = thread.spawn(move || certificates.look(&files)) {
                    tracing::warn!(%error, "cannot look whether certificates have changed");
                }
            }
            // The interval may have become shorter.
            Some(next) => *next_look = Some(next.min(now + every)),
            None => *next_look = Some(now + every),
        }
    }

    /// Reads `files` again, where they have changed since they were looked at last.
    fn look(&self, files: &[CertificateFiles]) {
        let now = Looked::at(files);
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if now == *looked {
            return;
        }
        // Whatever comes of it, it is not tried and told again before they change once more.
        *looked = now;
        drop(looked);
        match Fresh::read(files, Accept::RegularFile) {
            Ok(fresh) => {
                self.show(fresh);
                tracing::info!("certificates have changed and were read again");
            }
            Err(error) => tracing::error!(%error, "certificates have changed; the old ones stay"),
        }
    }
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
