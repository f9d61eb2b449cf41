//! `glassline completions`: what a shell needs to complete the command line.

use crate::output;
use clap::Command;
use clap_complete::Shell;

/// Print a shell's completion script
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell that the script is for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  glassline completions bash > ~/.local/share/bash-completion/completions/glassline
  glassline completions zsh  > ~/.zfunc/_glassline        (with ~/.zfunc in $fpath)
  glassline completions fish > ~/.config/fish/completions/glassline.fish";

/// Prints the script for `program`, the whole command line, to standard output.
pub(crate) fn run(args: &Args, program: Command) -> anyhow::Result<()> {
    output::print(&script(args.shell, program))
}

/// The script for one shell. It is built in memory because clap's writer panics where its sink fails.
fn script(shell: Shell, mut program: Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "glassline", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_shell_gets_a_script_that_knows_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell, crate::cli::Cli::command());
            assert!(script.contains("completions"), "{shell}");
            assert!(script.contains("log-format"), "{shell}");
        }
    }
}
