//! The client with our own server, and with servers as services are, and as they should not be.

use super::super::server::{Event, Publish, Refusal, ServerSession};
use super::*;
use proptest::prelude::*;

const NOW: Time = Time::from_millis(5000);

fn address() -> Address {
    Address::parse("rtmp://host/live/hall?key=A-SECRET").unwrap()
}

fn client() -> ClientSession {
    ClientSession::new(address(), &[7; RANDOM_BYTES], NOW)
}

/// A server's side by hand: what the client sends in messages, and messages to it.
struct Service {
    client: ClientSession,
    reader: ChunkReader,
    writer: ChunkWriter,
}

impl Service {
    /// After the handshake.
    fn new() -> Service {
        let mut client = client();
        assert_eq!(client.take_output().len(), 1 + 1536);
        let hello = [&[3][..], &[1; 1536], &[2; 1536]].concat();
        assert_eq!(client.push(&mut &hello[..], NOW), Ok(None));
        let echo = client.out.drain(..1536).collect::<Vec<_>>();
        assert_eq!(echo, [1; 1536]);
        Service { client, reader: ChunkReader::new(1 << 20), writer: ChunkWriter::default() }
    }

    /// Waits for the answer to publish.
    fn asked() -> Service {
        let mut service = Service::new();
        service.answer("_result", CONNECT, Value::Null, status("NetConnection.Connect.Success")).unwrap();
        service.answer("_result", CREATE, Value::Null, 1.0.into()).unwrap();
        service
    }

    fn published() -> Service {
        let mut service = Service::asked();
        let start = service.answer("onStatus", 0.0, Value::Null, status("NetStream.Publish.Start"));
        assert_eq!(start, Ok(Some(ClientEvent::Published)));
        service
    }

    /// Messages that the client has sent.
    fn sent(&mut self) -> Vec<Message> {
        let bytes = self.client.take_output();
        let (mut rest, mut messages) = (&bytes[..], Vec::new());
        while let Some(message) = self.reader.push(&mut rest).unwrap() {
            if message.kind == message::SET_CHUNK_SIZE {
                self.reader.set_chunk_size(number(&message.payload).unwrap()).unwrap();
            }
            messages.push(message);
        }
        messages
    }

    /// The names of commands that the client has sent.
    fn commands(&mut self) -> Vec<String> {
        let commands = self.sent().into_iter().filter(|message| message.kind == message::COMMAND);
        let name =
            |message: Message| amf0::read_all(&message.payload).unwrap()[0].as_str().unwrap().to_owned();
        commands.map(name).collect()
    }

    fn send(&mut self, message: &Message) -> Result<Option<ClientEvent>, ClientError> {
        let mut bytes = Vec::new();
        self.writer.write(3, message, &mut bytes);
        self.client.push(&mut &bytes[..], NOW)
    }

    fn answer(
        &mut self,
        name: &str,
        transaction: f64,
        argument: Value,
        told: Value,
    ) -> Result<Option<ClientEvent>, ClientError> {
        self.send(&message::command(0, &[name.into(), transaction.into(), argument, told]))
    }
}

fn status(code: &str) -> Value {
    object([("level", "status".into()), ("code", code.into()), ("description", "".into())])
}

fn error(code: &str, words: &str) -> Value {
    object([("level", "error".into()), ("code", code.into()), ("description", words.into())])
}

/// Passes bytes between the two until both have nothing to say, so many bytes at once. Returns what each of them told.
fn pump(
    client: &mut ClientSession,
    server: &mut ServerSession,
    chop: usize,
) -> Result<(Vec<ClientEvent>, Vec<Event>), ClientError> {
    let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
    loop {
        let (there, back) = (client.take_output(), server.take_output());
        if there.is_empty() && back.is_empty() {
            return Ok((to_client, to_server));
        }
        for mut bytes in there.chunks(chop) {
            while let Some(event) = server.push(&mut bytes).unwrap() {
                if matches!(event, Event::Publish(_)) {
                    server.accept();
                }
                to_server.push(event);
            }
        }
        for mut bytes in back.chunks(chop) {
            while let Some(event) = client.push(&mut bytes, NOW)? {
                to_client.push(event);
            }
        }
    }
}

