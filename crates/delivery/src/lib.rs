//! Delivery: how live bytes reach viewers. Pure state machines: bytes and `now` come in, bytes and
//! deadlines go out; no socket, no clock, no thread.
//!
//! * [`archive`]: recordings: their names, their index, and which segments a time has.
//! * [`assemble`]: a publisher's tracks of access units, merged by time into a transport stream.
//! * [`backoff`]: how long to wait before the next attempt.
//! * [`coalesce`]: which viewers a busy worker serves when a stream has news.
//! * [`fill`]: an object that many read while it fills.
//! * [`forward`]: a stream as tags of FLV for a service, bounded by time.
//! * [`http1`]: HTTP/1.1, both ends.
//! * [`ingest`]: CMAF that a publisher puts, into transport streams.
//! * [`metacube`]: the block framing that Cubemap and its kin speak.
//! * [`pull`]: how a stream is fetched from where it is, again and again.
//! * [`push`]: how a stream is given to a server, again and again.
//! * [`output`]: where a stream is sent to in datagrams.
//! * [`slate`]: what viewers see while a publisher is silent or away.
//! * [`ownership`]: which node of a cluster has a stream.
//! * [`stream`]: a live stream as an endless file: offsets, entry points, backlog.
//! * [`packager`]: access units become the segments and parts of LL-HLS and LL-DASH.
//! * [`playlist`]: playlists, manifests and the names of their objects.
//! * [`burst_limiter`]: how much of it may leave for a viewer at once.
//! * [`policy`]: which clients may publish and watch, and under what names.
//! * [`telemetry`]: what operators are told: how far behind viewers are, why, and how it was.
//! * [`webhook`]: events that go to receivers by `POST`, signed, again and again.
//! * [`watch`]: alarms on a stream.
//!
//! Offsets live here; the bytes at those offsets live in `io::spool`. `streams` marries the two.
#![forbid(unsafe_code)]

pub mod archive;
pub mod assemble;
pub mod backoff;
pub mod burst_limiter;
mod calendar;
pub mod coalesce;
pub mod fill;
pub mod forward;
pub mod http1;
pub mod ingest;
pub mod metacube;
pub mod output;
pub mod ownership;
pub mod packager;
pub mod playlist;
pub mod policy;
pub mod pull;
pub mod push;
pub mod slate;
pub mod stream;
pub mod telemetry;
pub mod watch;
pub mod webhook;
