//! Two flows on one link, each with as much to send as it can: ours and one of TCP.

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::carrier::{Carrier, Lane, Load};
use crate::end::{come_up, now_ns};
use crate::handles::Handles;
use crate::tcp::Tcp;

const MESSAGE: usize = 32 << 10;
const AT_ONCE: usize = 16;
const SILENCE: Duration = Duration::from_secs(5);

fn flow(carrier: &mut dyn Carrier, seconds: Duration) -> Result<()> {
    come_up(carrier)?;
    let (begin, message) = (Instant::now(), Bytes::from(vec![0x5A; MESSAGE]));
    while begin.elapsed() < seconds && !carrier.is_closed() {
        // Some carriers say that they are full, others wait for room.
        for _ in 0..AT_ONCE {
            if !carrier.send(Lane::Reliable, &message)? {
                break;
            }
        }
        carrier.drive(Duration::from_millis(5))?;
    }
    Ok(())
}

/// Runs both flows for `seconds`.
pub(crate) fn send(ours: SocketAddr, theirs: SocketAddr, control: &str, seconds: Duration) -> Result<Value> {
    thread::scope(|scope| {
        let tcp = scope.spawn(|| flow(&mut Tcp::connect(theirs, Load::Bulk, control)?, seconds));
        let own = flow(&mut Handles::connect(ours, Load::Bulk)?, seconds);
        tcp.join().map_err(|_| anyhow!("TCP's flow has panicked"))?.context("TCP")?;
        own.context("ours")
    })?;
    Ok(Value::Null)
}

/// When how much came.
type Arrivals = Vec<(u64, usize)>;

fn gather(carrier: &mut dyn Carrier, seconds: Duration) -> Result<Arrivals> {
    let (mut arrivals, mut last) = (Arrivals::new(), None);
    let begin = Instant::now();
    while !carrier.is_closed() && last.unwrap_or(begin + SILENCE * 3).elapsed() < SILENCE {
        carrier.drive(Duration::from_millis(50))?;
        let now = now_ns();
        while let Some(message) = carrier.receive(Lane::Reliable) {
            arrivals.push((now, message.len()));
            last = Some(Instant::now());
        }
        // Whoever waits for the first one for ever is told so by the other side's end.
        if begin.elapsed() > seconds + SILENCE * 3 {
            break;
        }
    }
    Ok(arrivals)
}

/// Receives both flows: our share of the bytes while both ran, and bits a second of both.
pub(crate) fn receive(
    ours: SocketAddr,
    theirs: SocketAddr,
    control: &str,
    seconds: Duration,
) -> Result<Value> {
    let (own, tcp) = thread::scope(|scope| {
        let tcp = scope.spawn(|| gather(&mut Tcp::listen(theirs, Load::Bulk, control)?, seconds));
        let own = gather(&mut Handles::listen(ours, Load::Bulk)?, seconds);
        let tcp = tcp.join().map_err(|_| anyhow!("TCP's flow has panicked"))?;
        anyhow::Ok((own.context("ours")?, tcp.context("TCP")?))
    })?;
    let first = |arrivals: &Arrivals| arrivals.first().map(|first| first.0).context("a flow brought nothing");
    let begin = first(&own)?.max(first(&tcp)?);
    let end = begin + seconds.as_nanos() as u64 - 1_000_000_000;
    let bytes = |arrivals: &Arrivals| {
        let inside = arrivals.iter().filter(|arrival| (begin..end).contains(&arrival.0));
        inside.map(|arrival| arrival.1 as f64).sum::<f64>()
    };
    let (own, tcp) = (bytes(&own), bytes(&tcp));
    Ok(json!({"share": own / (own + tcp), "bits": (own + tcp) * 8e9 / (end - begin) as f64}))
}
