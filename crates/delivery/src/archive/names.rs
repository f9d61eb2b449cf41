//! The names of recorded objects: in a store below its prefix, and in addresses below `/live/NAME/archive/`.
//!
//! ```text
//! store     NAME/SESSION/OBJECT            address   archive/SESSION/OBJECT        SESSION  20261130T022552.123Z
//! OBJECT    RENDITION/init-E.mp4 │ RENDITION/N.m4s │ ts/N.ts │ index/KKKKKKKK.jsonl │ poster.jpg
//! ```
//! Each object has one name: numbers have no sign, and no zeros in front but those of index parts. No part of a name can be
//! `..`, empty or absolute, so that no object lies outside of the prefix.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::packager::RenditionName;
use crate::playlist::{Object, basic_date_time, parse_basic_date_time};
use crate::policy::StreamName;
use glassline_media::Utc;
use std::fmt;
use std::str::FromStr;

/// The folder of recordings below a stream's address.
pub const ARCHIVE_FOLDER: &str = "archive";
/// The longest path below a session, in bytes.
const PATH_MAX_BYTES: usize = 64;
/// Digits of an index part's number.
const INDEX_DIGITS: usize = 8;
/// The largest number of an index part: at one in ten seconds 31 years.
pub const INDEX_PART_MAX: u32 = 99_999_999;

/// A recording of a stream, named by when it began: UTC, to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(Utc);

impl Session {
    /// The one that began then, rounded down to the millisecond.
    pub const fn new(begun: Utc) -> Session {
        let millis = begun.as_nanos() / 1_000_000;
        Session(Utc::from_nanos(millis.saturating_mul(1_000_000)))
    }

    /// When it began.
    pub const fn begun(self) -> Utc {
        self.0
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&basic_date_time(self.0))
    }
}

/// A text that names no recorded object or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no recording or recorded object has this name")]
pub struct UnknownName;

impl FromStr for Session {
    type Err = UnknownName;

    /// Understands the one form that [`Session`] is written in.
    fn from_str(text: &str) -> Result<Session, UnknownName> {
        let session = Session::new(parse_basic_date_time(text).ok_or(UnknownName)?);
        if session.to_string() == text { Ok(session) } else { Err(UnknownName) }
    }
}

/// An object of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionObject {
    /// A CMAF header.
    Init {
        /// The rendition.
        rendition: RenditionName,
        /// Its epoch.
        number: u32,
    },
    /// A segment.
    Segment {
        /// The rendition.
        rendition: RenditionName,
        /// Its number.
        segment: u64,
    },
    /// A part of the index.
    Index {
        /// Its number, from 0 to [`INDEX_PART_MAX`].
        part: u32,
    },
    /// A picture that stands for the recording.
    Poster,
    /// A segment of pictures and sound as MPEG-TS.
    MpegTs {
        /// Its number, which is that of the CMAF segments of its time.
        segment: u64,
    },
}

impl SessionObject {
    /// Its media type (RFC 4337; JSON lines have none that is registered).
    pub const fn media_type(self) -> &'static str {
        match self {
            SessionObject::Init { rendition, number } => Object::Init { rendition, number }.media_type(),
            SessionObject::Segment { rendition, segment } => {
                Object::Segment { rendition, segment }.media_type()
            }
            SessionObject::Index { .. } => "application/x-ndjson",
            SessionObject::Poster => "image/jpeg",
            SessionObject::MpegTs { segment } => Object::TransportSegment { segment }.media_type(),
        }
    }

    /// Whether viewers may have it: the index is for servers.
    pub const fn is_for_viewers(self) -> bool {
        !matches!(self, SessionObject::Index { .. })
    }
}

impl fmt::Display for SessionObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SessionObject::Init { rendition, number } => Object::Init { rendition, number }.fmt(f),
            SessionObject::Segment { rendition, segment } => Object::Segment { rendition, segment }.fmt(f),
            SessionObject::Index { part } => write!(f, "index/{part:0INDEX_DIGITS$}.jsonl"),
            SessionObject::Poster => f.write_str("poster.jpg"),
            SessionObject::MpegTs { segment } => Object::TransportSegment { segment }.fmt(f),
        }
    }
}

impl FromStr for SessionObject {
    type Err = UnknownName;

    /// Understands a path below a session.
    fn from_str(path: &str) -> Result<SessionObject, UnknownName> {
        if path.len() > PATH_MAX_BYTES {
            return Err(UnknownName);
        }
        if path == "poster.jpg" {
            return Ok(SessionObject::Poster);
        }
        if let Some(file) = path.strip_prefix("index/") {
            let digits = file.strip_suffix(".jsonl").filter(|digits| digits.len() == INDEX_DIGITS);
            let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            let part = digits.and_then(|digits| digits.parse().ok()).ok_or(UnknownName)?;
            return Ok(SessionObject::Index { part });
        }
        match path.parse() {
            Ok(Object::Init { rendition, number }) => Ok(SessionObject::Init { rendition, number }),
            Ok(Object::Segment { rendition, segment }) => Ok(SessionObject::Segment { rendition, segment }),
            Ok(Object::TransportSegment { segment }) => Ok(SessionObject::MpegTs { segment }),
            _ => Err(UnknownName),
        }
    }
}

/// An object of a recording of any stream: its path below a store's prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredObject {
    /// The stream.
    pub name: StreamName,
    /// The recording.
    pub session: Session,
    /// What of it.
    pub object: SessionObject,
}

impl fmt::Display for StoredObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.name, self.session, self.object)
    }
}

