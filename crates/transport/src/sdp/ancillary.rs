//! The parameters of ancillary data (RFC 8331 §4, ST 2110-40).

use super::error::SectionError;
use super::parameters::{Parameters, exact_rate, frame_rate, or_ignored};
use glassline_media::FrameRate;

/// Ancillary data: captions, time code, and what else stood beside the picture in SDI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ancillary {
    /// Which kinds there are, as DID and SDID (`DID_SDID`); where nothing is said there may be any.
    pub data_ids: Vec<(u8, u8)>,
    /// The format of the interface that they were taken from (`VPID_Code`, ST 352).
    pub vpid_code: Option<u8>,
    /// Frames a second of the video that it belongs to (`exactframerate`), where it is said.
    pub rate: Option<FrameRate>,
}

impl Ancillary {
    pub(super) fn parse(parameters: &Parameters, notices: &mut Vec<String>) -> Ancillary {
        let ids = parameters.iter().filter(|(name, _)| name.eq_ignore_ascii_case("DID_SDID"));
        let wanted = "it is DID and SDID, as {0x61,0x02}";
        let parse =
            |value| data_id(value).map(Some).ok_or_else(|| SectionError::value("DID_SDID", value, wanted));
        let data_ids = ids.filter_map(|(_, value)| or_ignored(parse(value), notices)).collect();
        let rate = parameters.get("exactframerate").map(|rate| frame_rate("exactframerate", rate));
        Ancillary {
            data_ids,
            vpid_code: or_ignored(parameters.number("VPID_Code"), notices),
            rate: or_ignored(rate.transpose(), notices),
        }
    }

    /// The value of `a=fmtp`, if there is one.
    pub(super) fn parameters(&self) -> Option<String> {
        let ids = self.data_ids.iter().map(|(did, sdid)| format!("DID_SDID={{0x{did:02x},0x{sdid:02x}}}"));
        let code = self.vpid_code.map(|code| format!("VPID_Code={code}"));
        let rate = self.rate.map(|rate| format!("exactframerate={}", exact_rate(rate)));
        let all: Vec<_> = ids.chain(code).chain(rate).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

fn data_id(text: &str) -> Option<(u8, u8)> {
    let (did, sdid) = text.strip_prefix('{')?.strip_suffix('}')?.split_once(',')?;
    let byte = |text: &str| {
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"))?;
        let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_plain { u8::from_str_radix(digits, 16).ok() } else { None }
    };
    byte(did).zip(byte(sdid))
}
