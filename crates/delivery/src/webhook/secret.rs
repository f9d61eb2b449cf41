//! The key of a webhook's signature (Standard Webhooks 1.0.0, "Signature scheme").

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;
use std::fmt;
use thiserror::Error;
use zeroize::Zeroizing;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// Bytes of a secret, 192 to 512 bits.
const BYTES_MIN: usize = 24;
const BYTES_MAX: usize = 64;

/// What sender and receiver share. Never shown, and overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Zeroizing<Vec<u8>>);

/// Why a text is no secret. The text is not repeated.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretError {
    /// It is not Base64.
    #[error(
        "a webhook's secret is whsec_ and Base64 behind it; `echo whsec_$(openssl rand -base64 32)` makes one"
    )]
    NotBase64,
    /// It has too few or too many bytes.
    #[error(
        "a webhook's secret has {BYTES_MIN} to {BYTES_MAX} bytes, and this one has {found}; `echo whsec_$(openssl rand -base64 32)` makes one"
    )]
    Length {
        /// The bytes that it has.
        found: usize,
    },
}

impl WebhookSecret {
    /// Reads `whsec_BASE64`; as the libraries of Standard Webhooks do, also without the prefix. White space around it is
    /// ignored.
    ///
    /// # Errors
    /// Where it is not Base64 (RFC 4648 §4, padded), or of a length that the specification does not have.
    pub fn parse(text: &str) -> Result<WebhookSecret, SecretError> {
        let text = text.trim();
        let encoded = text.strip_prefix(PREFIX).unwrap_or(text);
        let bytes = BASE64_STANDARD.decode(encoded).map_err(|_| SecretError::NotBase64)?;
        let bytes = Zeroizing::new(bytes);
        if (BYTES_MIN..=BYTES_MAX).contains(&bytes.len()) {
            Ok(WebhookSecret(bytes))
        } else {
            Err(SecretError::Length { found: bytes.len() })
        }
    }

    /// The value of `webhook-signature` for a message that is sent at `unix_seconds`.
    pub fn signature(&self, id: &str, unix_seconds: u64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.0));
        for part in [id.as_bytes(), b".", unix_seconds.to_string().as_bytes(), b".", body] {
            context.update(part);
        }
        format!("v1,{}", BASE64_STANDARD.encode(context.sign()))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries (`sign function works`, and the same in each language).
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const SECONDS: u64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    #[test]
    fn a_signature_is_that_of_the_standard() {
        for text in [
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            " whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
        ] {
            let secret = WebhookSecret::parse(text).unwrap();
            assert_eq!(secret.signature(ID, SECONDS, BODY), SIGNATURE, "{text}");
        }
    }

    #[test]
    fn id_time_body_and_secret_all_count() {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let other = WebhookSecret::parse("whsec_NfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let changed = [
            secret.signature("msg_q5jXN8AQM9LWM0D4loKWxJek", SECONDS, BODY),
            secret.signature(ID, SECONDS + 1, BODY),
            secret.signature(ID, SECONDS, br#"{"test":2432232314}"#),
            other.signature(ID, SECONDS, BODY),
        ];
        assert!(changed.iter().all(|signature| signature != SIGNATURE), "{changed:?}");
    }

    #[test]
    fn what_is_no_secret_is_not_repeated() {
        let of = |bytes: usize| format!("whsec_{}", BASE64_STANDARD.encode(vec![7; bytes]));
        assert_eq!(WebhookSecret::parse(&of(23)), Err(SecretError::Length { found: 23 }));
        assert!(WebhookSecret::parse(&of(24)).is_ok() && WebhookSecret::parse(&of(64)).is_ok());
        assert_eq!(WebhookSecret::parse(&of(65)), Err(SecretError::Length { found: 65 }));
        for bad in ["whsec_not base64 at all", "whsk_AAAA", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS"] {
            let error = WebhookSecret::parse(bad).unwrap_err();
            assert!(error == SecretError::NotBase64 && !error.to_string().contains("Mf"), "{error}");
        }
        assert_eq!(WebhookSecret::parse(""), Err(SecretError::Length { found: 0 }));
        let shown = format!("{:?}", WebhookSecret::parse(&of(24)).unwrap());
        assert_eq!(shown, "WebhookSecret(…)");
    }
}
