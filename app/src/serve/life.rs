//! Events from outside that a running server handles: signals, and new processes that take over from it.

use super::service::Service;
use super::{succession, supervisor};
use crate::config::Config;
use anyhow::Result;
use glassline_io::handover::{Channel, Meeting};
use glassline_io::{privileges, process};
use glassline_relay::DrainingTls;
use signal_hook::consts::{SIGHUP, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io::ErrorKind;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// How often a new server tries to open the hand-over socket, which its predecessor holds until it has ended: for 10 s.
const MEETING_TRIES: u32 = 500;
/// After this many tries the server checks which user holds the socket.
const MEETING_TRIES_OF_OTHERS: u32 = 25;
const MEETING_RETRY: Duration = Duration::from_millis(20);

enum Event {
    Signal(i32),
    /// A new process wants to take over. The sender gets whether it did.
    Successor(Channel, Sender<bool>),
    /// The last connection for which this process was the TLS proxy has ended.
    Drained,
}

/// Runs the server until a signal ends it or a new process has taken over. `configuration` reads the configuration
/// again.
pub(super) fn live(
    mut service: Service,
    mut signals: Signals,
    configuration: impl Fn() -> Result<Config>,
) -> Result<()> {
    let (events, happened) = channel();
    let of_signals = events.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if of_signals.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    let name = service.meeting_name();
    wait_for_successors(name.clone(), events.clone())?;
    let is_replaced = Arc::new(AtomicBool::new(false));
    for event in &happened {
        match event {
            Event::Signal(SIGHUP) => match configuration().and_then(|config| service.reload(config)) {
                Ok(()) => tracing::info!("the configuration was read again"),
                Err(error) => tracing::error!("the configuration stays as it was: {error:#}"),
            },
            Event::Signal(SIGUSR2) => match succession::start_successor(&name) {
                Ok(successor) => {
                    tracing::info!(process = successor.id(), "a new process starts and takes over");
                    watch(successor, Arc::clone(&is_replaced));
                }
                Err(error) => tracing::error!("no new process: {error:#}"),
            },
            Event::Signal(signal) => {
                tracing::info!(signal, "ending");
                break;
            }
            Event::Successor(channel, verdict) => {
                let successor = channel.peer().map_or(0, |(_, process)| process);
                match succession::receive(channel).and_then(|channel| service.hand_over(channel)) {
                    Ok(draining) => {
                        is_replaced.store(true, Ordering::Release);
                        supervisor::tell_successor(successor);
                        // Ends the thread that waits for new processes, so that the hand-over socket is free for the
                        // new one. That thread holds the receiver, so the send does not fail.
                        let _ = verdict.send(true);
                        drop(service);
                        return drain(draining, events, &happened);
                    }
                    Err(error) => tracing::error!("no new process took over, this one continues: {error:#}"),
                }
            }
            Event::Drained => {}
        }
    }
    supervisor::tell_ending();
    service.end();
    Ok(())
}

/// Keeps the process running as the TLS proxy of its connections, because TLS sessions cannot be moved.
fn drain(draining: DrainingTls, events: Sender<Event>, happened: &Receiver<Event>) -> Result<()> {
    let connections = draining.connections();
    if connections == 0 {
        tracing::info!("a new process has taken over; ending");
        return Ok(());
    }
    tracing::info!(connections, "a new process has taken over; this one is their TLS proxy until they end");
    let draining = Arc::new(draining);
    let waiting = Arc::clone(&draining);
    thread::Builder::new().name("drain".into()).spawn(move || {
        waiting.wait();
        // The receiver is gone if the process is ending.
        let _ = events.send(Event::Drained);
    })?;
    for event in happened {
        match event {
            Event::Drained => break,
            Event::Signal(SIGHUP | SIGUSR2) => {
                tracing::info!("a new process has taken over; send the signal to that one");
            }
            Event::Signal(signal) => {
                tracing::info!(signal, connections = draining.connections(), "ending");
                draining.end();
            }
            Event::Successor(..) => {}
        }
    }
    tracing::info!("the last connection over TLS has ended; ending");
    Ok(())
}

/// Accepts new processes until one has taken over.
fn wait_for_successors(name: String, events: Sender<Event>) -> Result<()> {
    thread::Builder::new().name("successors".into()).spawn(move || {
        let Some(meeting) = open_meeting(&name) else { return };
        while let Ok(successor) = meeting.accept() {
            let (verdict, has_taken_over) = channel();
            let told = events.send(Event::Successor(successor, verdict));
            if told.is_err() || has_taken_over.recv() == Ok(true) {
                return;
            }
        }
    })?;
    Ok(())
}

/// Opens the hand-over socket. The predecessor holds it until it ends, which takes a moment.
fn open_meeting(name: &str) -> Option<Meeting> {
    for tries in 1..=MEETING_TRIES {
        match Meeting::open(name) {
            Ok(meeting) => return Some(meeting),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                // Asked only once, because a server that holds the socket takes the query for a client that connects
                // and leaves.
                let holder = (tries == MEETING_TRIES_OF_OTHERS).then(|| Meeting::holder(name)).flatten();
                if let Some((user, process)) = holder.filter(|(user, _)| is_foreign(*user)) {
                    let user = privileges::name(user);
                    tracing::warn!(
                        name,
                        user,
                        process,
                        "no new process can take over: a process of another user holds the hand-over socket, an \
                         abstract socket of this name; end that process and restart this server"
                    );
                    return None;
                }
                thread::sleep(MEETING_RETRY);
            }
            Err(error) => {
                tracing::warn!(%error, "no new process can take over");
                return None;
            }
        }
    }
    tracing::warn!(name, "no new process can take over: another server holds the hand-over socket");
    None
}

/// Whether `user` is neither our own user nor root: a predecessor of ours runs as one of these.
fn is_foreign(user: u32) -> bool {
    user != 0 && user != process::user()
}

/// Logs if the new process fails. If it takes over, it is on its own.
fn watch(mut successor: Child, has_taken_over: Arc<AtomicBool>) {
    let watching = thread::Builder::new().name("successor".into()).spawn(move || match successor.wait() {
        Ok(_) if has_taken_over.load(Ordering::Acquire) => {}
        Ok(status) => tracing::error!(%status, "the new process has ended"),
        Err(error) => tracing::error!(%error, "cannot watch the new process"),
    });
    if let Err(error) = watching {
        tracing::warn!(%error, "cannot watch the new process");
    }
}
