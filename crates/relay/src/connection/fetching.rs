//! A connection that answers with an object that may still grow.

use super::object_head::ObjectHead;
use super::responses::{guarded, shared_with};
use super::{Connection, Role, Turn};
use crate::Settings;
use crate::turn::TurnContext;
use bytes::Bytes;
use glassline_delivery::fill::{Failure, Framing, Head, Object, Progress, Selection, SelectionError};
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Coding, Effort, Method, Response, Version, problem, unsatisfiable};
use glassline_delivery::playlist::Object as Presented;
use glassline_delivery::playlist::rewrite::{
    self, AskedServer, PLAYLIST_BYTES_MAX, PlaylistKind, ViewerToken,
};
use glassline_delivery::policy::StreamName;
use glassline_delivery::telemetry::first_bytes::Begun;
use glassline_edge::{ObjectFile, ObjectSource, Reader, Reading};
use glassline_media::Time;
use glassline_streams::ConnectionId;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an object that are given to a socket in one go; then others get their turn.
const SHARE_BYTES: u64 = 512 << 10;

/// How long a client that takes nothing may hold up others that read the same object, where memory is short.
const HOLD_UP_MAX: Duration = Duration::from_secs(5);

/// A text that is larger leaves as it is: to make it smaller would keep its worker from others for too long.
const CODED_BYTES_MAX: u64 = 1 << 20;

/// Bytes that leave together at most.
const TOGETHER_BYTES: usize = 128 << 10;

/// A request that is being answered with an object.
#[derive(Debug)]
pub(crate) struct Fetching {
    growing: Reading,
    source: ObjectSource,
    request: Box<Request>,
    keeps_alive: bool,
    /// Since when it waits, for its head or for more.
    since: Time,
    body: Option<Body>,
    /// Its object had not begun when it was asked for.
    was_waited_for: bool,
    /// Where it was when it was last looked after, and since when.
    moved: (u64, Time),
    /// It has had its share, and there is more for it.
    has_more: bool,
    /// What becomes of the viewer's token.
    token: Change,
    /// Whether it leaves in a coding that the client wants.
    coding: Change,
    /// It has been written for this client alone.
    is_for_one: bool,
    /// Whether the peer speaks TLS.
    is_secure: bool,
    /// Whether what leaves is encrypted here, so that no file can be sent.
    is_wrapped: bool,
    /// Its pages are the operator's own.
    is_own: bool,
    /// Where its server has none, it is made here.
    or_here: bool,
}

/// How an object is treated on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handling {
    /// The viewer's token goes into the addresses of a playlist.
    pub(super) carries_token: bool,
    /// Where its server has none (`404`), and it is what players ask for first, it is packaged here.
    pub(super) or_here: bool,
    /// Its pages are the operator's own, and run as such.
    pub(super) is_own: bool,
}

/// What is done with an object where it is a playlist, which has to be whole for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Nothing, or it is done.
    Not,
    /// It is done if the object is a playlist.
    IfPlaylist,
    /// The object is one, and it is done as soon as that is whole.
    WhenWhole,
}

/// Bytes of an object that leave with its head, before the rest goes from its file: one packet less.
const WITH_HEAD_BYTES: u64 = 16 << 10;

/// What has begun to leave.
#[derive(Clone, Debug)]
struct Body {
    status: u16,
    framing: Framing,
    /// The next byte of the object.
    at: u64,
    from: u64,
    /// Behind the last one; `None`: wherever the object ends.
    to: Option<u64>,
    /// Where the rest of it leaves from, if not from memory.
    file: Option<Arc<ObjectFile>>,
}

/// What a look at the object came to.
enum Step {
    /// There is nothing more for now.
    Waits,
    /// Parts of the answer.
    Parts(Vec<Bytes>),
    /// The answer goes on with the bytes of this file, from one place to before another.
    File(Arc<ObjectFile>, u64, u64),
    /// All has left, this number of bytes of the object, with this status.
    Done { status: u16, bytes: u64 },
    /// It is answered otherwise.
    Answered(Response),
    /// Its server has none: it is packaged here.
    Here,
    /// What has begun cannot be ended well.
    Cut,
}

