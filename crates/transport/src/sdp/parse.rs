//! Text to descriptions.

use super::error::{SdpError, SectionError};
use super::parameters::Parameters;
use super::{
    Ancillary, Audio, Description, Flow, MAX_BYTES, MAX_FLOWS, Media, MediaClockSource, Path, ReferenceClock,
    Video,
};
use sdp_types::{
    AddrType, Attribute, Connection, Session, SourceFilter, SourceFilterAddress, SourceFilterMode,
};
use sdp_types::{RtpMap, SourceFilterDestination};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Sections of a description at most, those of other kinds too.
const MAX_SECTIONS: usize = 2 * MAX_FLOWS;

/// Payload types of a section that are looked at.
const MAX_ENCODINGS: usize = 16;

/// A section that is taken, and its name in a group.
type Named<'a> = (Option<&'a str>, Flow);

pub(super) fn description(text: &str) -> Result<Description, SdpError> {
    if text.len() > MAX_BYTES {
        return Err(SdpError::Length(text.len()));
    }
    // Some editors begin files with a byte order mark, and FFmpeg prints a title first.
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let text = text.strip_prefix("SDP:").unwrap_or(text).trim_start();
    let session = Session::parse(text.as_bytes()).map_err(|error| SdpError::Lines(error.to_string()))?;
    if session.medias.len() > MAX_SECTIONS {
        return Err(SdpError::Flows(session.medias.len()));
    }
    let (mut sections, mut skipped): (Vec<Named>, Vec<String>) = (Vec::new(), Vec::new());
    for media in &session.medias {
        let section = Section { session: &session, media };
        let failed = |reason| SdpError::Section { section: section.name(), reason };
        match section.flow().map_err(failed)? {
            Ok(flow) => sections.push((section.attribute("mid"), flow)),
            Err(why) => skipped.push(format!("{} ({why})", section.name())),
        }
    }
    let flows = grouped(&session, sections)?;
    let origin = &session.origin;
    if flows.len() > MAX_FLOWS {
        return Err(SdpError::Flows(flows.len()));
    }
    Ok(Description {
        name: Some(session.session_name.trim()).filter(|name| *name != "-").unwrap_or_default().to_owned(),
        session_id: origin.sess_id.parse().map_err(|_| SdpError::SessionId(origin.sess_id.clone()))?,
        version: origin.sess_version,
        origin: origin.unicast_address.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        flows,
        skipped,
    })
}

/// Joins the sections of each `a=group:DUP` (RFC 7104) into one flow, which stands where the first of them does.
fn grouped(session: &Session, mut sections: Vec<Named>) -> Result<Vec<Flow>, SdpError> {
    let known: Vec<&str> =
        session.medias.iter().filter_map(|media| value(&media.attributes, "mid")).collect();
    for group in session.attributes.iter().filter(|attribute| attribute.attribute == "group") {
        let mut words = group.value.iter().flat_map(|value| value.split_ascii_whitespace());
        if !words.next().is_some_and(|semantics| semantics.eq_ignore_ascii_case("DUP")) {
            continue;
        }
        let names: Vec<&str> = words.collect();
        if names.len() > 2 {
            return Err(SdpError::Paths(names.len()));
        }
        let [first, second] = names[..] else { continue };
        let find = |name: &str| {
            let at = sections.iter().position(|(mid, _)| *mid == Some(name));
            // A section that was skipped is known, and its partner stands alone.
            if at.is_none() && !known.contains(&name) { Err(SdpError::Mid(name.to_owned())) } else { Ok(at) }
        };
        let (Some(first_at), Some(second_at)) = (find(first)?, find(second)?) else { continue };
        if first_at == second_at {
            continue;
        }
        let (one, other) = (&sections[first_at].1, &sections[second_at].1);
        if one.media != other.media || one.payload_type != other.payload_type {
            return Err(SdpError::Differ(first.to_owned(), second.to_owned()));
        }
        let paths: Vec<Path> = one.paths.iter().chain(&other.paths).cloned().collect();
        if paths.len() > 2 {
            return Err(SdpError::Paths(paths.len()));
        }
        sections[first_at].1.paths = paths;
        sections[first_at.min(second_at)].1 = sections[first_at].1.clone();
        sections.remove(first_at.max(second_at));
    }
    Ok(sections.into_iter().map(|(_, flow)| flow).collect())
}

