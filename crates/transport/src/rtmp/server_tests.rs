//! Clients as encoders are, and clients that mean harm.

use super::super::amf0;
use super::super::handshake::PACKET_BYTES;
use super::*;
use proptest::prelude::*;

/// A client's side, as far as a test wants one.
struct Client {
    session: ServerSession,
    writer: ChunkWriter,
    reader: ChunkReader,
}

/// What a push came to, and the messages that were answered.
type Pushed = (Result<Option<Event>, SessionError>, Vec<Message>);

impl Client {
    /// After the handshake.
    fn new() -> Client {
        let mut session = ServerSession::new([7; RANDOM_BYTES], Time::ZERO);
        let hello = [&[3][..], &[0; 8], &[1; PACKET_BYTES - 8], &[2; PACKET_BYTES]].concat();
        assert_eq!(session.push(&mut &hello[..]), Ok(None));
        assert_eq!(session.take_output().len(), 1 + 2 * PACKET_BYTES);
        assert!(!session.is_handshaking());
        Client { session, writer: ChunkWriter::default(), reader: ChunkReader::new(1 << 20) }
    }

    fn connected() -> Client {
        let mut client = Client::new();
        assert_eq!(client.command(0, &["connect".into(), 1.0.into(), live()]).0, Ok(None));
        client
    }

    fn publishing() -> Client {
        let mut client = Client::connected();
        let event = client.command(1, &publish("NAME")).0.unwrap();
        assert!(matches!(event, Some(Event::Publish(_))));
        client.session.accept();
        client.answers();
        client
    }

    fn push(&mut self, mut bytes: &[u8]) -> Pushed {
        let pushed = self.session.push(&mut bytes);
        (pushed, self.answers())
    }

    fn answers(&mut self) -> Vec<Message> {
        let answered = self.session.take_output();
        let (mut rest, mut messages) = (&answered[..], Vec::new());
        while let Some(message) = self.reader.push(&mut rest).unwrap() {
            if message.kind == message::SET_CHUNK_SIZE {
                self.reader.set_chunk_size(number(&message.payload).unwrap()).unwrap();
            }
            messages.push(message);
        }
        messages
    }

    fn send(&mut self, message: &Message) -> Pushed {
        let mut bytes = Vec::new();
        self.writer.write(3, message, &mut bytes);
        self.push(&bytes)
    }

    fn command(&mut self, stream: u32, values: &[Value]) -> Pushed {
        self.send(&message::command(stream, values))
    }
}

fn live() -> Value {
    object([("app", "live".into()), ("tcUrl", "rtmp://host/live".into()), ("flashVer", "FMLE/3.0".into())])
}

fn publish(name: &str) -> [Value; 5] {
    ["publish".into(), 5.0.into(), Value::Null, name.into(), "live".into()]
}

fn media(kind: u8, time: u32, payload: &[u8]) -> Message {
    Message { time, kind, stream: 1, payload: payload.to_vec() }
}

fn values(message: &Message) -> Vec<Value> {
    amf0::read_all(&message.payload).unwrap()
}

/// The code and description of the status that is the last answer.
fn status(answers: &[Message]) -> (String, String) {
    let values = values(answers.last().expect("an answer"));
    let text = |name: &str| values[3].property(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("code"), text("description"))
}

