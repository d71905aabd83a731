//! Errors of damaged files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::AsArray as _;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tfrecord::{Error, ErrorKind, ReadOptions, read, reproducible};
use tempfile::tempdir;
use tfr_files::{Finding, Findings};
use tfr_stores::Location;
use tfrecord_framing::{Compression, CrcPolicy};

use super::support::{example, examples, external, floats, framed, query_rows, shown, shown_with};

#[tokio::test]
async fn every_kind_of_damage_is_located() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord");
    let sound = framed(&examples(0..3, |_| 2), Compression::None)?;
    let gzip = framed(&examples(0..3, |_| 2), Compression::Gzip)?;
    let declared = {
        use datafusion::arrow::datatypes::{DataType, Field, Schema};
        let schema = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
        ReadOptions { schema: Some(schema.into()), ..ReadOptions::default() }
    };
    let start = sound.len() / 3;
    let flipped = |at: usize| {
        let mut bytes = sound.clone();
        bytes[start + at] ^= 1;
        bytes
    };
    let second = sound.len() / 3 - 1;
    let mut said = String::new();
    for (name, bytes) in [
        ("trailing bytes", [sound.as_slice(), b"tail"].concat()),
        ("cut inside", sound[..sound.len() - 5].to_vec()),
        ("length", flipped(0)),
        ("length's checksum", flipped(8)),
        ("payload", flipped(20)),
        ("payload's checksum", flipped(second)),
        ("zero padding", [sound.as_slice(), &[0; 64]].concat()),
        ("gzip without trailer", gzip[..gzip.len() - 8].to_vec()),
        ("text", b"id,text\n1,a\n2,b\n".to_vec()),
    ] {
        fs::write(&file, bytes)?;
        // Whether columns are decoded or not.
        let counted = shown_with(dir.path(), &file, "SELECT count(*) FROM r", &declared).await;
        let summed = shown_with(dir.path(), &file, "SELECT sum(id) FROM r", &declared).await;
        assert_eq!(counted, summed, "{name}");
        said.push_str(&format!("{name}: {summed}\n\n"));
    }
    insta::assert_snapshot!(said, @r"
    trailing bytes: DIR/f.tfrecord: record 3 at byte 141: truncated, expected 12 bytes of a record header, found 4

    cut inside: DIR/f.tfrecord: record 2 at byte 94: truncated, expected 47 bytes of a framed record, found 42

    length: DIR/f.tfrecord: record 1 at byte 47: length 30 has the checksum 0x18444b51, expected 0x3212dcd9

    length's checksum: DIR/f.tfrecord: record 1 at byte 47: length 31 has the checksum 0x18444b50, expected 0x18444b51

    payload: DIR/f.tfrecord: record 1 at byte 47: payload of 31 bytes has the checksum 0x614e3675, expected 0x013e8b12

    payload's checksum: DIR/f.tfrecord: record 1 at byte 47: payload of 31 bytes has the checksum 0x604e3675, expected 0x614e3675

    zero padding: DIR/f.tfrecord: record 3 at byte 141: length 0 has the checksum 0x00000000, expected 0x07980329

    gzip without trailer: DIR/f.tfrecord: record 3 at byte 141: invalid gzip stream
    cause: the stream is truncated

    text: DIR/f.tfrecord: record 0 at byte 0: length 753359414813811817 has the checksum 0x0a612c31, expected 0x73697c52
    ");
    Ok(())
}

#[tokio::test]
async fn a_compression_that_is_named_is_expected() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord");
    let zlib = ReadOptions { container: Some(Compression::Zlib.into()), ..ReadOptions::default() };
    fs::write(&file, framed(&examples(0..3, |_| 2), Compression::Gzip)?)?;
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT sum(id) FROM r", &zlib).await, @r"
    DIR/f.tfrecord: record 0 at byte 0: expected compression zlib, found gzip
    ");
    fs::write(&file, framed(&examples(0..3, |_| 2), Compression::Zlib)?)?;
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT sum(id) FROM r", &zlib).await, @r"
    +-----------+
    | sum(r.id) |
    +-----------+
    | 3         |
    +-----------+
    ");
    Ok(())
}

