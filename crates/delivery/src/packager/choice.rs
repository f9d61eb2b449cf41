//! Which streams of a program become which renditions.

use super::{AUDIO_MAX, LeftOut, RenditionName};
use glassline_media::Codec;
use glassline_media::container::ts::Program;
use glassline_media::container::ts::psi::ElementaryStream;

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
}

impl Choice {
    /// The first stream of H.264, and those of AAC and Opus, up to [`AUDIO_MAX`].
    pub(super) fn of(program: &Program) -> Choice {
        let mut choice = Choice::default();
        for stream in program.streams.iter().filter(|stream| stream.is_video() || stream.is_audio()) {
            match choice.name_for(stream) {
                Ok((codec, name)) => {
                    let language =
                        stream.language.map(|letters| letters.map(|byte| byte.to_ascii_lowercase()));
                    let language = language.filter(|letters| letters.iter().all(u8::is_ascii_lowercase));
                    choice.taken.push(Taken { pid: stream.pid, codec, name, language });
                }
                Err(why) => choice.left_out.push(LeftOut { pid: stream.pid, codec: stream.codec, why }),
            }
        }
        choice.taken.sort_by_key(|taken| taken.name);
        choice
    }

    fn name_for(&self, stream: &ElementaryStream) -> Result<(Codec, RenditionName), &'static str> {
        let sounds = self.taken.iter().filter(|taken| !taken.name.is_video()).count();
        match stream.codec {
            Some(Codec::H264) if self.has_video() => Err("one video stream is taken, the first"),
            Some(Codec::H264) => Ok((Codec::H264, RenditionName::Video)),
            Some(Codec::Opus) if stream.opus_channels.is_some_and(|channels| channels > 2) => {
                Err("Opus of more than two channels is not written to MP4")
            }
            Some(Codec::Aac | Codec::Opus) if sounds >= usize::from(AUDIO_MAX) => {
                Err("more streams of sound than are taken")
            }
            Some(codec @ (Codec::Aac | Codec::Opus)) => Ok((codec, RenditionName::Audio(sounds as u8 + 1))),
            _ => Err("its codec is not written to MP4; H.264, AAC and Opus are"),
        }
    }

    /// Whether pictures are expected.
    pub(super) fn has_video(&self) -> bool {
        self.taken.iter().any(|taken| taken.name.is_video())
    }

    pub(super) fn by_pid(&self, pid: u16) -> Option<&Taken> {
        self.taken.iter().find(|taken| taken.pid == pid)
    }

    pub(super) fn by_name(&self, name: RenditionName) -> Option<&Taken> {
        self.taken.iter().find(|taken| taken.name == name)
    }
}
