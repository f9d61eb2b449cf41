use super::*;
use glassline_studio::raw::look::{LimitReport, TimingReport, VideoReport};
use glassline_studio::raw::look::{Merged, PathReport, Range, SocketReport, StrangerReport};

fn timing(class: &'static str) -> TimingReport {
    let limits = LimitReport { cmax: Some(4), vrx_full: 8 };
    TimingReport {
        class,
        is_by_ptp: false,
        frames: 100,
        cinst_max: 3,
        vrx_gapped: [0, 5],
        vrx_linear: [-2, 6],
        first_packet_us: [0.0, 120.4],
        narrow: limits,
        narrow_linear: limits,
        wide: LimitReport { cmax: None, vrx_full: 720 },
    }
}

fn flow() -> FlowReport {
    let path = PathReport {
        address: "239.1.1.1:5004".to_owned(),
        ssrc: Some(7),
        datagrams: 1_000,
        bytes: 1_000_000,
        bitrate_bps: Some(8e6),
        packets: 1_000,
        lost: 0,
        longest_loss: 0,
        reordered: 0,
        duplicates: 0,
        strays: 0,
        restarts: 0,
        jitter_us: 12.0,
        kernel_drops: 0,
        socket: Some(SocketReport {
            asked_bytes: 9,
            granted_bytes: 8,
            advice: Some("sysctl -w net.core.rmem_max=9".to_owned()),
        }),
        strangers: StrangerReport::default(),
        timing: Some(timing("narrow")),
        timing_now: Some(timing("wide")),
    };
    FlowReport {
        kind: "video",
        payload_type: 96,
        reference_clock: None,
        media_clock: None,
        captured_by: Some("arrivals"),
        age_ms: None,
        paths: vec![path],
        merged: Merged { packets: 1_000, ..Merged::default() },
        video: Some(VideoReport {
            width_px: 1920,
            height_px: 1080,
            scan: "interlaced",
            sampling: "YCbCr-4:2:2",
            depth_bits: 10,
            described_rate_hz: Some(25.0),
            stamped_rate_hz: Some(25.0),
            received_rate_hz: Some(25.001),
            left_out_frames: 0,
            frames: 100,
            incomplete_frames: 0,
            packets_per_frame: Some(Range { min: 10, max: 10 }),
            datagram_bytes: Some(Range { min: 1_000, max: 1_440 }),
            described_max_bytes: 1_460,
            described_packing: "general",
            packing: Some("general"),
            marker_errors: 0,
            described_sender: Some("2110TPN".to_owned()),
        }),
        audio: None,
        ancillary: None,
        failed: None,
    }
}

#[test]
fn a_stream_as_it_should_be_has_no_warnings_and_a_verdict() {
    let flow = flow();
    assert_eq!(warnings::of(&flow), Vec::<String>::new());
    assert_eq!(
        table::line(std::slice::from_ref(&flow)),
        "video: 25.00 frames/s  wide, Cinst 3, VRX -2 to 6  lost 0"
    );
    let report = RawReport {
        schema: SCHEMA,
        source: "rtp:a\x1b.sdp".to_owned(),
        kind: "rtp",
        name: "Camera".to_owned(),
        duration_s: 10.0,
        flows: vec![flow],
        skipped: Vec::new(),
        warnings: Vec::new(),
    };
    let text = table::write(&report);
    assert!(text.starts_with("rtp:a\\u001b.sdp\n") && text.contains("Video at 239.1.1.1:5004\n"), "{text}");
    assert!(
        text.contains("narrow without PTP: Cinst up to 3 of 4, VRX 0 to 5 of 8, first packet 0 to 120 µs")
    );
    assert!(text.contains("Bursts pass") && text.contains("buffer passes"), "{text}");
    assert!(nothing(&report).is_none());
}

/// The only warning of a flow that was changed.
fn warning(change: impl FnOnce(&mut FlowReport, &mut VideoReport)) -> String {
    let mut flow = flow();
    let Some(mut video) = flow.video.take() else { panic!("video") };
    change(&mut flow, &mut video);
    flow.video = Some(video);
    let all = warnings::of(&flow);
    assert_eq!(all.len(), 1, "{all:?}");
    all.concat()
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let lost = warning(|flow, _| flow.merged.lost = 1_000);
    assert!(lost.ends_with("1000 of 2000 packets were lost (50.0000 %)"), "{lost}");
    let dropped = warning(|flow, _| flow.merged.kernel_drops = 3);
    assert!(dropped.ends_with("network's: sysctl -w net.core.rmem_max=9"), "{dropped}");
    let rate = warning(|_, video| video.stamped_rate_hz = Some(50.0));
    assert!(rate.contains("stamped 50.000 a second, where the description says 25.000"), "{rate}");
    let class = warning(|flow, _| flow.paths[0].timing = Some(timing("wide")));
    assert!(class.contains("a sender that is wide, where the description promises 2110TPN"), "{class}");
    let packing = warning(|_, video| video.packing = Some("block"));
    assert!(packing.contains("look like block packing mode"), "{packing}");
    let size = warning(|_, video| video.datagram_bytes = Some(Range { min: 1_453, max: 1_453 }));
    assert!(size.contains("up to 1461 bytes"), "{size}");
    let types = warning(|flow, _| {
        flow.paths[0].packets = 0;
        flow.paths[0].strangers.payload_type = 1_000;
        flow.paths[0].strangers.payload_types = vec![97, 98];
    });
    assert!(
        types.ends_with(
            "1000 datagrams came, but none is of the described stream because their payload types are 97, 98 where the \
             description says 96"
        ),
        "{types}"
    );
}
