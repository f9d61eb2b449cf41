//! The answers to every request that is not about a stream's bytes.

use super::access_log::AccessLog;
use super::answers::{json, no_stream};
use super::cluster::{self, Membership};
use super::events::{self, Client, Events};
use super::record::Recording;
use super::webhooks::Webhooks;
use super::{api, assets, control, encoding, insight, metrics, mute, objects, pictures, purge, record};
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response, access, problem};
use glassline_delivery::playlist;
use glassline_delivery::policy::{Action, Refusal, StreamName};
use glassline_relay::{Access, Hub, ListenerRole, Site};
use glassline_studio::encode::Supervisor;
use glassline_watch::Alarms;
use std::cell::LazyCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

/// Before the name of an alarm's picture.
const ALARM_PICTURES: &str = "/api/alarms/pictures/";

/// The page, the API and the metrics of any relay in this process.
pub(crate) struct PageSite {
    arrangement: RwLock<Arrangement>,
    encoders: Arc<Supervisor>,
    alarms: Arc<Alarms>,
    webhooks: Arc<Webhooks>,
    recording: OnceLock<Arc<Recording>>,
    /// Of the listeners, in the configuration's order.
    addresses: RwLock<Vec<SocketAddr>>,
    cluster: OnceLock<Arc<Membership>>,
}

/// What a reload may change.
#[derive(Default)]
pub(crate) struct Arrangement {
    pub(super) contact: Option<String>,
    pub(super) access_log: Option<AccessLog>,
    pub(super) events: Events,
}

impl PageSite {
    pub(crate) fn new(
        arrangement: Arrangement,
        encoders: Arc<Supervisor>,
        alarms: Arc<Alarms>,
        webhooks: Arc<Webhooks>,
    ) -> PageSite {
        assets::prepare();
        PageSite {
            arrangement: RwLock::new(arrangement),
            encoders,
            alarms,
            webhooks,
            recording: OnceLock::new(),
            addresses: RwLock::default(),
            cluster: OnceLock::new(),
        }
    }

    /// Takes another arrangement. The last access log is written to its end.
    pub(super) fn rearrange(&self, arrangement: Arrangement) {
        let mut now = self.arrangement.write().unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::replace(&mut *now, arrangement);
        drop(now);
        drop(former);
    }

    /// Streams are recorded by this.
    pub(super) fn set_recording(&self, recording: Arc<Recording>) {
        let _ = self.recording.set(recording);
    }

