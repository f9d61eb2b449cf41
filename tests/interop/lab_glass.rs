//! `lab glass`: barcodes at the end of whole chains, and whether the stages that a stream tells add up to what they say.
//!
//! The bounds hold on machines that other tests keep busy; the figures themselves are printed. What a stage leaves out, or counts
//! twice, is the same for all pictures, so that medians find it on any machine.

use crate::{GLASSLINE, have, serve};
use glassline_measure::barcode;
use glassline_media::Utc;
use glassline_media::container::{cmaf, y4m};
use glassline_test_support::http::get;
use glassline_test_support::program::{Outcome, Running, Scratch, Server, run};
use glassline_test_support::wait::{until, until_some};
use glassline_test_support::{no_private_network, skip, xml};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

const CODING: [&str; 8] = ["--preset", "ultrafast", "--bitrate", "1M", "--slices", "4", "--audio", "none"];

fn glass(target: &str, more: &[&str]) -> Outcome {
    run(GLASSLINE, &[&["lab", "glass", target, "--duration", "4s"], more].concat(), 120)
}

fn report(outcome: &Outcome) -> Value {
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    serde_json::from_str(&outcome.text()).unwrap()
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path}: {report}"))
}

/// A server that relays the stream `a`, and its encoder.
fn relayed() -> (Server, Running) {
    let server = serve();
    let url = server.url("/live/a.ts");
    let encoder = Running::start(
        Command::new(GLASSLINE).args(["encode", "test:320x180@25", &url, "--keyint", "1s"]).args(CODING),
    );
    server.wait_for_pictures("a");
    (server, encoder)
}

/// Barcodes were read, all but a few, and say ages that can be.
fn check_ages(report: &Value, by: &str) {
    assert_eq!(report["opened_by"], by, "{report}");
    let (looked_at, unread) = (number(report, "/age_ms/count"), number(report, "/unread"));
    assert!(looked_at >= 20.0 && unread * 20.0 <= looked_at, "{report}");
    assert!(number(report, "/age_ms/min") > 0.0 && number(report, "/age_ms/p99") < 30_000.0, "{report}");
}

/// Stages add up to what barcodes say: at most 2 ms apart in the median, 5 ms at the 99th percentile.
fn check_proof(report: &Value, what: &str) {
    check_ages(report, "glassline");
    let proof = &report["proof"];
    assert!(number(proof, "/compared") * 2.0 >= number(report, "/age_ms/count"), "{report}");
    let stages: Vec<_> =
        proof["steps"].as_array().unwrap().iter().map(|step| step["to"].as_str().unwrap()).collect();
    for stage in ["encoder_in", "encoded", "sent", "received", "decoded"] {
        assert!(stages.contains(&stage), "{stage}: {report}");
    }
    let (median, high) = (number(proof, "/apart_ms/p50"), number(proof, "/apart_ms/p99"));
    eprintln!(
        "{what}: sum of stages p50 {:.3} ms, barcode to barcode p50 {:.3} ms; apart p50 {median:.4} ms, p99 {high:.4} ms",
        number(proof, "/sum_ms/p50"),
        number(proof, "/barcode_ms/p50"),
    );
    assert!(median <= 2.0 && high <= 5.0, "{report}");
}

#[test]
fn stages_add_up_to_barcodes_over_datagrams_and_through_a_relay() {
    if !have("stages_add_up_to_barcodes_over_datagrams_and_through_a_relay", &["ffmpeg"]) {
        return;
    }
    let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = serve();
    let relayed = server.url("/live/glass.ts");
    let datagrams = format!("udp://{to}");
    let _encoder = Running::start(
        Command::new(GLASSLINE).args(["encode", "test:320x180@50", &datagrams, &relayed]).args(CODING),
    );
    server.wait_for_pictures("glass");
    check_proof(&report(&glass(&datagrams, &["--json"])), "datagrams");
    let through = report(&glass(&relayed, &["--json"]));
    check_proof(&through, "relay");
    assert_eq!(through["clock"], "server", "{through}");
    assert!(number(&through, "/clock_offset_ms").abs() <= 2.0, "one machine: {through}");
    // For people, with a picture.
    let scratch = Scratch::new("lab-glass");
    let picture = scratch.file("glass.svg");
    let outcome = glass(&relayed, &["--svg", &picture]);
    for text in ["sum of stages", "barcode to barcode", "apart, either way", "last slice out"] {
        assert!(outcome.text().contains(text), "{text} is not in {} {}", outcome.text(), outcome.stderr);
    }
    let svg = xml::texts(&std::fs::read_to_string(&picture).unwrap()).unwrap().join("\n");
    assert!(svg.contains("From glass to glass") && svg.contains("decoded"), "{svg}");
}

