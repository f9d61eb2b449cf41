//! The machine: what it is, its processors, and a network of our own on it.

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One line: processor, cores, kernel.
pub fn description() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    // Not those that this process may use: it may have pinned itself.
    let cores = info.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // What a distribution appends says nothing about how fast it is.
    let version = kernel.trim().split('-').next().unwrap_or_default();
    format!("{model}, {cores} cores, Linux {version}")
}

/// Who runs where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The measured server's core.
    pub server: usize,
    /// The load generator's core.
    pub load: usize,
}

impl Cores {
    /// The first two processors that this process may use, or `None` where it has one only.
    pub fn choose() -> Result<Option<Cores>> {
        let allowed = sched_getaffinity(None).context("cannot ask for the processors")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        Ok(cores.next().zip(cores.next()).map(|(server, load)| Cores { server, load }))
    }

    /// Keeps the calling thread on the load generator's core.
    pub fn pin_load(self) -> Result<()> {
        let mut set = CpuSet::new();
        set.set(self.load);
        sched_setaffinity(None, &set).context("cannot pin the load generator")
    }
}

const INSIDE: &str = "GLASSLINE_BENCH_NAMESPACE";

/// Run in the new namespace. Congestion control goes into the routes, since a namespace's default may be closed to us.
const SETUP: &str = "ip link set lo mtu 1500 up || exit
for net in 127.0.0.0/8 127.0.0.1; do
  ip route change local $net dev lo table local proto kernel scope host src 127.0.0.1 congctl cubic || exit
done
exec \"$@\"";

/// Starts this program again in a network namespace of its own, whose loopback has an MTU of 1500, where that is
/// allowed; it then doesn't return there. Returns a sentence on the network that is used.
///
/// The MTU matters: at loopback's 65,536 bytes a server that corks sends in batches that no real network has.
pub fn own_network() -> Result<String> {
    if std::env::var_os(INSIDE).is_none() {
        for flags in [&["-n"][..], &["-r", "-n"]] {
            let unshare = |program: &str| {
                let mut command = Command::new("unshare");
                command.args(flags).args(["sh", "-c", SETUP, "sh"]);
                command.arg(program);
                command
            };
            let allowed = unshare("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
            if allowed {
                let program = std::env::current_exe().context("cannot find this program")?;
                let mut again = unshare(program.to_str().context("this program's path is not UTF-8")?);
                return Err(again.args(std::env::args_os().skip(1)).env(INSIDE, "1").exec().into());
            }
        }
    }
    let own = std::env::var_os(INSIDE).is_some();
    let which =
        if own { "a network namespace of its own" } else { "the machine's own (no namespace allowed)" };
    Ok(format!("loopback of {which}, MTU {}, {}", loopback_mtu()?, congestion_control()?))
}

fn loopback_mtu() -> Result<String> {
    let link = Command::new("ip").args(["-o", "link", "show", "lo"]).output().context("cannot run ip")?;
    let link = String::from_utf8_lossy(&link.stdout);
    let mtu = link.split_whitespace().skip_while(|word| *word != "mtu").nth(1);
    Ok(mtu.unwrap_or("unknown").to_owned())
}

/// What a connection over loopback really uses.
fn congestion_control() -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
    let connection = TcpStream::connect(listener.local_addr()?).context("cannot connect over loopback")?;
    rustix::net::sockopt::tcp_congestion(&connection).context("cannot ask for the congestion control")
}

/// Whether [`own_network`] has given us a network namespace of our own.
pub fn has_own_network() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// The `glassline` that was built together with this program.
pub fn glassline() -> Result<PathBuf> {
    sibling("glassline", "glassline")
}

/// A program that was built together with this one, out of `package`.
pub fn sibling(name: &str, package: &str) -> Result<PathBuf> {
    let bench = std::env::current_exe().context("cannot find this program")?;
    let program = bench.parent().unwrap_or(Path::new(".")).join(name);
    ensure!(program.exists(), "{} is not there: cargo build --release -p {package}", program.display());
    Ok(program)
}

/// A program in `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Debian's administrator's programs are not in everybody's path.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")]);
    folders.map(|folder| folder.join(name)).find(|file| Path::is_file(file))
}

/// An address on loopback that nobody listens on.
pub fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    listener.local_addr().context("the free port")
}
