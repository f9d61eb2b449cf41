//! What waits for the encoder: the newest picture alone, since an older one would be shown later than it.

/// Holds one picture (or what stands for one), and counts.
#[derive(Clone, Debug)]
pub struct Newest<T> {
    waiting: Option<T>,
    captured: u64,
    replaced: u64,
}

impl<T> Default for Newest<T> {
    fn default() -> Newest<T> {
        Newest { waiting: None, captured: 0, replaced: 0 }
    }
}

impl<T> Newest<T> {
    /// A picture was captured: it replaces one that still waits.
    pub fn push(&mut self, picture: T) {
        self.captured += 1;
        self.replaced += u64::from(self.waiting.replace(picture).is_some());
    }

    /// The encoder is free: takes the picture that waits, if there is one.
    pub fn take(&mut self) -> Option<T> {
        self.waiting.take()
    }

    /// So many pictures were captured that the source itself left out.
    pub fn count_dropped(&mut self, pictures: u64) {
        self.captured += pictures;
        self.replaced += pictures;
    }

    /// Pictures that were captured, and those of them that a newer one has replaced or the source has left out.
    pub fn counts(&self) -> (u64, u64) {
        (self.captured, self.replaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_picture_replaces_one_that_waits() {
        let mut newest = Newest::default();
        assert_eq!(newest.take(), None);
        newest.push(1);
        newest.push(2);
        assert_eq!((newest.take(), newest.take(), newest.counts()), (Some(2), None, (2, 1)));
        newest.push(3);
        newest.count_dropped(4);
        assert_eq!((newest.take(), newest.counts()), (Some(3), (7, 5)));
    }
}
