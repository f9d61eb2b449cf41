//! Where `probe` reads from: a file, standard input, a server over HTTP, or datagrams. A packet capture is known by its first
//! bytes.

use super::datagrams::Datagrams;
use crate::failure;
use crate::trust::{self, Trust};
use anyhow::Result;
use glassline_delivery::http1::{Url, UrlError};
use glassline_delivery::playlist::rewrite::PlaylistKind;
use glassline_doors::srt::SrtReader;
use glassline_inspect::http::{HttpFailure, Response};
use glassline_inspect::pcap;
use glassline_inspect::transport_stream::Kind;
use glassline_io::tls::Connector;
use glassline_media::Time;
use glassline_media::container::ivf;
use glassline_transport::srt::Address;
use std::fs::File;
use std::io::{self, Read};

/// An opened source.
pub(crate) struct Source {
    pub(super) kind: Kind,
    /// Bytes, where it is known.
    pub(super) size_bytes: Option<u64>,
    /// It begins as packet captures do.
    pub(super) is_capture: bool,
    /// It begins as IVF does.
    pub(super) is_ivf: bool,
    /// It is a playlist or manifest of a server.
    pub(super) playlist: Option<PlaylistKind>,
    pub(super) reader: Reader,
}

pub(crate) enum Reader {
    Plain(Box<dyn Read>),
    Http(Box<Http>),
    Datagrams(Box<Datagrams>),
    Srt(Box<SrtReader>),
}

impl Reader {
    /// Reads some bytes; 0 at the end. A live source fails with `TimedOut` where nothing comes until `deadline`.
    pub(super) fn read(&mut self, into: &mut [u8], deadline: Time) -> io::Result<usize> {
        match self {
            Reader::Plain(reader) => reader.read(into),
            Reader::Http(http) => http.read(into, deadline),
            Reader::Datagrams(datagrams) => datagrams.read(into, deadline),
            Reader::Srt(srt) => srt.read(into, deadline),
        }
    }

    /// When the socket gave what was read last, where it was a socket.
    pub(super) fn received(&self) -> Option<Time> {
        match self {
            Reader::Plain(_) | Reader::Srt(_) => None,
            Reader::Http(http) => Some(http.received()),
            Reader::Datagrams(datagrams) => Some(datagrams.received),
        }
    }

    /// Datagrams that the kernel dropped because they were not taken in time.
    pub(super) fn dropped(&self) -> u64 {
        match self {
            Reader::Plain(_) | Reader::Http(_) => 0,
            Reader::Datagrams(datagrams) => datagrams.dropped(),
            Reader::Srt(srt) => srt.left_out(),
        }
    }
}

