//! Counts turns of loops in unit tests: what a packet costs must not depend on what came before it. In a program it is
//! nothing.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A loop turns once more.
#[inline(always)]
pub(crate) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// How often loops turned since this was last asked.
#[cfg(test)]
pub(crate) fn take() -> u64 {
    STEPS.replace(0)
}
