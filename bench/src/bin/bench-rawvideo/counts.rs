//! What receivers and the kernel say of what came. Pure.

use serde_json::Value;

/// What a receiver has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) frames: u64,
    /// Where it tells.
    pub(crate) packets: Option<u64>,
    /// Packets that it says are lost, and frames.
    pub(crate) lost: u64,
    /// Of its packets, those that the kernel has put where they belong, where it tells.
    pub(crate) in_place: Option<u64>,
}

/// The last line of JSON in a log: `glassline record --json`, and what the bench's own receivers print.
pub(crate) fn ours(log: &str) -> Option<Counts> {
    let line = log.lines().rev().find(|line| line.starts_with('{'))?;
    let json: Value = serde_json::from_str(line).ok()?;
    let count = |key: &str| json[key].as_u64();
    let lost = ["lost", "dropped_frames", "incomplete_frames"].into_iter().filter_map(count).sum();
    Some(Counts { frames: count("frames")?, packets: count("packets"), lost, in_place: count("in_place") })
}

/// `ffmpeg -stats`: the last `frame=`, which overwrites those before it, and what its RTP reader misses (`RTP: missed 3 packets`).
pub(crate) fn ffmpeg(log: &str) -> Option<Counts> {
    let (mut frames, mut lost, mut last) = (None, 0, 0);
    for line in log.split(['\n', '\r']) {
        if let Some(words) = line.strip_prefix("frame=") {
            frames = words.split_whitespace().next().and_then(|word| word.parse().ok()).or(frames);
        } else if let Some((_, words)) = line.split_once("RTP: missed ") {
            last = number(words);
            lost += last;
        } else if let Some((_, words)) = line.split_once("Last message repeated ") {
            // It would say the same again.
            lost += last * number(words);
        } else if !line.trim().is_empty() {
            last = 0;
        }
    }
    Some(Counts { frames: frames?, packets: None, lost, in_place: None })
}

/// What words begin with, or 0.
fn number(words: &str) -> u64 {
    words.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// `gst-launch-1.0 -v … ! fakesink silent=false`: a line for each buffer; with `discont` where the depayloader has noticed a gap.
pub(crate) fn gstreamer(log: &str) -> Option<Counts> {
    let buffers = log.lines().filter(|line| line.contains("last-message") && line.contains("chain "));
    let (mut frames, mut gaps) = (0, 0);
    for line in buffers {
        // The first buffer of a stream is always one.
        gaps += u64::from(frames > 0 && line.contains("discont"));
        frames += 1;
    }
    Some(Counts { frames, packets: None, lost: gaps, in_place: None })
}

/// What the kernel says of the sockets of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sockets {
    /// Memory of what nobody has read yet.
    pub(crate) waiting_bytes: u64,
    /// Datagrams that found no room.
    pub(crate) drops: u64,
}

impl Sockets {
    /// Both together.
    pub(crate) fn and(self, other: Sockets) -> Sockets {
        Sockets { waiting_bytes: self.waiting_bytes + other.waiting_bytes, drops: self.drops + other.drops }
    }
}

/// The sockets of `port` in `/proc/net/udp` (`rx_queue`, and the last column); `None`: nobody has bound it.
pub(crate) fn sockets(table: &str, port: u16) -> Option<Sockets> {
    let wanted = format!(":{port:04X}");
    let sockets = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if !fields.get(1)?.ends_with(&wanted) {
            return None;
        }
        let (_, waiting) = fields.get(4)?.split_once(':')?;
        let waiting_bytes = u64::from_str_radix(waiting, 16).ok()?;
        Some(Sockets { waiting_bytes, drops: fields.last()?.parse().ok()? })
    });
    sockets.reduce(Sockets::and)
}

/// Datagrams that programs have read (`/proc/net/snmp`, `Udp: InDatagrams`). Of collected ones each message counts once.
pub(crate) fn datagrams_read(table: &str) -> Option<u64> {
    let mut lines = table.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|name| name == "InDatagrams")?;
    values.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_record_says_is_read_behind_its_log() {
        let log = "INFO receiving\n{\"frames\":180,\"packets\":583200,\"lost\":3,\"dropped_frames\":1,\"in_place\":9}\n";
        let counts = Counts { frames: 180, packets: Some(583_200), lost: 4, in_place: Some(9) };
        assert_eq!(ours(log), Some(counts));
        assert_eq!(ours("INFO receiving\n"), None);
        assert_eq!(ours("{\"frames\":"), None, "cut short");
    }

    #[test]
    fn ffmpeg_tells_frames_and_what_it_misses() {
        let log = "frame=   12 fps=0.0 q=-0.0 size=N/A time=00:00:00.20 bitrate=N/A speed=0.4x    \r[rtp @ 0x55] RTP: missed 3 \
                   packets\n[rtp @ 0x55] max delay reached. need to consume packet\n[rtp @ 0x55] RTP: missed 2 packets\n    \
                   Last message repeated 2 times\nframe=   30 fps= 13 q=-0.0 Lsize=N/A time=00:00:00.50\nvideo:15kB\n";
        assert_eq!(ffmpeg(log), Some(Counts { frames: 30, packets: None, lost: 9, in_place: None }));
        assert_eq!(ffmpeg("frame=7 fps=1\n").map(|counts| counts.lost), Some(0));
        assert_eq!(ffmpeg("rtp: Connection refused\n"), None);
    }

    #[test]
    fn gstreamer_tells_a_line_a_frame() {
        let line = |flags: &str| {
            format!(
                "/GstPipeline:pipeline0/GstFakeSink:fakesink0: last-message = chain   ******* (fakesink0:sink) (4147200 bytes, \
                 dts: none, pts: 0:00:00.1, duration: none, offset: -1, offset_end: -1, flags: {flags}, meta: none) 0x7f\n"
            )
        };
        let log = format!(
            "Setting pipeline to PLAYING ...\n{}{}{}/GstPipeline:pipeline0/GstFakeSink:fakesink0: last-message = event   ***\n",
            line("00000040 discont"),
            line("00000000"),
            line("00000040 discont")
        );
        assert_eq!(gstreamer(&log), Some(Counts { frames: 3, packets: None, lost: 1, in_place: None }));
    }

    #[test]
    fn sockets_of_a_port_are_found() {
        let line = |port: &str, waiting: &str, drops: u32| {
            format!(
                "  71: 0100007F:{port} 00000000:0000 07 00000000:{waiting} 00:00000000 00000000  0  0 71 2 0000000000000000 \
                 {drops}\n"
            )
        };
        let table =
            format!("  sl  local_address …\n{}{}", line("138C", "0000A100", 17), line("138E", "00000000", 5));
        assert_eq!(sockets(&table, 5004), Some(Sockets { waiting_bytes: 0xa100, drops: 17 }));
        assert_eq!(sockets(&table, 5006), Some(Sockets { waiting_bytes: 0, drops: 5 }));
        assert_eq!(sockets(&table, 5008), None);
        let two = format!("\n{}{}", line("138C", "00000001", 1), line("138C", "00000002", 2));
        assert_eq!(sockets(&two, 5004), Some(Sockets { waiting_bytes: 3, drops: 3 }));
    }

    #[test]
    fn datagrams_that_were_read_are_found_by_name() {
        let table = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts InErrors\nUdp: 4711 2 3\nUdpLite: InDatagrams\nUdpLite: 9\n";
        assert_eq!(datagrams_read(table), Some(4711));
        assert_eq!(datagrams_read("Udp: NoPorts\nUdp: 2\n"), None);
        assert_eq!(datagrams_read(""), None);
    }
}
