//! What the program that supervises the server is told (`sd_notify(3)`): systemd, or another that sets `NOTIFY_SOCKET`. Where
//! none does, nothing is said.

use sd_notify::NotifyState;

/// The server can be asked.
pub(super) fn tell_ready() {
    tell(NotifyState::Ready);
}

/// The process of this number is the server from now on. Only the process that was it is believed, and only before it ends:
/// else its end would count as the server's.
pub(super) fn tell_successor(process: u32) {
    tell(NotifyState::MainPid(process));
}

/// The server ends.
pub(super) fn tell_ending() {
    tell(NotifyState::Stopping);
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the supervisor at NOTIFY_SOCKET cannot be told");
    }
}
