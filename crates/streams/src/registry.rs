//! The registry of streams, by name: which there are, how they begin, which publisher gets a name, and when they end.
//!
//! Where a stream ends or begins, the threads that have viewers of it have to be told; [`Streams`](crate::Streams) does that, so
//! that no registry knows threads.

use crate::directory::NameRefusal;
use crate::live::{ConnectionId, Live};
use crate::pieces::{Continued, Piece};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{self, Mux};
use glassline_media::Time;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Which streams there are, and which publisher has which. The streams are those of this process; a registry that several
/// machines have in common can refuse a name that another one has. No call may block for longer than a lock is held.
pub trait Registry: fmt::Debug + Send + Sync {
    /// Takes the publisher slot of a stream, which begins if there is none. Streams that had to end for it are added to
    /// `displaced`, whatever is returned.
    ///
    /// # Errors
    /// Why the caller does not get the name.
    fn acquire(
        &self,
        slot_request: SlotRequest<'_>,
        now: Time,
        displaced: &mut Vec<Arc<Live>>,
    ) -> Result<Granted, AcquireError>;

    /// The stream `name`, which begins, of `mux` and without a publisher, if there is none. Streams that had to end for it are
    /// added to `displaced`, whatever is returned.
    ///
    /// # Errors
    /// [`AcquireError::TooMany`].
    fn begin(
        &self,
        name: &StreamName,
        mux: Mux,
        now: Time,
        displaced: &mut Vec<Arc<Live>>,
    ) -> Result<Arc<Live>, AcquireError>;

    /// The stream `name`, if it has not ended.
    fn find(&self, name: &StreamName) -> Option<Arc<Live>>;

    /// What of the configuration has the name, if anything: no publisher from outside gets it.
    fn owner(&self, name: &StreamName) -> Option<Owner>;

    /// Ends `live` and takes it out of the list: its name is free.
    fn release(&self, live: &Arc<Live>);

    /// All of them, by name; also those that have just ended and still stand in the list.
    fn all(&self) -> Vec<Arc<Live>>;

    /// Those with names that begin with `prefix` and that have not ended, in order.
    fn beginning_with(&self, prefix: &StreamName) -> Vec<Arc<Live>>;

    /// Ends some streams that are not needed, for others to have their descriptors. Returns those.
    fn give_up_descriptors(&self) -> Vec<Arc<Live>>;

    /// Ends the streams that have had no publisher for longer than `window`, and takes those that have ended out of the
    /// list. Returns them.
    fn end_abandoned(&self, window: Duration, now: Time) -> Vec<Arc<Live>>;

    /// Goes on with the streams that another process left, and the next number that it would have given.
    fn inherit(&self, next_id: u64, lives: Vec<Arc<Live>>);

    /// The number of the next stream.
    fn next_id(&self) -> u64;
}

/// Why a name cannot be published under.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AcquireError {
    /// Another publisher has it.
    #[error("stream {name:?} has a publisher already")]
    Taken {
        /// The name.
        name: StreamName,
    },
    /// There is a stream of another mux under it.
    #[error("stream {name:?} is {mux}")]
    OtherMux {
        /// The name.
        name: StreamName,
        /// What the stream is.
        mux: Mux,
    },
    /// It is fetched from elsewhere, by configuration.
    #[error("stream {name:?} is pulled from its source")]
    Pulled {
        /// The name.
        name: StreamName,
    },
    /// An encoder in this process, or a link to it, has it by configuration.
    #[error("stream {name:?} is published by this server itself")]
    Inside {
        /// The name.
        name: StreamName,
    },
    /// Another server of the cluster has it.
    #[error("stream {name:?}: {why}")]
    Elsewhere {
        /// The name.
        name: StreamName,
        /// Why it is not this server's.
        why: NameRefusal,
    },
    /// This server is emptied.
    #[error("this server is emptied, and takes no new publisher")]
    Draining,
    /// There are as many streams as the configuration allows.
    #[error("all {limit} streams that the configuration allows are in use")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

/// What of the configuration has a name: no publisher from outside gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Its stream is fetched from a source, and stays while that is away.
    Source,
    /// An encoder in this process publishes it.
    Encoder,
}

/// What the configuration says of names and their streams.
pub trait Plan: Send + Sync {
    /// What has the name.
    fn owner(&self, name: &StreamName) -> Option<Owner>;

    /// Whether its stream is sent to outputs.
    fn has_outputs(&self, name: &StreamName) -> bool;

    /// How its stream is kept and sent.
    fn settings(&self, name: &StreamName) -> stream::Settings;

    /// How many streams there may be at once.
    fn max_streams(&self) -> usize;

    /// Worker threads that a stream counts its viewers by.
    fn workers(&self) -> usize;
}

/// Any name for any publisher, for so many streams that are kept the same way.
#[derive(Clone, Copy, Debug)]
pub struct FreeNames {
    /// How they are kept and sent.
    pub settings: stream::Settings,
    /// How many there may be at once.
    pub max_streams: usize,
}

impl Plan for FreeNames {
    fn owner(&self, _name: &StreamName) -> Option<Owner> {
        None
    }

    fn has_outputs(&self, _name: &StreamName) -> bool {
        false
    }

    fn settings(&self, _name: &StreamName) -> stream::Settings {
        self.settings
    }

    fn max_streams(&self) -> usize {
        self.max_streams
    }

    fn workers(&self) -> usize {
        1
    }
}

/// Where a publisher comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A part of this process: a source or a built-in encoder, which may have names that the configuration keeps for those.
    Inside,
    /// A connection of a worker, which is told where another publisher takes its place.
    Connection(ConnectionId),
    /// A peer at another door, which finds out by its next bytes that another publisher has taken its place.
    Door,
}

impl Origin {
    pub(crate) fn connection(self) -> Option<ConnectionId> {
        match self {
            Origin::Connection(connection) => Some(connection),
            Origin::Inside | Origin::Door => None,
        }
    }
}

/// A request for a publisher slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotRequest<'a> {
    /// Of which stream.
    pub name: &'a StreamName,
    /// What it will send.
    pub mux: Mux,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether it asks to replace the publisher that has the slot, and a stream of another mux.
    pub take_over: bool,
    /// What it brings may be the next piece of its stream.
    pub piece: Option<&'a Piece>,
}

/// A publisher's slot that was granted; all threads that stay with the stream were told.
#[derive(Debug)]
pub struct Acquired {
    /// The stream.
    pub live: Arc<Live>,
    /// What the publisher pushes under.
    pub session: u64,
    /// It is the next piece of what was sent before.
    pub continued: Option<Continued>,
}

/// A publisher slot that was granted; the threads that stay with the stream are not told yet.
#[derive(Debug)]
pub struct Granted {
    /// The stream.
    pub live: Arc<Live>,
    /// What the publisher pushes under.
    pub session: u64,
    /// The stream of another mux that had the name and has ended.
    pub replaced: Option<Arc<Live>>,
    /// The publisher that has to go, which the caller tells it.
    pub evicted: Option<ConnectionId>,
    /// It is the next piece of what was sent before.
    pub continued: Option<Continued>,
}
