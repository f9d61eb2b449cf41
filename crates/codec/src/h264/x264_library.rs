//! libx264 as the encoder calls it: the linked library, or in a build without it a stand-in that opens nothing.

#[cfg(feature = "x264")]
pub(super) use super::x264_ffi::{Handle, headers};
#[cfg(not(feature = "x264"))]
pub(super) use absent::{Handle, headers};

/// Stands for the library in a build without it: nothing can be opened.
#[cfg(not(feature = "x264"))]
mod absent {
    use super::super::x264_interface::{Input, Opening, Output};
    use super::super::x264_slices::Collector;
    use std::ffi::CStr;

    const ABSENT: &str = "this build was made without libx264";

    /// There is none.
    pub(in super::super) enum Handle {}

    impl Handle {
        pub(in super::super) fn open(_: &Opening) -> Result<Handle, String> {
            Err(ABSENT.to_owned())
        }

        pub(in super::super) fn encode(
            &mut self,
            _: &Input<'_>,
            _: &Collector<'_, '_>,
        ) -> Result<Option<Output>, String> {
            match *self {}
        }

        pub(in super::super) fn encode_delayed(
            &mut self,
            _: Option<&Input<'_>>,
            _: &mut dyn FnMut(&[u8], usize),
        ) -> Result<Option<Output>, String> {
            match *self {}
        }

        pub(in super::super) fn delayed(&self) -> u32 {
            match *self {}
        }

        pub(in super::super) fn delayed_max(&self) -> u32 {
            match *self {}
        }

        pub(in super::super) fn set_rate(&mut self, _: i32, _: i32) -> Result<(), String> {
            match *self {}
        }

        pub(in super::super) fn set_preset(&mut self, _: &CStr) -> Result<(), String> {
            match *self {}
        }
    }

    pub(in super::super) fn headers(_: &Opening) -> Result<Vec<u8>, String> {
        Err(ABSENT.to_owned())
    }
}
