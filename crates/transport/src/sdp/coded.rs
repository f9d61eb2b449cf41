//! Descriptions of coded media, as RTSP and files have them: sections with their encodings, read more loosely than those of
//! [`Description`](super::Description).
//!
//! Cameras leave out `v=`, `o=` or the address of `c=`, write parameters under another payload type than the section's, and
//! lines that no grammar knows. None of that says what the packets hold, so only `s=`, `m=`, `c=` and `a=` are read, each by
//! itself, and a line that is not understood is passed over.

use super::MAX_BYTES;
use super::error::SdpError;
use super::lines;
use super::parameters::Parameters;
use std::borrow::Cow;
use std::net::IpAddr;
use std::str::FromStr;

/// Sections of a description at most.
const MAX_SECTIONS: usize = 32;
/// Payload types of a section at most.
const MAX_ENCODINGS: usize = 16;
/// Lines of a description at most.
const MAX_LINES: usize = 2048;
/// Senders of a section's `a=source-filter` at most.
const MAX_SOURCES: usize = 16;

/// What a sender of coded media says about its tracks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodedDescription {
    /// The session's name; empty where it has none.
    pub name: String,
    /// `a=control` of the whole session.
    pub control: Option<String>,
    /// The sections, in their order.
    pub tracks: Vec<CodedTrack>,
}

/// A section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodedTrack {
    /// `video`, `audio`, `application`, … as it is written.
    pub medium: String,
    /// Where packets go, where the description says it; 0: that is agreed on elsewhere.
    pub port: u16,
    /// `RTP/AVP`, …
    pub protocol: String,
    /// What packets may hold, in the sender's order of preference.
    pub encodings: Vec<Encoding>,
    /// `a=control`.
    pub control: Option<String>,
    /// The address of `c=`, the section's own or the session's, where it is one.
    pub address: Option<IpAddr>,
    /// Routers that packets to a group may pass, as `c=` has it behind the address.
    pub ttl: Option<u8>,
    /// The port of reports, where `a=rtcp` says it (RFC 3605); else it is the one behind [`port`](Self::port).
    pub rtcp_port: Option<u16>,
    /// `a=rtcp-mux`: reports come to the port of the packets (RFC 5761).
    pub is_rtcp_muxed: bool,
    /// The addresses that may send here, as `a=source-filter: incl` of the section or of the session has them (RFC 4570);
    /// empty: any.
    pub sources: Vec<IpAddr>,
    /// Why the filter cannot be kept to: senders are named, and none of them by an address of the section's kind. Taking packets of any
    /// would be the contrary of what it says.
    pub refused_filter: Option<String>,
    /// What of the filters is not kept to, in sentences.
    pub filter_notices: Vec<String>,
    /// `a=inactive`: nothing is sent.
    pub is_inactive: bool,
    /// `a=recvonly` of a peer that describes a stream, as senders of sound back to a camera have it. Cameras write it on their
    /// own tracks too, so it is no reason to leave a track out.
    pub is_receive_only: bool,
    /// `a=sendonly`. In a description of an RTSP server it marks, beside a track that is [`is_receive_only`](Self::is_receive_only),
    /// the way back to a camera (ONVIF).
    pub is_send_only: bool,
}

/// How packets of a payload type are encoded (`a=rtpmap`, `a=fmtp`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// 7 bits.
    pub payload_type: u8,
    /// The encoding's name as it is written; names differ in their case.
    pub name: String,
    /// Ticks of the time stamps a second.
    pub clock_hz: u32,
    /// Channels, 1 where nothing is said.
    pub channels: u8,
    /// `name=value;…` as it is written.
    pub parameters: String,
}