impl FromStr for StoredObject {
    type Err = UnknownName;

    fn from_str(path: &str) -> Result<StoredObject, UnknownName> {
        let (name, rest) = path.split_once('/').ok_or(UnknownName)?;
        let (session, object) = rest.split_once('/').ok_or(UnknownName)?;
        let name = StreamName::parse(name).ok_or(UnknownName)?;
        Ok(StoredObject { name, session: session.parse()?, object: object.parse()? })
    }
}

/// An object of a recording, as playlists below `/live/NAME/` address it: `archive/SESSION/OBJECT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArchivedObject {
    /// The recording.
    pub session: Session,
    /// What of it.
    pub object: SessionObject,
}

impl fmt::Display for ArchivedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ARCHIVE_FOLDER}/{}/{}", self.session, self.object)
    }
}

impl FromStr for ArchivedObject {
    type Err = UnknownName;

    /// Understands a path relative to `/live/NAME/`, of what viewers may have.
    fn from_str(path: &str) -> Result<ArchivedObject, UnknownName> {
        let rest = path.strip_prefix(ARCHIVE_FOLDER).and_then(|rest| rest.strip_prefix('/'));
        let (session, object) = rest.and_then(|rest| rest.split_once('/')).ok_or(UnknownName)?;
        let object: SessionObject = object.parse()?;
        let archived = ArchivedObject { session: session.parse()?, object };
        if object.is_for_viewers() { Ok(archived) } else { Err(UnknownName) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object() -> impl Strategy<Value = SessionObject> {
        let rendition = || {
            prop_oneof![
                Just(RenditionName::Video),
                (1..=crate::packager::AUDIO_MAX).prop_map(RenditionName::Audio)
            ]
        };
        prop_oneof![
            (rendition(), any::<u32>())
                .prop_map(|(rendition, number)| SessionObject::Init { rendition, number }),
            (rendition(), any::<u64>())
                .prop_map(|(rendition, segment)| SessionObject::Segment { rendition, segment }),
            (0..=INDEX_PART_MAX).prop_map(|part| SessionObject::Index { part }),
            Just(SessionObject::Poster),
            any::<u64>().prop_map(|segment| SessionObject::MpegTs { segment }),
        ]
    }

    #[test]
    fn the_names_are_those_of_the_contract() {
        let session = Session::new(Utc::from_nanos(1_796_005_552_123_999_999));
        assert_eq!(session.to_string(), "20261130T022552.123Z");
        let name = StreamName::parse("hall").unwrap();
        let stored = |object| StoredObject { name: name.clone(), session, object }.to_string();
        let rendition = RenditionName::Audio(2);
        assert_eq!(
            stored(SessionObject::Segment { rendition, segment: 7 }),
            "hall/20261130T022552.123Z/audio-2/7.m4s"
        );
        assert_eq!(
            stored(SessionObject::Index { part: 12 }),
            "hall/20261130T022552.123Z/index/00000012.jsonl"
        );
        assert_eq!(stored(SessionObject::MpegTs { segment: 7 }), "hall/20261130T022552.123Z/ts/7.ts");
        let object = SessionObject::Init { rendition: RenditionName::Video, number: 3 };
        assert_eq!(
            ArchivedObject { session, object }.to_string(),
            "archive/20261130T022552.123Z/video/init-3.mp4"
        );
    }

    #[test]
    fn what_leads_outside_names_nothing() {
        for path in [
            "../x/20261130T022552.123Z/video/1.m4s",
            "hall/../20261130T022552.123Z/video/1.m4s",
            "hall/20261130T022552.123Z/../1.m4s",
            "hall//video/1.m4s",
            "/hall/20261130T022552.123Z/video/1.m4s",
            "hall/20261130T022552.123Z/video/1.2.m4s",
            "hall/20261130T022552.123Z/index.m3u8",
            "hall/20261130T022552.123Z/index/1.jsonl",
            "hall/20261130T022552.123Z/index/+0000001.jsonl",
            "hall/20261330T022552.123Z/video/1.m4s",
            "hall/20260230T022552.123Z/video/1.m4s",
            "hall/20261130T246152.123Z/video/1.m4s",
            "hall/20261130t022552.123z/video/1.m4s",
            "hall/20261130T022552Z/video/1.m4s",
            "hall/99991130T022552.123Z/video/1.m4s",
        ] {
            assert_eq!(path.parse::<StoredObject>(), Err(UnknownName), "{path}");
        }
        assert!("archive/20261130T022552.123Z/index/00000001.jsonl".parse::<ArchivedObject>().is_err());
        assert!("archive20261130T022552.123Z/video/1.m4s".parse::<ArchivedObject>().is_err());
    }

    proptest! {
        #[test]
        fn a_name_is_understood_as_what_it_was_written_for(object in object(), nanos: u64, name in "[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}") {
            let session = Session::new(Utc::from_nanos(nanos));
            let stored = StoredObject { name: StreamName::parse(&name).unwrap(), session, object };
            prop_assert_eq!(stored.to_string().parse(), Ok(stored));
            let archived = ArchivedObject { session, object };
            prop_assert_eq!(archived.to_string().parse().ok(), object.is_for_viewers().then_some(archived));
        }

        #[test]
        fn what_is_understood_is_written_the_same(path in "hall/2026[01][0-9]{3}T[0-9]{6}\\.[0-9]{3}Z/(video|index|audio-2|ts)/[0-9.a-z]{0,14}") {
            if let Ok(object) = path.parse::<StoredObject>() {
                prop_assert_eq!(object.to_string(), path);
            }
        }
    }
}
