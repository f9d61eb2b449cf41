//! Chunks of encoders and of peers that mean harm.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

const LIMIT: usize = 1 << 20;

fn read_with(bytes: &[u8], chop: usize, chunk_bytes: u32) -> Result<Vec<Message>, ChunkError> {
    let mut reader = ChunkReader::new(LIMIT);
    reader.set_chunk_size(chunk_bytes)?;
    let mut messages = Vec::new();
    for mut piece in bytes.chunks(chop.max(1)) {
        while let Some(message) = reader.push(&mut piece)? {
            messages.push(message);
        }
    }
    Ok(messages)
}

/// In several chops, which make no difference.
fn read(bytes: &[u8]) -> Result<Vec<Message>, ChunkError> {
    let whole = read_with(bytes, usize::MAX, DEFAULT_CHUNK_BYTES);
    for chop in [1, 2, 3, 5, 7, 130] {
        assert_eq!(read_with(bytes, chop, DEFAULT_CHUNK_BYTES), whole, "chop {chop}");
    }
    whole
}

fn message(time: u32, kind: u8, stream: u32, payload: &[u8]) -> Message {
    Message { time, kind, stream, payload: payload.to_vec() }
}

/// The examples of sections 5.3.2.1 and 5.3.2.2.
#[test]
fn the_examples_of_the_specification_are_read() {
    let sound = [7; 32];
    let mut bytes = [&[3, 0, 3, 0xe8, 0, 0, 32, 8, 0x39, 0x30, 0, 0][..], &sound].concat();
    bytes.extend([&[0x83, 0, 0, 20][..], &sound].concat());
    bytes.extend([&[0xc3][..], &sound].concat());
    bytes.extend([&[0xc3][..], &sound].concat());
    let expected = [1000, 1020, 1040, 1060].map(|time| message(time, 8, 12_345, &sound));
    assert_eq!(read(&bytes).unwrap(), expected);

    let picture: Vec<u8> = (0..307).map(|at| at as u8).collect();
    let mut bytes = [&[4, 0, 3, 0xe8, 0, 1, 0x33, 9, 0x3a, 0x30, 0, 0][..], &picture[..128]].concat();
    bytes.extend([&[0xc4][..], &picture[128..256]].concat());
    bytes.extend([&[0xc4][..], &picture[256..]].concat());
    assert_eq!(read(&bytes).unwrap(), [message(1000, 9, 12_346, &picture)]);
}

/// nginx-rtmp-module, issue 246: "chunk stream too big: 64 >= 32". The number of a chunk stream is no bound on how many there are.
#[test]
fn messages_of_several_chunk_streams_lie_between_each_other() {
    let (picture, sound) = ([1; 200], [2; 40]);
    let mut bytes = [&[6, 0, 0, 1, 0, 0, 200, 9, 1, 0, 0, 0][..], &picture[..128]].concat();
    bytes.extend([&[4, 0, 0, 2, 0, 0, 40, 8, 1, 0, 0, 0][..], &sound].concat());
    bytes.extend([&[0xc6][..], &picture[128..]].concat());
    // Chunk stream ids of two and three bytes, and messages without bytes.
    bytes.extend([0, 0, 0, 0, 3, 0, 0, 1, 20, 0, 0, 0, 0, 5]);
    bytes.extend([1, 0, 1, 0, 0, 4, 0, 0, 0, 18, 0, 0, 0, 0]);
    let expected = [
        message(2, 8, 1, &sound),
        message(1, 9, 1, &picture),
        message(3, 20, 0, &[5]),
        message(4, 18, 0, &[]),
    ];
    assert_eq!(read(&bytes).unwrap(), expected);
}

/// rust-media-libs, pull request 15, and OBS, pull request 10097: FFmpeg repeats it, rtmpdump and OBS before that did not.
#[test]
fn an_extended_time_may_be_repeated_in_headers_of_format_3_or_not() {
    let picture: Vec<u8> = (0..300).map(|at| at as u8 | 0x80).collect();
    let time = 0x0123_4567_u32.to_be_bytes();
    for is_repeated in [true, false] {
        let again: &[u8] = if is_repeated { &time } else { &[] };
        let mut bytes =
            [&[6, 0xff, 0xff, 0xff, 0, 1, 0x2c, 9, 1, 0, 0, 0][..], &time, &picture[..128]].concat();
        for piece in [&picture[128..256], &picture[256..]] {
            bytes.extend([&[0xc6][..], again, piece].concat());
        }
        // The next one 40 ms later.
        bytes.extend([&[0x46, 0, 0, 40, 0, 0, 130, 9][..], &picture[..128], &[0xc6], &picture[..2]].concat());
        let expected = [
            message(0x0123_4567, 9, 1, &picture),
            message(0x0123_4567 + 40, 9, 1, &[&picture[..128], &picture[..2]].concat()),
        ];
        assert_eq!(read(&bytes).unwrap(), expected, "repeated: {is_repeated}");
    }
    // A last piece that is shorter than the time that is not repeated, with other chunks behind it.
    let mut bytes = [&[6, 0xff, 0xff, 0xff, 0, 0, 129, 9, 1, 0, 0, 0][..], &time, &picture[..128]].concat();
    bytes.extend([0xc6, picture[128], 0x04, 0, 0, 1, 0, 0, 1, 8, 1, 0, 0, 0, 9]);
    let expected = [message(0x0123_4567, 9, 1, &picture[..129]), message(1, 8, 1, &[9])];
    assert_eq!(read(&bytes).unwrap(), expected);
    // 16,777,215 itself is an extended time, too.
    let mut bytes = [&[6, 0xff, 0xff, 0xff, 0, 0, 1, 9, 1, 0, 0, 0][..], &[0, 0xff, 0xff, 0xff, 1]].concat();
    bytes.extend([0x86, 0, 0, 1, 2]);
    assert_eq!(read(&bytes).unwrap(), [message(0xff_ffff, 9, 1, &[1]), message(0x100_0000, 9, 1, &[2])]);
}

