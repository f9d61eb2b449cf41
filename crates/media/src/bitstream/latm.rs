//! AAC in LATM with LOAS in front (ISO/IEC 14496-3 §1.7), as DVB and ISDB carry it (stream type 0x11), and without, as RTP does
//! (RFC 6416): frames come out as ADTS, like all other AAC here.
//!
//! ```text
//! 2b7:11 length:13 │ same:1 [StreamMuxConfig] │ lengths: ff… + 1 byte each │ frames, not aligned to bytes │ …
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::aac_config::{AudioSpecificConfig, HeAac};
use super::adts;
use super::h264::BitReader;

/// Bytes that tell how long an element is.
pub const HEADER_BYTES: usize = 3;

/// Bytes of the element at the beginning of `bytes`, header included; `None` where none begins there.
pub fn element_bytes(bytes: &[u8]) -> Option<usize> {
    let &[a, b, c] = bytes.first_chunk::<HEADER_BYTES>()?;
    let length = usize::from(u16::from_be_bytes([b & 0x1f, c]));
    (a == 0x56 && b & 0xe0 == 0xe0).then(|| HEADER_BYTES.saturating_add(length))
}

/// A frame of AAC as ADTS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its header.
    pub header: adts::Header,
    /// The frame with its header.
    pub data: Vec<u8>,
}

/// What the stream says of its frames, which it need not repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Config {
    object_type: u8,
    rate_hz: u32,
    channels: u8,
    he_aac: Option<HeAac>,
    /// Frames in an element.
    frames: u32,
}

/// Reads the elements of one stream. Keeps their configuration.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    config: Option<Config>,
}

impl Reader {
    /// A reader before the first element.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// That the frames are HE-AAC, where the configuration says it: their headers do not.
    pub fn he_aac(&self) -> Option<HeAac> {
        self.config.and_then(|config| config.he_aac)
    }

    /// Takes a `StreamMuxConfig` that came beside the stream. `None` where it says something that ADTS does not carry.
    pub fn configure(&mut self, config: &[u8]) -> Option<()> {
        self.config = Some(read_config(&mut BitReader::new(config))?);
        Some(())
    }

    /// Rate of the frames, samples a second, and their channels as `channel_configuration`, where a configuration has come.
    pub fn frame_format(&self) -> Option<(u32, u8)> {
        self.config.map(|config| (config.rate_hz, config.channels))
    }

    /// Takes elements one behind the other without LOAS, and appends their frames; each has the bit and the configuration in front
    /// that LOAS has where `is_configured`, else they are those of [`Reader::configure`] (RFC 6416 §5.1). `None` where one is cut
    /// off, or there is no configuration.
    pub fn read_payload(
        &mut self,
        elements: &[u8],
        is_configured: bool,
        frames: &mut Vec<Frame>,
    ) -> Option<()> {
        let mut bits = BitReader::new(elements);
        while bits.left_bits() > 0 {
            if is_configured {
                self.read_element(&mut bits, frames)?;
            } else {
                self.read_frames(&mut bits, frames)?;
            }
            // Each element ends at a byte.
            bits.bits(u32::try_from(bits.left_bits() % 8).ok()?)?;
        }
        Some(())
    }

    /// Takes an element of [`element_bytes`] and appends its frames. Of several programs or layers, other lengths of frames than
    /// 1,024 samples, and channels that no `channel_configuration` names, which ADTS does not carry, nothing is given.
    pub fn read(&mut self, element: &[u8], frames: &mut Vec<Frame>) {
        let mut bits = BitReader::new(element.get(HEADER_BYTES..).unwrap_or_default());
        let _ = self.read_element(&mut bits, frames);
    }

    fn read_element(&mut self, bits: &mut BitReader<'_>, frames: &mut Vec<Frame>) -> Option<()> {
        if !bits.bit()? {
            self.config = read_config(bits);
        }
        self.read_frames(bits, frames)
    }

    fn read_frames(&self, bits: &mut BitReader<'_>, frames: &mut Vec<Frame>) -> Option<()> {
        let Config { object_type, rate_hz, channels, frames: count, .. } = self.config?;
        for _ in 0..count {
            let mut length = 0usize;
            loop {
                let part = bits.bits(8)?;
                length = length.saturating_add(usize::try_from(part).ok()?);
                if part < 255 {
                    break;
                }
            }
            if length == 0 || length.saturating_mul(8) > bits.left_bits() {
                return None;
            }
            let frame_bytes = length.saturating_add(adts::HEADER_BYTES);
            let header =
                adts::Header { object_type, rate_hz, channels, checksum: false, frame_bytes, blocks: 1 };
            let mut data = Vec::with_capacity(frame_bytes);
            data.extend_from_slice(&header.write()?);
            for _ in 0..length {
                data.push(u8::try_from(bits.bits(8)?).ok()?);
            }
            frames.push(Frame { header, data });
        }
        Some(())
    }
}

