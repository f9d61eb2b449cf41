//! Where players ask for the time: the manifest says it, and a reference time repeats it.

use super::Options;
use super::xml::Xml;

/// Fills in an element that says where the time is.
pub(super) fn write_utc_timing(xml: &mut Xml, options: &Options) {
    xml.attribute("schemeIdUri", "urn:mpeg:dash:utc:http-iso:2014")
        .attribute("value", &options.utc_timing)
        .close();
}