impl Encoding {
    /// The value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        Parameters::new(&self.parameters).get(name)
    }

    /// Whether it has this name.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// What a payload type means that needs no `a=rtpmap` (RFC 3551 §6).
    fn of_payload_type(payload_type: u8) -> Option<Encoding> {
        let (name, clock_hz, channels) = match payload_type {
            0 => ("PCMU", 8_000, 1),
            8 => ("PCMA", 8_000, 1),
            9 => ("G722", 8_000, 1),
            10 => ("L16", 44_100, 2),
            11 => ("L16", 44_100, 1),
            14 => ("MPA", 90_000, 1),
            26 => ("JPEG", 90_000, 1),
            32 => ("MPV", 90_000, 1),
            33 => ("MP2T", 90_000, 1),
            _ => return None,
        };
        Some(Encoding { payload_type, name: name.to_owned(), clock_hz, channels, parameters: String::new() })
    }

    /// `PAYLOAD_TYPE NAME/CLOCK[/CHANNELS]`.
    fn of_map(text: &str) -> Option<Encoding> {
        let (payload_type, rest) = text.trim().split_once(char::is_whitespace)?;
        let mut parts = rest.trim().split('/');
        let name = parts.next().map(str::trim).filter(|name| !name.is_empty())?;
        let clock = parts.next().map(str::trim);
        let channels = parts.next().and_then(|text| text.trim().parse().ok());
        Some(Encoding {
            payload_type: payload_type.parse().ok().filter(|number| *number < 128)?,
            name: name.to_owned(),
            clock_hz: clock.and_then(|text| text.parse().ok()).filter(|rate| *rate > 0).unwrap_or(90_000),
            channels: channels.unwrap_or(1),
            parameters: String::new(),
        })
    }
}

/// A section while its lines come.
#[derive(Default)]
struct Section {
    track: CodedTrack,
    formats: Vec<u8>,
    maps: Vec<Encoding>,
    parameters: Vec<(u8, String)>,
    filters: Vec<String>,
    /// It has a line `c=` of its own.
    is_connected: bool,
}

/// What the whole session says of where packets go.
#[derive(Default)]
struct Connected {
    address: Option<IpAddr>,
    ttl: Option<u8>,
    filters: Vec<String>,
    /// `a=inactive`, which a section's own direction replaces.
    is_inactive: bool,
}

impl Connected {
    /// Gives a section the addresses that may send to its own.
    fn filter(&self, mut section: Section) -> Section {
        let filters = if section.filters.is_empty() { &self.filters } else { &section.filters };
        let (to, track) = (section.track.address, &mut section.track);
        let mut named = None;
        for filter in filters.iter().filter_map(|filter| Filter::of(filter)).filter(|it| it.concerns(to)) {
            if !filter.is_inclusive {
                track.filter_notices = vec![
                    "senders that a filter `excl` names are not refused: only filters `incl` are kept to"
                        .to_owned(),
                ];
                continue;
            }
            named.get_or_insert_with(|| filter.senders.join(" "));
            track.sources.extend(filter.addresses(to));
        }
        track.sources.truncate(MAX_SOURCES);
        if let Some(named) = named.filter(|_| track.sources.is_empty()) {
            let named: String = named.chars().take(60).collect();
            track.refused_filter = Some(format!(
                "its `a=source-filter` names no sender by an address that can be read: `{named}`"
            ));
        }
        section
    }
}

impl Section {
    /// `MEDIUM PORT[/COUNT] PROTOCOL FORMAT…`
    fn begin(value: &str, session: &Connected) -> Option<Section> {
        let mut words = value.split_ascii_whitespace();
        let medium = words.next()?.to_owned();
        let port = words.next()?.split('/').next()?.parse().ok()?;
        let protocol = words.next()?.to_owned();
        let formats = words.filter_map(|word| word.parse().ok().filter(|number| *number < 128));
        let formats = formats.take(MAX_ENCODINGS).collect();
        let Connected { address, ttl, is_inactive, .. } = *session;
        let track = CodedTrack { medium, port, protocol, address, ttl, is_inactive, ..CodedTrack::default() };
        Some(Section { track, formats, ..Section::default() })
    }

    fn attribute(&mut self, name: &str, value: &str) {
        match name {
            "control" if !value.is_empty() => self.track.control = Some(value.to_owned()),
            "inactive" => self.track.is_inactive = true,
            "recvonly" => (self.track.is_inactive, self.track.is_receive_only) = (false, true),
            "sendonly" => (self.track.is_inactive, self.track.is_send_only) = (false, true),
            "sendrecv" => self.track.is_inactive = false,
            "rtcp" => self.track.rtcp_port = value.split_ascii_whitespace().next().and_then(number),
            "rtcp-mux" => self.track.is_rtcp_muxed = true,
            "source-filter" => self.filters.push(value.to_owned()),
            "rtpmap" if self.maps.len() < MAX_ENCODINGS => self.maps.extend(Encoding::of_map(value)),
            "fmtp" if self.parameters.len() < MAX_ENCODINGS => {
                let (number, text) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
                let number = number.parse().unwrap_or(u8::MAX);
                self.parameters.push((number, text.trim().to_owned()));
            }
            _ => {}
        }
    }

