//! Into a relay in this process.

use super::{Demand, Output, Packets, Result};
use glassline_streams::Publisher;

/// Publishes under a name. A relay's price is its sends: it gets a picture at a time, not each slice.
pub struct RelayOutput {
    publisher: Publisher,
    picture: Vec<u8>,
}

impl RelayOutput {
    /// Gives the stream to `publisher`.
    #[must_use]
    pub fn new(publisher: Publisher) -> RelayOutput {
        RelayOutput { publisher, picture: Vec::new() }
    }
}

impl Output for RelayOutput {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        self.picture.extend_from_slice(packets.bytes);
        if packets.ends_picture {
            let pushed = self.publisher.push(&self.picture);
            self.picture.clear();
            pushed?;
        }
        Ok(Demand::Nothing)
    }

    fn stream(&self) -> Option<String> {
        Some(self.publisher.name().to_string())
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
