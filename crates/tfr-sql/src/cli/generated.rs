//! [`Generated`]: completions for shells and the manual page, made from the declared options.

use std::ffi::OsString;
use std::io;

use clap::builder::EnumValueParser;
use clap::{Arg, Command, ValueEnum};
use clap_complete::Shell;

/// What `--generate` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Generated {
    /// Completions for bash.
    Bash,
    /// Completions for zsh.
    Zsh,
    /// Completions for fish.
    Fish,
    /// The manual page, in roff.
    Man,
}

impl Generated {
    /// Returns the option, for the help and for errors. It excludes all others, and the query.
    pub(super) fn option() -> Arg {
        Arg::new("generate")
            .long("generate")
            .value_name("WHAT")
            .value_parser(EnumValueParser::<Self>::new())
            .exclusive(true)
            .hide_possible_values(true)
            .hide_short_help(true)
            .help("Print completions for a shell (bash, zsh or fish), or the manual page (man)")
    }

    /// Returns what the arguments ask for, if they are this option alone. A query is required beside all others.
    pub fn of_arguments(arguments: &[OsString]) -> Option<Self> {
        let what = match arguments {
            [_, option, what] if option == "--generate" => what.to_str()?,
            [_, option] => option.to_str()?.strip_prefix("--generate=")?,
            _ => return None,
        };
        Self::from_str(what, false).ok()
    }

    /// Returns the script or the page for `command`.
    ///
    /// # Errors
    /// The page cannot be written to memory, which does not happen.
    pub(super) fn text(self, mut command: Command) -> io::Result<Vec<u8>> {
        let name = command.get_name().to_owned();
        let mut text = Vec::new();
        let shell = match self {
            Self::Bash => Shell::Bash,
            Self::Zsh => Shell::Zsh,
            Self::Fish => Shell::Fish,
            Self::Man => {
                clap_mangen::Man::new(command).render(&mut text)?;
                return Ok(as_printed(&String::from_utf8_lossy(&text)).into_bytes());
            }
        };
        clap_complete::generate(shell, &mut command, name, &mut text);
        if shell == Shell::Bash {
            // The library writes the name with its dash in two ways, and the script then finds none of its subcommands.
            let script = String::from_utf8_lossy(&text).replace("tfr__subcmd__sql", "tfr__sql");
            text = script.into_bytes();
        }
        Ok(text)
    }
}

/// Keeps the lines of the examples, which a page fills otherwise.
fn as_printed(page: &str) -> String {
    const EXAMPLES: &str = ".SH EXTRA\n";
    let Some((before, after)) = page.split_once(EXAMPLES) else { return page.to_owned() };
    let end = after.find("\n.SH ").map_or(after.len(), |end| end + 1);
    let (examples, rest) = after.split_at(end);
    format!("{before}{EXAMPLES}.nf\n{examples}\n.fi\n{rest}")
}
