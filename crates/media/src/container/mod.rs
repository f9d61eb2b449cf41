//! Containers: how coded units and pictures lie in a file or on the wire.

mod boundary;
pub mod cmaf;
pub mod flv;
mod frames;
mod growing;
pub mod ivf;
pub mod ivf_rate;
pub mod ivf_salvage;
pub mod ogg;
pub mod split;
pub mod tracks;
pub mod ts;
mod walk;
pub mod wav;
pub mod webm;
pub mod y4m;
