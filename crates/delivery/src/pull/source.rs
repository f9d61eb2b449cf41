//! Where a stream comes from, by its URL.
//!
//! ```text
//! http://[USER[:PASSWORD]@]HOST[:PORT]/PATH[?QUERY]                https:// the same, over TLS
//! udp://[SENDER@]ADDRESS:PORT[?interface=NAME][&source=SENDER]     ADDRESS: our own, or a multicast group's
//! rtp://…                                                          the same, with RTP
//! rtp:FILE[?interface=NAME]                                        coded media in RTP, as a session description says
//! rtsp://[USER[:PASSWORD]@]HOST[:PORT]/PATH[?QUERY]                rtsps:// the same, over TLS
//! ```
//! Neither `Display` nor `Debug` shows user, password or query: these go into logs and answers.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::http1::url::split_port;
use crate::http1::{Url, UrlError};
use crate::output::is_interface;
use crate::pull::{RtspUrl, SdpFile};
use crate::stream::Mux;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use thiserror::Error;

/// Where a stream comes from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// Another server, which is asked for it.
    Http(Url),
    /// Datagrams of MPEG-TS that a sender sends here.
    Udp(UdpAddress),
    /// The same in RTP (RFC 2250).
    Rtp(UdpAddress),
    /// Coded pictures and sound in RTP that a sender sends here, as a session description in a file says.
    Sdp(SdpFile),
    /// A camera, which is asked for its tracks (RFC 2326).
    Rtsp(RtspUrl),
}

/// Where datagrams come to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UdpAddress {
    /// Our own address, or a multicast group's. An unspecified one takes what comes to any of ours.
    pub address: SocketAddr,
    /// The network interface at which a group is joined; the system chooses without one.
    pub interface: Option<String>,
    /// The one sender from which datagrams are wanted (source-specific multicast, RFC 4607).
    pub sender: Option<IpAddr>,
}

/// Why a text is no source. The text itself is not repeated, since it may hold a password.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceError {
    /// Another scheme than those that are known.
    #[error(
        "a source begins with http://, https://, rtsp://, rtsps://, udp:// or rtp://, or with rtp: and a session description's file"
    )]
    Scheme,
    /// What is wrong with an `http:` or `https:` URL, or with a host and a port.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// `udp:` or `rtp:` with something else than an address.
    #[error("udp:// and rtp:// want an IP address and a port, as in udp://239.1.2.3:5000 or udp://[::]:5000")]
    Address,
    /// An option of `udp:` or `rtp:` that is not known or has a bad value.
    #[error("udp:// and rtp:// know ?interface=NAME and &source=SENDER; {0}")]
    Option(&'static str),
    /// `rtp:` without a file, or with an option that is not known or has a bad value.
    #[error(
        "rtp: wants the file of a session description, as in rtp:studio.sdp, and knows ?interface=NAME; {0}"
    )]
    File(&'static str),
}

impl Source {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Source, SourceError> {
        let of_file = text.split_once(':').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("rtp"));
        if let Some((_, rest)) = of_file.filter(|(_, rest)| !rest.starts_with("//")) {
            return SdpFile::parse(rest).map(Source::Sdp).map_err(SourceError::File);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(UrlError::Characters.into());
        }
        match text.split_once("://") {
            Some((scheme, _)) if ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {
                Ok(Source::Http(text.parse()?))
            }
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("udp") => {
                UdpAddress::parse(rest).map(Source::Udp)
            }
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("rtp") => {
                UdpAddress::parse(rest).map(Source::Rtp)
            }
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("rtsp") => {
                Ok(Source::Rtsp(RtspUrl::parse(rest, false)?))
            }
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("rtsps") => {
                Ok(Source::Rtsp(RtspUrl::parse(rest, true)?))
            }
            _ => Err(SourceError::Scheme),
        }
    }

    /// What comes from there: what the path of an `http:` or `https:` URL ends with, else MPEG-TS.
    pub fn mux(&self) -> Mux {
        let Source::Http(url) = self else { return Mux::MpegTs };
        let path = url.target().split('?').next().unwrap_or_default();
        match path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).as_deref() {
            Some("mkv") => Mux::WebM,
            Some("oga" | "ogv" | "opus") => Mux::Ogg,
            Some(extension) => Mux::of_extension(extension).unwrap_or_default(),
            None => Mux::MpegTs,
        }
    }
}

