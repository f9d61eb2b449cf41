//! One request to an upstream server, and what of the object comes by it.

use super::super::cache::Job;
use super::super::growing::told_of_codings;
use super::UpstreamSettings;
use glassline_delivery::fill::{
    Download, Failure, Freshness, Head, Object, Redirected, Validator, Verdict, age, location_here,
};
use glassline_delivery::http1::client::{Client, Event, Request};
use glassline_delivery::http1::{Headers, HttpError, Limits, Method, Url};
use glassline_delivery::playlist::rewrite::PlaylistKind;
use glassline_delivery::policy::is_live_path;
use glassline_media::{Time, Utc};

/// What comes in one turn is put together to runs of at most this: what all have read is let go in whole runs.
const RUN_BYTES: usize = 64 << 10;

/// A job, across the servers that are asked for it.
pub(super) struct Fetch {
    pub(super) job: Job,
    pub(super) download: Download,
    pub(super) freshness: Freshness,
    /// Requests that were sent for it.
    pub(super) attempts: usize,
    /// Servers that failed it, by their numbers.
    pub(super) failed: Vec<usize>,
    /// One of them refuses the key that it was shown.
    pub(super) is_barred: bool,
}

impl Fetch {
    /// `now` decides whether what is there already may be given where nothing better comes.
    pub(super) fn new(job: Job, now: Time) -> Fetch {
        let known = job.old.as_ref().and_then(|old| Validator::of(&*old.look(Object::progress).head?));
        let (download, freshness) = match &job.begun {
            Some(begun) => (Download::begun(&begun.etag, begun.filled, begun.total), begun.freshness),
            None => (Download::new(known), Freshness::default()),
        };
        let download = download.with_spare(job.old.is_some() && now < job.old_until);
        Fetch { download, freshness, attempts: 0, failed: Vec::new(), is_barred: false, job }
    }

    /// The bytes of the next request to `url`, the path of which stands in front, and what reads the answer. `name` is this
    /// server's, for `Via`.
    ///
    /// Others will read what comes of it, so that nothing of the first client's request goes into it but what is part of the
    /// object's key (path, query, and `Host` where its route keeps that), and the names of servers, which are bounded and cannot
    /// be made up ([`glassline_delivery::fill::Via`]).
    pub(super) fn request(&mut self, url: &Url, name: &str, limits: Limits) -> (Vec<u8>, Client) {
        self.attempts += 1;
        let target = format!("{}{}", url.target().trim_end_matches('/'), self.job.target);
        let via = self.job.via.then(name);
        let host = self.job.host.clone().unwrap_or_else(|| url.authority());
        // Without `Accept-Encoding`, so that objects come as they are: one representation for all clients.
        let mut request = Request::kept_alive(Method::Get, &host, &target).with_header("Via", &via);
        if let Some(authorization) = url.authorization() {
            request = request.with_header("Authorization", authorization);
        }
        for (name, value) in self.download.request_fields() {
            request = request.with_header(name, &value);
        }
        let client = request.client(limits);
        (request.without_body(), client)
    }
}

/// How an exchange stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// More is to come.
    Goes,
    /// The answer is whole.
    Done,
    /// This server is of no use for it; another may be.
    TryNext,
    /// No server can complete it.
    Failed(Failure),
}

/// Why a server gives no stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It does not know the key that its address here shows: nothing that a client could mend with another token.
    OurKey,
    /// It asks for a key and was shown none, or it does not let this server or its clients see the stream.
    Asked,
}

impl Refusal {
    fn of(status: u16, path: &str, server: &Url) -> Option<Refusal> {
        let is_refused = matches!(status, 401 | 403) && is_live_path(path);
        let by_key = status == 401 && server.authorization().is_some();
        is_refused.then_some(if by_key { Refusal::OurKey } else { Refusal::Asked })
    }
}

/// A request that is on its way.
pub(super) struct Exchange {
    pub(super) download: Fetch,
    client: Client,
    skip: u64,
    /// What has come and was not handed on yet.
    taken: Vec<Vec<u8>>,
    /// What was known still holds.
    pub(super) same: Option<Object>,
    /// What comes is not handed on: the body of a redirect names the address that it leads to.
    drops_body: bool,
    /// Whether anything came of the answer.
    pub(super) has_answer: bool,
    /// How the server refuses a stream, if it does.
    pub(super) refusal: Option<Refusal>,
}

/// The server that an answer is from, and when it came.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) settings: &'a UpstreamSettings,
    pub(super) server: &'a Url,
    pub(super) utc: Utc,
    pub(super) now: Time,
}

impl Origin<'_> {
    /// When what has these fields was sent by the server that has made it.
    fn sent(&self, headers: &Headers) -> Time {
        Time::from_nanos(self.now.as_nanos().saturating_sub(age(headers).as_nanos() as u64))
    }

    /// A redirect with this head as clients see it, where it leads back to servers that are asked for such here.
    fn redirect(&self, job: &Job, head: &Head) -> Option<Head> {
        let location = head.field("location").filter(|_| (300..400).contains(&head.status()))?;
        let asked = Redirected {
            server: self.server,
            servers: self.settings.groups().nth(job.group)?,
            route: job.group.checked_sub(1),
            target: &job.target,
            host: job.host.as_deref(),
            key_query: &self.settings.key_query,
        };
        let routes = self.settings.routes.iter().map(|route| &route.rule);
        location_here(&asked, routes, location).map(|location| head.moved(&location))
    }
}

