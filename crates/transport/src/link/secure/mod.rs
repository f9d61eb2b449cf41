//! What keeps strangers out: keys come from a Noise handshake, data packets are sealed with AES-128-GCM.
//!
//! * [`gate`]: a cheap tag on the datagrams of a handshake, by which a stranger is turned away before any curve.
//! * [`noise`]: the handshake (`NNpsk0` or `IK`), its randomness handed in.
//! * [`keys`]: the keys of data packets, their update, and the window that turns replays away.
//! * [`token`]: what a Retry gives, and what a Reset is believed by.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub mod gate;
pub mod keys;
pub mod noise;
pub mod token;

use ring::hmac;

/// HKDF-Expand (RFC 5869 §2.3) with SHA-256, of at most one block: HMAC(secret, label ‖ context ‖ 1), cut to `N` ≤ 32
/// bytes.
pub(crate) fn expand<const N: usize>(secret: &[u8], label: &str, context: &[u8]) -> [u8; N] {
    expand_with(&hmac::Key::new(hmac::HMAC_SHA256, secret), label, context)
}

/// As [`expand`], with a secret that is asked often: its key is made once, which is half of the work.
pub(crate) fn expand_with<const N: usize>(key: &hmac::Key, label: &str, context: &[u8]) -> [u8; N] {
    const { assert!(N <= 32) };
    let mut mac = hmac::Context::with_key(key);
    mac.update(label.as_bytes());
    mac.update(context);
    mac.update(&[1]);
    let block = mac.sign();
    let mut out = [0; N];
    out.copy_from_slice(&block.as_ref()[..N]);
    out
}

#[cfg(test)]
#[path = "vectors_tests.rs"]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansion_is_that_of_rfc_5869() {
        // Appendix A.1: the first block of OKM.
        let prk: [u8; 32] = [
            0x07, 0x77, 0x09, 0x36, 0x2c, 0x2e, 0x32, 0xdf, 0x0d, 0xdc, 0x3f, 0x0d, 0xc4, 0x7b, 0xba, 0x63,
            0x90, 0xb6, 0xc7, 0x3b, 0xb5, 0x0f, 0x9c, 0x31, 0x22, 0xec, 0x84, 0x4a, 0xd7, 0xc2, 0xb3, 0xe5,
        ];
        let info = [0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9];
        let block: [u8; 16] = expand(&prk, "", &info);
        assert_eq!(block[..8], [0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a]);
    }
}
