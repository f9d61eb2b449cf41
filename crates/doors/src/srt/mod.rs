//! SRT: a listener for publishers and viewers, and connections of this server's own, as sources and outputs of streams.
//!
//! ```text
//! peers ─► thread "srt listen" ─ stream id ─► entrance ─┬─ Contribution ─► Live
//!          (one socket, all its peers)                  └─ Attendance  ◄─ Live
//! srt://… ◄─► thread "srt line" ─ one connection, made again when it fails ─► a source, an output, an encoder's packets
//! ```
//! The protocol is [`glassline_transport::srt`]'s; here are sockets, threads and what peers are let in by.

mod end;
mod line;
mod listen;
mod outlet;
mod reader;
mod session;
mod waiting;
mod ways;

pub use line::{Line, LineStatus, LineUse};
pub use reader::SrtReader;
pub use ways::{SrtWays, Wanted, WantedListener};

use glassline_streams::status::PeerFigure;
use glassline_transport::srt::Statistics;

/// The figures of a connection, for people and programs.
fn figures(statistics: &Statistics, publishes: bool) -> Vec<PeerFigure> {
    let millis = |time: std::time::Duration| time.as_micros() as f64 / 1000.0;
    let figure = |name, words, value| PeerFigure { name, words, value };
    let mut figures = vec![figure("rtt_ms", "Round trip (ms)", millis(statistics.rtt))];
    if publishes {
        figures.extend([
            figure("latency_ms", "Latency (ms)", millis(statistics.latency)),
            figure("held_ms", "Held back (ms)", millis(statistics.held)),
            figure("packets", "Packets", statistics.received as f64),
            figure("lost", "Lost on the way", statistics.lost as f64),
            figure("recovered", "Sent again in time", statistics.recovered as f64),
            figure("missing", "Missing", statistics.dropped as f64),
            figure("late", "Too late or twice", statistics.late as f64),
            figure("refused", "Refused", statistics.refused as f64),
        ]);
    } else {
        figures.extend([
            figure("latency_ms", "Latency (ms)", millis(statistics.peer_latency)),
            figure("held_ms", "Not acknowledged (ms)", millis(statistics.unacknowledged)),
            figure("packets", "Packets", statistics.sent as f64),
            figure("lost", "Reported as lost", statistics.reported_by_peer as f64),
            figure("resent", "Sent again", statistics.resent as f64),
            figure("missing", "Given up", statistics.given_up as f64),
        ]);
    }
    figures
}
