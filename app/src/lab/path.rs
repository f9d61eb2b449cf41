//! `glassline lab path`: a line measured by bursts in both directions, between this command and another one that listens.

use crate::key::{self, Secret};
use crate::{failure, output, picture_file, stop};
use anyhow::{Context, Result};
use glassline_io::clock::Clock;
use glassline_io::udp::{Local, Port};
use glassline_io::{random, resolve};
use glassline_lab::path::{
    Caller, CallerSettings, Failure, Listener, ListenerEvent, ListenerSettings, volume_bound,
};
use glassline_lab::path_socket;
use glassline_lab::report::path as picture;
use glassline_media::quantity::{self, Bitrate};
use glassline_transport::link::Key;
use std::io::IsTerminal;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where a listener is if nothing else is said.
const PORT: u16 = 7100;
/// A burst of 50 packets fits in a second of this.
const LOWEST_RATE: Bitrate = Bitrate::from_bits_per_second(500_000);
const HIGHEST_RATE: Bitrate = Bitrate::from_bits_per_second(1_000_000_000);

const EXAMPLES: &str = "\
Examples:
  glassline key new venue.key                          one key; copy it to both ends
  glassline lab path --listen --key venue.key          at one end, such as the server
  glassline lab path server.example --key venue.key    at the other, such as the venue: measures both directions
  glassline lab path server.example:7100 --key venue.key --max-rate 50M --svg path.svg
                                                       longer bursts more often, and a picture
  glassline lab path server.example --key venue.key --duration 1m --json
                                                       a slow line with a long queue takes longer
  glassline lab link --up 5M --down 20M --delay 20ms --queue 100p -- \\
      sh -c 'glassline lab path $GLASSLINE_FAR --key venue.key'
                                                       tried on a line that is known; the other end listens outside

Packets of 1,200 bytes are sent in bursts of 1 to 1,500, back to back, each when the one before has \
arrived. Bursts grow until one is longer than the queue of the line, then five of up to three times the \
queue are sent. What arrives of them, and when, shows the rate of the bottleneck, the length of its \
queue, and what a stream should use. --max-rate bounds the mean of any second, not a burst. Whatever \
else uses the line meanwhile changes the result, and is disturbed for moments.

A listener sends only to a caller that has the key and has shown that it receives at its address.

Exit status: 0 success, 1 if nothing came back, 2 wrong usage. docs/lab.md explains the report.";

/// Measure a line by bursts in both directions: rate, queue, loss, MTU, and what a stream should use
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The listener at the other end of the line; without a port 7100
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "listen")]
    host: Option<String>,
    /// Answer callers with the same key, one at a time, until Ctrl-C; without an address at port 7100 of all addresses
    #[arg(
        long,
        value_name = "ADDR:PORT",
        num_args = 0..=1,
        default_missing_value = "[::]:7100",
        conflicts_with_all = ["host", "duration", "json", "svg"]
    )]
    listen: Option<SocketAddr>,
    /// End when the first caller has gone
    #[arg(long, requires = "listen")]
    once: bool,
    /// File with the key that both ends share, as `glassline key new` makes it
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The most that this end sends in any second; the lower value of both ends is used
    #[arg(long, value_name = "RATE", default_value = "20M", value_parser = rate)]
    max_rate: Bitrate,
    /// How long measuring may take
    #[arg(long, value_name = "TIME", default_value = "18s", value_parser = duration)]
    duration: Duration,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Draw what passed of each burst, and the delays within the longest
    #[arg(long, value_name = "FILE.svg", value_parser = picture_file::parse)]
    svg: Option<PathBuf>,
}

