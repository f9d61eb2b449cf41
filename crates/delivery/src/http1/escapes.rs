//! Escapes (`%XX`) that stand for the same.
//!
//! ```text
//! /live/a%2Db.ts   /live/a-b.ts      the same address: a dash may stand as it is
//! /pct/a%2fb       /pct/a%2Fb        the same, and another one than /pct/a/b
//! ```

use std::borrow::Cow;

/// Whether hexadecimal digits of the escapes that stay are brought to one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    Upper,
    AsTheyAre,
}

/// `path` in the form that all equivalent ones share (RFC 3986 §6.2.2.1, §6.2.2.2): unreserved characters as they are, and the
/// digits of other escapes in upper case. No separator comes into being (`%2F`, `%00`, `%25` stay), and no escape: one that has a
/// per cent sign without two digits has no equivalents, and stays as it is.
pub fn plain_path(path: &str) -> Cow<'_, str> {
    plain(path, Digits::Upper)
}

/// The same of a query, except that its other escapes stay as they are written: servers may have signed that text.
pub fn plain_query(query: &str) -> Cow<'_, str> {
    plain(query, Digits::AsTheyAre)
}

fn plain(text: &str, digits: Digits) -> Cow<'_, str> {
    let mut pieces = text.split('%');
    let first = pieces.next().unwrap_or_default();
    let mut plain = String::new();
    for piece in pieces {
        let escaped = piece.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let Some((escaped, rest)) = escaped.zip(piece.get(2..)) else { return Cow::Borrowed(text) };
        if plain.is_empty() {
            plain.reserve(text.len());
        }
        match u8::from_str_radix(escaped, 16).map(char::from) {
            Ok(character) if is_unreserved(character) => plain.push(character),
            _ => {
                plain.push('%');
                match digits {
                    Digits::Upper => plain.extend(escaped.chars().map(|digit| digit.to_ascii_uppercase())),
                    Digits::AsTheyAre => plain.push_str(escaped),
                }
            }
        }
        plain.push_str(rest);
    }
    if plain.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(format!("{first}{plain}")) }
}

/// RFC 3986 §2.3.
fn is_unreserved(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_' | '~')
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    #[test]
    fn unreserved_characters_stand_as_they_are() {
        for (path, wanted) in [
            ("/live/a-b.ts", "/live/a-b.ts"),
            ("/live/a%2Db%2ets", "/live/a-b.ts"),
            ("/%6c%69ve/%41%7A%30%5f%7e", "/live/Az0_~"),
            ("%2D", "-"),
            ("/pct/a%2fb%2Fc", "/pct/a%2Fb%2Fc"),
            ("/%00%25%3f%20%c3%a9", "/%00%25%3F%20%C3%A9"),
            ("/a/%2e%2E/b", "/a/../b"),
            ("/%25%32%44", "/%252D"),
            ("/é%2Dé", "/é-é"),
            ("", ""),
        ] {
            assert_eq!(plain_path(path), wanted, "{path}");
        }
        assert_eq!(plain_query("a=%2d&b=%2f*%7Ehmac=%3d"), "a=-&b=%2f*~hmac=%3d");
    }

    #[test]
    fn what_would_become_another_escape_stays() {
        for path in ["/%%36Cive", "/%6", "/%", "/%zz%2D", "/%u006C%2D", "/%é%2D", "/%2D%"] {
            assert_eq!(plain_path(path), path);
        }
    }

    proptest! {
        /// It means the same to all that undo escapes, is the same for all that mean the same, and is no longer.
        #[test]
        fn it_is_one_form_of_the_same(path in "/([a-zA-Z%/.~é-]|%[0-9a-fA-F]{2}){0,20}") {
            let plain = plain_path(&path).into_owned();
            prop_assert!(percent_decode_str(&plain).eq(percent_decode_str(&path)));
            prop_assert_eq!(plain_path(&plain), plain.as_str());
            prop_assert!(plain.len() <= path.len());
            prop_assert_eq!(plain.matches('/').count(), path.matches('/').count());
        }
    }
}