impl Exchange {
    pub(super) fn new(download: Fetch, client: Client) -> Exchange {
        Exchange {
            download,
            client,
            skip: 0,
            taken: Vec::new(),
            same: None,
            drops_body: false,
            has_answer: false,
            refusal: None,
        }
    }

    /// What it came to: the job's fetch, to which all was handed on, and the object in its place if what was known still
    /// holds.
    pub(super) fn into_parts(mut self) -> (Fetch, Option<Object>) {
        self.deliver();
        (self.download, self.same)
    }

    /// Whether its connection can be used again.
    pub(super) fn keeps_alive(&self) -> bool {
        self.client.keeps_alive()
    }

    /// Takes bytes of the answer of `origin`. Those of the object wait for [`Exchange::deliver`]. What is left of `input` belongs
    /// to nothing.
    pub(super) fn take(&mut self, input: &mut &[u8], origin: Origin<'_>) -> Result<Stands, HttpError> {
        let defaults = &origin.settings.defaults;
        let mut stands = Stands::Goes;
        self.has_answer = true;
        let result = loop {
            match self.client.next(input) {
                Err(error) => break Err(error),
                Ok(None) => break Ok(()),
                Ok(Some(Event::Head(head))) => {
                    let path = self.download.job.target.split('?').next().unwrap_or_default();
                    self.refusal = Refusal::of(head.status, path, origin.server);
                    if self.refusal == Some(Refusal::OurKey) {
                        self.download.is_barred = true;
                        stands = Stands::TryNext;
                        break Ok(());
                    }
                    let verdict = self.download.download.handle_head(&head);
                    match verdict {
                        Verdict::Begin(kept, announced) => {
                            self.download.freshness =
                                Freshness::of(head.status, &head.headers, path, defaults, origin.utc);
                            let kept = match PlaylistKind::of(kept.field("content-type"), path) {
                                Some(_) => told_of_codings(kept),
                                None => kept,
                            };
                            let moved = origin.redirect(&self.download.job, &kept);
                            self.drops_body = moved.is_some();
                            let (kept, announced) = moved.map_or((kept, announced), |moved| (moved, Some(0)));
                            let sent = origin.sent(&head.headers);
                            self.download.job.growing.change(|object| {
                                object.begin(kept, announced);
                                object.set_sent(sent);
                            });
                        }
                        Verdict::Resume { skip } => self.skip = skip,
                        Verdict::NotModified => {
                            let old = self.download.job.old.as_ref().map(|old| old.look(Object::clone));
                            let known = old.as_ref().and_then(|old| old.progress().head);
                            if let (Some(old), Some(known)) = (old, known) {
                                let (headers, utc) = (&head.headers, origin.utc);
                                self.download.freshness =
                                    Freshness::of_renewed(&known, headers, path, defaults, utc);
                                let mut same = old.under(known.renewed(headers));
                                same.set_sent(origin.sent(headers));
                                self.same = Some(same);
                            }
                        }
                        Verdict::TryNext => stands = Stands::TryNext,
                        Verdict::Fail(failure) => stands = Stands::Failed(failure),
                    }
                    if stands != Stands::Goes {
                        break Ok(());
                    }
                }
                Ok(Some(Event::Data(mut data))) => {
                    let skipped = self.skip.min(data.len() as u64);
                    self.skip -= skipped;
                    data = &data[skipped as usize..];
                    if !data.is_empty() {
                        self.download.download.took(data.len() as u64);
                        if !self.drops_body {
                            self.gather(data);
                        }
                    }
                }
                Ok(Some(Event::End)) => {
                    stands = Stands::Done;
                    break Ok(());
                }
            }
        };
        if self.download.download.filled() > origin.settings.object_bytes {
            stands = Stands::Failed(Failure::TooLarge);
        }
        result.map(|()| stands)
    }

    fn gather(&mut self, data: &[u8]) {
        match self.taken.last_mut() {
            Some(last) if last.len() + data.len() <= RUN_BYTES => last.extend_from_slice(data),
            _ => self.taken.push(data.to_vec()),
        }
    }

    /// Bytes that wait for [`Exchange::deliver`].
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken.iter().map(|run| run.len() as u64).sum()
    }

    /// Hands on what was taken, together: each change wakes all readers that wait.
    pub(super) fn deliver(&mut self) {
        if !self.taken.is_empty() {
            let growing = &self.download.job.growing;
            let taken: Vec<_> = self.taken.drain(..).map(|run| growing.hold(run)).collect();
            growing.change(|object| taken.into_iter().for_each(|run| object.append(run)));
        }
    }

    /// The connection has ended. Whether that is the answer's end.
    pub(super) fn handle_end(&self) -> bool {
        self.client.end().is_ok() && self.download.download.is_whole()
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
