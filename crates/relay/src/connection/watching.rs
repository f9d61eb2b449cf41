//! A connection that becomes a viewer.

use super::draining;
use super::responses::{absent, guarded, shared_with};
use super::{Became, Connection, Role, Turn};
use crate::entitled::OwnHosts;
use crate::hub::Hub;
use crate::in_seconds;
use crate::turn::TurnContext;
use crate::viewer::Viewer;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response, access, problem};
use glassline_delivery::metacube::CONTENT_CODING;
use glassline_delivery::playlist::Object;
use glassline_delivery::policy::{AccessRequest, Action, Full, Refusal, StreamName};
use glassline_delivery::stream::{Mux, Prebuffer};
use glassline_edge::{FoundObject, Growing};
use glassline_streams::Live;
use glassline_streams::presence::{Purpose, subscriber};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Unsent bytes that a viewer's kernel may hold beyond what is on its way: the stream of a tenth of a second, which cannot
/// be skipped any more, but not so few that a picture takes several sends, nor so many that they would fill the memory.
const VIEWER_UNSENT: Duration = Duration::from_millis(100);
const VIEWER_UNSENT_BYTES: [u32; 2] = [64 << 10, 1 << 20];

const MAY_NOT_WATCH: &str = "may not watch";

fn unsent_bytes(bitrate_bps: u64) -> u32 {
    let [least, most] = VIEWER_UNSENT_BYTES;
    let bytes = bitrate_bps as f64 / 8.0 * VIEWER_UNSENT.as_secs_f64();
    (bytes as u32).clamp(least, most)
}

/// What a viewer takes when it comes, and gives back when it goes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Admission {
    /// Its stream's rate when it came.
    bps: u64,
    /// Its own mark.
    mark: Option<u32>,
}

impl Admission {
    /// The viewer from `address` has come with it from another process.
    pub(super) fn come(self, address: IpAddr, hub: &Hub) {
        hub.presence.count(address, Purpose::Watch, self.bps);
        if let Some(mark) = self.mark {
            hub.marker.hold(mark);
        }
    }

    /// The viewer from `address` goes.
    pub(super) fn leave(&mut self, address: IpAddr, hub: &Hub) {
        let Admission { bps, mark } = std::mem::take(self);
        hub.presence.leave(address, Purpose::Watch, bps);
        if let Some(mark) = mark {
            hub.marker.give_back(mark);
        }
    }
}

impl Connection {
    /// Whether the peer may watch the stream `name`; the answer where it may not. That is decided by the name alone,
    /// before it is looked up here or elsewhere: a client without a token gets the same answer whether there is such a
    /// stream or not, so that names cannot be found out by trying.
    pub(super) fn may_watch(
        &self,
        name: &StreamName,
        request: &Request,
        context: &TurnContext<'_>,
    ) -> Result<(), Response> {
        let rules = &context.settings.rules;
        let hosts = OwnHosts::of(context.hub, context.settings);
        let caller = access::caller(self.peer.ip(), request, &hosts);
        let protocol = self.socket.protocol();
        let asked = AccessRequest { name, action: Action::Watch, protocol, caller: &caller };
        rules.check(&asked, context.hub.clock.utc()).map_err(|refusal| {
            let (status, words) = access::explain(refusal, asked.action);
            tracing::debug!(peer = %self.peer, stream = %name, %protocol, refusal = words, "viewer refused");
            // Where streams in general need no token, those that do answer as if they were not there.
            let is_hidden = refusal == Refusal::Token && rules.general.watch.key.is_none();
            if is_hidden { absent() } else { problem(status, MAY_NOT_WATCH, words) }
        })
    }

