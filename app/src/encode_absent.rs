//! Stands for the encoder in a build without x264: the command is there and says what is missing.

use crate::{config, failure};
use anyhow::Result;

/// Encode pictures and sound to H.264 (this build was made without the encoder)
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  glassline encode --help            in a build with x264 explains the command"
)]
pub(crate) struct Args {
    /// Not looked at: this build has no encoder
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<String>,
}

/// A running encoder, of which there is none.
#[derive(Debug)]
pub(crate) enum Handle {}

impl Handle {
    pub(crate) fn stop(&self) {
        match *self {}
    }

    pub(crate) fn join(self) -> Result<()> {
        match self {}
    }
}

fn missing() -> anyhow::Error {
    failure::usage(
        "this build has no H.264 encoder",
        "build it with the default features (cargo build --release), which need libx264 and libopus",
    )
}

pub(crate) fn run(args: Args) -> Result<()> {
    tracing::debug!(?args.args, "not looked at");
    Err(missing())
}

pub(crate) fn start_demo(
    demo: &config::Demo,
    _sink: impl FnMut(&[u8]) -> Result<()> + Send + 'static,
) -> Result<Handle> {
    tracing::debug!(?demo, "not encoded");
    Err(missing())
}
