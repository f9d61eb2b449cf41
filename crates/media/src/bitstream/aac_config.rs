//! `AudioSpecificConfig` (ISO/IEC 14496-3 §1.6.2.1): what MP4 and LATM say of AAC in front of its frames; and where MPEG-TS and MP4
//! say that it is HE-AAC, which headers of ADTS do not.
//!
//! ```text
//! AAC      2:5 │ rate:4 [rate:24] │ channels:4 │ short:1 core_coder:1 extension:1 │ [program config]
//! HE-AAC   5 or 29:5 │ rate:4 [rate:24] │ channels:4 │ rate that comes out:4 [rate:24] │ 2:5 │ short:1 …
//! or, behind AAC's   2b7:11 5:5 present:1 rate:4 [rate:24] │ 548:11 present:1
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

use super::adts::{self, RATES_HZ};
use super::h264::BitReader;
use super::program_config::ProgramConfig;
use serde::{Deserialize, Serialize};

/// The object type of spectral band replication.
const BAND_REPLICATION: u8 = 5;
/// That of both, spectral band replication and parametric stereo.
const PARAMETRIC_STEREO: u8 = 29;
/// What stands in front of extensions behind a configuration that decoders without them read.
const SYNC_BANDS: u32 = 0x2b7;
const SYNC_STEREO: u32 = 0x548;
/// Four bits of a rate that is written in full.
const RATE_IN_FULL: u32 = 15;

/// That a stream of AAC is HE-AAC: decoders double the rate of its frames by spectral band replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeAac {
    /// Decoders make two channels of one, too, by parametric stereo: version 2.
    pub parametric_stereo: bool,
    /// Samples a second that come out, at most.
    pub rate_max_hz: u32,
}

impl HeAac {
    /// What `audioProfileLevelIndication` says (14496-3 table 1.14), which descriptors of MPEG-TS have: `None` of other profiles
    /// than HE-AAC and HE-AAC v2.
    pub const fn of_profile(profile_and_level: u8) -> Option<HeAac> {
        // By level: 2 to 5 from 0x2c and 0x30 on, 6 and 7 from 0x52 and 0x54 on.
        let (parametric_stereo, rate_max_hz) = match profile_and_level {
            0x2c..=0x2e | 0x52 => (false, 48_000),
            0x2f | 0x53 => (false, 96_000),
            0x30..=0x32 | 0x54 => (true, 48_000),
            0x33 | 0x55 => (true, 96_000),
            _ => return None,
        };
        Some(HeAac { parametric_stereo, rate_max_hz })
    }

    /// The lowest profile and level that covers this with so many channels.
    pub const fn profile(self, channels: u8) -> u8 {
        match (self.rate_max_hz > 48_000, channels, self.parametric_stereo) {
            (false, ..=2, false) => 0x2c,
            (false, ..=2, true) => 0x30,
            (false, 3..=6, _) => 0x2e,
            (false, 7.., _) => 0x52,
            (true, ..=6, false) => 0x2f,
            (true, ..=6, true) => 0x33,
            (true, 7.., _) => 0x53,
        }
    }
}

/// What decoders are told of AAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AudioSpecificConfig {
    /// Object type of what the frames are without spectral band replication, 1 to 4; 2 is low complexity.
    pub object_type: u8,
    /// Samples a second of that: one of the rates that ADTS knows.
    pub rate_hz: u32,
    /// `channel_configuration`, 0 to 7.
    pub channels: u8,
    /// The element that says which channels there are where `channels` is 0.
    pub program: Option<ProgramConfig>,
    /// That it is HE-AAC, where it is said. Its rate is twice `rate_hz`; parametric stereo has one channel in `channels`.
    pub he_aac: Option<HeAac>,
}

impl AudioSpecificConfig {
    /// That of frames with this header, and with this element in the first of them; `None` where neither says which channels there
    /// are.
    pub fn of(header: &adts::Header, program: Option<ProgramConfig>) -> Option<AudioSpecificConfig> {
        let adts::Header { object_type, rate_hz, channels, .. } = *header;
        let program = program.filter(|_| channels == 0);
        (channels > 0 || program.is_some()).then_some(AudioSpecificConfig {
            object_type,
            rate_hz,
            channels,
            program,
            he_aac: None,
        })
    }

