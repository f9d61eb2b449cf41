//! What operators see of viewers: `/api/clients`, `/api/streams/NAME/history` and `/api/streams/NAME/latency`.

use super::answers::{json, refused};
use super::counts::{BehindCounts, behind_counts, why_counts};
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Response, problem};
use glassline_delivery::policy::StreamName;
use glassline_delivery::telemetry::stages::{STEP, Step};
use glassline_delivery::telemetry::{History, Point};
use glassline_relay::{Client, Hub, ListenerRole};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Viewers in an answer where nothing else is asked for, and at most: the answer is made on a worker.
const CLIENTS: usize = 200;
const CLIENTS_MAX: usize = 1000;

/// `GET /api/clients`.
#[derive(Serialize)]
struct Viewers {
    now_utc_us: u64,
    viewers: u64,
    rate_bps: u64,
    why: BTreeMap<&'static str, u32>,
    behind: BehindCounts,
    clients: Vec<Viewer>,
}

#[derive(Serialize)]
struct Viewer {
    address: String,
    stream: String,
    joined_s: f64,
    bytes_sent: u64,
    rate_bps: Option<u64>,
    behind_ms: Option<f64>,
    behind_bytes: u64,
    moved_forward: u32,
    why: &'static str,
    pacing_bps: Option<u64>,
    seen_ms: f64,
    tcp: Tcp,
}

/// `TCP_INFO`.
#[derive(Serialize)]
struct Tcp {
    rtt_ms: f64,
    rttvar_ms: f64,
    cwnd: u32,
    snd_mss: u32,
    unacked: u32,
    retransmitted_segments: u32,
    retransmitted_bytes: Option<u64>,
    notsent_bytes: Option<u32>,
    bytes_acked: Option<u64>,
    delivery_bps: Option<u64>,
    pacing_bps: Option<u64>,
    busy_ms: Option<f64>,
    rwnd_limited_ms: Option<f64>,
    sndbuf_limited_ms: Option<f64>,
}

/// `GET /api/streams/NAME/history`: one array a quantity, of one length.
#[derive(Serialize)]
struct Curves {
    step_s: u64,
    first: u64,
    begins_utc_us: u64,
    in_bps: Vec<u64>,
    out_bps: Vec<u64>,
    viewers: Vec<u32>,
    slow: Vec<u32>,
    moved_forward: Vec<u32>,
    retransmitted_segments: Vec<u32>,
    behind_p50_ms: Vec<Option<u32>>,
    behind_p95_ms: Vec<Option<u32>>,
}

/// `GET /api/streams/NAME/latency`.
#[derive(Serialize)]
struct Latency {
    step_s: u64,
    now_us: u64,
    relay: Vec<LatencyStep>,
    viewers: Vec<LatencyStep>,
}

#[derive(Serialize)]
struct LatencyStep {
    t_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reports: Option<u32>,
    stages: BTreeMap<&'static str, Percentiles>,
}

#[derive(Serialize)]
struct Percentiles {
    p50_us: u32,
    p99_us: u32,
}

