//! What the registry costs a server that has no stream, while another one has many that come and go.

use crate::servers::{Cluster, Node, alone};
use anyhow::{Context, Result};
use glassline_bench::process::Others;
use glassline_bench::report::Report;
use glassline_lab::load::stamped::{Shape, Source};
use glassline_media::{FrameRate, Time};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Streams that begin in a second until all are there: a server lets so many of one address wait.
const BEGIN_A_SECOND: u32 = 200;
const CPU: &str = "processor time";
const WHO: &str = "glassline";

/// Publishers of one key frame each, the one that has been there the longest first.
struct Publishers {
    address: SocketAddr,
    begun: u32,
    connections: VecDeque<TcpStream>,
    picture: Vec<u8>,
}

impl Publishers {
    fn new(address: SocketAddr) -> Result<Publishers> {
        let frames = FrameRate::new(25, 1).context("a picture rate")?;
        let shape = Shape::new(500_000, frames).ok().context("a stream's shape")?;
        let mut picture = Vec::new();
        Source::new(shape).frame(Time::ZERO, &mut picture);
        Ok(Publishers { address, begun: 0, connections: VecDeque::new(), picture })
    }

    fn begin(&mut self) -> Result<()> {
        let mut connection = TcpStream::connect(self.address).context("cannot publish")?;
        let head = format!(
            "PUT /live/stream-{}.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n",
            self.begun,
            self.picture.len()
        );
        let message = [head.as_bytes(), &self.picture, b"\r\n"].concat();
        connection.write_all(&message).context("cannot publish")?;
        self.connections.push_back(connection);
        self.begun += 1;
        Ok(())
    }

    /// The one that has been there the longest ends its stream.
    fn end(&mut self) {
        if let Some(mut connection) = self.connections.pop_front() {
            // It may have been ended by the server already.
            let _ = connection.write_all(b"0\r\n\r\n");
        }
    }

    /// Calls `turn` so many times a second, for `time`.
    fn evenly(
        &mut self,
        a_second: u32,
        time: Duration,
        mut turn: impl FnMut(&mut Publishers) -> Result<()>,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut turns = 0;
        while begun.elapsed() < time {
            let due = (begun.elapsed().as_secs_f64() * f64::from(a_second)) as u32;
            while turns < due {
                turn(self)?;
                turns += 1;
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// The share of a core that `node` takes, in percent, for the time that `meanwhile` takes.
fn share(node: &mut Node, meanwhile: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (before, begun) = (node.server.cpu_time()?, Instant::now());
    meanwhile()?;
    node.server.check_alive()?;
    let spent = node.server.cpu_time()?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 100.0 / begun.elapsed().as_secs_f64())
}

fn wait(time: Duration) -> Result<()> {
    sleep(time);
    Ok(())
}

pub(crate) fn run(streams: u32, changes: u32, seconds: u64, runs: u64, report: &mut Report) -> Result<()> {
    let cluster = Cluster::new()?;
    let (mut busy, mut idle, mut without) = (cluster.node("a")?, cluster.node("b")?, alone("c")?);
    idle.wait_for("cluster_nodes", 2.0)?;
    let window = Duration::from_secs(seconds);
    let mut publishers = Publishers::new(busy.address)?;
    let calm = "no streams".to_owned();
    let listed = format!("{streams} streams");
    let changing = format!("{streams} streams, {changes} changes/s");
    let others = Others::begin()?;
    for _ in 0..runs {
        let value = share(&mut without, || wait(window))?;
        report.add("in no cluster", WHO, CPU, "% of a core", value);
        let value = share(&mut idle, || wait(window))?;
        report.add(&calm, WHO, CPU, "% of a core", value);
    }
    let ramp = Duration::from_secs_f64(f64::from(streams) / f64::from(BEGIN_A_SECOND));
    publishers.evenly(BEGIN_A_SECOND, ramp, Publishers::begin)?;
    while publishers.begun < streams {
        publishers.begin()?;
    }
    idle.wait_for("cluster_streams_elsewhere", f64::from(streams))?;
    for _ in 0..runs {
        let value = share(&mut idle, || wait(window))?;
        report.add(&listed, WHO, CPU, "% of a core", value);
        let before = publishers.begun;
        let value = share(&mut idle, || {
            publishers.evenly(changes / 2, window, |publishers| {
                publishers.end();
                publishers.begin()
            })
        })?;
        report.add(&changing, WHO, CPU, "% of a core", value);
        let rate = f64::from(2 * (publishers.begun - before)) / window.as_secs_f64();
        report.add_context(&changing, WHO, "changes a second", "", rate);
    }
    // What has come and gone has been heard of: those that are there are.
    idle.wait_for("cluster_streams_elsewhere", f64::from(streams))?;
    busy.server.check_alive()?;
    for case in ["in no cluster", &calm, &listed, &changing] {
        report.disturbance(case, WHO, others.share()?);
    }
    if let Some(value) = report.value(&changing, WHO, CPU) {
        report.term(format!("an idle server beside {changing}, % of a core"), value, 3.0, true);
    }
    Ok(())
}
