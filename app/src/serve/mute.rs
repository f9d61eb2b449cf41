//! Lets operators mute alarms: `POST /api/alarms/mute?stream=hall&alarm=silence&for=10m`.

use super::answers::{no_stream, refused};
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Response, problem};
use glassline_delivery::watch::Alarm;
use glassline_media::Choice;
use glassline_media::quantity::{format_duration, parse_duration};
use glassline_relay::{Hub, ListenerRole};
use glassline_watch::{Alarms, MUTE_MAX};
use std::net::IpAddr;
use std::time::Duration;

pub(super) const PATH: &str = "/api/alarms/mute";

/// Executes the request.
pub(super) fn act(
    request: &Request,
    door: ListenerRole,
    peer: IpAddr,
    hub: &Hub,
    alarms: &Alarms,
) -> Response {
    if let Err(refusal) = hub.may_see_viewers(door, peer, request) {
        let words = "Alarms are muted with the publish key ('Authorization: Bearer KEY') or, if there is none, from the server's \
                     own machine and from the [publish] and [admin] networks of its configuration; or on the admin listener.";
        return refused(refusal, "may not mute alarms", words);
    }
    let wanted = |name| request.parameter(name);
    let (Some(stream), Some(alarm), Some(time)) = (wanted("stream"), wanted("alarm"), wanted("for")) else {
        let words = "Say which and how long, as in ?stream=hall&alarm=silence&for=10m; alarm=* is all of the stream, for=0s ends \
                     a mute.";
        return problem(400, "nothing to mute is named", words);
    };
    let (alarm, time) = match parse(&alarm, &time) {
        Ok(parsed) => parsed,
        Err(words) => return problem(400, "no good value", &words),
    };
    if !alarms.mute(&stream, alarm, time) {
        return no_stream();
    }
    let (alarm, time) = (alarm.map_or("*", Choice::name), format_duration(time));
    tracing::info!(%peer, stream, alarm, time, "alarms are muted");
    Response::new(204).with_header("Cache-Control", "no-store")
}

/// The answer to a GET.
pub(super) fn post_alone() -> Response {
    problem(405, "method not allowed", "Mute with POST.").with_header("Allow", "POST, OPTIONS")
}

/// Which alarm (`None`: all), and how long.
fn parse(alarm: &str, time: &str) -> Result<(Option<Alarm>, Duration), String> {
    let alarm = match alarm {
        "*" => None,
        name => Some(Alarm::of_name(name).map_err(|error| format!("?alarm: {error}, or * for all."))?),
    };
    let time = parse_duration(time).map_err(|error| format!("?for: {error}."))?;
    if time > MUTE_MAX {
        let (found, most) = (format_duration(time), format_duration(MUTE_MAX));
        return Err(format!("?for: {found} is out of range; from 0s to {most}."));
    }
    Ok((alarm, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_and_times_are_read() {
        assert_eq!(parse("silence", "10m"), Ok((Some(Alarm::Silence), Duration::from_secs(600))));
        assert_eq!(parse("*", "0s"), Ok((None, Duration::ZERO)));
        assert_eq!(parse("*", "24h"), Ok((None, MUTE_MAX)));
        for (alarm, time, words) in
            [("silense", "1m", "silence"), ("*", "25h", "24h"), ("*", "10", "for"), ("*", "-1s", "for")]
        {
            assert!(parse(alarm, time).unwrap_err().contains(words), "{alarm} {time}");
        }
    }
}
