//! A timer that is a descriptor: a [`crate::poll::Poller`] wakes at its time, to the microsecond where the machine has
//! a processor free.

use glassline_media::Time;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Goes off once at a point of the monotonic clock. Unlike a time-out of `epoll` it has no slack, and time that passes
/// before the wait begins makes it no later.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// One that is not set.
    ///
    /// # Errors
    /// Where the system has no descriptor left.
    pub fn new() -> io::Result<Timer> {
        Ok(Timer(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?))
    }

    /// Sets it to a time; one that is past goes off at once. Takes back what it was set to before, gone off or not.
    ///
    /// # Errors
    /// None that a working system has.
    pub fn set(&self, time: Time) -> io::Result<()> {
        // All zeros would unset it.
        let nanos = time.as_nanos().max(1);
        let value = Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (nanos % 1_000_000_000).try_into().unwrap_or(0),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// Whether it has gone off since it was set or asked.
    ///
    /// # Errors
    /// None that a working system has.
    pub fn take(&self) -> io::Result<bool> {
        match rustix::io::read(&self.0, &mut [0; 8]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::poll::{Poller, Watch};
    use std::time::Duration;

    #[test]
    fn it_goes_off_at_its_time_and_not_before() {
        let (poller, timer, clock) = (Poller::new().unwrap(), Timer::new().unwrap(), Clock::new());
        poller.add(&timer, 3, Watch::Accepts).unwrap();
        assert!(!timer.take().unwrap());
        let due = clock.now() + Duration::from_millis(5);
        timer.set(due).unwrap();
        let mut ready = Vec::new();
        poller.wait(Some(Duration::from_secs(10)), &mut ready).unwrap();
        assert!(clock.now() >= due && ready.len() == 1 && ready[0].token == 3, "{ready:?}");
        assert!(timer.take().unwrap() && !timer.take().unwrap());
        timer.set(Time::ZERO).unwrap();
        poller.wait(Some(Duration::from_secs(10)), &mut ready).unwrap();
        assert_eq!(ready.len(), 1, "a time that is past");
        timer.set(Time::NEVER).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert_eq!(ready, [], "never");
    }
}