#[test]
fn our_own_server_gets_what_is_published() {
    for chop in [1, 97, 1 << 20] {
        let (mut client, mut server) = (client(), ServerSession::new([9; RANDOM_BYTES], NOW));
        let (told, events) = pump(&mut client, &mut server, chop).unwrap();
        assert_eq!(told, [ClientEvent::Published]);
        let Event::Publish(Publish { name, query, agent }) = &events[0] else { panic!("{events:?}") };
        assert_eq!((&name[..], query), ("hall?key=A-SECRET", &None));
        assert!(agent.contains("Glassline"), "{agent}");
        assert_eq!((client.step(), client.poll_timeout()), (Step::Published, Time::NEVER));
        assert_eq!((client.lists("hvc1"), client.lists("vp09")), (Some(true), Some(false)));
        let metadata = [("videocodecid".to_owned(), 7.0.into()), ("audiocodecid".to_owned(), 10.0.into())];
        client.send_metadata(&metadata);
        // A picture of several chunks, at a time that does not fit three bytes, and just before the 32 bits end.
        let picture: Vec<u8> = (0..10_000u32).map(|at| at as u8).collect();
        client.send_media(true, 0xff_fffe, picture.clone());
        client.send_media(false, 0x0123_4567, vec![0xaf, 1, 2]);
        client.send_media(true, u32::MAX, picture.clone());
        client.send_media(true, 3, picture.clone());
        let (_, events) = pump(&mut client, &mut server, chop).unwrap();
        let Event::Metadata(metadata) = &events[0] else { panic!("{events:?}") };
        assert!(metadata.has_video && metadata.has_audio);
        let media: Vec<_> = events[1..]
            .iter()
            .map(|event| match event {
                Event::Media(media) => (media.is_video, media.time, media.payload.clone()),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [
            (true, 0xff_fffe, picture.clone()),
            (false, 0x0123_4567, vec![0xaf, 1, 2]),
            (true, u32::MAX, picture.clone()),
            (true, 3, picture.clone()),
        ];
        assert_eq!(media, expected);
        client.unpublish();
        let there = client.take_output();
        assert_eq!(server.push(&mut &there[..]), Ok(Some(Event::Unpublish)));
    }
}

#[test]
fn our_own_server_says_why_it_refuses() {
    let (mut client, mut server) = (client(), ServerSession::new([9; RANDOM_BYTES], NOW));
    let refused = loop {
        let there = client.take_output();
        if let Ok(Some(Event::Publish(_))) = server.push(&mut &there[..]) {
            server.refuse(Refusal::Denied, "the key A-SECRET of hall is wrong");
        }
        let back = server.take_output();
        match client.push(&mut &back[..], NOW) {
            Ok(event) => assert_eq!(event, None),
            Err(refused) => break refused,
        }
    };
    let words = refused.to_string();
    assert!(words.contains("publish was refused: NetStream.Publish.Denied (the key "), "{words}");
    assert!(!words.contains("SECRET"), "the stream key is not repeated: {words}");
}

#[test]
fn steps_follow_each_other_as_services_want_them() {
    let mut service = Service::new();
    let sent = service.sent();
    // Sizes first, as nginx-rtmp sends them; the key is not in the address that is told.
    let kinds: Vec<u8> = sent.iter().map(|message| message.kind).collect();
    assert_eq!(kinds, [message::SET_CHUNK_SIZE, message::WINDOW_SIZE, message::COMMAND]);
    assert_eq!(number(&sent[0].payload), Some(4096));
    let connect = amf0::read_all(&sent[2].payload).unwrap();
    let told = |name: &str| text(&connect[2], name).to_owned();
    assert_eq!(
        (told("app"), told("tcUrl"), told("type")),
        ("live".into(), "rtmp://host/live".into(), "nonprivate".into())
    );
    assert!(told("flashVer").starts_with("FMLE/3.0"));
    service.answer("onBWDone", 0.0, Value::Null, 8192.0.into()).unwrap();
    service
        .answer(
            "_result",
            CONNECT,
            object([("fmsVer", "FMS/3".into())]),
            status("NetConnection.Connect.Success"),
        )
        .unwrap();
    assert_eq!(service.commands(), ["releaseStream", "FCPublish", "createStream"]);
    assert_eq!(service.client.lists("hvc1"), None, "it lists nothing");
    // These two may be refused or not answered at all.
    service.answer("_error", RELEASE, Value::Null, error("NetConnection.Call.Failed", "")).unwrap();
    service.answer("_error", FC_PUBLISH, Value::Null, Value::Null).unwrap();
    service.answer("_result", CREATE, Value::Null, 5.0.into()).unwrap();
    let publish = service.sent().pop().unwrap();
    let values = amf0::read_all(&publish.payload).unwrap();
    assert_eq!((publish.stream, values[0].as_str()), (5, Some("publish")));
    assert_eq!((values[3].as_str(), values[4].as_str()), (Some("hall?key=A-SECRET"), Some("live")));
    // Media before the answer go nowhere.
    service.client.send_media(true, 0, vec![1]);
    assert_eq!(service.sent(), []);
    let start = service.answer("onStatus", 0.0, Value::Null, status("NetStream.Publish.Start"));
    assert_eq!(start, Ok(Some(ClientEvent::Published)));
    service.client.unpublish();
    assert_eq!(service.commands(), ["FCUnpublish", "deleteStream"]);
}

#[test]
fn metadata_are_an_array_at_time_zero() {
    let mut service = Service::published();
    service.sent();
    service.client.send_media(true, 9000, vec![1]);
    service.client.send_metadata(&[("width".to_owned(), 1280.0.into())]);
    let metadata = service.sent().pop().unwrap();
    assert_eq!((metadata.kind, metadata.time, metadata.stream), (message::DATA, 0, 1));
    let expected =
        b"\x02\0\x0d@setDataFrame\x02\0\x0aonMetaData\x08\0\0\0\x01\0\x05width\0\x40\x94\0\0\0\0\0\0\0\0\x09";
    assert_eq!(metadata.payload, expected);
}

#[test]
fn refusals_are_told_by_step_and_words() {
    let mut service = Service::new();
    let refused =
        service.answer("_error", CONNECT, Value::Null, error("NetConnection.Connect.InvalidApp", "no app"));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "connect was refused: NetConnection.Connect.InvalidApp (no app)"
    );
    let mut service = Service::new();
    let refused =
        service.answer("_result", CONNECT, Value::Null, error("NetConnection.Connect.Rejected", ""));
    assert_eq!(refused.unwrap_err().to_string(), "connect was refused: NetConnection.Connect.Rejected");
    let mut service = Service::asked();
    // SRS and others say this at the level of a status.
    let refused = service.answer("onStatus", 0.0, Value::Null, status("NetStream.Publish.BadName"));
    assert_eq!(refused.unwrap_err().to_string(), "publish was refused: NetStream.Publish.BadName");
    let mut service = Service::asked();
    let refused = service.answer("_error", PUBLISH, Value::Null, Value::Null);
    assert_eq!(refused.unwrap_err().to_string(), "publish was refused: it gives no reason");
    let mut service = Service::asked();
    assert!(matches!(
        service.answer("close", 0.0, Value::Null, Value::Null),
        Err(ClientError::Refused { .. })
    ));
    let mut service = Service::published();
    let ended =
        service.answer("onStatus", 0.0, Value::Null, error("NetStream.Publish.Denied", "another encoder"));
    assert_eq!(
        ended.unwrap_err().to_string(),
        "the server has ended the stream: NetStream.Publish.Denied (another encoder)"
    );
    let mut service = Service::published();
    let ended = service.answer("onStatus", 0.0, Value::Null, status("NetStream.Unpublish.Success"));
    assert!(matches!(ended, Err(ClientError::Ended { .. })));
    let mut service = Service::new();
    service.answer("_result", CONNECT, Value::Null, status("NetConnection.Connect.Success")).unwrap();
    for number in [Value::Null, 1.5.into(), (-1.0).into(), f64::NAN.into()] {
        assert!(matches!(
            service.answer("_result", CREATE, Value::Null, number),
            Err(ClientError::Refused { .. })
        ));
    }
}

#[test]
fn a_redirect_of_the_application_is_told() {
    let mut service = Service::new();
    let more = object([("code", 302.0.into()), ("redirect", "rtmp://edge/live".into())]);
    let told =
        object([("level", "error".into()), ("code", "NetConnection.Connect.Rejected".into()), ("ex", more)]);
    let redirected = service.answer("_error", CONNECT, Value::Null, told);
    assert_eq!(redirected, Ok(Some(ClientEvent::Redirected("rtmp://edge/live".into()))));
    let mut service = Service::new();
    let told = object([("code", "x".into()), ("ex", object([("code", 302.0.into())]))]);
    assert!(service.answer("_error", CONNECT, Value::Null, told).is_err(), "it does not say where to");
}

#[test]
fn each_step_has_a_deadline() {
    let late = NOW + STEP_TIMEOUT;
    let mut first = client();
    assert_eq!(first.poll_timeout(), late);
    assert_eq!(first.handle_timeout(NOW), Ok(()));
    assert_eq!(first.handle_timeout(late), Err(ClientError::NoAnswer { step: Step::Handshake }));
    let mut service = Service::new();
    assert_eq!(
        service.client.handle_timeout(late).unwrap_err().to_string(),
        "no answer to connect within 10 s"
    );
    let mut service = Service::asked();
    assert_eq!(service.client.handle_timeout(late), Err(ClientError::NoAnswer { step: Step::Publish }));
    let mut service = Service::published();
    assert_eq!(service.client.handle_timeout(late), Ok(()));
}

#[test]
fn pings_and_windows_are_answered() {
    let mut service = Service::published();
    service.sent();
    service.send(&message::user_control(message::PING_REQUEST, &[1, 2, 3, 4])).unwrap();
    let pong = service.sent().pop().unwrap();
    assert_eq!((pong.kind, &pong.payload[..]), (message::USER_CONTROL, &[0, 7, 1, 2, 3, 4][..]));
    service.send(&message::protocol(message::SET_PEER_BANDWIDTH, vec![0, 0, 4, 0, 2])).unwrap();
    let window = service.sent().pop().unwrap();
    assert_eq!((window.kind, number(&window.payload)), (message::WINDOW_SIZE, Some(1024)));
    // It is told once: a server that asks again and again costs nothing.
    service.send(&message::protocol(message::SET_PEER_BANDWIDTH, vec![0, 0, 4, 0, 2])).unwrap();
    assert_eq!(service.sent(), []);
    service.send(&message::protocol(message::WINDOW_SIZE, vec![0, 0, 4, 0])).unwrap();
    while service.client.unacknowledged > 0 {
        service.answer("onBWDone", 0.0, Value::Null, Value::Null).unwrap();
    }
    let acknowledged = service.sent().pop().unwrap();
    let bytes = service.client.counters().bytes;
    assert_eq!(
        (acknowledged.kind, number(&acknowledged.payload)),
        (message::ACKNOWLEDGEMENT, Some(bytes as u32))
    );
}

#[test]
fn what_a_server_may_not_send_ends_the_connection_or_is_ignored() {
    let mut service = Service::published();
    let ignored = service.client.counters().ignored;
    service.send(&Message { time: 0, kind: message::VIDEO, stream: 1, payload: vec![1; 100] }).unwrap();
    service.send(&Message { time: 0, kind: message::COMMAND, stream: 0, payload: vec![0xff; 100] }).unwrap();
    assert_eq!(service.client.counters().ignored, ignored + 2);
    let huge = Message { time: 0, kind: message::COMMAND, stream: 0, payload: vec![0; LIMIT + 1] };
    assert!(matches!(service.send(&huge), Err(ClientError::Chunk(ChunkError::TooLong { .. }))));
    let mut service = Service::published();
    assert!(service.send(&message::protocol(message::SET_CHUNK_SIZE, vec![0; 4])).is_err());
}

proptest! {
    #[test]
    fn any_bytes_of_a_server_end_in_an_error_or_wait_for_more(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        after in 0..3u8,
        chop in 1..50usize,
    ) {
        let mut service = match after {
            0 => Service::new(),
            1 => Service::asked(),
            _ => Service::published(),
        };
        let run = |client: &mut ClientSession| {
            for mut piece in bytes.chunks(chop) {
                while !piece.is_empty() {
                    if client.push(&mut piece, NOW)?.is_none() {
                        break;
                    }
                }
            }
            Ok::<_, ClientError>(())
        };
        let _ = run(&mut service.client);
        prop_assert!(service.client.reader.held_bytes() <= LIMIT);
        prop_assert!(service.client.out.len() < 64 << 10);
    }
}
