//! Where messages go to.

use super::channel::Framing;
use bytes::Bytes;
use glassline_call::link::serial_line::{Line, Opened};
use glassline_call::link::session;
use glassline_io::serial;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

const BUFFER_BYTES: usize = 256 << 10;

/// Writes whole messages. Writing blocks.
pub(crate) enum Output {
    Stream {
        writer: BufWriter<Box<dyn Write + Send>>,
        framing: Framing,
    },
    /// A FIFO, open while it has a reader.
    Fifo {
        path: PathBuf,
        writer: Option<BufWriter<File>>,
        framing: Framing,
    },
    /// A serial line, which may disappear and come back.
    Serial {
        line: Arc<Line>,
        writer: Option<(Opened, BufWriter<Arc<File>>)>,
        framing: Framing,
    },
    Datagrams {
        socket: UdpSocket,
        to: SocketAddr,
        complaint: Option<ErrorKind>,
    },
}

impl Output {
    pub(super) fn stream(writer: impl Write + Send + 'static, framing: Framing) -> Output {
        Output::Stream { writer: BufWriter::with_capacity(BUFFER_BYTES, Box::new(writer)), framing }
    }

    fn reader_gone(path: &std::path::Path, writer: &mut Option<BufWriter<File>>) {
        tracing::info!("the reader of {} has gone; waiting for the next one", path.display());
        // Data that the reader has not read is lost, and must not be written again.
        if let Some(writer) = writer.take() {
            drop(writer.into_parts());
        }
    }

    /// Lets `act` write to a serial line if the line is there. Data that was not yet written when the line
    /// disappeared is lost.
    fn with_line(
        line: &Line,
        writer: &mut Option<(Opened, BufWriter<Arc<File>>)>,
        act: impl FnOnce(&mut BufWriter<Arc<File>>) -> io::Result<()>,
    ) -> io::Result<bool> {
        if writer.is_none() {
            *writer = line.opened().map(|opened| {
                let file = Arc::clone(opened.file());
                (opened, BufWriter::with_capacity(BUFFER_BYTES, file))
            });
        }
        let Some((opened, open)) = writer else { return Ok(false) };
        match act(open) {
            Err(error) if serial::is_gone(&error) => {
                line.handle_gone(opened);
                if let Some((_, writer)) = writer.take() {
                    drop(writer.into_parts());
                }
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    /// Writes a message into a byte stream.
    pub(super) fn put(writer: &mut impl Write, framing: Framing, message: &[u8]) -> io::Result<()> {
        match framing {
            Framing::Length => {
                writer.write_all(&(message.len() as u32).to_be_bytes())?;
                writer.write_all(message)
            }
            Framing::Lines => {
                writer.write_all(message)?;
                writer.write_all(b"\n")
            }
            Framing::Raw => writer.write_all(message),
        }
    }
}

impl session::Output for Output {
    /// If the reader of a FIFO has gone, the FIFO waits for the next reader.
    fn write(&mut self, message: &Bytes) -> io::Result<()> {
        match self {
            Output::Stream { writer, framing } => Output::put(writer, *framing, message),
            Output::Fifo { path, writer, framing } => loop {
                let open = match writer {
                    Some(open) => open,
                    // Waits for a reader.
                    None => writer.insert(BufWriter::with_capacity(
                        BUFFER_BYTES,
                        OpenOptions::new().write(true).open(&*path)?,
                    )),
                };
                match Output::put(open, *framing, message) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => Output::reader_gone(path, writer),
                    other => return other,
                }
            },
            Output::Serial { line, writer, framing } => {
                let put = |writer: &mut BufWriter<_>| Output::put(writer, *framing, message);
                if !Output::with_line(line, writer, put)? {
                    line.count_dropped();
                }
                Ok(())
            }
            Output::Datagrams { socket, to, complaint } => {
                match socket.send_to(message, *to) {
                    Ok(_) => *complaint = None,
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                    // A datagram may be lost, as on any network.
                    Err(error) => {
                        if complaint.replace(error.kind()) != Some(error.kind()) {
                            tracing::warn!(%to, bytes = message.len(), "a datagram cannot be sent: {error}");
                        }
                    }
                }
                Ok(())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Stream { writer, .. } => writer.flush(),
            Output::Fifo { path, writer, .. } => match writer.as_mut().map_or(Ok(()), BufWriter::flush) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    Output::reader_gone(path, writer);
                    Ok(())
                }
                other => other,
            },
            Output::Serial { line, writer: writer @ Some(_), .. } => {
                Output::with_line(line, writer, BufWriter::flush).map(|_| ())
            }
            Output::Serial { .. } | Output::Datagrams { .. } => Ok(()),
        }
    }
}
