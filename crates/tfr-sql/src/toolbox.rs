//! Dispatches to the tools.

use tfr_stores::Door;

use crate::cli::Tool;
use crate::error::Result;
use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;
use crate::printer::Printer;
use crate::tool::Work;
use crate::{describe, doctor, index, rebuild, records, reshard, salvage, schema, stats, tasks, verify};

/// Runs a tool.
pub fn run(
    tool: Tool,
    door: Door,
    printer: &Printer,
    interrupt: impl FnOnce() -> Result<Interrupt>,
) -> Result<ExitStatus> {
    let work = Work::new(printer, door, interrupt()?);
    match tool {
        Tool::Head(args) => records::print(args.source, &args.stores, Some(args.limit), work),
        Tool::Cat(args) => records::print(args.source, &args.stores, args.limit, work),
        Tool::Schema(args) => schema::print(&args, work),
        Tool::Verify(args) => verify::run(&args, work),
        Tool::Salvage(args) => salvage::run(&args, work),
        Tool::Reshard(args) => reshard::run(&args, work),
        Tool::Index(args) => index::run(&args, work),
        Tool::Describe(args) => describe::run(&args, work),
        Tool::Stats(args) => stats::run(&args, work),
        Tool::Task(args) => tasks::run(&args, work),
        Tool::Cut(args) => tasks::cut(&args, work),
        Tool::Finish(args) => tasks::finish(&args, work),
        Tool::Abandon(args) => tasks::abandon(&args, work),
        Tool::Rebuild(args) => rebuild::run(*args, work),
        Tool::Doctor => doctor::print(&work),
    }
}
