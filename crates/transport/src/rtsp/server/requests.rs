//! What requests lead to, and the answers of the caller.

use super::{
    METHODS, Output, Over, REALM, Receiver, Role, SESSION_TIME, Sender, ServerSession, State, Track, Way,
};
use crate::rtp::session::offer::{self, OfferedTrack};
use crate::rtsp::message::{Request, Response};
use crate::rtsp::tracks;
use crate::rtsp::transport::Transport;
use crate::rtsp::uri::{Base, Uri};
use crate::sdp::CodedDescription;
use crate::splitmix;
use glassline_media::{Time, Utc};

/// Bytes of payload in a packet: with all headers it fits in 1,500, also where some tunnel takes 40.
const PAYLOAD_BYTES: usize = 1400;

impl ServerSession {
    /// Writes a response to the request that waits, or to `request`.
    pub(super) fn reply(
        &mut self,
        status: u16,
        reason: &str,
        request: Option<&Request>,
        more: impl FnOnce(&mut Response),
    ) {
        let waiting = self.request.take();
        let request = request.or(waiting.as_ref());
        let mut response =
            Response::new(status, reason, request.and_then(|request| request.headers.sequence()));
        response.headers.push("Server", "Glassline");
        more(&mut response);
        self.outputs.push_back(Output::Send(response.write()));
    }

    pub(super) fn handle_request(&mut self, request: Request, now: Time) {
        let session = request.headers.get("Session").and_then(|value| value.split(';').next()).map(str::trim);
        if session.is_some_and(|session| session != self.id) {
            return self.reply(454, "Session Not Found", Some(&request), |_| {});
        }
        if let Some(options) = request.headers.get("Require") {
            // None is known (RFC 2326 §12.32): the client has to do without.
            let options = options.to_owned();
            return self.reply(551, "Option not supported", Some(&request), |response| {
                response.headers.push("Unsupported", options);
            });
        }
        let id = self.id.clone();
        match (request.method.as_str(), self.state) {
            ("OPTIONS", _) => {
                self.reply(200, "OK", Some(&request), |response| response.headers.push("Public", METHODS));
            }
            ("GET_PARAMETER" | "SET_PARAMETER", _) => {
                self.reply(200, "OK", Some(&request), |response| response.headers.push("Session", id));
            }
            ("DESCRIBE", State::Idle) => self.ask(Role::Watch, request),
            ("ANNOUNCE", State::Idle) => self.announce(request),
            ("SETUP", State::Ready(_)) => self.set_up(request),
            ("PLAY", State::Ready(Role::Watch)) | ("RECORD", State::Ready(Role::Publish)) => {
                self.begin(&request, now);
            }
            // A client that plays may say it once more, after it has sought.
            ("PLAY", State::Running(Role::Watch)) => {
                self.reply(200, "OK", Some(&request), |response| response.headers.push("Session", id));
            }
            // FFmpeg pauses, sets up and plays anew where no datagram has come to it.
            ("PAUSE", State::Running(Role::Watch)) => {
                (self.state, self.sender) = (State::Ready(Role::Watch), None);
                self.reply(200, "OK", Some(&request), |response| response.headers.push("Session", id));
                self.outputs.push_back(Output::Halt);
            }
            ("TEARDOWN", _) => {
                self.reply(200, "OK", Some(&request), |response| response.headers.push("Session", id));
                self.over = Some(Over::Ended);
            }
            ("DESCRIBE" | "ANNOUNCE" | "SETUP" | "PLAY" | "RECORD" | "PAUSE", _) => {
                self.reply(455, "Method Not Valid in This State", Some(&request), |response| {
                    response.headers.push("Allow", METHODS);
                });
            }
            _ => self.reply(501, "Not Implemented", Some(&request), |response| {
                response.headers.push("Public", METHODS);
            }),
        }
    }

    /// Asks the caller whether the client may do that.
    fn ask(&mut self, role: Role, request: Request) {
        let Some((name, query)) = stream_of(&request.uri) else {
            return self.reply(404, "Not Found", Some(&request), |_| {});
        };
        (self.state, self.role, self.request) = (State::Asks(role), Some(role), Some(request));
        self.outputs.push_back(Output::Enter { role, name, query });
    }

