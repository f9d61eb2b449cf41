//! The short help (`-h`) of commands with many options shows on one screen what a beginner needs. `--help` shows
//! everything.

use clap::Arg;

/// An argument that `-h` shows: the name of its field, and its short help.
pub(crate) type Brief = (&'static str, &'static str);

/// Prepares an argument for both kinds of help: `-h` shows only the arguments in `kept`.
pub(crate) fn brief(arg: Arg, kept: &[Brief]) -> Arg {
    let Some((_, words)) = kept.iter().find(|(id, _)| arg.get_id() == id) else {
        return arg.hide_short_help(true);
    };
    let long = arg.get_long_help().or(arg.get_help()).cloned();
    let arg = arg.help(*words);
    match long {
        Some(long) => arg.long_help(long),
        None => arg,
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_short_help_of_large_commands_fits_a_screen_and_the_long_one_has_all() {
        for name in ["encode", "send", "receive"] {
            let mut cli = Cli::command();
            cli.build();
            let command = cli.find_subcommand_mut(name).unwrap().clone();
            let (short, long) =
                (command.clone().render_help().to_string(), command.clone().render_long_help().to_string());
            assert!(short.lines().count() <= 45, "{name}: {} lines\n{short}", short.lines().count());
            assert!(short.contains("--help") && short.contains("Examples:"), "{short}");
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let Some(option) = arg.get_long() else { continue };
                assert!(long.contains(&format!("--{option}")), "{name}: --{option} is not in the long help");
            }
        }
    }
}
