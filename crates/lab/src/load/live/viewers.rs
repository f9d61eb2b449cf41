//! The viewers: each has a connection for the playlist and one for the media of each rendition.

use super::chunks::{Chunk, Chunks};
use super::dash::Manifest;
use super::tally::LiveTally;
use super::track::{Listed, Numbered, Unmet, Wanted};
use crate::load::exchange::{Crowd, Next};
use crate::load::generator::nth;
use glassline_delivery::http1::Url;
use glassline_delivery::http1::client::Head;
use glassline_inspect::segmented::hls::{Playlist, Variant};
use glassline_io::clock::Clock;
use glassline_media::{Time, Utc, choice};
use std::collections::VecDeque;
use std::time::Duration;

choice! {
    /// How segments are found.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Protocol {
        /// By playlists that wait, part by part; of a server without parts, segment by segment.
        Hls = "hls",
        /// By number, while they grow.
        Dash = "dash",
    }
}

impl Protocol {
    /// As the ending of a URL's path tells.
    pub fn of(url: &Url) -> Option<Protocol> {
        let path = url.target().split('?').next().unwrap_or_default();
        match path.rsplit_once('.')?.1 {
            "m3u8" => Some(Protocol::Hls),
            "mpd" => Some(Protocol::Dash),
            _ => None,
        }
    }
}

/// What viewers do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The multivariant playlist, a media playlist, or the manifest.
    pub url: Url,
    /// What it is.
    pub protocol: Protocol,
    /// Viewers.
    pub viewers: usize,
    /// Viewers that come each second.
    pub ramp: f64,
    /// A chunk is presented so long after its capture; one that comes later is a stall.
    pub latency: Duration,
}

/// Renditions that a viewer follows: video and sound.
const TRACKS: usize = 2;
/// Connections of a viewer: playlist and media of each.
const LANES: usize = 2 * TRACKS;
/// A playlist of more bytes is none.
const PLAYLIST_BYTES: usize = 1 << 20;
/// What is not there is asked for again after this time.
const AGAIN: Duration = Duration::from_millis(200);
/// Stamps that are older than this, or of the future, are by another clock.
const OLDEST_STAMP: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
enum Source {
    Listed(Url, Box<Listed>),
    Numbered(Numbered),
}

/// A connection's request, and when it may ask again.
#[derive(Clone, Debug, Default)]
struct Lane {
    asked: Time,
    not_before: Time,
    waits: bool,
    begun: bool,
    status: u16,
    body: Vec<u8>,
    chunks: Chunks,
}

/// Whether the lane at `index` has asked for a part that was hinted, and was answered that there is none: its segment may have ended
/// before.
fn is_unmet_hint(index: usize, lane: &Lane) -> bool {
    !index.is_multiple_of(2) && lane.waits && lane.status == 404
}

#[derive(Clone, Debug)]
struct Viewer {
    begins: Time,
    has_begun: bool,
    tracks: [Option<Source>; TRACKS],
    lanes: [Lane; LANES],
    /// The manifest, or the multivariant playlist, has been read.
    has_master: bool,
    delays: u64,
    delay_sum: Duration,
    delay_most: Duration,
    stalls: u64,
    plays: bool,
}

/// All viewers.
#[derive(Clone, Debug)]
pub struct Viewers {
    settings: Settings,
    clock: Clock,
    viewers: Vec<Viewer>,
    wake: VecDeque<usize>,
    tally: LiveTally,
}

impl Viewers {
    /// Viewers that come from `now` on.
    pub fn new(settings: Settings, now: Time) -> Viewers {
        let viewer = |index: usize| Viewer {
            begins: nth(now, index as u64, settings.ramp),
            has_begun: false,
            tracks: [None, None],
            lanes: Default::default(),
            has_master: false,
            delays: 0,
            delay_sum: Duration::ZERO,
            delay_most: Duration::ZERO,
            stalls: 0,
            plays: false,
        };
        let viewers = (0..settings.viewers).map(viewer).collect();
        Viewers { settings, clock: Clock::new(), viewers, wake: VecDeque::new(), tally: LiveTally::default() }
    }

