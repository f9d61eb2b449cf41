//! Which clock time stamps are of (RFC 7273).

use std::fmt;

/// The clock that a sender's media clock follows (`a=ts-refclk`, RFC 7273 §4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceClock {
    /// PTP.
    Ptp {
        /// The protocol's version as it is written: `IEEE1588-2008` is what ST 2059-2 has.
        version: String,
        /// Which of its clocks.
        clock: PtpClock,
    },
    /// An NTP server `HOST` or `HOST:PORT`, or `/traceable/`.
    Ntp(String),
    /// The sender's own clock, named by the Ethernet address of its interface (ST 2110-10 §8.3): no other device shares
    /// it.
    LocalMac([u8; 6]),
    /// Any other, as it is written: `gps`, `local`, `private`, …
    Other(String),
}

/// Which PTP clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtpClock {
    /// One that is traceable to TAI, whichever it is.
    Traceable,
    /// A grandmaster.
    Grandmaster {
        /// Its clock identity, an EUI-64.
        identity: [u8; 8],
        /// The domain, 0 to 127.
        domain: Option<u8>,
    },
}

impl ReferenceClock {
    /// The version of PTP that ST 2059-2 profiles.
    pub const PTP_2008: &'static str = "IEEE1588-2008";

    /// PTP as ST 2059-2 has it, from any clock that is traceable to TAI.
    pub fn traceable_ptp() -> ReferenceClock {
        ReferenceClock::Ptp { version: Self::PTP_2008.to_owned(), clock: PtpClock::Traceable }
    }

    /// What stands behind `a=ts-refclk:`. What is not understood is [`ReferenceClock::Other`].
    pub(super) fn parse(text: &str) -> ReferenceClock {
        let text = text.trim();
        let known = match text.split_once('=') {
            Some(("ptp", value)) => ptp(value),
            Some(("ntp", value)) if !value.is_empty() => Some(ReferenceClock::Ntp(value.to_owned())),
            Some(("localmac", value)) => octets(value).map(ReferenceClock::LocalMac),
            _ => None,
        };
        known.unwrap_or_else(|| ReferenceClock::Other(text.to_owned()))
    }

    /// Whether its ticks count from PTP's epoch on a clock that others can share.
    pub fn is_ptp(&self) -> bool {
        matches!(self, ReferenceClock::Ptp { .. })
    }
}

/// `VERSION:traceable`, or `VERSION:IDENTITY[:DOMAIN]`.
fn ptp(value: &str) -> Option<ReferenceClock> {
    let (version, server) = value.split_once(':')?;
    let clock = if server == "traceable" {
        PtpClock::Traceable
    } else {
        let (identity, domain) = server.split_once(':').map_or((server, None), |(a, b)| (a, Some(b)));
        // RFC 7273 has a bare number in its examples and a name before it in its grammar.
        let domain = domain.map(|domain| domain.strip_prefix("domain-nmbr=").unwrap_or(domain));
        let domain = match domain {
            Some(domain) => Some(domain.parse().ok().filter(|number: &u8| *number < 128)?),
            None => None,
        };
        PtpClock::Grandmaster { identity: octets(identity)?, domain }
    };
    Some(ReferenceClock::Ptp { version: version.to_owned(), clock })
}

/// Octets in hexadecimal with hyphens between them.
fn octets<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut octets = [0; N];
    let mut parts = text.split('-');
    for octet in &mut octets {
        let part = parts.next().filter(|part| part.len() == 2 && !part.starts_with('+'))?;
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(octets)
}

fn hyphens(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02X}")).collect::<Vec<_>>().join("-")
}

/// What stands behind `a=ts-refclk:`.
impl fmt::Display for ReferenceClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReferenceClock::Ptp { version, clock: PtpClock::Traceable } => {
                write!(f, "ptp={version}:traceable")
            }
            ReferenceClock::Ptp { version, clock: PtpClock::Grandmaster { identity, domain } } => {
                write!(f, "ptp={version}:{}", hyphens(identity))?;
                domain.map_or(Ok(()), |domain| write!(f, ":{domain}"))
            }
            ReferenceClock::Ntp(server) => write!(f, "ntp={server}"),
            ReferenceClock::LocalMac(address) => write!(f, "localmac={}", hyphens(address)),
            ReferenceClock::Other(text) => f.write_str(text),
        }
    }
}

/// How time stamps follow the reference clock (`a=mediaclk`, RFC 7273 §5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaClockSource {
    /// They are its time in ticks, plus an offset.
    Direct {
        /// The stamp at the clock's epoch; ST 2110-10 §7.3 wants 0.
        offset: u32,
    },
    /// The sender has a clock of its own.
    Sender,
    /// Any other, as it is written.
    Other(String),
}

impl MediaClockSource {
    /// What stands behind `a=mediaclk:`. What is not understood is [`MediaClockSource::Other`]: an offset with a rate too,
    /// since its ticks are not those of the clock.
    pub(super) fn parse(text: &str) -> MediaClockSource {
        let text = text.trim();
        let offset = text.strip_prefix("direct=").filter(|value| !value.starts_with('+'));
        match offset.and_then(|value| value.parse().ok()) {
            Some(offset) => MediaClockSource::Direct { offset },
            None if text == "sender" => MediaClockSource::Sender,
            None => MediaClockSource::Other(text.to_owned()),
        }
    }
}

/// What stands behind `a=mediaclk:`.
impl fmt::Display for MediaClockSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MediaClockSource::Direct { offset } => write!(f, "direct={offset}"),
            MediaClockSource::Sender => f.write_str("sender"),
            MediaClockSource::Other(text) => f.write_str(text),
        }
    }
}
