//! An HTTP client for tests, made without any code of the product, so that it can judge the product.

use crate::wait::PATIENCE;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header fields as they came, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, as it came; nothing of it is decoded.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header field of this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// Where it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }
}

/// A connection that gives up after [`PATIENCE`] instead of hanging.
///
/// # Panics
/// Where nobody listens.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream =
        TcpStream::connect_timeout(&address, PATIENCE).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit for reading");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time limit for writing");
    stream.set_nodelay(true).expect("no delay");
    stream
}

/// The same from an address of this machine.
///
/// # Panics
/// Where nobody listens, or the address is not this machine's.
pub fn connect_from(source: IpAddr, address: SocketAddr) -> TcpStream {
    connect_by(address, |socket| socket.bind(&SocketAddr::new(source, 0).into()))
}

/// The same with little room for what comes: a client that does not read stops the server soon.
///
/// # Panics
/// Where nobody listens.
pub fn connect_narrow(address: SocketAddr) -> TcpStream {
    connect_by(address, |socket| socket.set_recv_buffer_size(16 << 10))
}

fn connect_by(address: SocketAddr, prepare: impl FnOnce(&Socket) -> io::Result<()>) -> TcpStream {
    let connected = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        prepare(&socket)?;
        socket.connect_timeout(&address.into(), PATIENCE)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok::<_, io::Error>(stream)
    };
    connected().unwrap_or_else(|error| panic!("{address}: {error}"))
}

/// Sends a request whose connection ends after it. `fields` are whole header lines without their ends.
pub fn ask(address: SocketAddr, method: &str, target: &str, fields: &[&str]) -> Answer {
    let mut stream = connect(address);
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    write!(stream, "{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{fields}\r\n")
        .expect("the request is taken");
    read_answer(&mut stream)
}

/// Gets `target`.
pub fn get(address: SocketAddr, target: &str) -> Answer {
    ask(address, "GET", target, &[])
}

/// Where `reference` leads from the page at `from`: RFC 3986 §5.2, as far as our pages and playlists need it.
pub fn resolve(from: &str, reference: &str) -> String {
    if reference.starts_with('/') {
        return reference.to_owned();
    }
    let (path, query) = reference.split_at(reference.find('?').unwrap_or(reference.len()));
    let from = from.split_once('?').map_or(from, |(path, _)| path);
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    format!("{}{query}", parts.join("/"))
}

/// Begins to publish under `target` with a body that lasts until the connection's end.
pub fn publish(address: SocketAddr, target: &str) -> TcpStream {
    let mut stream = connect(address);
    write!(stream, "PUT {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        .expect("the request is taken");
    stream
}

/// Sends raw bytes and reads the answer until the connection's end; `None` where it ends without one.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = connect(address);
    // The server may answer and close before it has read all.
    let _ = stream.write_all(bytes);
    let all = read_all(&mut stream);
    (!all.is_empty()).then(|| parse(&all))
}

/// Reads once, and again where a signal has interrupted that, as a machine that was stopped and goes on does to reads with a time
/// limit (signal(7)).
///
/// # Errors
/// Those of the stream.
pub fn read_once(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Reads until the connection's end, which may be a reset.
pub fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match read_once(stream, &mut buffer) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("after {} bytes: {error}", all.len()),
        }
    }
}

/// Reads an answer that the connection's end ends.
///
/// # Panics
/// Where it is no HTTP.
pub fn read_answer(stream: &mut TcpStream) -> Answer {
    parse(&read_all(stream))
}

/// Reads the head of an answer and leaves the body in the stream.
///
/// # Panics
/// Where it is no HTTP.
pub fn read_head(stream: &mut impl Read) -> Answer {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {head:?}"));
        head.push(byte[0]);
    }
    parse(&head)
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no HTTP: {:?}", String::from_utf8_lossy(bytes)));
    let head = std::str::from_utf8(&bytes[..end]).expect("a head is ASCII");
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let headers = lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header field: {line:?}"));
            (name.to_ascii_lowercase(), value.trim().to_owned())
        })
        .collect();
    Answer {
        status: status.unwrap_or_else(|| panic!("no status: {status_line:?}")),
        headers,
        body: bytes[end + 4..].to_vec(),
    }
}
