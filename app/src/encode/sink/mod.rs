//! Where TS packets go: files, datagrams, a server. Each output gets the packets as they are made and has handed them on,
//! or put them into its own bounded queue, when it returns.
//!
//! ```text
//!              ┌─► datagrams, server: on the encoder's thread, never waiting where the source is live
//! packets ─► Sinks ─┤
//!              └─► files, standard output: beside it (beside), where the source is live
//! ```
//! One that fails is told and left out; the others go on, and the command fails at the end.

mod beside;
mod connect;
mod file;
mod http;
mod udp;

use super::output::{Output, Server};
use super::pipeline::{Demand, Packets};
use super::queue::Queue;
use crate::trust::Trust;
use crate::{failure, output as stdout};
use anyhow::Result;
use beside::Beside;
use glassline_io::secret_file;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

/// Takes packets. An error ends the output.
trait Sink: Send {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand>;
    /// The stream has ended well.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// How an output does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// It takes the stream.
    #[default]
    Sending,
    /// Its server is being connected to.
    Connecting,
    /// It was too slow and waits for the next key frame.
    Behind,
    /// It has failed for good.
    Failed,
}

/// What is known of one output, for whoever asks.
#[derive(Debug, Default)]
pub(super) struct Board {
    name: String,
    state: Mutex<State>,
    bytes: AtomicU64,
    left_out: AtomicU64,
}

/// [`Board`] at one moment.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Status {
    output: String,
    state: State,
    bytes: u64,
    left_out: u64,
}

impl Board {
    fn new(name: String) -> Arc<Board> {
        Arc::new(Board { name, ..Board::default() })
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// These bytes were taken.
    fn sent(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A run of packets (a picture's, or a part of one) was left out, which are now so many.
    fn left_out(&self) -> u64 {
        self.left_out.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How it does.
    pub(super) fn status(&self) -> Status {
        Status {
            output: self.name.clone(),
            state: *self.state.lock().unwrap_or_else(PoisonError::into_inner),
            bytes: self.bytes.load(Ordering::Relaxed),
            left_out: self.left_out.load(Ordering::Relaxed),
        }
    }
}

/// What servers are told and asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials {
    /// The key that publishers show.
    pub(super) key: Option<Zeroizing<String>>,
    /// Whom they are trusted by.
    pub(super) trust: Trust,
}

struct Entry {
    board: Arc<Board>,
    /// `None` once it has failed.
    sink: Option<Box<dyn Sink>>,
}

/// All outputs of the command.
pub(super) struct Sinks {
    entries: Vec<Entry>,
    /// The first failure of an output that others have survived.
    failure: Option<anyhow::Error>,
}

impl Sinks {
    /// Opens every output of the pipeline that `queue` feeds. Where its source is not live, a slow output is waited for
    /// instead of leaving pictures out.
    pub(super) fn open(outputs: &[Output], credentials: &Credentials, queue: &Arc<Queue>) -> Result<Sinks> {
        let is_tls = |output: &Output| matches!(output, Output::Http(Server { tls: true, .. }));
        let connector = outputs.iter().any(is_tls).then(|| credentials.trust.connector()).transpose()?;
        let mut entries = Vec::new();
        for output in outputs {
            let board = Board::new(output.to_string());
            let sink: Box<dyn Sink> = match output {
                Output::Null => Box::new(Null(Arc::clone(&board))),
                Output::Datagrams(datagrams) => {
                    Box::new(udp::Udp::open(datagrams, queue.is_live(), Arc::clone(&board))?)
                }
                Output::Http(server) => {
                    let connector = connector.clone().filter(|_| server.tls);
                    let key = credentials.key.as_deref().map(String::as_str);
                    Box::new(http::Http::open(server, connector, key, queue, Arc::clone(&board)))
                }
                Output::Stdout => beside(Box::new(Stdout(Arc::clone(&board))), queue, &board)?,
                Output::File(path) if output.is_mp4() => {
                    beside(Box::new(file::Mp4File::create(path, Arc::clone(&board))?), queue, &board)?
                }
                Output::File(path) => {
                    beside(Box::new(file::TsFile::create(path, Arc::clone(&board))?), queue, &board)?
                }
            };
            entries.push(Entry { board, sink: Some(sink) });
        }
        Ok(Sinks { entries, failure: None })
    }

    /// What is known of each output.
    pub(super) fn boards(&self) -> Vec<Arc<Board>> {
        self.entries.iter().map(|entry| Arc::clone(&entry.board)).collect()
    }

    /// Gives the packets to every output.
    ///
    /// # Errors
    /// The failure of the last one that was left.
    pub(super) fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let mut demand = Demand::Nothing;
        self.each(|sink| {
            if sink.write(packets)? == Demand::KeyFrame {
                demand = Demand::KeyFrame;
            }
            Ok(())
        });
        match self.failure.take() {
            Some(failure) if self.entries.iter().all(|entry| entry.sink.is_none()) => Err(failure),
            failure => {
                self.failure = failure;
                Ok(demand)
            }
        }
    }

    /// Ends every output well.
    ///
    /// # Errors
    /// The first failure of any output since the beginning.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.each(|sink| sink.finish());
        self.failure.take().map_or(Ok(()), Err)
    }

    fn each(&mut self, mut act: impl FnMut(&mut Box<dyn Sink>) -> Result<()>) {
        let several = self.entries.iter().filter(|entry| entry.sink.is_some()).count() > 1;
        for Entry { board, sink } in &mut self.entries {
            let Some(Err(failure)) = sink.as_mut().map(&mut act) else { continue };
            *sink = None;
            board.set(State::Failed);
            let is_gone = failure.chain().any(|cause| cause.is::<stdout::ReaderGone>());
            if several && is_gone {
                tracing::info!("{}: its reader has gone; the other outputs go on", board.name);
            } else if several {
                tracing::error!("{}: {failure:#}; the other outputs go on", board.name);
            }
            // A reader that goes is no failure where others are left.
            if self.failure.is_none() || self.failure.as_ref().is_some_and(is_reader_gone) {
                self.failure = Some(failure);
            }
        }
    }
}

fn is_reader_gone(failure: &anyhow::Error) -> bool {
    failure.chain().any(|cause| cause.is::<stdout::ReaderGone>())
}

fn beside(sink: Box<dyn Sink>, queue: &Arc<Queue>, board: &Arc<Board>) -> Result<Box<dyn Sink>> {
    if !queue.is_live() {
        return Ok(sink);
    }
    Ok(Box::new(Beside::start(sink, Arc::clone(board))?))
}

/// Reads the key that publishers show: the file's first line.
pub(super) fn read_key(path: &Path) -> Result<Zeroizing<String>> {
    let text = secret_file::read_text(path)
        .map_err(|error| failure::usage(format_args!("key file: {error}"), "check --publish-key-file"))?;
    let key = text.lines().next().unwrap_or("").trim();
    // What RFC 6750 §2.1 lets a bearer token be made of.
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format_args!("key file {}: its first line is no key", path.display());
        return Err(failure::usage(message, "put the key there, in printable ASCII without spaces"));
    }
    Ok(Zeroizing::new(key.to_owned()))
}

