//! Rows of macroblocks in parallel: each task takes the next row that no task has taken, and codes it as far as the row
//! above has come. The bits are the same as when one row is coded after the other.
//!
//! A row waits only for the row above, which was taken before it. So no task ever waits for one that has not begun,
//! whatever runs the tasks. What a row needs of the one above comes in pieces through a channel, so that no two tasks
//! look at the same memory.

use super::job::Job;
use super::lanes::{Lane, Scratch};
use super::parallel::{Parallel, share};
use super::quantization::Quantizations;
use super::store::{Layer, Store};
use super::tokens::{Collector, Counts, NO_COUNTS, Token};
use crate::vp8::macroblock::Macroblock;
use crate::vp8::reconstruct::{TopLines, last_lines};
use crate::vp8::tokens::Context;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Macroblocks that a row hands down at a time. A row begins when the one above is up to two of these ahead.
const PIECE: usize = 8;

/// What the row below needs of some macroblocks beside each other.
struct Piece {
    /// Nothing where modes are decided already.
    macroblocks: Vec<Macroblock>,
    layers: Vec<LayerPiece>,
}

struct LayerPiece {
    contexts: Vec<Context>,
    /// The last lines of the three planes, one behind the other.
    lines: Vec<u8>,
}

/// A row that is not coded yet: what it is written to, and the channels to the rows above and below.
struct Row<'a> {
    row: usize,
    current: &'a mut [Macroblock],
    layers: Vec<RowLayer<'a>>,
    above: Option<Receiver<Piece>>,
    below: Option<Sender<Piece>>,
}

struct RowLayer<'a> {
    planes: [&'a mut [u8]; 3],
    tokens: &'a mut Vec<Token>,
    coded: &'a mut [bool],
}

/// As [`frame::run`](super::frame::run), on as many tasks as `parallel` runs at a time. `store` is reset.
pub(crate) fn run(
    job: &Job<'_>,
    store: &mut Store,
    layers: &mut [Layer<'_>],
    replay: bool,
    parallel: &dyn Parallel,
) {
    let quantizations: Vec<&Quantizations> = layers.iter().map(|layer| layer.quantizations).collect();
    let (planes, counts): (Vec<_>, Vec<&mut Counts>) =
        layers.iter_mut().map(|layer| (&mut layer.planes, &mut *layer.counts)).unzip();
    let counts = Mutex::new(counts);
    share(parallel, rows(job, store, planes), |waiting| {
        let mut worker = Worker::new(job, &quantizations, replay);
        while let Some(row) = waiting.next() {
            worker.row(row);
        }
        let Ok(mut totals) = counts.lock() else { return };
        for (total, lane) in totals.iter_mut().zip(&worker.lanes) {
            let counts = lane.counts.as_flattened();
            total.as_flattened_mut().iter_mut().zip(counts).for_each(|(total, count)| *total += count);
        }
    });
}

/// Everything that rows write to, cut into rows.
fn rows<'a>(job: &Job<'_>, store: &'a mut Store, planes: Vec<&'a mut [&mut [u8]; 3]>) -> Vec<Row<'a>> {
    let geometry = &job.geometry;
    let mut layers: Vec<_> = planes
        .into_iter()
        .zip(&mut store.layers)
        .map(|(planes, store)| {
            let [y, u, v] = planes;
            let luma = y.chunks_mut(16 * geometry.y_stride);
            let chroma = u.chunks_mut(8 * geometry.uv_stride).zip(v.chunks_mut(8 * geometry.uv_stride));
            let kept = store.tokens.iter_mut().zip(store.coded.chunks_mut(geometry.columns));
            luma.zip(chroma).zip(kept)
        })
        .collect();
    let macroblocks = store.macroblocks.chunks_mut(geometry.columns + 1).skip(1);
    let mut above = None;
    let row = |(row, current)| {
        let (below, next) = channel();
        let layers = layers
            .iter_mut()
            .filter_map(Iterator::next)
            .map(|((y, (u, v)), (tokens, coded))| RowLayer { planes: [y, u, v], tokens, coded });
        let below = (row + 1 < geometry.rows).then_some(below);
        Row { row, current, layers: layers.collect(), above: above.replace(next), below }
    };
    macroblocks.enumerate().map(row).collect()
}

/// Looks so often for a piece before it sleeps: about as long as a piece takes. Sleeping and being woken costs more.
const LOOKS: usize = 400;

/// The next piece of the row above, as soon as it is there; none where its task is gone.
fn next_piece(above: &Receiver<Piece>) -> Option<Piece> {
    for _ in 0..LOOKS {
        if let Ok(piece) = above.try_recv() {
            return Some(piece);
        }
        std::hint::spin_loop();
    }
    above.recv().ok()
}

