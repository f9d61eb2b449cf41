//! What each picture of a stream becomes: a key frame, a long-term reference, or neither.
//!
//! ```text
//! role() ─► quantizer(role, …), request(role, …) ─► encode ─► is_cut(…) ─┬► false ─► encoded(role) ─► role() …
//!                                                     ▲                  └► true: as Role::Key ┐
//!                                                     └────────────────────────────────────────┘
//! ```
//! A frame that many others are predicted from is worth more bits than its neighbours: what stands still behind it
//! inherits its quality for nothing. So key frames, and every so often a frame that replaces the golden one, are coded
//! finer. Golden is a longer memory than the last frame as well: what a moving object uncovers is found there, and
//! a receiver that lost a frame, but holds golden, needs no key frame.
//!
//! Behind a cut nothing can be predicted. A frame that found that out is coded again as a key frame: a viewer can join
//! there, and it is as fine as key frames are.

use super::encode::{Quality, Replace, Request, Stats, Updates};
use std::time::Duration;

/// What a picture becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A key frame: it needs no other, and replaces all references.
    Key,
    /// A frame that replaces the golden one as well, for the frames of the next [`Plan::long_term`] to look at.
    LongTerm,
    /// A frame that replaces the last one alone.
    Inter,
}

/// Decides what pictures become. It counts pictures and reads no clock.
#[derive(Clone, Debug)]
pub struct Plan {
    key_interval: Option<u64>,
    long_term: u64,
    /// Pictures since the newest key frame and since the newest long-term reference, which key frames are as well;
    /// none before the first.
    since: Option<(u64, u64)>,
}

/// How many percent of the index of other frames the quantiser of a key frame has, where the next one is far and where
/// it is near, and that of a long-term reference.
const KEY_PERCENT: u32 = 50;
const NEAR_KEY_PERCENT: u32 = 75;
const LONG_TERM_PERCENT: u32 = 70;
/// By how many percent of its index what stands still in a long-term reference is finer than the rest of it.
const STILL_PERCENT: u32 = 40;
/// The same in indices, where the size is given and not the quantiser.
const STILL_FINER: u8 = 16;
/// From one long-term reference to the next.
const LONG_TERM: Duration = Duration::from_millis(667);
/// Behind a key frame, no other is made for a cut for so many pictures: flashes are no cuts.
const CUT_DISTANCE: u64 = 8;
/// The share of macroblocks in percent that a frame predicts from its own picture, above which it shows another scene.
const CUT_PERCENT: u64 = 85;
/// The same above which the next long-term reference need not wait, and how long it waits all the same.
const NEW_PERCENT: u64 = 25;
const LEAST_LONG_TERM: u64 = 5;

impl Plan {
    /// A stream that begins, with `frames_per_s` pictures a second. `key_interval` is the number of pictures from one
    /// key frame to the next at most; without it, only the first picture and those behind cuts are key frames.
    pub fn new(frames_per_s: f64, key_interval: Option<u32>) -> Plan {
        let long_term = (LONG_TERM.as_secs_f64() * frames_per_s).round().max(2.0) as u64;
        Plan { key_interval: key_interval.map(|pictures| u64::from(pictures.max(1))), long_term, since: None }
    }

    /// Pictures from one long-term reference to the next.
    pub fn long_term(&self) -> u64 {
        self.long_term
    }

    /// What the next picture becomes.
    pub fn role(&self) -> Role {
        match self.since {
            None => Role::Key,
            Some((key, _)) if self.key_interval.is_some_and(|interval| key >= interval) => Role::Key,
            Some((_, golden)) if golden >= self.long_term => Role::LongTerm,
            Some(_) => Role::Inter,
        }
    }

    /// The quantiser index, 0 to 127, of a picture of this role, where inter frames that are no long-term references
    /// have `nominal`.
    pub fn quantizer(&self, role: Role, nominal: u8) -> u8 {
        let near = self.key_interval.is_some_and(|interval| interval < 3 * self.long_term);
        let percent = match role {
            Role::Key if near => NEAR_KEY_PERCENT,
            Role::Key => KEY_PERCENT,
            Role::LongTerm => LONG_TERM_PERCENT,
            Role::Inter => 100,
        };
        ((u32::from(nominal.min(127)) * percent + 50) / 100) as u8
    }

