//! How pictures are coded, as the command line says it.

use glassline_codec::h264::x264;
use glassline_engine::encode::{self, BITRATE, Keyint, Vbv};
use glassline_media::quantity::Bitrate;

/// How a stream is coded.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Settings {
    /// How x264 weighs speed against quality: ultrafast to placebo
    #[arg(long, value_name = "PRESET", default_value = x264::Settings::DEFAULT_PRESET)]
    pub(super) preset: String,
    /// Bit rate of the picture: the mean, and over the VBV the maximum, as in 5M or 800k (bit/s). Of VP8 it is 1200k
    /// where nothing is said
    #[arg(long, value_name = "RATE", default_value_t = BITRATE)]
    pub(super) bitrate: Bitrate,
    /// Size of the VBV in time (1s, 200ms) or in pictures (1frame): how long a viewer on a link of just this rate has
    /// to buffer
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(super) vbv: Vbv,
    /// From one key frame to the next, where a viewer can join: a time (10s), a number of pictures (250), or infinite,
    /// which of VP8 is what it is where nothing is said
    #[arg(long, value_name = "TIME|N|infinite", default_value = "1s")]
    pub(super) keyint: Keyint,
    /// No key frames but the first: intra blocks wander over the picture once each --keyint, so that all pictures are
    /// of about one size; viewers join at recovery points
    #[arg(long)]
    pub(super) intra_refresh: bool,
    /// Constant bit rate: filler is sent where the pictures need less, and null packets fill the transport stream up to
    /// a constant rate, with a VBV of 0.95s at most
    #[arg(long)]
    pub(super) cbr: bool,
    /// Every picture of the same size, for links of a fixed rate: --cbr --vbv 1frame --intra-refresh
    #[arg(long, conflicts_with = "vbv")]
    pub(super) constant_size: bool,
    /// Rate of the whole transport stream with --cbr or --constant-size, null packets included [default: what pictures,
    /// sound, tables and clock take at most]
    #[arg(long, value_name = "RATE")]
    pub(super) mux_rate: Option<Bitrate>,
    /// Who chooses the quantisers: x264, which looks at the whole picture first (up to a quarter of its time at the
    /// fast presets); or predicted from the pictures before, so that coding begins at once; auto: predicted for ultrafast
    /// and superfast, where the VBV has room for the odd surprise
    #[arg(long, value_name = "WHO", value_enum, default_value_t = RateControl::Auto)]
    pub(super) rate_control: RateControl,
    /// Threads that work on one picture; 0 chooses by processors
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) threads: u32,
    /// Slices of a picture, each sent when it is finished: the least number, threads may make more; 0 chooses by the
    /// picture's height, 8 at most
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) slices: u32,
    /// Step to faster presets while pictures are dropped, and back when there has been room for a while
    #[arg(long)]
    pub(super) adapt: bool,
}

/// Who chooses the quantisers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum RateControl {
    /// As the other settings have it.
    Auto,
    /// We, from the pictures before.
    Predicted,
    /// x264, from the picture itself.
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
