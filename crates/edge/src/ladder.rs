//! The versions of one capture, told of together: one multivariant playlist, one manifest. Their objects are those of the
//! versions' own stores, so that players of one version by its own name and players that choose among all read the same
//! ones.

use super::playlists::{PlaylistRequest, PlaylistSources, Playlists};
use super::presentation_store::{CaptureVersion, VersionObserver};
use super::{FoundObject, Wake};
use glassline_delivery::playlist::{Object, Variant};
use glassline_delivery::policy::StreamName;
use glassline_media::Time;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// The versions of one capture.
pub struct Ladder {
    state: Mutex<State>,
    wake: Arc<dyn Wake>,
    base_path: Arc<str>,
}

struct State {
    /// The best first.
    versions: Vec<CaptureVersion>,
    playlists: Playlists,
    /// When it was last looked which versions there are.
    looked: Option<Time>,
}

impl Ladder {
    /// Of no version yet. `base_path` as for [`PresentationStore::new`](super::PresentationStore::new).
    pub fn new(wake: Arc<dyn Wake>, base_path: Arc<str>) -> Ladder {
        let playlists = Playlists::new(Arc::clone(&wake), Arc::clone(&base_path));
        Ladder { state: Mutex::new(State { versions: Vec::new(), playlists, looked: None }), wake, base_path }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            // A panic has left the playlists half-written: requests that wait for them fail, and they begin anew.
            let mut state = poisoned.into_inner();
            let anew = Playlists::new(Arc::clone(&self.wake), Arc::clone(&self.base_path));
            let broken = std::mem::replace(&mut state.playlists, anew);
            self.state.clear_poison();
            drop(state);
            let mut broken = broken;
            broken.end();
            self.lock()
        })
    }

    /// When it was last looked which versions there are.
    pub fn looked(&self) -> Option<Time> {
        self.lock().looked
    }

    /// These are the versions, the best first, as was found at `now`.
    pub fn set_versions(self: &Arc<Ladder>, versions: Vec<CaptureVersion>, now: Time) {
        for version in &versions {
            let observer: Weak<Ladder> = Arc::downgrade(self);
            version.store.set_observer(observer);
        }
        let mut state = self.lock();
        state.looked = Some(now);
        let is_same = |(old, new): (&CaptureVersion, &CaptureVersion)| Arc::ptr_eq(&old.store, &new.store);
        if state.versions.len() != versions.len() || !state.versions.iter().zip(&versions).all(is_same) {
            state.versions = versions;
            state.change();
        }
    }

    /// The streams that are told of.
    pub fn names(&self) -> Vec<StreamName> {
        self.lock().versions.iter().map(|version| version.name.clone()).collect()
    }

    /// What a request for `object` with `query` comes to.
    pub fn find(&self, object: Object, query: &str, now: Time) -> FoundObject {
        use Object::{Multivariant, NumberManifest, TimelineManifest, TransportMedia};
        let is_of_all = matches!(object, Multivariant | TransportMedia | NumberManifest | TimelineManifest);
        if !is_of_all {
            return FoundObject::Unknown;
        }
        let request = match PlaylistRequest::new(object, query) {
            Ok(request) => request,
            Err(why) => return FoundObject::Bad(why),
        };
        let mut state = self.lock();
        state.versions.iter().for_each(|version| version.store.note_wanted(now));
        let State { versions, playlists, .. } = &mut *state;
        with_variants(versions, &mut |sources| playlists.find(request.clone(), sources))
    }
}

impl VersionObserver for Ladder {
    fn handle_change(&self) {
        let mut state = self.lock();
        if !state.playlists.are_idle() {
            state.change();
        }
    }
}

impl State {
    fn change(&mut self) {
        let State { versions, playlists, .. } = self;
        with_variants(versions, &mut |sources| playlists.change(sources));
    }
}

/// Looks at all versions at once: each is kept from changing while the next ones are looked at.
fn with_variants<T>(versions: &[CaptureVersion], look: &mut dyn FnMut(PlaylistSources<'_>) -> T) -> T {
    fn descend<'a, T>(
        versions: &'a [CaptureVersion],
        variants: &mut Vec<Variant<'a>>,
        look: &mut dyn FnMut(PlaylistSources<'_>) -> T,
    ) -> T {
        let Some((first, rest)) = versions.split_first() else {
            return look(PlaylistSources { variants, others: &[], mpeg_ts: None });
        };
        first.store.look(|presentation| {
            let mut variants: Vec<Variant<'_>> = variants.clone();
            variants.push(Variant { base: &first.base, presentation });
            descend(rest, &mut variants, look)
        })
    }
    descend(versions, &mut Vec::new(), look)
}

impl std::fmt::Debug for Ladder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Ladder({} versions)", self.lock().versions.len())
    }
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod tests;
