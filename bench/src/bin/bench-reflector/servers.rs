//! The servers that are measured, and how a stream gets into each.

use anyhow::{Context, Result, bail};
use glassline_bench::machine::{self, Cores};
use glassline_bench::process::Server;
use glassline_lab::load::{Feed, Target};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Whom we measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Ours, with one worker.
    Glassline(Ours),
    /// Debian's Cubemap, with one server thread.
    Cubemap,
}

/// How ours is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ours {
    /// `flush = "frame"`, unpaced as Cubemap is.
    Frame,
    /// `flush = "balanced"`, unpaced.
    Balanced,
    /// `flush = "thrifty"`, unpaced.
    Thrifty,
    /// As it comes: `flush = "frame"`, paced.
    Paced,
}

/// A running server with its source.
pub(crate) struct Started {
    pub(crate) server: Server,
    pub(crate) target: Target,
    pub(crate) feed: Feed,
}

const PATIENCE: Duration = Duration::from_secs(10);

impl Who {
    /// As in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::Glassline(Ours::Frame) => "glassline",
            Who::Glassline(Ours::Balanced) => "glassline balanced",
            Who::Glassline(Ours::Thrifty) => "glassline thrifty",
            Who::Glassline(Ours::Paced) => "glassline paced",
            Who::Cubemap => "cubemap",
        }
    }

    /// Starts it on its core and gives it the source.
    pub(crate) fn start(self, cores: Option<Cores>) -> Result<Started> {
        let folder = Server::folder(self.name())?;
        let address = free_address()?;
        let core = cores.map(|cores| cores.server);
        match self {
            Who::Glassline(ours) => {
                let settings = match ours {
                    Ours::Frame => "pacing = 'off'",
                    Ours::Balanced => "flush = 'balanced'\npacing = 'off'",
                    Ours::Thrifty => "flush = 'thrifty'\npacing = 'off'",
                    Ours::Paced => "",
                };
                let configuration = format!(
                    "listen = [\"{address}\"]\nworkers = 1\n[viewer]\n{settings}\n[log]\nlevel = \"warn\"\n"
                );
                fs::write(folder.join("glassline.toml"), configuration)
                    .context("cannot write the configuration")?;
                let program = machine::glassline()?;
                let mut server =
                    Server::start(folder, core, &program, ["serve", "--config", "glassline.toml"])?;
                let publisher = connect(address, &mut server)?;
                let target = Target::at(address, "/live/bench.ts");
                let feed = Feed::publish_over(publisher, &target)?;
                Ok(Started { server, target, feed })
            }
            Who::Cubemap => {
                let listener =
                    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the source")?;
                let source = listener.local_addr().context("the source's port")?;
                let configuration = format!(
                    "num_servers 1\nlisten {address}\nerror_log type=console\n\
                     stream /bench.ts src=http://{source}/ src_encoding=raw\n"
                );
                fs::write(folder.join("cubemap.config"), configuration)
                    .context("cannot write the configuration")?;
                let program = find("cubemap").context("cubemap is not installed")?;
                let mut server = Server::start(folder, core, &program, ["cubemap.config"])?;
                drop(connect(address, &mut server)?);
                let target = Target::at(address, "/bench.ts");
                Ok(Started { server, target, feed: Feed::serve(listener)? })
            }
        }
    }
}

/// A program in `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| Path::is_file(file))
}

fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    listener.local_addr().context("the free port")
}

/// Connects as soon as the server listens.
fn connect(address: SocketAddr, server: &mut Server) -> Result<TcpStream> {
    let started = Instant::now();
    loop {
        server.check_alive()?;
        match TcpStream::connect(address) {
            Ok(stream) => return Ok(stream),
            Err(error) if started.elapsed() > PATIENCE => {
                bail!("the server takes no connection on {address}: {error}\n{}", server.log_end())
            }
            Err(_) => sleep(Duration::from_millis(20)),
        }
    }
}
