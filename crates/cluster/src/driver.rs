//! The thread of the cluster: hears the registry, and does what [`Ownership`](glassline_delivery::ownership::Ownership) asks for.

use crate::Settings;
use crate::bucket::{Bucket, BucketError, Told, value_of};
use crate::member::{Member, Server};
use async_nats::jetstream::kv::{Entry, Watch, WatcherError};
use futures_util::{FutureExt, StreamExt};
use glassline_delivery::ownership::{Answer, CarriageEntry, Key, NodeEntry, Output, StreamEntry};
use glassline_delivery::policy::StreamName;
use glassline_media::Time;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Publishers that have gone are noticed so soon. One that comes wakes the thread.
const LOOK: Duration = Duration::from_millis(100);
/// A registry of which nothing came for so long is not heard: this server's own lease comes back as news each 0.4 s. It has to be
/// shorter than the lease, so that silence of the registry is not taken for the end of all other nodes.
const SILENCE: Duration = Duration::from_millis(1000);
/// After a failure the registry is tried again so much later, at first and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];
/// How long the others may take to hear that this server leaves.
const LEAVE: Duration = Duration::from_millis(500);
/// The same error is told again after so many attempts.
const TOLD_AGAIN: u32 = 60;
/// Entries that are taken in a row before anything else is looked at.
const ENTRIES_A_TURN: usize = 256;
/// Servers of this one's name that are told from one another at most.
const TWINS_MAX: usize = 4;
/// Why a registry is not heard that says nothing.
const NO_NEWS: &str = "no news have come for a second, not even of this server's own entry";
/// Keys that are told of as unread at most.
const TOLD_KEYS_MAX: usize = 256;

/// See the module.
pub(crate) struct Driver<'a> {
    settings: &'a Settings,
    member: &'a Arc<Member>,
    server: &'a Weak<dyn Server>,
    /// Why the registry was not heard, as it was last told, and how often that has been so since.
    told: Option<(String, u32)>,
    told_keys: BTreeSet<String>,
    /// Other runs under this server's name, and how often each was heard; the newest last.
    twins: VecDeque<(u64, u32)>,
}

/// An address without the key that it may have.
struct NoKey<'a>(&'a str);

impl fmt::Display for NoKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.parse::<glassline_delivery::http1::Url>() {
            Ok(url) => url.fmt(f),
            Err(_) => f.write_str("no URL"),
        }
    }
}

/// The answers of the registry, each with the number of its request.
struct Answers {
    sender: UnboundedSender<(u64, Answer)>,
    receiver: UnboundedReceiver<(u64, Answer)>,
}