fn rate(text: &str) -> Result<Bitrate, String> {
    let rate: Bitrate = text.parse().map_err(|error: quantity::QuantityError| error.to_string())?;
    if (LOWEST_RATE..=HIGHEST_RATE).contains(&rate) {
        Ok(rate)
    } else {
        Err(format!("must be from {LOWEST_RATE} to 1G: less allows no bursts, more is not sent within them"))
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = quantity::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_secs(5)..=Duration::from_secs(600);
    if range.contains(&duration) { Ok(duration) } else { Err("must be from 5s to 10m".into()) }
}

/// Measures and prints the report, or answers callers.
pub(super) fn run(args: &Args) -> Result<()> {
    let key = shared_key(&args.key)?;
    match (&args.listen, &args.host) {
        (Some(address), _) => listen(args, key, *address),
        (None, Some(host)) => call(args, key, host),
        (None, None) => unreachable!("the parser wants one of them"),
    }
}

fn shared_key(file: &Path) -> Result<Key> {
    match key::read(file)? {
        Secret::Shared(key) => Ok(key),
        Secret::Private(_) => Err(failure::usage(
            format!("{} is one half of a key pair, and both ends need the same key here", file.display()),
            "make one: glassline key new FILE",
        )),
    }
}

/// The addresses of `HOST[:PORT]`, in the order in which they are called; never none.
fn addresses(host: &str) -> Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let (name, port) = match host.rsplit_once(':') {
        // More than one colon without brackets is an address of IPv6 without a port.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
            let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
                failure::usage(format!("{port:?} in {host:?} is no port"), "write HOST:PORT, or HOST alone")
            })?;
            (name, port)
        }
        _ => (host, PORT),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let found = resolve::resolve(name, port).map_err(|error| {
        failure::failed(format!("cannot find {name}: {error}"), "check the name, or write its address")
    })?;
    Ok(resolve::in_turns(&found))
}

fn seed() -> Result<[u8; 32]> {
    random::seed().context("the system has no randomness")
}

/// `20 Mbit/s`.
fn in_megabits(rate: u64) -> String {
    let megabits = rate as f64 / 1e6;
    if megabits >= 10.0 { format!("{megabits:.0} Mbit/s") } else { format!("{megabits:.1} Mbit/s") }
}

fn in_megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn call(args: &Args, key: Key, host: &str) -> Result<()> {
    args.svg.as_deref().map_or(Ok(()), picture_file::check)?;
    let all = addresses(host)?;
    let stop = stop::on_signal()?;
    let mut caller = measure(args, &key, all[0], &stop)?;
    // Of a name with several addresses, such as one of each family, not all need lead to the listener.
    for address in &all[1..] {
        if !matches!(caller.failure(), Some(Failure::NoAnswer { .. })) || stop.load(Ordering::Relaxed) {
            break;
        }
        caller = measure(args, &key, *address, &stop)?;
    }
    let mut report = caller.report();
    let failure = caller.failure();
    if matches!(failure, Some(Failure::NoAnswer { .. } | Failure::Busy { .. })) {
        let advice = match failure {
            Some(Failure::Busy { .. }) => "try again when that has ended",
            _ => "start glassline lab path --listen there with the same key, and let UDP pass to its port",
        };
        return Err(failure::failed(failure.map_or(String::new(), |failure| failure.to_string()), advice));
    }
    report.ended = failure.map(|failure| failure.to_string());
    if report.ended.is_none() && stop.load(Ordering::Relaxed) {
        report.ended = Some("a signal".to_owned());
    }
    if let Some(path) = &args.svg {
        picture_file::write(path, &picture::draw(&format!("The line to {host}"), &report))?;
    }
    if args.json {
        output::print(&format!("{:#}\n", serde_json::to_value(&report)?))?;
    } else {
        output::print(&report.table())?;
    }
    if report.is_empty() {
        return Err(failure::failed(
            format!("no packet passed between here and {host}"),
            "see the reasons in the report; a firewall may let only some packets pass",
        ));
    }
    Ok(())
}

