//! One stream, picture after picture: its state, what each picture becomes, and how finely it is quantised.
//!
//! ```text
//! picture ─► denoise ─► Plan::role ─► quantiser ─► encode_in ─► Plan::is_cut, RateControl::judge ─► frame
//!            where it is wanted         ▲                                 │
//!                                       └──── coarser, or a key frame ────┘
//! ```

use super::encode::{
    Denoise, Denoised, EncodeError, EncodeWorkspace, Parallel, Quality, Request, Stats, denoise_in, encode_in,
};
use super::plan::{Plan, Role};
use super::rate_control::{RateControl, RateSettings, Verdict};
use super::state::State;
use glassline_media::{FrameRate, Picture};

/// How a stream is encoded.
#[derive(Clone, Debug)]
pub struct EncoderSettings {
    /// Pictures a second, from which the distance of long-term references follows.
    pub frame_rate: FrameRate,
    /// Pictures from one key frame to the next at most; without it only the first picture and those behind cuts are
    /// key frames. The one in a [`StreamQuality::Rate`] has no influence.
    pub key_interval: Option<u32>,
    /// How good pictures are.
    pub quality: StreamQuality,
    /// Speed against quality, as in [`Request::speed`].
    pub speed: u8,
    /// How strongly noise is taken out first, if at all.
    pub denoise: Option<Denoise>,
}

/// How good the pictures of a stream are.
#[derive(Clone, Debug)]
pub enum StreamQuality {
    /// All with one quantiser index, 0 to 127; key frames and long-term references are finer.
    Quantizer(u8),
    /// As a bit rate and a buffer allow.
    Rate(RateSettings),
}

/// One encoded picture.
#[derive(Clone, Debug)]
pub struct EncodedFrame {
    /// The frame (RFC 6386).
    pub bytes: Vec<u8>,
    /// What a decoder shows for it.
    pub picture: Picture,
    /// How it was coded.
    pub stats: Stats,
    /// Its quantiser index, 0 to 127.
    pub quantizer: u8,
    /// How many quantisers were tried until its size was right, 1 or more.
    pub tries: u32,
}

/// How finely pictures are quantised.
#[derive(Debug)]
enum Quantizers {
    Constant(u8),
    Rate(Box<RateControl>),
}

/// Encodes a stream. It reads no clock and makes no threads; the bytes depend on settings and pictures alone.
#[derive(Debug)]
pub struct Encoder {
    state: State,
    workspace: EncodeWorkspace,
    request: Request,
    quantizers: Quantizers,
    plan: Plan,
    denoise: Option<Denoise>,
    /// The picture before, where noise is taken out.
    denoised: Option<Denoised>,
}

impl Encoder {
    /// A stream that begins.
    pub fn new(settings: &EncoderSettings) -> Encoder {
        let &EncoderSettings { frame_rate, key_interval, ref quality, speed, denoise } = settings;
        let quantizers = match quality {
            StreamQuality::Quantizer(index) => Quantizers::Constant(*index),
            StreamQuality::Rate(rate) => {
                let rate = RateSettings { key_interval, ..rate.clone() };
                Quantizers::Rate(Box::new(RateControl::new(&rate)))
            }
        };
        Encoder {
            state: State::new(),
            workspace: EncodeWorkspace::new(),
            request: Request { speed, ..Request::default() },
            quantizers,
            plan: Plan::new(frame_rate.as_f64(), key_interval),
            denoise,
            denoised: None,
        }
    }

    /// Encodes the next picture (I420), with tasks that `parallel` may run side by side.
    ///
    /// # Errors
    /// Any [`EncodeError`]; the stream is then as it was.
    pub fn encode(
        &mut self,
        picture: &Picture,
        parallel: &dyn Parallel,
    ) -> Result<EncodedFrame, EncodeError> {
        if let Some(strength) = self.denoise {
            let before = self.denoised.as_ref();
            self.denoised = Some(denoise_in(before, picture, strength, &mut self.workspace, parallel)?);
        }
        let picture = self.denoised.as_ref().map_or(picture, Denoised::picture);
        let mut role = self.plan.role();
        let (mut quantizer, mut tries) = (self.quantizer(role), 1);
        let encoded = loop {
            let request = Request { quality: Quality::Quantizer(quantizer), ..self.request };
            let request = self.plan.request(role, request);
            let encoded = encode_in(&self.state, picture, &request, &mut self.workspace, parallel)?;
            if self.plan.is_cut(&encoded.stats) {
                role = Role::Key;
                quantizer = self.quantizer(role);
                continue;
            }
            let Quantizers::Rate(control) = &self.quantizers else { break encoded };
            match control.judge(role, quantizer, encoded.bytes.len(), tries) {
                Verdict::Keep => break encoded,
                Verdict::Again(other) => quantizer = other,
            }
            tries += 1;
        };
        if let Quantizers::Rate(control) = &mut self.quantizers {
            control.encoded(encoded.bytes.len(), quantizer, role);
        }
        self.plan.encoded(role, &encoded.stats);
        self.state = encoded.state;
        let (bytes, picture, stats) = (encoded.bytes, encoded.picture, encoded.stats);
        Ok(EncodedFrame { bytes, picture, stats, quantizer, tries })
    }