    fn announce(&mut self, request: Request) {
        let description = match CodedDescription::parse_bytes(&request.body) {
            Ok(description) => description,
            Err(error) => {
                let words = error.to_string();
                return self.reply(400, "Bad Request", Some(&request), |response| explain(response, words));
            }
        };
        let Some(uri) = Uri::parse(&request.uri) else {
            return self.reply(400, "Bad Request", Some(&request), |_| {});
        };
        let choice = tracks::choose(&description, &Base::new(&uri, None, None));
        if choice.tracks.is_empty() {
            let words = choice.left_out.join("; ");
            return self
                .reply(415, "Unsupported Media Type", Some(&request), |response| explain(response, words));
        }
        let tracks = description.tracks.iter().zip(choice.places);
        let track = |(track, place): (&crate::sdp::CodedTrack, Option<usize>)| Track {
            control: track.control.clone().unwrap_or_default(),
            place,
            way: None,
        };
        self.tracks = tracks.map(track).collect();
        (self.played, self.left_out) = (choice.tracks, choice.left_out);
        self.ask(Role::Publish, request);
    }

    /// The publisher may send.
    pub fn admit(&mut self, now: Time, utc: Utc) {
        if self.state == State::Asks(Role::Publish) {
            self.state = State::Ready(Role::Publish);
            self.reply(200, "OK", None, |_| {});
            self.advance(now, utc);
        }
    }

    /// The viewer may play these tracks of the stream `name`.
    pub fn describe(&mut self, name: &str, offered: Vec<OfferedTrack>, now: Time, utc: Utc) {
        if self.state != State::Asks(Role::Watch) {
            return;
        }
        let track =
            |number: usize| Track { control: format!("trackID={number}"), place: Some(number), way: None };
        self.tracks = (0..offered.len()).map(track).collect();
        let body = offer::describe(name, &offered).into_bytes();
        self.offered = offered;
        self.state = State::Ready(Role::Watch);
        let base = self.request.as_ref().and_then(|request| Uri::parse(&request.uri)).map(|uri| {
            let path = uri.target.split('?').next().unwrap_or_default().trim_end_matches('/');
            format!("{}{path}/", uri.origin())
        });
        self.reply(200, "OK", None, |response| {
            response.headers.push("Content-Type", "application/sdp");
            response.headers.push("Content-Base", base.unwrap_or_default());
            response.body = body;
        });
        self.advance(now, utc);
    }

    /// The client may not do what it wants to, by a status of HTTP and in words.
    pub fn refuse(&mut self, status: u16, words: &str, now: Time, utc: Utc) {
        if !matches!(self.state, State::Asks(_)) {
            return;
        }
        self.state = State::Idle;
        let (reason, nonce) = (reason(status), self.nonce.clone());
        self.reply(status, reason, None, |response| {
            if status == 401 {
                // FFmpeg up to 5.1 takes the last line of Digest, whatever its algorithm, and can only do MD5.
                for algorithm in ["SHA-256", "MD5"] {
                    let digest =
                        format!("Digest realm=\"{REALM}\", nonce=\"{nonce}\", algorithm={algorithm}");
                    response.headers.push("WWW-Authenticate", digest);
                }
                response.headers.push("WWW-Authenticate", format!("Basic realm=\"{REALM}\""));
            }
            explain(response, words.to_owned());
        });
        self.advance(now, utc);
    }

