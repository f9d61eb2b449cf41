//! Requests of operators to built-in encoders: `POST /api/streams/NAME/keyframe` and
//! `POST /api/streams/NAME/bitrate?rate=3M`.

use super::answers::{no_stream, refused};
use crate::encode::control_words;
use crate::options::BITRATES;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Response, problem};
use glassline_delivery::policy::StreamName;
use glassline_media::quantity::Bitrate;
use glassline_relay::{Hub, ListenerRole};
use glassline_studio::encode::{NotControlled, Supervisor};
use std::net::IpAddr;

/// The requested action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    KeyFrame,
    Bitrate,
}

fn parse(path: &str) -> Option<(&str, Action)> {
    let (name, action) = path.strip_prefix("/api/streams/")?.rsplit_once('/')?;
    match action {
        "keyframe" => Some((name, Action::KeyFrame)),
        "bitrate" => Some((name, Action::Bitrate)),
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
    let asked = match action {
        Action::KeyFrame => encoders.request_key_frame(&name),
        Action::Bitrate => match bitrate(request) {
            Ok(rate) => encoders.set_bitrate(&name, rate),
            Err(words) => return problem(400, "no good bit rate", &words),
        },
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

fn bitrate(request: &Request) -> Result<Bitrate, String> {
    let text = request.parameter("rate").ok_or("Give it behind the address, as in ?rate=3M.")?;
    let rate: Bitrate = text.parse().map_err(|error| format!("?rate: {error}."))?;
    if BITRATES.contains(&rate) {
        Ok(rate)
    } else {
        Err(format!("?rate: {rate} is out of range; from {} to {}.", BITRATES.start(), BITRATES.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_told_from_streams() {
        assert_eq!(parse("/api/streams/a.b/keyframe"), Some(("a.b", Action::KeyFrame)));
        assert_eq!(parse("/api/streams/a/bitrate"), Some(("a", Action::Bitrate)));
        for path in ["/api/streams/keyframe", "/api/streams/a", "/api/streams/a/history", "/live/a/keyframe"]
        {
            assert!(!is_action(path), "{path}");
        }
    }
}
