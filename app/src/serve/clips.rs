//! Clips of recordings for crews: `POST /api/recordings/NAME/clip?last=30s` has one made, `GET /api/recordings/NAME/clips/ID.json` says
//! what became of it, `…/ID.mp4` is the file, and `…/ID.jpg` its first picture.

use super::answers::json;
use crate::export::{Missing, missing};
use glassline_archive::clips::{CLIP_MAX, Clip, ClipState, Clips, KEPT_FOR, Refused};
use glassline_archive::export::ExportFailure;
use glassline_delivery::archive::query::{FROM, Span, TO};
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response, problem};
use glassline_delivery::playlist::date_time;
use glassline_delivery::policy::StreamName;
use glassline_media::Utc;
use glassline_media::quantity::in_seconds;
use serde::Serialize;

/// Behind the name of a stream: where a clip is ordered.
pub(super) const ORDER: &str = "clip";

/// What is asked for of clips.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// That one is made.
    Order(StreamName),
    /// Something of it.
    Find { name: StreamName, id: u64, wanted: Wanted },
}

/// What of a clip is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// What became of it.
    Status,
    /// The file itself.
    File,
    /// Its picture.
    Poster,
}

/// The answer to an order.
#[derive(Serialize)]
struct Ordered {
    state: &'static str,
    /// Where it is told what became of it, and where the file will be.
    status: String,
    file: String,
}

/// What became of a clip.
#[derive(Serialize)]
struct Made {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    clip: Option<Told>,
}

#[derive(Serialize)]
struct Told {
    bytes: usize,
    /// When its first picture was captured, which is the key frame before the time that was asked for.
    from: String,
    seconds: f64,
    renditions: Vec<String>,
    missing: Vec<Missing>,
    lost_objects: u64,
    /// The address of its picture; `None` where that is not decoded here.
    poster: Option<String>,
}

/// Understands what is behind `/api/recordings/`; `None` where that is not about clips.
pub(super) fn asked(rest: &str) -> Option<Asked> {
    let (name, rest) = rest.split_once('/')?;
    let name = StreamName::parse(name)?;
    if rest == ORDER {
        return Some(Asked::Order(name));
    }
    let (id, kind) = rest.strip_prefix("clips/")?.split_once('.')?;
    // One name is one clip: no signs, no zeros in front.
    let id = id.parse::<u64>().ok().filter(|parsed| parsed.to_string() == id)?;
    let wanted = match kind {
        "mp4" => Wanted::File,
        "json" => Wanted::Status,
        "jpg" => Wanted::Poster,
        _ => return None,
    };
    Some(Asked::Find { name, id, wanted })
}

/// Executes the request; `folder` is the address of `/api/recordings/`, and `is_on` says that there is a store.
pub(super) fn act(
    request: &Request,
    asked: Asked,
    clips: &Clips,
    folder: &str,
    is_on: bool,
    now: Utc,
) -> Response {
    let wrong = |words: &str, allow| problem(405, "method not allowed", words).with_header("Allow", allow);
    match (asked, &request.method) {
        (Asked::Order(name), Method::Post) if is_on => order(request, &name, clips, folder, now),
        (Asked::Order(_), Method::Post) => {
            later(503, "no store", "No store of recordings is configured.", 30)
        }
        (Asked::Order(_), _) => wrong("Make a clip with POST.", "POST, OPTIONS"),
        (Asked::Find { name, id, wanted }, Method::Get | Method::Head) => {
            find(&name, id, wanted, clips, folder)
        }
        (Asked::Find { .. }, _) => wrong("Read a clip with GET.", "GET, HEAD, OPTIONS"),
    }
}

fn order(request: &Request, name: &StreamName, clips: &Clips, folder: &str, now: Utc) -> Response {
    let span = match span_of(request, now) {
        Ok(span) => span,
        Err(words) => return problem(400, "no such time", &words),
    };
    match clips.order(name, span) {
        Ok(id) => {
            let at = |kind: &str| format!("{folder}{name}/clips/{id}.{kind}");
            let response = json(&Ordered { state: "making", status: at("json"), file: at("mp4") });
            Response { status: 202, ..response }.with_header("Location", at("json"))
        }
        Err(Refused::TooLong) => problem(400, "too long", &too_long()),
        Err(Refused::Occupied) => {
            later(503, "too many clips", "Other clips are waiting to be made: ask again in a moment.", 2)
        }
    }
}

/// Which time is wanted: `last`, or `from` and `to`; up to now.
fn span_of(request: &Request, now: Utc) -> Result<Span, String> {
    let [last, from, to] = ["last", FROM, TO].map(|name| request.parameter(name));
    let from = match (last, from) {
        (Some(_), Some(_)) => return Err("Give either last or from, and not both.".to_owned()),
        (Some(last), None) if to.is_none() => format!("-{}", last.trim_start_matches('-')),
        (Some(_), None) => return Err("last ends now: give from where there is a to.".to_owned()),
        (None, Some(from)) => from,
        (None, None) => return Err("Say which time: ?last=30s, or ?from=T&to=T.".to_owned()),
    };
    let span = Span::between(Some(&from), to.as_deref(), now).map_err(|bad| format!("{bad}."))?;
    let span = span.ok_or("Say which time: ?last=30s, or ?from=T&to=T.")?;
    let to = span.to.unwrap_or(now).min(now);
    let Some(nanos) = to.as_nanos().checked_sub(span.from.as_nanos()).filter(|nanos| *nanos > 0) else {
        return Err("That time has not come yet.".to_owned());
    };
    if u128::from(nanos) > CLIP_MAX.as_nanos() {
        return Err(too_long());
    }
    Ok(Span { from: span.from, to: Some(to) })
}

