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
use std::net::IpAddr;

/// Sections of a description at most.
const MAX_SECTIONS: usize = 32;
/// Payload types of a section at most.
const MAX_ENCODINGS: usize = 16;
/// Lines of a description at most.
const MAX_LINES: usize = 2048;

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
}

impl Section {
    /// `MEDIUM PORT[/COUNT] PROTOCOL FORMAT…`
    fn begin(value: &str, address: Option<IpAddr>) -> Option<Section> {
        let mut words = value.split_ascii_whitespace();
        let medium = words.next()?.to_owned();
        let port = words.next()?.split('/').next()?.parse().ok()?;
        let protocol = words.next()?.to_owned();
        let formats = words.filter_map(|word| word.parse().ok().filter(|number| *number < 128));
        let formats = formats.take(MAX_ENCODINGS).collect();
        let track = CodedTrack { medium, port, protocol, address, ..CodedTrack::default() };
        Some(Section { track, formats, ..Section::default() })
    }

    fn attribute(&mut self, name: &str, value: &str) {
        match name {
            "control" if !value.is_empty() => self.track.control = Some(value.to_owned()),
            "inactive" => self.track.is_inactive = true,
            "recvonly" => self.track.is_receive_only = true,
            "sendonly" => self.track.is_send_only = true,
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
        let mut address = None;
        for (number, line) in
            text.split(['\r', '\n']).map(str::trim).filter(|line| !line.is_empty()).enumerate()
        {
            if number >= MAX_LINES {
                return Err(SdpError::Lines(format!("it has more than {MAX_LINES} lines")));
            }
            let Some((field, value)) = line.split_once('=') else { continue };
            let value = value.trim();
            match (field.trim(), &mut section) {
                ("m", open) => {
                    description.tracks.extend(open.take().map(Section::finish));
                    if description.tracks.len() >= MAX_SECTIONS {
                        return Err(SdpError::Flows(description.tracks.len().saturating_add(1)));
                    }
                    // One that is not understood has no place for its lines: a section without encodings.
                    *open = Some(Section::begin(value, address).unwrap_or_default());
                }
                ("s", None) => value.trim_matches('-').clone_into(&mut description.name),
                ("c", None) => address = connection(value),
                ("c", Some(section)) => section.track.address = connection(value).or(section.track.address),
                ("a", open) => {
                    let (name, value) = value.split_once(':').unwrap_or((value, ""));
                    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
                    match open {
                        Some(section) => section.attribute(&name, value),
                        None if name == "control" && !value.is_empty() => {
                            description.control = Some(value.to_owned());
                        }
                        None => {}
                    }
                }
                _ => {}
            }
        }
        description.tracks.extend(section.map(Section::finish));
        if description.tracks.is_empty() {
            return Err(SdpError::Lines("it has no section `m=`".into()));
        }
        Ok(description)
    }
}

/// The address of `IN IP4 ADDRESS[/TTL]`.
fn connection(value: &str) -> Option<IpAddr> {
    let address = value.split_ascii_whitespace().nth(2)?;
    address.split('/').next()?.parse().ok()
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
