//! One way of packets: a socket, and how it sends.

use super::plan::Burst;
use super::settings::PathSettings;
use super::{Error, Result};
use glassline_io::nic;
use glassline_io::qdisc;
use glassline_io::udp::Route;
use glassline_io::udp::burst::{FlowSender, FlowSenderSettings, LaunchClock, Outbox};
use glassline_media::Time;
use glassline_transport::raw_video::Packets;
use std::io;
use std::time::Duration;

/// How long a socket is waited for that takes nothing, before its packets are given up.
const SEND_TIMEOUT: Duration = Duration::from_millis(500);
/// Disciplines that only spread packets over the device's queues, which have disciplines of their own.
const SPREADING: [&str; 3] = ["mq", "mqprio", "taprio"];

/// Whether bursts carry launch times, and why (not).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Whether they do.
    pub is_used: bool,
    /// Why, for people.
    pub reason: String,
}

/// A socket and its lists.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) to: String,
    sender: FlowSender,
    outbox: Outbox,
    pub(super) launch: Launch,
}

/// What became of some bursts.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) failed_packets: u64,
    pub(super) failure: Option<io::Error>,
    pub(super) full: u64,
}

impl Path {
    pub(super) fn open(settings: &PathSettings, dscp: Option<u8>, launches: bool) -> Result<Path> {
        let to = settings.route.address.to_string();
        let route = Route { dscp: settings.route.dscp.or(dscp), ..settings.route.clone() };
        let open = FlowSenderSettings::of(route);
        let mut sender = FlowSender::open(&open).map_err(|error| Error::Open { to: to.clone(), error })?;
        let launch = if launches {
            launch(&settings.route, |clock| sender.set_launch_clock(clock))
        } else {
            Launch { is_used: false, reason: "they are not wanted".to_owned() }
        };
        Ok(Path { to, sender, outbox: Outbox::new(), launch })
    }

    /// Sends `bursts` of a frame of `bytes`; their packets are the next of `packets`. Each burst leaves at its time after
    /// `began`, where the path has launch times.
    pub(super) fn send(
        &mut self,
        bursts: &[Burst],
        mut packets: Packets<'_>,
        bytes: &[u8],
        began: Option<Time>,
    ) -> Sent {
        let mut out = self.outbox.bursts();
        for burst in bursts {
            for packet in packets.by_ref().take(burst.packets) {
                out.push(packet.head);
                packet.samples.iter().for_each(|range| out.push(&bytes[range.clone()]));
            }
            let at = began.filter(|_| self.launch.is_used).map(|began| due(began, burst));
            out.end(burst.datagram_bytes, at);
        }
        let mut sent = Sent::default();
        while !out.is_sent() {
            match self.sender.send(&mut out) {
                Ok(true) => break,
                Ok(false) => {
                    sent.full += 1;
                    if self.sender.wait(Some(SEND_TIMEOUT)).unwrap_or(false) {
                        continue;
                    }
                    sent.failure = Some(io::ErrorKind::TimedOut.into());
                }
                Err(error) => sent.failure = Some(error),
            }
            sent.failed_packets += bursts.get(out.sent()).map_or(0, |burst| burst.packets as u64);
            out.skip();
        }
        sent
    }

    /// Packets that did not leave at their launch times since the last call.
    pub(super) fn launch_errors(&self) -> u64 {
        if !self.launch.is_used {
            return 0;
        }
        self.sender.launch_errors().map_or(0, |errors| errors.missed + errors.invalid)
    }
}

/// When a burst is due.
pub(super) fn due(began: Time, burst: &Burst) -> Time {
    Time::from_nanos(began.as_nanos().saturating_add_signed(burst.due))
}

/// Asks for launch times where something heeds them.
fn launch(route: &Route, set: impl FnOnce(LaunchClock) -> io::Result<()>) -> Launch {
    let no = |reason: String| Launch { is_used: false, reason };
    let interface = match &route.interface {
        Some(name) => Ok(Some(name.clone())),
        None => nic::interface_of(route.source.unwrap_or(route.address.ip())),
    };
    let Ok(Some(interface)) = interface else { return no("which interface it is is not known".to_owned()) };
    let kinds = match qdisc::kinds(&interface) {
        Ok(kinds) => kinds,
        Err(error) => return no(format!("{interface} does not tell how it queues: {error}")),
    };
    let (clock, kind) = match heeding(&kinds) {
        Ok(found) => found,
        Err(kind) => return no(format!("{interface} queues by {kind}, which heeds none (fq and etf do)")),
    };
    match set(clock) {
        Ok(()) => Launch { is_used: true, reason: format!("{interface} queues by {kind}") },
        Err(error) => no(format!("{interface} queues by {kind}, but: {error}")),
    }
}

/// The clock of the launch times that all queues heed, and the discipline's kind; else one that heeds none.
fn heeding(kinds: &[String]) -> Result<(LaunchClock, &'static str), &str> {
    let mut queues = kinds.iter().map(String::as_str).filter(|kind| !SPREADING.contains(kind)).peekable();
    let Some(first) = queues.peek().copied() else {
        return Err(kinds.first().map_or("noqueue", String::as_str));
    };
    match queues.find(|kind| *kind != first) {
        None if first == "fq" => Ok((LaunchClock::Monotonic, "fq")),
        None if first == "etf" => Ok((LaunchClock::Tai, "etf")),
        None => Err(first),
        Some(other) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launch_times_are_used_where_every_queue_heeds_them() {
        let found = |kinds: &[&str]| {
            let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            heeding(&kinds).map_err(str::to_owned)
        };
        assert_eq!(found(&["fq"]), Ok((LaunchClock::Monotonic, "fq")));
        assert_eq!(found(&["mq", "fq", "fq"]), Ok((LaunchClock::Monotonic, "fq")));
        assert_eq!(found(&["mqprio", "etf"]), Ok((LaunchClock::Tai, "etf")));
        assert_eq!(found(&["mq", "fq", "fq_codel"]), Err("fq_codel".to_owned()));
        assert_eq!(found(&["noqueue"]), Err("noqueue".to_owned()));
        assert_eq!(found(&[]), Err("noqueue".to_owned()));
    }
}
