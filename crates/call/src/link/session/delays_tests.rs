use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What happens to a channel's messages.
#[derive(Clone, Debug)]
enum Step {
    Sent,
    NotSent,
    Ended { of: usize, is_delivered: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Sent),
        1 => Just(Step::NotSent),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(of, is_delivered)| Step::Ended { of, is_delivered }),
    ];
    proptest::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn each_delivered_message_counts_once_by_its_number(steps in steps()) {
        let (mut meter, mut under_way, mut next) = (DelayMeter::new(), BTreeMap::new(), 0_u64);
        let (mut longest, mut any) = (0, false);
        for (at, step) in steps.into_iter().enumerate() {
            let now = Time::from_millis(at as u64 * 10);
            match step {
                Step::Sent => {
                    meter.push(now);
                    under_way.insert(next, now);
                    next += 1;
                }
                // Only the last message can turn out not to have been sent, and only before it has ended.
                Step::NotSent if next > 0 && under_way.contains_key(&(next - 1)) => {
                    meter.pop();
                    next -= 1;
                    under_way.remove(&next);
                }
                Step::NotSent => {}
                Step::Ended { of, is_delivered } => {
                    let number = of as u64 % (next + 2);
                    meter.handle_end(number, is_delivered, now);
                    if let Some(sent) = under_way.remove(&number).filter(|_| is_delivered) {
                        any = true;
                        longest = longest.max((now - sent).as_micros().max(1));
                    }
                }
            }
            // What is kept lies between the oldest that is under way and the newest.
            let oldest = under_way.keys().next().copied().unwrap_or(next);
            prop_assert!(meter.first <= oldest && meter.sent.len() as u64 == next - meter.first);
        }
        let delays = meter.take();
        prop_assert_eq!(delays.is_some(), any);
        if let Some(delays) = delays {
            let max = delays.max.as_micros();
            // Three digits are kept.
            prop_assert!(max >= longest && max <= longest + longest / 500 + 1, "{max} for {longest}");
            prop_assert!(delays.p50 <= delays.p95 && delays.p95 <= delays.p99 && delays.p99 <= delays.max);
        }
        prop_assert_eq!(meter.take(), None);
    }
}

#[test]
fn a_delay_of_nothing_is_a_microsecond() {
    let mut meter = DelayMeter::new();
    meter.push(Time::from_millis(5));
    meter.handle_end(0, true, Time::from_millis(5));
    let delays = meter.take().unwrap();
    assert_eq!((delays.p50, delays.max), (Duration::from_micros(1), Duration::from_micros(1)));
}