/// The first attribute of a name.
fn value<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a str> {
    values(attributes, name).next()
}

fn values<'a>(attributes: &'a [Attribute], name: &str) -> impl Iterator<Item = &'a str> {
    let found = attributes.iter().filter(move |attribute| attribute.attribute == name);
    found.filter_map(|attribute| attribute.value.as_deref()).map(str::trim)
}

/// How packets of a payload type are encoded.
struct Encoding {
    payload_type: u8,
    name: String,
    rate_hz: u32,
    channels: Option<String>,
}

struct Section<'a> {
    session: &'a Session,
    media: &'a sdp_types::Media,
}

impl<'a> Section<'a> {
    fn name(&self) -> String {
        format!("{} {}", self.media.media, self.media.port)
    }

    fn attribute(&self, name: &str) -> Option<&'a str> {
        value(&self.media.attributes, name)
    }

    /// An attribute that holds for all sections where it stands before the first one.
    fn inherited(&self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let own = values(&self.media.attributes, name);
        let has_own = self.attribute(name).is_some();
        let all = values(&self.session.attributes, name).filter(move |_| !has_own);
        own.chain(all)
    }

    /// The flow, or why the section is not taken.
    fn flow(&self) -> Result<Result<Flow, String>, SectionError> {
        let protocol = self.media.proto.as_str();
        if !matches!(protocol, "RTP/AVP" | "RTP/AVPF") {
            return Ok(Err(protocol.to_owned()));
        }
        if self.media.port == 0 {
            return Ok(Err("not sent".to_owned()));
        }
        let encodings: Vec<Encoding> = self.encodings().collect();
        let Some((encoding, media)) =
            encodings.iter().find_map(|encoding| Some((encoding, self.media(encoding)?)))
        else {
            let names: Vec<&str> = encodings.iter().map(|encoding| encoding.name.as_str()).collect();
            return Ok(Err(if names.is_empty() { "no a=rtpmap".to_owned() } else { names.join(", ") }));
        };
        let media = media?;
        let is_dup = |value: &str| value.split_ascii_whitespace().next() == Some("DUP");
        if values(&self.media.attributes, "ssrc-group").any(is_dup) {
            return Err(SectionError::SsrcGroup);
        }
        let mut clocks: Vec<ReferenceClock> =
            self.inherited("ts-refclk").map(ReferenceClock::parse).collect();
        // A sender may name several; that which others can share is worth most.
        let best = clocks.iter().position(ReferenceClock::is_ptp).unwrap_or(0);
        Ok(Ok(Flow {
            media,
            payload_type: encoding.payload_type,
            paths: vec![self.path()?],
            reference_clock: (!clocks.is_empty()).then(|| clocks.swap_remove(best)),
            media_clock: self.inherited("mediaclk").next().map(MediaClockSource::parse),
        }))
    }

    /// Those of the section's payload types that are known, in its order of preference.
    fn encodings(&self) -> impl Iterator<Item = Encoding> {
        self.media.fmt.split_ascii_whitespace().take(MAX_ENCODINGS).filter_map(|format| {
            let payload_type: u8 = format.parse().ok().filter(|number| *number < 128)?;
            let maps =
                values(&self.media.attributes, "rtpmap").filter_map(|value| value.parse::<RtpMap>().ok());
            let map = maps.into_iter().find(|map| map.payload_type == payload_type);
            let (name, rate_hz, channels) = match (map, payload_type) {
                (Some(map), _) => (map.encoding_name, map.clock_rate, map.encoding_params),
                // RFC 3551 §6: these need no a=rtpmap.
                (None, 10) => ("L16".to_owned(), 44_100, Some("2".to_owned())),
                (None, 11) => ("L16".to_owned(), 44_100, None),
                (None, _) => return None,
            };
            Some(Encoding { payload_type, name, rate_hz, channels })
        })
    }

    /// What is sent; `None` where it is of a kind that is not ours.
    fn media(&self, encoding: &Encoding) -> Option<Result<Media, SectionError>> {
        let is = |medium, name| self.media.media == medium && encoding.name.eq_ignore_ascii_case(name);
        let parameters = Parameters::new(self.parameters(encoding.payload_type));
        if is("video", "raw") {
            let rate = self.inherited("framerate").next();
            let video = || Ok(Media::Video(Video::parse(&parameters, rate)?));
            Some(ticks(encoding).and_then(|()| video()))
        } else if is("video", "smpte291") {
            let ancillary = || Ok(Media::Ancillary(Ancillary::parse(&parameters)?));
            Some(ticks(encoding).and_then(|()| ancillary()))
        } else if is("audio", "L16") || is("audio", "L24") {
            let bits = if is("audio", "L16") { 16 } else { 24 };
            let ptime = self.inherited("ptime").next();
            let channels = encoding.channels.as_deref();
            Some(Audio::parse((bits, encoding.rate_hz), channels, ptime, &parameters).map(Media::Audio))
        } else {
            None
        }
    }

    /// What stands behind the payload type in its `a=fmtp`.
    fn parameters(&self, payload_type: u8) -> &'a str {
        let mut all = values(&self.media.attributes, "fmtp").filter_map(|value| value.split_once(' '));
        let own = all.find(|(number, _)| number.parse() == Ok(payload_type));
        own.map_or("", |(_, parameters)| parameters)
    }

    fn path(&self) -> Result<Path, SectionError> {
        let connection = match &self.media.connections[..] {
            [] => self.session.connection.as_ref().ok_or(SectionError::Connection)?,
            [one] => one,
            [_, second, ..] => return Err(several(&second.connection_address)),
        };
        if self.media.num_ports.is_some_and(|count| count > 1) {
            return Err(several(&format!("{}/…", self.media.port)));
        }
        let (ip, ttl) = address(connection)?;
        Ok(Path { to: SocketAddr::new(ip, self.media.port), sources: self.sources(ip)?, ttl })
    }

    /// Whom `a=source-filter` lets send to `to`. Filters that shut out are not read: they would hold for nobody else's packets.
    fn sources(&self, to: IpAddr) -> Result<Vec<IpAddr>, SectionError> {
        let mut sources = Vec::new();
        for text in self.inherited("source-filter") {
            let refused =
                || SectionError::value("source-filter", text, "it is `incl IN IP4 TO FROM…`, in addresses");
            let filter: SourceFilter = text.parse().map_err(|_| refused())?;
            let is_meant = match filter.destination {
                SourceFilterDestination::Wildcard => true,
                SourceFilterDestination::Address(SourceFilterAddress::IpAddr(address)) => address == to,
                SourceFilterDestination::Address(SourceFilterAddress::FQDN(_)) => return Err(refused()),
            };
            if filter.mode != SourceFilterMode::Incl || !is_meant {
                continue;
            }
            for source in filter.sources {
                match source {
                    SourceFilterAddress::IpAddr(address) if address.is_ipv4() == to.is_ipv4() => {
                        sources.push(address);
                    }
                    _ => return Err(refused()),
                }
            }
        }
        Ok(sources)
    }
}