#[test]
fn the_offset_of_another_machines_clock_is_estimated_within_two_milliseconds() {
    let name = "the_offset_of_another_machines_clock_is_estimated_within_two_milliseconds";
    if !have(name, &["ffmpeg"]) {
        return;
    }
    if cfg!(not(debug_assertions)) {
        return skip(name, "built without debug assertions: no clock can be set wrong");
    }
    if let Some(reason) = no_private_network(&[]) {
        return skip(name, &reason);
    }
    let ahead = |arguments: &[&str]| {
        let mut command = Command::new(GLASSLINE);
        command.args(arguments).env("GLASSLINE_TEST_WALL_CLOCK", "30ms");
        command
    };
    let server = Server::start_by(ahead(&[]), "0.0.0.0:0", &[]);
    let port = server.address().port();
    let publish = format!("http://127.0.0.1:{port}/live/ahead.ts");
    let _encoder = Running::start(ahead(&["encode", "test:320x180@50", &publish]).args(CODING));
    server.wait_for_pictures("ahead");
    // The end is another network, 20 ms away, in which nobody's clock is wrong.
    let script =
        format!("exec {GLASSLINE} lab glass http://$GLASSLINE_FAR:{port}/live/ahead.ts --json --duration 4s");
    let arguments = ["lab", "link", "--delay", "20ms", "--", "sh", "-c", &script];
    let mut tries = (0..3).map(|_| {
        let report = report(&run(GLASSLINE, &arguments, 120));
        check_proof(&report, "another machine");
        assert_eq!(report["clock"], "server", "{report}");
        assert!(number(&report, "/age_ms/min") >= 18.0, "the way alone takes 20 ms: {report}");
        (number(&report, "/clock_offset_ms"), number(&report, "/clock_uncertainty_ms"))
    });
    let mut found = Vec::new();
    let is_near = tries.any(|(offset, uncertainty)| {
        eprintln!("30 ms ahead, 20 ms away: estimated {offset:.3} ms (± {uncertainty:.3} ms)");
        found.push(offset);
        assert!((offset - 30.0).abs() <= uncertainty + 1.0, "{offset} ± {uncertainty}");
        (offset - 30.0).abs() <= 2.0
    });
    assert!(is_near, "{found:?}");
}

