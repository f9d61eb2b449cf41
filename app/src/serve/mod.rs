//! `glassline serve`: the relay with its page, API and metrics.

mod access_log;
mod answers;
mod api;
mod assets;
#[cfg(feature = "archive")]
mod clips;
mod cluster;
mod control;
mod counts;
mod encoding;
mod events;
mod exposition;
mod forward;
mod identity;
mod insight;
mod life;
pub(crate) mod links;
mod metrics;
mod mute;
mod objects;
mod pictures;
mod purge;
#[cfg(feature = "archive")]
mod record;
#[cfg(not(feature = "archive"))]
#[path = "record_absent.rs"]
mod record;
mod renditions;
mod rtmp;
mod rtsp;
mod rules;
mod service;
mod site;
mod slates;
mod srt;
mod succession;
mod supervisor;
mod webhooks;

use crate::config::{self, Config, StreamOutput, StreamSource};
use crate::{encode, failure, logging, output};
use anyhow::{Context, Result};
use glassline_delivery::http1::{Limits, Url};
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::{Policy, Source};
use glassline_delivery::stream::{self, Backlog};
use glassline_edge::FetcherError;
use glassline_io::small_file::{self, Accept};
use glassline_io::tls::{Connector, Identities, Roots, TlsError};
use glassline_relay::{CertificateFiles, Listen, Output, Pull, Settings, StartError};
use glassline_transport::rtp::session::described::Described;
pub(crate) use links::outgoing as outgoing_link;
use service::Service;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::Signals;
pub(crate) use site::{Arrangement, PageSite};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  glassline serve --demo                          a live test picture at http://127.0.0.1:8080/
  glassline serve --config glassline.toml         as configured; examples/glassline.toml shows every key
  glassline serve --listen 127.0.0.1:9000         on another address; may be given several times
  glassline serve --upstream http://ORIGIN:8080   an edge: fetches each requested object from there, once
  glassline serve --config glassline.toml --test-config
  glassline serve --config glassline.toml --upgrade     replace the running server; kill -USR2 does the same
  glassline serve --config glassline.toml --user glassline     started as root, continues as this user

Publish to it (from this machine; others need a key or --open-publish):
  ffmpeg -re -i FILE -c copy -f mpegts http://127.0.0.1:8080/live/NAME.ts
  glassline encode test:1280x720@50 http://127.0.0.1:8080/live/NAME.ts

Watch: open http://HOST:8080/watch/NAME, or  vlc http://HOST:8080/live/NAME.ts
LL-HLS: http://HOST:8080/live/NAME/index.m3u8    LL-DASH: http://HOST:8080/live/NAME/manifest.mpd";

/// Serve live streams to many viewers: a relay with a web page to watch them on
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Configuration file (TOML); without it every key has its default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on, instead of those in the configuration; may be given several times [default: [::]:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    /// Publish a test stream named "demo": a moving picture with a clock, a barcode and a tone
    #[arg(long)]
    demo: bool,
    /// Read and check the configuration, say whether it is good, and exit
    #[arg(long)]
    test_config: bool,
    /// Replace the running server that has this configuration: viewers and publishers stay connected
    #[arg(long, conflicts_with = "test_config")]
    upgrade: bool,
    /// If started as root, continue as this user once ports and files are open (name or number)
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Fetch what is not here from this server, each object once for all clients; may be given several times, in the
    /// order in which servers are asked
    #[arg(long, value_name = "URL", value_parser = config::server)]
    upstream: Vec<Url>,
    /// Let everyone publish without a key
    #[arg(long)]
    open_publish: bool,
}

impl Args {
    /// The configuration, with the changes of the command line. Its files must be of a kind that `accept` allows.
    fn configuration(&self, accept: Accept) -> Result<Config> {
        let mut config = match &self.config {
            Some(path) => Config::load(path, accept)?,
            None => Config::default(),
        };
        if !self.listen.is_empty() {
            config.listen.clone_from(&self.listen);
        }
        if !self.upstream.is_empty() {
            config.upstream.servers.clone_from(&self.upstream);
        }
        if self.user.is_some() {
            // The group in the file belongs to the user in the file.
            config.process.user.clone_from(&self.user);
            config.process.group = None;
        }
        for port in config.unheard_ports() {
            tracing::warn!("[viewer.port.{port}] has no effect: no listener has this port");
        }
        config.demo.enabled |= self.demo;
        config.publish.open |= self.open_publish;
        if config.demo.enabled || !config.encode.is_empty() {
            encode::require()?;
        }
        Ok(config)
    }
}

