//! Blocking reload: whether a request for a playlist is answered now, later, or not at all (the draft §6.2.5.2).

use super::super::query::DIRECTIVE_PREFIX;
use crate::packager::{Position, Presentation, Rendition, RenditionName};
use std::time::Duration;

/// A segment that is further than this behind the last one of the playlist is not waited for.
const SEGMENTS_AHEAD_MAX: u64 = 2;

/// What a request tells the server to do (the draft §6.2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// `_HLS_msn`: the playlist is to have this segment, or its part below.
    pub msn: Option<u64>,
    /// `_HLS_part`: the part.
    pub part: Option<u32>,
    /// `_HLS_skip`: segments far from the end may be left out.
    pub skip: bool,
}

/// Directives that cannot be followed: 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadDirective {
    /// A number that is none, or too large.
    #[error("{name} is no number below 2^32 (parts) or 2^64 (segments)")]
    Number {
        /// The directive.
        name: &'static str,
    },
    /// A part of no segment.
    #[error("_HLS_part without _HLS_msn; expected the segment's number beside the part's")]
    PartAlone,
}

/// What becomes of a request for a media playlist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Answer it now.
    Now,
    /// Answer it when there is more; then decide again.
    Wait,
    /// 400: it asks for what is too far away.
    BadRequest,
}

impl Directives {
    /// Reads them off the query that a request has behind its `?`. What is not a directive is passed over.
    ///
    /// # Errors
    /// [`BadDirective`], which says what is expected.
    pub fn of(query: Option<&str>) -> Result<Directives, BadDirective> {
        let mut directives = Directives::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or("").as_bytes()) {
            match name.strip_prefix(DIRECTIVE_PREFIX) {
                Some("msn") => directives.msn = Some(number("_HLS_msn", &value)?),
                Some("part") => directives.part = Some(number("_HLS_part", &value)?),
                Some("skip") => directives.skip = matches!(&*value, "YES" | "v2"),
                _ => {}
            }
        }
        if directives.part.is_some() && directives.msn.is_none() {
            return Err(BadDirective::PartAlone);
        }
        Ok(directives)
    }
}

fn number<N: std::str::FromStr>(name: &'static str, digits: &str) -> Result<N, BadDirective> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if is_plain { digits.parse().ok() } else { None };
    parsed.ok_or(BadDirective::Number { name })
}

/// Decides what becomes of a request for a rendition's media playlist. Of one that is not there, [`Decision::Wait`]: the
/// caller knows whether it may come.
pub fn decide(presentation: &Presentation, name: RenditionName, directives: Directives) -> Decision {
    let Some(rendition) = presentation.rendition(name).filter(|rendition| rendition.is_playable()) else {
        return if presentation.is_ended() { Decision::Now } else { Decision::Wait };
    };
    let Some(msn) = directives.msn.filter(|_| !presentation.is_ended()) else { return Decision::Now };
    let at = rendition.position();
    // The last segment of which the playlist has something.
    let last = if at.part > 0 { at.segment } else { at.segment.saturating_sub(1) };
    if msn > last.saturating_add(SEGMENTS_AHEAD_MAX) {
        return Decision::BadRequest;
    }
    match directives.part {
        None if at.segment > msn => Decision::Now,
        None => Decision::Wait,
        Some(part) => decide_part(rendition, at, Position { segment: msn, part }),
    }
}

fn decide_part(rendition: &Rendition, at: Position, wanted: Position) -> Decision {
    if wanted.segment == at.segment && wanted.part >= at.part.saturating_add(advance_part_limit(rendition)) {
        return Decision::BadRequest;
    }
    // A part behind the last of a segment that is complete is the first of the next segment.
    let wanted = match rendition.segment(wanted.segment).filter(|segment| segment.complete) {
        Some(segment) if wanted.part as usize >= segment.parts.len() => {
            Position { segment: wanted.segment.saturating_add(1), part: 0 }
        }
        _ => wanted,
    };
    if at > wanted { Decision::Now } else { Decision::Wait }
}

/// Parts that may be asked for behind the last one: three, or those of three seconds (the draft §6.2.5.2).
fn advance_part_limit(rendition: &Rendition) -> u32 {
    let part = rendition.part_target().max(Duration::from_millis(1));
    if part >= Duration::from_secs(1) { 3 } else { 3000u32.div_ceil(part.as_millis() as u32) }
}