impl Fetching {
    /// How long it waits already for something that has not begun.
    pub(super) fn waits_since(&self) -> Option<Time> {
        self.body.is_none().then_some(self.since)
    }

    /// How long it waits for that at most.
    pub(super) fn waiting_time(&self, settings: &Settings) -> Duration {
        settings.waiting_time(&self.request.headers)
    }

    /// Notes how far its peer is. Returns whether that has taken nothing for too long while others wait for it: memory is short
    /// then, and their object keeps only what the slowest of them needs. Called now and then.
    pub(super) fn note_progress(&mut self, now: Time) -> bool {
        let Some(body) = &self.body else { return false };
        if body.at != self.moved.0 || !self.growing.holds_others_up() {
            self.moved = (body.at, now);
        }
        now.since(self.moved.1) >= HOLD_UP_MAX
    }

    /// The request, if nothing of the answer has left.
    pub(super) fn unanswered(&self) -> Option<&Request> {
        self.body.is_none().then_some(&*self.request)
    }

    /// Its peer is gone.
    pub(super) fn leave(&self, connection: ConnectionId) {
        self.growing.leave(reader(connection));
    }

    /// The answer's status so far, and bytes of the object that have left.
    pub(super) fn sent(&self) -> Option<(u16, u64)> {
        self.body.as_ref().map(|body| (body.status, body.at - body.from))
    }

