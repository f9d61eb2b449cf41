//! Where pictures come from, by its name.

use super::{Error, Film, ParseError, Tracks};
use crate::raw::described::{Options, PoolSize};
use glassline_io::capture::DeviceRequest;
use glassline_media::pixels::PackedFormat;
use glassline_media::quantity;
use glassline_media::{FrameRate, Size};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Frames of uncompressed video that wait for an encoder: a tenth of a second and more. An encoder that is later loses some.
const RAW_FRAMES: usize = 12;

/// Where pictures come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The test pattern and tone, live.
    Test {
        /// Of the pictures.
        size: Size,
        /// Of the pictures.
        rate: FrameRate,
    },
    /// A y4m file.
    File(PathBuf),
    /// y4m on standard input.
    Stdin,
    /// A file that FFmpeg decodes.
    Decoded(Film),
    /// A capture device.
    V4l2 {
        /// Its node in `/dev`.
        device: PathBuf,
        /// What is asked of it.
        requested: DeviceRequest,
    },
    /// Uncompressed video over RTP.
    Rtp {
        /// The session description.
        description: PathBuf,
        /// How it is received.
        options: Box<Options>,
        /// The frame rate, where the description says none.
        rate: Option<FrameRate>,
    },
}

impl Input {
    /// Whether there is sound to encode.
    #[must_use]
    pub fn has_sound(&self) -> bool {
        matches!(self, Input::Test { .. })
    }

    /// The same with these tracks of a film.
    ///
    /// # Errors
    /// [`Error::NoFilm`] where tracks are asked for of anything else.
    pub fn with_tracks(self, tracks: Tracks) -> super::Result<Input> {
        match self {
            _ if tracks.is_empty() => Ok(self),
            Input::Decoded(film) => Ok(Input::Decoded(Film { tracks, ..film })),
            _ => Err(Error::NoFilm),
        }
    }

    /// The file that is read.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Input::File(path) | Input::Decoded(Film { path, .. }) => Some(path),
            Input::Test { .. } | Input::Stdin | Input::V4l2 { .. } | Input::Rtp { .. } => None,
        }
    }
}

impl FromStr for Input {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Input, ParseError> {
        if text == "-" {
            return Ok(Input::Stdin);
        }
        match text.split_once(':') {
            Some(("test", what)) => test(text, what),
            Some(("v4l2", device)) => v4l2(text, device),
            Some(("rtp", description)) => rtp(text, description),
            Some(("file", "")) | None if text.is_empty() || text == "file:" => Err(unknown(text)),
            Some(("file", path)) => Ok(Input::Decoded(path.into())),
            // A path may have colons too, but not before its first slash or dot.
            Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Err(unknown(text))
            }
            _ => {
                let path = PathBuf::from(text);
                if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("sdp")) {
                    return Err(ParseError(format!(
                        "{text:?} names a session description: write rtp:{text}"
                    )));
                }
                let is_y4m = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("y4m"));
                Ok(if is_y4m { Input::File(path) } else { Input::Decoded(path.into()) })
            }
        }
    }
}

fn unknown(text: &str) -> ParseError {
    ParseError(format!(
        "{text:?} is none of test:WIDTHxHEIGHT@RATE, FILE.y4m, - (y4m on standard input), v4l2:/dev/videoN, \
         rtp:FILE.sdp and a file that FFmpeg reads (file:PATH, where its name looks like something else)"
    ))
}

fn test(text: &str, what: &str) -> Result<Input, ParseError> {
    let no_rate = || ParseError(format!("{text:?} has no rate; write test:1280x720@50"));
    let (size, rate) = what.split_once('@').ok_or_else(no_rate)?;
    Ok(Input::Test { size: quantity::parse_size(size)?, rate: quantity::parse_frame_rate(rate)? })
}

/// A capture device that gives H.264 which it codes itself.
#[derive(Clone, Debug, PartialEq)]
pub struct CodedDevice {
    /// Its node in `/dev`.
    pub device: PathBuf,
    /// The size and rate that are asked of it; no layout.
    pub requested: DeviceRequest,
}

impl CodedDevice {
    /// The device of `v4l2:DEVICE?format=h264`; `None` where the text names anything else.
    ///
    /// # Errors
    /// Another option of the device is none.
    pub fn parse(text: &str) -> Result<Option<CodedDevice>, ParseError> {
        let Some(rest) = text.strip_prefix("v4l2:") else { return Ok(None) };
        let Some((device, query)) = rest.split_once('?') else { return Ok(None) };
        let is_coded = |pair: &&str| {
            pair.split_once('=')
                .is_some_and(|(key, value)| key == "format" && value.eq_ignore_ascii_case("h264"))
        };
        let (coded, others): (Vec<&str>, Vec<&str>) = query.split('&').partition(is_coded);
        if coded.is_empty() {
            return Ok(None);
        }
        if others.iter().any(|pair| pair.starts_with("format=")) {
            return Err(ParseError(format!("{text:?} asks for two formats; leave one out")));
        }
        match v4l2(text, &format!("{device}?{}", others.join("&")))? {
            Input::V4l2 { device, requested } => Ok(Some(CodedDevice { device, requested })),
            _ => Ok(None),
        }
    }
}