#[test]
fn an_encoder_publishes() {
    let mut client = Client::new();
    let (pushed, answers) = client.command(0, &["connect".into(), 1.0.into(), live()]);
    assert_eq!(pushed, Ok(None));
    let kinds: Vec<u8> = answers.iter().map(|answer| answer.kind).collect();
    assert_eq!(kinds, [5, 6, 1, 20]);
    let result = values(&answers[3]);
    assert_eq!((result[0].as_str(), result[1].as_number()), (Some("_result"), Some(1.0)));
    let code = result[3].property("code").and_then(Value::as_str);
    assert_eq!(code, Some("NetConnection.Connect.Success"));
    assert_eq!(result[2].property("fourCcList"), None, "it did not ask");
    for name in ["releaseStream", "FCPublish"] {
        let (_, answers) = client.command(0, &[name.into(), 2.0.into(), Value::Null, "NAME".into()]);
        assert_eq!(values(&answers[0])[0].as_str(), Some("_result"));
    }
    let (_, answers) = client.command(0, &["createStream".into(), 4.0.into(), Value::Null]);
    assert_eq!(values(&answers[0])[1..], [4.0.into(), Value::Null, 1.0.into()]);
    let (pushed, _) = client.command(1, &publish("NAME?key=KEY"));
    let (name, agent) = ("NAME?key=KEY".to_owned(), "FMLE/3.0".to_owned());
    assert_eq!(pushed, Ok(Some(Event::Publish(Publish { name, query: None, agent }))));
    assert_eq!(client.session.poll_timeout(), Some(Time::ZERO + PUBLISH_TIMEOUT));
    client.session.accept();
    assert_eq!(client.session.poll_timeout(), None);
    let answers = client.answers();
    assert_eq!(answers[0].payload, [0, 0, 0, 0, 0, 1]);
    assert_eq!((answers[1].stream, status(&answers).0.as_str()), (1, "NetStream.Publish.Start"));

    let told = object([("videocodecid", 7.0.into())]);
    let metadata = message::command(1, &["@setDataFrame".into(), "onMetaData".into(), told]);
    let (pushed, _) = client.send(&Message { kind: message::DATA, ..metadata });
    assert!(matches!(pushed, Ok(Some(Event::Metadata(Metadata { has_video: true, has_audio: false, .. })))));
    let (pushed, _) = client.send(&media(9, 40, &[0x17, 1]));
    let expected = Media { is_video: true, time: 40, payload: vec![0x17, 1] };
    assert_eq!(pushed, Ok(Some(Event::Media(expected))));

    let over = ["FCUnpublish".into(), 6.0.into(), Value::Null, "NAME".into()];
    let (pushed, answers) = client.command(0, &over);
    assert_eq!(pushed, Ok(Some(Event::Unpublish)));
    assert_eq!(values(&answers[0])[0].as_str(), Some("onStatus"));
    assert_eq!(client.command(0, &["deleteStream".into(), 0.0.into(), Value::Null, 1.0.into()]).0, Ok(None));
    assert_eq!(client.send(&media(8, 60, &[0xaf])).0, Ok(None));
    assert_eq!(client.session.counters().early_media, 1);
    assert!(matches!(client.command(1, &publish("OTHER")).0, Ok(Some(Event::Publish(_)))));
}

#[test]
fn a_key_may_stand_in_the_address_or_in_the_application() {
    for (app, address) in [("live", "rtmp://host/live?key=KEY"), ("live?key=KEY", ""), ("/live/?key=KEY", "")]
    {
        let mut client = Client::new();
        let asked = object([("app", app.into()), ("tcUrl", address.into())]);
        assert_eq!(client.command(0, &["connect".into(), 1.0.into(), asked]).0, Ok(None));
        let Ok(Some(Event::Publish(publish))) = client.command(1, &publish("NAME")).0 else {
            panic!("{app}")
        };
        assert_eq!(publish.query.as_deref(), Some("key=KEY"));
    }
}

#[test]
fn a_client_of_enhanced_rtmp_is_told_the_codecs() {
    let mut client = Client::new();
    let list = Value::Array(vec!["hvc1".into(), "av01".into()]);
    let asked = object([("app", "live".into()), ("fourCcList", list)]);
    let (_, answers) = client.command(0, &["connect".into(), 1.0.into(), asked]);
    let told = &values(answers.last().unwrap())[2];
    let map = told.property("videoFourCcInfoMap").unwrap();
    assert_eq!(map.property("hvc1").and_then(Value::as_number), Some(CAN_FORWARD));
    assert_eq!(map.property("vp09"), None);
    assert_eq!(told.property("capsEx").and_then(Value::as_number), Some(CAPABILITIES));
    let Some(Value::Array(list)) = told.property("fourCcList") else { panic!("a list") };
    assert_eq!(list.len(), VIDEO_CODECS.len() + AUDIO_CODECS.len());
    assert!(list.contains(&"Opus".into()));
}

