//! VP8: states are values, and a picture is encoded in some qualities for little more than the price of one.

use super::{Coder, CodingError, Encoded, Kind, State, Task};
use glassline_codec::vp8::{
    self, EncodeWorkspace, Parallel, Quality, Replace, Request, Updates, Workspace, encode_candidates_in,
};
use glassline_media::Size;

/// Encodes; holds memory alone.
#[derive(Debug, Default)]
pub(super) struct Vp8Coder {
    workspace: EncodeWorkspace,
    /// For states at another size.
    frames: Workspace,
}

fn of_vp8(state: vp8::State, size: Size) -> State {
    State { kind: Kind::Vp8(state), size }
}

/// The state of another codec is none: what is coded against it needs no other.
fn to_vp8(state: &State) -> vp8::State {
    match &state.kind {
        Kind::Vp8(state) => state.clone(),
        #[cfg(feature = "av1")]
        Kind::Av1(_) => vp8::State::new(),
    }
}

impl Coder for Vp8Coder {
    fn begin(&mut self, _: &[&State]) {}

    fn encode(
        &mut self,
        task: Task<'_>,
        qualities: &[Quality],
        parallel: &dyn Parallel,
    ) -> Result<Vec<Encoded>, CodingError> {
        let Task { source, picture, request } = task;
        let golden = if request.renews_long_term { Replace::ByCurrent } else { Replace::Keep };
        let request = Request {
            speed: request.speed,
            key_frame: source.is_none(),
            updates: Updates { golden, ..Updates::default() },
            ..Request::default()
        };
        let state = source.map_or_else(vp8::State::new, to_vp8);
        let workspace = &mut self.workspace;
        let encoded = encode_candidates_in(&state, picture, &request, qualities, workspace, parallel)?;
        let told = |encoded: vp8::Encoded| Encoded {
            bytes: encoded.bytes,
            state: of_vp8(encoded.state, picture.size()),
            quantizer: encoded.stats.quantizer,
            picture: Some(encoded.picture),
        };
        Ok(encoded.into_iter().map(told).collect())
    }

    fn has(&self, state: &State) -> bool {
        matches!(state.kind, Kind::Vp8(_))
    }

    fn resampled(&mut self, state: &State, size: Size) -> Option<State> {
        if state.size == size {
            return Some(state.clone());
        }
        Some(of_vp8(to_vp8(state).resampled(size, &mut self.frames), size))
    }

    fn has_cheap_candidates(&self) -> bool {
        true
    }

    fn nearest(&self, index: u8) -> u8 {
        index
    }

    fn slope(&self) -> f64 {
        15.0
    }
}
