//! What `send` and `receive` tell: a line on a terminal and JSON each second, a report at the end, decisions one by one.

use crate::link::Extra;
use anyhow::Result;
use glassline_call::direct::{
    CodedSendStatistics, CodedVideoSender, Decision, Reason, ReceiveStatistics, SendStatistics, StageTimes,
    Telemetry, TelemetryStatistics, Times, VideoReceiver, VideoSender,
};
#[cfg(feature = "opus")]
use glassline_call::direct::{SoundReceiveStatistics, SoundReceiver, SoundSendStatistics, SoundSender};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A report at the end.
pub(super) struct Report {
    value: Value,
    text: String,
}

impl Report {
    /// One line.
    pub(super) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string(&self.value)? + "\n")
    }

    pub(super) fn text(&self) -> String {
        self.text.clone()
    }

    /// Whether any picture was sent or shown.
    pub(super) fn has_pictures(&self) -> bool {
        ["sent", "shown"].iter().any(|key| self.value[key].as_u64().is_some_and(|count| count > 0))
    }

    /// The same with `extra` beside it.
    #[must_use]
    pub(super) fn with(mut self, extra: Extra) -> Report {
        if let Value::Object(fields) = &mut self.value {
            fields.insert(extra.key.to_owned(), extra.value);
        }
        self.text += &extra.text;
        self
    }

    /// For another report.
    pub(super) fn into_extra(self, key: &'static str) -> Extra {
        Extra { key, value: self.value, text: self.text }
    }
}

/// Milliseconds.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// How often something happened since the last call, a second.
struct Rates {
    at: Instant,
    before: Vec<u64>,
}

impl Rates {
    fn new() -> Rates {
        Rates { at: Instant::now(), before: Vec::new() }
    }

    fn take<const N: usize>(&mut self, counts: [u64; N]) -> [f64; N] {
        let passed = self.at.elapsed().as_secs_f64().max(1e-3);
        self.at = Instant::now();
        self.before.resize(N, 0);
        let before = std::mem::replace(&mut self.before, counts.to_vec());
        std::array::from_fn(|index| counts[index].saturating_sub(before[index]) as f64 / passed)
    }
}

fn times(times: &Times) -> Value {
    json!({ "count": times.count, "p50": ms(times.p50), "p95": ms(times.p95), "p99": ms(times.p99), "max": ms(times.max) })
}

fn stages(of: &StageTimes) -> Value {
    let each = of.stages.iter().map(|(stage, times_of)| (stage.name().to_owned(), times(times_of)));
    Value::Object(each.collect())
}

fn sender_value(statistics: &SendStatistics) -> Value {
    let counters = statistics.counters;
    json!({
        "captured": statistics.captured,
        "replaced": statistics.replaced,
        "sent": counters.sent,
        "skipped": counters.skipped,
        "lost": counters.lost,
        "key": counters.key,
        "shown": counters.shown,
        "bytes": counters.bytes,
        "chosen": { "finest": counters.chosen[0], "between": counters.chosen[1], "coarsest": counters.chosen[2] },
        "resets": counters.resets,
        "mismatches": counters.mismatches,
        "states": statistics.states,
        "receiver_states": statistics.receiver_states,
        "budget_bytes": statistics.budget,
        "quantizer": statistics.quantizer,
        "size": statistics.size.map(|size| size.to_string()),
        "codec": statistics.codec.name(),
        "codec_changes": statistics.codec_changes,
        "candidates": statistics.candidates,
        "silence_ms": ms(statistics.silence),
        "encoding_ms": times(&statistics.encoding),
    })
}

/// The sender's figures for each second.
pub(super) fn of_sender(sender: Arc<VideoSender>, key: &'static str) -> impl FnMut() -> Extra {
    let mut rates = Rates::new();
    move || {
        let statistics = sender.statistics();
        let counters = statistics.counters;
        let [captured, sent, shown, bytes] =
            rates.take([statistics.captured, counters.sent, counters.shown, counters.bytes]);
        let quantizer = statistics.quantizer.map_or_else(|| "-".to_owned(), |index| index.to_string());
        let size = statistics.size.map_or_else(|| "-".to_owned(), |size| size.to_string());
        let text = format!(
            "   video  {captured:.0} fps captured, {sent:.0} sent, {shown:.0} shown  {:.2} Mbit/s  budget {} B  {} {size} \
             quantiser {quantizer}  encoding p50 {:.1} p95 {:.1} ms  skipped {} lost {}  states {} here, {} there\n",
            bytes * 8.0 / 1e6,
            statistics.budget,
            statistics.codec.name(),
            ms(statistics.encoding.p50),
            ms(statistics.encoding.p95),
            counters.skipped,
            counters.lost,
            statistics.states,
            statistics.receiver_states,
        );
        Extra { key, value: sender_value(&statistics), text }
    }
}

