//! Where the milliseconds of a stream's pictures go: by what senders say in the stream, by this server's own stages, and by
//! what viewers report of theirs.
//!
//! Comes in: pictures that have passed ([`PassedPicture`]), what their senders say ([`glassline_media::Stamps`]), and viewers' reports as
//! they came by HTTP ([`ViewerReport::parse`]), all with their times. Goes out: counts of all time, and percentiles of each
//! ten seconds of the last ten minutes. All of it is bounded, whatever comes.
//!
//! ```text
//! senders' stamps, passed pictures ─► RelayFigures ──┐
//!                                                    ├─► counts; Steps of percentiles
//! viewers ─ HTTP ─► ViewerReport ───► ViewerFigures ─┘
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod part;
mod relay_figures;
mod steps;
mod viewer_figures;
mod viewer_report;

pub use part::Part;
pub use relay_figures::{PassedPicture, RELAY_STAGES, RelayFigures, Samples};
pub use steps::{Percentiles, STEP, STEPS, Step, Steps, Tally};
pub use viewer_figures::{REPORTS_A_SECOND, REPORTS_A_SECOND_OF_ADDRESS, Reported, ViewerFigures};
pub use viewer_report::{BUCKETS, REPORT_COUNT_MAX, REPORT_MAX_BYTES, ReportError, ViewerReport};