/// Opens `target`: `-`, an `http://`, `https://` or `udp://` URL, or a file's path. `deadline` is when an answer must be there.
pub(crate) fn open(target: &str, trust: &Trust, deadline: Time) -> Result<Source> {
    if target == "-" {
        let stdin = io::stdin().lock();
        return plain(Kind::Stdin, None, stdin).map_err(|error| {
            failure::failed(format!("cannot read standard input: {error}"), "name a file or a http:// URL")
        });
    }
    match target.split_once("://") {
        Some(("http" | "https", _)) => {
            let url: Url = target.parse().map_err(|error: UrlError| {
                failure::usage(error, "write http://HOST:PORT/PATH, or https:// with it")
            })?;
            let connector = url.tls().then(|| trust.connector()).transpose()?;
            let http = Http::open(&url, connector.as_ref(), deadline)
                .map_err(|refused| refused.explain(&url, trust))?;
            let playlist = http.playlist(&url);
            let reader = Reader::Http(Box::new(http));
            Ok(Source {
                kind: Kind::Url,
                size_bytes: None,
                is_capture: false,
                is_ivf: false,
                playlist,
                reader,
            })
        }
        Some(("udp", _)) => {
            let reader = Reader::Datagrams(Box::new(Datagrams::open(target)?));
            Ok(Source {
                kind: Kind::Url,
                size_bytes: None,
                is_capture: false,
                is_ivf: false,
                playlist: None,
                reader,
            })
        }
        Some(("srt", _)) => {
            let address = Address::parse(target)
                .map_err(|error| failure::usage(error, "write srt://HOST:PORT?streamid=read:NAME"))?;
            let reader = SrtReader::open(address)
                .map_err(|error| failure::failed(error, "see what the system says"))?;
            let reader = Reader::Srt(Box::new(reader));
            let (kind, playlist) = (Kind::Url, None);
            Ok(Source { kind, size_bytes: None, is_capture: false, is_ivf: false, playlist, reader })
        }
        Some((scheme, _)) => Err(failure::usage(
            format!("{scheme}:// is not supported"),
            "only http://, https://, udp:// and srt:// URLs and files can be probed",
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

/// A file or pipe. Its first bytes tell the format.
fn plain(kind: Kind, size_bytes: Option<u64>, mut reader: impl Read + 'static) -> io::Result<Source> {
    let mut head = Vec::new();
    reader.by_ref().take(pcap::MAGIC_BYTES as u64).read_to_end(&mut head)?;
    let is_capture = pcap::is_capture(&head);
    let is_ivf = head.starts_with(&ivf::MAGIC);
    let reader = Reader::Plain(Box::new(io::Cursor::new(head).chain(reader)));
    Ok(Source { kind, size_bytes, is_capture, is_ivf, playlist: None, reader })
}

/// One response's body, as it comes.
pub(crate) struct Http(Response);

impl Http {
    /// Asks for `url`. An answer that is no success is none.
    pub(super) fn open(url: &Url, trust: Option<&Connector>, deadline: Time) -> Result<Http, Refused> {
        let response = Response::get(url, trust, deadline).map_err(Refused::Failed)?;
        let head = response.head();
        if (200..300).contains(&head.status) {
            return Ok(Http(response));
        }
        let location = head.headers.first("location").map(str::to_owned);
        let answer = format!("the server answers {} {}", head.status, head.reason);
        Err(Refused::Answer { status: head.status, answer, location })
    }

    /// What kind of playlist it is, if one.
    fn playlist(&self, url: &Url) -> Option<PlaylistKind> {
        let path = url.target().split('?').next().unwrap_or_default();
        PlaylistKind::of(self.0.head().headers.first("content-type"), path)
    }

    /// When the request went.
    pub(super) fn sent(&self) -> Time {
        self.0.sent()
    }

    /// When the latest bytes came.
    pub(super) fn received(&self) -> Time {
        self.0.received()
    }

    /// Reads some bytes; 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8], deadline: Time) -> io::Result<usize> {
        let count = self.0.read(into, deadline)?;
        if count == 0
            && let Some(error) = self.0.early_end()
        {
            // A server that stops in the middle: what came is still worth a report.
            tracing::warn!("the response ended early: {error}");
        }
        Ok(count)
    }
}

/// Why there is no stream.
pub(super) enum Refused {
    /// There is no answer.
    Failed(HttpFailure),
    /// The answer is no success.
    Answer { status: u16, answer: String, location: Option<String> },
}

impl Refused {
    /// With what to do.
    fn explain(self, url: &Url, trust: &Trust) -> anyhow::Error {
        match self {
            Refused::Failed(failure) => failed(url, failure, trust),
            Refused::Answer { status, answer, location } => {
                let failure = match (status, location) {
                    (300..400, Some(location)) => {
                        failure::failed(answer, format!("probe {location} instead"))
                    }
                    (404, _) => failure::failed(answer, "check the name, and that someone publishes it"),
                    _ => failure::failed(answer, "check the URL"),
                };
                failure.context(format!("no stream at {url}"))
            }
        }
    }
}

/// Why there is no answer, with what to do.
fn failed(url: &Url, failure: HttpFailure, trust: &Trust) -> anyhow::Error {
    let none = format!("no stream at {url}");
    match failure {
        HttpFailure::Unreachable(error) => failure::failed(
            error,
            "check host and port, and that the server runs",
        )
        .context(format!("cannot connect to {}:{}", url.host(), url.port())),
        HttpFailure::Untrusted(error) => failure::failed(error, trust::advice(trust.ca.as_deref()))
            .context(format!("cannot connect to {}:{}", url.host(), url.port())),
        HttpFailure::Late => failure::failed("no answer in time", "try a longer --duration").context(none),
        HttpFailure::Http(error) => anyhow::Error::from(error).context(none),
        HttpFailure::Lost(error) => anyhow::Error::from(error).context(none),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_udp_and_srt_are_spoken() {
        let error = open("ftp://localhost/x.ts", &Trust::default(), Time::NEVER).err().unwrap().to_string();
        assert!(error.contains("only http://, https://, udp:// and srt:// URLs and files"), "{error}");
    }
}
