//! What happens to a running server from outside: signals, and new programs that come to take over.

use super::service::Service;
use super::{succession, supervisor};
use crate::config::Config;
use anyhow::Result;
use glassline_engine::relay::DrainingTls;
use glassline_io::handover::{Channel, Meeting};
use glassline_io::{privileges, process};
use signal_hook::consts::{SIGHUP, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io::ErrorKind;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long a predecessor may take to end.
const MEETING_TRIES: u32 = 500;
/// After these it is looked who holds the place to meet.
const MEETING_TRIES_OF_OTHERS: u32 = 25;
const MEETING_RETRY: Duration = Duration::from_millis(20);

enum Event {
    Signal(i32),
    /// A new program wants to take over. Whether it has, is to be told.
    Successor(Channel, Sender<bool>),
    /// The last connection whose TLS stayed here has ended.
    Drained,
}

/// Lives until it is told to end, or has been taken over from. `configuration` reads it again.
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
                    tracing::info!(process = successor.id(), "a new program starts and takes over");
                    watch(successor, Arc::clone(&is_replaced));
                }
                Err(error) => tracing::error!("no new program: {error:#}"),
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
                        // The place to meet is the new program's now. Who waits there hears it in any case.
                        let _ = verdict.send(true);
                        drop(service);
                        return drain(draining, events, &happened);
                    }
                    Err(error) => tracing::error!("nobody has taken over, all goes on: {error:#}"),
                }
            }
            Event::Drained => {}
        }
    }
    supervisor::tell_ending();
    service.end();
    Ok(())
}

/// Lives on for connections whose TLS the new program cannot have.
fn drain(draining: DrainingTls, events: Sender<Event>, happened: &Receiver<Event>) -> Result<()> {
    let connections = draining.connections();
    if connections == 0 {
        tracing::info!("a new program has taken over; ending");
        return Ok(());
    }
    tracing::info!(connections, "a new program has taken over; their TLS goes on here until they end");
    let draining = Arc::new(draining);
    let waiting = Arc::clone(&draining);
    thread::Builder::new().name("drain".into()).spawn(move || {
        waiting.wait();
        // Nobody listens any more where the process ends.
        let _ = events.send(Event::Drained);
    })?;
    for event in happened {
        match event {
            Event::Drained => break,
            Event::Signal(SIGHUP | SIGUSR2) => {
                tracing::info!("a new program has taken over: it is the one to be told");
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

/// Lets new programs come, until one has taken over.
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

/// The predecessor holds the place to meet until it has ended, which it does in a moment.
fn open_meeting(name: &str) -> Option<Meeting> {
    for tries in 1..=MEETING_TRIES {
        match Meeting::open(name) {
            Ok(meeting) => return Some(meeting),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                // Asked once: where it is a server, it sees somebody come and go.
                let holder = (tries == MEETING_TRIES_OF_OTHERS).then(|| Meeting::holder(name)).flatten();
                if let Some((user, process)) = holder.filter(|(user, _)| is_foreign(*user)) {
                    let user = privileges::name(user);
                    tracing::warn!(
                        name,
                        user,
                        process,
                        "no new program can take over: a process of another user holds the place to meet, an \
                         abstract socket of this name; end that process and start this server anew"
                    );
                    return None;
                }
                thread::sleep(MEETING_RETRY);
            }
            Err(error) => {
                tracing::warn!(%error, "no new program can take over");
                return None;
            }
        }
    }
    tracing::warn!(name, "no new program can take over: another server holds the place to meet");
    None
}

/// Whether a user is neither ours nor root, who may well be our predecessor.
fn is_foreign(user: u32) -> bool {
    user != 0 && user != process::user()
}

/// Takes note of a new program that fails. One that does not is its own master.
fn watch(mut successor: Child, has_taken_over: Arc<AtomicBool>) {
    let watching = thread::Builder::new().name("successor".into()).spawn(move || match successor.wait() {
        Ok(_) if has_taken_over.load(Ordering::Acquire) => {}
        Ok(status) => tracing::error!(%status, "the new program has ended"),
        Err(error) => tracing::error!(%error, "cannot watch the new program"),
    });
    if let Err(error) = watching {
        tracing::warn!(%error, "cannot watch the new program");
    }
}
