//! An MPEG transport stream of the pictures and all sounds.

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
    /// The sounds in it, in the order of the muxer.
    sounds: Vec<RenditionName>,
    begun: Option<Utc>,
    /// When what is shown ends in the file.
    ends: Duration,
    /// When the last unit of each rendition was decoded.
    last: BTreeMap<RenditionName, Duration>,
    /// Sound that is decoded behind the last picture: the next one may be decoded before it.
    held: Vec<(RenditionName, AccessUnit)>,
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
        let (mut video, mut audio, mut further) = (None, None, Vec::new());
        for (name, info) in known {
            let Some(track) = run.track(*name) else { continue };
            let codec = track.codec().ok_or_else(|| ExportError::Codec { codec: info.codec.clone() })?;
            if let Some((former, from)) = self.codecs.get(name)
                && *former != codec
            {
                let (from, to) = (from.clone(), info.codec.clone());
                let at = date_time(cut.anchor.utc);
                return Err(ExportError::CodecChanges { rendition: *name, from, to, at });
            }
            self.codecs.insert(*name, (codec, info.codec.clone()));
            match info.kind {
                Kind::Video { .. } => video = Some(codec),
                Kind::Audio { .. } if self.sounds.contains(name) => {}
                Kind::Audio { language, .. } => {
                    let channels = track.channels().unwrap_or(2);
                    let format = AudioFormat { codec, channels, language, he_aac: track.he_aac() };
                    if self.sounds.is_empty() {
                        audio = Some(format);
                    } else {
                        further.push(format);
                    }
                    self.sounds.push(*name);
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
        if let Some(muxer) = &mut self.muxer {
            for format in further {
                muxer.add_sound(format).map_err(ExportError::MpegTs)?;
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
            let (is_video, rendition) = (cut.rendition.is_video(), cut.rendition);
            let Some(track) = run.track(cut.rendition) else { continue };
            // As in MP4: what is reordered is decoded no earlier than what is there already, and shown when it should be.
            if let Some(last) = self.last.get(&rendition) {
                let last = crate::packager::ticks_of(*last, cut.timescale);
                let late = last.saturating_add(1).saturating_sub(cut.decode_time);
                cut.decode_time = cut.decode_time.saturating_add(late);
                let late = i64::try_from(late).unwrap_or(i64::MAX);
                cut.sample.composition_offset = cut.sample.composition_offset.saturating_sub(late);
            }
            self.last.insert(rendition, cut.decoded_at());
            self.ends = self.ends.max(cut.shown_until());
            self.renditions.insert(cut.rendition);
            let unit = unit_of(track, &cut, segments)?;
            if is_video {
                last_picture = last_picture.max(Some(unit.dts));
            }
            self.held.push((rendition, unit));
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
        self.held.sort_by_key(|(_, unit)| unit.dts);
        let count =
            until.map_or(self.held.len(), |until| self.held.partition_point(|(_, unit)| unit.dts <= until));
        for (rendition, unit) in self.held.drain(..count) {
            // Where pictures are missing, the clock goes on beside the sound.
            muxer.fill_up(unit.dts, out);
            let written = match self.sounds.iter().position(|name| *name == rendition) {
                Some(which) => muxer.write_sound(which, &unit, out),
                None => muxer.write(&unit, out),
            };
            written.map_err(ExportError::MpegTs)?;
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
        Ok(Ended { from, duration, renditions })
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
