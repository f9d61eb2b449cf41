//! Notifies the program that supervises the server (`sd_notify(3)`): systemd, or another one that sets
//! `NOTIFY_SOCKET`. Without that variable nothing is sent.

use sd_notify::NotifyState;

/// The server is ready for requests.
pub(super) fn tell_ready() {
    tell(NotifyState::Ready);
}

/// The process with this number is the server from now on. The supervisor accepts this only from the current server's
/// process, and only before that ends: otherwise it would take its end for the server's.
pub(super) fn tell_successor(process: u32) {
    tell(NotifyState::MainPid(process));
}

/// The server is ending.
pub(super) fn tell_ending() {
    tell(NotifyState::Stopping);
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the supervisor at NOTIFY_SOCKET cannot be told");
    }
}
