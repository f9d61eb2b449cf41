//! What responses and requests of the server lead to.

use super::{
    Asked, Base, ClientError, ClientSession, Lower, Output, Phase, REDIRECTS_MAX, Receiver, Request,
    Response, Step, Time, Transport, Uri, rtcp,
};
use crate::rtsp::auth::{Answerer, Challenge};
use crate::rtsp::tracks::{self, Way, short};
use crate::sdp::CodedDescription;
use std::net::SocketAddr;
use std::time::Duration;

/// Times that one request is sent again with an answer to a new challenge.
const ANSWERS_MAX: u8 = 2;
/// A server that forgets sessions sooner gets its keep-alives no more often.
const SESSION_TIME_MIN: Duration = Duration::from_secs(4);
/// One that never forgets them is asked once in half an hour all the same.
const SESSION_TIME_MAX: Duration = Duration::from_secs(3600);
/// Methods of a server that are kept.
const PUBLIC_MAX: usize = 32;
/// The end of a stream, and that of its source, in an ANNOUNCE (draft-ietf-mmusic-rfc2326bis §13).
const NOTICES_OF_END: [&str; 3] = ["2101", "2103", "2104"];

impl ClientSession {
    pub(super) fn handle_response(&mut self, response: &Response, now: Time) {
        let Some(asked) = self.asked else { return };
        // Some servers leave the number out, or always say the same one: only that of a request which was given up is another's.
        if self.unanswered.is_some() && response.headers.sequence() == self.unanswered {
            self.unanswered = None;
            return;
        }
        self.asked = None;
        self.deadline = Time::NEVER;
        if let Some(session) = response.headers.get("Session") {
            self.keep_session(session);
        }
        match response.status {
            401 => self.authenticate(response, asked, now),
            300..=399 => self.redirect(response.headers.get("Location"), now),
            _ => self.advance(response, asked.step, now),
        }
    }

