//! MP4 with all that is told in front of the bytes.

use super::cut::{BEGIN, CurrentRun, CutSample, RowCut, RunCut};
use super::exact::{Complete, Exact, Recoded, Recoder};
use super::{Ended, ExportError, PlannedObject};
use crate::packager::{Kind, RenditionName, TrackInfo};
use bytes::Bytes;
use glassline_media::Utc;
use glassline_media::container::cmaf::{InitTrack, PlacedSample, Progressive, ProgressiveError, ReadTrack};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A track that has stopped for so long does not go on: another one begins. The length of a sample has 32 bits.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Mp4 {
    file: Progressive,
    tracks: Vec<Track>,
    /// Which tracks the renditions of the current run go on in, by their places.
    current: BTreeMap<RenditionName, usize>,
    run: Option<CurrentRun>,
    begun: Option<Utc>,
    /// The group of pictures that the file begins in, which is coded anew.
    exact: Option<Exact>,
    /// Where the file begins in the times of its tracks, where that is not at [`BEGIN`].
    begin: Option<Duration>,
    /// Where the wanted time ends in the file.
    end: Option<Duration>,
}

#[derive(Debug)]
struct Track {
    rendition: RenditionName,
    number: usize,
    timescale: u32,
    /// Of the current run.
    description: usize,
    /// It has had several descriptions: parameter sets are in its pictures, too, for those that read the first one alone.
    is_mixed: bool,
    /// When what is shown of it ends, in its ticks; 0 before its first sample.
    ends: u64,
    /// When its last sample is decoded.
    last: Option<u64>,
    /// Where the run before the current one ends: sound of before that is there already.
    floor: u64,
}

impl Mp4 {
    /// Begins the file with any picture.
    pub(super) fn begin_exactly(&mut self, recoder: Recoder) {
        self.exact = Some(Exact::new(recoder));
    }

    pub(super) fn begin_run(
        &mut self,
        headers: &[(&PlannedObject, &Bytes)],
        known: &[(RenditionName, TrackInfo)],
        cut: RunCut,
        out: &mut Vec<u8>,
    ) -> Result<(), ExportError> {
        self.end_group(out)?;
        let ends = self.tracks.iter().map(|track| super::duration_of(track.ends, track.timescale));
        let base = ends.max().unwrap_or(BEGIN).max(BEGIN);
        let mut run = CurrentRun::new(cut, headers, base)?;
        if self.exact.is_some() {
            run.begin_exactly();
        }
        self.run = Some(run);
        self.tracks.iter_mut().for_each(|track| track.floor = track.ends);
        self.current.clear();
        for (planned, bytes) in headers {
            let unread = |reason| ExportError::Object { object: planned.object.clone(), reason };
            let init = InitTrack::read(bytes).map_err(unread)?;
            let place = self.track_of(planned, &init, known, base)?;
            self.current.insert(planned.rendition, place);
        }
        Ok(())
    }

    /// The place of the track that a rendition with this header goes on in: where the codec changes that is another one, which begins
    /// when it does by its edit list.
    fn track_of(
        &mut self,
        planned: &PlannedObject,
        init: &InitTrack,
        known: &[(RenditionName, TrackInfo)],
        base: Duration,
    ) -> Result<usize, ExportError> {
        let rendition = planned.rendition;
        // The newest one alone: a track that had stopped meanwhile would show its last picture all that time.
        let newest = self.tracks.iter().rposition(|track| track.rendition == rendition);
        if let Some(place) = newest
            && let Some(track) = self.tracks.get_mut(place)
            && base.saturating_sub(super::duration_of(track.ends, track.timescale)) < PAUSE_MAX
        {
            match self.file.add_description(track.number, init) {
                Ok(description) => {
                    track.is_mixed |= description != track.description;
                    track.description = description;
                    return Ok(place);
                }
                Err(ProgressiveError::Other) => {}
                Err(reason) => return Err(ExportError::Mp4 { object: planned.object.clone(), reason }),
            }
        }
        let info = known.iter().find(|(name, _)| *name == rendition);
        let language = info.and_then(|(_, info)| match info.kind {
            Kind::Audio { language, .. } => language,
            Kind::Video { .. } => None,
        });
        let number = self.file.add_track(init, language);
        // Sounds of one time are alternatives to each other, of which the first is heard; those that follow each other are not.
        let before = self.tracks.iter().filter(|track| track.rendition == rendition).count();
        let group = u16::try_from(before).unwrap_or(u16::MAX).saturating_add(1);
        let first = known.iter().map(|(name, _)| *name).find(|name| !name.is_video());
        self.file.set_alternate(number, group, rendition.is_video() || Some(rendition) == first);
        let (timescale, description, is_mixed) = (init.timescale, 0, false);
        let (ends, last, floor) = (0, None, 0);
        self.tracks.push(Track { rendition, number, timescale, description, is_mixed, ends, last, floor });
        Ok(self.tracks.len().saturating_sub(1))
    }

