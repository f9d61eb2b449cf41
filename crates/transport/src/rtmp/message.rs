//! Kinds of messages (Adobe RTMP 1.0, sections 5.4 and 7.1), and what is in those that are no media.

use super::amf0::{self, AmfError, Value};
use super::chunk::Message;

pub(super) const SET_CHUNK_SIZE: u8 = 1;
pub(super) const ABORT: u8 = 2;
pub(super) const ACKNOWLEDGEMENT: u8 = 3;
pub(super) const USER_CONTROL: u8 = 4;
pub(super) const WINDOW_SIZE: u8 = 5;
pub(super) const SET_PEER_BANDWIDTH: u8 = 6;
pub(super) const AUDIO: u8 = 8;
pub(super) const VIDEO: u8 = 9;
pub(super) const DATA_AMF3: u8 = 15;
pub(super) const COMMAND_AMF3: u8 = 17;
pub(super) const DATA: u8 = 18;
pub(super) const COMMAND: u8 = 20;
pub(super) const AGGREGATE: u8 = 22;

/// Events of user control messages (section 7.1.7).
pub(super) const STREAM_BEGIN: u16 = 0;
pub(super) const PING_REQUEST: u16 = 6;
pub(super) const PING_RESPONSE: u16 = 7;

/// The limit of a peer's bandwidth that the peer may change by its own window (section 5.4.5).
pub(super) const LIMIT_DYNAMIC: u8 = 2;

/// A tag's head within an aggregate message, and the length behind the tag (section 7.1.6).
const TAG_HEAD_BYTES: usize = 11;
const BACK_POINTER_BYTES: usize = 4;

/// The number that a message of the protocol begins with.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// A message of the protocol: about the connection, at no time, on message stream 0.
pub(super) fn protocol(kind: u8, payload: Vec<u8>) -> Message {
    Message { time: 0, kind, stream: 0, payload }
}

/// A user control message.
pub(super) fn user_control(event: u16, data: &[u8]) -> Message {
    protocol(USER_CONTROL, [&event.to_be_bytes()[..], data].concat())
}

/// A command of these values.
pub(super) fn command(stream: u32, values: &[Value]) -> Message {
    let mut payload = Vec::new();
    amf0::write(values, &mut payload);
    Message { time: 0, kind: COMMAND, stream, payload }
}

/// The values of a command or of data, in AMF 0. Of the kinds for AMF 3 all encoders begin with a zero and go on in AMF 0.
pub(super) fn values(message: &Message) -> Result<Vec<Value>, AmfError> {
    let payload = match (message.kind, &message.payload[..]) {
        (COMMAND_AMF3 | DATA_AMF3, [0, payload @ ..]) => payload,
        (_, payload) => payload,
    };
    amf0::read_all(payload)
}

/// The messages within an aggregate message: kind, time and payload of each, up to the first that is cut off.
pub(super) fn parts(message: &Message) -> impl Iterator<Item = (u8, u32, &[u8])> {
    let mut rest = &message.payload[..];
    let mut first = None;
    std::iter::from_fn(move || {
        let (head, behind) = rest.split_first_chunk::<TAG_HEAD_BYTES>()?;
        let [kind, s0, s1, s2, t0, t1, t2, extended, ..] = *head;
        let (payload, behind) = behind.split_at_checked(u32::from_be_bytes([0, s0, s1, s2]) as usize)?;
        rest = behind.get(BACK_POINTER_BYTES..).unwrap_or_default();
        // Their times count from that of the first one, which stands at the time of the message.
        let said = u32::from_be_bytes([extended, t0, t1, t2]);
        let offset = said.wrapping_sub(*first.get_or_insert(said));
        Some((kind & 0x1f, message.time.wrapping_add(offset), payload))
    })
}