/// Refuses clients that may not see viewers' addresses, which are personal data. All answers with addresses call this
/// function.
fn refuse_stranger(request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> Option<Response> {
    let refusal = hub.may_see_viewers(door, peer, request).err()?;
    let words = "Viewers' addresses are shown to clients that send the publish key ('Authorization: Bearer KEY') or, if there \
                 is none, to the server's own machine and to the [publish] and [admin] networks of its configuration.";
    Some(refused(refusal, "may not see viewers", words))
}

pub(super) fn clients(request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> Response {
    if let Some(refusal) = refuse_stranger(request, door, peer, hub) {
        return refusal;
    }
    let Ok(limit) = number(request, "limit", CLIENTS) else { return no_number("limit") };
    let stream = match request.parameter("stream").map(|name| StreamName::parse(&name)) {
        Some(None) => {
            return problem(
                400,
                "no such name",
                "?stream= takes a stream's name; GET /api/streams lists them.",
            );
        }
        named => named.flatten(),
    };
    let found = hub.clients(stream.as_ref(), limit.min(CLIENTS_MAX));
    json(&Viewers {
        now_utc_us: hub.clock().utc().as_micros(),
        viewers: found.why.iter().map(|count| u64::from(*count)).sum(),
        rate_bps: found.rate_bps,
        why: why_counts(&found.why),
        behind: behind_counts(&found.behind),
        clients: found.list.iter().map(viewer).collect(),
    })
}

pub(super) fn number(
    request: &Request,
    name: &str,
    default: usize,
) -> Result<usize, std::num::ParseIntError> {
    request.parameter(name).map_or(Ok(default), |text| text.parse())
}

pub(super) fn no_number(name: &str) -> Response {
    problem(400, "no number", &format!("?{name}= takes a whole number."))
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn viewer(client: &Client) -> Viewer {
    let from_micros = |us: u64| us as f64 / 1e3;
    let info = &client.tcp;
    Viewer {
        address: client.address.to_string(),
        stream: client.stream.to_string(),
        joined_s: client.joined.as_secs_f64(),
        bytes_sent: client.bytes_sent,
        rate_bps: client.rate_bps,
        behind_ms: client.behind.map(millis),
        behind_bytes: client.behind_bytes,
        moved_forward: client.moved_forward,
        why: client.why.name(),
        pacing_bps: client.pace_bps,
        seen_ms: millis(client.seen),
        tcp: Tcp {
            rtt_ms: from_micros(info.rtt_us.into()),
            rttvar_ms: from_micros(info.rttvar_us.into()),
            cwnd: info.cwnd,
            snd_mss: info.snd_mss,
            unacked: info.unacked,
            retransmitted_segments: info.total_retrans,
            retransmitted_bytes: info.bytes_retrans,
            notsent_bytes: info.notsent_bytes,
            bytes_acked: info.bytes_acked,
            delivery_bps: info.delivery_bps,
            pacing_bps: info.pacing_bps,
            busy_ms: info.busy_us.map(from_micros),
            rwnd_limited_ms: info.rwnd_limited_us.map(from_micros),
            sndbuf_limited_ms: info.sndbuf_limited_us.map(from_micros),
        },
    }
}

/// Where the stream's milliseconds went in the last ten minutes; `None` where it is not there.
pub(super) fn latency(name: &StreamName, hub: &Hub) -> Option<Response> {
    let clock = hub.clock();
    let (now, utc) = (clock.now(), clock.utc());
    let (relay, viewers) = hub.stages(name, |relay, viewers| (relay.steps(now), viewers.steps(now)))?;
    let told = |step: Step, are_reports: bool| LatencyStep {
        t_us: utc.as_micros().saturating_sub(now.since(step.begins).as_micros() as u64),
        reports: are_reports.then_some(step.reports),
        stages: step
            .parts
            .iter()
            .map(|(part, all)| (part.name(), Percentiles { p50_us: all.p50_us, p99_us: all.p99_us }))
            .collect(),
    };
    Some(json(&Latency {
        step_s: STEP.as_secs(),
        now_us: utc.as_micros(),
        relay: relay.into_iter().map(|step| told(step, false)).collect(),
        viewers: viewers.into_iter().map(|step| told(step, true)).collect(),
    }))
}

/// How the stream was; `None` where it is not there.
pub(super) fn history(request: &Request, name: &StreamName, hub: &Hub) -> Option<Response> {
    let is_coarse = match request.parameter("step").as_deref() {
        None | Some("1") => false,
        Some("10") => true,
        Some(_) => {
            return Some(problem(
                400,
                "no such step",
                "?step=1 (seconds, ten minutes) or ?step=10 (six hours).",
            ));
        }
    };
    let Ok(limit) = number(request, "points", usize::MAX) else { return Some(no_number("points")) };
    let clock = hub.clock();
    let (now, utc_us) = (clock.now(), clock.utc().as_micros());
    let curves = hub.history(name, |history: &History| {
        let series = if is_coarse { &history.coarse } else { &history.fine };
        let (first, points) = series.newest(limit);
        let points: Vec<Point> = points.copied().collect();
        let began_utc_us = utc_us.saturating_sub(now.since(history.began()).as_micros() as u64);
        Curves {
            step_s: series.step().as_secs(),
            first,
            begins_utc_us: began_utc_us + first * series.step().as_micros() as u64,
            in_bps: points.iter().map(|point| point.in_bps).collect(),
            out_bps: points.iter().map(|point| point.out_bps).collect(),
            viewers: points.iter().map(|point| point.viewers).collect(),
            slow: points.iter().map(|point| point.slow).collect(),
            moved_forward: points.iter().map(|point| point.moved_forward).collect(),
            retransmitted_segments: points.iter().map(|point| point.retransmitted).collect(),
            behind_p50_ms: points.iter().map(|point| point.behind_ms.map(|(p50, _)| p50)).collect(),
            behind_p95_ms: points.iter().map(|point| point.behind_ms.map(|(_, p95)| p95)).collect(),
        }
    })?;
    Some(json(&curves))
}
