//! The servers that are measured, and how a stream gets into each.

use crate::case::Case;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use glassline_bench::machine::{self, Cores, find, free_address};
use glassline_bench::process::Server;
use glassline_lab::load::stamped::Source;
use glassline_lab::load::{Feed, Target, plain};
use glassline_media::Time;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Whom we measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Who {
    /// Ours as it comes, with one worker.
    Shipped,
    /// Ours with `flush = "balanced"`.
    Balanced,
    /// Debian's Cubemap, with one server thread. In the middle, so that what changes during a run weighs little.
    Cubemap,
    /// Ours with `flush = "thrifty"`.
    Thrifty,
    /// Ours with `pacing = "off"`: no path has to show what it takes.
    Unpaced,
    /// Ours with `send_path = "sendfile"`: what choosing between it and io_uring brings.
    Sendfile,
    /// Ours with a second publisher of 5 Mbit/s.
    TwoStreams,
    /// The same in a cluster on NATS, while the second stream is recorded: what both cost.
    Clustered,
    /// The least that such a server can be: each frame, to each viewer, one `write` (`bench-floor`).
    Floor,
    /// VLC, passing the source's bytes on over HTTP.
    Vlc,
    /// nginx with one worker and the stream as a file: what `sendfile` can do at most.
    Nginx,
}

/// A running server, and its source where it has one.
pub(crate) struct Started {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    /// What viewers ask for there.
    pub(crate) path: &'static str,
    pub(crate) feed: Option<Feed>,
    /// What runs beside it, as long as it does.
    pub(crate) beside: Vec<Server>,
}

/// The stream's name everywhere.
const PATH: &str = "/bench.ts";
/// Ours is published under `/live`.
pub(crate) const OUR_PATH: &str = "/live/bench.ts";
/// The file that nginx serves has this size: some seconds of what a viewer gets from it.
const FILE_BYTES: usize = 256 << 20;
/// An account that owns nothing (Debian's nobody and nogroup): VLC refuses to be root.
const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

impl Who {
    /// As in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::Shipped => "glassline",
            Who::Balanced => "glassline balanced",
            Who::Thrifty => "glassline thrifty",
            Who::Unpaced => "glassline unpaced",
            Who::Sendfile => "glassline sendfile",
            Who::TwoStreams => "glassline two streams",
            Who::Clustered => "glassline clustered, recording",
            Who::Cubemap => "cubemap",
            Who::Vlc => "vlc",
            Who::Nginx => "nginx file",
            Who::Floor => "bare loop",
        }
    }

    /// Whether it is a Glassline.
    pub(crate) fn is_ours(self) -> bool {
        self.configuration().is_some()
    }

    /// Whether it is measured only at the usual loads: it shows what others do, and a few loads show that.
    pub(crate) fn is_orientation(self) -> bool {
        matches!(self, Who::Floor | Who::Vlc | Who::Nginx)
    }

    /// Whether it serves a file as fast as it is read, and no live stream.
    pub(crate) fn is_static(self) -> bool {
        self == Who::Nginx
    }

    /// The program that has to be installed, which is also its package's name.
    pub(crate) fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            Who::Cubemap => Some(("cubemap", "cubemap")),
            Who::Vlc => Some(("cvlc", "vlc-bin vlc-plugin-base")),
            Who::Nginx => Some(("nginx", "nginx-light")),
            Who::TwoStreams => Some(("ffmpeg", "ffmpeg")),
            Who::Clustered => Some(("nats-server", "nats-server")),
            _ => None,
        }
    }

    /// What ours has under `[viewer]`.
    fn configuration(self) -> Option<&'static str> {
        match self {
            Who::Shipped | Who::TwoStreams | Who::Clustered => Some(""),
            Who::Balanced => Some("flush = 'balanced'"),
            Who::Thrifty => Some("flush = 'thrifty'"),
            Who::Unpaced => Some("pacing = 'off'"),
            Who::Sendfile => Some("send_path = 'sendfile'"),
            _ => None,
        }
    }

    /// Starts it on its core and gives it the source.
    pub(crate) fn start(self, case: Case, cores: Option<Cores>) -> Result<Started> {
        let core = cores.map(|cores| cores.server);
        match self {
            Who::Cubemap => cubemap(core),
            Who::Vlc => vlc(core),
            Who::Nginx => nginx(case, core),
            Who::Floor => floor(core),
            Who::Shipped | Who::Balanced | Who::Thrifty | Who::Unpaced | Who::Sendfile => {
                let address = free_address()?;
                let viewer = self.configuration().unwrap_or_default();
                let mut server = ours(&[address], viewer, core)?;
                let publisher = server.connect(address)?;
                let feed = Feed::publish_over(plain(publisher)?, &Target::at(address, OUR_PATH))?;
                Ok(Started { server, address, path: OUR_PATH, feed: Some(feed), beside: Vec::new() })
            }
            Who::TwoStreams => two_streams(cores),
            Who::Clustered => clustered(cores),
        }
    }
}

