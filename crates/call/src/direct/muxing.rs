//! A stream of access units that are coded already, and of Opus beside them: what each says of itself, the muxer, the output.

use bytes::Bytes;
#[cfg(feature = "opus")]
use glassline_codec::audio::opus;
use glassline_direct::CodedFrame;
use glassline_direct::coded::ReceivedUnit;
use glassline_media::bitstream::{self, av1, h264};
use glassline_media::container::ts::Muxer;
use glassline_media::stamps::{Previous, Record};
use glassline_media::{AccessUnit, Codec, Stamps, Utc};
use glassline_studio::output::{Demand, Output, Packets};
use std::io;
use std::time::Duration;

/// In front of each OBU.
const START_CODE_BYTES: usize = 3;

/// A picture that is coded already.
#[derive(Clone)]
pub(super) struct CodedPicture {
    pub(super) codec: Codec,
    pub(super) key: bool,
    pub(super) data: Bytes,
    /// What it says of itself, where the stream says that: when it was captured, and on a clock that is zero then, what it has passed
    /// since.
    pub(super) said: Option<(Utc, Stamps)>,
}

impl CodedPicture {
    pub(super) fn of_unit(unit: &ReceivedUnit) -> CodedPicture {
        CodedPicture {
            codec: Codec::H264,
            key: unit.header.needs.is_none(),
            data: unit.data.clone(),
            said: None,
        }
    }

    /// `None`: it is no temporal unit of AV1.
    pub(super) fn of_frame(frame: &CodedFrame) -> Option<CodedPicture> {
        // Its key frames have their sequence header.
        let data = av1::to_unit(&frame.frame, &[])?;
        let header = &frame.header;
        let said = Some((header.captured, header.passed));
        Some(CodedPicture { codec: Codec::Av1, key: header.source.is_none(), data: data.into(), said })
    }
}

/// A stream of access units.
pub(super) struct Muxing {
    pub(super) video: Codec,
    pub(super) muxer: Muxer,
    pub(super) output: Box<dyn Output>,
    pub(super) packets: Vec<u8>,
    /// Pictures say in the stream when they were captured.
    pub(super) says_capture: bool,
    /// When the picture before was captured, and what it has passed, on a clock that is zero then.
    pub(super) previous: Option<(Utc, Stamps)>,
    #[cfg(feature = "opus")]
    pub(super) coder: Option<opus::Encoder>,
}

impl Muxing {
    pub(super) fn write(&mut self, unit: &AccessUnit) -> io::Result<Demand> {
        self.packets.clear();
        if unit.codec.is_video() {
            // Pictures that were not sent, or were lost, leave gaps.
            self.muxer.fill_up(unit.dts, &mut self.packets);
        }
        self.muxer.write(unit, &mut self.packets).map_err(io::Error::other)?;
        let joinable = unit.random_access && unit.codec.is_video();
        self.output.write(&Packets::whole(&self.packets, joinable)).map_err(io::Error::other)
    }

    /// The picture with a message in front of its first slice, or frame: when it was captured, and what its sender says of its way and
    /// of that of the picture before.
    pub(super) fn with_capture(&self, codec: Codec, data: &Bytes, captured: Utc, passed: Stamps) -> Bytes {
        let (_, slice) = bitstream::head(codec, data);
        let Some((head, slice)) =
            slice.and_then(|at| data.split_at_checked(at.saturating_sub(START_CODE_BYTES)))
        else {
            return data.clone();
        };
        let previous = self.previous.map(|(before, stages)| Previous {
            ago: Duration::from_nanos(captured.as_nanos().saturating_sub(before.as_nanos())),
            stages,
        });
        // How right the sender's clock is was not told.
        let record = Record { own: passed, previous, ..Record::default() };
        let mut unit = Vec::with_capacity(data.len() + 96);
        unit.extend_from_slice(head);
        let header = slice.get(START_CODE_BYTES..).unwrap_or_default();
        bitstream::write_user_message(codec, header, &h264::write_capture(captured, &record), &mut unit);
        unit.extend_from_slice(slice);
        unit.into()
    }
}
