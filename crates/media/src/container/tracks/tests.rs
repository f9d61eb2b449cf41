use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Kind, codec, size, and the codec's string (RFC 6381).
type Told = (Kind, String, Option<(u32, u32)>, Option<String>);

fn told(container: Container, header: &[u8]) -> Vec<Told> {
    let all = tracks(container, header).into_iter();
    let size = |size: Size| (size.width, size.height);
    all.map(|track| (track.kind, track.codec, track.size.map(size), track.codec_string)).collect()
}

fn expect(kind: Kind, codec: &str, size: Option<(u32, u32)>) -> Told {
    (kind, codec.into(), size, None)
}

fn tag(kind: u8, payload: &[u8]) -> Vec<u8> {
    let size = (payload.len() as u32).to_be_bytes();
    let back = (payload.len() as u32 + 11).to_be_bytes();
    [&[kind][..], &size[1..], &[0, 0, 40, 0, 0, 0, 0], payload, &back].concat()
}

fn flv(tags: &[Vec<u8>]) -> Vec<u8> {
    [b"FLV\x01\x05\0\0\0\x09\0\0\0\0".to_vec(), tags.concat()].concat()
}

fn meta(properties: &[(&str, f64)]) -> Vec<u8> {
    let mut payload = b"\x02\0\x0AonMetaData\x08\0\0\0\x05".to_vec();
    payload.extend(b"\0\x07encoder\x02\0\x03abc\0\x06stereo\x01\x01");
    for (name, value) in properties {
        payload.extend((name.len() as u16).to_be_bytes());
        payload.extend(name.as_bytes());
        payload.push(0);
        payload.extend(value.to_be_bytes());
    }
    payload.extend([0, 0, 9]);
    tag(18, &payload)
}

#[test]
fn flv_tells_by_sequence_headers_and_else_by_its_metadata() {
    let avc = tag(9, &[0x17, 0, 0, 0, 0, 1, 0x42, 0xC0, 0x1F, 0xFF]);
    let header = flv(&[meta(&[("width", 1280.0), ("height", 720.0)]), avc, tag(8, &[0xAF, 0, 0x12, 0x10])]);
    let h264 = (Kind::Video, "H.264".into(), Some((1280, 720)), Some("avc1.42C01F".into()));
    assert_eq!(told(Container::Flv, &header), [h264, expect(Kind::Audio, "AAC", None)]);

    let header = flv(&[tag(9, b"\x90av01\x81\0"), tag(8, b"\x90OpusOpusHead")]);
    let expected = [expect(Kind::Video, "AV1", None), expect(Kind::Audio, "Opus", None)];
    assert_eq!(told(Container::Flv, &header), expected);

    // No sequence headers at all; numbers that make no sense.
    let header =
        flv(&[meta(&[("videocodecid", 2.0), ("audiocodecid", 2.0), ("width", -1.0), ("height", f64::NAN)])]);
    let expected = [expect(Kind::Video, "Sorenson H.263", None), expect(Kind::Audio, "MP3", None)];
    assert_eq!(told(Container::Flv, &header), expected);
    assert_eq!(told(Container::Flv, &flv(&[])), []);
    assert_eq!(told(Container::Flv, &flv(&[tag(9, &[0x1F])])), [expect(Kind::Video, "video codec 15", None)]);
}

fn element(id: u32, payload: &[u8]) -> Vec<u8> {
    let id: Vec<u8> = id.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
    let size = (payload.len() as u64 | 1 << 28).to_be_bytes();
    [&id, &size[4..], payload].concat()
}

fn entry(kind: u8, codec: &str, more: &[u8]) -> Vec<u8> {
    let fields =
        [element(0xD7, &[kind]), element(0x83, &[kind]), element(0x86, codec.as_bytes()), more.to_vec()];
    element(0xAE, &fields.concat())
}

