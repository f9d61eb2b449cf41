//! Session descriptions in files, which name what a sender of RTP sends here (RFC 8866).
//!
//! ```text
//! rtp:FILE[?interface=NAME]                                        FILE as it is written; a `?` in it cannot be
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

use crate::output::is_interface;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A file with a session description.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SdpFile {
    /// Where it is.
    pub path: PathBuf,
    /// The network interface at which its groups are joined; the system chooses without one.
    pub interface: Option<String>,
}

impl SdpFile {
    /// Reads what follows `rtp:`. Fails with what is wrong with it.
    pub(super) fn parse(rest: &str) -> Result<SdpFile, &'static str> {
        let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() || path.chars().any(char::is_control) {
            return Err("it names no file");
        }
        let mut file = SdpFile { path: PathBuf::from(path), interface: None };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("interface", name)) if is_interface(name) => file.interface = Some(name.to_owned()),
                Some(("interface", _)) => {
                    return Err("an interface's name has 1 to 15 letters, digits and .-_:@");
                }
                _ => return Err("there is another option"),
            }
        }
        Ok(file)
    }
}

impl fmt::Display for SdpFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rtp:{}", self.path.display())?;
        self.interface.iter().try_for_each(|name| write!(f, "?interface={name}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::pull::Source;
    use crate::stream::Mux;

    #[test]
    fn a_file_is_named_as_it_is_and_an_address_is_none() {
        for (text, path) in [
            ("rtp:studio.sdp", "studio.sdp"),
            ("RTP:/etc/glassline/hall 1.sdp?interface=eth0.5", "/etc/glassline/hall 1.sdp"),
            ("rtp:é/%20.sdp", "é/%20.sdp"),
        ] {
            let Ok(Source::Sdp(file)) = Source::parse(text) else { panic!("{text}") };
            assert_eq!(file.path.to_str(), Some(path));
            assert_eq!(file.to_string(), text.replace("RTP", "rtp"));
            assert_eq!(Source::Sdp(file).mux(), Mux::MpegTs);
        }
        assert!(matches!(Source::parse("rtp://239.1.2.3:5004"), Ok(Source::Rtp(_))));
        for bad in [
            "rtp:",
            "rtp:?interface=lo",
            "rtp:a.sdp?ttl=3",
            "rtp:a.sdp?interface=",
            "rtp:a\n.sdp",
            "udp:a.sdp",
        ] {
            assert!(Source::parse(bad).is_err(), "{bad}");
        }
    }
}
