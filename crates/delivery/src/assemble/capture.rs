//! When a picture was captured: from beside it into it, so that it stays with the picture through every hop.

use bytes::Bytes;
use glassline_media::bitstream::{self, h264};
use glassline_media::{AccessUnit, Codec, Utc};

/// The picture with a message that says when it was captured, in front of its first slice; `None` where it has one, or no
/// slice of a codec that has such messages.
pub(crate) fn with_time(unit: &AccessUnit, captured: Utc) -> Option<AccessUnit> {
    let codec = Some(unit.codec).filter(|codec| matches!(codec, Codec::H264 | Codec::H265 | Codec::Av1))?;
    let (head, slice) = bitstream::head(codec, &unit.data);
    let slice = unit.data.get(slice?..)?;
    let mut before = 0;
    for nal in head {
        if bitstream::messages(codec, &nal).is_some_and(|sei| sei.capture_utc().is_some()) {
            return None;
        }
        before = nal.offset.checked_add(nal.bytes.len())?;
    }
    // Zero bytes in front of a start code belong to it.
    let mut data = Vec::with_capacity(unit.data.len().saturating_add(64));
    data.extend_from_slice(&unit.data[..before]);
    bitstream::write_user_message(codec, slice, &h264::write_capture_utc(captured), &mut data);
    data.extend_from_slice(&unit.data[before..]);
    Some(AccessUnit { data: Bytes::from(data), ..unit.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packager::testing::{captured_h265, captured_picture, h265, picture};

    fn said(unit: &AccessUnit) -> Vec<Utc> {
        let (head, _) = bitstream::head(unit.codec, &unit.data);
        head.filter_map(|nal| bitstream::messages(unit.codec, &nal)?.capture_utc()).collect()
    }

    #[test]
    fn a_time_goes_in_front_of_the_first_slice_and_nothing_else_changes() {
        let at = Utc::from_nanos(1_700_000_000_000_000_000);
        for plain in [picture(true, 30, 0), picture(false, 30, 0), h265(true, 0), h265(false, 0)] {
            let timed = with_time(&plain, at).expect("it has none");
            assert_eq!(said(&timed), [at]);
            let others = |unit: &AccessUnit| -> Vec<Vec<u8>> {
                let nals = h264::nals(&unit.data);
                let others = nals.filter(|nal| bitstream::messages(unit.codec, nal).is_none());
                others.map(|nal| nal.bytes.to_vec()).collect()
            };
            assert_eq!(others(&timed), others(&plain));
            assert_eq!(
                bitstream::is_key(timed.codec, &timed.data),
                bitstream::is_key(plain.codec, &plain.data)
            );
        }
    }

    #[test]
    fn a_time_that_is_there_stays() {
        let own = Utc::from_nanos(1_700_000_000_000_000_000);
        assert_eq!(with_time(&captured_picture(true, own, 0), Utc::from_nanos(5)), None);
        assert_eq!(with_time(&captured_h265(true, own, 0), Utc::from_nanos(5)), None);
    }
}
