//! One rendition that a viewer follows: what it asks for next.

use super::dash::Template;
use glassline_inspect::segmented::hls::{Item, Media};
use glassline_media::Utc;
use std::collections::VecDeque;

/// Refusals of a segment after which a viewer looks where the live edge is.
const REFUSALS: u32 = 10;
/// Items that a viewer is behind before it goes to the live edge.
const BEHIND: usize = 50;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) uri: String,
    /// It may be asked for before it is there: its answer waits.
    pub(super) waits: bool,
}

/// A rendition of HLS: its playlist, and the items of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    media: Option<Media>,
    init: Option<String>,
    queue: VecDeque<(Item, bool)>,
    last: Option<(u64, u64)>,
    /// The hinted part that was asked for last.
    hinted: Option<(u64, u64)>,
    /// A hinted part that was answered 404: whether that was right the next playlist tells.
    unmet: Option<(u64, u64)>,
}

/// What became of a hint that was answered 404.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unmet {
    /// The segment ended before it.
    NeverCame,
    /// The playlist lists the part: it had to be answered.
    WasRefused,
}

impl Listed {
    /// The part that was hinted, and asked for last, was answered 404.
    pub(super) fn hint_is_unmet(&mut self) {
        self.unmet = self.hinted.take();
    }

    /// Takes the playlist as it is now. Returns what it tells of a hint that was answered 404.
    pub(super) fn update(&mut self, media: Media) -> Option<Unmet> {
        let unmet = self.unmet.and_then(|part| {
            let is_listed = media.items.iter().any(|item| item.id == part && !item.is_gap);
            let is_passed = media.next.0 > part.0;
            let told = if is_listed { Unmet::WasRefused } else { Unmet::NeverCame };
            (is_listed || is_passed).then_some(told)
        });
        self.unmet = self.unmet.filter(|_| unmet.is_none());
        if self.media.is_none() {
            self.init.clone_from(&media.init);
            // Playback begins at the newest item with which decoding can begin.
            let start = media.items.iter().rposition(|item| item.is_independent && !item.is_gap).unwrap_or(0);
            self.last = start.checked_sub(1).map(|before| media.items[before].id);
        } else if self.media.as_ref().is_some_and(|before| before.init != media.init) {
            self.init.clone_from(&media.init);
        }
        let listed = media.items.iter().filter(|item| !item.is_gap).map(|item| (item, false));
        for (item, waits) in listed.chain(media.hint.iter().map(|hint| (hint, true))) {
            if self.last.is_none_or(|last| item.id > last) {
                self.last = Some(item.id);
                self.queue.push_back((item.clone(), waits));
            }
        }
        if self.queue.len() > BEHIND {
            self.queue.drain(..self.queue.len() - 1);
        }
        self.media = Some(media);
        unmet
    }

    /// The playlist as it was last.
    pub(super) fn media(&self) -> Option<&Media> {
        self.media.as_ref()
    }

    pub(super) fn next(&mut self) -> Option<Wanted> {
        if let Some(uri) = self.init.take() {
            return Some(Wanted { uri, waits: false });
        }
        let (item, waits) = self.queue.pop_front()?;
        self.hinted = waits.then_some(item.id);
        Some(Wanted { uri: item.uri, waits })
    }
}

/// A rendition of DASH: segments by number.
#[derive(Clone, Debug)]
pub(super) struct Numbered {
    template: Template,
    init: Option<String>,
    number: Option<u64>,
    refusals: u32,
}

impl Numbered {
    pub(super) fn new(template: Template) -> Numbered {
        Numbered { init: template.init.clone(), template, number: None, refusals: 0 }
    }

    /// Takes the manifest as it is now.
    pub(super) fn update(&mut self, template: Template) {
        if template.init != self.template.init {
            // Another period: its numbers may be others.
            *self = Numbered::new(template);
        } else {
            self.template = template;
        }
    }

    /// What is asked for, or from when on.
    pub(super) fn next(&mut self, now: Utc) -> Result<Wanted, Utc> {
        if let Some(uri) = self.init.take() {
            return Ok(Wanted { uri, waits: false });
        }
        let number = *self.number.get_or_insert(self.template.number_at(now));
        let begin = self.template.begin_of(number);
        if begin > now {
            return Err(begin);
        }
        Ok(Wanted { uri: self.template.address(number), waits: false })
    }

    /// The segment came whole.
    pub(super) fn done(&mut self) {
        self.refusals = 0;
        self.number = self.number.map(|number| number.saturating_add(1));
    }

    /// It is not there.
    pub(super) fn refused(&mut self) {
        self.refusals += 1;
        if self.refusals >= REFUSALS {
            (self.refusals, self.number) = (0, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::live::Manifest;
    use glassline_inspect::segmented::hls::Playlist;

    fn media(lines: &str) -> Media {
        let text = format!(
            "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:5\n#EXT-X-MAP:URI=\"i\"\n{lines}"
        );
        let Some(Playlist::Media(media)) = Playlist::parse(&text) else { panic!("{text}") };
        media
    }

    fn part(uri: &str, more: &str) -> String {
        format!("#EXT-X-PART:DURATION=1,URI=\"{uri}\"{more}\n")
    }

    fn hint(uri: &str) -> String {
        format!("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"{uri}\"\n")
    }

    #[test]
    fn each_part_is_asked_for_once_from_an_independent_one_on() {
        let mut listed = Listed::default();
        let begin = [part("a", ",INDEPENDENT=YES"), part("b", ",INDEPENDENT=YES"), part("c", "")].concat();
        listed.update(media(&(begin.clone() + &hint("d"))));
        let asked: Vec<_> =
            std::iter::from_fn(|| listed.next()).map(|wanted| (wanted.uri, wanted.waits)).collect();
        let expected = [("i", false), ("b", false), ("c", false), ("d", true)];
        assert_eq!(asked, expected.map(|(uri, waits)| (uri.to_owned(), waits)));
        listed.update(media(&(begin + &part("d", "") + &hint("e"))));
        let again: Vec<_> = std::iter::from_fn(|| listed.next()).map(|wanted| wanted.uri).collect();
        assert_eq!(again, ["e"]);
    }

    #[test]
    fn a_segment_that_never_comes_is_given_up() {
        let text = "<MPD availabilityStartTime=\"1970-01-01T00:00:00Z\"><Period><AdaptationSet contentType=\"video\">\
                    <SegmentTemplate media=\"$Number$\" duration=\"2\"/></AdaptationSet></Period></MPD>";
        let mut numbered = Numbered::new(Manifest::parse(text).unwrap().tracks.remove(0));
        let at = |seconds: u64| Utc::from_nanos(seconds * 1_000_000_000);
        assert_eq!(numbered.next(at(10)).map(|wanted| wanted.uri), Ok("6".to_owned()));
        numbered.done();
        assert_eq!(numbered.next(at(11)), Err(at(12)));
        (0..REFUSALS).for_each(|_| numbered.refused());
        assert_eq!(numbered.next(at(20)).map(|wanted| wanted.uri), Ok("11".to_owned()));
    }
}
