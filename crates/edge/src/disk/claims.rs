//! Claims: objects that were asked of the disk and have not come as a whole. The disk's thread fills an object only under the
//! lock and while its claim is here. Where the disk is too slow or fails, the claim is taken out, and a fetch fills the object.
//! So one thread alone fills it.

use super::super::cache::{Begun, Job};
use super::{Disk, count, lock};
use glassline_media::Time;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// A job that the disk's thread has.
pub(super) struct Claim {
    pub(super) job: Box<Job>,
    /// When it was asked for, or the last block of it came.
    pub(super) since: Time,
    /// It is ahead of its readers: the disk is not waited for.
    pub(super) is_resting: bool,
    /// What of it was handed on.
    pub(super) begun: Option<Begun>,
}

#[derive(Default)]
pub(super) struct Claims {
    jobs: BTreeMap<u64, Claim>,
    last: u64,
    /// It was told that the disk hangs.
    is_told: bool,
}

impl Claims {
    pub(super) fn insert(&mut self, job: Box<Job>, now: Time) -> u64 {
        self.last += 1;
        self.jobs.insert(self.last, Claim { job, since: now, is_resting: false, begun: None });
        self.last
    }

    pub(super) fn find(&mut self, number: u64) -> Option<&mut Claim> {
        self.jobs.get_mut(&number)
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Claim> {
        self.jobs.remove(&number)
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Claim> {
        std::mem::take(&mut self.jobs).into_values()
    }
}

impl Claim {
    /// The job for the fetch of the rest; `Err` where what was handed on has no strong ETag, so that no server can continue
    /// it.
    pub(super) fn into_fetch(self) -> Result<Box<Job>, Box<Job>> {
        let Claim { mut job, begun, .. } = self;
        match begun {
            Some(begun) if begun.etag.starts_with('"') => job.begun = Some(begun),
            Some(_) => return Err(job),
            None => {}
        }
        Ok(job)
    }
}

impl Disk {
    /// The thread begins a step: an operation on one file.
    pub(super) fn begin_step(&self, now: Time) {
        self.step_since_nanos.store(now.as_nanos().max(1), Ordering::Release);
    }

    /// The thread waits for something to do.
    pub(super) fn end_step(&self) {
        self.step_since_nanos.store(0, Ordering::Release);
    }

    /// Whether a single step takes longer than requests wait for.
    pub(crate) fn hangs(&self, now: Time) -> bool {
        let since = self.step_since_nanos.load(Ordering::Acquire);
        since != 0 && now.since(Time::from_nanos(since)) >= self.settings.timeout
    }

    /// Whether something is asked of the disk.
    pub(crate) fn is_awaited(&self) -> bool {
        !lock(&self.claims).jobs.is_empty()
    }

    /// Takes from the disk what does not come in time: jobs that have to be fetched, and those that no server can complete
    /// (`Err`).
    pub(crate) fn take_overdue(&self, now: Time) -> Vec<Result<Box<Job>, Box<Job>>> {
        let hangs = self.hangs(now);
        if hangs {
            self.drop_writes();
        }
        let mut claims = lock(&self.claims);
        let directory = self.settings.directory.display();
        if hangs && !claims.is_told {
            tracing::warn!(%directory, "the cache's disk hangs: what is asked for comes from upstream servers until it answers again");
        } else if !hangs && claims.is_told {
            tracing::info!(%directory, "the cache's disk answers again");
        }
        claims.is_told = hangs;
        let is_overdue = |claim: &Claim| !claim.is_resting && now.since(claim.since) >= self.settings.timeout;
        let overdue: Vec<u64> =
            claims.jobs.iter().filter(|(_, claim)| is_overdue(claim)).map(|(number, _)| *number).collect();
        let taken = overdue.into_iter().filter_map(|number| claims.take(number));
        taken.inspect(|_| count(&self.counters.late)).map(Claim::into_fetch).collect()
    }
}
