//! Text as Hive's LazySimpleSerDe writes it, `STORED AS TEXTFILE`: `\x01` between cells, `\x02` between the elements of a
//! collection, `\x03` between a key and its value, deeper levels after these, `\N` for null.
//!
//! | declared | read as | cells |
//! |---|---|---|
//! | `BOOLEAN` | boolean | `true`, `false` |
//! | `TINYINT` to `BIGINT` | int8 to int64 | digits; what stands behind a point is cut |
//! | `FLOAT`, `DOUBLE` | float32, float64 | as Java reads them |
//! | `DECIMAL(p,s)` | decimal128 | rounded to the scale |
//! | `STRING`, `VARCHAR(n)`, `CHAR(n)` | utf8 | cut to n characters; a CHAR without the spaces at its end |
//! | `BINARY` | binary | base64 where all of the cell could be that, else the bytes themselves |
//! | `DATE` | date32 | `YYYY-MM-DD`; a time behind it is cut |
//! | `TIMESTAMP`, `TIMESTAMP(9)` | microseconds, nanoseconds, no zone | `YYYY-MM-DD[ hh:mm:ss[.f]]`, also with `T` |
//! | `ARRAY<t>`, `MAP<k,v>`, `STRUCT<n:t>` | list, map, struct | an empty cell is an empty list or map |
//! | `UNIONTYPE<t,u>` | struct of `tag`, `field0`, `field1` | the number of the type, then the value |
//!
//! Cells are read as Hive reads them, and what Hive does in silence is told: a cell that is no value of its type is
//! null, what a type does not hold is cut, the second of two equal keys is passed over, as are cells beyond the columns;
//! missing cells are null. One warning for each sort and file says how many there are and where the first is, and the
//! scan's metric `odd_cells` counts them; `on_error=error` makes the first one an error. An empty cell of any type but
//! text, bytes and collections is null, and nothing is told of it.
//!
//! Lines end with LF, CR or CR LF, as Hadoop has it, escaped or not. A file is read in parts unless it is compressed
//! or has lines at its start or end that are no rows.

mod column;
mod format;
mod options;
mod rows;
mod tally;
mod types;
mod value;

use std::sync::Arc;

use datafusion_datasource::file_format::FileFormat;
use tfr_files::FileNames;

use crate::text::rows::LineFiles;
use tfr_files::scan::ReaderFormat;

pub use options::{HiveTextOptions, OnError};
pub use types::HiveColumns;

/// The format, for files that are named in messages as `names` says.
pub(crate) fn format(options: HiveTextOptions, names: FileNames) -> Arc<dyn FileFormat> {
    Arc::new(ReaderFormat::new(LineFiles::new(format::HiveText::new(options), names)))
}
