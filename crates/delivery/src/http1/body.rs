//! Bodies: how long they are, and how they are cut (RFC 9112 §6, §7).
//!
//! ```text
//! chunked:    size in hex  [BWS ";" BWS extension]…  CRLF  bytes CRLF  …  0 … CRLF  [trailer CRLF]…  CRLF
//! extension:  token [BWS "=" BWS (token | quoted string)]
//! trailer:    token ":" value
//! ```
//! Nothing else is taken: where a lenient reader and a strict one stand behind each other, what the one passes over is a
//! request to the other.

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
    Size {
        value: u64,
        digits: u8,
        part: SizePart,
    },
    Data(u64),
    DataEnd {
        return_seen: bool,
    },
    Trailers {
        #[serde(default)]
        part: TrailerPart,
    },
    Done,
}

/// Where in a chunk's size line the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum SizePart {
    /// In the size.
    Digits,
    /// Behind white space: an extension has to follow, or a value where its name stands before.
    Space {
        after_name: bool,
    },
    /// Before an extension's name.
    NameStart,
    Name,
    /// Before an extension's value.
    ValueStart,
    Value,
    Quoted,
    /// Behind the backslash of a quoted pair.
    QuotedPair,
    QuotedEnd,
    /// Behind the carriage return. Earlier versions had this one state for all behind the digits.
    #[serde(alias = "Extension")]
    Return,
}

