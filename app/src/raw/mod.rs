//! Uncompressed video over RTP: `glassline record`.

mod options;
mod record;

pub(crate) use options::{ReceiveOptions, cannot_receive, describe};
pub(crate) use record::{Args as RecordArgs, run as record};
