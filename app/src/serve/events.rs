//! The pages of events: what stands on them. `GET /api/events`, `GET /api/events/NAME`.
//!
//! Viewers ask every few seconds. What is known of an event's streams is therefore looked up at most twice a second; which of them a
//! client may watch is judged for each request.

use super::answers::json;
use crate::config::{Config, Event};
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Response, problem};
use glassline_delivery::policy::StreamName;
use glassline_io::nic;
use glassline_media::Time;
use glassline_media::container::tracks::Kind;
use glassline_relay::{Hub, ListenerRole};
use glassline_streams::Streams;
use glassline_streams::status::StreamStatus;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// For how long what is known of an event's streams counts.
const FRESH: Duration = Duration::from_millis(500);

/// The events of the configuration.
#[derive(Default)]
pub(super) struct Events {
    events: BTreeMap<StreamName, Arranged>,
    /// Of the server.
    contact: Option<String>,
    public: PublicAddresses,
}

struct Arranged {
    event: Event,
    /// Whether the configuration makes a ladder of this name, which is then one while none of its versions is there, too.
    streams: Vec<(StreamName, bool)>,
    facts: Mutex<Option<(Time, Arc<Vec<Facts>>)>>,
}

/// A client that asks for a page.
pub(super) struct Client<'a> {
    pub(super) request: &'a Request,
    pub(super) door: ListenerRole,
    pub(super) peer: IpAddr,
    pub(super) hub: &'a Hub,
    /// It is of the crew: an operator, or one that shows the publish key.
    pub(super) is_crew: bool,
    /// It is an operator: viewers' tokens are signed for it.
    pub(super) is_operator: bool,
}

/// What is known of a stream, or of the best version of a ladder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Facts {
    is_group: bool,
    is_live: bool,
    has_sound: Option<bool>,
    has_picture: Option<bool>,
}

/// `GET /api/events`.
#[derive(Serialize)]
struct Listing<'a> {
    events: Vec<Listed<'a>>,
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    title: Option<&'a str>,
}

/// `GET /api/events/NAME`.
#[derive(Serialize)]
struct Page<'a> {
    name: &'a str,
    title: Option<&'a str>,
    contact: Option<&'a str>,
    chat: Option<&'a str>,
    next: Option<&'a str>,
    audio: Option<&'a str>,
    streams: Vec<PageStream<'a>>,
    crew: Option<Crew>,
}

#[derive(Serialize)]
struct PageStream<'a> {
    name: &'a str,
    /// Whether it is a ladder: its versions are `NAME-720p50` and so on.
    group: bool,
    /// Whether the client may watch it, with `access` or without.
    known: bool,
    live: bool,
    /// Whether it has sound; `None` until its tables were seen.
    sound: Option<bool>,
    picture: Option<bool>,
    /// Whether viewers of it need a signed link.
    needs_link: bool,
    /// The query that its addresses need, as far as the client may have it.
    access: Option<String>,
}

/// What is for operators alone.
#[derive(Serialize)]
struct Crew {
    /// Whether viewers need a signed link to the event.
    needs_link: bool,
    /// The query that such a link has; not for a crew that came by the publish key.
    access: Option<String>,
    /// Addresses of this server for viewers, best first.
    public: Vec<String>,
}

impl Events {
    pub(super) fn of(config: &Config) -> Events {
        let ladders = config.ladders();
        let arranged = |(name, event): (&String, &Event)| {
            let named = |name: &String| Some((StreamName::parse(name)?, ladders.contains(name)));
            let streams = event.streams.iter().filter_map(named).collect();
            let arranged = Arranged { event: event.clone(), streams, facts: Mutex::default() };
            Some((StreamName::parse(name)?, arranged))
        };
        Events {
            events: config.event.iter().filter_map(arranged).collect(),
            contact: config.contact.clone(),
            public: PublicAddresses::of(config),
        }
    }

