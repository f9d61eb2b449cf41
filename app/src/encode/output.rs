//! Where the stream goes, as the command line names it.

use super::input::Input;
use super::ladder;
use crate::failure;
use anyhow::Result;
use glassline_delivery::output::{Destination, DestinationError};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where the stream goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// A file: a transport stream, fragmented MP4, or IVF.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Datagrams of up to 7 TS packets.
    Datagrams(Datagrams),
    /// A chunked PUT.
    Http(Server),
    /// Nowhere: to measure.
    Null,
}

/// A machine or a group that is sent datagrams: a URL as [`Destination`] reads it, whose host may be a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Datagrams {
    pub(super) url: String,
}

/// A stream at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) address: Address,
    /// Path and query.
    pub(super) target: String,
    /// Whether HTTPS is spoken.
    pub(super) tls: bool,
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.address, self.target)
    }
}

/// Name or number of a host, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// IPv6 numbers without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Output {
    /// The output of rendition `index`, called `name`: `{rendition}` and `{index}` stand for both. Without one, a
    /// file or stream gets the name behind its own, and datagrams go to a port that is higher by two each time.
    pub(super) fn of_rendition(&self, name: &str, index: usize) -> Result<Output> {
        let placed =
            |text: &str| ladder::filled(text, name, index).unwrap_or_else(|| ladder::appended(text, name));
        Ok(match self {
            Output::File(path) => match path.to_str() {
                Some(path) => Output::File(placed(path).into()),
                None => {
                    return Err(failure::usage(format_args!("{self} is no UTF-8"), "choose another name"));
                }
            },
            Output::Http(server) => {
                let host = ladder::filled(&server.address.host, name, index);
                let target = match host {
                    Some(_) => {
                        ladder::filled(&server.target, name, index).unwrap_or_else(|| server.target.clone())
                    }
                    None => placed(&server.target),
                };
                let host = host.unwrap_or_else(|| server.address.host.clone());
                Output::Http(Server { address: Address { host, ..server.address }, target, ..*server })
            }
            Output::Datagrams(Datagrams { url }) => {
                let url = ladder::filled(url, name, index).or_else(|| ladder::further_port(url, 2 * index));
                let url = url.ok_or_else(|| {
                    let message = format_args!("{self} leaves no ports for all renditions");
                    failure::usage(message, "choose a lower one")
                })?;
                url.parse().map_err(|text: String| failure::usage(text, "see glassline encode --help"))?
            }
            Output::Stdout => {
                let message = "standard output carries one stream, not several renditions";
                return Err(failure::usage(
                    message,
                    "give each rendition a place: NAME.ts, http://… or udp://…",
                ));
            }
            Output::Null => Output::Null,
        })
    }

    /// Whether somebody watches while the stream is made.
    pub(super) fn is_network(&self) -> bool {
        matches!(self, Output::Datagrams(_) | Output::Http(_))
    }

    /// Whether it is an IVF file, which takes VP8 alone.
    pub(super) fn is_ivf(&self) -> bool {
        matches!(self, Output::File(path) if has_extension(path, "ivf"))
    }

    /// Whether it is an MP4 file, which does not take every codec.
    pub(super) fn is_mp4(&self) -> bool {
        matches!(self, Output::File(path) if has_extension(path, "mp4"))
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Output::File(path) => path.display().fmt(f),
            Output::Stdout => f.write_str("standard output"),
            Output::Datagrams(Datagrams { url }) => f.write_str(url),
            Output::Http(server) => server.fmt(f),
            Output::Null => f.write_str("null:"),
        }
    }
}

impl FromStr for Output {
    type Err = String;
    fn from_str(text: &str) -> Result<Output, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return local(text);
        };
        match scheme.to_ascii_lowercase().as_str() {
            "udp" | "rtp" => datagrams(text),
            "http" => server(text, rest, false),
            "https" => server(text, rest, true),
            _ => Err(format!("{text:?}: {scheme}:// is not known; udp://, rtp://, http:// and https:// are")),
        }
    }
}