    /// What is recorded of it, now that its first byte is there.
    fn begun(&self) -> Begun<'_> {
        Begun {
            path: &self.request.path,
            query: &self.request.query,
            source: self.source.index(),
            is_made_here: self.source == ObjectSource::Packaged,
            was_waited_for: self.was_waited_for,
            is_refusal: self.body.as_ref().is_none_or(|body| body.status >= 400),
        }
    }

    fn step(&mut self, connection: ConnectionId, settings: &Settings, now: Time) -> Step {
        let Some(body) = &mut self.body else { return self.begin(connection, settings, now) };
        let to = body.to.unwrap_or(u64::MAX);
        if body.at >= to {
            return Step::Done { status: body.status, bytes: body.at - body.from };
        }
        if let Some(file) = body.file.as_ref().filter(|_| body.at > body.from) {
            return Step::File(Arc::clone(file), body.at, to.min(body.at + SHARE_BYTES));
        }
        let mut pieces = Vec::new();
        let share = if body.file.is_some() { WITH_HEAD_BYTES } else { SHARE_BYTES };
        let seen = self.growing.look_or_wait(reader(connection), (body.at, body.at), |object| {
            let count = object.read(body.at, to.min(body.at + share), &mut pieces);
            (count > 0 || object.is_over()).then(|| (count, object.failure()))
        });
        match seen {
            None => Step::Waits,
            Some((count, _)) if count > 0 => {
                body.at += count;
                let mut parts = Vec::with_capacity(pieces.len() + 3);
                body.framing.lay(pieces, count, &mut parts);
                if body.at >= to {
                    body.framing.end(&mut parts);
                }
                Step::Parts(parts)
            }
            // The end came before what was promised.
            Some((_, failure)) if failure.is_some() || body.framing == Framing::Length => Step::Cut,
            Some(_) => {
                body.to = Some(body.at);
                let mut parts = Vec::new();
                body.framing.end(&mut parts);
                Step::Parts(parts)
            }
        }
    }

    /// Begins the answer where the object has begun. Nothing is said before its first byte is there: until then it may
    /// still fail, and a status cannot be taken back.
    fn begin(&mut self, connection: ConnectionId, settings: &Settings, now: Time) -> Step {
        let head_only = self.request.method == Method::Head;
        let is_to_be_whole = [self.token, self.coding].contains(&Change::WhenWhole);
        let least = if is_to_be_whole { PLAYLIST_BYTES_MAX as u64 } else { 0 };
        let seen = self.growing.look_or_wait(reader(connection), (0, least), |object: &Object| {
            let has_begun = object.filled() > least || object.is_over();
            has_begun.then(|| object.progress())
        });
        let Some(progress) = seen else { return Step::Waits };
        let Some(head) = progress.head.clone() else {
            return Step::Answered(refusal(progress.failure));
        };
        if progress.failure.is_some() && progress.filled == 0 {
            return Step::Answered(refusal(progress.failure));
        }
        if self.or_here && head.status() == 404 {
            return Step::Here;
        }
        if self.token != Change::Not {
            self.carry_token(&head, &progress);
            // What it has become, or will become once it is whole, is looked at anew.
            return self.begin(connection, settings, now);
        }
        if self.coding != Change::Not && self.code(&head, &progress) {
            return self.begin(connection, settings, now);
        }
        let selection = match head.status() {
            200 => Selection::of(&self.request, &progress),
            _ => Ok(Selection::Whole),
        };
        match selection {
            Err(SelectionError::Unsatisfiable { total }) => Step::Answered(unsatisfiable(total)),
            Ok(selection) => self.lay_head(&head, &progress, selection, head_only, settings, now),
        }
    }

    /// Puts the viewer's token into the addresses of the object, if that is a playlist, for this viewer alone: what others
    /// read stays as it came.
    fn carry_token(&mut self, head: &Head, progress: &Progress) {
        let was = std::mem::replace(&mut self.token, Change::Not);
        if (300..400).contains(&head.status()) {
            return self.carry_token_on(head);
        }
        let kind = PlaylistKind::of(head.field("content-type"), &self.request.path);
        let is_text = head.status() == 200 && head.field("content-encoding").is_none();
        let Some(kind) = kind.filter(|_| is_text) else { return };
        let Some(token) = ViewerToken::of(&self.request.query) else { return };
        if !progress.is_whole {
            // One that is too long, or has failed, is given as it is.
            if was == Change::IfPlaylist && progress.failure.is_none() {
                self.token = Change::WhenWhole;
            }
            return;
        }
        let mut pieces = Vec::new();
        self.growing.look(|object| object.read(0, u64::MAX, &mut pieces));
        let asked = self.asked_server();
        let written = std::str::from_utf8(&pieces.concat())
            .ok()
            .and_then(|text| rewrite::with_token(kind, text, &token, &asked));
        if let Some(written) = written {
            self.is_for_one = true;
            let written = self.growing.hold(written.into_bytes());
            self.growing = Reading::new(self.growing.beside(Object::whole(head.clone(), written)));
        }
    }

    /// Gives the object in the coding that the client wants: what is packaged here is whole by then, and playlists of upstream
    /// servers are waited for, which come in one go. Returns whether it has become another, or is waited for.
    fn code(&mut self, head: &Head, progress: &Progress) -> bool {
        let was = std::mem::replace(&mut self.coding, Change::Not);
        let is_here = matches!(self.source, ObjectSource::Packaged | ObjectSource::Recorded);
        let is_playlist = || PlaylistKind::of(head.field("content-type"), &self.request.path).is_some();
        if !is_here && !is_playlist() {
            return false;
        }
        let is_awaited = was == Change::IfPlaylist && progress.failure.is_none();
        if !is_here && !progress.is_whole && is_awaited {
            let is_wanted = Coding::wanted(&self.request.headers, &Coding::ALL).is_some();
            self.coding = if is_wanted { Change::WhenWhole } else { Change::Not };
            return is_wanted;
        }
        let effort = if self.is_for_one { Effort::Once } else { Effort::Shared };
        let coded = (progress.filled <= CODED_BYTES_MAX)
            .then(|| self.growing.coded(&self.request.headers, effort))
            .flatten();
        let is_coded = coded.is_some();
        coded.into_iter().for_each(|coded| self.growing = Reading::new(coded));
        is_coded
    }

    /// The same for a redirect that leads to this server again.
    fn carry_token_on(&mut self, head: &Head) {
        let token = ViewerToken::of(&self.request.query);
        let carried = token.zip(head.field("location")).and_then(|(token, location)| {
            rewrite::location_with_token(location, &token, &self.asked_server())
        });
        if let Some(location) = carried {
            let moved = Object::whole(head.moved(&location), Bytes::new());
            self.growing = Reading::new(self.growing.beside(moved));
        }
    }

    /// The server as the viewer called it.
    fn asked_server(&self) -> AskedServer<'_> {
        let authority = self.request.headers.first("host").unwrap_or_default();
        AskedServer { authority, is_secure: self.is_secure }
    }

    fn lay_head(
        &mut self,
        head: &Head,
        progress: &Progress,
        selection: Selection,
        head_only: bool,
        settings: &Settings,
        now: Time,
    ) -> Step {
        let (status, from, to) = match selection {
            Selection::Whole => (head.status(), 0, progress.total),
            Selection::Part { from, to } => (206, from, to),
            Selection::NotModified => (304, 0, Some(0)),
        };
        let length = to.filter(|_| progress.total.is_some() || progress.is_whole).map(|to| to - from);
        let mut framing = Framing::of(length, self.request.version == Version::Http11);
        self.keeps_alive &= framing != Framing::UntilClose;
        let text = ObjectHead {
            head,
            status,
            range: (from, to),
            total: progress.total,
            framing,
            length,
            source: self.source,
            age: progress.sent.map(|sent| now.since(sent)),
            wait: now.since(self.since),
            keeps_alive: self.keeps_alive,
            is_own: self.is_own,
            path: &self.request.path,
        }
        .write(settings);
        let is_empty = head_only || status == 304;
        if is_empty {
            framing = Framing::Length;
        }
        let to = if is_empty { Some(from) } else { to };
        let is_large = length.is_some_and(|length| length > 2 * WITH_HEAD_BYTES);
        let is_for_file = !self.is_wrapped && progress.is_whole && framing == Framing::Length && is_large;
        let file = if is_for_file { self.growing.frozen() } else { None };
        self.body = Some(Body { status, framing, at: from, from, to, file });
        self.since = now;
        let mut parts = vec![Bytes::from(text)];
        if framing == Framing::Chunked && to == Some(from) {
            framing.end(&mut parts);
        }
        Step::Parts(parts)
    }
}

