//! How pictures are coded, as the command line says it.

use glassline_codec::h264::x264;
use glassline_media::quantity::Bitrate;
use glassline_studio::encode::{self, BITRATE, Keyint, Vbv};

/// How a stream is coded.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Settings {
    /// x264's preset, speed against quality: ultrafast to placebo
    #[arg(long, value_name = "PRESET", default_value = x264::Settings::DEFAULT_PRESET)]
    pub(super) preset: String,
    /// Bit rate of the video: the average and, over the VBV, the maximum, as in 5M or 800k (bit/s). For VP8 the
    /// default is 1200k
    #[arg(long, value_name = "RATE", default_value_t = BITRATE)]
    pub(super) bitrate: Bitrate,
    /// Size of the VBV, as a time (1s, 200ms) or a number of pictures (1frame): how long a viewer on a link with
    /// exactly this bit rate has to buffer
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(super) vbv: Vbv,
    /// Distance between key frames, where viewers can join: a time (10s), a number of pictures (250), or infinite,
    /// which is the default for VP8
    #[arg(long, value_name = "TIME|N|infinite", default_value = "1s")]
    pub(super) keyint: Keyint,
    /// No key frames except the first: instead, intra blocks move across the picture once in each --keyint, so that
    /// all pictures have about the same size; viewers join at recovery points
    #[arg(long)]
    pub(super) intra_refresh: bool,
    /// Constant bit rate: filler is added if the pictures need less, and null packets fill the transport stream up to
    /// a constant rate; the VBV is at most 0.95s
    #[arg(long)]
    pub(super) cbr: bool,
    /// All pictures have the same size, for links with a fixed rate: --cbr --vbv 1frame --intra-refresh
    #[arg(long, conflicts_with = "vbv")]
    pub(super) constant_size: bool,
    /// Rate of the whole transport stream with --cbr or --constant-size, null packets included [default: the most
    /// that video, audio, tables and clock references take]
    #[arg(long, value_name = "RATE")]
    pub(super) mux_rate: Option<Bitrate>,
    /// How the quantisers are chosen
    #[arg(long, value_name = "HOW", value_enum, default_value_t = RateControl::Auto)]
    pub(super) rate_control: RateControl,
    /// Threads that work on one picture; 0: by the number of processors
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) threads: u32,
    /// Smallest number of slices in a picture, each sent when it is finished; threads may make more. 0: by the
    /// picture's height, at most 8
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) slices: u32,
    /// Switch to faster presets while pictures are being dropped, and back when there has been time to spare for a
    /// while
    #[arg(long)]
    pub(super) adapt: bool,
}

/// How the quantisers are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum RateControl {
    /// Predicted with ultrafast and superfast, if the VBV is 500ms or more and the stream has neither filler nor
    /// --intra-refresh; otherwise by x264
    Auto,
    /// Predicted from the pictures before, so that coding begins at once
    Predicted,
    /// By x264, which looks at the whole picture first (up to a quarter of its time with the fast presets)
    X264,
}

impl From<RateControl> for encode::RateControl {
    fn from(choice: RateControl) -> encode::RateControl {
        match choice {
            RateControl::Auto => encode::RateControl::Auto,
            RateControl::Predicted => encode::RateControl::Predicted,
            RateControl::X264 => encode::RateControl::X264,
        }
    }
}

impl Settings {
    /// The same, for the encoder.
    pub(super) fn settings(&self) -> encode::Settings {
        let Settings { intra_refresh, cbr, constant_size, mux_rate, threads, slices, adapt, .. } = *self;
        encode::Settings {
            preset: self.preset.clone(),
            bitrate: self.bitrate,
            vbv: self.vbv,
            keyint: self.keyint,
            intra_refresh,
            cbr,
            constant_size,
            mux_rate,
            rate_control: self.rate_control.into(),
            threads,
            slices,
            adapt,
        }
    }
}
