//! Text as programs and people have written it to the lines that are read.
//!
//! Senders and the forms that administrators paste descriptions from are not as strict as RFC 8866: lines end in any way, are
//! blank, are comments, or go on in the next one; tabs stand for spaces; names are in Latin-1. Of all fields only `v`, `o`, `s`,
//! `c`, `m` and `a` say something of the samples and of where they go, so no other one can make a description bad.

use std::borrow::Cow;

/// The fields that are read.
const FIELDS: &[u8] = b"voscma";
/// An origin for descriptions with one that cannot be read: nothing depends on it.
const NO_ORIGIN: &str = "o=- 0 0 IN IP4 0.0.0.0";

/// What bytes say: UTF-8 (RFC 8866 §5), or else Latin-1, which every byte is a character of.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().copied().map(char::from).collect()),
    }
}

/// The lines that are read, with `\r\n` behind each. What was wrong with others is told in `notices`.
pub(super) fn usable(text: &str, notices: &mut Vec<String>) -> String {
    // Some editors begin files with a byte order mark, and FFmpeg prints a title first.
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let text = text.strip_prefix("SDP:").unwrap_or(text);
    let mut lines: Vec<String> = Vec::new();
    for line in text.split(['\r', '\n']) {
        let is_indented = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_field = matches!(line.as_bytes(), [b'a'..=b'z', b'=', ..]);
        match lines.last_mut() {
            Some(last) if is_indented && !is_field => {
                last.push(' ');
                last.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    let mut out = String::new();
    let mut in_section_without_line = false;
    for line in &lines {
        let Some((field, value)) = line.split_once('=').filter(|(field, _)| field.len() == 1) else {
            // What else it may be, sdp_types says.
            push(&mut out, line);
            continue;
        };
        let value = value.replace('\t', " ");
        match field.as_bytes() {
            b"m" => {
                in_section_without_line = !is_media(&value);
                if in_section_without_line {
                    let value: String = value.chars().take(60).collect();
                    notices.push(format!(
                        "`m={value}` is passed over: the line is `m=MEDIUM PORT PROTOCOL FORMAT…`"
                    ));
                } else {
                    push(&mut out, &format!("m={value}"));
                }
            }
            _ if in_section_without_line => {}
            b"o" if !is_origin(&value) => {
                let value: String = value.chars().take(60).collect();
                notices.push(format!(
                    "`o={value}` is ignored: the line is `o=- ID VERSION IN IP4 ADDRESS`, in numbers"
                ));
                push(&mut out, NO_ORIGIN);
            }
            b"c" => push(&mut out, &connection(&value)),
            [field] if FIELDS.contains(field) => push(&mut out, &format!("{}={value}", char::from(*field))),
            _ => {}
        }
    }
    out
}

/// A line `c=` with as many words as it is to have. Whether they are an address, its section is asked.
fn connection(value: &str) -> String {
    let words: Vec<&str> = value.split_ascii_whitespace().collect();
    let [_, kind, address] = words[..] else { return format!("c=IN IP4 {}", words.concat()) };
    // So some devices write it.
    let kind = match kind.to_ascii_uppercase().as_str() {
        "IPV4" => "IP4",
        "IPV6" => "IP6",
        _ => kind,
    };
    format!("c=IN {kind} {address}")
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push_str("\r\n");
}

fn is_media(value: &str) -> bool {
    let mut words = value.split_ascii_whitespace();
    let port = words.nth(1).and_then(|port| port.split('/').next());
    port.is_some_and(|port| port.parse::<u16>().is_ok()) && words.count() >= 2
}

fn is_origin(value: &str) -> bool {
    let words: Vec<&str> = value.split_ascii_whitespace().collect();
    matches!(words[..], [_, id, version, _, _, _] if id.parse::<u64>().is_ok() && version.parse::<u64>().is_ok())
}
