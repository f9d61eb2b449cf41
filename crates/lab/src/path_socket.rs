//! [`path`](crate::path) on sockets: one thread, one UDP port.
//!
//! While a burst is being sent the thread does not sleep, since a timer is later than the packets are apart. Packets are handed over
//! only when the network device has taken those before them, so that no queue of this machine is measured: its device's speed is
//! then that of the burst, which the report compares with the line's.

use crate::path::{Caller, Listener, ListenerEvent, Transmit};
use anyhow::{Context, Result};
use glassline_io::clock::Clock;
use glassline_io::poll::{Poller, Watch};
use glassline_io::udp::{self, Arrivals, Port};
use glassline_media::Time;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Signals and progress are looked at this often.
const ROUND: Duration = Duration::from_millis(100);
/// What may wait in the network device when packets of a burst are handed over: those before them, with what the kernel keeps
/// beside each.
const DEVICE_BYTES: usize = 48 << 10;
/// How long a device that takes nothing is waited for.
const DEVICE_PATIENCE: Duration = Duration::from_millis(200);

/// The part of a state machine that a socket needs.
trait Machine {
    fn handle_datagram(&mut self, now: Time, received: Time, from: SocketAddr, datagram: &[u8]);
    fn handle_socket_drops(&mut self, count: u32);
    fn handle_refused(&mut self, packets: u16);
    fn poll_transmit(&mut self, now: Time) -> Option<Transmit>;
    fn poll_timeout(&self, now: Time) -> Option<Time>;
    fn is_in_burst(&self) -> bool;
}

macro_rules! machine {
    ($name:ty) => {
        impl Machine for $name {
            fn handle_datagram(&mut self, now: Time, received: Time, from: SocketAddr, datagram: &[u8]) {
                self.handle_datagram(now, received, from, datagram);
            }
            fn handle_socket_drops(&mut self, count: u32) {
                self.handle_socket_drops(count);
            }
            fn handle_refused(&mut self, packets: u16) {
                self.handle_refused(packets);
            }
            fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
                self.poll_transmit(now)
            }
            fn poll_timeout(&self, now: Time) -> Option<Time> {
                self.poll_timeout(now)
            }
            fn is_in_burst(&self) -> bool {
                self.is_in_burst()
            }
        }
    };
}
machine!(Caller);
machine!(Listener);

/// A port with what a loop over it needs.
struct Socket {
    port: Port,
    poller: Poller,
    arrivals: Arrivals,
    clock: Clock,
    drops_at_start: u32,
}

impl Socket {
    fn new(port: Port) -> Result<Socket> {
        let poller = Poller::new()?;
        poller.add(&port, 0, Watch::Accepts)?;
        port.set_collecting(false);
        let drops_at_start = port.dropped().unwrap_or(0);
        Ok(Socket { port, poller, arrivals: Arrivals::default(), clock: Clock::new(), drops_at_start })
    }

    /// Sends and receives what there is, then waits for the next deadline or datagram.
    fn turn(&mut self, machine: &mut impl Machine) -> Result<()> {
        loop {
            self.wait_for_device();
            let Some(transmit) = machine.poll_transmit(self.clock.now()) else { break };
            let refused = self.send(&transmit)?;
            if transmit.is_train && refused > 0 {
                machine.handle_refused(refused);
            }
            self.receive(machine)?;
        }
        self.receive(machine)?;
        if machine.is_in_burst() {
            std::hint::spin_loop();
            return Ok(());
        }
        let now = self.clock.now();
        let wait = machine.poll_timeout(now).map_or(ROUND, |at| at.since(now)).min(ROUND);
        self.poller.wait(Some(wait), &mut Vec::new()).context("cannot wait for packets")
    }

    /// Waits until the network device has taken what was sent before, for a bounded time.
    fn wait_for_device(&self) {
        let began = self.clock.now();
        while self.port.unsent_bytes().is_ok_and(|bytes| bytes > DEVICE_BYTES)
            && self.clock.now().since(began) < DEVICE_PATIENCE
        {
            std::hint::spin_loop();
        }
    }

    /// Sends all of it. Returns how many datagrams the system did not take.
    fn send(&self, transmit: &Transmit) -> Result<u16> {
        let (mut rest, began) = (&transmit.bytes[..], self.clock.now());
        while !rest.is_empty() {
            match self.port.send(transmit.to, rest, transmit.segment_bytes, 0) {
                Ok(Some(bytes)) => rest = rest.get(bytes..).unwrap_or_default(),
                Ok(None) if self.clock.now().since(began) < DEVICE_PATIENCE => std::hint::spin_loop(),
                // Not a single packet more in this time: they count as not sent.
                Ok(None) => break,
                Err(error) if udp::is_too_large(&error) => break,
                // No route, a full queue of the device, a firewall: told by what does not arrive.
                Err(_) => break,
            }
        }
        Ok(u16::try_from(rest.len().div_ceil(transmit.segment_bytes.max(1))).unwrap_or(u16::MAX))
    }

    fn receive(&mut self, machine: &mut impl Machine) -> Result<()> {
        // An error that belongs to a datagram which was sent before is told once, and the socket goes on.
        while self.port.receive(&mut self.arrivals).unwrap_or(false) {
            let now = self.clock.now();
            for arrival in self.arrivals.datagrams() {
                machine.handle_datagram(now, arrival.at, arrival.from, arrival.bytes);
            }
            if let Ok(drops) = self.port.dropped() {
                machine.handle_socket_drops(drops.wrapping_sub(self.drops_at_start));
            }
            if !self.arrivals.is_full() {
                break;
            }
        }
        Ok(())
    }
}

/// Runs a measurement to its end; a signal (`stop`) ends it with what there is. `progress` is called some ten times a second.
///
/// # Errors
/// Where the system has no descriptors left.
pub fn call(
    port: Port,
    caller: &mut Caller,
    stop: &AtomicBool,
    mut progress: impl FnMut(&Caller, Time),
) -> Result<()> {
    let mut socket = Socket::new(port)?;
    let mut shown = Time::ZERO;
    while !caller.is_over() {
        let now = socket.clock.now();
        if stop.load(Ordering::Relaxed) {
            caller.end(now);
        }
        if !caller.is_in_burst() && now.since(shown) >= ROUND {
            progress(caller, now);
            shown = now;
        }
        socket.turn(caller)?;
    }
    Ok(())
}

/// Answers callers until `stop`, or with `is_once` until the first session is over. `tell` is called with what happens.
///
/// # Errors
/// Where the system has no descriptors left.
pub fn listen(
    port: Port,
    listener: &mut Listener,
    stop: &AtomicBool,
    is_once: bool,
    mut tell: impl FnMut(&ListenerEvent),
) -> Result<()> {
    let mut socket = Socket::new(port)?;
    while !stop.load(Ordering::Relaxed) {
        socket.turn(listener)?;
        while let Some(event) = listener.poll_event() {
            tell(&event);
            if is_once && matches!(event, ListenerEvent::Ended { .. }) {
                return Ok(());
            }
        }
    }
    Ok(())
}