#[test]
fn webm_tells_by_its_tracks() {
    let size = |width: u16, height: u16| {
        let sides = [element(0xB0, &width.to_be_bytes()), element(0xBA, &height.to_be_bytes())];
        element(0xE0, &sides.concat())
    };
    let avc = [element(0x63A2, &[1, 0x64, 0, 0x28]), size(1920, 1080)].concat();
    let entries = [
        entry(1, "V_VP8", &size(320, 180)),
        entry(1, "V_MPEG4/ISO/AVC", &avc),
        entry(2, "A_OPUS", &[]),
        entry(2, "A_PCM/INT/LIT", &[]),
        entry(17, "S_TEXT/UTF8", &[]),
        entry(1, "V_\x1b[31m", &size(0, 0)),
        element(0xAE, &[]),
    ];
    for unknown in [true, false] {
        let inside = [element(0x1549_A966, &[0xEC, 0x80]), element(0x1654_AE6B, &entries.concat())].concat();
        let segment = match unknown {
            true => [&[0x18, 0x53, 0x80, 0x67, 1, 255, 255, 255, 255, 255, 255, 255][..], &inside].concat(),
            false => element(0x1853_8067, &inside),
        };
        let header = [element(0x1A45_DFA3, &element(0x4282, b"webm")), segment].concat();
        let expected = [
            expect(Kind::Video, "VP8", Some((320, 180))),
            (Kind::Video, "H.264".into(), Some((1920, 1080)), Some("avc1.640028".into())),
            expect(Kind::Audio, "Opus", None),
            expect(Kind::Audio, "PCM", None),
            expect(Kind::Other, "S_TEXT/UTF8", None),
            expect(Kind::Video, "V_[31m", None),
        ];
        assert_eq!(told(Container::WebM, &header), expected);
    }
}

fn page(flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut head = b"OggS\0".to_vec();
    head.push(flags);
    head.extend([0; 20]);
    head.extend([1, payload.len() as u8]);
    [head, payload.to_vec()].concat()
}

#[test]
fn ogg_tells_by_the_pages_that_begin_its_streams() {
    let theora =
        [b"\x80theora\x03\x02\x01\0\x14\0\x0C".as_slice(), &[0, 1, 64, 0, 0, 180], &[0; 20]].concat();
    let vp8 = [b"OVP80\x01\x01\0".as_slice(), &[1, 64, 0, 180], &[0; 14]].concat();
    let header = [
        page(2, b"fishead\0\0\0"),
        page(2, &theora),
        page(2, &vp8),
        page(2, b"\x01vorbis\0\0\0\0\x02"),
        page(2, b"OpusHead\x01\x02"),
        page(2, b"kate\0\0\x01"),
        page(0, b"\x03vorbis"),
    ]
    .concat();
    let expected = [
        expect(Kind::Video, "Theora", Some((320, 180))),
        expect(Kind::Video, "VP8", Some((320, 180))),
        expect(Kind::Audio, "Vorbis", None),
        expect(Kind::Audio, "Opus", None),
        expect(Kind::Other, "kate", None),
    ];
    assert_eq!(told(Container::Ogg, &header), expected);
}

proptest! {
    #[test]
    fn nothing_panics(start in 0..4_usize, bytes in vec(any::<u8>(), 0..300), cut in 0..300_usize) {
        let avc = tag(9, &[0x17, 0, 0, 0, 0, 1, 0x42, 0xC0, 0x1F, 0xFF]);
        let starts = [
            Vec::new(),
            flv(&[meta(&[("width", 1280.0)]), avc]),
            element(0x1853_8067, &element(0x1654_AE6B, &entry(1, "V_VP8", &[]))),
            page(2, b"OpusHead\x01\x02"),
        ];
        let mut header = [starts[start].clone(), bytes].concat();
        let kept = header.len().saturating_sub(cut);
        for container in [Container::Flv, Container::WebM, Container::Ogg] {
            tracks(container, &header);
            tracks(container, &header[..kept]);
        }
        // A byte of the good part is another one.
        if let Some(byte) = header.get_mut(cut) {
            *byte ^= 0x55;
        }
        for container in [Container::Flv, Container::WebM, Container::Ogg] {
            prop_assert!(tracks(container, &header).len() <= TRACKS_MAX);
        }
    }
}