    fn keep_session(&mut self, value: &str) {
        let mut parts = value.split(';');
        let id = parts.next().map(str::trim).filter(|id| !id.is_empty() && id.len() <= 256);
        self.session = id.map(str::to_owned).or(self.session.take());
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let seconds = value.trim().parse().ok().filter(|seconds| *seconds > 0);
            if name.trim().eq_ignore_ascii_case("timeout")
                && let Some(seconds) = seconds
            {
                self.session_time = Duration::from_secs(seconds).clamp(SESSION_TIME_MIN, SESSION_TIME_MAX);
            }
        }
    }

    fn authenticate(&mut self, response: &Response, asked: Asked, now: Time) {
        let Some(credentials) = self.credentials.clone() else { return self.end(ClientError::NoCredentials) };
        let Some(challenge) = Challenge::best(response.headers.all("WWW-Authenticate")) else {
            return self.end(ClientError::Challenge);
        };
        // The same challenge again means that the answer was wrong; another one, that the first was too old.
        let is_stale = matches!(challenge, Challenge::Digest { is_stale: true, .. });
        let known = self.answerer.as_ref().map(|answerer| answerer.challenge().nonce());
        let is_new = known.is_none_or(|nonce| nonce != challenge.nonce()) || is_stale;
        if !is_new || asked.answers >= ANSWERS_MAX {
            return self.end(ClientError::Credentials);
        }
        self.answerer = Some(Answerer::new(credentials, challenge));
        self.ask(asked.step, asked.answers.saturating_add(1), now);
    }

    fn redirect(&mut self, location: Option<&str>, now: Time) {
        if self.redirects >= REDIRECTS_MAX {
            return self.end(ClientError::Redirect("again and again"));
        }
        let Some(location) = location.map(str::trim).filter(|location| !location.is_empty()) else {
            return self.end(ClientError::Redirect("and does not say where"));
        };
        let is_whole = location.contains("://");
        let resolved = Base::new(&self.server, None, None).resolve(Some(location));
        let text = if is_whole { location } else { &resolved };
        let Some(server) = Uri::parse(text) else {
            return self.end(ClientError::Redirect("to what is no address of RTSP"));
        };
        if self.server.is_secured && !server.is_secured {
            return self.end(ClientError::Redirect("from TLS to where anybody may listen"));
        }
        let at_home = (&server.host, server.port) == (&self.server.host, self.server.port);
        if !at_home {
            // Another server is not told user and password of this one.
            (self.credentials, self.answerer) = (None, None);
        }
        self.redirects = self.redirects.saturating_add(1);
        self.server = server;
        self.say_goodbye();
        self.outputs.push_back(Output::Close);
        self.connect(now);
    }

    fn refuse(&mut self, step: Step, response: &Response) {
        let (method, status, reason) = (step.method(), response.status, short(&response.reason));
        self.end(ClientError::Status { method, status, reason });
    }

    fn advance(&mut self, response: &Response, step: Step, now: Time) {
        let is_good = (200..300).contains(&response.status);
        match step {
            Step::Options => {
                // One that refuses may still describe.
                if is_good {
                    let methods = response.headers.all("Public").flat_map(|value| value.split(','));
                    self.public = methods.map(|method| method.trim().to_owned()).take(PUBLIC_MAX).collect();
                }
                self.ask(Step::Describe, 0, now);
            }
            Step::Describe if is_good => self.handle_description(response, now),
            Step::Setup(track) if is_good => self.handle_setup(track, response, now),
            Step::Setup(track) => self.handle_refused_setup(track, response, now),
            Step::Play { .. } if is_good => self.handle_playing(now),
            // Live streams have no range for some.
            Step::Play { with_range: true } if matches!(response.status, 400 | 456 | 457 | 501 | 551) => {
                self.ask(Step::Play { with_range: false }, 0, now);
            }
            Step::KeepAlive(method) => match response.status {
                454 => self.end(ClientError::Forgotten),
                400 | 404 | 405 | 451 | 501 | 551 => {
                    self.public.retain(|known| !known.eq_ignore_ascii_case(method));
                }
                _ => {}
            },
            Step::Describe | Step::Play { .. } => self.refuse(step, response),
        }
    }

    fn handle_description(&mut self, response: &Response, now: Time) {
        let headers = &response.headers;
        let base = Base::new(&self.server, headers.get("Content-Base"), headers.get("Content-Location"));
        let description = match CodedDescription::parse_bytes(&response.body) {
            Ok(description) => description,
            Err(error) => return self.end(error.into()),
        };
        self.described.clone_from(&response.body);
        self.control = base.resolve(description.control.as_deref());
        // Parts behind a control of the whole session are parts of the base, not of the control (RFC 2326 §C.1.1).
        let choice = tracks::choose(&description, &base);
        if choice.tracks.is_empty() {
            return self.end(ClientError::NoTrack(choice.left_out.join("; ")));
        }
        (self.tracks, self.left_out) = (choice.tracks, choice.left_out);
        self.set_up(0, now);
    }

    /// Sets up the next track, or plays.
    fn set_up(&mut self, track: usize, now: Time) {
        if track >= self.tracks.len() {
            let formats: Vec<_> =
                self.tracks.iter().map(|track| (track.format.clone(), track.payload_type)).collect();
            let random = self.next_random();
            // Before PLAY is answered packets come already.
            self.receiver = Some(Receiver::new(&formats, random, self.settings.reorder));
            return self.ask(Step::Play { with_range: true }, 0, now);
        }
        match self.lower {
            Lower::Tcp => self.ask(Step::Setup(track), 0, now),
            Lower::Udp => {
                self.deadline = now + super::ANSWER_TIME;
                self.outputs.push_back(Output::OpenPorts { track });
            }
        }
    }

    fn handle_setup(&mut self, number: usize, response: &Response, now: Time) {
        let wanted = self.wanted_transport(number);
        // Some cameras leave the header out: they do what was asked for.
        let told =
            response.headers.get("Transport").and_then(|value| Transport::parse(value).into_iter().next());
        let told = told.unwrap_or_else(|| wanted.clone());
        let is_multicast = told.is_multicast && !told.is_tcp;
        if is_multicast || (self.lower == Lower::Tcp && !told.is_tcp) {
            if !self.fall_back(now) {
                self.end(ClientError::Transport);
            }
            return;
        }
        if told.is_tcp {
            // Also where datagrams were asked for: the next tracks are asked for in the same way.
            self.lower = Lower::Tcp;
        }
        let default = self.wanted_transport(number).channels;
        if let Some(track) = self.tracks.get_mut(number) {
            let channels = if told.is_tcp { told.channels.or(default) } else { None };
            let server_ports = told.server_ports.filter(|_| !told.is_tcp);
            // Its `source` is passed over: a camera must not have us send to others, nor take what others send.
            track.way = Way { channels, server_ports };
        }
        self.set_up(number.saturating_add(1), now);
    }

    fn handle_refused_setup(&mut self, number: usize, response: &Response, now: Time) {
        // 461 says it; others have only these for it. What is wrong besides is wrong over the connection, too.
        if matches!(response.status, 400 | 403 | 406 | 451 | 459 | 461 | 500 | 501) && self.fall_back(now) {
            return;
        }
        if number == 0 || number >= self.tracks.len() {
            return self.refuse(Step::Setup(number), response);
        }
        // Pictures are worth having without sound.
        self.tracks.remove(number);
        let (status, reason) = (response.status, short(&response.reason));
        self.left_out
            .push(format!("the track `audio` is left out: the server answers SETUP with {status} {reason}"));
        self.set_up(number, now);
    }

    fn handle_playing(&mut self, now: Time) {
        self.phase = Phase::Playing(now);
        self.next_keep_alive = now + self.keep_alive_time();
        // A datagram to each of the server's ports opens the way through firewalls on ours.
        for track in 0..self.tracks.len() {
            let Some(played) = self.tracks.get(track) else { continue };
            let (ports, ip) = (played.way.server_ports, self.peer);
            let (Some((rtp_port, rtcp_port)), Some(ip)) = (ports, ip) else { continue };
            let (payload_type, ssrc) = (played.payload_type, u32::try_from(self.random >> 32).unwrap_or(0));
            let header = crate::rtp::Header { marker: false, payload_type, sequence: 0, timestamp: 0, ssrc };
            let report = rtcp::Receiver::new(ssrc, played.format.clock_hz())
                .write_report(&rtcp::canonical_name(self.random), now);
            for (is_rtcp, port, data) in
                [(false, rtp_port, header.write().to_vec()), (true, rtcp_port, report)]
            {
                let to = SocketAddr::new(ip, port);
                self.outputs.push_back(Output::Datagram { track, is_rtcp, to, data });
            }
        }
    }

    /// The server asks something.
    pub(super) fn handle_request(&mut self, request: &Request, now: Time) {
        let sequence = request.headers.sequence();
        let (status, reason) = match request.method.as_str() {
            "OPTIONS" | "GET_PARAMETER" | "SET_PARAMETER" | "ANNOUNCE" | "REDIRECT" | "PLAY_NOTIFY"
            | "TEARDOWN" => (200, "OK"),
            _ => (501, "Not Implemented"),
        };
        let mut response = Response::new(status, reason, sequence);
        if request.method == "OPTIONS" {
            let methods = "OPTIONS, GET_PARAMETER, SET_PARAMETER, ANNOUNCE, REDIRECT, TEARDOWN";
            response.headers.push("Public", methods);
        }
        if let Some(session) = &self.session {
            response.headers.push("Session", session.as_str());
        }
        self.outputs.push_back(Output::Send(response.write()));
        match request.method.as_str() {
            "REDIRECT" => self.redirect(request.headers.get("Location"), now),
            "TEARDOWN" => self.end(ClientError::Ended),
            "ANNOUNCE" => {
                let notice = ["Notice", "x-notice"].iter().find_map(|name| request.headers.get(name));
                let is_end =
                    notice.is_some_and(|text| NOTICES_OF_END.iter().any(|end| text.starts_with(end)));
                let is_other = !request.body.is_empty() && request.body != self.described;
                if is_end || (is_other && self.announced >= REDIRECTS_MAX) {
                    self.end(ClientError::Ended);
                } else if is_other && matches!(self.phase, Phase::Playing(_)) {
                    // Another description: its tracks are asked for anew, a few times without a pause.
                    self.announced = self.announced.saturating_add(1);
                    self.say_goodbye();
                    self.outputs.push_back(Output::Close);
                    self.connect(now);
                }
            }
            _ => {}
        }
    }
}
