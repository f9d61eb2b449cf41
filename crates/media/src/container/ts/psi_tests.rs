use super::*;
use crate::container::ts::Packet;
use proptest::prelude::*;

fn pmt(streams: u16) -> Pmt {
    let opus = vec![0x05, 4, b'O', b'p', b'u', b's', 0x7f, 2, 0x80, 2, 0x0a, 4, b'd', b'e', b'u', 0];
    let mut all = vec![ElementaryStream::new(0x100, 0x1b, Vec::new())];
    all.extend((1..streams).map(|k| ElementaryStream::new(0x100 + k, 0x06, opus.clone())));
    Pmt { program_number: 1, version: 3, current: true, pcr_pid: 0x100, streams: all }
}

fn sections(packets: &[u8]) -> Vec<Vec<u8>> {
    let (mut reader, mut out) = (SectionReader::new(), Vec::new());
    for bytes in crate::container::ts::packet::packets(packets) {
        let packet = Packet::parse(bytes).unwrap();
        reader.push(packet.payload, packet.unit_start, &mut |section, _| out.push(section.to_vec()));
    }
    out
}

#[test]
fn a_pat_has_the_known_checksum() {
    // The PAT that FFmpeg writes for one program with its PMT on PID 0x1000.
    let expected = [0, 0xb0, 0x0d, 0, 1, 0xc1, 0, 0, 0, 1, 0xf0, 0, 0x2a, 0xb1, 0x04, 0xb2];
    let pat = Pat { transport_stream_id: 1, version: 0, current: true, programs: vec![(1, 0x1000)] };
    let mut section = Vec::new();
    pat.write(&mut section);
    assert_eq!(section, expected);
    assert_eq!(Pat::parse(&section), Ok(pat));
    section[9] ^= 1;
    assert!(matches!(Pat::parse(&section), Err(Error::Crc { .. })));
}

#[test]
fn opus_is_known_by_its_descriptors() {
    let stream = &pmt(2).streams[1];
    assert_eq!((stream.codec, stream.opus_channels), (Some(Codec::Opus), Some(2)));
    assert_eq!(stream.language, Some(*b"deu"));
    assert!(stream.is_audio() && !stream.is_video());
}

#[test]
fn what_is_not_looked_into_has_a_name_and_is_no_sound() {
    let stream =
        |stream_type, descriptors: &[u8]| ElementaryStream::new(0x100, stream_type, descriptors.to_vec());
    for (stream_type, descriptors, name) in [
        (0x06, &b"\x56\x05deu\x09\0"[..], "teletext"),
        (0x06, b"\x59\x08deu\x10\0\x01\0\x01", "DVB subtitles"),
        (0x06, b"\x05\x04KLVA", "KLV metadata"),
        (0x15, b"\x26\x0d\xff\xffID3 \xffID3 \0\x0f", "ID3 metadata"),
        (0x86, b"", "SCTE 35 cues"),
    ] {
        let stream = stream(stream_type, descriptors);
        assert_eq!(stream.format_name(), Some(name));
        assert!(!stream.is_audio() && !stream.is_video(), "{name}");
    }
    assert!(stream(0x86, b"\x05\x08HDMV\xff\x86\x01\0").is_audio());
    assert!(stream(0x06, &[0x56, 5, 0, 0, 0, 0, 0]).is_subtitles());
    assert_eq!(stream(0x06, b"\x05\x02AV").format_name(), None);
}

#[test]
fn he_aac_is_known_by_its_descriptors() {
    let said = |stream_type, descriptors: &[u8]| {
        ElementaryStream::new(0x101, stream_type, descriptors.to_vec()).he_aac
    };
    let version = |parametric_stereo| Some(HeAac { parametric_stereo, rate_max_hz: 48_000 });
    assert_eq!(said(0x0f, b"\x0a\x04deu\0\x1c\x01\x2c"), version(false));
    assert_eq!(said(0x0f, b"\x7c\x01\x31"), version(true));
    assert_eq!(said(0x11, b"\x7c\x03\x2e\x80\x03"), version(false));
    // AAC as it is, a descriptor that is cut off, and one of other sound.
    assert_eq!(said(0x0f, b"\x1c\x01\x29"), None);
    assert_eq!(said(0x0f, b"\x1c\x00"), None);
    assert_eq!(said(0x03, b"\x1c\x01\x2c"), None);
}

proptest! {
    #[test]
    fn tables_survive_packets(streams in 1u16..40) {
        let pmt = pmt(streams);
        let (mut section, mut packets, mut continuity) = (Vec::new(), Vec::new(), 14);
        pmt.write(&mut section);
        write_packets(0x1000, &section, &mut continuity, &mut packets);
        prop_assert_eq!(packets.len() % PACKET_BYTES, 0);
        let found = sections(&packets);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(Pmt::parse(&found[0]), Ok(pmt));
    }

    #[test]
    fn hostile_sections_do_no_harm(
        payloads in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..184), any::<bool>()), 0..30),
    ) {
        let mut reader = SectionReader::new();
        for (payload, start) in payloads {
            reader.push(&payload, start, &mut |section, _| {
                assert!(section.len() <= SECTION_MAX_BYTES);
                let _ = (Pat::parse(section), Pmt::parse(section));
            });
        }
    }
}
