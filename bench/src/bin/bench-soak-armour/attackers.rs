//! The attackers' process: started first, since it serves files behind the edge; attacks when it is told to.

use crate::attacks::{Done, Figures, come};
use crate::files::Files;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write, stdin};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

/// The process, seen from the one that measures.
pub(crate) struct Attackers {
    child: Child,
    told: BufReader<ChildStdout>,
    /// Where its files are.
    pub(crate) files: SocketAddr,
}

impl Attackers {
    /// Starts it, with the lowest priority.
    pub(crate) fn start(without: &[String]) -> Result<Attackers> {
        let own = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(own).arg("--attackers");
        without.iter().for_each(|name| _ = command.args(["--without", name]));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the attackers")?;
        let mut told = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut line = String::new();
        told.read_line(&mut line).context("the attackers say nothing")?;
        let files = line.trim().parse().context("the attackers do not say where their files are")?;
        Ok(Attackers { child, told, files })
    }

    /// Has it attack these servers, the origin first.
    pub(crate) fn attack(&mut self, [origin, edge]: [SocketAddr; 2], time: Duration) -> Result<()> {
        let mut input = self.child.stdin.take().context("they attack already")?;
        writeln!(input, "{origin} {edge} {}", time.as_secs()).context("the attackers do not listen")
    }

    /// What they did, once they are through.
    pub(crate) fn wait(mut self) -> Result<Figures> {
        let mut line = String::new();
        self.told.read_line(&mut line).context("the attackers say nothing")?;
        ensure!(self.child.wait().context("the attackers are gone")?.success(), "the attackers have failed");
        let value: Value = serde_json::from_str(&line).context("the attackers say no figures")?;
        let counts = value["counts"].as_array().into_iter().flatten();
        let complaints = value["complaints"].as_array().into_iter().flatten();
        Ok(Figures {
            counts: counts.filter_map(Value::as_u64).collect(),
            wrong: value["wrong"].as_u64().context("the attackers tell of no good objects")?,
            complaints: complaints.filter_map(|word| word.as_str().map(str::to_owned)).collect(),
        })
    }
}

/// Is that process.
pub(crate) fn be(without: &[String]) -> Result<()> {
    glassline_io::process::raise_descriptor_limit();
    let files = Files::serve()?;
    println!("{}", files.address);
    let mut line = String::new();
    stdin().read_line(&mut line).context("nobody says whom to attack")?;
    let mut words = line.split_whitespace();
    let mut next = || words.next().context("it is: ORIGIN EDGE SECONDS");
    let servers: [SocketAddr; 2] = [next()?.parse()?, next()?.parse()?];
    let time = Duration::from_secs(next()?.parse()?);
    let (over, done) = (AtomicBool::new(false), Done::new(without));
    scope(|scope| {
        scope.spawn(|| come(servers, &over, &done));
        sleep(time);
        over.store(true, Ordering::Relaxed);
    });
    let Figures { counts, wrong, complaints } = done.figures();
    println!("{}", json!({ "counts": counts, "wrong": wrong, "complaints": complaints }));
    Ok(())
}
