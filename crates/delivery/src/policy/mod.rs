//! Which clients may publish, which may watch, how much, and under what names.

mod caller;
mod credential;
mod hosts;
mod marks;
mod meter;
mod network;
mod path;
mod publish;
mod refusal;
mod request;
mod rules;
mod secret;
mod slow;
mod version;
mod watch;

pub use caller::{Caller, Distrust, Route};
pub use credential::{Credential, ShownToken};
pub(crate) use hosts::canonical;
pub use hosts::{Hosts, KnownHosts};
pub use marks::{DSCP_MAX, HeaderMarks, MarkRange, MarkRangeError, Marking, Marks};
pub use meter::Meter;
pub use network::{NetworkError, Networks};
pub use path::PathReading;
pub use publish::PublishPolicy;
pub use refusal::{Full, Refusal};
pub use request::{AccessRequest, Action, Protocol};
pub use rules::{Rules, StreamRules};
pub use secret::Secret;
pub use slow::{Moves, SlowPolicy};
pub use version::Version;
pub use watch::{Load, TOKEN_PARAMETERS, Token, WatchPolicy};

use crate::stream::Mux;
use std::fmt;

/// A stream's name: 1 to 64 of `A–Z a–z 0–9 . _ -`, not beginning with a dot.
///
/// Names stand in URLs, metrics and logs as they are; these characters need no escape in any of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(String);

impl StreamName {
    /// The longest name, in characters.
    pub const MAX_LENGTH: usize = 64;

    /// `name`, if it is one.
    pub fn parse(name: &str) -> Option<StreamName> {
        let fits = (1..=Self::MAX_LENGTH).contains(&name.len()) && !name.starts_with('.');
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        (fits && plain).then(|| StreamName(name.to_owned()))
    }

    /// The name of the stream that `/live/NAME.ts` names, and the mux: `.ts`, `.flv`, `.webm` or `.ogg`.
    pub fn of_live_path(path: &str) -> Option<(StreamName, Mux)> {
        let (name, extension) = path.strip_prefix("/live/")?.rsplit_once('.')?;
        Some((Self::parse(name)?, Mux::of_extension(extension)?))
    }

    /// The name of the stream that `/live/NAME/REST` is about, the path of an object of its presentation, and `REST`.
    pub fn of_presentation_path(path: &str) -> Option<(StreamName, &str)> {
        let (name, rest) = path.strip_prefix("/live/")?.split_once('/')?;
        Some((Self::parse(name)?, rest))
    }

    /// Which version of which capture it is, where its name says so.
    pub fn version(&self) -> Option<Version> {
        Version::of(&self.0)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether streams are at `path`, and nothing else.
pub fn is_live_path(path: &str) -> bool {
    path == "/live" || path.starts_with("/live/")
}

impl fmt::Debug for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_need_no_escape() {
        for good in ["demo", "a", "Stage-2_main.hd", &"x".repeat(64)] {
            assert!(StreamName::parse(good).is_some(), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "ä", "a%20", &"x".repeat(65)] {
            assert!(StreamName::parse(bad).is_none(), "{bad}");
        }
        for mux in Mux::ALL {
            let path = format!("/live/demo.hd.{}", mux.extension());
            assert_eq!(StreamName::of_live_path(&path), StreamName::parse("demo.hd").map(|name| (name, mux)));
        }
        assert_eq!(StreamName::of_live_path("/live/demo.avi"), None);
        assert_eq!(StreamName::of_live_path("/live/demo"), None);
        assert_eq!(StreamName::of_live_path("/live/.ts"), None);
        assert_eq!(StreamName::of_live_path("/live/../etc.ts"), None);
    }
}
