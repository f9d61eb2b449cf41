//! The ways from the sender to the receiver: loopback, or a veth pair into a namespace of the receiver's own.
//!
//! ```text
//! sender ── lo ── receiver                                   both in the bench's namespace
//! sender ── gl0 ═══ gl1 ── receiver                          veth: messages pass whole
//!           tso off, tx-udp-segmentation off │ gro on        veth as a NIC: cut here, joined there
//! ```

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use glassline_bench::machine::find;
use glassline_bench::namespace::{Namespace, call, words};
use glassline_bench::process::Server;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;

const HERE: &str = "10.99.7.1";
const THERE: Ipv4Addr = Ipv4Addr::new(10, 99, 7, 2);
/// Of all devices: datagrams of 8,900 bytes fit.
const MTU: u32 = 9200;
/// What sockets of programs that may not exceed it get room for, in bytes: 30 ms of 17 Gbit/s.
pub(crate) const SOCKET_BYTES: u64 = 64 << 20;
const LIMITS: [&str; 2] = ["/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Both ends on one host
    Loopback,
    /// A veth pair that messages pass whole
    Veth,
    /// A veth pair as a NIC: messages cut at one end, joined by GRO at the other, all of it on the sender's core
    Nic,
    /// The same, joined on the receiver's core
    NicThere,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Loopback => "loopback",
            Kind::Veth => "veth",
            Kind::Nic => "veth as a NIC",
            Kind::NicThere => "veth as a NIC, GRO on the receiver's core",
        }
    }

    /// Why it cannot be made here.
    pub(crate) fn missing(self, has_own_network: bool) -> Option<String> {
        let programs: &[&str] = match self {
            Kind::Loopback => return None,
            Kind::Veth => &["ip", "unshare", "nsenter"],
            Kind::Nic | Kind::NicThere => &["ip", "unshare", "nsenter", "ethtool"],
        };
        if !has_own_network {
            return Some("no network namespace is allowed here (root)".to_owned());
        }
        let missing = programs.iter().find(|program| find(program).is_none())?;
        Some(format!("no {missing} here (apt install {missing})"))
    }
}

/// A way that is there until it is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    there: Option<Namespace>,
}

impl Network {
    pub(crate) fn open(kind: Kind, receiver: Option<usize>) -> Result<Network> {
        if kind == Kind::Loopback {
            // Not allowed where the loopback is the machine's own, and its MTU is larger there anyway.
            let _ = call("ip", &words(&format!("link set lo mtu {MTU}")));
            return Ok(Network { there: None });
        }
        let there = Namespace::new()?;
        let _ = call("ip", &words("link del gl0"));
        call(
            "ip",
            &words(&format!("link add gl0 mtu {MTU} type veth peer name gl1 mtu {MTU} netns {}", there.id())),
        )?;
        call("ip", &words(&format!("addr add {HERE}/24 dev gl0")))?;
        there.call(&format!("ip addr add {THERE}/24 dev gl1"))?;
        there.call("ip link set lo up")?;
        if matches!(kind, Kind::Nic | Kind::NicThere) {
            call("ethtool", &words("-K gl0 tso off tx-udp-segmentation off"))?;
            there.call("ethtool -K gl1 gro on")?;
        }
        there.call("ip link set gl1 up")?;
        call("ip", &words("link set gl0 up"))?;
        let network = Network { there: Some(there) };
        if let (Kind::NicThere, Some(core), Some(there)) = (kind, receiver, &network.there) {
            thread_napi(there, core)?;
        }
        Ok(network)
    }

    /// Where the receiver is.
    pub(crate) fn address(&self) -> IpAddr {
        if self.there.is_some() { THERE.into() } else { Ipv4Addr::LOCALHOST.into() }
    }

    /// Starts a receiver, on `core` where one is given.
    pub(crate) fn start(&self, core: Option<usize>, program: &[String]) -> Result<Server> {
        match &self.there {
            Some(there) => there.start("receiver", core, program),
            None => {
                let (path, arguments) = program.split_first().context("no program")?;
                Server::start(Server::folder("receiver")?, core, Path::new(path), arguments)
            }
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if self.there.is_some() {
            // Its other end goes with it; fails only where it has gone already.
            let _ = call("ip", &words("link del gl0"));
        }
    }
}

/// Has a thread of the kernel's on `core` receive from gl1, instead of the sender's own interrupts.
fn thread_napi(there: &Namespace, core: usize) -> Result<()> {
    // The devices in /sys are those of the namespace in which it was mounted.
    let write = "mount -t sysfs sysfs /sys && echo 1 > /sys/class/net/gl1/threaded";
    call("nsenter", &there.words(&["unshare", "-m", "sh", "-c", write]))?;
    let mut found = false;
    for entry in fs::read_dir("/proc").context("/proc")? {
        let path = entry?.path();
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        let id = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("napi/gl1-") {
            call("taskset", &["-pc", &core.to_string(), id])?;
            // As interrupts go before programs, which would have the device's ring of 256 packets overflow.
            call("chrt", &["-f", "-p", "50", id])?;
            found = true;
        }
    }
    if !found {
        bail!("the kernel gives gl1 no thread of its own (/sys/class/net/gl1/threaded)");
    }
    Ok(())
}

/// The kernel's bounds for sockets' buffers, raised for peers that cannot exceed them, until this is dropped.
struct Limits(Vec<(PathBuf, String)>);

impl Limits {
    fn raise() -> Limits {
        let mut before = Vec::new();
        for path in LIMITS.map(PathBuf::from) {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let is_less = text.trim().parse::<u64>().is_ok_and(|bytes| bytes < SOCKET_BYTES);
            if is_less && fs::write(&path, SOCKET_BYTES.to_string()).is_ok() {
                before.push((path, text));
            }
        }
        Limits(before)
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for (path, text) in &self.0 {
            // It was allowed a while ago.
            let _ = fs::write(path, text.trim());
        }
    }
}

const INSIDE: &str = "GLASSLINE_BENCH_LIMITS";

/// Runs this program again under raised limits, which are those of the machine: none of a namespace's own. Returns with what
/// that gave; `None` where this is the one that is to go on.
pub(crate) fn under_limits() -> Result<Option<bool>> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(None);
    }
    let limits = Limits::raise();
    let program = std::env::current_exe().context("cannot find this program")?;
    let status = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .status()
        .context("cannot start this program again")?;
    drop(limits);
    Ok(Some(status.success()))
}
