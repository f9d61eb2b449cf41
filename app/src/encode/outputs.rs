//! The outputs of the command: which they are for each rendition, and that none destroys another.

use super::words;
use crate::failure;
use anyhow::Result;
use glassline_io::secret_file;
use glassline_io::small_file::Accept;
use glassline_studio::capture::Input;
use glassline_studio::encode::Encoding;
use glassline_studio::encode::sound::Audio;
use glassline_studio::output::Target;
use std::path::Path;
use zeroize::Zeroizing;

/// The outputs of each rendition.
pub(super) fn of_renditions(
    outputs: &[Target],
    input: &Input,
    encoding: &Encoding,
) -> Result<Vec<Vec<Target>>> {
    if encoding.audio() == Audio::S302m
        && let Some(output) = outputs.iter().find(|output| output.is_mp4())
    {
        let message = format_args!("{output}: MP4 files get no SMPTE 302M sound");
        return Err(failure::usage(message, "choose --audio opus, aac or none, or a .ts file"));
    }
    let mut all = Vec::new();
    for (index, (name, ..)) in encoding.renditions().enumerate() {
        let of_rendition = |output: &Target| match name {
            "" => Ok(output.clone()),
            name => output.of_rendition(name, index),
        };
        let targets: Result<Vec<_>, _> = outputs.iter().map(of_rendition).collect();
        all.push(targets.map_err(words::target)?);
    }
    check(input, &all.concat())?;
    Ok(all)
}

/// Refuses outputs that would destroy the input or each other. Files are overwritten otherwise, as the shell's `>`
/// does.
pub(super) fn check(input: &Input, outputs: &[Target]) -> Result<()> {
    // A file that is not there yet has no canonical path, but its folder has.
    let real = |path: &Path| {
        path.canonicalize().ok().or_else(|| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
        })
    };
    let mut taken = Vec::new();
    if let Some(path) = input.path() {
        taken.extend(real(path));
    }
    for (index, output) in outputs.iter().enumerate() {
        if *output != Target::Null && outputs[..index].contains(output) {
            return Err(failure::usage(format_args!("{output} is named twice"), "name each output once"));
        }
        let Target::File(path) = output else { continue };
        let Some(path) = real(path) else { continue };
        if taken.contains(&path) {
            let message = format_args!("{output} is read or written already");
            return Err(failure::usage(message, "choose another name for it"));
        }
        taken.push(path);
    }
    Ok(())
}

/// Reads the key that publishers show: the file's first line.
pub(crate) fn read_key(path: &Path) -> Result<Zeroizing<String>> {
    let text = secret_file::read_text(path, Accept::AnyFile)
        .map_err(|error| failure::usage(format_args!("key file: {error}"), "check --publish-key-file"))?;
    let key = text.lines().next().unwrap_or("").trim();
    // What RFC 6750 §2.1 lets a bearer token be made of.
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format_args!("key file {}: its first line is no key", path.display());
        return Err(failure::usage(message, "put the key there, in printable ASCII without spaces"));
    }
    Ok(Zeroizing::new(key.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_destroys_something_is_refused() {
        let folder = std::env::temp_dir().join(format!("glassline-outputs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (film, link) = (folder.join("film.y4m"), folder.join("film.ts"));
        std::fs::write(&film, "").unwrap();
        std::os::unix::fs::symlink(&film, &link).unwrap();
        let input = Input::File(film);
        assert!(check(&input, &[Target::File(link.clone())]).is_err(), "a link to the input");
        assert!(check(&input, &[Target::File(folder.join("new.ts")), Target::Null, Target::Null]).is_ok());
        let twice = [folder.join("new.ts"), folder.join(".").join("new.ts")].map(Target::File);
        assert!(check(&input, &twice).is_err());
        assert!(check(&Input::Stdin, &[Target::Stdout, Target::Stdout]).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
