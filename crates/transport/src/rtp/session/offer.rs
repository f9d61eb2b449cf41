//! What is sent: tracks by their first units, and the description of them, for clients of RTSP and for a file.

use crate::rtp::coded::{Packetizer, PacketizerError, SET_BYTES_MAX, SETS_MAX};
use crate::rtp::pcm::Depth;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use glassline_media::bitstream::aac_config::AudioSpecificConfig;
use glassline_media::bitstream::h264::nals;
use glassline_media::bitstream::program_config::ProgramConfig;
use glassline_media::bitstream::{adts, s302m};
use glassline_media::{AccessUnit, Codec};
use std::fmt::Write;
use std::net::IpAddr;

/// The first dynamic payload type (RFC 3551 §3).
const FIRST_PAYLOAD_TYPE: u8 = 96;

/// A track that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedTrack {
    codec: Codec,
    payload_type: u8,
    clock_hz: u32,
    /// `NAME/CLOCK[/CHANNELS]`.
    map: String,
    /// What `a=fmtp` says; empty: nothing.
    parameters: String,
    /// Of uncompressed samples.
    depth: Depth,
}

impl OfferedTrack {
    /// By a unit of it, of pictures one with parameter sets; `number` is its place among the tracks. `None` where the codec has no
    /// payload format here, or the unit does not say what a receiver has to know.
    pub fn of(unit: &AccessUnit, number: u8) -> Option<OfferedTrack> {
        let mut depth = Depth::L24;
        let (clock_hz, map, parameters) = match unit.codec {
            Codec::H264 => {
                let of = |kind: u8| sets(&unit.data, |header| header & 0x1f == kind);
                let (sequences, pictures) = (of(7), of(8));
                // A receiver needs both kinds, and a key frame may have one alone: that describes nothing.
                pictures.first()?;
                let profile = sequences.first()?.get(1..4)?;
                let profile: String = profile.iter().map(|byte| format!("{byte:02X}")).collect();
                let all = sequences.iter().chain(&pictures);
                let all: Vec<String> = all.map(|set| BASE64_STANDARD.encode(set)).collect();
                let text = format!(
                    "packetization-mode=1;profile-level-id={profile};sprop-parameter-sets={}",
                    all.join(",")
                );
                (90_000, "H264/90000".to_owned(), text)
            }
            Codec::H265 => {
                let of = |kind: u8| {
                    let sets = sets(&unit.data, |header| header >> 1 & 0x3f == kind);
                    let texts: Vec<String> = sets.iter().map(|set| BASE64_STANDARD.encode(set)).collect();
                    (!texts.is_empty()).then(|| texts.join(","))
                };
                let text = format!("sprop-vps={};sprop-sps={};sprop-pps={}", of(32)?, of(33)?, of(34)?);
                (90_000, "H265/90000".to_owned(), text)
            }
            Codec::Av1 => (90_000, "AV1/90000".to_owned(), String::new()),
            Codec::Aac => aac(&unit.data)?,
            Codec::Opus => (48_000, "opus/48000/2".to_owned(), "sprop-stereo=1".to_owned()),
            Codec::MpegAudio => (90_000, "MPA/90000".to_owned(), String::new()),
            Codec::S302m => {
                let header = s302m::Header::parse(&unit.data).ok()?;
                if header.depth == s302m::Depth::Bits16 {
                    depth = Depth::L16;
                }
                (48_000, format!("{}/48000/{}", depth.name(), header.channels), String::new())
            }
            _ => return None,
        };
        let payload_type = FIRST_PAYLOAD_TYPE.checked_add(number).filter(|number| *number < 128)?;
        Some(OfferedTrack { codec: unit.codec, payload_type, clock_hz, map, parameters, depth })
    }

    /// Its codec.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Ticks of its time stamps a second.
    pub fn clock_hz(&self) -> u32 {
        self.clock_hz
    }

    /// Whether packets of the other can follow those of this one: they differ in what `a=fmtp` says at most.
    pub fn has_packets_of(&self, other: &OfferedTrack) -> bool {
        let OfferedTrack { codec, payload_type, clock_hz, map, .. } = self;
        (codec, payload_type, clock_hz, map)
            == (&other.codec, &other.payload_type, &other.clock_hz, &other.map)
    }

