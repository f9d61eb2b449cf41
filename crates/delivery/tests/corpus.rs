//! Runs the bodies of the fuzz targets over the committed corpora: what fuzzing found once stays found.
#![allow(unreachable_pub, reason = "the bodies are public for the fuzz targets")]

use glassline_test_support::corpus;

#[path = "../../../fuzz/bodies/archive_index.rs"]
mod archive_index;
#[path = "../../../fuzz/bodies/archive_log.rs"]
mod archive_log;
#[path = "../../../fuzz/bodies/carried.rs"]
mod carried;
#[path = "../../../fuzz/bodies/cluster_entry.rs"]
mod cluster_entry;
#[path = "../../../fuzz/bodies/disk.rs"]
mod disk;
#[path = "../../../fuzz/bodies/download.rs"]
mod download;
#[path = "../../../fuzz/bodies/forwarding.rs"]
mod forwarding;
#[path = "../../../fuzz/bodies/http1.rs"]
mod http1;
#[path = "../../../fuzz/bodies/ingest.rs"]
mod ingest;
#[path = "../../../fuzz/bodies/metacube.rs"]
mod metacube;
#[path = "../../../fuzz/bodies/packager.rs"]
mod packager;
#[path = "../../../fuzz/bodies/push.rs"]
mod push;
#[path = "../../../fuzz/bodies/redirects.rs"]
mod redirects;
#[path = "../../../fuzz/bodies/rewrite.rs"]
mod rewrite;
#[path = "../../../fuzz/bodies/selection.rs"]
mod selection;
#[path = "../../../fuzz/bodies/slate.rs"]
mod slate;
#[path = "../../../fuzz/bodies/stages.rs"]
mod stages;
#[path = "../../../fuzz/bodies/urls.rs"]
mod urls;
#[path = "../../../fuzz/bodies/webhook_answer.rs"]
mod webhook_answer;

#[test]
fn indexes_of_recordings() {
    corpus::run("archive_index", archive_index::run);
}

#[test]
fn logs_of_recordings() {
    corpus::run("archive_log", archive_log::run);
}

#[test]
fn carried_streams() {
    corpus::run("carried", carried::run);
}

#[test]
fn entries_of_a_cluster() {
    corpus::run("cluster_entry", cluster_entry::run);
}

#[test]
fn what_goes_on_between_clients_and_upstream_servers() {
    corpus::run("forwarding", forwarding::run);
}

#[test]
fn http1_corpus() {
    corpus::run("http1", http1::run);
}

#[test]
fn cmaf_that_is_put() {
    corpus::run("ingest", ingest::run);
}

#[test]
fn metacube_corpus() {
    corpus::run("metacube", metacube::run);
}

#[test]
fn transport_streams_that_are_packaged() {
    corpus::run("packager", packager::run);
}

#[test]
fn answers_to_a_pusher() {
    corpus::run("push", push::run);
}

#[test]
fn answers_of_upstreams() {
    corpus::run("redirects", redirects::run);
}

#[test]
fn publishers_behind_a_slate() {
    corpus::run("slate", slate::run);
}

#[test]
fn stages_of_pictures_and_reports_of_viewers() {
    corpus::run("stages", stages::run);
}

#[test]
fn urls_of_sources_and_outputs() {
    corpus::run("urls", urls::run);
}

#[test]
fn files_of_a_cache() {
    corpus::run("disk", disk::run);
}

#[test]
fn playlists_of_upstreams() {
    corpus::run("rewrite", rewrite::run);
}

#[test]
fn answers_while_an_object_is_fetched() {
    corpus::run("download", download::run);
}

#[test]
fn conditions_and_ranges_of_clients() {
    corpus::run("selection", selection::run);
}

#[test]
fn answers_of_receivers_of_webhooks() {
    corpus::run("webhook_answer", webhook_answer::run);
}
