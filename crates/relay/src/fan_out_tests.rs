use super::*;
use crate::Settings;
use crate::test_connections::{PEER, Stage, beside, chunk, get, opening, put, stage};
use crate::test_streams::name;
use glassline_delivery::stream::Pacing;
use glassline_io::tcp::Connection as Socket;
use glassline_test_support::ts::Source;

/// A publisher of the stream `a`, its source, and viewers of it that have all there is, in slots; the peers of these.
struct Hall {
    publisher: Stage,
    source: Source,
    slots: Vec<Slot>,
    peers: Vec<Socket>,
}

fn hall(viewers: u64, change: impl FnOnce(&mut Settings)) -> Hall {
    let mut publisher = stage(|settings| {
        settings.stream.pacing = Pacing::Off;
        change(settings);
    });
    publisher.say(put("/live/a.ts"));
    publisher.turn();
    let (source, bytes) = opening(2);
    publisher.say(chunk(&bytes));
    publisher.turn();
    let (mut slots, mut peers) = (Vec::new(), Vec::new());
    for token in 0..viewers {
        let mut viewer = beside(&publisher, PEER, 100 + token);
        viewer.say(get("/live/a.ts"));
        viewer.turn();
        viewer.heard();
        peers.push(viewer.peer.take().expect("its peer"));
        slots.push(Slot { generation: 0, connection: Some(Box::new(viewer.connection)) });
    }
    Hall { publisher, source, slots, peers }
}

impl Hall {
    /// A picture of so many packets comes.
    fn picture(&mut self, packets: usize) -> Vec<u8> {
        let picture = self.source.picture(false, packets);
        self.publisher.say(chunk(&picture));
        self.publisher.turn();
        picture
    }

    fn serve(&mut self, fan_out: &mut FanOut, order: &[usize]) -> Served {
        let now = self.publisher.hub.clock.now();
        fan_out.serve(order.iter().copied(), &mut self.slots, now)
    }

    fn read(&self, viewer: usize) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        let mut count = 0;
        while let Ok(Some(more @ 1..)) = self.peers[viewer].read(&mut bytes[count..]) {
            count += more;
        }
        bytes.truncate(count);
        bytes
    }

    fn viewer(&mut self, slot: usize) -> &mut crate::viewer::Viewer {
        self.slots[slot].connection.as_mut().expect("a connection").viewer().expect("a viewer").0
    }
}

/// Both ways to send; where the system bars `io_uring` they are the same.
fn both() -> [FanOut; 2] {
    [FanOut::new(SendPath::Sendfile, 0), FanOut::new(SendPath::Automatic, 0)]
}

#[test]
fn all_viewers_get_the_same_bytes_by_whichever_calls_they_are_sent() {
    for mut fan_out in both() {
        // More than leave in one batch.
        let count = BATCH_SENDS + 3;
        let mut hall = hall(count as u64, |_| {});
        let order: Vec<_> = (0..count).collect();
        for packets in [1, 40, 200] {
            let picture = hall.picture(packets);
            let served = hall.serve(&mut fan_out, &order);
            assert!(served.over.is_empty() && served.unfinished.is_empty() && served.broken.is_empty());
            for viewer in 0..count {
                assert!(hall.read(viewer) == picture, "viewer {viewer}, {packets} packets");
                assert!(!hall.viewer(viewer).has_news());
            }
        }
        let live = hall.publisher.hub.streams.find(&name("a")).expect("it is live");
        assert_eq!(live.counters.bytes_out.value(), count as u64 * (2 + 1 + 40 + 200) * 188);
    }
}

#[test]
fn only_those_that_are_named_are_served() {
    for mut fan_out in both() {
        let mut hall = hall(3, |_| {});
        let picture = hall.picture(3);
        hall.serve(&mut fan_out, &[2, 0]);
        assert_eq!((hall.read(0), hall.read(1), hall.read(2)), (picture.clone(), Vec::new(), picture));
    }
}