/// Ours with one worker, and these lines, which begin under `[viewer]`.
pub(crate) fn ours(listen: &[SocketAddr], lines: &str, core: Option<usize>) -> Result<Server> {
    ours_in(Server::folder("glassline")?, listen, lines, core)
}

/// The same in a folder that there is.
fn ours_in(folder: PathBuf, listen: &[SocketAddr], lines: &str, core: Option<usize>) -> Result<Server> {
    let listen: Vec<_> = listen.iter().map(|address| format!("\"{address}\"")).collect();
    let configuration = format!(
        "listen = [{}]\nworkers = 1\n[publish]\nsilence_timeout = \"60s\"\n[viewer]\n{lines}\n[log]\nlevel = \"warn\"\n",
        listen.join(", ")
    );
    write(&folder, "glassline.toml", &configuration)?;
    Server::start(folder, core, &machine::glassline()?, ["serve", "--config", "glassline.toml"])
}

/// Ours with a second publisher.
fn two_streams(cores: Option<Cores>) -> Result<Started> {
    let address = free_address()?;
    let server = ours(&[address], "", cores.map(|cores| cores.server))?;
    with_second(server, address, cores, Vec::new())
}

/// The same in a cluster, where the second stream is recorded; NATS is on the load's core.
fn clustered(cores: Option<Cores>) -> Result<Started> {
    let (nats_address, address) = (free_address()?, free_address()?);
    let (host, port) = (nats_address.ip().to_string(), nats_address.port().to_string());
    let arguments = ["--jetstream", "-sd", "store", "-a", &host, "-p", &port];
    let load_core = cores.map(|cores| cores.load);
    let mut nats = Server::start(Server::folder("nats")?, load_core, &program("nats-server")?, arguments)?;
    drop(nats.connect(nats_address)?);
    let folder = Server::folder("clustered")?;
    let store = folder.join("store");
    fs::create_dir_all(&store).context("no folder for recordings")?;
    let lines = format!(
        "[cluster]\nnats = ['nats://{nats_address}']\nnode = 'a'\naddress = 'http://{address}'\n\
         [record]\nstore = 'file:{}'\n[stream.second]\nrecord = true",
        store.display()
    );
    let server = ours_in(folder, &[address], &lines, cores.map(|cores| cores.server))?;
    with_second(server, address, cores, vec![nats])
}

/// Gives ours its source, and a second stream that FFmpeg publishes on the load's core.
fn with_second(
    mut server: Server,
    address: SocketAddr,
    cores: Option<Cores>,
    mut beside: Vec<Server>,
) -> Result<Started> {
    let publisher = server.connect(address)?;
    let feed = Feed::publish_over(plain(publisher)?, &Target::at(address, OUR_PATH))?;
    let folder = Server::folder("second")?;
    let clip = second_clip(&folder)?;
    let (clip, url) = (clip.to_string_lossy(), format!("http://{address}/live/second.ts"));
    let words = [
        "-nostdin",
        "-v",
        "error",
        "-re",
        "-stream_loop",
        "-1",
        "-i",
        &clip,
        "-c",
        "copy",
        "-f",
        "mpegts",
        &url,
    ];
    beside.push(Server::start(folder, cores.map(|cores| cores.load), &program("ffmpeg")?, words)?);
    Ok(Started { server, address, path: OUR_PATH, feed: Some(feed), beside })
}

/// Makes ten seconds of 5 Mbit/s in `folder`.
fn second_clip(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("clip.ts");
    let words = "-nostdin -v error -y -f lavfi -i testsrc2=s=1280x720:r=25 -t 10 -pix_fmt yuv420p -c:v libx264 \
                 -preset ultrafast -b:v 5M -minrate 5M -maxrate 5M -bufsize 5M -g 50 -x264-params nal-hrd=cbr -f mpegts";
    let mut command = std::process::Command::new(program("ffmpeg")?);
    let status = command.args(words.split_whitespace()).arg(&path).status().context("cannot start ffmpeg")?;
    ensure!(status.success(), "ffmpeg cannot encode the second stream");
    Ok(path)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    fs::write(folder.join(name), text).context("cannot write a configuration")
}

