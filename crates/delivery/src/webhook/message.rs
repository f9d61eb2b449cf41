//! A message: an event with its name.

use super::WebhookSecret;
use crate::http1::{Method, Url};
use crate::playlist::date_time;
use bytes::Bytes;
use glassline_media::Utc;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// One event, as it goes to every receiver, at each attempt the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    id: String,
    body: Bytes,
}

impl Message {
    /// An event of kind `kind`, full-stop delimited as in `alarm.begun`, that came up at `at`. `random` gives it a name that no
    /// other message has, also of other runs of the program.
    ///
    /// The body is the event's own object with `type` and `timestamp` (RFC 3339) in it, as Standard Webhooks recommends
    /// ("Payload structure"); an event that is no object stands in `data`. What the event has under these two names is replaced.
    ///
    /// # Errors
    /// Where the event cannot be written as JSON, such as a map with keys that are no texts.
    pub fn new(
        kind: &str,
        at: Utc,
        event: &impl Serialize,
        random: [u8; 16],
    ) -> Result<Message, serde_json::Error> {
        let mut object = match serde_json::to_value(event)? {
            Value::Object(object) => object,
            other => Map::from_iter([("data".to_owned(), other)]),
        };
        object.insert("type".to_owned(), kind.into());
        object.insert("timestamp".to_owned(), date_time(at).into());
        // Without a full stop, which ends it in what is signed.
        let id = random.iter().fold("msg_".to_owned(), |mut id, byte| {
            let _ = write!(id, "{byte:02x}");
            id
        });
        Ok(Message { id, body: Value::Object(object).to_string().into() })
    }

    /// Its name, `webhook-id`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its bytes: JSON.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// What it takes of memory, about.
    pub(super) fn weight_bytes(&self) -> usize {
        self.id.len().saturating_add(self.body.len())
    }

    /// The bytes of a request that gives it to `url`, signed for `unix_seconds`, the time of this attempt.
    pub fn request(&self, url: &Url, secret: &WebhookSecret, unix_seconds: u64) -> Vec<u8> {
        let request = url
            .request(Method::Post)
            .with_header("Content-Type", "application/json")
            .with_header("Content-Length", &self.body.len().to_string())
            .with_header("webhook-id", &self.id)
            .with_header("webhook-timestamp", &unix_seconds.to_string())
            .with_header("webhook-signature", &secret.signature(&self.id, unix_seconds, &self.body));
        let mut bytes = request.without_body();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const AT: Utc = Utc::from_nanos(1_777_863_721_123_000_000);

    fn message(event: Value) -> Message {
        Message::new("alarm.begun", AT, &event, [0xab; 16]).unwrap()
    }

    #[test]
    fn a_body_has_kind_and_time_beside_what_the_event_says() {
        let message = message(json!({"alarm": "silence", "type": "x", "value": -71.2}));
        let body: Value = serde_json::from_slice(message.body()).unwrap();
        assert_eq!(
            body,
            json!({"type": "alarm.begun", "timestamp": "2026-05-04T03:02:01.123Z", "alarm": "silence", "value": -71.2})
        );
        let body: Value = serde_json::from_slice(super::tests::message(json!([1, 2])).body()).unwrap();
        assert_eq!(
            body,
            json!({"type": "alarm.begun", "timestamp": "2026-05-04T03:02:01.123Z", "data": [1, 2]})
        );
    }

    #[test]
    fn a_name_is_of_its_random_bytes_and_has_no_full_stop() {
        let message = message(json!({}));
        assert_eq!(message.id(), format!("msg_{}", "ab".repeat(16)));
        let other = Message::new("alarm.begun", AT, &json!({}), [0xac; 16]).unwrap();
        assert_ne!(message.id(), other.id());
        let unwritable = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(Message::new("alarm.begun", AT, &unwritable, [0; 16]).is_err());
    }

    #[test]
    fn a_request_has_the_three_fields_and_the_bytes_that_are_signed() {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let url: Url = "https://user:word@hooks.example/a?b=c".parse().unwrap();
        let message = message(json!({"alarm": "silence"}));
        let wire = String::from_utf8(message.request(&url, &secret, 1_777_863_722)).unwrap();
        let (head, body) = wire.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /a?b=c HTTP/1.1\r\nHost: hooks.example\r\n"), "{head}");
        for field in [
            "Content-Type: application/json".to_owned(),
            format!("Content-Length: {}", body.len()),
            "Authorization: Basic dXNlcjp3b3Jk".to_owned(),
            "Connection: close".to_owned(),
            format!("webhook-id: {}", message.id()),
            "webhook-timestamp: 1777863722".to_owned(),
            format!("webhook-signature: {}", secret.signature(message.id(), 1_777_863_722, body.as_bytes())),
        ] {
            assert!(head.split("\r\n").any(|line| line == field), "{field}: {head}");
        }
        assert_eq!(body.as_bytes(), message.body());
    }
}
