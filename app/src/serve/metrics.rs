//! `GET /metrics`: the Prometheus text exposition format, version 0.0.4.

use super::exposition::Exposition;
use super::record::Recording;
use glassline_delivery::telemetry::{BEHIND_EDGES_MS, Why};
use glassline_edge::{CacheStatus, ObjectSource, WAIT_EDGES_MS, WaitCounts};
use glassline_io::containment::{self, Border};
use glassline_media::stamps::{STAGE_EDGES_MICROS, StageCount};
use glassline_relay::webhook::ReceiverStatus;
use glassline_relay::{Hub, IngestCounts};
use glassline_streams::status::{OutputStatus, ServiceCount, SourceState, SourceStatus, StreamStatus};
use glassline_studio::encode::EncoderStatus;
use glassline_watch::{Alarms, Counts, Figure};
use std::fmt::Write;

pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Families for the built-in encoders.
fn encoder_families(text: &mut Exposition, encoders: &[EncoderStatus]) {
    let mut family = |(name, kind, help): (&str, &str, &str),
                      value: &dyn Fn(&EncoderStatus) -> Option<u64>| {
        text.family(name, kind, help);
        for encoder in encoders {
            if let Some(value) = value(encoder) {
                let _ = writeln!(text.0, "glassline_{name}{{stream=\"{}\"}} {value}", encoder.name);
            }
        }
    };
    family(("encoder_running", "gauge", "Whether the built-in encoder runs."), &|encoder| {
        Some(u64::from(encoder.running.is_some()))
    });
    family(("encoder_restarts_total", "counter", "Restarts of a built-in encoder."), &|encoder| {
        Some(encoder.restarts)
    });
    family(("encoder_bitrate_bps", "gauge", "Bit rate that a built-in encoder aims at."), &|encoder| {
        Some(encoder.running.as_ref()?.bitrate_bps)
    });
    family(
        ("encoder_pictures_total", "counter", "Pictures coded by the built-in encoder since it started."),
        &|encoder| Some(encoder.running.as_ref()?.pictures),
    );
    family(
        (
            "encoder_dropped_pictures_total",
            "counter",
            "Pictures left out by the built-in encoder since it started.",
        ),
        &|encoder| Some(encoder.running.as_ref()?.dropped),
    );
    text.family("encoder_preset", "gauge", "1 for the preset that a built-in encoder works by now.");
    for encoder in encoders {
        if let Some(running) = &encoder.running {
            let (stream, preset) = (&encoder.name, &running.preset);
            let _ = writeln!(text.0, "glassline_encoder_preset{{stream=\"{stream}\",preset=\"{preset}\"}} 1");
        }
    }
    encoder_stages(text, encoders);
}

/// The latency budget of the built-in encoders, as docs/latency.md has it.
fn encoder_stages(text: &mut Exposition, encoders: &[EncoderStatus]) {
    let family = "encoder_stage_seconds";
    text.family(family, "histogram", "Time of the built-in encoder's pictures from one stage to the next.");
    let running = encoders.iter().filter_map(|encoder| Some((&encoder.name, encoder.running.as_ref()?)));
    for (name, status) in running {
        for (stage, count) in status.stages.stages() {
            let labels = format!("stream=\"{name}\",stage=\"{}\"", stage.name());
            stage_histogram(text, family, &labels, count);
        }
    }
}

/// The samples of a histogram of [`StageCount`]'s buckets.
fn stage_histogram(text: &mut Exposition, family: &str, labels: &str, count: &StageCount) {
    let edges = STAGE_EDGES_MICROS.iter().map(|micros| (*micros as f64 / 1e6).to_string());
    let mut at_most = 0;
    for (edge, count) in edges.chain(["+Inf".to_owned()]).zip(count.buckets) {
        at_most += count;
        let _ = writeln!(text.0, "glassline_{family}_bucket{{{labels},le=\"{edge}\"}} {at_most}");
    }
    let _ = writeln!(text.0, "glassline_{family}_sum{{{labels}}} {}", count.sum.as_secs_f64());
    let _ = writeln!(text.0, "glassline_{family}_count{{{labels}}} {at_most}");
}