fn reader(connection: ConnectionId) -> Reader {
    Reader { thread: connection.worker, token: connection.token }
}

/// The answer where there will be no object.
fn refusal(failure: Option<Failure>) -> Response {
    let title = failure.map_or("it will not come".to_owned(), |failure| failure.to_string());
    match failure {
        None | Some(Failure::Ended) => {
            problem(404, &title, "Read the playlist again; it says what there is.")
        }
        Some(Failure::Fault) => {
            problem(500, &title, "Try again shortly; the server's log says what the fault was.")
                .with_header("Retry-After", "1")
        }
        Some(Failure::Barred) => {
            let words = "Its operator has to give this server the key of the server behind it.";
            problem(502, &title, words).with_header("Retry-After", "10")
        }
        Some(_) => {
            let words = "Try again shortly; the server's log says what its upstream servers answered.";
            problem(502, &title, words).with_header("Retry-After", "1")
        }
    }
}

impl Connection {
    /// Answers `request` with an object, as it comes. Where that is a playlist, the viewer's token goes into its addresses if
    /// that is wanted.
    pub(super) fn fetch(
        &mut self,
        growing: Reading,
        source: ObjectSource,
        request: Box<Request>,
        handling: Handling,
        now: Time,
    ) {
        let Handling { carries_token, or_here, is_own } = handling;
        let rest = StreamName::of_presentation_path(&request.path).map(|(_, rest)| rest);
        let is_entry = rest.and_then(|rest| rest.parse().ok()).is_some_and(Presented::is_entry);
        self.role = Role::Fetching(Box::new(Fetching {
            growing,
            source,
            request,
            keeps_alive: self.http.keeps_alive(),
            since: now,
            body: None,
            was_waited_for: false,
            moved: (0, now),
            has_more: false,
            token: if carries_token { Change::IfPlaylist } else { Change::Not },
            coding: Change::IfPlaylist,
            is_for_one: false,
            is_secure: self.socket.is_secured(),
            is_wrapped: !self.socket.is_direct(),
            is_own,
            or_here: or_here && is_entry,
        }));
    }

    /// Whether there is more of its object for a socket that has room.
    pub(super) fn wants_turn(&self) -> bool {
        matches!(&self.role, Role::Fetching(fetching) if fetching.has_more) && self.outgoing.is_empty()
    }