struct Null(Arc<Board>);

impl Sink for Null {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        self.0.sent(packets.bytes.len());
        Ok(Demand::Nothing)
    }
}

struct Stdout(Arc<Board>);

impl Sink for Stdout {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let mut out = std::io::stdout().lock();
        match out.write_all(packets.bytes).and_then(|()| out.flush()) {
            Ok(()) => {
                self.0.sent(packets.bytes.len());
                Ok(Demand::Nothing)
            }
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(stdout::ReaderGone.into()),
            Err(error) => Err(anyhow::Error::from(error).context("cannot write to standard output")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails at the `at`-th run, counted from 0.
    struct Failing {
        at: usize,
        with: fn() -> anyhow::Error,
    }

    impl Sink for Failing {
        fn write(&mut self, _: &Packets<'_>) -> Result<Demand> {
            self.at = self.at.checked_sub(1).ok_or_else(self.with)?;
            Ok(Demand::KeyFrame)
        }
    }

    fn sinks(failing: Vec<Failing>) -> Sinks {
        let entry =
            |sink: Failing| Entry { board: Board::new("x".to_owned()), sink: Some(Box::new(sink) as _) };
        Sinks { entries: failing.into_iter().map(entry).collect(), failure: None }
    }

    fn broken() -> anyhow::Error {
        failure::failed("it broke", "mend it")
    }

    const PACKETS: Packets<'_> = Packets::whole(b"", false);

    #[test]
    fn an_output_that_fails_leaves_the_others_and_is_told_at_the_end() {
        let mut sinks = sinks(vec![Failing { at: 9, with: broken }, Failing { at: 1, with: broken }]);
        for _ in 0..3 {
            assert_eq!(sinks.write(&PACKETS).unwrap(), Demand::KeyFrame);
        }
        let states: Vec<State> = sinks.boards().iter().map(|board| board.status().state).collect();
        assert_eq!(states, [State::Sending, State::Failed]);
        assert!(sinks.finish().unwrap_err().to_string().contains("it broke"));
    }

    #[test]
    fn the_last_outputs_failure_ends_it() {
        let gone = || stdout::ReaderGone.into();
        let mut all = sinks(vec![Failing { at: 0, with: broken }, Failing { at: 1, with: gone }]);
        all.write(&PACKETS).unwrap();
        assert!(all.write(&PACKETS).unwrap_err().to_string().contains("it broke"));
        let mut quiet = sinks(vec![Failing { at: 0, with: gone }]);
        assert!(is_reader_gone(&quiet.write(&PACKETS).unwrap_err()));
    }
}
