//! A flow of ancillary data: which kinds there are, time code, captions.

use super::super::datagrams::Datagram;
use super::Clocks;
use super::audio::merged;
use super::path::{Came, Path};
use super::report::{AncillaryReport, KindReport, Merged, Spread};
use crate::raw::described;
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_transport::ancillary::{Depacketizer, Kind, Packet, Received, Settings};
use glassline_transport::raw_video::MediaClock;
use glassline_transport::rtp;
use glassline_transport::rtp::source::Origin;
use glassline_transport::sdp::{Ancillary, Flow};
use std::collections::BTreeMap;
use std::time::Duration;

/// Kinds and lines that are listed; a sender may send any.
const KINDS_MAX: usize = 64;

/// What is found of a flow of ancillary data.
pub(super) struct AncillarySeen {
    described: Vec<(u8, u8)>,
    pub(super) paths: Vec<Path>,
    depacketizer: Depacketizer,
    found: Found,
}

/// What is made of the payloads.
struct Found {
    clock: Clock,
    media_clock: MediaClock,
    clocks: Clocks,
    payloads: u64,
    frames: u64,
    captions: u64,
    /// Of these, packets of CEA-708 that are whole and say something.
    contents: u64,
    time_code: Option<String>,
    /// By DID, SDID and line.
    kinds: BTreeMap<(u8, u8, u16), u64>,
    unlisted: u64,
}

impl Found {
    fn push(&mut self, received: &Received) {
        self.payloads += 1;
        self.frames += u64::from(received.is_last);
        let arrived = received.arrived;
        let captured = self.media_clock.captured(received.timestamp, arrived, self.clock.utc_at(arrived));
        let is_related = self.media_clock.is_related();
        self.clocks.captured_by = Some(if is_related { "stamps" } else { "arrivals" });
        if is_related {
            let age = arrived.since(captured).as_secs_f64() * 1e3;
            self.clocks.age_ms = Some(Spread::including(self.clocks.age_ms, age));
        }
        received.payload.packets.iter().for_each(|packet| self.note(packet));
    }

    fn note(&mut self, packet: &Packet) {
        let place = (packet.did(), packet.sdid(), packet.line);
        if self.kinds.len() < KINDS_MAX || self.kinds.contains_key(&place) {
            *self.kinds.entry(place).or_default() += 1;
        } else {
            self.unlisted += 1;
        }
        if !packet.is_checksum_right() {
            return;
        }
        self.captions += u64::from(matches!(packet.kind(), Kind::Cea608 | Kind::Cea708));
        if let Some(Ok(cdp)) = packet.captions() {
            self.contents += u64::from(cdp.triplets().iter().any(|triplet| triplet.is_content()));
        }
        if let Some(time_code) = packet.time_code() {
            self.time_code = Some(time_code.to_string());
        }
    }
}

impl AncillarySeen {
    pub(super) fn new(flow: &Flow, ancillary: &Ancillary, skew: Duration, clock: Clock) -> AncillarySeen {
        let reorder = rtp::Settings { window: skew, ..rtp::Settings::default() };
        let path = |path| Path::new(flow.payload_type, 90_000, described::path_lock(path));
        let depacketizer = Depacketizer::new(Settings { payload_type: flow.payload_type, reorder });
        AncillarySeen {
            described: ancillary.data_ids.clone(),
            paths: flow.paths.iter().map(path).collect(),
            depacketizer: depacketizer.with_lock(described::lock(flow)),
            found: Found {
                clock,
                media_clock: MediaClock::new(described::direct_offset(flow)),
                clocks: Clocks::default(),
                payloads: 0,
                frames: 0,
                captions: 0,
                contents: 0,
                time_code: None,
                kinds: BTreeMap::new(),
                unlisted: 0,
            },
        }
    }

    pub(super) fn take(&mut self, path: usize, datagram: Datagram<'_>) {
        let Datagram { bytes, at, drops, from } = datagram;
        let came = Came { bytes: bytes.len(), at, drops, from };
        let origin = Origin { path, address: from };
        let Some(path) = self.paths.get_mut(path) else { return };
        let is_of_stream = path.push(bytes, came, true).is_some();
        let found = &mut self.found;
        let taken =
            self.depacketizer.handle_datagram(bytes, origin, at, &mut |received| found.push(&received));
        if is_of_stream && taken.is_err() {
            path.refuse_payload();
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.depacketizer.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        let found = &mut self.found;
        self.depacketizer.handle_timeout(now, &mut |received| found.push(&received));
    }

    pub(super) fn report(&self) -> (Merged, AncillaryReport, Clocks) {
        let counters = self.depacketizer.counters();
        let kind = |(&(did, sdid, line), &packets): (&(u8, u8, u16), &u64)| KindReport {
            did,
            sdid,
            name: Kind::of(did, sdid).to_string(),
            line,
            is_described: (!self.described.is_empty()).then(|| self.described.contains(&(did, sdid))),
            packets,
        };
        let report = AncillaryReport {
            payloads: self.found.payloads,
            frames: self.found.frames,
            packets: counters.ancillary,
            checksum_errors: counters.checksum_errors,
            parity_errors: counters.parity_errors,
            caption_packets: self.found.captions,
            caption_contents: self.found.contents,
            time_code: self.found.time_code.clone(),
            kinds: self.found.kinds.iter().map(kind).collect(),
            unlisted_packets: self.found.unlisted,
        };
        (merged(&counters.packets, counters.refused), report, self.found.clocks.clone())
    }
}

#[cfg(test)]
#[path = "ancillary_tests.rs"]
mod tests;
