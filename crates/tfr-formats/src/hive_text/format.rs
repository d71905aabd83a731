//! [`HiveText`]: Hive text as a [`LineFormat`].

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_datasource::TableSchema;
use datafusion_physical_plan::metrics::Count;

use super::column::Dialect;
use super::json_rows::JsonRows;
use super::open_csv::OpenCsvRows;
use super::options::HiveTextOptions;
use super::rows::HiveRows;
use super::serdes::{HiveSerde, OpenCsvOptions};
use super::tally::Tally;
use super::types::{HiveType, separators};
use crate::error::{Error, ErrorKind, FilePlace, Line};
use crate::input_format::InputFormat;
use crate::text::TextLayout;
use crate::text::rows::{Inference, LineFormat, Margins, Rows};

/// Number of lines of a file from which the number of columns is inferred.
const INFER_ROWS: usize = 1000;

/// Maximum number of columns.
const MAX_COLUMNS: usize = 1 << 16;

/// Hive text files in one dialect.
#[derive(Debug)]
pub(super) struct HiveText {
    options: HiveTextOptions,
    dialect: Arc<Dialect>,
    /// The number of warnings about cells that do not fit, over all files.
    warnings: Arc<AtomicUsize>,
}

impl HiveText {
    pub(super) fn new(options: HiveTextOptions) -> Self {
        let dialect = Dialect {
            cell_separator: options.delimiter.clone(),
            separators: separators([options.collection_delimiter, options.map_key_delimiter]),
            escape: options.escape,
            null: options.null.clone().into_bytes(),
        };
        Self { options, dialect: Arc::new(dialect), warnings: Arc::default() }
    }

    /// Returns how a column's cells are written: by its declaration, if there is one.
    fn hive_type(&self, file: &str, field: &Field) -> Result<HiveType, Error> {
        let declared = self.options.columns.as_ref().and_then(|columns| columns.get(field.name()));
        let declared = declared.filter(|declared| declared.data_type == *field.data_type()).cloned();
        let found = declared.or_else(|| HiveType::of(field.data_type()));
        let serde = self.options.serde;
        found.filter(|found| found.is_of(serde)).ok_or_else(|| {
            let (column, data_type, format) = (field.name(), field.data_type(), serde.name());
            let problem =
                format!("{file}: column \"{column}\" is declared as {data_type}, which {format} does not hold");
            ErrorKind::Refused { problem }.into()
        })
    }
}

impl LineFormat for HiveText {
    fn layout(&self) -> TextLayout {
        TextLayout {
            format: InputFormat::HiveText,
            compression: self.options.compression,
            encoding: self.options.encoding,
            terminator: b'\n',
        }
    }

    fn margins(&self) -> Margins {
        Margins { header: self.options.skip_header, footer: self.options.skip_footer }
    }

    fn inference(&self, file: Arc<str>) -> Box<dyn Inference> {
        let (serde, open_csv) = (self.options.serde, self.options.open_csv);
        Box::new(Width { file, serde, open_csv, dialect: Arc::clone(&self.dialect), lines: 0, cells: 0 })
    }

    fn rows(&self, file: Arc<str>, table: &TableSchema, wanted: &[usize], odd_cells: Count) -> Result<Box<dyn Rows>> {
        let in_file = table.file_schema();
        let schema = Arc::new(in_file.project(wanted)?);
        let columns = wanted.iter().zip(schema.fields());
        let columns = columns.map(|(cell, field)| Ok((*cell, self.hive_type(&file, field)?)));
        let columns = columns.collect::<Result<Vec<_>, Error>>()?;
        let tally = Tally::new(file, self.options.on_error, odd_cells, Arc::clone(&self.warnings));
        let width = in_file.fields().len();
        let dialect = Arc::clone(&self.dialect);
        Ok(match self.options.serde {
            HiveSerde::Lazy => Box::new(HiveRows::new(dialect, tally, schema, width, &columns)),
            HiveSerde::OpenCsv => Box::new(OpenCsvRows::new(self.options.open_csv, tally, schema, width, &columns)),
            HiveSerde::Json => {
                let names = in_file.fields().iter().map(|field| field.name().as_str());
                Box::new(JsonRows::new(self.options.json_binary, dialect, tally, schema, names, &columns))
            }
        })
    }
}

/// The number of cells in the lines of a file.
struct Width {
    file: Arc<str>,
    serde: HiveSerde,
    open_csv: OpenCsvOptions,
    dialect: Arc<Dialect>,
    lines: usize,
    cells: usize,
}

impl Inference for Width {
    fn observe(&mut self, line: &[u8], at: Line) -> Result<bool, Error> {
        let cells = match self.serde {
            HiveSerde::Lazy => self.dialect.split(line, 0).count(),
            HiveSerde::OpenCsv => self.open_csv.cells(line),
            // Its columns have names, which must be declared.
            HiveSerde::Json => 0,
        };
        if cells > MAX_COLUMNS {
            let problem = format!("the line has {cells} cells, and a table at most {MAX_COLUMNS} columns");
            return Err(Error::content(FilePlace::new(&self.file, at), problem));
        }
        self.cells = self.cells.max(cells);
        self.lines += 1;
        Ok(self.lines < INFER_ROWS)
    }

    fn schema(&self) -> Result<SchemaRef, Error> {
        let fields = (0..self.cells).map(|cell| Field::new(format!("_col{cell}"), DataType::Utf8, true));
        Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }
}
