//! Text in the format of Hive's LazySimpleSerDe, `STORED AS TEXTFILE`: `\x01` between cells, `\x02` between the
//! elements of a collection, `\x03` between a key and its value, further bytes for deeper levels, and `\N` for null.
//!
//! | declared | read as | cells |
//! |---|---|---|
//! | `BOOLEAN` | boolean | `true`, `false` |
//! | `TINYINT` to `BIGINT` | int8 to int64 | digits; a fraction is cut off |
//! | `FLOAT`, `DOUBLE` | float32, float64 | parsed as in Java, but not in hexadecimal |
//! | `DECIMAL(p,s)` | decimal128 | rounded to the scale |
//! | `STRING`, `VARCHAR(n)`, `CHAR(n)` | utf8 | cut to n characters; a CHAR without trailing spaces |
//! | `BINARY` | binary | base64 if the cell is valid base64, otherwise the bytes themselves |
//! | `DATE` | date32 | `YYYY-MM-DD`; what follows is cut off |
//! | `TIMESTAMP`, `TIMESTAMP(9)` | microseconds, nanoseconds, no zone | `YYYY-MM-DD hh:mm:ss[.f]`, also with `T`; a date alone is null |
//! | `ARRAY<t>`, `MAP<k,v>`, `STRUCT<n:t>` | list, map, struct | an empty cell is an empty list or map |
//! | `UNIONTYPE<t,u>` | struct of `tag`, `field0`, `field1` | the index of the type, then the value |
//!
//! Cells are read as by Hive, and its silent conversions are reported. A cell that is not a valid value of its type is
//! null. Values too long or too precise for their type are cut. The second of two keys with equal values is ignored, as
//! are cells beyond the columns. Missing cells are null.
//!
//! One warning per kind and file reports the number of such cells and the position of the first. The scan's metric
//! `odd_cells` counts them. With `on_error=error` the first one is an error. An empty cell of any type but text, bytes
//! and collections is null without a report.
//!
//! The lines of two other SerDes are read too, by [`HiveSerde`]. OpenCSVSerde has texts only: an empty cell is an empty
//! text, cells may be in quotes, and no cell continues in the next line. JsonSerDe has an object a line, whose keys are
//! found without case, and converts values of other types as Jackson does. A line that Hive cannot read is an error.
//!
//! Lines end with LF, CR or CR LF, escaped or not, as in Hadoop. A file is read in parts unless it is compressed or has
//! header or footer lines.

mod column;
mod format;
mod json_rows;
mod json_values;
mod open_csv;
mod options;
mod rows;
mod serdes;
mod tally;
mod types;
mod value;

use std::sync::Arc;

use datafusion_datasource::file_format::FileFormat;
use tfr_stores::FileNames;

use crate::text::rows::LineFiles;
use tfr_files::scan::ReaderFormat;

pub use options::{HiveTextOptions, OnError};
pub use serdes::{HiveSerde, JsonBinary, OpenCsvOptions};
pub use types::HiveColumns;

/// Returns the format; `names` determines the files' names in messages.
pub(crate) fn format(options: HiveTextOptions, names: FileNames) -> Arc<dyn FileFormat> {
    Arc::new(ReaderFormat::new(LineFiles::new(format::HiveText::new(options), names)))
}
