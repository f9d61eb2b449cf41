//! What operators see of objects: how long requests waited for the first byte, by name.

use crate::edge::{Origin, edge, whole};
use crate::serve;
use glassline_test_support::http::get;
use glassline_test_support::program::Server;
use glassline_test_support::wait::until;
use serde_json::Value;
use std::io::Write;
use std::time::{Duration, Instant};

/// What an origin of these tests holds its answers back for.
const HELD: Duration = Duration::from_millis(500);
/// A percentile is told within this.
const WITHIN: f64 = 0.15;

/// An origin that gives everything at once, but not what is under `/live/held/`, and has nothing under `/live/none/`.
fn origin() -> Origin {
    Origin::start(|asked, connection| {
        if asked.target.starts_with("/live/held/") {
            std::thread::sleep(HELD);
        }
        let answer = if asked.target.starts_with("/live/none/") {
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec()
        } else {
            whole(b"bytes", "Cache-Control: max-age=600\r\n")
        };
        connection.write_all(&answer).is_ok()
    })
}

fn told(server: &Server, query: &str) -> Value {
    let answer = get(server.address(), &format!("/api/objects{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// What is told of one name.
fn of(server: &Server, name: &str) -> Value {
    let told = told(server, &format!("?name={name}"));
    assert_eq!(told["objects"].as_array().map(Vec::len), Some(1), "{told}");
    told["objects"][0].clone()
}

/// Requests of a distribution whose bucket ends at or before `millis`.
fn within(told: &Value, distribution: &Value, millis: f64) -> u64 {
    let ends = told["edges_ms"].as_array().expect("edges").iter().map(|end| end.as_f64().expect("a number"));
    let counts =
        distribution.as_array().expect("counts").iter().map(|count| count.as_u64().expect("a number"));
    ends.zip(counts).filter(|(end, _)| *end <= millis).map(|(_, count)| count).sum()
}

#[test]
fn an_origin_that_holds_its_answers_back_is_a_step_at_that_name() {
    let origin = origin();
    let (edge, _scratch) = edge(&[&origin.url()]);
    // Of ten requests for an object the first one waits for the origin, and the others find it here.
    let mut longest = Duration::ZERO;
    for number in 0..3 {
        for _ in 0..10 {
            let asked = Instant::now();
            assert_eq!(get(edge.address(), &format!("/live/held/{number}.m4s")).body, b"bytes");
            longest = longest.max(asked.elapsed());
        }
    }
    assert_eq!(get(edge.address(), "/live/quick/1.m4s").body, b"bytes");

    let all = told(&edge, "");
    let held = of(&edge, "held");
    assert_eq!(
        (all["names"].as_u64(), &held["requests"], &held["awaited"]),
        (Some(2), &30.into(), &0.into())
    );
    assert_eq!(all["objects"][0]["name"], "held", "the busiest comes first");
    assert_eq!((&held["by_source"]["hit"], &held["by_source"]["miss"]), (&27.into(), &3.into()));
    assert_eq!((&held["by_kind"]["segment"], &held["by_kind"]["part"]), (&30.into(), &0.into()));

    // The step: what was here came at once, the rest not before the origin gave it, and nothing in between.
    let distribution = &held["distribution"];
    assert_eq!(within(&all, distribution, 1.0), 27, "{distribution}");
    assert_eq!(within(&all, distribution, 450.0), 27, "{distribution}");
    let end = longest.as_secs_f64() * 1e3 * 1.25;
    assert_eq!(within(&all, distribution, end.max(530.0)), 30, "{distribution}, {longest:?}");

    for figures in [&held, &held["last_minute"]] {
        let percentile = |name: &str| figures[name].as_f64().expect("a percentile");
        assert!(percentile("p50_ms") < 0.25, "{figures}");
        for name in ["p95_ms", "p99_ms"] {
            let (least, most) = (HELD.as_secs_f64() * 1e3, longest.as_secs_f64() * 1e3);
            let range = least * (1.0 - WITHIN)..most * (1.0 + WITHIN);
            assert!(range.contains(&percentile(name)), "{name} in {range:?}: {figures}");
        }
    }
    // What another name waits for is not in it.
    let quick = of(&edge, "quick");
    assert_eq!((&quick["requests"], within(&all, &held["distribution"], 1e9)), (&1.into(), 30));
    // The curves say the same of their times.
    let windows = &held["windows"];
    let requests = windows["requests"].as_array().expect("a curve");
    assert_eq!(requests.iter().filter_map(Value::as_u64).sum::<u64>(), 30);
    for curve in ["awaited", "p50_ms", "p95_ms", "p99_ms", "awaited_p50_ms"] {
        assert_eq!(windows[curve].as_array().map(Vec::len), Some(requests.len()), "{curve}");
    }
}

#[test]
fn what_is_not_made_yet_is_told_apart_and_strangers_make_no_names() {
    let origin = origin();
    let (edge, _scratch) = edge(&[&origin.url()]);
    let asked = [
        ("/live/held/video.m3u8?_HLS_msn=7&_HLS_part=2", 200),
        ("/live/held/video/7.3.m4s", 200),
        ("/live/held/video.m3u8", 200),
        ("/live/held/video.m3u8", 200),
        ("/live/none/1.m4s", 404),
        ("/elsewhere/1.ts", 200),
    ];
    for (target, status) in asked {
        assert_eq!(get(edge.address(), target).status, status, "{target}");
    }
    let held = of(&edge, "held");
    assert_eq!((&held["requests"], &held["awaited"]), (&4.into(), &2.into()));
    assert_eq!(held["awaited_by_kind"]["playlist"], 1);
    assert_eq!(held["awaited_by_kind"]["part"], 1);
    assert_eq!(held["by_kind"]["playlist"], 3);
    let all = told(&edge, "");
    let count = |distribution: &str| within(&all, &held[distribution], 1e9);
    assert_eq!((count("awaited_distribution"), count("distribution")), (2, 2));
    let others = of(&edge, "(other)");
    assert_eq!((&others["requests"], &others["by_kind"]["segment"]), (&2.into(), &2.into()));
    let names: Vec<_> = all["objects"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["held", "(other)"]);
    assert_eq!(told(&edge, "?limit=1")["objects"].as_array().map(Vec::len), Some(1));
    assert_eq!(told(&edge, "?name=none")["objects"].as_array().map(Vec::len), Some(0));
    assert_eq!(get(edge.address(), "/api/objects?limit=many").status, 400);
}

#[test]
fn objects_that_are_made_here_are_told_by_stream() {
    let server = serve(&["--demo"]);
    assert_eq!(told(&server, "")["objects"].as_array().map(Vec::len), Some(0));
    until("a playlist", || get(server.address(), "/live/demo/index.m3u8").status == 200);
    // The first one may have had to wait until there was a segment; this one has not.
    assert_eq!(get(server.address(), "/live/demo/index.m3u8").status, 200);
    let demo = of(&server, "demo");
    let requests = demo["requests"].as_u64().expect("a number");
    assert!(
        requests >= 2 && demo["by_source"]["packaged"] == requests && demo["by_kind"]["playlist"] == requests
    );
    assert!(demo["p50_ms"].as_f64().is_some_and(|median| median < 0.25), "{demo}");
}
