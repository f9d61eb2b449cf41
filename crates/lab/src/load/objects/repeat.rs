//! Clients that ask for one fixed object again and again.

use super::{Bytes, Figures, fixed_path};
use crate::load::exchange::{Crowd, Next};
use glassline_delivery::http1::client::Head;
use glassline_media::Time;

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    asked: Time,
    position: usize,
    refused: bool,
}

/// Clients that ask for the same object without a pause, each over a connection of its own.
#[derive(Clone, Debug)]
pub struct Repeat {
    bytes: Bytes,
    object_bytes: usize,
    clients: Vec<Client>,
    figures: Figures,
}

impl Repeat {
    /// `count` clients of the object of `object_bytes`.
    pub fn new(count: usize, bytes: Bytes, object_bytes: usize) -> Repeat {
        Repeat { bytes, object_bytes, clients: vec![Client::default(); count], figures: Figures::default() }
    }

    /// What they have seen since the last reset; nothing of delays.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Figures count from now on.
    pub fn reset(&mut self) {
        self.figures = Figures::default();
    }
}

impl Crowd for Repeat {
    fn next(&mut self, index: usize, now: Time) -> Next {
        self.clients[index] = Client { asked: now, ..Client::default() };
        Next::Ask(fixed_path(self.object_bytes))
    }

    fn head(&mut self, index: usize, head: &Head, now: Time) {
        let client = &mut self.clients[index];
        client.refused = head.status != 200;
        if client.refused {
            self.figures.fail(&format!("answered {}", head.status));
        }
        self.figures.first_byte.record_time(now.since(client.asked));
    }

    fn data(&mut self, index: usize, bytes: &[u8], _now: Time) {
        let client = &mut self.clients[index];
        if client.refused {
            return;
        }
        let from = client.position;
        client.position += bytes.len();
        self.figures.bytes += bytes.len() as u64;
        if self.bytes.fixed(self.object_bytes).get(from..client.position) != Some(bytes) {
            self.figures.wrong_bytes += bytes.len() as u64;
        }
    }

    fn end(&mut self, index: usize, _now: Time) {
        let client = self.clients[index];
        if client.position == self.object_bytes {
            self.figures.objects += 1;
        } else if !client.refused {
            self.figures.fail("ended before the object was whole");
        }
    }

    fn failed(&mut self, _index: usize, reason: &str, _now: Time) {
        self.figures.fail(reason);
    }
}
