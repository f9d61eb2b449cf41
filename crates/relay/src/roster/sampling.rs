//! A worker's looks at its viewers' connections: some in each sweep, the others in the next ones.

use super::packed::PackedInfo;
use super::{Entry, Observation, Roster};
use crate::connection::{Connection, Slot};
use glassline_delivery::stream::OffsetTime;
use glassline_delivery::telemetry::age_of;
use glassline_media::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Viewers looked at in a sweep. A look is a system call of about a microsecond, and viewers' bytes wait meanwhile.
const LOOKS: usize = 250;
/// The same while the viewers are being asked for.
const LOOKS_WITH_ATTENTION: usize = 1000;

/// Which viewer is looked at next.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    next_slot: usize,
    taken: Vec<(usize, Entry)>,
}

impl Sampling {
    /// Looks at the next viewers in `slots` of worker `worker`, and writes down in `roster` what it sees.
    pub(crate) fn look(&mut self, roster: &Roster, worker: usize, slots: &mut [Slot], now: Time) {
        let looks = if roster.has_attention(now) { LOOKS_WITH_ATTENTION } else { LOOKS };
        let mut marks = BTreeMap::new();
        for _ in 0..slots.len() {
            if self.taken.len() == looks {
                break;
            }
            let slot = self.next_slot % slots.len();
            self.next_slot = slot + 1;
            let Slot { generation, connection } = &mut slots[slot];
            if let Some(entry) =
                connection.as_mut().and_then(|found| look_at(found, *generation, &mut marks, now))
            {
                self.taken.push((slot, entry));
            }
        }
        if self.taken.is_empty() {
            return;
        }
        let mut entries = roster.lock(worker);
        for (slot, entry) in self.taken.drain(..) {
            if entries.len() <= slot {
                entries.resize_with(slot + 1, || None);
            }
            match &mut entries[slot] {
                Some(known) if known.token == entry.token => known.look(entry.newest),
                place => *place = Some(Box::new(entry)),
            }
        }
    }
}

/// Looks at a connection, if it is a viewer's. Returns what it sees as the entry of one that was never looked at
/// before.
fn look_at(
    connection: &mut Connection,
    generation: u32,
    marks: &mut BTreeMap<u64, Vec<OffsetTime>>,
    now: Time,
) -> Option<Entry> {
    let address = connection.peer();
    let (viewer, socket) = connection.viewer()?;
    let info = socket.tcp().info().ok()?;
    viewer.look_at_path(&info, now);
    let (live, position) = (Arc::clone(viewer.live()), viewer.position());
    let marks = marks.entry(live.id).or_insert_with(|| live.marks());
    // What waits in the kernel came before what waits here. A viewer that waits for a key frame lacks nothing yet.
    let notsent = u64::from(info.notsent_bytes.unwrap_or(0));
    let waiting_bytes =
        if position.is_placed { live.chain.head().saturating_sub(position.offset) } else { 0 };
    let is_behind = position.is_placed && waiting_bytes + notsent > 0;
    let behind =
        if is_behind { age_of(marks, position.offset.saturating_sub(notsent), now) } else { Duration::ZERO };
    let newest = Observation {
        at: now,
        info: PackedInfo::new(info),
        bytes_sent: viewer.sent_bytes,
        waiting_bytes,
        behind_ms: u32::try_from(behind.as_millis()).unwrap_or(u32::MAX),
        moved_forward: position.moved_forward,
        pace_bps: position.pace_bps.unwrap_or(0),
        is_placed: position.is_placed,
        is_blocked: viewer.is_blocked(),
    };
    Some(Entry::new(generation.into(), live, address, viewer.joined, newest))
}