/// Runs a measurement to its end, with its progress on a terminal.
fn measure(args: &Args, key: &Key, listener: SocketAddr, stop: &AtomicBool) -> Result<Caller> {
    let port = Port::open(&Local::towards(listener))
        .map_err(|error| failure::failed(format!("cannot open a socket: {error}"), "check the network"))?;
    let max_bps = args.max_rate.bits_per_second();
    output::print_to_stderr(&format!(
        "measuring the line to {listener}: sends at most {} in each direction within {} s, at most {} in any second\n",
        in_megabytes(volume_bound(max_bps, args.duration)),
        args.duration.as_secs(),
        in_megabits(max_bps),
    ));
    let key = key.clone();
    let settings = CallerSettings { key, listener, max_bps, duration: args.duration, seed: seed()? };
    let mut caller = Caller::new(settings);
    let is_shown = std::io::stderr().is_terminal();
    let run = path_socket::call(port, &mut caller, stop, |caller, now| {
        if is_shown {
            let (share, what) = caller.progress(now);
            output::show_progress(&format!("{:3.0} %: {what}", share * 100.0));
        }
    });
    if is_shown {
        output::clear_progress();
    }
    run.map(|()| caller)
}

fn listen(args: &Args, key: Key, address: SocketAddr) -> Result<()> {
    let port = Port::open(&Local::at(address)).map_err(|error| {
        failure::failed(format!("cannot listen at {address}: {error}"), "name another address or port")
    })?;
    let stop = stop::on_signal()?;
    let at = port.local_address()?;
    let max_bps = args.max_rate.bits_per_second();
    let shown = match at.ip() {
        ip if ip == Ipv4Addr::UNSPECIFIED || ip == Ipv6Addr::UNSPECIFIED => format!("port {}", at.port()),
        _ => at.to_string(),
    };
    output::print_to_stderr(&format!(
        "listening at {shown}; sends at most {} in any second, to callers with the key\n",
        in_megabits(max_bps)
    ));
    let settings = ListenerSettings { key, max_bps, seed: seed()? };
    let mut listener = Listener::new(settings);
    let clock = Clock::new();
    let mut began = clock.now();
    path_socket::listen(port, &mut listener, &stop, args.once, |event| match event {
        ListenerEvent::Began { from, max_bps } => {
            began = clock.now();
            let rate = in_megabits(*max_bps);
            output::print_to_stderr(&format!("{from}: measuring, at most {rate} in any second\n"));
        }
        ListenerEvent::Ended { from, sent_bytes, received_bytes, is_orderly } => {
            let how = if *is_orderly { "done" } else { "the caller has fallen silent" };
            let seconds = clock.now().since(began).as_secs();
            output::print_to_stderr(&format!(
                "{from}: {how} after {seconds} s; sent {}, received {}\n",
                in_megabytes(*sent_bytes),
                in_megabytes(*received_bytes)
            ));
        }
    })?;
    if listener.rejected() > 0 {
        output::print_to_stderr(&format!(
            "{} datagrams were made without the key, or came too late\n",
            listener.rejected()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_port_or_the_usual_one() {
        for (host, expected) in [
            ("192.0.2.1", "192.0.2.1:7100"),
            ("192.0.2.1:9", "192.0.2.1:9"),
            ("2001:db8::1", "[2001:db8::1]:7100"),
            ("[2001:db8::1]", "[2001:db8::1]:7100"),
            ("[2001:db8::1]:9", "[2001:db8::1]:9"),
        ] {
            assert_eq!(addresses(host).unwrap()[0].to_string(), expected, "{host}");
        }
        for bad in ["192.0.2.1:x", "192.0.2.1:0x", "h:99999"] {
            assert!(addresses(bad).unwrap_err().to_string().contains("is no port"), "{bad}");
        }
    }

    #[test]
    fn rates_and_durations_have_ranges() {
        assert!(rate("20M").is_ok() && rate("1G").is_ok());
        assert!(rate("499k").unwrap_err().contains("500k") && rate("2G").is_err() && rate("20").is_err());
        assert!(duration("5s").is_ok() && duration("4s").is_err() && duration("11m").is_err());
    }
}
