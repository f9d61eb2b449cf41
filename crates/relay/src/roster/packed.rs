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

    proptest::proptest! {
        #[test]
        fn all_that_is_read_afterwards_survives_packing(
            small in proptest::array::uniform6(0u32..u32::MAX),
            notsent in proptest::option::of(0u32..u32::MAX),
            large in proptest::array::uniform7(proptest::option::of(0u64..u64::MAX)),
        ) {
            let [rtt_us, rttvar_us, cwnd, snd_mss, unacked, total_retrans] = small;
            let [pacing_bps, bytes_acked, delivery_bps, busy_us, rwnd_limited_us, sndbuf_limited_us, bytes_retrans] = large;
            let info = Info {
                rtt_us, rttvar_us, cwnd, snd_mss, unacked, total_retrans, notsent_bytes: notsent, pacing_bps, bytes_acked,
                delivery_bps, busy_us, rwnd_limited_us, sndbuf_limited_us, bytes_retrans, min_rtt_us: None, dsack_dups: None,
            };
            proptest::prop_assert_eq!(PackedInfo::new(info).unpack(), info);
        }
    }

    #[test]
    fn a_count_of_nothing_is_told_from_none() {
        assert_eq!(OptionalCount::from(Some(0)).get(), Some(0));
        assert_eq!(OptionalCount::from(None).get(), None);
        let judged = Info { min_rtt_us: Some(5), dsack_dups: Some(5), ..Info::default() };
        assert_eq!(PackedInfo::new(judged).unpack(), Info::default());
    }
}
