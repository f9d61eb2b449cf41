//! Figures about objects for operators: `/api/objects`.

use super::answers::json;
use super::insight::{millis, no_number, number};
use glassline_delivery::http1::Response;
use glassline_delivery::http1::server::Request;
use glassline_delivery::telemetry::first_bytes::{
    LAST_MINUTE, NAMES, ObjectKind, Summary, WINDOW, WINDOWS, WaitHistogram, Window,
};
use glassline_edge::ObjectSource;
use glassline_relay::Hub;
use serde::Serialize;
use std::collections::BTreeMap;

/// The default number of names in an answer, which is made on a worker.
const LISTED: usize = 50;

type Counts = BTreeMap<&'static str, u32>;

/// `GET /api/objects`.
#[derive(Serialize)]
struct Objects {
    now_utc_us: u64,
    /// How many names were requested within ten minutes.
    names: usize,
    /// The upper edges of the distributions' buckets; there is one more bucket beyond the last edge.
    edges_ms: Vec<f64>,
    objects: Vec<Named>,
}

#[derive(Serialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    all: Counted,
    last_minute: LastMinute,
    windows: Curves,
    /// Requests for objects that were here or had to be fetched, by how long they waited: the count of each bucket.
    distribution: Vec<u32>,
    /// The same for objects that did not exist yet.
    awaited_distribution: Vec<u32>,
}

/// Requests of a period.
#[derive(Serialize)]
struct Counted {
    requests: u64,
    /// How many of them were for objects that did not exist yet; percentiles are of the others.
    awaited: u64,
    by_source: Counts,
    by_kind: Counts,
    awaited_by_kind: Counts,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
    awaited_p50_ms: Option<f64>,
    awaited_p95_ms: Option<f64>,
}

#[derive(Serialize)]
struct LastMinute {
    /// How much of the period has passed.
    seconds: f64,
    requests_per_s: f64,
    #[serde(flatten)]
    counted: Counted,
}

/// One array a quantity, of one length.
#[derive(Serialize)]
struct Curves {
    step_s: u64,
    begins_utc_us: u64,
    requests: Vec<u64>,
    awaited: Vec<u64>,
    p50_ms: Vec<Option<f64>>,
    p95_ms: Vec<Option<f64>>,
    p99_ms: Vec<Option<f64>>,
    awaited_p50_ms: Vec<Option<f64>>,
}

pub(super) fn objects(request: &Request, hub: &Hub) -> Response {
    let Ok(limit) = number(request, "limit", LISTED) else { return no_number("limit") };
    let report = hub.first_bytes(request.parameter("name").as_deref(), limit.min(NAMES));
    let now_utc_us = hub.clock().utc().as_micros();
    json(&Objects {
        now_utc_us,
        names: report.names,
        edges_ms: WaitHistogram::ends().map(millis).to_vec(),
        objects: report.list.into_iter().map(|(name, summary)| named(name, &summary, now_utc_us)).collect(),
    })
}

fn named(name: String, summary: &Summary, now_utc_us: u64) -> Named {
    let all = summary.newest(WINDOWS);
    let minute = summary.newest(LAST_MINUTE);
    let seconds = summary.covered(LAST_MINUTE).as_secs_f64();
    Named {
        name,
        last_minute: LastMinute {
            seconds,
            requests_per_s: minute.requests() as f64 / seconds,
            counted: counted(&minute),
        },
        windows: curves(summary, now_utc_us),
        distribution: all.ready.counts().to_vec(),
        awaited_distribution: all.awaited.counts().to_vec(),
        all: counted(&all),
    }
}

fn counted(window: &Window) -> Counted {
    let by_source = ObjectSource::ALL.iter().map(|source| (source.name(), window.by_source[source.index()]));
    Counted {
        requests: window.requests(),
        awaited: window.awaited.total(),
        by_source: by_source.collect(),
        by_kind: by_kind(&window.by_kind),
        awaited_by_kind: by_kind(&window.awaited_by_kind),
        p50_ms: window.ready.percentile(50).map(millis),
        p95_ms: window.ready.percentile(95).map(millis),
        p99_ms: window.ready.percentile(99).map(millis),
        awaited_p50_ms: window.awaited.percentile(50).map(millis),
        awaited_p95_ms: window.awaited.percentile(95).map(millis),
    }
}

fn by_kind(counts: &[u32]) -> Counts {
    ObjectKind::ALL.iter().map(|kind| kind.name()).zip(counts.iter().copied()).collect()
}

fn curves(summary: &Summary, now_utc_us: u64) -> Curves {
    let windows = || summary.windows();
    let percentile =
        |hundredths: u32| windows().map(|window| window?.ready.percentile(hundredths).map(millis)).collect();
    let before = WINDOW * (WINDOWS as u32 - 1) + summary.running();
    Curves {
        step_s: WINDOW.as_secs(),
        begins_utc_us: now_utc_us.saturating_sub(before.as_micros() as u64),
        requests: windows().map(|window| window.map_or(0, Window::requests)).collect(),
        awaited: windows().map(|window| window.map_or(0, |window| window.awaited.total())).collect(),
        p50_ms: percentile(50),
        p95_ms: percentile(95),
        p99_ms: percentile(99),
        awaited_p50_ms: windows().map(|window| window?.awaited.percentile(50).map(millis)).collect(),
    }
}
