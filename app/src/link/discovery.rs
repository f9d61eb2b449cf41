//! Peers by name: listeners that announce themselves in the local network, as a list (`glassline link discover`) or
//! to connect to (`mdns:NAME`).

use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_io::discovery::{Announcement, AnnouncementEvent, Browser, Change, Found, Service, check_name};
use glassline_media::{printable, quantity};
use glassline_transport::link::wire::packet::VERSION;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The service type of links.
const KIND: &str = "_glassline-link._udp.local.";
/// The key for the version of the wire format, which is announced beside a link's name and address. Everyone in the
/// network can read it.
const VERSION_KEY: &str = "v";
/// The largest number of names in the list: everyone in the network can announce some.
const MAX_FOUND: usize = 1000;
/// How often the log says that a name was not found.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// How long a listener that does not answer is searched for at another address, each time.
const LOOK: Duration = Duration::from_secs(5);
/// How soon a search ends after it is stopped.
const HEED: Duration = Duration::from_millis(100);

/// List the listeners in this network that announce themselves (multicast DNS)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Discover {
    /// How long to wait for answers
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = quantity::parse_duration)]
    wait: Duration,
    /// Ask only on this network interface
    #[arg(long, value_name = "IFACE")]
    interface: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  glassline link listen 0.0.0.0:7000 --key drone.key --announce ground --channel 1:lines,out=-     (elsewhere)
  glassline link discover
  glassline link connect mdns:ground --key drone.key --channel 1:lines,in=-

Anyone in the network can announce anything: both ends authenticate each other by the key.";

/// A listener that announces itself.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    addresses: &'a [SocketAddr],
    host: &'a str,
    version: Option<u8>,
}

/// Runs the command to its end.
pub(super) fn run(args: &Discover) -> Result<()> {
    let deadline = Instant::now() + args.wait;
    let browser = browser(args.interface.as_deref())?;
    let mut found = BTreeMap::new();
    while let Some(change) = browser.next(deadline) {
        match change {
            Change::Found(one) if found.len() < MAX_FOUND || found.contains_key(&one.name) => {
                found.insert(one.name.clone(), one);
            }
            Change::Found(_) => {}
            Change::Gone(name) => _ = found.remove(&name),
        }
    }
    drop(browser);
    let rows: Vec<_> = found.values().map(row).collect();
    if args.json {
        let mut text = serde_json::to_string_pretty(&rows).context("cannot write JSON")?;
        text.push('\n');
        return output::print(&text);
    }
    if rows.is_empty() {
        output::print_to_stderr("no listener announces itself here; start one with --announce NAME\n");
    }
    output::print(&table(&rows))
}

fn row(found: &Found) -> Row<'_> {
    Row { name: &found.name, addresses: &found.addresses, host: &found.host, version: version(found) }
}

fn version(found: &Found) -> Option<u8> {
    found.properties.get(VERSION_KEY)?.parse().ok()
}

