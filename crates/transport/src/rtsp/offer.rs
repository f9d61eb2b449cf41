//! What a server has to play: tracks by their first units, and the description of them.

use crate::rtp::coded::{Packetizer, PacketizerError};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use glassline_media::bitstream::aac_config::AudioSpecificConfig;
use glassline_media::bitstream::h264::nals;
use glassline_media::bitstream::program_config::ProgramConfig;
use glassline_media::bitstream::{adts, s302m};
use glassline_media::{AccessUnit, Codec};
use std::fmt::Write;

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
}

impl OfferedTrack {
    /// By a unit of it, of pictures one with parameter sets; `number` is its place among the tracks. `None` where the codec has no
    /// payload format here, or the unit does not say what a receiver has to know.
    pub fn of(unit: &AccessUnit, number: u8) -> Option<OfferedTrack> {
        let (clock_hz, map, parameters) = match unit.codec {
            Codec::H264 => {
                let sets = sets(&unit.data, |header| matches!(header & 0x1f, 7 | 8));
                let profile =
                    sets.first()?.get(1..4)?.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
                let all: Vec<String> = sets.iter().map(|set| BASE64_STANDARD.encode(set)).collect();
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
                (48_000, format!("L24/48000/{}", header.channels), String::new())
            }
            _ => return None,
        };
        let payload_type = FIRST_PAYLOAD_TYPE.checked_add(number).filter(|number| *number < 128)?;
        Some(OfferedTrack { codec: unit.codec, payload_type, clock_hz, map, parameters })
    }

    /// Its codec.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Ticks of its time stamps a second.
    pub fn clock_hz(&self) -> u32 {
        self.clock_hz
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
        Packetizer::new(self.codec, self.payload_type, ssrc, sequence, payload_bytes)
    }
}

/// The NAL units that are wanted, without their start codes.
fn sets(unit: &[u8], is_wanted: impl Fn(u8) -> bool) -> Vec<Vec<u8>> {
    let wanted = nals(unit).filter(|nal| nal.bytes.first().is_some_and(|header| is_wanted(*header)));
    wanted.map(|nal| nal.bytes.to_vec()).collect()
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

/// The description of tracks (RFC 8866). Their controls are `trackID=0` and on.
pub fn describe(name: &str, tracks: &[OfferedTrack]) -> String {
    let name: String = name.chars().filter(|letter| !letter.is_control()).take(80).collect();
    let mut text =
        format!("v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns={name}\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\na=control:*\r\n");
    for (number, track) in tracks.iter().enumerate() {
        let OfferedTrack { codec, payload_type, map, parameters, .. } = track;
        let medium = if codec.is_video() { "video" } else { "audio" };
        let _ = write!(text, "m={medium} 0 RTP/AVP {payload_type}\r\na=rtpmap:{payload_type} {map}\r\n");
        if !parameters.is_empty() {
            let _ = write!(text, "a=fmtp:{payload_type} {parameters}\r\n");
        }
        let _ = write!(text, "a=control:trackID={number}\r\n");
    }
    text
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
}
