//! The header line: tags of one letter and a value, in any order.

use super::{MAGIC, MAX_PICTURE_BYTES, Y4mError};
use crate::picture::{Chroma, Colour, FieldOrder, Picture, PixelFormat, Size};
use crate::time::FrameRate;

/// What a YUV4MPEG2 header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Width and height of every picture.
    pub size: Size,
    /// Pictures a second. 25 where the header has none or says that it is unknown (`F0:0`), as FFmpeg takes it.
    pub frame_rate: FrameRate,
    /// Subsampling and depth.
    pub format: PixelFormat,
    /// Where chroma samples lie, if a 4:2:0 header says it.
    pub siting: Option<Siting>,
    /// How fields lie in a picture.
    pub interlacing: Interlacing,
    /// Width to height of a sample, if known.
    pub sample_aspect: Option<(u32, u32)>,
    /// The range (`XCOLORRANGE`; limited if absent); everything else is unspecified.
    pub colour: Colour,
}

/// Where the chroma samples of 4:2:0 lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Siting {
    /// In the middle of four luma samples (`420jpeg`).
    Centre,
    /// Between two luma samples of the left column (`420mpeg2`): H.264's default.
    Left,
    /// On luma samples, Cb and Cr on alternate lines (`420paldv`).
    PalDv,
}

/// How fields lie in a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interlacing {
    /// Not stated.
    #[default]
    Unknown,
    /// No fields.
    Progressive,
    /// Two fields, the top one is earlier.
    TopFirst,
    /// Two fields, the bottom one is earlier.
    BottomFirst,
    /// Changes from picture to picture; the `FRAME` lines tell, which are not read.
    Mixed,
}

impl Interlacing {
    /// The order of a picture's fields, where all pictures have two.
    pub fn fields(self) -> Option<FieldOrder> {
        match self {
            Interlacing::TopFirst => Some(FieldOrder::TopFirst),
            Interlacing::BottomFirst => Some(FieldOrder::BottomFirst),
            Interlacing::Unknown | Interlacing::Progressive | Interlacing::Mixed => None,
        }
    }
}

impl Header {
    /// A header for pictures like `picture`: progressive, square samples.
    pub fn of(picture: &Picture, frame_rate: FrameRate) -> Header {
        Header {
            size: picture.size(),
            frame_rate,
            format: picture.format(),
            siting: None,
            interlacing: match picture.fields {
                None => Interlacing::Progressive,
                Some(FieldOrder::TopFirst) => Interlacing::TopFirst,
                Some(FieldOrder::BottomFirst) => Interlacing::BottomFirst,
            },
            sample_aspect: Some((1, 1)),
            colour: picture.colour,
        }
    }

    /// Reads a header line without its line feed. Unknown tags are passed over, as the format demands.
    pub(super) fn parse(line: &[u8]) -> Result<Header, Y4mError> {
        let (mut width, mut height) = (None, None);
        let mut frame_rate = None;
        let (mut space, mut old_space) = (None, None);
        let mut interlacing = Interlacing::Unknown;
        let mut sample_aspect = None;
        let mut colour = Colour::UNSPECIFIED;
        for tag in
            line[MAGIC.len().min(line.len())..].split(|&byte| byte == b' ').filter(|tag| !tag.is_empty())
        {
            let (letter, value) = (tag[0], &tag[1..]);
            match letter {
                b'W' => width = Some(number(tag, value, "a width in samples")?),
                b'H' => height = Some(number(tag, value, "a height in lines")?),
                b'F' => frame_rate = ratio(tag, value)?,
                // Of a shape nothing is wrong that a picture could not be shown without.
                b'A' => sample_aspect = ratio(tag, value).ok().flatten(),
                b'I' => interlacing = parse_interlacing(tag, value)?,
                b'C' => space = Some(parse_space(value)?),
                // Before `C` knew more than mjpegtools did, FFmpeg wrote the colour space here; it still does too.
                b'X' if value.starts_with(b"YSCSS=") => {
                    old_space = parse_space(&value[b"YSCSS=".len()..].to_ascii_lowercase()).ok();
                }
                b'X' if value == b"COLORRANGE=FULL" => colour.full_range = true,
                b'X' if value == b"COLORRANGE=LIMITED" => colour.full_range = false,
                _ => {}
            }
        }
        let width = width.ok_or(Y4mError::Missing('W'))?;
        let height = height.ok_or(Y4mError::Missing('H'))?;
        let size = Size::new(width, height).map_err(|_| Y4mError::Size { width, height })?;
        let (format, siting) = space.or(old_space).unwrap_or((PixelFormat::I420, None));
        let bytes = format.packed_bytes(size);
        if bytes > MAX_PICTURE_BYTES {
            return Err(Y4mError::TooLarge { size, format, bytes });
        }
        let (numerator, denominator) = frame_rate.unwrap_or((25, 1));
        let frame_rate = FrameRate::new(numerator, denominator)
            .ok_or_else(|| Y4mError::Tag { tag: format!("F{numerator}:{denominator}"), expected: RATIO })?;
        Ok(Header { size, frame_rate, format, siting, interlacing, sample_aspect, colour })
    }

    /// Whether pictures of both are alike in all that a stream cannot change on its way.
    pub(super) fn continues(&self, other: &Header) -> bool {
        (self.size, self.format, self.frame_rate) == (other.size, other.format, other.frame_rate)
            && (self.interlacing, self.colour) == (other.interlacing, other.colour)
    }

