//! The least of an HTTP client: what a bench asks a server for beside its load.

use anyhow::{Context, Result, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that gives up after ten seconds instead of hanging.
///
/// # Errors
/// Where nobody listens.
pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT).context("cannot connect")?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads until the connection's end, which may be a reset.
///
/// # Errors
/// Where it does not end within ten seconds of silence.
pub fn read_all(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 16 << 10]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(all),
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(all),
            Err(error) => return Err(error).with_context(|| format!("no end after {} bytes", all.len())),
        }
    }
}

/// The body of a `200` answer, as text.
///
/// # Errors
/// Where there is none.
pub fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let answer = String::from_utf8_lossy(&read_all(&mut stream)?).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no answer to GET {path}"))?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "GET {path}: {}", head.lines().next().unwrap_or_default());
    Ok(body.to_owned())
}