    /// The same where something beside the frames says that this is HE-AAC. A profile stands for all that it covers: a rate that
    /// cannot be doubled within it is that of AAC as it is, and so are channels that parametric stereo is not for.
    #[must_use]
    pub fn told(self, said: Option<HeAac>) -> AudioSpecificConfig {
        let he_aac = said.and_then(|said| {
            let rate_max_hz = self.rate_hz.saturating_mul(2);
            let parametric_stereo = said.parametric_stereo && self.channels == 1;
            (rate_max_hz <= said.rate_max_hz).then_some(HeAac { parametric_stereo, rate_max_hz })
        });
        AudioSpecificConfig { he_aac, ..self }
    }

    /// Samples a second that come out of a decoder.
    pub fn output_rate_hz(&self) -> u32 {
        self.he_aac.map_or(self.rate_hz, |he_aac| he_aac.rate_max_hz)
    }

    /// Channels that come out of a decoder, 1 to 8.
    pub fn output_channels(&self) -> u8 {
        match (self.channels, &self.program) {
            (0, program) => program.as_ref().map_or(1, |program| program.channels),
            (1, _) if self.is_parametric() => 2,
            (7, _) => 8,
            (channels, _) => channels,
        }
    }

    /// What the whole is: 29 and 5 of HE-AAC with and without parametric stereo, else the frames' own. RFC 6381 has it in
    /// `mp4a.40.5`.
    pub fn outer_object_type(&self) -> u8 {
        match self.he_aac {
            Some(HeAac { parametric_stereo: true, .. }) => PARAMETRIC_STEREO,
            Some(_) => BAND_REPLICATION,
            None => self.object_type,
        }
    }

    fn is_parametric(&self) -> bool {
        self.he_aac.is_some_and(|he_aac| he_aac.parametric_stereo)
    }

    /// Reads a configuration that ends where `end_bits` are left, or anywhere where that is not known: then extensions behind it,
    /// which older decoders pass over, are not looked for. `None` where frames are not of 1,024 samples, or of types and rates that
    /// ADTS does not know; what is behind the end of what was read is left.
    pub fn parse(bits: &mut BitReader<'_>, end_bits: Option<usize>) -> Option<AudioSpecificConfig> {
        let mut object_type = read_object_type(bits)?;
        let rate_hz = read_rate(bits)?;
        let channels = u8::try_from(bits.bits(4)?).ok()?;
        let mut said = None;
        if let BAND_REPLICATION | PARAMETRIC_STEREO = object_type {
            let parametric_stereo = object_type == PARAMETRIC_STEREO;
            said = Some(HeAac { parametric_stereo, rate_max_hz: read_rate(bits)? });
            object_type = read_object_type(bits)?;
        }
        let is_short_frame = bits.bit()?;
        if is_short_frame || !(1..=4).contains(&object_type) || channels > 7 || !RATES_HZ.contains(&rate_hz) {
            return None;
        }
        if bits.bit()? {
            bits.bits(14)?;
        }
        let is_extended = bits.bit()?;
        let program = if channels == 0 { Some(ProgramConfig::parse(bits)?) } else { None };
        if is_extended {
            bits.bit()?;
        }
        // Behind a program config element the next byte begins with a comment, of a length that is not kept.
        if let Some(end_bits) = end_bits.filter(|_| said.is_none() && program.is_none() && !is_extended) {
            said = read_extension(bits, end_bits);
        }
        Some(AudioSpecificConfig { object_type, rate_hz, channels, program, he_aac: None }.told(said))
    }

