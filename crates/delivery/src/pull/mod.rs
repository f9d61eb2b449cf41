//! Pulling: what a relay does to fetch a stream from where it is, again and again. Pure: bytes, ends and `now` come
//! in, what to do with the socket and the stream's bytes go out.
//!
//! * [`Source`]: where a stream comes from, by its URL.
//! * [`Puller`]: an HTTP upstream: connect, ask, follow redirects, read, and begin anew when it ends.

mod error;
mod media_type;
mod puller;
mod rtsp_url;
mod sdp_file;
mod source;
mod splice;

pub use error::{PullError, UNTRUSTED_REMEDY};
pub use media_type::stream_media_type;
pub use puller::{Counts, Event, HOPS_FIELD, Output, Phase, Policy, Puller, hops_limit};
pub use rtsp_url::RtspUrl;
pub use sdp_file::SdpFile;
pub use source::{Source, SourceError, UdpAddress};
pub use splice::{Piece, Splice};