#[test]
fn what_is_not_offered_is_refused_in_words() {
    let mut client = Client::new();
    let asked = object([("app", "vod\n".into())]);
    let (pushed, answers) = client.command(0, &["connect".into(), 1.0.into(), asked]);
    assert!(matches!(pushed, Err(SessionError::Refused(_))));
    let (code, words) = status(&answers);
    assert_eq!(code, "NetConnection.Connect.InvalidApp");
    assert!(words.contains("publish to rtmp://HOST/live"), "{words}");

    let mut client = Client::connected();
    let (pushed, answers) = client.command(1, &["play".into(), 0.0.into(), Value::Null, "NAME".into()]);
    assert!(pushed.unwrap_err().to_string().starts_with("play: RTMP play is not offered"));
    assert_eq!(status(&answers).0, "NetStream.Play.Failed");

    assert!(Client::new().command(1, &publish("NAME")).0.is_err(), "before connect");
    let mut client = Client::connected();
    let created = ["createStream".into(), 4.0.into(), Value::Null];
    assert!((0..STREAMS_MAX).all(|_| client.command(0, &created).0.is_ok()));
    assert!(client.command(0, &created).0.is_err());

    let mut client = Client::publishing();
    let (pushed, answers) = client.command(2, &publish("OTHER"));
    assert_eq!((pushed, status(&answers).0.as_str()), (Ok(None), "NetStream.Publish.Denied"));
    assert!(matches!(client.send(&media(9, 0, &[1])).0, Ok(Some(Event::Media(_)))), "the first goes on");

    let mut client = Client::connected();
    client.command(1, &publish("NAME")).0.unwrap();
    client.session.refuse(Refusal::Denied, "no such key");
    let told = ("NetStream.Publish.Denied".to_owned(), "no such key".to_owned());
    assert_eq!(status(&client.answers()), told);
    assert_eq!(client.send(&media(9, 0, &[1])).0, Ok(None));
}

#[test]
fn pings_are_answered_and_bytes_acknowledged() {
    let mut client = Client::publishing();
    let (_, answers) = client.send(&message::user_control(message::PING_REQUEST, &[1, 2, 3, 4]));
    assert_eq!(answers, [message::user_control(message::PING_RESPONSE, &[1, 2, 3, 4])]);
    let window = message::protocol(message::WINDOW_SIZE, 1000u32.to_be_bytes().to_vec());
    assert_eq!(client.send(&window).0, Ok(None));
    let before = client.session.counters().bytes;
    let (_, answers) = client.send(&media(8, 0, &[0xaf; 2000]));
    let [answer] = &answers[..] else { panic!("one acknowledgement") };
    let behind = number(&answer.payload).unwrap();
    assert_eq!((answer.kind, u64::from(behind)), (3, client.session.counters().bytes));
    assert!(u64::from(behind) > before + 2000);
    // The next one is due after a window more.
    assert_eq!(client.send(&media(8, 20, &[0xaf; 500])).1, []);
    // Without a window none is due; and a window of nothing is none.
    let none = message::protocol(message::WINDOW_SIZE, vec![0; 4]);
    client.send(&none).0.unwrap();
    assert_eq!(client.send(&media(8, 0, &[0xaf; 3000])).1, []);
}