/// A line for each address; empty if there are no listeners.
fn table(rows: &[Row<'_>]) -> String {
    // The announcing machine chooses these texts: they must not control the terminal.
    let plain = |text: &str| printable::line(text).into_owned();
    let mut lines = vec![["NAME".to_owned(), "ADDRESS".to_owned(), "HOST".to_owned()]];
    for row in rows {
        let name = match row.version {
            Some(VERSION) => plain(row.name),
            Some(other) => format!("{} (version {other})", plain(row.name)),
            None => format!("{} (no version)", plain(row.name)),
        };
        lines.extend(row.addresses.iter().map(|at| [name.clone(), at.to_string(), plain(row.host)]));
    }
    if lines.len() == 1 {
        return String::new();
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let (name, address) = (width(0), width(1));
    lines.iter().map(|[a, b, c]| format!("{a:<name$}  {b:<address$}  {c}\n")).collect()
}

fn browser(interface: Option<&str>) -> Result<Browser> {
    Browser::new(KIND, interface).map_err(|error| {
        failure::failed(format!("cannot ask the network: {error}"), "`ip link` lists network interfaces")
    })
}

/// Parses a name for `--announce`.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    check_name(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// Announces a link at `address` in the network, as long as the result lives.
pub(super) fn announce(name: &str, address: SocketAddr, interface: Option<&str>) -> Result<Announcement> {
    let version = VERSION.to_string();
    let properties = [(VERSION_KEY, version.as_str())];
    let service = Service { kind: KIND, name, address, interface, properties: &properties };
    let told = Announcement::new(&service, |news| match news {
        AnnouncementEvent::Renamed(name) => {
            tracing::warn!(
                name,
                "another listener already has the requested name; this one is announced instead"
            );
        }
        AnnouncementEvent::Trouble(what) => tracing::warn!("announcing: {what}"),
    });
    let announcement = told.with_context(|| format!("cannot announce {name:?}"))?;
    tracing::info!(name, "announced");
    Ok(announcement)
}

/// A listener that is found by its name in the network.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(super) name: String,
    /// The only address family that our sockets can reach. `None` if they can reach both; then the first address is
    /// used.
    pub(super) is_ipv4: Option<bool>,
}

impl Wanted {
    /// The name in `mdns:NAME`; `None` if the text is something else.
    pub(super) fn parse(text: &str) -> Option<&str> {
        text.strip_prefix("mdns:")
    }

    /// The listener's address. Waits until the listener is found, and logs from time to time that it is not. An error
    /// after `timeout`, `None` once it `is_stopped`.
    pub(super) fn find(
        &self,
        timeout: Option<Duration>,
        mut is_stopped: impl FnMut() -> bool,
    ) -> Result<Option<SocketAddr>> {
        let begin = Instant::now();
        let mut stopped = false;
        loop {
            let left = timeout.map_or(SAY_EVERY, |timeout| timeout.saturating_sub(begin.elapsed()));
            let found = self.look(left.min(SAY_EVERY), || {
                stopped = stopped || is_stopped();
                stopped
            })?;
            if found.is_some() || stopped {
                return Ok(found);
            }
            let what = format!("no listener announces itself as {:?} here", self.name);
            if timeout.is_some_and(|timeout| timeout <= begin.elapsed()) {
                return Err(failure::failed(what, "`glassline link discover` lists those that do"));
            }
            tracing::warn!("{what}; `glassline link discover` lists those that do; trying again");
        }
    }

    /// The listener's current address, if it answers within a few seconds.
    pub(super) fn look_again(&self) -> Option<SocketAddr> {
        self.look(LOOK, || false).ok().flatten()
    }

    fn look(&self, timeout: Duration, mut is_stopped: impl FnMut() -> bool) -> Result<Option<SocketAddr>> {
        let deadline = Instant::now() + timeout;
        let browser = browser(None)?;
        while Instant::now() < deadline && !is_stopped() {
            let until = deadline.min(Instant::now() + HEED);
            match browser.next(until) {
                Some(Change::Found(found)) => {
                    if let Some(address) = self.choose(&found) {
                        return Ok(Some(address));
                    }
                }
                Some(Change::Gone(_)) => {}
                // The browser returns early if it cannot keep up.
                None => std::thread::sleep(until.saturating_duration_since(Instant::now())),
            }
        }
        Ok(None)
    }

    fn choose(&self, found: &Found) -> Option<SocketAddr> {
        if !found.name.eq_ignore_ascii_case(&self.name) {
            return None;
        }
        if let Some(other) = version(found).filter(|version| *version != VERSION) {
            tracing::warn!("{:?} speaks version {other} of the link, and this program {VERSION}", self.name);
        }
        let fits = |address: &&SocketAddr| self.is_ipv4.is_none_or(|wanted| address.is_ipv4() == wanted);
        found.addresses.iter().find(fits).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, version: &str) -> Found {
        Found {
            name: name.into(),
            host: "ground\u{7}.local".into(),
            addresses: vec!["192.0.2.1:7000".parse().unwrap(), "[2001:db8::1]:7000".parse().unwrap()],
            properties: [("v".to_owned(), version.to_owned())].into(),
        }
    }

    #[test]
    fn a_table_of_what_others_claim_cannot_steer_a_terminal() {
        let all = [found("ground\u{1b}[2J", "1"), found("next", "7"), found("odd", "x")];
        let rows: Vec<_> = all.iter().map(row).collect();
        let text = table(&rows);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>(),
            ["ground\\u001b[2J", "192.0.2.1:7000", "ground\\u0007.local"]
        );
        assert!(lines[3].starts_with("next (version 7)  ") && lines[5].starts_with("odd (no version)"));
        assert_eq!(table(&[]), "");
        let json = serde_json::to_value(&rows).unwrap();
        assert_eq!((&json[0]["version"], &json[2]["version"]), (&1.into(), &serde_json::Value::Null));
        assert_eq!(json[0]["addresses"][0], "192.0.2.1:7000");
    }

    #[test]
    fn the_wanted_one_is_chosen_by_name_and_family() {
        let wanted = |is_ipv4| Wanted { name: "Ground".into(), is_ipv4 };
        let ground = found("ground", "1");
        assert_eq!(wanted(None).choose(&ground), Some(ground.addresses[0]));
        assert_eq!(wanted(Some(false)).choose(&ground), Some(ground.addresses[1]));
        assert_eq!(wanted(None).choose(&found("ground (2)", "1")), None);
        assert_eq!((Wanted::parse("mdns:my drone"), Wanted::parse("ground:7000")), (Some("my drone"), None));
    }
}
