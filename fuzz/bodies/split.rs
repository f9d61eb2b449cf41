//! FLV, WebM and Ogg from a hostile publisher.
//!
//! The first byte chooses the container, and how the rest is chopped.

use glassline_media::container::split::{Container, Error, HEADER_MAX_BYTES, Split, Splitter};

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, wire)) = data.split_first() else { return };
    let container = [Container::Flv, Container::WebM, Container::Ogg][usize::from(choice % 3)];
    let (whole, chopped) =
        (split(container, wire, wire.len().max(1)), split(container, wire, 1 + usize::from(choice)));
    let kind = |error: Option<Error>| error.map(|error| std::mem::discriminant(&error));
    assert_eq!((whole.0, kind(whole.1)), (chopped.0, kind(chopped.1)), "any chop tells the same");
}

/// Where records end and viewers may join, and the error.
fn split(container: Container, wire: &[u8], chop: usize) -> (Vec<(u64, u8)>, Option<Error>) {
    let (mut splitter, mut marks, mut got, mut first_header) =
        (Splitter::new(container), Vec::new(), 0u64, None);
    for part in wire.chunks(chop) {
        let mut told_up_to = 0;
        let pushed = splitter.push(part, &mut |split| match split {
            Split::Header(header) => {
                assert!(header.len() <= HEADER_MAX_BYTES);
                first_header.get_or_insert(header.len() as u64);
            }
            Split::RecordEnd { at } => {
                told_up_to = at;
                marks.push((at, 0));
            }
            Split::Join { at, key_frame } => {
                told_up_to = told_up_to.max(at);
                marks.push((at, 1 + u8::from(key_frame)));
            }
            Split::Picture => {}
            Split::Data(data) => got += data.len() as u64,
        });
        assert!(told_up_to <= got, "marks lie in what was given");
        assert!(first_header.unwrap_or(0) + got <= wire.len() as u64);
        if let Err(error) = pushed {
            return (marks, Some(error));
        }
    }
    assert!(first_header.is_none_or(|header| header + got == wire.len() as u64), "nothing is lost");
    (marks, None)
}