    /// Size, format and rate, for error messages.
    pub(super) fn shown(&self) -> String {
        let PixelFormat { chroma, depth_bits, .. } = self.format;
        let Header { size, frame_rate, interlacing, .. } = self;
        format!("{size} at {frame_rate}, {chroma:?} of {depth_bits} bits, {interlacing:?}")
    }

    /// Appends the line with its line feed.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), Y4mError> {
        let PixelFormat { chroma, depth_bits, .. } = self.format;
        let space = match (chroma, self.siting) {
            _ if !is_writable(self.format) => return Err(Y4mError::Unwritable(self.format)),
            (Chroma::Rgb, _) => return Err(Y4mError::Unwritable(self.format)),
            (Chroma::Mono, _) => "mono",
            (Chroma::Yuv411, _) => "411",
            (Chroma::Yuv422, _) => "422",
            (Chroma::Yuv444, _) => "444",
            (Chroma::Yuv420, Some(Siting::Centre)) if depth_bits == 8 => "420jpeg",
            (Chroma::Yuv420, Some(Siting::Left)) if depth_bits == 8 => "420mpeg2",
            (Chroma::Yuv420, Some(Siting::PalDv)) if depth_bits == 8 => "420paldv",
            (Chroma::Yuv420, _) => "420",
        };
        let depth = match (chroma, depth_bits) {
            (_, 8) => String::new(),
            (Chroma::Mono, bits) => bits.to_string(),
            (_, bits) => format!("p{bits}"),
        };
        let interlacing = match self.interlacing {
            Interlacing::Unknown => '?',
            Interlacing::Progressive => 'p',
            Interlacing::TopFirst => 't',
            Interlacing::BottomFirst => 'b',
            Interlacing::Mixed => 'm',
        };
        let (across, down) = self.sample_aspect.unwrap_or((0, 0));
        let range = if self.colour.full_range { "FULL" } else { "LIMITED" };
        let line = format!(
            "YUV4MPEG2 W{} H{} F{}:{} I{interlacing} A{across}:{down} C{space}{depth} XCOLORRANGE={range}\n",
            self.size.width,
            self.size.height,
            self.frame_rate.numerator(),
            self.frame_rate.denominator(),
        );
        out.extend_from_slice(line.as_bytes());
        Ok(())
    }
}

/// Whether y4m has a name for it: luma and chroma in planes.
pub(super) fn is_writable(format: PixelFormat) -> bool {
    format.is_planar() && format.chroma != Chroma::Rgb
}

const RATIO: &str = "two whole numbers with a colon between them, both or none of them zero";

fn refused(tag: &[u8], expected: &'static str) -> Y4mError {
    let shown = &tag[..tag.len().min(80)];
    Y4mError::Tag { tag: String::from_utf8_lossy(shown).into_owned(), expected }
}

fn number(tag: &[u8], value: &[u8], expected: &'static str) -> Result<u32, Y4mError> {
    // `str::parse` would take a plus sign.
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| refused(tag, expected))
}

/// `N:D`, or `N` for `N:1`; `0:0` means unknown.
fn ratio(tag: &[u8], value: &[u8]) -> Result<Option<(u32, u32)>, Y4mError> {
    let mut parts = value.splitn(2, |&byte| byte == b':');
    let first = number(tag, parts.next().unwrap_or_default(), RATIO)?;
    let second = parts.next().map_or(Ok(1), |part| number(tag, part, RATIO))?;
    match (first, second) {
        (0, 0) => Ok(None),
        (0, _) | (_, 0) => Err(refused(tag, RATIO)),
        both => Ok(Some(both)),
    }
}

fn parse_interlacing(tag: &[u8], value: &[u8]) -> Result<Interlacing, Y4mError> {
    match value {
        b"p" => Ok(Interlacing::Progressive),
        b"t" => Ok(Interlacing::TopFirst),
        b"b" => Ok(Interlacing::BottomFirst),
        b"m" => Ok(Interlacing::Mixed),
        b"?" | b"" => Ok(Interlacing::Unknown),
        _ => Err(refused(tag, "p, t, b, m or ?")),
    }
}

fn parse_space(value: &[u8]) -> Result<(PixelFormat, Option<Siting>), Y4mError> {
    let eight = |chroma| PixelFormat::planar(chroma, 8);
    match value {
        b"420" | b"420p8" => return Ok((PixelFormat::I420, None)),
        b"420jpeg" => return Ok((PixelFormat::I420, Some(Siting::Centre))),
        b"420mpeg2" => return Ok((PixelFormat::I420, Some(Siting::Left))),
        b"420paldv" => return Ok((PixelFormat::I420, Some(Siting::PalDv))),
        b"411" => return Ok((eight(Chroma::Yuv411), None)),
        b"422" | b"422p8" => return Ok((eight(Chroma::Yuv422), None)),
        b"444" | b"444p8" => return Ok((eight(Chroma::Yuv444), None)),
        b"mono" => return Ok((eight(Chroma::Mono), None)),
        _ => {}
    }
    let deep = [
        (&b"420p"[..], Chroma::Yuv420),
        (b"411p", Chroma::Yuv411),
        (b"422p", Chroma::Yuv422),
        (b"444p", Chroma::Yuv444),
        (b"mono", Chroma::Mono),
    ];
    let found = deep.iter().find_map(|&(name, chroma)| {
        let depth_bits = std::str::from_utf8(value.strip_prefix(name)?).ok()?.parse().ok()?;
        (9..=16).contains(&depth_bits).then_some(PixelFormat::planar(chroma, depth_bits))
    });
    let shown = || String::from_utf8_lossy(&value[..value.len().min(80)]).into_owned();
    Ok((found.ok_or_else(|| Y4mError::ColourSpace(shown()))?, None))
}
