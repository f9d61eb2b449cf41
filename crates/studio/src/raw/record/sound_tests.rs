use super::*;
use glassline_media::AudioBlock;
use glassline_media::container::wav;
use glassline_test_support::program::Scratch;

fn audio(bits: u8, channels: u8) -> Audio {
    let packet_time = Duration::from_millis(1);
    Audio { bits, rate_hz: 48_000, channels, packet_time, channel_order: None }
}

fn block(samples: &[f32], channels: u8) -> Block {
    let samples = samples.to_vec();
    let audio = AudioBlock { samples, channels, rate_hz: 48_000, captured: Time::ZERO };
    Block { audio, timestamp: 0, is_silence: false }
}

/// The samples of a file that these blocks were written to, behind its head.
fn written(bits: u8, channels: u8, blocks: &[Block], most: Option<u64>) -> (u64, Vec<u8>) {
    let scratch = Scratch::new("sound-file");
    let path = scratch.file("out.wav");
    let depth = if bits == 16 { Depth::L16 } else { Depth::L24 };
    let mut file = SoundFile::create(Path::new(&path), depth, &audio(bits, channels)).unwrap();
    for block in blocks {
        file.write(block, most).unwrap();
    }
    file.wav.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, file.wav.bytes());
    (file.wav.frames(), bytes[wav::HEAD_BYTES..].to_vec())
}

#[test]
fn samples_are_little_endian_in_the_order_of_their_channels() {
    let of_16 = [0x1234 as f32 / 32_768.0, -1.0];
    assert_eq!(written(16, 2, &[block(&of_16, 2)], None), (1, vec![0x34, 0x12, 0x00, 0x80]));
    let of_24 = [0x12_3456 as f32 / 8_388_608.0, -1.0 / 8_388_608.0];
    assert_eq!(written(24, 1, &[block(&of_24, 1)], None), (2, vec![0x56, 0x34, 0x12, 0xFF, 0xFF, 0xFF]));
}

#[test]
fn blocks_stand_one_behind_the_other() {
    let value = |number: u8| f32::from(number) / 32_768.0;
    let blocks = [block(&[value(1), value(2)], 1), block(&[], 1), block(&[value(3)], 1)];
    assert_eq!(written(16, 1, &blocks, None), (3, vec![1, 0, 2, 0, 3, 0]));
}

#[test]
fn a_length_cuts_the_block_that_reaches_over_it_and_leaves_out_all_behind() {
    let value = |number: u8| f32::from(number) / 32_768.0;
    let blocks = [
        block(&[value(1), value(2), value(3), value(4)], 2),
        block(&[value(5), value(6), value(7), value(8)], 2),
        block(&[value(9), value(10)], 2),
    ];
    assert_eq!(written(16, 2, &blocks, Some(3)), (3, vec![1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]));
    assert_eq!(written(16, 2, &blocks, Some(0)), (0, vec![]));
}
