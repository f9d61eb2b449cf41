//! Fill: an object that many read while it fills.
//!
//! ```text
//! packager ─────┐                              ┌─► reader at 0
//!               ├─► Object: head, bytes ... ───┼─► reader at 48,000
//! upstream ─────┘   begin  append  finish|fail └─► reader at the end, waits
//! ```
//! [`Object`] holds the bytes of one answer (a segment, a part, a playlist) as they come, and says at each place which bytes
//! are there, whether more will come, and whether the object is whole. It does not know its readers: each reader keeps its own
//! place, and the owner of the object wakes it. [`Selection`] is the part of an object that a request asks for (`Range`,
//! conditions), and [`Framing`] the framing of its bytes on a connection. [`Download`] puts an object together from servers
//! that break off, and [`Freshness`] says how long it may be used. [`Store`] decides which objects of upstream servers are
//! kept, and [`disk`] which of them also lie in files; [`locate`] says which servers have an object. [`Memory`] counts the
//! bytes that objects take, [`Standing`] says how far one may fill ahead of its readers, and [`FairQueue`] which request is
//! next. Objects that are packaged here live in [`Slab`]s, memory that many small objects share and that is freed as a whole:
//! an object takes no descriptor, and bytes that were given to a socket never change.

pub mod disk;
mod download;
mod framing;
mod freshness;
mod head;
mod key_query;
mod memory;
mod object;
mod passed_on;
mod pieces;
mod purge;
mod queue;
mod redirect;
mod route;
mod selection;
mod slab;
mod status;
mod store;
mod target;
mod via;
mod window;

pub use download::{Download, Validator, Verdict};
pub use framing::Framing;
pub use freshness::{Defaults, Freshness, age};
pub use head::Head;
pub use key_query::KeyQuery;
pub use memory::{Charge, Memory};
pub use object::{Bytes, Failure, Object, Progress};
pub use purge::Purge;
pub use queue::FairQueue;
pub use redirect::{Redirected, location_here};
pub use route::{Located, Route, RouteError, locate};
pub use selection::{Selection, SelectionError, VERY_LARGE};
pub use slab::Slab;
pub use store::{CacheStatus, Key, Lookup, OVERHEAD_BYTES, Store, StoreFigures, Wanted};
pub use target::upstream_target;
pub use via::{HOPS_MAX, Via, has_passed, server_name};
pub use window::{Budget, Pace, Standing, WINDOW_MIN_BYTES};
