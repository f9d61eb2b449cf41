//! What FFmpeg codes and puts into MPEG-TS is the same behind LL-HLS and LL-DASH, picture by picture and frame by frame.

use crate::{GLASSLINE, have};
use glassline_test_support::http::{get, publish};
use glassline_test_support::program::{Scratch, Server, run};
use glassline_test_support::wait::until;
use std::io::Write;

/// Packets of the sound of what is at `url`, by their checksums, as `filter` leaves them.
pub(crate) fn packets(url: &str, filter: &[&str]) -> Vec<String> {
    let arguments =
        [&["-v", "error", "-i", url, "-map", "0:a:0", "-c", "copy"], filter, &["-f", "framecrc", "-"]];
    let copied = run("ffmpeg", &arguments.concat(), 60);
    assert_eq!((copied.status, copied.stderr.as_str()), (Some(0), ""), "{url}");
    let lines = copied.text();
    let of = |line: &str| {
        let mut fields = line.split(',').map(str::trim).skip(4);
        Some(format!("{} {}", fields.next()?, fields.next()?))
    };
    lines.lines().filter(|line| !line.starts_with('#')).filter_map(of).collect()
}

/// Pictures of what is at `url`, by the checksums of their decoded samples.
pub(crate) fn pictures(url: &str) -> Vec<String> {
    let decoded =
        run("ffmpeg", &["-v", "error", "-i", url, "-map", "0:v:0", "-vsync", "0", "-f", "framemd5", "-"], 60);
    assert_eq!((decoded.status, decoded.stderr.as_str()), (Some(0), ""), "{url}");
    let lines = decoded.text();
    let hash = |line: &str| line.rsplit(',').next().map(|hash| hash.trim().to_owned());
    lines.lines().filter(|line| !line.starts_with('#')).filter_map(hash).collect()
}

/// How many frames of the sound of what is at `url` are decoded.
fn samples(url: &str) -> usize {
    let decoded = run("ffmpeg", &["-v", "error", "-i", url, "-map", "0:a:0", "-f", "framemd5", "-"], 60);
    assert_eq!((decoded.status, decoded.stderr.as_str()), (Some(0), ""), "{url}");
    decoded.text().lines().filter(|line| !line.starts_with('#')).count()
}

/// A server on which the file, whose pictures have `keys` each second, has been published as `a` and has ended.
pub(crate) fn served(file: &str, keys: bool) -> Server {
    served_at("/live/a.ts", file, keys)
}

/// The same of a file that is published there.
fn served_at(path: &str, file: &str, keys: bool) -> Server {
    let config = "[publish]\nreturn_window = '0s'\n[package]\non_demand = false\nsegment = '1s'\n";
    let scratch = Scratch::new("codecs-server");
    let server = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", config)]);
    let mut publisher = publish(server.address(), path);
    publisher.write_all(&std::fs::read(file).unwrap()).unwrap();
    if keys {
        // A key frame a second, and a segment each.
        until("segments of MPEG-TS", || {
            let playlist = get(server.address(), "/live/a/ts.m3u8").text();
            playlist.matches("#EXTINF:1.000").count() >= 4
        });
    }
    drop(publisher);
    until("the end", || {
        let manifest = get(server.address(), "/live/a/manifest.mpd");
        manifest.status == 406 || manifest.text().contains("type=\"static\"")
    });
    server
}

fn coded(scratch: &Scratch, name: &str, codecs: &str) -> String {
    coded_as(scratch, name, codecs, "-f mpegts")
}

fn coded_as(scratch: &Scratch, name: &str, codecs: &str, format: &str) -> String {
    let file = scratch.file(name);
    let inputs = "-v error -f lavfi -i testsrc2=size=320x180:rate=25 -f lavfi -i sine=sample_rate=48000 -t 6";
    let arguments: Vec<&str> =
        [inputs, codecs, format].into_iter().flat_map(str::split_whitespace).chain([&file[..]]).collect();
    let made = run("ffmpeg", &arguments, 120);
    assert_eq!(made.status, Some(0), "{codecs}: {}", made.stderr);
    file
}