/// The latency budget behind the encoders: this server's stages of pictures that say when they were captured, and what
/// viewers report of theirs.
fn stage_families(text: &mut Exposition, hub: &Hub, streams: &[StreamStatus]) {
    let (mut relay, mut viewers) = (Exposition::default(), Exposition::default());
    let (relay_family, viewer_family) = ("relay_stage_seconds", "viewer_stage_seconds");
    relay.family(
        relay_family,
        "histogram",
        "Time of pictures from one stage of this server to the next; for the first stage, from capture.",
    );
    viewers.family(
        viewer_family,
        "histogram",
        "Time of each part of the path by viewers' reports, which contain counts only: sums are estimates.",
    );
    for StreamStatus { name, .. } in streams {
        let labels = |stage: &str| format!("stream=\"{name}\",stage=\"{stage}\"");
        hub.stages(name, |figures, reported| {
            for (stage, count) in figures.stages() {
                stage_histogram(&mut relay, relay_family, &labels(stage.name()), count);
            }
            for (part, count) in reported.parts() {
                stage_histogram(&mut viewers, viewer_family, &labels(part.name()), count);
            }
        });
    }
    text.0.push_str(&relay.0);
    text.0.push_str(&viewers.0);
}

/// Panics, by the containment border that stopped each.
fn panics(text: &mut Exposition) {
    let name = "panics_total";
    text.family(
        name,
        "counter",
        "Faults (panics), each of which ended only the part of the program in which it occurred.",
    );
    for (border, count) in Border::ALL.into_iter().zip(containment::panic_counts()) {
        let _ = writeln!(text.0, "glassline_{name}{{where=\"{}\"}} {count}", border.name());
    }
}

/// Families for streams that are watched.
fn alarm_families(text: &mut Exposition, alarms: &Alarms) {
    let figures = alarms.figures();
    let mut family = |(name, kind, help): (&str, &str, &str), value: &dyn Fn(&Figure) -> u64| {
        text.family(name, kind, help);
        for figure in &figures {
            let (stream, alarm, value) = (&figure.stream, figure.alarm, value(figure));
            let _ = writeln!(text.0, "glassline_{name}{{stream=\"{stream}\",alarm=\"{alarm}\"}} {value}");
        }
    };
    let active = ("alarm_active", "gauge", "Whether the alarm is there; of alarms that have begun once.");
    family(active, &|figure| figure.is_active.into());
    family(("alarms_total", "counter", "How often the alarm has begun."), &|figure| figure.begun);
    let counts = alarms.counts();
    let mut family = |(name, kind, help): (&str, &str, &str), value: &dyn Fn(&Counts) -> u64| {
        text.family(name, kind, help);
        for (stream, counts) in &counts {
            let _ = writeln!(text.0, "glassline_{name}{{stream=\"{stream}\"}} {}", value(counts));
        }
    };
    for (name, help, value) in [
        (
            "watch_pictures_total",
            "Pictures decoded to watch the stream.",
            (|counts| counts.pictures) as fn(&Counts) -> u64,
        ),
        ("watch_refused_total", "Damaged units that decoders refused.", |counts| counts.refused),
        ("watch_left_out_total", "Times that part of the stream was not watched.", |counts| counts.left_out),
        ("watch_skipped_total", "Pictures that were not decoded, since the watch was behind.", |counts| {
            counts.skipped
        }),
    ] {
        family((name, "counter", help), &value);
    }
}

