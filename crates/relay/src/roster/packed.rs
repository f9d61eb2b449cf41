//! What the kernel says of a connection, in little memory: there may be very many.

use glassline_io::tcp::Info;

/// A number that may not have been told, in its own 8 bytes instead of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OptionalCount(u64);

impl OptionalCount {
    /// The number.
    pub(super) fn get(self) -> Option<u64> {
        (self.0 != u64::MAX).then_some(self.0)
    }
}

impl From<Option<u64>> for OptionalCount {
    fn from(number: Option<u64>) -> OptionalCount {
        // No count of bytes or microseconds comes near it.
        OptionalCount(number.unwrap_or(u64::MAX))
    }
}

/// [`Info`].
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedInfo {
    rtt_us: u32,
    rttvar_us: u32,
    cwnd: u32,
    snd_mss: u32,
    unacked: u32,
    pub(super) total_retrans: u32,
    /// The highest number where it is not told.
    notsent_bytes: u32,
    pacing_bps: OptionalCount,
    delivery_bps: OptionalCount,
    bytes_retrans: OptionalCount,
    pub(super) bytes_acked: OptionalCount,
    pub(super) busy_us: OptionalCount,
    pub(super) rwnd_limited_us: OptionalCount,
    pub(super) sndbuf_limited_us: OptionalCount,
}

impl PackedInfo {
    pub(super) fn new(info: Info) -> PackedInfo {
        PackedInfo {
            rtt_us: info.rtt_us,
            rttvar_us: info.rttvar_us,
            cwnd: info.cwnd,
            snd_mss: info.snd_mss,
            unacked: info.unacked,
            total_retrans: info.total_retrans,
            notsent_bytes: info.notsent_bytes.unwrap_or(u32::MAX),
            pacing_bps: info.pacing_bps.into(),
            delivery_bps: info.delivery_bps.into(),
            bytes_retrans: info.bytes_retrans.into(),
            bytes_acked: info.bytes_acked.into(),
            busy_us: info.busy_us.into(),
            rwnd_limited_us: info.rwnd_limited_us.into(),
            sndbuf_limited_us: info.sndbuf_limited_us.into(),
        }
    }

    pub(super) fn unpack(self) -> Info {
        Info {
            rtt_us: self.rtt_us,
            rttvar_us: self.rttvar_us,
            cwnd: self.cwnd,
            snd_mss: self.snd_mss,
            unacked: self.unacked,
            total_retrans: self.total_retrans,
            notsent_bytes: (self.notsent_bytes != u32::MAX).then_some(self.notsent_bytes),
            dsack_dups: None,
            // `Path` judges by these two before they are packed, and nothing reads them afterwards.
            min_rtt_us: None,
            pacing_bps: self.pacing_bps.get(),
            delivery_bps: self.delivery_bps.get(),
            bytes_retrans: self.bytes_retrans.get(),
            bytes_acked: self.bytes_acked.get(),
            busy_us: self.busy_us.get(),
            rwnd_limited_us: self.rwnd_limited_us.get(),
            sndbuf_limited_us: self.sndbuf_limited_us.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_in_packing() {
        let info = Info { rtt_us: 1, cwnd: 2, notsent_bytes: Some(3), busy_us: Some(4), ..Info::default() };
        assert_eq!(PackedInfo::new(info).unpack(), info);
        assert_eq!(PackedInfo::new(Info::default()).unpack(), Info::default());
    }
}
