//! Hints for reading a table of a table format by other means than its bare files.

use tfr_files::{Owner, TableFormat};

/// Python code that writes the record batches of the reader `r` to standard output, for the query on the same line.
const PIPE: &str = "w = pa.ipc.new_stream(sys.stdout.buffer, r.schema); [w.write_batch(b) for b in r]; w.close()\" \
                    | tfr-sql \"SELECT * FROM '-'\"";

/// Returns a hint for a table of a table format: how to read its rows, or how to read its files nevertheless.
pub(super) fn way_out(owner: &Owner) -> String {
    let rows = match owner.format {
        TableFormat::Iceberg if owner.marker.ends_with(".metadata.json") && !is_versioned(owner) => format!(
            "name the metadata file that the catalog of the table names, such as FROM '{}'; the newest one may be of a \
             commit that failed",
            literal(&format!("{}/{}", owner.directory, owner.marker))
        ),
        format => rows(format, &literal(&owner.directory)),
    };
    format!(
        "{rows}; or name one file in full, or read all files as they are, deleted rows too, with \
         --table 't=PATH,bare_files=true' or OPTIONS ('bare_files' 'true')"
    )
}

/// Returns a hint for a table format that was named without its directory.
pub fn way_out_of(format: TableFormat) -> String {
    rows(format, "DIRECTORY")
}

/// Returns how to read the rows of a table in `directory`.
fn rows(format: TableFormat, directory: &str) -> String {
    match format {
        TableFormat::Delta => format!("name the directory of the table, whose log has its rows: FROM '{directory}/'"),
        TableFormat::Iceberg => {
            format!("name the directory of the table, whose metadata has its rows: FROM '{directory}/'")
        }
        TableFormat::Hudi => {
            let location = match directory.contains("://") {
                true => format!("'{directory}'"),
                false => format!("os.path.abspath('{directory}')"),
            };
            format!(
                "pipe the rows of the table from its own library: python -c \"import sys, os, pyarrow as pa, hudi; \
                 r = pa.Table.from_batches(hudi.HudiTableBuilder.from_base_uri({location}).build().read()).to_reader(); \
                 {PIPE}"
            )
        }
        TableFormat::Paimon => format!(
            "pipe the rows of the table from its own library: python -c \"import sys, pyarrow as pa; \
             from pypaimon.table.file_store_table import FileStoreTable; \
             b = FileStoreTable.from_path('{directory}').new_read_builder(); \
             r = b.new_read().to_arrow_batch_reader(b.new_scan().plan().splits()); {PIPE}"
        ),
        TableFormat::HiveAcid => format!(
            "its files do not record which transactions were committed: name it by its metastore, \
             --hive-metastore thrift://host:9083 and FROM hive.db.table, or give its committed write ids: \
             --table 't={directory}/,write_ids=db.table:HIGHEST:LOWEST-OPEN:OPEN:ABORTED'"
        ),
        TableFormat::SparkStreaming => format!(
            "have Spark write the rows as Parquet, and read that: \
             spark.read.parquet('{directory}').write.parquet('copy')"
        ),
        TableFormat::Lance => format!(
            "pipe the rows of the table from its own library: python -c \"import sys, pyarrow as pa, lance; \
             r = lance.dataset('{directory}').scanner().to_reader(); {PIPE}"
        ),
        TableFormat::DuckLake => {
            "have DuckDB write the rows of the table as Parquet, and read that: COPY the_table TO 'copy.parquet'"
                .to_owned()
        }
        _ => "have the engine that wrote the table write its rows as Parquet, and read that".to_owned(),
    }
}

/// Returns a directory as a literal between single quotes on a shell line, or a placeholder where that is not safe.
fn literal(directory: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-=:@+,% ".contains(c);
    match directory {
        "" => "/".to_owned(),
        _ if directory.chars().all(is_plain) => directory.to_owned(),
        _ => "DIRECTORY".to_owned(),
    }
}

/// Whether the newest metadata file of an Iceberg table is a version of a table that needs no catalog.
fn is_versioned(owner: &Owner) -> bool {
    owner.marker.starts_with("metadata/v")
}
