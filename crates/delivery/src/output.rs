//! Where a stream is sent to in datagrams, by its URL.
//!
//! ```text
//! udp://ADDRESS:PORT[?ttl=N][&interface=NAME][&source=ADDRESS][&packets=N][&dscp=N][&flow_label=true|false]
//!                                                                              ADDRESS: a machine's, or a group's
//! rtp://…                                                                      the same, with RTP
//! rtp+sdp://ADDRESS:PORT?sdp=FILE[&mtu=N][&…]                                   coded tracks in RTP, with their description
//! ```

use crate::http1::url::split_port;
use crate::policy::HeaderMarks;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use thiserror::Error;

/// How TS packets lie in datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Framing {
    /// As they are.
    Bare,
    /// Behind a header of RTP (RFC 2250).
    Rtp,
}

/// Where a stream is sent to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// A machine's address or a multicast group's; of one that has a name, the address counts for nothing but its port.
    pub address: SocketAddr,
    /// The name of a machine, where its address has not been resolved yet.
    pub name: Option<String>,
    /// How TS packets lie in datagrams.
    pub framing: Framing,
    /// Networks that a datagram may pass; without one, 1 for groups and what the system does elsewhere.
    pub ttl: Option<u8>,
    /// The network interface by which a group is sent to; the system chooses without one.
    pub interface: Option<String>,
    /// The address of ours that it comes from; the system chooses without one.
    pub source: Option<IpAddr>,
    /// TS packets of a datagram, 1 to [`PACKETS_MAX`].
    pub packets: usize,
    /// What the datagrams bear for routers.
    pub marks: HeaderMarks,
    /// The tracks are sent each for itself, without a container, and a file describes them.
    pub tracks: Option<TrackOptions>,
}

/// How coded tracks are sent in RTP, each for itself: pictures at the port, sound two above it, reports of each one above.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrackOptions {
    /// The file of the session description, which is written.
    pub file: PathBuf,
    /// Bytes of a packet with its header at most, without those of UDP and IP: within [`MTUS`].
    pub mtu: usize,
}

/// Packets that may be asked for, in bytes.
pub const MTUS: std::ops::RangeInclusive<usize> = 576..=8952;
/// What fits into an Ethernet frame, behind headers of UDP, IPv6 and a tunnel.
pub const MTU_USUAL: usize = 1400;

/// As many TS packets as fit into an Ethernet frame.
pub const PACKETS_MAX: usize = 7;