#[test]
fn slots_without_a_viewer_are_passed_over() {
    for mut fan_out in both() {
        let mut hall = hall(1, |_| {});
        let picture = hall.picture(3);
        hall.slots.push(Slot::default());
        let other = beside(&hall.publisher, PEER, 99);
        hall.slots.push(Slot { generation: 0, connection: Some(Box::new(other.connection)) });
        let served = hall.serve(&mut fan_out, &[2, 1, 0, 77]);
        assert!(served.over.is_empty() && served.broken.is_empty());
        assert_eq!(hall.read(0), picture);
    }
}

#[test]
fn a_viewer_that_has_gone_is_over_and_the_others_are_served() {
    for mut fan_out in both() {
        let mut hall = hall(3, |_| {});
        hall.peers.remove(1);
        let picture = hall.picture(3);
        let served = hall.serve(&mut fan_out, &[0, 1, 2]);
        assert_eq!(served.over, [1]);
        assert_eq!((hall.read(0), hall.read(1)), (picture.clone(), picture));
    }
}

#[test]
fn a_viewer_with_a_full_socket_is_left_alone_until_it_has_room() {
    for mut fan_out in both() {
        let mut hall = hall(2, |_| {});
        let mut all = Vec::new();
        let mut read = Vec::new();
        for _ in 0..40 {
            all.extend(hall.picture(60));
            hall.serve(&mut fan_out, &[0, 1]);
            read.extend(hall.read(1));
        }
        assert!(hall.viewer(0).is_blocked() && !hall.viewer(1).is_blocked());
        assert!(read == all);
        let sent = hall.viewer(0).sent_bytes;
        let first = hall.read(0);
        hall.serve(&mut fan_out, &[0]);
        assert_eq!(hall.viewer(0).sent_bytes, sent, "its socket's next edge brings it back");
        // At the stream's end it is tried all the same.
        let live = hall.publisher.hub.streams.find(&name("a")).expect("it is live");
        live.end();
        hall.serve(&mut fan_out, &[0]);
        assert!(hall.viewer(0).sent_bytes > sent && all.starts_with(&first));
    }
}

#[test]
fn viewers_are_over_when_their_stream_has_ended_and_they_have_all() {
    for mut fan_out in both() {
        let mut hall = hall(2, |_| {});
        let picture = hall.picture(3);
        hall.publisher.hub.streams.find(&name("a")).expect("it is live").end();
        let served = hall.serve(&mut fan_out, &[0, 1]);
        assert_eq!(served.over, [0, 1]);
        assert_eq!((hall.read(0), hall.read(1)), (picture.clone(), picture));
    }
}

#[test]
fn a_paced_viewer_gets_its_burst_and_is_come_back_to() {
    for mut fan_out in both() {
        let mut hall = hall(1, |settings| settings.stream.pacing = Pacing::Rate(800_000));
        // What it had when it came has left by then: a burst of 7,240 bytes takes 72 ms.
        let now = hall.publisher.hub.clock.now() + std::time::Duration::from_secs(1);
        let picture = hall.picture(200);
        let served = fan_out.serve([0].into_iter(), &mut hall.slots, now);
        let [(at, 0)] = served.paced[..] else { panic!("{served:?}") };
        assert!(at > now && at <= now + std::time::Duration::from_millis(73), "{at:?} after {now:?}");
        let first = hall.read(0);
        assert!(!first.is_empty() && first.len() < picture.len());
        // Until its worker has come back nothing leaves, and it is named for that once.
        hall.viewer(0).is_expected = true;
        let served = fan_out.serve([0].into_iter(), &mut hall.slots, now);
        assert!(served.paced.is_empty() && hall.read(0).is_empty());
        hall.viewer(0).is_expected = false;
        let served = fan_out.serve([0].into_iter(), &mut hall.slots, now);
        assert_eq!(served.paced, [(at, 0)]);
        assert!(hall.read(0).is_empty());
        // A worker that has no time for pacing sends all there is.
        fan_out.allowance = Allowance::new(false, 1);
        fan_out.serve([0].into_iter(), &mut hall.slots, now);
        assert!([first, hall.read(0)].concat() == picture);
    }
}

#[test]
fn what_panics_is_noted_as_broken_and_does_not_stop_the_round() {
    let mut served = Served::default();
    served.one(3, |_| panic!("a test's"));
    served.one(4, |served| served.over.push(4));
    assert_eq!((&served.broken[..], &served.over[..]), (&[3][..], &[4][..]));
}
