//! Where the milliseconds of a stream's pictures went: `GET /live/NAME/stages.json` tells when each passed this server,
//! and `POST /live/NAME/stages` takes what a viewer saw. Both are for clients that may watch the stream. A report is
//! only taken from an address that is watching it, about what went to that address, and from a page of this server.

use super::responses::{absent, guarded, shared_with};
use super::watching::find_live;
use super::{Connection, Role};
use crate::turn::TurnContext;
use glassline_delivery::http1::access::is_foreign_page;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response, problem};
use glassline_delivery::policy::StreamName;
use glassline_delivery::telemetry::stages::{PassedPicture, REPORT_MAX_BYTES, ViewerReport};
use glassline_delivery::telemetry::watchers::Reportable;
use glassline_media::Stage;
use glassline_media::stamps::STAGE_EDGES_MICROS;
use glassline_streams::Live;
use glassline_streams::presence::subscriber;
use serde::Serialize;
use std::sync::Arc;

/// What of a stream's presentation tells when pictures passed.
const STAGES: &str = "stages.json";
/// What takes viewers' reports.
const REPORTS: &str = "stages";

/// `GET /live/NAME/stages.json`.
#[derive(Serialize)]
struct Answer {
    now_us: u64,
    edges_us: &'static [u64],
    pictures: Vec<Picture>,
}

/// Stages in microseconds after the capture, by this server's wall clock.
#[derive(Serialize)]
struct Picture {
    captured_us: u64,
    relay_first_byte: Option<i64>,
    relay_received: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relay_released: Option<i64>,
    relay_flushed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relay_sent: Option<i64>,
}

impl Picture {
    fn of(picture: &PassedPicture) -> Picture {
        let after = |stage| picture.after_capture_us(stage);
        Picture {
            captured_us: picture.captured.as_micros(),
            relay_first_byte: after(Stage::RelayFirstByte),
            relay_received: after(Stage::RelayReceived),
            relay_released: after(Stage::RelayReleased),
            relay_flushed: after(Stage::RelayFlushed),
            relay_sent: after(Stage::RelaySent),
        }
    }
}

/// A viewer's report, as far as its body has come.
#[derive(Debug)]
pub(super) struct Reporting {
    live: Arc<Live>,
    body: Vec<u8>,
}

/// Whether `rest`, of a stream's presentation, asks when pictures passed.
pub(super) fn asks_for_stages(rest: &str) -> bool {
    rest == STAGES
}

/// When the pictures of `name` passed here; the error where the stream is not here.
pub(super) fn tell(
    name: &StreamName,
    request: &Request,
    context: &TurnContext<'_>,
) -> Result<Response, Response> {
    let live = find_live(name, context)?;
    let after = match request.parameter("after").map(|text| text.parse::<u64>()) {
        None => None,
        Some(Ok(after)) => Some(after),
        Some(Err(_)) => {
            let words = "Ask for ?after=CAPTURED_US, the captured_us of the last picture that you have.";
            return Ok(problem(400, "no number", words));
        }
    };
    let clock = context.hub.clock;
    let is_later = |picture: &&PassedPicture| after.is_none_or(|after| picture.captured.as_micros() > after);
    let pictures = live.passed_pictures(clock.now(), |all| all.filter(is_later).map(Picture::of).collect());
    let answer = Answer { now_us: clock.utc().as_micros(), edges_us: &STAGE_EDGES_MICROS, pictures };
    Ok(match serde_json::to_vec(&answer) {
        Ok(body) => Response::ok("application/json", body).with_header("Cache-Control", "no-store"),
        Err(error) => problem(500, "it cannot be written", &error.to_string()),
    })
}

/// Whether `request` brings a viewer's report.
pub(super) fn is_report(request: &Request) -> bool {
    request.method == Method::Post
        && StreamName::of_presentation_path(&request.path).is_some_and(|(_, rest)| rest == REPORTS)
}

impl Connection {
    /// Takes the head of a viewer's report, where it may watch and does not report too often. A page of another server may not
    /// have its readers report: its `Origin` or `Sec-Fetch-Site` tells it, and where a browser sends neither, only a form's media
    /// types pass without asking first (Fetch standard, CORS protocol), and JSON is none of them.
    pub(super) fn begin_report(
        &self,
        request: &Request,
        context: &TurnContext<'_>,
    ) -> Result<Reporting, Response> {
        if is_foreign_page(request) {
            let words = "Only a page of this server reports what its viewer sees.";
            return Err(problem(403, "a page of another server", words));
        }
        if !is_json(request.headers.first("content-type")) {
            let words = "Send the report with Content-Type: application/json.";
            return Err(problem(415, "a report is JSON", words));
        }
        let (name, _) = StreamName::of_presentation_path(&request.path).ok_or_else(absent)?;
        self.may_watch(&name, request, context)?;
        let live = find_live(&name, context)?;
        let length = request.headers.first("content-length").and_then(|length| length.parse().ok());
        if length.is_some_and(|length: usize| length > REPORT_MAX_BYTES) {
            return Err(too_large());
        }
        if !live.viewer_figures().admit(subscriber(self.peer.ip()), context.now) {
            return Err(too_often());
        }
        Ok(Reporting { live, body: Vec::new() })
    }

    /// Takes bytes of a viewer's report.
    pub(super) fn take_report(&mut self, data: &[u8], context: &mut TurnContext<'_>) {
        let Role::Reporting(reporting) = &mut self.role else { return };
        if reporting.body.len() + data.len() > REPORT_MAX_BYTES {
            self.refuse(shared_with(context.settings, too_large()), context);
        } else {
            reporting.body.extend_from_slice(data);
        }
    }

    /// A viewer's report is whole.
    pub(super) fn end_report(&mut self, context: &mut TurnContext<'_>) {
        let Role::Reporting(reporting) = &mut self.role else { return };
        let response = match ViewerReport::parse(&reporting.body) {
            Ok(report) => {
                let address = subscriber(self.peer.ip());
                // The lock is held for no longer than that.
                let becomes = reporting.live.watchers().take(address, report.least_time(), context.now);
                match becomes {
                    Reportable::Taken => {
                        reporting.live.viewer_figures().add(&report, context.now);
                        Response::new(204).with_header("Cache-Control", "no-store")
                    }
                    Reportable::TooOften => too_often(),
                    Reportable::NotWatching => {
                        let words = "Watch the stream, and report from the same address.";
                        problem(403, "nothing of the stream goes to this address", words)
                    }
                }
            }
            Err(error) => {
                let words = "Send {\"stages\": {PART: [counts]}}, a count for each of edges_us of stages.json and one more; \
                             docs/latency.md names the parts.";
                problem(400, &error.to_string(), words)
            }
        };
        let response = guarded(shared_with(context.settings, response));
        self.finish_answer(&response, false, context);
    }
}

/// Whether a media type is that of JSON, whatever parameters it has.
fn is_json(media_type: Option<&str>) -> bool {
    let bare = media_type.and_then(|it| it.split(';').next()).unwrap_or_default();
    bare.trim().eq_ignore_ascii_case("application/json")
}

fn too_often() -> Response {
    let words = "Each viewer reports once in ten seconds, about what it has watched; this one, or all of the stream together, \
                 report more than is taken.";
    problem(429, "too many reports", words).with_header("Retry-After", "10")
}

fn too_large() -> Response {
    problem(413, "content too large", &format!("A report has at most {REPORT_MAX_BYTES} bytes."))
}
