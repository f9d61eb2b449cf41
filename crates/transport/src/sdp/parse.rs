//! Text to descriptions.

use super::error::{SdpError, SectionError};
use super::lines;
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

/// A section that is taken, its name in a group, and its name for people.
struct Named<'a> {
    mid: Option<&'a str>,
    name: String,
    flow: Flow,
}

pub(super) fn description(text: &str) -> Result<Description, SdpError> {
    if text.len() > MAX_BYTES {
        // It is a film, mostly: its length says nothing of what is wrong.
        let is_one = text.trim_start_matches('\u{feff}').trim_start().starts_with("v=");
        let other = || SdpError::Lines("it does not begin with v=0".into());
        return Err(if is_one { SdpError::Length(text.len()) } else { other() });
    }
    let mut notices = Vec::new();
    let lines = lines::usable(text, &mut notices);
    let session = Session::parse(lines.as_bytes()).map_err(|error| SdpError::Lines(error.to_string()))?;
    if session.medias.len() > MAX_SECTIONS {
        return Err(SdpError::Flows(session.medias.len()));
    }
    let (mut sections, mut skipped): (Vec<Named>, Vec<String>) = (Vec::new(), Vec::new());
    // Why sections are passed over that should be taken.
    let mut failures: Vec<SdpError> = Vec::new();
    for media in &session.medias {
        let section = Section { session: &session, media };
        let (name, mut told) = (section.name(), Vec::new());
        match section.flow(&mut told) {
            Ok(Ok(flow)) => {
                notices.extend(told.into_iter().map(|notice| format!("`m={name}`: {notice}")));
                sections.push(Named { mid: section.attribute("mid"), name, flow });
            }
            Ok(Err(why)) => skipped.push(format!("{name} ({why})")),
            Err(reason) => {
                notices.push(format!("`m={name}` is passed over: {reason}"));
                skipped.push(format!("{name} ({reason})"));
                failures.push(SdpError::Section { section: name, reason });
            }
        }
    }
    merge(&session, &mut sections, &mut notices, &mut |failure, names| {
        skipped.extend(names.map(|name| format!("{name} ({failure})")));
        failures.push(failure);
    });
    let flows: Vec<Flow> = sections.into_iter().map(|section| section.flow).collect();
    if flows.len() > MAX_FLOWS {
        return Err(SdpError::Flows(flows.len()));
    }
    // Where no flow is left, the first failure is the answer.
    if flows.is_empty()
        && let Some(failure) = failures.into_iter().next()
    {
        return Err(failure);
    }
    let origin = &session.origin;
    Ok(Description {
        name: Some(session.session_name.trim()).filter(|name| *name != "-").unwrap_or_default().to_owned(),
        session_id: origin.sess_id.parse().unwrap_or_default(),
        version: origin.sess_version,
        origin: origin.unicast_address.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        flows,
        skipped,
        notices,
    })
}

