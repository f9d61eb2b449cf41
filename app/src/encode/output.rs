//! Where the stream goes, as the command line names it.

use super::input::Input;
use super::ladder;
use crate::failure;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where the stream goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// A transport stream file.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Datagrams of up to 7 TS packets.
    Udp(Address),
    /// A chunked PUT.
    Http {
        /// The server.
        address: Address,
        /// Path and query.
        target: String,
    },
    /// Nowhere: to measure.
    Null,
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
            Output::Http { address, target } => {
                let host = ladder::filled(&address.host, name, index);
                let target = match host {
                    Some(_) => ladder::filled(target, name, index).unwrap_or_else(|| target.clone()),
                    None => placed(target),
                };
                let host = host.unwrap_or_else(|| address.host.clone());
                Output::Http { address: Address { host, ..*address }, target }
            }
            Output::Udp(address) => match ladder::filled(&address.host, name, index) {
                Some(host) => Output::Udp(Address { host, ..*address }),
                None => {
                    let port =
                        u16::try_from(index * 2).ok().and_then(|further| address.port.checked_add(further));
                    let port = port.ok_or_else(|| {
                        failure::usage(
                            format_args!("{self} leaves no ports for all renditions"),
                            "choose a lower one",
                        )
                    })?;
                    Output::Udp(Address { host: address.host.clone(), port })
                }
            },
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
        matches!(self, Output::Udp(_) | Output::Http { .. })
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Output::File(path) => path.display().fmt(f),
            Output::Stdout => f.write_str("standard output"),
            Output::Udp(address) => write!(f, "udp://{address}"),
            Output::Http { address, target } => write!(f, "http://{address}{target}"),
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
        match scheme {
            "udp" => address(text, rest, None).map(Output::Udp),
            "http" => {
                let at = rest.find('/').ok_or_else(|| {
                    format!("{text:?} names no stream; write http://HOST:PORT/live/NAME.ts")
                })?;
                let (authority, target) = rest.split_at(at);
                if target == "/" {
                    return Err(format!("{text:?} names no stream; write http://HOST:PORT/live/NAME.ts"));
                }
                if target.contains(|c: char| c.is_control() || c == ' ' || c == '#') {
                    return Err(format!(
                        "{text:?} has a character that no address has (space, # or control)"
                    ));
                }
                let address = address(text, authority, Some(80))?;
                Ok(Output::Http { address, target: target.to_owned() })
            }
            "https" => {
                Err(format!("{text:?}: encode does not speak TLS; publish by http:// inside your network"))
            }
            _ => Err(format!("{text:?}: {scheme}:// is not known; udp:// and http:// are")),
        }
    }
}

fn local(text: &str) -> Result<Output, String> {
    match text {
        "-" => Ok(Output::Stdout),
        "null:" => Ok(Output::Null),
        _ if Path::new(text).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ts")) => {
            Ok(Output::File(text.into()))
        }
        _ => Err(format!(
            "{text:?} is none of FILE.ts, - (standard output), udp://HOST:PORT, \
             http://HOST[:PORT]/live/NAME.ts and null:"
        )),
    }
}

/// `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
fn address(text: &str, authority: &str, default_port: Option<u16>) -> Result<Address, String> {
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
        None => default_port,
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
        assert_eq!("udp://239.1.2.3:5000".parse(), Ok(Output::Udp(at("239.1.2.3", 5000))));
        assert_eq!("udp://[ff15::1]:5000".parse(), Ok(Output::Udp(at("ff15::1", 5000))));
        let http = |address, target: &str| Ok(Output::Http { address, target: target.to_owned() });
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
        assert_eq!(of("udp://239.1.1.1:5000", 2).unwrap(), "udp://239.1.1.1:5004");
        assert_eq!(of("null:", 2).unwrap(), "null:");
        assert!(of("-", 0).unwrap_err().contains("standard output"));
        assert!(of("udp://h:65535", 1).unwrap_err().contains("ports"));
    }

    #[test]
    fn what_is_no_output_is_refused_with_what_would_be() {
        for (text, complaint) in [
            ("udp://host", "names no port"),
            ("udp://:5000", "names no host"),
            ("udp://host:0", "names no port"),
            ("udp://host:65536", "names no port"),
            ("udp://[::1:5000", "without its ]"),
            ("udp://[host]:5000", "no IPv6 number"),
            ("udp://::1:5000", "names no host"),
            ("http://host:8080", "names no stream"),
            ("http://host:8080/", "names no stream"),
            ("http://me@host/live/a.ts", "names no host"),
            ("http://host/live/a b.ts", "character"),
            ("https://host/live/a.ts", "TLS"),
            ("rtmp://host/app", "is not known"),
            ("film.mp4", "none of FILE.ts"),
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
