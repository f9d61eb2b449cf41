//! Answers in words, as objects: what a request for a recording comes to where there is nothing to give.

use crate::store::{StoreError, StoreErrorKind};
use glassline_delivery::archive::query::Span;
use glassline_delivery::fill::{Head, Object as Filling};
use glassline_delivery::http1::{Response, problem};
use glassline_delivery::playlist::Object;
use glassline_edge::{Growing, Wake};
use std::sync::Arc;

/// A response as the head of an object; its body is apart.
fn head_of(response: &Response) -> Head {
    let head = Head::of_status(response.status);
    response.headers.iter().fold(head, |head, (name, value)| head.with(name, value))
}

/// The response as an object that is whole.
fn whole(response: Response, wake: &Arc<dyn Wake>) -> Arc<Growing> {
    let response = response.with_header("Cache-Control", "no-store");
    Growing::new(Filling::whole(head_of(&response), response.body), Arc::clone(wake))
}

/// Answers with `response`.
pub(super) fn fill(growing: &Growing, response: Response) {
    let response = response.with_header("Cache-Control", "no-store");
    growing.change(|object| {
        object.begin(head_of(&response), None);
        object.append(response.body);
        object.finish();
    });
}

pub(super) fn unknown_object(wake: &Arc<dyn Wake>) -> Arc<Growing> {
    let words =
        "Recorded objects are at archive/SESSION/RENDITION/N.m4s; playlists with ?from= and &to= name them.";
    whole(problem(404, "no recorded object has this name", words), wake)
}

/// The answer to a time that has not come.
pub(super) fn to_come(wake: &Arc<dyn Wake>) -> Arc<Growing> {
    let words = "from lies in the future: ask again then, or for what is live without a time.";
    whole(problem(404, "nothing is recorded yet", words), wake)
}

pub(super) fn too_many_days(wake: &Arc<dyn Wake>) -> Arc<Growing> {
    let words = "Between from and to lies more than a day: ask for a shorter time. glassline export takes longer ones.";
    whole(problem(400, "too much for one playlist", words), wake)
}

pub(super) fn bad_time(words: &str, wake: &Arc<dyn Wake>) -> Arc<Growing> {
    whole(problem(400, "from and to are no time", words), wake)
}

/// Leads to the same playlist with its time by the clock.
pub(super) fn by_the_clock(object: Object, span: Span, wake: &Arc<dyn Wake>) -> Arc<Growing> {
    let location = format!("{}?{}", address(object), span.to_string().replace(':', "%3A"));
    whole(Response::new(302).with_header("Location", &location), wake)
}

/// Relative to where it was asked for, which is beside it.
fn address(object: Object) -> String {
    object.to_string().rsplit('/').next().unwrap_or_default().to_owned()
}

pub(super) fn busy(wake: &Arc<dyn Wake>) -> Arc<Growing> {
    whole(too_many(), wake)
}

/// The answer where an address has asked for much that is still coming.
pub(super) fn busy_with_one(wake: &Arc<dyn Wake>) -> Arc<Growing> {
    let words = "What you have asked for of recordings is still being fetched. Ask again in a second, for less at once.";
    whole(problem(429, "too many requests for recordings", words).with_header("Retry-After", "1"), wake)
}

pub(super) fn too_many() -> Response {
    let words =
        "This server fetches as many recorded objects as it can at the moment. Ask again in a second.";
    problem(503, "too many ask for recordings", words).with_header("Retry-After", "1")
}

pub(super) fn absent() -> Response {
    let words = "Nothing of this stream is recorded in that time. Its times are those of capture, by its publisher's clock where the \
                 stream tells them; times before now go by this server's. GET /api/recordings says what there is.";
    problem(404, "nothing is recorded", words)
}

/// The answer where nothing of the time is there as MPEG-TS.
pub(super) fn no_mpeg_ts() -> Response {
    let words = "Nothing of that time is recorded as MPEG-TS; [record] ts has what comes recorded so. index.m3u8 names what there is.";
    problem(404, "not recorded as MPEG-TS", words)
}

pub(super) fn too_long(words: &str) -> Response {
    problem(400, "too much for one playlist", words)
}

/// The answer where the store has no such object. `was_there`: an index tells of it.
pub(super) fn not_found(was_there: bool) -> Response {
    if was_there {
        let words = "It was recorded, and is kept no longer. Read the playlist again; it says what there is.";
        problem(410, "it is kept no longer", words)
    } else {
        let words = "No recording has such an object. Read the playlist again; it says what there is.";
        problem(404, "no such recorded object", words)
    }
}

/// The answer where a recording has just begun.
pub(super) fn not_yet() -> Response {
    let words =
        "The recording has just begun, or the disk of its spool does not answer. Ask again in a second.";
    problem(503, "no picture yet", words).with_header("Retry-After", "1")
}

/// The answer to a request for a picture that has waited for too long.
pub(super) fn late() -> Response {
    let words =
        "The store of the recordings is slow, and other pictures came first. Ask again in some seconds.";
    problem(503, "no picture yet", words).with_header("Retry-After", "5")
}

/// The answer where a recording has no picture.
pub(super) fn no_picture() -> Response {
    let words = "The recording has no pictures, or this server cannot decode them: that takes libavcodec.";
    problem(404, "no picture of this recording", words)
}

/// The answer where the store does not give what it should have. Its own words are for the log: they may tell of credentials.
pub(super) fn store_failed(error: &StoreError) -> Response {
    let words = match error.kind() {
        StoreErrorKind::Unreachable | StoreErrorKind::Busy => {
            "The store of the recordings does not answer at the moment. Ask again in some seconds."
        }
        _ => "The store of the recordings cannot be read; this server's log says why. Ask again later.",
    };
    problem(503, "the store of the recordings gives nothing", words).with_header("Retry-After", "2")
}

/// The answer where an object is another one than was recorded.
pub(super) fn damaged() -> Response {
    let words = "The store has other bytes than were recorded. Go on with the next segment.";
    problem(502, "the recorded object is damaged", words)
}
