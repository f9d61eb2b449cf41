//! The test pattern: what a newcomer sees first, and what every measurement starts from.
//!
//! In come a frame number and its times, out comes an 8-bit 4:2:0 [`Picture`]:
//!
//! ```text
//! ┌────────────┬──────────────────────────────────────┐
//! │ barcode    │  GLASSLINE             1280x720 / 30 │
//! ├────────────┴──────────────────────────────────────┤
//! │ ░░░ moving clouds ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ │
//! │ ░░ ┌───────────────────────────────────────┐ ░░░░ │
//! │ ░░ │  ( hand, flash )   UTC  HH:MM:SS.mmm  │ ░░░░ │
//! │ ░░ │                    FRAME  00000000    │ ░░░░ │
//! │ ░░ └───────────────────────────────────────┘ ░░░░ │
//! │ colour bars                                       │
//! ├───────────────────────────────────────┬───────────┤
//! │ grey ramp                             │   barcode │
//! └───────────────────────────────────────┴───────────┘
//! ```
//!
//! Clouds cost bits, the hand shows stutter, the clock shows age to people and the [`barcode`](super::barcode) to
//! programs. The lamp in the middle of the dial flashes while the [`tone`] beeps. Small pictures
//! lose the ornaments first, then the clock, then the barcodes.

mod canvas;
mod dial;
mod font;
mod layout;
mod texture;

use super::barcode::Barcode;
use super::tone;
use canvas::{Area, Mask, Yuv, blend, copy, fill, rgb};
use dial::Dial;
use glassline_media::picture::{Colour, Picture, PixelFormat, Size};
use glassline_media::time::{FrameRate, Time, Utc};
use layout::Layout;
use std::collections::BTreeMap;
use texture::Texture;

/// Pictures that are drawn in turn. As long as the caller keeps fewer, none is allocated.
const POOL: usize = 4;

/// Draws the test pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    frame_rate: FrameRate,
    layout: Layout,
    palette: Palette,
    texture: Texture,
    dial: Option<Dial>,
    lamp: Option<Mask>,
    corners: Option<[Mask; 4]>,
    clock: Option<Digits>,
    counter: Option<Digits>,
    /// What never changes, for running digits to be drawn on.
    ground: Picture,
    pool: Vec<Picture>,
    next: usize,
}

/// Where the lamp is that flashes in the first 60 ms of each UTC second, in luma samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashArea {
    /// Left edge.
    pub x: u32,
    /// Upper edge.
    pub y: u32,
    /// Width and height.
    pub side: u32,
}

impl Pattern {
    /// The pattern for pictures of `size` at `frame_rate`. Cost: draws everything that does not change, some
    /// 100 ms and 9 MB at 720p.
    pub fn new(size: Size, frame_rate: FrameRate) -> Pattern {
        let layout = Layout::new(size);
        let palette = Palette::new();
        let dial = layout
            .dial
            .map(|area| Dial::new(area, palette.panel, [palette.idle, palette.accent, palette.white]));
        let lamp = layout.lamp.map(|area| Mask::rounded(area.width, area.height, area.width as f32 / 6.0));
        let corners = layout.panel.map(|_| corners(layout.radius));
        let mut ground = Picture::new(PixelFormat::I420, size, Time::ZERO);
        ground.colour = Colour::BT709;
        draw_ground(&mut ground, &layout, &palette, frame_rate);
        if let Some(dial) = &dial {
            dial.draw_scale(&mut ground, palette.soft, palette.dim);
        }
        Pattern {
            frame_rate,
            palette,
            texture: Texture::new(size.width, size.height),
            dial,
            lamp,
            corners,
            clock: layout.clock.map(|text| Digits::new(text.area, text.height_px)),
            counter: layout.counter.map(|text| Digits::new(text.area, text.height_px)),
            pool: vec![ground.clone(); POOL],
            ground,
            next: 0,
            layout,
        }
    }

    /// Width and height of the pictures.
    pub fn size(&self) -> Size {
        self.ground.size()
    }

    /// Pictures a second.
    pub fn frame_rate(&self) -> FrameRate {
        self.frame_rate
    }

    /// Where the lamp is; its middle half is white while it flashes and dark otherwise. `None` in pictures too
    /// small for it.
    pub fn flash_area(&self) -> Option<FlashArea> {
        self.layout.lamp.map(|area| FlashArea { x: area.x, y: area.y, side: area.width })
    }

