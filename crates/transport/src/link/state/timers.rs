//! The timeouts of a link.

use glassline_media::Time;
use std::time::Duration;

use super::paths::PATH_PROBE;
use super::session::Session;
use super::{Link, Standing};
use crate::link::recovery::Sample;
use crate::link::{CloseReason, Event};

impl Link {
    /// When [`Link::handle_timeout`] or [`Link::poll_transmit`] has something to do though nothing came.
    pub(crate) fn next_timeout(&self) -> Time {
        match self.standing {
            Standing::Closing { until } => return if self.is_close_due() { Time::ZERO } else { until },
            Standing::Up => {}
            Standing::Suspended { until } => return until.min(self.channel_timeout()),
            Standing::Connecting | Standing::Closed => return self.channel_timeout(),
        }
        if self.damaged {
            return Time::ZERO;
        }
        let paths = (0..self.paths.len()).map(|on| self.path_timeout(on));
        paths.min().unwrap_or(Time::NEVER).min(self.channel_timeout()).min(self.choice_timeout())
    }

    fn path_timeout(&self, on: usize) -> Time {
        let session = &self.paths[on];
        let idle = session.last_received + self.settings.idle;
        let ack = session.received.next_timeout(session.rtt());
        idle.min(self.keep_alive(session))
            .min(ack)
            .min(session.recovery.next_timeout())
            .min(session.mtu_timeout())
            .min(self.send_timeout(on))
            .min(session.padding_timeout(self.settings.probing_percent))
            .min(session.candidate_timeout())
    }

    /// When the next keep-alive is due. Each of two paths is probed often ([`PATH_PROBE`]), so that a switch to the other is
    /// quick.
    fn keep_alive(&self, session: &Session) -> Time {
        let often = self.settings.keep_alive;
        // After two keep-alives without an answer they leave eight times as often (8 a second after 2 s of silence by
        // default): on an idle link each is one packet, so that a burst of losses could end the link otherwise.
        let is_silent = session.last_sent >= session.last_received + often.saturating_mul(2);
        let keep_alive =
            session.last_sent + if is_silent { often.checked_div(8).unwrap_or_default() } else { often };
        let has_two = self.paths.len() > 1;
        if has_two { keep_alive.min(session.last_asked + PATH_PROBE) } else { keep_alive }
    }

    fn channel_timeout(&self) -> Time {
        let sending = self.channels.senders.iter().flatten().map(|sender| sender.next_timeout());
        let receiving = self.channels.receivers.iter().flatten().map(|receiver| receiver.next_timeout());
        sending.chain(receiving).min().unwrap_or(Time::NEVER)
    }

    /// Does what is due by `now`.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        for sender in self.channels.senders.iter_mut().flatten() {
            if sender.next_timeout() <= now {
                sender.handle_timeout(now, &mut self.events);
            }
        }
        self.handle_receiver_timeouts(now);
        match self.standing {
            // Where the caller comes late, the peer has not been told: once, that goes first.
            Standing::Closing { until } if until <= now && until > Time::ZERO && self.is_close_due() => {
                self.standing = Standing::Closing { until: Time::ZERO };
            }
            Standing::Closing { until } if until <= now => self.standing = Standing::Closed,
            Standing::Suspended { until } if until <= now => self.end_timed_out(),
            Standing::Up => {
                // By what they are: a path that is dropped moves the other one's index.
                for second in [self.on_second, !self.on_second] {
                    if let Some(on) = self.index_of(second) {
                        self.handle_path_timeout(now, on);
                    }
                }
                self.choose(now);
            }
            _ => {}
        }
    }

    /// The peer has been silent for too long.
    pub(crate) fn end_timed_out(&mut self) {
        self.events.push_back(Event::Closed { reason: CloseReason::TimedOut });
        self.standing = Standing::Closed;
    }

    fn handle_path_timeout(&mut self, now: Time, on: usize) {
        if std::mem::take(&mut self.damaged) {
            return self.violated(now, "a message that does not decompress");
        }
        let (carries, has_two) = (self.carries(on), self.paths.len() > 1);
        let keep_alive = self.keep_alive(&self.paths[on]);
        let session = &mut self.paths[on];
        if session.last_received + self.settings.idle <= now && has_two {
            return self.drop_path(now, on);
        }
        if session.last_received + self.settings.idle <= now {
            if !self.suspend(now, CloseReason::TimedOut) {
                self.end_timed_out();
            }
            return;
        }
        if keep_alive <= now {
            session.probe = true;
        }
        session.mtu.handle_timeout(now);
        if session.recovery.next_timeout() > now {
            return;
        }
        if session.recovery.probes() >= 3 && session.recovery.largest_acked().is_none() {
            session.marking.handle_silence();
        }
        let (sample, probe) = session.recovery.handle_timeout(now);
        session.fit();
        self.settle(now, on, &sample, None);
        if !probe {
            return;
        }
        let session = &mut self.paths[on];
        session.probe = true;
        if session.recovery.is_blind() {
            // The path is in an outage. What was in flight is sent again and leaves the window; the longer the outage, the
            // longer the interval between two transmissions of the same data.
            let silence = session.recovery.silence(now);
            let age = session.recovery.probe_time().max(silence.checked_div(2).unwrap_or_default());
            let age = age.min(Duration::from_millis(500));
            session.recovery.give_up_older(now, age);
            self.settle(now, on, &Sample::default(), None);
        } else if carries && session.recovery.probes() == 1 {
            // The first probe carries the oldest data that is not acknowledged; later ones carry none.
            let order = self.channels.order.clone();
            for channel in order {
                if let Some(sender) = self.channels.sender_mut(channel)
                    && sender.probe()
                {
                    break;
                }
            }
        }
    }
}
