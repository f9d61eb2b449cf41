use glassline_measure::barcode;
use glassline_measure::pattern::Pattern;
use glassline_media::pixels::{Converter, Expander, Packer, Scan};
use glassline_media::{Chroma, FrameRate, PixelFormat, Size, Time, Utc};

#[test]
fn a_pattern_can_be_had_in_every_format_of_uncompressed_video() {
    let rate = FrameRate::new(25, 1).unwrap();
    let mut pattern = Pattern::new(Size::new(320, 180).unwrap(), rate);
    let picture = pattern.draw(3, Time::ZERO, Utc::from_micros(77));
    let code = barcode::read(&picture);
    assert!(code.top_left.is_some());
    for chroma in [Chroma::Mono, Chroma::Yuv420, Chroma::Yuv422, Chroma::Yuv444, Chroma::Rgb] {
        for depth_bits in [8, 10, 12, 16] {
            let format = PixelFormat::pgroups(chroma, depth_bits).unwrap();
            let out = Expander::new(format).expand(picture.clone());
            assert_eq!(barcode::read(&out), code, "{chroma:?} {depth_bits}");
            let sent = Packer::new().pack(&out).unwrap();
            let back = Converter::new().convert(sent, Scan::Progressive);
            assert_eq!(barcode::read(&back), code, "{chroma:?} {depth_bits}");
        }
    }
}
