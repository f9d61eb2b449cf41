//! Bodies of text, smaller: content codings (RFC 9110 §8.4.1).

use super::{Headers, preferred_coding};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

/// What a smaller body is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// It is made for one client: some 5 to 10 ns a byte.
    Once,
    /// It is made once for all requests that want it: some 10 to 20 ns a byte.
    Shared,
    /// It is made once for a long time. Of Brotli some microseconds a byte.
    Best,
}

impl Coding {
    /// All that are made, the one that makes text smaller first.
    pub const ALL: [Coding; 2] = [Coding::Brotli, Coding::Gzip];

    /// As HTTP calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// The one of `available` that a request with these fields wants most, if it wants one; of equal ones the first.
    pub fn wanted(headers: &Headers, available: &[Coding]) -> Option<Coding> {
        let names: Vec<_> = available.iter().map(|coding| coding.name()).collect();
        let wanted = preferred_coding(headers, &names)?;
        available.iter().copied().find(|coding| coding.name() == wanted)
    }

    /// `bytes` in this coding.
    pub fn encode(self, bytes: &[u8], effort: Effort) -> Bytes {
        match (self, effort) {
            (Coding::Brotli, Effort::Once) => brotli(bytes, 2),
            (Coding::Brotli, Effort::Shared) => brotli(bytes, 5),
            (Coding::Brotli, Effort::Best) => brotli(bytes, 11),
            (Coding::Gzip, Effort::Once) => gzip(bytes, Compression::fast()),
            (Coding::Gzip, Effort::Shared) => gzip(bytes, Compression::default()),
            (Coding::Gzip, Effort::Best) => gzip(bytes, Compression::best()),
        }
    }
}

fn gzip(bytes: &[u8], level: Compression) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("a vector takes all that is written").into()
}

fn brotli(mut bytes: &[u8], quality: i32) -> Bytes {
    let parameters = brotli::enc::BrotliEncoderParams {
        quality,
        size_hint: bytes.len(),
        ..brotli::enc::BrotliEncoderParams::default()
    };
    let mut encoded = Vec::new();
    let written = brotli::BrotliCompress(&mut bytes, &mut encoded, &parameters);
    written.expect("a vector takes all that is written");
    encoded.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    fn decode(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut decoded = Vec::new();
        match coding {
            Coding::Gzip => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut decoded).unwrap()),
            Coding::Brotli => brotli::BrotliDecompress(&mut &*bytes, &mut decoded).unwrap(),
        }
        decoded
    }

    #[test]
    fn a_playlist_becomes_much_smaller() {
        let lines = (0..40).map(|number| {
            format!(
                "#EXT-X-PART:DURATION=0.20000,URI=\"video/{}.{}.m4s\"\n",
                17000 + number / 10,
                number % 10
            )
        });
        let text = lines.collect::<String>();
        for coding in Coding::ALL {
            for effort in [Effort::Once, Effort::Shared, Effort::Best] {
                let coded = coding.encode(text.as_bytes(), effort);
                assert_eq!(decode(coding, &coded), text.as_bytes());
                assert!(
                    coded.len() * 4 < text.len(),
                    "{coding:?} {effort:?}: {} of {}",
                    coded.len(),
                    text.len()
                );
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..300), shared: bool) {
            let effort = if shared { Effort::Shared } else { Effort::Once };
            for coding in Coding::ALL {
                prop_assert_eq!(decode(coding, &coding.encode(&bytes, effort)), bytes.as_slice());
            }
        }
    }
}