/// Families for receivers of webhooks.
fn webhook_families(text: &mut Exposition, receivers: &[ReceiverStatus]) {
    for (name, kind, help, value) in [
        (
            "webhook_pending",
            "gauge",
            "Messages that wait for the receiver.",
            (|status| status.pending as u64) as fn(&ReceiverStatus) -> u64,
        ),
        ("webhook_delivered_total", "counter", "Messages that the receiver took.", |status| {
            status.counters.delivered
        }),
        ("webhook_failed_attempts_total", "counter", "Attempts that failed.", |status| {
            status.counters.failed_attempts
        }),
        ("webhook_lost_total", "counter", "Messages given up, or dropped for newer ones.", |status| {
            status.counters.given_up + status.counters.dropped
        }),
    ] {
        text.family(name, kind, help);
        for (index, status) in receivers.iter().enumerate() {
            // Two may have the same host.
            let (receiver, value) = (&status.receiver, value(status));
            let _ =
                writeln!(text.0, "glassline_{name}{{receiver=\"{receiver}\",number=\"{index}\"}} {value}");
        }
    }
}

/// Families for publishers of CMAF.
fn ingest(text: &mut Exposition, counts: &IngestCounts) {
    let media = &counts.media;
    text.total("ingest_publishers", "gauge", "Current publishers of CMAF.", counts.publishers);
    for (name, help, value) in [
        ("ingest_requests_total", "Requests with a header or segments of CMAF.", counts.requests),
        ("ingest_refused_total", "Of these, refused.", counts.refused),
        (
            "ingest_manifests_total",
            "Manifests and playlists from publishers, which are ignored.",
            counts.manifests,
        ),
        ("ingest_chunks_total", "Chunks of CMAF that were accepted.", media.chunks),
        (
            "ingest_late_units_total",
            "Access units dropped: received before, or after a later one.",
            media.late_units,
        ),
        (
            "ingest_stray_units_total",
            "Access units dropped: their times are far from those of the other track.",
            media.stray_units,
        ),
        (
            "ingest_bad_samples_total",
            "Samples that could not be converted to access units.",
            media.bad_samples,
        ),
        (
            "ingest_gaps_total",
            "Segments that were missing before another one, and did not arrive.",
            media.gaps,
        ),
        ("ingest_refused_tracks_total", "Tracks of CMAF that were refused.", media.refused_tracks),
    ] {
        text.total(name, "counter", help, value);
    }
}