    /// Packets of it with this sender, from the number `sequence` on.
    ///
    /// # Errors
    /// As [`Packetizer::new`] has them.
    pub fn packetizer(
        &self,
        ssrc: u32,
        sequence: u16,
        payload_bytes: usize,
    ) -> Result<Packetizer, PacketizerError> {
        let made = Packetizer::new(self.codec, self.payload_type, ssrc, sequence, payload_bytes);
        made.map(|packetizer| packetizer.with_depth(self.depth))
    }
}

/// The parameter sets that are wanted, without their start codes: each once, and as many and as large as receivers of RTP keep. A
/// publisher may put any number into a key frame, and all of it would stand in the description.
fn sets(unit: &[u8], is_wanted: impl Fn(u8) -> bool) -> Vec<&[u8]> {
    let wanted = nals(unit).map(|nal| nal.bytes);
    let mut sets: Vec<&[u8]> = Vec::new();
    for set in wanted.filter(|set| set.first().is_some_and(|header| is_wanted(*header))) {
        if sets.len() >= SETS_MAX {
            break;
        }
        if set.len() <= SET_BYTES_MAX && !sets.contains(&set) {
            sets.push(set);
        }
    }
    sets
}

fn aac(frame: &[u8]) -> Option<(u32, String, String)> {
    let header = adts::Header::parse(frame)?;
    let program = (header.channels == 0).then(|| ProgramConfig::of_frame(frame)).flatten();
    let config = AudioSpecificConfig::of(&header, program.map(|(program, _)| program))?;
    let digits: String = config.write()?.iter().map(|byte| format!("{byte:02X}")).collect();
    let map = format!("MPEG4-GENERIC/{}/{}", header.rate_hz, config.output_channels());
    let text = format!(
        "streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config={digits}"
    );
    Some((header.rate_hz, map, text))
}

/// The description of tracks for RTSP (RFC 8866). Their controls are `trackID=0` and on.
pub fn describe(name: &str, tracks: &[OfferedTrack]) -> String {
    let name = title(name);
    let mut text =
        format!("v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns={name}\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\na=control:*\r\n");
    for (number, track) in tracks.iter().enumerate() {
        section(track, 0, &mut text);
        let _ = write!(text, "a=control:trackID={number}\r\n");
    }
    text
}

/// Ports of sound above those of pictures: each track takes two, for packets and for reports (RFC 3550 §11).
pub const SOUND_PORT: u16 = 2;

/// Where packets of a session go that a file describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placing {
    /// What stays the same while the description changes.
    pub session_id: u64,
    /// Higher with each change.
    pub version: u64,
    /// The receiver, or the group.
    pub to: IpAddr,
    /// The port of pictures; that of sound is [`SOUND_PORT`] higher.
    pub port: u16,
    /// Routers that packets to a group may pass.
    pub ttl: u8,
    /// The address that they come from, where it is known: a group is joined for it alone.
    pub source: Option<IpAddr>,
}

/// The description of tracks for a file, by which receivers of the packets find and read them.
pub fn describe_placed(name: &str, tracks: &[OfferedTrack], placing: &Placing) -> String {
    let Placing { session_id, version, to, port, ttl, source } = placing;
    let kind = |ip: &IpAddr| if ip.is_ipv4() { "IP4" } else { "IP6" };
    // A host's own address is not always known, and receivers only compare it.
    let origin = source.unwrap_or(if to.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() });
    let name = title(name);
    let mut text = format!("v=0\r\no=- {session_id} {version} IN {} {origin}\r\ns={name}\r\n", kind(&origin));
    let _ = write!(text, "c=IN {} {to}", kind(to));
    if to.is_ipv4() && to.is_multicast() {
        let _ = write!(text, "/{ttl}");
    }
    text.push_str("\r\nt=0 0\r\n");
    if let Some(source) = source.filter(|_| to.is_multicast()) {
        let _ = write!(text, "a=source-filter: incl IN {} {to} {source}\r\n", kind(to));
    }
    for track in tracks {
        let above = if track.codec.is_video() { 0 } else { SOUND_PORT };
        section(track, port.saturating_add(above), &mut text);
    }
    text
}