/// Joins the sections of each `a=group:DUP` (RFC 7104) into one flow, which stands where the first of them does. Sections that
/// cannot be the same packets are taken out, and `fail` is told why.
fn merge(
    session: &Session,
    sections: &mut Vec<Named>,
    notices: &mut Vec<String>,
    fail: &mut dyn FnMut(SdpError, std::array::IntoIter<String, 2>),
) {
    for group in session.attributes.iter().filter(|attribute| attribute.attribute == "group") {
        let mut words = group.value.iter().flat_map(|value| value.split_ascii_whitespace());
        if !words.next().is_some_and(|semantics| semantics.eq_ignore_ascii_case("DUP")) {
            continue;
        }
        let names: Vec<&str> = words.collect();
        let [first, second, more @ ..] = &names[..] else { continue };
        if first == second {
            continue;
        }
        if !more.is_empty() {
            let count = names.len();
            notices.push(format!(
                "`a=group:DUP` joins {count} sections: two paths at most are merged, `{first}` and `{second}`"
            ));
        }
        let find = |name: &str| sections.iter().position(|section| section.mid == Some(name));
        let (first_at, second_at) = match (find(first), find(second)) {
            (Some(one), Some(other)) => (one, other),
            (None, None) => continue,
            (one, _) => {
                let (there, missing) = if one.is_some() { (first, second) } else { (second, first) };
                notices.push(format!(
                    "`a=group:DUP` has one path: `{there}` is received by itself, since no section that is taken has \
                     `a=mid:{missing}`"
                ));
                continue;
            }
        };
        let (one, other) = (&sections[first_at].flow, &sections[second_at].flow);
        if one.payload_type != other.payload_type || !one.media.has_samples_of(&other.media) {
            let failure = SdpError::Differ((*first).to_owned(), (*second).to_owned());
            notices.push(format!("{failure}; both are passed over"));
            // The later one first, so that the other one's place stays.
            let later = sections.remove(first_at.max(second_at)).name;
            let earlier = sections.remove(first_at.min(second_at)).name;
            fail(failure, [earlier, later].into_iter());
            continue;
        }
        if one.paths.len().saturating_add(other.paths.len()) > 2 {
            notices.push(format!(
                "`a=group:DUP {first} {second}` is ignored: one of the two is of another group already"
            ));
            continue;
        }
        let paths: Vec<Path> = one.paths.iter().chain(&other.paths).cloned().collect();
        sections[first_at].flow.paths = paths;
        let place = first_at.min(second_at);
        sections[place].flow = sections[first_at].flow.clone();
        sections.remove(first_at.max(second_at));
    }
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
    fn flow(&self, notices: &mut Vec<String>) -> Result<Result<Flow, String>, SectionError> {
        let protocol = self.media.proto.as_str();
        if !matches!(protocol, "RTP/AVP" | "RTP/AVPF") {
            return Ok(Err(protocol.to_owned()));
        }
        if self.media.port == 0 {
            return Ok(Err("not sent".to_owned()));
        }
        let encodings: Vec<Encoding> = self.encodings().collect();
        let taken = encodings.iter().find_map(|encoding| Some((encoding, self.media(encoding, notices)?)));
        let Some((encoding, media)) = taken else {
            let names: Vec<&str> = encodings.iter().map(|encoding| encoding.name.as_str()).collect();
            return Ok(Err(if names.is_empty() { "no a=rtpmap".to_owned() } else { names.join(", ") }));
        };
        let media = media?;
        let is_dup = |value: &str| value.split_ascii_whitespace().next() == Some("DUP");
        // RFC 7104 §4.2. Nothing in an address tells the two streams apart, and a receiver keeps to one source.
        if values(&self.media.attributes, "ssrc-group").any(is_dup) {
            notices.push(
                "`a=ssrc-group:DUP` sends both paths to one address, and one of them is received; for two give each a \
                 section, and join them by `a=group:DUP`"
                    .to_owned(),
            );
        }
        if self.is_inactive() {
            let is_path = self.attribute("mid").is_some_and(|mid| self.is_in_group(mid));
            if is_path {
                return Ok(Err("inactive".to_owned()));
            }
            notices.push("`a=inactive` says that nothing is sent now".to_owned());
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

    fn is_inactive(&self) -> bool {
        self.media.attributes.iter().any(|attribute| attribute.attribute == "inactive")
    }

    /// Whether it is one of several paths.
    fn is_in_group(&self, mid: &str) -> bool {
        let groups = values(&self.session.attributes, "group");
        groups.map(str::split_ascii_whitespace).any(|mut words| {
            words.next().is_some_and(|semantics| semantics.eq_ignore_ascii_case("DUP"))
                && words.any(|name| name == mid)
        })
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
    fn media(&self, encoding: &Encoding, notices: &mut Vec<String>) -> Option<Result<Media, SectionError>> {
        let is = |medium, name| self.media.media == medium && encoding.name.eq_ignore_ascii_case(name);
        let text = self.parameters(encoding.payload_type);
        let parameters = if is("video", "raw") { Parameters::of_video(text) } else { Parameters::new(text) };
        if is("video", "raw") {
            let rate = self.inherited("framerate").next();
            let video = |()| Video::parse(&parameters, rate, notices).map(Media::Video);
            Some(ticks(encoding).and_then(video))
        } else if is("video", "smpte291") {
            let ancillary = |()| Media::Ancillary(Ancillary::parse(&parameters, notices));
            Some(ticks(encoding).map(ancillary))
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

    /// The addresses that `a=source-filter` lets send to `to`. Filters that exclude addresses are not read: they would
    /// only concern packets of those.
    fn sources(&self, to: IpAddr) -> Result<Vec<IpAddr>, SectionError> {
        let mut sources = Vec::new();
        for text in self.inherited("source-filter") {
            let refused =
                || SectionError::value("source-filter", text, "it is `incl IN IP4 TO FROM…`, in addresses");
            let filter: SourceFilter = without_ttl(text).parse().map_err(|_| refused())?;
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

/// A filter without the TTL that its destination may have behind it, as in `c=`.
fn without_ttl(filter: &str) -> String {
    let words = filter.split_ascii_whitespace().enumerate();
    // `incl IN IP4 DESTINATION SOURCE…`
    let words = words.map(|(at, word)| if at == 3 { word.split('/').next().unwrap_or(word) } else { word });
    words.collect::<Vec<_>>().join(" ")
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
