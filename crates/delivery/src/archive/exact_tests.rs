//! Files that begin with any picture, with a recoder that gives pictures of another size.

use super::super::cut::CutSample;
use super::super::exact::Exact;
use super::*;
use crate::packager::testing::other_picture;
use glassline_media::container::cmaf::ReadSample;
use std::sync::{Arc, Mutex};

/// What the recoder was given.
type Seen = Arc<Mutex<Vec<Group>>>;

/// Pictures of ten bytes in the place of those that are shown from then on.
fn recoder(seen: &Seen) -> Recoder {
    let seen = Arc::clone(seen);
    Box::new(move |group| {
        seen.lock().unwrap().push(group.clone());
        let shown = group.units.iter().filter(|unit| unit.pts >= group.from);
        Ok(shown.zip(0..).map(|(unit, at)| other_picture(at == 0, 10, unit.pts.0)).collect())
    })
}

fn exactly(
    recorded: &Recorded,
    span: Option<Span>,
    container: Container,
    recoder: Recoder,
) -> Result<Exported, ExportError> {
    let listed = [Source { recording: &recorded.recording, is_running: false }];
    let now = later(BEGUN, SECOND * 9999);
    let window = Window::of(&listed, span.map(|span| Plan::widened(&listed, span)), now).unwrap().unwrap();
    let plan = Plan::new(&window, span, now);
    let mut export = Export::new(&plan, container);
    export.begin_exactly(recoder)?;
    let mut data = Vec::new();
    for step in &plan.steps {
        let find = |planned: &PlannedObject| recorded.objects.get(&planned.object.to_string()).cloned();
        let objects: Vec<_> = step.objects.iter().map(find).collect();
        export.push(step, &objects, &mut data)?;
    }
    let (head, report) = export.finish(&mut data)?;
    Ok(Exported { report, head, data })
}

/// The number behind the version and the flags of the first box of this kind.
fn count_in(head: &[u8], kind: &[u8; 4], behind: usize) -> u32 {
    let at = head.windows(4).position(|four| four == kind).unwrap() + 8 + behind;
    u32::from_be_bytes(head[at..at + 4].try_into().unwrap())
}

#[test]
fn the_group_that_it_begins_in_is_coded_anew_and_the_rest_stays() {
    let recorded = recorded(&twenty(), BEGUN);
    let seen = Seen::default();
    let wanted = span(millis(5500), millis(8300));
    let exported = exactly(&recorded, wanted, Container::Mp4, recoder(&seen)).unwrap();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let [Group { units, from, frame_rate, .. }] = &seen[..] else { panic!("one group") };
    assert_eq!((units.len(), frame_rate.as_f64()), (25, 25.0));
    assert!(units[0].random_access && units[1..].iter().all(|unit| !unit.random_access));
    // Half a second, and half a picture, behind the key frame.
    assert_eq!((from.0 - units[0].pts.0, units[13].pts.0 - units[0].pts.0), (44_999, 13 * 3600));
    let Report { from, duration, missing, to, .. } = exported.report;
    assert_eq!((from, to), (later(BEGUN, millis(5520)), later(BEGUN, millis(8300))));
    assert_eq!((duration, missing), (millis(2780), Vec::new()));
    // Twelve pictures that are new, and 58 that are not; two sample entries.
    assert_eq!((count_in(&exported.head, b"stsz", 4), count_in(&exported.head, b"stsd", 0)), (70, 2));
    let copied = export(&[&recorded], wanted, Container::Mp4).unwrap();
    assert_eq!((count_in(&copied.head, b"stsz", 4), count_in(&copied.head, b"stsd", 0)), (83, 1));
    let told = u32::from_be_bytes(exported.head[exported.head.len() - 8..][..4].try_into().unwrap());
    assert_eq!(told as usize, exported.data.len() + 8);
}

