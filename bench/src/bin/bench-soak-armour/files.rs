//! A plain server of large and of growing objects, behind the edge.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Bytes of a large object.
pub(crate) const LARGE_BYTES: usize = 20 << 20;
/// Bytes of an object that good clients check.
pub(crate) const GOOD_BYTES: usize = 256 << 10;
/// An object that grows comes in so many pieces.
const PIECES: usize = 20;
const PIECE_BYTES: usize = 4096;
const PIECE_EVERY: Duration = Duration::from_millis(100);
/// A head above this is refused, as common servers do.
const HEAD_MAX: usize = 8 << 10;

/// Byte `at` of every object.
pub(crate) fn byte(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 16) as u8
}

/// The server; it ends with the process.
pub(crate) struct Files {
    pub(crate) address: SocketAddr,
}

impl Files {
    pub(crate) fn serve() -> Result<Files> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen for the files")?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    // The edge may hang up at any moment.
                    let _ = answer(stream);
                });
            }
        });
        Ok(Files { address })
    }
}

fn answer(mut stream: TcpStream) -> Result<()> {
    let large: Vec<u8> = (0..64 << 10).map(byte).collect();
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
            if head.len() > HEAD_MAX {
                write!(stream, "HTTP/1.1 431 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
                return Ok(());
            }
        }
        let target = head.split_whitespace().nth(1).unwrap_or_default();
        if target.contains("grow") {
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=1\r\n\r\n"
            )?;
            for _ in 0..PIECES {
                write!(stream, "{PIECE_BYTES:x}\r\n")?;
                stream.write_all(&large[..PIECE_BYTES])?;
                write!(stream, "\r\n")?;
                thread::sleep(PIECE_EVERY);
            }
            write!(stream, "0\r\n\r\n")?;
            continue;
        }
        let (bytes, fresh) = match target {
            target if target.contains("large") => (LARGE_BYTES, "max-age=60"),
            target if target.contains("moved") => {
                write!(stream, "HTTP/1.1 302 Found\r\nLocation: /files/other\r\nContent-Length: 0\r\n\r\n")?;
                continue;
            }
            _ => (GOOD_BYTES, "max-age=1"),
        };
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nCache-Control: {fresh}\r\n\r\n")?;
        let mut at = 0;
        while at < bytes {
            // The pattern does not repeat by the piece, so it is made as it is sent.
            let piece: Vec<u8> = (at..bytes.min(at + (64 << 10))).map(byte).collect();
            stream.write_all(&piece)?;
            at += piece.len();
        }
    }
}