    /// Whether there is an event of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        StreamName::parse(name).is_some_and(|name| self.events.contains_key(&name))
    }

    pub(super) fn list(&self) -> Response {
        let listed = |(name, arranged): (&'_ StreamName, &'_ Arranged)| {
            (name.to_string(), arranged.event.title.clone())
        };
        let all: Vec<_> = self.events.iter().map(listed).collect();
        let events = all.iter().map(|(name, title)| Listed { name, title: title.as_deref() }).collect();
        json(&Listing { events })
    }

    /// What stands on the page of the event `name`. `addresses`: those of the listeners, in their order.
    pub(super) fn page(&self, name: &str, client: &Client<'_>, addresses: &[SocketAddr]) -> Response {
        let Client { request, door, peer, hub, is_crew, is_operator } = *client;
        let found = StreamName::parse(name).and_then(|name| self.events.get_key_value(&name));
        let Some((name, arranged)) = found else { return no_event() };
        let facts = arranged.facts(hub);
        let stream = |((stream, _), facts): (&'_ (StreamName, bool), &Facts)| {
            let own = hub.event_access(name, stream, peer, request);
            let may_watch = is_crew || own.is_some() || hub.may_know(stream, door, peer, request);
            let ticket = hub.ticket(stream);
            let needs_link = ticket.is_some();
            let access = if is_operator { ticket } else { own.or_else(|| shown(request)) };
            (may_watch, needs_link, access.filter(|_| may_watch), *facts)
        };
        let of_streams: Vec<_> = arranged.streams.iter().zip(&**facts).map(stream).collect();
        // The chat of a closed event is for viewers with a link.
        let is_invited = is_crew || of_streams.iter().any(|(known, ..)| *known);
        let streams = arranged.streams.iter().zip(of_streams).map(|((name, is_ladder), of_stream)| {
            let (known, needs_link, access, facts) = of_stream;
            PageStream {
                name: name.as_str(),
                group: if known { facts.is_group } else { *is_ladder },
                known,
                // What may not be watched is not told of.
                live: known && facts.is_live,
                sound: facts.has_sound.filter(|_| known),
                picture: facts.has_picture.filter(|_| known),
                needs_link,
                access,
            }
        });
        let Event { title, audio, contact, chat, next, .. } = &arranged.event;
        let crew = is_crew.then(|| {
            let ticket = hub.event_ticket(name);
            Crew {
                needs_link: ticket.is_some(),
                access: ticket.filter(|_| is_operator),
                public: self.public.list(addresses),
            }
        });
        json(&Page {
            name: name.as_str(),
            title: title.as_deref(),
            contact: contact.as_deref().or(self.contact.as_deref()),
            chat: chat.as_deref().filter(|_| is_invited),
            next: next.as_deref(),
            audio: audio.as_deref(),
            streams: streams.collect(),
            crew,
        })
    }
}

pub(super) fn no_event() -> Response {
    problem(
        404,
        "no such event",
        "The configuration of this server has no [event.NAME] of this name. Ask the crew for the address of its page.",
    )
}

/// The token that the request shows, as a query: it may be one for a stream, of a viewer that came with that.
fn shown(request: &Request) -> Option<String> {
    let (expires, token) = (request.parameter("expires")?, request.parameter("token")?);
    let is_plain =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    (is_plain(&expires) && is_plain(&token)).then(|| format!("expires={expires}&token={token}"))
}

impl Arranged {
    fn lock(&self) -> MutexGuard<'_, Option<(Time, Arc<Vec<Facts>>)>> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn facts(&self, hub: &Hub) -> Arc<Vec<Facts>> {
        let now = hub.clock().now();
        let mut known = self.lock();
        match &*known {
            Some((at, facts)) if now.since(*at) < FRESH => Arc::clone(facts),
            _ => {
                let streams = hub.live_streams();
                let facts = self
                    .streams
                    .iter()
                    .map(|(name, is_ladder)| Facts::of(name, *is_ladder, streams, now))
                    .collect();
                let facts = Arc::new(facts);
                *known = Some((now, Arc::clone(&facts)));
                facts
            }
        }
    }
}

impl Facts {
    /// `is_ladder`: the configuration makes a ladder of this name.
    fn of(name: &StreamName, is_ladder: bool, streams: &Streams, now: Time) -> Facts {
        if let Some(live) = streams.find(name) {
            return Facts::of_streams([live.status(now)], false);
        }
        let own = streams.beginning_with(name).into_iter();
        let versions = own.filter(|live| live.name.version().is_some_and(|version| version.group == *name));
        let facts = Facts::of_streams(versions.map(|live| live.status(now)), true);
        Facts { is_group: facts.is_group || is_ladder, ..facts }
    }

    /// Those that are there are looked at first.
    fn of_streams(statuses: impl IntoIterator<Item = StreamStatus>, is_group: bool) -> Facts {
        let mut statuses: Vec<StreamStatus> = statuses.into_iter().collect();
        statuses.sort_by_key(|status| !status.live);
        let Some(first) = statuses.first() else { return Facts::default() };
        let kinds: Vec<(bool, bool)> = first
            .streams
            .iter()
            .map(|stream| (stream.is_video(), stream.is_audio()))
            .chain(first.carried.iter().map(|track| (track.kind == Kind::Video, track.kind == Kind::Audio)))
            .collect();
        let has = |is: fn(&(bool, bool)) -> bool| (!kinds.is_empty()).then(|| kinds.iter().any(is));
        Facts {
            is_group,
            is_live: first.live,
            has_picture: has(|(picture, _)| *picture),
            has_sound: has(|(_, sound)| *sound),
        }
    }
}

