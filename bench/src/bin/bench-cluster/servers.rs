//! NATS, and servers that find each other by it.

use anyhow::{Context, Result, ensure};
use glassline_bench::machine::{self, find, free_address};
use glassline_bench::metrics::Metrics;
use glassline_bench::process::Server;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Within this time servers see each other.
const SEEN_WITHIN: Duration = Duration::from_secs(20);

/// Servers with a registry.
pub(crate) struct Cluster {
    /// Its folder goes with it.
    _nats: Server,
    nats: SocketAddr,
}

/// A server and where it listens.
pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
}

impl Cluster {
    /// Starts NATS.
    pub(crate) fn new() -> Result<Cluster> {
        let (folder, nats) = (Server::folder("nats")?, free_address()?);
        let program = find("nats-server").context("nats-server is not installed")?;
        let (host, port) = (nats.ip().to_string(), nats.port().to_string());
        let mut server =
            Server::start(folder, None, &program, ["--jetstream", "-sd", "store", "-a", &host, "-p", &port])?;
        drop(server.connect(nats)?);
        Ok(Cluster { _nats: server, nats })
    }

    /// Starts a server that takes part under `name`.
    pub(crate) fn node(&self, name: &str) -> Result<Node> {
        let cluster = |address| {
            format!(
                "[cluster]\nnats = ['nats://{}']\nnode = '{name}'\naddress = 'http://{address}'\n",
                self.nats
            )
        };
        node(name, cluster)
    }
}

/// Starts a server that is in no cluster.
pub(crate) fn alone(name: &str) -> Result<Node> {
    node(name, |_| String::new())
}

fn node(name: &str, sections: impl FnOnce(SocketAddr) -> String) -> Result<Node> {
    let (folder, address) = (Server::folder(name)?, free_address()?);
    let configuration = format!(
        "listen = ['{address}']\nworkers = 1\n[publish]\nsilence_timeout = '10m'\nreturn_window = '0s'\nmax_streams = 8192\n\
         [log]\nlevel = 'warn'\n{}",
        sections(address)
    );
    std::fs::write(folder.join("glassline.toml"), configuration).context("cannot write a configuration")?;
    let mut server =
        Server::start(folder, None, &machine::glassline()?, ["serve", "--config", "glassline.toml"])?;
    // Waits until it answers.
    drop(server.connect(address)?);
    Ok(Node { server, address })
}

impl Node {
    /// Waits until a figure of this server is at least `least`.
    pub(crate) fn wait_for(&mut self, figure: &str, least: f64) -> Result<()> {
        let begun = Instant::now();
        loop {
            self.server.check_alive()?;
            // It has no figures of a cluster until it takes part in one.
            let is = Metrics::scrape(self.address)?.value(figure).ok();
            if is.is_some_and(|is| is >= least) {
                return Ok(());
            }
            let log = self.server.log_end();
            ensure!(
                begun.elapsed() < SEEN_WITHIN,
                "{figure} is {is:?} and not {least}; the log ends with:\n{log}"
            );
            sleep(Duration::from_millis(50));
        }
    }
}
