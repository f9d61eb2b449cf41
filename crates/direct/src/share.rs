//! How the link's budget is shared: what goes before pictures, and what is left for them.

use crate::channels::VIDEO;
use glassline_transport::link::Event;
use std::time::Duration;

/// What is left for pictures of a budget of so many bytes within `horizon`, where sound puts so many bytes a second on the
/// same link: sound goes first, and what it will want within that time is not in the link's queue yet. What waits on channels
/// of higher priority is, and so the link's budget is without it already.
pub fn pictures_share(budget_bytes: u64, sound_bytes_per_second: u64, horizon: Duration) -> u64 {
    budget_bytes.saturating_sub((sound_bytes_per_second as f64 * horizon.as_secs_f64()) as u64)
}

/// Whether a link's event says something of pictures: what became of one, or that the peer has none of them any more.
pub fn concerns_pictures(event: &Event) -> bool {
    matches!(event, Event::Finished { channel: VIDEO, .. } | Event::Connected { again: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SOUND;
    use glassline_transport::link::{MessageId, Outcome};

    #[test]
    fn sound_goes_first_and_never_takes_more_than_there_is() {
        let horizon = Duration::from_millis(50);
        assert_eq!(pictures_share(5_000, 16_000, horizon), 4_200);
        assert_eq!([pictures_share(500, 16_000, horizon), pictures_share(500, 0, horizon)], [0, 500]);
    }

    #[test]
    fn events_of_other_channels_say_nothing_of_pictures() {
        let finished = |channel| Event::Finished { channel, message: MessageId(1), outcome: Outcome::Lost };
        assert!(concerns_pictures(&finished(VIDEO)) && !concerns_pictures(&finished(SOUND)));
        let connected = |again| Event::Connected { again };
        assert!(concerns_pictures(&connected(true)) && !concerns_pictures(&connected(false)));
    }
}