impl UdpAddress {
    /// Reads what follows `udp://` or `rtp://`.
    fn parse(rest: &str) -> Result<UdpAddress, SourceError> {
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        let address = address.strip_suffix('/').unwrap_or(address);
        // What VLC writes where it listens; FFmpeg leaves the sender out.
        let (sender, address) = address.split_once('@').unwrap_or(("", address));
        let (host, port) = split_port(address)?;
        let ip = match host {
            "" => Ipv6Addr::UNSPECIFIED.into(),
            host => host.parse::<IpAddr>().map_err(|_| SourceError::Address)?,
        };
        let address = SocketAddr::new(ip, port.ok_or(UrlError::Port)?);
        let no_sender = |_| SourceError::Option("the sender is no IP address");
        let bare = sender.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(sender);
        let sender = if bare.is_empty() { None } else { Some(bare.parse().map_err(no_sender)?) };
        let mut source = UdpAddress { address, interface: None, sender };
        for (key, value) in form_urlencoded::parse(options.as_bytes()) {
            match &*key {
                "interface" if is_interface(&value) => source.interface = Some(value.into_owned()),
                "source" if source.sender.is_some() => {
                    return Err(SourceError::Option("the sender is given twice"));
                }
                "source" => source.sender = Some(value.parse().map_err(no_sender)?),
                "interface" => {
                    let words = "an interface's name has 1 to 15 letters, digits and .-_:@";
                    return Err(SourceError::Option(words));
                }
                _ => return Err(SourceError::Option("there is another option")),
            }
        }
        if !ip.is_multicast() && (source.sender.is_some() || source.interface.is_some()) {
            return Err(SourceError::Option("they belong to multicast groups"));
        }
        if source.sender.is_some_and(|sender| sender.is_ipv4() != ip.is_ipv4()) {
            return Err(SourceError::Option("the sender is of the other IP version"));
        }
        Ok(source)
    }
}

impl fmt::Display for UdpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        let interface = self.interface.as_ref().map(|name| format!("interface={name}"));
        let sender = self.sender.map(|sender| format!("source={sender}"));
        let options: Vec<String> = interface.into_iter().chain(sender).collect();
        if options.is_empty() { Ok(()) } else { write!(f, "?{}", options.join("&")) }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Http(url) => url.fmt(f),
            Source::Udp(address) => write!(f, "udp://{address}"),
            Source::Rtp(address) => write!(f, "rtp://{address}"),
            Source::Sdp(file) => file.fmt(f),
            Source::Rtsp(url) => url.fmt(f),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for UdpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn udp(text: &str) -> UdpAddress {
        match Source::parse(text) {
            Ok(Source::Udp(address)) => address,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn an_address_tells_its_mux() {
        for (url, mux) in [
            ("http://h/live/a.ts", Mux::MpegTs),
            ("http://h/a.webm?encoding=metacube", Mux::WebM),
            ("http://h/a.FLV", Mux::Flv),
            ("http://h/a.ogv", Mux::Ogg),
            ("http://h.flv/stream?x=a.ogg", Mux::MpegTs),
            ("udp://239.1.2.3:5000", Mux::MpegTs),
            ("rtsp://camera/a.flv", Mux::MpegTs),
        ] {
            assert_eq!(Source::parse(url).unwrap().mux(), mux, "{url}");
        }
    }

    #[test]
    fn datagrams_come_from_anywhere_groups_and_single_senders() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(udp("udp://127.0.0.1:5000").address, address("127.0.0.1:5000"));
        assert_eq!(udp("udp://@:5000").address, address("[::]:5000"));
        assert_eq!(udp("udp://@239.1.2.3:5000/").address, address("239.1.2.3:5000"));
        let source = udp("udp://232.1.2.3:5000?interface=eth0&source=192.0.2.7");
        assert_eq!(source.interface.as_deref(), Some("eth0"));
        assert_eq!(source.sender, Some("192.0.2.7".parse().unwrap()));
        let text = "udp://232.1.2.3:5000?interface=eth0&source=192.0.2.7";
        assert_eq!(Source::parse("udp://192.0.2.7@232.1.2.3:5000?interface=eth0").unwrap().to_string(), text);
        let v6 = Source::parse("RTP://[2001:db8::7]@[ff3e::1]:5000").unwrap();
        assert_eq!(v6.to_string(), "rtp://[ff3e::1]:5000?source=2001:db8::7");
        assert_ne!(Source::parse("rtp://239.1.2.3:5000"), Source::parse("udp://239.1.2.3:5000"));
        assert_eq!(udp("udp://[ff3e::1]:5000?source=2001:db8::7").address, address("[ff3e::1]:5000"));
        for bad in [
            "udp://host:5000",
            "udp://239.1.2.3",
            "udp://239.1.2.3:0",
            "udp://239.1.2.3:5000?pkt_size=1316",
            "udp://239.1.2.3:5000?source=x",
            "rtp://x@239.1.2.3:5000",
            "rtp://192.0.2.7@10.0.0.1:5000",
            "rtp://192.0.2.7@239.1.2.3:5000?source=192.0.2.8",
            "udp://239.1.2.3:5000?source=::1",
            "udp://239.1.2.3:5000?interface=",
            "udp://239.1.2.3:5000?interface=a%0Ab",
            "udp://239.1.2.3:5000?interface=a%26source%3D1.2.3.4",
            "udp://239.1.2.3:+5000",
            "udp://127.0.0.1:5000?interface=lo",
            "udp://::1:5000",
        ] {
            assert!(Source::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(https?://|udp://|rtp://|rtsps?://)?[a-z0-9:/@?&=%.\\[\\]#é ]{0,40}", location in "\\PC{0,40}") {
            if let Ok(Source::Http(url)) = Source::parse(&text) {
                let _ = url.redirected(&location);
            }
        }
    }
}
