//! Where everything lies, for any size: between the barcodes there is a scene with a panel, and colour bars.

use super::canvas::Area;
use super::font;
use crate::barcode;
use glassline_media::picture::Size;
use glassline_media::time::FrameRate;

pub(super) const TITLE: &str = "GLASSLINE";
const CLOCK: &str = "00:00:00.000";
const COUNTER: &str = "00000000";
/// Letters lower than this cannot be read after coding and are left out.
const MIN_LETTER_PX: f32 = 9.0;

/// A place for text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) area: Area,
    pub(super) height_px: f32,
}

/// Where everything lies. Positions and sides are even but at the right and the lower edge of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// What the clouds fill, over the whole width.
    pub(super) scene: Area,
    bars: Area,
    pub(super) ramp: Area,
    /// Right of the first barcode.
    strip: Area,
    pub(super) panel: Option<Area>,
    /// Radius of the panel's corners.
    pub(super) radius: u32,
    pub(super) dial: Option<Area>,
    pub(super) lamp: Option<Area>,
    pub(super) title: Option<Text>,
    pub(super) clock: Option<Text>,
    pub(super) counter: Option<Text>,
    /// Words beside clock and counter.
    pub(super) labels: [Option<(&'static str, Text)>; 2],
}

impl Layout {
    pub(super) fn new(size: Size) -> Layout {
        let Size { width, height } = size;
        let code = barcode::layout(size);
        let code_size = code.map_or(Size { width: 0, height: 0 }, |code| code.code_size());
        let (top, bottom) = code.map_or((0, height), |code| (code_size.height, code.bottom_right.1));
        let ramp_width = code.map_or(0, |code| code.bottom_right.0);
        let bars_height = if bottom - top >= 96 { even((bottom - top) as f32 * 0.15) } else { 0 };
        let scene = Area { x: 0, y: top, width, height: bottom - top - bars_height };
        let mut layout = Layout {
            scene,
            bars: Area { x: 0, y: scene.bottom(), width, height: bars_height },
            ramp: Area { x: 0, y: bottom, width: ramp_width, height: height - bottom },
            strip: Area { x: code_size.width, y: 0, width: width - code_size.width, height: top },
            panel: None,
            radius: 0,
            dial: None,
            lamp: None,
            title: None,
            clock: None,
            counter: None,
            labels: [None; 2],
        };
        let letter = layout.strip.height as f32 * 0.42;
        let indent = layout.strip.height / 2;
        let title = text_at(TITLE, layout.strip.x + indent, layout.strip.y + layout.strip.height / 2, letter);
        layout.title = (letter >= MIN_LETTER_PX && title.area.right() + indent <= width).then_some(title);
        if scene.width > 4 * scene.height {
            layout.place_low();
        } else {
            layout.place_full();
        }
        layout
    }

    /// A wide, low scene: lamp and clock side by side.
    fn place_low(&mut self) {
        let scene = self.scene;
        let height = even(scene.height as f32 * 0.72).min(scene.height);
        let unit = font::width_px(CLOCK, 100.0) as f32 / 100.0;
        let letter = (height as f32 * 0.6).min(scene.width as f32 * 0.9 / (unit + 2.2));
        if letter < MIN_LETTER_PX {
            return self.place_lamp_alone();
        }
        let side = even(letter);
        let gap = even(letter * 0.5);
        let text_width = font::width_px(CLOCK, letter).next_multiple_of(2);
        let inner = side + gap + text_width;
        let panel = Area {
            x: even(scene.width.saturating_sub(inner + 2 * gap) as f32 / 2.0),
            y: scene.y + even((scene.height - height) as f32 / 2.0),
            width: (inner + 2 * gap).min(scene.width) & !1,
            height,
        };
        let middle = panel.y + panel.height / 2;
        self.panel = Some(panel);
        self.radius = even(height as f32 * 0.14);
        self.lamp = Some(square(panel.x + gap + side / 2, middle, side));
        self.clock = Some(text_at(CLOCK, panel.x + gap + side + gap, middle, letter));
    }

    /// The panel with dial, clock and frame number. At 1280×720 a unit is a pixel.
    fn place_full(&mut self) {
        let scene = self.scene;
        let unit = (scene.width as f32 * 0.875 / 1120.0).min(scene.height as f32 * 0.7 / 344.0);
        let (width, height) = (even(1120.0 * unit), even(344.0 * unit));
        if height < 48 {
            return self.place_lamp_alone();
        }
        let panel = Area {
            x: even((scene.width - width) as f32 / 2.0),
            y: scene.y + even((scene.height - height) as f32 / 2.0),
            width,
            height,
        };
        let (middle, right) = (panel.y + height / 2, panel.x as f32 + 420.0 * unit);
        self.panel = Some(panel);
        self.radius = even(28.0 * unit);
        let dial = square(panel.x + even(202.0 * unit), middle, even(292.0 * unit));
        self.dial = Some(dial);
        self.lamp = Some(square(dial.x + dial.width / 2, middle, even(92.0 * unit)));

        let left = even(right);
        let widest = (1120.0 - 420.0 - 48.0) * unit;
        let letter = widest / (font::width_px(CLOCK, 100.0) as f32 / 100.0);
        let place = |text: &str, offset: f32, height_px: f32| {
            let centre = (middle as f32 + offset * unit).max(0.0) as u32;
            (height_px >= MIN_LETTER_PX).then(|| text_at(text, left, centre, height_px))
        };
        self.clock = place(CLOCK, 0.0, letter);
        let small = 30.0 * unit;
        self.labels[0] = place("UTC", -96.0, small).map(|at| ("UTC", at));
        self.labels[1] = place("FRAME", 98.0, small).map(|at| ("FRAME", at));
        let after = even(font::width_px("FRAME", small) as f32 + 34.0 * unit);
        self.counter = place(COUNTER, 98.0, small)
            .map(|at| Text { area: Area { x: at.area.x + after, ..at.area }, ..at });
    }

    /// Too small for letters: the lamp in the middle of the scene.
    fn place_lamp_alone(&mut self) {
        let side = even(self.scene.height.min(self.scene.width) as f32 * 0.4);
        if side >= 4 {
            let lamp = square(self.scene.width / 2, self.scene.y + self.scene.height / 2, side);
            self.lamp = Some(lamp);
            self.panel = Some(lamp);
        }
    }

    /// The eight colour bars, from the left; none where there is no room.
    pub(super) fn bars(&self) -> impl Iterator<Item = Area> + use<> {
        let bars = self.bars;
        let edge = move |index: u32| if index == 8 { bars.width } else { (bars.width * index / 8) & !1 };
        let count = if bars.height == 0 { 0 } else { 8 };
        (0..count).map(move |index| Area { x: edge(index), width: edge(index + 1) - edge(index), ..bars })
    }

    /// Where the caption goes: at the right end of the upper strip, if there is room beside the title.
    pub(super) fn caption(&self, caption: &str) -> Option<Text> {
        let letter = self.strip.height as f32 * 0.28;
        let width = font::width_px(caption, letter).next_multiple_of(2);
        let x = self.strip.right().checked_sub(width + self.strip.height / 2)? & !1;
        let free = self.title?.area.right() + self.strip.height;
        let text = text_at(caption, x, self.strip.y + self.strip.height / 2, letter);
        (letter >= MIN_LETTER_PX && x >= free).then_some(text)
    }
}

/// What the upper strip says of the picture.
pub(super) fn caption(size: Size, frame_rate: FrameRate) -> String {
    format!("{size}  {frame_rate} FPS")
}

fn even(px: f32) -> u32 {
    px as u32 & !1
}

fn square(x: u32, y: u32, side: u32) -> Area {
    Area { x: x.saturating_sub(side / 2) & !1, y: y.saturating_sub(side / 2) & !1, width: side, height: side }
}

/// `text` with its left edge at `x` and its middle at height `middle`.
fn text_at(text: &str, x: u32, middle: u32, height_px: f32) -> Text {
    let height = (height_px.ceil() as u32).next_multiple_of(2);
    // Masks of letters at odd columns are up to two columns wider.
    let width = font::width_px(text, height_px).next_multiple_of(2) + 2;
    Text { area: Area { x: x & !1, y: middle.saturating_sub(height / 2) & !1, width, height }, height_px }
}
