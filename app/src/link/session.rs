//! The run of a session: signals end it, its events go to the log, its figures to the statistics, and its errors get advice.

use super::discovery::Wanted;
use super::ends::{self, Ends};
use super::json_lines::JsonLines;
use super::stats::{Stats, Told};
use crate::failure;
use crate::output::ReaderGone;
use crate::stop::{Second, StopSignals};
use anyhow::Result;
use glassline_call::direct::LipSync;
use glassline_call::link::Endpoint;
use glassline_call::link::session::{self, Channel, Error, Extent, Mode, Service, Session, SessionEvent};
use glassline_io::resolve;
use glassline_media::printable;
use glassline_transport::link::CloseReason;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often figures are reported.
const TICK: Duration = Duration::from_secs(1);

/// A listener that is connected to, as it was given.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) name: String,
    /// The name by which it was found in the network, and may be found elsewhere.
    pub(crate) wanted: Option<Wanted>,
}

impl Remote {
    /// Where it is now, if that can be found out: a name is looked for, or resolved anew. May take seconds.
    fn look_again(&self, resolve: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>>) -> Vec<SocketAddr> {
        match (&self.wanted, ends::host_and_port(&self.name)) {
            (Some(wanted), _) => wanted.look_again().into_iter().collect(),
            (None, Some((host, port))) => match resolve(host, port) {
                Ok(found) => resolve::in_turns(&found),
                // It was there before: the resolver is away with the network, as it may be.
                Err(error) => {
                    tracing::debug!(host, "the name is not resolved anew: {error}");
                    Vec::new()
                }
            },
            (None, None) => Vec::new(),
        }
    }
}

/// A run that is about to begin.
pub(crate) struct Run {
    channels: Vec<Channel>,
    services: Vec<Arc<dyn Service>>,
    extent: Extent,
    stats: Stats,
}

impl Run {
    /// Of these ends; `extra` is told beside the link's figures. `pictures` says which picture is on screen, where some are shown.
    pub(crate) fn new(
        ends: Vec<Ends>,
        stats: Option<&Path>,
        extra: Option<Told>,
        pictures: Option<Arc<LipSync>>,
    ) -> Result<Run> {
        let stats = Stats::new(stats, extra, pictures.clone())?;
        let channel = |Ends { channel, input, output, telemetry }: Ends| {
            let mut opened = Channel::new(channel.id, channel.options);
            let read = channel.input.as_ref().map(|end| (end, channel.framing_of(end)));
            let written = channel.output.as_ref().map(|end| (end, channel.framing_of_output(end)));
            opened.sends = ends::continuity(&channel, read);
            opened.takes = ends::continuity(&channel, written);
            opened.needs_stamps = channel.json || channel.has_klv() || channel.options.stamped;
            if let Some(input) = input {
                opened = opened.with_input(input);
            }
            opened.output = output.map(|output| match channel.json {
                true => Box::new(JsonLines::new(output, pictures.clone())) as Box<dyn session::Output>,
                false => Box::new(output) as _,
            });
            if let Some((telemetry, format)) = telemetry.zip(channel.klv) {
                let beside = opened.output.take();
                opened = opened.with_output(telemetry.input(channel.id, format, beside));
            }
            opened
        };
        let channels = ends.into_iter().map(channel).collect();
        Ok(Run { channels, services: Vec::new(), extent: Extent::default(), stats })
    }

    /// One that ends with its services, whatever channels have still to send.
    #[must_use]
    pub(crate) fn ending_with_services(self) -> Run {
        Run { extent: Extent::Services, ..self }
    }

    /// With a service beside the channels.
    #[must_use]
    pub(crate) fn with_service(mut self, service: Arc<dyn Service>) -> Run {
        self.services.push(service);
        self
    }

    /// Runs to the end.
    pub(crate) fn run(
        mut self,
        endpoint: Endpoint,
        mode: Mode,
        remote: Option<&Remote>,
        signals: StopSignals,
    ) -> Result<()> {
        let has_services = !self.services.is_empty();
        let session = Session::open_with(endpoint, mode, self.channels, self.services, self.extent)?;
        let stopper = session.stopper();
        let mut is_first = true;
        signals.call(Second::Asks, move |signal| {
            if std::mem::take(&mut is_first) {
                tracing::info!(signal, "ending");
            }
            stopper.stop();
        })?;
        let mut tick = Instant::now() + TICK;
        let mut is_ending = false;
        let mut reported = Ok(());
        loop {
            let event = session.next_event(tick.saturating_duration_since(Instant::now()));
            let mut figures = None;
            match event {
                Some(SessionEvent::Ended) => break,
                Some(SessionEvent::Finished { statistics }) => figures = Some(statistics),
                Some(SessionEvent::Ending { statistics }) => {
                    is_ending = true;
                    if !(statistics.is_empty() && self.stats.has_reported())
                        && let Err(error) = self.stats.report(&statistics)
                    {
                        tracing::warn!("{error:#}");
                    }
                }
                Some(event) => log(&session, remote, event),
                None => {}
            }
            if tick <= Instant::now() {
                tick = Instant::now() + TICK;
                if figures.is_none() && !is_ending && self.stats.is_wanted() {
                    figures = Some(session.statistics());
                }
            }
            if let Some(figures) = figures.filter(|_| reported.is_ok()) {
                reported = self.stats.report(&figures);
                if reported.is_err() {
                    session.stopper().stop();
                }
            }
        }
        let ended = session.join().map_err(|error| failed(error, remote, has_services));
        reported.and(ended)
    }
}

