//! Queues between threads as inputs and outputs.

use super::{Input, Output};
use bytes::Bytes;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender};

/// Ends when all senders have gone.
impl Input for Receiver<Bytes> {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        Ok(self.recv().ok())
    }
}

impl Output for Sender<Bytes> {
    fn write(&mut self, message: &Bytes) -> io::Result<()> {
        self.send(message.clone()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The link holds the peer back while the queue is full.
impl Output for SyncSender<Bytes> {
    fn write(&mut self, message: &Bytes) -> io::Result<()> {
        self.send(message.clone()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
