//! From the units of a session's tracks to publisher slots, whatever protocol the session is of.
//!
//! ```text
//! units ─► tracks ─► MPEG-TS ─► publisher slots
//! ```

use super::publisher_slots::PublisherSlots;
use super::table::{Note, PullEntry};
use crate::tracks::Tracks;
use glassline_delivery::assemble::Written;
use glassline_media::Time;
use glassline_streams::status::RtpCounts;
use glassline_transport::rtp;
use glassline_transport::rtp::coded::{self, Placed, TrackCounters};

/// The tracks of one session, merged.
#[derive(Default)]
pub(super) struct TrackFeed {
    tracks: Option<Tracks>,
    /// Pictures and packets of them that were lost, as far as that is told.
    losses: u64,
}

impl TrackFeed {
    /// Whether it knows the tracks.
    pub(super) fn is_open(&self) -> bool {
        self.tracks.is_some()
    }

    /// Begins with tracks in these formats. Fails, in words for people, where MPEG-TS does not carry one.
    pub(super) fn open<'a>(
        &mut self,
        formats: impl Iterator<Item = &'a coded::Format>,
        now: Time,
    ) -> Result<(), String> {
        let (tracks, left_out) = Tracks::new(formats, now);
        if let Some(words) = left_out {
            return Err(words);
        }
        self.tracks = Some(tracks);
        Ok(())
    }

    /// Tells what has been lost of pictures, before what follows is passed on: it shows in no byte of the stream.
    pub(super) fn tell_losses<'a>(
        &mut self,
        formats: impl Iterator<Item = &'a coded::Format>,
        counters: impl Iterator<Item = TrackCounters>,
        entry: &PullEntry,
    ) {
        let pictures = formats.zip(counters).filter(|(format, _)| format.audio().is_none());
        let losses: u64 = pictures.map(|(_, track)| track.packets.lost + track.damaged).sum();
        entry.add_picture_losses(losses.saturating_sub(std::mem::replace(&mut self.losses, losses)));
    }

    /// Takes a unit of track `track`.
    pub(super) fn push(&mut self, track: usize, placed: Placed, now: Time) {
        if let Some(tracks) = &mut self.tracks {
            tracks.push(track, placed, now);
        }
    }

    /// Passes on what is merged, and takes the slots for it. `is_resumed`: the first of it does not continue what the slots had
    /// before. Returns whether there was anything. Fails in words for people.
    pub(super) fn pass_on(
        &mut self,
        slots: &mut PublisherSlots,
        note: &mut Note,
        is_resumed: &mut bool,
    ) -> Result<bool, String> {
        let Some(tracks) = &mut self.tracks else { return Ok(false) };
        let mut has_any = false;
        while let Some(written) = tracks.poll() {
            if !slots.are_taken() {
                slots.acquire()?;
                note.sessions += 1;
            }
            if std::mem::take(is_resumed) {
                slots.begin_anew();
            }
            has_any = true;
            match written {
                Written::Bytes(bytes) => slots.push(&bytes)?,
                Written::Seam => slots.begin_anew(),
            }
        }
        Ok(has_any)
    }

    /// When [`TrackFeed::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Time {
        self.tracks.as_ref().and_then(Tracks::poll_timeout).unwrap_or(Time::NEVER)
    }

    /// Gives up waiting for tracks that do not come.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if let Some(tracks) = &mut self.tracks {
            tracks.handle_timeout(now);
        }
    }
}

/// What became of the packets of all tracks. `refused`: packets of no track.
pub(super) fn counts_of(refused: u64, tracks: impl Iterator<Item = TrackCounters>) -> RtpCounts {
    let mut counts = RtpCounts { refused, ..RtpCounts::default() };
    for track in tracks {
        let rtp::Counters { received, lost, reordered, late, duplicate, stray, restarts } = track.packets;
        counts.received += received;
        counts.lost += lost;
        counts.reordered += reordered;
        counts.late += late;
        counts.duplicate += duplicate;
        counts.refused += stray + track.other_type + track.malformed;
        counts.restarts += restarts;
        counts.damaged_units += track.damaged;
    }
    counts
}

/// What came before, and what comes now: figures that never fall back to zero.
pub(super) fn add(past: RtpCounts, now: RtpCounts) -> RtpCounts {
    RtpCounts {
        received: past.received + now.received,
        lost: past.lost + now.lost,
        reordered: past.reordered + now.reordered,
        late: past.late + now.late,
        duplicate: past.duplicate + now.duplicate,
        refused: past.refused + now.refused,
        restarts: past.restarts + now.restarts,
        damaged_units: past.damaged_units + now.damaged_units,
    }
}
