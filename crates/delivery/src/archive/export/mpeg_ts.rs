//! An MPEG transport stream of the pictures and the first sound.

use super::cut::{BEGIN, CurrentRun, CutSample, RowCut, RunCut};
use super::{Ended, ExportError, PlannedObject};
use crate::packager::{Kind, RenditionName, TrackInfo};
use crate::playlist::date_time;
use bytes::Bytes;
use glassline_media::container::cmaf::{ReadSample, ReadTrack};
use glassline_media::container::ts::{AudioFormat, MuxSettings, Muxer};
use glassline_media::{AccessUnit, Codec, Ticks, Time, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How much earlier than it is shown a key frame may be decoded: sound of behind that waits for the next segment.
const REORDERED_MAX: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct MpegTs {
    muxer: Option<Muxer>,
    run: Option<CurrentRun>,
    /// The codecs of what is in it.
    codecs: BTreeMap<RenditionName, (Codec, String)>,
    /// Which sound of the current run is in it.
    sound: Option<RenditionName>,
    left_out: BTreeSet<RenditionName>,
    begun: Option<Utc>,
    /// When what is shown ends in the file.
    ends: Duration,
    /// When the last pictures, and the last sound, were decoded.
    last: BTreeMap<bool, Duration>,
    /// Sound that is decoded behind the last picture: the next one may be decoded before it.
    held: Vec<AccessUnit>,
    /// What units came of.
    renditions: BTreeSet<RenditionName>,
}

impl MpegTs {
    pub(super) fn begin_run(
        &mut self,
        headers: &[(&PlannedObject, &Bytes)],
        known: &[(RenditionName, TrackInfo)],
        cut: RunCut,
        out: &mut Vec<u8>,
    ) -> Result<(), ExportError> {
        self.write_held(None, out)?;
        let run = CurrentRun::new(cut, headers, self.ends.max(BEGIN))?;
        let known: Vec<_> = known.iter().filter(|(name, _)| run.track(*name).is_some()).collect();
        let mut sounds = known.iter().map(|(name, _)| *name).filter(|name| !name.is_video());
        // The one of before, where it goes on.
        let before = self.sound.filter(|before| sounds.clone().any(|name| name == *before));
        self.sound = before.or_else(|| sounds.next());
        let (mut video, mut audio) = (None, None);
        for (name, info) in known {
            let Some(track) = run.track(*name) else { continue };
            if !name.is_video() && Some(*name) != self.sound {
                self.left_out.insert(*name);
                continue;
            }
            let codec = track.codec().ok_or_else(|| ExportError::Codec { codec: info.codec.clone() })?;
            let mut former = self.codecs.iter().filter(|(former, _)| former.is_video() == name.is_video());
            if let Some((_, (_, from))) = former.find(|(_, (former, _))| *former != codec) {
                let (from, to) = (from.clone(), info.codec.clone());
                let at = date_time(cut.anchor.utc);
                return Err(ExportError::CodecChanges { rendition: *name, from, to, at });
            }
            self.codecs.insert(*name, (codec, info.codec.clone()));
            match info.kind {
                Kind::Video { .. } => video = Some(codec),
                Kind::Audio { language, .. } => {
                    let channels = track.channels().unwrap_or(2);
                    audio = Some(AudioFormat { codec, channels, language, he_aac: track.he_aac() });
                }
            }
        }
        match &mut self.muxer {
            // What begins in a later run is in the tables from there on.
            Some(muxer) => muxer.add(video, audio, out).map_err(ExportError::MpegTs)?,
            None if video.is_none() && audio.is_none() => {}
            None => {
                let settings = MuxSettings { video, audio, ..MuxSettings::default() };
                self.muxer = Some(Muxer::new(settings).map_err(ExportError::MpegTs)?);
            }
        }
        self.run = Some(run);
        Ok(())
    }

    /// Returns from when to when pictures were left out.
    pub(super) fn push(
        &mut self,
        segments: &[(&PlannedObject, &Bytes)],
        row: RowCut<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Utc, Utc)>, ExportError> {
        let Some(run) = &mut self.run else { return Ok(None) };
        let chunks = run.cut(segments, row)?;
        self.begun = self.begun.or_else(|| run.begun());
        let mut last_picture = None;
        for mut cut in chunks.into_iter().flatten() {
            let is_video = cut.rendition.is_video();
            if !is_video && Some(cut.rendition) != self.sound {
                continue;
            }
            let Some(track) = run.track(cut.rendition) else { continue };
            // As in MP4: what is reordered is decoded no earlier than what is there already, and shown when it should be.
            if let Some(last) = self.last.get(&is_video) {
                let last = crate::packager::ticks_of(*last, cut.timescale);
                let late = last.saturating_add(1).saturating_sub(cut.decode_time);
                cut.decode_time = cut.decode_time.saturating_add(late);
                let late = i64::try_from(late).unwrap_or(i64::MAX);
                cut.sample.composition_offset = cut.sample.composition_offset.saturating_sub(late);
            }
            self.last.insert(is_video, cut.decoded_at());
            self.ends = self.ends.max(cut.shown_until());
            self.renditions.insert(cut.rendition);
            let unit = unit_of(track, &cut, segments)?;
            if is_video {
                last_picture = last_picture.max(Some(unit.dts));
            }
            self.held.push(unit);
        }
        let ends =
            run.in_file(row.begins.saturating_add(row.lasts)).map(|ends| ends.saturating_sub(REORDERED_MAX));
        let undecodable = run.take_undecodable();
        let without_pictures = ends.map(|ends| Ticks::from_time(Time::ZERO + ends));
        if let Some(until) = last_picture.or(without_pictures) {
            self.write_held(Some(until), out)?;
        }
        Ok(undecodable)
    }

    /// Writes the units that are decoded by then, or all, in the order of decoding. The clock may not run ahead of a picture that
    /// comes with the next segment.
    fn write_held(&mut self, until: Option<Ticks>, out: &mut Vec<u8>) -> Result<(), ExportError> {
        let Some(muxer) = &mut self.muxer else { return Ok(()) };
        self.held.sort_by_key(|unit| unit.dts);
        let count =
            until.map_or(self.held.len(), |until| self.held.partition_point(|unit| unit.dts <= until));
        for unit in self.held.drain(..count) {
            // Where pictures are missing, the clock goes on beside the sound.
            muxer.fill_up(unit.dts, out);
            muxer.write(&unit, out).map_err(ExportError::MpegTs)?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) -> Result<Ended, ExportError> {
        self.write_held(None, out)?;
        let (Some(from), Some(muxer)) = (self.begun, &mut self.muxer) else {
            return Err(ExportError::Nothing);
        };
        muxer.finish(out);
        let duration = self.ends.saturating_sub(BEGIN);
        if duration.is_zero() {
            return Err(ExportError::Nothing);
        }
        let renditions = self.renditions.into_iter().collect();
        Ok(Ended { from, duration, renditions, left_out: self.left_out.into_iter().collect() })
    }
}

/// The access unit of a sample, with its times in the file.
fn unit_of(
    track: &ReadTrack,
    cut: &CutSample,
    segments: &[(&PlannedObject, &Bytes)],
) -> Result<AccessUnit, ExportError> {
    let moved = ReadSample { decode_time: cut.decode_time, ..cut.sample.clone() };
    track.to_unit(&moved).map_err(|reason| {
        let planned = segments.iter().find(|(planned, _)| planned.rendition == cut.rendition);
        let object = planned.map(|(planned, _)| planned.object.clone());
        object.map_or(ExportError::Nothing, |object| ExportError::Object { object, reason })
    })
}
