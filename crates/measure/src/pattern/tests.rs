use super::*;
use crate::barcode;
use proptest::prelude::*;

const RATE: FrameRate = FrameRate::new(30, 1).unwrap();

fn at(size: Size, number: u64, utc_millis: u64) -> Picture {
    Pattern::new(size, RATE).draw(number, Time::from_millis(1), Utc::from_micros(utc_millis * 1000))
}

fn mean(picture: &Picture, area: Area) -> f64 {
    let luma = &picture.planes()[0];
    let lines = area.y as usize..area.bottom() as usize;
    let sum: u64 = lines
        .flat_map(|y| &luma.line(y)[area.x as usize..area.right() as usize])
        .map(|&sample| u64::from(sample))
        .sum();
    sum as f64 / f64::from(area.width * area.height)
}

#[test]
fn pictures_carry_their_times_and_barcodes() {
    let size = Size::new(1280, 720).unwrap();
    let utc = Utc::from_micros(1_700_000_000_123_456);
    let picture = Pattern::new(size, RATE).draw(42, Time::from_millis(7), utc);
    assert_eq!((picture.captured, picture.captured_utc), (Time::from_millis(7), Some(utc)));
    assert_eq!((picture.colour, picture.size()), (Colour::BT709, size));
    let code = Some(Barcode::new(42, utc));
    assert_eq!(barcode::read(&picture), barcode::Read { top_left: code, bottom_right: code });
}

#[test]
fn the_lamp_flashes_with_the_beep() {
    for (width, height) in [(1280, 720), (320, 180), (64, 64)] {
        let mut pattern = Pattern::new(Size::new(width, height).unwrap(), RATE);
        let lamp = pattern.flash_area().unwrap();
        let middle = Area { x: lamp.x, y: lamp.y, width: lamp.side, height: lamp.side }.inset(lamp.side / 4);
        for millis in [5000, 5059, 5060, 5500, 5999, 6000] {
            let picture = pattern.draw(1, Time::ZERO, Utc::from_micros(millis * 1000));
            let expected = if millis % 1000 < 60 { 235.0..=235.0 } else { 16.0..=80.0 };
            let found = mean(&picture, middle);
            assert!(expected.contains(&found), "{width}x{height} at {millis} ms: {found}");
        }
    }
}

#[test]
fn what_a_picture_shows_does_not_depend_on_the_pictures_before() {
    let size = Size::new(640, 360).unwrap();
    let mut pattern = Pattern::new(size, RATE);
    for number in 0..10 {
        let millis = 1_234_567_890_000 + number * 333;
        let drawn = pattern.draw(number, Time::from_millis(1), Utc::from_micros(millis * 1000));
        assert!(drawn == at(size, number, millis), "picture {number} differs from a fresh one");
    }
}

#[test]
fn a_picture_in_the_hands_of_the_caller_does_not_change() {
    let mut pattern = Pattern::new(Size::new(320, 240).unwrap(), RATE);
    let first = pattern.draw(0, Time::ZERO, Utc::from_micros(0));
    let copy: Vec<Vec<u8>> = first.planes().iter().map(|plane| plane.bytes().to_vec()).collect();
    for number in 1..10 {
        let next = pattern.draw(number, Time::ZERO, Utc::from_micros(number * 33_000));
        assert!(next.planes()[0] != first.planes()[0], "picture {number} stands still");
    }
    assert!(first.planes().iter().zip(&copy).all(|(plane, bytes)| plane.bytes() == bytes));
}

#[test]
fn clock_and_counter_show_other_digits() {
    let size = Size::new(1280, 720).unwrap();
    let layout = Layout::new(size);
    let pixels = |picture: &Picture, area: Area| -> Vec<u8> {
        let lines = area.y as usize..area.bottom() as usize;
        lines
            .flat_map(|y| picture.planes()[0].line(y)[area.x as usize..area.right() as usize].to_vec())
            .collect()
    };
    let (clock, counter) = (layout.clock.unwrap().area, layout.counter.unwrap().area);
    let base = at(size, 7, 1000);
    assert_eq!(
        pixels(&base, clock),
        pixels(&at(size, 8, 1000 + 86_400_000), clock),
        "a day later it is the same"
    );
    assert_ne!(pixels(&base, clock), pixels(&at(size, 7, 1001), clock));
    assert_eq!(pixels(&base, counter), pixels(&at(size, 7, 2500), counter));
    assert_ne!(pixels(&base, counter), pixels(&at(size, 8, 1000), counter));
}

#[test]
fn nothing_lies_outside_its_place() {
    for width in (1..2000).step_by(37) {
        for height in (1..2300).step_by(41) {
            let layout = Layout::new(Size { width, height });
            let picture = Area { x: 0, y: 0, width, height };
            let within = |inner: Area, outer: Area| {
                inner.x >= outer.x
                    && inner.y >= outer.y
                    && inner.right() <= outer.right()
                    && inner.bottom() <= outer.bottom()
            };
            assert!(within(layout.scene, picture), "{width}x{height}: {layout:?}");
            let panel = layout.panel.unwrap_or_default();
            assert!(layout.panel.is_none() || within(panel, layout.scene), "{width}x{height}: {layout:?}");
            let texts = [layout.clock, layout.counter].into_iter().flatten();
            let labels = layout.labels.iter().flatten().map(|&(_, text)| text);
            let areas = texts.chain(labels).map(|text| text.area).chain(layout.dial).chain(layout.lamp);
            for area in areas {
                assert!(within(area, panel), "{width}x{height}: {area:?} in {panel:?}");
            }
        }
    }
}

#[test]
fn extreme_shapes_can_be_drawn() {
    for (width, height) in [(Size::MAX_SIDE, 2), (1, Size::MAX_SIDE), (5001, 301), (321, 2161)] {
        let size = Size::new(width, height).unwrap();
        assert_eq!(at(size, u64::MAX, 1).size(), size);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_size_and_time_can_be_drawn((width, height) in (1u32..500, 1u32..300), number: u64, nanos: u64) {
        let size = Size::new(width, height).unwrap();
        let utc = Utc::from_nanos(nanos);
        let picture = Pattern::new(size, RATE).draw(number, Time::from_nanos(nanos), utc);
        prop_assert_eq!(picture.size(), size);
        let expected = barcode::layout(size).map(|_| Barcode::new(number, utc));
        prop_assert_eq!(barcode::read(&picture), barcode::Read { top_left: expected, bottom_right: expected });
    }
}
