//! What a playlist or manifest lists of one rendition, in one form for both.

use super::hls::{ByteRange, Media};
use glassline_delivery::http1::Url;
use std::sync::Arc;
use std::time::Duration;

/// What is asked for: all of a resource, or some bytes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Where it is.
    pub url: Url,
    /// The bytes of it; `None`: all.
    pub range: Option<ByteRange>,
}

/// A segment, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Which segment, and which part of it; ascending.
    pub id: (u64, u64),
    /// It is a part, and others of its segment may follow.
    pub is_part: bool,
    /// Where it is.
    pub at: Address,
    /// The initialisation segment that holds for it.
    pub init: Option<Arc<Address>>,
    /// How long it lasts.
    pub duration: Duration,
    /// Decoding can begin with it.
    pub is_independent: bool,
    /// The server says that it has not got it.
    pub is_gap: bool,
    /// Which of the timelines it belongs to that the server tells apart.
    pub timeline: u64,
}

/// When to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Again {
    /// After so long.
    After(Duration),
    /// At once, at this address: the server waits with its answer until there is news. One that answers without news is
    /// asked again after a pause.
    At(Url),
}

/// What there is of a rendition now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// In order.
    pub objects: Vec<Object>,
    /// Nothing comes any more.
    pub has_ended: bool,
    /// After so long without news something is missing: half as long again as a segment may last, or what a part may.
    pub patience: Duration,
    /// When to look again.
    pub again: Again,
}

/// How often a playlist of parts is loaded where the server does not wait, or waits for nothing.
pub(super) const PARTS_AGAIN: Duration = Duration::from_millis(250);
/// The shortest and longest time between two looks at another one.
const AGAIN: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];

impl Listing {
    /// What a playlist lists that is asked for at `own`, and was found at `url`. Items with an address that is none are gaps.
    pub fn of_hls(media: &Media, own: &Url, url: &Url) -> Listing {
        let mut init: Option<(Arc<super::hls::Init>, Option<Arc<Address>>)> = None;
        let mut objects = Vec::with_capacity(media.items.len());
        for item in &media.items {
            if let Some(wanted) = &item.init
                && init.as_ref().is_none_or(|(known, _)| !Arc::ptr_eq(known, wanted))
            {
                let address = url.redirected(&wanted.uri).ok();
                let address = address.map(|url| Arc::new(Address { url, range: wanted.range }));
                init = Some((Arc::clone(wanted), address));
            }
            let known = url.redirected(&item.uri).ok();
            objects.push(Object {
                id: item.id,
                is_part: media.next.1.is_some(),
                is_gap: item.is_gap || known.is_none(),
                at: Address { url: known.unwrap_or_else(|| url.clone()), range: item.range },
                init: item.init.as_ref().and(init.as_ref()).and_then(|(_, address)| address.clone()),
                duration: item.duration,
                is_independent: item.is_independent,
                timeline: item.discontinuity,
            });
        }
        let has_parts = media.next.1.is_some();
        let patience = match media.part_target.filter(|_| has_parts) {
            Some(part) => part,
            None => media.target.saturating_add(media.target / 2),
        };
        let again = if media.can_block && !media.has_ended {
            let (segment, part) = media.next;
            let part = part.map(|part| format!("&_HLS_part={part}")).unwrap_or_default();
            let separator = if own.target().contains('?') { '&' } else { '?' };
            Again::At(own.at(&format!("{}{separator}_HLS_msn={segment}{part}", own.target())))
        } else if has_parts {
            Again::After(PARTS_AGAIN)
        } else {
            let [least, most] = AGAIN;
            Again::After((media.target / 3).clamp(least, most))
        };
        Listing { objects, has_ended: media.has_ended, patience, again }
    }
}
