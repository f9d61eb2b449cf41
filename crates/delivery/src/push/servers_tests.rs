use super::*;

fn servers(count: usize) -> Servers {
    let url = |place: usize| format!("http://server{place}/live/a.ts").parse().unwrap();
    Servers::new(url(0), (1..count).map(url).collect(), &Policy::LIVE.of_several(), 7)
}

const JUST_LOST: Option<Duration> = Some(Duration::from_millis(300));

#[test]
fn each_of_the_others_is_asked_at_once_and_then_there_are_pauses() {
    let mut servers = servers(3);
    let mut asked = Vec::new();
    for _ in 0..7 {
        servers.note_silence();
        let pause = servers.go_on(JUST_LOST);
        asked.push((servers.place(), pause.is_zero()));
    }
    let expected = [(1, true), (2, true), (0, false), (1, true), (2, true), (0, false), (1, true)];
    assert_eq!(asked, expected);
}

#[test]
fn those_that_say_not_yet_are_asked_again_and_again_for_a_while_and_the_lost_one_is_left_alone() {
    let mut servers = servers(3);
    servers.begin_round();
    servers.note_silence();
    let (mut asked, mut time) = (Vec::new(), Duration::ZERO);
    while time < Duration::from_secs(1) {
        time += servers.go_on(Some(time));
        asked.push(servers.place());
        servers.note_not_yet();
    }
    assert!(asked.iter().all(|place| *place != 0), "{asked:?}");
    let of_one = asked.iter().filter(|place| **place == 1).count();
    assert!((9..=12).contains(&of_one), "each about every 100 ms: {asked:?}");
    assert!(servers.repeats());
    // It is no longer expected soon.
    let pause = servers.go_on(Some(Policy::LIVE.eager_for));
    assert!(pause >= Policy::LIVE.retry_min / 2, "{pause:?}");
}

#[test]
fn one_server_alone_is_asked_with_growing_pauses_whatever_it_says() {
    let mut servers = servers(1);
    let mut pauses = Vec::new();
    for _ in 0..6 {
        servers.note_not_yet();
        pauses.push(servers.go_on(JUST_LOST));
    }
    assert!(pauses[0] <= Policy::LIVE.retry_min && pauses[5] > Policy::LIVE.retry_max / 2, "{pauses:?}");
}

#[test]
fn all_have_to_refuse_and_what_was_said_before_a_server_carried_the_stream_is_old() {
    let no = || PushFailure::NotReached;
    let mut servers = servers(2);
    assert_eq!(servers.note_refusal(no()), Ok(()));
    servers.go_on(None);
    servers.note_silence();
    servers.go_on(None);
    assert_eq!(servers.note_refusal(no()), Ok(()), "the other one was only not reached");
    servers.go_on(None);
    servers.begin_round();
    assert_eq!(servers.note_refusal(no()), Ok(()));
    servers.go_on(None);
    assert_eq!(servers.note_refusal(no()), Err(no()));
}

#[test]
fn redirects_are_followed_for_a_while_and_the_key_is_shown_where_it_was_given_for() {
    let mut servers = servers(2);
    assert!(servers.may_show_key());
    servers.redirect("/live/b.ts").unwrap();
    assert!(servers.url().to_string() == "http://server0/live/b.ts" && servers.may_show_key());
    servers.redirect("http://server1/live/a.ts").unwrap();
    assert!(servers.may_show_key());
    for elsewhere in ["http://server1:81/live/a.ts", "http://other/live/a.ts"] {
        servers.redirect(elsewhere).unwrap();
        assert!(!servers.may_show_key(), "{elsewhere}");
    }
    assert_eq!(servers.redirect("/"), Err(DetourError::TooMany));
    servers.go_on(None);
    assert_eq!((servers.url().to_string().as_str(), servers.place()), ("http://server1/live/a.ts", 1));
    assert_eq!(servers.redirect("https://server1/live/a.ts"), Err(DetourError::NoTls));
    assert_eq!(servers.redirect("http://h:0/"), Err(DetourError::Url(UrlError::Port)));
}