    /// Finds what `rest` names of the presentation of the stream `name`.
    pub(super) fn find_presented(
        &self,
        name: &StreamName,
        rest: &str,
        request: &Request,
        context: &TurnContext<'_>,
    ) -> Result<Arc<Growing>, Response> {
        let object: Object = rest.parse().map_err(|_| {
            let words = "Ask for index.m3u8 (LL-HLS) or manifest.mpd (LL-DASH); they name the rest.";
            problem(404, "no such object", words)
        })?;
        let found = match context.hub.presentations.find(name) {
            Some(store) => store.find(object, &request.query, context.now),
            None => match find_live(name, context) {
                Ok(live) if live.mux.is_packaged() => {
                    context.hub.presentation_store(name).find(object, &request.query, context.now)
                }
                Ok(live) => {
                    let words =
                        format!("It is watched at /live/{}.{} alone.", live.name, live.mux.extension());
                    return Err(problem(404, "a stream of this kind is not packaged", &words));
                }
                Err(absent) => {
                    let ladder = context.hub.ladder(name).ok_or(absent)?;
                    // What names all versions together is for clients that may watch each of them.
                    let mut versions = ladder.names().into_iter();
                    versions.try_for_each(|version| self.may_watch(&version, request, context))?;
                    ladder.find(object, &request.query, context.now)
                }
            },
        };
        let wait = |response: Response| response.with_header("Retry-After", "1");
        match found {
            FoundObject::Object(growing) => Ok(growing),
            FoundObject::Gone => {
                Err(problem(410, "it is kept no longer", "Read the playlist again; it says what there is."))
            }
            FoundObject::Unknown => {
                let words =
                    "Nothing of this name is there or due. Read the playlist again; it says what there is.";
                Err(problem(404, "no such object", words))
            }
            FoundObject::Bad(why) => Err(problem(
                400,
                &why,
                "Read the playlist again without _HLS_ directives; it says what there is.",
            )),
            FoundObject::Busy => Err(wait(problem(503, "too many wait for playlists", "Try again shortly."))),
        }
    }

    /// Notes that the peer gets `rest` of the presentation of the stream `name`: a client that fetches its pictures
    /// watches it.
    pub(super) fn note_fetched(&self, name: &StreamName, rest: &str, context: &TurnContext<'_>) {
        let cut = context.settings.packaging.presentation;
        let time = match rest.parse() {
            Ok(Object::Part { rendition, .. }) if rendition.is_video() => cut.part,
            Ok(Object::Segment { rendition, .. }) if rendition.is_video() => cut.segment,
            Ok(Object::TransportSegment { .. }) => cut.segment,
            _ => return,
        };
        if let Some(live) = context.hub.streams.find(name) {
            live.watchers().fetched(subscriber(self.peer.ip()), time, context.now);
        }
    }

    /// Counts the peer among the viewers and gives it its place, where there is room.
    fn enter_as_viewer(&mut self, live: &Live, context: &TurnContext<'_>) -> Result<(), Full> {
        let (hub, address) = (context.hub, self.peer.ip());
        let rules = context.settings.rules.of(&live.name);
        let policy = &rules.watch;
        let bps = live.bitrate_bps(context.now);
        hub.presence.enter(address, Purpose::Watch, bps, |of_address, in_all| {
            policy.check_load(live.viewers(), of_address, in_all, bps)?;
            live.viewer_joins(self.id.worker);
            Ok::<(), Full>(())
        })?;
        live.watchers().join(subscriber(address), context.now);
        self.admission = Admission { bps, mark: hub.marker.mark(self.socket.tcp(), rules.marking) };
        self.mark_header(&live.name, context);
        Ok(())
    }

    /// Has the packets that leave from now on bear what the rules say of the stream `name` and of the port that the peer has
    /// connected to.
    pub(super) fn mark_header(&mut self, name: &StreamName, context: &TurnContext<'_>) {
        let rules = &context.settings.rules;
        let socket = self.socket.tcp();
        let port = if rules.ports.is_empty() { 0 } else { socket.local_address().map_or(0, |at| at.port()) };
        let (wanted, former) = (rules.header_marks(name, port), self.header_marks);
        let of_dscp = (wanted.dscp != former.dscp).then(|| socket.set_dscp(wanted.dscp.unwrap_or(0)));
        // Sockets of which nothing is said have labels, unless the system is set otherwise.
        let of_label = (wanted.flow_label != former.flow_label)
            .then(|| socket.set_flow_label(wanted.flow_label.unwrap_or(true)));
        if let Some(error) = [of_dscp, of_label].into_iter().flatten().find_map(Result::err) {
            // A viewer can be served without it.
            tracing::warn!(%error, stream = %name, "cannot mark the packets of a viewer");
        }
        self.header_marks = wanted;
    }

