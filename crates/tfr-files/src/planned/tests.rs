use std::time::{Duration, UNIX_EPOCH};

use arrow_schema::{DataType, Field, SchemaRef};
use async_trait::async_trait;
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, ScalarValue, not_impl_err};
use datafusion_datasource::file_format::FileFormat;
use datafusion_datasource::file_stream::FileOpener;
use datafusion_datasource::{FileExtensions, TableSchema};
use datafusion_execution::object_store::ObjectStoreUrl;
use datafusion_session::Session;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::*;
use crate::listing::partition::over_path_columns;
use crate::scan::{FileReader, ReaderFormat, Scan};

fn table() -> TableSchema {
    let columns = Schema::new(vec![Field::new("x", DataType::Int64, true)]);
    let path = vec![Arc::new(Field::new("day", DataType::Date32, true))];
    TableSchema::builder(Arc::new(columns)).with_table_partition_cols(path).build()
}

fn file(number: u32, day: Option<i32>) -> PartitionedFile {
    let last_modified = (UNIX_EPOCH + Duration::new(1_700_000_000, number)).into();
    let (e_tag, version) = ((number.is_multiple_of(2)).then(|| "\"tag\"".to_owned()), None);
    let location = Path::from(format!("t/day=é/{number} %.parquet"));
    let mut file = PartitionedFile::new_from_meta(ObjectMeta { location, last_modified, size: 9, e_tag, version });
    file.partition_values = vec![ScalarValue::Date32(day)];
    let statistics = Statistics {
        num_rows: Precision::Exact(number as usize),
        total_byte_size: Precision::Inexact(100),
        column_statistics: vec![ColumnStatistics::new_unknown()],
    };
    file.statistics = Some(Arc::new(over_path_columns(statistics, &file.partition_values)));
    file
}

/// A format that attaches a text to files.
#[derive(Debug)]
struct Noted;

#[derive(Debug, PartialEq)]
struct Note(String);

#[async_trait]
impl FileReader for Noted {
    fn name(&self) -> &'static str {
        "noted"
    }

    fn can_split(&self) -> bool {
        false
    }

    fn known_text(&self, file: &PartitionedFile) -> Option<String> {
        file.extension::<Note>().map(|note| note.0.clone())
    }

    fn with_known(&self, groups: Vec<FileGroup>) -> Result<Vec<FileGroup>> {
        let read = |mut file: PartitionedFile| {
            let text = file.extension::<KnownText>().cloned();
            file.extensions = FileExtensions::new();
            text.into_iter().for_each(|KnownText(text)| drop(file.extensions.insert(Note(text))));
            file
        };
        Ok(groups.into_iter().map(|group| FileGroup::new(group.into_inner().into_iter().map(read).collect())).collect())
    }

    async fn schema(&self, _: &dyn Session, _: &Arc<dyn ObjectStore>, _: &[ObjectMeta]) -> Result<SchemaRef> {
        not_impl_err!("a schema")
    }

    fn opener(self: Arc<Self>, _: Arc<dyn ObjectStore>, _: &Scan<'_>) -> Result<Arc<dyn FileOpener>> {
        not_impl_err!("an opener")
    }
}

/// A format that attaches nothing.
#[derive(Debug)]
struct Plain;

#[async_trait]
impl FileReader for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn can_split(&self) -> bool {
        false
    }

    async fn schema(&self, _: &dyn Session, _: &Arc<dyn ObjectStore>, _: &[ObjectMeta]) -> Result<SchemaRef> {
        not_impl_err!("a schema")
    }

    fn opener(self: Arc<Self>, _: Arc<dyn ObjectStore>, _: &Scan<'_>) -> Result<Arc<dyn FileOpener>> {
        not_impl_err!("an opener")
    }
}

fn plain_source() -> Arc<dyn FileSource> {
    ReaderFormat::new(Plain).file_source(table())
}

fn source() -> Arc<dyn FileSource> {
    ReaderFormat::new(Noted).file_source(table())
}

