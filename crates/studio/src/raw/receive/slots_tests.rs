use super::*;
use glassline_media::{Chroma, Layout, PixelFormat, Size, Time};
use glassline_transport::raw_video::{Format, Scan};

fn format() -> Format {
    let size = Size::new(4, 2).unwrap();
    Format::new(PixelFormat::planar(Chroma::Yuv422, 8), size, Scan::Progressive).unwrap()
}

/// For so many frames of 16 bytes.
fn slots(layout: Layout, frames: usize) -> Slots {
    let unpacker = FrameUnpacker::new(format().pixels(), format().size());
    let pool = FramePool::new(&format(), layout, frames).unwrap();
    Slots::new(pool, unpacker.filter(|_| layout == Layout::Planar))
}

#[test]
fn a_frame_has_the_first_slot_that_is_free() {
    let mut slots = slots(Layout::Pgroups, 4);
    assert_eq!([slots.open(), slots.open(), slots.open()], [Some(0), Some(1), Some(2)]);
    assert!(slots.take(1).is_some() && slots.take(1).is_none(), "it is given away once");
    assert_eq!([slots.open(), slots.open()], [Some(1), Some(3)]);
}

#[test]
fn no_frame_is_opened_without_memory_or_without_a_slot() {
    let mut few = slots(Layout::Pgroups, 1);
    assert_eq!((few.open(), few.free(), few.open()), (Some(0), 0, None));
    let mut many = slots(Layout::Pgroups, SLOTS + 4);
    assert!((0..SLOTS).all(|slot| many.open() == Some(slot)));
    assert_eq!((many.open(), many.free()), (None, 4));
}

#[test]
fn a_slot_that_there_is_not_has_no_frame() {
    let mut slots = slots(Layout::Pgroups, 1);
    assert!(slots.take(0).is_none() && slots.take(SLOTS).is_none());
    slots.write(0, 0, &[1; 4]);
    assert!(slots.bytes(0).is_empty());
}

#[test]
fn what_is_written_to_a_slot_is_in_its_frame_alone() {
    let mut slots = slots(Layout::Pgroups, 2);
    let (one, two) = (slots.open().unwrap(), slots.open().unwrap());
    slots.write(one, 0, &[1; 16]);
    slots.write(two, 0, &[2; 16]);
    slots.write(two, 4, &[3; 4]);
    let mut frame = |slot| {
        let picture = slots.take(slot).unwrap().into_picture(Time::ZERO);
        picture.planes()[0].lines().flatten().copied().collect::<Vec<u8>>()
    };
    assert_eq!(frame(one), [1; 16]);
    assert_eq!(frame(two), [[2; 4], [3; 4], [2; 4], [2; 4]].concat());
}

#[test]
fn the_kernel_writes_into_frames_of_pgroups_alone() {
    assert!(slots(Layout::Pgroups, 1).takes_aim());
    assert!(!slots(Layout::Planar, 1).takes_aim(), "planes are unpacked packet by packet");
    assert!(!Slots::new(FramePool::of_nothing(&format()), None).takes_aim(), "there are no bytes");
}

#[test]
fn memory_is_lent_from_its_beginning_to_its_end() {
    let mut memory: Vec<u8> = (100..120).collect();
    let mut ascending = Ascending::of(&mut memory, 50);
    assert_eq!(ascending.take(&(50..52)), [100, 101]);
    assert_eq!(ascending.take(&(52..52)), [0; 0]);
    let later = ascending.take(&(60..63));
    later.fill(0);
    assert_eq!(ascending.take(&(69..70)), [119]);
    assert_eq!(memory[8..14], [108, 109, 0, 0, 0, 113]);
}