    fn finish(mut self) -> CodedTrack {
        let only_one = self.formats.len() == 1 && self.parameters.len() == 1;
        for &format in &self.formats {
            let map = self.maps.iter().find(|map| map.payload_type == format).cloned();
            let Some(mut encoding) = map.or_else(|| Encoding::of_payload_type(format)) else { continue };
            let own = self.parameters.iter().find(|(number, _)| *number == format);
            // Some cameras write the parameters of their only payload type under another number.
            let own = own.or(self.parameters.first().filter(|_| only_one));
            encoding.parameters = own.map(|(_, text)| text.clone()).unwrap_or_default();
            self.track.encodings.push(encoding);
        }
        self.track
    }
}

impl CodedDescription {
    /// Reads a description: UTF-8, or Latin-1 as older devices have it.
    ///
    /// # Errors
    /// [`SdpError::Length`], [`SdpError::Flows`] where it has too many sections, [`SdpError::Lines`] where it has too many lines or
    /// no section at all.
    pub fn parse_bytes(bytes: &[u8]) -> Result<CodedDescription, SdpError> {
        if bytes.len() > MAX_BYTES {
            return Err(SdpError::Length(bytes.len()));
        }
        let text = lines::text(bytes);
        let mut description = CodedDescription::default();
        let mut section: Option<Section> = None;
        let mut session = Connected::default();
        for line in &unfolded(&text)? {
            let Some((field, value)) = line.split_once('=') else { continue };
            let value = value.trim();
            match (field.trim(), &mut section) {
                ("m", open) => {
                    description.tracks.extend(open.take().map(|it| session.filter(it).finish()));
                    if description.tracks.len() >= MAX_SECTIONS {
                        return Err(SdpError::Flows(description.tracks.len().saturating_add(1)));
                    }
                    // One that is not understood has no place for its lines: a section without encodings.
                    *open = Some(Section::begin(value, &session).unwrap_or_default());
                }
                ("s", None) => value.trim_matches('-').clone_into(&mut description.name),
                ("c", None) => (session.address, session.ttl) = connection(value),
                ("c", Some(section)) => {
                    // The first one of several: a receiver takes one address.
                    if let ((Some(address), ttl), false) = (connection(value), section.is_connected) {
                        (section.track.address, section.track.ttl) = (Some(address), ttl);
                        section.is_connected = true;
                    }
                }
                ("a", open) => {
                    let (name, value) = value.split_once(':').unwrap_or((value, ""));
                    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
                    match open {
                        Some(section) => section.attribute(&name, value),
                        None if name == "control" && !value.is_empty() => {
                            description.control = Some(value.to_owned());
                        }
                        None if name == "inactive" => session.is_inactive = true,
                        None if name == "source-filter" => session.filters.push(value.to_owned()),
                        None => {}
                    }
                }
                _ => {}
            }
        }
        description.tracks.extend(section.map(|it| session.filter(it).finish()));
        if description.tracks.is_empty() {
            return Err(SdpError::Lines("it has no section `m=`".into()));
        }
        Ok(description)
    }
}

/// The lines that are not empty. One that begins with a space and is no field goes on with the line before it: descriptions that
/// went through a mail or a form are wrapped so.
fn unfolded(text: &str) -> Result<Vec<Cow<'_, str>>, SdpError> {
    let mut lines: Vec<Cow<'_, str>> = Vec::new();
    for (count, line) in text.split(['\r', '\n']).filter(|line| !line.trim().is_empty()).enumerate() {
        if count >= MAX_LINES {
            return Err(SdpError::Lines(format!("it has more than {MAX_LINES} lines")));
        }
        let trimmed = line.trim();
        let is_field = matches!(trimmed.as_bytes(), [b'a'..=b'z', b'=', ..]);
        match lines.last_mut() {
            Some(last) if line.starts_with([' ', '\t']) && !is_field => {
                let last = last.to_mut();
                last.push(' ');
                last.push_str(trimmed);
            }
            _ => lines.push(Cow::Borrowed(trimmed)),
        }
    }
    Ok(lines)
}

