//! A publisher over RTMP by hand: nothing of it is the program's own code, so that both cannot be wrong in the same way.

use crate::wait::PATIENCE;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// x264's sets: baseline, 320x180.
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0d, 0xd9, 0x01, 0x41, 0x9f, 0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
    0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0xa4, 0x80,
];
const PPS: &[u8] = &[0x68, 0xcb, 0x83, 0xcb, 0x20];

/// Kinds of messages.
pub const SET_CHUNK_SIZE: u8 = 1;
/// Sound.
pub const AUDIO: u8 = 8;
/// Pictures.
pub const VIDEO: u8 = 9;
/// Metadata.
pub const DATA: u8 = 18;
/// Commands.
pub const COMMAND: u8 = 20;

/// A value of AMF 0.
#[derive(Clone, Copy, Debug)]
pub enum Amf<'a> {
    /// A number.
    Number(f64),
    /// A text.
    Text(&'a str),
    /// Nothing.
    Null,
    /// Named texts.
    Texts(&'a [(&'a str, &'a str)]),
}

/// The bytes of these values.
pub fn amf(values: &[Amf<'_>]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    let one = |value: &Amf<'_>| match value {
        Amf::Number(number) => [&[0][..], &number.to_be_bytes()].concat(),
        Amf::Text(value) => [&[2][..], &text(value)].concat(),
        Amf::Null => vec![5],
        Amf::Texts(all) => {
            let all = all.iter().flat_map(|(name, value)| [&text(name)[..], &[2], &text(value)].concat());
            [&[3][..], &all.collect::<Vec<u8>>(), &[0, 0, 9]].concat()
        }
    };
    values.iter().flat_map(one).collect()
}

/// A message in one chunk: the sender has told a size of chunks that it fits, or it is short.
pub fn chunk(kind: u8, time: u32, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let short = time.min(0xff_ffff).to_be_bytes();
    let extended = if time >= 0xff_ffff { time.to_be_bytes().to_vec() } else { Vec::new() };
    [&[kind.clamp(3, 60)][..], &short[1..], &length[1..], &[kind], &stream.to_le_bytes(), &extended, payload]
        .concat()
}

/// A publisher's side of a connection.
#[derive(Debug)]
pub struct Client<S> {
    /// What it reads and writes.
    pub stream: S,
    chunk_bytes: usize,
}

impl Client<TcpStream> {
    /// Connects, and does the handshake.
    ///
    /// # Panics
    /// Where that fails.
    pub fn connect(address: SocketAddr) -> Client<TcpStream> {
        let stream = TcpStream::connect(address).expect("a listener");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Client::over(stream)
    }
}

impl<S: Read + Write> Client<S> {
    /// Does the handshake.
    ///
    /// # Panics
    /// Where that fails.
    pub fn over(mut stream: S) -> Client<S> {
        let mut hello = vec![3];
        hello.extend([0; 8]);
        hello.extend((0..1528).map(|at| at as u8));
        stream.write_all(&hello).expect("a peer");
        let mut answer = vec![0; 1 + 2 * 1536];
        stream.read_exact(&mut answer).expect("an answer to the handshake");
        assert_eq!((answer[0], &answer[1537..]), (3, &hello[1..]), "the echo");
        stream.write_all(&answer[1..1537]).expect("a peer");
        Client { stream, chunk_bytes: 128 }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("a peer");
    }

    /// Connects to an application, and creates a stream. Messages may be 16 MiB from there on.
    pub fn open(&mut self, app: &str) {
        self.send(&chunk(SET_CHUNK_SIZE, 0, 0, &0xff_ffff_u32.to_be_bytes()));
        let address = format!("rtmp://127.0.0.1/{app}");
        let told = Amf::Texts(&[("app", app), ("flashVer", "by hand"), ("tcUrl", &address)]);
        self.send(&chunk(COMMAND, 0, 0, &amf(&[Amf::Text("connect"), Amf::Number(1.0), told])));
        let created = amf(&[Amf::Text("createStream"), Amf::Number(2.0), Amf::Null]);
        self.send(&chunk(COMMAND, 0, 0, &created));
    }

    /// Asks to publish. Returns the code of the answer and its words.
    pub fn publish(&mut self, name: &str) -> (String, String) {
        let values = [Amf::Text("publish"), Amf::Number(3.0), Amf::Null, Amf::Text(name), Amf::Text("live")];
        self.send(&chunk(COMMAND, 0, 1, &amf(&values)));
        self.status().expect("an answer")
    }

    /// Opens `live` and publishes.
    ///
    /// # Panics
    /// Where it may not.
    pub fn publish_live(&mut self, name: &str) {
        self.open("live");
        let (code, words) = self.publish(name);
        assert_eq!(code, "NetStream.Publish.Start", "{words}");
    }

    /// The code and the words of the next status or error; `None` at the connection's end.
    pub fn status(&mut self) -> Option<(String, String)> {
        loop {
            let (kind, payload) = self.receive().ok()?;
            if kind == SET_CHUNK_SIZE {
                self.chunk_bytes = u32::from_be_bytes(payload[..4].try_into().ok()?) as usize;
            }
            let is_status = [&b"onStatus"[..], b"_error"]
                .iter()
                .any(|name| payload.get(3..).is_some_and(|rest| rest.starts_with(name)));
            if kind == COMMAND && is_status {
                let text = |name: &str| text_behind(&payload, name).unwrap_or_default();
                return Some((text("code"), text("description")));
            }
        }
    }

    /// The next message: its kind and payload. The server begins each with a whole header.
    fn receive(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 12];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[4], head[5], head[6]]) as usize;
        let mut payload = Vec::new();
        while payload.len() < length {
            if !payload.is_empty() {
                self.stream.read_exact(&mut [0])?;
            }
            let begin = payload.len();
            payload.resize((begin + self.chunk_bytes).min(length), 0);
            self.stream.read_exact(&mut payload[begin..])?;
        }
        Ok((head[7], payload))
    }

    /// Sends the sequence header of H.264, and pictures from number `first` on, 25 a second, the first one of them a key frame.
    pub fn send_pictures(&mut self, numbers: std::ops::Range<u32>) {
        self.send(&chunk(VIDEO, numbers.start * 40, 1, &video_header()));
        for number in numbers.clone() {
            self.send(&chunk(VIDEO, number * 40, 1, &picture(number == numbers.start)));
        }
    }
}

/// The text property behind its name.
fn text_behind(payload: &[u8], name: &str) -> Option<String> {
    let at = payload.windows(name.len()).position(|window| window == name.as_bytes())? + name.len();
    let [2, high, low, rest @ ..] = payload.get(at..)? else { return None };
    let text = rest.get(..usize::from(u16::from_be_bytes([*high, *low])))?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// The body of a tag: the sequence header of H.264.
pub fn video_header() -> Vec<u8> {
    let (sps_bytes, pps_bytes) = ([0, SPS.len() as u8], [0, PPS.len() as u8]);
    let record =
        [&[1, SPS[1], SPS[2], SPS[3], 0xff, 0xe1][..], &sps_bytes, SPS, &[1], &pps_bytes, PPS].concat();
    [&[0x17, 0, 0, 0, 0][..], &record].concat()
}

/// The body of a tag: a picture of H.264 of one slice, which need not be decodable.
pub fn picture(is_key: bool) -> Vec<u8> {
    let (kind, slice) = if is_key { (0x17, [0x65, 0x88, 7]) } else { (0x27, [0x41, 0x9a, 7]) };
    [&[kind, 1, 0, 0, 0, 0, 0, 0, 103][..], &slice, &[0x55; 100]].concat()
}
