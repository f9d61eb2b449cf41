//! The Chrome DevTools Protocol as it goes over a pipe (`--remote-debugging-pipe`): messages of JSON, each ended by a NUL.

use serde_json::{Value, json};
use thiserror::Error;

/// The largest message that is taken: a picture of 4K in base64 has room.
pub(super) const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// What is no message.
#[derive(Debug, Error)]
pub(super) enum CdpError {
    /// Too much without an end.
    #[error("a message of more than {MAX_MESSAGE_BYTES} bytes")]
    TooLong,
    /// Not JSON.
    #[error("a message that is no JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// What a browser says.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// The answer to a call: what it gave, or why it failed.
    Answer {
        /// The call's number.
        id: u64,
        /// What came of it.
        result: Result<Value, String>,
    },
    /// Something happened, or was said that is neither.
    Event,
}

/// Cuts what comes into messages.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// So many of them were looked at, and hold no end.
    seen: usize,
}

impl Frames {
    /// Takes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message that is whole.
    ///
    /// # Errors
    /// Where it is none, or becomes too long; nothing good follows then.
    pub(super) fn next(&mut self) -> Result<Option<Message>, CdpError> {
        let Some(end) = self.bytes[self.seen..].iter().position(|byte| *byte == 0) else {
            self.seen = self.bytes.len();
            return if self.seen > MAX_MESSAGE_BYTES { Err(CdpError::TooLong) } else { Ok(None) };
        };
        let rest = self.bytes.split_off(self.seen + end + 1);
        let message = std::mem::replace(&mut self.bytes, rest);
        self.seen = 0;
        parse(&message[..message.len() - 1]).map(Some)
    }
}

fn parse(text: &[u8]) -> Result<Message, CdpError> {
    let mut value: Value = serde_json::from_slice(text)?;
    let Some(id) = value["id"].as_u64() else { return Ok(Message::Event) };
    let result = match value.get("error") {
        Some(error) => Err(error["message"].as_str().unwrap_or("it does not say why").to_owned()),
        None => Ok(value["result"].take()),
    };
    Ok(Message::Answer { id, result })
}

/// A call as it is written; `session` names the page that it is for.
pub(super) fn call(id: u64, session: Option<&str>, method: &str, params: &Value) -> Vec<u8> {
    let mut value = json!({ "id": id, "method": method, "params": params });
    if let Some(session) = session {
        value["sessionId"] = session.into();
    }
    let mut bytes = value.to_string().into_bytes();
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(chunks: &[&[u8]]) -> Vec<Message> {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for chunk in chunks {
            frames.push(chunk);
            while let Some(message) = frames.next().unwrap() {
                found.push(message);
            }
        }
        found
    }

    #[test]
    fn answers_failures_and_events_are_told_apart() {
        let text = b"{\"id\":1,\"result\":{\"a\":2}}\0{\"id\":2,\"error\":{\"message\":\"no\"}}\0{\"method\":\"x\"}\0";
        let found = all(&[text]);
        let expected = [
            Message::Answer { id: 1, result: Ok(json!({"a": 2})) },
            Message::Answer { id: 2, result: Err("no".into()) },
            Message::Event,
        ];
        assert_eq!(found, expected);
        let mut frames = Frames::default();
        frames.push(b"chromium\0");
        assert!(matches!(frames.next(), Err(CdpError::Json(_))));
    }

    #[test]
    fn what_is_called_is_one_message() {
        let bytes = call(7, Some("page"), "Runtime.evaluate", &json!({"expression": "\u{0}"}));
        assert_eq!(bytes.iter().filter(|byte| **byte == 0).count(), 1, "its end");
        let value: Value = serde_json::from_slice(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!((&value["id"], &value["sessionId"]), (&json!(7), &json!("page")));
        assert_eq!(value["params"]["expression"], "\u{0}");
    }

    proptest! {
        #[test]
        fn any_chop_gives_the_same_messages(
            texts in prop::collection::vec("[a-z\"\\\\\u{0}-\u{1f}é]{0,40}", 0..6),
            cuts in prop::collection::vec(0usize..400, 0..12),
        ) {
            let mut bytes = Vec::new();
            for (id, text) in texts.iter().enumerate() {
                bytes.extend(json!({ "id": id, "result": text }).to_string().into_bytes());
                bytes.push(0);
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let expected: Vec<Message> = texts
                .iter()
                .enumerate()
                .map(|(id, text)| Message::Answer { id: id as u64, result: Ok(text.as_str().into()) })
                .collect();
            prop_assert_eq!(all(&chunks), expected);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = Frames::default();
            frames.push(&bytes);
            while let Ok(Some(_)) = frames.next() {}
        }
    }
}
