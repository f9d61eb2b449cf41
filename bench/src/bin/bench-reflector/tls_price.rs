//! What a stream over TLS takes of the server's core, beside nginx with TLS in front of a relay without.

use crate::case::Case;
use crate::measure::{SATURATED, Spent, Times, join};
use crate::servers::{OUR_PATH, ours, program, start_nginx};
use crate::tls::{Certificate, NAME};
use anyhow::{Context, Result, ensure};
use glassline_bench::machine::{Cores, free_address};
use glassline_bench::process::{Others, Server};
use glassline_bench::report::{OURS, Report};
use glassline_io::small_file::Accept;
use glassline_io::tls::{Connector, Roots};
use glassline_lab::load::{Check, Feed, Load, Settings, Target, plain};
use std::net::SocketAddr;
use std::time::Duration;

/// The first is more than nginx' core takes on most machines.
const CASES: [Case; 2] = [Case::new(1000, 5), Case::new(300, 5)];
const NGINX: &str = "nginx";
/// Viewers that read every byte for its mistakes and its delay; the others' bytes are decrypted all the same.
const CHECKED: usize = 100;

/// A relay that viewers reach over TLS, and the plain one that is published to.
struct Started {
    measured: Server,
    /// Where the measured one is not the relay.
    relay: Option<Server>,
    secure: SocketAddr,
    publish: SocketAddr,
}

/// Both by turns.
pub(crate) fn run(times: Times, runs: u64, cores: Option<Cores>, report: &mut Report) -> Result<u64> {
    let mut wrong = 0;
    let peer = program("nginx").is_ok();
    if !peer {
        report.note("SKIPPED nginx over TLS: no nginx here (apt install nginx-light)");
    }
    for case in CASES {
        let mut holds = peer;
        for _ in 0..runs {
            let certificate = Certificate::new()?;
            let started = glassline(&certificate, cores)?;
            wrong += measure(case, OURS, started, &certificate, times, cores, report)?;
            if holds {
                let measured = nginx(case, &certificate, cores)
                    .and_then(|started| measure(case, NGINX, started, &certificate, times, cores, report));
                if let Err(error) = measured {
                    report.note(format!("{case} over TLS: nginx cannot hold the load ({error:#})"));
                    holds = false;
                }
            }
        }
    }
    Ok(wrong)
}

/// Ours does TLS itself.
fn glassline(certificate: &Certificate, cores: Option<Cores>) -> Result<Started> {
    let (publish, secure, folder) = (free_address()?, free_address()?, certificate.folder.display());
    let tls = format!(
        "[tls]\nlisten = [\"{secure}\"]\ncertificates = [{{ chain = \"{folder}/chain.pem\", \
         key = \"{folder}/key.pem\" }}]\n"
    );
    let measured = ours(&[publish], &tls, cores.map(|cores| cores.server))?;
    Ok(Started { measured, relay: None, secure, publish })
}

/// nginx as a proxy, one request of a relay without TLS for each viewer. The relay is on the load's core.
fn nginx(case: Case, certificate: &Certificate, cores: Option<Cores>) -> Result<Started> {
    let (publish, secure) = (free_address()?, free_address()?);
    let relay = ours(&[publish], "", cores.map(|cores| cores.load))?;
    let keys = certificate.folder.display();
    let http = format!(
        "server {{ listen {secure} ssl; ssl_certificate {keys}/chain.pem; ssl_certificate_key {keys}/key.pem;\n\
         location / {{ proxy_pass http://{publish}; proxy_http_version 1.1; proxy_buffering off; }} }}"
    );
    let (folder, core) = (Server::folder("nginx-tls")?, cores.map(|cores| cores.server));
    let measured = start_nginx(folder, 2 * case.viewers + 100, &http, core)?;
    Ok(Started { measured, relay: Some(relay), secure, publish })
}

fn measure(
    case: Case,
    who: &str,
    started: Started,
    certificate: &Certificate,
    times: Times,
    cores: Option<Cores>,
    report: &mut Report,
) -> Result<u64> {
    let Started { mut measured, mut relay, secure, publish } = started;
    let target = Target::resolve(&format!("https://{NAME}:{}{OUR_PATH}", secure.port()))?;
    let trust = Connector::new(&Roots::File(certificate.folder.join("chain.pem")), Accept::RegularFile)?;
    let settings = Settings {
        trust: Some(trust),
        // A handshake costs as much as some seconds of the stream.
        ramp: 500.0,
        check: Check::Sample(CHECKED),
        ..case.settings(target)
    };
    let mut load = Load::new(settings)?;
    let publisher = relay.as_mut().unwrap_or(&mut measured).connect(publish)?;
    let feed = Feed::publish_over(plain(publisher)?, &Target::at(publish, OUR_PATH))?;
    load.feed(feed, case.shape())?;
    load.run(Duration::from_millis(500))?;
    drop(measured.connect(secure)?);
    join(&mut load, case.viewers).with_context(|| format!("{who}: {}", measured.log_end()))?;
    load.run(times.warm_up)?;
    let (others, before) = (Others::begin()?, Spent::so_far(&measured, cores)?);
    load.begin_window();
    load.run(times.window)?;
    let (tally, others) = (load.tally(), others.share()?);
    let spent = Spent::so_far(&measured, cores)?.since(before);
    ensure!(tally.failed() == 0, "{who}: {} viewers were dropped: {:?}", tally.failed(), tally.reasons);
    let case = &format!("over TLS: {case}");
    report.disturbance(case, who, others);
    let (window, seconds) = (&tally.window, tally.window.seconds);
    if spent.load_share(seconds) > SATURATED {
        report.note(format!("{case}, {who}: the load's core is full, so that delays are partly its own"));
    }
    let cpu = spent.server_share(seconds) * seconds;
    report.add(case, who, "throughput", "Gbit/s", window.bytes as f64 * 8.0 / seconds / 1e9);
    report.add(case, who, "server CPU", "s/GB", cpu / (window.bytes as f64 / 1e9));
    report.add(case, who, "server CPU share", "%", spent.server_share(seconds) * 100.0);
    let millis = |quantile| window.first_packet.quantile(quantile) as f64 / 1e6;
    report.add(case, who, "delay of first packet p50", "ms", millis(0.5));
    report.add(case, who, "delay of first packet p99", "ms", millis(0.99));
    report.add(case, who, "checked viewers behind", "", window.viewers_behind as f64);
    Ok(if relay.is_none() { tally.verdict.errors() } else { 0 })
}