/// Where viewers reach this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PublicAddresses {
    /// Names that the configuration gives.
    hosts: Vec<String>,
    base_path: String,
    /// Of each listener, in the order of `listeners`: its scheme, or none where it is for operators.
    schemes: Vec<Option<&'static str>>,
}

/// Addresses that are told at most.
const ADDRESSES_MAX: usize = 12;

impl PublicAddresses {
    fn of(config: &Config) -> PublicAddresses {
        let scheme = |listen: &glassline_relay::Listen| match (listen.is_admin, listen.tls) {
            (true, _) => None,
            (false, true) => Some("https"),
            (false, false) => Some("http"),
        };
        PublicAddresses {
            hosts: config.hosts.names().filter(|name| !name.starts_with('*')).map(str::to_owned).collect(),
            base_path: config.base_path.clone(),
            schemes: super::listeners(config).iter().map(scheme).collect(),
        }
    }

    /// `addresses`: those of the listeners, in their order. Names come first, those by HTTPS before others; then numbers, HTTPS last,
    /// for which certificates seldom are; those of loopback behind all, without names: what stands before them has another port.
    fn list(&self, addresses: &[SocketAddr]) -> Vec<String> {
        let own = nic::reachable_addresses().unwrap_or_default();
        self.list_with(addresses, &own)
    }

    fn list_with(&self, addresses: &[SocketAddr], own: &[IpAddr]) -> Vec<String> {
        let mut all: Vec<(bool, bool, bool, String)> = Vec::new();
        for (scheme, address) in self.schemes.iter().zip(addresses) {
            let Some(scheme) = scheme else { continue };
            let is_plain = *scheme == "http";
            let port = match (is_plain, address.port()) {
                (true, 80) | (false, 443) => String::new(),
                (_, port) => format!(":{port}"),
            };
            let is_local = address.ip().is_loopback();
            let names = self.hosts.iter().filter(|_| !is_local).map(|host| (false, host.clone()));
            let ips: Vec<IpAddr> = match address.ip() {
                // A socket for all IPv6 addresses takes IPv4 too.
                ip if ip.is_unspecified() => {
                    own.iter().copied().filter(|own| ip.is_ipv6() || own.is_ipv4()).collect()
                }
                ip => vec![ip],
            };
            let ips = ips.into_iter().map(|ip| {
                (
                    ip.is_loopback(),
                    match ip {
                        IpAddr::V4(ip) => ip.to_string(),
                        IpAddr::V6(ip) => format!("[{ip}]"),
                    },
                )
            });
            let names = names.map(|(loopback, name)| (false, loopback, name));
            for (is_number, is_loopback, host) in names.chain(ips.map(|(loopback, ip)| (true, loopback, ip)))
            {
                let url = format!("{scheme}://{host}{port}{}/", self.base_path);
                all.push((is_loopback, is_number, is_plain, url));
            }
        }
        all.sort_by_key(|(is_loopback, is_number, is_plain, _)| {
            (*is_loopback, *is_number, is_plain != is_number)
        });
        let mut urls: Vec<String> = Vec::new();
        for (.., url) in all {
            if !urls.contains(&url) && urls.len() < ADDRESSES_MAX {
                urls.push(url);
            }
        }
        urls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewers_address_is_a_name_before_a_number_and_never_an_operators() {
        let text = "listen = ['[::]:8080']\nhosts = ['tv.example', '*.example']\nbase_path = '/tv'\n\
                    [admin]\nlisten = ['127.0.0.1:9090']\n";
        let config = Config::parse(text, "a.toml".as_ref()).unwrap();
        let addresses: [SocketAddr; 2] = ["[::]:8080".parse().unwrap(), "127.0.0.1:9090".parse().unwrap()];
        let own: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        assert_eq!(
            PublicAddresses::of(&config).list_with(&addresses, &own),
            ["http://tv.example:8080/tv/", "http://192.0.2.1:8080/tv/", "http://[2001:db8::1]:8080/tv/",]
        );
        let text = "listen = ['127.0.0.1:80', '0.0.0.0:81']\nhosts = ['tv.example']";
        let local = Config::parse(text, "a.toml".as_ref()).unwrap();
        let addresses = ["127.0.0.1:80".parse().unwrap(), "0.0.0.0:81".parse().unwrap()];
        assert_eq!(
            PublicAddresses::of(&local).list_with(&addresses, &own),
            ["http://tv.example:81/", "http://192.0.2.1:81/", "http://127.0.0.1/"]
        );
    }
}
