//! Where `probe` reads from: a file, standard input, a server over HTTP, or datagrams. A packet capture is known by its first
//! bytes.

use super::analysis::Kind;
use super::datagrams::Datagrams;
use crate::failure;
use anyhow::{Context, Result};
use glassline_delivery::http1::client::{Client, Event, Request};
use glassline_delivery::http1::{Limits, Method};
use glassline_io::clock::Clock;
use glassline_lab::pcap;
use glassline_media::Time;
use glassline_media::container::ivf;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a connection may take to stand.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An opened source.
pub(super) struct Source {
    pub(super) kind: Kind,
    /// Bytes, where it is known.
    pub(super) size_bytes: Option<u64>,
    /// It begins as packet captures do.
    pub(super) is_capture: bool,
    /// It begins as IVF does.
    pub(super) is_ivf: bool,
    pub(super) reader: Reader,
}

pub(super) enum Reader {
    Plain(Box<dyn Read>),
    Http(Http),
    Datagrams(Box<Datagrams>),
}

impl Reader {
    /// Reads some bytes; 0 at the end. A live source fails with `TimedOut` where nothing comes until `deadline`.
    pub(super) fn read(&mut self, into: &mut [u8], deadline: Time) -> io::Result<usize> {
        match self {
            Reader::Plain(reader) => reader.read(into),
            Reader::Http(http) => http.read(into, deadline),
            Reader::Datagrams(datagrams) => datagrams.read(into, deadline),
        }
    }

    /// When the socket gave what was read last, where it was a socket.
    pub(super) fn received(&self) -> Option<Time> {
        match self {
            Reader::Plain(_) => None,
            Reader::Http(http) => Some(http.received),
            Reader::Datagrams(datagrams) => Some(datagrams.received),
        }
    }

    /// Datagrams that the kernel dropped because they were not taken in time.
    pub(super) fn dropped(&self) -> u64 {
        match self {
            Reader::Plain(_) | Reader::Http(_) => 0,
            Reader::Datagrams(datagrams) => datagrams.dropped(),
        }
    }
}

/// Opens `target`: `-`, an `http://` or `udp://` URL, or a file's path. `deadline` is when an answer must be there.
pub(super) fn open(target: &str, deadline: Time) -> Result<Source> {
    if target == "-" {
        let stdin = io::stdin().lock();
        return plain(Kind::Stdin, None, stdin).map_err(|error| {
            failure::failed(format!("cannot read standard input: {error}"), "name a file or a http:// URL")
        });
    }
    match target.split_once("://") {
        Some(("http", rest)) => {
            let reader = Reader::Http(Http::open(&Address::parse(rest), deadline)?);
            Ok(Source { kind: Kind::Url, size_bytes: None, is_capture: false, is_ivf: false, reader })
        }
        Some(("udp", _)) => {
            let reader = Reader::Datagrams(Box::new(Datagrams::open(target)?));
            Ok(Source { kind: Kind::Url, size_bytes: None, is_capture: false, is_ivf: false, reader })
        }
        Some((scheme, _)) => Err(failure::usage(
            format!("{scheme}:// is not supported"),
            "only http:// and udp:// URLs and files can be probed",
        )),
        None => {
            let unreadable = |error: io::Error| {
                failure::failed(format!("cannot read {target}: {error}"), "name a file, a http:// URL or -")
            };
            let file = File::open(target).map_err(unreadable)?;
            let about = file.metadata().map_err(unreadable)?;
            if about.is_dir() {
                return Err(unreadable(io::ErrorKind::IsADirectory.into()));
            }
            let size_bytes = about.is_file().then_some(about.len());
            plain(Kind::File, size_bytes, file).map_err(unreadable)
        }
    }
}

/// A file or pipe, whose first bytes are looked at.
fn plain(kind: Kind, size_bytes: Option<u64>, mut reader: impl Read + 'static) -> io::Result<Source> {
    let mut head = Vec::new();
    reader.by_ref().take(pcap::MAGIC_BYTES as u64).read_to_end(&mut head)?;
    let is_capture = pcap::is_capture(&head);
    let is_ivf = head.starts_with(&ivf::MAGIC);
    let reader = Reader::Plain(Box::new(io::Cursor::new(head).chain(reader)));
    Ok(Source { kind, size_bytes, is_capture, is_ivf, reader })
}

/// The parts of a URL behind `http://`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Name and port as they go into the `Host` field.
    pub(super) host: String,
    /// The same, port always there.
    pub(super) socket: String,
    pub(super) target: String,
}

impl Address {
    pub(super) fn parse(rest: &str) -> Address {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        // Credentials are not sent: probing needs none.
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned();
        let path = path.split('#').next().unwrap_or("");
        let target = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        // A colon inside the brackets of an IPv6 address is none before a port.
        let has_port = host.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
        let socket = if has_port { host.clone() } else { format!("{host}:80") };
        Address { host, socket, target }
    }
}