/// Address and TTL of `IN IP4 ADDRESS[/TTL[/COUNT]]`. With IPv6 what stands behind the address is no TTL (RFC 8866 §5.7).
fn connection(value: &str) -> (Option<IpAddr>, Option<u8>) {
    let Some(address) = value.split_ascii_whitespace().nth(2) else { return (None, None) };
    let mut parts = address.split('/');
    let address: Option<IpAddr> = parts.next().and_then(|text| text.parse().ok());
    let is_ip4 = address.is_some_and(|address| address.is_ipv4());
    let ttl = parts.next().filter(|_| is_ip4).and_then(number).filter(|ttl| *ttl > 0);
    (address, ttl)
}

/// A filter of senders: `incl IN IP4 TO FROM…` or `excl …` (RFC 4570 §3).
struct Filter<'a> {
    is_inclusive: bool,
    /// Of which kind the destination is; `None`: that is not said.
    is_ip4: Option<bool>,
    /// The destination without what stands behind a slash; `None`: it has none.
    to: Option<&'a str>,
    senders: Vec<&'a str>,
}

impl Filter<'_> {
    /// `None` where it neither includes nor excludes.
    fn of(text: &str) -> Option<Filter<'_>> {
        let mut words = text.split_ascii_whitespace();
        let mode = words.next()?;
        let is_inclusive = mode.eq_ignore_ascii_case("incl");
        if !is_inclusive && !mode.eq_ignore_ascii_case("excl") {
            return None;
        }
        let is_ip4 = match words.nth(1) {
            Some(kind) if kind.eq_ignore_ascii_case("IP4") => Some(true),
            Some(kind) if kind.eq_ignore_ascii_case("IP6") => Some(false),
            _ => None,
        };
        let to = words.next().and_then(|word| word.split('/').next());
        Some(Filter { is_inclusive, is_ip4, to, senders: words.take(MAX_SOURCES).collect() })
    }

    /// Whether it concerns packets to `address`. A destination that cannot be compared is meant: taking too few packets is told, and
    /// taking a stranger's is not.
    fn concerns(&self, address: Option<IpAddr>) -> bool {
        let Some(address) = address else { return true };
        let of_kind = self.is_ip4.is_none_or(|is_ip4| is_ip4 == address.is_ipv4());
        let to = self.to.and_then(|word| word.parse::<IpAddr>().ok());
        of_kind && to.is_none_or(|to| to == address)
    }

    /// The senders that are addresses of the destination's kind.
    fn addresses(&self, to: Option<IpAddr>) -> impl Iterator<Item = IpAddr> {
        let addresses = self.senders.iter().filter_map(|word| word.parse::<IpAddr>().ok());
        addresses.filter(move |address| to.is_none_or(|to| address.is_ipv4() == to.is_ipv4()))
    }
}

