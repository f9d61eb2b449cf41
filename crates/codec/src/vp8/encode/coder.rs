//! One picture, encoded once or in several qualities.

use super::filter_choice;
use super::frame::{Job, Store};
use super::parallel::{Parallel, Serial};
use super::quantization::Quantization;
use super::rate::{BlockCosts, ModeCosts};
use super::size_target;
use super::source::Source;
use super::speed::Tools;
use super::tokens::{Counts, NO_COUNTS};
use super::write::{self, Field, Written};
use super::{EncodeError, Encoded, Quality, Replace, Request, Stats};
use crate::vp8::decode::next;
use crate::vp8::frame::{Frame, FrameHash, Geometry, Unfinished, Workspace};
use crate::vp8::header::{FrameHeader, KeyTag, Lasting, Quantizer, Update};
use crate::vp8::loop_filter::{Area, LoopFilter};
use crate::vp8::modes::{Macroblock, Mode, Reference};
use crate::vp8::simd::Kernels;
use crate::vp8::simd::encode::EncodeKernels;
use crate::vp8::state::{Inner, State};
use glassline_media::Colour;
use std::sync::Arc;

/// What all encodings of one picture have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) geometry: Geometry,
    pub(crate) source: Source<'a>,
    /// What is predicted from, unless it is a key frame.
    pub(crate) inner: Option<&'a Inner>,
    pub(crate) references: &'a [Reference],
    pub(crate) key: bool,
    pub(crate) request: &'a Request,
    pub(crate) parallel: &'a dyn Parallel,
}

/// How coarsely a frame is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Quantiser index.
    pub(crate) index: u8,
    /// How much a bit is worth when levels are weighed, in percent of what it is as a rule.
    pub(crate) thrift: u32,
}

impl Setting {
    pub(crate) fn new(index: u8) -> Setting {
        Setting { index, thrift: 100 }
    }
}

/// A picture whose macroblocks are coded: not filtered and not written yet.
#[derive(Debug)]
pub(crate) struct Pass {
    setting: Setting,
    unfinished: Unfinished,
    counts: Box<Counts>,
}

/// Encodes a picture.
#[derive(Debug)]
pub(crate) struct Coder<'a> {
    pub(crate) task: Task<'a>,
    frames: &'a mut Workspace,
    store: &'a mut Store,
    start: Lasting,
    block_costs: BlockCosts,
    mode_costs: ModeCosts,
    tools: Tools,
    /// Whether the macroblocks' modes are decided.
    decided: bool,
}

impl<'a> Coder<'a> {
    pub(crate) fn new(task: Task<'a>, frames: &'a mut Workspace, store: &'a mut Store) -> Coder<'a> {
        let start = task.inner.map_or_else(Lasting::at_key_frame, Inner::lasting);
        Coder {
            task,
            frames,
            store,
            block_costs: BlockCosts::new(&start.probs),
            mode_costs: ModeCosts::new(task.key, &start.probs),
            tools: Tools::new(task.request.speed),
            decided: false,
            start,
        }
    }

    /// Encodes in each of `qualities`. The one in the middle comes first and decides for all.
    pub(crate) fn candidates(&mut self, qualities: &[Quality]) -> Result<Vec<Encoded>, EncodeError> {
        let mut order: Vec<usize> = (0..qualities.len()).collect();
        order.sort_by_key(|&at| match qualities[at] {
            Quality::Quantizer(index) => usize::from(index),
            // Small is coarse.
            Quality::Bytes { target, .. } => usize::from(size_target::guess(target, &self.task)),
        });
        let middle = order.len() / 2;
        order[..(middle + 1).min(qualities.len())].reverse();
        let mut encoded: Vec<Option<Encoded>> = vec![None; qualities.len()];
        for at in order {
            encoded[at] = Some(match qualities[at] {
                Quality::Quantizer(index) => {
                    let pass = self.pass(Setting::new(index));
                    self.finish(pass)?
                }
                Quality::Bytes { target, never_above } => {
                    let pass = size_target::search(self, target, never_above)?;
                    self.finish(pass)?
                }
            });
        }
        Ok(encoded.into_iter().flatten().collect())
    }

    /// Makes the next pass decide anew.
    pub(crate) fn forget_decisions(&mut self) {
        self.decided = false;
    }

    /// Takes the cheapest way to predict each macroblock, whatever it looks like.
    pub(crate) fn decide_barely(&mut self) {
        let mode = if self.task.key { Mode::Dc } else { Mode::Zero };
        let reference = self.task.references.first().filter(|_| !self.task.key);
        let bare = Macroblock {
            mode,
            reference: reference.copied().unwrap_or(Reference::Intra),
            ..Macroblock::OUTSIDE
        };
        self.store.decide_all(&self.task.geometry, &bare);
        self.decided = true;
    }

    /// Codes the macroblocks.
    pub(crate) fn pass(&mut self, setting: Setting) -> Pass {
        let task = &self.task;
        let quantizer = Quantizer { index: setting.index, ..Quantizer::default() };
        let job = Job {
            key: task.key,
            geometry: task.geometry,
            source: task.source,
            state: task.inner,
            references: task.references,
            quantization: Quantization::new(&quantizer, setting.thrift),
            block_costs: &self.block_costs,
            mode_costs: &self.mode_costs,
            tools: self.tools,
            kernels: Kernels::best(),
            encode_kernels: EncodeKernels::best(),
        };
        let mut unfinished = self.frames.frame(&task.geometry);
        let mut counts = Box::new(NO_COUNTS);
        job.run(self.store, &mut counts, &mut unfinished.planes_mut(), self.decided);
        self.decided = true;
        Pass { setting, unfinished, counts }
    }

    fn lasting(&self) -> Lasting {
        let mut lasting = self.start.clone();
        filter_choice::deltas(&mut lasting.filter);
        lasting.segmentation.enabled = false;
        lasting.sign_bias = [false; 2];
        lasting
    }

    /// The bytes that the pass that was run last would take.
    pub(crate) fn size(&self, pass: &Pass) -> usize {
        let (mut header, mut lasting) = (self.header(pass.setting.index), self.lasting());
        write::frame(&self.written(&pass.counts), &mut header, &mut lasting, &Serial).0.len()
    }

    fn field(&self) -> Field<'_> {
        Field { macroblocks: &self.store.macroblocks, geometry: &self.task.geometry }
    }

