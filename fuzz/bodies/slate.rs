//! What a publisher may send behind a slate, and what a file may hold that is one. The first byte chooses: the file (0), or how the
//! publisher's bytes are chopped, between which time passes and publishers come and go.

use bytes::Bytes;
use glassline_delivery::slate::{Gate, Reel};
use glassline_delivery::stream::{Backlog, FlushPolicy, Mux, Pacing, Prebuffer, Settings, Stream};
use glassline_media::container::ts::PACKET_BYTES;
use glassline_media::{FrameRate, Time};
use std::sync::Arc;
use std::time::Duration;

const SETTINGS: Settings = Settings {
    backlog: Backlog { time: Duration::from_secs(2), bytes: 1 << 20 },
    flush: FlushPolicy::Frame,
    pacing: Pacing::Off,
    prebuffer: Prebuffer::NONE,
};

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let repeated = Reel::of_transport_stream(data).ok();
    let reel = match (choice, repeated) {
        (0, Some(reel)) => reel,
        (0, None) => return,
        _ => still(),
    };
    let mut now = Time::from_millis(1000);
    let mut stream = Stream::new(Mux::MpegTs, SETTINGS, now);
    let mut gate = Gate::new(Duration::from_secs(2), false, false, &mut stream);
    gate.set_reel(Some(Arc::new(reel)));
    let mut given = 0;
    let append = &mut |run: &[u8]| {
        assert!(run.len().is_multiple_of(PACKET_BYTES), "whole packets alone");
        given += run.len();
    };
    gate.begin_publisher(&mut stream);
    for (number, part) in data.chunks(1 + usize::from(choice) * 11).take(400).enumerate() {
        let pushed = match gate.is_passing() {
            true => stream.push(part, now, append),
            false => gate.push(part, &mut stream, now, append),
        };
        now += Duration::from_millis(u64::from(part[0]) * 5);
        match number % 7 {
            3 => gate.end_publisher(),
            5 => gate.begin_publisher(&mut stream),
            _ => {}
        }
        if pushed.is_err() {
            gate.begin_publisher(&mut stream);
        }
        gate.handle_timeout(&mut stream, now, append).expect("a slate is MPEG-TS");
        if let Some(at) = gate.poll_timeout(&stream, now) {
            assert!(at > now || gate.is_passing(), "it does not spin: {at:?} at {now:?}");
        }
    }
}

fn still() -> Reel {
    let picture = |key: bool| {
        let nal = if key { 0x65 } else { 0x41 };
        Bytes::from(vec![0, 0, 0, 1, 0x67, 0x42, 0, 0, 0, 1, 0x68, 0xce, 0, 0, 0, 1, nal, 0x88])
    };
    let pictures = (0..50).map(|number| picture(number == 0)).collect();
    Reel::still(pictures, FrameRate::new(25, 1).expect("a rate")).expect("pictures")
}