/// MediaMTX, pull request 3302: some clients tell the size of their chunks only behind "publish". MediaMTX, issue 4006: FFmpeg with
/// `-f mpegts` sends messages of kinds that there are not.
#[test]
fn what_comes_between_publish_and_media_is_taken_or_left_out() {
    let mut client = Client::publishing();
    let size = message::protocol(message::SET_CHUNK_SIZE, 60_000u32.to_be_bytes().to_vec());
    assert_eq!(client.send(&size).0, Ok(None));
    client.writer.set_chunk_size(60_000);
    for kind in [0, 7, 16, 19, 99, 255] {
        assert_eq!(client.send(&media(kind, 0, &[0x47; 376])).0, Ok(None));
    }
    assert_eq!(client.session.counters().ignored, 6);
    let told = message::command(1, &["onMetaData".into(), object([("audiocodecid", 10.0.into())])]);
    assert!(matches!(client.send(&Message { kind: message::DATA, ..told }).0, Ok(Some(Event::Metadata(_)))));
    assert!(matches!(client.send(&media(9, 0, &[1; 5000])).0, Ok(Some(Event::Media(_)))));
}

#[test]
fn commands_may_be_wrapped_for_amf_3() {
    let mut client = Client::connected();
    let plain = message::command(1, &publish("NAME"));
    let wrapped = [&[0][..], &plain.payload].concat();
    let (pushed, _) = client.send(&Message { kind: message::COMMAND_AMF3, payload: wrapped, ..plain });
    assert!(matches!(pushed, Ok(Some(Event::Publish(_)))));
}

#[test]
fn aggregates_are_taken_apart() {
    let part = |kind: u8, time: u32, payload: &[u8]| {
        let (size, [t3, t0, t1, t2]) = ((payload.len() as u32).to_be_bytes(), time.to_be_bytes());
        [&[kind][..], &size[1..], &[t0, t1, t2, t3, 0, 0, 0], payload, &[0; 4]].concat()
    };
    let mut client = Client::publishing();
    let all = [part(9, 500, &[1]), part(8, 520, &[2]), part(18, 520, &[3]), part(9, 540, &[4])].concat();
    // The last one is cut off.
    let payload = &all[..all.len() - 5];
    let mut bytes = Vec::new();
    client.writer.write(4, &media(message::AGGREGATE, 1000, payload), &mut bytes);
    let mut rest = &bytes[..];
    let expected = [(true, 1000, vec![1]), (false, 1020, vec![2])];
    for (is_video, time, payload) in expected {
        assert_eq!(client.session.push(&mut rest), Ok(Some(Event::Media(Media { is_video, time, payload }))));
    }
    assert_eq!(client.session.push(&mut rest), Ok(None));
}

/// Each takes room beside its bytes.
#[test]
fn of_an_aggregate_as_many_messages_are_taken_as_may_be() {
    let mut client = Client::publishing();
    let tag = [message::AUDIO, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];
    let mut bytes = Vec::new();
    client.writer.write(4, &media(message::AGGREGATE, 0, &tag.repeat(5000)), &mut bytes);
    let (mut bytes, mut events) = (&bytes[..], 0);
    while let Ok(Some(_)) = client.session.push(&mut bytes) {
        events += 1;
    }
    assert_eq!(events, 1024);
}

#[test]
fn the_end_of_another_message_stream_ends_no_publisher() {
    let mut client = Client::publishing();
    let delete = |stream: f64| ["deleteStream".into(), 0.0.into(), Value::Null, stream.into()];
    assert_eq!(client.command(0, &delete(2.0)).0, Ok(None));
    assert_eq!(client.command(0, &delete(1.0)).0, Ok(Some(Event::Unpublish)));
}

#[test]
fn a_connection_has_deadlines_until_it_publishes() {
    let mut session = ServerSession::new([7; RANDOM_BYTES], Time::from_millis(100));
    assert_eq!(session.poll_timeout(), Some(Time::from_millis(5100)));
    assert_eq!(session.handle_timeout(Time::from_millis(5099)), Ok(()));
    assert_eq!(session.handle_timeout(Time::from_millis(5100)), Err(SessionError::NoHandshake));
    let mut client = Client::connected();
    assert_eq!(client.session.handle_timeout(Time::from_millis(9999)), Ok(()));
    assert_eq!(client.session.handle_timeout(Time::from_millis(10_000)), Err(SessionError::NoPublisher));
    let mut client = Client::publishing();
    assert_eq!(client.session.handle_timeout(Time::from_millis(99_000)), Ok(()));
}

