//! The ranges of the configuration's values. `examples/glassline.toml` states each range; a test compares them.

use super::encode::{check_bitrate, check_preset};
use super::problem::{NAME_RULE, Problem, out_of, problem};
use super::{Config, Secret};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{Pacing, Prebuffer};
use glassline_media::quantity::{self, Bitrate, ByteSize};
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

/// The longest contact line, in characters.
const CONTACT_MAX: usize = 500;

impl Config {
    /// Checks every value against its range, and values against each other.
    pub(super) fn check(&self) -> Result<(), Problem> {
        self.check_server()?;
        self.check_publish()?;
        self.check_viewer()?;
        self.check_demo()?;
        self.check_pull()?;
        self.check_package()?;
        self.check_record()?;
        self.check_upstream()?;
        self.check_cluster()?;
        self.check_srt()?;
        self.check_streams()?;
        self.check_encode()?;
        self.check_events()?;
        self.check_watch()?;
        self.check_process()
    }

    fn check_server(&self) -> Result<(), Problem> {
        if self.listen.is_empty() && self.tls.listen.is_empty() {
            return problem("listen", "is empty; give at least one address, as in [\"[::]:8080\"]");
        }
        let mut seen = Vec::new();
        for (key, addresses) in [
            ("listen", &self.listen),
            ("tls.listen", &self.tls.listen),
            ("admin.listen", &self.admin.listen),
            ("rtmp.listen", &self.rtmp.listen),
            ("rtmp.tls_listen", &self.rtmp.tls_listen),
            ("rtsp.listen", &self.rtsp.listen),
            ("rtsp.tls_listen", &self.rtsp.tls_listen),
        ] {
            for address in addresses {
                // With port 0 each listener gets a different port.
                if seen.contains(&address) && address.port() != 0 {
                    return problem(key, format!("names {address} twice; remove one"));
                }
                seen.push(address);
            }
        }
        if self.tls.certificates.is_empty() {
            let advice =
                "needs a certificate; give [tls] certificates = [{ chain = \"….pem\", key = \"….pem\" }]";
            if !self.tls.listen.is_empty() {
                return problem("tls.listen", advice);
            } else if self.admin.tls {
                return problem("admin.tls", advice);
            } else if !self.rtmp.tls_listen.is_empty() {
                return problem("rtmp.tls_listen", advice);
            } else if !self.rtsp.tls_listen.is_empty() {
                return problem("rtsp.tls_listen", advice);
            }
        }
        let seconds = Duration::from_secs;
        duration("tls.check_interval", self.tls.check_interval, seconds(1), seconds(3600))?;
        if let Some(contact) = &self.contact
            && (contact.chars().count() > CONTACT_MAX || contact.chars().any(char::is_control))
        {
            return problem("contact", format!("must be one line of at most {CONTACT_MAX} characters"));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        let is_folder = |part: &str| !part.is_empty() && !part.bytes().all(|byte| byte == b'.');
        let is_path = self.base_path.strip_prefix('/').is_some_and(|path| path.split('/').all(is_folder));
        let is_good = self.base_path.is_empty() || is_path && self.base_path.bytes().all(is_plain);
        if !is_good {
            let words = "is no folder; write a path of letters, digits, -, ., _ and ~, without a slash at its end, as in \"/tv\"";
            return problem("base_path", format!("{:?} {words}", self.base_path));
        }
        number("workers", self.workers, 0, 1024)
    }

    fn check_publish(&self) -> Result<(), Problem> {
        let publish = &self.publish;
        check_key(&publish.key, &publish.key_file, ["publish.key", "publish.key_file"])?;
        bitrate("publish.max_bitrate", publish.max_bitrate)?;
        number("publish.max_per_address", publish.max_per_address, 0, 65_536)?;
        let seconds = Duration::from_secs;
        duration("publish.silence_timeout", publish.silence_timeout, seconds(1), seconds(3600))?;
        duration("publish.return_window", publish.return_window, seconds(0), seconds(3600))?;
        number("publish.max_streams", publish.max_streams, 1, 65_536)
    }

    fn check_viewer(&self) -> Result<(), Problem> {
        let viewer = &self.viewer;
        check_key(&viewer.key, &viewer.key_file, ["viewer.key", "viewer.key_file"])?;
        number("viewer.max_viewers", viewer.max_viewers, 0, 10_000_000)?;
        bitrate("viewer.max_bitrate", viewer.max_bitrate)?;
        bitrate("viewer.max_bitrate_per_address", viewer.max_bitrate_per_address)?;
        number("viewer.max_moves", viewer.max_moves.into(), 0, 1000)?;
        number("viewer.max_per_stream", viewer.max_per_stream, 0, 10_000_000)?;
        number("viewer.max_per_address", viewer.max_per_address, 0, 10_000_000)?;
        if let Some(origin) = &viewer.allow_origin {
            let after_scheme = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
            let is_origin = after_scheme.is_some_and(|authority| {
                !authority.is_empty() && authority.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
            });
            if origin != "*" && !is_origin {
                return problem(
                    "viewer.allow_origin",
                    format!(
                        "{origin:?} is no origin; write \"*\" or, without a path, as in \"https://example.org\""
                    ),
                );
            }
        }
        let seconds = Duration::from_secs;
        check_backlog("viewer", Some(viewer.backlog), Some(viewer.backlog_max), Some(viewer.prebuffer))?;
        check_pacing("viewer.pacing", viewer.pacing)?;
        self.check_header_marks()?;
        duration("viewer.stall_timeout", viewer.stall_timeout, seconds(1), seconds(600))?;
        number("viewer.max_connections", viewer.max_connections, 0, 10_000_000)?;
        let of_address = viewer.max_connections_per_address;
        number("viewer.max_connections_per_address", of_address, 0, 10_000_000)?;
        let unanswered = viewer.max_unanswered_per_address;
        number("viewer.max_unanswered_per_address", unanswered, 0, 10_000_000)?;
        duration("viewer.body_timeout", viewer.body_timeout, seconds(1), seconds(600))
    }

    fn check_pull(&self) -> Result<(), Problem> {
        let pull = &self.pull;
        let (millis, seconds) = (Duration::from_millis, Duration::from_secs);
        duration("pull.silence_timeout", pull.silence_timeout, seconds(1), seconds(3600))?;
        duration("pull.retry_min", pull.retry_min, millis(50), seconds(60))?;
        duration("pull.retry_max", pull.retry_max, millis(50), seconds(3600))?;
        duration("pull.reorder", pull.reorder, millis(0), seconds(1))
    }

    fn check_package(&self) -> Result<(), Problem> {
        let package = &self.package;
        if let Err(error) = package.presentation().checked() {
            let key = match error.what {
                "segment" => "package.segment",
                "part" => "package.part",
                _ => "package.window",
            };
            return out_of(
                key,
                quantity::format_duration(error.found),
                quantity::format_duration(error.min),
                quantity::format_duration(error.max),
            );
        }
        duration("package.idle", package.idle, Duration::from_secs(1), Duration::from_secs(86_400))
    }

    fn check_upstream(&self) -> Result<(), Problem> {
        let upstream = &self.upstream;
        let (millis, seconds) = (Duration::from_millis, Duration::from_secs);
        for (key, bytes) in [
            ("upstream.cache", upstream.cache),
            ("upstream.disk_size", upstream.disk_size),
            ("upstream.max_object", upstream.max_object),
        ] {
            let [least, most] = [ByteSize::from_mebibytes(1), ByteSize::from_mebibytes(1 << 20)];
            if !(least.bytes()..=most.bytes()).contains(&bytes.bytes()) {
                return out_of(key, bytes, least, most);
            }
        }
        duration("upstream.disk_timeout", upstream.disk_timeout, millis(10), seconds(10))?;
        duration("upstream.media_ttl", upstream.media_ttl, seconds(0), seconds(86_400))?;
        duration("upstream.other_ttl", upstream.other_ttl, seconds(0), seconds(86_400))?;
        duration("upstream.negative_ttl", upstream.negative_ttl, seconds(0), seconds(3600))?;
        duration("upstream.connect_timeout", upstream.connect_timeout, millis(50), seconds(60))?;
        duration("upstream.silence_timeout", upstream.silence_timeout, seconds(1), seconds(600))?;
        number("upstream.connections", upstream.connections, 1, 65_536)?;
        upstream.check_routes()
    }

    fn check_demo(&self) -> Result<(), Problem> {
        let demo = &self.demo;
        if StreamName::parse(&demo.name).is_none() {
            return problem("demo.name", format!("{:?} is no stream name: {NAME_RULE}", demo.name));
        }
        let (width, height) = (demo.size.width, demo.size.height);
        let fits = |side: u32| (16..=4096).contains(&side) && side.is_multiple_of(2);
        if !(fits(width) && fits(height)) {
            return problem(
                "demo.size",
                format!("{width}x{height}: each side must be even and from 16 to 4096 pixels"),
            );
        }
        if !(1.0..=240.0).contains(&demo.frame_rate.as_f64()) {
            return out_of("demo.frame_rate", demo.frame_rate, 1, 240);
        }
        check_bitrate("demo.bitrate".into(), demo.bitrate)?;
        check_preset("demo.preset".into(), &demo.preset)
    }
}

pub(super) fn check_key(
    secret: &Option<Secret>,
    file: &Option<PathBuf>,
    [name, file_name]: [impl Into<Cow<'static, str>>; 2],
) -> Result<(), Problem> {
    let (name, Some(secret)) = (name.into(), secret) else { return Ok(()) };
    if file.is_some() {
        return problem(file_name, format!("stands beside {name}; keep one of the two"));
    }
    key(secret).or_else(|text| problem(name, text))
}

/// The general range of bit rates: 100k to 10000M.
pub(super) fn bitrate(key: impl Into<Cow<'static, str>>, found: Option<Bitrate>) -> Result<(), Problem> {
    let (least, most) =
        (Bitrate::from_bits_per_second(100_000), Bitrate::from_bits_per_second(10_000_000_000));
    match found {
        Some(rate) if !(least..=most).contains(&rate) => out_of(key, rate, least, most),
        _ => Ok(()),
    }
}

pub(super) fn check_pacing(key: impl Into<Cow<'static, str>>, pacing: Pacing) -> Result<(), Problem> {
    match pacing {
        Pacing::Factor(factor) if !(1.5..=100.0).contains(&factor) => {
            problem(key, format!("{factor}x is out of range; from 1.5x to 100x"))
        }
        Pacing::Rate(rate) => bitrate(key, Some(Bitrate::from_bits_per_second(rate))),
        _ => Ok(()),
    }
}

pub(super) fn check_backlog(
    section: &str,
    backlog: Option<Duration>,
    backlog_max: Option<ByteSize>,
    prebuffer: Option<Prebuffer>,
) -> Result<(), Problem> {
    let seconds = Duration::from_secs;
    if let Some(backlog) = backlog {
        duration(format!("{section}.backlog"), backlog, seconds(1), seconds(600))?;
    }
    let (least, most) = (ByteSize::from_mebibytes(1), ByteSize::from_mebibytes(64 << 10));
    if let Some(size) = backlog_max.filter(|size| !(least..=most).contains(size)) {
        return out_of(format!("{section}.backlog_max"), size, least, most);
    }
    let key = format!("{section}.prebuffer");
    match prebuffer {
        Some(Prebuffer::Time(time)) => duration(key, time, seconds(0), seconds(600)),
        Some(Prebuffer::Bytes(bytes)) if bytes > most.bytes() => {
            out_of(key, ByteSize::from_bytes(bytes), "0B", most)
        }
        _ => Ok(()),
    }
}

/// Checks a key: 8 to 256 visible ASCII characters, so that it fits into a header or a URL.
pub(super) fn key(secret: &Secret) -> Result<(), String> {
    let key = secret.expose();
    if (8..=256).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err("must be 8 to 256 visible ASCII characters without spaces; \
             `openssl rand -hex 16` makes a good one"
            .into())
    }
}

pub(super) fn number(
    key: impl Into<Cow<'static, str>>,
    found: usize,
    least: usize,
    most: usize,
) -> Result<(), Problem> {
    if (least..=most).contains(&found) { Ok(()) } else { out_of(key, found, least, most) }
}

pub(super) fn duration(
    key: impl Into<Cow<'static, str>>,
    found: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), Problem> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    let text = quantity::format_duration;
    out_of(key, text(found), text(least), text(most))
}
