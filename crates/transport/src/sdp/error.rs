//! What is wrong with a description, and what to do about it.

use super::{MAX_BYTES, MAX_FLOWS};
use crate::raw_video::FormatError;
use glassline_media::Size;
use thiserror::Error;

/// A description that is not taken.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SdpError {
    /// Bounds what a stranger's text costs.
    #[error("a session description of {0} bytes: at most {MAX_BYTES} are taken")]
    Length(usize),
    /// Lines that RFC 8866 does not know.
    #[error("this is no session description (RFC 8866): {0}")]
    Lines(String),
    /// More sections than any sender has.
    #[error("the description has {0} sections: at most {MAX_FLOWS} flows of two paths are taken")]
    Flows(usize),
    /// The sections of a group cannot carry the same packets.
    #[error(
        "the sections `{0}` and `{1}` of `a=group:DUP` describe different media: these cannot be the same packets"
    )]
    Differ(String, String),
    /// A section that should be taken, and cannot.
    #[error("`m={section}`: {reason}")]
    Section {
        /// Its medium and port.
        section: String,
        /// What is wrong with it.
        reason: SectionError,
    },
}

/// What is wrong with a section.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SectionError {
    /// A parameter that we cannot do without.
    #[error("the description lacks `{0}`, which `a=fmtp` should give")]
    Lacks(&'static str),
    /// No line `c=`, neither here nor for the whole session.
    #[error("the description does not say where packets go: it lacks a line `c=IN IP4 ADDRESS`")]
    Connection,
    /// A value that is not one, or one that is not taken.
    #[error("`{name}={value}` is not taken: {wanted}")]
    Value {
        /// The parameter, or the attribute.
        name: &'static str,
        /// What it says.
        value: String,
        /// What we take.
        wanted: &'static str,
    },
    /// The format has no pgroups, or none that we take.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The frame is too large, or nothing.
    #[error("frames of {width}x{height} are not taken: sides have 1 to {} samples", Size::MAX_SIDE)]
    Size {
        /// Samples of a line.
        width: u32,
        /// Lines.
        height: u32,
    },
}

impl SectionError {
    pub(super) fn value(name: &'static str, value: &str, wanted: &'static str) -> SectionError {
        // The beginning shows at once which value is meant; the whole of a stranger's text is not needed.
        SectionError::Value { name, value: value.chars().take(60).collect(), wanted }
    }
}
