//! What matters, in sentences.

use glassline_studio::raw::look::{
    AncillaryReport, AudioReport, FlowReport, PathReport, TimingReport, VideoReport,
};

/// By how much the sender's rate may differ from the described one: clocks are better than that, and so are ten seconds.
const RATE_TOLERANCE: f64 = 0.001;
/// Of a rate that is measured by arrivals.
const ARRIVAL_TOLERANCE: f64 = 0.005;
/// Above this a stamp is of the future, or of long ago.
const AGE_MS_MAX: f64 = 500.0;

/// The warnings of a flow.
pub(super) fn of(flow: &FlowReport) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(flow.failed.as_ref().map(|why| format!("{}: it is no longer received: {why}", name(flow))));
    if !explain_nothing(flow, &mut all) {
        return all;
    }
    loss(flow, &mut all);
    flow.paths.iter().for_each(|path| path_warnings(flow, path, &mut all));
    if flow.media_clock.as_deref().is_some_and(|clock| clock.starts_with("direct"))
        && flow.reference_clock.as_deref().is_some_and(|clock| clock.starts_with("ptp"))
        && flow.captured_by == Some("arrivals")
    {
        all.push(format!(
            "{}: the description says that stamps are PTP's, but this machine's clock does not agree with them; arrivals tell when \
             things were captured",
            name(flow)
        ));
    }
    if let Some(age) = flow.age_ms.filter(|age| age.mean > AGE_MS_MAX) {
        all.push(format!("{}: stamps are {:.0} ms old when packets come", name(flow), age.mean));
    }
    flow.video.iter().for_each(|video| video_warnings(flow, video, &mut all));
    flow.audio.iter().for_each(|audio| audio_warnings(flow, audio, &mut all));
    flow.ancillary.iter().for_each(|found| ancillary_warnings(flow, found, &mut all));
    all
}

/// What a flow is called here.
pub(super) fn name(flow: &FlowReport) -> String {
    let addresses: Vec<&str> = flow.paths.iter().map(|path| path.address.as_str()).collect();
    format!("{} at {}", flow.kind, addresses.join(" and "))
}

/// Tells why nothing of the flow has come; false where nothing has.
fn explain_nothing(flow: &FlowReport, all: &mut Vec<String>) -> bool {
    let is_empty = |path: &PathReport| path.packets == path.strangers.payload;
    for path in flow.paths.iter().filter(|path| is_empty(path)) {
        let at = format!("{} at {}", flow.kind, path.address);
        all.push(if path.datagrams == 0 {
            format!("{at}: nothing has come")
        } else {
            format!(
                "{at}: {} datagrams came, but none is of the described stream because {}",
                path.datagrams,
                because(flow, path)
            )
        });
    }
    !flow.paths.iter().all(is_empty)
}

fn because(flow: &FlowReport, path: &PathReport) -> String {
    let strangers = &path.strangers;
    let mut reasons = Vec::new();
    if strangers.payload_type > 0 {
        let types: Vec<String> = strangers.payload_types.iter().map(u8::to_string).collect();
        let is = if types.len() == 1 { "their payload type is" } else { "their payload types are" };
        reasons.push(format!("{is} {} where the description says {}", types.join(", "), flow.payload_type));
    }
    if strangers.not_rtp > 0 {
        let what = if reasons.is_empty() { "they are" } else { "others are" };
        reasons.push(format!("{what} no RTP"));
    }
    if strangers.payload > 0 {
        reasons.push("what they carry does not fit into the described format".to_owned());
    }
    if strangers.source > 0 {
        let listed =
            if strangers.sources.is_empty() { "another".to_owned() } else { strangers.sources.join(", ") };
        reasons.push(format!("another sender's packets come to the same port, from {listed}"));
    }
    if reasons.is_empty() { "they contradict themselves".to_owned() } else { reasons.join(", and ") }
}

fn loss(flow: &FlowReport, all: &mut Vec<String>) {
    let merged = flow.merged;
    if merged.lost > 0 {
        let sent = (merged.packets + merged.lost).max(1);
        let both = if flow.paths.len() > 1 { " by both paths" } else { "" };
        all.push(format!(
            "{}: {} of {sent} packets were lost{both} ({:.4} %)",
            name(flow),
            merged.lost,
            merged.lost as f64 * 100.0 / sent as f64
        ));
    }
    if merged.kernel_drops > 0 {
        let advice = flow.paths.iter().find_map(|path| path.socket.as_ref()?.advice.clone());
        let advice =
            advice.unwrap_or("a larger --socket-buffer, or a core of its own (--processor)".to_owned());
        all.push(format!(
            "{}: the kernel dropped {} datagrams since they were not read in time, which is this machine's loss and not the \
             network's: {advice}",
            name(flow),
            merged.kernel_drops
        ));
    }
    if merged.restarts > 0 {
        all.push(format!("{}: the sender began anew {} times", name(flow), merged.restarts));
    }
}