/// How streams are kept and sent: as `[viewer]` says, but for what the stream's own section says.
fn stream_settings(config: &Config, own: Option<&config::Stream>) -> stream::Settings {
    let viewer = &config.viewer;
    let flush = own.and_then(|own| own.flush).unwrap_or(viewer.flush);
    let pacing = own.and_then(|own| own.pacing).unwrap_or(viewer.pacing);
    let backlog = own.and_then(|own| own.backlog).unwrap_or(viewer.backlog);
    let backlog_max = own.and_then(|own| own.backlog_max).unwrap_or(viewer.backlog_max);
    let prebuffer = own.and_then(|own| own.prebuffer).unwrap_or(viewer.prebuffer);
    stream::Settings {
        backlog: Backlog { time: backlog, bytes: backlog_max.bytes() },
        flush,
        pacing,
        prebuffer,
    }
}

/// The configuration as settings of the relay.
pub(crate) fn settings(config: &Config) -> Settings {
    let own_settings = |(name, own): (&String, &config::Stream)| {
        Some((StreamName::parse(name)?, stream_settings(config, Some(own))))
    };
    Settings {
        listen: listeners(config),
        workers: config.workers,
        rules: rules::rules(config),
        hosts: config.hosts.clone(),
        admin_networks: config.admin.networks.clone(),
        reserved: encoded_names(config).into_iter().chain(linked_names(config)).collect(),
        max_publishers_per_address: config.publish.max_per_address,
        allow_origin: config.viewer.allow_origin.clone(),
        base_path: config.base_path.as_str().into(),
        silence_timeout: config.publish.silence_timeout,
        return_window: config.publish.return_window,
        max_streams: config.publish.max_streams,
        stream: stream_settings(config, None),
        streams: config.stream.iter().filter_map(own_settings).collect(),
        send_path: config.viewer.send_path,
        stall_timeout: config.viewer.stall_timeout,
        // The next upstream server may still answer.
        object_timeout: config.upstream.silence_timeout + Duration::from_secs(3),
        upstream_patience: config.upstream.silence_timeout,
        max_connections: config.viewer.max_connections,
        certificates: certificates(config),
        certificate_check: config.tls.check_interval,
        max_connections_per_address: config.viewer.max_connections_per_address,
        max_unanswered_per_address: config.viewer.max_unanswered_per_address,
        http: Limits { body_time: config.viewer.body_timeout, ..Limits::DEFAULT },
        pulls: pulls(config),
        outputs: outputs(config),
        drain: config.process.drain,
        packaging: config.package.settings(),
        upstream: config.fetching(),
        places: config.cluster.directory(),
        beside_bytes: config.watched().map_or(0, |watch| watch.memory_bytes(config.publish.max_streams))
            + slates::memory_bytes(config)
            + record::memory_bytes(config),
        pull_policy: Policy {
            silence_timeout: config.pull.silence_timeout,
            retry_min: config.pull.retry_min,
            retry_max: config.pull.retry_max,
            reorder: config.pull.reorder,
            ..Policy::default()
        },
    }
}

/// The streams that built-in encoders make.
fn encoded_names(config: &Config) -> BTreeSet<StreamName> {
    let demo = config.demo.enabled.then_some(&config.demo.name);
    let sections = config.encode.iter().flat_map(|(name, section)| encode::stream_names(name, section));
    sections.chain(demo.cloned()).filter_map(|name| StreamName::parse(&name)).collect()
}

/// The streams that come over links.
fn linked_names(config: &Config) -> impl Iterator<Item = StreamName> {
    let is_linked =
        |stream: &config::Stream| matches!(stream.source, Some(StreamSource::Link(_) | StreamSource::Srt(_)));
    let names = config.stream.iter().filter(move |(_, stream)| is_linked(stream));
    names.filter_map(|(name, _)| StreamName::parse(name))
}

/// What is shown over TLS.
fn certificates(config: &Config) -> Vec<CertificateFiles> {
    let files = config.tls.certificates.iter();
    files.map(|files| CertificateFiles { chain: files.chain.clone(), key: files.key.clone() }).collect()
}

/// Where it listens: for everybody first.
fn listeners(config: &Config) -> Vec<Listen> {
    let public = config.listen.iter().copied().map(Listen::from);
    let secured = config.tls.listen.iter().map(|&address| Listen { tls: true, ..address.into() });
    let of_admin = |&address| Listen { address, is_admin: true, tls: config.admin.tls };
    public.chain(secured).chain(config.admin.listen.iter().map(of_admin)).collect()
}

/// The streams that are fetched from elsewhere.
fn pulls(config: &Config) -> Vec<Pull> {
    let pull = |(name, stream): (&String, &crate::config::Stream)| {
        Some(Pull {
            name: StreamName::parse(name)?,
            source: pulled(stream)?,
            alternates: Vec::new(),
            mux: stream.mux,
            ca: stream.ca.clone(),
            via: None,
            renewed: 0,
        })
    };
    config.stream.iter().filter_map(pull).collect()
}