/// What a task has for itself.
struct Worker<'a> {
    job: &'a Job<'a>,
    replay: bool,
    above: Vec<Macroblock>,
    lanes: Vec<WorkerLane<'a>>,
    scratch: Box<Scratch>,
}

struct WorkerLane<'a> {
    quantizations: &'a Quantizations,
    counts: Box<Counts>,
    contexts: Vec<Context>,
    top: TopLines,
}

impl<'a> Worker<'a> {
    fn new(job: &'a Job<'a>, quantizations: &[&'a Quantizations], replay: bool) -> Worker<'a> {
        let lane = |&quantizations| WorkerLane {
            quantizations,
            counts: Box::new(NO_COUNTS),
            contexts: Vec::new(),
            top: TopLines::default(),
        };
        let lanes = quantizations.iter().map(lane).collect();
        Worker { job, replay, above: Vec::new(), lanes, scratch: Scratch::new(job.tools) }
    }

    fn row(&mut self, row: Row<'_>) {
        let Row { row, current, mut layers, above, below } = row;
        self.scratch.begin_row(self.job.row_tools(row));
        let columns = self.job.geometry.columns;
        self.above.clear();
        self.above.resize(if row == 0 { columns + 1 } else { 1 }, Macroblock::OUTSIDE);
        for lane in &mut self.lanes {
            lane.contexts.clear();
            lane.contexts.resize(columns, [0; 9]);
            lane.top.reset(&self.job.geometry);
        }
        let mut known = if row == 0 { columns } else { 0 };
        let mut left = vec![[0; 9]; layers.len()];
        for from in (0..columns).step_by(PIECE) {
            let to = (from + PIECE).min(columns);
            // The last one looks at what is above and to the right of it.
            while known < (to + 1).min(columns) {
                // The task above has panicked, which its caller will hear of.
                let Some(piece) = above.as_ref().and_then(next_piece) else { return };
                self.take(known, &piece);
                known = (known + PIECE).min(columns);
            }
            self.piece(row, from..to, current, &mut layers, &mut left);
            if let Some(below) = &below {
                // The row below is gone only where its task has panicked.
                let _ = below.send(self.give(from..to, current, &layers));
            }
        }
    }

    /// Codes some macroblocks.
    fn piece(
        &mut self,
        row: usize,
        columns: std::ops::Range<usize>,
        current: &mut [Macroblock],
        layers: &mut [RowLayer<'_>],
        left: &mut [Context],
    ) {
        let job = self.job;
        let lanes = self.lanes.iter_mut().zip(layers).zip(&*left).map(|((lane, layer), &left)| Lane {
            quantizations: lane.quantizations,
            coding: job.coding(lane.quantizations),
            reconstruction: job.reconstruction(&lane.top, row, row),
            planes: layer.planes.each_mut().map(|plane| &mut **plane),
            collector: Collector { tokens: layer.tokens, counts: &mut lane.counts },
            coded: layer.coded,
            contexts: &mut lane.contexts,
            left,
        });
        let mut lanes: Vec<Lane<'_>> = lanes.collect();
        for column in columns {
            let around = (&self.above[..], &mut *current);
            job.macroblock(column, around, &mut lanes, &mut self.scratch, self.replay);
        }
        left.iter_mut().zip(&lanes).for_each(|(left, lane)| *left = lane.left);
    }

    /// Takes a piece of the row above, from macroblock `column` on.
    fn take(&mut self, column: usize, piece: &Piece) {
        self.above.extend_from_slice(&piece.macroblocks);
        for (lane, layer) in self.lanes.iter_mut().zip(&piece.layers) {
            let count = layer.contexts.len();
            lane.contexts[column..column + count].copy_from_slice(&layer.contexts);
            let (y, rest) = layer.lines.split_at(16 * count);
            let (u, v) = rest.split_at(8 * count);
            lane.top.take(&self.job.geometry, column, [y, u, v]);
        }
    }

    /// What the row below needs of some macroblocks.
    fn give(
        &self,
        columns: std::ops::Range<usize>,
        current: &[Macroblock],
        layers: &[RowLayer<'_>],
    ) -> Piece {
        let (from, to) = (columns.start, columns.end);
        let macroblocks = if self.replay { Vec::new() } else { current[from + 1..to + 1].to_vec() };
        let layer = |(lane, layer): (&WorkerLane<'_>, &RowLayer<'_>)| {
            let [y, u, v] = last_lines(&self.job.geometry, 0, &layer.planes);
            let lines = [&y[16 * from..16 * to], &u[8 * from..8 * to], &v[8 * from..8 * to]];
            LayerPiece { contexts: lane.contexts[from..to].to_vec(), lines: lines.concat() }
        };
        Piece { macroblocks, layers: self.lanes.iter().zip(layers).map(layer).collect() }
    }
}