    /// Draws frame `frame_number`, captured at `captured` and `utc`: 4:2:0, 8 bits, BT.709 in limited range.
    ///
    /// Clouds move with the frame number; clock, hand and lamp with `utc`. Planes are drawn again once the caller
    /// has let go of them, and copied if not. Cost: see `cargo bench -p glassline-media --bench pattern`.
    pub fn draw(&mut self, frame_number: u64, captured: Time, utc: Utc) -> Picture {
        let slot = self.next;
        self.next = (slot + 1) % POOL;
        let picture = &mut self.pool[slot];
        picture.captured = captured;
        picture.captured_utc = Some(utc);

        let panel = self.layout.panel.unwrap_or_default();
        let seconds = self.frame_rate.time_of(frame_number).as_secs_f64();
        let radius = self.layout.radius;
        self.texture.draw(picture, self.layout.scene, panel, radius, seconds);
        for (index, corner) in self.corners.iter().flatten().enumerate() {
            let x = if index % 2 == 0 { panel.x } else { panel.right() - radius };
            let y = if index < 2 { panel.y } else { panel.bottom() - radius };
            blend(picture, corner, (x, y), self.palette.panel);
        }
        let within = utc.as_nanos() % 1_000_000_000;
        if let Some(dial) = &self.dial {
            dial.draw(picture, within as f64 / 1e9);
        }
        if let (Some(lamp), Some(area)) = (&self.lamp, self.layout.lamp) {
            let colour = if tone::flashes(utc) { self.palette.white } else { self.palette.unlit };
            copy(picture, &self.ground, area);
            blend(picture, lamp, (area.x, area.y), colour);
        }
        if let Some(clock) = &self.clock {
            let millis = utc.as_nanos() / 1_000_000;
            let (hours, minutes) = (millis / 3_600_000 % 24, millis / 60_000 % 60);
            let text = format!("{hours:02}:{minutes:02}:{:02}.{:03}", millis / 1000 % 60, millis % 1000);
            clock.draw(picture, &self.ground, &text, self.palette.white);
        }
        if let Some(counter) = &self.counter {
            let text = format!("{:08}", frame_number % 100_000_000);
            counter.draw(picture, &self.ground, &text, self.palette.soft);
        }
        Barcode::new(frame_number, utc).draw(picture);
        picture.clone()
    }
}

/// The pattern's colours.
#[derive(Clone, Copy, Debug)]
struct Palette {
    strip: Yuv,
    panel: Yuv,
    white: Yuv,
    soft: Yuv,
    dim: Yuv,
    accent: Yuv,
    idle: Yuv,
    unlit: Yuv,
}

impl Palette {
    fn new() -> Palette {
        Palette {
            strip: rgb(9.0, 12.0, 22.0),
            panel: rgb(12.0, 16.0, 30.0),
            white: rgb(255.0, 255.0, 255.0),
            soft: rgb(200.0, 212.0, 232.0),
            dim: rgb(84.0, 98.0, 128.0),
            accent: rgb(40.0, 205.0, 225.0),
            idle: rgb(28.0, 36.0, 58.0),
            unlit: rgb(32.0, 42.0, 68.0),
        }
    }
}

/// Draws what never changes: the strips, the bars, the ramp, the panel and its words.
fn draw_ground(picture: &mut Picture, layout: &Layout, palette: &Palette, frame_rate: FrameRate) {
    let size = picture.size();
    fill(picture, Area { x: 0, y: 0, width: size.width, height: size.height }, palette.strip);
    for (index, bar) in layout.bars().enumerate() {
        // White, yellow, cyan, green, magenta, red, blue, black, at 75 %.
        let on = |bit: usize| if (7 - index) >> bit & 1 == 1 { 191.25 } else { 0.0 };
        fill(picture, bar, rgb(on(1), on(2), on(0)));
    }
    for x in (0..layout.ramp.width).step_by(2) {
        let grey = 255.0 * x as f32 / layout.ramp.width.saturating_sub(2).max(1) as f32;
        let column = Area { x: layout.ramp.x + x, width: 2.min(layout.ramp.width - x), ..layout.ramp };
        fill(picture, column, rgb(grey, grey, grey));
    }
    if let Some(panel) = layout.panel {
        fill(picture, panel, palette.panel);
    }
    if let Some(title) = layout.title {
        write(picture, layout::TITLE, title, palette.white);
    }
    let caption = layout::caption(size, frame_rate);
    if let Some(place) = layout.caption(&caption) {
        write(picture, &caption, place, palette.dim);
    }
    for (label, place) in layout.labels.into_iter().flatten() {
        write(picture, label, place, palette.accent);
    }
}

fn write(picture: &mut Picture, text: &str, place: layout::Text, colour: Yuv) {
    Digits::of(text, place.area, place.height_px).write(picture, text, colour);
}

/// The four corners of a panel: upper left, upper right, lower left, lower right.
fn corners(radius: u32) -> [Mask; 4] {
    let reach = radius as f32;
    [(reach, reach), (0.0, reach), (reach, 0.0), (0.0, 0.0)].map(|(middle_x, middle_y)| {
        Mask::of(radius, radius, |x, y| reach + 0.5 - (x - middle_x).hypot(y - middle_y))
    })
}

/// Letters made ready for a place in the picture.
#[derive(Clone, Debug)]
struct Digits {
    area: Area,
    height_px: f32,
    /// By character and by whether it begins at an odd column.
    masks: BTreeMap<(char, bool), Mask>,
}

impl Digits {
    fn new(area: Area, height_px: f32) -> Digits {
        Digits::of("0123456789:.", area, height_px)
    }

    fn of(characters: &str, area: Area, height_px: f32) -> Digits {
        let both = characters.chars().flat_map(|character| [(character, false), (character, true)]);
        let masks = both.map(|key| (key, font::mask(key.0, height_px, f32::from(u8::from(key.1))))).collect();
        Digits { area, height_px, masks }
    }

    /// Writes `text` over what it wrote there before.
    fn draw(&self, picture: &mut Picture, ground: &Picture, text: &str, colour: Yuv) {
        copy(picture, ground, self.area);
        self.write(picture, text, colour);
    }

    fn write(&self, picture: &mut Picture, text: &str, colour: Yuv) {
        let mut x = self.area.x as f32;
        for character in text.chars() {
            let column = x.round() as u32;
            if let Some(mask) = self.masks.get(&(character, column % 2 == 1)) {
                blend(picture, mask, (column, self.area.y), colour);
            }
            x += font::advance_px(character, self.height_px);
        }
    }
}

#[cfg(test)]
mod tests;
