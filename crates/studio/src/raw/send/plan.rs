//! How a frame's packets are gathered into bursts, and when each leaves. Pure.

use super::settings::Shape;
use glassline_io::udp::burst::{BURST_BYTES, BURST_DATAGRAMS};
use glassline_transport::raw_video::{Limits, Packets, Schedule};
use std::time::Duration;

/// Pieces of a message (`UIO_MAXIOV`).
const PIECES: usize = 1024;
/// A thread that is woken for each burst is woken no more often than this; one that looks at the clock looks more often.
const WAKE_INTERVAL: Duration = Duration::from_micros(60);
const SPIN_INTERVAL: Duration = Duration::from_micros(15);
/// So much earlier than a packet is read it is sent at most.
const LEAD: Duration = Duration::from_micros(500);

/// Packets that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Burst {
    /// The first one's number, and how many they are.
    pub(super) first: usize,
    pub(super) packets: usize,
    /// Bytes of a datagram; the last one may be shorter.
    pub(super) datagram_bytes: usize,
    /// Bytes of all of them.
    pub(super) bytes: usize,
    /// When it is due after the frame's beginning, in nanoseconds.
    pub(super) due: i64,
}

/// All bursts of a frame, and why they are as they are.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) bursts: Vec<Burst>,
    /// Packets of a burst at most.
    pub(super) most: usize,
}

/// How many packets go together, and how much earlier than they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grain {
    pub(super) packets: usize,
    pub(super) lead: Duration,
}

impl Grain {
    /// By the schedule, and by how exactly bursts leave: `is_exact` to the microsecond, else as a thread is woken.
    pub(super) fn new(schedule: &Schedule, limits: &[Limits; 2], shape: Shape, is_exact: bool) -> Grain {
        let kind = usize::from(!is_exact);
        let interval = if is_exact { SPIN_INTERVAL } else { WAKE_INTERVAL };
        let step = schedule.step().max(Duration::from_nanos(1));
        let packets = if shape == Shape::Burst {
            BURST_DATAGRAMS
        } else {
            let wanted = interval.as_nanos().div_ceil(step.as_nanos());
            // A thread that is woken late now and then does not go over the limit for that.
            let most = if is_exact { limits[kind].c_max } else { limits[kind].c_max / 2 };
            usize::try_from(wanted).unwrap_or(1).clamp(1, most as usize)
        };
        // Half of the room that receivers have for what is early; the rest is for bursts that are late.
        let room = limits[kind].vrx_full.saturating_sub(packets as u32) / 2;
        Grain { packets, lead: step.saturating_mul(room).min(LEAD) }
    }
}

