//! A viewer of a server that is emptied: its response ends in front of a key frame, so that it comes again and is sent to another server.

use super::Viewer;
use glassline_streams::Next;
use serde::{Deserialize, Serialize};

/// Why a viewer is never sent to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stays {
    /// It is a web page's, which would not follow there.
    Page,
    /// It is another server of the cluster, which knows where else to ask.
    Server,
}

/// Whether its response ends before the stream does, so that the viewer comes again and is sent to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// Never.
    Never(Stays),
    /// Not now.
    No,
    /// At the first key frame behind this offset.
    Behind(u64),
    /// At the key frame at this offset.
    At(u64),
}

/// The same in one word: of viewers there are very many.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedLeaving(u64);

impl PackedLeaving {
    /// No stream has as many bytes.
    const AT: u64 = 1 << 63;

    pub(super) fn of(leaving: Leaving) -> PackedLeaving {
        PackedLeaving(match leaving {
            Leaving::Never(Stays::Page) => u64::MAX,
            Leaving::Never(Stays::Server) => u64::MAX - 1,
            Leaving::No => u64::MAX - 2,
            Leaving::Behind(offset) => offset & !Self::AT,
            Leaving::At(offset) => (offset & !Self::AT).min(Self::AT - 4) | Self::AT,
        })
    }

    pub(super) fn get(self) -> Leaving {
        match self.0 {
            u64::MAX => Leaving::Never(Stays::Page),
            word if word == u64::MAX - 1 => Leaving::Never(Stays::Server),
            word if word == u64::MAX - 2 => Leaving::No,
            word if word & Self::AT != 0 => Leaving::At(word & !Self::AT),
            offset => Leaving::Behind(offset),
        }
    }
}

impl Viewer {
    /// The same viewer, that is never sent to another server.
    pub(crate) fn that_stays(self, why: Stays) -> Viewer {
        Viewer { leaving: PackedLeaving::of(Leaving::Never(why)), ..self }
    }

    fn set_leaving(&mut self, leaving: Leaving) {
        self.leaving = PackedLeaving::of(leaving);
    }

    /// Whether it is another server of the cluster.
    pub(crate) fn is_server(&self) -> bool {
        self.leaving.get() == Leaving::Never(Stays::Server)
    }

    /// Whether it may be sent to another server, and is not about to be.
    pub(crate) fn may_leave(&self) -> bool {
        self.leaving.get() == Leaving::No
    }

    /// Has its response end at the next key frame of its stream, behind all that is before that.
    pub(crate) fn leave_at_key_frame(&mut self) {
        self.set_leaving(Leaving::Behind(self.reader.offset()));
    }

    /// Whether it has had all up to the key frame at which it leaves.
    pub(crate) fn has_left(&self) -> bool {
        matches!(self.leaving.get(), Leaving::At(end) if self.reader.offset() >= end)
    }

    /// It goes on, where its response has not ended yet.
    pub(crate) fn stay(&mut self) {
        if !matches!(self.leaving.get(), Leaving::Never(_)) && !self.has_left() {
            self.set_leaving(Leaving::No);
        }
    }

    /// What is next for it up to where it leaves, of what is next for it in the stream. The stream's head was looked at before: a key
    /// frame is known before its bytes are given out.
    pub(super) fn until_leaving(&mut self, next: Next) -> Next {
        let offset = self.reader.offset();
        if let Leaving::Behind(from) = self.leaving.get()
            && let Some(entry) = self.live().newest_entry().filter(|entry| entry.offset > from)
        {
            let block_ends = match &self.blocks {
                Some(blocks) if !blocks.is_between(offset) => blocks.end(),
                _ => offset,
            };
            let is_ahead = entry.offset >= block_ends;
            self.set_leaving(if is_ahead {
                Leaving::At(entry.offset)
            } else {
                Leaving::Behind(entry.offset)
            });
        }
        match (self.leaving.get(), next) {
            (Leaving::No | Leaving::Never(_), next) => next,
            // It has nothing of a picture: it has just come, or was moved forward.
            (_, Next::Entered { .. }) => {
                self.set_leaving(Leaving::At(0));
                Next::Ended
            }
            (_, Next::Pending) if !self.reader.is_placed() => {
                self.set_leaving(Leaving::At(0));
                Next::Ended
            }
            (Leaving::At(end), Next::Data { .. } | Next::Behind { .. } | Next::Pending) if offset >= end => {
                Next::Ended
            }
            (Leaving::At(end), Next::Data { until }) => Next::Data { until: until.min(end) },
            (Leaving::At(end), Next::Behind { until }) => Next::Behind { until: until.min(end) },
            (_, next) => next,
        }
    }

    /// Whether its response is about to end.
    pub(super) fn is_leaving(&self) -> bool {
        !matches!(self.leaving.get(), Leaving::No | Leaving::Never(_))
    }
}
