//! How a relay behaves.

use crate::output::Output;
use crate::pull::Pull;
use crate::{CertificateFiles, Listen, StartError};
use glassline_delivery::fill::Via;
use glassline_delivery::http1::{Headers, Limits};
use glassline_delivery::packager;
use glassline_delivery::policy::{Hosts, Networks, Rules, StreamName};
use glassline_delivery::pull::Policy;
use glassline_delivery::stream::{self, Backlog, FlushPolicy, Pacing, Prebuffer};
use glassline_edge::UpstreamSettings;
use glassline_io::small_file::Accept;
use glassline_io::tls::{Connector, Roots, TlsError};
use glassline_media::choice;
use glassline_streams::StaticDirectory;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How a relay behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// Worker threads; 0 is one a core.
    pub workers: usize,
    /// Limits of HTTP heads.
    pub http: Limits,
    /// What clients may publish and watch, how much, and how their connections are treated.
    pub rules: Rules,
    /// The names by which clients may call it, beside those of [`Settings::certificates`], where it goes by the address
    /// that a request comes from: others may be a web page's that has its visitor's browser ask (DNS rebinding).
    pub hosts: Hosts,
    /// The networks that operators ask from, beside this machine. Where none is given, every caller of the admin
    /// listener is an operator; without an admin listener only this machine is.
    pub admin_networks: Networks,
    /// Names under which only this process publishes.
    pub reserved: BTreeSet<StreamName>,
    /// Publishers from one address at once; 0 is any number.
    pub max_publishers_per_address: usize,
    /// The web pages that may read what is answered (`Access-Control-Allow-Origin`): an origin or `*`.
    pub allow_origin: Option<String>,
    /// The folder in which a proxy has this server's addresses, as in `/tv`; empty where there is none. For what has to be an
    /// absolute address: all others are relative.
    pub base_path: Arc<str>,
    /// A publisher that sends nothing for this long gives up its name.
    pub silence_timeout: Duration,
    /// How long viewers are kept when the publisher has gone.
    pub return_window: Duration,
    /// Streams at once.
    pub max_streams: usize,
    /// How streams are kept and sent.
    pub stream: stream::Settings,
    /// The same for those that have settings of their own.
    pub streams: BTreeMap<StreamName, stream::Settings>,
    /// How viewers are sent to.
    pub send_path: SendPath,
    /// A viewer is dropped after its socket has taken nothing for this long.
    pub stall_timeout: Duration,
    /// How long a client's request waits for an object that has not begun, before it is told to try again.
    pub object_timeout: Duration,
    /// How long a server that has asked an upstream server waits for the answer.
    pub upstream_patience: Duration,
    /// Connections at once over all workers; 0 is as many as there are descriptors for.
    pub max_connections: usize,
    /// What listeners with TLS show. Clients that ask for a name that none has get the first.
    pub certificates: Vec<CertificateFiles>,
    /// How often their files are looked at, whether they have changed.
    pub certificate_check: Duration,
    /// Connections from one address at once, but for those of admin listeners; 0 is any number.
    pub max_connections_per_address: usize,
    /// Connections from one address at once that have not been answered, but for those of admin listeners; 0 is any number.
    /// Half of all connections at most.
    pub max_unanswered_per_address: usize,
    /// Streams that are fetched from elsewhere.
    pub pulls: Vec<Pull>,
    /// How patiently they are.
    pub pull_policy: Policy,
    /// Streams that are sent elsewhere.
    pub outputs: Vec<Output>,
    /// Which streams are made LL-HLS and LL-DASH of, and how.
    pub packaging: PackagingSettings,
    /// Where objects come from that are not here.
    pub upstream: Option<UpstreamSettings>,
    /// Streams that other servers of a cluster have.
    pub places: StaticDirectory,
    /// What the process takes at most beside all of this, for [`Settings::memory_budget`].
    pub beside_bytes: u64,
    /// How long the TLS of connections that another process has taken over goes on here at most.
    pub drain: Duration,
}

impl Settings {
    /// Whether this process can do what the settings ask of it: mark connections, which not every process may, and read
    /// the authorities that vouch for sources.
    ///
    /// # Errors
    /// [`StartError::Mark`], [`StartError::Tls`]. Settings that replace those of the start have to be checked as well.
    pub fn check_means(&self) -> Result<(), StartError> {
        check_authorities(&self.pulls)?;
        if self.rules.want_marks() { glassline_io::tcp::may_mark().map_err(StartError::Mark) } else { Ok(()) }
    }

    /// How long a request with these fields waits for what has not begun. A server that asks for its own clients gives up after
    /// its [`Settings::upstream_patience`], takes this one for broken then and asks another: it is told to try again before, and
    /// the earlier the more servers wait behind each other (each step is a tenth, over half of the time at most).
    pub(super) fn waiting_time(&self, headers: &Headers) -> Duration {
        match Via::of(headers).hops() {
            0 => self.object_timeout,
            hops => self.upstream_patience * (10 - hops.min(5)) / 10,
        }
    }

