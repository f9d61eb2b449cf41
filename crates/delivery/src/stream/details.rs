//! Reads what a video's own headers say, from the first packets of a unit, without keeping any more of it.

use glassline_media::Codec;
use glassline_media::bitstream::h264::{self, NalType};
use glassline_media::container::ts::{PACKET_BYTES, Packet, Program, Scan};
use glassline_media::{FrameRate, Size};
use serde::{Deserialize, Serialize};

/// What an H.264 sequence parameter set says to people and players.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VideoDetails {
    /// Width and height that are shown.
    pub size: Size,
    /// Pictures a second, where the stream says.
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
            self.pid = (stream.codec == Some(Codec::H264)).then_some(scan.pid);
            self.unit.clear();
        }
        if self.pid != Some(scan.pid) {
            return None;
        }
        self.unit.extend_from_slice(Packet::parse(packet).ok()?.payload);
        let details = read(&self.unit);
        if details.is_some() || self.unit.len() >= PROBE_BYTES {
            self.pid = None;
        }
        details
    }
}

/// The details, if a whole sequence parameter set lies in `unit`: one that another start code follows.
fn read(unit: &[u8]) -> Option<VideoDetails> {
    let mut nals = h264::nals(unit).peekable();
    while let Some(nal) = nals.next() {
        if nal.kind() == NalType::Sps && nals.peek().is_some() {
            let sps = h264::Sps::parse(nal.payload()).ok()?;
            let size = Size::new(sps.width_px, sps.height_px).ok()?;
            return Some(VideoDetails { size, frame_rate: sps.frame_rate, codec_string: sps.codec_string() });
        }
    }
    None
}