/// Why a text is no destination.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DestinationError {
    /// Another scheme than those that are known.
    #[error("an output begins with udp:// or rtp://")]
    Scheme,
    /// No address or no port, or an unspecified address.
    #[error(
        "an output wants an address and a port, as in udp://239.1.2.3:5000 or rtp://decoder.example:5004"
    )]
    Address,
    /// An option that is not known or has a bad value.
    #[error(
        "udp:// and rtp:// know ?ttl=N, interface=NAME, source=ADDRESS, packets=N, dscp=N and flow_label=true; {0}"
    )]
    Option(&'static str),
    /// The same of `rtp+sdp:`.
    #[error("rtp+sdp:// wants ?sdp=FILE, and knows mtu=N and the options of udp:// but packets; {0}")]
    Tracks(&'static str),
}

impl Destination {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Destination, DestinationError> {
        let (scheme, rest) = text.split_once("://").ok_or(DestinationError::Scheme)?;
        let framing = match scheme.to_ascii_lowercase().as_str() {
            "udp" => Framing::Bare,
            "rtp" => Framing::Rtp,
            _ => return Err(DestinationError::Scheme),
        };
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        let address = address.strip_suffix('/').unwrap_or(address);
        let (host, port) = split_port(address).map_err(|_| DestinationError::Address)?;
        let ip: IpAddr = host.parse().map_err(|_| DestinationError::Address)?;
        let port = port.filter(|_| !ip.is_unspecified()).ok_or(DestinationError::Address)?;
        let mut destination = Destination {
            address: SocketAddr::new(ip, port),
            name: None,
            framing,
            ttl: None,
            interface: None,
            source: None,
            packets: PACKETS_MAX,
            marks: HeaderMarks::default(),
            tracks: None,
        };
        for (key, value) in form_urlencoded::parse(options.as_bytes()) {
            destination.set(&key, &value).map_err(DestinationError::Option)?;
        }
        if destination.interface.is_some() && !ip.is_multicast() {
            return Err(DestinationError::Option("an interface belongs to multicast groups"));
        }
        if destination.marks.flow_label.is_some() && ip.is_ipv4() {
            return Err(DestinationError::Option("a flow label belongs to IPv6, and the address is of IPv4"));
        }
        if destination.source.is_some_and(|source| source.is_ipv4() != ip.is_ipv4()) {
            return Err(DestinationError::Option("the source is of the other IP version"));
        }
        Ok(destination)
    }

    /// Reads a URL. Its host may be a name, for which `resolve` finds the address.
    ///
    /// # Errors
    /// [`DestinationError::Address`] too where it finds none.
    pub fn parse_named(
        text: &str,
        resolve: &mut dyn FnMut(&str) -> Option<IpAddr>,
    ) -> Result<Destination, DestinationError> {
        let Some((start, name)) = host_of(text).filter(|(_, name)| is_name(name)) else {
            return Destination::parse(text);
        };
        let ip = match resolve(name).ok_or(DestinationError::Address)? {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        Destination::parse(&[&text[..start], &ip, &text[start + name.len()..]].concat())
    }

    /// Reads a URL. Its host may be a name, which is resolved later.
    pub fn parse_unresolved(text: &str) -> Result<Destination, DestinationError> {
        let Some((start, name)) = host_of(text).filter(|(_, name)| is_name(name)) else {
            return Destination::parse(text);
        };
        let with = |address: &str| {
            let text = [&text[..start], address, &text[start + name.len()..]].concat();
            Destination::parse(&text)
        };
        // Of either IP version, as its source is.
        let read = with("255.255.255.255").or_else(|error| with("[::1]").map_err(|_| error))?;
        Ok(Destination { name: Some(name.to_ascii_lowercase()), ..read })
    }

    /// Reads the URL of a stream's output: the same, and `rtp+sdp:`.
    pub fn parse_output(text: &str) -> Result<Destination, DestinationError> {
        let described = text.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("rtp+sdp"));
        let Some((_, rest)) = described else { return Destination::parse_unresolved(text) };
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let wrong = DestinationError::Tracks;
        let (mut file, mut mtu, mut others) =
            (None, MTU_USUAL, form_urlencoded::Serializer::new(String::new()));
        for (key, value) in form_urlencoded::parse(options.as_bytes()) {
            match &*key {
                "sdp" if !value.is_empty() && !value.chars().any(char::is_control) => {
                    file = Some(PathBuf::from(&*value));
                }
                "sdp" => return Err(wrong("the file has no name")),
                "mtu" => {
                    let number = value.parse().ok().filter(|number| MTUS.contains(number));
                    mtu = number.ok_or(wrong("mtu is a number of bytes from 576 to 8952"))?;
                }
                "packets" => return Err(wrong("packets belongs to MPEG-TS")),
                _ => drop(others.append_pair(&key, &value)),
            }
        }
        let others = Some(others.finish()).filter(|text| !text.is_empty());
        let others = others.map(|text| format!("?{text}")).unwrap_or_default();
        let read = Destination::parse_unresolved(&format!("rtp://{place}{others}"))?;
        if read.address.port() > u16::MAX - 3 {
            return Err(wrong("it takes the port and the three above it"));
        }
        let file = file.ok_or(wrong("the file is missing"))?;
        Ok(Destination { tracks: Some(TrackOptions { file, mtu }), ..read })
    }

    /// Host and port, as a URL has them.
    pub fn authority(&self) -> String {
        match &self.name {
            Some(name) => format!("{name}:{}", self.address.port()),
            None => self.address.to_string(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "ttl" => {
                let ttl = value.parse().ok().filter(|ttl| *ttl > 0);
                self.ttl = Some(ttl.ok_or("ttl is a number from 1 to 255")?);
            }
            "interface" if is_interface(value) => self.interface = Some(value.to_owned()),
            "interface" => return Err("an interface's name has 1 to 15 letters, digits and .-_:@"),
            "source" => self.source = Some(value.parse().map_err(|_| "the source is no IP address")?),
            "packets" => {
                let packets = value.parse().ok().filter(|packets| (1..=PACKETS_MAX).contains(packets));
                self.packets = packets.ok_or("packets is a number from 1 to 7")?;
            }
            _ if self.marks.take_option(key, value)? => {}
            _ => return Err("there is another option"),
        }
        Ok(())
    }
}

/// Where the host of a URL begins, and what it is, if it is no IPv6 address.
fn host_of(text: &str) -> Option<(usize, &str)> {
    let start = text.find("://")? + 3;
    let end = text[start..].find([':', '/', '?'])?;
    Some((start, &text[start..start + end]))
}

/// Whether a host is a name. Numbers alone are a mistyped address, which a resolver might take for some other.
fn is_name(host: &str) -> bool {
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=253).contains(&host.len())
        && host.bytes().all(is_of_host)
        && host.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Whether a text is the name of a network interface that can be written into a URL, and shown, as it is.
pub(crate) fn is_interface(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:@".contains(&byte);
    (1..16).contains(&name.len()) && name.bytes().all(is_of_name)
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.framing {
            _ if self.tracks.is_some() => "rtp+sdp",
            Framing::Bare => "udp",
            Framing::Rtp => "rtp",
        };
        write!(f, "{scheme}://{}", self.authority())?;
        let escaped = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let of_tracks = |tracks: &TrackOptions| {
            let mtu = (tracks.mtu != MTU_USUAL).then(|| format!("&mtu={}", tracks.mtu));
            let file = escaped(&tracks.file.to_string_lossy()).replace("%2F", "/");
            format!("sdp={file}{}", mtu.unwrap_or_default())
        };
        let options = [
            self.tracks.as_ref().map(of_tracks),
            self.ttl.map(|ttl| format!("ttl={ttl}")),
            self.interface.as_ref().map(|name| format!("interface={name}")),
            self.source.map(|source| format!("source={source}")),
            (self.packets != PACKETS_MAX).then(|| format!("packets={}", self.packets)),
        ];
        let options: Vec<String> = options.into_iter().flatten().chain(self.marks.options()).collect();
        if options.is_empty() { Ok(()) } else { write!(f, "?{}", options.join("&")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn destinations_are_read_and_told_alike() {
        for text in [
            "udp://239.1.2.3:5000",
            "rtp://10.0.0.5:5004",
            "udp://239.1.2.3:5000?ttl=16&interface=eth1&source=192.0.2.7&packets=3",
            "rtp://[ff3e::1]:5004?source=2001:db8::7",
            "udp://[2001:db8::7]:5000?ttl=255",
            "rtp://10.0.0.5:5004?dscp=63",
            "udp://[2001:db8::7]:5000?packets=3&dscp=0&flow_label=false",
        ] {
            assert_eq!(Destination::parse(text).unwrap().to_string(), text);
        }
        let read = Destination::parse("UDP://239.1.2.3:5000/?interface=lo").unwrap();
        assert_eq!((read.framing, read.packets, read.ttl), (Framing::Bare, 7, None));
        for bad in [
            "http://h/",
            "239.1.2.3:5000",
            "udp://host:5000",
            "udp://239.1.2.3",
            "udp://:5000",
            "udp://0.0.0.0:5000",
            "udp://[::]:5000",
            "udp://239.1.2.3:0",
            "udp://239.1.2.3:5000?ttl=0",
            "udp://239.1.2.3:5000?ttl=256",
            "udp://239.1.2.3:5000?packets=8",
            "udp://239.1.2.3:5000?packets=0",
            "udp://239.1.2.3:5000?pkt_size=1316",
            "udp://239.1.2.3:5000?dscp=64",
            "udp://239.1.2.3:5000?dscp=-1",
            "udp://239.1.2.3:5000?dscp=af41",
            "udp://239.1.2.3:5000?flow_label=true",
            "udp://[2001:db8::7]:5000?flow_label=1",
            "udp://239.1.2.3:5000?source=::1",
            "udp://239.1.2.3:5000?interface=",
            "udp://239.1.2.3:5000?interface=a%22b",
            "udp://10.0.0.5:5000?interface=eth0",
        ] {
            assert!(Destination::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_kept_for_later() {
        for (text, name) in [
            ("rtp://decoder-1.example:5004?ttl=3&source=192.0.2.7", Some("decoder-1.example")),
            ("udp://h:5000?source=2001:db8::7", Some("h")),
            ("udp://h:5000?flow_label=true", Some("h")),
            ("udp://239.1.2.3:5000?interface=eth1", None),
            ("udp://[2001:db8::7]:5000", None),
        ] {
            let read = Destination::parse_unresolved(text).unwrap();
            assert_eq!((read.to_string().as_str(), read.name.as_deref()), (text, name));
        }
        let read = Destination::parse_unresolved("udp://Host.Example:5000/").unwrap();
        assert_eq!((read.authority(), read.address.port()), ("host.example:5000".into(), 5000));
        for bad in [
            "udp://1.2.3:5",
            "udp://host",
            "udp://a/b:5",
            "udp://h:5?interface=lo",
            "udp://h:0",
            "http://h:5",
            "udp://h_é:5",
        ] {
            assert!(Destination::parse_unresolved(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_asked_for_where_somebody_answers() {
        let mut asked = Vec::new();
        let mut answer = |name: &str| {
            asked.push(name.to_owned());
            "192.0.2.7".parse().ok()
        };
        let found = Destination::parse_named("rtp://studio-2.example:5004?ttl=3", &mut answer).unwrap();
        assert_eq!(found.to_string(), "rtp://192.0.2.7:5004?ttl=3");
        for text in ["udp://192.0.2.9:5000", "udp://a b:5000", "udp://:5000", "udp://h:1?interface=lo"] {
            let _ = Destination::parse_named(text, &mut answer);
        }
        assert_eq!(asked, ["studio-2.example", "h"]);
        assert_eq!(Destination::parse_named("udp://h:5000", &mut |_| None), Err(DestinationError::Address));
    }

    #[test]
    fn tracks_in_rtp_need_a_file_that_describes_them() {
        for text in [
            "rtp+sdp://10.0.0.5:5004?sdp=hall.sdp",
            "rtp+sdp://239.1.2.3:5004?sdp=/run/glassline/hall+1.sdp&mtu=1200&ttl=4&interface=eth1&source=192.0.2.7&dscp=34",
            "rtp+sdp://[2001:db8::7]:5004?sdp=a%26b.sdp&flow_label=true",
            "rtp+sdp://decoder.example:65532?sdp=a.sdp",
        ] {
            let read = Destination::parse_output(text).unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(Destination::parse_output(&read.to_string()), Ok(read));
            assert!(Destination::parse(text).is_err() && Destination::parse_unresolved(text).is_err());
        }
        let tracks =
            Destination::parse_output("RTP+SDP://10.0.0.5:5004?sdp=a%20b.sdp").unwrap().tracks.unwrap();
        assert_eq!((tracks.file.to_str(), tracks.mtu), (Some("a b.sdp"), 1400));
        assert_eq!(Destination::parse_output("udp://10.0.0.5:5004").unwrap().tracks, None);
        for bad in [
            "rtp+sdp://10.0.0.5:5004",
            "rtp+sdp://10.0.0.5:5004?sdp=",
            "rtp+sdp://10.0.0.5:5004?sdp=a%0Ab",
            "rtp+sdp://10.0.0.5:65533?sdp=a",
            "rtp+sdp://10.0.0.5:5004?sdp=a&mtu=575",
            "rtp+sdp://10.0.0.5:5004?sdp=a&mtu=9000",
            "rtp+sdp://10.0.0.5:5004?sdp=a&packets=3",
            "rtp+sdp://10.0.0.5:5004?sdp=a&pkt_size=3",
            "rtp+sdp://10.0.0.5?sdp=a",
            "rtp://10.0.0.5:5004?sdp=a",
        ] {
            assert!(Destination::parse_output(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(udp://|rtp://|rtp[+]sdp://)?[a-z0-9:/@?&=%.\\[\\]#é ]{0,40}") {
            let _ = (Destination::parse(&text), Destination::parse_unresolved(&text));
            if let Ok(read) = Destination::parse_output(&text) {
                prop_assert_eq!(Destination::parse_output(&read.to_string()), Ok(read));
            }
        }
    }
}
