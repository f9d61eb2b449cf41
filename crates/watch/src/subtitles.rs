//! Subtitles of DVB: that there are some. They are no access units, and are only counted.

use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::{Aligner, Packet, Program};

/// Finds where subtitles begin in a transport stream; looks at nothing as long as the program has none.
#[derive(Default)]
pub(crate) struct Subtitles {
    aligner: Aligner,
    pids: Vec<u16>,
}

impl Subtitles {
    /// The program is another one than before.
    pub(crate) fn follow(&mut self, program: &Program) {
        let subtitles = program.streams.iter().filter(|stream| stream.is_subtitles());
        self.pids = subtitles.map(|stream| stream.pid).collect();
        if self.pids.is_empty() {
            self.aligner.reset();
        }
    }

    /// Takes the next bytes. Returns how many subtitles begin in them.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> u32 {
        let Subtitles { aligner, pids } = self;
        let mut count = 0u32;
        if pids.is_empty() {
            return count;
        }
        aligner.push(bytes, &mut |run| {
            let begun = packets(run)
                .filter_map(|bytes| Packet::parse(bytes).ok())
                .filter(|packet| packet.unit_start && packet.has_payload && pids.contains(&packet.pid));
            count = count.saturating_add(u32::try_from(begun.count()).unwrap_or(u32::MAX));
        });
        count
    }
}