    /// The configuration's bytes, fewer than 64. HE-AAC is said in front, so that no player takes it for less ("hierarchical
    /// signalling"). `None` where a field does not fit.
    pub fn write(&self) -> Option<Vec<u8>> {
        let fits = (1..=4).contains(&self.object_type)
            && self.channels < 8
            && (self.channels == 0) == self.program.is_some();
        let rate = adts::rate_index(self.rate_hz).filter(|_| fits)?;
        let mut bits = Bits::default();
        bits.put(self.outer_object_type().into(), 5);
        bits.put(rate.into(), 4);
        bits.put(self.channels.into(), 4);
        if let Some(HeAac { rate_max_hz, .. }) = self.he_aac {
            match adts::rate_index(rate_max_hz) {
                Some(rate) => bits.put(rate.into(), 4),
                None => {
                    bits.put(RATE_IN_FULL, 4);
                    bits.put(rate_max_hz, 24);
                }
            }
            bits.put(self.object_type.into(), 5);
        }
        // Frames of 1,024 samples, no other coder below, no extension.
        bits.put(0, 3);
        if let Some(program) = &self.program {
            bits.0.extend_from_slice(program.fields());
            // A comment of no bytes, which begins with a byte.
            bits.0.resize(bits.0.len().next_multiple_of(8), false);
            bits.put(0, 8);
        }
        Some(bits.bytes())
    }
}

/// What stands behind a configuration that says AAC and no more ("backward compatible signalling").
fn read_extension(bits: &mut BitReader<'_>, end_bits: usize) -> Option<HeAac> {
    let left = |bits: &BitReader<'_>| bits.left_bits().saturating_sub(end_bits);
    let is_there = left(bits) >= 16
        && bits.bits(11)? == SYNC_BANDS
        && read_object_type(bits)? == BAND_REPLICATION
        && left(bits) > 0
        && bits.bit()?;
    if !is_there {
        return None;
    }
    let rate_max_hz = read_rate(bits)?;
    let parametric_stereo = left(bits) >= 12 && bits.bits(11)? == SYNC_STEREO && bits.bit()?;
    Some(HeAac { parametric_stereo, rate_max_hz })
}

fn read_object_type(bits: &mut BitReader<'_>) -> Option<u8> {
    let short = bits.bits(5)?;
    let kind = if short == 31 { bits.bits(6)?.saturating_add(32) } else { short };
    u8::try_from(kind).ok()
}

fn read_rate(bits: &mut BitReader<'_>) -> Option<u32> {
    match bits.bits(4)? {
        RATE_IN_FULL => bits.bits(24),
        index => RATES_HZ.get(usize::try_from(index).ok()?).copied(),
    }
}

