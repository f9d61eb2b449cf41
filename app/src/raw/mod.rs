//! Uncompressed video over RTP: `glassline record`.

mod options;
mod record;
mod record_sound;

pub(crate) use options::{ReceiveOptions, advice, cannot_receive, describe};
pub(crate) use record::{Args as RecordArgs, run as record};