#[test]
fn raw_video_s_capture_times_are_the_barcodes_through_encoder_and_relay() {
    if !have("raw_video_s_capture_times_are_the_barcodes_through_encoder_and_relay", &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("lab-glass");
    let description = scratch.file("raw.sdp");
    let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sender =
        ["send-raw", "test:320x180@25", &format!("rtp://{to}"), "--format", "422-8", "--sdp", &description];
    let _sender = Running::start(Command::new(GLASSLINE).args(sender));
    until("the session description", || Path::new(&description).exists());
    let server = serve();
    let url = server.url("/live/raw.ts");
    let _encoder = Running::start(
        Command::new(GLASSLINE).args(["encode", &format!("rtp:{description}"), &url]).args(CODING),
    );
    server.wait_for_pictures("raw");
    // Another program's pattern, whose capture time came here by RTP time stamps alone.
    check_proof(&report(&glass(&url, &["--json"])), "send-raw, encode rtp:, relay");
}

#[test]
fn what_receive_says_of_its_delay_is_what_barcodes_say_behind_it() {
    if !have("what_receive_says_of_its_delay_is_what_barcodes_say_behind_it", &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("lab-glass");
    let (stats, said) = (scratch.file("stats.jsonl"), scratch.file("said.txt"));
    let script = format!(
        "{GLASSLINE} receive link://127.0.0.1:0 - --insecure --once --stats {stats} 2>{said} | \
         exec {GLASSLINE} lab glass - --json --duration 4s"
    );
    let mut chain = Running::start(Command::new("sh").args(["-c", &script]));
    let address = until_some("the receiver's address", || {
        let text = std::fs::read_to_string(&said).ok()?;
        Some(text.split_once("listening address=")?.1.split_whitespace().next()?.to_owned())
    });
    let to = format!("link://{address}");
    let _sender = Running::start(Command::new(GLASSLINE).args([
        "send",
        "test:320x180@25",
        &to,
        "--insecure",
        "--duration",
        "60s",
    ]));
    assert_eq!(chain.wait().code(), Some(0), "{}", chain.output());
    let output = chain.output();
    let report: Value = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
    check_ages(&report, "ffmpeg");
    // Whole seconds of what the receiver itself says.
    let stats = std::fs::read_to_string(&stats).unwrap();
    let delays =
        stats.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter_map(|line| {
            let delay = &line["video"]["delay_ms"];
            delay["p50"].as_f64().filter(|_| delay["count"].as_u64() >= Some(15))
        });
    let mut delays: Vec<f64> = delays.collect();
    delays.sort_by(f64::total_cmp);
    assert!(delays.len() >= 3, "{stats}");
    let (least, most, seen) = (delays[0], delays[delays.len() - 1], number(&report, "/age_ms/p50"));
    eprintln!(
        "send, receive: receive says p50 {least:.2} to {most:.2} ms, barcodes behind the pipe and FFmpeg {seen:.2} ms"
    );
    // The receiver tells of each second, the barcodes' median is of some of them: it lies between theirs. The pipe and FFmpeg,
    // which hands uncompressed pictures on, come on top.
    assert!(seen >= least - 2.0 && seen <= most + 10.0, "{delays:?} {seen} {report}");
}

#[test]
fn chunk_times_of_segments_are_the_barcodes() {
    if !have("chunk_times_of_segments_are_the_barcodes", &["ffmpeg"]) {
        return;
    }
    let (server, _encoder) = relayed();
    // Two segments that are whole.
    let playlist = until_some("two segments", || {
        let text = get(server.address(), "/live/a/video.m3u8").text();
        (text.matches("#EXTINF").count() >= 2).then_some(text)
    });
    let fetched = |path: &str| get(server.address(), &format!("/live/a/{path}")).body;
    let header =
        playlist.split_once("#EXT-X-MAP:URI=\"").and_then(|(_, rest)| rest.split('"').next()).unwrap();
    let mut film = fetched(header);
    playlist.lines().filter(|line| line.ends_with(".m4s")).for_each(|path| film.extend(fetched(path)));

    let mut reader = cmaf::Reader::new();
    reader.push(&film).unwrap();
    let chunks = std::iter::from_fn(|| reader.poll()).filter_map(|event| match event {
        cmaf::Event::Chunk(chunk) => Some(chunk),
        _ => None,
    });
    let told: Vec<Utc> = chunks
        .map(|chunk| {
            assert_eq!(chunk.runs.iter().map(|run| run.samples.len()).sum::<usize>(), 1, "a picture a chunk");
            chunk.producer_time.filter(|time| time.is_capture()).expect("the time of capture").utc
        })
        .collect();

    let scratch = Scratch::new("lab-glass");
    let (film, pictures) = (scratch.write("film.mp4", film), scratch.file("film.y4m"));
    let arguments =
        ["-v", "error", "-i", &film, "-fps_mode", "passthrough", "-pix_fmt", "yuv420p", &pictures];
    let decoded = run("ffmpeg", &arguments, 60);
    assert_eq!(decoded.status, Some(0), "{}", decoded.stderr);
    let (mut reader, bytes) = (y4m::Reader::new(), std::fs::read(&pictures).unwrap());
    let mut bytes = &bytes[..];
    let mut apart_us: Vec<u64> = told
        .iter()
        .map(|told| {
            let picture = reader.parse(&mut bytes).unwrap().expect("a picture of each chunk");
            let code = barcode::read(&picture).top_left.expect("a barcode");
            code.unwrap_near(*told).as_micros().abs_diff(told.as_micros())
        })
        .collect();
    assert!(reader.parse(&mut bytes).unwrap().is_none() && apart_us.len() >= 50, "{}", apart_us.len());
    apart_us.sort_unstable();
    let (median, high) = (apart_us[apart_us.len() / 2], apart_us[apart_us.len() * 99 / 100]);
    eprintln!("LL-HLS: prft and barcode apart p50 {median} us, p99 {high} us, of {} chunks", apart_us.len());
    assert!(median <= 2_000 && high <= 5_000, "{apart_us:?}");
}

/// What `--page` says of a page.
fn page(url: &str, more: &[&str]) -> Outcome {
    run(GLASSLINE, &[&["lab", "glass", "--duration", "4s", "--page", url], more].concat(), 180)
}

#[test]
fn what_our_player_shows_in_a_browser_is_measured() {
    if !have("what_our_player_shows_in_a_browser_is_measured", &["chromium"]) {
        return;
    }
    let (server, _encoder) = relayed();
    let report = report(&page(&server.url("/watch/a"), &["--json"]));
    check_ages(&report, "chromium");
    assert_eq!((&report["proof"], &report["units"]), (&Value::Null, &Value::Null), "{report}");
    eprintln!("player in Chromium: barcode to barcode p50 {:.1} ms", number(&report, "/age_ms/p50"));
    // The list of streams plays nothing.
    let outcome = page(&server.url("/"), &[]);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("no video and no canvas"), "{}", outcome.stderr);
}

#[test]
fn pages_of_others_are_looked_at_whatever_they_draw_with() {
    if !have("pages_of_others_are_looked_at_whatever_they_draw_with", &["chromium", "ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("lab-glass");
    let (stream, film) = (scratch.file("film.ts"), scratch.file("film.mp4"));
    let made = run(
        GLASSLINE,
        &[
            "encode",
            "test:1280x720@25",
            &stream,
            "--limit",
            "250",
            "--audio",
            "none",
            "--preset",
            "ultrafast",
        ],
        120,
    );
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let packed = run("ffmpeg", &["-v", "error", "-i", &stream, "-c", "copy", &film], 60);
    assert_eq!(packed.status, Some(0), "{}", packed.stderr);
    let video = "<video src='film.mp4' autoplay muted loop></video>";
    // A canvas of half the source's size that is filled from a video which is not shown itself.
    let drawn = |kind: &str, draw: &str| {
        format!(
            "<canvas width=640 height=360></canvas><video src='film.mp4' autoplay muted loop style='display:none'></video>\
             <script>const canvas = document.querySelector('canvas'), video = document.querySelector('video'), \
             c = canvas.getContext('{kind}'); {draw}</script>"
        )
    };
    let flat =
        drawn("2d", "(function draw() { c.drawImage(video, 0, 0, 640, 360); setTimeout(draw, 20); })();");
    let webgl = drawn(
        "webgl",
        "const p = c.createProgram(); \
         for (const [kind, text] of [[c.VERTEX_SHADER, 'attribute vec2 a; varying vec2 v; void main() { v = vec2(a.x, 1. - a.y); \
         gl_Position = vec4(2. * a - 1., 0, 1); }'], [c.FRAGMENT_SHADER, 'precision mediump float; varying vec2 v; \
         uniform sampler2D s; void main() { gl_FragColor = texture2D(s, v); }']]) { const s = c.createShader(kind); \
         c.shaderSource(s, text); c.compileShader(s); c.attachShader(p, s); } \
         c.linkProgram(p); c.useProgram(p); c.bindBuffer(c.ARRAY_BUFFER, c.createBuffer()); \
         c.bufferData(c.ARRAY_BUFFER, new Float32Array([0, 0, 1, 0, 0, 1, 1, 1]), c.STATIC_DRAW); \
         c.bindAttribLocation(p, 0, 'a'); c.enableVertexAttribArray(0); c.vertexAttribPointer(0, 2, c.FLOAT, false, 0, 0); \
         c.bindTexture(c.TEXTURE_2D, c.createTexture()); \
         c.texParameteri(c.TEXTURE_2D, c.TEXTURE_MIN_FILTER, c.LINEAR); \
         c.texParameteri(c.TEXTURE_2D, c.TEXTURE_WRAP_S, c.CLAMP_TO_EDGE); \
         c.texParameteri(c.TEXTURE_2D, c.TEXTURE_WRAP_T, c.CLAMP_TO_EDGE); \
         (function draw() { if (video.readyState > 1) { \
         c.texImage2D(c.TEXTURE_2D, 0, c.RGBA, c.RGBA, c.UNSIGNED_BYTE, video); c.drawArrays(c.TRIANGLE_STRIP, 0, 4); } \
         setTimeout(draw, 20); })();",
    );
    for (name, body) in [("video", video), ("canvas", &flat), ("webgl", &webgl)] {
        let file = scratch.write(&format!("{name}.html"), format!("<!doctype html><body>{body}"));
        let outcome = page(&format!("file://{file}"), &["--json"]);
        assert_eq!(outcome.status, Some(0), "{name}: {}", outcome.stderr);
        let report: Value = serde_json::from_str(&outcome.text()).unwrap();
        // A film that was made before has an age, too, which only grows while it is repeated.
        assert!(number(&report, "/age_ms/count") >= 20.0, "{name}: {report}");
        assert!(number(&report, "/age_ms/min") > 0.0 && report["torn"] == 0, "{name}: {report}");
    }
    let plain = scratch.write("plain.html", "<!doctype html><canvas width=320 height=180></canvas>");
    let outcome = page(&format!("file://{plain}"), &[]);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("no barcode in what the page shows: canvas 320x180"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_film_of_two_screens_tells_the_delay_between_them() {
    if !have("a_film_of_two_screens_tells_the_delay_between_them", &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("lab-glass");
    let stream = scratch.file("screen.ts");
    let made =
        run(GLASSLINE, &["encode", "test:320x180@25", &stream, "--limit", "60", "--audio", "none"], 120);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let filmed = |name: &str, screens: &str| {
        let film = scratch.file(name);
        let arguments = [
            "-v",
            "error",
            "-i",
            &stream,
            "-filter_complex",
            screens,
            "-c:v",
            "libx264",
            "-crf",
            "20",
            &film,
        ];
        let made = run("ffmpeg", &arguments, 60);
        assert_eq!(made.status, Some(0), "{}", made.stderr);
        run(GLASSLINE, &["lab", "glass", "--film", &film, "--json"], 300)
    };
    // The viewer's screen is three pictures late, another size and somewhere else; all is a little blurred, dimmed and noisy.
    let two = "[0:v]split[a][b];[b]tpad=start=3:start_mode=clone,scale=288:162[late];[a]pad=680:240:16:20:gray[s];\
               [s][late]overlay=360:50:shortest=1,gblur=sigma=0.6,eq=contrast=0.7,noise=alls=6:allf=t";
    let report = report(&filmed("two.mp4", two));
    assert_eq!(report["opened_by"], "film", "{report}");
    assert!(number(&report, "/both_read") * 2.0 >= number(&report, "/frames"), "{report}");
    let median = number(&report, "/age_ms/p50");
    assert!((median - 120.0).abs() < 1.0, "three pictures of 40 ms: {report}");
    let one = filmed("one.mp4", "[0:v]pad=680:240:16:20:gray");
    assert_eq!(one.status, Some(1), "{}", one.stderr);
    assert!(one.stderr.contains("one screen with barcodes"), "{}", one.stderr);
}

#[test]
fn foreign_chains_are_measured_by_barcodes_alone() {
    if !have("foreign_chains_are_measured_by_barcodes_alone", &["ffmpeg"]) {
        return;
    }
    let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (ours, theirs) = (format!("udp://{}", free()), format!("udp://{}", free()));
    let _encoder =
        Running::start(Command::new(GLASSLINE).args(["encode", "test:320x180@25", &ours]).args(CODING));
    // Another program decodes and encodes anew: our stages are gone, the barcode is not.
    let _transcoder = Running::start(
        Command::new("ffmpeg")
            .args([
                "-v",
                "error",
                "-fflags",
                "nobuffer",
                "-i",
                &ours,
                "-an",
                "-c:v",
                "mpeg2video",
                "-g",
                "12",
            ])
            .args(["-q:v", "3", "-f", "mpegts", "-flush_packets", "1", &theirs]),
    );
    // It ends with the first picture.
    let refused = run(GLASSLINE, &["lab", "glass", &theirs, "--duration", "60s"], 120);
    assert_eq!(refused.status, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("--ffmpeg"), "{}", refused.stderr);
    let report = report(&glass(&theirs, &["--json", "--ffmpeg"]));
    check_ages(&report, "ffmpeg");
    assert_eq!(report["proof"], Value::Null, "{report}");
    eprintln!("foreign chain: barcode to barcode p50 {:.1} ms", number(&report, "/age_ms/p50"));
}

#[test]
fn what_has_no_barcode_and_what_is_no_video_is_told() {
    if !have("what_has_no_barcode_and_what_is_no_video_is_told", &["ffmpeg"]) {
        return;
    }
    let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("udp://{to}");
    let plain = Running::start(
        Command::new("ffmpeg")
            .args(["-v", "error", "-re", "-f", "lavfi", "-i", "testsrc=size=320x180:rate=25"])
            .args(["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25"])
            .args(["-f", "mpegts", &url]),
    );
    for more in [&[][..], &["--ffmpeg"]] {
        let outcome = glass(&url, more);
        assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("has a barcode; it is the test picture's"), "{}", outcome.stderr);
    }
    drop(plain);
    let scratch = Scratch::new("lab-glass");
    let file = scratch.write("a.ts", b"recorded");
    for (target, status, words) in
        [(&file[..], 2, "not live"), ("-", 1, "FFmpeg decoded nothing"), ("/no/such", 1, "cannot read")]
    {
        let outcome = glass(target, &[]);
        assert_eq!(outcome.status, Some(status), "{target}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{target}: {}", outcome.stderr);
    }
}
