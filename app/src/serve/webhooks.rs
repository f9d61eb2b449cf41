//! The alarms' way to the receivers of webhooks.

use glassline_delivery::watch::{AlarmEvent, State};
use glassline_media::Utc;
use glassline_relay::webhook::{ReceiverStatus, Settings, WebhookSender};
use glassline_watch::Entry;
use serde::Serialize;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An alarm as receivers get it.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    event: &'a AlarmEvent,
    /// For `GET /api/alarms/pictures/ID`.
    #[serde(skip_serializing_if = "Option::is_none")]
    picture: Option<&'a str>,
}

/// What sends them, while the configuration names receivers.
#[derive(Debug, Default)]
pub(crate) struct Webhooks(Mutex<Option<(Settings, WebhookSender)>>);

impl Webhooks {
    fn lock(&self) -> MutexGuard<'_, Option<(Settings, WebhookSender)>> {
        // One is put in the other's place at once.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends to what `settings` name from now on. Where they are as before, what waits goes on; otherwise it is lost.
    ///
    /// # Errors
    /// No thread, or no authority to trust.
    pub(crate) fn configure(&self, settings: Option<Settings>) -> std::io::Result<()> {
        if self.lock().as_ref().map(|(settings, _)| settings) == settings.as_ref() {
            return Ok(());
        }
        // Not under the lock, for which the thread that watches would wait.
        let other = match settings {
            Some(settings) => Some((settings.clone(), WebhookSender::start(settings)?)),
            None => None,
        };
        let former = std::mem::replace(&mut *self.lock(), other);
        drop(former);
        Ok(())
    }

    /// Has an alarm sent to all receivers. Returns at once.
    pub(crate) fn tell(&self, entry: &Entry, at: Utc) {
        let Entry { event, picture, .. } = entry;
        let kind = match event.state {
            State::Begun => "alarm.begun",
            State::Over => "alarm.over",
        };
        if let Some((_, sender)) = &*self.lock()
            && let Err(error) = sender.send(kind, at, &Told { event, picture: picture.as_deref() })
        {
            tracing::warn!("no webhook tells of the alarm: {error}");
        }
    }

    /// How each receiver fares.
    pub(crate) fn status(&self) -> Vec<ReceiverStatus> {
        self.lock().as_ref().map_or_else(Vec::new, |(_, sender)| sender.status())
    }
}
