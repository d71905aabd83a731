//! [`Generated`]: completions for shells and the manual page, made from the declared options.

use std::io;

use clap::{Command, ValueEnum};
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
    /// Returns the script or the page for `command`.
    ///
    /// # Errors
    /// None that memory could give: the page is written to it.
    pub(super) fn text(self, mut command: Command) -> io::Result<Vec<u8>> {
        let name = command.get_name().to_owned();
        let mut text = Vec::new();
        let shell = match self {
            Self::Bash => Shell::Bash,
            Self::Zsh => Shell::Zsh,
            Self::Fish => Shell::Fish,
            Self::Man => {
                clap_mangen::Man::new(command).render(&mut text)?;
                return Ok(text);
            }
        };
        clap_complete::generate(shell, &mut command, name, &mut text);
        Ok(text)
    }
}