/// A number of digits alone.
fn number<T: FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> CodedDescription {
        CodedDescription::parse_bytes(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_cameras_description_is_read() {
        let description = parse(
            "v=0\r\no=- 1001 1 IN IP4 192.0.2.7\r\ns=Camera\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\na=control:rtsp://192.0.2.7/s/\r\n\
             m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1; sprop-parameter-sets=Z0I=,aM4=\r\n\
             a=control:trackID=1\r\na=recvonly\r\nm=audio 0 RTP/AVP 0\r\na=control:trackID=2\r\n\
             m=application 0 RTP/AVP 107\r\na=rtpmap:107 vnd.onvif.metadata/90000\r\n",
        );
        assert_eq!(description.name, "Camera");
        assert_eq!(description.control.as_deref(), Some("rtsp://192.0.2.7/s/"));
        let [video, audio, data] = &description.tracks[..] else { panic!("{description:?}") };
        assert_eq!((video.medium.as_str(), video.control.as_deref()), ("video", Some("trackID=1")));
        let encoding = &video.encodings[0];
        assert!(encoding.is("h264") && encoding.payload_type == 96 && encoding.clock_hz == 90_000);
        assert_eq!(encoding.parameter("Sprop-Parameter-Sets"), Some("Z0I=,aM4="));
        assert!(video.is_receive_only && !video.is_send_only && !video.is_inactive);
        assert_eq!((audio.encodings[0].name.as_str(), audio.encodings[0].clock_hz), ("PCMU", 8_000));
        assert!(data.encodings[0].is("vnd.onvif.metadata"));
    }

    #[test]
    fn habits_of_cameras_are_read_as_they_are_meant() {
        // No version, origin or name; parameters under another number; an empty address; spaces; a line of no grammar.
        let description = parse(
            "c=IN\nm=video 0 RTP/AVP 104\nc=\na=rtpmap:104  MPEG4-GENERIC/16000\na=fmtp:97 config=1408;sizelength=13\n\
             hello\na=control:\nm=audio x RTP/AVP 0\na=rtpmap:0 nothing/0",
        );
        let [first, second] = &description.tracks[..] else { panic!("{description:?}") };
        assert_eq!(first.encodings[0].parameter("config"), Some("1408"));
        assert_eq!((first.control.as_deref(), first.address), (None, None));
        assert_eq!((second.medium.as_str(), second.encodings.len()), ("", 0));
        // Of two payload types the parameters of a third one belong to neither.
        let two = parse("m=audio 0 RTP/AVP 97 98\na=rtpmap:97 L16/48000/2\na=fmtp:99 a=b\n");
        assert_eq!((two.tracks[0].encodings.len(), two.tracks[0].encodings[0].parameters.as_str()), (1, ""));
        assert_eq!(two.tracks[0].encodings[0].channels, 2);
    }

    #[test]
    fn where_packets_and_reports_go_is_read_and_who_may_send_them() {
        let description = parse(
            "v=0\r\nc=IN IP4 239.1.2.3/16\r\na=source-filter: incl IN IP4 * 192.0.2.7 2001:db8::1\r\nm=video 5004 RTP/AVP 96\r\n\
             a=rtpmap:96 H264/90000\r\na=rtcp:5100 IN IP4 239.1.2.3\r\nm=audio 5006 RTP/AVP 97\r\nc=IN IP4 239.1.2.4/8/2\r\n\
             c=IN IP4 239.9.9.9/8\r\na=rtpmap:97 opus/48000/2\r\na=rtcp-mux\r\na=source-filter:incl IN IP4 239.1.2.4/8 192.0.2.8 192.0.2.9\r\n\
             m=audio 5008 RTP/AVP 98\r\nc=IN IP6 ff3e::1/3\r\na=source-filter: excl IN IP6 ff3e::1 2001:db8::1\r\na=rtcp:-5\r\n",
        );
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let [video, audio, other] = &description.tracks[..] else { panic!("{description:?}") };
        assert_eq!(
            (video.address, video.ttl, video.rtcp_port),
            (Some(ip("239.1.2.3")), Some(16), Some(5100))
        );
        assert_eq!(video.sources, [ip("192.0.2.7")]);
        assert_eq!((audio.address, audio.ttl, audio.is_rtcp_muxed), (Some(ip("239.1.2.4")), Some(8), true));
        assert_eq!(audio.sources, [ip("192.0.2.8"), ip("192.0.2.9")]);
        assert_eq!((other.address, other.ttl, other.rtcp_port), (Some(ip("ff3e::1")), None, None));
        assert!(other.sources.is_empty());
        let many = (0..99).map(|number| format!(" 192.0.2.{number}")).collect::<String>();
        let filter =
            format!("m=video 1 RTP/AVP 96\nc=IN IP4 192.0.2.1\na=source-filter: incl IN IP4 *{many}\n");
        assert_eq!(parse(&filter).tracks[0].sources.len(), MAX_SOURCES);
    }

    #[test]
    fn a_filter_that_cannot_be_kept_to_is_told_and_not_passed_over() {
        let section = |connection: &str, filters: &[&str]| {
            let filters: String = filters.iter().map(|it| format!("a=source-filter: {it}\n")).collect();
            let text = format!("{connection}m=video 5004 RTP/AVP 96\n{filters}a=rtpmap:96 H264/90000\n");
            parse(&text).tracks.remove(0)
        };
        let group = "c=IN IP4 239.1.2.3/9\n";
        for (connection, filter) in [
            (group, "incl IN IP4 239.1.2.3 encoder.example"),
            (group, "incl IN IP4 239.1.2.3 2001:db8::1"),
            (group, "incl IN IP4 group.example encoder.example"),
            (group, "incl IN IP4 *"),
            (group, "incl"),
            ("", "incl IN IP4 * encoder.example"),
            ("c=IN IP4 us.example\n", "incl IN IP4 us.example encoder.example"),
        ] {
            let track = section(connection, &[filter]);
            assert!(track.sources.is_empty() && track.refused_filter.is_some(), "{filter}: {track:?}");
        }
        // Without an address to compare with, the senders count all the same.
        let one: IpAddr = "192.0.2.7".parse().unwrap();
        for connection in ["", "c=IN IP4 us.example\n"] {
            let track = section(connection, &["incl IN IP4 us.example encoder.example 192.0.2.7"]);
            assert_eq!((track.sources, track.refused_filter), (vec![one], None));
        }
        // Another group's filter, and one of the other kind of addresses, are none of its own.
        let others = ["incl IN IP4 239.9.9.9 192.0.2.7", "incl IN IP6 * 2001:db8::1", "what IN IP4 * x"];
        let track = section(group, &others);
        assert!(
            track.sources.is_empty() && track.refused_filter.is_none() && track.filter_notices.is_empty()
        );
        let track = section(group, &["excl IN IP4 * 192.0.2.7"]);
        assert!(track.refused_filter.is_none() && track.filter_notices[0].contains("excl"), "{track:?}");
    }

    #[test]
    fn a_session_that_is_not_sent_is_what_its_sections_are_that_say_nothing_else() {
        let text = "a=inactive\nm=video 5004 RTP/AVP 96\nm=audio 5006 RTP/AVP 97\na=sendonly\nm=audio 5008 RTP/AVP 97\na=sendrecv\n";
        let inactive: Vec<bool> = parse(text).tracks.iter().map(|track| track.is_inactive).collect();
        assert_eq!(inactive, [true, false, false]);
    }

    #[test]
    fn a_line_that_was_wrapped_goes_on() {
        let description = parse(
            "m=video 5004 RTP/AVP 96\n  a=rtpmap:96 H264/90000\na=fmtp:96 packetization-mode=1;\n   sprop-parameter-sets=Z0I=,aM4=\n",
        );
        let encoding = &description.tracks[0].encodings[0];
        assert!(encoding.is("H264"));
        assert_eq!(encoding.parameter("sprop-parameter-sets"), Some("Z0I=,aM4="));
    }

    #[test]
    fn descriptions_without_end_are_refused() {
        let parse = |text: String| CodedDescription::parse_bytes(text.as_bytes());
        assert!(matches!(parse("a=x\n".repeat(40_000)), Err(SdpError::Length(_))));
        assert!(matches!(parse("a=x\n".repeat(3_000)), Err(SdpError::Lines(_))));
        assert!(matches!(parse("m=video 0 RTP/AVP 96\n".repeat(33)), Err(SdpError::Flows(33))));
        assert!(matches!(parse("v=0\n".to_owned()), Err(SdpError::Lines(_))));
        let formats = (0..127).map(|number| format!(" {number}")).collect::<String>();
        let many = format!("m=audio 0 RTP/AVP{formats}\n{}", "a=rtpmap:0 PCMU/8000\n".repeat(500));
        assert!(parse(many).unwrap().tracks[0].encodings.len() <= MAX_ENCODINGS);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = CodedDescription::parse_bytes(&bytes);
        }

        #[test]
        fn no_lines_panic(lines in prop::collection::vec("[smcav]=(control|fmtp|rtpmap|video|IN)?[ :0-9a-z/=;é]{0,20}", 0..40)) {
            if let Ok(description) = CodedDescription::parse_bytes(lines.join("\n").as_bytes()) {
                prop_assert!(description.tracks.len() <= MAX_SECTIONS);
            }
        }
    }
}