#[test]
fn what_needs_no_coding_is_not_coded() {
    let recorded = recorded(&twenty(), BEGUN);
    let never = || -> Recoder { Box::new(|_| panic!("nothing is coded anew")) };
    let at_key = span(millis(5000), millis(8300));
    let exported = exactly(&recorded, at_key, Container::Mp4, never()).unwrap();
    let copied = export(&[&recorded], at_key, Container::Mp4).unwrap();
    assert_eq!((&exported.head, &exported.data), (&copied.head, &copied.data));
    // Without a time it is all of it, and a time before the recording is its begin.
    let all = exactly(&recorded, None, Container::Mp4, never()).unwrap();
    assert_eq!(all.report, export(&[&recorded], None, Container::Mp4).unwrap().report);
    // Behind the last picture of a group the file begins with the next key frame.
    let seen = Seen::default();
    let between = span(millis(5970), millis(8000));
    let exported = exactly(&recorded, between, Container::Mp4, recoder(&seen)).unwrap();
    assert_eq!(exported.report.from, later(BEGUN, millis(6000)));
    assert_eq!((exported.report.duration, count_in(&exported.head, b"stsz", 4)), (millis(2000), 50));
    // With the end in the same group nothing comes behind it.
    let short = span(millis(5500), millis(5700));
    let exported = exactly(&recorded, short, Container::Mp4, recoder(&seen)).unwrap();
    assert_eq!((exported.report.duration, count_in(&exported.head, b"stsz", 4)), (millis(180), 5));
}

#[test]
fn a_lost_segment_ends_the_group_and_refusals_are_told() {
    let mut recorded = recorded(&twenty(), BEGUN);
    let wanted = span(millis(5500), millis(12_300));
    let refuses: Recoder = Box::new(|_| Err("no such library".to_owned()));
    let error = exactly(&recorded, wanted, Container::Mp4, refuses).unwrap_err();
    assert_eq!(error.to_string(), "the file cannot begin exactly there: no such library");
    let error = exactly(&recorded, wanted, Container::MpegTs, recoder(&Seen::default())).unwrap_err();
    assert!(matches!(error, ExportError::Exact(Exactness::MpegTs)));
    // The pictures of 6 s to 8 s: the group that is held has no next key frame then.
    let lost = |path: &str| path.contains("/video/") && path.ends_with("/3.m4s");
    assert!(recorded.objects.keys().any(|path| lost(path)));
    recorded.objects.retain(|path, _| !lost(path));
    let exported = exactly(&recorded, wanted, Container::Mp4, recoder(&Seen::default())).unwrap();
    assert_eq!(exported.report.lost_objects, 1);
    assert_eq!(exported.report.from, later(BEGUN, millis(5520)));
    assert!(exported.report.missing.iter().any(|it| it.rendition == Some(RenditionName::Video)));
}

/// A picture that is decoded and shown then.
fn cut_sample(decode_time: u64, composition_offset: i64, is_sync: bool) -> CutSample {
    let flags = if is_sync { 0 } else { 0x0101_0000 };
    let data = Bytes::from_static(&[0, 0, 0, 2, 0x41, 0x80]);
    let sample = ReadSample { decode_time, duration: 3600, composition_offset, flags, data };
    let (rendition, timescale, is_entry) = (RenditionName::Video, 90_000, is_sync);
    CutSample { rendition, sample, decode_time, timescale, is_entry }
}

#[test]
fn groups_that_cannot_be_parted_are_refused_and_what_is_held_is_bounded() {
    let exact = || Exact::new(recoder(&Seen::default()));
    let error = |error: ExportError| match error {
        ExportError::Exact(reason) => reason,
        other => panic!("{other}"),
    };
    let mut open = exact();
    let group =
        vec![cut_sample(0, 7200, true), cut_sample(3600, 7200, false), cut_sample(7200, 10_800, true)];
    let (complete, rest) = open.push(group).unwrap();
    assert_eq!((complete.unwrap().next_shown(), rest.len()), (Some(18_000), 1));
    // It is decoded behind the key frame and shown before it.
    assert_eq!(error(open.push(vec![cut_sample(10_800, 0, false)]).unwrap_err()), Exactness::OpenGroup);
    let refused = exact().push(vec![cut_sample(0, 0, false)]);
    assert_eq!(error(refused.map(|_| ()).unwrap_err()), Exactness::NoKeyFrame);
    let long = (0..3000).map(|at| cut_sample(at * 3600, 0, at == 0)).collect();
    assert_eq!(error(exact().push(long).map(|_| ()).unwrap_err()), Exactness::LongGroup);
    assert!(exact().end().is_none());
}