    /// Returns from when to when pictures were left out.
    pub(super) fn push(
        &mut self,
        segments: &[(&PlannedObject, &Bytes)],
        row: RowCut<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Utc, Utc)>, ExportError> {
        if row.lacking.contains(&RenditionName::Video) {
            // Its next key frame will not be the one behind it.
            self.end_group(out)?;
        }
        let Some(run) = &mut self.run else { return Ok(None) };
        let chunks = run.cut(segments, row)?;
        self.begun = self.begun.or_else(|| run.begun());
        if run.begun().is_some() && !run.begins_in_group() {
            self.exact = None;
        }
        if let Some(end) = row.end.and_then(|end| run.in_file(end)) {
            self.end = Some(end);
        }
        for chunk in chunks {
            let chunk = self.hold(chunk, out)?;
            self.push_chunk(segments, chunk, out)?;
        }
        Ok(self.run.as_mut().and_then(CurrentRun::take_undecodable))
    }

    /// Keeps pictures of the group that is coded anew, and returns those that are none of it.
    fn hold(&mut self, chunk: Vec<CutSample>, out: &mut Vec<u8>) -> Result<Vec<CutSample>, ExportError> {
        let is_video = chunk.first().is_some_and(|first| first.rendition.is_video());
        let Some(exact) = self.exact.as_mut().filter(|_| is_video) else { return Ok(chunk) };
        let (complete, rest) = exact.push(chunk)?;
        if let Some(complete) = complete {
            self.push_recoded(&complete, out)?;
        }
        Ok(rest)
    }

    /// No picture follows those of the group.
    fn end_group(&mut self, out: &mut Vec<u8>) -> Result<(), ExportError> {
        match self.exact.as_mut().and_then(Exact::end) {
            Some(complete) => self.push_recoded(&complete, out),
            None => Ok(()),
        }
    }

    /// Codes a group anew, which is the first of the file, and begins that with its first picture.
    fn push_recoded(&mut self, complete: &Complete, out: &mut Vec<u8>) -> Result<(), ExportError> {
        let (Some(exact), Some(run)) = (&mut self.exact, &self.run) else { return Ok(()) };
        let place = self.current.get(&RenditionName::Video).copied();
        let track = place.and_then(|place| self.tracks.get_mut(place));
        let Some((track, read)) = track.zip(run.track(RenditionName::Video)) else { return Ok(()) };
        let from = crate::packager::ticks_of(BEGIN, track.timescale);
        let recoded = exact.recode(complete, read, from.saturating_sub(1))?;
        let first = recoded.as_ref().and_then(Recoded::first_shown).or_else(|| complete.next_shown());
        // Sound may go on where no picture is left.
        if let Some(first) = first {
            let begin = super::duration_of(first, track.timescale).max(BEGIN);
            self.begin = Some(begin);
            self.begun = run.captured_at(begin);
        }
        let Some(Recoded { init, samples }) = recoded else { return Ok(()) };
        let refused =
            |reason: ProgressiveError| ExportError::Exact(super::Exactness::Refused(reason.to_string()));
        let description = self.file.add_description(track.number, &init).map_err(refused)?;
        let placed: Vec<PlacedSample> = samples.iter().map(|sample| track.place(sample)).collect();
        self.file.push(track.number, description, &placed).map_err(refused)?;
        samples.iter().for_each(|sample| out.extend_from_slice(&sample.sample.data));
        track.is_mixed = true;
        Ok(())
    }