fn datagrams(text: &str) -> Result<Output, String> {
    // Names are looked up when the output is opened; any address stands for them here.
    let mut any = |_: &str| Some(Ipv4Addr::LOCALHOST.into());
    // Placeholders stand for what fits in their place.
    let filled = ladder::filled(text, "r", 0);
    match Destination::parse_named(filled.as_deref().unwrap_or(text), &mut any) {
        Ok(_) => Ok(Output::Datagrams(Datagrams { url: text.to_owned() })),
        Err(DestinationError::Address) => {
            Err(format!("{text:?} names no host and port; write udp://HOST:PORT, or udp://[IPV6]:PORT"))
        }
        Err(error) => Err(format!("{text:?}: {error}")),
    }
}

fn server(text: &str, rest: &str, tls: bool) -> Result<Output, String> {
    let no_stream =
        || format!("{text:?} names no stream; write http://HOST:PORT/live/NAME.ts, or https:// with it");
    let (authority, target) = rest.split_at(rest.find('/').ok_or_else(no_stream)?);
    if target == "/" {
        return Err(no_stream());
    }
    if target.contains(|c: char| c.is_control() || c == ' ' || c == '#') {
        return Err(format!("{text:?} has a character that no address has (space, # or control)"));
    }
    let address = address(text, authority, if tls { 443 } else { 80 })?;
    Ok(Output::Http(Server { address, target: target.to_owned(), tls }))
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn local(text: &str) -> Result<Output, String> {
    match text {
        "-" => Ok(Output::Stdout),
        "null:" => Ok(Output::Null),
        _ if ["ts", "mp4", "ivf"].iter().any(|extension| has_extension(Path::new(text), extension)) => {
            Ok(Output::File(text.into()))
        }
        _ => Err(format!(
            "{text:?} is none of FILE.ts, FILE.mp4, FILE.ivf, - (standard output), udp://HOST:PORT, rtp://HOST:PORT, \
             http(s)://HOST[:PORT]/live/NAME.ts and null:"
        )),
    }
}

/// `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
fn address(text: &str, authority: &str, default_port: u16) -> Result<Address, String> {
    let wrong = |what: &str| format!("{text:?} {what}; write HOST:PORT, or [IPV6]:PORT");
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(|| wrong("has a [ without its ]"))?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong("has no IPv6 number between [ and ]"))?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':').unwrap_or("")) };
            (host, port)
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() || host.contains(['@', '/', ' ']) || host.contains(char::is_control) {
        return Err(wrong("names no host"));
    }
    let port = match port {
        Some(port) => port.parse().ok().filter(|&port| port > 0),
        None => Some(default_port),
    };
    let port = port.ok_or_else(|| wrong("names no port from 1 to 65535"))?;
    Ok(Address { host: host.to_owned(), port })
}

