//! Bodies: how long they are, and how they are cut (RFC 9112 §6, §7).
//!
//! ```text
//! chunked:  size in hex [; extension] CRLF  bytes CRLF  …  0 CRLF  [trailer CRLF]…  CRLF
//! ```

use super::HttpError;
use serde::{Deserialize, Serialize};

/// How a body's end is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After this many bytes; 0 is no body.
    Length(u64),
    /// After the last chunk.
    Chunked,
    /// At the connection's end: endless live bodies.
    UntilClose,
}

/// Bytes of a chunk's size line, or of all trailers together, beyond which a peer is hostile.
const LINE_BYTES: usize = 4096;

/// Takes a body out of its framing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Decoder {
    state: State,
    line_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    Length(u64),
    UntilClose,
    Size { value: u64, digits: u8, part: SizePart },
    Data(u64),
    DataEnd { return_seen: bool },
    Trailers { line_is_empty: bool },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum SizePart {
    Digits,
    Extension,
}

/// The next thing in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of the body, never empty.
    Data(&'a [u8]),
    /// The body is over; what follows belongs to the next message.
    End,
}

impl Decoder {
    /// A decoder at a body's start.
    pub fn new(framing: Framing) -> Decoder {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(bytes) => State::Length(bytes),
            Framing::Chunked => State::Size { value: 0, digits: 0, part: SizePart::Digits },
            Framing::UntilClose => State::UntilClose,
        };
        Decoder { state, line_bytes: 0 }
    }

    /// The next piece at the front of `input`, which moves past it; `None` where more input is needed. Data is
    /// borrowed, never copied.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, HttpError> {
        loop {
            match self.state {
                State::Done => return Ok(Some(Piece::End)),
                _ if input.is_empty() => return Ok(None),
                State::UntilClose => return Ok(Some(Piece::Data(std::mem::take(input)))),
                State::Length(left) => {
                    let data = take_up_to(input, left);
                    let left = left - data.len() as u64;
                    self.state = if left == 0 { State::Done } else { State::Length(left) };
                    return Ok(Some(Piece::Data(data)));
                }
                State::Data(left) => {
                    let data = take_up_to(input, left);
                    let left = left - data.len() as u64;
                    self.state =
                        if left == 0 { State::DataEnd { return_seen: false } } else { State::Data(left) };
                    return Ok(Some(Piece::Data(data)));
                }
                _ => {
                    let byte = input[0];
                    *input = &input[1..];
                    self.state = self.between_data(byte)?;
                }
            }
        }
    }

    /// Tells that the connection has ended: fine for a body that lasts until then, an error inside others.
    pub fn end(&self) -> Result<(), HttpError> {
        match self.state {
            State::UntilClose | State::Done => Ok(()),
            _ => Err(HttpError::EndedEarly("inside a body")),
        }
    }

    fn between_data(&mut self, byte: u8) -> Result<State, HttpError> {
        self.line_bytes += 1;
        if self.line_bytes > LINE_BYTES {
            return Err(HttpError::BadChunk("size line or trailers of more than 4096 bytes"));
        }
        let next = match (self.state, byte) {
            (State::Size { value, digits, part: SizePart::Digits }, b) if b.is_ascii_hexdigit() => {
                if digits >= 15 {
                    return Err(HttpError::BadChunk("size is too large"));
                }
                let digit = char::from(b).to_digit(16).unwrap_or(0);
                State::Size {
                    value: value << 4 | u64::from(digit),
                    digits: digits + 1,
                    part: SizePart::Digits,
                }
            }
            (State::Size { digits: 0, .. }, _) => {
                return Err(HttpError::BadChunk("size is no hexadecimal number"));
            }
            (State::Size { value, .. }, b'\n') => {
                self.line_bytes = 0;
                if value == 0 { State::Trailers { line_is_empty: true } } else { State::Data(value) }
            }
            (State::Size { value, digits, part: SizePart::Digits }, b'\r') => {
                State::Size { value, digits, part: SizePart::Extension }
            }
            (State::Size { value, digits, part: SizePart::Digits }, b';' | b' ' | b'\t') => {
                State::Size { value, digits, part: SizePart::Extension }
            }
            (State::Size { part: SizePart::Digits, .. }, _) => {
                return Err(HttpError::BadChunk("size is no hexadecimal number"));
            }
            (state @ State::Size { part: SizePart::Extension, .. }, _) => state,
            (State::DataEnd { return_seen: false }, b'\r') => State::DataEnd { return_seen: true },
            (State::DataEnd { .. }, b'\n') => {
                self.line_bytes = 0;
                State::Size { value: 0, digits: 0, part: SizePart::Digits }
            }
            (State::DataEnd { .. }, _) => return Err(HttpError::BadChunk("data is longer than its size")),
            (State::Trailers { line_is_empty: true }, b'\n') => State::Done,
            (State::Trailers { .. }, b'\n') => State::Trailers { line_is_empty: true },
            (state @ State::Trailers { .. }, b'\r') => state,
            (State::Trailers { .. }, _) => State::Trailers { line_is_empty: false },
            (state, _) => state,
        };
        Ok(next)
    }
}