/// `DEVICE[?size=WxH&rate=R&format=F]`.
fn v4l2(text: &str, rest: &str) -> Result<Input, ParseError> {
    let (device, query) = rest.split_once('?').unwrap_or((rest, ""));
    if device.is_empty() {
        return Err(ParseError(format!("{text:?} names no device; write v4l2:/dev/video0")));
    }
    let mut requested = DeviceRequest::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("size", size)) => {
                requested.size = Some(quantity::parse_size(size)?);
            }
            Some(("rate", rate)) => {
                requested.rate = Some(quantity::parse_frame_rate(rate)?);
            }
            Some(("format", format)) => requested.layout = Some(layout(format)?),
            _ => {
                return Err(ParseError(format!(
                    "{text:?}: {pair:?} is none of size=1280x720, rate=50 and format=yuyv (or uyvy, nv12, nv16)"
                )));
            }
        }
    }
    Ok(Input::V4l2 { device: device.into(), requested })
}

/// `FILE.sdp[?interface=NAME&processor=N&socket-buffer=SIZE&skew=TIME&rate=R]`, with an interface for each path.
fn rtp(text: &str, rest: &str) -> Result<Input, ParseError> {
    let (description, query) = rest.split_once('?').unwrap_or((rest, ""));
    if description.is_empty() {
        return Err(ParseError(format!("{text:?} names no session description; write rtp:FILE.sdp")));
    }
    let mut options = Options { pool: PoolSize::Frames(RAW_FRAMES), ..Options::default() };
    let mut rate = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("interface", name)) => options.interfaces.push(name.to_owned()),
            Some(("processor", number)) => {
                let number = number.parse();
                options.processor =
                    Some(number.map_err(|_| ParseError(format!("{text:?}: {pair:?} is no number")))?);
            }
            Some(("socket-buffer", size)) => {
                let bytes = size.parse::<quantity::ByteSize>()?.bytes();
                options.socket_bytes = Some(usize::try_from(bytes).unwrap_or(usize::MAX));
            }
            Some(("skew", time)) => options.skew = quantity::parse_duration(time)?,
            Some(("rate", text)) => rate = Some(quantity::parse_frame_rate(text)?),
            _ => {
                return Err(ParseError(format!(
                    "{text:?}: {pair:?} is none of interface=eth1 (one for each path), processor=1, socket-buffer=64MiB, \
                     skew=50ms and rate=50"
                )));
            }
        }
    }
    Ok(Input::Rtp { description: description.into(), options: Box::new(options), rate })
}

