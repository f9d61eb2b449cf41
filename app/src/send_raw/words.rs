//! What people read of a sender's errors.

use super::{failure, input_words};
use anyhow::Error;
use glassline_studio::raw::send;

/// A sender's error, for the command line.
pub(super) fn explain(error: send::Error) -> Error {
    use send::Error as Wrong;
    let advice = match error {
        Wrong::Capture(error) => return input_words(error),
        Wrong::Format(_) => {
            return failure::usage(error, "scale the pictures, or choose another --format or --scan");
        }
        Wrong::Datagram(_) => return failure::usage(error, "give a larger --payload"),
        Wrong::BottomFirst => {
            return failure::usage(error, "send them with --scan progressive or --scan psf");
        }
        Wrong::Sound(_) => {
            return failure::usage(error, "give sound of fewer channels by --audio-in, or --no-sound");
        }
        Wrong::SoundOfOtherRate => return failure::usage(error, "leave out --audio-in"),
        Wrong::TimeCode(_) => {
            return failure::usage(error, "give another one by --time-code, or --no-ancillary");
        }
        Wrong::SamePlace(_) => {
            let advice = "on one address choose ports at least 6 apart for --also, or give --sound-to and --ancillary-to";
            return failure::usage(error, advice);
        }
        Wrong::Paths(_) => return failure::usage(error, "see glassline send-raw --help"),
        Wrong::Processor(_) => return failure::usage(error, "choose another --processor"),
        Wrong::Open { .. } => "check the address, the interface and the source",
        Wrong::Beside { .. } => {
            "check the route (ip route get ADDRESS), or give --sound-to and --ancillary-to"
        }
        Wrong::Send { .. } => {
            "check the route (ip route get ADDRESS), and --payload against the interface's MTU"
        }
        Wrong::Empty(_) => "give a file with pictures",
        Wrong::System { what: "memory for frames", .. } => "give a smaller --memory",
        _ => return error.into(),
    };
    failure::failed(error, advice)
}
