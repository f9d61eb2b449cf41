//! One exchange with a server, by a thread that waits for it: the pure [`http1::client`](glassline_delivery::http1::client) over
//! a connection of [`glassline_io::client`].

use glassline_delivery::http1::client::{Client, Event, Head, Request};
use glassline_delivery::http1::{HttpError, Limits, Method, Url};
use glassline_io::client::{Refused, Wire, connect};
use glassline_io::clock::Clock;
use glassline_io::poll::{Poller, Watch};
use glassline_io::tls::{Connector, READ_BYTES_MIN};
use glassline_media::Time;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// How long a connection may take to stand, and then TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Reads of what is left of a body that is not wanted: a longer one costs a connection.
const KEPT_READS: usize = 16;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum HttpFailure {
    /// No address of the name took the connection.
    #[error("{0}")]
    Unreachable(io::Error),
    /// The server's certificate is not trusted, or it speaks no TLS.
    #[error("{0}")]
    Untrusted(io::Error),
    /// Nothing came before the deadline.
    #[error("no answer in time")]
    Late,
    /// What came is no HTTP.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The connection broke.
    #[error(transparent)]
    Lost(io::Error),
}

impl From<Refused> for HttpFailure {
    fn from(refused: Refused) -> HttpFailure {
        let failure = if refused.by_tls { HttpFailure::Untrusted } else { HttpFailure::Unreachable };
        failure(refused.error)
    }
}

/// A response: its head is there, its body comes.
#[derive(Debug)]
pub struct Response {
    wire: Wire,
    poller: Poller,
    client: Client,
    head: Head,
    /// What was received and not parsed yet.
    input: Vec<u8>,
    /// Where is read into.
    room: Vec<u8>,
    /// Bytes of the body that did not fit where they were asked for, and how many of them are given.
    body: Vec<u8>,
    given: usize,
    ended: bool,
    early_end: Option<HttpError>,
    sent: Time,
    received: Time,
    /// Whether over TLS, and the host and port, of a connection that may be used again.
    server: Option<(bool, String)>,
}

/// A connection behind an answer, over which another request may go.
#[derive(Debug)]
pub struct KeptConnection {
    wire: Wire,
    poller: Poller,
    server: (bool, String),
}

impl Response {
    /// Asks for `url`, over TLS where it says so and as `trust` has it, and waits for the answer's head until `deadline`.
    /// Redirects are not followed.
    ///
    /// # Errors
    /// Why there is no answer. An answer of any status is one.
    pub fn get(url: &Url, trust: Option<&Connector>, deadline: Time) -> Result<Response, HttpFailure> {
        Response::ask(Method::Get, url, trust, deadline)
    }

    /// The same with another method and without a body.
    ///
    /// # Errors
    /// As of [`Response::get`].
    pub fn ask(
        method: Method,
        url: &Url,
        trust: Option<&Connector>,
        deadline: Time,
    ) -> Result<Response, HttpFailure> {
        Response::ask_as(method, url, trust, None, deadline)
    }

    /// The same as one that has this key, which goes in `Authorization: Bearer` (RFC 6750 §2.1).
    ///
    /// # Errors
    /// As of [`Response::get`].
    pub fn ask_as(
        method: Method,
        url: &Url,
        trust: Option<&Connector>,
        key: Option<&str>,
        deadline: Time,
    ) -> Result<Response, HttpFailure> {
        let (wire, poller) = open(url, trust)?;
        let request = url.request(method);
        let request = match key {
            Some(key) => request.with_header("Authorization", &format!("Bearer {key}")),
            None => request,
        };
        // A server may wait for the body of a request that says nothing of its length (RFC 9110 §8.6).
        let request =
            if method == Method::Post { request.with_header("Content-Length", "0") } else { request };
        Response::over(wire, poller, request, deadline)
    }

    /// Sends `request` over a connection that stands, and waits for the head of its answer.
    fn over(
        mut wire: Wire,
        poller: Poller,
        request: Request,
        deadline: Time,
    ) -> Result<Response, HttpFailure> {
        let client = request.client(Limits::DEFAULT);
        let sent = Clock.now();
        write_all(&mut wire, &poller, &request.without_body(), deadline).map_err(failed)?;
        let mut response = Response {
            wire,
            poller,
            client,
            head: Head { status: 0, reason: String::new(), headers: Default::default() },
            input: Vec::new(),
            room: vec![0; READ_BYTES_MIN],
            body: Vec::new(),
            given: 0,
            ended: false,
            early_end: None,
            sent,
            received: sent,
            server: None,
        };
        response.head = response.read_head(deadline)?;
        Ok(response)
    }

