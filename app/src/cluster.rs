//! `glassline cluster`: what a server knows of its cluster, and servers that are emptied.

use crate::trust::Trust;
use crate::{failure, output};
use anyhow::Result;
use glassline_delivery::http1::{Method, Url};
use glassline_inspect::http::Response;
use glassline_io::clock::Clock;
use glassline_media::quantity::parse_duration;
use serde::Deserialize;
use std::fmt::Write as _;
use std::time::Duration;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// More than 65,536 streams take.
const ANSWER_MAX_BYTES: usize = 16 << 20;

/// Show what a server knows of the other servers of its cluster, or empty it for maintenance
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Status(StatusArgs),
    Drain(DrainArgs),
}

/// Empty a server: what comes is sent to other servers, and so are running viewers and publishers that can follow
///
/// Ends with status 0 when no viewer, no publisher and no player is left, with 1 where some are left behind --timeout. Publishers that
/// come are not let in until --undo, or until the server is started again; viewers are served where no other server can do it. Pages of
/// the program's own player, publishers and viewers by SRT and RTSP, and publishers by RTMP that run are not ended: they are left to their
/// end.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
struct DrainArgs {
    /// The server that is emptied; it answers operators, as /metrics
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: Url,
    /// Let viewers and publishers come again
    #[arg(long)]
    undo: bool,
    /// In which time running viewers of the transport stream are sent on, each at a key frame; 1h at most
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    over: Duration,
    /// How long to wait until it is empty
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    trust: Trust,
}

/// Show which servers there are, and which of them has which stream
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
struct StatusArgs {
    /// The server that is asked; it answers operators, as /metrics
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: Url,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: Trust,
}

const EXAMPLES: &str = "\
Examples:
  glassline cluster status
  glassline cluster status --server http://10.0.0.1:8080 --json
  glassline cluster drain --server http://10.0.0.1:8080 --timeout 30m
  glassline cluster drain --server http://10.0.0.1:8080 --over 1m --timeout 30m
  glassline cluster drain --server http://10.0.0.1:8080 --undo";

/// How often it is asked what is left.
const PROGRESS: Duration = Duration::from_secs(1);

/// What is shown of `GET /api/cluster`.
#[derive(Deserialize)]
struct Report {
    #[serde(default, rename = "static")]
    places: Vec<Place>,
    node: Option<String>,
    registry: Option<Registry>,
    #[serde(default)]
    nodes: Vec<Node>,
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    unread: Vec<Unread>,
    #[serde(default)]
    pulled: Vec<Pulled>,
    drain: Option<Drain>,
}

/// How far a server is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct Drain {
    draining: bool,
    viewers: u64,
    publishers: u64,
    pulls: u64,
    /// Servers of versions before this one do not say it.
    #[serde(default)]
    players: u64,
}

impl Drain {
    fn is_empty(self) -> bool {
        self.viewers == 0 && self.publishers == 0 && self.players == 0
    }

    fn words(self) -> String {
        let Drain { viewers, publishers, pulls, players, .. } = self;
        let count =
            |number: u64, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
        let parts =
            [(viewers, "viewer"), (publishers, "publisher"), (players, "player"), (pulls, "pulled stream")];
        parts.map(|(number, word)| count(number, word)).join(", ")
    }

    /// What to do about what is left.
    fn advice(self) -> &'static str {
        if self.viewers == 0 && self.publishers == 0 {
            return "players of LL-HLS and LL-DASH ask here first each time: lead them elsewhere by DNS or a load balancer, and wait on";
        }
        "wait on; publishers that do not move by themselves have to be led elsewhere. What is left when the server is stopped ends then"
    }
}

#[derive(Deserialize)]
struct Pulled {
    stream: String,
    node: Option<String>,
    hops: Option<u8>,
}

#[derive(Deserialize)]
struct Place {
    pattern: String,
    server: String,
}

#[derive(Deserialize)]
struct Registry {
    heard: bool,
    bucket: String,
    server: Option<String>,
    error: Option<String>,
    #[serde(default)]
    twin: bool,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    address: String,
    zone: String,
    version: String,
    viewers: u64,
    alive: bool,
    leaving: bool,
    #[serde(default)]
    draining: bool,
}

#[derive(Deserialize)]
struct Stream {
    name: String,
    node: String,
    epoch: u64,
    live: bool,
}

