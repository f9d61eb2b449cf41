//! Pictures of streams and of their alarms: `GET /api/streams/NAME/thumbnail`, `GET /api/alarms/pictures/ID`.

use bytes::Bytes;
use glassline_delivery::http1::{Response, problem};
use glassline_watch::Jpeg;

/// The newest picture of a stream, of which there is another one every few seconds.
pub(super) fn newest(picture: Option<Jpeg>) -> Response {
    match picture {
        Some(picture) => answer(picture, "private, max-age=5"),
        None => problem(
            404,
            "no picture",
            "Pictures are there of streams that [watch] covers, that are published, and that libavcodec decodes.",
        ),
    }
}

/// The picture of an alarm, which stays as it is.
pub(super) fn of_alarm(picture: Option<Jpeg>) -> Response {
    match picture {
        Some(picture) => answer(picture, "private, max-age=86400, immutable"),
        None => problem(
            404,
            "no such picture",
            "The pictures of the last 64 alarms are kept; GET /api/alarms names them.",
        ),
    }
}

fn answer(picture: Jpeg, cache: &'static str) -> Response {
    Response::ok("image/jpeg", Bytes::from_owner(picture.bytes))
        .with_header("Cache-Control", cache)
        .with_header("ETag", format!("\"{}\"", picture.id))
}