const SILENCE: &str = "is the listener running, is its port open, is the key the same? With a wrong key there is no \
                       answer, nor over a path that does not carry datagrams of 1200 bytes";

const NAME_ADVICE: &str =
    "a clone of this machine may be there: give one of them its own --name (with key pairs: its own key)";

const TORN_ADVICE: &str = "begin anew: what is there of it may have a gap or end too early";

fn torn(channel: u8, peer: &str) -> String {
    format!(
        "channel {channel}: not everything can have arrived: the link with {peer} was lost, and the other end has not kept \
         what it had of it"
    )
}

fn name_taken(remote: Option<&Remote>) -> String {
    let name = remote.map_or("the listener", |remote| &remote.name);
    format!("{name} has another peer of this name or key, on another machine, which answers")
}

fn nobody_answers(remote: Option<&Remote>) -> String {
    format!("{} does not answer", remote.map_or("the listener", |remote| &remote.name))
}

/// The error with advice for people. Beside services the failure of a channel's output did not end the link.
fn failed(error: Error, remote: Option<&Remote>, has_services: bool) -> anyhow::Error {
    match error {
        Error::Unreachable { was_up: false } => failure::failed(nobody_answers(remote), SILENCE),
        Error::Unreachable { was_up: true } => failure::failed(
            format!("{} any more, and has not within --connect-timeout", nobody_answers(remote)),
            "is the other end still running, and is there a path to it? Without --connect-timeout it is retried forever",
        ),
        Error::Unheard => failure::failed(
            format!(
                "{} does not answer any more, and has not said that it has all that was sent",
                remote.map_or("the listener", |remote| &remote.name)
            ),
            "is it still running? Its own log tells what it has got",
        ),
        Error::Refused => failure::failed(name_taken(remote), NAME_ADVICE),
        Error::Replaced => failure::failed(
            format!(
                "another process with the same name or key has connected{} from this machine and replaced this one",
                remote.map_or_else(String::new, |remote| format!(" to {}", remote.name))
            ),
            "stop one of the two, or give each its own --name (with key pairs: its own key)",
        ),
        Error::Torn { channel, peer } => failure::failed(torn(channel, &printable::line(&peer)), TORN_ADVICE),
        Error::OutputClosed { .. } | Error::ServiceClosed => ReaderGone.into(),
        Error::Output { .. } if has_services => {
            failure::failed(error.to_string(), "nothing was written there from then on")
        }
        Error::Input { .. } | Error::Output { .. } | Error::Send { .. } | Error::Service(_) => {
            failure::failed(error.to_string(), "the link is ended")
        }
        error => error.into(),
    }
}

