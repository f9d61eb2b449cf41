//! The parameters of uncompressed video (RFC 4175 §6, ST 2110-20 §7, ST 2110-21 §8).

use super::colour;
use super::error::SectionError;
use super::parameters::{Parameters, exact_rate, frame_rate, or_ignored};
use crate::raw_video::{Format, Packing, Scan};
use glassline_media::{Chroma, Colour, FieldOrder, FrameRate, PixelFormat, Size};
use std::fmt;

/// Samplings by name. Of 4:2:0 and 4:2:2 the names of other colour systems (CLYCbCr, ICtCp) are refused.
const SAMPLINGS: [(&str, Chroma); 4] = [
    ("YCbCr-4:2:2", Chroma::Yuv422),
    ("YCbCr-4:2:0", Chroma::Yuv420),
    ("YCbCr-4:4:4", Chroma::Yuv444),
    ("RGB", Chroma::Rgb),
];

/// Uncompressed video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Video {
    /// Samples, size, scan (`sampling`, `depth`, `width`, `height`, `interlace`, `segmented`).
    pub format: Format,
    /// Frames a second (`exactframerate`, or `a=framerate`), where it is said.
    pub rate: Option<FrameRate>,
    /// What sample values mean (`colorimetry`, `TCS`, `RANGE`).
    pub colour: Colour,
    /// How lines are divided among packets (`PM`).
    pub packing: Packing,
    /// How evenly packets leave (`TP`), where it is said.
    pub sender: Option<SenderType>,
    /// Octets of the largest UDP datagram (`MAXUDP`); where nothing is said it is 1460 (ST 2110-10 §6.3).
    pub max_datagram_bytes: Option<u32>,
    /// When a frame's first packet leaves after the frame's beginning, in microseconds (`TROFF`).
    pub troff_us: Option<u32>,
    /// Packets that may stand in the network's first queue (`CMAX`).
    pub cmax: Option<u32>,
    /// Width and height of a sample (`PAR`); 1:1 where nothing is said.
    pub pixel_aspect: (u32, u32),
    /// Whether the sender promises ST 2110-20 (`SSN`). What we write without it is TR-03 and RFC 4175.
    pub is_standard_2110: bool,
}

/// How evenly a sender's packets leave (ST 2110-21 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderType {
    /// Evenly over the active lines, none in the gap between frames (`2110TPN`).
    Narrow,
    /// Evenly over the whole frame's time (`2110TPNL`).
    NarrowLinear,
    /// In bursts (`2110TPW`).
    Wide,
}

impl SenderType {
    const ALL: [(&str, SenderType); 3] = [
        ("2110TPN", SenderType::Narrow),
        ("2110TPNL", SenderType::NarrowLinear),
        ("2110TPW", SenderType::Wide),
    ];
}

impl fmt::Display for SenderType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Self::ALL, self))
    }
}

