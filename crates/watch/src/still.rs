//! One small picture of access units that were recorded, as JPEG.

use crate::pictures::Jpeg;
use glassline_media::{AccessUnit, Codec};

/// Whether this machine decodes pictures of `codec`. The first question opens the library, which takes some milliseconds.
#[must_use]
pub fn decodes(codec: Codec) -> bool {
    inner::decodes(codec)
}

/// The last picture that `units` decode to, which follow each other in the order of decoding and begin with one that decoding can begin
/// with: at most 320 pixels wide and high, and 32 KiB. `None` where none comes out, or the codec is not decoded here.
///
/// Decodes on the thread that calls it, with a decoder that holds 256 MiB at most and is closed at the end.
#[must_use]
pub fn still_of(units: &[AccessUnit]) -> Option<Jpeg> {
    inner::still_of(units).map(Jpeg::of_stream)
}

#[cfg(feature = "avcodec")]
mod inner {
    use crate::thumbnail::Thumbnail;
    use glassline_codec::avcodec::PictureDecoder;
    use glassline_media::{AccessUnit, Codec, Time};
    use std::sync::{Arc, OnceLock};

    /// So many of the last pictures are made small: the very last one may be damaged.
    const TRIED: usize = 4;
    /// Of H.264, H.265 and AV1, which recordings have.
    static DECODED: [OnceLock<bool>; 3] = [const { OnceLock::new() }; 3];

    pub(super) fn decodes(codec: Codec) -> bool {
        let place = match codec {
            Codec::H264 => 0,
            Codec::H265 => 1,
            Codec::Av1 => 2,
            _ => return false,
        };
        let known = DECODED.get(place);
        known.is_some_and(|known| *known.get_or_init(|| PictureDecoder::new(codec).is_ok()))
    }

    pub(super) fn still_of(units: &[AccessUnit]) -> Option<Arc<[u8]>> {
        let mut decoder = PictureDecoder::exact(units.first()?.codec).ok()?;
        // Those before the last ones are decoded for these alone.
        let mut times: Vec<i64> = units.iter().map(|unit| unit.pts.0).collect();
        times.sort_unstable();
        let first = times.first().copied()?;
        let at = |pts: i64| Time::from_nanos(pts.abs_diff(first));
        let shown = at(times.get(times.len().saturating_sub(TRIED)).copied()?);
        let mut newest = None;
        let mut each = |time: Time, picture: glassline_codec::avcodec::DecodedPicture<'_>| {
            if time >= shown {
                newest = Thumbnail::of(&picture);
            }
        };
        for unit in units {
            // One that is damaged is left out, as it is for viewers.
            let _ = decoder.decode(&unit.data, at(unit.pts.0), &mut each);
        }
        let _ = decoder.drain(&mut each);
        newest?.jpeg()
    }
}

#[cfg(not(feature = "avcodec"))]
mod inner {
    use glassline_media::{AccessUnit, Codec};
    use std::sync::Arc;

    pub(super) fn decodes(_: Codec) -> bool {
        false
    }

    pub(super) fn still_of(_: &[AccessUnit]) -> Option<Arc<[u8]>> {
        None
    }
}

#[cfg(all(test, feature = "avcodec"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_picture_has_none() {
        assert!(still_of(&[]).is_none());
        assert!(!decodes(Codec::Opus));
    }
}
