//! One name, put together from what all workers have seen of it.

use super::{WINDOW, WINDOWS, Window, window_at};
use glassline_media::Time;
use std::time::Duration;

/// The last ten minutes of one name.
#[derive(Clone, Debug)]
pub struct Summary {
    now: Time,
    since: Time,
    /// The oldest first, the running one last.
    windows: Vec<Option<Window>>,
}

impl Summary {
    /// Nothing yet, as of `now`.
    pub fn new(now: Time) -> Summary {
        Summary { now, since: now, windows: vec![None; WINDOWS] }
    }

    /// It was asked for at `since`.
    pub(super) fn begins(&mut self, since: Time) {
        self.since = self.since.min(since);
    }

    /// Adds a window by its number; one of another time is left out.
    pub(super) fn add(&mut self, number: u64, window: &Window) {
        let age = window_at(self.now).checked_sub(number).and_then(|age| usize::try_from(age).ok());
        let place =
            age.and_then(|age| (WINDOWS - 1).checked_sub(age)).and_then(|at| self.windows.get_mut(at));
        if let Some(place) = place {
            place.get_or_insert_with(Window::default).add(window);
        }
    }

    /// [`WINDOWS`] of them, the oldest first, the running one last; `None` where there were no requests.
    pub fn windows(&self) -> impl Iterator<Item = Option<&Window>> {
        self.windows.iter().map(Option::as_ref)
    }

    /// The newest `count` windows, the running one among them, as one.
    pub fn newest(&self, count: usize) -> Window {
        let mut all = Window::default();
        self.windows.iter().rev().take(count).flatten().for_each(|window| all.add(window));
        all
    }

    /// How long the newest `count` windows are so far, or since the name was first asked for; never nothing.
    pub fn covered(&self, count: usize) -> Duration {
        let before = WINDOW * count.saturating_sub(1) as u32;
        let into_window = Duration::from_nanos(self.now.as_nanos() % WINDOW.as_nanos() as u64);
        (before + into_window).min(self.now.since(self.since)).max(Duration::from_secs(1))
    }

    /// How long ago the running window began.
    pub fn running(&self) -> Duration {
        Duration::from_nanos(self.now.as_nanos() % WINDOW.as_nanos() as u64)
    }
}
