//! The caches that are measured, and their configurations.

use crate::origin::{self, FIXED};
use anyhow::{Context, Result};
use clap::ValueEnum;
use glassline_bench::machine::{self, find, free_address};
use glassline_bench::process::Server;
use glassline_lab::load::objects::{Bytes, Timeline, fixed_path};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Whom we measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Who {
    /// Ours with one worker: `serve --upstream`.
    Ours,
    /// The objects served by a bare loop, without a cache: what nobody can beat.
    Floor,
    /// nginx with its cache and its lock, which lets one request through for each object.
    NginxLock,
    /// nginx that passes on what comes as it comes, each client's request to the origin.
    NginxUnbuffered,
    /// Varnish, which gives an object to everybody while it comes.
    Varnish,
    /// Apache Traffic Server whose readers follow the writer.
    TrafficServer,
    /// The same with fragments of 16 kB.
    TrafficServerSmall,
    /// nginx with the fixed objects as files.
    NginxFile,
}

/// A cache that runs.
pub(crate) struct Started {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
}

/// Where a cache is to run, and what it is to fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) core: Option<usize>,
    pub(crate) origin: SocketAddr,
    pub(crate) timeline: Timeline,
    pub(crate) clients: usize,
}

impl Who {
    /// As in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::Ours => glassline_bench::report::OURS,
            Who::Floor => "bare loop",
            Who::NginxLock => "nginx lock",
            Who::NginxUnbuffered => "nginx unbuffered",
            Who::Varnish => "varnish",
            Who::TrafficServer => "ATS",
            Who::TrafficServerSmall => "ATS 16 kB",
            Who::NginxFile => "nginx file",
        }
    }

    /// The program that has to be installed, and its package.
    pub(crate) fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            Who::Ours | Who::Floor => None,
            Who::NginxLock | Who::NginxUnbuffered | Who::NginxFile => Some(("nginx", "nginx")),
            Who::Varnish => Some(("varnishd", "varnish")),
            Who::TrafficServer | Who::TrafficServerSmall => Some(("traffic_server", "trafficserver")),
        }
    }

    /// Whether it has growing objects.
    pub(crate) fn grows(self) -> bool {
        self != Who::NginxFile
    }

    /// Whether it keeps fixed objects, or has them as they are.
    pub(crate) fn keeps(self) -> bool {
        !matches!(self, Who::NginxUnbuffered | Who::TrafficServerSmall)
    }

    /// Starts it in front of the origin.
    pub(crate) fn start(self, place: Place) -> Result<Started> {
        match self {
            Who::Ours => ours(place),
            Who::Floor => floor(place),
            Who::NginxLock => nginx(place, NGINX_LOCK),
            Who::NginxUnbuffered => nginx(place, NGINX_UNBUFFERED),
            Who::NginxFile => nginx_file(place),
            Who::Varnish => varnish(place),
            Who::TrafficServer => traffic_server(place, 1 << 20),
            Who::TrafficServerSmall => traffic_server(place, 16 << 10),
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))
}

fn program(name: &str) -> Result<PathBuf> {
    find(name).with_context(|| format!("{name} is not installed"))
}

/// A new folder that other accounts may read, for servers whose workers give up being root.
fn open_folder(name: &str) -> Result<PathBuf> {
    let folder = Server::folder(name)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).context("the server's folder")?;
    Ok(folder)
}

fn ours(place: Place) -> Result<Started> {
    let (folder, address) = (Server::folder("glassline")?, free_address()?);
    let configuration = format!(
        "listen = [\"{address}\"]\nworkers = 1\n[upstream]\nservers = [\"http://{}\"]\n[log]\nlevel = \"warn\"\n",
        place.origin
    );
    write(&folder, "glassline.toml", &configuration)?;
    let words = ["serve", "--config", "glassline.toml"];
    Ok(Started { server: Server::start(folder, place.core, &machine::glassline()?, words)?, address })
}

fn floor(place: Place) -> Result<Started> {
    let (folder, address) = (Server::folder("floor")?, free_address()?);
    let program = std::env::current_exe().context("cannot find this program")?;
    let words = origin::arguments(address, place.timeline);
    Ok(Started { server: Server::start(folder, place.core, &program, words)?, address })
}

const NGINX_LOCK: &str = "proxy_cache edge; proxy_cache_lock on; proxy_cache_valid 200 60s;";
const NGINX_UNBUFFERED: &str = "proxy_buffering off;";

fn nginx(place: Place, how: &str) -> Result<Started> {
    let Place { origin, clients, .. } = place;
    let folder = open_folder("nginx")?;
    let server = format!(
        "  proxy_cache_path {}/cache keys_zone=edge:16m max_size=1g inactive=60s;\n  \
         upstream origin {{ server {origin}; keepalive {clients}; }}\n  server {{ listen LISTEN; location / {{\n    \
         proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\";\n    {how}\n  }} }}\n",
        folder.display()
    );
    start_nginx(place, folder, &server)
}

fn nginx_file(place: Place) -> Result<Started> {
    let folder = open_folder("nginx-file")?;
    let bytes = Bytes::new(FIXED[0]);
    for size in FIXED {
        let path = fixed_path(size);
        let file = folder.join(path.trim_start_matches('/'));
        fs::create_dir_all(file.parent().unwrap_or(&folder))?;
        fs::write(&file, bytes.fixed(size)).context("cannot write nginx' file")?;
    }
    let server = format!("  server {{ listen LISTEN; root {}; }}\n", folder.display());
    start_nginx(place, folder, &server)
}

