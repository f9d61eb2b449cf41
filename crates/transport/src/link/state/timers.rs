//! The timeouts of a link.

use glassline_media::Time;

use super::path::PathState;
use super::paths::PATH_PROBE;
use super::{Link, Standing};
use crate::link::recovery::Sample;

impl Link {
    /// When [`Link::handle_timeout`] or [`Link::poll_transmit`] has something to do though nothing came.
    pub(crate) fn next_timeout(&self) -> Time {
        match self.standing {
            Standing::Closing { until } => return if self.paths.is_close_due() { Time::ZERO } else { until },
            Standing::Up => {}
            Standing::Connecting | Standing::Closed => return self.channels.next_timeout(),
        }
        if self.damaged {
            return Time::ZERO;
        }
        let paths = (0..self.paths.count()).map(|on| self.path_timeout(on));
        paths.min().unwrap_or(Time::NEVER).min(self.channels.next_timeout()).min(self.paths.next_choice())
    }

    fn path_timeout(&self, on: usize) -> Time {
        let path = &self.paths[on];
        let idle = self.idle_timeout(path);
        let ack = path.received.next_timeout(path.rtt());
        idle.min(self.keep_alive(path))
            .min(ack)
            .min(path.recovery.next_timeout())
            .min(path.mtu_timeout())
            .min(self.send_timeout(on))
            .min(path.padding_timeout(self.settings.probing_percent))
            .min(path.candidate_timeout())
    }

    /// When the next keep-alive is due. Each of several paths is probed often ([`PATH_PROBE`]), so that a switch to the other is
    /// quick.
    fn keep_alive(&self, path: &PathState) -> Time {
        let often = self.settings.keep_alive;
        // After two keep-alives without an answer they leave eight times as often (8 a second after 2 s of silence by
        // default): on an idle link each is one packet, so that a burst of losses could end the link otherwise.
        let is_silent = path.last_sent >= path.last_received + often.saturating_mul(2);
        let keep_alive =
            path.last_sent + if is_silent { often.checked_div(8).unwrap_or_default() } else { often };
        if self.paths.are_many() { keep_alive.min(path.last_asked + PATH_PROBE) } else { keep_alive }
    }

    /// Does what is due by `now`.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.channels.handle_timeout(now, &mut self.events);
        match self.standing {
            // Where the caller comes late, the peer has not been told: once, that goes first.
            Standing::Closing { until }
                if until <= now && until > Time::ZERO && self.paths.is_close_due() =>
            {
                self.standing = Standing::Closing { until: Time::ZERO };
            }
            Standing::Closing { until } if until <= now => self.standing = Standing::Closed,
            Standing::Up => {
                for number in self.paths.carrying_first() {
                    if let Some(on) = self.paths.index_of(number) {
                        self.handle_path_timeout(now, on);
                    }
                }
                self.choose(now);
            }
            _ => {}
        }
    }

    fn handle_path_timeout(&mut self, now: Time, on: usize) {
        if std::mem::take(&mut self.damaged) {
            return self.violated(now, "a message that does not decompress or lacks its stamp");
        }
        let (carries, has_two) = (self.paths.carries(on), self.paths.are_many());
        let keep_alive = self.keep_alive(&self.paths[on]);
        let path = &mut self.paths[on];
        if path.last_received + self.settings.idle <= now && has_two {
            return self.drop_path(now, on);
        }
        if self.idle_timeout(&self.paths[on]) <= now {
            self.handle_idle(now);
            if self.standing != Standing::Up {
                return;
            }
        }
        let path = &mut self.paths[on];
        if keep_alive <= now {
            path.probe = true;
        }
        path.mtu.handle_timeout(now);
        if path.recovery.next_timeout() > now {
            return;
        }
        if path.recovery.probes() >= 3 && path.recovery.largest_acked().is_none() {
            path.marking.handle_silence();
        }
        path.recovery.fit_probes(path.capacity.bandwidth());
        let (sample, probe) = path.recovery.handle_timeout(now);
        path.fit();
        self.settle(now, on, &sample, None);
        if !probe {
            return;
        }
        let path = &mut self.paths[on];
        path.probe = true;
        if path.recovery.is_blind() {
            path.give_up_in_outage(now);
            self.settle(now, on, &Sample::default(), None);
        } else if carries && path.recovery.probes() == 1 {
            // The first probe carries the oldest data that is not acknowledged; later ones carry none.
            self.channels.probe();
        }
    }
}
