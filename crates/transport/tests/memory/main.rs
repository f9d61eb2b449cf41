//! Tests that look at the memory of their own process: a program apart, in which one runs at a time.
#![allow(clippy::unwrap_used)]

mod hostile;
mod hour;
#[path = "../it/link_support/mod.rs"]
mod link_support;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by the one test that may run.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of this process in memory; 0 where the system does not tell.
pub fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.as_deref().and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
