//! Where transport streams go: files, pipes, datagrams, servers, a relay in this process. Each output gets the packets as
//! they are made and has handed them on, or put them into its own bounded queue, when it returns.
//!
//! ```text
//!                  ┌─► datagrams, servers, links: written at once as far as the socket takes them;
//! packets ─► Outputs ─┤      the rest goes on by one thread with a poller and a timer (network)
//!                  └─► files, standard output: on a thread of their own (threaded), where the source is live
//! ```
//! [`Opener`] opens what a [`Target`] names. One output that fails is told and left out; the others go on.

mod datagrams;
mod error;
mod file;
mod marked;
mod network;
mod outputs;
mod push;
mod recorded;
mod relay;
mod status;
mod target;
mod threaded;

pub(crate) use error::Result;
pub use error::{Error, PushFailure};
pub use outputs::{LinkOpener, Opener, Outputs, SrtOpener};
pub use relay::RelayOutput;
pub use status::{State, Status, StatusHandle};
pub use target::{Target, TargetError};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zeroize::Zeroizing;

/// TS packets on their way out: a part of a picture (a slice, mostly), a unit of sound, or tables on their own.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a> {
    /// Whole packets of 188 bytes.
    pub bytes: &'a [u8],
    /// Whether a viewer can join here: tables come first, then a key frame or a recovery point begins.
    pub joinable: bool,
    /// Whether nothing of a picture is still to come: false while its later slices are being coded.
    pub ends_picture: bool,
}

impl<'a> Packets<'a> {
    /// Those of a whole picture, or of sound.
    #[must_use]
    pub const fn whole(bytes: &'a [u8], joinable: bool) -> Packets<'a> {
        Packets { bytes, joinable, ends_picture: true }
    }
}

/// What an output wants of the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing.
    Nothing,
    /// That the next picture is a key frame, because a viewer joins.
    KeyFrame,
}

/// Takes packets, on the encoder's thread or on one of x264's, one call at a time.
pub trait Output: Send {
    /// Takes the next packets. While it works, nothing is coded.
    ///
    /// # Errors
    /// The output has failed and takes nothing more.
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand>;

    /// The stream has ended well: puts out what waits. May take some seconds.
    ///
    /// # Errors
    /// Something of the stream did not get there.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// What the stream is called there, so that the log tells several streams apart.
    fn stream(&self) -> Option<String> {
        None
    }
}

/// A closure takes packets, and needs no end.
impl<F: FnMut(&Packets<'_>) -> Result<Demand> + Send> Output for F {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        self(packets)
    }
}

/// Whether outputs may make their source wait.
#[derive(Clone, Debug, Default)]
pub struct Liveness {
    /// The source does not wait for a slow output, which leaves pictures out; otherwise the source waits.
    pub live: bool,
    /// The user wants to end: the source waits for no output any longer.
    pub stopped: Arc<AtomicBool>,
}

impl Liveness {
    /// Whether the source waits for this output.
    #[must_use]
    pub fn is_patient(&self) -> bool {
        !self.live && !self.is_stopped()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// What servers are told and asked.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The key that publishers show.
    pub key: Option<Zeroizing<String>>,
    /// The TLS client, where a target is `https:`.
    pub connector: Option<glassline_io::tls::Connector>,
}
