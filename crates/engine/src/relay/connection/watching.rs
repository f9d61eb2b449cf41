//! A connection that becomes a viewer.

use super::answering::shared_with;
use super::{Connection, Desk, Role, Turn};
use crate::relay::hub::Hub;
use crate::relay::live::Live;
use crate::relay::presence::Purpose;
use crate::relay::viewer::Viewer;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response, problem};
use glassline_delivery::metacube::CONTENT_CODING;
use glassline_delivery::policy::WatchRefusal;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Unsent bytes that a viewer's kernel may hold beyond what is on its way.
const VIEWER_UNSENT_BYTES: u32 = 64 << 10;

/// What a viewer takes when it comes, and gives back when it goes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Place {
    /// Its stream's rate when it came.
    bps: u64,
    /// Its own mark.
    mark: Option<u32>,
}

impl Place {
    /// The viewer from `address` has come with it from another process.
    pub(super) fn come(self, address: IpAddr, hub: &Hub) {
        hub.presence.count(address, Purpose::Watch, self.bps);
        if let Some(mark) = self.mark {
            hub.marker.hold(mark);
        }
    }

    /// The viewer from `address` goes.
    pub(super) fn leave(&mut self, address: IpAddr, hub: &Hub) {
        let Place { bps, mark } = std::mem::take(self);
        hub.presence.leave(address, Purpose::Watch, bps);
        if let Some(mark) = mark {
            hub.marker.give_back(mark);
        }
    }
}

impl Connection {
    /// Whether the peer may watch, and if `stays` counts it among the viewers and gives it its place.
    fn enter_as_viewer(
        &mut self,
        live: &Live,
        request: &Request,
        stays: bool,
        desk: &Desk<'_>,
    ) -> Result<(), WatchRefusal> {
        let (hub, address) = (desk.hub, self.peer.ip());
        let rules = desk.settings.rules.of(&live.name);
        let policy = &rules.watch;
        policy.check(address, request, &live.name, hub.clock.utc())?;
        if !stays {
            return Ok(());
        }
        let bps = live.bitrate_bps(desk.now);
        hub.presence.enter(address, Purpose::Watch, bps, |of_address, in_all| {
            policy.check_load(live.viewers(), of_address, in_all, bps)?;
            live.viewer_joins(self.seat.worker);
            Ok(())
        })?;
        self.place = Place { bps, mark: hub.marker.mark(&self.socket, rules.marking) };
        Ok(())
    }

    pub(super) fn watch(
        &mut self,
        live: Arc<Live>,
        request: &Request,
        desk: &mut Desk<'_>,
    ) -> io::Result<bool> {
        let head_only = request.method == Method::Head;
        let in_blocks = match request.parameter("encoding").as_deref() {
            None | Some("raw") => false,
            Some(CONTENT_CODING) => true,
            Some(_) => {
                let words = "Ask for ?encoding=metacube, or for no encoding: that is MPEG-TS as it is.";
                let response = problem(400, "unknown encoding", words);
                self.finish_answer(&response, head_only, desk);
                return Ok(false);
            }
        };
        // What can fail comes before the viewer is counted: who is counted is a viewer from here on, and leaves as one.
        self.outgoing.flush(&self.socket)?;
        if let Err(refusal) = self.enter_as_viewer(&live, request, !head_only, desk) {
            let (status, words) = refusal.explain();
            tracing::debug!(peer = %self.peer, stream = %live.name, ?refusal, "viewer refused");
            self.finish_answer(&problem(status, "may not watch", words), head_only, desk);
            return Ok(false);
        }
        let mut response = Response::new(200)
            .with_header("Content-Type", "video/mp2t")
            .with_header("Cache-Control", "no-store");
        if in_blocks {
            response = response.with_header("Content-Encoding", CONTENT_CODING);
        }
        let response = shared_with(desk.settings, response);
        if head_only {
            self.outgoing.push(response.endless_head());
            self.log(response.status, 0, desk);
            self.drain();
            return Ok(false);
        }
        // The options are kindnesses of the kernel; a viewer can be served without them.
        let _ = self.socket.send_at_once();
        let _ = self.socket.limit_unsent(VIEWER_UNSENT_BYTES);
        let mut head = std::mem::take(&mut self.outgoing).into_bytes();
        head.extend_from_slice(&response.endless_head());
        tracing::debug!(peer = %self.peer, stream = %live.name, mark = self.place.mark, "viewer joined");
        let slow = desk.settings.rules.of(&live.name).slow;
        let viewer = Viewer::new(live, head, slow, desk.now);
        self.role = Role::Watching(Box::new(if in_blocks { viewer.in_blocks() } else { viewer }));
        Ok(true)
    }

    pub(super) fn end_viewer(&mut self, desk: &Desk<'_>) -> io::Result<Turn> {
        if let Role::Watching(viewer) = &self.role {
            let seconds = desk.now.since(viewer.joined).as_secs_f64();
            let (stream, bytes) = (&viewer.live.name, viewer.sent_bytes);
            tracing::debug!(peer = %self.peer, %stream, bytes, seconds, "viewer left");
        }
        Ok(Turn::Over)
    }
}
