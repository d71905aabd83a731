//! Hints for tables of TFRecord files, the shard sets that queries write, and the SQL functions for records.

use datafusion_tfrecord::{Error, ErrorKind, RowSplitsConflict, functions, similar};
use tfr_arrow::sql::sql_type;

use super::columns;

/// Returns a hint, if there is one.
pub fn hint(error: &Error) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownRowCount { .. } => Some(
            "give the number of rows ('tfrecord.expected_rows' in SQL), set a size or a number of rows for each \
             shard instead, or drop the ORDER BY"
                .to_owned(),
        ),
        ErrorKind::RowCount { .. } => Some("run it again when nothing writes to the input".to_owned()),
        ErrorKind::NotRebuilt { tool, .. } => Some(match tool.strip_prefix("tfr-sql ") == Some(crate::version::RELEASE) {
            true => "an input has changed since, or the query gives other rows each time: now(), random(), LIMIT without ORDER BY"
                .to_owned(),
            false => format!("an input has changed since, the query gives other rows each time, or {tool} wrote other bytes"),
        }),
        ErrorKind::RejectColumn { column } => Some(format!("give {column} another name with AS")),
        ErrorKind::NoUploads { .. } => Some(
            "write to S3, Google Cloud Storage, Azure, HDFS or a local directory, and copy the directory as a whole"
                .to_owned(),
        ),
        ErrorKind::NoColumn { column, known, .. } => similar(column, known.iter().map(String::as_str))
            .map(|similar| format!("did you mean {similar:?}? a name is matched as it is spelled")),
        ErrorKind::ColumnTwice { column, .. } => {
            Some(format!("name {column} once, and give others another name with AS"))
        }
        ErrorKind::PartitionType { column, .. } => {
            Some(format!("CAST {column} in the query to text, a number, a date or a timestamp"))
        }
        ErrorKind::SplitKeyType { column, .. } => {
            Some(format!("CAST {column} in the query, or split by other columns"))
        }
        ErrorKind::RowSplits { conflict, .. } => Some(match conflict {
            RowSplitsConflict::Unshuffled => {
                "add --shuffle; fractions, such as train=0.8,val=0.2, keep the order".to_owned()
            }
            RowSplitsConflict::Directories => {
                "leave out --partition-by, or use fractions: train=0.8,val=0.2".to_owned()
            }
            RowSplitsConflict::Append => "use fractions: train=0.8,val=0.2; or write the whole set again".to_owned(),
        }),
        ErrorKind::RowSplitSizes { .. } => {
            Some("change the numbers, or give one split all other rows: train=rest".to_owned())
        }
        ErrorKind::SplitColumnType { column, .. } => Some(format!("CAST {column} in the query to text")),
        ErrorKind::SplitValue { column, .. } => {
            Some(format!("give each row the name of a split, or filter it out: WHERE {column} IN ('train', 'val')"))
        }
        ErrorKind::SplitCase { .. } => Some("use lower() in the query".to_owned()),
        ErrorKind::NoColumnsLeft { .. } => {
            Some("select more columns, or keep the partition columns in the records, too".to_owned())
        }
        ErrorKind::DescribesAppended { emit, out, .. } => {
            Some(format!("append without it, and then describe the whole set: tfr-sql describe {out} --emit {emit}"))
        }
        ErrorKind::NoScratch => Some("give a directory that all machines see for these rows: --scratch DIR".to_owned()),
        ErrorKind::TfdsInDirectories => Some("leave out --partition-by, or --emit without tfds".to_owned()),
        ErrorKind::TfdsUnnumbered => Some("specify their number with --shards N".to_owned()),
        ErrorKind::Unsupported { instead, .. } => Some((*instead).to_owned()),
        ErrorKind::OtherRecordType { found, .. } => {
            Some(format!("leave out the option record_type, or set it to {found}"))
        }
        ErrorKind::UndeclaredRecordType { record_type, sequences } => Some(match sequences.as_slice() {
            [] => format!("OPTIONS ('tfrecord.record_type' '{record_type}')"),
            names => format!(
                "OPTIONS ('tfrecord.record_type' '{record_type}', 'tfrecord.sequence' '{}')",
                names.join(", ").replace('\'', "''")
            ),
        }),
        ErrorKind::Record { error, inferred, .. } => record_hint(error, *inferred),
        ErrorKind::UnknownFeature { .. } => {
            Some("inspect every record first: infer_records=all, infer_files=all; or declare the columns".to_owned())
        }
        ErrorKind::Inference { error, .. } => inference_hint(error),
        ErrorKind::Columns { error } => columns_hint(error),
        ErrorKind::StrayFile { file, .. } => {
            Some(format!("leave {file} out, or declare the columns to read it as the shards are"))
        }
        ErrorKind::DeclaredUnit { column, written, .. } => Some(match sql_type(written) {
            Some((sql, _)) => {
                format!("declare {column} as {sql}, or leave the columns undeclared; CAST it in the query")
            }
            None => format!("leave the columns undeclared, and CAST {column} in the query"),
        }),
        ErrorKind::UnknownColumn { column, known, .. } => {
            let around = column.rfind('.').map_or(0, |point| point + 1);
            let names = known.iter().map(|known| known.get(around..).unwrap_or(known));
            Some(match similar(&column[around..], names) {
                Some(similar) => format!("did you mean {similar:?}? a name is matched as it is spelled"),
                None => format!("leave {column} out, or leave the columns undeclared"),
            })
        }
        ErrorKind::ElsewhereInRecords { way_out, .. } => Some(way_out.clone()),
        ErrorKind::UnreadableManifest { .. } => Some(
            "put back a whole copy of it, or declare the columns; without it they are inferred from the records, in which \
             times and decimals are numbers"
                .to_owned(),
        ),
        ErrorKind::End { .. } => {
            Some("the file is not the one that was written: write it again, or verify the set".to_owned())
        }
        ErrorKind::IncompleteSet { directory, .. } => Some(format!(
            "write the set again; tfr-sql verify tells all that is wrong with it, and a pattern reads the files anyway: \
             '{directory}/*.tfrecord*'"
        )),
        ErrorKind::MissingParts { .. } => {
            Some("wait for the copy to end; or name the files by a pattern, which reads what is there".to_owned())
        }
        ErrorKind::SkipsDamagedStrictly => Some("leave out damaged=skip, or --strict".to_owned()),
        ErrorKind::EmptyCompressed { .. } => Some("copy or write it again".to_owned()),
        ErrorKind::FormConflict { .. } => Some("read the sets as two tables, and join them with UNION ALL".to_owned()),
        ErrorKind::Panic { .. } => Some("this is a bug, please report it; nothing was published".to_owned()),
        _ => None,
    }
}