/// One response's body, as it comes.
pub(super) struct Http {
    stream: TcpStream,
    client: Client,
    /// What was received and not parsed yet.
    input: Vec<u8>,
    /// Body bytes that did not fit where they were asked for, and how many of them are given.
    body: Vec<u8>,
    given: usize,
    ended: bool,
    /// When the request went.
    pub(super) sent: Time,
    /// When the latest bytes came.
    pub(super) received: Time,
}

impl Http {
    pub(super) fn open(address: &Address, deadline: Time) -> Result<Http> {
        let mut stream = connect(&address.socket)
            .map_err(|error| failure::failed(error, "check host and port, and that the server runs"))
            .with_context(|| format!("cannot connect to {}", address.socket))?;
        let request = Request::new(Method::Get, &address.host, &address.target);
        let client = request.client(Limits::DEFAULT);
        let sent = Clock.now();
        stream.write_all(&request.without_body()).context("cannot send the request")?;
        let (input, body) = (Vec::new(), Vec::new());
        let mut http = Http { stream, client, input, body, given: 0, ended: false, sent, received: sent };
        http.read_head(deadline)
            .with_context(|| format!("no stream at http://{}{}", address.host, address.target))?;
        Ok(http)
    }

    fn read_head(&mut self, deadline: Time) -> Result<()> {
        loop {
            let mut rest = &self.input[..];
            let event = self.client.next(&mut rest)?;
            if let Some(Event::Head(head)) = event {
                let used = self.input.len() - rest.len();
                self.input.drain(..used);
                if (200..300).contains(&head.status) {
                    return Ok(());
                }
                let answer = format!("the server answers {} {}", head.status, head.reason);
                return Err(match (head.status, head.headers.first("location")) {
                    (300..400, Some(location)) => {
                        failure::failed(answer, format!("probe {location} instead"))
                    }
                    (404, _) => failure::failed(answer, "check the name, and that someone publishes it"),
                    _ => failure::failed(answer, "check the URL"),
                });
            }
            let used = self.input.len() - rest.len();
            self.input.drain(..used);
            match self.receive(deadline) {
                Ok(true) => {}
                Ok(false) => self.client.end()?,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(failure::failed("no answer in time", "try a longer --duration"));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives once; false at the end of the connection.
    fn receive(&mut self, deadline: Time) -> io::Result<bool> {
        let left = deadline.since(Clock.now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut buffer = [0; 64 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(count) => {
                // As near to the packets as a program gets without capturing them.
                self.received = Clock.now();
                self.input.extend_from_slice(&buffer[..count]);
                Ok(count > 0)
            }
            // What Linux calls a timeout of a blocking read.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn read(&mut self, into: &mut [u8], deadline: Time) -> io::Result<usize> {
        while self.given == self.body.len() {
            if self.ended {
                return Ok(0);
            }
            self.body.clear();
            self.given = 0;
            self.decode().map_err(io::Error::other)?;
            if self.body.is_empty() && !self.ended && !self.receive(deadline)? {
                // A server that stops in the middle: what came is still worth a report.
                if let Err(error) = self.client.end() {
                    tracing::warn!("the response ended early: {error}");
                }
                self.ended = true;
            }
        }
        let count = into.len().min(self.body.len() - self.given);
        into[..count].copy_from_slice(&self.body[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }

    /// Decodes what was received into the body.
    fn decode(&mut self) -> Result<(), glassline_delivery::http1::HttpError> {
        let mut rest = &self.input[..];
        while let Some(event) = self.client.next(&mut rest)? {
            match event {
                Event::Head(_) => {}
                Event::Data(data) => self.body.extend_from_slice(data),
                Event::End => {
                    self.ended = true;
                    break;
                }
            }
        }
        let used = self.input.len() - rest.len();
        self.input.drain(..used);
        Ok(())
    }
}

fn connect(socket: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in socket.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let parts = |rest| {
            let Address { host, socket, target } = Address::parse(rest);
            (host, socket, target)
        };
        let expect = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(parts("a:8080/live/x.ts?y=1#z"), expect("a:8080", "a:8080", "/live/x.ts?y=1"));
        assert_eq!(parts("a"), expect("a", "a:80", "/"));
        assert_eq!(parts("[::1]/x"), expect("[::1]", "[::1]:80", "/x"));
        assert_eq!(parts("u:p@[::1]:81?q"), expect("[::1]:81", "[::1]:81", "/?q"));
    }

    #[test]
    fn only_http_and_udp_are_spoken() {
        let error = open("https://localhost/x.ts", Time::NEVER).err().unwrap().to_string();
        assert!(error.contains("only http:// and udp:// URLs and files"), "{error}");
    }

    #[test]
    fn a_body_comes_out_of_a_chunked_answer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap();
            let answer =
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        let deadline = Clock.now() + Duration::from_secs(10);
        let mut source = open(&format!("http://{address}/live/a.ts"), deadline).unwrap();
        let (mut body, mut part) = (Vec::new(), [0; 4]);
        loop {
            match source.reader.read(&mut part, deadline).unwrap() {
                0 => break,
                count => body.extend_from_slice(&part[..count]),
            }
        }
        assert_eq!(body, b"hello world");
        assert!(server.join().unwrap().starts_with("GET /live/a.ts HTTP/1.1\r\nHost: 127.0.0.1:"));
    }
}