impl Plan {
    /// Gathers `packets`, which are due by `schedule`.
    pub(super) fn new(packets: Packets<'_>, schedule: &Schedule, grain: Grain) -> Plan {
        let most = grain.packets.clamp(1, BURST_DATAGRAMS);
        let mut bursts: Vec<Burst> = Vec::new();
        let (mut pieces, mut is_open) = (0, false);
        for (index, packet) in packets.enumerate() {
            let now = 1 + packet.samples.len();
            match bursts.last_mut() {
                Some(burst)
                    if is_open
                        && burst.packets < most
                        && packet.bytes <= burst.datagram_bytes
                        && burst.bytes + packet.bytes <= BURST_BYTES
                        && pieces + now <= PIECES =>
                {
                    burst.packets += 1;
                    burst.bytes += packet.bytes;
                    pieces += now;
                    // What is shorter ends a message that the kernel cuts.
                    is_open = packet.bytes == burst.datagram_bytes;
                }
                _ => {
                    let read = schedule.offset(index as u32).as_nanos();
                    let due = i64::try_from(read).unwrap_or(i64::MAX) - grain.lead.as_nanos() as i64;
                    let (datagram_bytes, bytes) = (packet.bytes, packet.bytes);
                    bursts.push(Burst { first: index, packets: 1, datagram_bytes, bytes, due });
                    (pieces, is_open) = (now, true);
                }
            }
        }
        let most = bursts.iter().map(|burst| burst.packets).max().unwrap_or(0);
        Plan { bursts, most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Chroma, FrameRate, PixelFormat, Size};
    use glassline_transport::raw_video::{
        Format, Packetizer, PacketizerSettings, Packing, Scan, SenderModel,
    };
    use proptest::prelude::*;

    fn packetizer(
        size: Size,
        packing: Packing,
        datagram_bytes: usize,
    ) -> (Packetizer, Schedule, [Limits; 2]) {
        let pixels = PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap();
        let format = Format::new(pixels, size, Scan::Progressive).unwrap();
        let settings = PacketizerSettings {
            format,
            payload_type: 96,
            ssrc: 1,
            first_sequence: 0,
            datagram_bytes,
            packing,
        };
        let packetizer = Packetizer::new(settings).unwrap();
        let packets = packetizer.layout().len() as u32;
        let rate = FrameRate::new(60, 1).unwrap();
        let schedule = Schedule::new(rate, packets, &format, SenderModel::Gapped);
        let [narrow, _, wide] = Limits::of(&format, rate, packets, datagram_bytes as u32 + 8);
        (packetizer, schedule, [narrow, wide])
    }

    #[test]
    fn bursts_of_1080p60_are_small_where_they_leave_exactly() {
        let (mut packetizer, schedule, limits) =
            packetizer(Size::new(1920, 1080).unwrap(), Packing::General, 1452);
        let exact = Grain::new(&schedule, &limits, Shape::Narrow, true);
        assert!(
            exact.packets <= limits[0].c_max as usize && exact.lead < Duration::from_micros(20),
            "{exact:?}"
        );
        let woken = Grain::new(&schedule, &limits, Shape::Narrow, false);
        assert!((6..=8).contains(&woken.packets) && woken.lead == LEAD, "{woken:?}");
        let burst = Grain::new(&schedule, &limits, Shape::Burst, false);
        let plan = Plan::new(packetizer.frame([0, 0]), &schedule, burst);
        assert_eq!((plan.most, plan.bursts[0].datagram_bytes), (BURST_BYTES / 1220, 1220));
    }

    proptest! {
        #[test]
        fn every_packet_is_in_one_burst_that_the_kernel_can_cut(
            width in 1u32..400, height in 1u32..60, most in 1usize..80, is_block: bool, datagram_bytes in 100usize..9000,
        ) {
            let packing = if is_block { Packing::Block } else { Packing::General };
            let (mut packetizer, schedule, _) =
                packetizer(Size::new(2 * width, height).unwrap(), packing, datagram_bytes);
            let grain = Grain { packets: most, lead: Duration::ZERO };
            let plan = Plan::new(packetizer.frame([0, 0]), &schedule, grain);
            let mut packets = packetizer.frame([0, 0]);
            let mut next = 0;
            for burst in &plan.bursts {
                prop_assert_eq!(burst.first, next);
                prop_assert!((1..=most.min(BURST_DATAGRAMS)).contains(&burst.packets));
                let mut bytes = 0;
                for index in 0..burst.packets {
                    let packet = packets.next().unwrap();
                    bytes += packet.bytes;
                    prop_assert!(packet.bytes == burst.datagram_bytes
                        || index + 1 == burst.packets && packet.bytes < burst.datagram_bytes);
                }
                prop_assert!(bytes == burst.bytes && (bytes <= BURST_BYTES || burst.packets == 1));
                next += burst.packets;
            }
            prop_assert!(packets.next().is_none());
        }
    }

    #[test]
    fn a_burst_is_due_its_lead_before_its_first_packet_is_read() {
        let (mut packetizer, schedule, _) = packetizer(Size::new(320, 60).unwrap(), Packing::General, 1_300);
        let grain = Grain { packets: 3, lead: Duration::from_micros(500) };
        let plan = Plan::new(packetizer.frame([0, 0]), &schedule, grain);
        for burst in &plan.bursts {
            let read = schedule.offset(burst.first as u32).as_nanos() as i64;
            assert_eq!(burst.due, read - 500_000, "{burst:?}");
        }
        assert!(plan.bursts.windows(2).all(|pair| pair[0].due < pair[1].due));
    }

    #[test]
    fn a_grain_of_nothing_is_a_packet_each() {
        let (mut packetizer, schedule, _) = packetizer(Size::new(320, 60).unwrap(), Packing::General, 1_300);
        let count = packetizer.layout().len();
        let grain = Grain { packets: 0, lead: Duration::ZERO };
        let plan = Plan::new(packetizer.frame([0, 0]), &schedule, grain);
        assert_eq!((plan.bursts.len(), plan.most), (count, 1));
    }

    #[test]
    fn a_thread_that_is_woken_keeps_half_of_what_the_wide_type_allows_and_no_lead_beyond_its_room() {
        let (_, schedule, _) = packetizer(Size::new(1920, 1080).unwrap(), Packing::General, 1452);
        let limits = [Limits { c_max: 4, vrx_full: 8 }, Limits { c_max: 6, vrx_full: 9 }];
        let woken = Grain::new(&schedule, &limits, Shape::Narrow, false);
        assert_eq!(woken, Grain { packets: 3, lead: schedule.step() * 3 });
        let burst = Grain::new(&schedule, &limits, Shape::Burst, false);
        assert_eq!(
            burst,
            Grain { packets: BURST_DATAGRAMS, lead: Duration::ZERO },
            "no room is left for what is early"
        );
    }
}
