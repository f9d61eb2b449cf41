//! Addresses in manifests of DASH (ISO/IEC 23009-1): attributes of segments' elements, and the texts of `BaseURL`, `Location`
//! and `PatchLocation`. `UTCTiming` is left alone: a clock asks for no token.
//!
//! Where a relative address may lead is the whole manifest's business: with a `BaseURL` of another server all stay as they
//! are. So they do where something is not understood, or a document type may define what words stand for.

use super::Written;
use super::address::{Ampersand, AskedServer, carry as carry_address, leads_to};

/// Elements with an address as their text.
const TEXTS: [&str; 3] = ["BaseURL", "Location", "PatchLocation"];
/// Elements and those of their attributes that are addresses.
const ATTRIBUTES: [(&str, &[&str]); 5] = [
    ("SegmentTemplate", &["media", "initialization", "index", "bitstreamSwitching"]),
    ("SegmentURL", &["media", "index"]),
    ("Initialization", &["sourceURL"]),
    ("RepresentationIndex", &["sourceURL"]),
    ("BitstreamSwitching", &["sourceURL"]),
];
const IDENTIFIER: &str = "$RepresentationID$";

pub(super) fn carry(text: &str, token: &str, asked: &AskedServer<'_>, out: &mut Written) -> Option<()> {
    let mut manifest = Manifest { token, asked, odd_identifier: false, leading_identifier: false };
    let mut rest = text;
    let mut has_element = false;
    while let Some(at) = rest.find('<') {
        let (between, tag) = rest.split_at_checked(at)?;
        out.push(between)?;
        rest = if tag.starts_with("<!--") {
            copy_through(tag, "-->", out)?
        } else if tag.starts_with("<![CDATA[") {
            copy_through(tag, "]]>", out)?
        } else if tag.starts_with("<?") {
            copy_through(tag, "?>", out)?
        } else if tag.starts_with("<!") {
            return None;
        } else if tag.starts_with("</") {
            copy_through(tag, ">", out)?
        } else {
            has_element = true;
            manifest.carry_element(tag, out)?
        };
    }
    out.push(rest)?;
    let is_understood = has_element && !(manifest.odd_identifier && manifest.leading_identifier);
    is_understood.then_some(())
}

/// Writes `text` up to the first `end`, and returns what follows.
fn copy_through<'a>(text: &'a str, end: &str, out: &mut Written) -> Option<&'a str> {
    let (copied, rest) = text.split_at_checked(text.find(end)?.checked_add(end.len())?)?;
    out.push(copied)?;
    Some(rest)
}

struct Manifest<'a> {
    token: &'a str,
    asked: &'a AskedServer<'a>,
    /// A representation's identifier is more than a word: a template that begins with it could lead anywhere.
    odd_identifier: bool,
    /// A template begins with one.
    leading_identifier: bool,
}

impl Manifest<'_> {
    fn carried(&self, address: &str) -> Option<String> {
        carry_address(address, self.token, self.asked, Ampersand::Escaped)
    }

    /// Writes a start tag, and an address that is its text. Returns what follows.
    fn carry_element<'a>(&mut self, tag: &'a str, out: &mut Written) -> Option<&'a str> {
        let is_space = |letter: char| letter.is_ascii_whitespace();
        let name_end = tag.find(|letter: char| is_space(letter) || letter == '>' || letter == '/')?;
        let (name, mut rest) = tag.split_at_checked(name_end)?;
        out.push(name)?;
        let name = local(name.strip_prefix('<')?);
        loop {
            let trimmed = rest.trim_start_matches(is_space);
            out.push(rest.strip_suffix(trimmed)?)?;
            rest = trimmed;
            if let Some(behind) = rest.strip_prefix("/>") {
                out.push("/>")?;
                return Some(behind);
            }
            if let Some(behind) = rest.strip_prefix('>') {
                out.push(">")?;
                rest = behind;
                break;
            }
            rest = self.carry_attribute(name, rest, out)?;
        }
        if !TEXTS.contains(&name) {
            return Some(rest);
        }
        let (address, rest) = rest.split_at_checked(rest.find('<')?)?;
        // The text is all of it, and relative addresses stay here.
        let is_here = rest.starts_with("</")
            && leads_to(address, self.asked)
            && !address.replace("&amp;", "").contains('&');
        if !is_here {
            return None;
        }
        // What is a folder is never asked for itself.
        let carried = if address.ends_with('/') { None } else { self.carried(address) };
        out.push(carried.as_deref().unwrap_or(address))?;
        Some(rest)
    }

    /// Writes an attribute. Returns what follows.
    fn carry_attribute<'a>(&mut self, element: &str, text: &'a str, out: &mut Written) -> Option<&'a str> {
        let (name, after) = text.split_once('=')?;
        let bare = name.trim_end();
        let value = after.trim_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (value, rest) = value.strip_prefix(quote)?.split_once(quote)?;
        if bare.is_empty()
            || bare.contains(|letter: char| letter.is_whitespace() || "<>'\"/".contains(letter))
            || bare == "xml:base"
        {
            return None;
        }
        let is_address = ATTRIBUTES.iter().any(|(known, names)| *known == element && names.contains(&bare));
        let carried = if is_address { self.carried(value) } else { None };
        self.leading_identifier |= carried.is_some() && value.starts_with(IDENTIFIER);
        if element == "Representation" && bare == "id" {
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            self.odd_identifier |= !value.bytes().all(is_word) || value.is_empty();
        }
        // What stands in front of the value stays as it is, spaces too.
        let front = text.strip_suffix(rest)?.strip_suffix(quote)?.strip_suffix(value)?;
        out.push(front)?;
        out.push(carried.as_deref().unwrap_or(value))?;
        out.push(quote.encode_utf8(&mut [0; 4]))?;
        Some(rest)
    }
}

/// A name without its namespace's prefix.
fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}
