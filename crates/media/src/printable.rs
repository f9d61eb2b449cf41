//! Text from outside as a terminal may show it: what would steer the terminal, or turn the reading direction so that other
//! text seems to stand there, is written in digits, as JSON does it: `\u001b`. Text that is JSON stays the same JSON.
//!
//! ```text
//! C0 controls, DEL   U+0000..1F, U+007F            escape sequences begin with U+001B
//! C1 controls        U+0080..9F                    U+009B begins one too, in the terminals that follow ECMA-48
//! bidi controls      U+202A..2E, U+2066..69        embeddings, overrides and isolates (UAX #9 §2)
//! ```

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Whether a character controls how others are shown, and is none to be shown itself.
#[must_use]
pub fn is_control(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text that is to stand in one line: what would end the line is written in digits, too.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_, _| false)
}

/// A text of lines: their ends (`\n`, `\r\n`) and tabulators stay.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |character, rest| match character {
        '\n' | '\t' => true,
        '\r' => rest.starts_with('\n'),
        _ => false,
    })
}

/// `stays` is told each control character and what follows it.
fn escape(text: &str, stays: impl Fn(char, &str) -> bool) -> Cow<'_, str> {
    let is_escaped = |at: usize, character: char| {
        is_control(character) && !stays(character, text.get(at + character.len_utf8()..).unwrap_or_default())
    };
    if !text.char_indices().any(|(at, character)| is_escaped(at, character)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for (at, character) in text.char_indices() {
        if is_escaped(at, character) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Takes text up to a length and drops the rest, so that what comes from outside costs no more than that.
///
/// ```
/// use glassline_media::printable::Bounded;
/// use std::fmt::Write;
///
/// let mut text = Bounded::new(4);
/// let _ = write!(text, "{}", "ä".repeat(1000));
/// assert_eq!(text.into_string(), "ää…");
/// ```
#[derive(Clone, Debug)]
pub struct Bounded {
    text: String,
    max_bytes: usize,
    is_cut: bool,
}

impl Bounded {
    /// Room for `max_bytes`, behind which an ellipsis stands for the rest.
    #[must_use]
    pub fn new(max_bytes: usize) -> Bounded {
        Bounded { text: String::new(), max_bytes, is_cut: false }
    }

    /// What was written, with `…` at its end where that was more.
    #[must_use]
    pub fn into_string(mut self) -> String {
        if self.is_cut {
            self.text.push('…');
        }
        self.text
    }
}

impl Write for Bounded {
    /// An error where there is no more room, so that a formatter stops.
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = self.max_bytes.saturating_sub(self.text.len());
        if more.len() <= room && !self.is_cut {
            self.text.push_str(more);
            return Ok(());
        }
        if !self.is_cut {
            let end =
                (0..=room.min(more.len())).rev().find(|end| more.is_char_boundary(*end)).unwrap_or_default();
            self.text.push_str(more.get(..end).unwrap_or_default());
            self.is_cut = true;
        }
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_steers_a_terminal_is_written_in_digits() {
        assert_eq!(line("\x1b]0;title\x07 \u{9b}2J\x7f\0"), "\\u001b]0;title\\u0007 \\u009b2J\\u007f\\u0000");
        assert_eq!(line("gnp.\u{202e}exe\u{2066}\u{2069}"), "gnp.\\u202eexe\\u2066\\u2069");
        assert_eq!(line("a\r\nb\tc"), "a\\u000d\\u000ab\\u0009c");
        assert_eq!(lines("a\r\nb\tc\rd\n"), "a\r\nb\tc\\u000dd\n");
        for plain in ["", "Ströme für 你 — 🎥 עברית \u{200d}", "C:\\u001b"] {
            assert!(matches!(line(plain), Cow::Borrowed(same) if same == plain));
        }
    }

    proptest! {
        #[test]
        fn nothing_that_controls_is_left(text in any::<String>()) {
            prop_assert!(!line(&text).chars().any(is_control));
            let left: String = lines(&text).replace("\r\n", "\n").replace(['\n', '\t'], "");
            prop_assert!(!left.chars().any(is_control));
        }

        #[test]
        fn a_bounded_text_is_the_others_beginning(parts in proptest::collection::vec(any::<String>(), 0..5), max in 0usize..40) {
            let mut bounded = Bounded::new(max);
            let _ = parts.iter().try_for_each(|part| bounded.write_str(part));
            let (whole, text) = (parts.concat(), bounded.into_string());
            if whole.len() <= max {
                prop_assert_eq!(text, whole);
            } else {
                let begun = text.strip_suffix('…').expect("it was cut");
                prop_assert!(begun.len() <= max && whole.starts_with(begun));
            }
        }
    }
}
