//! The program `glassline`. What it does stands in the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(not(panic = "unwind"))]
compile_error!(
    "a panic has to unwind: it ends one connection, and must not end the program for all (io::containment)"
);

fn main() -> ExitCode {
    glassline::main()
}
