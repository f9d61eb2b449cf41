//! The demo: the test picture and tone, encoded and published from inside the process.

use crate::config;
use crate::encode::{self, Settings};
use crate::failure;
use anyhow::Result;
use glassline_delivery::policy::StreamName;
use glassline_engine::relay::Relay;

/// Publishes the test picture until it is stopped.
pub(super) fn start(relay: &Relay, demo: &config::Demo) -> Result<encode::Handle> {
    let name = StreamName::parse(&demo.name).ok_or_else(|| {
        failure::usage(format!("demo name {:?} is none", demo.name), "use letters and digits")
    })?;
    let mut publisher = relay.publish(&name)?;
    let settings = Settings { preset: demo.preset.clone(), bitrate: demo.bitrate, ..Settings::default() };
    let mut evicted = false;
    encode::spawn_demo(demo.size, demo.frame_rate, &settings, move |packets| {
        // Somebody may take the name over; the demo then goes on for nobody, and gives up nothing by it.
        if !evicted && let Err(error) = publisher.push(packets) {
            tracing::warn!(%error, "the demo is no longer published");
            evicted = true;
        }
    })
}