/// In the foreground and in one process, with temporary files in its folder.
fn start_nginx(place: Place, folder: PathBuf, server: &str) -> Result<Started> {
    let address = free_address()?;
    let (connections, at) = (place.clients * 2 + 200, folder.display().to_string());
    let server = server.replace("LISTEN", &format!("{address} backlog=4096"));
    let configuration = format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\nworker_rlimit_nofile {connections};\npid {at}/pid;\n\
         error_log stderr;\nevents {{ worker_connections {connections}; }}\nhttp {{\n  access_log off;\n  sendfile on;\n  \
         tcp_nopush on;\n  keepalive_requests 1000000;\n  client_body_temp_path {at}/body;\n  proxy_temp_path {at}/proxy;\n  \
         fastcgi_temp_path {at}/fcgi;\n  uwsgi_temp_path {at}/uwsgi;\n  scgi_temp_path {at}/scgi;\n{server}}}\n"
    );
    write(&folder, "nginx.conf", &configuration)?;
    let words = ["-p", ".", "-e", "stderr", "-c", &format!("{at}/nginx.conf")].map(str::to_owned);
    Ok(Started { server: Server::start(folder, place.core, &program("nginx")?, words)?, address })
}

/// A thread for each client that waits, so there have to be enough.
fn varnish(place: Place) -> Result<Started> {
    let (folder, address) = (open_folder("varnish")?, free_address()?);
    let (host, port) = (place.origin.ip(), place.origin.port());
    let vcl = format!("vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\n");
    write(&folder, "edge.vcl", &vcl)?;
    let most = place.clients + 200;
    let words = [
        "-F",
        "-j",
        "none",
        "-n",
        &folder.join("state").to_string_lossy(),
        "-a",
        &address.to_string(),
        "-f",
        &folder.join("edge.vcl").to_string_lossy(),
        "-s",
        "malloc,512m",
        "-p",
        "thread_pools=2",
        "-p",
        &format!("thread_pool_max={most}"),
        "-p",
        "thread_pool_min=200",
        "-p",
        "listen_depth=4096",
    ]
    .map(str::to_owned);
    Ok(Started { server: Server::start(folder, place.core, &program("varnishd")?, words)?, address })
}

/// Debian's programs with folders of its own (`runroot.yaml`), and one thread for the network.
fn traffic_server(place: Place, fragment_bytes: usize) -> Result<Started> {
    let (root, address) = (open_folder("ats")?, free_address()?);
    let config = root.join("etc");
    let mut layout = "prefix: /usr\nexec_prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\n\
        includedir: /usr/include\nlibdir: /usr/lib/trafficserver\nlibexecdir: /usr/lib/trafficserver/modules\n"
        .to_owned();
    for (name, folder) in [
        ("sysconfdir", "etc"),
        ("datadir", "data"),
        ("localstatedir", "var"),
        ("runtimedir", "run"),
        ("logdir", "logs"),
        ("cachedir", "cache"),
    ] {
        fs::create_dir_all(root.join(folder))?;
        layout += &format!("{name}: {}\n", root.join(folder).display());
    }
    write(&root, "runroot.yaml", &layout)?;
    for file in fs::read_dir("/etc/trafficserver").context("Traffic Server's configuration")? {
        let file = file?;
        if file.path().is_file() {
            fs::copy(file.path(), config.join(file.file_name()))?;
        }
    }
    let records = [
        format!("http.server_ports STRING {}:ip-in={}", address.port(), address.ip()),
        "exec_thread.autoconfig INT 0".into(),
        "exec_thread.limit INT 1".into(),
        "accept_threads INT 0".into(),
        "admin.user_id STRING #-1".into(),
        "cache.enable_read_while_writer INT 1".into(),
        "cache.read_while_writer.max_retries INT 100".into(),
        "cache.read_while_writer_retry.delay INT 10".into(),
        format!("cache.target_fragment_size INT {fragment_bytes}"),
        "http.background_fill_active_timeout INT 0".into(),
        "http.background_fill_completed_threshold FLOAT 0.0".into(),
        "http.cache.max_open_read_retries INT 200".into(),
        "http.cache.open_read_retry_time INT 10".into(),
        "http.cache.required_headers INT 0".into(),
        format!("net.connections_throttle INT {}", place.clients * 2 + 1000),
        "reverse_proxy.enabled INT 1".into(),
        "url_remap.remap_required INT 1".into(),
        "log.logging_enabled INT 0".into(),
        "diags.debug.enabled INT 0".into(),
    ];
    let records: String = records.iter().map(|line| format!("CONFIG proxy.config.{line}\n")).collect();
    write(&config, "records.config", &records)?;
    write(&config, "storage.config", &format!("{} 256M\n", root.join("cache").display()))?;
    write(&config, "remap.config", &format!("map / http://{}/\n", place.origin))?;
    let words = [format!("--run-root={}", root.join("runroot.yaml").display())];
    Ok(Started { server: Server::start(root, place.core, &program("traffic_server")?, words)?, address })
}
