//! The command line of `encode`, and which of its options were given: options of one codec are refused with the
//! other, and clap's values alone do not tell a default from a given value.

use super::Args;
use crate::failure;
use anyhow::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Error, FromArgMatches};
use std::collections::BTreeSet;

/// The arguments, and which of them were given.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(super) args: Args,
    /// The names that clap has for the given options.
    given: BTreeSet<String>,
}

impl Line {
    /// Refuses every given option that is not in `known`. `why` says to which codec such options belong.
    pub(super) fn refuse_but(&self, known: &[&str], why: &str) -> Result<()> {
        self.refuse(|name| !known.contains(&name), why)
    }

    /// Refuses the given options that are in `foreign`.
    pub(super) fn refuse_these(&self, foreign: &[&str], why: &str) -> Result<()> {
        self.refuse(|name| foreign.contains(&name), why)
    }

    fn refuse(&self, is_refused: impl Fn(&str) -> bool, why: &str) -> Result<()> {
        let command = <Args as clap::Args>::augment_args(Command::new("encode"));
        let refused = command.get_arguments().find(|argument| {
            let name = argument.get_id().as_str();
            self.given.contains(name) && is_refused(name)
        });
        match refused.map(|argument| argument.get_long().unwrap_or(argument.get_id().as_str())) {
            Some(option) => Err(failure::usage(format_args!("--{option} {why}"), "leave it out")),
            None => Ok(()),
        }
    }

    /// Whether the option `name` was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.given.contains(name)
    }
}

fn given(matches: &ArgMatches) -> BTreeSet<String> {
    let ids = matches.ids().filter(|id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine));
    ids.map(|id| id.as_str().to_owned()).collect()
}

impl FromArgMatches for Line {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Line, Error> {
        Ok(Line { args: Args::from_arg_matches(matches)?, given: given(matches) })
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Line, Error> {
        // Before the values are taken out, since clap then forgets where they came from.
        let given = given(matches);
        Ok(Line { args: Args::from_arg_matches_mut(matches)?, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.given.extend(given(matches));
        self.args.update_from_arg_matches(matches)
    }
}

impl clap::Args for Line {
    fn augment_args(command: Command) -> Command {
        <Args as clap::Args>::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        <Args as clap::Args>::augment_args_for_update(command)
    }
}