/// A connection to NATS while the bucket is heard.
struct Session {
    bucket: Bucket,
    watch: Watch,
    answers: Answers,
    told: UnboundedReceiver<Told>,
    /// All entries have come that there were.
    is_listed: bool,
    /// This server's own lease has come back as news.
    has_own: bool,
    /// When it last did. Until all is listed that there was, any entry counts: the lease was written behind them.
    heard_at: Time,
    /// What the server of NATS has said against this one.
    last_error: Option<String>,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        member: &'a Arc<Member>,
        server: &'a Weak<dyn Server>,
    ) -> Driver<'a> {
        Driver { settings, member, server, told: None, told_keys: BTreeSet::new(), twins: VecDeque::new() }
    }

    /// Hears the registry until this server ends.
    pub(crate) async fn run(mut self) {
        let [mut wait, longest] = RETRY;
        // This may be a beginning after a panic.
        let now = self.now();
        self.member.ownership().handle_connection(false, now);
        while !self.member.is_over() {
            match self.open().await {
                Ok(mut session) => {
                    let error = self.hear(&mut session).await;
                    let now = self.now();
                    self.member.ownership().handle_connection(false, now);
                    if session.is_listed && session.has_own {
                        wait = RETRY[0];
                        self.told = None;
                    }
                    error.into_iter().for_each(|error| self.tell(error));
                }
                Err(error) => self.tell(error.to_string()),
            }
            self.rest(wait).await;
            wait = (wait * 2).min(longest);
        }
    }

    fn now(&self) -> Time {
        self.member.clock.now()
    }

    /// The registry is not heard, for this reason.
    fn tell(&mut self, error: String) {
        self.member.registry().error = Some(error.clone());
        match &mut self.told {
            Some((told, count)) if *told == error && *count < TOLD_AGAIN => *count += 1,
            _ => {
                tracing::warn!(
                    %error,
                    "the cluster's registry is not heard: what runs goes on, and streams are found by what was heard last"
                );
                self.told = Some((error, 1));
            }
        }
    }

    /// Waits for `time` without the registry.
    async fn rest(&mut self, time: Duration) {
        let until = self.now() + time;
        while self.now() < until && !self.member.is_over() {
            let left = until.since(self.now()).min(LOOK);
            let _ = tokio::time::timeout(left, self.member.news.notified()).await;
            self.settle(None);
            self.look();
        }
    }

    async fn open(&mut self) -> Result<Session, BucketError> {
        let (sender, told) = unbounded_channel();
        let open = Bucket::open(self.settings, sender);
        tokio::pin!(open);
        let (bucket, watch) = loop {
            tokio::select! {
                opened = &mut open => break opened?,
                () = self.member.news.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            if self.member.is_over() {
                return Err(BucketError::Connect("this server ends".to_owned()));
            }
            self.settle(None);
            self.look();
        };
        let mut registry = self.member.registry();
        registry.server = Some(bucket.server.clone());
        registry.sessions = registry.sessions.saturating_add(1);
        drop(registry);
        let now = self.now();
        self.member.ownership().handle_connection(true, now);
        let (sender, receiver) = unbounded_channel();
        let answers = Answers { sender, receiver };
        Ok(Session {
            bucket,
            watch,
            answers,
            told,
            is_listed: false,
            has_own: false,
            last_error: None,
            heard_at: now,
        })
    }

    /// Hears the registry for as long as it is there. Returns why it is not any more, or `None` where this server ends.
    async fn hear(&mut self, session: &mut Session) -> Option<String> {
        let mut look_at = self.now();
        loop {
            if self.member.is_over() {
                if !self.member.is_paused() {
                    self.leave(session).await;
                }
                return None;
            }
            let now = self.now();
            // Before anything is judged: this process may have stood still.
            if now.since(session.heard_at) >= SILENCE {
                return Some(session.last_error.take().unwrap_or_else(|| NO_NEWS.to_owned()));
            }
            // A publisher that has to go is gone before it is looked which there are.
            self.settle(Some(session));
            if now >= look_at {
                self.look();
                look_at = now + LOOK;
                self.settle(Some(session));
            }
            let due = self.member.ownership().poll_timeout().min(look_at);
            tokio::select! {
                entry = session.watch.next() => {
                    if let Err(why) = self.take_entries(session, entry) {
                        return Some(why);
                    }
                }
                answer = session.answers.receiver.recv() => {
                    if let Some((id, answer)) = answer {
                        let now = self.now();
                        self.member.ownership().handle_answer(id, answer, now);
                    }
                }
                told = session.told.recv() => match told {
                    Some(Told::Error(error)) => {
                        if session.last_error.as_ref() != Some(&error) {
                            tracing::warn!(%error, "the cluster's registry tells of an error");
                        }
                        session.last_error = Some(error);
                    }
                    Some(Told::Lost) | None => return Some("its connection is lost".to_owned()),
                },
                () = self.member.news.notified() => look_at = now,
                () = tokio::time::sleep(due.since(now)) => {}
            }
            let now = self.now();
            if now.since(session.heard_at) < SILENCE {
                self.member.ownership().handle_timeout(now);
            }
        }
    }

    /// Takes the first entry and those that have come behind it.
    ///
    /// # Errors
    /// Why no more of them come.
    fn take_entries(
        &mut self,
        session: &mut Session,
        mut entry: Option<Result<Entry, WatcherError>>,
    ) -> Result<(), String> {
        for taken in 1.. {
            match entry {
                Some(Ok(entry)) => self.take_entry(session, &entry),
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("its news have ended".to_owned()),
            }
            if taken == ENTRIES_A_TURN {
                break;
            }
            match session.watch.next().now_or_never() {
                Some(next) => entry = next,
                None => break,
            }
        }
        Ok(())
    }

    /// Notes that this server's own lease has come back as news, or that another server has its name.
    fn take_own(&mut self, session: &mut Session, value: &[u8], now: Time) {
        let Ok(written) = NodeEntry::read(value) else { return };
        if written.run == self.member.run {
            session.heard_at = now;
            session.has_own = true;
            return;
        }
        // What an earlier run of this server has left comes before, but for one entry that may have been on its way.
        if !session.has_own || written.is_leaving || !is_twin(&mut self.twins, written.run.incarnation) {
            return;
        }
        if self.member.note_twin(now) {
            let node = &self.settings.node;
            tracing::error!(%node, address = %NoKey(&written.address), "another server of the cluster has the same [cluster] node: each takes the other's streams; give one another name");
        }
    }

    fn take_entry(&mut self, session: &mut Session, entry: &Entry) {
        let now = self.now();
        if !session.is_listed {
            session.heard_at = now;
        }
        let value = value_of(entry);
        match Key::parse(&entry.key) {
            Some(key) => {
                if let (Key::Node(name), Some(value)) = (&key, value)
                    && *name == self.member.run.node
                {
                    self.take_own(session, value, now);
                }
                let unread = value.and_then(|value| match &key {
                    Key::Node(_) => NodeEntry::read(value).err(),
                    Key::Stream(_) => StreamEntry::read(value).err(),
                    Key::Carries(_) => CarriageEntry::read(value).err(),
                });
                match unread {
                    Some(error) => self.tell_unread(&entry.key, &error.to_string()),
                    None => drop(self.told_keys.remove(&entry.key)),
                }
                self.member.ownership().handle_entry(&key, value, entry.revision, now);
            }
            None => {
                let mut registry = self.member.registry();
                registry.dropped = registry.dropped.saturating_add(1);
                drop(registry);
                self.tell_unread(&entry.key, "no key of a glassline: another program writes into the bucket");
            }
        }
        if entry.seen_current && !session.is_listed {
            session.is_listed = true;
            tracing::info!(server = %session.bucket.server, bucket = %self.settings.bucket, "the cluster's registry is heard");
            self.member.ownership().handle_listed(now);
        }
    }

    fn tell_unread(&mut self, key: &str, error: &str) {
        if self.told_keys.len() < TOLD_KEYS_MAX && self.told_keys.insert(key.to_owned()) {
            tracing::warn!(
                key,
                error,
                "an entry of the cluster's registry is not read, and is left as it is"
            );
        }
    }

    /// Tells the registry's part which publishers there are, and what is pulled from others.
    pub(crate) fn look(&self) {
        let Some(server) = self.server.upgrade() else { return };
        let now = self.now();
        let publishers: BTreeSet<StreamName> = server.publishers().into_iter().collect();
        let (viewers, carried, drains) = (server.viewers(), server.carried(), server.is_draining());
        let mut ownership = self.member.ownership();
        ownership.describe(viewers, false, now);
        ownership.drain(drains, now);
        ownership.carry(carried, now);
        let known: BTreeSet<StreamName> = ownership.publishing().cloned().collect();
        for name in known.difference(&publishers) {
            ownership.release(name, now);
        }
        for name in publishers.difference(&known) {
            let takes_over = self.member.take_takeover(name, now);
            ownership.publish(name, takes_over, now);
        }
        drop(ownership);
        self.member.forget_takeovers(now);
    }

    /// Does what is asked for. Without a connection no request goes out: it counts as failed when the next one comes.
    fn settle(&self, session: Option<&Session>) {
        loop {
            let Some(output) = self.member.ownership().poll_output() else { return };
            let server = self.server.upgrade();
            match output {
                Output::Request { id, request } => {
                    let Some(Session { bucket, answers, .. }) = session else { continue };
                    let (answer, answers) = (bucket.ask(request), answers.sender.clone());
                    tokio::spawn(async move {
                        // Where the session is over its answers are of no use any more.
                        let _ = answers.send((id, answer.await));
                    });
                }
                Output::Granted { name, epoch } => {
                    tracing::info!(stream = %name, epoch, "the stream is this server's in the cluster");
                }
                Output::Refused { name, why } => {
                    tracing::warn!(stream = %name, %why, "publisher ended: the cluster does not give it the name");
                    server.iter().for_each(|server| server.give_up(&name));
                }
                Output::Lost { name, owner, epoch } => {
                    tracing::warn!(stream = %name, node = %owner, epoch, "publisher ended: another server has the stream");
                    server.iter().for_each(|server| server.give_up(&name));
                }
                Output::Moved { name } => server.iter().for_each(|server| server.follow(&name)),
            }
        }
    }

    /// Tells the others that this server ends, and gives back what it has.
    async fn leave(&self, session: &mut Session) {
        let now = self.now();
        {
            let mut ownership = self.member.ownership();
            ownership.describe(0, true, now);
            ownership.leave_carriages(now);
            for name in ownership.publishing().cloned().collect::<Vec<_>>() {
                ownership.release(&name, now);
            }
        }
        let mut waits_for = 0_usize;
        loop {
            let Some(output) = self.member.ownership().poll_output() else { break };
            if let Output::Request { id, request } = output {
                let (answer, answers) = (session.bucket.ask(request), session.answers.sender.clone());
                tokio::spawn(async move {
                    let _ = answers.send((id, answer.await));
                });
                waits_for += 1;
            }
        }
        let until = now + LEAVE;
        while waits_for > 0 && self.now() < until {
            let left = until.since(self.now());
            match tokio::time::timeout(left, session.answers.receiver.recv()).await {
                Ok(Some(_)) => waits_for -= 1,
                _ => return,
            }
        }
    }
}

/// Whether the run of this `incarnation` goes on: it has been heard before. Of many, those are forgotten that were first heard longest ago.
fn is_twin(twins: &mut VecDeque<(u64, u32)>, incarnation: u64) -> bool {
    if let Some((_, heard)) = twins.iter_mut().find(|(known, _)| *known == incarnation) {
        *heard = heard.saturating_add(1);
        return *heard > 1;
    }
    if twins.len() >= TWINS_MAX {
        twins.pop_front();
    }
    twins.push_back((incarnation, 1));
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_the_same_name_is_another_server_once_it_is_heard_again() {
        let mut twins = VecDeque::new();
        // The last entry of the process before this one comes once.
        assert_eq!([7, 8, 7, 8, 7].map(|run| is_twin(&mut twins, run)), [false, false, true, true, true]);
        assert!((100..1000).all(|run| !is_twin(&mut twins, run)) && twins.len() == TWINS_MAX);
    }
}
