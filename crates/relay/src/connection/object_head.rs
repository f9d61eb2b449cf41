//! The head of an answer with an object: what the object itself says, and what this server adds.

use super::responses::{SANDBOX, guarded, shared_with};
use crate::Settings;
use glassline_delivery::fill::{Framing, Head, VERY_LARGE};
use glassline_delivery::http1::{Response, reason};
use glassline_edge::{CacheStatus, ObjectSource};
use std::sync::Once;
use std::time::Duration;

/// What this server calls itself to clients. Its name among servers is told to upstream servers alone.
const PSEUDONYM: &str = "glassline";
/// The log has said why pages of upstream servers run no scripts.
static SANDBOX_IS_TOLD: Once = Once::new();

/// What goes into the head.
pub(super) struct ObjectHead<'a> {
    /// What the object says.
    pub(super) head: &'a Head,
    /// The status of the answer, which need not be the object's: it may be a part of it.
    pub(super) status: u16,
    /// The bytes of the object that follow, up to before the second place; `None`: up to wherever the object ends.
    pub(super) range: (u64, Option<u64>),
    /// The length of the whole object, where it is known.
    pub(super) total: Option<u64>,
    pub(super) framing: Framing,
    /// Bytes that follow, where it is known.
    pub(super) length: Option<u64>,
    pub(super) source: ObjectSource,
    /// How long ago an upstream server sent it.
    pub(super) age: Option<Duration>,
    /// How long its first byte was waited for.
    pub(super) wait: Duration,
    pub(super) keeps_alive: bool,
    /// Its pages are the operator's own.
    pub(super) is_own: bool,
    /// The path that was asked for.
    pub(super) path: &'a str,
}

impl ObjectHead<'_> {
    /// The head as it is sent.
    pub(super) fn write(&self, settings: &Settings) -> String {
        let mut text = String::with_capacity(self.head.lines().len() + 256);
        push(
            &mut text,
            &["HTTP/1.1 ", &self.status.to_string(), " ", reason(self.status), "\r\nServer: glassline\r\n"],
        );
        text.push_str(self.head.lines());
        if self.status == 206 {
            let last = self.range.1.map_or(VERY_LARGE, |to| to - 1).to_string();
            let total = self.total.map_or("*".to_owned(), |total| total.to_string());
            push(
                &mut text,
                &["Content-Range: bytes ", &self.range.0.to_string(), "-", &last, "/", &total, "\r\n"],
            );
        }
        if self.status != 304 {
            match (self.framing, self.length) {
                (Framing::Length, Some(length)) => {
                    push(&mut text, &["Content-Length: ", &length.to_string(), "\r\n"]);
                }
                (Framing::Chunked, _) => text.push_str("Transfer-Encoding: chunked\r\n"),
                _ => {}
            }
        }
        push_common(&mut text, self.head, settings, self.is_own);
        if let ObjectSource::Upstream(found) = self.source {
            push_cached(&mut text, found, self.age);
            let is_page = self.head.field("content-type").is_some_and(|it| it.starts_with("text/html"));
            if is_page && !self.is_own && self.status == 200 {
                SANDBOX_IS_TOLD.call_once(|| {
                    tracing::info!(
                        path = self.path,
                        "pages of upstream servers run no scripts here (Content-Security-Policy: sandbox); own_pages = true in \
                         a [[upstream.route]] says which are the operator's own"
                    );
                });
            }
        }
        push(&mut text, &["Server-Timing: ", &timing(self.source, self.wait), "\r\n"]);
        text.push_str(if self.keeps_alive {
            "Connection: keep-alive\r\n\r\n"
        } else {
            "Connection: close\r\n\r\n"
        });
        text
    }
}

/// How long the answer waited for its first byte, and for what (Server Timing, §3): an object that is packaged here was
/// held until it was made; a recorded one was read; of one from upstream servers it says what was found of it here.
fn timing(source: ObjectSource, wait: Duration) -> String {
    let ms = wait.as_secs_f64() * 1e3;
    match source {
        ObjectSource::Packaged => format!("hold;dur={ms:.1}"),
        ObjectSource::Recorded => format!("archive;dur={ms:.1}"),
        ObjectSource::Upstream(status) => {
            let waits_for = if status == CacheStatus::Disk { "disk" } else { "origin" };
            format!("cache;desc=\"{}\", {waits_for};dur={ms:.1}", status.name())
        }
    }
}

fn push(text: &mut String, words: &[&str]) {
    words.iter().for_each(|word| text.push_str(word));
}

/// By what an object came, how old it is, and what was found of it here (RFC 9110 §7.6.3, RFC 9111 §5.1, RFC 9211).
fn push_cached(text: &mut String, found: CacheStatus, age: Option<Duration>) {
    let found = match found {
        CacheStatus::Hit => "hit",
        CacheStatus::Stale => "hit; detail=stale",
        CacheStatus::Disk => "hit; detail=disk",
        CacheStatus::Joined => "fwd=miss; collapsed",
        CacheStatus::Miss => "fwd=miss",
    };
    push(text, &["Via: 1.1 ", PSEUDONYM, "\r\nCache-Status: ", PSEUDONYM, "; ", found, "\r\n"]);
    if let Some(age) = age {
        push(text, &["Age: ", &age.as_secs().to_string(), "\r\n"]);
    }
}

/// Fields that all answers of streams have, but for those that the object has itself. Pages that are the operator's own are not
/// kept from running.
fn push_common(text: &mut String, head: &Head, settings: &Settings, is_own: bool) {
    let common = shared_with(settings, guarded(Response::new(200)));
    for (name, value) in &common.headers {
        let is_left = is_own && (*name, &**value) == SANDBOX;
        if head.field(name).is_none() && !is_left {
            push(text, &[name, ": ", value, "\r\n"]);
        }
    }
}
