//! What fuzz targets and the tests of their corpora want of the program: what reads bytes that others write, without
//! files, sockets and the command line. Nothing else calls it, and the linker leaves it out of the program.

use crate::config::Config;
use std::path::Path;

/// A configuration that was accepted. Its `Debug` shows no secret.
#[derive(Debug, PartialEq)]
pub struct Configuration(Config);

impl Configuration {
    /// Reads the text of a configuration file; key files that it names are not read.
    ///
    /// # Errors
    /// What the user reads, beginning with `glassline.toml:LINE: ` or, where no line is to blame, `glassline.toml: `.
    pub fn parse(text: &str) -> Result<Configuration, String> {
        let parsed = Config::parse(text, Path::new("glassline.toml"));
        parsed.map(Configuration).map_err(|error| error.to_string())
    }

    /// The same configuration in another file: without comments, with tables and values as the TOML crate writes them.
    /// `None` where `text` is no TOML.
    pub fn rewritten(text: &str) -> Option<String> {
        toml::to_string(&toml::from_str::<toml::Table>(text).ok()?).ok()
    }
}

/// What was said over an encoder's control socket, and what came of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Conversation {
    /// What the encoder answered: lines of JSON.
    pub answers: Vec<u8>,
    /// Whether it was asked for a key frame.
    pub key_frame: bool,
    /// Bits a second that were asked of each of two renditions. The second is limited to 8 Mbit/s.
    pub bitrates_bps: [Option<u64>; 2],
}

impl Conversation {
    /// Has all of `input` answered that an encoder's control socket would answer.
    pub fn about(input: impl std::io::Read) -> Conversation {
        let (answers, key_frame, bitrates) = crate::encode::answers_to(input);
        let bitrates_bps =
            bitrates.map(|bitrate| bitrate.map(glassline_media::quantity::Bitrate::bits_per_second));
        Conversation { answers, key_frame, bitrates_bps }
    }
}
