//! The experiments of Salsify's paper (Fouladi et al.: "Salsify: Low-Latency Network Video through Tighter Integration between a
//! Video Codec and a Transport Protocol", NSDI 2018 §5), as data.
//!
//! * [`CASES`]: a network and a sender each, with a name; [`Case::setup`] makes what [`super::run`] takes.
//! * [`FIGURES`]: which cases belong together, and what the paper has in their place.
//!
//! What differs from the paper: the clip (people before a camera, 720p30, in place of 720p60 of the authors' own), the
//! processor, which is modelled, and Verizon's trace. The long recording of that is not among the shared test data: a
//! shorter one stands in for it, and is not compared with the paper's figures. The authors' link was an Ethernet bridge
//! with the same traces, 20 ms each way and room for 256 packets.

mod case;
mod figures;

pub use case::{CASES, Case, Length, Network, Options, Outage, Scheme, Speed};
pub use figures::{CHOSEN, FIGURES, Figure, Panels, Point, STATES};