/// Where in the trailers the next byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum TrailerPart {
    #[default]
    LineStart,
    Name,
    Value,
    /// Behind a field's carriage return.
    Return,
    /// Behind the last one's.
    LastReturn,
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
                    let left = left.saturating_sub(data.len() as u64);
                    self.state = if left == 0 { State::Done } else { State::Length(left) };
                    return Ok(Some(Piece::Data(data)));
                }
                State::Data(left) => {
                    let data = take_up_to(input, left);
                    let left = left.saturating_sub(data.len() as u64);
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

    /// Whether the last chunk that has begun is whole, or none has: of a chunked body alone.
    pub fn is_between_chunks(&self) -> bool {
        let is_fresh = |digits: u8, part: SizePart| digits == 0 && part == SizePart::Digits;
        match self.state {
            State::DataEnd { .. } => true,
            State::Size { digits, part, .. } => is_fresh(digits, part),
            _ => false,
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
        self.line_bytes = self.line_bytes.saturating_add(1);
        if self.line_bytes > LINE_BYTES {
            return Err(HttpError::BadChunk("size line or trailers of more than 4096 bytes"));
        }
        match self.state {
            State::Size { value, digits, part } => {
                if (part, byte) == (SizePart::Return, b'\n') {
                    self.line_bytes = 0;
                    let trailers = State::Trailers { part: TrailerPart::LineStart };
                    return Ok(if value == 0 { trailers } else { State::Data(value) });
                }
                if part == SizePart::Digits && byte.is_ascii_hexdigit() {
                    if digits >= 15 {
                        return Err(HttpError::BadChunk("size is too large"));
                    }
                    let value = value << 4 | u64::from(char::from(byte).to_digit(16).unwrap_or(0));
                    return Ok(State::Size { value, digits: digits.saturating_add(1), part });
                }
                if digits == 0 {
                    return Err(HttpError::BadChunk("size is no hexadecimal number"));
                }
                Ok(State::Size { value, digits, part: part.next(byte)? })
            }
            State::DataEnd { return_seen: false } if byte == b'\r' => {
                Ok(State::DataEnd { return_seen: true })
            }
            State::DataEnd { return_seen: true } if byte == b'\n' => {
                self.line_bytes = 0;
                Ok(State::Size { value: 0, digits: 0, part: SizePart::Digits })
            }
            State::DataEnd { .. } => {
                Err(HttpError::BadChunk("data is not as long as its size, or CR LF is missing behind it"))
            }
            State::Trailers { part: TrailerPart::LastReturn } if byte == b'\n' => Ok(State::Done),
            State::Trailers { part } => Ok(State::Trailers { part: part.next(byte)? }),
            state => Ok(state),
        }
    }
}

impl SizePart {
    /// Where the byte behind `byte` stands, which is no digit of the size.
    fn next(self, byte: u8) -> Result<SizePart, HttpError> {
        use SizePart::{
            Digits, Name, NameStart, Quoted, QuotedEnd, QuotedPair, Return, Space, Value, ValueStart,
        };
        Ok(match (self, byte) {
            (Digits | Name | Value | QuotedEnd, b'\r') => Return,
            (Digits | Name | Value | QuotedEnd | Space { .. }, b';') => NameStart,
            (Name | Space { after_name: true }, b'=') => ValueStart,
            (NameStart | ValueStart | Space { .. }, b' ' | b'\t') => self,
            (Digits | Value | QuotedEnd, b' ' | b'\t') => Space { after_name: false },
            (Name, b' ' | b'\t') => Space { after_name: true },
            (NameStart | Name, _) if is_token_byte(byte) => Name,
            (ValueStart | Value, _) if is_token_byte(byte) => Value,
            (ValueStart, b'"') => Quoted,
            (Quoted, b'"') => QuotedEnd,
            (Quoted, b'\\') => QuotedPair,
            (Quoted | QuotedPair, _) if is_text_byte(byte) => Quoted,
            (Digits, _) => return Err(HttpError::BadChunk("size is no hexadecimal number")),
            (Return, _) => return Err(HttpError::BadChunk("no line feed behind a carriage return")),
            _ => {
                return Err(HttpError::BadChunk(
                    "what stands behind a size is no extension, which begins with ';'",
                ));
            }
        })
    }
}

impl TrailerPart {
    /// Where the byte behind `byte` stands, which does not end the trailers.
    fn next(self, byte: u8) -> Result<TrailerPart, HttpError> {
        use TrailerPart::{LastReturn, LineStart, Name, Return, Value};
        Ok(match (self, byte) {
            (LineStart, b'\r') => LastReturn,
            (LineStart | Name, _) if is_token_byte(byte) => Name,
            (Name, b':') => Value,
            (Value, b'\r') => Return,
            (Value, _) if is_text_byte(byte) => Value,
            (Return, b'\n') => LineStart,
            _ => return Err(HttpError::BadChunk("a trailer is no field that ends with CR LF")),
        })
    }
}

/// `tchar` (RFC 9110 §5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What may stand in a field's value and in quotes: visible characters, also of others than ASCII, space and tab
/// (RFC 9110 §5.5, §5.6.4).
fn is_text_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7F)
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
    fn it_is_known_where_no_chunk_has_come_in_part() {
        let wire = b"3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n";
        let mut decoder = Decoder::new(Framing::Chunked);
        let mut between = vec![decoder.is_between_chunks()];
        for byte in wire.chunks(1) {
            let mut input = byte;
            while let Ok(Some(Piece::Data(_))) = decoder.next(&mut input) {}
            between.push(decoder.is_between_chunks());
        }
        let places: Vec<usize> = (0..between.len()).filter(|place| between[*place]).collect();
        // Before the first, and behind the last byte of each until the next size begins.
        assert_eq!(places, [0, 6, 7, 8, 15, 16, 17]);
        assert!(!Decoder::new(Framing::Length(3)).is_between_chunks());
        assert!(!Decoder::new(Framing::UntilClose).is_between_chunks());
    }

    #[test]
    fn extensions_and_trailers_are_passed_over() {
        let wire = b"5;name=value\r\nhello\r\n0\r\nDigest: x\r\nMore: y\r\n\r\n";
        assert_eq!(decode(Framing::Chunked, &[wire]), Ok((b"hello".to_vec(), true)));
    }

    #[test]
    fn extensions_are_what_the_standard_says() {
        for extension in
            [";a", ";a=b", " ; a = b", ";a=\"b;\\\"c\\\\ \"", ";a=\"\";b\t;c=1", ";a ;b", ";ieof"]
        {
            let wire = format!("2{extension}\r\nab\r\n0{extension}\r\n\r\n");
            assert_eq!(
                decode(Framing::Chunked, &[wire.as_bytes()]),
                Ok((b"ab".to_vec(), true)),
                "{extension}"
            );
        }
        for junk in [
            " ",
            "\t",
            "x",
            " x",
            ";",
            "; ",
            ";=b",
            ";a=",
            ";a= ",
            ";a b",
            ";a=b c",
            ";a=\"b",
            ";a=\"b\"c",
            ";a\u{7f}",
            ";a=\"\u{1}\"",
            ",",
            "\0",
            "\r",
            ";a=b=c",
            ";a=\"b\"=c",
            ";a; ",
        ] {
            let wire = format!("2{junk}\r\nab\r\n0\r\n\r\n");
            assert!(
                matches!(decode(Framing::Chunked, &[wire.as_bytes()]), Err(HttpError::BadChunk(_))),
                "{junk:?}"
            );
        }
    }

    #[test]
    fn broken_chunks_are_refused() {
        for wire in [
            &b"zz\r\n"[..],
            b"\r\n",
            b"5\r\nhelloX",
            b"fffffffffffffffff\r\n",
            b"5 x5\r\n1234567",
            b"2\nab\r\n",
            b"2\r\nab\n",
            b"2\r\nab\rX",
            b"0\r\n\n",
            b"0\r\nA: b\n\r\n",
            b"0\r\nno field\r\n\r\n",
            b"0\r\n: b\r\n\r\n",
            b"0\r\n A: b\r\n\r\n",
            b"0\r\nA: b\rc\r\n\r\n",
        ] {
            assert!(matches!(decode(Framing::Chunked, &[wire]), Err(HttpError::BadChunk(_))), "{wire:?}");
        }
        let endless = [b"1;".as_slice(), &[b'x'; 5000]].concat();
        assert!(matches!(decode(Framing::Chunked, &[&endless]), Err(HttpError::BadChunk(_))));
    }

    /// What an earlier version was in the middle of, as the upgrade of a running server hands it over.
    #[test]
    fn the_states_of_earlier_versions_are_read() {
        let read = |state: &str| -> Decoder {
            serde_json::from_str(&format!("{{\"state\":{state},\"line_bytes\":3}}")).unwrap()
        };
        let mut decoder = read("{\"Size\":{\"value\":2,\"digits\":1,\"part\":\"Extension\"}}");
        let mut input = &b"\nab"[..];
        assert_eq!(decoder.next(&mut input), Ok(Some(Piece::Data(b"ab"))));
        let mut decoder = read("{\"Trailers\":{\"line_is_empty\":true}}");
        let mut input = &b"\r\n"[..];
        assert_eq!(decoder.next(&mut input), Ok(Some(Piece::End)));
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
            extension in "([ \t]{0,2};[ \t]{0,2}[a-z]{1,3}([ \t]{0,2}=[ \t]{0,2}([!#$%&'*+.0-9A-Z^_|~-]{1,3}|\"[ -!#-\\[\\]-~\t]{0,4}(\\\\[ -~])?\"))?){0,2}",
            trailers in "([A-Za-z-]{1,5}:[ -~\t]{0,9}\r\n){0,2}",
            cuts in proptest::collection::vec(1usize..80, 1..40),
        ) {
            let mut wire = Vec::new();
            for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
                wire.extend_from_slice(format!("{:X}{extension}\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(format!("000{extension}\r\n{trailers}\r\n").as_bytes());
            let (mut chops, mut rest, mut cut) = (Vec::new(), &wire[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (chop, tail) = rest.split_at((*cut.next().expect("cycles")).min(rest.len()));
                chops.push(chop);
                rest = tail;
            }
            prop_assert_eq!(decode(Framing::Chunked, &chops), Ok((chunks.concat(), true)));
        }

        /// Whatever single byte stands between a size and its line's end, it is refused.
        #[test]
        fn a_byte_behind_a_size_is_refused(size in 1usize..0xFFFF, byte: u8, cut in 0usize..10) {
            prop_assume!(!byte.is_ascii_hexdigit());
            let wire = [format!("{size:x}").as_bytes(), &[byte], b"\r\n", &vec![b'x'; size], b"\r\n0\r\n\r\n"].concat();
            let (first, second) = wire.split_at(cut);
            prop_assert!(matches!(decode(Framing::Chunked, &[first, second]), Err(HttpError::BadChunk(_))));
        }

        #[test]
        fn what_we_write_is_what_we_read(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..12)) {
            let mut wire = Vec::new();
            chunks.iter().for_each(|chunk| write_chunk(chunk, &mut wire));
            wire.extend_from_slice(LAST_CHUNK);
            prop_assert_eq!(decode(Framing::Chunked, &[&wire]), Ok((chunks.concat(), true)));
        }
    }
}
