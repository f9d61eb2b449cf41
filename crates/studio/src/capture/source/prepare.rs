//! Pictures as they come to pictures as the encoder takes them.

use super::Deinterlace;
use glassline_media::pixels::{Converter, Deinterlacer, FieldOrder, Scan};
use glassline_media::{Colour, FrameRate, Picture, PixelFormat, Size};
use std::time::Duration;

/// Converts, and makes two pictures of interlaced ones.
pub(super) struct Prepare {
    /// Whether pictures stay in the format that they come in.
    keeps: bool,
    converter: Converter,
    scan: Scan,
    /// The order of the fields that stay in a picture.
    fields: Option<FieldOrder>,
    deinterlacer: Option<Deinterlacer>,
    /// Between two fields.
    field_time: Duration,
}

impl Prepare {
    /// For pictures at `rate` with fields in the order `fields`, if they have any.
    pub(super) fn new(fields: Option<FieldOrder>, deinterlace: Deinterlace, rate: FrameRate) -> Prepare {
        let fields = fields.filter(|_| deinterlace != Deinterlace::Ignore);
        let scan = if fields.is_some() { Scan::Interlaced } else { Scan::Progressive };
        let order = fields.filter(|_| deinterlace == Deinterlace::Auto);
        Prepare {
            keeps: false,
            converter: Converter::new(),
            scan,
            fields: fields.filter(|_| order.is_none()),
            deinterlacer: order.map(Deinterlacer::new),
            field_time: rate.time_of(1) / 2,
        }
    }

    /// For pictures that stay as they are: samples, size, fields.
    pub(super) fn keeping(fields: Option<FieldOrder>, rate: FrameRate) -> Prepare {
        Prepare { keeps: true, ..Prepare::new(fields, Deinterlace::Off, rate) }
    }

    /// The order of the fields in what comes out, where it has some.
    pub(super) fn fields(&self) -> Option<FieldOrder> {
        self.fields
    }

    /// The size of what comes out.
    pub(super) fn size(&self, size: Size) -> Size {
        if self.keeps { size } else { Converter::size(size) }
    }

    /// What the samples of what comes out mean.
    pub(super) fn colour(&self, colour: Colour, format: PixelFormat, size: Size) -> Colour {
        if self.keeps { colour } else { Converter::colour(colour, format, size) }
    }

    /// The rate of what comes out.
    pub(super) fn rate(&self, rate: FrameRate) -> FrameRate {
        if self.deinterlacer.is_none() {
            return rate;
        }
        let halved = || FrameRate::new(rate.numerator(), (rate.denominator() / 2).max(1));
        let doubled =
            rate.numerator().checked_mul(2).and_then(|twice| FrameRate::new(twice, rate.denominator()));
        doubled.or_else(halved).unwrap_or(rate)
    }

    /// The converter, for sources that give no planes, and how their lines belong together.
    pub(super) fn unpacker(&mut self) -> (&mut Converter, Scan) {
        (&mut self.converter, self.scan)
    }

    /// One picture, or two: the second is from half a picture's time later.
    pub(super) fn pictures(&mut self, mut picture: Picture) -> impl Iterator<Item = Picture> + use<> {
        // Flagged wrongly, or not to be looked at: the converter would keep its fields apart.
        if self.scan == Scan::Progressive {
            picture.fields = None;
        }
        let picture = if self.keeps { picture } else { self.converter.convert(picture, self.scan) };
        let [first, second] = match &mut self.deinterlacer {
            None => [Some(picture), None],
            Some(deinterlacer) => deinterlacer.push(picture, self.field_time).map(Some),
        };
        first.into_iter().chain(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Chroma, Time};

    #[test]
    fn fields_that_are_ignored_are_mixed_as_whole_pictures_are() {
        let format = PixelFormat::planar(Chroma::Yuv422, 8);
        let mut picture = Picture::new(format, Size::new(4, 4).unwrap(), Time::ZERO);
        picture.fields = Some(FieldOrder::TopFirst);
        for plane in picture.planes_mut() {
            plane.lines_mut().enumerate().for_each(|(y, line)| line.fill(100 * (y as u8 % 2)));
        }
        let rate = FrameRate::new(25, 1).unwrap();
        for (deinterlace, fields, chroma) in
            [(Deinterlace::Ignore, None, [50, 50]), (Deinterlace::Off, picture.fields, [0, 100])]
        {
            let mut prepare = Prepare::new(picture.fields, deinterlace, rate);
            let out: Vec<Picture> = prepare.pictures(picture.clone()).collect();
            assert_eq!((out.len(), out[0].fields, prepare.fields()), (1, fields, fields));
            assert_eq!([0, 1].map(|row| out[0].planes()[1].line(row)[0]), chroma, "{deinterlace:?}");
        }
    }
}