    /// The same on a connection that may go on behind it, over `kept` where that leads to the same server and still stands, and for
    /// some bytes alone where `range` (first byte, count) says so.
    ///
    /// # Errors
    /// As [`Response::get`].
    pub fn get_kept(
        url: &Url,
        range: Option<(u64, u64)>,
        trust: Option<&Connector>,
        kept: Option<KeptConnection>,
        deadline: Time,
    ) -> Result<Response, HttpFailure> {
        let mut request = Request::kept_alive(Method::Get, &url.authority(), url.target());
        if let Some(authorization) = url.authorization() {
            request = request.with_header("Authorization", authorization);
        }
        if let Some((from, count)) = range {
            let last = from.saturating_add(count).saturating_sub(1);
            request = request.with_header("Range", &format!("bytes={from}-{last}"));
        }
        let server = (url.tls(), url.authority());
        if let Some(KeptConnection { wire, poller, .. }) = kept.filter(|kept| kept.server == server) {
            // A server may have closed it meanwhile, which is no failure.
            match Response::over(wire, poller, request.clone(), deadline) {
                Err(HttpFailure::Lost(_) | HttpFailure::Http(HttpError::EndedEarly(_))) => {}
                other => return other.map(|response| Response { server: Some(server), ..response }),
            }
        }
        let (wire, poller) = open(url, trust)?;
        let response = Response::over(wire, poller, request, deadline)?;
        Ok(Response { server: Some(server), ..response })
    }

    /// The connection, if another request may go over it: what is left of the body has come already, and the server agrees.
    pub fn into_kept(mut self) -> Option<KeptConnection> {
        let mut room = [0; 4096];
        for _ in 0..KEPT_READS {
            if self.ended {
                break;
            }
            match self.read(&mut room, Time::ZERO) {
                Ok(0) => break,
                Ok(_) => {}
                Err(_) => return None,
            }
        }
        let Response { wire, poller, client, input, early_end, server, ended, .. } = self;
        let is_clean = ended && client.keeps_alive() && input.is_empty() && early_end.is_none();
        server.filter(|_| is_clean).map(|server| KeptConnection { wire, poller, server })
    }

    /// The answer's head.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// When the request went.
    pub fn sent(&self) -> Time {
        self.sent
    }

    /// When the latest bytes came: as near to the packets as a program gets without capturing them.
    pub fn received(&self) -> Time {
        self.received
    }

    /// Why the body ended before its end, if it did.
    pub fn early_end(&self) -> Option<&HttpError> {
        self.early_end.as_ref()
    }

