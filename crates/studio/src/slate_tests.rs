use super::*;
use glassline_media::FrameRate;

fn png(size: (u32, u32), colour: png::ColorType, depth: png::BitDepth, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, size.0, size.1);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(data).unwrap();
    out
}

fn first(picture: &Picture) -> [u8; 3] {
    std::array::from_fn(|plane| picture.planes()[plane].line(0)[0])
}

/// Full red by BT.709 in the limited range.
const RED: [u8; 3] = [63, 102, 240];

fn is_near(found: [u8; 3], expected: [u8; 3]) -> bool {
    found.iter().zip(expected).all(|(found, expected)| found.abs_diff(expected) <= 1)
}

#[test]
fn pictures_of_every_colour_type_are_read() {
    use png::BitDepth::{Eight, Sixteen};
    use png::ColorType::{Grayscale, GrayscaleAlpha, Rgb, Rgba};
    let red = png((3, 5), Rgb, Eight, &[255, 0, 0].repeat(15));
    let picture = read_png(&red).unwrap();
    assert_eq!(picture.size(), Size { width: 4, height: 6 });
    assert!(is_near(first(&picture), RED), "{:?}", first(&picture));
    let deep = png((2, 2), Rgb, Sixteen, &[255, 255, 0, 0, 0, 0].repeat(4));
    assert!(is_near(first(&read_png(&deep).unwrap()), RED));
    let grey = png((2, 2), Grayscale, Eight, &[255; 4]);
    assert!(is_near(first(&read_png(&grey).unwrap()), [235, 128, 128]));
    // What is transparent is black.
    let clear = png((2, 2), Rgba, Eight, &[255, 0, 0, 0].repeat(4));
    assert!(is_near(first(&read_png(&clear).unwrap()), [16, 128, 128]));
    let half = png((2, 2), GrayscaleAlpha, Eight, &[255, 128].repeat(4));
    assert!(is_near(first(&read_png(&half).unwrap()), [126, 128, 128]));
}

#[test]
fn what_is_no_picture_is_refused_in_words() {
    let error = |bytes: &[u8]| read_png(bytes).unwrap_err().to_string();
    assert!(error(b"GIF89a").contains("no PNG picture"));
    let red = png((64, 64), png::ColorType::Rgb, png::BitDepth::Eight, &[255, 0, 0].repeat(64 * 64));
    assert!(error(&red[..red.len() / 2]).contains("no PNG picture"));
    // A header that promises more than the memory that there is: 60,000 × 60,000, which no data follow.
    let mut huge = red.clone();
    huge[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let crc = crc(&huge[12..29]);
    huge[29..33].copy_from_slice(&crc.to_be_bytes());
    assert!(error(&huge).contains("60000×60000"), "{}", error(&huge));
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}

#[test]
fn a_picture_of_another_shape_stands_in_the_middle() {
    let red = png((20, 20), png::ColorType::Rgb, png::BitDepth::Eight, &[255, 0, 0].repeat(400));
    let fitted = fitted(&read_png(&red).unwrap(), Size { width: 64, height: 32 });
    let at = |x: usize| {
        [fitted.planes()[0].line(16)[x], fitted.planes()[1].line(8)[x / 2], fitted.planes()[2].line(8)[x / 2]]
    };
    assert!(is_near(at(0), [16, 128, 128]) && is_near(at(63), [16, 128, 128]));
    assert!(is_near(at(32), RED) && is_near(at(18), RED));
}

#[cfg(feature = "x264")]
#[test]
fn a_still_is_a_key_frame_and_pictures_of_a_few_bytes() {
    let data: Vec<u8> = (0..160 * 90 * 3u32).map(|index| (index * 7 % 251) as u8).collect();
    let picture = png((160, 90), png::ColorType::Rgb, png::BitDepth::Eight, &data);
    let format = Format { size: Size { width: 160, height: 90 }, frame_rate: FrameRate::new(25, 1).unwrap() };
    let reel = code(&read_png(&picture).unwrap(), format).unwrap();
    let sizes = reel.picture_bytes();
    assert_eq!(sizes.len(), 50);
    let behind: usize = sizes[1..].iter().sum();
    assert!(behind / 49 < sizes[0] / 20, "one key frame of {} bytes, then {behind} bytes", sizes[0]);
}