    /// `request` with what a picture of this role needs: whether it is a key frame, what it replaces, and by how much
    /// what stands still is finer. The quality of `request` is kept.
    pub fn request(&self, role: Role, request: Request) -> Request {
        let (golden, still_finer) = match (role, request.quality) {
            (Role::LongTerm, Quality::Quantizer(index)) => {
                (Replace::ByCurrent, (u32::from(index.min(127)) * STILL_PERCENT / 100) as u8)
            }
            (Role::LongTerm, Quality::Bytes { .. }) => (Replace::ByCurrent, STILL_FINER),
            (Role::Key | Role::Inter, _) => (Replace::Keep, 0),
        };
        let updates = Updates { last: true, golden, altref: Replace::Keep };
        Request { key_frame: role == Role::Key, updates, still_finer, ..request }
    }

    /// Whether a frame with these statistics shows another scene than the one before it. The caller then encodes it
    /// again as a key frame: against the same state, as if it had not been encoded before.
    pub fn is_cut(&self, stats: &Stats) -> bool {
        let far = self.since.is_some_and(|(key, _)| key >= CUT_DISTANCE);
        !stats.key && far && u64::from(stats.intra) * 100 > u64::from(stats.macroblocks) * CUT_PERCENT
    }

    /// Says what became of the picture. Where much of it is new, the next one is a long-term reference as soon as it
    /// may be: what has come into view is likely to stay.
    pub fn encoded(&mut self, role: Role, stats: &Stats) {
        let (key, golden) = self.since.unwrap_or_default();
        let is_new = u64::from(stats.intra) * 100 > u64::from(stats.macroblocks) * NEW_PERCENT;
        let golden = if is_new && golden >= LEAST_LONG_TERM { self.long_term } else { golden };
        self.since = Some(match role {
            Role::Key => (1, 1),
            Role::LongTerm => (key + 1, 1),
            Role::Inter => (key + 1, golden + 1),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(plan: &mut Plan, count: usize) -> String {
        let letter = |plan: &mut Plan| {
            let role = plan.role();
            plan.encoded(role, &Stats::default());
            match role {
                Role::Key => 'K',
                Role::LongTerm => 'L',
                Role::Inter => '.',
            }
        };
        (0..count).map(|_| letter(plan)).collect()
    }

    #[test]
    fn long_term_references_come_regularly_behind_key_frames() {
        // 667 ms are 4 pictures at 6 a second.
        assert_eq!(roles(&mut Plan::new(6.0, None), 14), "K...L...L...L.");
        assert_eq!(roles(&mut Plan::new(6.0, Some(7)), 16), "K...L..K...L..K.");
        assert_eq!(roles(&mut Plan::new(6.0, Some(0)), 3), "KKK");
        assert_eq!(Plan::new(30.0, None).long_term(), 20);
    }

    #[test]
    fn a_cut_is_a_frame_of_intra_macroblocks_not_too_near_a_key_frame() {
        let mut plan = Plan::new(30.0, None);
        let stats = |intra| Stats { intra, macroblocks: 100, ..Stats::default() };
        assert!(!plan.is_cut(&stats(100)), "nothing was there before");
        roles(&mut plan, 7);
        assert!(!plan.is_cut(&stats(100)), "a flash");
        roles(&mut plan, 1);
        assert!(plan.is_cut(&stats(100)) && plan.is_cut(&stats(86)));
        assert!(!plan.is_cut(&stats(85)));
        assert!(!plan.is_cut(&Stats { key: true, ..stats(100) }));
        plan.encoded(Role::Key, &stats(100));
        assert!(!plan.is_cut(&stats(100)));
    }

    #[test]
    fn much_that_is_new_brings_a_long_term_reference() {
        let mut plan = Plan::new(30.0, None);
        let much = Stats { intra: 30, macroblocks: 100, ..Stats::default() };
        assert_eq!(roles(&mut plan, 4), "K...");
        plan.encoded(Role::Inter, &much);
        assert_eq!(roles(&mut plan, 2), "..", "too near");
        plan.encoded(Role::Inter, &much);
        assert_eq!(roles(&mut plan, 22), "L...................L.");
    }

    #[test]
    fn what_others_look_at_is_finer() {
        let indices = |interval| {
            let plan = Plan::new(30.0, interval);
            [Role::Key, Role::LongTerm, Role::Inter].map(|role| plan.quantizer(role, 51))
        };
        assert_eq!((indices(None), indices(Some(300))), ([26, 36, 51], [26, 36, 51]));
        assert_eq!(indices(Some(30)), [38, 36, 51], "what is soon replaced is worth less");
        let request = |role| Plan::new(30.0, None).request(role, Request::default());
        assert_eq!(request(Role::Inter), Request::default());
        assert_eq!(request(Role::LongTerm).updates.golden, Replace::ByCurrent);
        assert_eq!(request(Role::LongTerm).still_finer, 16);
        assert!(request(Role::Key).key_frame && !request(Role::LongTerm).key_frame);
    }
}
