//! What our figures have to be beside the others' in the same run.

use crate::case::Case;
use crate::network::Kind;
use crate::who::Who;
use glassline_bench::report::Report;
use glassline_transport::raw_video::Packing;

pub(crate) const RATE: &str = "highest loss-free rate";
/// Of the 2160p60 runs.
pub(crate) const SHARE: &str = "share of the core";
pub(crate) const LOST: &str = "packets lost";

/// The payloads that receivers of 1080p are compared by.
const USUAL_BYTES: [(u8, usize); 2] = [(8, 1300), (10, 1220)];

/// What `who` has to reach of what another one does, at least.
struct Floor(Who, Who, f64);

/// Adds what is asked for at `case`, as far as there are figures.
pub(crate) fn add(case: &Case, report: &mut Report) {
    let stream = &case.stream;
    let is_usual = stream.packing == Packing::General
        && USUAL_BYTES.iter().any(|(depth, bytes)| (*depth, *bytes) == (stream.depth, stream.datagram_bytes));
    if !is_usual {
        return;
    }
    let floors: &[Floor] = match (case.network, case.has_gso, stream.depth) {
        (_, false, _) => &[Floor(Who::Ours, Who::Recv, 1.0)],
        (Kind::Loopback, true, 8) => &[
            Floor(Who::Ours, Who::Ffmpeg, 8.0),
            Floor(Who::Ours, Who::Gstreamer, 12.0),
            Floor(Who::Ours, Who::Aimed, 0.85),
            Floor(Who::Planes, Who::Copy, 0.85),
        ],
        (Kind::Loopback, true, _) => {
            &[Floor(Who::Ours, Who::Ffmpeg, 9.0), Floor(Who::Planes, Who::Unpack, 0.9)]
        }
        (Kind::Nic, true, _) => &[Floor(Who::Ours, Who::Copy, 1.0)],
        // A thread on the receiver's core empties a ring of 256 packets there: that, and nobody's reading, is the limit.
        (Kind::Veth | Kind::NicThere, true, _) => &[],
    };
    for Floor(who, other, times) in floors {
        let value = |who: &Who| report.value(&case.name, who.name(), RATE);
        if let (Some(value), Some(theirs)) = (value(who), value(other).filter(|theirs| *theirs > 0.0)) {
            let text = format!("{}, {}: {RATE}, times that of the {}", case.name, who.name(), other.name());
            let text = text.replace("the FFmpeg", "FFmpeg").replace("the GStreamer", "GStreamer");
            report.term(text, value / theirs, *times, false);
        }
    }
}
