//! `--allow`: the files and URLs that a run may open.

use clap::Args;

/// What the command may open.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
pub struct AllowArgs {
    /// Open only this path or URL, and what is below it; repeatable
    ///
    /// Inputs, outputs, --temp-dir and all other files are then within these, whatever the SQL names: links and '..' are
    /// resolved first, and redirects of web servers are checked. A path must exist; - is standard input, /dev/fd/5 a
    /// pipe. Of settings, only harmless ones can be SET. The variable TFR_SQL_ALLOW has a list with commas; with both,
    /// a name must be in both. Plans keep the list for their tasks. Where Linux has Landlock, it enforces the paths,
    /// too: -v tells. docs/security.md has what is not covered. Default: everything.
    #[arg(
        long = "allow",
        global = true,
        value_name = "PATH_OR_URL",
        help_heading = "Resources",
        hide_short_help = true
    )]
    pub entries: Vec<String>,
}