fn layout(name: &str) -> Result<PackedFormat, ParseError> {
    match name.to_ascii_lowercase().as_str() {
        "yuyv" => Ok(PackedFormat::Yuyv),
        "uyvy" => Ok(PackedFormat::Uyvy),
        "nv12" => Ok(PackedFormat::Nv12),
        "nv16" => Ok(PackedFormat::Nv16),
        "h264" => Err(ParseError(
            "H.264 that a camera codes itself is sent by `glassline send` and `glassline receive --both` alone; \
             choose yuyv, uyvy, nv12 or nv16 here"
                .to_owned(),
        )),
        "mjpeg" | "mjpg" => Err(ParseError(
            "MJPEG is not decoded here, which would cost delay; let ffmpeg do it: ffmpeg -f v4l2 \
                                 -input_format mjpeg -i DEVICE -f yuv4mpegpipe - | glassline encode - …"
                .to_owned(),
        )),
        _ => Err(ParseError(format!("{name:?} is no layout of pictures; yuyv, uyvy, nv12 and nv16 are"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_told_apart() {
        let size = Size::new(1280, 720).unwrap();
        let test = |rate| Ok(Input::Test { size, rate });
        assert_eq!("test:1280x720@50".parse(), test(FrameRate::new(50, 1).unwrap()));
        assert_eq!("test:1280x720@30000/1001".parse(), test(FrameRate::new(30_000, 1001).unwrap()));
        assert_eq!("-".parse(), Ok(Input::Stdin));
        assert_eq!("a/b.Y4M".parse(), Ok(Input::File("a/b.Y4M".into())));
        assert_eq!("film.mp4".parse(), Ok(Input::Decoded("film.mp4".into())));
        assert_eq!("/media/a:b/film".parse(), Ok(Input::Decoded("/media/a:b/film".into())));
        assert_eq!("file:test:x.y4m".parse(), Ok(Input::Decoded("test:x.y4m".into())));
    }

    #[test]
    fn a_device_is_asked_for_what_follows_its_name() {
        let device = |requested| Ok(Input::V4l2 { device: "/dev/video0".into(), requested });
        assert_eq!("v4l2:/dev/video0".parse(), device(DeviceRequest::default()));
        let requested = DeviceRequest {
            size: Size::new(1920, 1080).ok(),
            rate: FrameRate::new(60_000, 1001),
            layout: Some(PackedFormat::Uyvy),
        };
        assert_eq!("v4l2:/dev/video0?size=1920x1080&rate=60000/1001&format=UYVY".parse(), device(requested));
    }

    #[test]
    fn a_device_that_codes_itself_is_told_by_its_format() {
        let device = |requested| Ok(Some(CodedDevice { device: "/dev/video2".into(), requested }));
        assert_eq!(CodedDevice::parse("v4l2:/dev/video2?format=H264"), device(DeviceRequest::default()));
        let requested =
            DeviceRequest { size: Size::new(1280, 720).ok(), rate: FrameRate::new(30, 1), layout: None };
        let text = "v4l2:/dev/video2?size=1280x720&format=h264&rate=30";
        assert_eq!(CodedDevice::parse(text), device(requested));
        for other in ["v4l2:/dev/video2", "v4l2:/dev/video2?format=nv12", "a.h264", "-", ""] {
            assert_eq!(CodedDevice::parse(other), Ok(None), "{other}");
        }
        for (text, complaint) in [
            ("v4l2:?format=h264", "names no device"),
            ("v4l2:/dev/video2?format=h264&fps=5", "none of size="),
            ("v4l2:/dev/video2?format=h264&format=nv12", "two formats"),
        ] {
            let error = CodedDevice::parse(text).unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_no_input_is_refused_with_what_would_be() {
        for (text, complaint) in [
            ("test:1280x720", "has no rate"),
            ("test:1280@50", "picture size"),
            ("test:0x720@50", "each side"),
            ("test:1280x720@0", "frame rate"),
            ("test:1280x720@50/0", "frame rate"),
            ("v4l2:", "names no device"),
            ("v4l2:/dev/video0?fps=5", "none of size="),
            ("v4l2:/dev/video0?size=5", "picture size"),
            ("v4l2:/dev/video0?format=mjpeg", "ffmpeg -f v4l2"),
            ("v4l2:/dev/video0?format=rgb", "no layout"),
            ("v4l2:/dev/video0?format=h264", "glassline send"),
            ("rtmp://host/app", "none of"),
            ("film.sdp", "write rtp:film.sdp"),
            ("file:", "none of"),
            ("", "none of"),
        ] {
            let error = text.parse::<Input>().unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
    #[test]
    fn tracks_are_of_films_alone() {
        let track = "2".parse().ok();
        let tracks = || Tracks { video: None, audio: track.clone() };
        let film: Input = "a.mp4".parse().unwrap();
        let expected = Input::Decoded(Film { path: "a.mp4".into(), tracks: tracks() });
        assert_eq!(film.with_tracks(tracks()).unwrap(), expected);
        for other in ["a.y4m", "-", "test:64x48@25", "v4l2:/dev/video0", "rtp:a.sdp"] {
            let input: Input = other.parse().unwrap();
            assert!(matches!(input.clone().with_tracks(tracks()), Err(Error::NoFilm)), "{other}");
            assert_eq!(input.clone().with_tracks(Tracks::default()).unwrap(), input, "none is asked for");
        }
    }

    #[test]
    fn what_is_read_from_a_file_has_a_path_and_the_test_pattern_alone_has_sound() {
        for (text, path, sound) in [
            ("a.y4m", Some("a.y4m"), false),
            ("file:a:b", Some("a:b"), false),
            ("-", None, false),
            ("test:64x48@25", None, true),
            ("v4l2:/dev/video0", None, false),
            ("rtp:a.sdp", None, false),
        ] {
            let input: Input = text.parse().unwrap();
            assert_eq!((input.path(), input.has_sound()), (path.map(Path::new), sound), "{text}");
        }
    }

    #[test]
    fn a_description_is_received_as_what_follows_its_name_says() {
        let input: Input =
            "rtp:a.sdp?interface=eth1&interface=eth2&processor=3&skew=20ms&rate=25&socket-buffer=1MiB"
                .parse()
                .unwrap();
        let Input::Rtp { description, options, rate } = input else { panic!("{input:?}") };
        assert_eq!((description, rate), (PathBuf::from("a.sdp"), FrameRate::new(25, 1)));
        assert_eq!(options.interfaces, ["eth1", "eth2"]);
        assert_eq!((options.processor, options.socket_bytes), (Some(3), Some(1 << 20)));
        assert_eq!(options.skew, std::time::Duration::from_millis(20));
        assert_eq!(options.pool, PoolSize::Frames(RAW_FRAMES));
    }

    #[test]
    fn what_a_description_cannot_be_asked_is_refused() {
        for (text, complaint) in [
            ("rtp:", "names no session description"),
            ("rtp:?rate=25", "names no session description"),
            ("rtp:a.sdp?processor=one", "is no number"),
            ("rtp:a.sdp?rate=0", "frame rate"),
            ("rtp:a.sdp?interface", "none of interface="),
            ("rtp:a.sdp?ttl=3", "none of interface="),
        ] {
            let error = text.parse::<Input>().unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