pub(super) fn exposition(
    hub: &Hub,
    encoders: &[EncoderStatus],
    alarms: &Alarms,
    webhooks: &[ReceiverStatus],
    recording: Option<&Recording>,
) -> String {
    let (totals, streams) = (hub.totals(), hub.streams());
    let mut text = Exposition::default();
    text.family("build_info", "gauge", "Version of the program; always 1.");
    let _ = writeln!(text.0, "glassline_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    text.total("uptime_seconds", "gauge", "Time since the relay started.", totals.uptime.as_secs_f64());
    text.total("connections", "gauge", "Current connections.", totals.connections);
    text.total("connections_accepted_total", "counter", "Connections accepted.", totals.accepted);
    text.total(
        "connections_refused_total",
        "counter",
        "Connections refused because there were too many.",
        totals.refused,
    );
    text.total(
        "connections_refused_unanswered_total",
        "counter",
        "Connections refused because too many from their address had not been answered; part of connections_refused_total.",
        totals.refused_unanswered,
    );
    text.total(
        "connections_gave_way_total",
        "counter",
        "Idle connections closed to make room for others.",
        totals.gave_way,
    );
    text.total(
        "connections_timed_out_total",
        "counter",
        "Connections closed because a peer was too slow.",
        totals.timed_out,
    );
    text.total(
        "request_bodies_timed_out_total",
        "counter",
        "Connections closed because a request's body did not arrive in time; part of connections_timed_out_total.",
        totals.bodies_timed_out,
    );
    text.total(
        "streams_displaced_total",
        "counter",
        "Streams without publisher and viewers that were ended early to make room for others.",
        totals.streams_displaced,
    );
    text.total(
        "unpackaged_bytes_total",
        "counter",
        "Bytes of streams that came faster than they could be packaged, and are in no segment of LL-HLS, LL-DASH or a recording.",
        totals.unpackaged_bytes,
    );
    panics(&mut text);
    ingest(&mut text, &totals.ingest);
    for ServiceCount { name, is_gauge, help, value } in hub.companion_counts() {
        text.total(name, if is_gauge { "gauge" } else { "counter" }, help, value);
    }
    text.total("marks_in_use", "gauge", "Current viewers with a mark of their own.", totals.marks_in_use);
    text.total(
        "marks_exhausted_total",
        "counter",
        "Viewers without a mark of their own, because the pool was empty.",
        totals.marks_exhausted,
    );
    text.total("requests_total", "counter", "HTTP requests.", totals.requests);
    text.total("request_errors_total", "counter", "HTTP requests answered with an error.", totals.errors);
    text.total("tls_handshakes_total", "counter", "Completed TLS handshakes.", totals.tls_handshakes);
    text.total(
        "tls_handshakes_failed_total",
        "counter",
        "Connections to TLS listeners that ended without a handshake.",
        totals.tls_failed,
    );
    text.total(
        "connections_draining",
        "gauge",
        "Connections for which a replaced process is the TLS proxy.",
        totals.tls_apart,
    );
    stream_families(&mut text, &streams);
    encoder_families(&mut text, encoders);
    alarm_families(&mut text, alarms);
    webhook_families(&mut text, webhooks);
    if let Some(recording) = recording {
        recording.expose(&mut text);
    }
    stage_families(&mut text, hub, &streams);
    viewer_families(&mut text, &streams);
    source_families(&mut text, &streams);
    output_families(&mut text, &streams);
    let help = "The most memory that streams, objects from upstream servers and connections can take with this configuration, in bytes (docs/serve.md).";
    text.total("memory_budget_bytes", "gauge", help, hub.memory_budget_bytes());
    object_families(&mut text, hub);
    text.0
}

fn stream_families(text: &mut Exposition, streams: &[StreamStatus]) {
    text.streams(streams, ("stream_live", "gauge", "Whether the stream has a publisher."), |s| {
        Some(u8::from(s.live))
    });
    text.streams(streams, ("stream_viewers", "gauge", "Viewers now."), |s| Some(s.viewers));
    text.streams(streams, ("stream_viewers_joined_total", "counter", "Viewers that have joined."), |s| {
        Some(s.viewers_joined)
    });
    text.streams(
        streams,
        ("stream_bitrate_bps", "gauge", "Bits per second from the publisher, over two seconds."),
        |s| Some(s.bitrate_bps),
    );
    text.streams(streams, ("stream_bytes_in_total", "counter", "Bytes from publishers."), |s| {
        Some(s.bytes_in)
    });
    text.streams(
        streams,
        ("stream_bytes_out_total", "counter", "Bytes of the stream sent to viewers."),
        |s| Some(s.bytes_out),
    );
    text.streams(
        streams,
        ("stream_garbage_bytes_total", "counter", "Bytes from publishers that were not TS packets."),
        |s| Some(s.garbage_bytes),
    );
    text.streams(
        streams,
        ("stream_continuity_errors_total", "counter", "Continuity errors in what publishers sent."),
        |s| Some(s.continuity_errors),
    );
    text.streams(
        streams,
        ("stream_publishers_total", "counter", "Publishers that the stream has had."),
        |s| Some(s.sessions),
    );
    text.streams(
        streams,
        (
            "stream_moved_forward_total",
            "counter",
            "Viewers that fell behind and were moved to the newest key frame.",
        ),
        |s| Some(s.moved_forward),
    );
    text.streams(
        streams,
        (
            "stream_dropped_behind_total",
            "counter",
            "Viewers that fell behind and were dropped, as the configuration says.",
        ),
        |s| Some(s.dropped_behind),
    );
    text.streams(
        streams,
        (
            "stream_viewers_stalled_total",
            "counter",
            "Viewers dropped because their connections accepted no data.",
        ),
        |s| Some(s.stalled),
    );
    text.streams(
        streams,
        (
            "stream_viewers_cut_off_total",
            "counter",
            "Viewers that fell so far behind that the rest of a record was no longer kept.",
        ),
        |s| Some(s.cut_off),
    );
    text.streams(
        streams,
        (
            "stream_unpaced_bursts_total",
            "counter",
            "Bursts longer than a viewer's path had been shown to take, because there was no time for pacing.",
        ),
        |s| Some(s.unpaced),
    );
    text.streams(streams, ("stream_newest_byte_age_seconds", "gauge", "Age of the newest byte."), |s| {
        s.newest_byte_age.map(|age| age.as_secs_f64())
    });
    text.streams(
        streams,
        ("stream_key_frame_interval_seconds", "gauge", "Time between the last two key frames."),
        |s| s.key_frame_interval.map(|interval| interval.as_secs_f64()),
    );
    text.streams(
        streams,
        ("stream_backlog_bytes", "gauge", "Bytes that are kept for viewers that fall behind."),
        |s| Some(s.backlog_bytes),
    );
    let slate = (
        "stream_slate",
        "gauge",
        "Whether the slate is shown in the publisher's place; of streams that have one.",
    );
    text.streams(streams, slate, |s| s.slate.map(|slate| u8::from(slate.on_air)));
    text.streams(streams, ("stream_slates_total", "counter", "Times that the slate was shown."), |s| {
        s.slate.map(|slate| slate.times)
    });
    text.streams(
        streams,
        ("stream_slate_seconds_total", "counter", "Time for which the slate was shown."),
        |s| s.slate.map(|slate| slate.seconds),
    );
    let dropped = (
        "stream_events_dropped_total",
        "counter",
        "Units of KLV and SCTE 35 that LL-HLS and LL-DASH are without, since the stream is packaged: too many at once, or no picture followed.",
    );
    text.streams(streams, dropped, |s| s.dropped_events);
    text.streams(streams, ("stream_spool_bytes", "gauge", "Memory that the spool may take."), |s| {
        Some(s.spool_bytes)
    });
}

/// Families for viewers: pacing, retransmissions, and how far viewers are behind live.
fn viewer_families(text: &mut Exposition, streams: &[StreamStatus]) {
    text.streams(
        streams,
        ("stream_pacing_bps", "gauge", "Highest rate at which data is sent to a viewer, in bits per second."),
        |s| s.pace_bps,
    );
    text.streams(
        streams,
        ("stream_retransmitted_segments_total", "counter", "TCP segments that were sent to viewers again."),
        |s| Some(s.retransmitted),
    );
    text.family("viewers_slow", "gauge", "Viewers that are behind live, by cause.");
    for stream in streams {
        for (why, count) in Why::ALL.iter().zip(stream.why).skip(1) {
            let (name, why) = (&stream.name, why.name());
            let _ = writeln!(text.0, "glassline_viewers_slow{{stream=\"{name}\",why=\"{why}\"}} {count}");
        }
    }
    let family = "stream_behind_live_seconds";
    text.family(family, "histogram", "How far viewers were behind live: each viewer counts once a second.");
    for StreamStatus { name, behind_ever: behind, .. } in streams {
        let mut at_most = 0;
        let edges = BEHIND_EDGES_MS.iter().map(|ms| format!("{}", f64::from(*ms) / 1e3));
        for (edge, count) in edges.chain(["+Inf".to_owned()]).zip(behind.buckets) {
            at_most += count;
            let _ =
                writeln!(text.0, "glassline_{family}_bucket{{stream=\"{name}\",le=\"{edge}\"}} {at_most}");
        }
        let sum = behind.sum_ms as f64 / 1e3;
        let _ = writeln!(text.0, "glassline_{family}_sum{{stream=\"{name}\"}} {sum}");
        let _ = writeln!(text.0, "glassline_{family}_count{{stream=\"{name}\"}} {at_most}");
    }
}

/// Families for pulled streams only.
fn source_families(text: &mut Exposition, streams: &[StreamStatus]) {
    type Value = fn(&SourceStatus) -> Option<f64>;
    let families: [(&str, &str, &str, Value); 13] = [
        ("stream_source_live", "gauge", "Whether the source of a pulled stream sends.", |source| {
            Some(f64::from(u8::from(source.state == SourceState::Live)))
        }),
        (
            "stream_source_reconnects_total",
            "counter",
            "Times that the source began to send again.",
            |source| Some(source.reconnects() as f64),
        ),
        (
            "stream_source_failures_total",
            "counter",
            "Attempts to fetch the stream that failed, and streams that ended.",
            |source| Some(source.failures as f64),
        ),
        ("stream_source_redirects_total", "counter", "Redirects followed to the source.", |source| {
            Some(source.redirects as f64)
        }),
        (
            "stream_source_garbage_bytes_total",
            "counter",
            "Bytes from the source outside of Metacube blocks.",
            |source| Some(source.garbage_bytes as f64),
        ),
        (
            "stream_source_encoder_delay_seconds",
            "gauge",
            "Time from the encoder's newest time stamp to its arrival, by both wall clocks.",
            |source| Some(source.encoder_delay?.as_secs_f64()),
        ),
        (
            "stream_source_datagrams_dropped_total",
            "counter",
            "Datagrams of the source that the kernel dropped because its buffer was full.",
            |source| Some(source.datagrams?.1 as f64),
        ),
        ("stream_source_rtp_received_total", "counter", "Packets of RTP from the source.", |source| {
            Some(source.rtp?.received as f64)
        }),
        (
            "stream_source_rtp_lost_total",
            "counter",
            "Packets of RTP that did not arrive in time.",
            |source| Some(source.rtp?.lost as f64),
        ),
        (
            "stream_source_rtp_reordered_total",
            "counter",
            "Packets of RTP that arrived after a later one, but in time.",
            |source| Some(source.rtp?.reordered as f64),
        ),
        (
            "stream_source_rtp_late_total",
            "counter",
            "Packets of RTP that arrived after they had been given up.",
            |source| Some(source.rtp?.late as f64),
        ),
        ("stream_source_rtp_duplicate_total", "counter", "Packets of RTP that arrived twice.", |source| {
            Some(source.rtp?.duplicate as f64)
        }),
        (
            "stream_source_damaged_units_total",
            "counter",
            "Pictures and packets of sound from the source that were dropped because a part of them was lost.",
            |source| Some(source.rtp?.damaged_units as f64),
        ),
    ];
    for (name, kind, help, value) in families {
        text.streams(streams, (name, kind, help), |stream| value(stream.source.as_ref()?));
    }
}

/// Families for objects: how long requests waited, and the requests to upstream servers.
fn object_families(text: &mut Exposition, hub: &Hub) {
    let name = "object_first_byte_seconds";
    text.family(name, "histogram", "How long requests for segments, parts and playlists waited for the first byte, by its source: packaged here (packaged), or from an upstream server and in memory (hit, stale), still arriving (joined), on the disk (disk) or not here (miss); or a recording (recorded).");
    for source in ObjectSource::ALL {
        let (WaitCounts { counts, sum }, source) = (hub.object_waits().counts(source), source.name());
        let mut below = 0;
        for (bucket, count) in counts.iter().enumerate() {
            below += count;
            let edge = WAIT_EDGES_MS.get(bucket).map(|millis| (*millis as f64 / 1000.0).to_string());
            let edge = edge.unwrap_or_else(|| "+Inf".to_owned());
            let _ = writeln!(text.0, "glassline_{name}_bucket{{source=\"{source}\",le=\"{edge}\"}} {below}");
        }
        let _ = writeln!(text.0, "glassline_{name}_sum{{source=\"{source}\"}} {}", sum.as_secs_f64());
        let _ = writeln!(text.0, "glassline_{name}_count{{source=\"{source}\"}} {below}");
    }
    let Some(edge) = hub.edge() else { return };
    let (fetched, kept) = (edge.fetch_figures(), edge.cache_figures());
    text.total("upstream_fetches_total", "counter", "Requests to upstream servers.", fetched.fetches);
    let help = "Objects that broke off and were resumed, from the same server or the next.";
    text.total("upstream_resumed_total", "counter", help, fetched.resumed);
    text.total("upstream_failed_total", "counter", "Objects that no server could deliver.", fetched.failed);
    let help = "Objects that were not fetched to their end, because no client was reading them any more.";
    text.total("upstream_cancelled_total", "counter", help, fetched.cancelled);
    text.total("upstream_bytes_total", "counter", "Bytes from upstream servers.", fetched.bytes);
    text.total("cache_objects", "gauge", "Objects that are kept or still arriving.", kept.objects);
    text.total("cache_bytes", "gauge", "Bytes that are kept.", kept.bytes);
    let help =
        "Memory of objects from upstream servers: kept, still arriving, or still being read by clients.";
    text.total("cache_held_bytes", "gauge", help, kept.held_bytes);
    text.total(
        "cache_evicted_total",
        "counter",
        "Objects that were removed to make room for others.",
        kept.evicted,
    );
    let name = "cache_requests_total";
    text.family(name, "counter", "Requests for objects of upstream servers, by the result in the cache.");
    for (status, count) in CacheStatus::ALL.iter().zip(kept.requests) {
        let _ = writeln!(text.0, "glassline_{name}{{found=\"{}\"}} {count}", status.name());
    }
    let Some(disk) = edge.disk_figures() else { return };
    text.total("cache_disk_objects", "gauge", "Objects on the disk.", disk.objects);
    text.total("cache_disk_bytes", "gauge", "Approximate size of the files on the disk.", disk.bytes);
    text.total("cache_disk_read_total", "counter", "Objects that were read from the disk.", disk.read);
    text.total("cache_disk_written_total", "counter", "Objects that were written to the disk.", disk.written);
    let help = "Bytes of objects that were written to the disk.";
    text.total("cache_disk_written_bytes_total", "counter", help, disk.written_bytes);
    text.total(
        "cache_disk_evicted_total",
        "counter",
        "Files that were removed to make room for others.",
        disk.evicted,
    );
    let help = "Files that were dropped because they were damaged.";
    text.total("cache_disk_damaged_total", "counter", help, disk.damaged);
    let help = "Operations on files that the system refused, for example because of a full disk or a read-only directory.";
    text.total("cache_disk_errors_total", "counter", help, disk.errors);
    let help =
        "Objects that were not written: the disk was too slow, too small, or had failed shortly before.";
    text.total("cache_disk_skipped_total", "counter", help, disk.skipped);
    let help = "Objects that were fetched because the disk did not deliver them completely in time.";
    text.total("cache_disk_late_total", "counter", help, disk.late);
}

/// Families for outputs. The URLs of outputs need no escape.
fn output_families(text: &mut Exposition, streams: &[StreamStatus]) {
    type Value = fn(&OutputStatus) -> u64;
    let families: [(&str, &str, &str, Value); 5] = [
        ("stream_output_sending", "gauge", "Whether the stream is being sent to an output.", |output| {
            u64::from(output.sending)
        }),
        ("stream_output_datagrams_total", "counter", "Datagrams sent to an output.", |output| {
            output.datagrams
        }),
        ("stream_output_bytes_total", "counter", "Bytes of the stream sent to an output.", |output| {
            output.bytes
        }),
        (
            "stream_output_errors_total",
            "counter",
            "Datagrams that could not be sent to an output, and attempts to open it that failed.",
            |output| output.errors,
        ),
        (
            "stream_output_moved_forward_total",
            "counter",
            "Times that an output fell behind and continued at the newest key frame.",
            |output| output.moved_forward,
        ),
    ];
    for (name, kind, help, value) in families {
        text.family(name, kind, help);
        for stream in streams {
            for output in &stream.outputs {
                let (stream, url, value) = (&stream.name, &output.url, value(output));
                let _ = writeln!(text.0, "glassline_{name}{{stream=\"{stream}\",output=\"{url}\"}} {value}");
            }
        }
    }
}