fn too_long() -> String {
    let minutes = CLIP_MAX.as_secs() / 60;
    format!("A clip has {minutes} minutes at most; 'glassline export' has longer times.")
}

fn find(name: &StreamName, id: u64, wanted: Wanted, clips: &Clips, folder: &str) -> Response {
    match clips.find(name, id) {
        None => {
            let minutes = KEPT_FOR.as_secs() / 60;
            let words = format!("Clips are kept for {minutes} minutes, and the oldest goes for a new one.");
            problem(404, "no such clip", &words)
        }
        Some(ClipState::Making) => {
            let response = json(&Made { state: "making", clip: None });
            Response { status: 202, ..response }.with_header("Retry-After", "1")
        }
        Some(ClipState::Failed(error)) => failed(&error),
        Some(ClipState::Done(clip)) if wanted == Wanted::File => file(name, clip),
        Some(ClipState::Done(clip)) if wanted == Wanted::Poster => match clip.poster {
            Some(picture) => {
                Response::ok("image/jpeg", picture).with_header("Cache-Control", "private, no-store")
            }
            None => problem(404, "no picture", "The clip has none, or this server cannot decode it."),
        },
        Some(ClipState::Done(clip)) => {
            let report = &clip.report;
            let told = Told {
                bytes: clip.bytes.len(),
                from: date_time(report.from),
                seconds: in_seconds(report.duration),
                renditions: report.renditions.iter().map(ToString::to_string).collect(),
                missing: missing(report),
                lost_objects: report.lost_objects,
                poster: clip.poster.is_some().then(|| format!("{folder}{name}/clips/{id}.jpg")),
            };
            json(&Made { state: "done", clip: Some(told) })
        }
    }
}

fn file(name: &StreamName, clip: Clip) -> Response {
    // Without what some file systems do not take; a name of a stream has none of it.
    let from = date_time(clip.report.from).replace([':', '-'], "");
    let from = from.split('.').next().unwrap_or_default().trim_end_matches('Z');
    Response::ok("video/mp4", clip.bytes)
        .with_header("Content-Disposition", format!("attachment; filename=\"{name}-{from}Z.mp4\""))
        .with_header("Cache-Control", "private, no-store")
}

/// Why there is none, without names of other streams or words of the store, which the log has.
fn failed(error: &ExportFailure) -> Response {
    match error {
        ExportFailure::NoStream { .. } | ExportFailure::NothingThen(_) => {
            problem(404, "nothing is recorded", "Nothing of this stream is recorded in that time.")
        }
        ExportFailure::TooLarge { .. } | ExportFailure::TooLong(_) => {
            problem(413, "too large", "Ask for a shorter time, or use 'glassline export'.")
        }
        ExportFailure::Store(_) => {
            let words = "The store of the recordings does not give them; the log says more. Make the clip anew later.";
            later(503, "the store does not answer", words, 5)
        }
        ExportFailure::Export(error) => problem(422, "no clip can be made of it", &format!("{error}.")),
        _ => problem(500, "no clip was made", "An internal fault ended it; the log says more."),
    }
}

fn later(status: u16, title: &str, words: &str, seconds: u32) -> Response {
    problem(status, title, words).with_header("Retry-After", seconds.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_delivery::archive::export::ExportError;

    #[test]
    fn an_address_names_one_clip_or_none() {
        let name = StreamName::parse("hall").unwrap();
        assert_eq!(asked("hall/clip"), Some(Asked::Order(name.clone())));
        for (kind, wanted) in [("mp4", Wanted::File), ("json", Wanted::Status), ("jpg", Wanted::Poster)] {
            let found = Asked::Find { name: name.clone(), id: 7, wanted };
            assert_eq!(asked(&format!("hall/clips/7.{kind}")), Some(found));
        }
        for other in [
            "hall",
            "hall/",
            "hall/clips",
            "hall/clips/",
            "hall/clips/7",
            "hall/clips/7.ts",
            "hall/clips/+7.mp4",
        ] {
            assert_eq!(asked(other), None, "{other}");
        }
        for other in ["hall/clips/07.mp4", ".x/clip", "hall/20261130T022552.123Z", "hall/clips/../7.mp4"] {
            assert_eq!(asked(other), None, "{other}");
        }
    }

    #[test]
    fn why_there_is_none_is_in_the_status() {
        let status = |error: ExportFailure| failed(&error).status;
        assert_eq!(status(ExportFailure::NothingThen(StreamName::parse("hall").unwrap())), 404);
        assert_eq!(status(ExportFailure::TooLarge { bytes: 2, most: 1 }), 413);
        assert_eq!(status(ExportFailure::Stopped), 500);
        assert_eq!(status(ExportFailure::Export(ExportError::Nothing)), 422);
    }
}
