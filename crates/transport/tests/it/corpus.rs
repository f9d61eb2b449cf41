//! Runs the bodies of the fuzz targets over the committed corpora: what fuzzing found once stays found.
#![allow(unreachable_pub, reason = "the bodies are public for the fuzz targets")]

use glassline_test_support::corpus;
use proptest::prelude::*;

#[path = "../../../../fuzz/bodies/ancillary.rs"]
mod ancillary;
#[path = "../../../../fuzz/bodies/coded_rtp.rs"]
mod coded_rtp;
#[path = "../../../../fuzz/bodies/link.rs"]
mod link;
#[path = "../../../../fuzz/bodies/link_compressed.rs"]
mod link_compressed;
#[path = "../../../../fuzz/bodies/link_frames.rs"]
mod link_frames;
#[path = "../../../../fuzz/bodies/link_packet.rs"]
mod link_packet;
#[path = "../../../../fuzz/bodies/link_payload.rs"]
mod link_payload;
#[path = "../../../../fuzz/bodies/pcm.rs"]
mod pcm;
#[path = "../../../../fuzz/bodies/raw_video.rs"]
mod raw_video;
#[path = "../../../../fuzz/bodies/rtmp.rs"]
mod rtmp;
#[path = "../../../../fuzz/bodies/rtmp_client.rs"]
mod rtmp_client;
#[path = "../../../../fuzz/bodies/rtp.rs"]
mod rtp;
#[path = "../../../../fuzz/bodies/rtp_statistics.rs"]
mod rtp_statistics;
#[path = "../../../../fuzz/bodies/rtsp.rs"]
mod rtsp;
#[path = "../../../../fuzz/bodies/sdp.rs"]
mod sdp;
#[path = "../../../../fuzz/bodies/srt.rs"]
mod srt;
#[path = "../../../../fuzz/bodies/trace.rs"]
mod trace;

#[test]
fn ancillary_corpus() {
    corpus::run("ancillary", ancillary::run);
}

#[test]
fn coded_rtp_corpus() {
    corpus::run("coded_rtp", coded_rtp::run);
}

#[test]
fn link_corpus() {
    corpus::run("link", link::run);
}

#[test]
fn link_compressed_corpus() {
    corpus::run("link_compressed", link_compressed::run);
}

#[test]
fn link_frames_corpus() {
    corpus::run("link_frames", link_frames::run);
}

#[test]
fn link_packet_corpus() {
    corpus::run("link_packet", link_packet::run);
}

#[test]
fn link_payload_corpus() {
    corpus::run("link_payload", link_payload::run);
}

#[test]
fn raw_video_corpus() {
    corpus::run("raw_video", raw_video::run);
}

#[test]
fn pcm_corpus() {
    corpus::run("pcm", pcm::run);
}

#[test]
fn rtmp_corpus() {
    corpus::run("rtmp", rtmp::run);
}

#[test]
fn rtmp_client_corpus() {
    corpus::run("rtmp_client", rtmp_client::run);
}

#[test]
fn rtp_corpus() {
    corpus::run("rtp", rtp::run);
}

#[test]
fn rtsp_corpus() {
    corpus::run("rtsp", rtsp::run);
}

#[test]
fn sdp_corpus() {
    corpus::run("sdp", sdp::run);
}

#[test]
fn srt_corpus() {
    corpus::run("srt", srt::run);
}

#[test]
fn rtp_statistics_corpus() {
    corpus::run("rtp_statistics", rtp_statistics::run);
}

#[test]
fn trace_corpus() {
    corpus::run("trace", trace::run);
}

