//! Which streams of a program become which renditions.

use super::{AUDIO_MAX, Announced, LeftOut, RenditionName};
use glassline_media::Codec;
use glassline_media::bitstream::aac_config::HeAac;
use glassline_media::container::cmaf;
use glassline_media::container::ts::{DataKind, followed_data};
use std::borrow::Cow;

/// A stream that becomes a rendition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) pid: u16,
    pub(super) codec: Codec,
    pub(super) name: RenditionName,
    /// ISO 639-2 code, lower case.
    pub(super) language: Option<[u8; 3]>,
}

/// What is made of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Video first, then sound in the order of the program.
    pub(super) taken: Vec<Taken>,
    pub(super) left_out: Vec<LeftOut>,
    /// Streams of data, which become events beside what is taken.
    pub(super) data: Vec<(u16, DataKind)>,
    /// Pictures that no rendition is made of: the sound is cut at their key frames. None where other pictures are taken.
    cue_pid: Option<u16>,
    /// The streams that are said to be HE-AAC. Where that changes, units on the way tell it, as they do with channels.
    he_aac: Vec<(u16, HeAac)>,
}

impl Choice {
    /// The first stream of H.264, H.265 or AV1, and those of sound that MP4 takes, up to [`AUDIO_MAX`].
    pub(super) fn of(streams: &[Announced]) -> Choice {
        let he_aac = streams.iter().filter_map(|stream| Some((stream.pid, stream.he_aac?))).collect();
        let mut choice = Choice { he_aac, ..Choice::default() };
        let followed = followed_data(streams.iter().filter_map(|stream| Some((stream.pid, stream.data?))));
        for stream in streams {
            if let Some(kind) = stream.data {
                if followed.contains(&(stream.pid, kind)) {
                    choice.data.push((stream.pid, kind));
                } else {
                    let why = "more streams of data than are taken".into();
                    choice.left_out.push(LeftOut { pid: stream.pid, codec: stream.format.clone(), why });
                }
                continue;
            }
            match choice.name_for(stream) {
                Ok((codec, name)) => {
                    let language =
                        stream.language.map(|letters| letters.map(|byte| byte.to_ascii_lowercase()));
                    let language = language.filter(|letters| letters.iter().all(u8::is_ascii_lowercase));
                    choice.taken.push(Taken { pid: stream.pid, codec, name, language });
                }
                Err(why) => {
                    choice.left_out.push(LeftOut { pid: stream.pid, codec: stream.format.clone(), why });
                }
            }
        }
        let mut pictures = streams.iter().filter(|stream| stream.codec == Some(Codec::Mpeg2Video));
        choice.cue_pid = pictures.next().map(|stream| stream.pid).filter(|_| !choice.has_video());
        choice.taken.sort_by_key(|taken| taken.name);
        choice
    }

    fn name_for(&self, stream: &Announced) -> Result<(Codec, RenditionName), Cow<'static, str>> {
        if let Some(why) = stream.why {
            return Err(why.into());
        }
        let sounds = self.taken.iter().filter(|taken| !taken.name.is_video()).count();
        match stream.codec {
            Some(Codec::H264 | Codec::H265 | Codec::Av1) if self.has_video() => {
                Err("one video stream is taken, the first".into())
            }
            Some(codec @ (Codec::H264 | Codec::H265 | Codec::Av1)) => Ok((codec, RenditionName::Video)),
            Some(codec @ (Codec::Aac | Codec::Opus | Codec::MpegAudio | Codec::Ac3 | Codec::EAc3)) => {
                if sounds >= usize::from(AUDIO_MAX) {
                    return Err("more streams of sound than are taken".into());
                }
                Ok((codec, RenditionName::Audio(sounds as u8 + 1)))
            }
            _ => Err(format!("its codec is not written to MP4; {} are", cmaf::WRITTEN).into()),
        }
    }

    /// The streams on `pids`, as far as they are of MPEG audio, turned out to be ones that no rendition is made of.
    pub(super) fn refuse(&mut self, pids: &[u16]) {
        let is_refused = |taken: &Taken| taken.codec == Codec::MpegAudio && pids.contains(&taken.pid);
        for taken in self.taken.extract_if(.., |taken| is_refused(taken)) {
            let why = "MPEG audio of layers I and II is not written to MP4; layer III (MP3) is";
            self.left_out.push(LeftOut { pid: taken.pid, codec: taken.codec.name().into(), why: why.into() });
        }
    }

    /// Whether pictures are expected.
    pub(super) fn has_video(&self) -> bool {
        self.taken.iter().any(|taken| taken.name.is_video())
    }

    /// The stream of pictures that no rendition is made of: the sound is cut at its key frames.
    pub(super) fn cue_pid(&self) -> Option<u16> {
        self.cue_pid
    }

    /// That the stream on `pid` is HE-AAC, where that is said.
    pub(super) fn he_aac(&self, pid: u16) -> Option<HeAac> {
        self.he_aac.iter().find(|(of, _)| *of == pid).map(|(_, he_aac)| *he_aac)
    }

    pub(super) fn by_pid(&self, pid: u16) -> Option<&Taken> {
        self.taken.iter().find(|taken| taken.pid == pid)
    }

    pub(super) fn by_name(&self, name: RenditionName) -> Option<&Taken> {
        self.taken.iter().find(|taken| taken.name == name)
    }
}
