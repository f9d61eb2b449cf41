//! What upstream servers may answer while an object is fetched, over several exchanges.
//!
//! The first byte: bit 0 asks about what is known already, bit 1 says that it may be given where nothing better comes, bit 2
//! that it is known by its time. Behind it come answers, each behind two bytes that say how long it is.

use glassline_delivery::fill::{Download, Validator, Verdict};
use glassline_delivery::http1::client::{Event, Request};
use glassline_delivery::http1::{Limits, Method};

/// The longest that the fields of a request may be: servers take 8 kB of a head.
const FIELDS_BYTES_MAX: usize = 4096;

/// Panics where an object begins twice or goes on at another place than where it broke off, where it is put together
/// without a strong tag, and where a request's fields are more than fields.
pub fn run(data: &[u8]) {
    let Some((&choice, mut answers)) = data.split_first() else { return };
    let known = (choice & 1 == 1).then(|| match choice & 4 {
        0 => Validator::Tag("\"7\"".to_owned()),
        _ => Validator::Modified("Tue, 24 Nov 2026 10:00:00 GMT".to_owned()),
    });
    let mut download = Download::new(known.clone()).with_spare(choice & 2 == 2);
    while let [high, low, behind @ ..] = answers {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(behind.len());
        let (mut answer, behind) = behind.split_at(length);
        answers = behind;
        let mut request = Request::new(Method::Get, "host", "/");
        let fields = download.request_fields();
        assert!(fields.iter().map(|(_, value)| value.len()).sum::<usize>() <= FIELDS_BYTES_MAX);
        for (name, value) in &fields {
            assert!(!value.contains(['\r', '\n']), "{name}: {value:?}");
            request = request.with_header(name, value);
        }
        let before = (download.has_begun(), download.filled());
        let mut client = request.client(Limits::DEFAULT);
        let mut skip = 0;
        while let Ok(Some(event)) = client.next(&mut answer) {
            match event {
                Event::Head(head) => match download.handle_head(&head) {
                    Verdict::Begin(kept, _) => {
                        assert!(
                            !before.0 && download.has_begun() && download.filled() == 0,
                            "it begins once"
                        );
                        assert!(kept.fields().all(|(name, _)| !name.eq_ignore_ascii_case("connection")));
                    }
                    Verdict::Resume { skip: told } => {
                        let strong = head.headers.first("etag").is_some_and(|tag| tag.starts_with('"'));
                        assert!(
                            before.0 && strong && (told == 0 || told == before.1),
                            "{told} of {before:?}"
                        );
                        skip = told;
                    }
                    Verdict::NotModified => {
                        assert!(known.is_some() && !before.0);
                        return;
                    }
                    Verdict::TryNext => break,
                    Verdict::Fail(_) => return,
                },
                Event::Data(data) => {
                    let passed = skip.min(data.len() as u64);
                    skip -= passed;
                    download.took(data.len() as u64 - passed);
                }
                Event::End => break,
            }
        }
        assert!(download.filled() >= before.1, "what is there stays");
        if download.is_whole() || !download.can_resume() {
            return;
        }
    }
}
