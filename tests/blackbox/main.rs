//! The program `glassline` from outside, without any foreign program: what goes in and what must come out.
#![allow(clippy::unwrap_used)]

mod access;
mod admin;
mod bad_input;
mod budget;
mod camera;
mod carried;
#[cfg(feature = "archive")]
mod clips;
mod clocks;
mod cluster;
mod cluster_drain;
mod cluster_nats;
mod cluster_registry;
mod cluster_schedules;
mod commands;
mod constant_rate;
mod contribution;
mod decode;
mod demo;
mod direct;
#[cfg(feature = "av1")]
mod direct_av1;
mod doctor;
mod draining;
mod edge;
mod edge_coded;
mod edge_conditions;
mod edge_disk;
mod edge_ladder;
mod edge_memory;
mod edge_pulled;
mod edge_requests;
mod edge_routes;
mod encode;
mod encode_cluster;
mod encode_inside;
mod encode_outputs;
mod encode_quality;
mod event;
#[cfg(feature = "archive")]
mod examples;
mod experiment;
mod fade;
mod fetched_by_doors;
mod flight;
mod flv_packaged;
mod forward;
mod full_disk;
mod header_marks;
mod hot;
mod identity;
mod ingest;
mod inputs;
mod insight;
mod klv;
mod lab_link;
mod lab_live;
mod lab_path;
mod ladder;
mod limits;
mod link;
mod link_discovery;
mod link_outage;
mod load;
mod marks;
mod metadata;
mod objects;
mod outputs;
mod panics;
mod pictures;
#[cfg(feature = "archive")]
mod posters;
mod proxy_folder;
mod publishers;
mod pull;
mod pull_tls;
mod raw_probe;
mod record;
#[cfg(feature = "archive")]
mod recording;
#[cfg(feature = "archive")]
mod replay;
mod rtmp;
mod rtp;
mod rtsp;
mod rules;
mod score;
mod sdp;
mod send_fetched;
mod send_raw;
mod setup;
mod shell;
mod site;
mod small_files;
mod soak;
mod sound_alone;
mod srt;
mod stages;
mod telemetry;
mod terminal;
mod thumbnails;
mod tls;
mod unpackaged;
mod viewers;
mod vp8;
mod watch_webhook;

use glassline_test_support::program::{Outcome, Scratch, Server, run};

/// The program under test.
const GLASSLINE: &str = env!("CARGO_BIN_EXE_glassline");

/// A server on a free port.
fn serve(arguments: &[&str]) -> Server {
    Server::start(GLASSLINE, arguments)
}

/// A server with a configuration. The folder holds its file.
fn serve_with(config: &str) -> (Server, Scratch) {
    let scratch = Scratch::new("serve");
    let file = scratch.write("glassline.toml", config);
    (serve(&["--config", &file]), scratch)
}

/// The program with these arguments, run to its end.
fn glassline(arguments: &[&str]) -> Outcome {
    run(GLASSLINE, arguments, 120)
}