/// A name for `s=`, which must not be empty.
fn title(name: &str) -> String {
    let name: String = name.chars().filter(|letter| !letter.is_control()).take(80).collect();
    if name.is_empty() { "-".to_owned() } else { name }
}

fn section(track: &OfferedTrack, port: u16, text: &mut String) {
    let OfferedTrack { codec, payload_type, map, parameters, .. } = track;
    let medium = if codec.is_video() { "video" } else { "audio" };
    let _ = write!(text, "m={medium} {port} RTP/AVP {payload_type}\r\na=rtpmap:{payload_type} {map}\r\n");
    if !parameters.is_empty() {
        let _ = write!(text, "a=fmtp:{payload_type} {parameters}\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtp::coded::Format;
    use crate::sdp::CodedDescription;
    use bytes::Bytes;
    use glassline_media::{Stamps, Ticks};

    fn unit(codec: Codec, data: &[u8]) -> AccessUnit {
        let (data, stamps) = (Bytes::copy_from_slice(data), Stamps::default());
        AccessUnit { codec, data, pts: Ticks(0), dts: Ticks(0), random_access: true, stamps }
    }

    #[test]
    fn what_is_described_is_read_as_what_it_is() {
        let mut lpcm = Vec::new();
        s302m::write(&[0.0; 8], 4, s302m::Depth::Bits24, 0, &mut lpcm).unwrap();
        let aac = [0xff, 0xf1, 0x4c, 0x80, 0x01, 0x1f, 0xfc, 9];
        for (codec, data) in [
            (Codec::H264, &[0, 0, 0, 1, 0x67, 0x42, 0, 0x1f, 0, 0, 1, 0x68, 0xce, 0, 0, 1, 0x65, 0x88][..]),
            (
                Codec::H265,
                &[0, 0, 1, 0x40, 1, 9, 0, 0, 1, 0x42, 1, 9, 0, 0, 1, 0x44, 1, 9, 0, 0, 1, 0x26, 1, 0xaf],
            ),
            (Codec::Av1, &[]),
            (Codec::Aac, &aac),
            (Codec::Opus, &[]),
            (Codec::MpegAudio, &[]),
            (Codec::S302m, &lpcm),
        ] {
            let track = OfferedTrack::of(&unit(codec, data), 1).unwrap();
            let text = describe("hall", std::slice::from_ref(&track));
            let description = CodedDescription::parse_bytes(text.as_bytes()).unwrap();
            let encoding = &description.tracks[0].encodings[0];
            let format = Format::of(encoding).unwrap();
            assert_eq!((format.codec(), format.clock_hz()), (codec, track.clock_hz()), "{text}");
            assert_eq!(
                (description.tracks[0].control.as_deref(), encoding.payload_type),
                (Some("trackID=0"), 97)
            );
        }
        assert_eq!(OfferedTrack::of(&unit(Codec::Ac3, &[]), 0), None);
        assert_eq!(
            OfferedTrack::of(&unit(Codec::H264, &[0, 0, 1, 0x65]), 0),
            None,
            "it has no parameter sets"
        );
    }

    #[test]
    fn uncompressed_sound_keeps_its_depth() {
        for (depth, name, sample) in [
            (s302m::Depth::Bits16, "L16/48000/2", &[0x40, 0][..]),
            (s302m::Depth::Bits20, "L24/48000/2", &[0x40, 0, 0]),
            (s302m::Depth::Bits24, "L24/48000/2", &[0x40, 0, 0]),
        ] {
            let mut data = Vec::new();
            s302m::write(&[0.5; 4], 2, depth, 0, &mut data).unwrap();
            let unit = unit(Codec::S302m, &data);
            let track = OfferedTrack::of(&unit, 0).unwrap();
            assert_eq!(track.map, name);
            let mut packets = Vec::new();
            let mut packetizer = track.packetizer(1, 1, 1000).unwrap();
            packetizer.packetize(&unit, 0, &mut |packet| packets.push(packet[12..].to_vec()));
            assert_eq!(packets, [sample.repeat(4)], "{name}");
        }
    }

    #[test]
    fn a_key_frame_with_one_kind_of_parameter_sets_describes_nothing() {
        let (sps, pps, key) =
            ([0, 0, 1, 0x67, 0x42, 0xc0, 0x1f], [0, 0, 1, 0x68, 0xce], [0, 0, 1, 0x65, 0x88]);
        let of = |parts: &[&[u8]]| OfferedTrack::of(&unit(Codec::H264, &parts.concat()), 0);
        assert_eq!((of(&[&pps, &key]), of(&[&sps, &key])), (None, None));
        // Whichever comes first, the profile is the sequence parameter set's.
        let (first, last) = (of(&[&sps, &pps, &key]).unwrap(), of(&[&pps, &sps, &key]).unwrap());
        assert_eq!(first, last);
        assert!(first.parameters.contains("profile-level-id=42C01F;"), "{}", first.parameters);
    }

    #[test]
    fn descriptions_are_bounded_whatever_a_publisher_puts_into_a_key_frame() {
        for (codec, heads) in [
            (Codec::H264, &[&[0x67u8][..], &[0x68]][..]),
            (Codec::H265, &[&[0x40, 1], &[0x42, 1], &[0x44, 1]]),
        ] {
            let mut data = Vec::new();
            for number in 0..200u8 {
                for head in heads {
                    let body = [number | 1, 0x55].repeat(1000);
                    data.extend([&[0, 0, 1], *head, &body].concat());
                    data.extend([&[0, 0, 1], *head, &[0x77].repeat(5000)].concat());
                }
            }
            data.extend([0, 0, 1, if codec == Codec::H264 { 0x65 } else { 0x26 }, 1, 0xaf]);
            let track = OfferedTrack::of(&unit(codec, &data), 0).unwrap();
            let sets = SETS_MAX * heads.len();
            assert!(track.parameters.len() < sets * 2700 + 200, "{}", track.parameters.len());
            let counted = track.parameters.matches(',').count() + if codec == Codec::H264 { 1 } else { 3 };
            assert_eq!(counted, sets);
        }
        let (sps, pps) = ([0, 0, 1, 0x67, 0x42, 0xc0, 0x1f], [0, 0, 1, 0x68, 0xce]);
        let doubled = unit(Codec::H264, &[&sps[..], &sps, &pps, &pps, &[0, 0, 1, 0x65, 0x88]].concat());
        let once = unit(Codec::H264, &[&sps[..], &pps, &[0, 0, 1, 0x65, 0x88]].concat());
        assert_eq!(OfferedTrack::of(&doubled, 0), OfferedTrack::of(&once, 0));
    }

    #[test]
    fn a_description_in_a_file_says_where_packets_go() {
        let picture = unit(Codec::H264, &[0, 0, 1, 0x67, 0x42, 0, 0x1f, 0, 0, 1, 0x68, 0xce, 0, 0, 1, 0x65]);
        let tracks = [
            OfferedTrack::of(&picture, 0).unwrap(),
            OfferedTrack::of(&unit(Codec::Opus, &[8, 1]), 1).unwrap(),
        ];
        let mut placing = Placing {
            session_id: 7,
            version: 2,
            to: "239.1.2.3".parse().unwrap(),
            port: 5004,
            ttl: 4,
            source: Some("192.0.2.7".parse().unwrap()),
        };
        let text = describe_placed("hall\r\nm=x", &tracks, &placing);
        assert!(
            text.starts_with(
                "v=0\r\no=- 7 2 IN IP4 192.0.2.7\r\ns=hallm=x\r\nc=IN IP4 239.1.2.3/4\r\nt=0 0\r\n"
            ),
            "{text}"
        );
        let read = CodedDescription::parse_bytes(text.as_bytes()).unwrap();
        let ports: Vec<(u16, u8)> =
            read.tracks.iter().map(|track| (track.port, track.encodings[0].payload_type)).collect();
        assert_eq!(ports, [(5004, 96), (5006, 97)]);
        assert!(read.tracks.iter().all(|track| track.sources == [placing.source.unwrap()]));
        (placing.to, placing.source) = ("ff3e::1".parse().unwrap(), None);
        let text = describe_placed("", &tracks[1..], &placing);
        assert!(
            text.contains("IN IP6 ::\r\ns=-\r\nc=IN IP6 ff3e::1\r\n") && text.contains("m=audio 5006 "),
            "{text}"
        );
    }
}
