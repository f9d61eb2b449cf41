//! Pictures of streams: `GET /api/streams/NAME/thumbnail`.

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

fn answer(picture: Jpeg, cache: &'static str) -> Response {
    Response::ok("image/jpeg", Bytes::from_owner(picture.bytes))
        .with_header("Cache-Control", cache)
        .with_header("ETag", format!("\"{}\"", picture.id))
}