fn path_warnings(flow: &FlowReport, path: &PathReport, all: &mut Vec<String>) {
    let at = format!("{} at {}", flow.kind, path.address);
    if path.lost > 0 && flow.paths.len() > 1 {
        all.push(format!("{at}: this path lost {} packets", path.lost));
    }
    let strangers = &path.strangers;
    let others = strangers.not_rtp + strangers.payload_type + strangers.payload + strangers.source;
    if others > 0 && path.packets > strangers.payload {
        all.push(format!(
            "{at}: {others} datagrams are not of the described stream because {}",
            because(flow, path)
        ));
    }
    if let (Some(timing), Some(video)) = (&path.timing, &flow.video) {
        timing_warning(&at, timing, video, all);
    }
}

/// Types from the strictest on.
fn rank(class: &str) -> u8 {
    match class {
        "narrow" | "2110TPN" => 0,
        "narrow linear" | "2110TPNL" => 1,
        "wide" | "2110TPW" => 2,
        _ => 3,
    }
}

fn timing_warning(at: &str, timing: &TimingReport, video: &VideoReport, all: &mut Vec<String>) {
    if timing.frames == 0 {
        return;
    }
    match &video.described_sender {
        Some(described) if rank(timing.class) > rank(described) => all.push(format!(
            "{at}: packets come as those of a sender that is {}, where the description promises {described}",
            timing.class
        )),
        None if rank(timing.class) > rank("wide") => {
            all.push(format!("{at}: packets come too unevenly for any receiver of ST 2110-21"));
        }
        _ => {}
    }
}

fn video_warnings(flow: &FlowReport, video: &VideoReport, all: &mut Vec<String>) {
    let name = name(flow);
    if let Some(described) = video.described_rate_hz {
        let differs = |rate: f64, tolerance: f64| (rate / described - 1.0).abs() > tolerance;
        if let Some(stamped) = video.stamped_rate_hz.filter(|rate| differs(*rate, RATE_TOLERANCE)) {
            all.push(format!(
                "{name}: frames are stamped {stamped:.3} a second, where the description says {described:.3}"
            ));
        }
        if let Some(received) = video.received_rate_hz.filter(|rate| differs(*rate, ARRIVAL_TOLERANCE)) {
            all.push(format!(
                "{name}: {received:.3} frames a second come, where the description says {described:.3}"
            ));
        }
    }
    if video.left_out_frames > 0 {
        all.push(format!(
            "{name}: the sender left {} frames out: stamps step over them, and no packet is missing",
            video.left_out_frames
        ));
    }
    if let Some(packing) = video.packing.filter(|packing| *packing != video.described_packing) {
        let described = video.described_packing;
        all.push(format!(
            "{name}: packets look like {packing} packing mode, where the description says {described}"
        ));
    }
    if let Some(bytes) = video.datagram_bytes
        && bytes.max + 8 > u64::from(video.described_max_bytes)
    {
        all.push(format!(
            "{name}: datagrams have up to {} bytes with their UDP header, where the description's limit is {}",
            bytes.max + 8,
            video.described_max_bytes
        ));
    }
    if video.marker_errors > 0 {
        all.push(format!(
            "{name}: {} frames without a loss have their markers in wrong places",
            video.marker_errors
        ));
    }
}

fn audio_warnings(flow: &FlowReport, audio: &AudioReport, all: &mut Vec<String>) {
    let name = name(flow);
    if audio.silence > 0 {
        let ms = audio.silence as f64 * 1e3 / f64::from(audio.rate_hz.max(1));
        all.push(format!("{name}: {ms:.1} ms of sound are missing"));
    }
    if audio.jumps > 0 {
        all.push(format!("{name}: its time stamps leapt {} times", audio.jumps));
    }
    let described = audio.described_packet_us;
    if let Some([least, most]) =
        audio.packet_us.filter(|[least, most]| *least != described || *most != described)
    {
        all.push(format!(
            "{name}: packets have {:.3} to {:.3} ms, where the description says {:.3}",
            least / 1e3,
            most / 1e3,
            described / 1e3
        ));
    }
    if let Some(rate) = audio.received_rate_hz
        && (rate / f64::from(audio.rate_hz) - 1.0).abs() > ARRIVAL_TOLERANCE
    {
        all.push(format!(
            "{name}: {rate:.0} samples a second come, where the description says {}",
            audio.rate_hz
        ));
    }
    if audio.samples > 0 && audio.peak_dbfs.iter().all(Option::is_none) {
        all.push(format!("{name}: all channels are digital silence"));
    }
}

fn ancillary_warnings(flow: &FlowReport, found: &AncillaryReport, all: &mut Vec<String>) {
    let name = name(flow);
    if found.checksum_errors > 0 {
        all.push(format!("{name}: {} ANC packets have a wrong checksum", found.checksum_errors));
    }
    if found.parity_errors > 0 {
        all.push(format!("{name}: {} words of ANC packets have a wrong parity", found.parity_errors));
    }
    for kind in found.kinds.iter().filter(|kind| kind.is_described == Some(false)) {
        all.push(format!(
            "{name}: {} (DID 0x{:02X}, SDID 0x{:02X}) come, which the description does not name",
            kind.name, kind.did, kind.sdid
        ));
    }
}