    /// Connections that `viewers` need at most.
    pub fn connections(viewers: usize) -> usize {
        viewers * LANES
    }

    /// Delays, stalls and what is counted are of the time from now on; joins, and failures, of all the time.
    pub fn begin_window(&mut self) {
        let tally = &mut self.tally;
        (tally.chunks, tally.unstamped, tally.stalls, tally.bytes, tally.requests) = (0, 0, 0, 0, 0);
        tally.chunk_delay.reset();
        tally.first_byte.reset();
        for viewer in &mut self.viewers {
            (viewer.delays, viewer.stalls) = (0, 0);
            (viewer.delay_sum, viewer.delay_most) = (Duration::ZERO, Duration::ZERO);
        }
    }

    /// How far it is: nothing of single viewers.
    pub fn so_far(&self) -> &LiveTally {
        &self.tally
    }

    /// All that was seen.
    pub fn tally(&self) -> LiveTally {
        let mut tally = self.tally.clone();
        for viewer in self.viewers.iter().filter(|viewer| viewer.delays > 0) {
            let mean = viewer.delay_sum / u32::try_from(viewer.delays).unwrap_or(u32::MAX);
            tally.viewer_mean.record_time(mean);
            tally.viewer_worst.record_time(viewer.delay_most);
            tally.stalled_viewers += u64::from(viewer.stalls > 0);
        }
        tally
    }

    fn utc(&self, now: Time) -> Utc {
        self.clock.utc_at(now)
    }

    /// What the lane of playlists asks for.
    fn next_playlist(&mut self, index: usize, now: Time) -> Next {
        let (viewer, track) = (&mut self.viewers[index / LANES], index % LANES / 2);
        let lane = &mut viewer.lanes[index % LANES];
        lane.waits = false;
        if now < lane.not_before {
            return Next::At(lane.not_before);
        }
        if !viewer.has_master || (self.settings.protocol == Protocol::Dash && track == 0) {
            return if track == 0 { Next::Ask(self.settings.url.target().to_owned()) } else { Next::Rest };
        }
        let Some(Source::Listed(url, listed)) = &viewer.tracks[track] else { return Next::Rest };
        let target = url.target().to_owned();
        let Some(media) = listed.media().filter(|media| media.can_block) else { return Next::Ask(target) };
        if media.has_ended {
            return Next::Rest;
        }
        lane.waits = true;
        let join = if target.contains('?') { '&' } else { '?' };
        let part = media.next.1.map(|part| format!("&_HLS_part={part}")).unwrap_or_default();
        Next::Ask(format!("{target}{join}_HLS_msn={}{part}", media.next.0))
    }

    /// What the lane of media asks for.
    fn next_media(&mut self, index: usize, now: Time) -> Next {
        let utc = self.utc(now);
        let (viewer, track) = (&mut self.viewers[index / LANES], index % LANES / 2);
        let lane = &mut viewer.lanes[index % LANES];
        if now < lane.not_before {
            return Next::At(lane.not_before);
        }
        let (base, wanted) = match &mut viewer.tracks[track] {
            None => return Next::Rest,
            Some(Source::Listed(url, listed)) => (&*url, listed.next()),
            Some(Source::Numbered(numbered)) => match numbered.next(utc) {
                Ok(wanted) => (&self.settings.url, Some(wanted)),
                Err(later) => {
                    let wait = Duration::from_nanos(later.as_nanos().saturating_sub(utc.as_nanos()));
                    return Next::At(now + wait);
                }
            },
        };
        let Some(Wanted { uri, waits }) = wanted else { return Next::Rest };
        match base.redirected(&uri) {
            Ok(url) if url.authority() == self.settings.url.authority() => {
                (lane.waits, lane.chunks) = (waits, Chunks::new());
                Next::Ask(url.target().to_owned())
            }
            _ => {
                self.tally.malformed += 1;
                self.tally.fail("an address that leads elsewhere");
                Next::At(now + AGAIN)
            }
        }
    }