/// Where a server fetches the source from.
fn source() -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the source")?;
    let address = listener.local_addr().context("the source's port")?;
    Ok((listener, address))
}

/// A server that fetches its source, which some do before they listen.
fn fetching(server: Server, address: SocketAddr, source: TcpListener) -> Result<Started> {
    Ok(Started { server, address, path: PATH, feed: Some(Feed::serve(source)?), beside: Vec::new() })
}

pub(crate) fn program(name: &str) -> Result<std::path::PathBuf> {
    find(name).with_context(|| format!("{name} is not installed"))
}

fn cubemap(core: Option<usize>) -> Result<Started> {
    let (folder, address, (listener, source)) = (Server::folder("cubemap")?, free_address()?, source()?);
    let configuration = format!(
        "num_servers 1\nlisten {address}\nerror_log type=console\n\
         stream {PATH} src=http://{source}/ src_encoding=raw\n"
    );
    write(&folder, "cubemap.config", &configuration)?;
    let server = Server::start(folder, core, &program("cubemap")?, ["cubemap.config"])?;
    fetching(server, address, listener)
}

/// It passes on the bytes as they are (`demux=dump`): a multiplexer of its own would take away the marks by which
/// delays and errors are known.
fn vlc(core: Option<usize>) -> Result<Started> {
    let (folder, address, (listener, source)) = (Server::folder("vlc")?, free_address()?, source()?);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).context("VLC's folder")?;
    let mut words: Vec<String> = Vec::new();
    if rustix::process::geteuid().is_root() {
        words.push(program("setpriv")?.to_string_lossy().into_owned());
        words.extend(NOBODY.map(str::to_owned));
    }
    words.extend(["env".into(), format!("HOME={}", folder.display()), "cvlc".into()]);
    words.extend(["-I", "dummy", "--no-dbus", "--no-color", "--network-caching=0"].map(str::to_owned));
    words.extend(["--demux=dump", "--demuxdump-access=http"].map(str::to_owned));
    words.extend([format!("--http-host={}", address.ip()), format!("--http-port={}", address.port())]);
    words.extend([format!("--demuxdump-file={address}{PATH}"), format!("http://{source}/")]);
    let server = Server::start(folder, core, &program(&words[0])?, &words[1..])?;
    fetching(server, address, listener)
}

/// The stream as a file.
fn nginx(case: Case, core: Option<usize>) -> Result<Started> {
    let (folder, address) = (Server::folder("nginx")?, free_address()?);
    // Its worker may run as another account.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).context("nginx' folder")?;
    let (mut stream, mut bytes) = (Source::new(case.shape()), Vec::with_capacity(FILE_BYTES + (8 << 20)));
    while bytes.len() < FILE_BYTES {
        stream.frame(Time::ZERO, &mut bytes);
    }
    fs::write(folder.join(&PATH[1..]), &bytes).context("cannot write nginx' file")?;
    drop(bytes);
    let http = format!(
        "sendfile on;\n  tcp_nopush on;\n  types {{ video/mp2t ts; }}\n\
         server {{ listen {address}; root {}; }}",
        folder.display()
    );
    let server = start_nginx(folder, case.viewers + 100, &http, core)?;
    Ok(Started { server, address, path: PATH, feed: None, beside: Vec::new() })
}

/// nginx in the foreground and in one process, with `http` in that block of its configuration.
pub(crate) fn start_nginx(
    folder: PathBuf,
    connections: usize,
    http: &str,
    core: Option<usize>,
) -> Result<Server> {
    let place = folder.display();
    let configuration = format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\nworker_rlimit_nofile {connections};\n\
         pid {place}/nginx.pid;\nerror_log stderr;\nevents {{ worker_connections {connections}; }}\n\
         http {{\n  access_log off;\n  client_body_temp_path {place}/body;\n  proxy_temp_path {place}/proxy;\n\
         fastcgi_temp_path {place}/fcgi;\n  uwsgi_temp_path {place}/uwsgi;\n  scgi_temp_path {place}/scgi;\n\
         {http}\n}}\n"
    );
    write(&folder, "nginx.conf", &configuration)?;
    let arguments = ["-p", ".", "-e", "stderr", "-c", &format!("{place}/nginx.conf")].map(str::to_owned);
    Server::start(folder, core, &program("nginx")?, arguments)
}

fn floor(core: Option<usize>) -> Result<Started> {
    let (folder, address, (listener, source)) = (Server::folder("floor")?, free_address()?, source()?);
    let floor = machine::sibling("bench-floor", "glassline-bench")?;
    let server = Server::start(folder, core, &floor, [address.to_string(), source.to_string()])?;
    fetching(server, address, listener)
}