/// Says what has happened; a listener that was found by name is looked for again where it does not answer.
fn log(session: &Session, remote: Option<&Remote>, event: SessionEvent) {
    match event {
        SessionEvent::Connected { peer, address, again, shares_dictionary } => {
            let name = || remote.map_or_else(String::new, |remote| remote.name.clone());
            let address = address.map_or_else(name, |address| address.to_string());
            if again {
                tracing::info!(peer, address, "the link is up again; what was on its way is lost");
            } else {
                tracing::info!(peer, address, "the link is up");
            }
            if shares_dictionary == Some(false) {
                tracing::warn!(
                    peer,
                    "the two ends have different dictionaries, or one has none; messages are compressed without one; give \
                     both the same --dictionary"
                );
            }
        }
        SessionEvent::Unreachable { was_up } => {
            let what = nobody_answers(remote);
            if was_up {
                tracing::warn!("{what} any more; trying again");
            } else {
                tracing::warn!("{what}; {SILENCE}; trying again");
            }
            look_again(session, remote);
        }
        SessionEvent::Lost { peer, reason } => {
            log_lost(&peer, &reason);
            if reason == CloseReason::TimedOut {
                look_again(session, remote);
            }
        }
        SessionEvent::Refused { retry_after } => {
            let after_s = format_args!("{:.1}", retry_after.as_secs_f64()).to_string();
            tracing::warn!(after_s, "{}; trying again; {NAME_ADVICE}", name_taken(remote));
        }
        SessionEvent::Silent { peer, reason } => {
            if reason == CloseReason::Reset {
                tracing::warn!(peer, "the peer does not know the link any more; connecting again");
            } else {
                tracing::warn!(
                    peer,
                    "nothing comes from the peer any more; what is on its way waits for its return"
                );
            }
            look_again(session, remote);
        }
        SessionEvent::Resumed { peer, address } => {
            let address = address.map_or_else(String::new, |address| address.to_string());
            tracing::info!(peer, address, "the link is up again, and goes on where it was");
        }
        SessionEvent::Torn { peer, channel } => {
            tracing::error!("{}", torn(channel, &peer));
        }
        SessionEvent::Reconnecting => tracing::info!("connecting again"),
        SessionEvent::RemoteChanged(address) => log_moved(remote, address),
        SessionEvent::PathChanged { peer, address } => {
            tracing::info!(peer, %address, "the peer's address has changed");
        }
        SessionEvent::PathUp { peer, address } => tracing::info!(peer, %address, "a further path is there"),
        SessionEvent::PathDown { peer, address } => {
            tracing::warn!(peer, %address, "a path has gone; the other one goes on");
        }
        SessionEvent::PathTooNarrow { peer, address } => tracing::error!(
            peer,
            %address,
            "the path carries small datagrams, but none of the 1200 bytes that a link needs: larger messages do not \
             arrive; give its interfaces and tunnels an MTU of 1228 bytes or more (IPv6: 1280)"
        ),
        SessionEvent::OutputFailed { error } => {
            tracing::error!("{error}; what comes for it is dropped, and the rest of the link goes on");
        }
        SessionEvent::NoOutput { channel } => tracing::warn!(
            channel,
            "the peer sends on a channel that has no output here; what comes is dropped; --channel {channel}:out=…"
        ),
        SessionEvent::Unstamped { peer, channel } => tracing::warn!(
            peer,
            channel,
            "the peer's messages on this channel come without the times at which they were read: give it `stamped` in its \
             --channel, or bring it to this version"
        ),
        SessionEvent::StampsNotTaken { peer } => tracing::warn!(
            peer,
            "the peer's version knows of no times of messages: those of `stamped` channels go without; bring it to this version"
        ),
        SessionEvent::Dropped { peer, messages } => {
            tracing::warn!(peer, messages, "messages arrived for channels that have no output");
        }
        _ => {}
    }
}

fn log_moved(remote: Option<&Remote>, address: SocketAddr) {
    let name = remote.map_or("", |remote| &remote.name);
    let name = Wanted::parse(name).unwrap_or(name);
    tracing::info!(name, %address, "the listener is at another address now");
}

fn log_lost(peer: &str, reason: &CloseReason) {
    match reason {
        CloseReason::Unreachable | CloseReason::Refused | CloseReason::Local => {}
        CloseReason::Peer { reason, .. } => {
            tracing::info!(peer, reason, "the peer has ended the link");
        }
        CloseReason::TimedOut => tracing::warn!(peer, "nothing comes from the peer any more"),
        CloseReason::Reset => tracing::warn!(peer, "the peer has restarted; connecting again"),
        CloseReason::NoRoom => tracing::error!(
            peer,
            "all links together hold more than there is room for, and this one most; it has ended: are its outputs taken from?"
        ),
        CloseReason::Fault => {
            tracing::error!(peer, "an internal fault has ended the link; the lines above say what it was");
        }
        CloseReason::Violation(what) => tracing::error!(peer, "the peer breaks the protocol: {what}"),
    }
}

/// Looks whether a listener that was found by name is somewhere else now.
fn look_again(session: &Session, remote: Option<&Remote>) {
    let Some(remote) = remote.cloned() else { return };
    let set_remote = session.remote_setter();
    std::thread::spawn(move || {
        let found = remote.look_again(resolve::resolve);
        if !found.is_empty() {
            set_remote(found);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_resolved_anew_and_a_number_is_not() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        let remote = |name: &str| Remote { name: name.to_owned(), wanted: None };
        let moved = addresses(&["[2001:db8::7]:7000", "[2001:db8::8]:7000", "192.0.2.7:7000"]);
        let found = remote("ground.example:7000").look_again(|host, port| {
            assert_eq!((host, port), ("ground.example", 7000));
            Ok(moved.clone())
        });
        assert_eq!(found, [moved[0], moved[2], moved[1]]);
        let away = remote("ground:7000").look_again(|_, _| Err(io::ErrorKind::NotFound.into()));
        assert_eq!(away, []);
        for number in ["192.0.2.1:7000", "[2001:db8::7]:7000"] {
            assert_eq!(remote(number).look_again(|_, _| unreachable!()), []);
        }
    }
}