    pub(super) fn watch(
        &mut self,
        live: Arc<Live>,
        request: &Request,
        context: &mut TurnContext<'_>,
    ) -> io::Result<Became> {
        let head_only = request.method == Method::Head;
        let in_blocks = match request.parameter("encoding").as_deref() {
            None | Some("raw") => false,
            Some(CONTENT_CODING) => true,
            Some(_) => {
                let words = "Ask for ?encoding=metacube, or for no encoding: that is the stream as it is.";
                let response = guarded(problem(400, "unknown encoding", words));
                self.finish_answer(&response, head_only, context);
                return Ok(Became::Same);
            }
        };
        let prebuffer = match request.parameter("prebuffer").as_deref().map(seconds) {
            None => None,
            Some(Some(time)) => Some(Prebuffer::Time(time)),
            Some(None) => {
                let words = "Ask for ?prebuffer=SECONDS, from 0 to 600, as in ?prebuffer=2.5.";
                self.finish_answer(&guarded(problem(400, "bad prebuffer", words)), head_only, context);
                return Ok(Became::Same);
            }
        };
        // What can fail comes before the viewer is counted: from then on the connection has to leave as a viewer.
        self.outgoing.flush(&mut self.socket)?;
        if !head_only && let Err(full) = self.enter_as_viewer(&live, context) {
            let (status, words) = access::explain_full(full);
            tracing::debug!(peer = %self.peer, stream = %live.name, refusal = words, "viewer refused");
            self.finish_answer(&guarded(problem(status, MAY_NOT_WATCH, words)), head_only, context);
            return Ok(Became::Same);
        }
        let mut response = Response::new(200)
            .with_header("Content-Type", live.media_type())
            .with_header("Cache-Control", "no-store");
        if in_blocks {
            response = response.with_header("Content-Encoding", CONTENT_CODING);
        }
        let response = shared_with(context.settings, guarded(response));
        if head_only {
            self.outgoing.push(response.endless_head());
            self.log(response.status, 0, context);
            self.drain();
            return Ok(Became::Same);
        }
        // The options are kindnesses of the kernel; a viewer can be served without them.
        let _ = self.socket.tcp().limit_unsent(unsent_bytes(self.admission.bps));
        // The kernel would take a viewer that reads slowly but steadily for a dead peer: it counts from when the window
        // closed, until a whole segment fits again. `Viewer::blocked_since` shows a viewer that takes nothing at all.
        let _ = self.socket.tcp().give_up_after(Duration::ZERO);
        let mut head = std::mem::take(&mut self.outgoing).into_bytes();
        head.extend_from_slice(&response.endless_head());
        tracing::debug!(peer = %self.peer, stream = %live.name, mark = self.admission.mark, "viewer joined");
        let slow = context.settings.rules.of(&live.name).slow;
        let mut viewer = Viewer::new(live, head, slow, context.now);
        if let Some(why) = draining::stays(request) {
            viewer = viewer.that_stays(why);
        }
        if viewer.is_server() {
            context.hub.demands.begin_giving(&viewer.live().name);
        }
        if let Some(prebuffer) = prebuffer {
            viewer = viewer.with_prebuffer(prebuffer);
        }
        self.role = Role::Watching(Box::new(if in_blocks { viewer.in_blocks() } else { viewer }));
        Ok(Became::Viewer)
    }

    pub(super) fn end_viewer(&mut self, context: &TurnContext<'_>) -> io::Result<Turn> {
        if let Role::Watching(viewer) = &self.role {
            let seconds = in_seconds(context.now.since(viewer.joined));
            let (stream, bytes) = (&viewer.live().name, viewer.sent_bytes);
            tracing::debug!(peer = %self.peer, %stream, bytes, seconds, "viewer left");
        }
        Ok(Turn::Over)
    }
}

/// The stream `name` of this mux, or the answer where it is not there.
pub(super) fn find_watched(
    name: &StreamName,
    mux: Mux,
    context: &TurnContext<'_>,
) -> Result<Arc<Live>, Response> {
    let live = find_live(name, context)?;
    if live.mux != mux {
        let words = format!("It is at /live/{}.{}.", live.name, live.mux.extension());
        return Err(problem(404, &format!("this stream is {}", live.mux), &words));
    }
    Ok(live)
}

/// The stream `name`, or the answer where it is not there.
pub(super) fn find_live(name: &StreamName, context: &TurnContext<'_>) -> Result<Arc<Live>, Response> {
    context.hub.streams.find(name).ok_or_else(|| {
        if context.hub.pulls().has(name) {
            let words = "Its source is not there now; GET /api/streams says why. Try again shortly.";
            let response = problem(503, "the stream's source is not there", words);
            return response.with_header("Retry-After", "1");
        }
        absent()
    })
}

/// A time in seconds of up to the longest backlog.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..=600.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}
