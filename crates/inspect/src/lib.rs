//! What a stream is like, looked at from outside: what `glassline probe` and `glassline lab score` show. It works with other
//! products too, and makes no load.
//!
//! * [`transport_stream`]: what is in a transport stream, and how well it comes.
//! * [`flight`]: how bursty packets arrive; [`pcap`] reads them from captures.
//! * [`score`]: how near decoded pictures are to what was encoded.
//! * [`report`] draws all of these, and has what other measurements draw with.
//! * [`machine`]: what this machine has and lacks for a job; `Trials::run` measures it.
//! * [`segmented`]: streams of HLS and DASH, followed at their live edge.
//! * [`http`]: one exchange with a server, by a thread that waits for it.
//!
//! Figures of one kind are gathered in [`Samples`] and told as a [`Distribution`].
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod distribution;
pub mod flight;
pub mod http;
pub mod machine;
pub mod pcap;
pub mod report;
mod samples;
pub mod score;
pub mod segmented;
pub mod transport_stream;

pub use distribution::Distribution;
pub use samples::Samples;