    /// There is news of what it waits for.
    pub(crate) fn woken(&mut self, context: &mut TurnContext<'_>) -> Turn {
        if let Role::Awaiting(_) = &self.role {
            return self.look_again(context).unwrap_or(Turn::Over);
        }
        if let Role::Preparing(_) = &self.role {
            return self.take_prepared(context);
        }
        match self.feed_fetch(context) {
            // What the peer has sent behind its request is due.
            Ok(Turn::Rests) if !matches!(self.role, Role::Fetching(_)) && !self.waiting_input.is_empty() => {
                self.take_turn(context)
            }
            Ok(turn) => turn,
            Err(error) => {
                tracing::debug!(peer = %self.peer, %error, "connection lost");
                Turn::Over
            }
        }
    }

    /// Sends what there is of its object.
    pub(super) fn feed_fetch(&mut self, context: &mut TurnContext<'_>) -> io::Result<Turn> {
        let mut share = 0;
        // What a blocked socket has not taken goes first; then head and bytes leave together.
        while self.outgoing.len() < TOGETHER_BYTES || self.outgoing.flush(&mut self.socket)? {
            let Role::Fetching(fetching) = &mut self.role else { break };
            fetching.has_more = share >= SHARE_BYTES;
            if fetching.has_more {
                let flushed = self.outgoing.flush(&mut self.socket)?;
                return Ok(if flushed { Turn::Again } else { Turn::Rests });
            }
            let (source, waits_since) = (fetching.source, fetching.waits_since());
            let step = fetching.step(self.id, context.settings, context.now);
            if let (Some(since), false) = (waits_since, matches!(step, Step::Waits | Step::Here)) {
                let wait = context.now.since(since);
                context.hub.object_waits.record(source, wait);
                context.hub.first_bytes.record(self.id.worker, &fetching.begun(), wait, context.now);
                if let Some(asked) = &mut self.asked {
                    asked.first_byte(source, wait);
                }
            }
            match step {
                Step::Waits => {
                    fetching.was_waited_for |= waits_since.is_some();
                    break;
                }
                Step::Parts(parts) => {
                    for part in parts {
                        share += part.len() as u64;
                        self.outgoing.push(part);
                    }
                }
                Step::File(file, from, to) => {
                    if !self.outgoing.flush(&mut self.socket)? {
                        return Ok(Turn::Rests);
                    }
                    let sent = file.send(&self.socket, from, to)?;
                    let Some(count) = sent.filter(|count| *count > 0) else { return Ok(Turn::Rests) };
                    share += count as u64;
                    if let Some(body) = &mut fetching.body {
                        body.at += count as u64;
                    }
                }
                Step::Done { status, bytes } => {
                    if status >= 400 {
                        context.hub.counters.errors.increment();
                    }
                    let keep = fetching.keeps_alive && !context.hub.is_stopping();
                    self.log(status, bytes, context);
                    if keep {
                        self.role = Role::Exchange { request: None, body_bytes: 0 };
                        self.http.done(context.now);
                    } else {
                        self.drain();
                    }
                }
                Step::Answered(response) => {
                    let head_only = fetching.request.method == Method::Head;
                    let response = shared_with(context.settings, guarded(response));
                    self.finish_answer(&response, head_only, context);
                }
                Step::Here => {
                    let since = fetching.since;
                    let name = StreamName::of_presentation_path(&fetching.request.path).map(|(name, _)| name);
                    // Of a stream that has only just begun, or is gone, a server's "no" says nothing of what it packages.
                    if !name.is_some_and(|name| context.hub.receives(&name, since)) {
                        fetching.or_here = false;
                        continue;
                    }
                    fetching.leave(self.id);
                    let role =
                        std::mem::replace(&mut self.role, Role::Exchange { request: None, body_bytes: 0 });
                    if let Role::Fetching(fetching) = role {
                        self.answer_here(fetching.request, context);
                    }
                }
                Step::Cut => {
                    self.outgoing.flush(&mut self.socket)?;
                    return Ok(Turn::Over);
                }
            }
        }
        self.outgoing.flush(&mut self.socket)?;
        Ok(Turn::Rests)
    }
}
