//! What the containers' tests share.

use super::{Container, Error, Split, Splitter};

/// All that a splitter told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::container) struct Told {
    /// Each header, and how many marks were told before it.
    pub(in crate::container) headers: Vec<(usize, Vec<u8>)>,
    pub(in crate::container) ends: Vec<u64>,
    pub(in crate::container) joins: Vec<(u64, bool)>,
    pub(in crate::container) pictures: usize,
    pub(in crate::container) data: Vec<u8>,
    pub(in crate::container) error: Option<Error>,
}

impl Told {
    /// The joins at key frames.
    pub(in crate::container) fn key_frames(&self) -> Vec<u64> {
        self.joins.iter().filter(|(_, key_frame)| *key_frame).map(|(at, _)| *at).collect()
    }
}

/// Splits `bytes`, chopped at `cuts` again and again.
pub(in crate::container) fn split(container: Container, bytes: &[u8], cuts: &[usize]) -> Told {
    let (mut splitter, mut told) = (Splitter::new(container), Told::default());
    let (mut rest, mut cuts) = (bytes, cuts.iter().cycle());
    while !rest.is_empty() && told.error.is_none() {
        let (chop, tail) = rest.split_at((*cuts.next().expect("cycles")).clamp(1, rest.len()));
        rest = tail;
        let pushed = splitter.push(chop, &mut |split| match split {
            Split::Header(header) => told.headers.push((told.ends.len(), header.to_vec())),
            Split::RecordEnd { at } => told.ends.push(at),
            Split::Join { at, key_frame } => told.joins.push((at, key_frame)),
            Split::Picture => told.pictures += 1,
            Split::Data(data) => {
                assert!(!data.is_empty());
                told.data.extend_from_slice(data);
            }
        });
        told.error = pushed.err();
        let length = told.data.len() as u64;
        assert!(told.ends.iter().chain(told.joins.iter().map(|(at, _)| at)).all(|at| *at <= length));
        assert!(told.ends.is_sorted());
        if let Err(error) = pushed {
            assert_eq!(splitter.push(b"more", &mut |_| panic!("nothing after an error")), Err(error));
        }
    }
    told
}

/// The same in one piece.
pub(in crate::container) fn whole(container: Container, bytes: &[u8]) -> Told {
    split(container, bytes, &[bytes.len().max(1)])
}
