//! Stands for the encoder in a build without x264: the command is there and says what is missing.

use crate::{config, failure};
use anyhow::Result;
use glassline_media::quantity::Bitrate;
use std::path::Path;

/// Encode pictures and sound to H.264 (this build was made without the encoder)
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  glassline encode --help            in a build with x264 explains the command"
)]
pub(crate) struct Line {
    /// Not looked at: this build has no encoder
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<String>,
}

fn missing() -> anyhow::Error {
    failure::usage(
        "this build has no H.264 encoder",
        "build it with the default features (cargo build --release), which need libx264 and libopus",
    )
}

pub(crate) fn run(line: Line) -> Result<()> {
    tracing::debug!(?line.args, "not looked at");
    Err(missing())
}

/// Fails where there is no encoder.
pub(crate) fn require() -> Result<()> {
    Err(missing())
}

/// Nothing is wrong with what cannot be looked at; [`require`] says what is missing.
pub(crate) fn check_section(_section: &config::Encode) -> Result<(), (&'static str, String)> {
    Ok(())
}

pub(crate) fn input_in(_folder: &Path, input: &str) -> String {
    input.to_owned()
}

pub(crate) fn sound_in(_folder: &Path, input: &str) -> String {
    input.to_owned()
}

/// Of a section whose renditions cannot be read: its own.
pub(crate) fn stream_names(name: &str, _section: &config::Encode) -> Vec<String> {
    vec![name.to_owned()]
}

/// Takes a stream's TS packets.
pub(crate) type Publish = Box<dyn FnMut(&[u8]) -> Result<()> + Send>;

/// What an encoder says of itself.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Status {
    pub(crate) bitrate_bps: u64,
    pub(crate) pictures: u64,
    pub(crate) dropped: u64,
}

/// An encoder inside, of which there is none: [`Job::open`] fails.
#[derive(Debug)]
pub(crate) struct Job;

/// What ends it.
#[derive(Debug)]
pub(crate) struct Stopper;

/// What controls it.
#[derive(Clone, Debug)]
pub(crate) struct Controls;

impl Job {
    pub(crate) fn open(_section: &config::Encode) -> Result<Job> {
        Err(missing())
    }

    pub(crate) fn stopper(&self) -> Stopper {
        Stopper
    }

    pub(crate) fn controls(&self) -> Controls {
        Controls
    }

    pub(crate) fn run(self, _sinks: Vec<Publish>) -> Result<()> {
        Err(missing())
    }
}

impl Stopper {
    pub(crate) fn stop(&self) {}
}

impl Controls {
    pub(crate) fn request_key_frame(&self) {}

    pub(crate) fn set_bitrate(&self, _index: usize, _bitrate: Bitrate) -> Result<()> {
        Err(missing())
    }

    pub(crate) fn status(&self) -> Vec<Status> {
        Vec::new()
    }
}