/// Reads a `StreamMuxConfig` (table 1.42) of one program with one layer, and with frames that say how long they are.
fn read_config(bits: &mut BitReader<'_>) -> Option<Config> {
    let version = bits.bit()?;
    if version && bits.bit()? {
        return None;
    }
    if version {
        read_value(bits)?;
    }
    let same_timing = bits.bit()?;
    let frames = bits.bits(6)?.saturating_add(1);
    let (programs, layers) = (bits.bits(4)?, bits.bits(3)?);
    if !same_timing || programs > 0 || layers > 0 {
        return None;
    }
    let specific = if version {
        let length = usize::try_from(read_value(bits)?).ok()?;
        let end = bits.left_bits().checked_sub(length)?;
        let specific = read_specific(bits, Some(end))?;
        while bits.left_bits() > end {
            bits.bit()?;
        }
        (bits.left_bits() == end).then_some(specific)?
    } else {
        read_specific(bits, None)?
    };
    // Of a frame's length, and how full the buffer is.
    if bits.bits(3)? != 0 {
        return None;
    }
    bits.bits(8)?;
    if bits.bit()? {
        if version {
            read_value(bits)?;
        } else {
            while bits.bit()? {
                bits.bits(8)?;
            }
            bits.bits(8)?;
        }
    }
    if bits.bit()? {
        bits.bits(8)?;
    }
    let AudioSpecificConfig { object_type, rate_hz, channels, he_aac, .. } = specific;
    Some(Config { object_type, rate_hz, channels, he_aac, frames })
}

/// `LatmGetValue`.
fn read_value(bits: &mut BitReader<'_>) -> Option<u32> {
    let bytes = bits.bits(2)?.saturating_add(1);
    bits.bits(bytes.saturating_mul(8))
}

