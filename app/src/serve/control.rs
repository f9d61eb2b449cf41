//! Requests of operators to built-in encoders: `POST /api/streams/NAME/keyframe`, and `bitrate?rate=3M`, `size?size=640x360`,
//! `rate?rate=25`, `preset?preset=slow` in its place.

use super::answers::{no_stream, refused};
use crate::encode::control_words;
use crate::options::BITRATES;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Response, problem};
use glassline_delivery::policy::StreamName;
use glassline_media::quantity::{self, Bitrate};
use glassline_relay::{Hub, ListenerRole};
use glassline_studio::encode::{Change, NotControlled, Supervisor};
use std::net::IpAddr;

/// The requested action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    KeyFrame,
    Bitrate,
    Size,
    Rate,
    Preset,
}

fn parse(path: &str) -> Option<(&str, Action)> {
    let (name, action) = path.strip_prefix("/api/streams/")?.rsplit_once('/')?;
    match action {
        "keyframe" => Some((name, Action::KeyFrame)),
        "bitrate" => Some((name, Action::Bitrate)),
        "size" => Some((name, Action::Size)),
        "rate" => Some((name, Action::Rate)),
        "preset" => Some((name, Action::Preset)),
        _ => None,
    }
}

/// Whether `path` is that of an action, to which clients send a POST.
pub(super) fn is_action(path: &str) -> bool {
    parse(path).is_some()
}

/// The answer to a GET on such a path.
pub(super) fn post_alone() -> Response {
    problem(405, "method not allowed", "This is a request to an encoder: send it with POST.")
        .with_header("Allow", "POST, OPTIONS")
}

/// Executes the request.
pub(super) fn act(
    request: &Request,
    door: ListenerRole,
    peer: IpAddr,
    hub: &Hub,
    encoders: &Supervisor,
) -> Response {
    let Some((name, action)) = parse(&request.path) else { return no_stream() };
    if let Err(refusal) = hub.may_see_viewers(door, peer, request) {
        let words = "Encoders take requests with the publish key ('Authorization: Bearer KEY') or, if there is none, from the \
                     server's own machine and from the [publish] and [admin] networks of its configuration; or on the admin \
                     listener.";
        return refused(refusal, "may not control encoders", words);
    }
    let Some(name) = StreamName::parse(name) else { return no_stream() };
    let asked = match wanted(action, request) {
        Ok(None) => encoders.request_key_frame(&name),
        Ok(Some(change)) => encoders.change(&name, &change),
        Err(words) => return problem(400, "no good value", &words),
    };
    match asked {
        Ok(()) => Response::new(204).with_header("Cache-Control", "no-store"),
        Err(NotControlled::NotBuiltIn) if hub.stream(&name).is_none() => no_stream(),
        Err(NotControlled::NotBuiltIn) => problem(
            409,
            "not encoded here",
            "This server only passes the stream on: ask its own encoder ('glassline encode --control').",
        ),
        Err(NotControlled::NotRunning(why)) => {
            let why = why.map_or(String::new(), |why| format!(" ({why})"));
            problem(
                409,
                "the encoder does not run",
                &format!("It is tried again{why}; see GET /api/encoders."),
            )
        }
        Err(NotControlled::Refused(error)) => {
            problem(400, "the encoder refuses", &control_words(&error).to_string())
        }
    }
}

/// What is to change; `None` for a key frame.
fn wanted(action: Action, request: &Request) -> Result<Option<Change>, String> {
    let (name, example) = match action {
        Action::KeyFrame => return Ok(None),
        Action::Bitrate => ("rate", "3M"),
        Action::Size => ("size", "640x360"),
        Action::Rate => ("rate", "25"),
        Action::Preset => ("preset", "slow"),
    };
    let missing = || format!("Give it behind the address, as in ?{name}={example}.");
    let text = request.parameter(name).ok_or_else(missing)?;
    let wrong = |error: &dyn std::fmt::Display| format!("?{name}: {error}.");
    let change = match action {
        Action::KeyFrame => return Ok(None),
        Action::Bitrate => {
            let rate: Bitrate = text.parse().map_err(|error| wrong(&error))?;
            if !BITRATES.contains(&rate) {
                let (least, most) = (BITRATES.start(), BITRATES.end());
                return Err(format!("?rate: {rate} is out of range; from {least} to {most}."));
            }
            Change::Bitrate(rate)
        }
        Action::Size => Change::Size(quantity::parse_size(&text).map_err(|error| wrong(&error))?),
        Action::Rate => Change::Rate(quantity::parse_frame_rate(&text).map_err(|error| wrong(&error))?),
        Action::Preset => Change::Preset(text),
    };
    Ok(Some(change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_told_from_streams() {
        assert_eq!(parse("/api/streams/a.b/keyframe"), Some(("a.b", Action::KeyFrame)));
        assert_eq!(parse("/api/streams/a/bitrate"), Some(("a", Action::Bitrate)));
        assert_eq!(parse("/api/streams/a/size"), Some(("a", Action::Size)));
        for path in ["/api/streams/keyframe", "/api/streams/a", "/api/streams/a/history", "/live/a/keyframe"]
        {
            assert!(!is_action(path), "{path}");
        }
    }
}
