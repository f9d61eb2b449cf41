//! Keys that stand in rules.

use std::fmt;
use std::ops::Deref;
use zeroize::Zeroizing;

/// A key of publishers or viewers. It does not show in what is logged, and its bytes are overwritten when it is dropped;
/// each clone is one more that is.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Secret {
        Secret(Zeroizing::new(secret.into()))
    }
}

impl From<&str> for Secret {
    fn from(secret: &str) -> Secret {
        Secret::new(secret)
    }
}

/// The secret itself: to compare with, never to print.
impl Deref for Secret {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_not_show_and_is_overwritten_when_it_is_dropped() {
        let secret = Secret::from("correct-horse");
        assert_eq!((&*secret, format!("{secret:?}")), ("correct-horse", "Secret(…)".into()));
        fn overwrites<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        overwrites(&secret.0);
    }
}
