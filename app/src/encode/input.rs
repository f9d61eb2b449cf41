//! What is encoded, as the command line names it.

use crate::rate;
use glassline_media::{FrameRate, Size};
use std::path::PathBuf;
use std::str::FromStr;

/// Where pictures come from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Input {
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
}

impl Input {
    /// Whether there is sound to encode.
    pub(super) fn has_sound(&self) -> bool {
        matches!(self, Input::Test { .. })
    }
}

impl FromStr for Input {
    type Err = String;
    fn from_str(text: &str) -> Result<Input, String> {
        if text == "-" {
            return Ok(Input::Stdin);
        }
        if let Some(what) = text.strip_prefix("test:") {
            let (size, rate) = what
                .split_once('@')
                .ok_or_else(|| format!("{text:?} has no rate; write test:1280x720@50"))?;
            return Ok(Input::Test {
                size: rate::parse_size(size).map_err(|error| error.to_string())?,
                rate: rate::parse_frame_rate(rate).map_err(|error| error.to_string())?,
            });
        }
        let path = PathBuf::from(text);
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("y4m")) {
            return Ok(Input::File(path));
        }
        Err(format!(
            "{text:?} is none of test:WIDTHxHEIGHT@RATE, FILE.y4m and - (y4m on standard input); other files: \
             ffmpeg -i FILE -pix_fmt yuv420p -f yuv4mpegpipe - | glassline encode - …"
        ))
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
    }

    #[test]
    fn what_is_no_input_is_refused_with_what_would_be() {
        for (text, complaint) in [
            ("test:1280x720", "has no rate"),
            ("test:1280@50", "picture size"),
            ("test:0x720@50", "each side"),
            ("test:1280x720@0", "frame rate"),
            ("test:1280x720@50/0", "frame rate"),
            ("film.mp4", "ffmpeg -i"),
            ("", "none of"),
        ] {
            let error = text.parse::<Input>().unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
