//! Viewers at the server that has the publisher, and at another one.

use crate::servers::{Cluster, Node};
use anyhow::{Context, Result, ensure};
use glassline_bench::process::Others;
use glassline_bench::report::Report;
use glassline_lab::load::stamped::Shape;
use glassline_lab::load::{Check, Feed, Load, Settings, Spread, Tally, Target, plain};
use glassline_media::FrameRate;
use std::net::TcpStream;
use std::time::Duration;

const VIEWERS: usize = 20;
/// The longest that a viewer waits for its first byte.
const JOINED_WITHIN: Duration = Duration::from_secs(20);
/// Viewers' first seconds have a backlog.
const WARM_UP: Duration = Duration::from_secs(2);
/// Bits a second of streams that are joined.
const JOIN_BPS: u64 = 2_000_000;
/// By then there is a key frame.
const PUBLISHED: Duration = Duration::from_millis(1300);

const FIRST: &str = "delay of first packet";
const LAST: &str = "delay of last packet";
const BYTE: &str = "request to first byte";
const PICTURE: &str = "request to whole picture";
const STRAIGHT: &str = "publisher's server";
const HOP: &str = "a hop away";

fn millis(spread: &Spread, quantile: f64) -> f64 {
    spread.quantile(quantile) as f64 / 1e6
}

/// Publishes a stream of the name at `publisher`, lets `viewers` watch it at `server`, and measures for `window`.
fn watch(
    name: &str,
    shape: Shape,
    publisher: &Node,
    server: &Node,
    viewers: usize,
    [before, warm_up, window]: [Duration; 3],
) -> Result<Tally> {
    let path = format!("/live/{name}.ts");
    let target = Target::at(server.address, &path);
    let settings = Settings {
        ramp: 4000.0,
        timeout: JOINED_WITHIN,
        check: Check::All,
        ..Settings::new(target, viewers)
    };
    let mut load = Load::new(settings)?;
    let connection = TcpStream::connect(publisher.address).context("cannot publish")?;
    load.feed(Feed::publish_over(plain(connection)?, &Target::at(publisher.address, &path))?, shape)?;
    load.run(before)?;
    load.join();
    while !load.has_joined() || load.progress().waiting > 0 {
        load.run(Duration::from_millis(5))?;
    }
    load.run(warm_up)?;
    load.begin_window();
    load.run(window)?;
    let tally = load.tally();
    ensure!(tally.failed() == 0, "{} viewers were refused or dropped: {:?}", tally.failed(), tally.reasons);
    ensure!(tally.verdict.errors() == 0, "packets are wrong, missing or repeated: {:?}", tally.verdict);
    Ok(tally)
}

/// A picture's delay at the publisher's server, and at one that pulls from it.
pub(crate) fn hop(seconds: u64, runs: u64, report: &mut Report) -> Result<()> {
    let cluster = Cluster::new()?;
    let (publisher, mut other) = (cluster.node("a")?, cluster.node("b")?);
    other.wait_for("cluster_nodes", 2.0)?;
    let window = Duration::from_secs(seconds);
    let case = format!("{VIEWERS} viewers × 5 Mbit/s");
    for run in 0..runs {
        for (place, server) in [(STRAIGHT, &publisher), (HOP, &other)] {
            let (others, name) = (Others::begin()?, format!("hop{run}-{}", server.address.port()));
            let times = [PUBLISHED, WARM_UP, window];
            let tally = watch(&name, Shape::default(), &publisher, server, VIEWERS, times)?;
            report.disturbance(&case, place, others.share()?);
            let mut add = |metric, value| report.add(&case, place, metric, "ms", value);
            add("delay of first packet p50", millis(&tally.window.first_packet, 0.5));
            add("delay of first packet p99", millis(&tally.window.first_packet, 0.99));
            add("delay of last packet p50", millis(&tally.window.last_packet, 0.5));
            add("delay of last packet p99", millis(&tally.window.last_packet, 0.99));
        }
    }
    for (metric, quantile, most) in
        [(FIRST, "p50", 1.0), (LAST, "p50", 1.0), (FIRST, "p99", 5.0), (LAST, "p99", 5.0)]
    {
        let of = |place| report.value(&case, place, &format!("{metric} {quantile}"));
        if let (Some(straight), Some(hop)) = (of(STRAIGHT), of(HOP)) {
            report.term(format!("a hop adds to the {metric}, {quantile}, ms"), hop - straight, most, true);
        }
    }
    Ok(())
}

/// Joins of streams that no viewer has asked for.
pub(crate) fn joins(joins: u64, report: &mut Report) -> Result<()> {
    let cluster = Cluster::new()?;
    let (publisher, mut other) = (cluster.node("a")?, cluster.node("b")?);
    other.wait_for("cluster_nodes", 2.0)?;
    let frames = FrameRate::new(25, 1).context("a picture rate")?;
    let shape = Shape::new(JOIN_BPS, frames).ok().context("a stream's shape")?;
    let (case, others) = ("first viewer".to_owned(), Others::begin()?);
    for (place, server) in [(STRAIGHT, &publisher), (HOP, &other)] {
        let (mut first_byte, mut picture) = (Vec::new(), Vec::new());
        for join in 0..joins {
            let name = format!("join{join}-{}", server.address.port());
            // At another moment of the second from one key frame to the next each time.
            let before = PUBLISHED + Duration::from_millis(join * 137 % 1000);
            let times = [before, Duration::from_millis(300), Duration::from_millis(20)];
            let tally = watch(&name, shape, &publisher, server, 1, times)?;
            first_byte.push(millis(&tally.first_byte, 0.5));
            picture.push(millis(&tally.first_picture, 0.5));
        }
        let mut add = |metric, value| report.add(&case, place, metric, "ms", value);
        first_byte.iter().for_each(|&value| add(BYTE, value));
        picture.iter().for_each(|&value| add(PICTURE, value));
        let worst = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        report.add_context(&case, place, "the slowest whole picture", "ms", worst(&picture));
    }
    report.disturbance(&case, HOP, others.share()?);
    for metric in [BYTE, PICTURE] {
        let of = |place| report.value(&case, place, metric);
        if let (Some(straight), Some(hop)) = (of(STRAIGHT), of(HOP)) {
            report.term(format!("first viewer a hop away, {metric}, ms more"), hop - straight, 20.0, true);
        }
    }
    Ok(())
}