/// Returns a hint for a record that cannot be read. If the schema was inferred, it may be wrong.
fn record_hint(error: &arrow_tfrecord::Error, inferred: bool) -> Option<String> {
    use arrow_tfrecord::ErrorKind::{InvalidValue, KindMismatch, ValueCount};
    let hint = columns::hint(error);
    if !inferred || !matches!(error.kind(), KindMismatch { .. } | ValueCount { .. } | InvalidValue { .. }) {
        return hint;
    }
    let more = "the columns are inferred from the first records of each file: infer_records=all inspects every record";
    Some(hint.map_or_else(|| more.to_owned(), |hint| format!("{hint}; {more}")))
}

/// Returns a hint for records whose columns cannot be inferred. No type holds two kinds, except for numbers, so
/// declaring one does not help.
fn inference_hint(error: &arrow_tfrecord::Error) -> Option<String> {
    match error.kind() {
        arrow_tfrecord::ErrorKind::KindMismatch { feature, expected: Some(expected), found, .. }
            if columns::are_numbers(*expected, *found) =>
        {
            Some(columns::both_numbers_hint(feature))
        }
        arrow_tfrecord::ErrorKind::KindMismatch { feature, expected: Some(expected), .. } => Some(format!(
            "records before it, of this file or of another, have {feature} as {expected}_list: read the files of each \
             kind as a table of their own, or declare the columns without {feature}"
        )),
        _ => columns::hint(error),
    }
}

/// Returns a hint about columns that a reader of the records can follow, as opposed to their writer.
fn columns_hint(error: &arrow_tfrecord::Error) -> Option<String> {
    use arrow_tfrecord::ErrorKind::{DuplicateFeature, EmptyFeatureName, InvalidChoice, NotItems, UnsupportedType};
    match error.kind() {
        UnsupportedType { column, .. } | InvalidChoice { column, .. } => {
            Some(format!("declare the columns without {column}, or with another type for it"))
        }
        DuplicateFeature { .. } | EmptyFeatureName { .. } => Some("declare the columns that are to be read".to_owned()),
        NotItems { found } if found.is_empty() => Some("declare the list of structs, too".to_owned()),
        _ => columns::hint(error),
    }
}

/// Returns a hint for a call of a SQL function.
pub fn function_hint(error: &functions::FunctionError) -> Option<String> {
    match error.kind() {
        functions::FunctionErrorKind::Argument { function: "tf_example" | "tf_sequence_example", number: 1, .. } => {
            Some("name the columns of the record: {label: label, 'image/width': width}".to_owned())
        }
        functions::FunctionErrorKind::Record { error, .. } | functions::FunctionErrorKind::Parse { error, .. } => columns::hint(error),
        functions::FunctionErrorKind::Elsewhere { .. } => Some(
            "declare the column as it was written: as a struct or a list of lists, or parse the records as \
             tf.train.SequenceExample with tf_parse_sequence_example"
                .to_owned(),
        ),
        functions::FunctionErrorKind::Image { .. } => Some(
            "try_image_info(...) is null for bytes that are not an image: WHERE try_image_info(content) IS NULL finds these"
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