    /// What the next picture is encoded against.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Pictures that a decoder with the buffer of the rate control would have got too late; none where the quantiser
    /// is constant.
    pub fn late_frames(&self) -> Option<u64> {
        match &self.quantizers {
            Quantizers::Constant(_) => None,
            Quantizers::Rate(control) => Some(control.late_frames()),
        }
    }

    fn quantizer(&self, role: Role) -> u8 {
        match &self.quantizers {
            Quantizers::Constant(nominal) => self.plan.quantizer(role, *nominal),
            Quantizers::Rate(control) => control.quantizer(role),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::Serial;
    use super::super::{Limits, decode};
    use super::*;
    use glassline_measure::pattern::Pattern;
    use glassline_media::{PixelFormat, Size, Time, Utc};
    use std::time::Duration;

    fn rate() -> FrameRate {
        FrameRate::new(25, 1).unwrap()
    }

    fn settings(quality: StreamQuality) -> EncoderSettings {
        EncoderSettings { frame_rate: rate(), key_interval: None, quality, speed: 6, denoise: None }
    }

    fn pictures(count: u64) -> Vec<Picture> {
        let mut pattern = Pattern::new(Size::new(320, 180).unwrap(), rate());
        (0..count).map(|number| pattern.draw(number, Time::ZERO, Utc::default())).collect()
    }

    /// What a decoder makes of the frames is what the encoder said it would, state after state.
    #[test]
    fn a_decoder_follows_the_stream() {
        let control = RateSettings::new(200_000, rate(), Duration::from_millis(500));
        for quality in [StreamQuality::Quantizer(40), StreamQuality::Rate(control)] {
            for denoise in [None, Some(Denoise::Light)] {
                let mut encoder = Encoder::new(&EncoderSettings { denoise, ..settings(quality.clone()) });
                let mut state = State::new();
                for picture in pictures(12) {
                    let frame = encoder.encode(&picture, &Serial).unwrap();
                    let decoded = decode(&state, &frame.bytes, &Limits::default()).unwrap();
                    state = decoded.state;
                    assert_eq!(state.hash(), encoder.state().hash());
                }
            }
        }
    }

    #[test]
    fn key_frames_come_where_the_interval_says() {
        let quality = StreamQuality::Rate(RateSettings::new(300_000, rate(), Duration::from_secs(1)));
        let mut encoder = Encoder::new(&EncoderSettings { key_interval: Some(4), ..settings(quality) });
        let keys: Vec<bool> =
            pictures(9).iter().map(|picture| encoder.encode(picture, &Serial).unwrap().stats.key).collect();
        assert_eq!(keys, [true, false, false, false, true, false, false, false, true]);
        assert_eq!(encoder.late_frames(), Some(0));
    }

    /// A picture that cannot be encoded leaves the stream as it was.
    #[test]
    fn an_error_changes_nothing() {
        let mut encoder = Encoder::new(&settings(StreamQuality::Quantizer(60)));
        let pictures = pictures(2);
        encoder.encode(&pictures[0], &Serial).unwrap();
        let before = encoder.state().hash();
        let deep = PixelFormat { depth_bits: 10, ..PixelFormat::I420 };
        let other = Picture::new(deep, Size::new(320, 180).unwrap(), Time::ZERO);
        assert!(encoder.encode(&other, &Serial).is_err());
        assert_eq!(encoder.state().hash(), before);
        assert!(!encoder.encode(&pictures[1], &Serial).unwrap().stats.key);
    }
}
