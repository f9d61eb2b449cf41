//! Addresses in playlists of HLS (draft-pantos-hls-rfc8216bis §4): lines that are no tags, and attributes `URI` of tags.

use super::Written;
use super::address::{Ampersand, AskedServer, carry as carry_address};

pub(super) fn carry(text: &str, token: &str, asked: &AskedServer<'_>, out: &mut Written) -> Option<()> {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !bare.starts_with("#EXTM3U") {
        return None;
    }
    let address = |address: &str| carry_address(address, token, asked, Ampersand::Plain);
    out.push(text.strip_suffix(bare)?)?;
    for whole in bare.split_inclusive('\n') {
        let line = whole.strip_suffix('\n').unwrap_or(whole);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let end = whole.get(line.len()..)?;
        if line.starts_with("#EXT") {
            carry_tag(line, &address, out)?;
        } else if line.starts_with('#') {
            out.push(line)?;
        } else {
            out.push(address(line).as_deref().unwrap_or(line))?;
        }
        out.push(end)?;
    }
    Some(())
}

/// Carries into the attributes `URI` of a tag's attribute list. What is no list is written as it is.
fn carry_tag(line: &str, address: &impl Fn(&str) -> Option<String>, out: &mut Written) -> Option<()> {
    let Some((_, list)) = line.split_once(':') else { return out.push(line) };
    let mut rest = list;
    out.push(line.strip_suffix(list)?)?;
    while let Some((name, after)) = rest.split_once('=') {
        let quoted = after.strip_prefix('"').and_then(|inside| inside.split_once('"'));
        let behind = match quoted {
            Some((value, behind)) => {
                let carried = if name == "URI" { address(value) } else { None };
                out.push(name)?;
                out.push("=\"")?;
                out.push(carried.as_deref().unwrap_or(value))?;
                out.push("\"")?;
                behind
            }
            None => {
                let end = after.find(',').unwrap_or(after.len());
                let behind = after.get(end..)?;
                out.push(rest.strip_suffix(behind)?)?;
                behind
            }
        };
        // The comma between two attributes.
        rest = match behind.strip_prefix(',') {
            Some(behind) => {
                out.push(",")?;
                behind
            }
            None => return out.push(behind),
        };
    }
    out.push(rest)
}