#[test]
fn times_wrap_and_a_first_header_of_format_1_counts_from_zero() {
    let mut bytes = [&[6, 0xff, 0xff, 0xff, 0, 0, 1, 9, 1, 0, 0, 0][..], &[0xff; 4], &[1]].concat();
    bytes.extend([0x86, 0, 0, 40, 2]);
    // librtmp answers pings so, on a chunk stream that nothing came on.
    bytes.extend([0x42, 0, 0, 5, 0, 0, 1, 4, 3]);
    let expected = [message(u32::MAX, 9, 1, &[1]), message(39, 9, 1, &[2]), message(5, 4, 0, &[3])];
    assert_eq!(read(&bytes).unwrap(), expected);
}

#[test]
fn a_message_may_be_given_up() {
    let mut reader = ChunkReader::new(LIMIT);
    let mut begun = &[&[6, 0, 0, 1, 0, 0, 200, 9, 1, 0, 0, 0][..], &[1; 128]].concat()[..];
    assert_eq!(reader.push(&mut begun), Ok(None));
    assert_eq!(reader.held_bytes(), 128);
    reader.abort(6);
    reader.abort(77);
    assert_eq!(reader.held_bytes(), 0);
    let mut next = &[0x46, 0, 0, 1, 0, 0, 1, 9, 7][..];
    assert_eq!(reader.push(&mut next), Ok(Some(message(2, 9, 1, &[7]))));
    assert_eq!(reader.abandoned(), 0);
    // Another header within a message begins the next one.
    let mut twice =
        &[&[6, 0, 0, 5, 0, 0, 200, 9, 1, 0, 0, 0][..], &[1; 128], &[6, 0, 0, 6, 0, 0, 1, 9, 1, 0, 0, 0, 8]]
            .concat()[..];
    assert_eq!(reader.push(&mut twice), Ok(Some(message(6, 9, 1, &[8]))));
    assert_eq!((reader.abandoned(), reader.held_bytes()), (1, 0));
}

#[test]
fn what_is_too_much_is_refused() {
    for (found, is_allowed) in
        [(0, false), (1, true), (65_536, true), (0x7fff_ffff, true), (0x8000_0000, false), (u32::MAX, false)]
    {
        let said = ChunkReader::new(LIMIT).set_chunk_size(found);
        assert_eq!(said, if is_allowed { Ok(()) } else { Err(ChunkError::ChunkSize { found }) });
    }
    assert_eq!(read(&[0x83, 0, 0, 1]), Err(ChunkError::NoHeader { stream: 3, format: 2 }));
    assert_eq!(read(&[0xc3, 0, 0, 1]), Err(ChunkError::NoHeader { stream: 3, format: 3 }));
    let long = [3, 0, 0, 0, 0x10, 0, 1, 9, 1, 0, 0, 0];
    assert_eq!(read(&long), Err(ChunkError::TooLong { found: LIMIT + 1, limit: LIMIT }));
    let many: Vec<u8> = (3..60).flat_map(opened).collect();
    assert_eq!(read_with(&many, usize::MAX, 1), Err(ChunkError::TooManyStreams));
    // Many messages that are not whole: together they are bounded.
    let mut reader = ChunkReader::new(1000);
    let mut bytes = &(3..30u8)
        .flat_map(|stream| [&[stream, 0, 0, 0, 0, 3, 0, 9, 1, 0, 0, 0][..], &[1; 128]].concat())
        .collect::<Vec<u8>>()[..];
    assert_eq!(reader.push(&mut bytes), Err(ChunkError::TooLong { found: 1024, limit: 1000 }));
}

/// A chunk of one byte that begins a message of nine.
fn opened(stream: u8) -> Vec<u8> {
    vec![stream, 0, 0, 0, 0, 0, 9, 9, 1, 0, 0, 0, 1]
}

fn any_message() -> impl Strategy<Value = Message> {
    let time = prop_oneof![0u32..100_000, 0xff_fff0u32..0x100_0010, any::<u32>()];
    let payload = prop_oneof![vec(any::<u8>(), 0..20), vec(any::<u8>(), 100..500)];
    (time, any::<u8>(), any::<u32>(), payload).prop_map(|(time, kind, stream, payload)| Message {
        time,
        kind,
        stream,
        payload,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        messages in vec((2u8..30, any_message()), 0..20), chunk_bytes in 1u32..300, chop in 1usize..200,
    ) {
        let (mut writer, mut bytes) = (ChunkWriter::default(), Vec::new());
        writer.set_chunk_size(chunk_bytes);
        for (chunk_stream, message) in &messages {
            writer.write(*chunk_stream, message, &mut bytes);
        }
        let expected: Vec<Message> = messages.into_iter().map(|(_, message)| message).collect();
        prop_assert_eq!(read_with(&bytes, chop, chunk_bytes), Ok(expected));
    }

    #[test]
    fn any_bytes_give_messages_or_an_error_and_any_chop_the_same(
        bytes in vec(prop_oneof![any::<u8>(), Just(0xffu8), Just(0u8), Just(0xc3u8), Just(3u8)], 0..400),
        chop in 1usize..50,
        chunk_bytes in 1u32..50,
    ) {
        let whole = read_with(&bytes, usize::MAX, chunk_bytes);
        let chopped = read_with(&bytes, chop, chunk_bytes);
        prop_assert_eq!(whole.is_err(), chopped.is_err());
        prop_assert_eq!(whole.ok(), chopped.ok());
    }
}
