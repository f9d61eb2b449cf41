use super::*;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{self, Backlog, FlushPolicy, Mux, Pacing, Prebuffer};
use glassline_io::clock::Clock;
use glassline_media::container::ts::PACKET_BYTES;
use glassline_streams::{FreeNames, NoThreads, Streams};
use std::sync::Arc;
use std::time::Duration;

/// A relay, its stream `hall`, and an output that publishes that.
fn hall() -> (Arc<Streams>, RelayOutput) {
    let settings = stream::Settings {
        backlog: Backlog { time: Duration::from_secs(1), bytes: 1 << 20 },
        flush: FlushPolicy::Frame,
        pacing: Pacing::Off,
        prebuffer: Prebuffer::NONE,
    };
    let plan = Arc::new(FreeNames { settings, max_streams: 1 });
    let streams = Arc::new(Streams::new(plan, Arc::new(NoThreads), Clock::new()));
    let name = StreamName::parse("hall").unwrap();
    let publisher = streams.publish(&name, Mux::MpegTs).unwrap();
    (streams, RelayOutput::new(publisher))
}

/// Bytes that the relay has been given of `hall`.
fn given(streams: &Streams) -> u64 {
    let live = streams.find(&StreamName::parse("hall").unwrap()).expect("there is the stream");
    live.status(Clock::new().now()).bytes_in
}

/// A part of a picture: so many packets without a payload.
fn part(packets: usize, ends_picture: bool) -> (Vec<u8>, bool) {
    let mut packet = [0xff; PACKET_BYTES];
    packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
    (packet.repeat(packets), ends_picture)
}

fn write(output: &mut RelayOutput, (bytes, ends_picture): &(Vec<u8>, bool)) -> Result<Demand> {
    output.write(&Packets { bytes, joinable: false, ends_picture: *ends_picture })
}

#[test]
fn the_relay_gets_a_picture_when_its_last_slice_is_there() {
    let (streams, mut output) = hall();
    for slice in [part(2, false), part(1, false)] {
        assert_eq!(write(&mut output, &slice).unwrap(), Demand::Nothing);
        assert_eq!(given(&streams), 0, "each piece has its price at the relay");
    }
    write(&mut output, &part(3, true)).unwrap();
    assert_eq!(given(&streams), 6 * PACKET_BYTES as u64);
    write(&mut output, &part(1, true)).unwrap();
    assert_eq!(given(&streams), 7 * PACKET_BYTES as u64, "what was given is not given again");
}

#[test]
fn a_stream_that_the_relay_has_ended_takes_nothing_more() {
    let (streams, mut output) = hall();
    write(&mut output, &part(1, true)).unwrap();
    streams.end(&streams.find(&StreamName::parse("hall").unwrap()).unwrap());
    write(&mut output, &part(1, false)).expect("nothing is asked of the relay before the picture is whole");
    let refused = write(&mut output, &part(1, true)).unwrap_err();
    assert!(matches!(refused, crate::output::Error::Relay(_)), "{refused}");
}

#[test]
fn the_log_calls_it_by_the_streams_name() {
    let (_streams, output) = hall();
    assert_eq!(output.stream().as_deref(), Some("hall"));
}
