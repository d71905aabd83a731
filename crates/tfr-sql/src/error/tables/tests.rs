use super::*;

fn shown(kind: ErrorKind) -> String {
    let error = Error::from(kind);
    match hint(&error) {
        Some(hint) => format!("{error}\n\nhint: {hint}"),
        None => error.to_string(),
    }
}

#[test]
fn table_errors_have_hints() {
    insta::assert_snapshot!(shown(ErrorKind::UnknownRowCount { shards: 4 }), @r"
    an ordered query cannot be cut into 4 shards: the number of its rows is not known in advance

    hint: give the number of rows ('tfrecord.expected_rows' in SQL), set a size or a number of rows for each shard instead, or drop the ORDER BY
    ");
    insta::assert_snapshot!(shown(ErrorKind::RowCount { expected: 10, found: 9 }), @r"
    expected 10 rows, found 9: the input changed between counting and writing

    hint: run it again when nothing writes to the input
    ");
    insta::assert_snapshot!(shown(ErrorKind::NoUploads { url: "https://host/shards/".to_owned() }), @r"
    cannot write to https://host/shards/: readers would see shards before the set is complete

    hint: write to S3, Google Cloud Storage, Azure, HDFS or a local directory, and copy the directory as a whole
    ");
    let instead = "write a new set with COPY (query) TO 'directory' STORED AS TFRECORD";
    insta::assert_snapshot!(shown(ErrorKind::Unsupported { what: "INSERT INTO", instead }), @r"
    INSERT INTO is not supported for TFRECORD

    hint: write a new set with COPY (query) TO 'directory' STORED AS TFRECORD
    ");
    let message = "a task panicked: index out of bounds".to_owned();
    insta::assert_snapshot!(shown(ErrorKind::Panic { message }), @r"
    a task panicked: index out of bounds

    hint: this is a bug, please report it; nothing was published
    ");
}
