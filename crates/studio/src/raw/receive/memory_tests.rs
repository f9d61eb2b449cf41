use super::*;
use glassline_media::Chroma;
use glassline_media::pixels::Packer;
use glassline_transport::raw_video::Scan;
use proptest::prelude::*;

fn format(chroma: Chroma, depth: u8, width: u32, height: u32) -> Format {
    let size = Size::new(width, height).unwrap();
    Format::new(PixelFormat::planar(chroma, depth), size, Scan::Progressive).unwrap()
}

#[test]
fn memory_is_given_out_until_all_of_it_is_held_and_again_when_some_is_back() {
    for layout in [Layout::Pgroups, Layout::Planar] {
        let pool = FramePool::new(&format(Chroma::Yuv422, 8, 4, 2), layout, 2).unwrap();
        assert_eq!((pool.count(), pool.free(), pool.has_bytes()), (2, 2, true));
        let (one, two) = (pool.take().expect("room"), pool.take().expect("room"));
        assert!(pool.take().is_none() && pool.free() == 0, "{layout:?}");
        drop(one);
        assert_eq!(pool.free(), 1);
        let picture = two.into_picture(Time::ZERO);
        assert_eq!(pool.free(), 1, "a picture holds its frame's memory");
        drop(picture);
        assert_eq!(pool.free(), 2);
    }
}

#[test]
fn frames_of_nothing_are_given_without_end_and_take_no_bytes() {
    let pool = FramePool::of_nothing(&format(Chroma::Yuv422, 8, 4, 2));
    assert_eq!((pool.has_bytes(), pool.free(), pool.count()), (false, 0, 0));
    let mut frames: Vec<_> = (0..100).map(|_| pool.take().expect("they take no memory")).collect();
    frames[0].write(1_000_000, &[1; 8], None);
    assert!(frames[0].packed_mut().is_empty());
}

#[test]
fn planes_have_the_sizes_of_their_samples() {
    let pixels = PixelFormat::planar(Chroma::Yuv422, 10);
    let size = Size::new(6, 4).unwrap();
    let bytes: Vec<_> = (0..3).map(|plane| plane_bytes(pixels, size, plane)).collect();
    assert_eq!(bytes, [6 * 4 * 2, 3 * 4 * 2, 3 * 4 * 2]);
    assert_eq!(plane_bytes(pixels.to_planar(), size, 0), 48);
}

#[test]
fn only_frames_of_pgroups_lend_their_bytes() {
    let format = format(Chroma::Yuv422, 8, 4, 2);
    let lent = |layout| FramePool::new(&format, layout, 1).unwrap().take().unwrap().packed_mut().len();
    assert!(lent(Layout::Pgroups) >= format.frame_bytes());
    assert_eq!(lent(Layout::Planar), 0);
}

#[test]
fn a_picture_has_the_time_that_it_is_given_and_the_format_of_its_memory() {
    let format = format(Chroma::Yuv422, 8, 4, 2);
    let pool = FramePool::new(&format, Layout::Planar, 1).unwrap();
    let picture = pool.take().unwrap().into_picture(Time::from_millis(40));
    assert_eq!((picture.captured, picture.size()), (Time::from_millis(40), format.size()));
    assert_eq!(picture.format(), format.pixels().to_planar());
}

proptest! {
    /// Pieces in any cut make the same picture, in pgroups and in planes.
    #[test]
    fn what_is_written_piece_by_piece_is_the_frame(
        groups in prop::collection::vec(any::<[u8; 5]>(), 6), cuts in prop::collection::btree_set(1..6_usize, 0..5),
    ) {
        let format = format(Chroma::Yuv422, 10, 4, 3);
        let frame: Vec<u8> = groups.concat();
        prop_assert_eq!(frame.len(), format.frame_bytes());
        for layout in [Layout::Pgroups, Layout::Planar] {
            let unpacker = FrameUnpacker::new(format.pixels(), format.size());
            let mut unpacker = unpacker.filter(|_| layout == Layout::Planar);
            let pool = FramePool::new(&format, layout, 1).unwrap();
            let mut memory = pool.take().unwrap();
            let edges: Vec<_> = [0].into_iter().chain(cuts.iter().copied()).chain([6]).collect();
            for piece in edges.windows(2).rev() {
                let (from, to) = (piece[0] * 5, piece[1] * 5);
                memory.write(from, &frame[from..to], unpacker.as_mut());
            }
            let picture = memory.into_picture(Time::ZERO);
            let packed = match layout {
                Layout::Pgroups => picture,
                Layout::Planar => Packer::new().pack(&picture).unwrap(),
            };
            let bytes: Vec<u8> = packed.planes()[0].lines().flatten().copied().collect();
            prop_assert_eq!(&bytes, &frame, "{:?}", layout);
        }
    }
}
