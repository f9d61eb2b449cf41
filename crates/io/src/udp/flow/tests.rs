use super::*;
use crate::udp::{Local, Port};
use std::net::UdpSocket;
use std::time::Instant;

fn flow(is_collected: bool) -> Flow {
    let settings = FlowSettings::at("127.0.0.1:0".parse().unwrap());
    Flow::open(&FlowSettings { is_collected, buffer_bytes: 1 << 20, ..settings }).unwrap()
}

fn sender(to: &Flow) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to.local_address().unwrap()).unwrap();
    socket
}

/// Bytes that tell where they belong.
fn numbered(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

/// Sends `bytes` as datagrams of `segment`, in one message where the kernel cuts.
fn send_cut(to: &Flow, bytes: &[u8], segment: usize) {
    let port = Port::open(&Local::at("127.0.0.1:0".parse().unwrap())).unwrap();
    let sent = port.send(to.local_address().unwrap(), bytes, segment, 0).unwrap();
    assert_eq!(sent, Some(bytes.len()));
}

const SOON: Option<Duration> = Some(Duration::from_secs(20));

#[test]
fn datagrams_are_scattered_in_the_order_of_their_pieces() {
    for is_collected in [false, true] {
        let flow = flow(is_collected);
        let from = sender(&flow);
        let bytes = numbered(1000);
        from.send(&bytes).unwrap();
        from.send(&bytes[..7]).unwrap();
        from.send(&[]).unwrap();
        assert!(flow.wait(SOON).unwrap());
        let mut room = Room::new();
        let mut scratch = [[0xee; 20]; 3];
        let mut picture = vec![0xee; 2000];
        let mut batch = room.batch();
        let mut rest = &mut picture[..];
        for header in &mut scratch {
            batch.push(header);
            batch.discard(80);
            let (payload, behind) = rest.split_at_mut(600);
            batch.push(payload);
            batch.discard(400);
            rest = behind;
            assert_eq!((batch.message_bytes(), batch.pieces_left()), (1100, PIECES_MAX - 4));
            batch.end_message();
        }
        assert_eq!(batch.messages(), 3);
        assert_eq!(flow.receive(&mut batch).unwrap(), 3);
        let lengths: Vec<_> = batch.received().iter().map(|message| message.bytes).collect();
        assert_eq!(lengths, [1000, 7, 0]);
        assert_eq!(scratch[0], bytes[..20]);
        assert_eq!(scratch[1][..8], [0, 1, 2, 3, 4, 5, 6, 0xee]);
        assert_eq!(scratch[2], [0xee; 20]);
        assert_eq!(picture[..600], bytes[100..700]);
        assert!(picture[600..].iter().all(|byte| *byte == 0xee));
        for message in room.received() {
            assert!(!message.is_truncated() && message.segment.is_none() && message.drops == 0);
            assert_eq!((message.datagrams(), message.segment_bytes()), (1, message.bytes));
            assert_eq!(message.from, Some(from.local_addr().unwrap()));
        }
    }
}

#[test]
fn a_message_of_many_datagrams_is_scattered_as_one() {
    let flow = flow(true);
    if !flow.is_collected() {
        let test = "a_message_of_many_datagrams_is_scattered_as_one";
        return glassline_test_support::skip(test, "the kernel has no UDP_GRO");
    }
    // Headers of 20 bytes, payloads of 1,200, the last one shorter.
    let (segment, count) = (1220, 40);
    let bytes = numbered(segment * (count - 1) + 500);
    send_cut(&flow, &bytes, segment);
    assert!(flow.wait(SOON).unwrap());
    let (mut headers, mut picture) = (vec![0; 20 * count], vec![0; 1200 * count]);
    let mut room = Room::new();
    let mut batch = room.batch();
    for (header, payload) in headers.chunks_mut(20).zip(picture.chunks_mut(1200)) {
        batch.push(header);
        batch.push(payload);
    }
    // The last message need not be ended.
    assert_eq!(flow.receive(&mut batch).unwrap(), 1);
    let [message] = *room.received() else { panic!("{:?}", room.received()) };
    assert_eq!((message.bytes, message.segment, message.datagrams()), (bytes.len(), Some(segment), count));
    for (number, datagram) in bytes.chunks(segment).enumerate() {
        assert_eq!(headers[20 * number..][..20], datagram[..20], "header {number}");
        let payload = &datagram[20..];
        assert_eq!(picture[1200 * number..][..payload.len()], *payload, "payload {number}");
    }
}

#[test]
fn many_messages_come_by_one_call_and_room_is_used_again() {
    let flow = flow(true);
    let mut room = Room::new();
    for round in 0..3u8 {
        for message in 0..8 {
            send_cut(&flow, &[message * 10 + round; 8 * 1000], 1000);
        }
        let mut picture = vec![0; 8 * 8000];
        assert!(flow.wait(SOON).unwrap());
        let mut batch = room.batch();
        for message in picture.chunks_mut(8000) {
            message.chunks_mut(500).for_each(|piece| batch.push(piece));
            batch.end_message();
        }
        if !flow.is_collected() {
            let test = "many_messages_come_by_one_call_and_room_is_used_again";
            return glassline_test_support::skip(test, "the kernel has no UDP_GRO");
        }
        assert_eq!(flow.receive(&mut batch).unwrap(), 8);
        for (number, message) in picture.chunks(8000).enumerate() {
            assert!(message.iter().all(|byte| *byte == number as u8 * 10 + round));
        }
        assert_eq!(room.received().len(), 8);
    }
    // Nothing waits, and nothing is told of what came before.
    let mut batch = room.batch();
    batch.discard(100);
    batch.end_message();
    assert_eq!(flow.receive(&mut batch).unwrap(), 0);
    assert_eq!(room.received(), []);
}

#[test]
fn what_finds_no_piece_is_told() {
    let flow = flow(true);
    let from = sender(&flow);
    let bytes = numbered(3000);
    (0..3).for_each(|_| assert_eq!(from.send(&bytes).unwrap(), 3000));
    let (mut room, mut head, mut small) = (Room::new(), [0; 1000], vec![0; PIECES_MAX + 100]);
    let mut batch = room.batch();
    batch.push(&mut head);
    batch.end_message();
    // None at all.
    batch.end_message();
    // More than the kernel takes: those beyond are left away.
    for piece in small.chunks_mut(1) {
        batch.push(piece);
    }
    assert_eq!(batch.pieces_left(), 0);
    batch.end_message();
    assert!(flow.wait(SOON).unwrap());
    assert_eq!(flow.receive(&mut batch).unwrap(), 3);
    let told: Vec<_> = room.received().iter().map(|message| (message.bytes, message.cut_off)).collect();
    assert_eq!(told, [(1000, 2000), (0, 3000), (PIECES_MAX, 3000 - PIECES_MAX)]);
    assert!(room.received().iter().all(|message| message.is_truncated() && message.datagrams() == 1));
    assert_eq!(head, bytes[..1000]);
    assert_eq!(small[..PIECES_MAX], bytes[..PIECES_MAX]);
    assert_eq!(small[PIECES_MAX..], [0; 100]);
}

#[test]
fn long_discards_take_all() {
    let flow = flow(true);
    let from = sender(&flow);
    let bytes = numbered(65_000);
    from.send(&bytes).unwrap();
    let (mut room, mut tail) = (Room::new(), [0; 100]);
    let mut batch = room.batch();
    batch.discard(64_900);
    batch.push(&mut tail);
    batch.discard(1 << 20);
    assert!(flow.wait(SOON).unwrap());
    assert_eq!(flow.receive(&mut batch).unwrap(), 1);
    assert_eq!((room.received()[0].bytes, room.received()[0].cut_off), (65_000, 0));
    assert_eq!(tail, bytes[64_900..]);
}

#[test]
fn drops_are_counted_and_told_with_the_next_message() {
    let settings = FlowSettings::at("127.0.0.1:0".parse().unwrap());
    let flow = Flow::open(&FlowSettings { buffer_bytes: 4096, ..settings }).unwrap();
    let from = sender(&flow);
    (0..200).for_each(|_| assert_eq!(from.send(&[0; 1000]).unwrap(), 1000));
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut room = Room::new();
    let (mut got, mut told) = (0, 0);
    // A last one comes after all drops, when there is room for it.
    let mut last_is_sent = false;
    while told == 0 {
        let mut batch = room.batch();
        batch.discard(1000);
        batch.end_message();
        got += flow.receive(&mut batch).unwrap();
        if room.received().is_empty() && !last_is_sent {
            last_is_sent = true;
            from.send(b"last").unwrap();
        }
        told = room.received().iter().map(|message| message.drops).max().unwrap_or(0);
        assert!(Instant::now() < deadline, "{got} came");
    }
    let dropped = flow.dropped().unwrap();
    assert_eq!((told, dropped as usize), (dropped, 201 - got));
}

#[test]
fn messages_bear_when_they_came_and_not_when_they_are_read() {
    let (clock, deadline) = (crate::clock::Clock::new(), Instant::now() + Duration::from_secs(20));
    let flow = flow(true);
    let mut room = Room::new();
    // A wall clock that is set meanwhile, or an interruption between the two clocks, makes it another round.
    loop {
        let begun = clock.now();
        send_cut(&flow, &[1; 3000], 1000);
        assert!(flow.wait(SOON).unwrap());
        let there = clock.now();
        while clock.now() < there + Duration::from_millis(30) {}
        let mut times = Vec::new();
        while times.is_empty() || flow.wait(Some(Duration::ZERO)).unwrap() {
            let mut batch = room.batch();
            batch.discard(3000);
            flow.receive(&mut batch).unwrap();
            times.extend(room.received().iter().map(|message| message.at));
        }
        if begun <= times[0] && times[0] <= there + Duration::from_millis(10) {
            break;
        }
        assert!(Instant::now() < deadline, "sent at {begun:?}, there at {there:?}, told {times:?}");
    }
}

#[test]
fn each_message_tells_its_sender_and_one_of_ipv4_by_its_own_address() {
    for address in ["127.0.0.1:0", "[::]:0"] {
        let flow = Flow::open(&FlowSettings::at(address.parse().unwrap())).unwrap();
        let port = flow.local_address().unwrap().port();
        let senders: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        for sender in senders.iter().chain(&senders) {
            sender.send_to(b"x", ("127.0.0.1", port)).unwrap();
        }
        let (mut room, mut told) = (Room::new(), Vec::new());
        while told.len() < 6 {
            assert!(flow.wait(SOON).unwrap());
            let mut batch = room.batch();
            for _ in 0..6 {
                batch.discard(100);
                batch.end_message();
            }
            flow.receive(&mut batch).unwrap();
            // Those of one sender in a row may be one message.
            told.extend(
                room.received().iter().flat_map(|one| std::iter::repeat_n(one.from, one.datagrams())),
            );
        }
        let expected: Vec<_> =
            senders.iter().chain(&senders).map(|sender| sender.local_addr().ok()).collect();
        assert_eq!(told, expected, "{address}");
    }
}

#[test]
fn waiting_ends_by_its_time() {
    let flow = flow(true);
    let begun = Instant::now();
    assert!(!flow.wait(Some(Duration::from_millis(20))).unwrap());
    assert!(begun.elapsed() >= Duration::from_millis(20));
    sender(&flow).send(b"x").unwrap();
    assert!(flow.wait(SOON).unwrap() && flow.wait(None).unwrap());
}

#[test]
fn less_room_than_asked_for_comes_with_its_remedy() {
    let less = Granted { asked_bytes: 38_000_000, granted_bytes: 212_992, limit: Granted::RECEIVE };
    assert_eq!(less.advice().unwrap(), "sysctl -w net.core.rmem_max=38000000");
    assert_eq!(Granted { granted_bytes: 38_000_000, ..less }.advice(), None);
    let flow = flow(true);
    assert_eq!(flow.buffer().asked_bytes, 1 << 20);
    assert!(flow.buffer().granted_bytes > 0);
    // What no kernel takes is asked for as what it takes.
    let settings = FlowSettings::at("127.0.0.1:0".parse().unwrap());
    let flow = Flow::open(&FlowSettings { buffer_bytes: usize::MAX, ..settings }).unwrap();
    assert_eq!(flow.buffer().asked_bytes, i32::MAX as usize / 2);
}

#[test]
fn busy_polling_is_allowed_or_its_refusal_told() {
    let settings = FlowSettings::at("127.0.0.1:0".parse().unwrap());
    let busy = FlowSettings { busy_poll: Some(Duration::from_micros(50)), ..settings };
    match Flow::open(&busy) {
        Ok(flow) => {
            sender(&flow).send(b"x").unwrap();
            assert!(flow.wait(SOON).unwrap());
        }
        Err(error) => assert!(error.to_string().contains("SO_BUSY_POLL"), "{error}"),
    }
}

#[test]
fn a_room_goes_to_another_thread_and_forgets_a_batch_that_is_gone() {
    let flow = flow(true);
    let mut room = Room::new();
    {
        // Never used for a call: the next batch knows nothing of it.
        let mut gone = vec![0; 100];
        let mut batch = room.batch();
        batch.push(&mut gone);
        batch.end_message();
    }
    sender(&flow).send(b"later").unwrap();
    assert!(flow.wait(SOON).unwrap());
    std::thread::spawn(move || {
        let mut bytes = [0; 5];
        let mut batch = room.batch();
        batch.push(&mut bytes);
        assert_eq!(flow.receive(&mut batch).unwrap(), 1);
        assert_eq!(&bytes, b"later");
    })
    .join()
    .unwrap();
}