/// Bits that become bytes.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn put(&mut self, value: u32, count: u32) {
        self.0.extend((0..count).rev().map(|at| value >> at & 1 == 1));
    }

    fn bytes(mut self) -> Vec<u8> {
        self.0.resize(self.0.len().next_multiple_of(8), false);
        let byte = |bits: &[bool]| bits.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
        self.0.chunks(8).map(byte).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(bytes: &[u8]) -> Option<AudioSpecificConfig> {
        AudioSpecificConfig::parse(&mut BitReader::new(bytes), Some(0))
    }

    fn low_complexity(rate_hz: u32, channels: u8) -> AudioSpecificConfig {
        AudioSpecificConfig { object_type: 2, rate_hz, channels, program: None, he_aac: None }
    }

    #[test]
    fn he_aac_is_read_wherever_it_is_said() {
        for (bytes, told, object_type, rate_hz, channels) in [
            // AAC-LC, 48 kHz, stereo; as FFmpeg says that there is nothing else.
            (&[0x11, 0x90][..], false, 2, 48_000, 2),
            (&[0x11, 0x90, 0x56, 0xe5, 0x00], false, 2, 48_000, 2),
            // libfdk_aac's HE-AAC and HE-AAC v2, 24 kHz to 48 kHz.
            (&[0x2b, 0x11, 0x88, 0x00], true, 5, 48_000, 2),
            (&[0xeb, 0x09, 0x88, 0x00], true, 29, 48_000, 2),
            // The same behind AAC-LC of 24 kHz; 22.05 kHz without parametric stereo.
            (&[0x13, 0x10, 0x56, 0xe5, 0x98], true, 5, 48_000, 2),
            (&[0x13, 0x08, 0x56, 0xe5, 0x9d, 0x48, 0x80], true, 29, 48_000, 2),
            (&[0x13, 0x90, 0x56, 0xe5, 0xa0], true, 5, 44_100, 2),
            // A rate that is not doubled is left to the decoder.
            (&[0x29, 0x91, 0x88, 0x00], false, 2, 48_000, 2),
        ] {
            let found = parse(bytes).unwrap();
            let is = (
                found.he_aac.is_some(),
                found.outer_object_type(),
                found.output_rate_hz(),
                found.output_channels(),
            );
            assert_eq!(is, (told, object_type, rate_hz, channels), "{bytes:02x?}");
            assert_eq!(found.object_type, 2);
        }
        // Where the end is not known, what follows is something else.
        let behind = [0x13, 0x10, 0x56, 0xe5, 0x98];
        let found = AudioSpecificConfig::parse(&mut BitReader::new(&behind), None);
        assert_eq!(found, Some(low_complexity(24_000, 2)));
        // Frames of 960 samples; no rate of ADTS.
        assert_eq!((parse(&[0x11, 0x94]), parse(&[0x17, 0x80, 0x00, 0x80, 0x10])), (None, None));
    }

    #[test]
    fn he_aac_is_written_in_front() {
        let said = |parametric_stereo| Some(HeAac { parametric_stereo, rate_max_hz: 48_000 });
        let written = |channels, said| low_complexity(24_000, channels).told(said).write().unwrap();
        assert_eq!(written(2, None), [0x13, 0x10]);
        assert_eq!(written(2, said(false)), [0x2b, 0x11, 0x88, 0x00]);
        assert_eq!(written(1, said(true)), [0xeb, 0x09, 0x88, 0x00]);
        // Parametric stereo is for one channel; a profile that is higher than what there is says nothing of it.
        assert_eq!(written(2, said(true)), written(2, said(false)));
        assert_eq!(low_complexity(48_000, 2).told(said(false)), low_complexity(48_000, 2));
    }

    #[test]
    fn profiles_say_what_they_cover() {
        assert_eq!(HeAac::of_profile(0x29), None, "AAC");
        assert_eq!(HeAac::of_profile(0xff), None, "none that is told");
        for (parametric_stereo, rate_max_hz, channels) in
            [(false, 48_000, 2), (true, 48_000, 2), (false, 48_000, 6), (false, 96_000, 2), (true, 96_000, 2)]
        {
            let said = HeAac { parametric_stereo, rate_max_hz };
            assert_eq!(HeAac::of_profile(said.profile(channels)), Some(said));
        }
        assert_eq!(HeAac { parametric_stereo: false, rate_max_hz: 44_100 }.profile(2), 0x2c);
    }

    /// FFmpeg's element for 5.1(side).
    const SIDE: [u8; 9] = [0xa0, 0x99, 0x08, 0x80, 0x04, 0x00, 0x18, 0x80, 0x00];

    fn config() -> impl Strategy<Value = AudioSpecificConfig> {
        let said = proptest::option::of((any::<bool>(), prop_oneof![Just(48_000u32), Just(96_000)]));
        (1u8..=4, 0..RATES_HZ.len(), 0u8..8, said).prop_map(|(object_type, rate, channels, said)| {
            let program = ProgramConfig::of_frame(&SIDE).map(|(program, _)| program);
            let program = program.filter(|_| channels == 0);
            let rate_hz = RATES_HZ[rate];
            let said = said.map(|(parametric_stereo, rate_max_hz)| HeAac { parametric_stereo, rate_max_hz });
            AudioSpecificConfig { object_type, rate_hz, channels, program, he_aac: None }.told(said)
        })
    }

    proptest! {
        #[test]
        fn a_configuration_survives(config in config()) {
            let bytes = config.write().unwrap();
            prop_assert!(bytes.len() < 64);
            prop_assert_eq!(parse(&bytes), Some(config.clone()));
            // A player that is told in this way reads it without the end, too.
            let found = AudioSpecificConfig::parse(&mut BitReader::new(&bytes), None);
            prop_assert_eq!(found, Some(config));
        }

        #[test]
        fn hostile_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..40), end_bits in proptest::option::of(0usize..400)) {
            let found = AudioSpecificConfig::parse(&mut BitReader::new(&bytes), end_bits);
            if let Some(found) = found {
                let written = found.write();
                prop_assert!(written.is_some(), "{:?}", found);
                prop_assert_eq!(parse(&written.unwrap()), Some(found));
            }
        }
    }
}