    /// Puts samples of one rendition into the file.
    fn push_chunk(
        &mut self,
        segments: &[(&PlannedObject, &Bytes)],
        mut chunk: Vec<CutSample>,
        out: &mut Vec<u8>,
    ) -> Result<(), ExportError> {
        let Some(run) = &self.run else { return Ok(()) };
        let Some(rendition) = chunk.first().map(|first| first.rendition) else { return Ok(()) };
        let place = self.current.get(&rendition).copied();
        let Some(track) = place.and_then(|place| self.tracks.get_mut(place)) else { return Ok(()) };
        chunk.iter_mut().for_each(|sample| track.rescale(sample));
        // Where runs meet, the sound of one may reach into the next: what is there already stays. Inside a run all is kept, also
        // where lengths that were told before the next sample was known reach into it.
        if !rendition.is_video() {
            chunk.retain(|sample| sample.decode_time.saturating_add(1) >= track.floor);
        }
        if track.is_mixed
            && let Some(read) = run.track(rendition)
        {
            add_parameter_sets(read, &mut chunk);
        }
        let placed: Vec<PlacedSample> = chunk.iter().map(|sample| track.place(sample)).collect();
        if placed.is_empty() {
            return Ok(());
        }
        self.file.push(track.number, track.description, &placed).map_err(|reason| {
            let planned = segments.iter().find(|(planned, _)| planned.rendition == rendition);
            let object = planned.map(|(planned, _)| planned.object.clone());
            object.map_or(ExportError::Nothing, |object| ExportError::Mp4 { object, reason })
        })?;
        chunk.iter().for_each(|sample| out.extend_from_slice(&sample.sample.data));
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) -> Result<(Vec<u8>, Ended), ExportError> {
        self.end_group(out)?;
        let from = self.begun.ok_or(ExportError::Nothing)?;
        let begin = self.begin.unwrap_or(BEGIN);
        let with_samples =
            self.tracks.iter().filter(|track| self.file.is_shown(track.number, begin, self.end));
        let renditions: BTreeSet<_> = with_samples.clone().map(|track| track.rendition).collect();
        let ends = with_samples.map(|track| super::duration_of(track.ends, track.timescale));
        let end = ends.max().filter(|_| !renditions.is_empty()).ok_or(ExportError::Nothing)?;
        let shown = self.end.map_or(end, |wanted| wanted.min(end));
        let duration = shown.saturating_sub(begin);
        let head = self.file.finish(begin, self.end);
        let renditions = renditions.into_iter().collect();
        Ok((head, Ended { from, duration, renditions }))
    }
}

/// Puts the track's parameter sets into the pictures that decoding can begin with. Players that open a decoder with a track's first
/// sample entry, FFmpeg's parser among them, read the others from there.
fn add_parameter_sets(track: &ReadTrack, chunk: &mut [CutSample]) {
    for CutSample { sample, .. } in chunk.iter_mut().filter(|cut| cut.is_entry) {
        if let Some(data) = track.with_parameter_sets(&sample.data) {
            sample.data = data.into();
        }
    }
}

impl Track {
    /// Puts the times of a sample into the ticks of this track, where its own header has others.
    fn rescale(&self, cut: &mut CutSample) {
        if cut.timescale == self.timescale {
            return;
        }
        let (from, to) = (i128::from(cut.timescale.max(1)), i128::from(self.timescale));
        let scaled = |ticks: i128| ticks.saturating_mul(to).saturating_add(from / 2).div_euclid(from);
        let begins = scaled(cut.decode_time.into());
        let ends = scaled(i128::from(cut.decode_time).saturating_add(cut.sample.duration.into()));
        let shown = scaled(i128::from(cut.decode_time).saturating_add(cut.sample.composition_offset.into()));
        cut.decode_time = u64::try_from(begins).unwrap_or(u64::MAX);
        cut.sample.duration = u32::try_from(ends.saturating_sub(begins)).unwrap_or(u32::MAX);
        cut.sample.composition_offset = i64::try_from(shown.saturating_sub(begins)).unwrap_or(0);
        cut.timescale = self.timescale;
    }

    /// The sample with its times. Pictures that are reordered are decoded before the run begins, where those of the run before may still
    /// be: they are decoded a little later then, and shown when they should be.
    fn place(&mut self, sample: &CutSample) -> PlacedSample {
        let told = sample.decode_time;
        let decode_time = self.last.map_or(told, |last| told.max(last.saturating_add(1)));
        let late = i64::try_from(decode_time.saturating_sub(told)).unwrap_or(i64::MAX);
        let offset = sample.sample.composition_offset.saturating_sub(late);
        let shown = i128::from(decode_time).saturating_add(offset.into());
        let ends = shown.saturating_add(sample.sample.duration.into()).max(0);
        self.ends = self.ends.max(u64::try_from(ends).unwrap_or(u64::MAX));
        self.last = Some(decode_time);
        PlacedSample {
            bytes: u32::try_from(sample.sample.data.len()).unwrap_or(u32::MAX),
            decode_time,
            duration: sample.sample.duration,
            composition_offset: i32::try_from(offset).unwrap_or(0),
            is_sync: sample.sample.is_sync(),
        }
    }
}
