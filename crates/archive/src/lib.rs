//! Recordings of a server's streams: a spool on this machine's disk, and a store of objects behind it.
//!
//! ```text
//! thread "package" ─► Tap ─► queue ─► thread "record": spool/NNNNNNNN.log ─► thread "archive": store
//! ```
//! The store speaks HTTP through an async runtime, which is why this crate is the only one that has one: a `current_thread`
//! runtime on the thread "archive" ([`store`]). Nothing here runs on a thread that serves viewers, but for the look at what is in
//! memory ([`reading`]).

pub mod clips;
pub mod export;
mod keeper;
mod log_files;
mod mailbox;
pub mod reading;
mod recording_thread;
mod recordings;
mod settings;
mod status;
pub mod store;
mod tap;
mod waits;

pub use keeper::KeepError;
pub use reading::{
    Archive, Objects, OwnRecordings, OwnStore, Painter, ReadingFigures, ReadingSettings, RunningRecordings,
    Unstored,
};
pub use recordings::{Listed, Recordings, State};
pub use settings::RecordSettings;
pub use status::Status;
pub use store::{Store, StoreError, StoreErrorKind, StoreSettings};