#[tokio::test]
async fn crc_skip_reads_records_with_wrong_checksums() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord");
    let mut bytes = framed(&examples(0..3, |_| 2), Compression::None)?;
    let len = bytes.len() / 3;
    for record in 0..3 {
        bytes[record * len + 8..record * len + 12].fill(0);
        bytes[(record + 1) * len - 4..(record + 1) * len].fill(0);
    }
    fs::write(&file, bytes)?;
    let skip = ReadOptions { crc: CrcPolicy::Skip, ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT sum(id) FROM r", &skip).await, @r"
    +-----------+
    | sum(r.id) |
    +-----------+
    | 3         |
    +-----------+
    ");
    insta::assert_snapshot!(shown(dir.path(), &file, "SELECT sum(id) FROM r").await, @r"
    DIR/f.tfrecord: record 0 at byte 0: length 31 has the checksum 0x00000000, expected 0x18444b51
    ");
    Ok(())
}

#[tokio::test]
async fn read_rejects_records_that_are_not_examples() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord");
    let records = [example([("x", floats(&[1.5]))]), b"\xffno message".to_vec()];
    fs::write(&file, framed(&records, Compression::None)?)?;
    insta::assert_snapshot!(shown(dir.path(), &file, "SELECT * FROM r").await, @r"
    DIR/f.tfrecord: record 1 at byte 33: a wire type that protobuf does not have, at byte 0 of its payload
    ");
    Ok(())
}

/// A session that collects findings, with `file` as table `r` whose damage is skipped.
async fn skipping(file: &Path, is_strict: bool) -> Result<(SessionContext, Arc<Findings>)> {
    let findings = Arc::new(Findings::default());
    findings.set_strict(is_strict);
    let mut config = reproducible(SessionConfig::new().with_target_partitions(4)).with_extension(Arc::clone(&findings));
    config.options_mut().optimizer.repartition_file_min_size = 1;
    let context = SessionContext::new_with_config(config);
    let options = ReadOptions { skips_damaged: true, ..ReadOptions::default() };
    let location = Location::parse(&file.to_string_lossy()).map_err(external)?;
    context.register_table("r", read::open(&context.state(), &[location], &options).await?)?;
    Ok((context, findings))
}

#[tokio::test]
async fn damaged_skip_reads_the_records_around_damage_and_reports_it() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord");
    let sound = framed(&examples(0..9, |_| 2), Compression::None)?;
    let len = sound.len() / 9;
    let mut damaged = sound.clone();
    // Damage in the first records, from which the columns are inferred, and a cut inside the last one.
    damaged[len + 20] ^= 1;
    damaged[4 * len] ^= 1;
    damaged.truncate(sound.len() - 5);
    fs::write(&file, damaged)?;

    let (context, findings) = skipping(&file, false).await?;
    let ids = query_rows(&context, "SELECT id FROM r").await?;
    assert_eq!(ids.column(0).as_primitive::<Int64Type>().values(), &[0, 2, 3, 5, 6, 7]);
    let expected = |name: &Path| Finding {
        file: name.display().to_string(),
        column: None,
        what: "damaged records passed over".to_owned(),
        row: 1,
        value: format!("record 1 at byte {len}: payload does not match its checksum, {len} bytes lost"),
        count: 3,
    };
    assert_eq!(findings.unreported(), [expected(&file)]);
    // Neither more scans nor filters nor a count without columns change the numbers.
    let counts = "SELECT count(*), count(*) FILTER (WHERE id > 4), (SELECT count(id) FROM r) FROM r";
    let counts = query_rows(&context, counts).await?;
    let counts: Vec<_> = counts.columns().iter().map(|count| count.as_primitive::<Int64Type>().value(0)).collect();
    assert_eq!(counts, [6, 3, 6]);
    assert_eq!(findings.all(), [expected(&file)]);
    assert!(findings.unreported().is_empty());
    Ok(())
}

#[tokio::test]
async fn damaged_skip_ends_a_cut_gzip_file_at_the_cut() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord.gz");
    let sound = framed(&examples(0..3, |_| 2), Compression::Gzip)?;
    fs::write(&file, &sound[..sound.len() - 8])?;
    let (context, findings) = skipping(&file, false).await?;
    let ids = query_rows(&context, "SELECT id FROM r").await?;
    assert_eq!(ids.column(0).as_primitive::<Int64Type>().values(), &[0, 1, 2]);
    let all = findings.all();
    let [Finding { row, count, value, .. }] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((*row, *count), (3, 1));
    assert!(value.contains("invalid gzip stream"), "{value}");
    Ok(())
}

#[tokio::test]
async fn damaged_skip_is_refused_by_strict_sessions() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord");
    fs::write(&file, framed(&examples(0..3, |_| 2), Compression::None)?)?;
    let Err(DataFusionError::External(error)) = skipping(&file, true).await else { panic!("opened") };
    let kind = error.downcast_ref::<Error>().map(Error::kind);
    assert!(matches!(kind, Some(ErrorKind::SkipsDamagedStrictly)), "{error}");
    Ok(())
}
