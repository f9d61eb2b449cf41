use super::*;
use glassline_media::container::y4m;
use glassline_media::{Chroma, FrameRate, PixelFormat, Size, Time};
use glassline_test_support::program::Scratch;
use glassline_transport::raw_video::Scan;

fn format(depth: u8) -> Format {
    let size = Size::new(4, 2).unwrap();
    Format::new(PixelFormat::planar(Chroma::Yuv422, depth), size, Scan::Progressive).unwrap()
}

/// 4:2:2 of 8 bits; each sample of picture `number` is that.
fn picture(number: u8) -> Picture {
    let mut picture =
        Picture::new(PixelFormat::planar(Chroma::Yuv422, 8), Size::new(4, 2).unwrap(), Time::ZERO);
    for plane in picture.planes_mut() {
        plane.lines_mut().for_each(|line| line.fill(number));
    }
    picture
}

fn packed(packer: &mut FramePacker, picture: Picture) -> Vec<u8> {
    let pool = Pool::new(packer.format.frame_bytes(), 1).unwrap();
    let mut block = pool.take().unwrap();
    packer.pack(picture, &mut block);
    block.bytes()[..packer.format.frame_bytes()].to_vec()
}

/// A y4m file of so many pictures.
fn input(scratch: &Scratch, pictures: u8) -> Input {
    let example = picture(0);
    let mut bytes = Vec::new();
    y4m::write_header(&y4m::Header::of(&example, FrameRate::new(25, 1).unwrap()), &mut bytes).unwrap();
    for number in 0..pictures {
        bytes.extend(y4m::FRAME_LINE);
        picture(number).planes().iter().flat_map(|plane| plane.lines()).for_each(|line| bytes.extend(line));
    }
    scratch.write("in.y4m", &bytes).parse().unwrap()
}

#[test]
fn planes_and_pgroups_of_one_picture_are_the_same_frame() {
    let mut planar = picture(0);
    for (index, plane) in planar.planes_mut().iter_mut().enumerate() {
        for (y, line) in plane.lines_mut().enumerate() {
            line.iter_mut().zip(0..).for_each(|(sample, x)| *sample = 100 * index as u8 + 10 * y as u8 + x);
        }
    }
    let mut packer = FramePacker::new(format(8));
    let pgroups = Packer::new().pack(&planar).unwrap();
    // Cb, Y, Cr, Y.
    let wanted = [[100, 0, 200, 1, 101, 2, 201, 3], [110, 10, 210, 11, 111, 12, 211, 13]];
    assert_eq!(packed(&mut packer, planar), wanted.concat());
    assert_eq!(packed(&mut packer, pgroups), wanted.concat());
}

#[test]
fn samples_of_fewer_bits_are_made_deeper() {
    let mut packer = FramePacker::new(format(10));
    let bytes = packed(&mut packer, picture(0x80));
    // Four samples of 0x200, ten bits each.
    assert_eq!(bytes, [0x80, 0x20, 0x08, 0x02, 0x00].repeat(4));
}

#[test]
fn all_pictures_of_a_file_are_kept_in_their_order_where_they_have_room() {
    let scratch = Scratch::new("frames-keep");
    // Whether a file has room is told by its length, with a line before each picture.
    let kept = keep(&input(&scratch, 20), format(8), 40 * 16).unwrap().expect("there is room");
    let first: Vec<_> = kept.iter().map(|block| block.bytes()[0]).collect();
    assert_eq!(first, (0..20).collect::<Vec<_>>());
}

#[test]
fn a_file_that_is_larger_than_its_memory_is_not_kept() {
    let scratch = Scratch::new("frames-large");
    for memory_bytes in [20 * 16 - 1, 16, 0] {
        assert!(keep(&input(&scratch, 20), format(8), memory_bytes).unwrap().is_none(), "{memory_bytes}");
    }
}

#[test]
fn a_file_without_a_picture_is_kept_as_none() {
    let scratch = Scratch::new("frames-none");
    assert_eq!(keep(&input(&scratch, 0), format(8), 1_000).unwrap().map(|kept| kept.len()), Some(0));
}