#[derive(Deserialize)]
struct Unread {
    name: String,
    error: String,
}

/// Runs the command to its end.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::Status(args) => status(args),
        Action::Drain(args) => drain(args),
    }
}

fn drain(args: &DrainArgs) -> Result<()> {
    let (server, trust) = (&args.server, &args.trust);
    let method = if args.undo { Method::Delete } else { Method::Post };
    let is_no_answer = |error: serde_json::Error| {
        failure::failed(
            format!("{server}: the answer is none of a server of glassline: {error}"),
            "ask a server of this version",
        )
    };
    let path = match args.undo {
        true => "/api/cluster/drain".to_owned(),
        false => format!("/api/cluster/drain?over={}ms", args.over.as_millis()),
    };
    let body = ask(method, server, &path, trust)?;
    let mut left = serde_json::from_str::<Drain>(&body).map_err(is_no_answer)?;
    if args.undo {
        return output::print("viewers and publishers may come again\n");
    }
    let deadline = Clock.now() + args.timeout;
    output::print(&format!("left: {}\n", left.words()))?;
    while !left.is_empty() {
        if Clock.now() >= deadline {
            let message = format!("{server} is not empty: {} are left", left.words());
            return Err(failure::failed(message, left.advice()));
        }
        std::thread::sleep(PROGRESS.min(deadline.since(Clock.now())));
        let body = ask(Method::Get, server, "/api/cluster", trust)?;
        let now = serde_json::from_str::<Report>(&body).map_err(is_no_answer)?.drain;
        let Some(now) = now.filter(|now| now.draining) else {
            return Err(failure::failed(
                format!("{server} is not emptied any more"),
                "something has undone it, or it was started again",
            ));
        };
        if now != left {
            output::print(&format!("left: {}\n", now.words()))?;
            let are_players_alone =
                |drain: Drain| drain.viewers == 0 && drain.publishers == 0 && drain.players > 0;
            if are_players_alone(now) && !are_players_alone(left) {
                output::print(&format!("{}\n", now.advice()))?;
            }
        }
        left = now;
    }
    output::print("empty\n")
}

fn status(args: &StatusArgs) -> Result<()> {
    let body = ask(Method::Get, &args.server, "/api/cluster", &args.trust)?;
    if args.json {
        return output::print(&format!("{}\n", body.trim_end()));
    }
    let report = serde_json::from_str::<Report>(&body).map_err(|error| {
        failure::failed(
            format!("{}: the answer is none of a server of glassline: {error}", args.server),
            "ask a server of this version",
        )
    })?;
    output::print(&shown(&report))
}

fn ask(method: Method, server: &Url, path: &str, trust: &Trust) -> Result<String> {
    let base = server.target().trim_end_matches('/').to_owned();
    let url = server.at(&format!("{base}{path}"));
    let refused =
        |error: &dyn std::fmt::Display, advice: &str| failure::failed(format!("{url}: {error}"), advice);
    let trust = if url.tls() { Some(trust.connector()?) } else { None };
    let deadline = Clock.now() + ANSWER_TIMEOUT;
    let mut response = Response::ask(method, &url, trust.as_ref(), deadline)
        .map_err(|error| refused(&error, "look whether the server runs, and at this address"))?;
    let status = response.head().status;
    if status == 409 {
        return Err(refused(
            &"the server is alone",
            "name the others by [cluster] nats in its configuration",
        ));
    }
    if status != 200 {
        let advice = "ask on the server's own machine, from its [admin] networks or by its admin listener";
        return Err(refused(&format!("the server answered {status}"), advice));
    }
    let (mut body, mut room) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let count = response
            .read(&mut room, deadline)
            .map_err(|error| refused(&error, "the answer broke off; ask again"))?;
        body.extend_from_slice(&room[..count]);
        if count == 0 || body.len() > ANSWER_MAX_BYTES {
            break;
        }
    }
    String::from_utf8(body).map_err(|error| refused(&error, "ask a server of glassline"))
}

