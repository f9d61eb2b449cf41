//! Where messages come from.

use super::channel::{ChannelEnd, Framing};
use bytes::Bytes;
use glassline_call::link::serial_line::{Line, LineReader};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::sync::Arc;

/// The most bytes that one read without framing takes.
const RAW_BYTES: usize = 64 << 10;
const BUFFER_BYTES: usize = 256 << 10;
/// The longest datagram.
const DATAGRAM_BYTES: usize = 65_535;

/// Reads messages, one after the other. Reading blocks.
pub(crate) enum Input {
    Stream {
        reader: Box<dyn BufRead + Send>,
        framing: Framing,
        max_size: usize,
    },
    Datagrams {
        socket: UdpSocket,
        room: Vec<u8>,
        max_size: usize,
    },
    /// A serial line, which may disappear and come back.
    Serial {
        reader: BufReader<LineReader>,
        framing: Framing,
        max_size: usize,
    },
}

impl Input {
    /// An input that reads a byte stream.
    pub(super) fn stream(reader: impl Read + Send + 'static, framing: Framing, max_size: usize) -> Input {
        Input::Stream { reader: Box::new(BufReader::with_capacity(BUFFER_BYTES, reader)), framing, max_size }
    }

    /// An input that reads a serial line.
    pub(super) fn serial(line: &Arc<Line>, framing: Framing, max_size: usize) -> Input {
        let reader = BufReader::with_capacity(BUFFER_BYTES, LineReader::new(line));
        Input::Serial { reader, framing, max_size }
    }

    /// An input that reads datagrams from a socket.
    pub(super) fn datagrams(socket: UdpSocket, max_size: usize) -> Input {
        Input::Datagrams { socket, room: vec![0; DATAGRAM_BYTES], max_size }
    }

    /// Opens an end that is a byte stream; waits if a FIFO has no writer.
    pub(super) fn open(end: &ChannelEnd, framing: Framing, max_size: usize) -> io::Result<Input> {
        Ok(match end {
            ChannelEnd::Standard => Input::stream(io::stdin(), framing, max_size),
            ChannelEnd::Descriptor(number) => {
                Input::stream(File::open(format!("/dev/fd/{number}"))?, framing, max_size)
            }
            ChannelEnd::File(path) => Input::stream(File::open(path)?, framing, max_size),
            ChannelEnd::Udp(_) | ChannelEnd::Serial(..) => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// Errors of the reader; a message that is larger than the channel takes; an end in the middle of a message.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Input::Stream { reader, framing, max_size } => next_of(reader, *framing, *max_size),
            Input::Serial { reader, framing, max_size } => loop {
                let message = next_of(reader, *framing, *max_size);
                if !reader.get_ref().has_gone() {
                    return message;
                }
                // The line has gone: the message that had begun is lost.
                *reader = BufReader::with_capacity(BUFFER_BYTES, reader.get_ref().again());
            },
            Input::Datagrams { socket, room, max_size } => loop {
                match socket.recv(room) {
                    // A datagram that is larger than the channel takes is dropped.
                    Ok(length) if length <= *max_size => {
                        return Ok(Some(Bytes::copy_from_slice(&room[..length])));
                    }
                    Ok(length) => tracing::debug!(length, "a datagram is larger than the channel takes"),
                    // An ICMP answer to what was sent from this socket: no program listens at that port (yet).
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            },
        }
    }
}

fn next_of(reader: &mut impl BufRead, framing: Framing, max_size: usize) -> io::Result<Option<Bytes>> {
    match framing {
        Framing::Length => next_framed(reader, max_size),
        Framing::Lines => next_line(reader, max_size),
        Framing::Raw => next_raw(reader, max_size),
    }
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn next_framed(reader: &mut impl BufRead, max_size: usize) -> io::Result<Option<Bytes>> {
    if at_end(reader)? {
        return Ok(None);
    }
    let mut length = [0; 4];
    let cut = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => wrong("it ends in the middle of a message".into()),
        _ => error,
    };
    reader.read_exact(&mut length).map_err(cut)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > max_size {
        return Err(wrong(format!(
            "a message of {length} bytes on a channel whose messages have at most {max_size}; each message wants its \
             length before it (4 bytes, big-endian), or say `lines` or `raw` in the channel's options"
        )));
    }
    let mut message = vec![0; length];
    reader.read_exact(&mut message).map_err(cut)?;
    Ok(Some(message.into()))
}

fn next_line(reader: &mut impl BufRead, max_size: usize) -> io::Result<Option<Bytes>> {
    let mut line = Vec::new();
    if reader.take(max_size as u64 + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > max_size {
        return Err(wrong(format!(
            "a line of more than {max_size} bytes, which is what the channel's messages have"
        )));
    }
    Ok(Some(line.into()))
}

fn next_raw(reader: &mut impl BufRead, max_size: usize) -> io::Result<Option<Bytes>> {
    if at_end(reader)? {
        return Ok(None);
    }
    let buffer = reader.fill_buf()?;
    let length = buffer.len().min(max_size).min(RAW_BYTES);
    let message = Bytes::copy_from_slice(&buffer[..length]);
    reader.consume(length);
    Ok(Some(message))
}

/// Whether the input has ended. Waits until that is known.
fn at_end(reader: &mut impl BufRead) -> io::Result<bool> {
    loop {
        match reader.fill_buf() {
            Ok(buffer) => return Ok(buffer.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::output::Output;
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8], framing: Framing, max_size: usize) -> io::Result<Vec<Bytes>> {
        let mut input = Input::stream(io::Cursor::new(bytes.to_vec()), framing, max_size);
        let mut messages = Vec::new();
        while let Some(message) = input.next()? {
            messages.push(message);
        }
        Ok(messages)
    }

    #[test]
    fn lines_are_messages() {
        let lines = |text: &str, max_size| all(text.as_bytes(), Framing::Lines, max_size);
        assert_eq!(lines("one\n\nthree", 5).unwrap(), ["one", "", "three"]);
        assert_eq!(lines("", 5).unwrap(), Vec::<Bytes>::new());
        assert!(lines("three!\n", 5).unwrap_err().to_string().contains("more than 5 bytes"));
    }

    #[test]
    fn what_is_not_framed_is_said() {
        let error = all(b"GET / HTTP/1.1", Framing::Length, 1 << 20).unwrap_err();
        assert!(error.to_string().contains("`lines` or `raw`"), "{error}");
        for cut in [&b"\0\0"[..], b"\0\0\0\x05abc"] {
            let error = all(cut, Framing::Length, 100).unwrap_err();
            assert!(error.to_string().contains("middle of a message"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
            let mut bytes = Vec::new();
            for message in &messages {
                Output::put(&mut bytes, Framing::Length, message).unwrap();
            }
            prop_assert_eq!(&all(&bytes, Framing::Length, 300).unwrap(), &messages);
            // Without frames the bytes are the same, however they are cut.
            let cut = all(&bytes, Framing::Raw, 7).unwrap();
            prop_assert!(cut.iter().all(|part| (1..=7).contains(&part.len())));
            prop_assert_eq!(cut.concat(), bytes);
        }
    }
}
