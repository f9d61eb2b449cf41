//! A motion vector (RFC 6386 §17).

/// A motion vector in quarters of a luma sample, which are eighths of a chroma sample.
///
/// Both components in one number, so that vectors are copied and compared as a whole.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Vector(u32);

impl Vector {
    pub(crate) const ZERO: Vector = Vector(0);

    #[inline(always)]
    pub(crate) const fn new(row: i16, column: i16) -> Vector {
        Vector((row as u16 as u32) << 16 | column as u16 as u32)
    }

    #[inline(always)]
    pub(crate) const fn row(self) -> i16 {
        (self.0 >> 16) as i16
    }

    #[inline(always)]
    pub(crate) const fn column(self) -> i16 {
        self.0 as i16
    }

    #[inline(always)]
    pub(crate) fn plus(self, row: i16, column: i16) -> Vector {
        // A stream that walks out of 16 bits is senseless, but no reason to panic.
        Vector::new(self.row().wrapping_add(row), self.column().wrapping_add(column))
    }

    #[inline(always)]
    pub(crate) fn inverted(self) -> Vector {
        Vector::new(self.row().wrapping_neg(), self.column().wrapping_neg())
    }
}

impl std::fmt::Debug for Vector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vector({} down, {} right)", self.row(), self.column())
    }
}
