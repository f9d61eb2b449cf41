//! A frame, row by row: decide how each macroblock is predicted, code what is left, keep tokens.
//!
//! What is decided may be coded in several qualities at once, each in a *layer*: samples, tokens and all that follows
//! from a quantiser. The first layer is what is decided by. Macroblocks that are predicted from a reference are predicted
//! and transformed once for all layers.

use super::job::Job;
use super::lanes::{Lane, Scratch};
use super::parallel::Parallel;
use super::rows;
use super::store::{Layer, Store};
use super::tokens::Collector;

/// Codes all macroblocks into `layers`, not yet filtered. With `replay`, `store` holds the decisions of an earlier
/// run, which stand; otherwise they are made for the first layer.
pub(crate) fn run(
    job: &Job<'_>,
    store: &mut Store,
    layers: &mut [Layer<'_>],
    replay: bool,
    parallel: &dyn Parallel,
) {
    store.reset(&job.geometry, layers.len(), replay);
    if parallel.threads() > 1 && job.geometry.rows > 1 {
        return rows::run(job, store, layers, replay, parallel);
    }
    let across = job.geometry.columns + 1;
    let mut scratch = Scratch::new(job.tools);
    for row in 0..job.geometry.rows {
        scratch.begin_row(job.row_tools(row));
        let (above, current) = store.macroblocks[row * across..][..2 * across].split_at_mut(across);
        let from = row * job.geometry.columns;
        let stores = store.layers.iter_mut();
        let lanes = layers.iter_mut().zip(stores).map(|(layer, store)| Lane {
            quantizations: layer.quantizations,
            coding: job.coding(layer.quantizations),
            reconstruction: job.reconstruction(&store.top, row, 0),
            planes: layer.planes.each_mut().map(|plane| &mut **plane),
            collector: Collector { tokens: &mut store.tokens[row], counts: layer.counts },
            coded: &mut store.coded[from..][..job.geometry.columns],
            contexts: &mut store.contexts,
            left: [0; 9],
        });
        let mut lanes: Vec<Lane<'_>> = lanes.collect();
        for column in 0..job.geometry.columns {
            job.macroblock(column, (above, current), &mut lanes, &mut scratch, replay);
        }
        drop(lanes);
        for (layer, store) in layers.iter().zip(&mut store.layers) {
            store.top.keep(&job.geometry, row, &layer.planes);
        }
    }
}