fn shown(report: &Report) -> String {
    let mut text = String::new();
    match (&report.registry, &report.node) {
        (Some(registry), Some(node)) => {
            let server = registry.server.as_deref().unwrap_or("no server yet");
            let _ = match (registry.heard, &registry.error) {
                (true, _) => writeln!(text, "{node}: bucket {} at {server}", registry.bucket),
                (false, Some(error)) => writeln!(
                    text,
                    "{node}: bucket {} is NOT heard ({error}); what follows was heard last",
                    registry.bucket
                ),
                (false, None) => writeln!(text, "{node}: bucket {} is not heard yet", registry.bucket),
            };
            if registry.twin {
                let _ = writeln!(
                    text,
                    "ANOTHER SERVER has the name {node}; give one of them another [cluster] node"
                );
            }
        }
        _ => text.push_str("no registry: [cluster] nats names none\n"),
    }
    if !report.nodes.is_empty() {
        let _ = writeln!(
            text,
            "\n{:<20} {:<9} {:<12} {:>8}  {:<10} ADDRESS",
            "NODE", "STATE", "ZONE", "VIEWERS", "VERSION"
        );
    }
    for node in &report.nodes {
        let state = match (node.alive, node.leaving, node.draining) {
            (_, true, _) => "leaving",
            (true, false, true) => "draining",
            (true, false, false) => "alive",
            (false, false, _) => "away",
        };
        let Node { name, zone, viewers, version, address, .. } = node;
        let _ = writeln!(text, "{name:<20} {state:<9} {zone:<12} {viewers:>8}  {version:<10} {address}");
    }
    if !report.streams.is_empty() {
        let _ = writeln!(text, "\n{:<32} {:<20} {:<6} {:>8}", "STREAM", "NODE", "STATE", "EPOCH");
    }
    for Stream { name, node, epoch, live } in &report.streams {
        let state = if *live { "live" } else { "ended" };
        let _ = writeln!(text, "{name:<32} {node:<20} {state:<6} {epoch:>8}");
    }
    if !report.pulled.is_empty() {
        let _ = writeln!(text, "\n{:<32} {:<20} {:>4}", "PULLED HERE", "FROM NODE", "HOPS");
    }
    for Pulled { stream, node, hops } in &report.pulled {
        let hops = hops.map_or_else(String::new, |hops| hops.to_string());
        let _ = writeln!(text, "{stream:<32} {:<20} {hops:>4}", node.as_deref().unwrap_or("none yet"));
    }
    for Unread { name, error } in &report.unread {
        let _ = writeln!(text, "\n{name}: {error}");
    }
    if !report.places.is_empty() {
        let _ = writeln!(text, "\n{:<32} SERVER", "STATIC");
    }
    for Place { pattern, server } in &report.places {
        let _ = writeln!(text, "{pattern:<32} {server}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_is_not_heard_is_told_in_words() {
        let text = r#"{"static":[{"pattern":"b-*","server":"http://h/"}],"node":"a","registry":{"heard":false,"server":null,
            "bucket":"glassline","error":"timed out","claims":1},"nodes":[{"name":"a","address":"http://i/","zone":"z","version":"1",
            "viewers":3,"alive":true,"leaving":false,"own":true}],"streams":[{"name":"s","node":"a","epoch":7,"live":true}],
            "unread":[{"name":"x","error":"a later form"}],"pulled":[{"stream":"p","node":"relay-7","hops":2},
            {"stream":"q","node":null,"hops":null}]}"#;
        let shown = shown(&serde_json::from_str(text).unwrap());
        for words in [
            "a: bucket glassline is NOT heard (timed out)",
            "alive",
            "live",
            "x: a later form",
            "b-*",
            "relay-7",
            "none yet",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        let alone = serde_json::from_str(r#"{"static":[]}"#).unwrap();
        assert_eq!(super::shown(&alone), "no registry: [cluster] nats names none\n");
    }

    #[test]
    fn a_server_is_empty_when_no_player_asks_it_any_more_and_what_to_do_about_those_is_said() {
        let drain = |text: &str| serde_json::from_str::<Drain>(text).unwrap();
        let players = drain(r#"{"draining":true,"viewers":0,"publishers":0,"pulls":1,"players":2}"#);
        assert_eq!(players.words(), "0 viewers, 0 publishers, 2 players, 1 pulled stream");
        assert!(!players.is_empty() && players.advice().contains("DNS"));
        // An earlier version says nothing of them.
        let earlier = drain(r#"{"draining":true,"viewers":1,"publishers":0,"pulls":0}"#);
        assert!(!earlier.is_empty() && !earlier.advice().contains("DNS"));
        assert!(drain(r#"{"draining":true,"viewers":0,"publishers":0,"pulls":3}"#).is_empty());
    }
}