    /// How the stream `name` is kept and sent.
    pub(super) fn of_stream(&self, name: &StreamName) -> stream::Settings {
        *self.streams.get(name).unwrap_or(&self.stream)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: vec![Listen::from(SocketAddr::from(([0u16; 8], 8080)))],
            workers: 0,
            http: Limits::DEFAULT,
            rules: Rules::default(),
            hosts: Hosts::default(),
            admin_networks: Networks::default(),
            reserved: BTreeSet::new(),
            max_publishers_per_address: 0,
            allow_origin: None,
            base_path: Arc::from(""),
            silence_timeout: Duration::from_secs(5),
            return_window: Duration::from_secs(60),
            max_streams: 256,
            stream: stream::Settings {
                backlog: Backlog { time: Duration::from_secs(10), bytes: 64 << 20 },
                flush: FlushPolicy::Frame,
                pacing: Pacing::Factor(3.0),
                prebuffer: Prebuffer::NONE,
            },
            streams: BTreeMap::new(),
            send_path: SendPath::Automatic,
            stall_timeout: Duration::from_secs(20),
            object_timeout: Duration::from_secs(15),
            upstream_patience: Duration::from_secs(12),
            max_connections: 0,
            certificates: Vec::new(),
            certificate_check: Duration::from_secs(60),
            max_connections_per_address: 0,
            max_unanswered_per_address: 4096,
            pulls: Vec::new(),
            pull_policy: Policy::default(),
            outputs: Vec::new(),
            packaging: PackagingSettings::default(),
            upstream: None,
            places: StaticDirectory::default(),
            beside_bytes: 0,
            drain: Duration::from_secs(12 * 3600),
        }
    }
}

/// Looks whether the authorities that `pulls` name can be read, as they are again when a source is asked: regular files.
fn check_authorities(pulls: &[Pull]) -> Result<(), TlsError> {
    pulls
        .iter()
        .filter_map(|pull| pull.ca.clone())
        .try_for_each(|ca| Connector::new(&Roots::File(ca), Accept::RegularFile).map(drop))
}

/// Which streams are made LL-HLS and LL-DASH of, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackagingSettings {
    /// How they are cut, and how much is kept.
    pub presentation: packager::Settings,
    /// Whether a stream is packaged only while clients ask for its presentation. Otherwise each stream is packaged as
    /// long as it lives, so that viewers can go back to before they came.
    pub on_demand: bool,
    /// How long a presentation is kept after it was last asked for.
    pub idle: Duration,
}

impl Default for PackagingSettings {
    fn default() -> PackagingSettings {
        PackagingSettings {
            presentation: packager::Settings::default(),
            on_demand: true,
            idle: Duration::from_secs(60),
        }
    }
}

choice! {
    /// By which system calls a stream's bytes get into the viewers' sockets.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum SendPath {
        /// Many sends by one `io_uring` call, or as with `sendfile` where the system bars that.
        Automatic = "auto" as default,
        /// One `sendfile` for each viewer.
        Sendfile = "sendfile",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_without_settings_of_its_own_has_those_of_all() {
        let own = stream::Settings { pacing: Pacing::Off, ..Settings::default().stream };
        let name = |text| StreamName::parse(text).unwrap();
        let settings = Settings { streams: [(name("own"), own)].into(), ..Settings::default() };
        assert_eq!(settings.of_stream(&name("own")).pacing, Pacing::Off);
        assert_eq!(settings.of_stream(&name("other")).pacing, Pacing::Factor(3.0));
    }

    #[test]
    fn the_defaults_ask_nothing_that_a_process_may_be_refused() {
        Settings::default().check_means().unwrap();
    }

    #[test]
    fn authorities_that_cannot_be_read_are_told_of_before_anything_begins() {
        use glassline_delivery::pull::Source;
        let pull = Pull {
            name: StreamName::parse("a").unwrap(),
            source: Source::parse("https://127.0.0.1:9/a.ts").unwrap(),
            alternates: Vec::new(),
            mux: None,
            ca: Some("/nonexistent/ca.pem".into()),
            via: None,
            renewed: 0,
        };
        let without = Pull { ca: None, ..pull.clone() };
        let settings = |pulls| Settings { pulls, ..Settings::default() };
        settings(vec![without.clone()]).check_means().unwrap();
        let refused = settings(vec![without, pull]).check_means();
        assert!(matches!(refused, Err(StartError::Tls(_))), "{refused:?}");
    }

    #[test]
    fn a_presentation_is_packaged_on_demand_and_kept_for_a_minute() {
        let packaging = PackagingSettings::default();
        assert!(packaging.on_demand && packaging.idle == Duration::from_secs(60));
        assert_eq!(SendPath::default(), SendPath::Automatic);
    }
}
