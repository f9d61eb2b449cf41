//! One picture in several qualities.

use super::coder::{Coder, Setting};
use super::size_target;
use super::{EncodeError, Encoded, Quality};

/// Of the time for a picture, the share after which no size is searched for beside quantisers.
const NO_SEARCH_AFTER: f64 = 0.75;

/// Encodes in each of `qualities`. The one in the middle comes first and decides for all, that of the quantisers where there
/// are some; quantisers are coded all at once, and sizes are searched for from what they gave. Sizes are left out where quantisers
/// have taken nearly all of the time ([`Parallel::spent`](super::Parallel::spent)).
pub(crate) fn candidates(coder: &mut Coder<'_>, qualities: &[Quality]) -> Result<Vec<Encoded>, EncodeError> {
    let mut order: Vec<usize> = (0..qualities.len()).collect();
    order.sort_by_key(|&at| match qualities[at] {
        Quality::Quantizer(index) => usize::from(index),
        // Small is coarse.
        Quality::Bytes { target, .. } => usize::from(size_target::guess(target, &coder.task)),
    });
    let is_quantizer = |&at: &usize| matches!(qualities[at], Quality::Quantizer(_));
    order.sort_by_key(|at| !is_quantizer(at));
    let quantizers = order.iter().filter(|at| is_quantizer(at)).count();
    let together = if quantizers > 0 { quantizers } else { order.len() };
    let middle = together / 2;
    order[..(middle + 1).min(together)].reverse();
    let settings = order.iter().filter_map(|&at| match qualities[at] {
        Quality::Quantizer(index) => Some(Setting::new(index)),
        Quality::Bytes { .. } => None,
    });
    let settings: Vec<Setting> = settings.collect();
    let mut passes = Vec::new().into_iter();
    let mut encoded: Vec<Option<Encoded>> = vec![None; qualities.len()];
    let mut known = Vec::with_capacity(quantizers);
    for (number, &at) in order.iter().enumerate() {
        let pass = match qualities[at] {
            Quality::Quantizer(_) => {
                if number == 0 {
                    passes = coder.passes(&settings).into_iter();
                }
                passes.next()
            }
            Quality::Bytes { .. } if quantizers > 0 && coder.task.parallel.spent() > NO_SEARCH_AFTER => None,
            Quality::Bytes { target, never_above } => {
                Some(size_target::search(coder, target, never_above, &known)?)
            }
        };
        encoded[at] = pass.map(|pass| coder.finish(pass)).transpose()?;
        if let (Quality::Quantizer(index), Some(encoded)) = (qualities[at], &encoded[at]) {
            known.push((index, encoded.bytes.len()));
        }
    }
    Ok(encoded.into_iter().flatten().collect())
}