proptest! {
    /// Lines of real descriptions, some of them damaged, in any order.
    #[test]
    fn no_description_breaks_it(
        lines in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[ -~]?"), 0..30),
    ) {
        let real = [
            include_str!("../../../../fuzz/corpus/sdp/st2110-20.sdp"),
            include_str!("../../../../fuzz/corpus/sdp/st2110-30.sdp"),
            include_str!("../../../../fuzz/corpus/sdp/st2110-40.sdp"),
            include_str!("../../../../fuzz/corpus/sdp/rfc4175.sdp"),
        ];
        let real: Vec<&str> = real.iter().flat_map(|text| text.lines()).collect();
        let mut text = "v=0\no=- 1 1 IN IP4 192.0.2.1\n".to_owned();
        for (line, at, damage) in lines {
            let mut line = real[line.index(real.len())].to_owned();
            if !damage.is_empty() {
                let at = at.index(line.len());
                line.replace_range(at..=at, &damage);
            }
            text += &(line + "\n");
        }
        sdp::run(text.as_bytes());
    }

    #[test]
    fn no_trace_breaks_it(steps in prop::collection::vec(0u32..2000, 1..20), ending in ".{0,4}") {
        let mut at = 0u32;
        let lines = steps.iter().map(|step| { at += step; format!("{at}\n") });
        trace::run((lines.collect::<String>() + &ending).as_bytes());
    }

    /// Rows of frames that are nearly right: what the fuzzer tries too, each time a little.
    #[test]
    fn no_peer_breaks_a_link(
        packets in prop::collection::vec(
            (any::<u8>(), prop::collection::vec((0u8..0x1C, prop::collection::vec(0u8..80, 0..12)), 0..8)), 0..12),
    ) {
        let mut data = Vec::new();
        for (millis, frames) in packets {
            let frames: Vec<u8> = frames.iter().flat_map(|(kind, bytes)| [&[*kind][..], bytes].concat()).collect();
            data.extend([millis, frames.len() as u8]);
            data.extend(frames);
        }
        link_frames::run(&data);
    }

    /// Datagrams of strangers, some of them begun as real ones.
    #[test]
    fn no_stranger_breaks_a_link(
        datagrams in prop::collection::vec((0u8..4, prop::collection::vec(any::<u8>(), 0..40)), 0..12),
    ) {
        let mut data = Vec::new();
        for (kind, bytes) in datagrams {
            data.extend([kind << 6, bytes.len() as u8]);
            data.extend(bytes);
        }
        link::run(&data);
    }

    /// One datagram of a stranger, completed so that it comes as far as can be.
    #[test]
    fn no_datagram_changes_an_end(kind in 0u8..8, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        link_packet::run(&[&[kind][..], &bytes].concat());
    }

    /// Frames that are nearly right.
    #[test]
    fn frames_that_are_read_are_written_as_the_same(
        frames in prop::collection::vec((0u8..0x1C, prop::collection::vec(0u8..80, 0..12)), 0..8),
    ) {
        let frames: Vec<u8> = frames.iter().flat_map(|(kind, bytes)| [&[*kind][..], bytes].concat()).collect();
        link_payload::run(&frames);
    }

    /// Datagrams of a few bytes, in any order of a few numbers, at any times: what the fuzzer tries too, each time a little.
    #[test]
    fn no_datagrams_break_it(
        datagrams in prop::collection::vec((0u8..80, any::<u8>(), 0u8..40, 0usize..3, any::<bool>()), 0..120),
    ) {
        let packet = [&[0x47][..], &[0xFF; 187]].concat();
        let mut data = Vec::new();
        for (time, high, low, packets, whole) in datagrams {
            let mut datagram = vec![high, low];
            (0..packets).for_each(|_| datagram.extend_from_slice(&packet));
            datagram.truncate(datagram.len() - usize::from(!whole));
            data.push(time);
            data.extend((datagram.len() as u16).to_be_bytes());
            data.extend(datagram);
        }
        rtp::run(&data);
    }

    /// Packets of a good stream in any order, some of them changed, by one path or two.
    #[test]
    fn no_sender_writes_beside_a_frame(
        how: u8,
        collected: u8,
        records in prop::collection::vec(
            (any::<u8>(), 0u8..4, -40i8..40, prop::collection::vec((0u8..26, prop_oneof![any::<u8>(), 0u8..16]), 0..4)), 0..60),
    ) {
        let mut data = vec![how, collected];
        for (control, time, step, changes) in records {
            data.push(time * 16 + control % 16);
            match control % 4 {
                0 => {
                    data.extend([0, 2 * changes.len() as u8]);
                    data.extend(changes.iter().flat_map(|(at, with)| [*at, *with]));
                }
                1 => data.push(step.cast_unsigned()),
                2 => {
                    data.extend([step.cast_unsigned(), changes.len() as u8]);
                    data.extend(changes.iter().flat_map(|(at, with)| [*at, *with]));
                }
                _ => data.push(step.unsigned_abs()),
            }
        }
        raw_video::run(&data);
    }

    /// Headers of a few numbers and sources.
    #[test]
    fn no_headers_break_the_statistics(
        dropout: u8,
        headers in prop::collection::vec((any::<u8>(), 0u8..6, any::<u8>(), any::<u8>(), 0u8..3), 0..200),
    ) {
        let mut data = vec![dropout];
        data.extend(headers.iter().flat_map(|(first, high, low, stamp, extension)| [*first, *high, *low, *stamp, *extension]));
        rtp_statistics::run(&data);
    }

    /// Sound whose numbers and stamps are nearly right.
    #[test]
    fn no_sound_breaks_it(
        kind in 0u8..8,
        datagrams in prop::collection::vec((0u8..40, any::<u8>(), 0u8..40, 0u8..4, 0usize..40), 0..100),
    ) {
        let mut data = vec![kind];
        for (time, one, two, three, length) in datagrams {
            data.push(time);
            data.extend((3 + length as u16).to_be_bytes());
            data.extend([one, two, three]);
            data.extend((0..length).map(|index| index as u8 ^ two));
        }
        pcm::run(&data);
    }

    /// ANC packets whose counts are nearly right.
    #[test]
    fn no_ancillary_data_breaks_it(
        datagrams in prop::collection::vec((
            0u8..40, any::<u8>(), 0u8..20,
            prop::collection::vec((0u8..20, any::<bool>(), prop::collection::vec(any::<u8>(), 40)), 0..4),
        ), 0..40),
    ) {
        let mut data = Vec::new();
        for (time, one, two, packets) in datagrams {
            let mut bytes = vec![one, two, packets.len() as u8];
            for (count, is_whole, noise) in packets {
                let length = 4 + (10 * (4 + usize::from(count))).div_ceil(32) * 4;
                let mut packet = noise[..length - usize::from(!is_whole)].to_vec();
                packet[6] &= 0xF0;
                packet[7] = count << 2 | packet[7] & 0x3;
                bytes.extend(packet);
            }
            data.push(time);
            data.extend((bytes.len() as u16).to_be_bytes());
            data.extend(bytes);
        }
        ancillary::run(&data);
    }
}
