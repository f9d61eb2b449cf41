//! The demo: the test picture and tone, encoded and published from inside the process.

use crate::config;
use crate::encode;
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
    // Where somebody takes the name over, the demo ends.
    encode::start_demo(demo, move |packets| Ok(publisher.push(packets)?))
}