#[test]
fn before_it_may_publish_a_connection_holds_little() {
    let mut client = Client::connected();
    let size = message::protocol(message::SET_CHUNK_SIZE, 0x7fff_ffffu32.to_be_bytes().to_vec());
    assert_eq!(client.send(&size).0, Ok(None));
    let head = [4, 0, 0, 0, 0x01, 0, 1, 9, 1, 0, 0, 0];
    assert_eq!(
        client.push(&head).0,
        Err(SessionError::Chunk(ChunkError::TooLong { found: (64 << 10) + 1, limit: 64 << 10 }))
    );
    let mut client = Client::publishing();
    let large = [4, 0, 0, 0, 0xff, 0xff, 0xff, 9, 1, 0, 0, 0];
    assert_eq!(client.push(&large).0, Ok(None));
    let size = message::protocol(message::SET_CHUNK_SIZE, 0x8000_0000u32.to_be_bytes().to_vec());
    assert!(matches!(
        Client::connected().send(&size).0,
        Err(SessionError::Chunk(ChunkError::ChunkSize { .. }))
    ));
    let nested = message::command(0, &["connect".into(), 1.0.into()]);
    let nested = Message { payload: [nested.payload, b"\x03\0\x01a".repeat(1000)].concat(), ..nested };
    assert_eq!(Client::new().send(&nested).0, Err(SessionError::Command(AmfError::TooDeep)));
}

fn any_message() -> impl Strategy<Value = Message> {
    let kind = prop_oneof![0u8..24, Just(20u8), Just(18u8)];
    let payload = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..60),
        Just(message::command(1, &publish("NAME?key=1")).payload),
        Just(message::command(0, &["connect".into(), 1.0.into(), live()]).payload),
        Just(message::command(0, &["createStream".into(), 1.0.into(), Value::Null]).payload),
        Just(message::command(0, &["deleteStream".into(), 1.0.into(), Value::Null]).payload),
        Just(message::command(0, &["onMetaData".into(), live()]).payload),
    ];
    (kind, any::<u32>(), payload).prop_map(|(kind, time, payload)| Message { time, kind, stream: 1, payload })
}

fn run(bytes: &[u8], chop: usize, accepts: bool) -> (Vec<Event>, Option<SessionError>, Vec<u8>) {
    let mut session = Client::new().session;
    let (mut events, mut out) = (Vec::new(), Vec::new());
    for mut piece in bytes.chunks(chop) {
        loop {
            let pushed = session.push(&mut piece);
            match pushed {
                Ok(Some(event)) => {
                    match (&event, accepts) {
                        (Event::Publish(_), true) => session.accept(),
                        (Event::Publish(_), false) => session.refuse(Refusal::BadName, "taken"),
                        _ => {}
                    }
                    events.push(event);
                }
                Ok(None) => break,
                Err(error) => {
                    out.extend(session.take_output());
                    return (events, Some(error), out);
                }
            }
        }
        out.extend(session.take_output());
    }
    (events, None, out)
}

proptest! {
    #[test]
    fn any_messages_in_any_chop_give_the_same(
        messages in proptest::collection::vec(any_message(), 0..20), chop in 1usize..300, accepts in any::<bool>(),
    ) {
        let (writer, mut bytes) = (ChunkWriter::default(), Vec::new());
        for message in messages.iter().filter(|message| !matches!(message.kind, 1 | 5)) {
            writer.write(4, message, &mut bytes);
        }
        let whole = run(&bytes, usize::MAX, accepts);
        prop_assert_eq!(run(&bytes, chop, accepts), whole.clone());
        // Answers are few: a client cannot make a server send much.
        prop_assert!(whole.2.len() <= 8 * bytes.len() + 1000);
    }

    #[test]
    fn any_bytes_give_events_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..500), chop in 1usize..99) {
        run(&bytes, chop, true);
        let mut session = ServerSession::new([0; RANDOM_BYTES], Time::ZERO);
        let _ = session.push(&mut &bytes[..]);
    }
}
