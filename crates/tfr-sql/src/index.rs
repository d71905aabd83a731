//! `index`: writes the offset of each record to a file next to the records.

use tfrecord_shards::{Indexing, index};

use crate::cli::IndexArgs;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::inputs;
use crate::printer::counted;
use crate::tool::Work;

/// Writes an index for each file, and reports its name.
pub fn run(args: &IndexArgs, mut work: Work<'_>) -> Result<ExitStatus> {
    let paths = inputs::expand(&args.paths, &work.door)?;
    let name = args.name();
    let written = work.with_progress(args.threads, move |progress, _| index(&paths, name, progress))?;
    let Indexing { indexes: written, findings, .. } = match written {
        Ok(written) => written,
        Err(status) => {
            work.printer.note("stopped");
            return Ok(status);
        }
    };
    findings.iter().for_each(|finding| work.printer.warning(finding));
    let names: String = written.iter().map(|index| format!("{}\n", index.path.display())).collect();
    work.printer.data(names.as_bytes()).map_err(Error::Stdout)?;
    let records = written.iter().map(|index| index.records).sum();
    let (records, files) = (counted(records, "record"), counted(written.len() as u64, "file"));
    work.printer.note(format!("{records} in {files}, {:.1} s", work.started.elapsed().as_secs_f64()));
    Ok(ExitStatus::Done)
}