    /// A playlist has come whole.
    fn read_playlist(&mut self, index: usize, now: Time) {
        let (number, track) = (index / LANES, index % LANES / 2);
        let lane = &mut self.viewers[number].lanes[index % LANES];
        let body = std::mem::take(&mut lane.body);
        let text = String::from_utf8_lossy(&body);
        let is_read = match self.settings.protocol {
            Protocol::Hls => self.read_hls(number, track, &text, now),
            Protocol::Dash => self.read_dash(number, &text, now),
        };
        if !is_read {
            self.tally.malformed += 1;
            self.tally.fail("a playlist that is none");
            self.viewers[number].lanes[index % LANES].not_before = now + AGAIN;
        }
        // All that waited for it.
        self.wake.extend(number * LANES..(number + 1) * LANES);
    }

    fn read_hls(&mut self, number: usize, track: usize, text: &str, now: Time) -> bool {
        let viewer = &mut self.viewers[number];
        match Playlist::parse(text) {
            Some(Playlist::Multivariant(variants)) if !viewer.has_master => {
                let Some(Variant { uri, sound, .. }) = variants.first() else { return false };
                let uris = [Some(uri), sound.as_ref().map(|(_, uri)| uri)];
                for (place, uri) in viewer.tracks.iter_mut().zip(uris.into_iter().flatten()) {
                    let url = self.settings.url.redirected(uri).ok();
                    *place = url.map(|url| Source::Listed(url, Box::default()));
                }
                viewer.has_master = viewer.tracks[0].is_some();
                viewer.has_master
            }
            Some(Playlist::Media(media)) => {
                if !viewer.has_master {
                    viewer.tracks[0] = Some(Source::Listed(self.settings.url.clone(), Box::default()));
                    viewer.has_master = true;
                }
                let Some(Source::Listed(_, listed)) = &mut viewer.tracks[track] else { return false };
                let pause = if media.can_block { Duration::ZERO } else { media.target / 2 };
                viewer.lanes[2 * track].not_before = now + pause;
                match listed.update(media) {
                    Some(Unmet::NeverCame) => self.tally.hints_unmet += 1,
                    Some(Unmet::WasRefused) => {
                        self.tally.http_errors += 1;
                        self.tally.fail("answered 404: a hinted part that was listed after that");
                    }
                    None => {}
                }
                true
            }
            _ => false,
        }
    }

    fn read_dash(&mut self, number: usize, text: &str, now: Time) -> bool {
        let viewer = &mut self.viewers[number];
        let Some(manifest) = Manifest::parse(text) else { return false };
        viewer.lanes[0].not_before = now + manifest.update;
        for (place, template) in viewer.tracks.iter_mut().zip(manifest.tracks) {
            match place {
                Some(Source::Numbered(numbered)) => numbered.update(template),
                _ => *place = Some(Source::Numbered(Numbered::new(template))),
            }
        }
        viewer.has_master = true;
        true
    }

    fn chunk(&mut self, number: usize, chunk: Chunk, now: Time) {
        let utc = self.utc(now);
        let (viewer, tally) = (&mut self.viewers[number], &mut self.tally);
        tally.chunks += 1;
        if !std::mem::replace(&mut viewer.plays, true) {
            tally.playing += 1;
            tally.join.record_time(now.since(viewer.begins));
        }
        let Some(captured) = chunk.captured else {
            tally.unstamped += 1;
            return;
        };
        let delay = utc.as_nanos().checked_sub(captured.as_nanos()).map(Duration::from_nanos);
        let Some(delay) = delay.filter(|delay| *delay < OLDEST_STAMP) else {
            tally.foreign += 1;
            return;
        };
        // What was captured before it came is no delay of the server's.
        if delay > now.since(viewer.begins) {
            return;
        }
        tally.chunk_delay.record_time(delay);
        let is_late = delay > self.settings.latency;
        tally.stalls += u64::from(is_late);
        viewer.stalls += u64::from(is_late);
        viewer.delays += 1;
        viewer.delay_sum += delay;
        viewer.delay_most = viewer.delay_most.max(delay);
    }

