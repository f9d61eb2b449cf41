//! Reads what a video's own headers say, from the first packets of a unit, without keeping any more of it.

use glassline_media::Codec;
use glassline_media::bitstream::h264::{self, NalType};
use glassline_media::bitstream::{av1, h265};
use glassline_media::container::ts::{PACKET_BYTES, Packet, Program, Scan};
use glassline_media::{FrameRate, Size};
use serde::{Deserialize, Serialize};

/// What a sequence parameter set of H.264 or H.265, or a sequence header of AV1, says to people and players.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VideoDetails {
    /// Width and height that are shown.
    pub size: Size,
    /// Pictures a second, where the stream says so and it can be.
    pub frame_rate: Option<FrameRate>,
    /// RFC 6381 name, as browsers ask for it: `avc1.42C01F`.
    pub codec_string: String,
}

/// Bytes from a unit's start in which the parameter sets must stand; they come first in a key frame.
const PROBE_BYTES: usize = 1024;

/// Gathers the beginning of each video unit until its parameter sets are read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct DetailsProbe {
    #[serde(with = "serde_bytes")]
    unit: Vec<u8>,
    pid: Option<u16>,
    #[serde(default)]
    codec: Option<Codec>,
}

impl DetailsProbe {
    /// Looks at a packet. Gives the details once for each unit that brings parameter sets.
    pub(super) fn look(
        &mut self,
        scan: &Scan,
        packet: &[u8; PACKET_BYTES],
        program: Option<&Program>,
    ) -> Option<VideoDetails> {
        if scan.video_unit_start {
            let stream = program?.streams.iter().find(|stream| stream.pid == scan.pid)?;
            let is_read = matches!(stream.codec, Some(Codec::H264 | Codec::H265 | Codec::Av1));
            self.pid = is_read.then_some(scan.pid);
            self.codec = stream.codec;
            self.unit.clear();
        }
        if self.pid != Some(scan.pid) {
            return None;
        }
        self.unit.extend_from_slice(Packet::parse(packet).ok()?.payload);
        let details = read(&self.unit, self.codec?);
        if details.is_some() || self.unit.len() >= PROBE_BYTES {
            self.pid = None;
        }
        details
    }
}

/// The details, if a whole sequence parameter set or sequence header lies in `unit`: one that another start code follows.
fn read(unit: &[u8], codec: Codec) -> Option<VideoDetails> {
    let details = |width_px, height_px, stated, codec_string| {
        let size = Size::new(width_px, height_px).ok()?;
        Some(VideoDetails { size, frame_rate: FrameRate::believed(stated, None), codec_string })
    };
    let mut nals = h264::nals(unit).peekable();
    while let Some(nal) = nals.next() {
        if nals.peek().is_none() {
            break;
        }
        match codec {
            Codec::Av1 if av1::ObuType::of(nal.bytes[0]) == av1::ObuType::SequenceHeader => {
                let header = av1::Head::of(unit).parse_sequence()?;
                let name = header.codec_string();
                return details(header.width_px, header.height_px, header.frame_rate, name);
            }
            Codec::H265 if h265::NalType::of(nal.bytes[0]) == h265::NalType::Sps => {
                let sps = h265::Sps::parse(nal.bytes).ok()?;
                return details(sps.width_px, sps.height_px, sps.frame_rate, sps.codec_string());
            }
            Codec::H264 if nal.kind() == NalType::Sps => {
                let sps = h264::Sps::parse(nal.payload()).ok()?;
                return details(sps.width_px, sps.height_px, sps.frame_rate, sps.codec_string());
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use glassline_media::bitstream::h265::ACCESS_UNIT_DELIMITER;
    use glassline_media::container::ts::{MuxSettings, Muxer, Scanner};
    use glassline_media::{AccessUnit, Stamps, Ticks};

    /// x265, 636×358, 30000/1001 pictures a second.
    const SPS: &[u8] = &[
        0x42, 0x01, 0x01, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00,
        0x3f, 0xa0, 0x05, 0x02, 0x01, 0x71, 0xdc, 0xd9, 0x65, 0x65, 0x4a, 0x4e, 0x17, 0x87, 0x35, 0x01, 0x01,
        0x01, 0x04, 0x00, 0x00, 0x0f, 0xa4, 0x00, 0x01, 0xd4, 0xc0, 0x20,
    ];

    #[test]
    fn a_stream_of_h265_says_what_it_is() {
        let mut data = ACCESS_UNIT_DELIMITER.to_vec();
        let nals = [&[0x40, 0x01, 0x0c][..], SPS, &[0x44, 0x01, 0xc1], &[0x26, 0x01, 0xaf, 7, 7, 7]];
        for nal in nals {
            data.extend_from_slice(&[0, 0, 0, 1]);
            data.extend_from_slice(nal);
        }
        let unit = AccessUnit {
            codec: Codec::H265,
            data: Bytes::from(data),
            pts: Ticks(0),
            dts: Ticks(0),
            random_access: true,
            stamps: Stamps::default(),
        };
        let settings = MuxSettings { video: Some(Codec::H265), ..MuxSettings::default() };
        let (mut muxer, mut packets) = (Muxer::new(settings).unwrap(), Vec::new());
        muxer.write(&unit, &mut packets).unwrap();
        let (mut scanner, mut probe, mut found) = (Scanner::new(), DetailsProbe::default(), None);
        for packet in packets.as_chunks::<PACKET_BYTES>().0 {
            let scan = scanner.scan(packet);
            found = probe.look(&scan, packet, scanner.program()).or(found);
        }
        let found = found.unwrap();
        assert_eq!(
            (found.size.to_string().as_str(), found.codec_string.as_str()),
            ("636x358", "hvc1.1.6.L63.90")
        );
        assert_eq!(found.frame_rate, FrameRate::new(30_000, 1001));
    }
}
