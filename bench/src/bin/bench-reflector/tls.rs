//! What a viewer over TLS takes of the server's memory beside a plain one, and what the old process keeps for it once a new
//! program has taken over.

use crate::case::Case;
use crate::measure::{Times, join};
use crate::servers::OUR_PATH;
use crate::source::Source;
use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use glassline_bench::machine::{self, Cores, free_address};
use glassline_bench::process::{Others, Server};
use glassline_bench::report::{OURS, Report};
use glassline_lab::load::{Load, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Viewers of a megabit each: one thread has to decrypt it all.
const CASE: Case = Case { viewers: 300, bitrate: 1_000_000, frames: 50 };
const TLS: &str = "glassline over TLS";
const PLAIN: &str = "plain viewers beside TLS";
pub(crate) const NAME: &str = "localhost";
const MEMORY: &str = "own memory for each viewer";
const DRAINING: &str = "own memory of the old process after an upgrade, by viewers";
/// How long a handshake, and the first byte of the stream, may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A certificate in a folder of its own, which goes with it.
pub(crate) struct Certificate {
    pub(crate) folder: PathBuf,
    trusted: Arc<ClientConfig>,
}

impl Certificate {
    pub(crate) fn new() -> Result<Certificate> {
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).context("a certificate")?;
        let folder = Server::folder("certificate")?;
        let write =
            |name: &str, text: String| fs::write(folder.join(name), text).with_context(|| name.to_owned());
        write("chain.pem", pem("CERTIFICATE", made.cert.der()))?;
        write("key.pem", pem("PRIVATE KEY", &made.signing_key.serialize_der()))?;
        // A server refuses keys that others may read.
        let secret = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.join("key.pem"), secret).context("key.pem")?;
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).context("the certificate as its own authority")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trusted = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Certificate { folder, trusted: Arc::new(trusted) })
    }
}

/// Text around DER (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    let (mut text, mut out) = (STANDARD.encode(der), format!("-----BEGIN {label}-----\n"));
    while !text.is_empty() {
        let rest = text.split_off(text.len().min(64));
        out += &text;
        out.push('\n');
        text = rest;
    }
    out + &format!("-----END {label}-----\n")
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Ours with one worker, plain at `plain` and over TLS at `tls`.
fn configure(certificate: &Certificate, plain: SocketAddr, tls: SocketAddr) -> Result<PathBuf> {
    let (file, folder) = (certificate.folder.join("glassline.toml"), certificate.folder.display());
    let text = format!(
        "listen = [\"{plain}\"]\nworkers = 1\n[tls]\nlisten = [\"{tls}\"]\n\
         certificates = [{{ chain = \"{folder}/chain.pem\", key = \"{folder}/key.pem\" }}]\n\
         [viewer]\npacing = 'off'\n[log]\nlevel = \"warn\"\n"
    );
    fs::write(&file, text).context("cannot write a configuration")?;
    Ok(file)
}

fn start(file: &Path, name: &str, core: Option<usize>, more: &[&str]) -> Result<Server> {
    let file = file.to_str().context("the configuration's path is not UTF-8")?;
    let arguments = ["serve", "--config", file].into_iter().chain(more.iter().copied());
    Server::start(Server::folder(name)?, core, &machine::glassline()?, arguments)
}

/// A viewer.
struct Viewer {
    stream: TcpStream,
    tls: ClientConnection,
    bytes: u64,
}

impl Viewer {
    /// Shakes hands, and asks for the stream.
    fn connect(address: SocketAddr, trusted: &Arc<ClientConfig>) -> Result<Viewer> {
        let mut stream = TcpStream::connect(address).context("no connection")?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let mut tls = ClientConnection::new(Arc::clone(trusted), ServerName::try_from(NAME)?)?;
        write!(tls.writer(), "GET {OUR_PATH} HTTP/1.1\r\nHost: {NAME}\r\n\r\n")?;
        while tls.is_handshaking() || tls.wants_write() {
            tls.complete_io(&mut stream).context("no handshake")?;
        }
        stream.set_nonblocking(true)?;
        Ok(Viewer { stream, tls, bytes: 0 })
    }

