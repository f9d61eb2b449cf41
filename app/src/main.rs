//! The program `glassline`. What it does stands in the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    glassline::main()
}