/// Refuses outputs that would destroy the input or each other. Files are overwritten otherwise, as the shell's `>`
/// does.
pub(super) fn check(input: &Input, outputs: &[Output]) -> Result<()> {
    // A file that is not there yet has no canonical path, but its folder has.
    let real = |path: &Path| {
        path.canonicalize().ok().or_else(|| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
        })
    };
    let mut taken = Vec::new();
    if let Some(path) = input.path() {
        taken.extend(real(path));
    }
    for (index, output) in outputs.iter().enumerate() {
        if *output != Output::Null && outputs[..index].contains(output) {
            return Err(failure::usage(format_args!("{output} is named twice"), "name each output once"));
        }
        let Output::File(path) = output else { continue };
        let Some(path) = real(path) else { continue };
        if taken.contains(&path) {
            let message = format_args!("{output} is read or written already");
            return Err(failure::usage(message, "choose another name for it"));
        }
        taken.push(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn outputs_are_told_apart() {
        assert_eq!("-".parse(), Ok(Output::Stdout));
        assert_eq!("null:".parse(), Ok(Output::Null));
        assert_eq!("a/b.ts".parse(), Ok(Output::File("a/b.ts".into())));
        assert_eq!("a/b.MP4".parse(), Ok(Output::File("a/b.MP4".into())));
        for url in [
            "udp://239.1.2.3:5000?ttl=8&interface=eth0",
            "rtp://[ff15::1]:5004",
            "udp://studio-2.example:5000?packets=3",
            "RTP://192.0.2.7:5004?source=192.0.2.1",
        ] {
            assert_eq!(url.parse(), Ok(Output::Datagrams(Datagrams { url: url.to_owned() })));
        }
        let http = |address, target: &str| {
            Ok(Output::Http(Server { address, target: target.to_owned(), tls: false }))
        };
        let https = Server { address: at("box", 443), target: "/live/a.ts".to_owned(), tls: true };
        assert_eq!("https://box/live/a.ts".parse(), Ok(Output::Http(https)));
        assert_eq!("http://box/live/a.ts".parse(), http(at("box", 80), "/live/a.ts"));
        assert_eq!(
            "http://[::1]:8080/live/a.ts?takeover=1".parse(),
            http(at("::1", 8080), "/live/a.ts?takeover=1")
        );
    }

    #[test]
    fn each_rendition_has_outputs_of_its_own() {
        let of = |text: &str, index| {
            let output: Output = text.parse().unwrap();
            output
                .of_rendition("720p50", index)
                .map(|output| output.to_string())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of("http://box/live/hall.ts", 0).unwrap(), "http://box:80/live/hall-720p50.ts");
        assert_eq!(of("http://box/live/{rendition}.ts", 0).unwrap(), "http://box:80/live/720p50.ts");
        assert_eq!(of("http://box{index}/live/hall.ts", 1).unwrap(), "http://box1:80/live/hall.ts");
        assert_eq!(of("a/hall.ts", 0).unwrap(), "a/hall-720p50.ts");
        assert_eq!(of("udp://239.1.{index}.1:5000", 3).unwrap(), "udp://239.1.3.1:5000");
        assert_eq!(of("udp://239.1.1.1:5000?ttl=8", 2).unwrap(), "udp://239.1.1.1:5004?ttl=8");
        assert_eq!(of("null:", 2).unwrap(), "null:");
        assert!(of("-", 0).unwrap_err().contains("standard output"));
        assert!(of("udp://h:65535", 1).unwrap_err().contains("ports"));
    }

    #[test]
    fn what_is_no_output_is_refused_with_what_would_be() {
        for (text, complaint) in [
            ("udp://host", "no host and port"),
            ("udp://:5000", "no host and port"),
            ("udp://host:0", "no host and port"),
            ("udp://host:65536", "no host and port"),
            ("udp://[::1:5000", "no host and port"),
            ("udp://[host]:5000", "no host and port"),
            ("udp://::1:5000", "no host and port"),
            ("udp://host:5000?ttl=0", "from 1 to 255"),
            ("rtp://host:5000?pkt_size=1316", "another option"),
            ("http://[::1/live/a.ts", "without its ]"),
            ("http://host:0/live/a.ts", "names no port"),
            ("http://host:8080", "names no stream"),
            ("http://host:8080/", "names no stream"),
            ("http://me@host/live/a.ts", "names no host"),
            ("http://host/live/a b.ts", "character"),
            ("https://host", "names no stream"),
            ("rtmp://host/app", "is not known"),
            ("film.mkv", "none of FILE.ts"),
            ("", "none of FILE.ts"),
        ] {
            let error = text.parse::<Output>().unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[test]
    fn an_output_that_destroys_something_is_refused() {
        let folder = std::env::temp_dir().join(format!("glassline-outputs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (film, link) = (folder.join("film.y4m"), folder.join("film.ts"));
        std::fs::write(&film, "").unwrap();
        std::os::unix::fs::symlink(&film, &link).unwrap();
        let input = Input::File(film);
        assert!(check(&input, &[Output::File(link.clone())]).is_err(), "a link to the input");
        assert!(check(&input, &[Output::File(folder.join("new.ts")), Output::Null, Output::Null]).is_ok());
        let twice = [folder.join("new.ts"), folder.join(".").join("new.ts")].map(Output::File);
        assert!(check(&input, &twice).is_err());
        assert!(check(&Input::Stdin, &[Output::Stdout, Output::Stdout]).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
