//! From the state before a frame to the state behind it, in the decoder and in the encoder alike.

use super::frame::{Frame, Geometry};
use super::header::{FrameHeader, KeyTag, Lasting, Update};
use super::state::Inner;
use std::sync::{Arc, OnceLock};

impl Inner {
    /// What a frame that is decoded against this state starts from.
    pub(crate) fn lasting(&self) -> Lasting {
        Lasting {
            segmentation: self.segmentation.clone(),
            filter: self.filter.clone(),
            probs: self.probs.clone(),
            next_probs: None,
            sign_bias: self.sign_bias,
            colour_space: self.colour_space,
            clamping_unneeded: self.clamping_unneeded,
        }
    }
}

/// The state behind a frame.
pub(crate) fn next(
    before: Option<&Inner>,
    key: Option<KeyTag>,
    geometry: Geometry,
    header: &FrameHeader,
    lasting: Lasting,
    new: Frame,
    segment_map: Arc<[u8]>,
) -> Inner {
    let (last, golden, altref) = match before {
        Some(before) if !header.key => {
            // Copies happen before the new frame comes in, altref's first: libvpx does it so, RFC 6386 is silent.
            let copied_altref = match header.altref {
                Update::Last => &before.last,
                Update::Other => &before.golden,
                Update::Keep | Update::Current => &before.altref,
            };
            let golden = match header.golden {
                Update::Keep => &before.golden,
                Update::Current => &new,
                Update::Last => &before.last,
                Update::Other => copied_altref,
            };
            let altref = if header.altref == Update::Current { &new } else { copied_altref };
            let last = if header.refresh_last { &new } else { &before.last };
            (last.clone(), golden.clone(), altref.clone())
        }
        _ => (new.clone(), new.clone(), new),
    };
    let scales = key.map(|key| (key.horizontal_scale, key.vertical_scale));
    let before = before.map(|before| (before.horizontal_scale, before.vertical_scale));
    let (horizontal_scale, vertical_scale) = scales.or(before).unwrap_or_default();
    Inner {
        geometry,
        last,
        golden,
        altref,
        probs: lasting.next_probs.unwrap_or(lasting.probs),
        segmentation: lasting.segmentation,
        segment_map,
        filter: lasting.filter,
        sign_bias: lasting.sign_bias,
        horizontal_scale,
        vertical_scale,
        colour_space: lasting.colour_space,
        clamping_unneeded: lasting.clamping_unneeded,
        hash: OnceLock::new(),
    }
}
