//! The clocks of the machine, and how they relate.
#![allow(unsafe_code)]

use glassline_media::stamps::ClockAccuracy;
use glassline_media::{Time, Utc};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::mem::MaybeUninit;
use std::time::Duration;

#[cfg(any(debug_assertions, test))]
mod skew;

/// Reads the monotonic and the wall clock. Copied freely; all copies agree.
///
/// [`Time`]'s origin is that of `CLOCK_MONOTONIC` (usually boot), so stamps of two processes of one machine can
/// be compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The machine's clocks.
    pub const fn new() -> Clock {
        Clock
    }

    /// The monotonic clock, now. About 20 ns (vDSO).
    pub fn now(&self) -> Time {
        Time::from_nanos(nanos(clock_gettime(ClockId::Monotonic)))
    }

    /// A number that tells senders apart which begin at the same time: of this moment and this process.
    pub fn seed(&self) -> u64 {
        self.utc().as_nanos() ^ u64::from(std::process::id()) << 32
    }

    /// The wall clock, now. In builds with debug assertions, as tests run them, `GLASSLINE_TEST_WALL_CLOCK` may set it wrong
    /// (CONTRIBUTING.md); others do not know the variable.
    pub fn utc(&self) -> Utc {
        let utc = self.kernels_utc();
        #[cfg(debug_assertions)]
        let utc = skew::applied(utc, self.now());
        utc
    }

    /// The wall clock that the kernel's own stamps are of.
    pub(crate) fn kernels_utc(&self) -> Utc {
        Utc::from_nanos(nanos(clock_gettime(ClockId::Realtime)))
    }

    /// The wall clock at `time`, by the offset that holds now: a wall clock that is being slewed or stepped
    /// moves the result, never `Time`.
    pub fn utc_at(&self, time: Time) -> Utc {
        let (now, utc) = (self.now().as_nanos(), self.utc().as_nanos());
        Utc::from_nanos((utc + time.as_nanos()).saturating_sub(now))
    }

    /// How far the wall clock may be from UTC: the error as it is estimated by what keeps the clock, such as NTP or
    /// PTP, or the greatest possible one where no estimate is given. Unknown where the system does not tell. A system
    /// call: for once in some seconds.
    pub fn accuracy(&self) -> ClockAccuracy {
        Kept::read().map_or(ClockAccuracy::Unknown, Kept::accuracy)
    }
}

/// What the kernel knows of how the wall clock is kept (`adjtimex(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    /// Whether nothing keeps it, by the state that the call returns and by the status flag.
    is_free: bool,
    /// The estimated error in microseconds; some that keep clocks leave it at 0.
    estimated: i64,
    /// The greatest error in microseconds; the kernel lets it grow while nothing corrects the clock.
    greatest: i64,
}

impl Kept {
    fn read() -> Option<Kept> {
        let mut state = MaybeUninit::<libc::timex>::zeroed();
        // SAFETY: all zeros are a valid `timex`, and its `modes` of 0 ask and set nothing; the kernel writes only into
        // it.
        let (answer, state) = unsafe {
            let answer = libc::adjtimex(state.as_mut_ptr());
            (answer, state.assume_init())
        };
        (answer >= 0).then_some(Kept {
            is_free: answer == libc::TIME_ERROR || state.status & libc::STA_UNSYNC != 0,
            estimated: state.esterror,
            greatest: state.maxerror,
        })
    }

    fn accuracy(self) -> ClockAccuracy {
        let error = if self.estimated > 0 { self.estimated } else { self.greatest };
        match u64::try_from(error) {
            _ if self.is_free => ClockAccuracy::Unsynchronised,
            Ok(micros) if micros > 0 => ClockAccuracy::Within(Duration::from_micros(micros)),
            _ => ClockAccuracy::Unknown,
        }
    }
}

fn nanos(time: Timespec) -> u64 {
    let whole = u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000;
    whole + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_of_a_monotonic_time_is_consistent() {
        let clock = Clock::new();
        let now = clock.now();
        let (first, later) = (clock.utc_at(now), clock.utc_at(now + Duration::from_secs(3)));
        let apart = later.as_nanos() - first.as_nanos();
        assert!((2_900_000_000..3_100_000_000).contains(&apart), "{apart} ns");
    }

    #[test]
    fn the_accuracy_is_the_estimated_error_and_else_the_greatest() {
        let kept = Kept { is_free: false, estimated: 40, greatest: 9_000 };
        let within = |micros| ClockAccuracy::Within(Duration::from_micros(micros));
        assert_eq!(kept.accuracy(), within(40));
        assert_eq!(Kept { estimated: 0, ..kept }.accuracy(), within(9_000));
        assert_eq!(Kept { estimated: 0, greatest: 0, ..kept }.accuracy(), ClockAccuracy::Unknown);
        assert_eq!(Kept { is_free: true, ..kept }.accuracy(), ClockAccuracy::Unsynchronised);
        // Whatever this machine says, it says something.
        assert_eq!(Kept::read().map_or(ClockAccuracy::Unknown, Kept::accuracy), Clock.accuracy());
    }
}
