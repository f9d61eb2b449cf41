//! Pictures that no codec and no error reproduces by chance.

/// A y4m stream of `count` pictures of noise, and the samples of each as they lie in it. `head` is the header without its first
/// word; `plane_bytes` are those of a picture, of samples of `depth_bits`, which take two bytes where they are more than 8.
pub fn y4m(head: &str, plane_bytes: usize, depth_bits: u32, count: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut bytes = format!("YUV4MPEG2 {head}\n").into_bytes();
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut pictures = Vec::new();
    for _ in 0..count {
        let sample = |index: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let is_high = depth_bits > 8 && index % 2 == 1;
            let mask = if is_high { (1u32 << (depth_bits - 8)) - 1 } else { 0xFF };
            (state >> 56) as u8 & mask as u8
        };
        let picture: Vec<u8> = (0..plane_bytes).map(sample).collect();
        bytes.extend(b"FRAME\n");
        bytes.extend(&picture);
        pictures.push(picture);
    }
    (bytes, pictures)
}