fn pulled(stream: &config::Stream) -> Option<Source> {
    match &stream.source {
        Some(StreamSource::Pulled(source)) => Some(source.clone()),
        _ => None,
    }
}

/// The streams that are sent elsewhere.
fn outputs(config: &Config) -> Vec<Output> {
    let of_stream = |(name, stream): (&String, &crate::config::Stream)| {
        let name = StreamName::parse(name)?;
        let output = move |destination| Output { name: name.clone(), destination };
        let in_datagrams = stream.outputs.iter().filter_map(|output| match output {
            StreamOutput::Datagrams(destination) => Some(destination.clone()),
            StreamOutput::Link(_) | StreamOutput::Srt(_) => None,
        });
        Some(in_datagrams.map(output).collect::<Vec<_>>())
    };
    config.stream.iter().filter_map(of_stream).flatten().collect()
}

/// Whether certificates, keys and authorities can be used.
fn check_certificates(config: &Config) -> Result<()> {
    let wrong = |key: &str, error: TlsError| {
        let error = StartError::from(error);
        let advice = advice(&error);
        failure::usage(format!("{key}: {error}"), advice)
    };
    Identities::read(&certificates(config), Accept::AnyFile)
        .map_err(|error| wrong("tls.certificates", error))?;
    let streams = config.stream.iter().map(|(name, stream)| (format!("stream.{name}.ca"), &stream.ca));
    for (key, file) in streams.chain([
        ("upstream.ca".to_owned(), &config.upstream.ca),
        ("cluster.ca".to_owned(), &config.cluster.ca),
    ]) {
        let Some(file) = file else { continue };
        Connector::new(&Roots::File(file.clone()), Accept::RegularFile)
            .map_err(|error| wrong(&key, error))?;
    }
    Ok(())
}

/// Checks that the input files of encoders exist, and that session descriptions are some. A running server tries again, since a
/// file may be added later; `--test-config` reports it.
fn check_inputs(config: &Config) -> Result<()> {
    for (name, stream) in &config.stream {
        let Some(Source::Sdp(file)) = pulled(stream) else { continue };
        let text = small_file::read(&file.path, Accept::AnyFile).map_err(|error| error.to_string());
        let read = text.and_then(|text| {
            Described::parse_bytes(&text).map_err(|error| format!("{}: {error}", file.path.display()))
        });
        read.map_err(|error| {
            failure::usage(
                format!("stream.{name}.source: {error}"),
                "name a session description of coded pictures or sound; its name counts from the configuration file's folder",
            )
        })?;
    }
    for (name, section) in &config.encode {
        let Some(path) = section.input.as_ref().and_then(|named| named.input.path()) else { continue };
        std::fs::File::open(path).map_err(|error| {
            failure::usage(
                format!("encode.{name}.input: cannot read {}: {error}", path.display()),
                "correct the name, which counts from the configuration file's folder",
            )
        })?;
    }
    Ok(())
}

/// Runs until SIGINT or SIGTERM, or until a new process has taken over. SIGHUP reads the configuration again, SIGUSR2
/// replaces the process.
pub(crate) fn run(args: &Args) -> Result<()> {
    let config = args.configuration(Accept::AnyFile)?;
    if args.test_config {
        check_certificates(&config)?;
        check_inputs(&config)?;
        #[cfg(feature = "archive")]
        record::check_keys(&config)?;
        slates::read(&config)?;
        let folder = |file: Option<&Path>| {
            let folder = file.and_then(Path::parent).map(Path::to_owned);
            folder.filter(|folder| folder != Path::new("") && !folder.is_dir())
        };
        if let Some(folder) = folder(config.log.access.as_deref()) {
            tracing::warn!(
                "log.access: the folder {} is not there, and is needed to run; make it, or have systemd do so (LogsDirectory=)",
                folder.display()
            );
        }
        if let Some(folder) = folder(config.watch.as_ref().and_then(|watch| watch.state_file.as_deref())) {
            tracing::warn!(
                "watch.state_file: the folder {} is not there, so that nothing is kept; make it, or have systemd do so \
                 (StateDirectory=)",
                folder.display()
            );
        }
        let file =
            args.config.as_ref().map_or("the default configuration (--config names a file)".into(), |path| {
                path.display().to_string()
            });
        return output::print(&format!("{file}: good\n"));
    }
    logging::configure(config.log.format, &config.log.level)?;
    // Before anything is started, so that no signal is lost.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR2]).context("cannot wait for signals")?;
    let service = if args.upgrade { Service::take_over(config) } else { Service::start(config) }?;
    output::print(&service.where_to_look())?;
    // If this process was started to take over, its predecessor notifies the supervisor.
    if !succession::is_successor() {
        supervisor::tell_ready();
    }
    life::live(service, signals, || args.configuration(Accept::RegularFile))
}

