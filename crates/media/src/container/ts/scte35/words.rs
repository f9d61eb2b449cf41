//! A cue in words, for people.

use super::{BreakDuration, Command, Descriptor, Insert, Scheduled, Segmentation, SpliceInfo};
use crate::time::Ticks;
use std::fmt;

/// Scheduled splices that are told, of all.
const SCHEDULED_MAX: usize = 4;

/// Ticks of 90 kHz as seconds.
fn seconds(ticks: u64) -> String {
    let ticks = u128::from(ticks);
    let millis = ticks.saturating_mul(1000).checked_div(Ticks::RATE.into()).unwrap_or(0);
    format!("{}.{:03} s", millis / 1000, millis % 1000)
}

impl fmt::Display for SpliceInfo {
    /// "splice_insert 1207959695: out of the network at PTS 21514.559 s, for 60.293 s, returning by itself"
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command {
            Command::Null => f.write_str("splice_null")?,
            Command::BandwidthReservation => f.write_str("bandwidth_reservation")?,
            Command::Private { identifier } => {
                write!(f, "private_command of {}", identifier.escape_ascii())?;
            }
            Command::Encrypted { algorithm } => write!(f, "an encrypted command (algorithm {algorithm})")?,
            Command::Reserved { kind } => write!(f, "a command of the reserved type 0x{kind:02x}")?,
            Command::TimeSignal { time } => {
                f.write_str("time_signal")?;
                self.write_time(f, *time)?;
            }
            Command::Schedule(events) => {
                write!(f, "splice_schedule of {}", events.len())?;
                for event in events.iter().take(SCHEDULED_MAX) {
                    write!(f, "; {event}")?;
                }
            }
            Command::Insert(insert) => self.write_insert(f, insert)?,
        }
        for descriptor in &self.descriptors {
            match descriptor {
                Descriptor::Segmentation(segmentation) => write!(f, "; {segmentation}")?,
                Descriptor::Avail { provider_avail_id } => write!(f, "; avail {provider_avail_id}")?,
                Descriptor::Other { tag, identifier } => {
                    write!(f, "; descriptor {tag} of {}", identifier.escape_ascii())?;
                }
            }
        }
        Ok(())
    }
}

impl SpliceInfo {
    fn write_time(&self, f: &mut fmt::Formatter<'_>, time: Option<u64>) -> fmt::Result {
        match time {
            Some(time) => write!(f, " at PTS {}", seconds(self.adjusted(time))),
            None => f.write_str(" at once"),
        }
    }

    fn write_insert(&self, f: &mut fmt::Formatter<'_>, insert: &Insert) -> fmt::Result {
        write!(f, "splice_insert {}: ", insert.event_id)?;
        if insert.cancelled {
            return f.write_str("cancelled");
        }
        f.write_str(if insert.out_of_network { "out of the network" } else { "back into the network" })?;
        self.write_time(f, insert.time)?;
        write_duration(f, insert.duration)
    }
}

fn write_duration(f: &mut fmt::Formatter<'_>, duration: Option<BreakDuration>) -> fmt::Result {
    let Some(BreakDuration { ticks, auto_return }) = duration else { return Ok(()) };
    write!(f, ", for {}", seconds(ticks))?;
    if auto_return { f.write_str(", returning by itself") } else { Ok(()) }
}

impl fmt::Display for Scheduled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}: ", self.event_id)?;
        if self.cancelled {
            return f.write_str("cancelled");
        }
        f.write_str(if self.out_of_network { "out of the network" } else { "back into the network" })?;
        if let Some(gps_secs) = self.gps_secs {
            write!(f, " at GPS second {gps_secs}")?;
        }
        write_duration(f, self.duration)
    }
}

impl fmt::Display for Segmentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Segmentation { event_id, cancelled, duration, upid: (kind, upid), type_id, segment } = self;
        if *cancelled {
            return write!(f, "segmentation {event_id} cancelled");
        }
        match name_of(*type_id) {
            Some(name) => write!(f, "{name} (segmentation {event_id})")?,
            None => write!(f, "segmentation {event_id} of type 0x{type_id:02x}")?,
        }
        if let Some(duration) = duration {
            write!(f, ", for {}", seconds(*duration))?;
        }
        if segment.1 > 0 {
            write!(f, ", {} of {}", segment.0, segment.1)?;
        }
        if !upid.is_empty() {
            let is_text = upid.iter().all(|byte| (0x20..0x7f).contains(byte));
            write!(f, ", UPID {kind} ")?;
            if is_text {
                write!(f, "\"{}\"", upid.escape_ascii())?;
            } else {
                f.write_str("0x")?;
                upid.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            }
        }
        Ok(())
    }
}

/// The name of a segmentation's type (35 table 23).
fn name_of(type_id: u8) -> Option<&'static str> {
    Some(match type_id {
        0x00 => "not indicated",
        0x01 => "content identification",
        0x02 => "call to an ad server",
        0x10 => "program start",
        0x11 => "program end",
        0x12 => "program early termination",
        0x13 => "program breakaway",
        0x14 => "program resumption",
        0x15 => "program runover, planned",
        0x16 => "program runover, unplanned",
        0x17 => "program overlap start",
        0x18 => "program blackout override",
        0x19 => "program join",
        0x20 => "chapter start",
        0x21 => "chapter end",
        0x22 => "break start",
        0x23 => "break end",
        0x24 => "opening credit start",
        0x25 => "opening credit end",
        0x26 => "closing credit start",
        0x27 => "closing credit end",
        0x30 => "provider advertisement start",
        0x31 => "provider advertisement end",
        0x32 => "distributor advertisement start",
        0x33 => "distributor advertisement end",
        0x34 => "provider placement opportunity start",
        0x35 => "provider placement opportunity end",
        0x36 => "distributor placement opportunity start",
        0x37 => "distributor placement opportunity end",
        0x38 => "provider overlay placement opportunity start",
        0x39 => "provider overlay placement opportunity end",
        0x3a => "distributor overlay placement opportunity start",
        0x3b => "distributor overlay placement opportunity end",
        0x3c => "provider promo start",
        0x3d => "provider promo end",
        0x3e => "distributor promo start",
        0x3f => "distributor promo end",
        0x40 => "unscheduled event start",
        0x41 => "unscheduled event end",
        0x42 => "alternate content opportunity start",
        0x43 => "alternate content opportunity end",
        0x44 => "provider ad block start",
        0x45 => "provider ad block end",
        0x46 => "distributor ad block start",
        0x47 => "distributor ad block end",
        0x50 => "network start",
        0x51 => "network end",
        _ => return None,
    })
}
