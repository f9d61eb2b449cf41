//! The header `Transport` (RFC 2326 §12.39): how a track's packets travel.

use std::fmt;

/// Alternatives of a header that are looked at.
const ALTERNATIVES_MAX: usize = 8;

/// How packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    /// In datagrams.
    Udp,
    /// Between messages on the connection.
    Tcp,
}

/// One alternative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transport {
    /// `RTP/AVP/TCP`, or datagrams.
    pub is_tcp: bool,
    /// `multicast`.
    pub is_multicast: bool,
    /// `interleaved`: the channels of RTP and RTCP.
    pub channels: Option<(u8, u8)>,
    /// `client_port`.
    pub client_ports: Option<(u16, u16)>,
    /// `server_port`.
    pub server_ports: Option<(u16, u16)>,
    /// `ssrc`.
    pub ssrc: Option<u32>,
    /// `mode=RECORD`.
    pub is_record: bool,
}

impl Transport {
    /// The alternatives of a header's value, which commas stand between. Some cameras write commas between parameters, too: what
    /// begins with no protocol belongs to the alternative before.
    pub fn parse(value: &str) -> Vec<Transport> {
        let mut alternatives: Vec<Transport> = Vec::new();
        for word in value.split([';', ',']).map(str::trim) {
            let upper = word.to_ascii_uppercase();
            if upper.starts_with("RTP/") {
                if alternatives.len() == ALTERNATIVES_MAX {
                    break;
                }
                alternatives.push(Transport { is_tcp: upper.ends_with("/TCP"), ..Transport::default() });
            } else if let Some(transport) = alternatives.last_mut() {
                transport.take(word);
            }
        }
        alternatives
    }

    fn take(&mut self, word: &str) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "multicast" => self.is_multicast = true,
            "interleaved" => self.channels = pair(value),
            "client_port" => self.client_ports = pair(value),
            "server_port" => self.server_ports = pair(value),
            "ssrc" => self.ssrc = u32::from_str_radix(value.trim_start_matches("0x"), 16).ok(),
            "mode" => {
                self.is_record =
                    value.eq_ignore_ascii_case("record") || value.eq_ignore_ascii_case("receive");
            }
            _ => {}
        }
    }
}

/// `A-B`, or `A` where B follows it.
fn pair<T: std::str::FromStr + Copy + TryFrom<u64> + Into<u64>>(text: &str) -> Option<(T, T)> {
    let (first, second) = match text.split_once('-') {
        Some((first, second)) => (first.trim().parse().ok()?, second.trim().parse().ok()),
        None => (text.trim().parse::<T>().ok()?, None),
    };
    let next = || T::try_from(first.into().saturating_add(1)).ok();
    Some((first, second.or_else(next)?))
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_tcp { "RTP/AVP/TCP;unicast" } else { "RTP/AVP;unicast" })?;
        if let Some((rtp, rtcp)) = self.channels {
            write!(f, ";interleaved={rtp}-{rtcp}")?;
        }
        if let Some((rtp, rtcp)) = self.client_ports {
            write!(f, ";client_port={rtp}-{rtcp}")?;
        }
        if let Some((rtp, rtcp)) = self.server_ports {
            write!(f, ";server_port={rtp}-{rtcp}")?;
        }
        if let Some(ssrc) = self.ssrc {
            write!(f, ";ssrc={ssrc:08X}")?;
        }
        if self.is_record { f.write_str(";mode=record") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_of_cameras_are_read() {
        let parse = |text: &str| Transport::parse(text).remove(0);
        let tcp = parse("RTP/AVP/TCP;unicast;interleaved=8-9;ssrc=2A27A3FB");
        assert_eq!((tcp.is_tcp, tcp.channels, tcp.ssrc), (true, Some((8, 9)), Some(0x2A27_A3FB)));
        let comma = parse("RTP/AVP;unicast;client_port=5000-5001;server_port=40000-40001,ssrc=FFFFCCCC");
        assert_eq!((comma.server_ports, comma.ssrc), (Some((40_000, 40_001)), Some(0xFFFF_CCCC)));
        let single = parse("RTP/AVP/UDP; unicast; client_port=5000; source=192.0.2.7; server_port = 6000");
        assert_eq!((single.is_tcp, single.client_ports), (false, Some((5000, 5001))));
        assert_eq!(single.server_ports, Some((6000, 6001)));
        assert!(parse("RTP/AVP;multicast;destination=239.1.2.3;port=5000-5001;ttl=1").is_multicast);
        assert!(parse("RTP/AVP/TCP;interleaved=0-1;mode=\"RECORD\"").is_record);
        assert_eq!(Transport::parse("RTP/AVP;unicast;client_port=1-2,RTP/AVP/TCP;interleaved=0-1").len(), 2);
        assert_eq!(parse("RTP/AVP/TCP;interleaved=255").channels, None, "256 is no channel");
        assert_eq!(Transport::parse("hello;interleaved=0-1"), []);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(is_tcp: bool, is_record: bool, channels: Option<(u8, u8)>, ports: Option<(u16, u16)>, ssrc: Option<u32>) {
            let transport = Transport { is_tcp, channels, client_ports: ports, server_ports: ports, ssrc, is_record, ..Transport::default() };
            prop_assert_eq!(Transport::parse(&transport.to_string()), [transport]);
        }

        #[test]
        fn no_text_panics(text in "(RTP/AVP|[;,=\\-]|interleaved|server_port|ssrc|[0-9a-z]{1,6}){0,30}") {
            prop_assert!(Transport::parse(&text).len() <= ALTERNATIVES_MAX);
        }
    }
}