/// The sender's report at the end.
pub(super) fn sent(statistics: &SendStatistics) -> Report {
    let counters = statistics.counters;
    let text = format!(
        "sent {} of {} pictures in {} bytes: {} needed no other, {} did not fit and were not sent, {} were captured while \
         another was encoded, {} were lost; {} were shown\n",
        counters.sent,
        statistics.captured,
        counters.bytes,
        counters.key,
        counters.skipped,
        statistics.replaced,
        counters.lost,
        counters.shown,
    );
    Report { value: sender_value(statistics), text }
}

fn coded_value(statistics: &CodedSendStatistics) -> Value {
    let counters = statistics.counters;
    json!({
        "captured": counters.offered + statistics.not_encoded,
        "sent": counters.sent,
        "skipped": counters.skipped + statistics.not_encoded,
        "dropped": counters.dropped,
        "resumed": counters.resumed,
        "lost": counters.lost,
        "key": counters.key,
        "shown": counters.shown,
        "bytes": counters.bytes,
        "budget_bytes": statistics.budget,
        "bitrate": statistics.bitrate,
        "silence_ms": ms(statistics.silence),
    })
}

/// The figures of a sender of H.264 for each second.
pub(super) fn of_coded(sender: Arc<CodedVideoSender>, key: &'static str) -> impl FnMut() -> Extra {
    let mut rates = Rates::new();
    move || {
        let statistics = sender.statistics();
        let counters = statistics.counters;
        let [sent, shown, bytes] = rates.take([counters.sent, counters.shown, counters.bytes]);
        let set = statistics.bitrate.map_or_else(String::new, |rate| format!(" of {:.2}", rate as f64 / 1e6));
        let text = format!(
            "   video  H.264  {sent:.0} fps sent, {shown:.0} shown  {:.2}{set} Mbit/s  budget {} B  skipped {} lost {}  key \
             frames {}\n",
            bytes * 8.0 / 1e6,
            statistics.budget,
            counters.skipped + statistics.not_encoded,
            counters.lost,
            counters.key,
        );
        Extra { key, value: coded_value(&statistics), text }
    }
}

/// The report at the end of a sender of H.264.
pub(super) fn sent_coded(statistics: &CodedSendStatistics) -> Report {
    let counters = statistics.counters;
    let text = format!(
        "sent {} access units in {} bytes, {} of them key frames: {} did not fit and were not sent, {} could not be used \
         without one that was lost, {} were lost; {} were shown\n",
        counters.sent,
        counters.bytes,
        counters.key,
        counters.skipped + statistics.not_encoded,
        counters.dropped,
        counters.lost,
        counters.shown,
    );
    Report { value: coded_value(statistics), text }
}

/// Figures of sound that is sent.
#[cfg(feature = "opus")]
pub(super) fn of_sound(sender: &SoundSender, key: &'static str) -> Extra {
    let SoundSendStatistics { packets, bytes, lost, repeats } = sender.statistics();
    let text = format!("   sound  {packets} packets, {bytes} bytes, {lost} lost, each repeats {repeats}\n");
    Extra {
        key,
        value: json!({ "packets": packets, "bytes": bytes, "lost": lost, "repeats": repeats }),
        text,
    }
}

/// Figures of sound that is received, if some is.
#[cfg(feature = "opus")]
pub(super) fn of_heard(receiver: &SoundReceiver, key: &'static str) -> Option<Extra> {
    let SoundReceiveStatistics { counters, waits, jitter, delay } = receiver.statistics();
    if counters.messages + counters.malformed == 0 {
        return None;
    }
    let text = format!(
        "   sound  delay {:.1} ms, of it {:.1} in the buffer for {:.1} of jitter; {} packets played, {} of them from the \
         next one, {} recovered, {} concealed, {} too late\n",
        ms(delay),
        ms(waits),
        ms(jitter),
        counters.played,
        counters.repeated,
        counters.recovered,
        counters.concealed,
        counters.late,
    );
    let value = json!({
        "messages": counters.messages,
        "malformed": counters.malformed,
        "played": counters.played,
        "repeated": counters.repeated,
        "recovered": counters.recovered,
        "concealed": counters.concealed,
        "late": counters.late,
        "left_out": counters.left_out,
        "delay_ms": ms(delay),
        "buffer_ms": ms(waits),
        "jitter_ms": ms(jitter),
    });
    Some(Extra { key, value, text })
}