    /// Reads what there is.
    fn read(&mut self, buffer: &mut [u8]) -> Result<()> {
        loop {
            match self.tls.read_tls(&mut self.stream) {
                Ok(0) => return Err(anyhow!("the server has let a viewer go")),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("a viewer over TLS"),
            }
            self.tls.process_new_packets().context("a viewer over TLS")?;
            loop {
                match self.tls.reader().read(buffer) {
                    Ok(0) => return Err(anyhow!("a viewer's stream has ended")),
                    Ok(count) => self.bytes += count as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error).context("a viewer over TLS"),
                }
            }
        }
    }
}

/// All read for `time`.
fn watch(viewers: &mut [Viewer], time: Duration) -> Result<()> {
    let (begin, mut buffer) = (Instant::now(), vec![0; 1 << 16]);
    while begin.elapsed() < time {
        let mut polled: Vec<_> =
            viewers.iter().map(|viewer| PollFd::new(&viewer.stream, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for viewers"),
        }
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        drop(polled);
        for (viewer, _) in viewers.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            viewer.read(&mut buffer)?;
        }
    }
    let idle = viewers.iter().filter(|viewer| viewer.bytes == 0).count();
    ensure!(idle == 0, "{idle} viewers over TLS got nothing");
    Ok(())
}

/// Memory with so many plain viewers, with as many over TLS, and of the process that goes on with their TLS.
pub(crate) fn run(times: Times, runs: u64, cores: Option<Cores>, report: &mut Report) -> Result<u64> {
    let case = format!("{PLAIN}: {CASE}");
    let (core, viewers) = (cores.map(|cores| cores.server), CASE.viewers as f64);
    for _ in 0..runs {
        let others = Others::begin()?;
        let certificate = Certificate::new()?;
        let (plain, secure) = (free_address()?, free_address()?);
        let file = configure(&certificate, plain, secure)?;
        let mut server = start(&file, "tls", core, &[])?;
        drop(server.connect(plain)?);
        let mut source = Source::publish(plain, CASE, cores.map(|cores| cores.load))?;
        let mut load = Load::new(CASE.settings(Target::at(plain, OUR_PATH)))?;
        load.run(Duration::from_millis(1500))?;
        source.check_alive()?;
        let alone = server.anonymous_bytes()?;
        join(&mut load, CASE.viewers)?;
        load.run(times.warm_up + times.window)?;
        let of_plain = (server.anonymous_bytes()? as f64 - alone as f64) / viewers;
        drop(load);
        source.end()?;
        drop(server);

        // From the start, since an allocator keeps what plain viewers have left.
        let mut server = start(&file, "tls", core, &[])?;
        drop(server.connect(plain)?);
        let mut source = Source::publish(plain, CASE, cores.map(|cores| cores.load))?;
        std::thread::sleep(Duration::from_millis(1500));
        source.check_alive()?;
        let alone = server.anonymous_bytes()?;
        let secured: Result<Vec<_>> =
            (0..CASE.viewers).map(|_| Viewer::connect(secure, &certificate.trusted)).collect();
        let mut secured = secured.with_context(|| server.log_end())?;
        watch(&mut secured, times.warm_up + times.window)?;
        let of_tls = (server.anonymous_bytes()? as f64 - alone as f64) / viewers;

        let successor = start(&file, "successor", core, &["--upgrade"])?;
        watch(&mut secured, times.warm_up + times.window)
            .with_context(|| format!("after the upgrade; its log ends with:\n{}", successor.log_end()))?;
        server.check_alive().context("the process that goes on with TLS")?;
        let draining = server.anonymous_bytes()? as f64 / viewers;
        report.disturbance(&case, OURS, others.share()?);
        report.disturbance(&case, TLS, others.share()?);
        report.add(&case, OURS, MEMORY, "kB", of_plain / 1e3);
        report.add(&case, TLS, MEMORY, "kB", of_tls / 1e3);
        report.add(&case, TLS, DRAINING, "kB", draining / 1e3);
        drop(secured);
        source.end()?;
    }
    Ok(0)
}