/// RFC 4175 §6.1 and RFC 8331 §4 know one clock rate.
fn ticks(encoding: &Encoding) -> Result<(), SectionError> {
    if encoding.rate_hz == 90_000 {
        return Ok(());
    }
    let value = format!("{}/{}", encoding.name, encoding.rate_hz);
    Err(SectionError::value("rtpmap", &value, "its clock has 90000 ticks a second"))
}

fn several(value: &str) -> SectionError {
    SectionError::value("c", value, "one address and port a section is, and `a=group:DUP` for a second path")
}

/// An address and its TTL.
fn address(connection: &Connection) -> Result<(IpAddr, Option<u8>), SectionError> {
    let text = connection.connection_address.as_str();
    let refused =
        || SectionError::value("c", text, "it is `IN IP4 ADDRESS/TTL` or `IN IP6 ADDRESS`, not a name");
    let address = connection.try_address().map_err(|_| refused())?;
    if address.count.is_some_and(|count| count > 1) {
        return Err(several(text));
    }
    let is_typed = match connection.addrtype {
        AddrType::Ip4 => address.ip.is_ipv4(),
        AddrType::Ip6 => address.ip.is_ipv6(),
        AddrType::Other(_) => false,
    };
    if is_typed { Ok((address.ip, address.ttl)) } else { Err(refused()) }
}