#[test]
fn planned_groups_keep_what_a_table_has_attached() {
    let mut noted = file(7, Some(3));
    noted.extensions.insert(Note("a text".to_owned()));
    let plain = file(8, None);
    let groups = [FileGroup::new(vec![noted.clone(), plain])];
    let encoded = group::encode_group(&groups[0], &source()).unwrap().unwrap();
    let decoded = decode_group(&encoded, &table()).unwrap();
    let scan = |source| FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source).build();
    let read = with_files(&scan(source()), vec![decoded.clone()]).unwrap();
    let read = read.downcast_ref::<DataSourceExec>().unwrap().data_source().downcast_ref::<FileScanConfig>().unwrap();
    let notes = read.file_groups[0].iter().map(|file| file.extension::<Note>().map(|note| note.0.as_str()));
    assert_eq!(notes.collect::<Vec<_>>(), [Some("a text"), None]);
    // A format without such texts.
    assert_eq!(group::encode_group(&groups[0], &plain_source()).unwrap(), None);
    with_files(&scan(plain_source()), vec![decoded]).unwrap_err();
}

#[test]
fn planned_groups_keep_all_properties_of_files() {
    let mut files = vec![file(7, Some(3)), file(8, None), file(0, Some(-1)), file(3, Some(4))];
    files[1].range = Some(datafusion_datasource::FileRange { start: 4, end: 9 });
    files[2].statistics = None;
    // A text file: its rows are not counted.
    let unknown =
        Statistics { total_byte_size: Precision::Inexact(9), ..Statistics::new_unknown(table().file_schema()) };
    files[3].statistics = Some(Arc::new(over_path_columns(unknown, &files[3].partition_values)));
    // Its rows are counted when it is read.
    let mut estimated = file(5, Some(4));
    let statistics = Arc::make_mut(estimated.statistics.as_mut().unwrap());
    statistics.num_rows = statistics.num_rows.to_inexact();
    files.push(estimated);
    let encoded = group::encode_group(&FileGroup::new(files.clone()), &plain_source()).unwrap().unwrap();
    let decoded = decode_group(&encoded, &table()).unwrap();
    assert_eq!(format!("{:?}", decoded.files()), format!("{files:?}"));
    // A table with other columns in the path.
    let other = TableSchema::builder(Arc::clone(table().file_schema())).build();
    decode_group(&encoded, &other).unwrap_err();
    decode_group(&encoded[..encoded.len() / 2], &table()).unwrap_err();
}

#[test]
fn planned_groups_with_other_properties_are_not_kept() {
    let mut known_bounds = file(7, Some(3));
    let statistics = Arc::make_mut(known_bounds.statistics.as_mut().unwrap());
    statistics.column_statistics[0].min_value = Precision::Exact(ScalarValue::Int64(Some(1)));
    assert_eq!(group::encode_group(&FileGroup::new(vec![known_bounds]), &plain_source()).unwrap(), None);
}

#[test]
fn planned_scans_are_replayed_with_their_statistics() {
    let tables = PlannedTables::recording();
    let groups = [FileGroup::new(vec![file(7, Some(3)), file(5, Some(4))]), FileGroup::new(vec![file(2, None)])];
    let statistics = Statistics {
        num_rows: Precision::Exact(14),
        total_byte_size: Precision::Inexact(300),
        column_statistics: vec![
            ColumnStatistics::new_unknown(),
            ColumnStatistics {
                null_count: Precision::Exact(2),
                min_value: Precision::Exact(ScalarValue::Date32(Some(3))),
                max_value: Precision::Inexact(ScalarValue::Date32(Some(4))),
                ..ColumnStatistics::new_unknown()
            },
        ],
    };
    assert_eq!(tables.record_scan("scan".to_owned(), &source(), &groups, &statistics).unwrap(), Some(0));
    assert_eq!(tables.record_scan("scan".to_owned(), &source(), &groups, &statistics).unwrap(), Some(0));
    let recording = tables.recording_state().unwrap();
    assert!(!recording.is_incomplete && recording.groups.len() == 2);
    let json = serde_json::to_string(&recording.scans).unwrap();
    let replaying = PlannedTables::replaying(Arc::new(serde_json::from_str(&json).unwrap()));
    let (number, stand_ins, found) = replaying.replay("scan").unwrap();
    assert_eq!((number, &found), (0, &statistics));
    let sizes = stand_ins.iter().map(|group| group.iter().map(|file| file.object_meta.size).collect::<Vec<_>>());
    assert_eq!(sizes.collect::<Vec<_>>(), [[19], [10]]);
    replaying.replay("another").unwrap_err();
    drop(recording);
    // Another scan of the same key makes the recording useless.
    tables.record_scan("scan".to_owned(), &source(), &groups[..1], &statistics).unwrap();
    assert!(tables.recording_state().unwrap().is_incomplete);
}
