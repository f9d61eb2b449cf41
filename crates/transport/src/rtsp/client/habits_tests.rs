//! What cameras and recorders do that RFC 2326 does not say, each as a dialogue. The habits are those that users of FFmpeg,
//! GStreamer, MediaMTX, go2rtc, retina, Moonfire, ZoneMinder and other clients have reported.

use super::tests::{Play, SDP, SDP_BOTH, reply};
use super::*;

/// A dialogue: each request must have these words in it, and gets that response. `-` is none; `close` ends the connection.
struct Habit {
    name: &'static str,
    lower: Option<Lower>,
    exchanges: Vec<(&'static str, String)>,
    /// How it ends: tracks that play and how, or words of the error.
    ends: Result<(usize, Lower), &'static str>,
}

fn habit(
    name: &'static str,
    lower: Option<Lower>,
    exchanges: Vec<(&'static str, String)>,
    ends: Result<(usize, Lower), &'static str>,
) -> Habit {
    Habit { name, lower, exchanges, ends }
}

const TCP: Option<Lower> = Some(Lower::Tcp);
const UDP: Option<Lower> = Some(Lower::Udp);
const PUBLIC: &str = "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN, GET_PARAMETER";
const INTERLEAVED: &str = "Session: 7\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1";
const DATAGRAMS: &str = "Session: 7\nTransport: RTP/AVP;unicast;client_port=5000-5001;server_port=6000-6001";

fn ok(headers: &str) -> String {
    reply(200, headers, "")
}

fn described(sdp: &str) -> String {
    reply(200, "Content-Type: application/sdp\nContent-Base: rtsp://cam:8554/live/", sdp)
}

/// OPTIONS and DESCRIBE as they should be.
fn begun(sdp: &str) -> Vec<(&'static str, String)> {
    vec![("OPTIONS rtsp://cam:8554/live ", ok(PUBLIC)), ("DESCRIBE rtsp://cam:8554/live ", described(sdp))]
}

fn with(
    mut first: Vec<(&'static str, String)>,
    more: Vec<(&'static str, String)>,
) -> Vec<(&'static str, String)> {
    first.extend(more);
    first
}

/// Of how requests are answered.
fn habits_of_answers() -> Vec<Habit> {
    let played = || ("PLAY rtsp://cam:8554/live/ ", ok("Session: 7"));
    vec![
        habit(
            "OPTIONS is refused, and all else works",
            TCP,
            vec![
                ("OPTIONS", reply(405, "", "")),
                ("DESCRIBE", described(SDP)),
                ("SETUP rtsp://cam:8554/live/trackID=1 ", ok(INTERLEAVED)),
                played(),
            ],
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "responses have no CSeq",
            TCP,
            with(begun(SDP), vec![("SETUP", ok(INTERLEAVED).replace("CSeq: {n}\r\n", "")), played()]),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "responses always have the CSeq 1",
            TCP,
            with(begun(SDP), vec![("SETUP", ok(INTERLEAVED).replace("{n}", "1")), played()]),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "lines end with a line feed alone, and the reason is missing",
            TCP,
            with(
                begun(SDP),
                vec![("SETUP", ok(INTERLEAVED).replace("\r\n", "\n").replace(" Reason", "")), played()],
            ),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "a range is refused for a live stream",
            TCP,
            with(
                begun(SDP),
                vec![("SETUP", ok(INTERLEAVED)), ("Range: npt=0.000-", reply(457, "", "")), ("PLAY", ok(""))],
            ),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "the session comes with spaces around its timeout",
            TCP,
            with(
                begun(SDP),
                vec![
                    ("SETUP", ok("Session: 7 ; timeout = 30\nTransport: RTP/AVP/TCP;interleaved=0-1")),
                    ("Session: 7\r\n", ok("")),
                ],
            ),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "sound is offered and refused at SETUP",
            TCP,
            with(
                begun(SDP_BOTH),
                vec![("trackID=1 ", ok(INTERLEAVED)), ("trackID=2 ", reply(404, "Session: 7", "")), played()],
            ),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "the connection closes behind a refusal",
            TCP,
            with(begun(SDP), vec![("SETUP", "close".to_owned())]),
            Err("closed the connection"),
        ),
        habit(
            "a path that does not exist",
            TCP,
            vec![("OPTIONS", ok(PUBLIC)), ("DESCRIBE", reply(404, "", ""))],
            Err("answers DESCRIBE with 404"),
        ),
    ]
}

/// Of the header `Transport`.
fn habits_of_transport() -> Vec<Habit> {
    let played = || ("PLAY rtsp://cam:8554/live/ ", ok("Session: 7"));
    vec![
        habit(
            "datagrams are refused with 461",
            None,
            with(
                begun(SDP),
                with(
                    vec![("RTP/AVP;unicast;client_port=5000-5001", reply(461, "", ""))],
                    with(
                        begun(SDP),
                        vec![("RTP/AVP/TCP;unicast;interleaved=0-1", ok(INTERLEAVED)), played()],
                    ),
                ),
            ),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "interleaved packets are the answer to datagrams asked for",
            None,
            with(begun(SDP), vec![("client_port", ok(INTERLEAVED)), played()]),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "no server_port in the answer",
            UDP,
            with(
                begun(SDP),
                vec![
                    ("client_port", ok("Session: 7\nTransport: RTP/AVP/UDP;unicast;client_port=5000-5001")),
                    played(),
                ],
            ),
            Ok((1, Lower::Udp)),
        ),
        habit(
            "no Transport in the answer at all",
            TCP,
            with(begun(SDP), vec![("SETUP", ok("Session: 7")), played()]),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "a comma in front of the SSRC",
            UDP,
            with(begun(SDP), vec![("client_port", ok(&format!("{DATAGRAMS},ssrc=FFFFCCCC"))), played()]),
            Ok((1, Lower::Udp)),
        ),
        habit(
            "other channels than those asked for",
            TCP,
            with(
                begun(SDP_BOTH),
                vec![
                    ("interleaved=0-1", ok("Session: 7\nTransport: RTP/AVP/TCP;interleaved=8-9")),
                    ("interleaved=2-3", ok("Session: 7\nTransport: RTP/AVP/TCP;interleaved=10-11")),
                    played(),
                ],
            ),
            Ok((2, Lower::Tcp)),
        ),
        habit(
            "the same channels for both tracks",
            TCP,
            with(
                begun(SDP_BOTH),
                vec![("interleaved=0-1", ok(INTERLEAVED)), ("interleaved=2-3", ok(INTERLEAVED)), played()],
            ),
            Ok((2, Lower::Tcp)),
        ),
        habit(
            "multicast is the answer to unicast asked for",
            None,
            with(
                begun(SDP),
                with(
                    vec![(
                        "client_port",
                        ok("Session: 7\nTransport: RTP/AVP;multicast;destination=239.1.2.3;port=5000-5001"),
                    )],
                    // The session that has begun is given back.
                    with(
                        vec![("TEARDOWN", "-".to_owned())],
                        with(begun(SDP), vec![("TCP", ok(INTERLEAVED)), played()]),
                    ),
                ),
            ),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "datagrams although the connection was asked for",
            TCP,
            with(begun(SDP), vec![("interleaved=0-1", ok(DATAGRAMS))]),
            Err("a transport that was not asked for"),
        ),
    ]
}

/// Of descriptions and addresses.
fn habits_of_descriptions() -> Vec<Habit> {
    let played = |uri: &'static str| (uri, ok(""));
    let plain = |sdp: &str| reply(200, "", sdp);
    vec![
        habit(
            "no a=control",
            TCP,
            vec![
                ("OPTIONS", ok("")),
                ("DESCRIBE", plain("m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n")),
                ("SETUP rtsp://cam:8554/live ", ok(INTERLEAVED)),
                played("PLAY rtsp://cam:8554/live "),
            ],
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "absolute controls with the host that the camera knows itself by",
            TCP,
            vec![
                ("OPTIONS", ok("")),
                (
                    "DESCRIBE",
                    plain(
                        "v=0\r\na=control:rtsp://192.168.0.60/m/\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:rtsp://192.168.0.60/m/video\r\n",
                    ),
                ),
                ("SETUP rtsp://cam:8554/m/video ", ok(INTERLEAVED)),
                played("PLAY rtsp://cam:8554/m/ "),
            ],
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "a Content-Base without a scheme, and a= lines that no grammar knows",
            TCP,
            vec![
                ("OPTIONS", ok("")),
                (
                    "DESCRIBE",
                    reply(
                        200,
                        "Content-Base: 192.168.1.57:8086/",
                        &format!("o=- x\r\nc=IN\r\n{SDP}\r\na=\r\nhello"),
                    ),
                ),
                ("SETUP rtsp://cam:8554/live/trackID=1 ", ok(INTERLEAVED)),
                played("PLAY rtsp://cam:8554/live "),
            ],
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "sound that MPEG-TS does not carry, and metadata",
            TCP,
            with(
                begun(&format!(
                    "{SDP}m=audio 0 RTP/AVP 9\r\na=control:trackID=2\r\nm=application 0 RTP/AVP 107\r\na=rtpmap:107 vnd.onvif.metadata/90000\r\n"
                )),
                vec![("SETUP", ok(INTERLEAVED)), played("PLAY")],
            ),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "the way back to the camera is described as a track",
            TCP,
            with(
                begun(&format!(
                    "{SDP}a=recvonly\r\nm=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/16000\r\na=sendonly\r\na=control:trackID=9\r\n"
                )),
                vec![("SETUP rtsp://cam:8554/live/trackID=1 ", ok(INTERLEAVED)), played("PLAY")],
            ),
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "nothing that is known",
            TCP,
            vec![("OPTIONS", ok("")), ("DESCRIBE", plain("m=video 0 RTP/AVP 26\r\n"))],
            Err("JPEG has no place in MPEG-TS"),
        ),
        habit(
            "a page of HTML in place of a description",
            TCP,
            vec![("OPTIONS", ok("")), ("DESCRIBE", plain("<html>hello</html>"))],
            Err("no section"),
        ),
        habit(
            "another address is given, of the same server",
            TCP,
            vec![
                ("OPTIONS", ok("")),
                ("DESCRIBE", reply(302, "Location: rtsp://cam:8554/other", "")),
                ("OPTIONS rtsp://cam:8554/other ", ok("")),
                ("DESCRIBE rtsp://cam:8554/other ", plain(SDP)),
                ("SETUP rtsp://cam:8554/other/trackID=1 ", ok(INTERLEAVED)),
                played("PLAY"),
            ],
            Ok((1, Lower::Tcp)),
        ),
        habit(
            "it leads to itself for ever",
            TCP,
            (0..6)
                .flat_map(|_| {
                    [("OPTIONS", ok("")), ("DESCRIBE", reply(301, "Location: rtsp://cam:8554/live", ""))]
                })
                .collect(),
            Err("again and again"),
        ),
    ]
}

#[test]
fn habits_of_cameras_are_played() {
    let all = [habits_of_answers(), habits_of_transport(), habits_of_descriptions()].concat_all();
    assert!(all.len() >= 20);
    for Habit { name, lower, exchanges, ends } in all {
        let mut play = Play::new(lower, None);
        for (words, response) in &exchanges {
            let request = play
                .next_request()
                .unwrap_or_else(|| panic!("{name}: no request for {words:?}; {:?}", play.session.phase()));
            assert!(request.contains(words), "{name}: {words:?} is not in {request:?}");
            match response.as_str() {
                "-" => {}
                "close" => play.session.handle_end(),
                _ => play.answer(response),
            }
        }
        assert_eq!(play.next_request(), None, "{name}");
        match ends {
            Ok((tracks, lower)) => {
                assert!(
                    matches!(play.session.phase(), Phase::Playing(_)),
                    "{name}: {:?}",
                    play.session.phase()
                );
                assert_eq!((play.session.tracks().len(), play.session.lower()), (tracks, lower), "{name}");
                for track in 0..tracks {
                    assert!(play.gives_a_unit(track), "{name}: no unit of track {track}");
                }
            }
            Err(words) => {
                let Phase::Over(error) = play.session.phase() else { panic!("{name}: it is not over") };
                assert!(error.to_string().contains(words), "{name}: {error}");
            }
        }
    }
}

trait ConcatAll<T> {
    fn concat_all(self) -> Vec<T>;
}

impl<T, const N: usize> ConcatAll<T> for [Vec<T>; N] {
    fn concat_all(self) -> Vec<T> {
        self.into_iter().flatten().collect()
    }
}