fn take_up_to<'a>(input: &mut &'a [u8], bytes: u64) -> &'a [u8] {
    let count = usize::try_from(bytes).unwrap_or(usize::MAX).min(input.len());
    let (data, rest) = input.split_at(count);
    *input = rest;
    data
}

/// Appends `data` as one chunk; empty data gives nothing, since an empty chunk would end the body.
pub fn write_chunk(data: &[u8], out: &mut Vec<u8>) {
    if !data.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }
}

/// What ends a chunked body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(framing: Framing, chops: &[&[u8]]) -> Result<(Vec<u8>, bool), HttpError> {
        let (mut decoder, mut body, mut ended) = (Decoder::new(framing), Vec::new(), false);
        for chop in chops {
            let mut input = *chop;
            while let Some(piece) = decoder.next(&mut input)? {
                match piece {
                    Piece::Data(data) => body.extend_from_slice(data),
                    Piece::End => {
                        ended = true;
                        break;
                    }
                }
            }
        }
        Ok((body, ended))
    }

    #[test]
    fn extensions_and_trailers_are_passed_over() {
        let wire = b"5;name=value\r\nhello\r\n0\r\nDigest: x\r\nMore: y\r\n\r\n";
        assert_eq!(decode(Framing::Chunked, &[wire]), Ok((b"hello".to_vec(), true)));
    }

    #[test]
    fn broken_chunks_are_refused() {
        for wire in [&b"zz\r\n"[..], b"\r\n", b"5\r\nhelloX", b"fffffffffffffffff\r\n", b"5 x5\r\n1234567"] {
            assert!(matches!(decode(Framing::Chunked, &[wire]), Err(HttpError::BadChunk(_))), "{wire:?}");
        }
        let endless = [b"1;".as_slice(), &[b'x'; 5000]].concat();
        assert!(matches!(decode(Framing::Chunked, &[&endless]), Err(HttpError::BadChunk(_))));
    }

    #[test]
    fn a_body_of_known_length_leaves_what_follows() {
        let mut decoder = Decoder::new(Framing::Length(3));
        let mut input = &b"abcGET"[..];
        assert_eq!(decoder.next(&mut input), Ok(Some(Piece::Data(b"abc"))));
        assert_eq!(decoder.next(&mut input), Ok(Some(Piece::End)));
        assert_eq!(input, b"GET");
        assert!(Decoder::new(Framing::Length(3)).end().is_err());
        assert!(Decoder::new(Framing::UntilClose).end().is_ok());
    }

    proptest! {
        #[test]
        fn chunks_survive_any_chop(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..12),
            cuts in proptest::collection::vec(1usize..80, 1..40),
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                write_chunk(chunk, &mut wire);
            }
            wire.extend_from_slice(LAST_CHUNK);
            let (mut chops, mut rest, mut cut) = (Vec::new(), &wire[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (chop, tail) = rest.split_at((*cut.next().expect("cycles")).min(rest.len()));
                chops.push(chop);
                rest = tail;
            }
            prop_assert_eq!(decode(Framing::Chunked, &chops), Ok((chunks.concat(), true)));
        }
    }
}