    fn written<'b>(&'b self, counts: &'b Counts) -> Written<'b> {
        Written { field: self.field(), tokens: &self.store.tokens, counts, before: &self.start }
    }

    /// Filters, hashes and writes the pass that was run last.
    pub(crate) fn finish(&mut self, pass: Pass) -> Result<Encoded, EncodeError> {
        let Pass { setting, mut unfinished, counts } = pass;
        let task = self.task;
        let geometry = &task.geometry;
        let (mut header, mut lasting) = (self.header(setting.index), self.lasting());
        let field = self.field();
        let trial = filter_choice::Trial { task: &task, field, lasting: &lasting, header: &header };
        header.filter_level = trial.level(&unfinished.planes_mut());
        let filter = LoopFilter::new(&header, &lasting.segmentation, &lasting.filter);
        let (mut new, mut bytes, mut first_partition) = (None, Vec::new(), 0);
        {
            // Bytes do not depend on what the filter makes of the samples, so both go side by side.
            let mut unfinished = Some(unfinished);
            let mut finish =
                || new = unfinished.take().map(|frame| filtered(frame, geometry, filter.as_ref(), field));
            let written = self.written(&counts);
            let mut write = || {
                (bytes, first_partition) = write::frame(&written, &mut header, &mut lasting, &Serial);
            };
            task.parallel.run(&mut [&mut finish, &mut write]);
        }
        let Some(new) = new else { unreachable!("a task that was run has filled it") };
        let stats = self.stats(&header);
        self.frames.remember(&new);
        if first_partition >= 1 << 19 {
            return Err(EncodeError::TooLong { found: first_partition });
        }
        let mut picture = new.picture(geometry);
        if !lasting.colour_space {
            picture.colour = Colour { matrix: 6, ..Colour::UNSPECIFIED };
        }
        let key_tag =
            KeyTag { width: geometry.width, height: geometry.height, horizontal_scale: 0, vertical_scale: 0 };
        let segments = match task.inner {
            Some(inner) => inner.segment_map.clone(),
            None => vec![0; geometry.columns * geometry.rows].into(),
        };
        let key_tag = task.key.then_some(key_tag);
        let state = next(task.inner, key_tag, *geometry, &header, lasting, new, segments);
        Ok(Encoded { bytes, state: State(Some(Arc::new(state))), picture, stats })
    }

    fn header(&self, index: u8) -> FrameHeader {
        let (key, request) = (self.task.key, self.task.request);
        let replace = |replace: Replace| match replace {
            _ if key => Update::Current,
            Replace::Keep => Update::Keep,
            Replace::ByCurrent => Update::Current,
            Replace::ByLast => Update::Last,
            Replace::ByOther => Update::Other,
        };
        FrameHeader {
            key,
            version: 0,
            update_segment_map: false,
            segment_probs: [255; 3],
            simple_filter: false,
            filter_level: 0,
            sharpness: 0,
            token_partitions: usize::from(request.token_partitions),
            quantizer: Quantizer { index, ..Quantizer::default() },
            golden: replace(request.updates.golden),
            altref: replace(request.updates.altref),
            refresh_last: key || request.updates.last,
            skip_prob: None,
            intra_prob: 0,
            last_prob: 0,
            golden_prob: 0,
        }
    }

    fn stats(&self, header: &FrameHeader) -> Stats {
        let geometry = &self.task.geometry;
        let macroblocks = || (0..geometry.rows).flat_map(|row| self.field().row(row));
        Stats {
            key: header.key,
            quantizer: header.quantizer.index,
            filter_level: header.filter_level,
            macroblocks: (geometry.rows * geometry.columns) as u32,
            intra: macroblocks().filter(|macroblock| !macroblock.reference.is_inter()).count() as u32,
            skipped: macroblocks().filter(|macroblock| macroblock.skipped).count() as u32,
        }
    }
}

/// Filters a frame and hashes it, row by row.
fn filtered(
    mut unfinished: Unfinished,
    geometry: &Geometry,
    filter: Option<&LoopFilter>,
    field: Field<'_>,
) -> Frame {
    let mut hash = FrameHash::new(geometry);
    let mut planes = unfinished.planes_mut();
    for row in 0..geometry.rows {
        if let Some(filter) = filter {
            let [y, u, v] = &mut planes;
            let (y_stride, uv_stride) = (geometry.y_stride, geometry.uv_stride);
            let mut area = Area { y, u, v, y_stride, uv_stride };
            filter.row(&mut area, geometry, row, field.row(row), Kernels::best());
        }
        hash.take_row(geometry, row, &planes);
    }
    unfinished.finish(hash.finish())
}