fn explain(error: StartError) -> anyhow::Error {
    let advice = advice(&error);
    // What the configuration names cannot be used.
    let is_configured = matches!(error, StartError::Tls(_) | StartError::Upstream(FetcherError::Tls(_)));
    if is_configured { failure::usage(error, advice) } else { failure::failed(error, advice) }
}

/// What to do about it.
fn advice(error: &StartError) -> &'static str {
    match error {
        StartError::Listen { reason, .. } if reason.kind() == ErrorKind::AddrInUse => {
            "another program listens there: end it, or choose another address with --listen"
        }
        StartError::Listen { reason, .. } if reason.kind() == ErrorKind::PermissionDenied => {
            "ports below 1024 need privileges: choose a higher one with --listen"
        }
        StartError::Listen { reason, .. } if reason.kind() == ErrorKind::AddrNotAvailable => {
            "this machine has no such address: choose another with --listen"
        }
        StartError::Tls(TlsError::File(_)) => {
            "correct the name, which counts from the configuration file's folder, or let this user read the file"
        }
        StartError::Tls(TlsError::Secret(_)) => "its owner alone has to read a private key",
        StartError::Tls(_) => {
            "check [tls] certificates: 'chain' is the certificate with its issuers' behind it, 'key' its private key; \
             a stream's ca: certificates alone"
        }
        StartError::Mark(_) => {
            "give the program the capability CAP_NET_ADMIN (setcap cap_net_admin+ep on its file, or \
              AmbientCapabilities=CAP_NET_ADMIN in its systemd unit), or remove mark and mark_pool from the configuration"
        }
        StartError::Upstream(_) => {
            "check [upstream] ca: a file with certificates alone; without it the system's count"
        }
        _ => "see what the system says",
    }
}

/// The line that a newcomer needs: the address to open. A listener on all addresses is told as this machine's
/// own, which opens everywhere it matters first. `stream`: one that is there from the beginning.
pub(crate) fn where_to_look(listen: &[Listen], addresses: &[SocketAddr], stream: Option<&str>) -> String {
    let urls = |is_admin: bool| -> Vec<_> {
        let of_kind = listen.iter().zip(addresses).filter(|(listen, _)| listen.is_admin == is_admin);
        of_kind.map(|(listen, address)| url(listen.tls, *address)).collect()
    };
    let (version, public, admin) = (env!("CARGO_PKG_VERSION"), urls(false), urls(true));
    let player = stream.map(|name| format!("watch/{name}"));
    match (player, admin.is_empty()) {
        (Some(player), true) => {
            format!("glassline {version}: open {}{player} (all streams: {})\n", public[0], public.join(" "))
        }
        (None, true) => format!("glassline {version}: open {}\n", public.join(" ")),
        (player, false) => {
            let watch = player.unwrap_or("watch/NAME".into());
            let public: Vec<_> = public.iter().map(|url| format!("{url}{watch}")).collect();
            format!("glassline {version}: open {} (all streams: {})\n", public.join(" "), admin.join(" "))
        }
    }
}

fn url(tls: bool, address: SocketAddr) -> String {
    let scheme = if tls { "https" } else { "http" };
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) | IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        }
        ip => ip,
    };
    format!("{scheme}://{}/", SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_opens() {
        let public = Listen::from(SocketAddr::from(([127, 0, 0, 1], 80)));
        let admin = Listen { is_admin: true, ..SocketAddr::from(([127, 0, 0, 1], 90)).into() };
        let listen = [public, admin];
        let addresses = listen.each_ref().map(|listen| listen.address);
        let tell = |count: usize, demo| {
            let line = where_to_look(&listen[..count], &addresses[..count], demo);
            line.split_once(": ").unwrap().1.trim_end().to_owned()
        };
        assert_eq!(tell(1, None), "open http://127.0.0.1:80/");
        assert_eq!(
            tell(1, Some("x")),
            "open http://127.0.0.1:80/watch/x (all streams: http://127.0.0.1:80/)"
        );
        assert_eq!(
            tell(2, Some("x")),
            "open http://127.0.0.1:80/watch/x (all streams: http://127.0.0.1:90/)"
        );
        assert_eq!(tell(2, None), "open http://127.0.0.1:80/watch/NAME (all streams: http://127.0.0.1:90/)");
    }

    #[test]
    fn a_listener_on_all_addresses_is_opened_on_this_machine() {
        assert_eq!(url(false, "[::]:8080".parse().unwrap()), "http://127.0.0.1:8080/");
        assert_eq!(url(true, "[2001:db8::1]:80".parse().unwrap()), "https://[2001:db8::1]:80/");
        assert_eq!(url(false, "192.0.2.1:81".parse().unwrap()), "http://192.0.2.1:81/");
    }
}