    fn refused(&mut self, index: usize, now: Time) {
        let viewer = &mut self.viewers[index / LANES];
        viewer.lanes[index % LANES].not_before = now + AGAIN;
        if index % 2 == 1
            && let Some(Source::Numbered(numbered)) = &mut viewer.tracks[index % LANES / 2]
        {
            numbered.refused();
        }
    }
}

impl Crowd for Viewers {
    fn next(&mut self, index: usize, now: Time) -> Next {
        let viewer = &mut self.viewers[index / LANES];
        if now < viewer.begins {
            return if index.is_multiple_of(LANES) { Next::At(viewer.begins) } else { Next::Rest };
        }
        if !std::mem::replace(&mut viewer.has_begun, true) {
            self.tally.begun += 1;
        }
        let next = if index.is_multiple_of(2) {
            self.next_playlist(index, now)
        } else {
            self.next_media(index, now)
        };
        if matches!(next, Next::Ask(_)) {
            self.tally.requests += 1;
            let lane = &mut self.viewers[index / LANES].lanes[index % LANES];
            (lane.asked, lane.begun, lane.status) = (now, false, 0);
            lane.body.clear();
        }
        next
    }

    fn head(&mut self, index: usize, head: &Head, _now: Time) {
        let lane = &mut self.viewers[index / LANES].lanes[index % LANES];
        lane.status = head.status;
        if head.status >= 300 && !is_unmet_hint(index, lane) {
            let what = match (index.is_multiple_of(2), lane.waits) {
                (true, false) => "a playlist",
                (true, true) => "a blocking reload",
                (false, false) => "media",
                (false, true) => "a hinted part",
            };
            self.tally.http_errors += 1;
            self.tally.fail(&format!("answered {}: {what}", head.status));
        }
    }

    fn data(&mut self, index: usize, bytes: &[u8], now: Time) {
        self.tally.bytes += bytes.len() as u64;
        let lane = &mut self.viewers[index / LANES].lanes[index % LANES];
        if lane.status >= 300 {
            return;
        }
        if !std::mem::replace(&mut lane.begun, true) && !lane.waits {
            self.tally.first_byte.record_time(now.since(lane.asked));
        }
        if index.is_multiple_of(2) {
            let room = PLAYLIST_BYTES.saturating_sub(lane.body.len());
            lane.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return;
        }
        let mut chunks = std::mem::take(&mut lane.chunks);
        chunks.push(bytes, &mut |chunk| self.chunk(index / LANES, chunk, now));
        self.viewers[index / LANES].lanes[index % LANES].chunks = chunks;
    }

    fn end(&mut self, index: usize, now: Time) {
        let viewer = &mut self.viewers[index / LANES];
        let lane = &mut viewer.lanes[index % LANES];
        if is_unmet_hint(index, lane) {
            // The next playlist says whether it was right, and what is next.
            if let Some(Source::Listed(_, listed)) = &mut viewer.tracks[index % LANES / 2] {
                listed.hint_is_unmet();
            }
            return;
        }
        if lane.status >= 300 {
            return self.refused(index, now);
        }
        if index.is_multiple_of(2) {
            return self.read_playlist(index, now);
        }
        lane.chunks.end();
        if lane.chunks.is_malformed() {
            self.tally.malformed += 1;
            self.tally.fail("media that is no ISO file, or is cut off");
        }
        // An initialisation segment is none of those that are counted through, and has no media.
        if let Some(Source::Numbered(numbered)) = &mut viewer.tracks[index % LANES / 2] {
            numbered.done();
        }
    }

    fn failed(&mut self, index: usize, reason: &str, now: Time) {
        self.tally.lost += 1;
        self.tally.fail(reason);
        self.refused(index, now);
    }

    fn poll_wake(&mut self) -> Option<usize> {
        self.wake.pop_front()
    }
}

#[cfg(test)]
#[path = "viewers_tests.rs"]
mod tests;
