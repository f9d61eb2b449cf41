//! `json` among a channel's options: each message is written as a line of JSON with the times that it can be compared by.
//!
//! ```text
//! {"time":"2026-05-04T03:02:01.123456Z","received":"…","picture":"…","text":"…"}
//!   time      when the peer read the message, by the peer's wall clock; null where its channel is not `stamped`
//!   received  when the line was written, by ours
//!   picture   when the picture was captured that is on screen here, by its sender's wall clock; null before the first one.
//!             Only where pictures are shown
//!   text      the message, or
//!   base64    the same (RFC 4648 §4), where it is no UTF-8
//! ```

use super::output::Output;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use glassline_call::direct::LipSync;
use glassline_call::link::session;
use glassline_delivery::playlist::date_time_micros;
use glassline_io::clock::Clock;
use glassline_media::Utc;
use serde::Serialize;
use std::io;
use std::sync::Arc;

/// An output of such lines.
pub(super) struct JsonLines {
    output: Output,
    /// What says which picture is on screen, where some are shown.
    pictures: Option<Arc<LipSync>>,
    clock: Clock,
}

#[derive(Serialize)]
struct Line<'a> {
    time: Option<String>,
    received: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    picture: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl JsonLines {
    /// Lines to `output`, which ends them itself where it is a stream of bytes.
    pub(super) fn new(output: Output, pictures: Option<Arc<LipSync>>) -> JsonLines {
        JsonLines { output, pictures, clock: Clock::new() }
    }
}

impl session::Output for JsonLines {
    fn write(&mut self, message: &Bytes) -> io::Result<()> {
        self.write_stamped(message, None)
    }

    fn write_stamped(&mut self, message: &Bytes, stamp: Option<Utc>) -> io::Result<()> {
        let picture = self.pictures.as_ref().map(|pictures| pictures.captured());
        self.output.write(&line(message, stamp, self.clock.utc(), picture)?.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

fn line(
    message: &[u8],
    stamp: Option<Utc>,
    received: Utc,
    picture: Option<Option<Utc>>,
) -> io::Result<Vec<u8>> {
    let text = std::str::from_utf8(message).ok();
    let line = Line {
        time: stamp.map(date_time_micros),
        received: date_time_micros(received),
        picture: picture.map(|picture| picture.map(date_time_micros)),
        text,
        base64: text.is_none().then(|| STANDARD.encode(message)),
    };
    Ok(serde_json::to_vec(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn a_line_has_its_times_and_its_text() {
        let [stamp, received, picture] =
            [1_700_000_000_000_007, 1_700_000_000_120_000, 1_699_999_999_990_000].map(Utc::from_micros);
        let text = |stamp, picture| String::from_utf8(line(b"say \"x\"", stamp, received, picture).unwrap());
        assert_eq!(
            text(Some(stamp), Some(Some(picture))).unwrap(),
            "{\"time\":\"2023-11-14T22:13:20.000007Z\",\"received\":\"2023-11-14T22:13:20.120000Z\",\
             \"picture\":\"2023-11-14T22:13:19.990000Z\",\"text\":\"say \\\"x\\\"\"}"
        );
        let unknown = text(None, Some(None)).unwrap();
        assert!(unknown.starts_with("{\"time\":null,") && unknown.contains("\"picture\":null,"), "{unknown}");
        assert!(!text(None, None).unwrap().contains("picture"), "there are none");
    }

    #[test]
    fn what_is_no_text_is_in_base64() {
        let line = line(b"\xfd\x09\0", None, Utc::from_micros(1), None).unwrap();
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((line["base64"].as_str(), line.get("text")), (Some("/QkA"), None));
    }

    proptest! {
        #[test]
        fn any_message_is_one_line(message in prop::collection::vec(any::<u8>(), 0..60)) {
            let line = line(&message, None, Utc::from_micros(1), None).unwrap();
            prop_assert!(!line.contains(&b'\n'));
            let line: Value = serde_json::from_slice(&line).unwrap();
            match std::str::from_utf8(&message) {
                Ok(text) => prop_assert_eq!(line["text"].as_str(), Some(text)),
                Err(_) => prop_assert_eq!(line["base64"].as_str().unwrap().len(), message.len().div_ceil(3) * 4),
            }
        }
    }
}
