//! `glassline lab score`: how near pictures are to what was encoded.

use crate::commands::assert_fails;
use crate::glassline;
use glassline_media::container::y4m;
use glassline_media::{FrameRate, Picture, PixelFormat, Size, Time};
use glassline_test_support::program::Scratch;
use glassline_test_support::{shared, skip};

/// A y4m file of so many pictures whose luma is off by `error` in every second column.
fn clip(scratch: &Scratch, name: &str, (width, height): (u32, u32), pictures: usize, error: u8) -> String {
    let mut picture = Picture::new(PixelFormat::I420, Size { width, height }, Time::ZERO);
    for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
        for (y, line) in plane.lines_mut().enumerate() {
            for (x, sample) in line.iter_mut().enumerate() {
                *sample = (x * 5 + y * 3) as u8 / 2 + if index == 0 && x % 2 == 0 { error } else { 0 };
            }
        }
    }
    let mut bytes = Vec::new();
    y4m::write_header(&y4m::Header::of(&picture, FrameRate::new(25, 1).unwrap()), &mut bytes).unwrap();
    (0..pictures).for_each(|_| y4m::write_picture(&picture, &mut bytes));
    scratch.write(name, bytes)
}

#[test]
fn figures_come_as_table_json_and_picture() {
    let scratch = Scratch::new("score");
    let reference = clip(&scratch, "reference.y4m", (64, 48), 3, 0);
    let distorted = clip(&scratch, "distorted.y4m", (64, 48), 3, 4);
    let svg = scratch.file("score.svg");
    let outcome = glassline(&["lab", "score", &reference, &distorted, "--json", "--svg", &svg]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let report: serde_json::Value = serde_json::from_str(&outcome.text()).unwrap();
    assert_eq!(
        (&report["width"], &report["height"], &report["pictures"]),
        (&64.into(), &48.into(), &3.into())
    );
    // MSE 8: every second sample is off by 4.
    for figures in [&report["mean"], &report["frames"][2]] {
        assert!((figures["psnr_y_db"].as_f64().unwrap() - 39.0998).abs() < 1e-3, "{figures}");
        assert!(figures["psnr_cb_db"].is_null(), "nothing differs: {figures}");
        let (ssim, decibels) = (figures["ssim_y"].as_f64().unwrap(), figures["ssim_y_db"].as_f64().unwrap());
        assert!((decibels + 10.0 * (1.0 - ssim).log10()).abs() < 1e-9 && ssim < 1.0, "{figures}");
    }
    assert_eq!(report["frames"].as_array().unwrap().len(), 3);
    let table = glassline(&["lab", "score", &reference, &distorted]).text();
    assert_eq!(table.lines().count(), 5, "{table}");
    assert!(table.lines().last().unwrap().contains("39.10"), "{table}");
    let drawn = std::fs::read_to_string(svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("PSNR of luma"), "{drawn}");
}

#[test]
fn a_decoded_stream_equals_its_own_pictures() {
    let Some(ivf) = shared("vp8-test-vectors/vp80-00-comprehensive-006.ivf") else {
        skip("a_decoded_stream_equals_its_own_pictures", "the VP8 test vectors are absent");
        return;
    };
    let (scratch, ivf) = (Scratch::new("score-ivf"), ivf.to_string_lossy().into_owned());
    let y4m = scratch.file("out.y4m");
    assert_eq!(glassline(&["decode", &ivf, &y4m]).status, Some(0));
    let outcome = glassline(&["lab", "score", &y4m, &ivf, "--json"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let report: serde_json::Value = serde_json::from_str(&outcome.text()).unwrap();
    assert_eq!(
        (&report["mean"]["ssim"], &report["mean"]["psnr_db"]),
        (&1.0.into(), &serde_json::Value::Null)
    );
    assert!(glassline(&["lab", "score", &y4m, &ivf]).text().contains("175x143"));
}

#[test]
fn what_cannot_be_compared_is_said() {
    let scratch = Scratch::new("score-errors");
    let three = clip(&scratch, "three.y4m", (64, 48), 3, 0);
    let two = clip(&scratch, "two.y4m", (64, 48), 2, 0);
    let wide = clip(&scratch, "wide.y4m", (66, 48), 3, 0);
    let none = clip(&scratch, "none.y4m", (64, 48), 0, 0);
    assert_fails(&glassline(&["lab", "score", &three, &two]), 1, &["two.y4m", "after 2 pictures"]);
    assert_fails(&glassline(&["lab", "score", &two, &three]), 1, &["two.y4m", "after 2 pictures"]);
    assert_fails(&glassline(&["lab", "score", &three, &wide]), 1, &["picture 0", "66x48", "64x48"]);
    assert_fails(&glassline(&["lab", "score", &none, &none]), 1, &["no pictures"]);
    assert_fails(&glassline(&["lab", "score", &three, "none.ivf"]), 1, &["none.ivf"]);
    assert_fails(&glassline(&["lab", "score", "nowhere.y4m", &three]), 1, &["nowhere.y4m"]);
    let text = scratch.write("text.y4m", "no video");
    assert_fails(&glassline(&["lab", "score", &three, &text]), 1, &["text.y4m", "YUV4MPEG2"]);
    let grey =
        scratch.write("grey.y4m", [&b"YUV4MPEG2 W64 H48 F25:1 Cmono\nFRAME\n"[..], &[7; 64 * 48]].concat());
    assert_fails(&glassline(&["lab", "score", &three, &grey]), 1, &["Mono", "Yuv420"]);
    assert_fails(&glassline(&["lab", "score", &three]), 2, &["DISTORTED"]);
}