/// Figures of telemetry that goes into a stream.
pub(super) fn of_telemetry(telemetry: &Telemetry) -> Extra {
    let TelemetryStatistics { units, bytes, dropped, late, refused, mavlink } = telemetry.statistics();
    let mut text =
        format!("   klv    {units} units, {bytes} bytes; {dropped} dropped, {late} late, {refused} refused");
    let mavlink = mavlink.map(|line| {
        let _ = write!(
            text,
            "; MAVLink: {} frames, {} of other messages, {} wrong checksums, {} of other vehicles, {} of ground stations; \
             sets by the clock of the vehicle {}, beside it {}, here {}",
            line.frames.frames,
            line.frames.unknown,
            line.frames.checksums_wrong,
            line.of_other_vehicles,
            line.of_ground_stations,
            line.by_vehicle,
            line.by_sender,
            line.by_receiver,
        );
        json!({
            "frames": line.frames.frames,
            "unknown": line.frames.unknown,
            "checksums_wrong": line.frames.checksums_wrong,
            "skipped_bytes": line.frames.skipped_bytes,
            "vehicles": line.vehicles,
            "of_other_vehicles": line.of_other_vehicles,
            "of_ground_stations": line.of_ground_stations,
            "sets_by_clock": {
                "vehicle": line.by_vehicle, "sender": line.by_sender, "receiver": line.by_receiver,
            },
        })
    });
    text.push('\n');
    let value = json!({
        "units": units, "bytes": bytes, "dropped": dropped, "late": late, "refused": refused, "mavlink": mavlink,
    });
    Extra { key: "klv", value, text }
}

fn receiver_value(statistics: &ReceiveStatistics, of: &StageTimes) -> Value {
    let counters = statistics.counters;
    json!({
        "pictures": counters.pictures,
        "shown": statistics.shown,
        "overtaken": counters.overtaken,
        "lacking": counters.lacking,
        "damaged": counters.damaged,
        "malformed": counters.malformed,
        "key": counters.key,
        "skipped": statistics.skipped,
        "dropped": statistics.dropped,
        "bytes": statistics.bytes,
        "states": statistics.states,
        "size": statistics.size.map(|(shown, _)| shown.to_string()),
        "coded_size": statistics.size.map(|(_, coded)| coded.to_string()),
        "delay_ms": times(&of.total),
        "stages_ms": stages(of),
    })
}

/// The receiver's figures for each second.
pub(super) fn of_receiver(receiver: Arc<VideoReceiver>, key: &'static str) -> impl FnMut() -> Extra {
    let mut rates = Rates::new();
    move || {
        let statistics = receiver.statistics();
        let [shown, bytes] = rates.take([statistics.shown, statistics.bytes]);
        let size =
            statistics.size.map_or_else(|| "no picture yet".to_owned(), |(_, coded)| coded.to_string());
        let mut text = format!(
            "   video  {size}  {shown:.0} fps  {:.2} Mbit/s  delay p50 {:.1} p95 {:.1} ms  lost {} lacking {}  states {}\n",
            bytes * 8.0 / 1e6,
            ms(statistics.times.total.p50),
            ms(statistics.times.total.p95),
            statistics.skipped,
            statistics.counters.lacking,
            statistics.states,
        );
        if !statistics.times.stages.is_empty() {
            text += &budget(&statistics.times);
        }
        let value = receiver_value(&statistics, &statistics.times);
        Extra { key, value, text }
    }
}

/// Where the milliseconds went, in a line.
fn budget(of: &StageTimes) -> String {
    let mut text = "   where  ".to_owned();
    for (index, (stage, times)) in of.stages.iter().enumerate() {
        let _ = write!(text, "{}{} {:.1}", if index > 0 { ", " } else { "" }, stage.name(), ms(times.p50));
    }
    text + " ms\n"
}

/// The receiver's report at the end.
pub(super) fn received(statistics: &ReceiveStatistics) -> Report {
    let counters = statistics.counters;
    let mut text = format!(
        "showed {} pictures; {} came too late, {} lacked one before them, {} were damaged; delay p50 {:.1} p95 {:.1} p99 \
         {:.1} ms by the wall clocks\n",
        statistics.shown,
        counters.overtaken,
        counters.lacking,
        counters.damaged,
        ms(statistics.all_times.total.p50),
        ms(statistics.all_times.total.p95),
        ms(statistics.all_times.total.p99),
    );
    if statistics.dropped > 0 {
        let _ = writeln!(
            text,
            "{} pictures were not written: the output was too slow for them, or has failed",
            statistics.dropped
        );
    }
    if !statistics.all_times.stages.is_empty() {
        text += &budget(&statistics.all_times);
    }
    Report { value: receiver_value(statistics, &statistics.all_times), text }
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Fits => "fits",
        Reason::Searched => "searched",
        Reason::Smallest => "smallest",
        Reason::Skipped => "skipped",
        Reason::Conventional => "conventional",
    }
}

/// A decision as a line of JSON.
pub(crate) fn decision(decision: &Decision, took: Duration) -> String {
    let candidates: Vec<Value> = decision
        .candidates
        .iter()
        .map(|candidate| json!({ "quantizer": candidate.quantizer, "bytes": candidate.bytes }))
        .collect();
    json!({
        "slot": decision.slot,
        "captured_ms": ms(Duration::from_nanos(decision.captured.as_nanos())),
        "number": decision.number,
        "source": decision.source,
        "careful": decision.careful,
        "codec": decision.codec.name(),
        "size": decision.size.to_string(),
        "expected_bytes": decision.expected,
        "budget_bytes": decision.budget,
        "candidates": candidates,
        "chosen": decision.chosen,
        "reason": reason(decision.reason),
        "took_ms": ms(took),
    })
    .to_string()
}
