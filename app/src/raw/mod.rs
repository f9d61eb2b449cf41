//! Uncompressed video over RTP: `glassline record`.

mod options;
mod record;

pub(crate) use options::{ReceiveOptions, advice, cannot_receive, describe};
pub(crate) use record::{Args as RecordArgs, run as record};
