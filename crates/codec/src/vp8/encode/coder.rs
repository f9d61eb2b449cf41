//! One picture, encoded once or in several qualities.

use super::filter_choice;
use super::frame;
use super::job::Job;
use super::quantization::{Quantization, Quantizations};
use super::rate::{BlockCosts, ModeCosts};
use super::segments::Segments;
use super::speed::Tools;
use super::store::{Layer, Store};
use super::task::Task;
use super::tokens::{Counts, NO_COUNTS};
use super::write::{self, Field, Partitions, Written};
use super::{EncodeError, Encoded, Replace, Stats};
use crate::vp8::frame::{Frame, Unfinished};
use crate::vp8::header::{FrameHeader, KeyTag, Lasting, Quantizer, Update};
use crate::vp8::loop_filter::{Area, LoopFilter};
use crate::vp8::macroblock::{Macroblock, Mode, Reference};
use crate::vp8::next_state::next;
use crate::vp8::state::{Inner, State};
use crate::vp8::workspace::Workspace;
use glassline_media::Colour;
use std::sync::Arc;

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

/// A picture with all macroblocks coded, but not filtered and not written yet.
#[derive(Debug)]
pub(crate) struct Pass {
    setting: Setting,
    unfinished: Unfinished,
    counts: Box<Counts>,
    /// Which of the store's layers holds its tokens.
    layer: usize,
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
    segments: Segments,
    /// The quantiser and the loop filter's level of the frame that was finished first.
    filtered: Option<(u8, u8)>,
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
            segments: Segments::default(),
            filtered: None,
            start,
        }
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
        self.segments = Segments::default();
        self.decided = true;
    }

    /// Codes the macroblocks.
    pub(crate) fn pass(&mut self, setting: Setting) -> Pass {
        self.passes(&[setting]).swap_remove(0)
    }

    /// Codes the macroblocks in several settings, the first of which decides, if that is not done yet.
    pub(crate) fn passes(&mut self, settings: &[Setting]) -> Vec<Pass> {
        let task = &self.task;
        if !self.decided {
            self.segments = Segments::new(task, settings[0].index);
        }
        let quantization = |setting: &Setting| {
            let of = |index| Quantization::new(&Quantizer { index, ..Quantizer::default() }, setting.thrift);
            self.segments.indices(setting.index).map(of)
        };
        let quantizations: Vec<Quantizations> = settings.iter().map(quantization).collect();
        let job = Job {
            key: task.key,
            geometry: task.geometry,
            source: task.source,
            state: task.inner,
            references: task.references,
            quantizations: &quantizations[0],
            segments: &self.segments,
            block_costs: &self.block_costs,
            mode_costs: &self.mode_costs,
            speed: task.request.speed,
            tools: self.tools,
            parallel: task.parallel,
            kernels: task.kernels,
            encode_kernels: task.encode_kernels,
        };
        let mut passes: Vec<Pass> = settings
            .iter()
            .enumerate()
            .map(|(layer, &setting)| {
                let unfinished = self.frames.frame(&task.geometry);
                Pass { setting, unfinished, counts: Box::new(NO_COUNTS), layer }
            })
            .collect();
        let layers = passes.iter_mut().zip(&quantizations).map(|(pass, quantizations)| {
            let planes = pass.unfinished.planes_mut();
            Layer { quantizations, planes, counts: &mut pass.counts }
        });
        frame::run(&job, self.store, &mut layers.collect::<Vec<_>>(), self.decided, task.parallel);
        self.decided = true;
        passes
    }

    fn lasting(&self) -> Lasting {
        let mut lasting = self.start.clone();
        filter_choice::deltas(&mut lasting.filter);
        self.segments.describe(&mut lasting.segmentation);
        lasting.sign_bias = [false; 2];
        lasting
    }

    /// The bytes that the pass that was run last would take.
    pub(crate) fn size(&mut self, pass: &Pass) -> usize {
        self.store.show(&self.task.geometry, pass.layer);
        let (mut header, mut lasting) = (self.header(pass.setting.index), self.lasting());
        let written = self.written(pass.layer, &pass.counts);
        let chosen = write::choose(&written, &mut header, &mut lasting);
        let mut partitions = Partitions::default();
        {
            let mut tasks = written.tasks(&header, &lasting, chosen, &mut partitions);
            self.task.parallel.run(&mut tasks.iter_mut().map(as_dyn).collect::<Vec<_>>());
        }
        partitions.join(&header, &self.task.geometry).0.len()
    }

    fn field(&self) -> Field<'_> {
        Field { macroblocks: &self.store.macroblocks, geometry: &self.task.geometry }
    }

    fn written<'b>(&'b self, layer: usize, counts: &'b Counts) -> Written<'b> {
        let tokens = &self.store.layers[layer].tokens;
        let kernels = self.task.encode_kernels;
        Written { field: self.field(), tokens, counts, before: &self.start, kernels }
    }

    /// Filters and writes one of the passes that were run last.
    pub(crate) fn finish(&mut self, pass: Pass) -> Result<Encoded, EncodeError> {
        let Pass { setting, mut unfinished, counts, layer } = pass;
        self.store.show(&self.task.geometry, layer);
        let task = self.task;
        let geometry = &task.geometry;
        let (mut header, mut lasting) = (self.header(setting.index), self.lasting());
        let field = self.field();
        header.filter_level = match self.filtered {
            // Tried at another quantiser; stronger where that is coarser.
            Some((index, level)) => {
                let scale = |index: u8| u32::from(index) + 8;
                (u32::from(level) * scale(setting.index) / scale(index)).min(63) as u8
            }
            None => {
                let trial = filter_choice::Trial { task: &task, field, lasting: &lasting, header: &header };
                trial.level(&unfinished.planes_mut())
            }
        };
        let filter = LoopFilter::new(&header, &lasting.segmentation, &lasting.filter);
        let written = self.written(layer, &counts);
        let chosen = write::choose(&written, &mut header, &mut lasting);
        let mut partitions = Partitions::default();
        let mut new = None;
        {
            // Bytes do not depend on what the filter makes of the samples, so both go side by side.
            let mut unfinished = Some(unfinished);
            let mut finish =
                || new = unfinished.take().map(|frame| filtered(frame, &task, filter.as_ref(), field));
            let mut write = written.tasks(&header, &lasting, chosen, &mut partitions);
            let mut tasks: Vec<&mut (dyn FnMut() + Send)> = vec![&mut finish];
            tasks.extend(write.iter_mut().map(as_dyn));
            task.parallel.run(&mut tasks);
        }
        let (bytes, too_long) = partitions.join(&header, geometry);
        self.filtered.get_or_insert((setting.index, header.filter_level));
        let Some(new) = new else { unreachable!("a task that was run has filled it") };
        let stats = self.stats(&header);
        self.frames.remember(&new);
        if let Some(found) = too_long {
            return Err(EncodeError::TooLong { found });
        }
        let mut picture = new.picture(geometry);
        if !lasting.colour_space {
            picture.colour = Colour { matrix: 6, ..Colour::UNSPECIFIED };
        }
        let key_tag =
            KeyTag { width: geometry.width, height: geometry.height, horizontal_scale: 0, vertical_scale: 0 };
        let segments = match task.inner {
            _ if header.update_segment_map => self.segments.map().into(),
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
            update_segment_map: self.segments.updates_map(self.task.inner),
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
            finer: macroblocks().filter(|macroblock| macroblock.segment > 0).count() as u32,
        }
    }
}

fn as_dyn<'a>(task: &'a mut write::Task<'_>) -> &'a mut (dyn FnMut() + Send + 'a) {
    &mut **task
}

/// Filters a frame, row by row.
fn filtered(
    mut unfinished: Unfinished,
    task: &Task<'_>,
    filter: Option<&LoopFilter>,
    field: Field<'_>,
) -> Frame {
    let geometry = &task.geometry;
    let mut planes = unfinished.planes_mut();
    for row in 0..geometry.rows {
        if let Some(filter) = filter {
            let [y, u, v] = &mut planes;
            let (y_stride, uv_stride) = (geometry.y_stride, geometry.uv_stride);
            let mut area = Area { y, u, v, y_stride, uv_stride };
            filter.row(&mut area, geometry, row, field.row(row), task.kernels);
        }
    }
    unfinished.finish()
}
