//! How strongly a frame is filtered.

use crate::vp8::state::Filter;

/// Less where samples were copied, more where small pieces meet.
pub(crate) fn deltas(filter: &mut Filter) {
    *filter = Filter { deltas_enabled: true, reference: [2, 0, -2, -2], mode: [4, -2, 2, 4] };
}

/// The filter's level at a quantiser index.
pub(crate) fn level(key: bool, index: u8) -> u8 {
    let index = u32::from(index);
    let level = index * 3 / 8;
    (if key { level * 7 / 8 } else { level }).min(63) as u8
}
