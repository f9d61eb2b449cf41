//! What there is to tell of a cluster, seen from one of its servers. The fields are those of `GET /api/cluster`.

use serde::Serialize;

/// Whether the registry is heard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegistryState {
    /// It is: what is told of nodes and streams is so now. Otherwise it is what was heard last.
    pub heard: bool,
    /// The server of NATS that is asked.
    pub server: Option<String>,
    /// The bucket.
    pub bucket: String,
    /// Why it is not heard.
    pub error: Option<String>,
    /// Claims that were granted.
    pub claims: u64,
    /// Streams that went to another node.
    pub lost: u64,
    /// Claims that came too late.
    pub conflicts: u64,
    /// Requests that failed, or were not answered in time.
    pub failed: u64,
    /// Entries of nodes that are not read, or for which there is no room, and keys of others.
    pub dropped: u64,
    /// Connections to NATS that stood.
    pub sessions: u64,
    /// Another server was heard lately that has this one's name.
    pub twin: bool,
}

/// A server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Where the others reach it, without a key.
    pub address: String,
    /// Where it is.
    pub zone: String,
    /// Its program's version.
    pub version: String,
    /// Viewers that it has.
    pub viewers: u64,
    /// Its lease lasts, as far as is known.
    pub alive: bool,
    /// It is about to end.
    pub leaving: bool,
    /// It is emptied.
    pub draining: bool,
    /// It is the one that tells this.
    pub own: bool,
}

/// A stream of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamPlace {
    /// Its name.
    pub name: String,
    /// The server that has its publisher, or had it last.
    pub node: String,
    /// Counts up with each new owner.
    pub epoch: u64,
    /// The publisher is there, and the server too.
    pub live: bool,
    /// The servers that say they pull it and give it on.
    pub carriers: Vec<Carrier>,
}

/// A server that pulls a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Carrier {
    /// Its name.
    pub node: String,
    /// How many servers the stream has passed before it, the one with the publisher among them.
    pub hops: u8,
}

/// An entry of the registry that is not read, and not written over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadEntry {
    /// Of which stream.
    pub name: String,
    /// Why.
    pub error: String,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The server that tells this.
    pub node: String,
    /// The registry.
    pub registry: RegistryState,
    /// All servers that are known, by name.
    pub nodes: Vec<NodeStatus>,
    /// All streams that are known, by name.
    pub streams: Vec<StreamPlace>,
    /// Entries that are not read.
    pub unread: Vec<UnreadEntry>,
}

/// The cluster in numbers, which are cheaper than all of [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The registry.
    pub registry: RegistryState,
    /// Servers that are alive.
    pub nodes_alive: u64,
    /// Live streams that have their publisher here.
    pub streams_here: u64,
    /// Live streams that have it at another server.
    pub streams_elsewhere: u64,
    /// Streams with an entry that is not read.
    pub entries_unread: u64,
}
