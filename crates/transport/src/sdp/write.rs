//! Descriptions to text.

use super::{Description, Flow, Media, Path};
use sdp_types::{AddrType, Attribute, Connection, Origin, Session, Time};
use std::fmt;

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        session(self).write(&mut text).map_err(|_| fmt::Error)?;
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

fn session(description: &Description) -> Session {
    let origin = Origin::with_ip_addr(description.session_id, description.version, description.origin);
    let name = if description.name.is_empty() { "-" } else { &description.name };
    let mut session = Session::new(origin, name);
    session.times.push(Time::new(0, 0));
    for (number, flow) in description.flows.iter().enumerate() {
        let mids = mids(number.saturating_add(1), flow.paths.len());
        if flow.paths.len() > 1 {
            session.attributes.push(Attribute::with_value("group", format!("DUP {}", mids.join(" "))));
        }
        for (path, mid) in flow.paths.iter().zip(mids) {
            let mut media = media(flow, path);
            if flow.paths.len() > 1 {
                media.attributes.push(Attribute::with_value("mid", mid));
            }
            session.medias.push(media);
        }
    }
    session
}

/// Names of a flow's sections.
fn mids(flow: usize, paths: usize) -> Vec<String> {
    ('a'..='z').take(paths).map(|path| format!("{flow}{path}")).collect()
}

fn media(flow: &Flow, path: &Path) -> sdp_types::Media {
    let (medium, encoding, parameters) = match &flow.media {
        Media::Video(video) => ("video", "raw/90000".to_owned(), Some(video.parameters())),
        Media::Audio(audio) => ("audio", audio.encoding(), audio.parameters()),
        Media::Ancillary(ancillary) => ("video", "smpte291/90000".to_owned(), ancillary.parameters()),
    };
    let number = flow.payload_type;
    let mut attributes = Vec::new();
    attributes.extend(source_filter(path));
    attributes.push(Attribute::with_value("rtpmap", format!("{number} {encoding}")));
    attributes.extend(parameters.map(|text| Attribute::with_value("fmtp", format!("{number} {text}"))));
    match &flow.media {
        Media::Video(video) => {
            attributes.extend(video.framerate().map(|rate| Attribute::with_value("framerate", rate)));
        }
        Media::Audio(audio) => attributes.push(Attribute::with_value("ptime", audio.ptime())),
        Media::Ancillary(_) => {}
    }
    attributes.extend(flow.reference_clock.as_ref().map(|clock| Attribute::with_value("ts-refclk", clock)));
    attributes.extend(flow.media_clock.as_ref().map(|clock| Attribute::with_value("mediaclk", clock)));
    sdp_types::Media {
        media: medium.to_owned(),
        port: path.to.port(),
        num_ports: None,
        proto: "RTP/AVP".to_owned(),
        fmt: number.to_string(),
        media_title: None,
        connections: vec![Connection::from_ip_addr_ttl(path.to.ip(), path.ttl)],
        bandwidths: Vec::new(),
        key: None,
        attributes,
    }
}

fn source_filter(path: &Path) -> Option<Attribute> {
    let to = path.to.ip();
    let sources: Vec<String> = path.sources.iter().map(ToString::to_string).collect();
    let kind = AddrType::from(to);
    let value = || format!(" incl IN {} {to} {}", kind.as_str(), sources.join(" "));
    (!sources.is_empty()).then(|| Attribute::with_value("source-filter", value()))
}
