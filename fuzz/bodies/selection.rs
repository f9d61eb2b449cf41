//! What clients ask for of an object: conditions and ranges, while it grows and when it is whole.
//!
//! The first byte says whether the object is whole (bit 0) and whether only its head is asked for (bit 1), the second how many
//! bytes it has. The rest are the request's fields.

use glassline_delivery::fill::{Bytes, Head, Object, Selection};
use glassline_delivery::http1::server::{Event, Server};
use glassline_delivery::http1::{Limits, Response};
use glassline_media::Time;

/// Panics where what is selected does not lie inside of the object, or where an object that is whole is answered otherwise
/// than a response of the same bytes.
pub fn run(data: &[u8]) {
    let [choice, bytes, fields @ ..] = data else { return };
    let method = if choice & 2 == 0 { "GET" } else { "HEAD" };
    let wire = [format!("{method} / HTTP/1.1\r\nHost: h\r\n").as_bytes(), fields, b"\r\n\r\n"].concat();
    let Ok(Some(Event::Request(request))) =
        Server::new(Limits::DEFAULT, Time::ZERO).next(&mut &wire[..], Time::ZERO)
    else {
        return;
    };
    let content: Vec<u8> = (0..*bytes).collect();
    let mut object = Object::new();
    object.begin(Head::new("video/mp4").with("ETag", "\"7\""), None);
    object.append(Bytes::from(content.clone()));
    if choice & 1 == 1 {
        object.finish();
    }
    let progress = object.progress();
    let selected = Selection::of(&request, &progress);
    if let Ok(Selection::Part { from, to }) = selected {
        assert!(to.is_none_or(|to| from < to), "{from} {to:?}");
        let mut read = Vec::new();
        object.read(from, to.unwrap_or(u64::MAX), &mut read);
        let [from, to] = [from, to.unwrap_or(u64::MAX)]
            .map(|at| usize::try_from(at).unwrap_or(usize::MAX).min(content.len()));
        assert_eq!(read.concat(), &content[from..to]);
    }
    let Some(total) = progress.total else { return };
    let answer = Response::ok("video/mp4", content).with_header("ETag", "\"7\"").for_request(&request);
    let status = match selected {
        Ok(Selection::Whole) => 200,
        Ok(Selection::NotModified) => 304,
        Ok(Selection::Part { from, to }) => {
            assert!(from < total && to.is_some_and(|to| to <= total), "{from} {to:?}");
            206
        }
        Err(_) => 416,
    };
    assert_eq!(answer.status, status, "{selected:?}");
}