fn name_of<T: PartialEq>(all: &[(&'static str, T)], value: &T) -> &'static str {
    all.iter().find(|(_, found)| found == value).map_or("", |(name, _)| name)
}

fn value_of<T: Copy>(all: &[(&'static str, T)], name: &str) -> Option<T> {
    all.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

impl Video {
    /// Of `format` at `rate`, in BT.709 and otherwise as the standards have it where a description says nothing.
    pub fn new(format: Format, rate: FrameRate) -> Video {
        Video {
            format,
            rate: Some(rate),
            colour: Colour::BT709,
            packing: Packing::General,
            sender: None,
            max_datagram_bytes: None,
            troff_us: None,
            cmax: None,
            pixel_aspect: (1, 1),
            is_standard_2110: false,
        }
    }

    /// Which field of an interlaced frame was captured first; `None` where both were captured together. RFC 4175 §4.1 numbers
    /// fields in their order of time, and our [`Format`] has the first one's lines on top. No parameter says otherwise:
    /// `top-field-first` is about the chroma of 4:2:0 (RFC 4175 §6.1), which is not taken interlaced.
    pub fn field_order(&self) -> Option<FieldOrder> {
        (self.format.scan() == Scan::Interlaced).then_some(FieldOrder::TopFirst)
    }

    /// `rate`: what `a=framerate` says. What samples do not depend on is ignored where it is not taken, with a notice.
    pub(super) fn parse(
        parameters: &Parameters,
        rate: Option<&str>,
        notices: &mut Vec<String>,
    ) -> Result<Video, SectionError> {
        let format = format(parameters)?;
        let rate = match (parameters.get("exactframerate"), rate) {
            (Some(rate), _) => or_ignored(frame_rate("exactframerate", rate).map(Some), notices),
            (None, Some(rate)) => or_ignored(frame_rate("framerate", rate).map(Some), notices),
            (None, None) => None,
        };
        let colour = colour::parse(parameters, format.pixels(), format.size().height);
        let is_standard = |name: &str| name.to_ascii_uppercase().starts_with("ST2110-20:");
        Ok(Video {
            format,
            rate,
            colour,
            // Packets tell by themselves where their samples belong.
            packing: or_ignored(packing(parameters), notices).unwrap_or_default(),
            sender: or_ignored(sender(parameters), notices),
            max_datagram_bytes: or_ignored(parameters.number("MAXUDP"), notices),
            troff_us: or_ignored(parameters.number("TROFF"), notices),
            cmax: or_ignored(parameters.number("CMAX"), notices),
            pixel_aspect: or_ignored(pixel_aspect(parameters), notices).unwrap_or((1, 1)),
            is_standard_2110: parameters.get("SSN").is_some_and(is_standard),
        })
    }

    /// Whether the packets of two sections can be the same, as far as their parameters tell: the samples are the same.
    pub(super) fn has_samples_of(&self, other: &Video) -> bool {
        let is_rate = self.rate.is_none() || other.rate.is_none() || self.rate == other.rate;
        self.format == other.format && is_rate
    }

    /// The value of `a=fmtp`, without the payload type.
    pub(super) fn parameters(&self) -> String {
        let (size, pixels) = (self.format.size(), self.format.pixels());
        let mut all = vec![
            format!("sampling={}", name_of(&SAMPLINGS, &pixels.chroma)),
            format!("width={}", size.width),
            format!("height={}", size.height),
        ];
        all.extend(self.rate.map(|rate| format!("exactframerate={}", exact_rate(rate))));
        all.push(format!("depth={}", pixels.depth_bits));
        let (transfer, colorimetry) = colour::names(self.colour, self.is_standard_2110);
        all.extend([format!("TCS={transfer}"), format!("colorimetry={colorimetry}")]);
        if self.is_standard_2110 || self.packing == Packing::Block {
            let name = if self.packing == Packing::Block { "2110BPM" } else { "2110GPM" };
            all.push(format!("PM={name}"));
        }
        if self.is_standard_2110 {
            all.push("SSN=ST2110-20:2017".to_owned());
        }
        all.extend(self.sender.map(|sender| format!("TP={sender}")));
        let numbers = [("MAXUDP", self.max_datagram_bytes), ("TROFF", self.troff_us), ("CMAX", self.cmax)];
        all.extend(numbers.iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}"))));
        if self.pixel_aspect != (1, 1) {
            all.push(format!("PAR={}:{}", self.pixel_aspect.0, self.pixel_aspect.1));
        }
        if self.colour.full_range {
            all.push("RANGE=FULL".to_owned());
        }
        // FFmpeg takes a name without a value and all that follows up to the next `=` for one name: so these come last.
        let is_interlaced = self.format.scan() != Scan::Progressive;
        let is_segmented = self.format.scan() == Scan::Segmented;
        let names = [("interlace", is_interlaced), ("segmented", is_segmented)];
        all.extend(names.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| (*name).to_owned()));
        all.join("; ")
    }

    /// The value of `a=framerate`, which receivers of RFC 4175 read that do not know `exactframerate`.
    pub(super) fn framerate(&self) -> Option<String> {
        let rate = self.rate.filter(|_| !self.is_standard_2110)?;
        if rate.denominator() == 1 {
            return Some(rate.numerator().to_string());
        }
        let decimals = format!("{:.3}", rate.as_f64());
        Some(decimals.trim_end_matches('0').trim_end_matches('.').to_owned())
    }
}

fn format(parameters: &Parameters) -> Result<Format, SectionError> {
    let sampling = parameters.required("sampling")?;
    let wanted = "YCbCr-4:2:2, YCbCr-4:2:0, YCbCr-4:4:4 and RGB are";
    let chroma =
        value_of(&SAMPLINGS, sampling).ok_or_else(|| SectionError::value("sampling", sampling, wanted))?;
    let depth = parameters.required("depth")?;
    let depth_bits = match depth {
        "8" => 8,
        "10" => 10,
        "12" => 12,
        "16" => 16,
        _ => return Err(SectionError::value("depth", depth, "8, 10, 12 and 16 bits are")),
    };
    let side = |name| parameters.required(name).and_then(|value| super::parameters::number(name, value));
    let (width, height) = (side("width")?, side("height")?);
    let size = Size::new(width, height).map_err(|_| SectionError::Size { width, height })?;
    // Some write it as the word is.
    let is_interlaced = parameters.has("interlace") || parameters.has("interlaced");
    let scan = match (is_interlaced, parameters.has("segmented")) {
        (false, false) => Scan::Progressive,
        (true, false) => Scan::Interlaced,
        (true, true) => Scan::Segmented,
        (false, true) => return Err(SectionError::Lacks("interlace")),
    };
    Ok(Format::new(PixelFormat::planar(chroma, depth_bits), size, scan)?)
}

fn packing(parameters: &Parameters) -> Result<Option<Packing>, SectionError> {
    let all = [("2110GPM", Packing::General), ("2110BPM", Packing::Block)];
    let parse =
        |name| value_of(&all, name).ok_or_else(|| SectionError::value("PM", name, "2110GPM and 2110BPM are"));
    parameters.get("PM").map(parse).transpose()
}

fn sender(parameters: &Parameters) -> Result<Option<SenderType>, SectionError> {
    let wanted = "2110TPN, 2110TPNL and 2110TPW are";
    let parse =
        |name| value_of(&SenderType::ALL, name).ok_or_else(|| SectionError::value("TP", name, wanted));
    parameters.get("TP").map(parse).transpose()
}

fn pixel_aspect(parameters: &Parameters) -> Result<Option<(u32, u32)>, SectionError> {
    let Some(value) = parameters.get("PAR") else { return Ok(None) };
    let sides = value.split_once(':').and_then(|(width, height)| {
        let number = |text: &str| text.parse().ok().filter(|side| (1..=65_535).contains(side));
        number(width).zip(number(height))
    });
    sides
        .map(Some)
        .ok_or_else(|| SectionError::value("PAR", value, "it is WIDTH:HEIGHT of a sample, as 12:11"))
}