    /// Reads some bytes of the body; 0 at its end, an early one too.
    ///
    /// # Errors
    /// `TimedOut` where nothing comes until `deadline`; those of the connection, and `Other` for what is no HTTP.
    pub fn read(&mut self, into: &mut [u8], deadline: Time) -> io::Result<usize> {
        while self.given == self.body.len() {
            if self.ended {
                return Ok(0);
            }
            self.body.clear();
            self.given = 0;
            self.decode().map_err(io::Error::other)?;
            if self.body.is_empty() && !self.ended && !self.receive(deadline)? {
                self.early_end = self.client.end().err();
                self.ended = true;
            }
        }
        let count = into.len().min(self.body.len() - self.given);
        into[..count].copy_from_slice(&self.body[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }

    fn read_head(&mut self, deadline: Time) -> Result<Head, HttpFailure> {
        loop {
            let mut rest = &self.input[..];
            let event = self.client.next(&mut rest)?;
            let head = event.and_then(|event| if let Event::Head(head) = event { Some(*head) } else { None });
            let used = self.input.len() - rest.len();
            self.input.drain(..used);
            if let Some(head) = head {
                return Ok(head);
            }
            if !self.receive(deadline).map_err(failed)? {
                self.client.end()?;
            }
        }
    }

    /// Receives once; false at the end of the connection.
    fn receive(&mut self, deadline: Time) -> io::Result<bool> {
        loop {
            if let Some(count) = self.wire.read(&mut self.room)? {
                self.received = Clock.now();
                self.input.extend_from_slice(&self.room[..count]);
                return Ok(count > 0);
            }
            wait(&self.poller, deadline)?;
        }
    }

    /// Decodes what was received into the body.
    fn decode(&mut self) -> Result<(), HttpError> {
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

/// A connection to the server of `url`, over TLS where it says so.
fn open(url: &Url, trust: Option<&Connector>) -> Result<(Wire, Poller), HttpFailure> {
    if url.tls() && trust.is_none() {
        return Err(HttpFailure::Untrusted(io::Error::other("no certificate authority is trusted")));
    }
    let wire = connect(url.host(), url.port(), trust.filter(|_| url.tls()), CONNECT_TIMEOUT)?;
    let poller = Poller::new().map_err(HttpFailure::Lost)?;
    poller.add(wire.socket(), 0, Watch::Edges).map_err(HttpFailure::Lost)?;
    Ok((wire, poller))
}

fn failed(error: io::Error) -> HttpFailure {
    if error.kind() == io::ErrorKind::TimedOut { HttpFailure::Late } else { HttpFailure::Lost(error) }
}

/// Waits until the socket has news.
fn wait(poller: &Poller, deadline: Time) -> io::Result<()> {
    let left = deadline.since(Clock.now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    poller.wait(Some(left), &mut Vec::new())
}

fn write_all(wire: &mut Wire, poller: &Poller, mut bytes: &[u8], deadline: Time) -> io::Result<()> {
    loop {
        match wire.write(bytes)? {
            Some(count) => bytes = &bytes[count..],
            None if !bytes.is_empty() => wait(poller, deadline)?,
            None => {}
        }
        if bytes.is_empty() {
            while !wire.flush()? {
                wait(poller, deadline)?;
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    fn soon() -> Time {
        Clock.now() + Duration::from_secs(10)
    }

    /// A server that gives one answer and then what `then` says: the URL of a stream there, and what it was asked.
    fn server(answer: &'static str, then: fn(std::net::TcpStream)) -> (Url, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/live/a.ts?key=x", listener.local_addr().unwrap()).parse().unwrap();
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            then(stream);
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        (url, served)
    }

    fn whole(response: &mut Response) -> Vec<u8> {
        let (mut body, mut part) = (Vec::new(), [0; 4]);
        loop {
            match response.read(&mut part, soon()).unwrap() {
                0 => return body,
                count => body.extend_from_slice(&part[..count]),
            }
        }
    }

    #[test]
    fn a_body_comes_out_of_a_chunked_answer() {
        let (url, served) = server(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
            drop,
        );
        let mut response = Response::get(&url, None, soon()).unwrap();
        assert_eq!((response.head().status, response.sent() <= response.received()), (200, true));
        assert_eq!((whole(&mut response), response.early_end()), (b"hello world".to_vec(), None));
        assert!(served.join().unwrap().starts_with("GET /live/a.ts?key=x HTTP/1.1\r\nHost: 127.0.0.1:"));
    }

    #[test]
    fn a_server_that_stops_in_the_middle_has_given_what_came() {
        let (url, _served) = server("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", drop);
        let mut response = Response::get(&url, None, soon()).unwrap();
        assert_eq!(whole(&mut response), b"hello");
        assert!(response.early_end().is_some());
    }

    #[test]
    fn any_status_is_an_answer_and_silence_is_none() {
        let (url, _served) = server("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", drop);
        assert_eq!(Response::get(&url, None, soon()).unwrap().head().status, 404);
        let (url, _served) = server("HTTP/1.1 200", |mut stream| {
            let _ = stream.read(&mut [0; 16]);
        });
        let deadline = Clock.now() + Duration::from_millis(50);
        assert!(matches!(Response::get(&url, None, deadline), Err(HttpFailure::Late)));
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url: Url = format!("http://{nobody}/").parse().unwrap();
        assert!(matches!(Response::get(&url, None, soon()), Err(HttpFailure::Unreachable(_))));
        let url: Url = format!("https://{nobody}/").parse().unwrap();
        assert!(matches!(Response::get(&url, None, soon()), Err(HttpFailure::Untrusted(_))));
    }
}