#[test]
fn players_are_told_of_a_wide_range_of_light() {
    if !have("players_are_told_of_a_wide_range_of_light", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("codecs");
    let master = "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1):max-cll=1000,400";
    let h265 = |colour: &str| {
        format!(
            "-c:v libx265 -preset ultrafast -pix_fmt yuv420p10le -x265-params \
             keyint=25:log-level=error:colorprim=bt2020:colormatrix=bt2020nc:{colour} -an"
        )
    };
    for (number, (coding, range, transfer)) in [
        (h265(&format!("transfer=smpte2084:hdr10=1:{master}")), Some("PQ"), "16"),
        (h265("transfer=arib-std-b67"), Some("HLG"), "18"),
        // As television has it for sets of both kinds: the message names the other function.
        (h265("transfer=bt2020-10:atc-sei=18"), Some("HLG"), "14"),
        (h265("transfer=bt2020-10"), None, ""),
        ("-c:v libx264 -preset ultrafast -g 25 -an".to_owned(), None, ""),
    ]
    .into_iter()
    .enumerate()
    {
        let file = coded(&scratch, &format!("{number}.ts"), &coding);
        let probed = run(GLASSLINE, &["probe", &file, "--json"], 60).text();
        let report: serde_json::Value = serde_json::from_str(&probed).unwrap();
        let video = &report["streams"][0]["video"];
        let bits = if coding.contains("x265") { 10 } else { 8 };
        assert_eq!((&video["range"], &video["bit_depth"]), (&range.unwrap_or("SDR").into(), &bits.into()));
        assert!(video["width_px"].is_u64() && video["profile"].is_string(), "{video}");
        let server = served(&file, true);
        let playlist = get(server.address(), "/live/a/index.m3u8").text();
        let manifest = get(server.address(), "/live/a/manifest.mpd").text();
        let told = playlist.matches("VIDEO-RANGE").count();
        match range {
            // The variant, and its key frames.
            Some(range) => {
                assert_eq!(
                    (told, playlist.matches(&format!("VIDEO-RANGE={range}")).count()),
                    (2, 2),
                    "{playlist}"
                );
                let property = format!("urn:mpeg:mpegB:cicp:TransferCharacteristics\" value=\"{transfer}\"");
                assert!(manifest.contains(&property), "{manifest}");
            }
            None => assert!(told == 0 && !manifest.contains("cicp"), "{playlist}{manifest}"),
        }
        if range == Some("PQ") {
            let url = server.url("/live/a/index.m3u8");
            let arguments = ["-v", "error", "-select_streams", "v:0", "-show_streams", &url];
            let told = run("ffprobe", &arguments, 60).text();
            for words in [
                "color_transfer=smpte2084",
                "side_data_type=Mastering display metadata",
                "max_luminance=10000000/10000",
                "side_data_type=Content light level metadata",
                "max_content=1000",
            ] {
                assert!(told.contains(words), "{words} is not in {told}");
            }
        }
    }
}

#[test]
fn what_cmaf_takes_is_the_same_behind_it() {
    if !have("what_cmaf_takes_is_the_same_behind_it", &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("codecs");
    let h265 = "-c:v libx265 -preset ultrafast -x265-params keyint=25:log-level=error";
    let h264 = "-c:v libx264 -preset ultrafast -g 25";
    for (number, (pictures_of, sound, told)) in [
        (
            h265,
            "-c:a ac3 -b:a 192k",
            &["hvc1.1.6.L60.90", "ac-3", "SCORE=2,AUDIO=\"audio\"", "SCORE=1\n"][..],
        ),
        (
            &format!("{h265} -pix_fmt yuv420p10le"),
            "-c:a aac",
            &["hvc1.2.4.L60.90,mp4a.40.2", "AUDIO=\"audio\""],
        ),
        (h264, "-c:a eac3 -b:a 192k -ac 6", &["avc1.", ",ec-3", "CHANNELS=\"6\""]),
        // Its channels are said in the first frame alone, by an element of their own.
        (
            h264,
            "-c:a aac -af pan=5.1(side)|FL=c0|FR=c0|FC=c0|LFE=c0|SL=c0|SR=c0",
            &["avc1.", ",mp4a.40.2", "CHANNELS=\"6\""],
        ),
        (h264, "-c:a aac -mpegts_flags latm", &["avc1.", ",mp4a.40.2", "CHANNELS=\"1\""]),
        (h264, "-c:a libmp3lame -b:a 128k", &["avc1.", ",mp4a.6B"]),
        (h264, "-c:a libmp3lame -b:a 64k -ar 24000 -ac 1", &["avc1.", ",mp4a.69", "CHANNELS=\"1\""]),
    ]
    .into_iter()
    .enumerate()
    {
        let file = coded(&scratch, &format!("{number}.ts"), &format!("{pictures_of} {sound}"));
        let server = served(&file, true);
        let playlist = get(server.address(), "/live/a/index.m3u8");
        assert_eq!(playlist.status, 200, "{sound}: {}", playlist.text());
        for words in told {
            assert!(playlist.text().contains(words), "{words} is not in {}", playlist.text());
        }
        let wanted = pictures(&file);
        assert_eq!(wanted.len(), 150);
        for object in ["index.m3u8", "manifest.mpd"] {
            assert_eq!(pictures(&server.url(&format!("/live/a/{object}"))), wanted, "{sound}: {object}");
        }
        if sound.contains("latm") {
            // FFmpeg has no filter that takes frames out of LATM: as many are decoded, without a complaint.
            let (heard, wanted) = (samples(&server.url("/live/a/index.m3u8")), samples(&file));
            assert!(wanted > 200 && heard + 3 >= wanted, "{sound}: {heard} of {wanted}");
            continue;
        }
        // Frames of AAC have headers in MPEG-TS alone.
        let plain: &[&str] = if sound.contains("aac") { &["-bsf:a", "aac_adtstoasc"] } else { &[] };
        let (heard, wanted) = (packets(&server.url("/live/a/index.m3u8"), &[]), packets(&file, plain));
        // What is played before the first picture is left out.
        assert!(
            wanted.len() > 180 && heard.len() + 3 >= wanted.len(),
            "{sound}: {} of {}",
            heard.len(),
            wanted.len()
        );
        assert!(wanted.ends_with(&heard), "{sound}");
    }
}

#[test]
fn av1_is_the_same_behind_it() {
    if !have("av1_is_the_same_behind_it", &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("codecs-av1");
    for (number, coding) in [
        "-c:v libaom-av1 -usage realtime -cpu-used 8 -g 25",
        // Frames that are not shown.
        "-c:v libsvtav1 -preset 12 -g 25",
    ]
    .into_iter()
    .enumerate()
    {
        // FFmpeg 5.1 and 7.1 put no AV1 into MPEG-TS; in a fragment for each frame 7.1 gives two of them one stamp.
        let options = format!("{coding} -c:a aac");
        let file =
            coded_as(&scratch, &format!("{number}.mp4"), &options, "-f mp4 -movflags cmaf+frag_keyframe");
        let server = served_at("/live/a/Streams(all.cmfv)", &file, true);
        let wanted = pictures(&file);
        assert_eq!(wanted.len(), 150);
        for object in ["index.m3u8", "manifest.mpd"] {
            assert_eq!(pictures(&server.url(&format!("/live/a/{object}"))), wanted, "{coding}: {object}");
        }
    }
}

#[test]
fn sound_of_two_codecs_is_two_groups_and_what_no_player_takes_is_left_out() {
    if !have("sound_of_two_codecs_is_two_groups_and_what_no_player_takes_is_left_out", &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("codecs-groups");
    let codecs = "-map 0:v -map 1:a -map 1:a -map 1:a -c:v libx264 -preset ultrafast -g 25 -c:a:0 mp2 -c:a:1 ac3 -c:a:2 aac";
    let server = served(&coded(&scratch, "groups.ts", codecs), true);
    let playlist = get(server.address(), "/live/a/index.m3u8").text();
    let lines: Vec<&str> = playlist.lines().filter(|line| line.starts_with("#EXT-X-STREAM-INF")).collect();
    assert_eq!(lines.len(), 2, "{playlist}");
    assert!(lines[0].contains(",mp4a.40.2\"") && lines[0].ends_with("AUDIO=\"audio\""), "{playlist}");
    assert!(lines[1].contains(",ac-3\"") && lines[1].ends_with("AUDIO=\"audio-2\""), "{playlist}");
    until("the log", || server.process.output().contains("layer III (MP3) is"));
    // Alone it is refused with a reason, and not waited for.
    let file = coded(&scratch, "mp2.ts", "-map 1:a -c:a mp2");
    let server = served(&file, false);
    let answer = get(server.address(), "/live/a/index.m3u8");
    assert_eq!(answer.status, 406, "{}", answer.text());
    assert_eq!(answer.json()["tracks"][0]["codec"], "MPEG audio");
    // Its frames tell the layer, and no table does.
    let mut publisher = publish(server.address(), "/live/b.ts");
    publisher.write_all(&std::fs::read(file).unwrap()).unwrap();
    until("the API", || server.stream("b").is_some_and(|it| it["left_out"][0]["codec"] == "MPEG audio"));
}
