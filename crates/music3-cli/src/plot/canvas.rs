//! Pixels, text and lines on them, and the PNG file they become. The letters are part of the program: no font is
//! looked for.

use std::{convert::Infallible, ops::Range};

use embedded_graphics::{
    Drawable,
    draw_target::DrawTarget,
    geometry::{OriginDimensions, Point, Size},
    mono_font::{MonoFont, MonoTextStyle, iso_8859_1},
    pixelcolor::{Rgb888, RgbColor},
    prelude::Pixel,
    text::{Alignment, Baseline, Text, TextStyleBuilder},
};

/// Ordinary text.
pub(super) const SMALL: &MonoFont<'_> = &iso_8859_1::FONT_8X13;
/// Names of panels, and the title.
pub(super) const LARGE: &MonoFont<'_> = &iso_8859_1::FONT_9X18_BOLD;

/// A rectangle of pixels.
pub(super) struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<Rgb888>,
}

impl Canvas {
    pub(super) fn new(width: usize, height: usize, colour: Rgb888) -> Self {
        Self { width, height, pixels: vec![colour; width * height] }
    }

    /// Sets a pixel; what lies outside is left out.
    pub(super) fn set(&mut self, x: usize, y: usize, colour: Rgb888) {
        if x < self.width && y < self.height {
            self.pixels[y * self.width + x] = colour;
        }
    }

    pub(super) fn fill(&mut self, x: Range<usize>, y: Range<usize>, colour: Rgb888) {
        for row in y {
            for column in x.clone() {
                self.set(column, row, colour);
            }
        }
    }

    /// Draws a horizontal line.
    pub(super) fn across(&mut self, x: Range<usize>, y: usize, colour: Rgb888) {
        self.fill(x, y..y + 1, colour);
    }

    /// Draws a vertical line; dashes are as long as the gaps between them.
    pub(super) fn dashed_down(&mut self, x: usize, y: Range<usize>, colour: Rgb888) {
        const DASH: usize = 5;
        for row in y.filter(|row| (row / DASH).is_multiple_of(2)) {
            self.set(x, row, colour);
        }
    }

    /// Writes a line of text whose vertical middle is `y`.
    pub(super) fn text(
        &mut self,
        text: &str,
        (x, y): (usize, usize),
        alignment: Alignment,
        (font, colour): (&MonoFont<'_>, Rgb888),
    ) {
        let style = TextStyleBuilder::new().alignment(alignment).baseline(Baseline::Middle).build();
        let place = Point::new(x as i32, y as i32);
        let Ok(_) = Text::with_text_style(text, place, MonoTextStyle::new(font, colour), style).draw(self);
    }

    /// Returns the picture as a PNG file.
    pub(super) fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        let data: Vec<u8> = self.pixels.iter().flat_map(|pixel| [pixel.r(), pixel.g(), pixel.b()]).collect();
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&data)?;
        writer.finish()?;
        Ok(bytes)
    }

    #[cfg(test)]
    pub(super) fn get(&self, x: usize, y: usize) -> Rgb888 {
        self.pixels[y * self.width + x]
    }
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        Size::new(self.width as u32, self.height as u32)
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(point, colour) in pixels {
            if let (Ok(x), Ok(y)) = (usize::try_from(point.x), usize::try_from(point.y)) {
                self.set(x, y, colour);
            }
        }
        Ok(())
    }
}