    /// Takes the addresses that the listeners have by now.
    pub(super) fn set_addresses(&self, addresses: Vec<SocketAddr>) {
        *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// The other servers are known by this.
    pub(super) fn set_cluster(&self, cluster: Arc<Membership>) {
        let _ = self.cluster.set(cluster);
    }

    /// What stands on the page of an event.
    fn event(&self, name: &str, request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> Response {
        let is_crew = hub.is_crew(door, peer, request).is_ok();
        let is_operator = hub.is_operator(door, peer, request).is_ok();
        let client = Client { request, door, peer, hub, is_crew, is_operator };
        let addresses = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        self.now().events.page(name, &client, &addresses)
    }

    fn now(&self) -> RwLockReadGuard<'_, Arrangement> {
        self.arrangement.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> Response {
        if let Some(refusal) = refuse_stranger(request, door, peer, hub) {
            let words = match request.path.as_str() {
                "/cluster" => Some(("This page is for operators", FOR_OPERATORS)),
                path if path.starts_with("/crew/") => Some(("This page is for the crew", FOR_CREW)),
                _ => None,
            };
            if let Some((heading, words)) = words
                && refusal.status != 404
                && assets::is_for_people(request)
            {
                let contact = self.now().contact.clone();
                return assets::words_page(refusal.status, &request.path, heading, words, contact.as_deref());
            }
            let is_for_people = matches!(request.path.as_str(), "/" | "/index.html");
            return if refusal.status == 404 && is_for_people && assets::is_for_people(request) {
                assets::closed_page(self.now().contact.as_deref())
            } else {
                refusal
            };
        }
        let is_operator = || hub.is_operator(door, peer, request).is_ok();
        // The page for crews shows streams that viewers need a token for, too.
        let is_crew = LazyCell::new(|| hub.is_crew(door, peer, request).is_ok());
        let may_know = |name: &StreamName| hub.may_know(name, door, peer, request) || *is_crew;
        // Their addresses are for operators where there is a listener for these.
        let pictures = (door != ListenerRole::Public).then_some(&*self.alarms);
        match request.path.as_str() {
            "/healthz" | "/readyz" => health(hub.workers_down()),
            "/gen204" => Response::new(204).with_header("Cache-Control", "no-store"),
            "/metrics" => {
                let statuses = self.encoders.statuses();
                let recording = self.recording.get().map(|recording| &**recording);
                let mut text =
                    metrics::exposition(hub, &statuses, &self.alarms, &self.webhooks.status(), recording);
                self.cluster.get().into_iter().for_each(|cluster| cluster.expose(hub, &mut text));
                Response::ok(metrics::MEDIA_TYPE, text)
            }
            "/api/time" if request.parameter("format").as_deref() == Some("iso") => {
                // Without the end of a line: dash.js gives all of it to `Date.parse`.
                let time = playlist::date_time(hub.clock().utc());
                Response::ok("text/plain; charset=utf-8", time).with_header("Cache-Control", "no-store")
            }
            "/api/time" => json(&api::time(hub)),
            "/api/contact" => json(&api::Contact { contact: self.now().contact.as_deref() }),
            "/api/streams" => {
                let streams = hub.streams().into_iter().filter(|stream| may_know(&stream.name)).collect();
                json(&api::streams(hub, streams, self.now().contact.as_deref(), is_operator(), pictures))
            }
            "/api/clients" => insight::clients(request, door, peer, hub),
            "/api/objects" => objects::objects(request, hub),
            "/api/cluster" => json(&self.cluster.get().map(|cluster| cluster.report(hub))),
            "/api/alarms" => json(&self.alarms.report()),
            "/api/recordings" => match self.recording.get() {
                Some(recording) => {
                    let may_clip = hub.may_see_viewers(door, peer, request).is_ok();
                    json(&recording.list(may_know, may_clip))
                }
                None => json(&[(); 0]),
            },
            "/api/events" => self.now().events.list(),
            "/api/encoders" => json(&api::Encoders { encoders: self.encoders.statuses() }),
            path => {
                if let Some(name) = path.strip_prefix("/api/events/") {
                    return self.event(name, request, door, peer, hub);
                }
                let of_event = path.strip_prefix("/event/").or_else(|| path.strip_prefix("/crew/"));
                let is_known = |name: &str| self.now().events.has(name.trim_end_matches('/'));
                if of_event.is_some_and(|name| !is_known(name)) {
                    return unknown_event(request, self.now().contact.as_deref());
                }
                if let Some(id) = path.strip_prefix(ALARM_PICTURES) {
                    return pictures::of_alarm(self.alarms.picture_of_alarm(id));
                }
                if let Some(name) = path.strip_prefix("/api/streams/") {
                    let known = |name: &str| StreamName::parse(name).filter(&may_know);
                    if let Some(name) = name.strip_suffix("/history") {
                        let found = known(name).and_then(|name| insight::history(request, &name, hub));
                        return found.unwrap_or_else(no_stream);
                    }
                    if let Some(name) = name.strip_suffix("/latency") {
                        let found = known(name).and_then(|name| insight::latency(&name, hub));
                        return found.unwrap_or_else(no_stream);
                    }
                    if let Some(name) = name.strip_suffix("/thumbnail") {
                        let Some(name) = known(name) else { return no_stream() };
                        return pictures::newest(self.alarms.picture(name.as_str()));
                    }
                    if control::is_action(path) {
                        return control::post_alone();
                    }
                    let Some(name) = known(name) else { return no_stream() };
                    return match api::stream_named(hub, &name, may_know, is_operator(), pictures) {
                        Some(stream) => json(&stream),
                        None => {
                            api::ladder_named(hub, &name, may_know).map_or_else(no_stream, |it| json(&it))
                        }
                    };
                }
                assets::serve(request).unwrap_or_else(no_page)
            }
        }
    }
}

impl Site for PageSite {
    fn respond(&self, request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> Response {
        let response = match request.method {
            Method::Get | Method::Head if request.path == purge::PATH && door != ListenerRole::Public => {
                problem(405, "method not allowed", "Purge with POST.").with_header("Allow", "POST")
            }
            Method::Get | Method::Head if request.path == mute::PATH && door != ListenerRole::Public => {
                mute::post_alone()
            }
            Method::Get | Method::Head | Method::Post | Method::Delete
                if request.path.starts_with(record::FOLDER) =>
            {
                match (door, self.recording.get()) {
                    (ListenerRole::Public, _) | (_, None) => not_here(),
                    (_, Some(recording)) => recording.act(request, door, peer, hub),
                }
            }
            _ if request.path == cluster::DRAIN => match (door, self.cluster.get()) {
                (ListenerRole::Public, _) | (_, None) => not_here(),
                (_, Some(cluster)) => cluster.act(request, door, peer, hub),
            },
            Method::Get | Method::Head => self.read(request, door, peer, hub),
            Method::Post if request.path == purge::PATH => match door {
                ListenerRole::Public => not_here(),
                _ => purge::act(request, door, peer, hub),
            },
            Method::Post if request.path == mute::PATH => match door {
                ListenerRole::Public => not_here(),
                _ => mute::act(request, door, peer, hub, &self.alarms),
            },
            Method::Post if control::is_action(&request.path) => match door {
                ListenerRole::Public if is_for_operators(&request.path) => not_here(),
                _ => control::act(request, door, peer, hub, &self.encoders),
            },
            _ => problem(
                405,
                "method not allowed",
                "Read with GET; publish with PUT or POST to /live/NAME.ts.",
            )
            .with_header("Allow", "GET, HEAD, OPTIONS"),
        };
        let response = encoding::encoded(response, request).for_request(request);
        response.with_header("X-Content-Type-Options", "nosniff")
    }

    fn takes_long(&self, request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> bool {
        // They name every stream, viewer or object, those of a whole cluster too.
        matches!(
            request.path.as_str(),
            "/metrics"
                | "/api/alarms"
                | "/api/streams"
                | "/api/clients"
                | "/api/cluster"
                | "/api/objects"
                | "/api/recordings"
        ) && refuse_stranger(request, door, peer, hub).is_none()
    }

    fn owns(&self, path: &str) -> bool {
        is_for_operators(path) || path.starts_with("/api/")
    }

    fn logs_access(&self) -> bool {
        self.now().access_log.is_some()
    }

    fn log_access(&self, access: Access) {
        if let Some(log) = &self.now().access_log {
            log.log(&access);
        }
    }
}

/// The answer to a client that is no operator and requests something for operators only; `None` if the request is
/// allowed. Without an admin listener everyone may see the pages and the streams' figures; metrics, alarms, encoders
/// and objects are for operators only.
fn refuse_stranger(request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> Option<Response> {
    let path = request.path.as_str();
    let is_closed = match door {
        ListenerRole::Public if is_for_operators(path) => return Some(not_here()),
        ListenerRole::Public => false,
        ListenerRole::Shared if is_for_crew(path) => {
            let refusal = hub.is_crew(door, peer, request).err()?;
            return Some(for_operators(refusal));
        }
        ListenerRole::Shared => {
            matches!(path, "/metrics" | "/api/encoders" | "/api/objects" | "/api/cluster" | "/cluster")
        }
        ListenerRole::Admin => is_for_operators(path) && !matches!(path, "/healthz" | "/readyz"),
    };
    if !is_closed {
        return None;
    }
    hub.is_operator(door, peer, request).err().map(for_operators)
}

fn for_operators(refusal: Refusal) -> Response {
    let (status, words) = access::explain(refusal, Action::Publish);
    problem(status, "for operators only", words)
}

/// What the pages for crews are made of.
fn is_for_crew(path: &str) -> bool {
    path == "/api/events"
        || path == "/api/alarms"
        || ["/crew/", "/api/alarms/"].iter().any(|begin| path.starts_with(begin))
}

/// What a browser is told that may not see a page for crews.
const FOR_CREW: &str = "Open it on the server's own machine or from one of the [admin] networks of its configuration; by the admin \
     listener where there is one; or with the publish key behind the address: ?key=KEY.";

/// What a browser is told that may not see a page for operators.
const FOR_OPERATORS: &str = "Open it on the server's own machine or from one of the [admin] networks of its configuration, or by the \
     admin listener where there is one.";

fn unknown_event(request: &Request, contact: Option<&str>) -> Response {
    if !assets::is_for_people(request) {
        return events::no_event();
    }
    let words = "Check the address that you opened, or ask the crew for it.";
    assets::words_page(404, &request.path, "There is no such event", words, contact)
}

/// Whether `path` is for operators only. Viewers need a stream's page, what the page requests about that stream, the
/// server's clock, the contact line and `/gen204`; every new path is for operators only until it is listed here.
fn is_for_operators(path: &str) -> bool {
    match path {
        "/" | "/index.html" | "/cluster" | "/metrics" | "/healthz" | "/readyz" => true,
        "/api/time" | "/api/contact" => false,
        path if ["/stream/", "/crew/"].iter().any(|page| path.starts_with(page)) => true,
        path => {
            let named = ["/api/streams/", "/api/events/"].iter().find_map(|begin| path.strip_prefix(begin));
            match named {
                Some(name) => StreamName::parse(name).is_none(),
                None => path == "/api" || path.starts_with("/api/"),
            }
        }
    }
}

/// Whether all workers serve: `down` of `all` are being started again.
fn health((down, all): (usize, usize)) -> Response {
    if down == 0 {
        return Response::ok("text/plain; charset=utf-8", "ok\n");
    }
    let title = format!("{down} of {all} workers are being started again");
    problem(503, &title, "A fault has ended them for a moment; the log says what it was. Ask again shortly.")
        .with_header("Retry-After", "1")
}

fn not_here() -> Response {
    problem(
        404,
        "not at this address",
        "The list of streams, API, metrics and probes are on the admin listener; a player is at /watch/NAME.",
    )
}

fn no_page() -> Response {
    problem(
        404,
        "no such address",
        "The streams are at /, a player at /watch/NAME, a stream at /live/NAME.ts.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_tells_of_workers_that_are_started_again() {
        assert_eq!((health((0, 2)).status, &*health((0, 2)).body), (200, &b"ok\n"[..]));
        let down = health((1, 2));
        assert_eq!(down.status, 503);
        assert!(String::from_utf8_lossy(&down.body).contains("1 of 2 workers"));
    }

    #[test]
    fn viewers_get_the_player_and_what_it_asks() {
        for path in [
            "/watch/a",
            "/assets/app.js",
            "/api/time",
            "/api/contact",
            "/api/streams/a",
            "/gen204",
            "/event/a",
            "/api/events/a",
        ] {
            assert!(!is_for_operators(path), "{path}");
        }
        for path in [
            "/",
            "/metrics",
            "/healthz",
            "/api/streams",
            "/api/streams/",
            "/api/streams/a/b",
            "/api/new",
            "/api/clients",
            "/api/alarms",
            "/api/alarms/mute",
            "/api/alarms/pictures/0123456789abcdef",
            "/api/encoders",
            "/api/objects",
            "/api/streams/a/history",
            "/api/streams/a/latency",
            "/api/streams/a/keyframe",
            "/api/streams/a/bitrate",
            "/api/streams/a/thumbnail",
            "/stream/a",
            "/cluster",
            "/api/cluster",
            "/crew/a",
            "/api/events",
            "/api/events/a/b",
            "/api/alarms/pictures/1",
        ] {
            assert!(is_for_operators(path), "{path}");
        }
    }
}
