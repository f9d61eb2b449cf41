//! Servers that find each other's streams by a registry in NATS JetStream: a key-value bucket with an entry for each node and each
//! stream, and one for what each node pulls.
//!
//! ```text
//! workers ─ Directory: find, holders, … ─► Member ◄─ lock ─► thread "cluster": Ownership, async-nats
//!         ◄─ Server: give_up, follow ───────────────────────────┘        └─► bucket
//! ```
//! What is decided, `delivery::ownership` decides, by what it knows; the thread here hands it the registry's news and answers, and does
//! what it asks for. Nothing else waits for NATS: a worker looks at what is known at that moment. An async runtime is in no room but those
//! that talk to such a foreign service, on one thread of its own.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod bucket;
mod driver;
mod member;
mod status;

pub use bucket::is_bucket_name;
pub use glassline_delivery::ownership::{Carried, NodeName};
pub use member::{Member, Server};
pub use status::{Carrier, Figures, NodeStatus, RegistryState, Status, StreamPlace, UnreadEntry};

use driver::Driver;
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the thread rests after a panic.
const PAUSE_AFTER_PANIC: Duration = Duration::from_millis(500);

/// How a server takes part in a cluster.
#[derive(Clone)]
pub struct Settings {
    /// Servers of NATS, each as `nats://HOST:PORT` or `tls://HOST:PORT`; they are one cluster.
    pub servers: Vec<String>,
    /// A file with what NATS gives a user (`nsc generate creds`); `None`: the servers ask for none, or their addresses have it.
    pub credentials: Option<PathBuf>,
    /// Authorities that may vouch for the servers of NATS; `None`: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The bucket.
    pub bucket: String,
    /// How many servers of NATS keep it, where it is made here; 1, 3 or 5.
    pub replicas: usize,
    /// What this server is called; no other has the same name.
    pub node: NodeName,
    /// Where the other servers reach it: a URL, with the key that they need.
    pub address: String,
    /// Where viewers reach it: a URL without a key.
    pub public: String,
    /// Where it is.
    pub zone: String,
    /// The program's version.
    pub version: String,
}

/// This server's part in a cluster. Dropping it tells the others that it leaves.
#[derive(Debug)]
pub struct Cluster {
    member: Arc<Member>,
    thread: Option<JoinHandle<()>>,
}

impl Cluster {
    /// Begins. NATS may be away: it is asked until it is there.
    ///
    /// # Errors
    /// The system has no means for the thread.
    pub fn start(settings: Settings, server: Weak<dyn Server>, clock: Clock) -> io::Result<Cluster> {
        let incarnation = glassline_io::random::seed()?;
        let incarnation = incarnation[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let member = Arc::new(Member::new(&settings, incarnation, clock));
        // What is published here already is nothing that another server may have.
        Driver::new(&settings, &member, &server).look();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::clone(&member);
        let thread = std::thread::Builder::new().name("cluster".to_owned()).spawn(move || {
            let run = || runtime.block_on(Driver::new(&settings, &shared, &server).run());
            while contain(Border::Worker, run).is_err() {
                std::thread::sleep(PAUSE_AFTER_PANIC);
            }
            // A name may still be looked up, which nothing waits for.
            runtime.shutdown_background();
        })?;
        Ok(Cluster { member, thread: Some(thread) })
    }

    /// Ends without telling the others: another process goes on under the same name.
    pub fn pause(self) {
        self.member.pause();
    }

    /// Knows where streams are, and what there is to tell of the cluster.
    pub fn member(&self) -> &Arc<Member> {
        &self.member
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.member.end();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}
