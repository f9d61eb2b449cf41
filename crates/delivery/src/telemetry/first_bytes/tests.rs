use super::*;
use proptest::prelude::*;

const HALF: Duration = Duration::from_millis(500);

fn secs(seconds: u64) -> Time {
    Time::from_millis(seconds * 1000)
}

fn begun(path: &str) -> Begun<'_> {
    Begun { path, query: "", source: 0, is_made_here: false, was_waited_for: false, is_refusal: false }
}

fn waited(path: &str) -> Begun<'_> {
    Begun { was_waited_for: true, ..begun(path) }
}

fn summary(of: &FirstBytes, name: &str, now: Time) -> Summary {
    let mut summary = Summary::new(now);
    of.add_to(name, &mut summary);
    summary
}

#[test]
fn requests_are_counted_by_name_source_and_kind() {
    let mut all = FirstBytes::default();
    all.record(&begun("/live/a/index.m3u8"), Duration::ZERO, secs(1));
    all.record(&Begun { source: 3, ..waited("/live/a/video/7.m4s") }, HALF, secs(2));
    all.record(&begun("/live/b/video/7.m4s"), Duration::ZERO, secs(3));
    all.record(&begun("/elsewhere/7.m4s"), Duration::ZERO, secs(3));
    let names: Vec<_> = all.names(secs(5), 1).collect();
    assert_eq!(names, [(OTHER_NAME, 1), ("a", 2), ("b", 1)]);
    let window = summary(&all, "a", secs(5)).newest(1);
    assert_eq!((window.requests(), window.ready.total(), window.awaited.total()), (2, 2, 0));
    assert_eq!((window.by_source[0], window.by_source[3]), (1, 1));
    assert_eq!(window.by_kind, [1, 0, 1, 0, 0]);
}

#[test]
fn what_is_not_made_yet_is_counted_apart() {
    let reload = |was_waited_for| Begun {
        query: "_HLS_msn=7&_HLS_part=2",
        was_waited_for,
        ..begun("/live/a/video.m3u8")
    };
    for (begun, is_awaited) in [
        (reload(true), true),
        (reload(false), false),
        (waited("/live/a/video/7.3.m4s"), true),
        (begun("/live/a/video/7.3.m4s"), false),
        (waited("/live/a/video.m3u8"), false),
        (waited("/live/a/video/7.m4s"), false),
        (Begun { is_made_here: true, ..waited("/live/a/video/7.m4s") }, true),
    ] {
        let mut all = FirstBytes::default();
        all.record(&begun, HALF, secs(1));
        let window = summary(&all, "a", secs(1)).newest(1);
        assert_eq!(window.awaited.total(), u64::from(is_awaited), "{begun:?}");
        assert_eq!(window.awaited_by_kind.iter().sum::<u32>(), u32::from(is_awaited), "{begun:?}");
        assert_eq!(window.ready.total() + window.awaited.total(), window.requests(), "{begun:?}");
    }
}

#[test]
fn windows_have_their_place_in_time_and_old_ones_go() {
    let mut all = FirstBytes::default();
    for second in [5, 15, 16, 45] {
        all.record(&begun("/live/a/1.m4s"), Duration::ZERO, secs(second));
    }
    let counts = |now| -> Vec<u64> {
        let summary = summary(&all, "a", now);
        summary.windows().map(|window| window.map_or(0, Window::requests)).collect()
    };
    let now = counts(secs(47));
    assert_eq!((now.len(), &now[56..]), (WINDOWS, &[1, 2, 0, 0, 1][..]));
    let later = counts(secs(610));
    assert_eq!((later.iter().sum::<u64>(), &later[..4]), (3, &[2, 0, 0, 1][..]));
    assert_eq!(counts(secs(10_000)).iter().sum::<u64>(), 0);
    assert_eq!((all.names(secs(640), 1).count(), all.names(secs(660), 1).count()), (1, 0));
    assert_eq!(all.names(secs(47), 6).next(), Some(("a", 4)));
}

#[test]
fn the_time_of_a_rate_is_that_since_it_was_first_asked_for() {
    let mut all = FirstBytes::default();
    all.record(&begun("/live/a/1.m4s"), Duration::ZERO, secs(103));
    let covered = |second| summary(&all, "a", secs(second)).covered(6).as_secs();
    assert_eq!((covered(103), covered(107), covered(152), covered(203)), (1, 4, 49, 53));
}

#[test]
fn the_name_that_was_asked_for_longest_ago_goes() {
    let mut all = FirstBytes::default();
    let ask = |all: &mut FirstBytes, name: usize, second| {
        all.record(&begun(&format!("/live/s{name}/1.m4s")), Duration::ZERO, secs(second));
    };
    (0..NAMES).for_each(|name| ask(&mut all, name, name as u64));
    ask(&mut all, 0, 300);
    ask(&mut all, NAMES, 301);
    assert_eq!(all.names.len(), NAMES);
    assert!(all.names.contains_key("s0") && !all.names.contains_key("s1"));
}

#[test]
fn refusals_and_what_is_no_name_make_none() {
    let mut all = FirstBytes::default();
    let refusal = Begun { is_refusal: true, ..begun("/live/a/1.m4s") };
    all.record(&refusal, HALF, secs(1));
    all.record(&begun("/live/%20/1.m4s"), HALF, secs(1));
    assert_eq!(all.names(secs(1), 1).collect::<Vec<_>>(), [(OTHER_NAME, 2)]);
    all.record(&begun("/live/a/1.m4s"), HALF, secs(1));
    all.record(&refusal, HALF, secs(1));
    assert_eq!(all.names(secs(1), 1).last(), Some(("a", 2)));
}

#[test]
fn memory_is_what_the_documents_say() {
    assert_eq!(size_of::<Window>(), 664);
    let mut all = FirstBytes::default();
    for second in 0..2000 {
        all.record(&begun("/live/a/1.m4s"), Duration::ZERO, secs(second));
    }
    let windows = &all.names["a"].windows;
    assert_eq!(windows.len(), WINDOWS);
    assert!(windows.capacity() * size_of::<(u64, Window)>() <= 43_008 + 1024);
}

proptest! {
    /// However requests are spread over workers, all together tell the same.
    #[test]
    fn workers_add_up(requests in proptest::collection::vec((0usize..4, 0usize..3, 0u64..900, 0u64..30_000_000), 1..200)) {
        let mut workers = vec![FirstBytes::default(); 4];
        let mut whole = FirstBytes::default();
        let mut requests = requests;
        requests.sort_by_key(|(_, _, second, _)| *second);
        for (worker, name, second, micros) in &requests {
            let path = format!("/live/s{name}/1.m4s");
            for room in [&mut workers[*worker], &mut whole] {
                room.record(&begun(&path), Duration::from_micros(*micros), secs(*second));
            }
        }
        let now = secs(900);
        for name in ["s0", "s1", "s2"] {
            let mut merged = Summary::new(now);
            workers.iter().for_each(|worker| worker.add_to(name, &mut merged));
            let alone = summary(&whole, name, now);
            prop_assert!(merged.windows().eq(alone.windows()));
            prop_assert_eq!(merged.newest(WINDOWS), alone.newest(WINDOWS));
            prop_assert_eq!(merged.covered(6), alone.covered(6));
            let kept = requests.iter().filter(|(_, of, second, _)| format!("s{of}") == name && *second >= 300);
            prop_assert_eq!(merged.newest(WINDOWS).requests(), kept.count() as u64);
        }
    }
}