/// [`AudioSpecificConfig`] of what ADTS can say. Where its length is not told, it ends where it says.
fn read_specific(bits: &mut BitReader<'_>, end_bits: Option<usize>) -> Option<AudioSpecificConfig> {
    AudioSpecificConfig::parse(bits, end_bits).filter(|specific| specific.program.is_none())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// FFmpeg's first bytes of an element with a configuration: 48 kHz, one channel.
    const HEAD: [u8; 9] = [0x56, 0xe0, 0xc7, 0x20, 0x00, 0x11, 0x88, 0x1f, 0xe6];

    #[test]
    fn an_element_is_read() {
        assert_eq!(element_bytes(&HEAD), Some(202));
        assert_eq!(element_bytes(&HEAD[1..]), None);
        assert_eq!(element(&[7; 190], true)[3..8], HEAD[3..8]);
        let mut out = Vec::new();
        let mut reader = Reader::new();
        reader.read(&element(&[1, 2, 3, 0xff, 5, 6, 7], true), &mut out);
        reader.read(&element(&[9], false), &mut out);
        let header = out[0].header;
        assert_eq!(
            (header.object_type, header.rate_hz, header.channels, header.frame_bytes),
            (2, 48_000, 1, 14)
        );
        assert_eq!(out[0].data[7..], [1, 2, 3, 0xff, 5, 6, 7]);
        assert_eq!((out.len(), &out[1].data[7..]), (2, &[9][..]));
        // Without a configuration nothing is known.
        let mut none = Vec::new();
        Reader::new().read(&element(&[9], false), &mut none);
        assert_eq!(none, []);
    }

    #[test]
    fn he_aac_is_said_by_the_configuration() {
        let said = |parametric_stereo| Some(HeAac { parametric_stereo, rate_max_hz: 48_000 });
        let lc = [(2, 5), (6, 4), (2, 4), (0, 3)];
        for (version, specific, he_aac) in [
            (false, &lc[..], None),
            (false, &[(5, 5), (6, 4), (2, 4), (3, 4), (2, 5), (0, 3)], said(false)),
            (false, &[(29, 5), (6, 4), (1, 4), (3, 4), (2, 5), (0, 3)], said(true)),
            // Behind AAC-LC, where the length is told.
            (true, &[&lc[..], &[(0x2b7, 11), (5, 5), (1, 1), (3, 4)]].concat(), said(false)),
            (true, &[&lc[..], &[(0x2b7, 11), (5, 5), (0, 1), (0, 3)]].concat(), None),
        ] {
            let (mut reader, mut out) = (Reader::new(), Vec::new());
            reader.read(&configured(&[1, 2, 3], Some((version, specific))), &mut out);
            assert_eq!((reader.he_aac(), out.len()), (he_aac, 1), "{specific:?}");
            assert_eq!(
                (out[0].header.object_type, out[0].header.rate_hz, &out[0].data[7..]),
                (2, 24_000, &[1, 2, 3][..])
            );
        }
    }

    /// An element as FFmpeg writes it: AAC-LC, 48 kHz, one channel.
    pub(crate) fn element(frame: &[u8], is_configured: bool) -> Vec<u8> {
        configured(frame, is_configured.then_some((false, &[(2, 5), (3, 4), (1, 4), (0, 3)])))
    }

    /// An element with this configuration: whether its length is told, and values with their bits.
    pub(crate) fn configured(frame: &[u8], config: Option<(bool, &[(usize, u32)])>) -> Vec<u8> {
        let mut bits: Vec<bool> = Vec::new();
        let mut put = |value: usize, count: u32| bits.extend((0..count).rev().map(|at| value >> at & 1 == 1));
        put(config.is_none().into(), 1);
        if let Some((version, specific)) = config {
            put(version.into(), 1);
            if version {
                // Version 1, not A; how full the buffer is.
                [(0, 1), (0, 2), (0xff, 8)].into_iter().for_each(|(value, count)| put(value, count));
            }
            // Same timing, one frame, program and layer.
            [(1, 1), (0, 6), (0, 4), (0, 3)].into_iter().for_each(|(value, count)| put(value, count));
            if version {
                put(0, 2);
                put(specific.iter().map(|(_, count)| *count as usize).sum(), 8);
            }
            specific.iter().for_each(|&(value, count)| put(value, count));
            [(0, 3), (0xff, 8), (0, 1), (0, 1)].into_iter().for_each(|(value, count)| put(value, count));
        }
        (0..frame.len() / 255).for_each(|_| put(255, 8));
        put(frame.len() % 255, 8);
        frame.iter().for_each(|&byte| put(byte.into(), 8));
        bits.resize(bits.len().div_ceil(8) * 8, false);
        let body = bits.chunks(8).map(|byte| byte.iter().fold(0, |all, &bit| all << 1 | u8::from(bit)));
        let body: Vec<u8> = body.collect();
        let length = body.len() as u16;
        [&[0x56, 0xe0 | (length >> 8) as u8, length as u8], &body[..]].concat()
    }

    #[test]
    fn elements_without_loas_are_read_with_a_configuration_beside_them() {
        // 48 kHz, one channel: what FFmpeg writes as `config=`, and two frames with their lengths.
        let config = [0x40, 0x00, 0x23, 0x10, 0x3f, 0xc0];
        let (mut reader, mut out) = (Reader::new(), Vec::new());
        assert_eq!(reader.read_payload(&[2, 7, 8], false, &mut out), None);
        reader.configure(&config).unwrap();
        assert_eq!(reader.frame_format(), Some((48_000, 1)));
        assert_eq!(reader.read_payload(&[2, 7, 8, 1, 9], false, &mut out), Some(()));
        assert_eq!(out.iter().map(|frame| &frame.data[7..]).collect::<Vec<_>>(), [&[7, 8][..], &[9]]);
        assert_eq!(reader.read_payload(&[3, 7, 8], false, &mut out), None, "it is cut off");
        // With the configuration in the elements.
        let (mut reader, mut out) = (Reader::new(), Vec::new());
        let elements = [&element(&[1, 2], true)[3..], &element(&[3], false)[3..]].concat();
        assert_eq!(reader.read_payload(&elements, true, &mut out), Some(()));
        assert_eq!(out.len(), 2);
    }

    proptest! {
        #[test]
        fn frames_survive(frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..700), 1..5)) {
            let (mut reader, mut out) = (Reader::new(), Vec::new());
            for (frame, number) in frames.iter().zip(0..) {
                let element = element(frame, number == 0);
                prop_assert_eq!(element_bytes(&element), Some(element.len()));
                reader.read(&element, &mut out);
            }
            let found: Vec<_> = out.iter().map(|frame| frame.data[7..].to_vec()).collect();
            prop_assert_eq!(found, frames);
        }

        #[test]
        fn hostile_elements_do_no_harm(elements in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..8)) {
            let (mut reader, mut out) = (Reader::new(), Vec::new());
            for element in elements {
                reader.read(&element, &mut out);
                prop_assert!(out.len() <= 64 * 8);
                prop_assert!(out.iter().all(|frame| adts::Header::parse(&frame.data) == Some(frame.header)));
            }
        }
    }
}
