//! What is shown: coded pictures, and perhaps sound, that are repeated without end.

use bytes::Bytes;
use glassline_media::container::ts::{AudioFormat, Demuxer, Event, Program};
use glassline_media::{AccessUnit, Codec, FrameRate, Stamps, Ticks, bitstream};
use thiserror::Error;

/// The largest file: it is kept in memory.
pub const FILE_MAX_BYTES: usize = 64 << 20;
/// The longest loop, so that stamps within it never wrap.
const PERIOD_MAX: Ticks = Ticks(3600 * 90_000);
/// What a picture lasts of which nothing says it: a 25th of a second.
const STEP: Ticks = Ticks(3600);

/// Why a file cannot be repeated.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ReelError {
    /// There is more of it than is kept in memory.
    #[error("the file has {bytes} bytes, more than the {FILE_MAX_BYTES} that a slate may have")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
    },
    /// No program is in it.
    #[error("the file is no MPEG transport stream with a program (PAT and PMT)")]
    NoProgram,
    /// The program has no pictures that could be multiplexed again.
    #[error("the file has no pictures of H.264, H.265, AV1 or MPEG-2")]
    NoPictures,
    /// Decoding cannot begin where the file begins.
    #[error("the file does not begin with a key frame")]
    NoKeyFrame,
    /// Decoding times have to grow from picture to picture.
    #[error("the time stamps of the file jump at picture {picture}")]
    Jump {
        /// The number of the picture, from 0.
        picture: usize,
    },
}

/// Access units that are repeated without end, pictures and sound in the order of decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reel {
    /// Their stamps count from the first picture's DTS.
    pub(super) units: Vec<AccessUnit>,
    /// After which they are repeated.
    pub(super) period: Ticks,
    /// What one picture lasts.
    pub(super) step: Ticks,
    /// All pictures look the same, and each may come at any time in its turn.
    pub(super) is_still: bool,
    pub(super) codec: Codec,
    pub(super) sound: Option<AudioFormat>,
}

impl Reel {
    /// One picture that stands still: `pictures` are its access units of H.264, the first an IDR picture and the others such that
    /// they change nothing, at `frame_rate`. `None` where there is none.
    pub fn still(pictures: Vec<Bytes>, frame_rate: FrameRate) -> Option<Reel> {
        let at = |number: usize| {
            let (numerator, denominator) = (frame_rate.numerator(), frame_rate.denominator());
            let ticks = number as u128 * 90_000 * u128::from(denominator) / u128::from(numerator);
            Ticks(i64::try_from(ticks).unwrap_or(i64::MAX))
        };
        let (period, step) = (at(pictures.len()), at(1).max(Ticks(1)));
        if pictures.is_empty() || period > PERIOD_MAX {
            return None;
        }
        let units = pictures.into_iter().enumerate().map(|(number, data)| AccessUnit {
            codec: Codec::H264,
            data,
            pts: at(number),
            dts: at(number),
            random_access: number == 0,
            stamps: Stamps::default(),
        });
        let units = units.collect();
        Some(Reel { units, period, step, is_still: true, codec: Codec::H264, sound: None })
    }

    /// The first program of a transport stream: its first video and its first audio.
    ///
    /// # Errors
    /// Why it cannot be repeated.
    pub fn of_transport_stream(bytes: &[u8]) -> Result<Reel, ReelError> {
        if bytes.len() > FILE_MAX_BYTES {
            return Err(ReelError::TooLarge { bytes: bytes.len() });
        }
        let mut demuxer = Demuxer::new();
        demuxer.push(bytes);
        demuxer.finish();
        let (mut program, mut units) = (None::<Program>, Vec::new());
        while let Some(event) = demuxer.poll() {
            match event {
                Event::Program(found) => program = Some(found),
                Event::AccessUnit { pid, unit, .. } => units.push((pid, unit)),
                Event::Data { .. } | Event::Pcr { .. } => {}
            }
        }
        let program = program.ok_or(ReelError::NoProgram)?;
        let (video, audio) = (program.video(), program.audio());
        let (pid, codec) =
            video.and_then(|video| Some((video.pid, video.codec?))).ok_or(ReelError::NoPictures)?;
        let of = |wanted: u16| units.iter().filter(move |(pid, _)| *pid == wanted).map(|(_, unit)| unit);
        let pictures: Vec<&AccessUnit> = of(pid).filter(|unit| unit.codec == codec).collect();
        let first = *pictures.first().ok_or(ReelError::NoPictures)?;
        if !first.random_access && bitstream::join(codec, &first.data).is_none() {
            return Err(ReelError::NoKeyFrame);
        }
        let grows = |pair: &[&AccessUnit]| (1..=900_000).contains(&(pair[1].dts - pair[0].dts).0);
        if let Some(wrong) = pictures.windows(2).position(|pair| !grows(pair)) {
            return Err(ReelError::Jump { picture: wrong + 1 });
        }
        let mut steps: Vec<Ticks> = pictures.windows(2).map(|pair| pair[1].dts - pair[0].dts).collect();
        steps.sort_unstable();
        let step = steps.get(steps.len() / 2).copied().unwrap_or(STEP);
        let zero = first.dts;
        let period = pictures.last().map_or(zero, |last| last.dts) - zero + step;
        if period > PERIOD_MAX {
            return Err(ReelError::Jump { picture: pictures.len() - 1 });
        }
        let sound = audio.and_then(|audio| {
            let codec = audio.codec?;
            let channels = audio.opus_channels.unwrap_or(2);
            Some((audio.pid, AudioFormat { codec, channels, language: audio.language, he_aac: audio.he_aac }))
        });
        let heard = sound.iter().flat_map(|(pid, format)| of(*pid).filter(|unit| unit.codec == format.codec));
        let moved = |unit: &AccessUnit| AccessUnit {
            pts: unit.pts - zero,
            dts: unit.dts - zero,
            stamps: Stamps::default(),
            ..unit.clone()
        };
        let mut units: Vec<AccessUnit> = pictures.iter().copied().map(moved).collect();
        units.extend(heard.map(moved).filter(|unit| (Ticks(0)..period).contains(&unit.dts)));
        units.sort_by_key(|unit| unit.dts);
        units[0].random_access = true;
        let has_sound = units.iter().any(|unit| !unit.codec.is_video());
        let sound = sound.map(|(_, format)| format).filter(|_| has_sound);
        Ok(Reel { units, period, step, is_still: false, codec, sound })
    }

    /// What its pictures are coded as.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Bytes of each of its pictures.
    pub fn picture_bytes(&self) -> Vec<usize> {
        let pictures = self.units.iter().filter(|unit| unit.codec.is_video());
        pictures.map(|unit| unit.data.len()).collect()
    }

    /// Of the first picture, from DTS to PTS.
    pub(super) fn order(&self) -> Ticks {
        self.units.first().map_or(Ticks(0), |unit| unit.pts - unit.dts)
    }
}