    fn set_up(&mut self, request: Request) {
        let by_control = |track: &Track| is_address_of(&request.uri, &track.control);
        let next = || self.tracks.iter().position(|track| track.way.is_none());
        let Some(number) = self.tracks.iter().position(by_control).or_else(next) else {
            return self.reply(404, "Not Found", Some(&request), |_| {});
        };
        let alternatives = request.headers.get("Transport").map(Transport::parse).unwrap_or_default();
        let is_taken = |way: &Transport| {
            !way.is_multicast
                && (way.is_tcp || way.client_ports.is_some_and(|(rtp, rtcp)| rtp > 0 && rtcp > 0))
        };
        let Some(wanted) = alternatives.into_iter().find(is_taken) else {
            return self.reply(461, "Unsupported Transport", Some(&request), |_| {});
        };
        if !wanted.is_tcp {
            self.client_ports = wanted.client_ports.unwrap_or_default();
            (self.request, self.state) = (Some(request), State::Opens(number));
            return self.outputs.push_back(Output::OpenPorts { track: number, client: self.client_ports });
        }
        let first = u8::try_from(number.saturating_mul(2)).unwrap_or(0);
        let (rtp, rtcp) = wanted.channels.unwrap_or((first, first.saturating_add(1)));
        self.finish_setup(
            number,
            Way::Channels(rtp, rtcp),
            Transport { is_tcp: true, channels: Some((rtp, rtcp)), ..Transport::default() },
            Some(&request),
        );
    }

    fn finish_setup(&mut self, number: usize, way: Way, transport: Transport, request: Option<&Request>) {
        if let Some(track) = self.tracks.get_mut(number) {
            track.way = Some(way);
        }
        let (id, seconds) = (self.id.clone(), SESSION_TIME.as_secs());
        self.reply(200, "OK", request, |response| {
            response.headers.push("Session", format!("{id};timeout={seconds}"));
            response.headers.push("Transport", transport.to_string());
        });
    }

    /// The ports of the track that they were asked for.
    pub fn handle_ports(&mut self, ports: (u16, u16), now: Time, utc: Utc) {
        let (State::Opens(number), Some(role)) = (self.state, self.role) else { return };
        self.state = State::Ready(role);
        let transport = Transport {
            client_ports: Some(self.client_ports),
            server_ports: Some(ports),
            is_record: role == Role::Publish,
            ..Transport::default()
        };
        self.finish_setup(number, Way::Ports, transport, None);
        self.advance(now, utc);
    }

    /// There are no ports: the client may ask for the connection.
    pub fn handle_no_ports(&mut self, now: Time, utc: Utc) {
        let (State::Opens(_), Some(role)) = (self.state, self.role) else { return };
        self.state = State::Ready(role);
        self.reply(461, "Unsupported Transport", None, |_| {});
        self.advance(now, utc);
    }

    fn begin(&mut self, request: &Request, now: Time) {
        let State::Ready(role) = self.state else { return };
        if self.tracks.iter().all(|track| track.way.is_none()) {
            return self.reply(455, "Method Not Valid in This State", Some(request), |_| {});
        }
        match role {
            Role::Publish => {
                let formats: Vec<_> =
                    self.played.iter().map(|track| (track.format.clone(), track.payload_type)).collect();
                let random = self.next_random();
                self.receiver = Some(Receiver::new(&formats, random, self.reorder));
            }
            Role::Watch => {
                let random = &mut self.random;
                self.sender = Some(Sender::new(&self.offered, PAYLOAD_BYTES, || splitmix::next(random)));
            }
        }
        (self.state, self.alive, self.has_begun) = (State::Running(role), now, true);
        let id = self.id.clone();
        self.reply(200, "OK", Some(request), |response| {
            response.headers.push("Session", id);
            if role == Role::Watch {
                response.headers.push("Range", "npt=now-");
            }
        });
        self.outputs.push_back(Output::Begin(role));
    }
}

/// Whether an address ends with a track's control, and not with a longer word of which that is the end.
fn is_address_of(uri: &str, control: &str) -> bool {
    let before = uri.strip_suffix(control).filter(|_| !control.is_empty());
    let is_of_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    before
        .is_some_and(|before| !(is_of_word(before.chars().next_back()) && is_of_word(control.chars().next())))
}

fn explain(response: &mut Response, words: String) {
    response.headers.push("Content-Type", "text/plain");
    response.body = words.into_bytes();
}

const fn reason(status: u16) -> &'static str {
    match status {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        _ => "Service Unavailable",
    }
}

/// The stream that an address names: what stands behind `/live/`, and the query.
fn stream_of(uri: &str) -> Option<(String, String)> {
    let target = Uri::parse(uri)?.target;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let name = path.strip_prefix("/live/")?.trim_end_matches('/');
    (!name.is_empty()).then(|| (name.to_owned(), query.to_owned()))
}
